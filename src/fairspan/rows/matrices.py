"""Rows in matrices that are no arrays of numpy: sparse ones of scipy, and those of other packages.

The latter (torch, cupy, jax and others) may lie on any device.
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

# A csr_array, for which scipy has no types.
CsrArray = Any

# Numbers of one part of reduced rows that are computed at once.
_CHUNK_ENTRIES = 2**22


@dataclass(frozen=True, eq=False)
class SparseRows(InMemoryRows):
    """Rows of a sparse matrix.

    Attributes
    ----------
    matrix : (n, p) csr_array
        Finite numbers, or NaN where missing cells are dropped; no duplicates, no stored zeros.
    """

    matrix: CsrArray

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        return tuple(self.matrix.shape)

    @property
    def density(self) -> float:
        """Share of the cells that are stored."""
        return float(self.matrix.nnz / (self.n_rows * self.n_features))

    def read_slice(self, start: int, stop: int) -> FloatArray:
        """Some rows with all their zeros."""
        return np.asarray(self.matrix[start:stop].toarray())

    def drop_incomplete(self) -> "SparseRows":
        """Without the rows in which something is missing, where these are to be dropped."""
        if self.on_missing == "error" or self.group_labels is None:
            return self
        missing = self.group_labels.missing_mask
        missing[self.matrix.tocoo().row[np.isnan(self.matrix.data)]] = True
        return self.take(np.flatnonzero(~missing)) if missing.any() else self

    def without_dropped(self) -> tuple["SparseRows", int]:
        """Return the rows that are not left out, and how many are; all if none would remain."""
        kept = self.drop_incomplete()
        if not kept.n_rows:
            return self, 0
        return kept, self.n_rows - kept.n_rows

    def lost_groups(self, kept: Collection[Label]) -> frozenset[Label]:
        """Return the groups of rows that count which are not among these."""
        if self.group_labels is None:
            return frozenset()
        counted = self.group_labels if self.weights is None else self.group_labels[self.weights > 0]
        labels = map(to_python_label, counted.present)
        return frozenset(label for label in labels if not is_missing_label(label)).difference(kept)

    def take(self, indices: IndexArray) -> "SparseRows":
        """Some of the rows, by their positions."""
        assert self.group_labels is not None
        return replace(
            self,
            matrix=self.matrix[indices],
            group_labels=self.group_labels[indices],
            weights=None if self.weights is None else self.weights[indices],
        )


class SparseAdapter(SourceAdapter):
    """Sparse matrices of scipy."""

    def accepts(self, X: Any) -> bool:
        """Whether it is one."""
        return hasattr(X, "tocsr")

    def open(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> SparseRows:
        """Rows of a sparse matrix, whose groups and weights are beside it."""
        if on_missing in KEEPING_MISSING:
            raise InvalidInput(
                f'X is a sparse matrix, and on_missing is "{on_missing}"',
                'Allowed for sparse matrices: "error" and "drop"',
                "Pass X.toarray() if it fits into memory",
            )
        matrix = _to_canonical_csr(X, allow_nan=on_missing == "drop")
        beside = resolve_labels_and_weights(X, matrix.shape[0], sensitive_features, sample_weight)
        return SparseRows(matrix, on_missing=on_missing, **beside)

    def map_rows(self, X: Any, row_map: RowMap) -> Any:
        """Coordinates of the rows as a (n, d) array; single precision stays single.

        Raises
        ------
        InvalidInput
            Another number of features, NaN or infinity.
        """
        if row_map.affine is None or row_map.input_kind != "features":
            return None
        matrix, (before, directions, after) = _to_canonical_csr(X), row_map.affine
        check_n_columns(matrix.shape[1], row_map.n_inputs, row_map.input_kind)
        offset = after - before @ directions
        dtype = np.float32 if np.dtype(X.dtype) == np.float32 else np.float64
        coordinates = np.empty((matrix.shape[0], directions.shape[1]), dtype)
        size = max(_CHUNK_ENTRIES // directions.shape[1], 1)
        for start in range(0, len(coordinates), size):
            # In double precision: in single precision a large mean would cost digits.
            coordinates[start : start + size] = matrix[start : start + size] @ directions + offset
        return coordinates


def _to_canonical_csr(X: Any, *, allow_nan: bool = False) -> CsrArray:
    """A sparse matrix as float64 rows without duplicates or stored zeros; never the user's own.

    Raises
    ------
    InvalidInput, InvalidType
        A shape, type or cell that cannot be used.
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
    bad = np.isinf(matrix.data) if allow_nan else ~np.isfinite(matrix.data)
    if bad.any():
        first = int(np.argmax(bad))
        row = int(np.searchsorted(matrix.indptr, first, side="right")) - 1
        cells = np.zeros((1, int(matrix.indices[first]) + 1))
        cells[0, -1] = matrix.data[first]
        to_finite_float64(cells, row, None)
    return matrix


