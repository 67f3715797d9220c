"""Rows of scipy sparse matrices, and of arrays of other packages on any device.

Such packages are torch, cupy and jax, for example.
"""

import warnings
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from array_api_compat import (
    array_namespace,
    device,
    is_pydata_sparse_array,
    is_torch_array,
)

from fairspan.errors import InvalidInput, InvalidType
from fairspan.rows.arrays import (
    ArrayBackend,
    InMemoryRows,
    is_device_array,
    resolve_labels_and_weights,
    to_numpy,
)
from fairspan.rows.groups import CodedLabels, Label, is_missing_label, to_python_label
from fairspan.rows.protocol import KEEPING_MISSING, OnMissing, RowMap, SourceAdapter
from fairspan.rows.validation import (
    check_dtype,
    check_n_columns,
    check_shape,
    to_finite_float64,
    to_numeric,
)
from fairspan.typing import AnyArray, FloatArray, IndexArray

# scipy has no type stubs for csr_array.
CsrArray = Any

# Entries of transformed rows that are computed at a time (32 MB of float64).
_CHUNK_ENTRIES = 2**22


@dataclass(frozen=True, eq=False)
class SparseRows(InMemoryRows):
    """Rows of a sparse matrix.

    Attributes
    ----------
    matrix : (n, p) csr_array
        Canonical format: no duplicates or stored zeros. Finite, or NaN if incomplete rows are
        dropped later.
    """

    matrix: CsrArray

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (n, p)."""
        return tuple(self.matrix.shape)

    @property
    def density(self) -> float:
        """Fraction of cells that are stored."""
        return float(self.matrix.nnz / (self.n_rows * self.n_features))

    def read_slice(self, start: int, stop: int) -> FloatArray:
        """Return a row range as a dense array."""
        return np.asarray(self.matrix[start:stop].toarray())

    def drop_incomplete(self) -> "SparseRows":
        """Drop incomplete rows if `on_missing` says so."""
        if self.on_missing == "error" or self.group_labels is None:
            return self
        drop_mask = self.group_labels.missing_mask
        drop_mask[self.matrix.tocoo().row[np.isnan(self.matrix.data)]] = True
        return self.take(np.flatnonzero(~drop_mask)) if drop_mask.any() else self

    def without_dropped(self) -> tuple["SparseRows", int]:
        """Return the rows without incomplete ones, and the number of dropped rows.

        If none remains, all rows are returned.
        """
        complete = self.drop_incomplete()
        if not complete.n_rows:
            return self, 0
        return complete, self.n_rows - complete.n_rows

    def lost_groups(self, remaining: Collection[Label]) -> frozenset[Label]:
        """Return the groups of rows with positive weight that are not among the remaining ones."""
        labels = self.group_labels
        if labels is None:
            return frozenset()
        if self.weights is not None:
            labels = labels[self.weights > 0]
        groups = map(to_python_label, labels.present)
        return frozenset(group for group in groups if not is_missing_label(group)).difference(
            remaining
        )

    def take(self, indices: IndexArray) -> "SparseRows":
        """Select rows by position."""
        assert self.group_labels is not None
        return replace(
            self,
            matrix=self.matrix[indices],
            group_labels=self.group_labels[indices],
            weights=None if self.weights is None else self.weights[indices],
        )


class SparseAdapter(SourceAdapter):
    """Adapter for scipy sparse matrices."""

    def accepts(self, X: Any) -> bool:
        """Return whether `X` is a sparse matrix."""
        return hasattr(X, "tocsr")

    def open(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> SparseRows:
        """Open the rows of a sparse matrix."""
        if on_missing in KEEPING_MISSING:
            raise InvalidInput(
                f'X is a sparse matrix, and on_missing is "{on_missing}"',
                'Allowed for sparse matrices: "error" and "drop"',
                "Pass X.toarray() if it fits into memory",
            )
        matrix = _to_canonical_csr(X, allow_nan=on_missing == "drop")
        metadata = resolve_labels_and_weights(X, matrix.shape[0], sensitive_features, sample_weight)
        return SparseRows(matrix, on_missing=on_missing, **metadata)

    def map_rows(self, X: Any, row_map: RowMap) -> Any:
        """Transform the rows to an (n, d) array; float32 input gives float32 output.

        Raises
        ------
        InvalidInput
            Wrong number of features, NaN or infinity.
        """
        if row_map.affine is None or row_map.input_kind != "features":
            return None
        rows = _to_canonical_csr(X)
        check_n_columns(rows.shape[1], row_map.n_inputs, row_map.input_kind)
        shift, matrix, offset = row_map.affine
        constant = offset - shift @ matrix
        dtype = np.float32 if np.dtype(X.dtype) == np.float32 else np.float64
        coordinates = np.empty((rows.shape[0], matrix.shape[1]), dtype)
        size = max(_CHUNK_ENTRIES // matrix.shape[1], 1)
        for start in range(0, len(coordinates), size):
            # Compute in float64: with a large mean, float32 would lose digits.
            coordinates[start : start + size] = rows[start : start + size] @ matrix + constant
        return coordinates


def _to_canonical_csr(X: Any, *, allow_nan: bool = False) -> CsrArray:
    """Convert to a canonical float64 csr_array without modifying the user's matrix.

    Raises
    ------
    InvalidInput, InvalidType
        Unusable shape, dtype or value.
    """
    check_shape(X.shape)
    check_dtype(X.dtype)
    rows = to_validated_csr(X)
    matrix = scipy.sparse.csr_array(
        (to_numeric(rows.data).astype(np.float64, copy=False), rows.indices, rows.indptr),
        shape=rows.shape,
    )
    if not (matrix.has_canonical_format and matrix.data.all()):
        matrix = matrix.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            matrix.sum_duplicates()
        matrix.eliminate_zeros()
    is_invalid = np.isinf(matrix.data) if allow_nan else ~np.isfinite(matrix.data)
    if is_invalid.any():
        first = int(np.argmax(is_invalid))
        row = int(np.searchsorted(matrix.indptr, first, side="right")) - 1
        # The validation of dense rows raises the error, with this row and column.
        cells = np.zeros((1, int(matrix.indices[first]) + 1))
        cells[0, -1] = matrix.data[first]
        to_finite_float64(cells, row, None)
    return matrix


def to_validated_csr(X: Any) -> CsrArray:
    """Convert a sparse matrix to CSR after validating its indices.

    scipy trusts index arrays: out-of-range indices would access memory out of bounds.

    Raises
    ------
    InvalidInput
        An index out of range, or arrays that do not fit together.
    """
    try:
        rows = scipy.sparse.csr_array(_rebuild(X).tocsr())
        _check_index_arrays(rows)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise InvalidInput(
            f"X is a sparse matrix with invalid indices ({error})",
            f"Allowed: indices from 0 up to the shape, which is {tuple(X.shape)}",
            "Rebuild the matrix with scipy.sparse.coo_array, which checks its indices",
        ) from error
    return rows


def _rebuild(X: Any) -> Any:
    """Rebuild a matrix from its arrays, which scipy validates only on construction."""
    sparse_format = getattr(X, "format", "")
    if sparse_format in ("csr", "csc", "bsr"):
        rebuilt = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
        _check_index_arrays(rebuilt)
        return rebuilt
    if sparse_format == "lil" and list(map(len, X.rows)) != list(map(len, X.data)):
        raise ValueError("a row of a lil matrix must have as many column indices as values")
    if sparse_format == "dia":
        X = type(X)((X.data, X.offsets), shape=X.shape)
    cells = X.tocoo()
    return scipy.sparse.coo_array((cells.data, (cells.row, cells.col)), shape=X.shape)


def _check_index_arrays(matrix: Any) -> None:
    # scipy checks the order of indptr only if its last entry is positive.
    starts = matrix.indptr
    if starts.dtype.kind != "i" or (starts[1:] < starts[:-1]).any():
        raise ValueError("indptr must be a non-decreasing integer array")
    matrix.check_format(full_check=True)


# Minimum rows per block, to keep the device busy.
MIN_BLOCK_ROWS = 512
# Entries per block: 1 MB fits into the cache of a CPU, and 128 MB keep a GPU busy.
_CPU_BLOCK_ENTRIES = 2**17
_GPU_BLOCK_ENTRIES = 2**24


def backend_of(array: Any) -> ArrayBackend:
    """Array API namespace and device of an array.

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
    """Entries per block (8 bytes each, 16 with weights)."""
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
    group_labels : CodedLabels
        Device-side labels if they are integers or booleans on the same device.
    block_entries : int
        Entries processed per block.
    """

    array: Any
    backend: ArrayBackend
    group_labels: CodedLabels = field(kw_only=True)
    block_entries: int = field(kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (n, p)."""
        return tuple(self.array.shape)

    def take(self, indices: IndexArray) -> "DeviceRows":
        """Select rows by position."""
        return replace(
            self,
            array=self.backend.xp.take(self.array, self.backend.to_device(indices), axis=0),
            group_labels=self.group_labels[indices],
            weights=None if self.weights is None else self.weights[indices],
        )

    def read_slice(self, start: int, stop: int) -> AnyArray:
        """Copy a row range to the host; precisions that numpy lacks become float64."""
        rows = self.array[start:stop, :]
        xp = self.backend.xp
        if xp.isdtype(rows.dtype, "real floating") and rows.dtype != xp.float32:
            rows = self.backend.float64(rows)
        return to_numpy(rows)


