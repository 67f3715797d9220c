"""Rows in an array of another package than numpy (torch, cupy, jax and others), on any device."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from fairspan.rows.arrays import RowsInMemory, checked_weights, is_device_array
from fairspan.rows.checks import check_width, checked_values
from fairspan.rows.device.place import BlockPlan, Place, checked_array, on_host, spans
from fairspan.rows.labels import Labels, labels_of
from fairspan.rows.protocol import OnMissing, Projection, RowOpener
from fairspan.typing import AnyArray, FloatArray


@dataclass(frozen=True, eq=False)
class DeviceRows(RowsInMemory):
    """Rows of an (n, p) array that may lie on a GPU.

    Attributes
    ----------
    array : array of shape (n, p)
    place : Place
    labels : Labels
        On the host.
    labels_there : (n,) array or None
        The same labels where the rows are, if they are whole numbers or truth values.
    plan : BlockPlan
    """

    array: Any
    place: Place
    labels: Labels = field(kw_only=True)
    labels_there: Any | None = field(default=None, kw_only=True)
    plan: BlockPlan = field(kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        return tuple(self.array.shape)

    def between(self, start: int, stop: int) -> AnyArray:
        """Some rows, on the host; of a precision that numpy lacks, as float64."""
        rows, xp = self.array[start:stop, :], self.place.xp
        if self.place.is_real(rows) and rows.dtype not in (xp.float32, xp.float64):
            rows = self.place.float64(rows)
        return on_host(rows)


class DeviceArrays(RowOpener):
    """Arrays of other packages than numpy, on any device."""

    def takes(self, X: Any) -> bool:
        """Whether it is one."""
        return is_device_array(X)

    def open_rows(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> DeviceRows:
        """Rows of an array, whose groups and weights are beside it, there or on the host."""
        place = Place.of(X)
        array = checked_array(X, place)
        n_rows = int(array.shape[0])
        there = _labels_there(sensitive_features, place, n_rows)
        if there is None:
            labels = labels_of(_brought_here(sensitive_features), n_rows, X)
        else:
            # Labels are moved here only when they are requested, once.
            moved = cache(lambda: labels_of(on_host(there), n_rows, X))
            labels = Labels(n_rows, lambda start, stop: moved().between(start, stop))
        return DeviceRows(
            array,
            place,
            labels=labels,
            labels_there=there,
            weights=checked_weights(_brought_here(sample_weight), n_rows),
            on_missing=on_missing,
            plan=BlockPlan.for_place(place),
        )

    def transformed(self, X: Any, projection: Projection) -> Any:
        """Coordinates of rows, as an array of the same package on the same device.

        Single precision stays; anything else becomes float64. It is centred in float64 in any case.

        Raises
        ------
        InvalidInput
            Another number of features, NaN or infinity.
        """
        place = Place.of(X)
        rows = checked_array(X, place)
        p = projection.encoder.shape[1]
        check_width(rows.shape[1], p, "features")
        mean, scale = _mean_and_scale(projection)
        point, basis = (
            place.constant(mean),
            place.constant((projection.encoder / scale).T.copy()),
        )
        return _mapped(
            rows, place, p, lambda block: place.xp.matmul(place.minus(block, point), basis)
        )

    def restored(self, Z: Any, projection: Projection) -> Any:
        """Rows in the original features, as an array of the same package on the same device.

        Raises
        ------
        InvalidInput
            Another number of coordinates, NaN or infinity.
        """
        place = Place.of(Z)
        rows = checked_array(Z, place)
        d, p = projection.encoder.shape
        check_width(rows.shape[1], d, "coordinates")
        mean, scale = _mean_and_scale(projection)
        point, basis = place.constant(mean), place.constant(projection.decoder.T * scale)
        return _mapped(
            rows, place, p, lambda block: place.xp.matmul(place.float64(block), basis) + point
        )


def _labels_there(labels: Any, place: Place, n_rows: int) -> Any | None:
    """Labels on the device that can be sorted there: whole numbers or truth values."""
    if not is_device_array(labels) or tuple(labels.shape) != (n_rows,):
        return None
    own, xp = Place.of(labels), place.xp
    if own.device != place.device or own.xp is not xp:
        return None
    kinds = ("bool", "signed integer")
    return labels if labels.dtype == xp.uint8 or xp.isdtype(labels.dtype, kinds) else None


def _brought_here(values: Any) -> Any:
    return on_host(values) if is_device_array(values) else values


def _mean_and_scale(projection: Projection) -> tuple[FloatArray, FloatArray]:
    p = projection.encoder.shape[1]
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
        for span in spans(rows.shape[0], size):
            checked_values(on_host(place.float64(rows[span, :])), span.start, None)
    return xp.concat(parts, axis=0)
