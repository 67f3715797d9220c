"""Moments of rows, group by group, in one pass over blocks, wherever the rows are.

With weights w, a point c near the rows and r = x - c, let W = sum w, t = sum w r and P = sum w rr'.
Then a group's mean is c + t / W, and its scatter about that is P - tt' / W. Digits are lost where
tt' / W is large beside what remains: those features of a group are read again, and centred first.
Blocks that are read only once are merged by the formula of Chan, Golub and LeVeque (1979).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import numpy as numpy_namespace

from fairspan.errors import InvalidInput
from fairspan.linalg.resources import FEW_FEATURES, in_threads, threads_for
from fairspan.rows.arrays import ArrayRows, RowsInMemory
from fairspan.rows.device import FEWEST_BLOCK_ROWS, DeviceRows, Place, on_host
from fairspan.rows.folds import Folds
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.groups import CodedLabels, Label, LabelCoder
from fairspan.rows.protocol import KnownRows, RowBlock, RowSource
from fairspan.typing import BoolArray, FloatArray, IndexArray

# What may be subtracted, as a multiple of what remains: about two bits are lost.
_MOST_SUBTRACTED = 3.0
# The first rows of a group show where its features lie.
_GLANCE = 64
# A feature whose mean there is further from zero than this share of its range is brought near zero.
_FAR = 0.25
# Of rows that were copied, up to this share of the features is changed in place.
_FEW_FAR = 0.25
# Numbers of a block: it stays in cache, and new memory for it costs nothing. It has more rows where
# matrices of all groups would otherwise take longer than the rows, up to another number.
_BLOCK_NUMBERS, _MOST_BLOCK_NUMBERS = 2**17, 2**22
_ROWS_TO_A_FEATURE, _ROWS_OF_A_GROUP = 4, 512
# Numbers of a span, which one thread reads; the same whatever the number of threads.
_SPAN_NUMBERS = 2**21
# Spans whose sums are held at once, and with many groups a single one.
_SPANS_AT_ONCE, _MANY_GROUPS = 64, 24
# Rows whose labels show whether there are many groups.
_LABELS_GLANCE = 2**12
# Numbers of rows that wait, so that matrices are added up less often.
_WAITING_NUMBERS = 2**23

HOST = Place(numpy_namespace, "cpu")
# Values, codes and weights of rows, as arrays of one package.
Block = tuple[Any, Any, Any | None]


class GroupSums(NamedTuple):
    """Moments of each group, side by side.

    The labels are in sorted order. With folds, their last attribute is the fold.
    """

    labels: list[Label]
    counts: IndexArray
    weights: FloatArray
    means: FloatArray
    scatters: FloatArray
    n_dropped: int


def sums_of(rows: RowSource, limit: GroupLimit, folds: Folds | None = None) -> GroupSums:
    """Moments of each group, or of each group in each fold; there may be none.

    Parameters
    ----------
    rows : RowSource
        With labels; the last column of these is the cluster if `folds` says so.
    limit : GroupLimit
        How many groups there may be.
    folds : Folds, optional

    Raises
    ------
    InvalidInput
        Whatever the source finds wrong with its rows; too many groups.
    """
    total = _Total(rows, limit, folds)
    with np.errstate(over="ignore", invalid="ignore"):  # found when the moments are checked
        if _in_memory(rows):
            _add_rows_in_memory(total, rows)
        else:
            with threads_for(rows.n_features):
                _add_blocks(total, rows)
    return total.finished()


def _in_memory(rows: RowSource) -> bool:
    """Whether these are numbers that can be read again from any place."""
    is_numeric = not isinstance(rows, ArrayRows) or rows.array.dtype.kind in "fiub"
    return isinstance(rows, RowsInMemory) and is_numeric and rows.labels is not None


class _Total:
    """Moments of all groups so far; those of group g in fold f of K have the code K g + f.

    Parameters
    ----------
    rows : RowSource
    limit : GroupLimit
    folds : Folds or None

    Attributes
    ----------
    counts : Counter
        Rows of each group, as far as their labels were read.
    n_dropped : int
    """

    def __init__(self, rows: RowSource, limit: GroupLimit, folds: Folds | None) -> None:
        self.n_features, self.limit, self.folds = rows.n_features, limit, folds
        self.n_folds = 1 if folds is None else folds.n_folds
        self.coder = LabelCoder()
        self.counts: Counter[int] = Counter()
        self.n_dropped = 0
        self._before = rows.first_position if isinstance(rows, KnownRows) else 0
        self._sums: dict[int, _Sums] = {}

    @property
    def n_codes(self) -> int:
        """How many codes there are so far."""
        return len(self.coder.labels) * self.n_folds

    def codes_of(
        self, labels: CodedLabels, first_row: int, weights: FloatArray | None, *, drop: bool = False
    ) -> tuple[IndexArray, int, int]:
        """Codes of consecutive rows, and how many groups and rows of them count.

        The code is -1 without weight, and -2 without a label where it may be missing.
        """
        own = None
        if self.folds is not None:
            found = self.folds.of_rows(labels, self._before + first_row)
            labels, own = found.groups, found.folds
        absent = None if weights is None or weights.all() else weights == 0
        missing = labels.missing if drop else None
        if missing is not None and missing.any():
            codes = np.zeros(len(labels), dtype=np.intp)
            codes[~missing] = self.coder.encode(labels[~missing], first_row)
        else:
            codes, missing = self.coder.encode(labels, first_row), None
        if absent is None and missing is None:
            counts = np.bincount(codes)
        else:
            codes = codes.copy()
            if absent is not None:
                codes[absent] = -1
            if missing is not None:
                codes[missing] = -2
            counts = np.bincount(codes[codes >= 0])
        present = np.flatnonzero(counts)
        self.counts.update(dict(zip(present.tolist(), counts[present].tolist(), strict=True)))
        if own is not None:
            codes = np.where(codes < 0, codes, codes * self.n_folds + own)
        return codes, len(present), int(counts.sum())

    def add(self, sums: "_SpanSums") -> None:
        """Add those of some rows."""
        self.n_dropped += sums.n_dropped
        for code, more in sums.of_codes.items():
            if code in self._sums:
                self._sums[code].add(more)
            else:
                self._sums[code] = more

    def finished(self) -> GroupSums:
        """All moments; raises InvalidInput where there are too many groups."""
        found, k = self.coder.labels, len(self._sums)
        n_groups = len({code // self.n_folds for code in self._sums})
        n_rows = sum(each.count for each in self._sums.values())
        self.limit.check(n_groups, n_rows, self.n_features)
        labels = {
            code: found[code]
            if self.folds is None
            else with_last_attribute(found[code // self.n_folds], code % self.n_folds)
            for code in self._sums
        }
        in_order = sorted(labels, key=labels.__getitem__)
        sums, p = [self._sums[code] for code in in_order], self.n_features
        return GroupSums(
            [labels[code] for code in in_order],
            np.array([each.count for each in sums], dtype=np.int64),
            np.array([each.weight for each in sums], dtype=np.float64),
            np.array([each.base + each.offset for each in sums]).reshape(k, p),
            np.array([each.scatter for each in sums]).reshape(k, p, p),
            self.n_dropped,
        )


def with_last_attribute(label: Label, last: int) -> Label:
    """A label with one attribute more."""
    return (*label, last) if isinstance(label, tuple) else (label, last)


def _add_rows_in_memory(total: _Total, rows: Any) -> None:
    n, p, lock = rows.n_rows, rows.n_features, Lock()
    # Spans are read side by side; products of many features use the threads themselves.
    one_span = p > FEW_FEATURES or isinstance(rows, DeviceRows)
    size = n if one_span else max(_SPAN_NUMBERS // p, 1) * total.n_folds
    cuts = list(pairwise([*range(0, max(n - size // 2, 1), size), n]))
    n_labels = rows.labels.between(0, min(n, _LABELS_GLANCE)).n_present if len(cuts) > 1 else 0
    at_once = _SPANS_AT_ONCE if n_labels * total.n_folds <= _MANY_GROUPS else 1

    def sums_between(cut: tuple[int, int]) -> _SpanSums:
        with lock:
            span = _span_in_memory(total, rows, *cut)
        with np.errstate(over="ignore", invalid="ignore"):
            return span.sums()

    is_finite = True
    # A single small span is done before a second thread is awake.
    with threads_for(p) if len(cuts) == 1 else nullcontext():
        try:
            for first in range(0, len(cuts), at_once):
                for sums in in_threads(sums_between, cuts[first : first + at_once]):
                    is_finite = is_finite and sums.is_finite
                    total.add(sums)
        except InvalidInput:
            _find_first_mistake(total, rows)
            raise
    if not is_finite:
        _find_first_mistake(total, rows)


def _find_first_mistake(total: _Total, rows: RowSource) -> None:
    """Read rows in their order, which raises at the first that is wrong."""
    again = _Total(rows, total.limit, total.folds)
    for block in rows.blocks():
        assert block.labels is not None
        again.codes_of(block.labels, block.first_row, None)


def _span_in_memory(total: _Total, rows: Any, start: int, stop: int) -> "_Span":
    """Consecutive rows with their codes, whose groups are not too many."""
    place: Place = rows.place if isinstance(rows, DeviceRows) else HOST
    xp, p, drop = place.xp, rows.n_features, rows.on_missing == "drop"
    weights = None if rows.weights is None else rows.weights[start:stop]
    there = rows.labels_there if isinstance(rows, DeviceRows) else None
    if there is not None and weights is None and total.folds is None and not drop:
        distinct, inverse = xp.unique_inverse(there[start:stop])
        labels = CodedLabels(on_host(distinct).tolist(), np.arange(distinct.shape[0]))
        here, n_groups, _ = total.codes_of(labels, start, None)
        codes, n_rows = xp.take(place.constant(here), inverse), stop - start
    else:
        labels = rows.labels.between(start, stop)
        here, n_groups, n_rows = total.codes_of(labels, start, weights, drop=drop)
        codes = place.constant(here)
        weights = None if weights is None else place.constant(weights)
    size = _block_rows(p, n_groups * total.n_folds)
    if isinstance(rows, DeviceRows):
        size = max(rows.block_numbers // p, FEWEST_BLOCK_ROWS)
    if total.limit.doubts(n_groups, n_rows):
        n_groups, n_rows = _groups_of_all(total, rows)
        total.limit.check(n_groups, n_rows, p)
    total.limit.check_memory(len(total.coder.labels), p)

    def values_between(first: int, last: int) -> Any:
        if isinstance(rows, DeviceRows):
            return place.float64(rows.array[first:last, :])
        return rows.between(first, last).astype(np.float64, copy=False)

    def blocks() -> Iterator[Block]:
        for first in range(start, stop, size):
            last = min(first + size, stop)
            values, own = values_between(first, last), codes[first - start : last - start]
            if drop:
                own = xp.where(xp.any(xp.isnan(values), axis=1), -2, own)
            yield values, own, None if weights is None else weights[first - start : last - start]

    return _Span(place, blocks, total.n_codes)


def _groups_of_all(total: _Total, rows: Any) -> tuple[int, int]:
    """How many groups and rows there are in all, of rows that count."""
    again = _Total(rows, total.limit, total.folds)
    labels, drop = rows.labels.between(0, rows.n_rows), rows.on_missing == "drop"
    return again.codes_of(labels, 0, rows.weights, drop=drop)[1:]


def _block_rows(n_features: int, n_codes: int) -> int:
    most = max(_MOST_BLOCK_NUMBERS // n_features, FEWEST_BLOCK_ROWS)
    wanted = max(_ROWS_TO_A_FEATURE * n_features, _ROWS_OF_A_GROUP) * max(n_codes, 2)
    return max(_BLOCK_NUMBERS // n_features, min(wanted, most), FEWEST_BLOCK_ROWS)


def _add_blocks(total: _Total, rows: RowSource) -> None:
    """Add rows that can be read only once.

    They wait while they have too many groups, so that no matrix is made of what may be an
    identifier: they take less room than the matrices of their groups would, as a rule.
    """
    waiting: list[Block] = []
    n_waiting, limit, p = 0, total.limit, rows.n_features

    def end_waiting() -> None:
        limit.check_memory(len(total.counts), p)
        total.add(_Span(HOST, lambda: waiting, total.n_codes).sums())

    for block in rows.blocks():
        total.n_dropped += block.n_dropped
        waiting.append(_coded_block(total, block))
        n_waiting += block.values.size
        n_groups, n_rows = len(total.counts), total.counts.total()
        limit.check_waiting(n_groups, n_rows, n_waiting)
        enough = min(_block_rows(p, total.n_codes) * p, _WAITING_NUMBERS)
        if n_waiting >= enough and not limit.waits(n_groups, n_rows):
            end_waiting()
            waiting, n_waiting = [], 0
        else:  # the source may write the next block to the same memory
            waiting[-1] = block.values.copy(), *waiting[-1][1:]
    limit.check(len(total.counts), total.counts.total(), p)
    if waiting:
        end_waiting()


def _coded_block(total: _Total, block: RowBlock) -> Block:
    if block.labels is None:
        raise InvalidInput(
            "The rows carry no group labels", "Allowed: a label for each row", "Name a group"
        )
    codes = total.codes_of(block.labels, block.first_row, block.weights)[0]
    return block.values, codes, block.weights


@dataclass(eq=False)
class _Sums:
    """Moments of one group in one fold: its mean is base + offset.

    The base is one of the rows, or near them. So the offset keeps the digits that the mean of rows
    far from zero has no room for, and parts of a group are merged without losing any.
    """

    count: int
    weight: Any
    base: FloatArray
    offset: Any
    scatter: Any

    def add(self, more: "_Sums") -> None:
        """Merge another part of the same group."""
        total = self.weight + more.weight
        delta = (more.base - self.base) + (more.offset - self.offset)
        between = np.sqrt(self.weight * (more.weight / total)) * delta
        self.scatter += more.scatter
        self.scatter += np.outer(between, between)
        self.offset = self.offset + (more.weight / total) * delta
        self.count, self.weight = self.count + more.count, total


@dataclass(eq=False)
class _SpanSums:
    """Moments of some rows by the codes that occur in them.

    Attributes
    ----------
    of_codes : dict of int to _Sums
    n_dropped : int
        Rows in which something is missing.
    is_finite : bool
        Whether all numbers are, also in rows of weight zero.
    """

    of_codes: dict[int, _Sums] = field(default_factory=dict)
    n_dropped: int = 0
    is_finite: bool = True


@dataclass(frozen=True, eq=False)
class _Span:
    """Rows that can be read twice.

    Attributes
    ----------
    place : Place
        Of their arrays.
    blocks : callable
        Reads them: values in float64, codes (-1 without weight, -2 where something is missing), and
        weights or None.
    n_codes : int
    """

    place: Place
    blocks: Callable[[], Iterable[Block]]
    n_codes: int

    def sums(self) -> _SpanSums:
        """The moments of each code's rows."""
        xp, found = self.place.xp, _SpanSums()
        unweighted: Any = 0.0
        bases: dict[int, _Base] = {}
        for code, rows, weights, is_copy in self._by_code(found):
            if code < 0:
                unweighted = unweighted + xp.sum(rows)
                continue
            if code not in bases:
                bases[code] = _Base.near(rows, self.place)
            own = bases[code].subtracted_from(rows, is_copy=is_copy)
            ones = self._ones(own) if weights is None else weights
            half = own if weights is None else own * xp.sqrt(weights)[:, None]
            products, total = xp.matmul(xp.matrix_transpose(half), half), xp.matmul(ones, own)
            if code not in found.of_codes:
                base, count = bases[code].point, own.shape[0]
                found.of_codes[code] = _Sums(count, xp.sum(ones), base, total, products)
                continue
            sums = found.of_codes[code]
            sums.count += own.shape[0]
            sums.weight, sums.offset = sums.weight + xp.sum(ones), sums.offset + total
            sums.scatter += products
        found.is_finite = bool(np.isfinite(float(unweighted)))
        for code, sums in found.of_codes.items():
            self._centre(code, sums)
            found.is_finite &= bool(np.isfinite(np.diagonal(sums.scatter)).all())
        return found

    def _by_code(self, found: _SpanSums) -> Iterator[tuple[int, Any, Any, bool]]:
        """Rows and weights of each code in each block, -1 too, and whether the rows are a copy.

        Counts those that are dropped.
        """
        xp, n = self.place.xp, self.n_codes
        lowest = self.place.constant(np.arange(-1, n))
        for values, codes, weights in self.blocks():
            # Bytes are sorted by counting, not by comparing.
            keys = xp.astype(codes + 2, xp.uint8) if n + 2 <= 256 else codes
            order = xp.argsort(keys, stable=True)
            starts = on_host(xp.searchsorted(xp.take(codes, order), lowest)).tolist()
            found.n_dropped += starts[0]
            present = [
                (code, start, stop)
                for code, start, stop in zip(
                    range(-1, n), starts, [*starts[1:], codes.shape[0]], strict=True
                )
                if start < stop
            ]
            if len(present) == 1 and starts[0] == 0:
                yield present[0][0], values, weights, False
                continue
            rows = _taken(xp, values, order)
            weights = None if weights is None else xp.take(weights, order)
            for code, start, stop in present:
                own = None if weights is None else weights[start:stop]
                yield code, rows[start:stop, :], own, True

    def _centre(self, code: int, sums: _Sums) -> None:
        """Sums about the pilot become moments, with a second look where too few digits are left."""
        weight = sums.weight = float(sums.weight)
        products = on_host(sums.scatter)
        if not isinstance(sums.scatter, np.ndarray):  # other libraries need not be symmetric
            products = (products + products.T) / 2
        sums.offset = on_host(sums.offset) / weight
        root = sums.offset * np.sqrt(weight)
        squares = np.diagonal(products).copy()
        lost = squares > _MOST_SUBTRACTED * (squares - root**2)
        products -= np.outer(root, root)
        sums.scatter = products
        if lost.any():
            self._centre_features(code, lost, sums)

    def _centre_features(self, code: int, lost: BoolArray, sums: _Sums) -> None:
        """Moments of some features with all others, from rows that are centred first."""
        xp, place = self.place.xp, self.place
        features = np.flatnonzero(lost)
        index = place.constant(features)
        first = next(self._rows_of(code))[0]
        glance = on_host(first[: min(_GLANCE, first.shape[0]), :])
        base = np.where(lost, _nearest(glance, sums.base + sums.offset), sums.base)
        point = place.constant(base)
        total: Any = 0.0
        for rows, weights in self._rows_of(code):
            total = total + xp.matmul(weights, xp.take(rows - point, index, axis=1))
        offset = sums.offset.copy()
        offset[features] = on_host(total) / sums.weight
        left: Any = 0.0
        cross: Any = 0.0
        for rows, weights in self._rows_of(code):
            centred = (rows - point) - place.constant(offset)
            own = xp.take(centred, index, axis=1) * weights[:, None]
            cross = cross + xp.matmul(xp.matrix_transpose(own), centred)
            left = left + xp.matmul(weights, centred)
        left, cross = on_host(left), on_host(cross)
        cross = cross - np.outer(left[features], left / sums.weight)
        within = cross[:, features]
        cross[:, features] = (within + within.T) / 2
        sums.scatter[features], sums.scatter[:, features] = cross, cross.T
        offset[features] += left[features] / sums.weight
        sums.base, sums.offset = base, offset

    def _rows_of(self, code: int) -> Iterator[tuple[Any, Any]]:
        xp = self.place.xp
        for values, codes, weights in self.blocks():
            index = xp.nonzero(codes == code)[0]
            if index.shape[0]:
                rows = _taken(xp, values, index)
                yield rows, self._ones(rows) if weights is None else xp.take(weights, index)

    def _ones(self, rows: Any) -> Any:
        xp = self.place.xp
        return xp.ones(rows.shape[0], dtype=xp.float64, device=self.place.device)