class DeviceArrayAdapter(SourceAdapter):
    """Adapter for non-numpy arrays on any device."""

    def accepts(self, X: Any) -> bool:
        """Return whether `X` is a device array."""
        return is_device_array(X)

    def open(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> DeviceRows:
        """Open the rows of a device array; labels and weights may be on the device or the host."""
        array, backend = _validate_device_array(X)
        n_rows = int(array.shape[0])
        labels = _device_labels(sensitive_features, backend, n_rows)
        if labels is None:
            labels = sensitive_features
        metadata = resolve_labels_and_weights(X, n_rows, labels, sample_weight)
        return DeviceRows(
            array,
            backend,
            on_missing=on_missing,
            block_entries=_block_entries(backend),
            **metadata,
        )

    def map_rows(self, X: Any, row_map: RowMap) -> Any:
        """Apply an affine function, returning an array of the same package on the same device.

        float32 input gives float32 output, anything else float64; centering is always in float64.
        The device is synchronized once, at the end.

        Raises
        ------
        InvalidInput
            Wrong number of features or coordinates, NaN or infinity.
        """
        if row_map.affine is None:
            return None
        rows, backend = _validate_device_array(X)
        check_n_columns(rows.shape[1], row_map.n_inputs, row_map.input_kind)
        shift, matrix, offset = (
            backend.to_device(np.array(part, dtype=np.float64)) for part in row_map.affine
        )
        xp = backend.xp
        dtype = xp.float32 if rows.dtype == xp.float32 else xp.float64
        n = rows.shape[0]
        size = max(_block_entries(backend) // max(matrix.shape), MIN_BLOCK_ROWS)
        # The array API standard does not allow slices beyond the end.
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
            for rows_slice in slices:
                block = to_numpy(backend.float64(rows[rows_slice, :]))
                to_finite_float64(block, rows_slice.start, None)
        return xp.concat(parts, axis=0)


class DeviceLabels(CodedLabels):
    """Labels encoded on a device; codes are copied to the host on first access."""

    device_codes: Any

    def __init__(self, categories: list[Any], device_codes: Any) -> None:
        vars(self).update(
            categories=categories, column_names=(), unused=(), device_codes=device_codes
        )

    def with_categories(self, categories: list[Any]) -> "DeviceLabels":
        """Return labels of the same rows, with other categories for the same codes."""
        return DeviceLabels(categories, self.device_codes)

    @cached_property
    def codes(self) -> IndexArray:
        """Codes on the host."""
        return to_numpy(self.device_codes)

    def __len__(self) -> int:
        return int(self.device_codes.shape[0])


def _device_labels(labels: Any, backend: ArrayBackend, n_rows: int) -> DeviceLabels | None:
    """Encode integer or boolean labels on the device; None if that is not possible."""
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
