"""Ten synthetic tables with known harm, and the verdict that an audit should reach."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class KnownVerdict:
    """A table, the settings of a fit, and the true verdict.

    Attributes
    ----------
    name : str
    rows : callable
        Gives X and the groups.
    kind : str
        Of the verdict.
    groups : tuple
        Those that the verdict has to name, and no other.
    harmed : tuple
        Whom PCA harms on new rows.
    action : str
        How the recommended action begins.
    d : int
        Components.
    finding : str or None
        The code of a finding that has to be there.
    """

    name: str
    rows: Callable[[], tuple[Any, Any]]
    kind: str
    groups: tuple[str, ...] = ()
    harmed: tuple[str, ...] = ()
    action: str = "Use fair PCA (minimax loss)"
    d: int = 2
    finding: str | None = None


def _draw_rows(sizes, spreads, seed=0):
    """Draw normal rows of several groups, each with its own standard deviations."""
    rng = np.random.default_rng(seed)
    blocks = [
        rng.normal(size=(n, len(spread))) * spread
        for n, spread in zip(sizes.values(), spreads, strict=True)
    ]
    return np.vstack(blocks), np.repeat(list(sizes), list(sizes.values()))


_MANY = [4, 3.5, 3, 2.5, 0.5, 0.5]
_OTHER = [0.5, 0.5, 2.5, 3, 3.5, 4]
# The directions of the minority take hardly any variance of the majority: a third dimension could
# serve the minority, but PCA spends it on the majority.
_WIDE, _ASIDE = [7, 7, 1.1, 0.3, 0.3], [1, 1, 0.1, 0.1, 2.4]


def harmed_minority():
    return _draw_rows({"many": 3000, "few": 400}, [_WIDE, _ASIDE])


def repairable_minority():
    """The second dimension of PCA captures a direction that matters little to the majority."""
    return _draw_rows({"many": 2700, "few": 300}, [[7, 0.5, 0.1], [1, 0.1, 1]])


def same_distribution(seed=0):
    return _draw_rows({"women": 900, "men": 700}, [_MANY, _MANY], seed)


def fewer_of_one_distribution():
    return _draw_rows({"women": 500, "men": 400}, [_MANY, _MANY], seed=5)


def group_is_a_feature():
    X, groups = _draw_rows({"women": 900, "men": 700}, [_MANY, _MANY])
    return np.column_stack([X, 2.0 * (groups == "men")]), groups


def tiny_group():
    return _draw_rows({"many": 1200, "also many": 900, "tiny": 2}, [_WIDE, _WIDE, _WIDE])


def heavy_tails():
    rng = np.random.default_rng(1)
    X, groups = _draw_rows({"steady": 2000, "tailed": 60}, [_WIDE, _WIDE])
    X[groups == "tailed"] *= 0.02 * rng.pareto(1.1, (60, 1))
    return X, groups


def no_loss():
    X, groups = _draw_rows({"women": 900, "men": 700}, [[4, 3, 0.001], [3, 4, 0.001]])
    return X, groups


def loss_passed_on():
    """One direction cannot serve three groups with different needs: repair shifts the loss."""
    return _draw_rows({"a": 3000, "b": 900, "c": 800}, [[3, 0.3, 1], [0.3, 3, 1], [2.6, 0.3, 1]])


def two_harmed_of_four():
    return _draw_rows(
        {"north": 2500, "east": 2000, "south": 300, "west": 250},
        [_WIDE, _WIDE, _ASIDE, _ASIDE],
        seed=3,
    )


def intersection_of_attributes():
    """Each attribute alone shows no harm; one combination of two attributes does."""
    sizes = {"man, old": 900, "man, young": 900, "woman, old": 250, "woman, young": 900}
    return _draw_rows(sizes, [_WIDE, _WIDE, _ASIDE, _WIDE], seed=4)


HELPS, MOVES, NONE = "harm, repair helps", "harm, repair shifts it", "no material harm"
# Other groups may pay up to 1.1 %, a little more than what matters.
MAY_COST, ACCEPT = "harm, repair at a possible cost", "Decide whether such a cost"
TRUTHS = (
    KnownVerdict("a harmed minority", harmed_minority, HELPS, ("few",), harmed=("few",), d=3),
    KnownVerdict("one distribution", same_distribution, NONE, action="Use PCA"),
    KnownVerdict("harm on the rows by chance", fewer_of_one_distribution, NONE, action="Use PCA"),
    KnownVerdict(
        "the group is a feature", group_is_a_feature, NONE, action="Use PCA", finding="FS401"
    ),
    KnownVerdict("a tiny group", tiny_group, "inconclusive", ("tiny",), action="Collect more rows"),
    # A few rows lead the repair astray, and nothing can be said of those who have them. The other
    # group is harmed by the fair model, but other rows could lead that elsewhere.
    KnownVerdict(
        "heavy tails",
        heavy_tails,
        "inconclusive",
        ("steady", "tailed"),
        action="more rows of 'steady'",
    ),
    KnownVerdict("nothing is lost", no_loss, NONE, action="Use PCA"),
    KnownVerdict(
        "harm that moves",
        loss_passed_on,
        MOVES,
        ("a", "c"),
        ("b",),
        "Standardize the features",
        d=1,
    ),
    KnownVerdict(
        "two harmed of four",
        two_harmed_of_four,
        MAY_COST,
        ("south", "west"),
        ("south", "west"),
        ACCEPT,
        d=3,
    ),
    KnownVerdict(
        "an intersection",
        intersection_of_attributes,
        MAY_COST,
        ("woman, old",),
        ("woman, old",),
        ACCEPT,
        d=3,
    ),
)


def assert_is_true(truth, audit, fair, plain):
    """Compare an audit, and its figures of the fair model and of PCA, with the truth."""
    verdict = audit.verdict
    assert verdict.kind == truth.kind
    assert set(verdict.groups) == set(truth.groups)
    # Reports name first the dimensions that help, or the warnings to follow if none does.
    assert truth.action.lower() in verdict.advice.text.lower()
    for name in truth.groups:
        assert name in verdict.summary
    harmed = {group.group for group in plain.groups if group.state == "harmed"}
    assert harmed == set(truth.harmed)
    assert truth.finding is None or truth.finding in {finding.code for finding in audit.findings}
    if truth.kind == "harm, repair helps":
        changes = {group.group: group.expected_change for group in fair.groups}
        assert {name for name, change in changes.items() if change.high < 0} == set(truth.harmed)
        # Those whom PCA served pay for it, and the verdict says so.
        assert all(change.low > 0 for name, change in changes.items() if name not in harmed)
        assert all(f"'{name}'" in verdict.summary for name in changes)
