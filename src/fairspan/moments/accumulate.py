"""Accumulate the moments of each group in one pass over blocks, on the host or a device.

With weights w, a shift c near the rows and r = x - c, let W = sum w, t = sum w r and P = sum w rr'.
Then a group's mean is c + t / W, and its scatter about that is P - tt' / W. Cancellation occurs if
tt' / W is large compared to the result; such a group is read again with each block centered first
(two-pass algorithm). Parts are merged with the formula of Chan, Golub and LeVeque (1979).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import numpy as numpy_namespace

from fairspan.errors import InvalidInput
from fairspan.linalg import is_zero, power_of_two_unit, symmetrize
from fairspan.linalg.threads import (
    MAX_MEMORY_BOUND_FEATURES,
    map_in_threads,
    single_thread_if_small,
)
from fairspan.moments.base_moments import no_group_labels_error
from fairspan.moments.running_moments import (
    RunningMoments,
    StackedMoments,
    merge_into,
    stack_by_label,
)
from fairspan.rows.array_backend import ArrayBackend, to_numpy
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.blocks import RowBlock, select_rows
from fairspan.rows.coded_labels import CodedLabels, LabelEncoder
from fairspan.rows.devices import MIN_BLOCK_ROWS, DeviceLabels, DeviceRows
from fairspan.rows.folds import Folds
from fairspan.rows.group_limit import DEFAULT_MAX_GROUPS, GroupLimit
from fairspan.rows.in_memory import InMemoryRows
from fairspan.rows.labels import Label, is_missing_label, to_python_label, without_last_attribute
from fairspan.rows.protocol import RowSource, row_metadata
from fairspan.typing import FloatArray, IndexArray, RawLabel

# Largest accepted ratio of products to scatter: about two bits of cancellation.
_MAX_CANCELLATION = 3.0
# Number of leading rows of a group from which its shift is chosen.
_N_SAMPLED_ROWS = 64
# Up to this many codes, select rows code by code instead of sorting.
_MAX_UNSORTED_CODES = 8
# Shift a feature if its sample mean exceeds this ratio of its sample range, which is about five
# standard deviations: well before products cancel, at a mean of 1.4 standard deviations, although
# mean and range of the sample vary.
_MIN_SHIFT_RATIO = 0.15
# In copied rows, shift feature by feature if at most this share of the features is shifted.
_MAX_SHARE_BY_FEATURE = 0.25
# Entries of a block, which then fits into the cache ...
_BLOCK_ENTRIES = 2**17
# ... and more, up to this number, if updating the matrices of all groups would otherwise take
# longer than reading the rows.
_MAX_BLOCK_ENTRIES = 2**22
# Rows of a block, per group, for which updating the matrices does not dominate: this many per
# feature, but at least the second number.
_ROWS_PER_FEATURE = 4
_ROWS_PER_GROUP = 512
# Entries of a span, the unit of work of a thread; independent of the number of threads, so that
# results are reproducible.
_SPAN_ENTRIES = 2**21
# Largest number of spans whose sums are held at the same time ...
_MAX_HELD_SPANS = 64
# ... which is one with more groups than this, as each span holds a matrix per group.
_MAX_GROUPS_IN_SPANS = 24
# Weights down to this share of the largest are divided by the same unit: their products with
# squares of features, which are no smaller than 1e-150, stay normal numbers.
_MIN_SHARED_UNIT_RATIO = 2.0**-400
# Largest number of entries buffered from a stream, so that matrices are updated less often.
_MAX_BUFFERED_ENTRIES = 2**23

# Codes of rows that enter no moments: those of zero weight, and incomplete ones.
_ZERO_WEIGHT_CODE = -1
_INCOMPLETE_CODE = -2

HOST_BACKEND = ArrayBackend(numpy_namespace, "cpu")
# Divisors of weights: one power of two for all, or one for each code.
Units = float | FloatArray


class CodedBlock(NamedTuple):
    """Consecutive rows as arrays of one package.

    Attributes
    ----------
    values : (r, p) array
    codes : (r,) array of int
        Code of each row: of its group, or of its group and fold. Negative codes mark rows of zero
        weight (`_ZERO_WEIGHT_CODE`) and incomplete rows (`_INCOMPLETE_CODE`).
    weights : (r,) array or None
    """

    values: Any
    codes: Any
    weights: Any | None


class _CodeRows(NamedTuple):
    """Rows of a block that have the same code.

    Attributes
    ----------
    code : int
    rows : (r, p) array
    weights : (r,) array or None
    is_copy : bool
        Whether the rows may be modified; otherwise they are those of the block.
    """

    code: int
    rows: Any
    weights: Any | None
    is_copy: bool


class SpanResult(NamedTuple):
    """Moments of a span, or of several blocks.

    Attributes
    ----------
    sums : dict of int to RunningMoments
        Moments by code.
    n_dropped : int
        Number of incomplete rows.
    is_finite : bool
        Whether all values are finite.
    """

    sums: "dict[int, RunningMoments]"
    n_dropped: int
    is_finite: bool


@dataclass(frozen=True)
class GroupSums:
    """Moments of each group of some rows, and a summary of dropped rows.

    Attributes
    ----------
    by_fold : tuple of StackedMoments
        Moments of each group in each fold; without folds, in all rows. Groups of rows with classes
        are pairs of group and class.
    n_dropped : int
        Number of rows dropped because of missing values.
    lost_groups : frozenset of labels
        Groups of which every row was dropped; none with folds.
    """

    by_fold: tuple[StackedMoments, ...]
    n_dropped: int
    lost_groups: frozenset[Label]


def accumulate_rows(rows: RowSource, limit: GroupLimit, folds: Folds | None = None) -> GroupSums:
    """Accumulate the moments of each group, or of each group in each fold.

    Without rows of positive weight, the result has no groups.

    Parameters
    ----------
    rows : RowSource
        Rows with groups. Classes are crossed with them, and folds are by cluster if there are any.
    limit : GroupLimit
        Maximum number of groups, and memory.
    folds : Folds, optional

    Returns
    -------
    GroupSums

    Raises
    ------
    InvalidInput
        Invalid rows, or too many groups.
    """
    accumulator = _Accumulator(rows, limit, folds)
    # Numeric arrays allow random access; object arrays are converted block by block.
    is_numeric = not isinstance(rows, ArrayRows) or rows.array.dtype.kind in "fiub"
    with np.errstate(over="ignore", invalid="ignore"):  # detected when the moments are checked
        if isinstance(rows, InMemoryRows) and rows.groups is not None and is_numeric:
            _accumulate_in_memory(accumulator, rows)
        else:
            # Products of few features are limited by memory, and faster with one BLAS thread.
            with single_thread_if_small(rows.n_features):
                _accumulate_stream(accumulator, rows)
        lost_groups = accumulator.lost_groups  # before the sums are consumed
        return GroupSums(accumulator.stack_by_fold(), accumulator.n_dropped, lost_groups)


class _Accumulator:
    """Accumulator of group moments; group g in fold f of K has the code K g + f.

    Parameters
    ----------
    rows : RowSource
    limit : GroupLimit
    folds : Folds or None

    Attributes
    ----------
    encoder : LabelEncoder
        Numbers the groups g in the order in which they are first read.
    group_codes : set of int
        Numbers g of the groups with rows of positive weight, as far as read.
    n_weighted_rows, n_dropped : int
        Number of rows with positive weight, and of dropped rows.
    """

    def __init__(self, rows: RowSource, limit: GroupLimit, folds: Folds | None) -> None:
        """Start without moments; no row is read yet."""
        self.n_features = rows.n_features
        self.limit = limit
        self.folds = folds
        self.n_folds = 1 if folds is None else folds.n_folds
        # Numbers the groups, in the order in which they are first read.
        self.encoder = LabelEncoder()
        # Numbers of the groups that have rows of positive weight.
        self.group_codes: set[int] = set()
        self.n_weighted_rows = 0
        self.n_dropped = 0
        info = row_metadata(rows)
        self._has_classes = info.has_classes
        # If the rows are a partition of a table: number of rows in earlier partitions. The position
        # of a row in the whole table determines its fold.
        self._row_offset = info.row_offset
        # Moments by code: one code per group, or per group and fold.
        self._sums: dict[int, RunningMoments] = {}
        # Groups of dropped rows, to find those of which no other row is left.
        self._dropped_labels: set[Label] = set()

    @property
    def lost_groups(self) -> frozenset[Label]:
        """Groups of which every row was dropped because of missing values; none with folds."""
        if self.folds is not None or not self.n_dropped:
            return frozenset()
        seen = self._groups_of(self.group_codes) | self._dropped_labels
        return frozenset(seen - self._groups_of(self._sums))

    def _groups_of(self, codes: Iterable[int]) -> set[Label]:
        """Return the groups with these codes, without their classes."""
        labels = [self.encoder.labels[code] for code in codes]
        return set(map(without_last_attribute, labels) if self._has_classes else labels)

    def record_dropped_rows(self, block: RowBlock) -> None:
        """Count the dropped rows of a block, and collect their groups."""
        self.n_dropped += block.n_dropped
        if block.dropped_rows is not None and self.folds is None:
            labels = map(to_python_label, block.dropped_rows.groups.present)
            self._dropped_labels.update(label for label in labels if not is_missing_label(label))

    @property
    def n_codes(self) -> int:
        """Number of codes so far."""
        return len(self.encoder.labels) * self.n_folds

    def encode(self, rows: RowBlock | InMemoryRows, *, drop_incomplete: bool = False) -> IndexArray:
        """Return the codes of consecutive rows, and count their groups and rows.

        Codes are those of :class:`CodedBlock`. If `drop_incomplete`, a row without a label counts
        as incomplete.
        """
        groups = rows.finest_groups
        assert groups is not None
        if drop_incomplete:
            is_labeled = ~rows.missing_label_mask
            codes = np.full(len(groups), _INCOMPLETE_CODE)
            codes[is_labeled] = self.encoder.encode(groups[is_labeled], rows.first_row)
        else:
            codes = self.encoder.encode(groups, rows.first_row)
        if rows.weights is not None:
            codes = np.where((rows.weights == 0) & (codes >= 0), _ZERO_WEIGHT_CODE, codes)
        # Codes from the smallest one on, of which the negative ones are left out.
        counts = np.bincount(codes - _INCOMPLETE_CODE)[-_INCOMPLETE_CODE:]
        self.group_codes.update(np.flatnonzero(counts).tolist())
        self.n_weighted_rows += int(counts.sum())
        if self.folds is None:
            return codes
        # Rows to drop may lack a cluster; every other row needs one.
        labeled = np.flatnonzero(codes != _INCOMPLETE_CODE)
        clusters = select_rows(rows.clusters, labeled)
        folds = np.zeros(len(codes), dtype=np.intp)
        folds[labeled] = self.folds.assign(rows.positions[labeled], clusters, self._row_offset)
        return np.where(codes < 0, codes, codes * self.n_folds + folds)

    def encode_categories(self, categories: Sequence[RawLabel]) -> IndexArray:
        """Return the code of each category, all of which count as groups with rows."""
        labels = CodedLabels(categories, np.arange(len(categories)))
        codes = self.encoder.encode(labels)
        self.group_codes.update(codes.tolist())
        return codes

    def check(self, *, is_partial: bool = False) -> None:
        """Check the number of groups and the memory for their matrices.

        `is_partial` says that more rows follow, for the error message.
        """
        if len(self.group_codes) > min(self.limit.allowed, DEFAULT_MAX_GROUPS):
            labels = self.encoder.labels
            groups = [labels[code] for code in self.group_codes]
            check = self.limit.check_pairs if self._has_classes else self.limit.check
            check(groups, self.n_weighted_rows, is_partial=is_partial)
        self.limit.check_memory(len(self.group_codes), self.n_features)

    def add(self, sums: "dict[int, RunningMoments]", n_dropped: int, units: "Units") -> None:
        """Merge the moments of further rows, whose weights were divided by `units`."""
        self.n_dropped += n_dropped
        for code, moments in sums.items():
            unit = units if isinstance(units, float) else float(units[code])
            scaled = moments if unit == 1 else moments.multiply_weights(unit)
            merge_into(self._sums, code, scaled)

    def stack_by_fold(self) -> tuple[StackedMoments, ...]:
        """Stack the moments of all groups in each fold, consuming them."""
        by_fold: list[dict[Label, RunningMoments]] = [{} for _ in range(self.n_folds)]
        for code, sums in self._sums.items():
            group, fold = divmod(code, self.n_folds)
            by_fold[fold][self.encoder.labels[group]] = sums
        return tuple(stack_by_label(by_label, self.n_features) for by_label in by_fold)


def _accumulate_in_memory(accumulator: _Accumulator, rows: Any) -> None:
    """Accumulate rows that can be read again from any position.

    They are split into spans of consecutive rows, which are summed in parallel threads and added to
    the accumulator in order.
    """
    spans = _plan_spans(rows, accumulator.n_folds)
    # Spans run in parallel, so the first error need not be that of the first invalid row: on any
    # error the rows are read again in order.
    try:
        reader = _BlockReader(accumulator, rows)
        n_codes = accumulator.n_codes

        def sum_span(span: tuple[int, int]) -> SpanResult:
            return _sum_by_code(reader.backend, partial(reader.read, *span), n_codes)

        # A span has a matrix for each code. With many codes, one span at a time saves memory.
        n_parallel = _MAX_HELD_SPANS if n_codes <= _MAX_GROUPS_IN_SPANS else 1
        # A single small span finishes before a second thread would start.
        with single_thread_if_small(rows.n_features) if len(spans) == 1 else nullcontext():
            for first in range(0, len(spans), n_parallel):
                for result in map_in_threads(sum_span, spans[first : first + n_parallel]):
                    accumulator.add(result.sums, result.n_dropped, reader.units)
                    if not result.is_finite:  # some row has NaN or infinity
                        _raise_first_error(accumulator, rows)
    except InvalidInput:
        _raise_first_error(accumulator, rows)
        raise


def _plan_spans(rows: Any, n_folds: int) -> list[tuple[int, int]]:
    """Split the rows into spans, each from a first row up to but not including another.

    The last span may be longer than the others by half.
    """
    n = rows.n_rows
    # Spans run in parallel threads; with many features BLAS is multithreaded instead. With folds a
    # span has as many rows of each code as without.
    if rows.n_features > MAX_MEMORY_BOUND_FEATURES or isinstance(rows, DeviceRows):
        size = n
    else:
        size = max(_SPAN_ENTRIES // rows.n_features, 1) * n_folds
    # A remainder of at most half a span belongs to the span before it.
    starts = range(0, max(n - size // 2, 1), size)
    return list(pairwise([*starts, n]))


def _raise_first_error(accumulator: _Accumulator, rows: RowSource) -> None:
    """Read the rows again in order, to raise the error of the first invalid one."""
    checker = _Accumulator(rows, accumulator.limit, accumulator.folds)
    # Both reading a block and encoding its labels raise.
    for block in rows.blocks():
        checker.encode(replace(block, weights=None))


def _weight_units(weights: FloatArray, codes: IndexArray, n_codes: int) -> Units:
    """Return the divisors of weights: a power of two for all, or one for each code.

    Divided by a power of two near the largest weight of its rows, a weight keeps all digits, and
    its products with squares of features neither overflow nor underflow. One divisor is enough
    unless positive weights differ by a factor beyond 2^400. Rows with a negative code are left out
    of all sums, so there is no divisor for them.
    """
    unit = power_of_two_unit(weights)
    min_weight = unit * _MIN_SHARED_UNIT_RATIO
    if weights.min(initial=np.inf) >= min_weight:
        return unit
    is_small = (weights > 0) & (weights < min_weight)
    if not is_small.any():
        return unit
    is_coded = codes >= 0
    largest = np.zeros(n_codes)
    np.maximum.at(largest, codes[is_coded], weights[is_coded])
    units = np.ldexp(1.0, np.frexp(largest)[1] - 1)
    return np.where(largest > 0, units, 1.0)


def _divide_by_units(weights: FloatArray, units: Units, codes: IndexArray) -> FloatArray:
    """Return weights in their units; those of rows without a code are arbitrary."""
    return weights / (units if isinstance(units, float) else units[codes])


class _BlockReader:
    """Reader of coded blocks of rows in memory, after the number of groups is checked.

    Attributes
    ----------
    backend : ArrayBackend
        Backend of the arrays.
    units : float or array
        Divisors of the weights.
    """

    def __init__(self, accumulator: _Accumulator, rows: Any) -> None:
        """Encode the labels of all rows, count their groups, and check the number.

        The accumulator keeps the codes of the groups, and counts them.

        Raises
        ------
        InvalidInput
            An invalid label, too many groups, or too little memory for their matrices.
        """
        self._rows = rows
        self._drops_incomplete = rows.on_missing == "drop"
        self._weights = rows.weights
        self.backend = rows.backend if isinstance(rows, DeviceRows) else HOST_BACKEND
        self.units: Units = 1.0  # stays 1 without weights
        self._codes = self._encode(accumulator)
        accumulator.check()
        if isinstance(rows, DeviceRows):
            self._rows_per_block = max(rows.block_entries // rows.n_features, MIN_BLOCK_ROWS)
        else:
            n_codes = len(accumulator.group_codes) * accumulator.n_folds
            self._rows_per_block = _rows_per_block(rows.n_features, n_codes)

    def _encode(self, accumulator: _Accumulator) -> Any:
        """Return the codes of all rows on the backend's device, and count their groups.

        Weights are moved to the device as well, divided by a power of two (`units`) so that their
        products with squares of features neither overflow nor underflow.
        """
        rows = self._rows
        # Otherwise the code of a row depends on more than its label.
        has_folds = accumulator.folds is not None
        labels_suffice = rows.weights is None and not has_folds and not self._drops_incomplete
        labels = rows.groups
        if labels_suffice and isinstance(labels, DeviceLabels) and not rows.has_classes:
            # The labels stay on the device; only their few distinct values, the categories, are
            # encoded here. Every row counts, since there are no weights and no rows to drop.
            category_codes = accumulator.encode_categories(labels.categories)
            accumulator.n_weighted_rows = rows.n_rows
            return self.backend.xp.take(self.backend.to_device(category_codes), labels.device_codes)
        codes = accumulator.encode(rows, drop_incomplete=self._drops_incomplete)
        if rows.weights is not None:
            self.units = _weight_units(rows.weights, codes, accumulator.n_codes)
            in_units = _divide_by_units(rows.weights, self.units, codes)
            self._weights = self.backend.to_device(in_units)
        return self.backend.to_device(codes)

    def read(self, start: int, stop: int) -> Iterator[CodedBlock]:
        """Iterate over the blocks of a range of rows."""
        xp = self.backend.xp
        for first in range(start, stop, self._rows_per_block):
            block = slice(first, min(first + self._rows_per_block, stop))
            values = self._read_values(block)
            codes = self._codes[block]
            if self._drops_incomplete:
                is_incomplete = xp.any(xp.isnan(values), axis=1)
                codes = xp.where(is_incomplete, xp.full_like(codes, _INCOMPLETE_CODE), codes)
            weights = None if self._weights is None else self._weights[block]
            yield CodedBlock(values, codes, weights)

    def _read_values(self, block: slice) -> Any:
        if isinstance(self._rows, DeviceRows):
            return self.backend.float64(self._rows.array[block, :])
        values = self._rows.read_slice(block.start, block.stop)
        return values.astype(np.float64, copy=False)


def _rows_per_block(n_features: int, n_codes: int) -> int:
    """Return the number of rows of a block, for which updating matrices does not dominate."""
    # A block may be as large as the matrices of all codes.
    max_rows = max(_MAX_BLOCK_ENTRIES // n_features, n_codes * n_features, MIN_BLOCK_ROWS)
    preferred = max(_ROWS_PER_FEATURE * n_features, _ROWS_PER_GROUP) * max(n_codes, 2)
    return max(_BLOCK_ENTRIES // n_features, min(preferred, max_rows), MIN_BLOCK_ROWS)


def _accumulate_stream(accumulator: _Accumulator, rows: RowSource) -> None:
    """Accumulate blocks of rows that can be read only once.

    Blocks are buffered: with few rows at a time, updating the p x p matrices of the groups would
    take longer than reading the rows. The number of groups and the memory are checked
    after each block.
    """
    p = rows.n_features
    buffer: list[CodedBlock] = []
    n_buffered = 0
    for block in rows.blocks():
        if block.groups is None:
            raise no_group_labels_error()
        accumulator.record_dropped_rows(block)
        codes = accumulator.encode(block)
        n_buffered += block.values.size
        accumulator.check(is_partial=True)  # more blocks may follow
        block_entries = _rows_per_block(p, accumulator.n_codes) * p
        if n_buffered < min(block_entries, _MAX_BUFFERED_ENTRIES):
            # Copy: the source may reuse its buffer.
            buffer.append(CodedBlock(block.values.copy(), codes, block.weights))
        else:
            _add_blocks(accumulator, [*buffer, CodedBlock(block.values, codes, block.weights)])
            buffer = []
            n_buffered = 0
    if buffer:
        _add_blocks(accumulator, buffer)


def _add_blocks(accumulator: _Accumulator, blocks: list[CodedBlock]) -> None:
    """Merge the moments of blocks in memory."""
    units: Units = 1.0
    weighted = [block for block in blocks if block.weights is not None]
    if weighted:
        all_weights = np.concatenate([block.weights for block in weighted])
        all_codes = np.concatenate([block.codes for block in weighted])
        units = _weight_units(all_weights, all_codes, accumulator.n_codes)
        blocks = [_block_in_units(block, units) for block in blocks]
    result = _sum_by_code(HOST_BACKEND, blocks.copy, accumulator.n_codes)
    accumulator.add(result.sums, result.n_dropped, units)


def _block_in_units(block: CodedBlock, units: Units) -> CodedBlock:
    if block.weights is None:
        return block
    return block._replace(weights=_divide_by_units(block.weights, units, block.codes))


def _sum_by_code(
    backend: ArrayBackend, blocks: Callable[[], Iterable[CodedBlock]], n_codes: int
) -> SpanResult:
    """Sum the moments of each code; blocks may be read twice.

    Codes for which one pass loses digits by cancellation are summed again with the mean of each
    block subtracted first. The result is not finite if a row has NaN or infinity, even with weight
    zero, or if sums overflow.

    Parameters
    ----------
    backend : ArrayBackend
        Backend of the arrays.
    blocks : callable
        Returns the blocks, with values in float64.
    n_codes : int
        Codes are below this number.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        one_pass = _sum_in_one_pass(backend, blocks(), n_codes)
        sums = one_pass.by_code
        inaccurate = _finalize_all(sums)
        if inaccurate:
            for part in _rows_by_code(backend, blocks(), n_codes):
                if part.code in inaccurate:
                    part_moments = _two_pass_moments(backend, part.rows, part.weights)
                    merge_into(sums, part.code, part_moments)
        is_finite = np.isfinite(float(one_pass.zero_weight_sum)) and all(
            np.isfinite(np.diagonal(moments.scatter)).all() for moments in sums.values()
        )
    return SpanResult(sums, one_pass.n_dropped, bool(is_finite))


