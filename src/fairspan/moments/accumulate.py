"""Moments of rows, group by group, in one pass over blocks, wherever the rows are.

With weights w, a point c near the rows and r = x - c, let W = sum w, t = sum w r and P = sum w rr'.
Then a group's mean is c + t / W, and its scatter about that is P - tt' / W. Digits are lost where
tt' / W is large beside what remains: such a group is read again, and each block is centred first.
Parts are merged by the formula of Chan, Golub and LeVeque (1979).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from array_api_compat import numpy as numpy_namespace

from fairspan.errors import InvalidInput
from fairspan.linalg import is_zero, symmetrize, unit_of
from fairspan.linalg.double_double import exact_sum
from fairspan.linalg.resources import (
    MAX_MEMORY_BOUND_FEATURES,
    map_in_threads,
    single_thread_if_small,
)
from fairspan.rows.arrays import ArrayBackend, ArrayRows, InMemoryRows, to_numpy
from fairspan.rows.groups import (
    CodedLabels,
    Folds,
    Label,
    LabelEncoder,
    is_missing_label,
    label_array,
    to_python_label,
)
from fairspan.rows.matrices import MIN_BLOCK_ROWS, DeviceLabels, DeviceRows
from fairspan.rows.protocol import DEFAULT_MAX_GROUPS, BaseRows, GroupLimit, RowBlock, RowSource
from fairspan.typing import AnyArray, FloatArray, IndexArray

# What may be subtracted, as a multiple of what remains: about two bits are lost.
_MAX_CANCELLATION = 3.0
# The first rows of a group show where its features lie.
_N_SAMPLED_ROWS = 64
# Up to so many groups their rows are looked for one group after the other, and not sorted.
_MAX_UNSORTED_CODES = 8
# A feature whose mean there is further from zero than this share of its range is brought near zero.
_MIN_SHIFT_RATIO = 0.25
# Of rows that were copied, up to this share of the features is changed in place.
_MAX_IN_PLACE_SHARE = 0.25
# Numbers of a block: it stays in cache, and new memory for it costs nothing. It has more rows where
# matrices of all groups would otherwise take longer than the rows, up to another number.
_BLOCK_ENTRIES, _MAX_BLOCK_ENTRIES = 2**17, 2**22
_ROWS_PER_FEATURE, _ROWS_PER_GROUP = 4, 512
# Numbers of a span, which one thread reads; the same whatever the number of threads.
_SPAN_ENTRIES = 2**21
# Spans whose sums are held at once, and with many groups a single one.
_MAX_HELD_SPANS, _MAX_GROUPS_IN_SPANS = 64, 24
# Weights down to this share of the largest are divided by the same unit: their products with
# squares of features, which are no smaller than 1e-150, stay normal numbers.
_ONE_UNIT = 2.0**-400
# Numbers of rows that wait, so that matrices are added up less often.
_MAX_BUFFERED_ENTRIES = 2**23

Key = TypeVar("Key", int, Label)
HOST_BACKEND = ArrayBackend(numpy_namespace, "cpu")
# Values, codes and weights of rows, as arrays of one package.
CodedBlock = tuple[Any, Any, Any | None]
# What weights are divided by: all by one power of two, or those of each code by its own.
Units = float | FloatArray
# Sums by code, rows that were dropped, and whether all numbers are finite.
SpanResult = tuple[dict[int, "RunningMoments"], int, bool]


@dataclass(frozen=True, eq=False)
class StackedMoments:
    """Moments of groups side by side, in sorted order of their labels."""

    labels: AnyArray
    counts: IndexArray
    weights: FloatArray
    means: FloatArray
    mean_corrections: FloatArray
    scatters: FloatArray


@dataclass(frozen=True)
class GroupSums:
    """Moments of each group of some rows, and what became of rows in which something is missing.

    Attributes
    ----------
    stacked : Stacked
        With folds, the last attribute of a label is the fold.
    n_dropped : int
        Rows left out since something is missing in them.
    lost_groups : frozenset of labels
        Groups of which every row was left out; none with folds.
    """

    stacked: StackedMoments
    n_dropped: int
    lost_groups: frozenset[Label]


def accumulate_rows(rows: RowSource, limit: GroupLimit, folds: Folds | None = None) -> GroupSums:
    """Moments of each group, or of each group in each fold; there may be none.

    Parameters
    ----------
    rows : RowSource
        With labels; the last column of these is the cluster if `folds` says so.
    limit : GroupLimit
        How many groups there may be.
    folds : Folds, optional

    Returns
    -------
    GroupSums

    Raises
    ------
    InvalidInput
        Whatever the source finds wrong with its rows; too many groups.
    """
    n_dropped = 0
    if folds is not None and isinstance(rows, InMemoryRows):
        # Folds are assigned to the rows that remain, as where rows are read in blocks.
        rows, n_dropped = rows.without_dropped()
    total = _Accumulator(rows, limit, folds)
    total.n_dropped = n_dropped
    # Numbers that can be read again from any place; objects are converted block by block.
    is_numeric = not isinstance(rows, ArrayRows) or rows.array.dtype.kind in "fiub"
    with np.errstate(over="ignore", invalid="ignore"):  # found when the moments are checked
        if isinstance(rows, InMemoryRows) and rows.group_labels is not None and is_numeric:
            _accumulate_in_memory(total, rows)
        else:
            with single_thread_if_small(rows.n_features):
                _accumulate_stream(total, rows)
        lost_groups = total.lost_groups  # before the sums are let go
        return GroupSums(total.stacked(), total.n_dropped, lost_groups)


class _Accumulator:
    """Moments of all groups so far; those of group g in fold f of K have the code K g + f.

    Parameters
    ----------
    rows : RowSource
    limit : GroupLimit
    folds : Folds or None

    Attributes
    ----------
    groups : set of int
        Those that rows of positive weight have, as far as their labels were read.
    n_rows, n_dropped : int
        Rows of positive weight, and those that were left out.
    """

    def __init__(self, rows: RowSource, limit: GroupLimit, folds: Folds | None) -> None:
        self.n_features, self.limit, self.folds = rows.n_features, limit, folds
        self.n_folds = 1 if folds is None else folds.n_folds
        self.coder = LabelEncoder()
        self.group_codes: set[int] = set()
        self.n_weighted_rows = self.n_dropped = 0
        self._row_offset = rows.row_offset if isinstance(rows, BaseRows) else 0
        self._sums: dict[int, RunningMoments] = {}
        self._dropped_labels: set[Label] = set()

    @property
    def lost_groups(self) -> frozenset[Label]:
        """Groups of which every row was left out since something is missing; none with folds."""
        if self.folds is not None or not self.n_dropped:
            return frozenset()
        names = self.coder.labels
        seen = {names[code] for code in self.group_codes} | self._dropped_labels
        return frozenset(seen.difference(names[code] for code in self._sums))

    def drop(self, block: RowBlock) -> None:
        """Count the rows of a block that were left out, and collect their groups."""
        self.n_dropped += block.n_dropped
        if block.dropped_rows is not None and self.folds is None:
            labels = map(to_python_label, block.dropped_rows[0].present)
            self._dropped_labels.update(label for label in labels if not is_missing_label(label))

    @property
    def n_codes(self) -> int:
        """How many codes there are so far."""
        return len(self.coder.labels) * self.n_folds

    def encode(
        self,
        labels: CodedLabels,
        first_row: int,
        weights: FloatArray | None,
        *,
        drop_incomplete: bool = False,
    ) -> IndexArray:
        """Codes of consecutive rows.

        The code is -1 without weight, and -2 without a label where it may be missing.
        """
        own = None
        if self.folds is not None:
            found = self.folds.assign(labels, first_row, self._row_offset)
            self._row_offset += len(labels)
            labels, own = found.groups, found.folds
        if drop_incomplete:
            codes, labelled = np.full(len(labels), -2), ~labels.missing_mask
            codes[labelled] = self.coder.encode(labels[labelled], first_row)
        else:
            codes = self.coder.encode(labels, first_row)
        if weights is not None:
            codes = np.where((weights == 0) & (codes >= 0), -1, codes)
        counts = np.bincount(codes + 2)[2:]
        self.group_codes.update(np.flatnonzero(counts).tolist())
        self.n_weighted_rows += int(counts.sum())
        return codes if own is None else np.where(codes < 0, codes, codes * self.n_folds + own)

    def check(self, *, so_far: bool = False) -> None:
        """Make sure that there are not too many groups, nor too large matrices."""
        if len(self.group_codes) > min(self.limit.allowed, DEFAULT_MAX_GROUPS):
            labels = self.coder.labels
            found = [labels[code] for code in self.group_codes]
            self.limit.check(found, self.n_weighted_rows, so_far=so_far)
        self.limit.check_memory(len(self.group_codes), self.n_features)

    def add(self, sums: "dict[int, RunningMoments]", n_dropped: int, units: "Units") -> None:
        """Add the moments of some rows, whose weights were divided by units."""
        self.n_dropped += n_dropped
        for code, more in sums.items():
            unit = units if isinstance(units, float) else float(units[code])
            merge_into(self._sums, code, more if unit == 1 else more.multiplied_by(unit))

    def stacked(self) -> StackedMoments:
        """All moments."""
        names, by_label = self.coder.labels, {}
        for code, sums in self._sums.items():
            label = names[code // self.n_folds]
            if self.folds is not None:
                label = (*(label if isinstance(label, tuple) else (label,)), code % self.n_folds)
            by_label[label] = sums
        return stack_by_label(by_label, self.n_features)


def _accumulate_in_memory(total: _Accumulator, rows: Any) -> None:
    n, p = rows.n_rows, rows.n_features
    # Spans are read side by side; products of many features use the threads themselves.
    is_single_span = p > MAX_MEMORY_BOUND_FEATURES or isinstance(rows, DeviceRows)
    size = n if is_single_span else max(_SPAN_ENTRIES // p, 1) * total.n_folds
    cuts = list(pairwise([*range(0, max(n - size // 2, 1), size), n]))
    try:
        place, blocks, units = _block_reader(total, rows)
        n_parallel = _MAX_HELD_SPANS if total.n_codes <= _MAX_GROUPS_IN_SPANS else 1
        # A single small span is done before a second thread is awake.
        with single_thread_if_small(p) if len(cuts) == 1 else nullcontext():
            spans = (
                span
                for first in range(0, len(cuts), n_parallel)
                for span in map_in_threads(
                    lambda cut: _sum_by_code(place, partial(blocks, *cut), total.n_codes),
                    cuts[first : first + n_parallel],
                )
            )
            for sums, n_dropped, is_finite in spans:
                total.add(sums, n_dropped, units)
                if not is_finite:
                    _raise_first_error(total, rows)
    except InvalidInput:
        _raise_first_error(total, rows)
        raise


def _raise_first_error(total: _Accumulator, rows: RowSource) -> None:
    """Read rows in their order, which raises at the first that is wrong."""
    checker = _Accumulator(rows, total.limit, total.folds)
    for block in rows.blocks():
        assert block.group_labels is not None
        checker.encode(block.group_labels, block.first_row, None)


def _units_of(weights: FloatArray, codes: IndexArray, n_codes: int) -> Units:
    """Return what weights are divided by: one unit, or one of each code where they differ much."""
    unit = unit_of(weights)
    least = unit * _ONE_UNIT
    if weights.min(initial=np.inf) >= least or not ((weights > 0) & (weights < least)).any():
        return unit
    counted = codes >= 0
    largest = np.zeros(n_codes)
    np.maximum.at(largest, codes[counted], weights[counted])
    units = np.ldexp(1.0, np.frexp(largest)[1] - 1)
    return np.where(largest > 0, units, 1.0)


def _divided(weights: FloatArray, units: Units, codes: IndexArray) -> FloatArray:
    """Return weights in their units; those of no code do not matter."""
    return weights / (units if isinstance(units, float) else units[codes])


def _block_reader(
    total: _Accumulator, rows: Any
) -> tuple[ArrayBackend, Callable[[int, int], Iterator[CodedBlock]], Units]:
    """What reads consecutive rows with their codes, where there are not too many groups."""
    units: Units = 1.0
    device = rows if isinstance(rows, DeviceRows) else None
    place, p = HOST_BACKEND if device is None else device.backend, rows.n_features
    xp, drop_incomplete, weights = place.xp, rows.on_missing == "drop", rows.weights
    is_unweighted = weights is None and total.folds is None and not drop_incomplete
    if is_unweighted and isinstance(rows.group_labels, DeviceLabels):
        labels = CodedLabels(
            rows.group_labels.categories, np.arange(len(rows.group_labels.categories))
        )
        codes = xp.take(
            place.to_device(total.encode(labels, 0, None)), rows.group_labels.device_codes
        )
        total.n_weighted_rows = rows.n_rows
    else:
        here = total.encode(rows.group_labels, 0, weights, drop_incomplete=drop_incomplete)
        codes = place.to_device(here)
        if weights is not None:
            units = _units_of(weights, here, total.n_codes)
            weights = place.to_device(_divided(weights, units, here))
    total.check()
    size = _rows_per_block(p, len(total.group_codes) * total.n_folds)
    if device is not None:
        size = max(device.block_entries // p, MIN_BLOCK_ROWS)

    def blocks(start: int, stop: int) -> Iterator[CodedBlock]:
        for first in range(start, stop, size):
            part = slice(first, min(first + size, stop))
            if device is None:
                values = rows.read_slice(first, part.stop).astype(np.float64, copy=False)
            else:
                values = place.float64(device.array[part, :])
            own = codes[part]
            if drop_incomplete:
                own = xp.where(xp.any(xp.isnan(values), axis=1), xp.full_like(own, -2), own)
            yield values, own, None if weights is None else weights[part]

    return place, blocks, units


def _rows_per_block(n_features: int, n_codes: int) -> int:
    most = max(_MAX_BLOCK_ENTRIES // n_features, MIN_BLOCK_ROWS)
    wanted = max(_ROWS_PER_FEATURE * n_features, _ROWS_PER_GROUP) * max(n_codes, 2)
    return max(_BLOCK_ENTRIES // n_features, min(wanted, most), MIN_BLOCK_ROWS)


def _accumulate_stream(total: _Accumulator, rows: RowSource) -> None:
    """Add rows that can be read only once; some wait, so that matrices are added up less often."""
    buffer: list[CodedBlock] = []
    n_buffered, p = 0, rows.n_features
    for block in rows.blocks():
        if block.group_labels is None:
            raise InvalidInput(
                "The rows carry no group labels", "Allowed: a label for each row", "Name a group"
            )
        total.drop(block)
        codes = total.encode(block.group_labels, block.first_row, block.weights)
        n_buffered += block.values.size
        total.check(so_far=True)
        if n_buffered < min(_rows_per_block(p, total.n_codes) * p, _MAX_BUFFERED_ENTRIES):
            # A copy, as the source may write the next block to the same memory.
            buffer.append((block.values.copy(), codes, block.weights))
        else:
            blocks = [*buffer, (block.values, codes, block.weights)]
            _add_read(total, blocks)
            buffer, n_buffered = [], 0
    if buffer:
        _add_read(total, buffer)


def _add_read(total: _Accumulator, blocks: list[CodedBlock]) -> None:
    """Add blocks that are in memory."""
    units: Units = 1.0
    weighted = [(codes, weights) for _, codes, weights in blocks if weights is not None]
    if weighted:
        all_codes = np.concatenate([weights for _, weights in weighted])
        units = _units_of(
            all_codes, np.concatenate([codes for codes, _ in weighted]), total.n_codes
        )
        blocks = [
            (values, codes, None if weights is None else _divided(weights, units, codes))
            for values, codes, weights in blocks
        ]
    sums, n_dropped, _ = _sum_by_code(HOST_BACKEND, blocks.copy, total.n_codes)
    total.add(sums, n_dropped, units)


@dataclass(eq=False)
class RunningMoments:
    """Moments of one group in one fold: its mean is base + offset.

    The base is one of the rows, or near them. So the offset keeps the digits that the mean of rows
    far from zero has no room for, and parts of a group are merged without losing any.
    """

    shift: FloatArray
    count: int = 0
    weight: Any = 0.0
    mean_offset: Any = 0.0
    scatter: Any = 0.0

    def multiplied_by(self, unit: float) -> "RunningMoments":
        """Return the sums for weights that are so many times as large."""
        return replace(self, weight=self.weight * unit, scatter=self.scatter * unit)

    def merge(self, other: "RunningMoments") -> None:
        """Merge another part of the same group."""
        total = self.weight + other.weight
        delta = (other.shift - self.shift) + (other.mean_offset - self.mean_offset)
        self.scatter += other.scatter
        # Not as products of roots, which would round weights and twice the weights differently.
        self.scatter += np.outer(delta, delta) * (self.weight * (other.weight / total))
        self.mean_offset = self.mean_offset + (other.weight / total) * delta
        is_known = self.count and other.count  # 0 where rows were not counted
        self.count, self.weight = self.count + other.count if is_known else 0, total


def merge_into(sums: dict[Key, RunningMoments], key: Key, more: RunningMoments) -> None:
    """Add moments to those of the same key."""
    if (own := sums.setdefault(key, more)) is not more:
        own.merge(more)


def stack_by_label(sums: dict[Label, RunningMoments], n_features: int) -> StackedMoments:
    """Labels in sorted order, and their moments side by side; what was summed is let go."""
    labels, k, p = sorted(sums), len(sums), n_features
    counts = np.array([sums[label].count for label in labels], dtype=np.int64)
    weights = np.array([sums[label].weight for label in labels], dtype=np.float64)
    means, corrections = np.empty((2, k, p))
    for group, label in enumerate(labels):
        means[group], corrections[group] = exact_sum(sums[label].shift, sums[label].mean_offset)
    scatters = np.empty((k, p, p))
    for group, label in enumerate(labels):  # one by one, so that no two copies of all are held
        scatters[group] = sums.pop(label).scatter
    return StackedMoments(label_array(labels), counts, weights, means, corrections, scatters)


def _sum_by_code(
    place: ArrayBackend, blocks: Callable[[], Iterable[CodedBlock]], n_codes: int
) -> SpanResult:
    """Moments of each code's rows, which can be read twice.

    Parameters
    ----------
    place : Place
        Of their arrays.
    blocks : callable
        Reads them: values in float64, codes (-1 without weight, -2 where something is missing), and
        weights or None.
    n_codes : int
    """
    xp, found, n_dropped = place.xp, dict[int, RunningMoments](), 0
    zero_weight_sum: Any = 0.0
    inaccurate: set[int] = set()
    with np.errstate(over="ignore", invalid="ignore"):
        for code, rows, weights, is_copy in _rows_by_code(place, blocks(), n_codes):
            if code >= 0:
                sums = found.get(code) or found.setdefault(
                    code, RunningMoments(_choose_shift(rows))
                )
                own = _subtract_shift(place, rows, sums.shift, is_copy=is_copy)
                half = own if weights is None else own * xp.sqrt(weights)[:, None]
                ones = _unit_weights(place, own) if weights is None else weights
                sums.count += own.shape[0]
                sums.weight = sums.weight + (own.shape[0] if weights is None else xp.sum(weights))
                sums.mean_offset = sums.mean_offset + ones @ own
                if _varies(half):
                    sums.scatter = sums.scatter + half.T @ half
            elif code == -1:
                zero_weight_sum = zero_weight_sum + xp.sum(rows)
            else:
                n_dropped += rows.shape[0]
        for code, sums in found.items():
            total = to_numpy(sums.mean_offset)
            products = to_numpy(sums.scatter)
            if not products.shape:
                products = np.zeros((len(total), len(total)))
            sums.weight = float(sums.weight)
            sums.mean_offset = total / sums.weight
            sums.scatter = symmetrize(products - np.outer(total, sums.mean_offset))
            subtracted = np.diagonal(products) > _MAX_CANCELLATION * np.diagonal(sums.scatter)
            if subtracted.any():
                inaccurate.add(code)
        for code in inaccurate:
            del found[code]
        for code, rows, weights, _ in _rows_by_code(place, blocks(), n_codes) if inaccurate else ():
            if code in inaccurate:
                merge_into(found, code, _two_pass_moments(place, rows, weights))
        is_finite = np.isfinite(float(zero_weight_sum)) and all(
            np.isfinite(np.diagonal(sums.scatter)).all() for sums in found.values()
        )
    return found, n_dropped, bool(is_finite)


def _two_pass_moments(place: ArrayBackend, rows: Any, weights: Any) -> RunningMoments:
    """Moments of rows about their own mean, which is subtracted first, twice as it is rounded."""
    weights = _unit_weights(place, rows) if weights is None else weights
    weight, n = float(place.xp.sum(weights)), rows.shape[0]
    sample = to_numpy(rows[: min(_N_SAMPLED_ROWS, n), :])
    base = _nearest_values(sample, to_numpy(weights @ rows) / weight)
    rows = rows - place.to_device(base)
    offset = weights @ rows / weight
    rows = rows - offset
    correction = to_numpy(weights @ rows) / weight
    rows = rows * place.xp.sqrt(weights)[:, None]
    scatter = symmetrize(to_numpy(rows.T @ rows)) - weight * np.outer(correction, correction)
    return RunningMoments(base, n, weight, to_numpy(offset) + correction, scatter)


def _rows_by_code(
    place: ArrayBackend, blocks: Iterable[CodedBlock], n_codes: int
) -> Iterator[tuple[int, Any, Any, bool]]:
    """Rows and weights of each code in each block, and whether the rows are a copy."""
    xp = place.xp
    for values, codes, weights in blocks:
        if not codes.shape[0]:
            continue
        all_codes = range(int(xp.min(codes)), n_codes)
        if len(all_codes) <= _MAX_UNSORTED_CODES:
            indices_by_code = [xp.nonzero(codes == code)[0] for code in all_codes]
        else:
            # Bytes are sorted by counting, not by comparing.
            keys = xp.astype(codes + 2, xp.uint8) if n_codes + 2 <= 256 else codes
            order = xp.argsort(keys, stable=True)
            ends = np.append(np.asarray(all_codes), n_codes)
            starts = to_numpy(
                xp.searchsorted(xp.take(codes, order), place.to_device(ends))
            ).tolist()
            indices_by_code = [order[start:stop] for start, stop in pairwise(starts)]
        for code, index in zip(all_codes, indices_by_code, strict=True):
            if index.shape[0] == codes.shape[0]:
                yield code, values, weights, False
            elif index.shape[0]:
                own = None if weights is None else xp.take(weights, index)
                yield code, _take_rows(xp, values, index), own, True


def _varies(rows: Any) -> bool:
    """Return whether products of the rows are anything but zeros, where that shows at once."""
    return not isinstance(rows, np.ndarray) or not is_zero(rows)


def _subtract_shift(place: ArrayBackend, rows: Any, base: FloatArray, *, is_copy: bool) -> Any:
    """The rows minus a point, which is zero in all features but those that are far from it."""
    shifted_features = np.flatnonzero(base)
    if (
        is_copy
        and isinstance(rows, np.ndarray)
        and len(shifted_features) <= _MAX_IN_PLACE_SHARE * rows.shape[1]
    ):
        for feature in shifted_features.tolist():
            rows[:, feature] -= base[feature]
        return rows
    return rows - place.to_device(base) if len(shifted_features) else rows


def _unit_weights(place: ArrayBackend, rows: Any) -> Any:
    return place.xp.ones(rows.shape[0], dtype=place.xp.float64, device=place.device)


def _choose_shift(rows: Any) -> FloatArray:
    """A point near the first of these rows: zero where they are near zero."""
    sample = to_numpy(rows[: min(_N_SAMPLED_ROWS, rows.shape[0]), :])
    mean, point = sample.mean(axis=0), np.zeros(sample.shape[1])
    shifted_features = np.flatnonzero(
        np.abs(mean) > _MIN_SHIFT_RATIO * (sample.max(axis=0) - sample.min(axis=0))
    )
    point[shifted_features] = _nearest_values(sample[:, shifted_features], mean[shifted_features])
    return point


def _nearest_values(rows: FloatArray, point: FloatArray) -> FloatArray:
    """One of each feature's values, so that a constant feature minus this is exactly zero."""
    nearest = np.abs(rows - point).argmin(axis=0)
    return np.asarray(rows[nearest, np.arange(len(point))])


def _take_rows(xp: Any, values: Any, index: Any) -> Any:
    """Some rows, in the order of memory that they have, which is many times faster."""
    if isinstance(values, np.ndarray) and values.strides[0] == values.itemsize < values.strides[1]:
        return xp.take(values.T, index, axis=1).T
    return xp.take(values, index, axis=0)
