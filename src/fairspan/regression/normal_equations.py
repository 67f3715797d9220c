"""Solving A b = a for a covariance matrix A by Cholesky with pivoting, never by an inverse."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from fairspan.errors import InvalidInput
from fairspan.formatting.names import first_of
from fairspan.rows.groups import printable
from fairspan.typing import FloatArray, IntegerArray

# A column whose variance given the others is at most this share of its own counts as dependent:
# fewer than four of float64's digits of its coefficient would be more than rounding.
_DEPENDENT = 1e-12
# Below this share of what its parts add up to, a variance is rounding.
_NO_VARIANCE = 1e-13
# Parts of a dependent column smaller than this share of it are rounding.
_NAMED = 1e-6
_MOST_NAMED = 12


@dataclass(frozen=True, eq=False)
class Factor:
    """A covariance matrix as D P L L' P' D: deviations, order of the pivots, lower triangle.

    Attributes
    ----------
    deviations : (q,) array
        D, the roots of the matrix's diagonal.
    order : (q,) array of int
        Row i of `lower` belongs to column order[i].
    lower : (q, q) array
        L.
    """

    deviations: FloatArray
    order: IntegerArray
    lower: FloatArray

    def half_solved(self, right: FloatArray) -> FloatArray:
        """H = L^-1 P' D^-1 right, (q, ...); H'H = right' A^-1 right."""
        columns = (right.T / self.deviations).T
        return np.asarray(solve_triangular(self.lower, columns[self.order], lower=True))

    def solved(self, right: FloatArray) -> FloatArray:
        """A^-1 right, by two triangular systems."""
        half = solve_triangular(self.lower, self.half_solved(right), lower=True, trans="T")
        solution = np.empty_like(right)
        solution[self.order] = half
        return np.asarray((solution.T / self.deviations).T)


def factored(
    covariance: FloatArray, parts: FloatArray, means: FloatArray, names: Sequence[str]
) -> Factor:
    """Factor a covariance matrix scaled to unit diagonal, if its columns are independent.

    Parameters
    ----------
    covariance : (q, q) array
        Symmetric and positive semidefinite up to rounding.
    parts : (q,) array
        Sum of the deviations of what each column is made of, a column's own deviation if it is
        made of nothing else.
    means : (q,) array
        Sum of the absolute means of the same. They limit how exactly the covariance is known.
    names : sequence of q str

    Returns
    -------
    Factor

    Raises
    ------
    InvalidInput
        Names the columns that do not vary or depend linearly on others.
    """
    variances = np.diag(covariance)
    still = variances <= _NO_VARIANCE * parts**2
    if still.any():
        raise InvalidInput(
            f"These do not vary: {_joined(names, np.flatnonzero(still))}",
            "Allowed: features that vary; the intercept is the constant",
            "Leave them out",
        )
    deviations = np.sqrt(variances)
    scaled = covariance / np.outer(deviations, deviations)
    # Means are rounded to eps |mean|, and so are the distances between those of merged parts.
    rounding = 8 * np.finfo(np.float64).eps * float((means / deviations).max())
    lower, pivots, rank, _ = dpstrf(scaled, tol=max(_DEPENDENT, rounding), lower=1)
    order = pivots.astype(np.int64) - 1
    lower = np.tril(lower)
    if rank < len(order):
        raise _dependent(lower, order, int(rank), names)
    return Factor(deviations, order, lower)


def _dependent(
    lower: FloatArray, order: IntegerArray, rank: int, names: Sequence[str]
) -> InvalidInput:
    rows = lower[rank:, :rank]
    loadings = solve_triangular(lower[:rank, :rank], rows.T, lower=True, trans="T").T
    said = []
    for column, loading in zip(order[rank:], loadings, strict=True):
        others = order[:rank][np.abs(loading) > _NAMED]
        said.append(f"{printable(names[column])} depends on {_joined(names, np.sort(others))}")
    more = f"; and {len(said) - _MOST_NAMED} more" if len(said) > _MOST_NAMED else ""
    return InvalidInput(
        f"The features are linearly dependent: {'; '.join(said[:_MOST_NAMED])}{more}",
        "Allowed: features of which none is a linear function of the others and a constant",
        "Leave out the columns named first, or regress on principal components",
    )


def _joined(names: Sequence[str], columns: IntegerArray) -> str:
    return first_of([printable(names[i]) for i in columns.tolist()])
