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
    Place,
    RowsInMemory,
    beside_rows,
    is_device_array,
    on_host,
)
from fairspan.rows.checks import check_dtype, check_shape, check_width, checked_values, converted
from fairspan.rows.groups import CodedLabels, Label, is_missing, plain_label
from fairspan.rows.protocol import KEEPING_MISSING, OnMissing, RowMap, RowOpener
from fairspan.typing import AnyArray, FloatArray, IndexArray

# A csr_array, for which scipy has no types.
Csr = Any

# Numbers of one part of reduced rows that are computed at once.
_PART_NUMBERS = 2**22


@dataclass(frozen=True, eq=False)
class SparseRows(RowsInMemory):
    """Rows of a sparse matrix.

    Attributes
    ----------
    matrix : (n, p) csr_array
        Finite numbers, or NaN where missing cells are dropped; no duplicates, no stored zeros.
    """

    matrix: Csr

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        return tuple(self.matrix.shape)

    @property
    def density(self) -> float:
        """Share of the cells that are stored."""
        return float(self.matrix.nnz / (self.n_rows * self.n_features))

    def between(self, start: int, stop: int) -> FloatArray:
        """Some rows with all their zeros."""
        return np.asarray(self.matrix[start:stop].toarray())

    def complete(self) -> "SparseRows":
        """Without the rows in which something is missing, where these are to be dropped."""
        if self.on_missing == "error" or self.labels is None:
            return self
        missing = self.labels.missing
        missing[self.matrix.tocoo().row[np.isnan(self.matrix.data)]] = True
        return self.at(np.flatnonzero(~missing)) if missing.any() else self

    def without_dropped(self) -> tuple["SparseRows", int]:
        """Return the rows that are not left out, and how many are; all if none would remain."""
        kept = self.complete()
        if not kept.n_rows:
            return self, 0
        return kept, self.n_rows - kept.n_rows

    def lost_groups(self, kept: Collection[Label]) -> frozenset[Label]:
        """Return the groups of rows that count which are not among these."""
        if self.labels is None:
            return frozenset()
        counted = self.labels if self.weights is None else self.labels[self.weights > 0]
        labels = map(plain_label, counted.present)
        return frozenset(label for label in labels if not is_missing(label)).difference(kept)

    def at(self, index: IndexArray) -> "SparseRows":
        """Some of the rows, by their positions."""
        assert self.labels is not None
        return replace(
            self,
            matrix=self.matrix[index],
            labels=self.labels[index],
            weights=None if self.weights is None else self.weights[index],
        )


