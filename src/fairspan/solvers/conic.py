"""Semidefinite programs, solved by Clarabel (Goulart and Chen 2024).

Clarabel minimises x'Px / 2 + q.x subject to b - Ax in a product of cones. A symmetric matrix is in
the cone of positive semidefinite ones by its upper triangle, column by column, with the entries off
the diagonal times sqrt(2): then the product of two such vectors is that of the matrices.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import sparse

from fairspan.typing import FloatArray

_Triangle = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], FloatArray]


@lru_cache(64)
def _triangle(n: int) -> _Triangle:
    """Rows, columns and factors of the entries of a matrix's upper triangle."""
    columns, rows = np.tril_indices(n)
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0))


def to_triangle(matrices: FloatArray) -> FloatArray:
    """Symmetric (.., n, n) matrices as vectors, shape (.., n (n + 1) / 2).

    Examples
    --------
    >>> to_triangle(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3)
    array([1.   , 2.828, 3.   ])
    """
    rows, columns, factors = _triangle(matrices.shape[-1])
    return np.asarray(matrices[..., rows, columns] * factors)


def from_triangle(vector: FloatArray, n: int) -> FloatArray:
    """The symmetric (n, n) matrix of a vector.

    Examples
    --------
    >>> from_triangle(to_triangle(np.array([[1.0, 2.0], [2.0, 3.0]])), 2).round(12)
    array([[1., 2.],
           [2., 3.]])
    """
    rows, columns, factors = _triangle(n)
    matrix = np.empty((n, n))
    matrix[rows, columns] = matrix[columns, rows] = vector / factors
    return matrix


@dataclass(frozen=True)
class ConicSolution:
    """Where Clarabel ended; with a status other than "Solved", the nearest point found.

    Attributes
    ----------
    x : (n,) array
    duals : (m,) array
        Multipliers of the rows of A.
    status : str
        As Clarabel says it.
    """

    x: FloatArray
    duals: FloatArray
    status: str


def solve_conic(
    quadratic: FloatArray | None,
    linear: FloatArray,
    constraints: FloatArray | sparse.spmatrix,
    right: FloatArray,
    sizes: tuple[int, int, tuple[int, ...]],
    tolerance: float,
) -> ConicSolution:
    """Minimise x'Px / 2 + q.x subject to b - Ax in a product of cones.

    Parameters
    ----------
    quadratic : (n, n) array, optional
        P, positive semidefinite; none for a linear objective.
    linear : (n,) array
        q.
    constraints : (m, n) array
        A.
    right : (m,) array
        b.
    sizes : (int, int, tuple of int)
        How many rows are zero, then not negative; then the orders of the positive semidefinite
        matrices.
    tolerance : float
        Of gap and feasibility, as Clarabel counts them.
    """
    import clarabel  # imported where it is used: most fits do without

    n_zero, n_positive, orders = sizes
    cones = [clarabel.ZeroConeT(n_zero), clarabel.NonnegativeConeT(n_positive)]
    cones += [clarabel.PSDTriangleConeT(order) for order in orders]
    upper = sparse.csc_matrix((len(linear),) * 2 if quadratic is None else np.triu(quadratic))
    data = upper, linear, sparse.csc_matrix(constraints), right, cones
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    # Regularised equations leave an error of 1e-10 to 1e-8, so they are the second choice. Shorter
    # steps end with some digits more.
    settings.max_step_fraction = 0.9
    for regularised in (False, True):
        settings.static_regularization_enable = regularised
        settings.dynamic_regularization_enable = regularised
        found = clarabel.DefaultSolver(*data, settings).solve()
        if str(found.status) in ("Solved", "AlmostSolved"):
            break
    return ConicSolution(np.array(found.x), np.array(found.z), str(found.status))
