"""One pass over blocks of rows that sums the moments of each group, in float64."""

from dataclasses import dataclass, replace

from fairspan.errors import InvalidInput, running_out_told
from fairspan.linalg.machine import bytes_of_moments, tell_if_long, threads_for
from fairspan.moments.device_kernels import device_statistics
from fairspan.moments.group_statistics import (
    EVERY_ROW,
    GroupStatistics,
    Intake,
    from_bytes,
    to_bytes,
)
from fairspan.moments.running_group import USUAL_LIMIT, GroupLimit, RunningMoments
from fairspan.moments.sparse import sparse_groups
from fairspan.moments.uncentred import MOST_AT_ONCE, uncentred_groups
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.device import DeviceRows
from fairspan.rows.folds import Folds
from fairspan.rows.groups import without_last_attribute
from fairspan.rows.protocol import KnownRows, Rows, RowSource, folded
from fairspan.rows.sparse import SparseRows

# Where more of the cells are stored, blocks with all their zeros are multiplied faster.
_SPARSE_UP_TO = 1 / 12
# Matrices that take less than this are made without a second look at the labels.
_WORTH_A_LOOK = 2**30
_OF_A_PART = GroupLimit(in_parts=True)


@running_out_told()
def statistics_of(
    rows: Rows,
    limit: GroupLimit = USUAL_LIMIT,
    onto: GroupStatistics | None = None,
    *,
    has_labels: bool = False,
) -> GroupStatistics:
    """Read all rows once and return the moments of each group.

    Rows of weight zero count as absent.

    Parameters
    ----------
    rows : RowSource or PartedRows
        With labels.
    limit : GroupLimit
        How many groups there may be.
    onto : GroupStatistics, optional
        Of rows that came before. These are then added, and the limit is one of all rows.
    has_labels : bool
        Whether the last column of the labels is the class that a row has in y.

    Raises
    ------
    InvalidInput
        Whatever the source finds wrong with its rows; no rows at all; too many groups; numbers
        whose squares overflow.
    """
    limit, wanted = limit.over(rows), limit
    if has_labels:  # a limit that was set is one of groups, not of their classes
        limit = replace(limit, max_groups=None)
    limit.check_memory(1, rows.n_features)  # before a cluster is asked, or started
    if not isinstance(rows, SparseRows | DeviceRows):
        tell_if_long(rows.n_rows, rows.n_features)
    if onto is not None:
        limit = replace(limit, in_parts=True)
    fold = MomentsFold(limit)
    found = folded(rows, fold)
    if found is None or not found.groups:
        raise no_rows(EVERY_ROW if found is None else found.intake)
    if has_labels:
        found = replace(found, has_labels=True)
    if onto is not None:
        found = fold.merged(onto, found)
    replace(limit, in_parts=False).check(len(found.groups), found.n_rows, found.n_features)
    if has_labels and wanted.max_groups is not None:
        n_groups = len({without_last_attribute(label) for label in found.labels})
        wanted.check(n_groups, found.n_rows, found.n_features)
    return found


def no_rows(intake: Intake) -> InvalidInput:
    """What to raise where no row is left, or none that counts."""
    left_out = f" ({intake})" if str(intake) else ""
    return InvalidInput(
        f"There are no rows{left_out}",
        "Allowed: at least one row of a weight above zero",
        "Check the file, the filter or the weights",
    )


@dataclass(frozen=True)
class MomentsFold:
    """The pass that every fit makes: from rows to the moments of each group.

    Attributes
    ----------
    limit : GroupLimit
        How many groups there may be.
    """

    limit: GroupLimit = _OF_A_PART

    @running_out_told()  # also in workers, whose errors say which part it was
    def over(self, rows: RowSource) -> GroupStatistics | None:
        """Moments of some rows; None if there are none."""
        self.limit.check_memory(1, rows.n_features)  # how many groups there are, the rows tell
        if isinstance(rows, DeviceRows):
            return device_statistics(rows, self.limit)
        if isinstance(rows, SparseRows) and rows.density <= _SPARSE_UP_TO:
            groups, intake = sparse_groups(rows, self.limit)
            self.limit.check_memory(len(groups), rows.n_features)
            if not groups and not intake.n_dropped:
                return None
            return GroupStatistics(
                [group.scattered() for group in groups], rows.n_features, None, intake
            )
        if isinstance(rows, ArrayRows) and rows.is_plain:
            self._check_labels(rows)
        found = statistics_by_fold(rows, self.limit)
        return None if found is None else found[0]

    def _check_labels(self, rows: ArrayRows) -> None:
        """The same check with the number of groups, only if it may matter."""
        if self.limit.max_memory or bytes_of_moments(MOST_AT_ONCE, rows.n_features) > _WORTH_A_LOOK:
            assert rows.labels is not None
            n_groups = min(rows.labels.between(0, rows.n_rows).n_present, MOST_AT_ONCE)
            self.limit.check_memory(n_groups, rows.n_features)

    @running_out_told()
    def merged(self, left: GroupStatistics, right: GroupStatistics) -> GroupStatistics:
        """Moments of both parts."""
        n_groups = len({*left.labels, *right.labels})
        self.limit.check(n_groups, left.n_rows + right.n_rows, left.n_features)
        self.limit.check_memory(n_groups, left.n_features)
        return left + right

    def to_bytes(self, result: GroupStatistics) -> bytes:
        """Moments as bytes."""
        return to_bytes(result)

    def from_bytes(self, contents: bytes) -> GroupStatistics:
        """The moments again."""
        return from_bytes(contents)


def statistics_by_fold(
    rows: RowSource, limit: GroupLimit, folds: Folds | None = None
) -> list[GroupStatistics] | None:
    """Moments of rows that are read in blocks, or at once where they are in memory.

    Parameters
    ----------
    rows : RowSource
    limit : GroupLimit
        How many groups there may be.
    folds : Folds, optional
        Without it all rows are one fold.

    Returns
    -------
    list of K GroupStatistics, or None
        Of each fold, of no group where it has no rows; None where no row was read.
    """
    if isinstance(rows, ArrayRows) and rows.is_plain:
        at_once = uncentred_groups(rows, folds, limit.max_groups)
        if at_once is not None:
            return [GroupStatistics(part, rows.n_features) for part in at_once]
    running = RunningMoments(rows.n_features, limit, 1 if folds is None else folds.n_folds)
    before = rows.first_position if isinstance(rows, KnownRows) else 0
    with threads_for(rows.n_features):
        for block in rows.blocks():
            if folds is None or block.labels is None:
                running.absorb(block)  # which says what is missing
                continue
            labels = folds.of_rows(block.labels, before + block.first_row)
            running.absorb(replace(block, labels=labels.groups), labels.folds)
        parts = running.finished()
    intake = Intake(running.n_dropped)
    if not any(parts) and not intake.n_dropped:
        return None
    # What was left out is in no fold: the first one tells of it.
    return [
        GroupStatistics(part, rows.n_features, rows.feature_names, EVERY_ROW if number else intake)
        for number, part in enumerate(parts)
    ]
