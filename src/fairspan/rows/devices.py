"""Rows of arrays on a device, such as a GPU."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_pydata_sparse_array, is_torch_array

from fairspan.errors import InvalidInput, InvalidType
from fairspan.rows.array_backend import ArrayBackend, is_device_array, to_numpy
from fairspan.rows.blocks import OnMissing
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.in_memory import InMemoryRows
from fairspan.rows.label_resolution import resolve_metadata
from fairspan.rows.metadata import RowMetadata
from fairspan.rows.row_adapters import RowMap, SourceAdapter
from fairspan.rows.row_validation import check_n_columns, check_shape, to_finite_float64
from fairspan.typing import AnyArray, IndexArray, RawLabel, TableLike

# Minimum rows per block, to keep the device busy.
MIN_BLOCK_ROWS = 512
# Entries per block: 1 MB fits into the cache of a CPU, and 128 MB keep a GPU busy.
_CPU_BLOCK_ENTRIES = 2**17
_GPU_BLOCK_ENTRIES = 2**24


def backend_of(array: Any) -> ArrayBackend:
    """Return the array API namespace and the device of an array.

    Raises
    ------
    InvalidType
        Not a dense array, or the device lacks float64.
    """
    if is_pydata_sparse_array(array) or (
        is_torch_array(array) and str(array.layout) != "torch.strided"
    ):
        raise InvalidType(
            f"X is a sparse {type(array).__name__}",
            "Allowed: dense arrays, and scipy sparse matrices",
            "Convert it, for example to scipy.sparse.csr_array",
        )
    try:
        backend = ArrayBackend(array_namespace(array), device(array))
    except (TypeError, AttributeError) as error:
        raise InvalidType(
            f"X is a {type(array).__name__}, which is not an array ({error})",
            "Allowed: arrays that follow the Array API standard",
            "Pass the array of numbers itself",
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns and falls back to float32
        try:
            dtype = backend.xp.zeros(1, dtype=backend.xp.float64, device=backend.device).dtype
        except (TypeError, ValueError, RuntimeError):
            dtype = None
    if dtype != backend.xp.float64:
        raise InvalidType(
            f"X is on device {backend.device}, which does not support float64",
            "Allowed: devices with float64; sums over many rows need it",
            "Move X to the CPU first; in JAX, set jax_enable_x64",
        )
    return backend


def _block_entries(backend: ArrayBackend) -> int:
    """Entries per block on the device of an array (8 bytes each, 16 with weights)."""
    return _CPU_BLOCK_ENTRIES if "cpu" in str(backend.device).lower() else _GPU_BLOCK_ENTRIES


def _validate_device_array(array: Any) -> tuple[Any, ArrayBackend]:
    """Validate a 2-D real array, detach it from autograd, and return it with its backend.

    Raises
    ------
    InvalidInput
        Complex numbers, no rows, no features, or the wrong number of dimensions.
    InvalidType
        Same as for :func:`backend_of`.
    """
    backend = backend_of(array)
    check_shape(tuple(array.shape))
    if backend.xp.isdtype(array.dtype, "complex floating"):
        raise InvalidInput(
            "X contains complex numbers: Complex data not supported",
            "Allowed: real numbers",
            "Pass real and imaginary parts as separate features",
        )
    if is_torch_array(array):
        array = array.detach()
    return array, backend


@dataclass(frozen=True, eq=False)
class DeviceRows(InMemoryRows):
    """Rows of an (n, p) array, possibly on a GPU.

    Attributes
    ----------
    array : array of shape (n, p)
    backend : ArrayBackend
    groups : CodedLabels
        `DeviceLabels` if they are integers or booleans on the same device.
    block_entries : int
        Entries processed per block.
    """

    array: Any
    backend: ArrayBackend
    block_entries: int = field(kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (n, p)."""
        return tuple(self.array.shape)

    def read_slice(self, start: int, stop: int) -> AnyArray:
        """Copy a row range to the host; precisions that numpy lacks become float64."""
        rows = self.array[start:stop, :]
        xp = self.backend.xp
        if xp.isdtype(rows.dtype, "real floating") and rows.dtype != xp.float32:
            rows = self.backend.float64(rows)
        return to_numpy(rows)