class _OnePassSums(NamedTuple):
    """Sums of rows in one pass.

    Attributes
    ----------
    by_code : dict of int to RunningMoments
        Sums of shifted rows and of their products, by code.
    n_dropped : int
        Number of incomplete rows.
    zero_weight_sum : float
        Sum of all values of rows of zero weight, which shows whether these are finite.
    """

    by_code: dict[int, RunningMoments]
    n_dropped: int
    zero_weight_sum: Any


def _sum_in_one_pass(
    backend: ArrayBackend, blocks: Iterable[CodedBlock], n_codes: int
) -> _OnePassSums:
    """Sum shifted rows and their products by code, to be finalized by :func:`_finalize`.

    Until then `mean_offset` holds the sum t of weighted shifted rows, and `scatter` the sum P of
    their products. The shift is a point near the rows, so that few digits cancel.
    """
    sums: dict[int, RunningMoments] = {}
    n_dropped = 0
    zero_weight_sum: Any = 0.0
    for part in _rows_by_code(backend, blocks, n_codes):
        if part.code == _ZERO_WEIGHT_CODE:
            zero_weight_sum = zero_weight_sum + backend.xp.sum(part.rows)
        elif part.code == _INCOMPLETE_CODE:
            n_dropped += part.rows.shape[0]
        else:
            if part.code not in sums:
                sums[part.code] = RunningMoments(_choose_shift(part.rows))
            _add_products(backend, sums[part.code], part)
    return _OnePassSums(sums, n_dropped, zero_weight_sum)


