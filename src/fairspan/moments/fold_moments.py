"""Moments of each fold, of which those of training sets are sums."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairspan.linalg.memory import explain_memory_errors, moments_nbytes
from fairspan.moments.group_moments import GroupMoments, compute_group_moments, merge_moments
from fairspan.moments.wide import SparseMoments
from fairspan.rows.aggregation import Rows
from fairspan.rows.folds import Folds
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.labels import without_last_attribute
from fairspan.rows.sparse import SparseRows
from fairspan.typing import IndexArray

# Largest number of entries (2 GB) of the matrices of all groups in all folds.
MAX_FOLD_ENTRIES = 2**28
# Fewest folds that the budget may leave; with fewer, training sets would be too small.
MIN_FOLDS = 5


@dataclass(frozen=True, eq=False)
class DenseFoldMoments:
    """Moments of each fold, merged and never subtracted, so that no digits cancel.

    Attributes
    ----------
    by_fold : tuple of K GroupMoments or None
        Moments of each fold, None for an empty one; a fold may lack some groups.
    n_dropped : int
        Number of dropped rows.
    """

    by_fold: tuple[GroupMoments | None, ...]
    n_dropped: int = 0

    @cached_property
    def total(self) -> GroupMoments:
        """Moments of all rows."""
        no_fold = -1
        return replace(self.excluding(no_fold), n_dropped=self.n_dropped, skip_validation=True)

    def excluding(self, fold: int) -> GroupMoments:
        """Return the moments of all folds except one, without groups that only it has."""
        others = [part for index, part in enumerate(self.by_fold) if index != fold]
        return merge_moments([part for part in others if part is not None])


@dataclass(frozen=True, eq=False)
class SparseFoldMoments:
    """Fold moments of sparse rows, which are used in place of matrices.

    Attributes
    ----------
    rows : SparseRows
    rows_without_clusters : SparseRows
        The rows with group labels only, without clusters.
    folds : (n,) array of int
    total : SparseMoments
        Moments of all rows.
    """

    rows: SparseRows
    rows_without_clusters: SparseRows
    folds: IndexArray
    total: SparseMoments

    def excluding(self, fold: int) -> SparseMoments:
        """Return the moments of all folds except one, without groups that only it has."""
        others = np.flatnonzero(self.folds != fold)
        return SparseMoments.from_rows(self.rows_without_clusters.take(others))


FoldMoments = DenseFoldMoments | SparseFoldMoments
"""Moments of all rows, and of all folds except one."""


@explain_memory_errors()
def compute_fold_moments(
    rows: Rows, folds: Folds, limit: GroupLimit = DEFAULT_GROUP_LIMIT, *, has_y: bool = False
) -> DenseFoldMoments:
    """Compute the moments of each group in each fold, in one pass over the rows.

    Returns one set of moments for each fold, None for a fold without rows.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        Rows with group labels; the last attribute is the cluster if `folds.by_cluster`.
    folds : Folds
    limit : GroupLimit
        Maximum number of groups, and memory.
    has_y : bool
        Whether the last attribute before the cluster is the class in y.

    Raises
    ------
    InvalidInput
        Invalid rows, no rows, or too many groups.
    """
    moments = compute_group_moments(rows, limit, has_y=has_y, folds=folds)
    # The fold is the last attribute of each label, so all labels are tuples.
    fold_of_group = np.array([label[-1] for label in moments.labels if isinstance(label, tuple)])
    by_fold: list[GroupMoments | None] = [None] * folds.n_folds
    for fold in np.unique(fold_of_group).tolist():
        of_fold = moments.select_groups(fold_of_group == fold)
        # Dropped rows belong to no fold; the result counts them once.
        fold_part = replace(of_fold, n_dropped=0, skip_validation=True)
        # Relabeling removes the fold from the labels.
        merged = merge_moments([fold_part], without_last_attribute)
        by_fold[fold] = merged.sum_over_classes() if has_y else merged
    return DenseFoldMoments(tuple(by_fold), moments.n_dropped)


def compute_sparse_fold_moments(
    rows: SparseRows, folds: Folds, limit: GroupLimit = DEFAULT_GROUP_LIMIT
) -> SparseFoldMoments:
    """Compute moments of sparse rows, and the fold of each row, without p x p matrices.

    The result keeps the rows without missing values. The moments of all folds except one are
    computed when needed, from the rows of the other folds.
    """
    rows = rows.drop_incomplete()
    assert rows.group_labels is not None
    labels = folds.assign(rows.group_labels, first_row=0, n_earlier_rows=0)
    grouped = replace(rows, group_labels=labels.groups)
    return SparseFoldMoments(
        rows, grouped, labels.folds, SparseMoments.from_rows(grouped, limit).check_range()
    )


def affordable_folds(
    n_folds: int, n_groups: int, n_features: int, max_memory: int | None = None
) -> int | None:
    """Return the number of folds whose p x p matrices fit into memory: as requested, else five.

    If five are too many as well, the result is None. Every group has one matrix in each fold; apart
    from `max_memory`, all of them may take up 2 GB.

    Parameters
    ----------
    n_folds : int
        Requested number of folds.
    n_groups, n_features : int
    max_memory : int, optional
        Peak memory for the matrices in bytes, if limited.

    Examples
    --------
    >>> affordable_folds(10, 2, 1000), affordable_folds(10, 20, 1500), affordable_folds(10, 2, 9000)
    (10, 5, None)
    """
    for count in (n_folds, min(n_folds, MIN_FOLDS)):
        fits_memory = (
            max_memory is None or moments_nbytes(count * n_groups, n_features) <= max_memory
        )
        if fits_memory and count * n_groups * n_features**2 <= MAX_FOLD_ENTRIES:
            return count
    return None
