"""Moments of each group in each fold of the rows, for cross-fitting: one pass over the rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from fairspan.errors import running_out_told
from fairspan.linalg.budget import bytes_of_moments
from fairspan.moments.accumulate import folds_at_once, no_rows
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.group_statistics import (
    EVERY_ROW,
    GroupStatistics,
    Intake,
    OneGroup,
    check_mergeable,
    from_bytes,
    to_bytes,
)
from fairspan.moments.held_rows.sparse_moments import SparseMoments
from fairspan.moments.of_rows import Moments
from fairspan.moments.running_group import RunningMoments
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.engines import folded
from fairspan.rows.folds import FoldedLabels, Folds, first_position
from fairspan.rows.group_limit import USUAL_LIMIT, GroupLimit
from fairspan.rows.groups import Label
from fairspan.rows.labels import Labels
from fairspan.rows.protocol import Rows, RowSource
from fairspan.rows.sampling import SampledRows
from fairspan.rows.sparse import SparseRows

# Numbers (2 GB) that the matrices of all groups in all folds may take.
MOST_NUMBERS = 2**28
# The fewest folds that a budget may leave: with fewer, too little is learnt from the others.
FEWEST_FOLDS = 5


class FoldMoments(Protocol):
    """Moments of all rows, and of all but those of one fold."""

    @property
    def n_folds(self) -> int:
        """K, the number of folds that have rows."""

    @property
    def whole(self) -> Moments:
        """Of all rows."""

    def without(self, fold: int) -> Moments:
        """Of all rows but those of a fold; groups that are in no other fold are missing."""


@dataclass(frozen=True, eq=False)
class SummedFolds:
    """Moments of every part, from which those of the others are summed, so that nothing cancels.

    Attributes
    ----------
    parts : tuple of K GroupMoments, or None for a fold without rows
        Of the rows in each fold; a group may be missing in some.
    intake : Intake
        Rows that are in none of them.
    """

    parts: tuple[GroupMoments | None, ...]
    intake: Intake = EVERY_ROW

    @property
    def n_folds(self) -> int:
        """K, the number of folds that have rows."""
        return sum(part is not None for part in self.parts)

    @cached_property
    def whole(self) -> GroupMoments:
        """Of all rows."""
        return replace(_sum(self._by_group), intake=self.intake)

    def without(self, fold: int) -> GroupMoments:
        """Of all rows but those of a fold; groups that are in no other fold are missing."""
        return _sum([*self._by_group[:fold], *self._by_group[fold + 1 :]])

    @cached_property
    def _by_group(self) -> list[GroupStatistics | None]:
        return [None if part is None else part.statistics for part in self.parts]


@dataclass(frozen=True, eq=False)
class SparseFolds:
    """The same of sparse rows of many features, which stand for their moments.

    Attributes
    ----------
    rows : SparseRows
    labels : FoldedLabels
        Of all rows.
    whole : SparseMoments
    """

    rows: SparseRows
    labels: FoldedLabels
    whole: SparseMoments

    @property
    def n_folds(self) -> int:
        """K, the number of folds that have rows."""
        return len(np.unique(self.labels.folds))

    def without(self, fold: int) -> SparseMoments:
        """Of all rows but those of a fold; groups that are in no other fold are missing."""
        return SparseMoments.of_rows(_some(self.rows, self.labels, self.labels.folds != fold))


def fold_moments(
    rows: Rows, folds: Folds, limit: GroupLimit = USUAL_LIMIT, *, has_labels: bool = False
) -> FoldMoments:
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
    limit, wanted = limit.over(rows), limit
    if has_labels:  # a limit that was set is one of groups, not of their classes
        limit = replace(limit, max_groups=None)
    pass_over_rows = FoldMomentsFold(folds, replace(limit, in_parts=True))
    found = folded(rows, pass_over_rows)
    if found is None or not any(part is not None and part.groups for part in found):
        intake = EVERY_ROW if found is None else _intake(found)
        raise no_rows(intake)
    parts = tuple(
        None
        if part is None or not part.groups
        else GroupMoments.of(replace(part, has_labels=has_labels))
        for part in found
    )
    summed = SummedFolds(parts, _intake(found))
    counts = summed.whole.counts
    replace(wanted, in_parts=False).check(len(counts), int(counts.sum()), rows.n_features)
    return summed


def sparse_folds(rows: SparseRows, folds: Folds, limit: GroupLimit = USUAL_LIMIT) -> SparseFolds:
    """The same of sparse rows of many features, of which no matrices are made."""
    rows = rows.complete()
    assert rows.labels is not None
    labels = folds.of_rows(rows.labels.between(0, rows.n_rows), 0)
    everyone = np.ones(rows.n_rows, dtype=bool)
    whole = SparseMoments.of_rows(_some(rows, labels, everyone), limit)
    return SparseFolds(rows, labels, whole)


def affordable_folds(
    n_folds: int, n_groups: int, n_features: int, max_memory: int | None = None
) -> int | None:
    """How many folds the budget of memory leaves: as many as asked for, five, or none.

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


