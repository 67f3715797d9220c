"""One pass over blocks of rows that sums the moments of each group, in float64."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.moments.device.kernels import device_statistics
from fairspan.moments.group_statistics import EVERY_ROW, GroupStatistics, Intake, OneGroup
from fairspan.moments.held_rows.sparse_group import sparse_groups
from fairspan.moments.running_group import RunningGroup
from fairspan.moments.stored import from_bytes, to_bytes
from fairspan.moments.uncentred import uncentred_groups
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.device.arrays import DeviceRows
from fairspan.rows.engines import folded
from fairspan.rows.group_limit import USUAL_LIMIT, GroupLimit
from fairspan.rows.groups import Codes, LabelCoder
from fairspan.rows.protocol import RowBlock, Rows, RowSource
from fairspan.rows.sampling import SampledRows
from fairspan.rows.sparse import SparseRows
from fairspan.typing import FloatArray, IntegerArray

# Where more of the cells are stored, blocks with all their zeros are multiplied faster.
_SPARSE_UP_TO = 1 / 12


def statistics_of(
    rows: Rows, limit: GroupLimit = USUAL_LIMIT, onto: GroupStatistics | None = None
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

    Raises
    ------
    InvalidInput
        Whatever the source finds wrong with its rows; no rows at all; too many groups; numbers
        whose squares overflow.
    """
    limit = limit.over(rows)
    if onto is not None:
        limit = limit.of_part
    fold = MomentsFold(limit)
    found = folded(rows, fold)
    if found is None or not found.groups:
        raise no_rows(EVERY_ROW if found is None else found.intake)
    if onto is not None:
        found = fold.merged(onto, found)
    limit.of_all.check(len(found.groups), found.n_rows, found.n_features)
    return found