class DeviceArrayAdapter(SourceAdapter):
    """Adapter for non-numpy arrays on any device."""

    def accepts(self, X: TableLike) -> bool:
        """Return whether `X` is a device array."""
        return is_device_array(X)

    def open(self, X: TableLike, metadata: RowMetadata, on_missing: OnMissing) -> DeviceRows:
        """Open the rows of a device array; labels and weights may be on the device or the host."""
        array, backend = _validate_device_array(X)
        n_rows = int(array.shape[0])
        groups = _device_labels(metadata.groups, backend, n_rows)
        if groups is not None:  # other labels are encoded on the host
            metadata = replace(metadata, groups=groups)
        resolved = resolve_metadata(X, n_rows, metadata)
        return DeviceRows(
            array,
            backend,
            on_missing=on_missing,
            block_entries=_block_entries(backend),
            **resolved,
        )

    def map_rows(self, X: TableLike, row_map: RowMap) -> TableLike:
        """Apply an affine function, returning an array of the same package on the same device.

        None for other functions: the caller evaluates them on numpy arrays. float32 input gives
        float32 output, anything else float64; centering is always in float64. The device is
        synchronized once, at the end.

        Raises
        ------
        InvalidInput
            Wrong number of features or coordinates, NaN or infinity.
        """
        if row_map.affine is None:
            return None
        rows, backend = _validate_device_array(X)
        check_n_columns(rows.shape[1], row_map.n_inputs, row_map.input_kind)
        # The function is (x - shift) @ matrix + offset.
        shift, matrix, offset = (
            backend.to_device(np.array(part, dtype=np.float64)) for part in row_map.affine
        )
        xp = backend.xp
        dtype = xp.float32 if rows.dtype == xp.float32 else xp.float64
        n = rows.shape[0]
        size = max(_block_entries(backend) // max(matrix.shape), MIN_BLOCK_ROWS)
        # Blocks of `size` rows, so that memory is bounded. The array API standard does not allow
        # slices beyond the end.
        slices = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        total = xp.zeros((), dtype=xp.float64, device=backend.device)
        parts = []
        with np.errstate(over="ignore", invalid="ignore"):  # detected by the sum
            for rows_slice in slices:
                block = backend.float64(rows[rows_slice, :])
                total = total + xp.sum(block)
                coordinates = xp.matmul(block - shift, matrix) + offset
                parts.append(xp.astype(coordinates, dtype, copy=False))
        if not xp.isfinite(total):
            # Raises with the row and column of NaN or infinity. If there are none, a sum of large
            # numbers overflowed, and the coordinates are right.
            for rows_slice in slices:
                block = to_numpy(backend.float64(rows[rows_slice, :]))
                to_finite_float64(block, rows_slice.start, None)
        return xp.concat(parts, axis=0)


class DeviceLabels(CodedLabels):
    """Labels encoded on a device; codes are copied to the host on first access."""

    def __init__(self, categories: Sequence[RawLabel], device_codes: Any) -> None:
        super().__init__(categories, codes=np.empty(0, dtype=np.intp))
        self.device_codes = device_codes
        self._host_codes: IndexArray | None = None

    def with_categories(self, categories: Sequence[RawLabel]) -> "DeviceLabels":
        """Return labels of the same rows, with other categories for the same codes."""
        return DeviceLabels(categories, self.device_codes)

    @property
    def codes(self) -> IndexArray:
        """Codes on the host."""
        if self._host_codes is None:
            self._host_codes = to_numpy(self.device_codes)
        return self._host_codes

    def __len__(self) -> int:
        return int(self.device_codes.shape[0])


def _device_labels(labels: Any, backend: ArrayBackend, n_rows: int) -> DeviceLabels | None:
    """Encode integer or boolean labels on the device of the rows; None if that is not possible.

    It is if the labels are a single column with the same device and package as the rows, of a type
    whose unique values every package finds: of the unsigned integers, torch supports only uint8.
    """
    if not is_device_array(labels) or tuple(labels.shape) != (n_rows,):
        return None
    labels_backend = backend_of(labels)
    xp = backend.xp
    if labels_backend.device != backend.device or labels_backend.xp is not xp:
        return None
    if labels.dtype != xp.uint8 and not xp.isdtype(labels.dtype, ("bool", "signed integer")):
        return None
    categories, codes = xp.unique_inverse(labels)
    return DeviceLabels(to_numpy(categories).tolist(), codes)