@dataclass(frozen=True)
class FoldMomentsFold:
    """The pass over rows that sums the moments of each group in each fold.

    Attributes
    ----------
    folds : Folds
    limit : GroupLimit
        How many groups there may be.
    """

    folds: Folds
    limit: GroupLimit

    @running_out_told()
    def over(self, rows: RowSource) -> list[GroupStatistics | None] | None:
        """Moments of some rows, by fold; None if there are none."""
        if isinstance(rows, ArrayRows) and rows.is_plain:
            at_once = folds_at_once(rows, self.folds, self.limit)
            if at_once is not None:
                return [GroupStatistics(part, rows.n_features) for part in at_once]
        running = RunningMoments(rows.n_features, self.limit, self.folds.n_folds)
        before = first_position(rows)
        for block in rows.blocks():
            if block.labels is None:
                running.absorb(block)  # which says what is missing
                continue
            labels = self.folds.of_rows(block.labels, before + block.first_row)
            running.absorb(replace(block, labels=labels.groups), labels.folds)
        parts = running.finished_by_fold()
        intake = Intake(running.n_dropped)
        if isinstance(rows, SampledRows):
            intake = Intake(rows.n_dropped, rows.drawn_from)
        if not any(parts) and not intake.n_dropped:
            return None
        # What was left out is in no fold: the first one tells of it.
        intakes = [intake, *[EVERY_ROW] * (len(parts) - 1)]
        return [
            GroupStatistics(part, rows.n_features, rows.feature_names, left_out)
            for part, left_out in zip(parts, intakes, strict=True)
        ]

    def merged(
        self, left: list[GroupStatistics | None], right: list[GroupStatistics | None]
    ) -> list[GroupStatistics | None]:
        """Moments of both parts."""
        return [
            one if other is None else other if one is None else one + other
            for one, other in zip(left, right, strict=True)
        ]

    def to_bytes(self, result: list[GroupStatistics | None]) -> bytes:
        """Moments as bytes: the length of each part's, and then these."""
        parts = [b"" if part is None else to_bytes(part) for part in result]
        lengths = np.array([len(part) for part in parts], dtype="<i8")
        return lengths.tobytes() + b"".join(parts)

    def from_bytes(self, contents: bytes) -> list[GroupStatistics | None]:
        """The moments again."""
        size = 8 * self.folds.n_folds
        ends = size + np.cumsum(np.frombuffer(contents[:size], dtype="<i8"))
        starts = [size, *ends.tolist()]
        return [
            from_bytes(contents[start:end]) if end > start else None
            for start, end in zip(starts, ends.tolist(), strict=False)
        ]


def _intake(parts: Sequence[GroupStatistics | None]) -> Intake:
    first = parts[0]
    return EVERY_ROW if first is None else first.intake


def _sum(parts: Sequence[GroupStatistics | None]) -> GroupMoments:
    """Moments of all parts, in one step: many sums of large matrices in turn take far longer."""
    statistics = [part for part in parts if part is not None]
    by_label: dict[Label, list[OneGroup]] = {}
    for group in (group for each in statistics for group in each.groups):
        by_label.setdefault(group.label, []).append(group)
    first = statistics[0]
    for each in statistics[1:]:
        check_mergeable(first, each)
    groups = [_merged(label, parts_of) for label, parts_of in by_label.items()]
    whole = GroupStatistics(
        groups, first.n_features, first.feature_names, has_labels=first.has_labels
    )
    return GroupMoments.of(whole)


def _merged(label: Label, parts: Sequence[OneGroup]) -> OneGroup:
    """One group of several parts, with means about that of the first, so that nothing cancels."""
    weights = np.array([part.weight for part in parts])
    offsets = np.array([part.mean for part in parts]) - parts[0].mean
    offset = weights @ offsets / weights.sum()
    between = (offsets - offset) * np.sqrt(weights)[:, None]
    scatter = between.T @ between
    for part in parts:
        scatter += part.scatter
    count = sum(part.count for part in parts)
    return OneGroup(label, count, float(weights.sum()), parts[0].mean + offset, scatter)


def _some(rows: SparseRows, labels: FoldedLabels, chosen: np.ndarray) -> SparseRows:
    index = np.flatnonzero(chosen)
    groups = labels.groups[index]
    return replace(
        rows,
        matrix=rows.matrix[index],
        labels=Labels(len(index), lambda start, stop: groups[start:stop]),
        weights=None if rows.weights is None else rows.weights[index],
    )
