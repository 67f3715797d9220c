"""Moments of each fold, and of all rows except those of one fold."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from fairspan.linalg.memory import explain_memory_errors, moments_nbytes
from fairspan.moments.accumulate import accumulate_rows
from fairspan.moments.dropped_rows import no_complete_rows_error
from fairspan.moments.exclusion import exclude_part
from fairspan.moments.group_moments import GroupMoments, check_costs, moments_from_stacked
from fairspan.moments.integer_precision import check_integer_precision
from fairspan.moments.merging import merge_moments
from fairspan.moments.row_moments import SparseMoments
from fairspan.rows.aggregation import Rows, aggregate
from fairspan.rows.attributes import RowsWithAttributes
from fairspan.rows.folds import Folds
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.protocol import RowSource
from fairspan.rows.sparse_rows import SparseRows
from fairspan.typing import IndexArray

# Largest number of entries (2 GB) of the matrices of all groups in all folds.
MAX_FOLD_ENTRIES = 2**28
# Fewest folds that the budget may leave; with fewer, training sets would be too small.
MIN_FOLDS = 5


@dataclass(frozen=True, eq=False)
class DenseFoldMoments:
    """Moments of each fold, which are subtracted from those of all rows where few digits cancel.

    Attributes
    ----------
    by_fold : tuple of K GroupMoments or None
        Moments of each fold, None for an empty one; a fold may lack some groups.
    n_dropped : int
        Number of dropped rows.
    """

    by_fold: tuple[GroupMoments | None, ...]
    n_dropped: int = field(default=0, kw_only=True)

    @cached_property
    def total(self) -> GroupMoments:
        """Moments of all rows."""
        merged = merge_moments([part for part in self.by_fold if part is not None])
        return replace(merged, n_dropped=self.n_dropped, skip_validation=True)

    def without_empty_folds(self) -> Self:
        """Return the folds that have rows."""
        return replace(self, by_fold=tuple(part for part in self.by_fold if part is not None))

    def excluding(self, fold: int) -> GroupMoments:
        """Return the moments of all folds except one, without groups that only it has."""
        return exclude_part(self.total, self.by_fold, fold)


@dataclass(frozen=True, eq=False)
class SparseFoldMoments:
    """Fold moments of sparse rows, which are used in place of matrices.

    Attributes
    ----------
    rows : SparseRows
        Without dropped rows.
    folds : (n,) array of int
    total : SparseMoments
        Moments of all rows.
    """

    rows: SparseRows
    folds: IndexArray
    total: SparseMoments

    def excluding(self, fold: int) -> SparseMoments:
        """Return the moments of all folds except one, without groups that only it has."""
        others = np.flatnonzero(self.folds != fold)
        return SparseMoments.from_rows(self.rows.take(others))


FoldMoments = DenseFoldMoments | SparseFoldMoments
"""Moments of all rows, and of all folds except one."""


@dataclass(frozen=True)
class FoldMomentsAggregator:
    """Aggregator of the moments of each fold.

    Attributes
    ----------
    limit : GroupLimit
        Maximum number of groups, and memory.
    folds : Folds
    """

    limit: GroupLimit
    folds: Folds

    @explain_memory_errors()  # also in workers, where the partition is added to the error
    def aggregate(self, rows: RowSource) -> DenseFoldMoments:
        """Moments of some rows by fold."""
        self.limit.check_memory(1, rows.n_features)  # the number of groups is not known yet
        sums = accumulate_rows(rows, self.limit, self.folds)
        by_fold = [moments_from_stacked(stacked, rows) for stacked in sums.by_fold]
        return DenseFoldMoments(
            tuple(part if part.n_groups else None for part in by_fold),
            n_dropped=sums.n_dropped,
        )

    @explain_memory_errors()
    def merge(self, left: DenseFoldMoments, right: DenseFoldMoments) -> DenseFoldMoments:
        """Merge the moments of two parts, fold by fold."""
        parts = [part for part in (*left.by_fold, *right.by_fold) if part is not None]
        if parts:
            labels = {label for part in parts for label in part.finest.labels}
            n_rows = sum(int(part.counts.sum()) for part in parts)
            check = self.limit.check if parts[0].by_class is None else self.limit.check_pairs
            check(labels, n_rows, is_partial=True)
            self.limit.check_memory(len(labels), parts[0].n_features)
        by_fold = map(_merge_optional, left.by_fold, right.by_fold)
        return DenseFoldMoments(tuple(by_fold), n_dropped=left.n_dropped + right.n_dropped)


def _merge_optional(left: GroupMoments | None, right: GroupMoments | None) -> GroupMoments | None:
    """Merge the moments of two parts of a fold, each None if empty."""
    parts = [part for part in (left, right) if part is not None]
    return merge_moments(parts) if len(parts) > 1 else next(iter(parts), None)


@explain_memory_errors()
def compute_fold_moments(
    rows: Rows, folds: Folds, limit: GroupLimit = DEFAULT_GROUP_LIMIT
) -> DenseFoldMoments:
    """Compute the moments of each group in each fold, in one pass over the rows.

    Rows with clusters are assigned to folds by cluster. Moments of rows with classes are by class
    as well.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        Rows with groups.
    folds : Folds
    limit : GroupLimit
        Maximum number of groups, and memory.

    Raises
    ------
    InvalidInput
        Invalid rows, no rows, or too many groups.
    """
    if isinstance(rows, RowsWithAttributes):
        # Moments of all columns first, then split into features and attributes.
        all_columns = compute_fold_moments(rows.source, folds, limit)
        by_fold = [
            None if part is None else part.with_attributes(rows.attributes)
            for part in all_columns.by_fold
        ]
        return replace(all_columns, by_fold=tuple(by_fold))
    limit = limit.for_rows(rows)  # learns the group columns of these rows, for its messages
    check_costs(rows, limit)
    moments = aggregate(rows, FoldMomentsAggregator(limit, folds))
    if moments is None:  # there are no rows, so none was dropped
        raise no_complete_rows_error(rows, n_dropped=0)
    if all(part is None for part in moments.by_fold):
        raise no_complete_rows_error(rows, moments.n_dropped)
    # Integers lose digits relative to the largest of their column, which may be in any fold.
    check_integer_precision(rows, moments.total)
    moments.total.check_range()
    return moments


def compute_sparse_fold_moments(
    rows: SparseRows, folds: Folds, limit: GroupLimit = DEFAULT_GROUP_LIMIT
) -> SparseFoldMoments:
    """Compute moments of sparse rows, and the fold of each row, without p x p matrices.

    The result keeps the rows, except those that are dropped because of missing values. The moments
    of all folds except one are computed when needed, from the rows of the other folds.
    """
    positions = np.flatnonzero(rows.kept_mask)
    complete = rows.take(positions)
    # Folds are assigned by position in the table, or by cluster if the rows have clusters.
    fold_of_row = folds.assign(positions, complete.clusters)
    limit = limit.for_rows(rows)  # learns the group columns of these rows, for its messages
    # From all rows, so that the moments count the dropped ones.
    moments = SparseMoments.from_rows(rows, limit).check_range()
    return SparseFoldMoments(complete, fold_of_row, moments)


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
        n_matrices = count * n_groups
        if n_matrices * n_features**2 > MAX_FOLD_ENTRIES:
            continue
        if max_memory is None or moments_nbytes(n_matrices, n_features) <= max_memory:
            return count
    return None
