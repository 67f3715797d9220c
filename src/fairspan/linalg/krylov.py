"""Leading eigenvectors of a symmetric operator that is never a matrix: block Krylov subspaces.

A basis grows by the residuals of its Ritz vectors, several at a time, so that eigenvalues of some
multiplicity are found too, and is cut back to its best directions where it gets long. The start is
a fixed sequence, so that the same operator always gives the same bytes.

What is found is a lower bound on the eigenvalue sum. A small residual proves that eigenvalues are
near, not that none was missed: bounds that rest on this module are estimates.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fairspan.linalg.eigen import TIE_TOLERANCE, LeadingSubspace, symmetric
from fairspan.progress import eigenproblem_solved
from fairspan.typing import FloatArray, IndexArray

# From a (p, m) block to the operator's image of it.
Operator = Callable[[FloatArray], FloatArray]

# How many vectors beyond d are sought with them: they show ties and speed up convergence.
GUARD = 6
# The angle between what is found and the true subspace, where the spectrum has a gap.
_ANGLE = 1e-9
_MOST_ROUNDS = 600
# A basis longer than this many blocks is cut back; longer bases converge in fewer products.
_MOST_BLOCKS = 24
_FEWEST_COLUMNS = 160
# Directions that keep less than this of their length beside the basis are rounding.
_DEPENDENT = 1e-10
# Of columns that are nearly dependent on each other, what their products can resolve.
_RESOLVED = 1e-13
# What products in float64 leave of a residual, as a share of the matrix's norm: no round makes it
# smaller.
_LEFT_BY_PRODUCTS = 16 * float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class IterativeSubspace:
    """Leading eigenvectors, and how far their eigenvalue sum may be off.

    Attributes
    ----------
    leading : LeadingSubspace
    vectors : (p, m) array
        Orthonormal; the leading ones, and some beyond them that need not have converged.
    uncertainty : float
        By how much the true sum of the d largest eigenvalues may exceed the one found, judged by
        the residuals, if no eigenvalue was missed.
    """

    leading: LeadingSubspace
    vectors: FloatArray
    uncertainty: float

    def widened(self, places: IndexArray, n_features: int) -> "IterativeSubspace":
        """The same among p features, of which these were looked at and all others are zero."""
        leading, columns = self.leading, [self.leading.vectors, self.leading.tied, self.vectors]
        wide = [np.zeros((n_features, each.shape[1])) for each in columns]
        for narrow, each in zip(columns, wide, strict=True):
            each[places] = narrow
        return replace(
            self, leading=replace(leading, vectors=wide[0], tied=wide[1]), vectors=wide[2]
        )


def leading_subspace_of(
    operator: Operator,
    n_features: int,
    n_components: int,
    size: float,
    *,
    start: FloatArray | None = None,
    beside: FloatArray | None = None,
    tie_tolerance: float = 0.0,
    sum_goal: float | None = None,
) -> IterativeSubspace:
    """Eigenvectors of the d largest eigenvalues of a symmetric operator.

    Parameters
    ----------
    operator : callable
        From (p, m) to (p, m).
    n_features, n_components : int
        p and d.
    size : float
        A bound on the absolute eigenvalues, for what counts as rounding.
    start : (p, m) array, optional
        Directions near the eigenvectors, at least d with a `sum_goal`; without one some fixed
        ones are added.
    beside : (p, r) array, optional
        Orthonormal columns to which all vectors are orthogonal; the operator's images are, too.
    tie_tolerance : float
        As of :func:`fairspan.linalg.leading_subspace`.
    sum_goal : float, optional
        Enough, as an uncertainty of the sum of the d largest eigenvalues; then ties need not be
        settled. Otherwise the subspace is found with the accuracy of float64.

    Returns
    -------
    IterativeSubspace

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.linalg import leading_subspace_of
    >>> found = leading_subspace_of(lambda V: np.diag([1.0, 3.0, 2.0]) @ V, 3, 2, 3.0)
    >>> found.leading.eigenvalues.round(9)
    array([3., 2.])
    """
    d, p = n_components, n_features
    beside = np.empty((p, 0)) if beside is None else beside
    room = p - beside.shape[1]
    block = min(d + GUARD, room)
    most = min(room, max(_MOST_BLOCKS * block, _FEWEST_COLUMNS))
    # What is proven elsewhere needs no directions beside those that are known.
    fixed = block if start is None or sum_goal is None else 0
    drawn = np.random.default_rng(0).standard_normal((p, fixed))
    known = np.empty((p, 0)) if start is None else start
    # The span of the start and of fixed directions, so that nothing is out of sight.
    basis = orthonormal_beside(beside, np.hstack([known, drawn])[:, :room])
    images = operator(basis)
    inner = basis.T @ images
    eigenproblem_solved()
    for _ in range(_MOST_ROUNDS):
        values, coordinates = np.linalg.eigh(symmetric(inner))
        values, coordinates = values[::-1], coordinates[:, ::-1]
        vectors = basis @ coordinates[:, :block]
        residuals = images @ coordinates[:, :block] - vectors * values[:block]
        lengths = np.linalg.norm(residuals, axis=0)
        if sum_goal is None:
            uncertainty, settled = _judged(values, lengths, d, size)
        else:
            uncertainty = _sum_uncertainty(values, residuals, d)
            left = _LEFT_BY_PRODUCTS * size * np.sqrt(d)
            settled = uncertainty <= sum_goal or np.linalg.norm(lengths[:d]) <= left
        if settled or basis.shape[1] == room:
            break
        if basis.shape[1] + block > most:
            kept = coordinates[:, : max(2 * block, most // 3)]
            basis, images = basis @ kept, images @ kept
            inner = np.diag(values[: kept.shape[1]])
        fresh = orthonormal_beside(np.hstack([beside, basis]), residuals[:, lengths > 0])[
            :, : room - basis.shape[1]
        ]
        if fresh.shape[1] == 0:
            break
        # Only what is new is multiplied: all of it would take most of the time.
        image = operator(fresh)
        across = basis.T @ image
        inner = np.block([[inner, across], [across.T, fresh.T @ image]])
        basis, images = np.hstack([basis, fresh]), np.hstack([images, image])
    leading = LeadingSubspace.of(values, vectors, d, max(tie_tolerance, TIE_TOLERANCE * size))
    return IterativeSubspace(leading, vectors, uncertainty)


def orthonormal_beside(basis: FloatArray, columns: FloatArray) -> FloatArray:
    """Orthonormal basis of what (p, m) columns add to a (p, r) orthonormal basis.

    Directions that add only rounding are left out.

    Examples
    --------
    >>> import numpy as np
    >>> basis = np.array([[1.0], [0.0], [0.0]])
    >>> abs(orthonormal_beside(basis, np.array([[5.0, 2.0], [1.0, 0.0], [0.0, 0.0]])))
    array([[0.],
           [1.],
           [0.]])
    """
    columns = _unit(columns, 0.0)
    columns = _unit(columns - basis @ (basis.T @ columns), _DEPENDENT)
    # Twice: what was nearly inside the basis, or nearly dependent, has lost its digits.
    for _ in range(2):
        columns = columns - basis @ (basis.T @ columns)
        values, turn = np.linalg.eigh(columns.T @ columns)
        kept = values > _RESOLVED * values.max(initial=0.0)
        columns = columns @ (turn[:, kept] / np.sqrt(values[kept]))
    return np.asarray(columns)


def _unit(columns: FloatArray, least: float) -> FloatArray:
    """Columns longer than `least`, at unit length."""
    lengths = np.linalg.norm(columns, axis=0)
    kept = lengths > least
    return np.asarray(columns[:, kept] / lengths[kept])


def _judged(values: FloatArray, lengths: FloatArray, d: int, size: float) -> tuple[float, bool]:
    """How far the sum of the d largest may be off, and whether that is as good as it gets."""
    residual, plain = float(np.linalg.norm(lengths[:d])), float(lengths[:d].sum())
    rounding = TIE_TOLERANCE * size
    # Eigenvalue d + 1 is at most its Ritz value plus its residual, if none was missed.
    gap = values[d - 1] - values[d] - lengths[d] if len(lengths) > d else 0.0
    if gap <= 0:  # in a tie the angle means nothing; each eigenvalue is within its residual
        return plain, residual <= rounding
    uncertainty = float(min(residual**2 / gap, plain))
    return uncertainty, residual <= max(rounding, min(_ANGLE * gap, np.sqrt(rounding * gap)))


def _sum_uncertainty(values: FloatArray, residuals: FloatArray, d: int) -> float:
    """By how much the sum of the d largest may be off, if no eigenvalue was missed.

    To first order, with the next Ritz value as a bound on all other eigenvalues.
    """
    block = residuals.shape[1]
    distance = values[d - 1] - values[block] if len(values) > block else 0.0
    return float((residuals[:, :d] ** 2).sum() / distance) if distance > 0 else np.inf