def _add_products(backend: ArrayBackend, moments: RunningMoments, part: _CodeRows) -> None:
    """Add the sums of shifted rows and of their products to those of their code, in place."""
    xp = backend.xp
    shifted = _subtract_shift(backend, part.rows, moments.shift, is_copy=part.is_copy)
    if part.weights is None:
        weighted_rows = shifted
        row_weights = _unit_weights(backend, shifted)
        weight = shifted.shape[0]
    else:
        weighted_rows = shifted * xp.sqrt(part.weights)[:, None]
        row_weights = part.weights
        weight = xp.sum(part.weights)
    moments.count += shifted.shape[0]
    moments.weight = moments.weight + weight
    moments.mean_offset = moments.mean_offset + row_weights @ shifted
    if _may_be_nonzero(weighted_rows):
        products = weighted_rows.T @ weighted_rows
        if isinstance(moments.scatter, np.ndarray):
            moments.scatter += products  # in place, without memory for another matrix
        else:
            moments.scatter = moments.scatter + products


def _finalize_all(sums: dict[int, RunningMoments]) -> set[int]:
    """Finalize the sums of each code; remove those that lost digits, and return their codes."""
    inaccurate: set[int] = set()
    for code in list(sums):
        has_digits = _finalize(sums[code])
        if not has_digits:
            inaccurate.add(code)
            del sums[code]
    return inaccurate