class SparseMatrices(RowOpener):
    """Sparse matrices of scipy."""

    def takes(self, X: Any) -> bool:
        """Whether it is one."""
        return hasattr(X, "tocsr")

    def open_rows(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> SparseRows:
        """Rows of a sparse matrix, whose groups and weights are beside it."""
        if on_missing in KEEPING_MISSING:
            raise InvalidInput(
                f'X is a sparse matrix, and on_missing is "{on_missing}"',
                'Allowed for sparse matrices: "error" and "drop"',
                "Pass X.toarray() if it fits into memory",
            )
        matrix = _checked_matrix(X, allow_nan=on_missing == "drop")
        beside = beside_rows(X, matrix.shape[0], sensitive_features, sample_weight)
        return SparseRows(matrix, on_missing=on_missing, **beside)

    def mapped(self, X: Any, row_map: RowMap) -> Any:
        """Coordinates of the rows as a (n, d) array; single precision stays single.

        Raises
        ------
        InvalidInput
            Another number of features, NaN or infinity.
        """
        if row_map.affine is None or row_map.what != "features":
            return None
        matrix, (before, directions, after) = _checked_matrix(X), row_map.affine
        check_width(matrix.shape[1], row_map.width, row_map.what)
        offset = after - before @ directions
        dtype = np.float32 if np.dtype(X.dtype) == np.float32 else np.float64
        reduced = np.empty((matrix.shape[0], directions.shape[1]), dtype)
        size = max(_PART_NUMBERS // directions.shape[1], 1)
        for start in range(0, len(reduced), size):
            # In double precision: in single precision a large mean would cost digits.
            reduced[start : start + size] = matrix[start : start + size] @ directions + offset
        return reduced


def _checked_matrix(X: Any, *, allow_nan: bool = False) -> Csr:
    """A sparse matrix as float64 rows without duplicates or stored zeros; never the user's own.

    Raises
    ------
    InvalidInput, InvalidType
        A shape, type or cell that cannot be used.
    """
    check_shape(X.shape)
    check_dtype(X.dtype)
    rows = compressed_rows(X)
    matrix = scipy.sparse.csr_array(
        (converted(rows.data).astype(np.float64, copy=False), rows.indices, rows.indptr),
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
        checked_values(cells, row, None)
    return matrix


def compressed_rows(X: Any) -> Csr:
    """A sparse matrix as compressed rows, whose indices were looked at first.

    scipy trusts indices: those out of range would be read from, or written to, memory of others.

    Raises
    ------
    InvalidInput
        An index out of range, or arrays that do not fit together.
    """
    try:
        rows = scipy.sparse.csr_array(_made_anew(X).tocsr())
        _check_compressed(rows)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise InvalidInput(
            f"X is a sparse matrix whose indices are wrong ({error})",
            f"Allowed: indices from 0 up to the shape, which is {tuple(X.shape)}",
            "Make the matrix again from its coordinates: scipy.sparse.coo_array checks them",
        ) from error
    return rows


def _made_anew(X: Any) -> Any:
    """The same matrix made of the same arrays, which scipy checks then and not when they change."""
    kind, shape = getattr(X, "format", ""), X.shape
    if kind in ("csr", "csc", "bsr"):
        anew = type(X)((X.data, X.indices, X.indptr), shape=shape)
        _check_compressed(anew)
        return anew
    if kind == "lil" and list(map(len, X.rows)) != list(map(len, X.data)):
        raise ValueError("rows of a lil matrix have as many columns as values")
    cells = (type(X)((X.data, X.offsets), shape=shape) if kind == "dia" else X).tocoo()
    return scipy.sparse.coo_array((cells.data, (cells.row, cells.col)), shape=shape)


def _check_compressed(matrix: Any) -> None:
    # scipy looks at the order of these only where the last of them is above zero.
    starts = matrix.indptr
    if starts.dtype.kind != "i" or (starts[1:] < starts[:-1]).any():
        raise ValueError("indptr must be a non-decreasing sequence of whole numbers")
    matrix.check_format(full_check=True)


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

    def at(self, places: IndexArray) -> "DeviceRows":
        """Return some of the rows, by their positions."""
        return replace(
            self,
            array=self.place.xp.take(self.array, self.place.constant(places), axis=0),
            labels=self.labels[places],
            weights=None if self.weights is None else self.weights[places],
        )

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
        labels = _labels_there(sensitive_features, place, n_rows)
        given = sensitive_features if labels is None else labels
        beside = beside_rows(X, n_rows, given, sample_weight)
        size = _block_numbers(place)
        return DeviceRows(array, place, on_missing=on_missing, block_numbers=size, **beside)

    def mapped(self, X: Any, row_map: RowMap) -> Any:
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
        rows, place = _placed(X)
        check_width(rows.shape[1], row_map.width, row_map.what)
        before, matrix, after = (
            place.constant(np.array(each, dtype=np.float64)) for each in row_map.affine
        )
        xp = place.xp
        kept = xp.float32 if rows.dtype == xp.float32 else xp.float64
        n, size = rows.shape[0], max(_block_numbers(place) // max(matrix.shape), FEWEST_BLOCK_ROWS)
        # The standard knows no slices beyond the end.
        spans = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        total = xp.zeros((), dtype=xp.float64, device=place.device)
        parts = []
        with np.errstate(over="ignore", invalid="ignore"):  # found by the sum
            for span in spans:
                block = place.float64(rows[span, :])
                total = total + xp.sum(block)
                parts.append(xp.astype(xp.matmul(block - before, matrix) + after, kept, copy=False))
        if not xp.isfinite(total):
            for span in spans:
                checked_values(on_host(place.float64(rows[span, :])), span.start, None)
        return xp.concat(parts, axis=0)


class LabelsThere(CodedLabels):
    """Labels on a device, coded there; the codes are moved here when they are requested, once."""

    there: Any

    def __init__(self, distinct: list[Any], there: Any) -> None:
        vars(self).update(distinct=distinct, names=(), unused=(), there=there)

    def with_distinct(self, distinct: list[Any]) -> "LabelsThere":
        """Return labels of the same rows, with other distinct labels in place of these."""
        return LabelsThere(distinct, self.there)

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