@dataclass(frozen=True, eq=False)
class _Base:
    """A point near the rows of a group, which differs from zero where the rows are far from it.

    Attributes
    ----------
    point : (p,) array
    far : (f,) array of int
        The features in which it is not zero.
    there : (p,) array on the device
    """

    point: FloatArray
    far: IndexArray
    there: Any

    @classmethod
    def near(cls, rows: Any, place: Place) -> "_Base":
        """A point near the first of these rows."""
        glance = on_host(rows[: min(_GLANCE, rows.shape[0]), :])
        mean, point = glance.mean(axis=0), np.zeros(glance.shape[1])
        far = np.flatnonzero(np.abs(mean) > _FAR * (glance.max(axis=0) - glance.min(axis=0)))
        if len(far):
            point[far] = _nearest(glance[:, far], mean[far])
        return cls(point, far, place.constant(point))

    def subtracted_from(self, rows: Any, *, is_copy: bool) -> Any:
        """The rows minus the point."""
        if not len(self.far):
            return rows
        if is_copy and isinstance(rows, np.ndarray) and len(self.far) <= _FEW_FAR * rows.shape[1]:
            rows[:, self.far] -= self.point[self.far]
            return rows
        return rows - self.there


def _nearest(rows: FloatArray, point: FloatArray) -> FloatArray:
    """One of each feature's values, so that a constant feature minus this is exactly zero."""
    nearest = np.abs(rows - point).argmin(axis=0)
    return np.asarray(rows[nearest, np.arange(len(point))])


def _taken(xp: Any, values: Any, index: Any) -> Any:
    """Some rows, in the order of memory that they have, which is many times faster."""
    if isinstance(values, np.ndarray) and values.strides[0] == values.itemsize < values.strides[1]:
        return xp.take(values.T, index, axis=1).T
    return xp.take(values, index, axis=0)
