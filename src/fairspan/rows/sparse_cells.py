"""Sparse matrices of any kind as checked rows of float64."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from fairspan.rows.checks import check_dtype, check_shape, checked_values, converted

# A csr_array, for which scipy has no types.
Csr = Any


def checked_matrix(X: Any, *, allow_nan: bool = False) -> Csr:
    """A sparse matrix as float64 rows without duplicates or stored zeros; never the user's own.

    Raises
    ------
    InvalidInput, InvalidType
        A shape, type or cell that cannot be used.
    """
    check_shape(X.shape)
    check_dtype(X.dtype)
    rows = scipy.sparse.csr_array(X.tocsr())
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


def row_numbers(matrix: Csr) -> npt.NDArray[np.intp]:
    """Row of each stored cell."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
