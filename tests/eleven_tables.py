"""Eleven realistic tables drawn from known distributions."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from true_losses import Distribution, DrawnTable

# A third component serves the minority or, under PCA, the majority.
WIDE = [7.0, 7.0, 0.9, 0.3, 0.3, 0.2, 0.2, 0.2]
ASIDE = [1.0, 1.0, 0.1, 0.1, 2.4, 0.1, 0.1, 0.1]


def spread(deviations):
    """Distribution of independent features with these standard deviations."""
    return Distribution(np.diag(np.asarray(deviations, dtype=float)))


def benign(rng):
    distribution = spread(WIDE)
    return DrawnTable.draw(
        "benign", rng, {"a": 2_000, "b": 1_500}, {"a": distribution, "b": distribution}, 3
    )


def strong(rng):
    distributions = {"many": spread(WIDE), "few": spread(ASIDE)}
    return DrawnTable.draw("strong", rng, {"many": 5_000, "few": 400}, distributions, 3)


def units(rng):
    """One feature in grams, the others in kilograms."""
    scale = np.array([1.0, 1.0, 1_000.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    distributions = {"many": spread(WIDE * scale), "few": spread(ASIDE * scale)}
    return DrawnTable.draw("units", rng, {"many": 3_000, "few": 600}, distributions, 3)


def unbalanced_harmed(rng):
    distributions = {"many": spread(WIDE), "few": spread(ASIDE)}
    sizes = {"many": 20_000, "few": 200}
    return DrawnTable.draw("unbalanced, harmed", rng, sizes, distributions, 3)


def unbalanced_not_harmed(rng):
    distribution = spread(WIDE)
    sizes = {"many": 20_000, "few": 200}
    return DrawnTable.draw(
        "unbalanced, not harmed", rng, sizes, {"many": distribution, "few": distribution}, 3
    )


def loans(rng):
    """Three regions; the income of one row has a misplaced decimal point."""
    distribution = spread([3.0, 2.0, 2.0, 1.0, 0.5, 0.5])
    sizes = {"north": 2_000, "south": 900, "west": 300}
    table = DrawnTable.draw(
        "loans, one income of 1e9", rng, sizes, dict.fromkeys(sizes, distribution), 2
    )
    table.X[2_500, 0] = 1e9
    return table


def hospital(rng, name):
    """Forty patients in each of two wards, twenty visits each; patients have much in common."""
    distribution = spread([3.0, 2.0, 2.0, 1.0, 1.0, 0.5, 0.5, 0.5])
    sizes = {"ward 1": 800, "ward 2": 800}
    table = DrawnTable.draw(name, rng, sizes, dict.fromkeys(sizes, distribution), 2)
    patients = np.arange(1_600) // 20
    table.X = np.sqrt(0.3) * table.X + np.sqrt(0.7) * distribution.draw(rng, 80)[patients]
    return table, patients


def hospital_without_clusters(rng):
    return hospital(rng, "hospital, patients not named")[0]


def hospital_with_clusters(rng):
    table, patients = hospital(rng, "hospital, patients named")
    table.options["clusters"] = patients
    return table


def survey(rng):
    """Draw twelve regions, one of which differs."""
    sizes = {f"region {i}": 150 * i for i in range(2, 14)}
    distributions = {name: spread(WIDE) for name in sizes}
    distributions["region 4"] = spread(ASIDE)
    return DrawnTable.draw("survey of twelve regions", rng, sizes, distributions, 3)


def embeddings(rng, n=20_000, p=768):
    """Draw rows of thirty directions and noise; five directions are the minority's alone."""
    basis = np.linalg.qr(rng.normal(size=(p, 35)))[0]
    deviations = np.linspace(3, 1, 30)
    common = basis[:, :30] * deviations
    minority = np.column_stack([common[:, :15], basis[:, 30:] * 2.5])
    distributions = {"many": Distribution(common, 0.1), "few": Distribution(minority, 0.1)}
    sizes = {"many": n - n // 10, "few": n // 10}
    return DrawnTable.draw(f"embeddings, {n:,} x {p}", rng, sizes, distributions, 20)


def small_embeddings(rng):
    return embeddings(rng, n=6_000, p=60)


def genes(rng, p=5_000):
    """More features than rows; both groups have one distribution."""
    distribution = Distribution(rng.normal(size=(p, 5)) * [4.0, 3.0, 2.0, 1.0, 0.5], 1.0)
    sizes = {"treated": 120, "control": 80}
    return DrawnTable.draw(f"genes, 200 x {p:,}", rng, sizes, dict.fromkeys(sizes, distribution), 3)


def few_genes(rng):
    return genes(rng, p=600)


@dataclass(frozen=True)
class Expectation:
    """Verdicts, recommendations and findings that are right for a table.

    Attributes
    ----------
    make : callable
        Function of a generator that draws the table.
    kinds : tuple of str
        Verdicts that are true.
    recommended : tuple of str or None
        Models that may be recommended; None for none.
    findings : frozenset of str
        Codes of findings, one of which has to be there, if there are any.
    """

    make: Callable[[np.random.Generator], DrawnTable]
    kinds: tuple[str, ...]
    recommended: tuple[str | None, ...]
    findings: frozenset[str] = frozenset()


NO_HARM = ("no material harm",)
UNKNOWN = ("inconclusive",)
HELPS = ("harm, repair helps",)
MAY_HELP = (*HELPS, "harm, repair at a possible cost")
COSTS = ("harm, repair at a cost", "harm, repair shifts it")
DEPENDENCE = frozenset({"FS409", "FS410", "FS414"})
# Rows of a patient are alike: harm may be claimed, with the caveat of this finding.
IF_INDEPENDENT = (
    *NO_HARM,
    *UNKNOWN,
    "harm, repair not shown to help",
    "harm, repair makes it worse",
)
SMALL = (
    Expectation(benign, NO_HARM, ("PCA",)),
    Expectation(strong, HELPS, ("minimax_loss",)),
    Expectation(units, UNKNOWN, (None,), frozenset({"FS403"})),
    Expectation(unbalanced_harmed, HELPS, ("minimax_loss",)),
    Expectation(unbalanced_not_harmed, NO_HARM, ("PCA",)),
    Expectation(loans, UNKNOWN, (None,), frozenset({"FS403"})),
    Expectation(hospital_without_clusters, IF_INDEPENDENT, (None,), DEPENDENCE),
    Expectation(hospital_with_clusters, (*NO_HARM, *UNKNOWN), ("PCA", None)),
    Expectation(survey, MAY_HELP, ("minimax_loss", None)),
    Expectation(small_embeddings, COSTS, (None,)),
    Expectation(few_genes, (*NO_HARM, *UNKNOWN), ("PCA", None)),
)
LARGE = (
    Expectation(embeddings, COSTS, (None,)),
    Expectation(genes, (*NO_HARM, *UNKNOWN), ("PCA", None)),
)
