"""Moments of rows, of the kind that suits them; and those of rows in folds."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairspan.errors import InvalidType, describe_type
from fairspan.linalg.resources import explain_memory_errors, moments_nbytes
from fairspan.moments.group_moments import GroupMoments, compute_group_moments, merge_moments
from fairspan.moments.whole_numbers import check_whole_numbers
from fairspan.moments.wide import SparseMoments, WideMoments
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.frames import FrameRows
from fairspan.rows.groups import Folds, without_last_attribute
from fairspan.rows.mapped import MappedRows
from fairspan.rows.matrices import SparseRows
from fairspan.rows.protocol import DEFAULT_GROUP_LIMIT, BaseRows, GroupLimit, RowBlock, Rows
from fairspan.typing import IndexArray

Moments = GroupMoments | SparseMoments | WideMoments
"""What a projection is fitted to and judged by."""

# Beyond this many features k matrices cost more, in time and memory, than products with the rows
# where these are sparse.
MAX_DENSE_FEATURES = 1500
# Beyond this many features matrices cost more than a few hundredths of a second, and coordinates of
# rows less than matrices, if the rows are no more than this share of the features: measured, half
# as much for half as many rows as features, a twentieth for a tenth.
MIN_WIDE_FEATURES = 500
_MAX_WIDE_RATIO = 0.8
# Numbers (2 GB) that the matrices of all groups in all folds may take.
MAX_FOLD_ENTRIES = 2**28
# The fewest folds that a budget may leave: with fewer, too little is learnt from the others.
MIN_FOLDS = 5


def not_moments_error(
    value: object, remedy: str = "Make one with GroupMoments.from_rows or GroupMoments.load"
) -> InvalidType:
    """What to raise where moments were requested."""
    return InvalidType(f"moments is {describe_type(value)}", "Allowed: a GroupMoments", remedy)


@explain_memory_errors()
def compute_moments(
    rows: Rows, limit: GroupLimit = DEFAULT_GROUP_LIMIT, *, has_y: bool = False
) -> Moments:
    """Moments of each group; beyond some features they may keep the rows.

    That is so where the rows are sparse, or in memory here and clearly fewer than their features,
    unless they have classes of y.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
    limit : GroupLimit
        How many groups there may be.
    has_labels : bool
        Whether the last column of the labels is the class that a row has in y.

    Raises
    ------
    InvalidInput
        As :func:`accumulate`.
    """
    if has_y:
        return compute_group_moments(rows, limit, has_y=True)
    if isinstance(rows, SparseRows) and rows.n_features > MAX_DENSE_FEATURES:
        return SparseMoments.from_rows(rows, limit.for_rows(rows)).check_range()
    if (
        isinstance(rows, ArrayRows | FrameRows)
        and rows.n_rows <= _MAX_WIDE_RATIO * rows.n_features
        and rows.n_features > MIN_WIDE_FEATURES
        and rows.on_missing == "error"
        and rows.group_labels is not None
    ):
        thin = WideMoments.from_rows(rows, limit.for_rows(rows)).check_range()
        check_whole_numbers(rows, thin)
        return thin
    return compute_group_moments(rows, limit)


@dataclass(frozen=True, eq=False)
class DenseFoldMoments:
    """Moments of every part, from which those of the others are summed, so that nothing cancels.

    Attributes
    ----------
    parts : tuple of K GroupMoments, or None for a fold without rows
        Of the rows in each fold; a group may be missing in some.
    n_dropped : int
        Rows that are in none of them.
    """

    by_fold: tuple[GroupMoments | None, ...]
    n_dropped: int = 0

    @cached_property
    def total(self) -> GroupMoments:
        """Of all rows."""
        return replace(self.excluding(-1), n_dropped=self.n_dropped, is_made_here=True)

    def excluding(self, fold: int) -> GroupMoments:
        """Of all rows but those of a fold; groups that are in no other fold are missing."""
        others = [part for each, part in enumerate(self.by_fold) if each != fold]
        return merge_moments([part for part in others if part is not None])


@dataclass(frozen=True, eq=False)
class SparseFoldMoments:
    """The same for sparse rows of many features, which are used instead of their moments.

    Attributes
    ----------
    rows : SparseRows
    grouped : SparseRows
        The same without the clusters that their labels may have.
    folds : (n,) array of int
    whole : SparseMoments
    """

    rows: SparseRows
    rows_without_clusters: SparseRows
    folds: IndexArray
    total: SparseMoments

    def excluding(self, fold: int) -> SparseMoments:
        """Of all rows but those of a fold; groups that are in no other fold are missing."""
        return SparseMoments.from_rows(
            self.rows_without_clusters.take(np.flatnonzero(self.folds != fold))
        )


FoldMoments = DenseFoldMoments | SparseFoldMoments
"""Moments of all rows, and of all but those of one fold."""


@explain_memory_errors()
def compute_fold_moments(
    rows: Rows, folds: Folds, limit: GroupLimit = DEFAULT_GROUP_LIMIT, *, has_y: bool = False
) -> DenseFoldMoments:
    """Moments of each group in each fold: one pass over the rows, wherever they are.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        With labels; the last column of these is the cluster if `folds` says so.
    folds : Folds
    limit : GroupLimit
        How many groups there may be.
    has_labels : bool
        Whether the last column of the labels, but for the cluster, is the class that a row has in
        y.

    Raises
    ------
    InvalidInput
        Whatever the source finds wrong with its rows; no rows at all; too many groups.
    """
    found = compute_group_moments(rows, limit, has_y=has_y, folds=folds)
    fold_of = np.array([label[-1] for label in found.labels if isinstance(label, tuple)])
    parts: list[GroupMoments | None] = [None] * folds.n_folds
    for fold in np.unique(fold_of).tolist():
        own = replace(found.select_groups(fold_of == fold), n_dropped=0, is_made_here=True)
        part = merge_moments([own], without_last_attribute)
        parts[fold] = part.sum_over_classes() if has_y else part
    return DenseFoldMoments(tuple(parts), found.n_dropped)


def compute_dense_moments(
    rows: Rows, limit: GroupLimit = DEFAULT_GROUP_LIMIT, *, has_y: bool, by_cluster: bool
) -> GroupMoments:
    """Moments of each group with matrices, of rows whose labels may end with a class and a cluster.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
    limit : GroupLimit
    has_labels, by_cluster : bool
        What the last columns of the labels are, the cluster last.

    Raises
    ------
    InvalidInput
        As :func:`accumulate`.
    """
    if by_cluster and isinstance(rows, BaseRows) and rows.keeps_missing:
        rows, by_cluster = MappedRows.wrap(rows, _drop_cluster, is_completed=False), False
    if by_cluster:
        return compute_fold_moments(rows, Folds(2, by_cluster=True), limit, has_y=has_y).total
    return compute_group_moments(rows, limit, has_y=has_y)


def _drop_cluster(block: RowBlock) -> RowBlock:
    labels = block.group_labels
    return replace(block, group_labels=None if labels is None else labels.without_last_attribute())


def compute_sparse_fold_moments(
    rows: SparseRows, folds: Folds, limit: GroupLimit = DEFAULT_GROUP_LIMIT
) -> SparseFoldMoments:
    """The same of sparse rows of many features, of which no matrices are made."""
    rows = rows.drop_incomplete()
    assert rows.group_labels is not None
    labels = folds.assign(rows.group_labels, 0, 0)
    grouped = replace(rows, group_labels=labels.groups)
    return SparseFoldMoments(
        rows, grouped, labels.folds, SparseMoments.from_rows(grouped, limit).check_range()
    )


def affordable_folds(
    n_folds: int, n_groups: int, n_features: int, max_memory: int | None = None
) -> int | None:
    """How many folds fit into the budget of memory: as many as requested, five, or none.

    Parameters
    ----------
    n_folds, n_groups, n_features : int
    max_memory : int, optional
        Bytes that the matrices may take while they are made, where that was set.

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
