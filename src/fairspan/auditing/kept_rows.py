"""Rows of small groups, kept from the second pass of an audit for the loss test."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.typing import FloatArray, IntegerArray

# Above this number of features, the loss test takes seconds.
MAX_FEATURES = 60
# Largest number of rows that are kept of a group. In larger groups, cross-fitting detects most
# losses, and a bootstrap takes longer than the rest of the audit.
MAX_ROWS_PER_GROUP = 1000
# Largest number of kept values of all groups (16 MB of float64).
_MAX_VALUES = 2**21


@dataclass(frozen=True, eq=False)
class GroupRows:
    """Rows of one group, with positive weights.

    Attributes
    ----------
    values : (n, p) array
        In the units of the table, not centered.
    weights : (n,) array
    clusters : (n,) array of str
        Label of each row's cluster, as text; empty if rows are independent.
    """

    values: FloatArray
    weights: FloatArray
    clusters: Sequence[str] = ()

    @classmethod
    def concatenate(cls, parts: Sequence["GroupRows"]) -> "GroupRows":
        """Return the rows of one or more parts, one after the other."""
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.weights for part in parts]),
            [label for part in parts for label in part.clusters],
        )


def groups_to_keep(counts: IntegerArray, n_features: int) -> frozenset[int]:
    """Return the indices of the groups whose rows are kept: small ones, the smallest first.

    None if there are too many features for the loss test.

    Parameters
    ----------
    counts : (k,) array of int
        Number of rows of each group.
    n_features : int

    Examples
    --------
    >>> sorted(groups_to_keep(np.array([30_000, 80, 900]), 20))
    [1, 2]
    """
    if n_features > MAX_FEATURES:
        return frozenset()
    order = np.argsort(counts, kind="stable")
    n_values = np.cumsum(counts[order]) * n_features
    is_kept = (counts[order] <= MAX_ROWS_PER_GROUP) & (n_values <= _MAX_VALUES)
    return frozenset(order[is_kept].tolist())