def to_validated_csr(X: Any) -> CsrArray:
    """A sparse matrix as compressed rows, whose indices were looked at first.

    scipy trusts indices: those out of range would be read from, or written to, memory of others.

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
            f"X is a sparse matrix whose indices are wrong ({error})",
            f"Allowed: indices from 0 up to the shape, which is {tuple(X.shape)}",
            "Make the matrix again from its coordinates: scipy.sparse.coo_array checks them",
        ) from error
    return rows


def _rebuild(X: Any) -> Any:
    """The same matrix made of the same arrays, which scipy checks then and not when they change."""
    kind, shape = getattr(X, "format", ""), X.shape
    if kind in ("csr", "csc", "bsr"):
        anew = type(X)((X.data, X.indices, X.indptr), shape=shape)
        _check_index_arrays(anew)
        return anew
    if kind == "lil" and list(map(len, X.rows)) != list(map(len, X.data)):
        raise ValueError("rows of a lil matrix have as many columns as values")
    cells = (type(X)((X.data, X.offsets), shape=shape) if kind == "dia" else X).tocoo()
    return scipy.sparse.coo_array((cells.data, (cells.row, cells.col)), shape=shape)


def _check_index_arrays(matrix: Any) -> None:
    # scipy looks at the order of these only where the last of them is above zero.
    starts = matrix.indptr
    if starts.dtype.kind != "i" or (starts[1:] < starts[:-1]).any():
        raise ValueError("indptr must be a non-decreasing sequence of whole numbers")
    matrix.check_format(full_check=True)


# Fewest rows of a block, so that a product of it keeps the device busy.
MIN_BLOCK_ROWS = 512
# Numbers in one block: it stays in the cache of a CPU, or keeps a GPU busy in 128 MB.
_CPU_BLOCK_ENTRIES, _GPU_BLOCK_ENTRIES = 2**17, 2**24


def backend_of(array: Any) -> ArrayBackend:
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
        place = ArrayBackend(array_namespace(array), device(array))
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


def _block_entries(place: ArrayBackend) -> int:
    """Numbers in one block, which takes eight bytes each (twice that with weights)."""
    return _CPU_BLOCK_ENTRIES if "cpu" in str(place.device).lower() else _GPU_BLOCK_ENTRIES


def _validate_device_array(array: Any) -> tuple[Any, ArrayBackend]:
    """A table of real numbers, free of any record of derivatives, and where it lies.

    Raises
    ------
    InvalidInput
        Complex numbers, no rows, no features, or another number of dimensions.
    InvalidType
        As :func:`backend_of`.
    """
    place = backend_of(array)
    check_shape(tuple(array.shape))
    if place.xp.isdtype(array.dtype, "complex floating"):
        raise InvalidInput(
            "X holds complex numbers: Complex data not supported",
            "Allowed: real numbers",
            "Pass real and imaginary parts as separate features",
        )
    return array.detach() if is_torch_array(array) else array, place


@dataclass(frozen=True, eq=False)
class DeviceRows(InMemoryRows):
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
    backend: ArrayBackend
    group_labels: CodedLabels = field(kw_only=True)
    block_entries: int = field(kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        return tuple(self.array.shape)

    def take(self, places: IndexArray) -> "DeviceRows":
        """Return some of the rows, by their positions."""
        return replace(
            self,
            array=self.backend.xp.take(self.array, self.backend.to_device(places), axis=0),
            group_labels=self.group_labels[places],
            weights=None if self.weights is None else self.weights[places],
        )

    def read_slice(self, start: int, stop: int) -> AnyArray:
        """Some rows, on the host; of a precision that numpy lacks, as float64."""
        rows, xp = self.array[start:stop, :], self.backend.xp
        needs_cast = xp.isdtype(rows.dtype, "real floating") and rows.dtype != xp.float32
        return to_numpy(self.backend.float64(rows) if needs_cast else rows)


class DeviceArrayAdapter(SourceAdapter):
    """Arrays of other packages than numpy, on any device."""

    def accepts(self, X: Any) -> bool:
        """Whether it is one."""
        return is_device_array(X)

    def open(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> DeviceRows:
        """Rows of an array, whose groups and weights are beside it, there or on the host."""
        array, place = _validate_device_array(X)
        n_rows = int(array.shape[0])
        labels = _device_labels(sensitive_features, place, n_rows)
        given = sensitive_features if labels is None else labels
        beside = resolve_labels_and_weights(X, n_rows, given, sample_weight)
        size = _block_entries(place)
        return DeviceRows(array, place, on_missing=on_missing, block_entries=size, **beside)

    def map_rows(self, X: Any, row_map: RowMap) -> Any:
        """A linear function of rows, as an array of the same package on the same device.

        Single precision stays; anything else becomes float64. It is centred in float64 in any case.
        There is a single wait for the device, at the end.

        Raises
        ------
        InvalidInput
            Another number of features or coordinates, NaN or infinity.
        """
        if row_map.affine is None:
            return None
        rows, place = _validate_device_array(X)
        check_n_columns(rows.shape[1], row_map.n_inputs, row_map.input_kind)
        before, matrix, after = (
            place.to_device(np.array(each, dtype=np.float64)) for each in row_map.affine
        )
        xp = place.xp
        kept = xp.float32 if rows.dtype == xp.float32 else xp.float64
        n, size = rows.shape[0], max(_block_entries(place) // max(matrix.shape), MIN_BLOCK_ROWS)
        # The standard knows no slices beyond the end.
        slices = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        total = xp.zeros((), dtype=xp.float64, device=place.device)
        parts = []
        with np.errstate(over="ignore", invalid="ignore"):  # found by the sum
            for span in slices:
                block = place.float64(rows[span, :])
                total = total + xp.sum(block)
                parts.append(xp.astype(xp.matmul(block - before, matrix) + after, kept, copy=False))
        if not xp.isfinite(total):
            for span in slices:
                to_finite_float64(to_numpy(place.float64(rows[span, :])), span.start, None)
        return xp.concat(parts, axis=0)


class DeviceLabels(CodedLabels):
    """Labels on a device, coded there; the codes are moved here when they are requested, once."""

    device_codes: Any

    def __init__(self, distinct: list[Any], there: Any) -> None:
        vars(self).update(categories=distinct, column_names=(), unused=(), device_codes=there)

    def with_distinct(self, distinct: list[Any]) -> "DeviceLabels":
        """Return labels of the same rows, with other distinct labels in place of these."""
        return DeviceLabels(distinct, self.device_codes)

    @cached_property
    def codes(self) -> IndexArray:
        """On the host."""
        return to_numpy(self.device_codes)

    def __len__(self) -> int:
        return int(self.device_codes.shape[0])


def _device_labels(labels: Any, place: ArrayBackend, n_rows: int) -> DeviceLabels | None:
    """Labels on the device that can be sorted there: whole numbers or truth values."""
    if not is_device_array(labels) or tuple(labels.shape) != (n_rows,):
        return None
    labels_backend, xp = backend_of(labels), place.xp
    if labels_backend.device != place.device or labels_backend.xp is not xp:
        return None
    kinds = ("bool", "signed integer")
    if labels.dtype != xp.uint8 and not xp.isdtype(labels.dtype, kinds):
        return None
    distinct, codes = xp.unique_inverse(labels)
    return DeviceLabels(to_numpy(distinct).tolist(), codes)
