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

from fairspan.linalg.eigen import TIE_TOL, LeadingSubspace, symmetrize
from fairspan.progress import count_eigenproblem
from fairspan.typing import FloatArray, IndexArray

# From a (p, m) block to the operator's image of it.
Operator = Callable[[FloatArray], FloatArray]

# How many vectors beyond d are sought with them: they show ties and speed up convergence.
N_GUARD_VECTORS = 6
# The angle between what is found and the true subspace, where the spectrum has a gap.
_ANGLE_TOL = 1e-9
_MAX_ITERATIONS = 600
# A basis longer than this many blocks is cut back; longer bases converge in fewer products.
_MAX_BLOCKS = 24
_MIN_BASIS_SIZE = 160
# Directions that keep less than this of their length beside the basis are rounding.
_DEPENDENCE_TOL = 1e-10
# Of columns that are nearly dependent on each other, what their products can resolve.
_GRAM_RANK_TOL = 1e-13
# What products in float64 leave of a residual, as a share of the matrix's norm: no round makes it
# smaller.
_RESIDUAL_FLOOR = 16 * float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class ApproximateSubspace:
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
    sum_error: float

    def embed(self, indices: IndexArray, n_features: int) -> "ApproximateSubspace":
        """The same among p features, of which these were looked at and all others are zero."""
        leading, columns = (
            self.leading,
            [self.leading.vectors, self.leading.tied_vectors, self.vectors],
        )
        wide = [np.zeros((n_features, each.shape[1])) for each in columns]
        for narrow, each in zip(columns, wide, strict=True):
            each[indices] = narrow
        return replace(
            self, leading=replace(leading, vectors=wide[0], tied_vectors=wide[1]), vectors=wide[2]
        )


