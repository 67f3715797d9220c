"""Rows of sparse matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
import scipy

from fairspan.errors import InvalidInput
from fairspan.rows.blocks import OnMissing, keeps_missing, select_rows
from fairspan.rows.in_memory import InMemoryRows
from fairspan.rows.label_resolution import resolve_metadata
from fairspan.rows.metadata import RowMetadata
from fairspan.rows.row_adapters import RowMap, SourceAdapter
from fairspan.rows.row_validation import (
    check_dtype,
    check_n_columns,
    check_shape,
    to_finite_float64,
    to_numeric,
)
from fairspan.typing import BoolArray, FloatArray, IndexArray, TableLike

if TYPE_CHECKING:
    from scipy.sparse import csr_array, sparray, spmatrix

# scipy has no type stubs: mypy does not check the attributes of these.
CsrArray: TypeAlias = "csr_array"
SparseTable: TypeAlias = "sparray | spmatrix"

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

    @property
    def kept_mask(self) -> BoolArray:
        """Mask of the rows that are not dropped, shape (n,).

        If `on_missing` is "drop", rows with a missing cell or label are dropped; if it is "error",
        the only other value for sparse rows, all are kept.
        """
        is_complete = np.ones(self.n_rows, dtype=bool)
        # Rows without any groups are all kept: the callers raise for them.
        if self.on_missing == "error" or self.groups is None:
            return is_complete
        # Missing cells are stored entries that are NaN.
        is_missing = np.isnan(self.matrix.data)
        is_complete[self.matrix.tocoo().row[is_missing]] = False
        return is_complete & ~self.missing_label_mask

    def without_dropped(self) -> SparseRows:
        """Return the rows without those that `on_missing` drops."""
        mask = self.kept_mask
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, indices: IndexArray) -> SparseRows:
        """Select rows by position."""
        return replace(
            self,
            matrix=self.matrix[indices],
            groups=select_rows(self.groups, indices),
            classes=select_rows(self.classes, indices),
            clusters=select_rows(self.clusters, indices),
            weights=select_rows(self.weights, indices),
        )


class SparseAdapter(SourceAdapter):
    """Adapter for scipy sparse matrices."""

    def accepts(self, X: TableLike) -> bool:
        """Return whether `X` is a sparse matrix."""
        return hasattr(X, "tocsr")

    def open(self, X: TableLike, metadata: RowMetadata, on_missing: OnMissing) -> SparseRows:
        """Open the rows of a sparse matrix."""
        if keeps_missing(on_missing):
            raise InvalidInput(
                f'X is a sparse matrix, and on_missing is "{on_missing}"',
                'Allowed for sparse matrices: "error" and "drop"',
                "Pass X.toarray() if it fits into memory",
            )
        matrix = _to_canonical_csr(X, allow_nan=on_missing == "drop")
        resolved = resolve_metadata(X, matrix.shape[0], metadata)
        return SparseRows(matrix, on_missing=on_missing, **resolved)

    def map_rows(self, X: TableLike, row_map: RowMap) -> TableLike:
        """Transform the rows to an (n, d) array; float32 input gives float32 output.

        None for functions that are not affine functions of features: the caller evaluates them
        itself.

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
        # (x - shift) @ matrix + offset, without centering the rows: they would become dense.
        constant = offset - shift @ matrix
        received_dtype = np.dtype(cast("SparseTable", X).dtype)
        dtype = np.float32 if received_dtype == np.float32 else np.float64
        coordinates = np.empty((rows.shape[0], matrix.shape[1]), dtype)
        # Some rows at a time, since their product is float64 before it is rounded to `dtype`.
        size = max(_CHUNK_ENTRIES // matrix.shape[1], 1)
        for start in range(0, len(coordinates), size):
            # Compute in float64: with a large mean, float32 would lose digits.
            coordinates[start : start + size] = rows[start : start + size] @ matrix + constant
        return coordinates


def _to_canonical_csr(X: SparseTable, *, allow_nan: bool = False) -> CsrArray:
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
        # The validation of dense rows raises the error: it is given a row that ends with this
        # entry, so that its message names the row and column.
        cells = np.zeros((1, int(matrix.indices[first]) + 1))
        cells[0, -1] = matrix.data[first]
        to_finite_float64(cells, row, None)
    return matrix


def to_validated_csr(X: SparseTable) -> CsrArray:
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


def _rebuild(X: SparseTable) -> SparseTable:
    """Rebuild a matrix from its arrays, which scipy validates only on construction.

    CSR, CSC and BSR matrices keep their format; all others become a coo_array.

    Raises
    ------
    ValueError
        Arrays that do not fit together.
    """
    sparse_format = getattr(X, "format", "")
    if sparse_format in ("csr", "csc", "bsr"):
        rebuilt = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
        _check_index_arrays(rebuilt)  # before a conversion follows the indices
        return rebuilt
    if sparse_format == "lil" and list(map(len, X.rows)) != list(map(len, X.data)):
        raise ValueError("a row of a lil matrix must have as many column indices as values")
    if sparse_format == "dia":
        X = type(X)((X.data, X.offsets), shape=X.shape)
    cells = X.tocoo()
    return scipy.sparse.coo_array((cells.data, (cells.row, cells.col)), shape=X.shape)


def _check_index_arrays(matrix: CsrArray) -> None:
    # scipy checks the order of indptr only if its last entry is positive.
    starts = matrix.indptr
    if starts.dtype.kind != "i" or (starts[1:] < starts[:-1]).any():
        raise ValueError("indptr must be a non-decreasing integer array")
    matrix.check_format(full_check=True)
