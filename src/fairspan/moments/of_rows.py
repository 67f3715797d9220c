"""Moments of rows, of the kind that suits them; and those of rows in folds."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairspan.errors import InvalidType, kind_of
from fairspan.linalg.resources import bytes_of_moments, memory_error_hint
from fairspan.moments.group_moments import GroupMoments, accumulate, merged
from fairspan.moments.thin import SparseMoments, ThinMoments
from fairspan.moments.whole_numbers import check_whole_numbers
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.changed import ChangedRows
from fairspan.rows.frames import FrameRows
from fairspan.rows.groups import Folds, without_last_attribute
from fairspan.rows.matrices import SparseRows
from fairspan.rows.protocol import USUAL_LIMIT, GroupLimit, KnownRows, RowBlock, Rows
from fairspan.typing import IndexArray

Moments = GroupMoments | SparseMoments | ThinMoments
"""What a projection is fitted to and judged by."""

# Beyond this many features k matrices cost more, in time and memory, than products with the rows
# where these are sparse.
MATRICES_UP_TO = 1500
# Beyond this many features matrices cost more than a few hundredths of a second, and coordinates of
# rows less than matrices, if the rows are no more than this share of the features: measured, half
# as much for half as many rows as features, a twentieth for a tenth.
THIN_BEYOND = 500
_THIN_SHARE = 0.8
# Numbers (2 GB) that the matrices of all groups in all folds may take.
MOST_NUMBERS = 2**28
# The fewest folds that a budget may leave: with fewer, too little is learnt from the others.
FEWEST_FOLDS = 5


def not_moments(
    value: object, remedy: str = "Make one with GroupMoments.from_rows or GroupMoments.load"
) -> InvalidType:
    """What to raise where moments were requested."""
    return InvalidType(f"moments is {kind_of(value)}", "Allowed: a GroupMoments", remedy)


@memory_error_hint()
def moments_of(rows: Rows, limit: GroupLimit = USUAL_LIMIT, *, has_labels: bool = False) -> Moments:
    """Moments of each group; beyond some features they may keep the rows.

    That is so where the rows are sparse, or in memory here and clearly fewer than their features,
    unless they have classes of y.

    Parameters
    ----------
    rows : RowSource or PartedRows
    limit : GroupLimit
        How many groups there may be.
    has_labels : bool
        Whether the last column of the labels is the class that a row has in y.

    Raises
    ------
    InvalidInput
        As :func:`accumulate`.
    """
    if has_labels:
        return accumulate(rows, limit, has_labels=True)
    if isinstance(rows, SparseRows) and rows.n_features > MATRICES_UP_TO:
        return SparseMoments.of_rows(rows, limit.over(rows)).in_range()
    if (
        isinstance(rows, ArrayRows | FrameRows)
        and rows.n_rows <= _THIN_SHARE * rows.n_features
        and rows.n_features > THIN_BEYOND
        and rows.on_missing == "error"
        and rows.labels is not None
    ):
        thin = ThinMoments.of_rows(rows, limit.over(rows)).in_range()
        check_whole_numbers(rows, thin)
        return thin
    return accumulate(rows, limit)


@dataclass(frozen=True, eq=False)
class SummedFolds:
    """Moments of every part, from which those of the others are summed, so that nothing cancels.

    Attributes
    ----------
    parts : tuple of K GroupMoments, or None for a fold without rows
        Of the rows in each fold; a group may be missing in some.
    n_dropped : int
        Rows that are in none of them.
    """

    parts: tuple[GroupMoments | None, ...]
    n_dropped: int = 0

    @cached_property
    def whole(self) -> GroupMoments:
        """Of all rows."""
        return replace(self.without(-1), n_dropped=self.n_dropped, is_made_here=True)

    def without(self, fold: int) -> GroupMoments:
        """Of all rows but those of a fold; groups that are in no other fold are missing."""
        others = [part for each, part in enumerate(self.parts) if each != fold]
        return merged([part for part in others if part is not None])


@dataclass(frozen=True, eq=False)
class SparseFolds:
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
    grouped: SparseRows
    folds: IndexArray
    whole: SparseMoments

    def without(self, fold: int) -> SparseMoments:
        """Of all rows but those of a fold; groups that are in no other fold are missing."""
        return SparseMoments.of_rows(self.grouped.at(np.flatnonzero(self.folds != fold)))


FoldMoments = SummedFolds | SparseFolds
"""Moments of all rows, and of all but those of one fold."""


@memory_error_hint()
def fold_moments(
    rows: Rows, folds: Folds, limit: GroupLimit = USUAL_LIMIT, *, has_labels: bool = False
) -> SummedFolds:
    """Moments of each group in each fold: one pass over the rows, wherever they are.

    Parameters
    ----------
    rows : RowSource or PartedRows
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
    found = accumulate(rows, limit, has_labels=has_labels, folds=folds)
    fold_of = np.array([label[-1] for label in found.labels if isinstance(label, tuple)])
    parts: list[GroupMoments | None] = [None] * folds.n_folds
    for fold in np.unique(fold_of).tolist():
        own = replace(found.of_groups(fold_of == fold), n_dropped=0, is_made_here=True)
        part = merged([own], without_last_attribute)
        parts[fold] = part.over_classes() if has_labels else part
    return SummedFolds(tuple(parts), found.n_dropped)


def matrices_of(
    rows: Rows, limit: GroupLimit = USUAL_LIMIT, *, has_labels: bool, by_cluster: bool
) -> GroupMoments:
    """Moments of each group with matrices, of rows whose labels may end with a class and a cluster.

    Parameters
    ----------
    rows : RowSource or PartedRows
    limit : GroupLimit
    has_labels, by_cluster : bool
        What the last columns of the labels are, the cluster last.

    Raises
    ------
    InvalidInput
        As :func:`accumulate`.
    """
    if by_cluster and isinstance(rows, KnownRows) and rows.keeps_missing:
        rows, by_cluster = ChangedRows.of(rows, _without_cluster, is_completed=False), False
    if by_cluster:
        return fold_moments(rows, Folds(2, by_cluster=True), limit, has_labels=has_labels).whole
    return accumulate(rows, limit, has_labels=has_labels)


def _without_cluster(block: RowBlock) -> RowBlock:
    labels = block.labels
    return replace(block, labels=None if labels is None else labels.without_last_attribute())


def sparse_folds(rows: SparseRows, folds: Folds, limit: GroupLimit = USUAL_LIMIT) -> SparseFolds:
    """The same of sparse rows of many features, of which no matrices are made."""
    rows = rows.complete()
    assert rows.labels is not None
    labels = folds.of_rows(rows.labels, 0, 0)
    grouped = replace(rows, labels=labels.groups)
    return SparseFolds(
        rows, grouped, labels.folds, SparseMoments.of_rows(grouped, limit).in_range()
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
    for count in (n_folds, min(n_folds, FEWEST_FOLDS)):
        within = max_memory is None or bytes_of_moments(count * n_groups, n_features) <= max_memory
        if within and count * n_groups * n_features**2 <= MOST_NUMBERS:
            return count
    return None
