"""Ten made tables of which it is known who is harmed, and what an audit has to say of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Truth:
    """A table, the fit that is asked for, and what is true of it.

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
    action: str = "Use minimax loss, and document which groups bear the cost"
    d: int = 2
    finding: str | None = None


def _drawn(sizes, spreads, seed=0):
    """Normal rows of several groups, each with standard deviations of its own."""
    rng = np.random.default_rng(seed)
    blocks = [
        rng.normal(size=(n, len(spread))) * spread
        for n, spread in zip(sizes.values(), spreads, strict=True)
    ]
    return np.vstack(blocks), np.repeat(list(sizes), list(sizes.values()))


_MANY, _OTHER = [4, 3.5, 3, 2.5, 0.5, 0.5], [0.5, 0.5, 2.5, 3, 3.5, 4]
# What the others vary along takes hardly anything of those who are many: a third dimension can
# serve them, and PCA spends it on those who are many.
_WIDE, _ASIDE = [7, 7, 1.1, 0.3, 0.3], [1, 1, 0.1, 0.1, 2.4]


def harmed_minority():
    return _drawn({"many": 3000, "few": 400}, [_WIDE, _ASIDE])


def same_distribution():
    return _drawn({"women": 900, "men": 700}, [_MANY, _MANY])


def fewer_of_one_distribution():
    return _drawn({"women": 500, "men": 400}, [_MANY, _MANY], seed=5)


def group_is_a_feature():
    X, groups = _drawn({"women": 900, "men": 700}, [_MANY, _MANY])
    return np.column_stack([X, 2.0 * (groups == "men")]), groups


def a_tiny_group():
    return _drawn({"many": 1200, "also many": 900, "tiny": 2}, [_WIDE, _WIDE, _WIDE])


def heavy_tails():
    rng = np.random.default_rng(1)
    X, groups = _drawn({"steady": 2000, "tailed": 60}, [_WIDE, _WIDE])
    X[groups == "tailed"] *= 0.02 * rng.pareto(1.1, (60, 1))
    return X, groups


def nothing_is_lost():
    X, groups = _drawn({"women": 900, "men": 700}, [[4, 3, 0.001], [3, 4, 0.001]])
    return X, groups


def moved_to_another():
    """One direction is not enough for three groups that need different ones."""
    return _drawn({"a": 3000, "b": 900, "c": 800}, [[3, 0.3, 1], [0.3, 3, 1], [2.6, 0.3, 1]])


def two_harmed_of_four():
    return _drawn(
        {"north": 2500, "east": 2000, "south": 300, "west": 250},
        [_WIDE, _WIDE, _ASIDE, _ASIDE],
        seed=3,
    )


def an_intersection():
    """Women and men, old and young, are alike one by one; old women are not."""
    sizes = {"man, old": 900, "man, young": 900, "woman, old": 250, "woman, young": 900}
    return _drawn(sizes, [_WIDE, _WIDE, _ASIDE, _WIDE], seed=4)


HELPS, MOVES, NONE = "harm, repair helps", "harm, repair shifts it", "no material harm"
WORSE = "no material harm, repair harms"
TRUTHS = (
    Truth("a harmed minority", harmed_minority, HELPS, ("few",), harmed=("few",), d=3),
    Truth("one distribution", same_distribution, NONE, action="Use PCA"),
    Truth("harm on the rows by chance", fewer_of_one_distribution, NONE, action="Use PCA"),
    Truth("the group is a feature", group_is_a_feature, NONE, action="Use PCA", finding="FS401"),
    Truth("a tiny group", a_tiny_group, "inconclusive", ("tiny",), action="Collect more rows"),
    # A few rows lead the repair astray, and nothing can be said of those who have them.
    Truth("heavy tails", heavy_tails, WORSE, ("steady",), action="Change the number of dimensions"),
    Truth("nothing is lost", nothing_is_lost, NONE, action="Use PCA"),
    Truth("harm that moves", moved_to_another, MOVES, ("a", "c"), ("b",), "Choose another", d=1),
    Truth(
        "two harmed of four", two_harmed_of_four, HELPS, ("south", "west"), ("south", "west"), d=3
    ),
    Truth("an intersection", an_intersection, HELPS, ("woman, old",), ("woman, old",), d=3),
)