def _finalize(moments: RunningMoments) -> bool:
    """Turn the sums t and P of shifted rows into moments; return whether few digits canceled."""
    total = to_numpy(moments.mean_offset)
    products = to_numpy(moments.scatter)
    if not products.shape:  # still the initial 0.0, as all shifted rows are zero
        products = np.zeros((len(total), len(total)))
    moments.weight = float(moments.weight)
    moments.mean_offset = total / moments.weight
    moments.scatter = symmetrize(products - np.outer(total, moments.mean_offset))
    canceled = np.diagonal(products) > _MAX_CANCELLATION * np.diagonal(moments.scatter)
    return not canceled.any()


def _two_pass_moments(backend: ArrayBackend, rows: Any, weights: Any) -> RunningMoments:
    """Compute the moments of rows of one code: subtract the mean first, then sum products.

    The mean itself is rounded, so the rows minus it have a mean that is not quite zero. This
    correction is added to the mean, and its outer product is subtracted from the scatter. Without
    `weights`, each row has weight one.
    """
    weights = _unit_weights(backend, rows) if weights is None else weights
    weight = float(backend.xp.sum(weights))
    n = rows.shape[0]
    sample = to_numpy(rows[: min(_N_SAMPLED_ROWS, n), :])
    # Three subtractions, each of which leaves smaller rows: of values near the mean, of the mean of
    # the differences, and (in the sums only) of what the rounding of that mean leaves.
    shift = _nearest_values(sample, to_numpy(weights @ rows) / weight)
    rows = rows - backend.to_device(shift)
    offset = weights @ rows / weight
    rows = rows - offset
    correction = to_numpy(weights @ rows) / weight
    rows = rows * backend.xp.sqrt(weights)[:, None]
    scatter = symmetrize(to_numpy(rows.T @ rows)) - weight * np.outer(correction, correction)
    mean_offset = to_numpy(offset) + correction
    return RunningMoments(shift, n, weight, mean_offset, scatter)


