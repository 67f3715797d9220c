"""Which rows of an array on a device belong to which group, found with little traffic to it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.rows.device.place import Place, on_host
from fairspan.rows.groups import CodedLabels, LabelCoder
from fairspan.typing import BoolArray, FloatArray, IndexArray

Indices = IndexArray
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
    bounds = zip(codes, starts.tolist(), stops, strict=True)
    return [OwnRows(code, order[start:stop], stop - start) for code, start, stop in bounds]


def _sort_keys(xp: Any, labels: Any) -> Any:
    """Labels in bytes where they fit, which are sorted by counting."""
    if xp.isdtype(labels.dtype, "bool"):
        return xp.astype(labels, xp.uint8)
    low, high = int(xp.min(labels)), int(xp.max(labels))
    if high - low > 255:
        return labels
    return xp.astype(xp.astype(labels, xp.int64) - low, xp.uint8)


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
    kept: Indices | None = None
    if missing is not None and missing.any():
        kept = np.flatnonzero(~missing)
        labels, weights = labels[kept], None if weights is None else weights[kept]
    codes = coder.encode(labels, first_row)
    if weights is not None and not weights.all():
        kept = np.arange(len(codes)) if kept is None else kept
        absent, present = kept[weights == 0], weights > 0
        yield OwnRows(None, place.constant(absent), len(absent))
        kept, codes, weights = kept[present], codes[present], weights[present]
    sizes = np.bincount(codes)
    check(int(np.count_nonzero(sizes)), len(codes))
    if kept is None and np.count_nonzero(sizes) == 1:
        yield OwnRows(int(codes[0]), None, len(codes), weights)
        return
    order = np.argsort(codes.astype(np.uint8) if len(sizes) <= 256 else codes, kind="stable")
    rows = place.constant(order if kept is None else kept[order])
    weights = None if weights is None else weights[order]
    ends = np.cumsum(sizes)
    for code in np.flatnonzero(sizes).tolist():
        own = slice(int(ends[code] - sizes[code]), int(ends[code]))
        yield OwnRows(code, rows[own], int(sizes[code]), None if weights is None else weights[own])
