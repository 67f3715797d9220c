"""Groups that a verdict says the repair harms, in random tables of which the truth is known."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fairspan as fs
from case_selection import ALL_CASES

N_TABLES = 150 if ALL_CASES else 50
# Verdicts that blame the repair for the harm of the groups they name.
BLAMING = ("harm, repair shifts it", "no material harm, repair harms")
# Both limits of an interval share an error rate of 5 %.
MAX_RATE = 0.025


@dataclass
class RandomTable:
    """Rows of two groups with random spectra and directions.

    Attributes
    ----------
    X : (n, p) array
    groups : (n,) array of str
    covariances : dict of group to (p, p) array
        Of the distributions that the rows were drawn from, whose means are zero.
    d : int
    """

    X: Any
    groups: Any
    covariances: dict[str, Any]
    d: int


def draw_table(rng: np.random.Generator) -> RandomTable:
    """Draw 60 to 1,500 rows of each of two groups."""
    p = int(rng.choice([6, 10]))
    d = int(rng.integers(1, 4))
    blocks = {}
    covariances = {}
    for group in ("a", "b"):
        eigenvalues = np.arange(1, p + 1) ** -rng.uniform(0.3, 1.5)
        directions = np.linalg.qr(rng.normal(size=(p, p)))[0]
        n = round(np.exp(rng.uniform(np.log(60), np.log(1500))))
        covariances[group] = directions * eigenvalues @ directions.T
        blocks[group] = rng.normal(size=(n, p)) * np.sqrt(eigenvalues) @ directions.T
    groups = np.repeat(list(blocks), [len(rows) for rows in blocks.values()])
    return RandomTable(np.vstack(list(blocks.values())), groups, covariances, d)


def captured_variance(components, covariance):
    return float(np.trace(components @ covariance @ components.T))


def true_rises(table: RandomTable) -> Iterator[float]:
    """Yield the true change in error of each group that the verdict blames the repair for."""
    fair = fs.FairPCA(table.d, center="none", tol=0.01)
    fair.fit(table.X, sensitive_features=table.groups)
    audit = fs.audit(fair, table.X, sensitive_features=table.groups, folds=5)
    if audit.verdict.kind not in BLAMING:
        return
    pca_components = np.linalg.svd(table.X, full_matrices=False)[2][: table.d]
    for group in audit.verdict.groups:
        covariance = table.covariances[group]
        under_pca = captured_variance(pca_components, covariance)
        yield under_pca - captured_variance(fair.components_, covariance)


@pytest.mark.long
def test_groups_that_verdicts_name_as_harmed_by_a_repair_are_worse_off():
    rng = np.random.default_rng(5687)
    rises = [rise for _ in range(N_TABLES) for rise in true_rises(draw_table(rng))]
    assert len(rises) >= N_TABLES / 10
    share_better_off = np.mean(np.array(rises) <= 0)
    assert share_better_off <= MAX_RATE + 2 * np.sqrt(MAX_RATE * (1 - MAX_RATE) / len(rises))