def _rows_by_code(
    backend: ArrayBackend, blocks: Iterable[CodedBlock], n_codes: int
) -> Iterator[_CodeRows]:
    """Iterate over the rows of each code in each block; codes are below `n_codes`."""
    xp = backend.xp
    for values, codes, weights in blocks:
        if not codes.shape[0]:
            continue
        all_codes = range(int(xp.min(codes)), n_codes)
        indices_by_code = _indices_by_code(backend, codes, all_codes)
        for code, indices in zip(all_codes, indices_by_code, strict=True):
            if indices.shape[0] == codes.shape[0]:  # all rows of the block have this code
                yield _CodeRows(code, values, weights, is_copy=False)
            elif indices.shape[0]:
                code_weights = None if weights is None else xp.take(weights, indices)
                yield _CodeRows(code, _take_rows(xp, values, indices), code_weights, is_copy=True)


def _indices_by_code(backend: ArrayBackend, codes: Any, all_codes: range) -> list[Any]:
    """Return the row indices of each of consecutive codes."""
    xp = backend.xp
    if len(all_codes) <= _MAX_UNSORTED_CODES:
        return [xp.nonzero(codes == code)[0] for code in all_codes]
    # Rows of a code are consecutive in sorted order. uint8 keys use a radix sort.
    fits_uint8 = all_codes.stop - _INCOMPLETE_CODE <= 256
    keys = xp.astype(codes - _INCOMPLETE_CODE, xp.uint8) if fits_uint8 else codes
    order = xp.argsort(keys, stable=True)
    bounds = backend.to_device(np.append(np.asarray(all_codes), all_codes.stop))
    starts = to_numpy(xp.searchsorted(xp.take(codes, order), bounds)).tolist()
    return [order[start:stop] for start, stop in pairwise(starts)]