def leading_subspace_krylov(
    operator: Operator,
    n_features: int,
    n_components: int,
    norm_bound: float,
    *,
    start: FloatArray | None = None,
    orthogonal_to: FloatArray | None = None,
    tie_tol: float = 0.0,
    sum_tol: float | None = None,
) -> ApproximateSubspace:
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
    ApproximateSubspace

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.linalg import leading_subspace_krylov
    >>> found = leading_subspace_krylov(lambda V: np.diag([1.0, 3.0, 2.0]) @ V, 3, 2, 3.0)
    >>> found.leading.eigenvalues.round(9)
    array([3., 2.])
    """
    d, p = n_components, n_features
    orthogonal_to = np.empty((p, 0)) if orthogonal_to is None else orthogonal_to
    max_dim = p - orthogonal_to.shape[1]
    block = min(d + N_GUARD_VECTORS, max_dim)
    max_basis_size = min(max_dim, max(_MAX_BLOCKS * block, _MIN_BASIS_SIZE))
    # What is proven elsewhere needs no directions beside those that are known.
    n_random = block if start is None or sum_tol is None else 0
    random_start = np.random.default_rng(0).standard_normal((p, n_random))
    initial = np.empty((p, 0)) if start is None else start
    # The span of the start and of fixed directions, so that nothing is out of sight.
    basis = orthonormalize_against(orthogonal_to, np.hstack([initial, random_start])[:, :max_dim])
    images = operator(basis)
    projected = basis.T @ images
    count_eigenproblem()
    for _ in range(_MAX_ITERATIONS):
        ritz_values, ritz_coefficients = np.linalg.eigh(symmetrize(projected))
        ritz_values, ritz_coefficients = ritz_values[::-1], ritz_coefficients[:, ::-1]
        ritz_vectors = basis @ ritz_coefficients[:, :block]
        residuals = images @ ritz_coefficients[:, :block] - ritz_vectors * ritz_values[:block]
        residual_norms = np.linalg.norm(residuals, axis=0)
        if sum_tol is None:
            uncertainty, converged = _convergence(ritz_values, residual_norms, d, norm_bound)
        else:
            uncertainty = _sum_error(ritz_values, residuals, d)
            residual_floor = _RESIDUAL_FLOOR * norm_bound * np.sqrt(d)
            converged = (
                uncertainty <= sum_tol or np.linalg.norm(residual_norms[:d]) <= residual_floor
            )
        if converged or basis.shape[1] == max_dim:
            break
        if basis.shape[1] + block > max_basis_size:
            restart_coefficients = ritz_coefficients[:, : max(2 * block, max_basis_size // 3)]
            basis, images = basis @ restart_coefficients, images @ restart_coefficients
            projected = np.diag(ritz_values[: restart_coefficients.shape[1]])
        new_columns = orthonormalize_against(
            np.hstack([orthogonal_to, basis]), residuals[:, residual_norms > 0]
        )[:, : max_dim - basis.shape[1]]
        if new_columns.shape[1] == 0:
            break
        # Only what is new is multiplied: all of it would take most of the time.
        new_images = operator(new_columns)
        coupling = basis.T @ new_images
        projected = np.block([[projected, coupling], [coupling.T, new_columns.T @ new_images]])
        basis, images = np.hstack([basis, new_columns]), np.hstack([images, new_images])
    leading = LeadingSubspace.from_eigenpairs(
        ritz_values, ritz_vectors, d, max(tie_tol, TIE_TOL * norm_bound)
    )
    return ApproximateSubspace(leading, ritz_vectors, uncertainty)


def orthonormalize_against(basis: FloatArray, columns: FloatArray) -> FloatArray:
    """Orthonormal basis of what (p, m) columns add to a (p, r) orthonormal basis.

    Directions that add only rounding are left out.

    Examples
    --------
    >>> import numpy as np
    >>> basis = np.array([[1.0], [0.0], [0.0]])
    >>> abs(orthonormalize_against(basis, np.array([[5.0, 2.0], [1.0, 0.0], [0.0, 0.0]])))
    array([[0.],
           [1.],
           [0.]])
    """
    columns = _normalize_columns(columns, 0.0)
    columns = _normalize_columns(columns - basis @ (basis.T @ columns), _DEPENDENCE_TOL)
    # Twice: what was nearly inside the basis, or nearly dependent, has lost its digits.
    for _ in range(2):
        columns = columns - basis @ (basis.T @ columns)
        ritz_values, rotation = np.linalg.eigh(columns.T @ columns)
        restart_coefficients = ritz_values > _GRAM_RANK_TOL * ritz_values.max(initial=0.0)
        columns = columns @ (
            rotation[:, restart_coefficients] / np.sqrt(ritz_values[restart_coefficients])
        )
    return np.asarray(columns)


def _normalize_columns(columns: FloatArray, min_norm: float) -> FloatArray:
    """Columns longer than `least`, at unit length."""
    residual_norms = np.linalg.norm(columns, axis=0)
    restart_coefficients = residual_norms > min_norm
    return np.asarray(columns[:, restart_coefficients] / residual_norms[restart_coefficients])


def _convergence(
    values: FloatArray, lengths: FloatArray, d: int, norm_bound: float
) -> tuple[float, bool]:
    """How far the sum of the d largest may be off, and whether that is as good as it gets."""
    residual, residual_sum = float(np.linalg.norm(lengths[:d])), float(lengths[:d].sum())
    rounding = TIE_TOL * norm_bound
    # Eigenvalue d + 1 is at most its Ritz value plus its residual, if none was missed.
    gap = values[d - 1] - values[d] - lengths[d] if len(lengths) > d else 0.0
    if gap <= 0:  # in a tie the angle means nothing; each eigenvalue is within its residual
        return residual_sum, residual <= rounding
    uncertainty = float(min(residual**2 / gap, residual_sum))
    return uncertainty, residual <= max(rounding, min(_ANGLE_TOL * gap, np.sqrt(rounding * gap)))


def _sum_error(values: FloatArray, residuals: FloatArray, d: int) -> float:
    """By how much the sum of the d largest may be off, if no eigenvalue was missed.

    To first order, with the next Ritz value as a bound on all other eigenvalues.
    """
    block = residuals.shape[1]
    gap = values[d - 1] - values[block] if len(values) > block else 0.0
    return float((residuals[:, :d] ** 2).sum() / gap) if gap > 0 else np.inf
