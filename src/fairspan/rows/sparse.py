"""Rows in a sparse matrix of scipy: compressed rows or columns, coordinates, or another kind."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from fairspan.errors import InvalidInput
from fairspan.rows.arrays import RowsInMemory, checked_weights, labels_of
from fairspan.rows.checks import check_dtype, check_shape, check_width, checked_values, converted
from fairspan.rows.protocol import OnMissing, Projection, RowOpener
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
        matrix = _checked_matrix(X, allow_nan=on_missing == "drop")
        n_rows = matrix.shape[0]
        return SparseRows(
            matrix,
            labels=labels_of(sensitive_features, n_rows, X),
            weights=checked_weights(sample_weight, n_rows),
            on_missing=on_missing,
        )

    def transformed(self, X: Any, projection: Projection) -> AnyArray:
        """Coordinates of the rows as a (n, d) array; single precision stays single.

        Raises
        ------
        InvalidInput
            Another number of features, NaN or infinity.
        """
        matrix = _checked_matrix(X)
        check_width(matrix.shape[1], projection.encoder.shape[1], "features")
        directions = projection.encoder.T
        if projection.scale is not None:
            directions = directions / projection.scale[:, None]
        offset = 0.0 if projection.mean is None else projection.mean @ directions
        dtype = np.float32 if np.dtype(X.dtype) == np.float32 else np.float64
        reduced = np.empty((matrix.shape[0], directions.shape[1]), dtype)
        size = max(_PART_NUMBERS // directions.shape[1], 1)
        for start in range(0, len(reduced), size):
            # In double precision: in single precision a large mean would cost digits.
            reduced[start : start + size] = matrix[start : start + size] @ directions - offset
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