def _may_be_nonzero(rows: Any) -> bool:
    """Return False if all entries are zero; rows on a device are not looked at."""
    return not isinstance(rows, np.ndarray) or not is_zero(rows)


def _subtract_shift(backend: ArrayBackend, rows: Any, shift: FloatArray, *, is_copy: bool) -> Any:
    """Subtract the shift, in place if the rows are a copy on the host."""
    shifted_features = np.flatnonzero(shift)
    if not len(shifted_features):
        return rows
    if not is_copy or not isinstance(rows, np.ndarray):
        return rows - backend.to_device(shift)
    if len(shifted_features) > _MAX_SHARE_BY_FEATURE * rows.shape[1]:
        rows -= shift
        return rows
    for feature in shifted_features.tolist():
        rows[:, feature] -= shift[feature]
    return rows


def _unit_weights(backend: ArrayBackend, rows: Any) -> Any:
    return backend.xp.ones(rows.shape[0], dtype=backend.xp.float64, device=backend.device)


def _choose_shift(rows: Any) -> FloatArray:
    """Choose a shift from the leading rows; zero for features near zero."""
    sample = to_numpy(rows[: min(_N_SAMPLED_ROWS, rows.shape[0]), :])
    mean = sample.mean(axis=0)
    sample_range = sample.max(axis=0) - sample.min(axis=0)
    far_features = np.flatnonzero(np.abs(mean) > _MIN_SHIFT_RATIO * sample_range)
    shift = np.zeros(sample.shape[1])
    shift[far_features] = _nearest_values(sample[:, far_features], mean[far_features])
    return shift


def _nearest_values(rows: FloatArray, point: FloatArray) -> FloatArray:
    """Return each feature's value nearest to a point, so that constants shift to exactly zero."""
    nearest = np.abs(rows - point).argmin(axis=0)
    return np.asarray(rows[nearest, np.arange(len(point))])


def _take_rows(xp: Any, values: Any, index: Any) -> Any:
    """Take rows, preserving memory order, which is many times faster."""
    if isinstance(values, np.ndarray) and values.strides[0] == values.itemsize < values.strides[1]:
        return xp.take(values.T, index, axis=1).T
    return xp.take(values, index, axis=0)
