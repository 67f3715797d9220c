"""Rows of an array reduced and restored on their own device."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fairspan.rows.checks import check_width, checked_values
from fairspan.rows.device.place import BlockPlan, Place, checked_array, on_host, spans
from fairspan.rows.protocol import Projection
from fairspan.typing import FloatArray


def transformed(X: Any, projection: Projection) -> Any:
    """Coordinates of rows, as an array of the same package on the same device.

    Single precision stays; anything else becomes float64. It is centred in float64 in any case.

    Raises
    ------
    InvalidInput
        Another number of features, NaN or infinity.
    """
    place = Place.of(X)
    rows = checked_array(X, place)
    p = projection.components.shape[1]
    check_width(rows.shape[1], p, "features")
    mean, scale = _mean_and_scale(projection)
    point, basis = place.constant(mean), place.constant((projection.components / scale).T.copy())
    return _mapped(rows, place, p, lambda block: place.xp.matmul(place.minus(block, point), basis))


def restored(Z: Any, projection: Projection) -> Any:
    """Rows in the original features, as an array of the same package on the same device.

    Raises
    ------
    InvalidInput
        Another number of coordinates, NaN or infinity.
    """
    place = Place.of(Z)
    rows = checked_array(Z, place)
    d, p = projection.components.shape
    check_width(rows.shape[1], d, "coordinates")
    mean, scale = _mean_and_scale(projection)
    point, basis = place.constant(mean), place.constant(projection.components * scale)
    return _mapped(
        rows, place, p, lambda block: place.xp.matmul(place.float64(block), basis) + point
    )


def _mean_and_scale(projection: Projection) -> tuple[FloatArray, FloatArray]:
    p = projection.components.shape[1]
    mean, scale = projection.mean, projection.scale
    return np.zeros(p) if mean is None else mean, np.ones(p) if scale is None else scale


def _mapped(rows: Any, place: Place, widest: int, change: Callable[[Any], Any]) -> Any:
    """Each block of rows changed in float64; a single wait for the device, at the end."""
    xp = place.xp
    kept = xp.float32 if rows.dtype == xp.float32 else xp.float64
    size = BlockPlan.for_place(place).block_rows(widest)
    total = xp.zeros((), dtype=xp.float64, device=place.device)
    parts = []
    with np.errstate(over="ignore", invalid="ignore"):  # found by the sum
        for span in spans(rows.shape[0], size):
            block = rows[span, :]
            total = total + xp.sum(place.float64(block))
            parts.append(xp.astype(change(block), kept, copy=False))
    if not place.finite(total):
        _check_finite(rows, place, size)
    return xp.concat(parts, axis=0)


def _check_finite(rows: Any, place: Place, size: int) -> None:
    for span in spans(rows.shape[0], size):
        checked_values(on_host(place.float64(rows[span, :])), span.start, None)