def no_rows(intake: Intake) -> InvalidInput:
    """What to raise where no row is left, or none that counts."""
    left_out = f" ({intake})" if str(intake) else ""
    return InvalidInput(
        f"There are no rows{left_out}",
        "Allowed is at least one row of a weight above zero",
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

    limit: GroupLimit = USUAL_LIMIT.of_part

    def over(self, rows: RowSource) -> GroupStatistics | None:
        """Moments of some rows; None if there are none."""
        if isinstance(rows, DeviceRows):
            return device_statistics(rows, self.limit)
        if isinstance(rows, SparseRows) and rows.density <= _SPARSE_UP_TO:
            groups, intake = sparse_groups(rows, self.limit)
            return _unless_empty([group.scattered() for group in groups], rows, intake)
        if isinstance(rows, ArrayRows) and rows.is_plain:
            at_once = _at_once(rows, self.limit)
            if at_once is not None:
                return GroupStatistics(at_once, rows.n_features)
        running = RunningMoments(rows.n_features, self.limit)
        for block in rows.blocks():
            running.absorb(block)
        intake = Intake(running.n_dropped)
        if isinstance(rows, SampledRows):
            intake = Intake(rows.n_dropped, rows.drawn_from)
        return _unless_empty(running.finished(), rows, intake)

    def merged(self, left: GroupStatistics, right: GroupStatistics) -> GroupStatistics:
        """Moments of both parts."""
        n_groups = len({*left.labels, *right.labels})
        self.limit.check(n_groups, left.n_rows + right.n_rows, left.n_features)
        return left + right

    def to_bytes(self, result: GroupStatistics) -> bytes:
        """Moments as bytes."""
        return to_bytes(result)

    def from_bytes(self, contents: bytes) -> GroupStatistics:
        """The moments again."""
        return from_bytes(contents)


def _unless_empty(
    groups: list[OneGroup], rows: RowSource, intake: Intake
) -> GroupStatistics | None:
    """The statistics; None where no row was read, of no group where all of them were left out."""
    if not groups and not intake.n_dropped:
        return None
    return GroupStatistics(groups, rows.n_features, rows.feature_names, intake)


def _at_once(rows: ArrayRows, limit: GroupLimit) -> list[OneGroup] | None:
    """Moments at the speed of one matrix product; None where rows must be looked at in order.

    That finds the first mistake, whether in a label or in a number.
    """
    try:
        groups = uncentred_groups(rows, limit.max_groups)
    except InvalidInput:
        return None
    if groups is None:
        return None
    finite = all(np.isfinite(np.diagonal(group.scatter)).all() for group in groups)
    return groups if finite else None


class RunningMoments:
    """Moments of all groups so far.

    Rows wait while they have too many groups, so that no matrix is made of what may be an
    identifier. They take less room than the matrices of their groups would, as a rule.

    Parameters
    ----------
    n_features : int
    limit : GroupLimit

    Attributes
    ----------
    n_dropped : int
        Rows left out so far since something is missing in them.
    """

    def __init__(self, n_features: int, limit: GroupLimit = USUAL_LIMIT) -> None:
        self.n_dropped = 0
        self._n_features = n_features
        self._limit = limit
        self._coder = LabelCoder()
        self._groups: dict[int, RunningGroup] = {}
        self._counts: IntegerArray = np.zeros(0, dtype=np.int64)
        self._waiting: list[_SortedRows] = []

    def absorb(self, block: RowBlock) -> None:
        """Add a block of rows."""
        values, weights = block.values, block.weights
        self.n_dropped += block.n_dropped
        if block.labels is None:
            raise InvalidInput(
                "The rows carry no group labels", "Allowed is a label for each row", "Name a group"
            )
        codes = self._coder.encode(block.labels, block.first_row)
        if weights is not None and not weights.all():
            present = weights > 0
            values, weights, codes = values[present], weights[present], codes[present]
        rows = _SortedRows.of(values, weights, codes)
        self._counts = _sum(self._counts, rows.sizes)
        self._waiting.append(rows)
        n_waiting = sum(each.rows.size for each in self._waiting)
        self._limit.check_waiting(self._n_groups, self._n_rows, n_waiting)
        if not self._limit.waits(self._n_groups, self._n_rows):
            self._end_waiting()

    @property
    def _n_groups(self) -> int:
        return int(np.count_nonzero(self._counts))

    @property
    def _n_rows(self) -> int:
        return int(self._counts.sum())

    def _end_waiting(self) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # found when the groups are put together
            for each in self._waiting:
                for code, rows, weights in each.by_group():
                    if code not in self._groups:
                        self._groups[code] = RunningGroup(self._n_features)
                    self._groups[code].absorb(rows, weights)
        self._waiting.clear()

    def finished(self) -> list[OneGroup]:
        """The moments of each group that has rows.

        Raises
        ------
        InvalidInput
            Too many groups.
        """
        self._limit.check(self._n_groups, self._n_rows, self._n_features)
        self._end_waiting()
        labels = self._coder.labels
        return [group.finished(labels[code]) for code, group in self._groups.items()]


@dataclass(frozen=True, eq=False)
class _SortedRows:
    """A copy of some rows, those of one group side by side.

    Attributes
    ----------
    rows : (r, p) array
    weights : (r,) array or None
    sizes : (k,) array of int
        Rows of each group, by code.
    """

    rows: FloatArray
    weights: FloatArray | None
    sizes: IntegerArray

    @classmethod
    def of(cls, values: FloatArray, weights: FloatArray | None, codes: Codes) -> "_SortedRows":
        """Sort rows by their codes."""
        sizes = np.bincount(codes)
        # Bytes are sorted by counting, not by comparing.
        order = np.argsort(codes.astype(np.uint8) if len(sizes) <= 256 else codes, kind="stable")
        weights = None if weights is None else weights[order]
        return cls(np.take(values, order, axis=0), weights, sizes)

    def by_group(self) -> Iterator[tuple[int, FloatArray, FloatArray | None]]:
        """Code, rows and weights of each group that occurs."""
        ends = np.cumsum(self.sizes)
        for code in np.flatnonzero(self.sizes).tolist():
            own = slice(ends[code] - self.sizes[code], ends[code])
            yield code, self.rows[own], None if self.weights is None else self.weights[own]


def _sum(left: IntegerArray, right: IntegerArray) -> IntegerArray:
    """The sum of counts by code, of which the second may know more codes, or fewer."""
    total = np.zeros(max(len(left), len(right)), dtype=np.int64)
    total[: len(left)] += left
    total[: len(right)] += right
    return total
