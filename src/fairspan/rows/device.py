"""Rows in an array of another package than numpy (torch, cupy, jax and others), on any device."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_pydata_sparse_array,
    is_torch_array,
)

from fairspan.errors import InvalidInput, InvalidType
from fairspan.rows.arrays import (
    Place,
    RowsInMemory,
    checked_weights,
    is_device_array,
    labels_of,
    on_host,
)
from fairspan.rows.checks import check_shape, check_width, checked_values
from fairspan.rows.groups import CodedLabels
from fairspan.rows.protocol import OnMissing, Projection, RowOpener
from fairspan.typing import AnyArray, FloatArray, IndexArray

# Fewest rows of a block, so that a product of it keeps the device busy.
FEWEST_BLOCK_ROWS = 512
# Numbers in one block: it stays in the cache of a CPU, or keeps a GPU busy in 128 MB.
_CPU_NUMBERS, _GPU_NUMBERS = 2**17, 2**24


def place_of(array: Any) -> Place:
    """The package and the device of an array.

    Raises
    ------
    InvalidType
        It is no dense array, or its device has no double precision.
    """
    if is_pydata_sparse_array(array) or (
        is_torch_array(array) and str(array.layout) != "torch.strided"
    ):
        raise InvalidType(
            f"X is a sparse {type(array).__name__}",
            "Allowed: dense arrays, and the sparse matrices of scipy",
            "Convert it, for example to scipy.sparse.csr_array",
        )
    try:
        place = Place(array_namespace(array), device(array))
    except (TypeError, AttributeError) as error:
        raise InvalidType(
            f"X is a {type(array).__name__}, which is no array ({error})",
            "Allowed: arrays that follow the Array API standard",
            "Pass the array of numbers itself",
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns, and gives single precision
        try:
            dtype = place.xp.zeros(1, dtype=place.xp.float64, device=place.device).dtype
        except (TypeError, ValueError, RuntimeError):
            dtype = None
    if dtype != place.xp.float64:
        raise InvalidType(
            f"X lies on {place.device}, where no double precision is available",
            "Allowed: devices with float64, in which sums over many rows stay exact enough",
            "Move X to the CPU first; in JAX, set jax_enable_x64",
        )
    return place


def _block_numbers(place: Place) -> int:
    """Numbers in one block, which takes eight bytes each (twice that with weights)."""
    return _CPU_NUMBERS if "cpu" in str(place.device).lower() else _GPU_NUMBERS


def _placed(array: Any) -> tuple[Any, Place]:
    """A table of real numbers, free of any record of derivatives, and where it lies.

    Raises
    ------
    InvalidInput
        Complex numbers, no rows, no features, or another number of dimensions.
    InvalidType
        As :func:`place_of`.
    """
    place = place_of(array)
    check_shape(tuple(array.shape))
    if place.xp.isdtype(array.dtype, "complex floating"):
        raise InvalidInput(
            "X holds complex numbers: Complex data not supported",
            "Allowed: real numbers",
            "Pass real and imaginary parts as separate features",
        )
    return array.detach() if is_torch_array(array) else array, place


def spans(n_rows: int, size: int) -> Iterator[slice]:
    """Consecutive rows, so many at a time; the standard knows no slices beyond the end."""
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


@dataclass(frozen=True, eq=False)
class DeviceRows(RowsInMemory):
    """Rows of an (n, p) array that may lie on a GPU.

    Attributes
    ----------
    array : array of shape (n, p)
    place : Place
    labels : CodedLabels
        Those that lie where the rows are, if they are whole numbers or truth values there.
    block_numbers : int
        Numbers that are computed with at once.
    """

    array: Any
    place: Place
    labels: CodedLabels = field(kw_only=True)
    block_numbers: int = field(kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        return tuple(self.array.shape)

    def between(self, start: int, stop: int) -> AnyArray:
        """Some rows, on the host; of a precision that numpy lacks, as float64."""
        rows, xp = self.array[start:stop, :], self.place.xp
        is_odd = xp.isdtype(rows.dtype, "real floating") and rows.dtype != xp.float32
        return on_host(self.place.float64(rows) if is_odd else rows)


class DeviceArrays(RowOpener):
    """Arrays of other packages than numpy, on any device."""

    def takes(self, X: Any) -> bool:
        """Whether it is one."""
        return is_device_array(X)

    def open_rows(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> DeviceRows:
        """Rows of an array, whose groups and weights are beside it, there or on the host."""
        array, place = _placed(X)
        n_rows = int(array.shape[0])
        return DeviceRows(
            array,
            place,
            labels=_labels_there(sensitive_features, place, n_rows)
            or labels_of(_brought_here(sensitive_features), n_rows, X),
            weights=checked_weights(_brought_here(sample_weight), n_rows),
            on_missing=on_missing,
            block_numbers=_block_numbers(place),
        )

    def transformed(self, X: Any, projection: Projection) -> Any:
        """Coordinates of rows, as an array of the same package on the same device.

        Single precision stays; anything else becomes float64. It is centred in float64 in any case.

        Raises
        ------
        InvalidInput
            Another number of features, NaN or infinity.
        """
        mean, scale = _mean_and_scale(projection)
        return _mapped(X, "features", mean, (projection.encoder / scale).T, 0.0)

    def restored(self, Z: Any, projection: Projection) -> Any:
        """Rows in the original features, as an array of the same package on the same device.

        Raises
        ------
        InvalidInput
            Another number of coordinates, NaN or infinity.
        """
        mean, scale = _mean_and_scale(projection)
        return _mapped(Z, "coordinates", 0.0, projection.decoder.T * scale, mean)


class LabelsThere(CodedLabels):
    """Labels on a device, coded there; the codes are moved here when they are requested, once."""

    there: Any

    def __init__(self, distinct: list[Any], there: Any) -> None:
        vars(self).update(distinct=distinct, names=(), there=there)

    @cached_property
    def codes(self) -> IndexArray:
        """On the host."""
        return on_host(self.there)

    def __len__(self) -> int:
        return int(self.there.shape[0])


def _labels_there(labels: Any, place: Place, n_rows: int) -> LabelsThere | None:
    """Labels on the device that can be sorted there: whole numbers or truth values."""
    if not is_device_array(labels) or tuple(labels.shape) != (n_rows,):
        return None
    own, xp = place_of(labels), place.xp
    if own.device != place.device or own.xp is not xp:
        return None
    kinds = ("bool", "signed integer")
    if labels.dtype != xp.uint8 and not xp.isdtype(labels.dtype, kinds):
        return None
    distinct, codes = xp.unique_inverse(labels)
    return LabelsThere(on_host(distinct).tolist(), codes)


def _brought_here(values: Any) -> Any:
    return on_host(values) if is_device_array(values) else values


def _mean_and_scale(projection: Projection) -> tuple[FloatArray, FloatArray]:
    p = projection.encoder.shape[1]
    mean, scale = projection.mean, projection.scale
    return np.zeros(p) if mean is None else mean, np.ones(p) if scale is None else scale


def _mapped(X: Any, what: str, before: Any, matrix: FloatArray, after: Any) -> Any:
    """(X - before) times the matrix, plus what comes after: blocks of rows in float64.

    There is a single wait for the device, at the end.
    """
    rows, place = _placed(X)
    check_width(rows.shape[1], len(matrix), what)
    before, matrix, after = (
        place.constant(np.array(each, dtype=np.float64)) for each in (before, matrix, after)
    )
    xp = place.xp
    kept = xp.float32 if rows.dtype == xp.float32 else xp.float64
    size = max(_block_numbers(place) // max(matrix.shape), FEWEST_BLOCK_ROWS)
    total = xp.zeros((), dtype=xp.float64, device=place.device)
    parts = []
    with np.errstate(over="ignore", invalid="ignore"):  # found by the sum
        for span in spans(rows.shape[0], size):
            block = place.float64(rows[span, :])
            total = total + xp.sum(block)
            parts.append(xp.astype(xp.matmul(block - before, matrix) + after, kept, copy=False))
    if not xp.isfinite(total):
        for span in spans(rows.shape[0], size):
            checked_values(on_host(place.float64(rows[span, :])), span.start, None)
    return xp.concat(parts, axis=0)
