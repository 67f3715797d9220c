"""Moments computed where an array lies; only means and scatters leave the device.

Nothing here waits for the device, so that it never waits for the host: that all was finite shows in
the sums at the end.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fairspan.moments.group_statistics import GroupStatistics, Intake, OneGroup
from fairspan.moments.running_group import USUAL_LIMIT, GroupLimit
from fairspan.rows.device import FEWEST_BLOCK_ROWS, DeviceRows, Place, on_host, spans
from fairspan.rows.groups import CodedLabels, Label, LabelCoder, side_by_side
from fairspan.typing import BoolArray, FloatArray, IndexArray

# Called with the number of groups and of rows before each group's rows are gathered.
CheckGroups = Callable[[int, int], None]


@dataclass(frozen=True)
class OwnRows:
    """The rows of one group among consecutive rows.

    Attributes
    ----------
    code : int or None
        The group; None for rows of weight zero, which are only checked.
    rows : (r,) array on the device, or None
        Their positions; None if all of the rows are meant, in order.
    count : int
        r.
    weights : (r,) array or None
    """

    code: int | None
    rows: Any | None
    count: int
    weights: FloatArray | None = None


def grouped_there(
    place: Place, labels: Any, coder: LabelCoder, first_row: int, check: CheckGroups
) -> list[OwnRows]:
    """Rows by group where whole numbers or truth values on the device are the labels.

    Only the distinct labels and where each begins among the sorted ones come to the host.
    """
    xp = place.xp
    order = xp.argsort(_sort_keys(xp, labels), stable=True)
    ordered = xp.take(labels, order)
    changes = on_host(xp.nonzero(ordered[1:] != ordered[:-1])[0]) + 1
    starts = np.concatenate([[0], changes])
    check(len(starts), int(labels.shape[0]))
    stops = np.append(changes, labels.shape[0]).tolist()
    distinct = on_host(xp.take(ordered, place.constant(starts))).tolist()
    codes = coder.encode(CodedLabels(distinct, np.arange(len(distinct))), first_row).tolist()
    if len(codes) == 1:
        return [OwnRows(codes[0], None, labels.shape[0])]
    return [
        OwnRows(code, order[start:stop], stop - start)
        for code, start, stop in zip(codes, starts.tolist(), stops, strict=True)
    ]


def _sort_keys(xp: Any, labels: Any) -> Any:
    """Labels in bytes where they fit, which are sorted by counting."""
    if xp.isdtype(labels.dtype, "bool"):
        return xp.astype(labels, xp.uint8)
    low, high = int(xp.min(labels)), int(xp.max(labels))
    return labels if high - low > 255 else xp.astype(xp.astype(labels, xp.int64) - low, xp.uint8)


def grouped_here(
    place: Place,
    labels: CodedLabels,
    weights: FloatArray | None,
    missing: BoolArray | None,
    coder: LabelCoder,
    first_row: int,
    check: CheckGroups,
) -> Iterator[OwnRows]:
    """Rows by group where labels and weights are on the host.

    Parameters
    ----------
    place : Place
    labels : CodedLabels of r rows
    weights : (r,) array or None
    missing : (r,) array of bool, or None
        Rows to leave out.
    coder : LabelCoder
    first_row : int
        Number of the first row in the whole table.
    check : callable
        Raises where there are too many groups.
    """
    kept: IndexArray | None = None
    if missing is not None and missing.any():
        kept = np.flatnonzero(~missing)
        labels, weights = labels[kept], None if weights is None else weights[kept]
    codes = coder.encode(labels, first_row)
    if weights is not None and not weights.all():
        kept = np.arange(len(codes)) if kept is None else kept
        absent, present = kept[weights == 0], weights > 0
        yield OwnRows(None, place.constant(absent), len(absent))
        kept, codes, weights = kept[present], codes[present], weights[present]
    order, places = side_by_side(codes)
    check(len(places), len(codes))
    if kept is None and len(places) == 1:
        yield OwnRows(places[0][0], None, len(codes), weights)
        return
    rows = place.constant(order if kept is None else kept[order])
    weights = None if weights is None else weights[order]
    for code, own in places:
        yield OwnRows(
            code, rows[own], own.stop - own.start, None if weights is None else weights[own]
        )


def device_statistics(rows: DeviceRows, limit: GroupLimit = USUAL_LIMIT) -> GroupStatistics | None:
    """Moments of each group, computed where the rows are; None if there are no rows.

    Raises
    ------
    InvalidInput
        A number that is not finite, a bad label, or too many groups.
    """
    place, plan, p = rows.place, rows.plan, rows.n_features
    coder, groups, n_dropped = LabelCoder(), dict[int, _Group](), 0
    unweighted: Any = place.xp.zeros((), dtype=place.xp.float64, device=place.device)
    with np.errstate(over="ignore", invalid="ignore"):  # found at the end
        for own in spans(rows.n_rows, max(plan.chunk_rows, plan.block_rows(p))):
            missing = _missing(rows, own) if rows.on_missing == "drop" else None
            n_dropped += 0 if missing is None else int(missing.sum())
            for part in _grouped(rows, own, missing, coder, partial(_check_groups, rows, limit)):
                for block, weights in _blocks(rows, own, part):
                    if part.code is None:
                        unweighted = unweighted + place.xp.sum(place.float64(block))
                        continue
                    if part.code not in groups:
                        groups[part.code] = _Group(place, plan.strips(p), block[0, :])
                    groups[part.code].absorb(block, weights)
        parts = [group.finished(coder.labels[code]) for code, group in groups.items()]
    if not (place.finite(unweighted) and all(np.isfinite(part.mean).all() for part in parts)):
        for _ in rows.blocks():  # raises at the first row that is not finite
            pass
    if not parts and not n_dropped:
        return None
    return GroupStatistics(parts, p, None, Intake(n_dropped))


def _missing(rows: DeviceRows, own: slice) -> BoolArray:
    missing = rows.labels.between(own.start, own.stop).missing
    if rows.place.is_real(rows.array):
        xp = rows.place.xp
        missing = missing | on_host(xp.any(xp.isnan(rows.array[own, :]), axis=1))
    return missing


def _check_groups(rows: DeviceRows, limit: GroupLimit, n_groups: int, n_rows: int) -> None:
    """Where those of some rows look too many, count those of all rows."""
    if not limit.doubts(n_groups, n_rows):
        return
    if rows.labels_there is not None:
        n_groups = int(rows.place.xp.unique_values(rows.labels_there).shape[0])
    else:
        n_groups = rows.labels.between(0, rows.n_rows).n_present
    limit.check(n_groups, rows.n_rows, rows.n_features)


def _grouped(
    rows: DeviceRows,
    own: slice,
    missing: BoolArray | None,
    coder: LabelCoder,
    check: CheckGroups,
) -> Iterable[OwnRows]:
    if rows.labels_there is not None and rows.weights is None and missing is None:
        return grouped_there(rows.place, rows.labels_there[own], coder, own.start, check)
    return grouped_here(
        rows.place,
        rows.labels.between(own.start, own.stop),
        None if rows.weights is None else rows.weights[own],
        missing,
        coder,
        own.start,
        check,
    )


def _blocks(rows: DeviceRows, own: slice, part: OwnRows) -> Iterator[tuple[Any, FloatArray | None]]:
    """The rows of a group among consecutive ones, with their weights, some at a time."""
    chunk = rows.array[own, :]
    for some in spans(part.count, rows.plan.block_rows(rows.n_features)):
        index = None if part.rows is None else part.rows[some]
        block = chunk[some, :] if index is None else rows.place.xp.take(chunk, index, axis=0)
        yield block, None if part.weights is None else part.weights[some]


class _Group:
    """Moments of one group so far.

    The mean is a point, at first the group's first row, plus what is missing to it, so that a
    large common offset costs no digits. Each block is centred on the mean so far: the remaining
    mean is small, and is subtracted from the products rather than out of the rows, which saves a
    pass over them.
    """

    def __init__(self, place: Place, strips: int, pilot: Any) -> None:
        self._place, self._strips = place, strips
        self._pilot = place.float64(pilot)
        self._mean = self._pilot * 0.0
        self._scatter: Any = 0.0
        self._count, self._weight = 0, 0.0

    def absorb(self, rows: Any, row_weights: FloatArray | None) -> None:
        """Add a block of rows; all weights are positive."""
        xp, place = self._place.xp, self._place
        centre = self._pilot + self._mean
        left = self._mean - (centre - self._pilot)  # what rounding left out of the centre
        rows = place.minus(rows, centre)
        if row_weights is None:
            weight = float(rows.shape[0])
            mean = xp.sum(rows, axis=0) / weight
        else:
            weight = float(row_weights.sum())
            mean = xp.matmul(place.constant(row_weights / weight), rows)
        delta = mean - left
        heavier = weight > self._weight
        if heavier:  # the mean so far may be far off, and products about it would cost digits
            rows = rows - mean
        if row_weights is not None:
            rows = rows * place.constant(np.sqrt(row_weights))[:, None]
        total = self._weight + weight
        scatter = self._products(rows) + self._weight * (weight / total) * _outer(delta)
        self._scatter = self._scatter + (scatter if heavier else scatter - weight * _outer(mean))
        self._pilot, self._mean = centre, left + (weight / total) * delta
        self._weight, self._count = total, self._count + rows.shape[0]

    def _products(self, rows: Any) -> Any:
        """rows' rows, (p, p)."""
        xp, (n_rows, p) = self._place.xp, rows.shape
        strips = self._strips if n_rows >= self._strips * FEWEST_BLOCK_ROWS else 1
        if strips == 1:
            return xp.matmul(xp.matrix_transpose(rows), rows)
        even = n_rows - n_rows % strips
        stack = xp.reshape(rows[:even, :], (strips, even // strips, p))
        products = xp.sum(xp.matmul(xp.matrix_transpose(stack), stack), axis=0)
        if even < n_rows:
            rest = rows[even:, :]
            products = products + xp.matmul(xp.matrix_transpose(rest), rest)
        return products

    def finished(self, label: Label) -> OneGroup:
        """The group's moments, on the host."""
        lower = np.tril(on_host(self._scatter))
        return OneGroup(
            label,
            self._count,
            self._weight,
            on_host(self._pilot) + on_host(self._mean),
            lower + np.tril(lower, -1).T,
        )


def _outer(vector: Any) -> Any:
    return vector[:, None] * vector[None, :]
