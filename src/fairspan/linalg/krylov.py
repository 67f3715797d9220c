"""Leading eigenvectors of a symmetric operator by a block Krylov iteration, without a matrix.

The basis is extended by the residuals of several Ritz vectors at a time, so that multiple
eigenvalues are found too, and is restarted from its best Ritz vectors when it gets long. The
starting block comes from a fixed seed, so that results are reproducible bit for bit.

The Ritz values give a lower bound on the eigenvalue sum. A small residual shows that eigenvalues
are nearby, not that none was missed: bounds derived from this module are estimates, not proofs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fairspan.linalg.eigen import LeadingSubspace
from fairspan.linalg.rounding import ANGLE_TOL, EIGENVALUE_ROUNDING, EPS, RANK_TOL, ROTATION_TERMS
from fairspan.linalg.symmetric import symmetrize
from fairspan.progress import count_eigenproblem
from fairspan.typing import FloatArray, IndexArray

# Maps a (p, m) block to the operator applied to it.
Operator = Callable[[FloatArray], FloatArray]

# Guard vectors computed beyond the d requested ones: they reveal ties and speed up convergence.
N_GUARD_VECTORS = 6
_MAX_ITERATIONS = 600
# Restart beyond this many blocks; a longer basis needs fewer operator products.
_MAX_BLOCKS = 24
# Columns that a basis may always have: small blocks would restart too often.
_MIN_BASIS_SIZE = 160


@dataclass(frozen=True, eq=False)
class ApproximateSubspace:
    """Approximate leading eigenvectors with an error estimate for their eigenvalue sum.

    Attributes
    ----------
    leading : LeadingSubspace
    vectors : (p, m) array
        Orthonormal Ritz vectors: the leading ones, then guard vectors that need not have converged.
    eigenvalues : (m,) array
        Ritz values of these vectors.
    sum_error : float
        Estimated excess of the true sum of the d largest eigenvalues over the computed one, from
        the residuals, provided that no eigenvalue was missed.
    """

    leading: LeadingSubspace
    vectors: FloatArray
    eigenvalues: FloatArray
    sum_error: float

    def embed(self, indices: IndexArray, n_features: int) -> "ApproximateSubspace":
        """Return the same subspace in `n_features` features.

        Row i of the vectors becomes row `indices[i]`; all other rows are zero.
        """

        def embed(columns: FloatArray) -> FloatArray:
            embedded = np.zeros((n_features, columns.shape[1]))
            embedded[indices] = columns
            return embedded

        leading = replace(
            self.leading,
            vectors=embed(self.leading.vectors),
            tied_vectors=embed(self.leading.tied_vectors),
        )
        return replace(self, leading=leading, vectors=embed(self.vectors))


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
    """Return the leading eigenvectors of a symmetric operator.

    Parameters
    ----------
    operator : callable
        Maps (p, m) blocks to (p, m) blocks.
    n_features, n_components : int
        Numbers p and d.
    norm_bound : float
        Bound on the absolute eigenvalues; sets the scale of rounding errors.
    start : (p, m) array, optional
        Initial directions near the eigenvectors, at least d of them if `sum_tol` is given; without
        `sum_tol`, random ones (fixed seed) are added.
    orthogonal_to : (p, r) array, optional
        Orthonormal columns; the computed vectors and the operator's images are orthogonal to them.
    tie_tol : float
        Eigenvalues within this absolute distance of eigenvalue d count as tied with it.
    sum_tol : float, optional
        Stop once the estimated error of the eigenvalue sum is at most this; ties are then not
        resolved. By default, iterate to float64 accuracy.

    Returns
    -------
    ApproximateSubspace
        The leading eigenvectors, all Ritz vectors of the last block (a few more), and the estimated
        error of the eigenvalue sum.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.linalg import leading_subspace_krylov
    >>> subspace = leading_subspace_krylov(lambda V: np.diag([1.0, 3.0, 2.0]) @ V, 3, 2, 3.0)
    >>> subspace.leading.eigenvalues.round(9)
    array([3., 2.])
    """
    d = n_components
    orthogonal_to = np.empty((n_features, 0)) if orthogonal_to is None else orthogonal_to
    max_dim = n_features - orthogonal_to.shape[1]
    block = min(d + N_GUARD_VECTORS, max_dim)
    max_basis_size = min(max_dim, max(_MAX_BLOCKS * block, _MIN_BASIS_SIZE))
    # With a start and a sum tolerance, the caller proves its bound separately, so that no random
    # directions are needed.
    n_random = block if start is None or sum_tol is None else 0
    subspace = _KrylovSubspace.project(operator, _initial_basis(start, n_random, orthogonal_to))
    count_eigenproblem()
    for _ in range(_MAX_ITERATIONS):
        ritz = subspace.ritz_pairs(block)
        accuracy = _assess_accuracy(ritz, d, norm_bound, sum_tol)
        if accuracy.suffices or subspace.dim == max_dim:
            break
        if subspace.dim + block > max_basis_size:
            subspace = subspace.restart(ritz, size=max(2 * block, max_basis_size // 3))
        # Extend the basis by the directions of the residuals, up to the largest dimension.
        new_columns = orthonormalize_against(
            np.hstack([orthogonal_to, subspace.basis]), ritz.residuals[:, ritz.residual_norms > 0]
        )[:, : max_dim - subspace.dim]
        if new_columns.shape[1] == 0:  # the basis contains all residuals
            break
        subspace = subspace.extend(operator, new_columns)
    tie_tol = max(tie_tol, EIGENVALUE_ROUNDING * norm_bound)
    leading = LeadingSubspace.from_eigenpairs(ritz.values, ritz.vectors, d, tie_tol)
    return ApproximateSubspace(
        leading, ritz.vectors, ritz.values[: ritz.vectors.shape[1]], accuracy.sum_error
    )


@dataclass(frozen=True, eq=False)
class _RitzPairs:
    """Ritz pairs of an operator in a subspace of m dimensions, largest first.

    Attributes
    ----------
    values : (m,) array
        All Ritz values.
    coefficients : (m, m) array
        All Ritz vectors, in coordinates along the basis of the subspace.
    vectors, residuals : (p, b) arrays
        Leading Ritz vectors, and their residuals.
    residual_norms : (b,) array
    """

    values: FloatArray
    coefficients: FloatArray
    vectors: FloatArray
    residuals: FloatArray
    residual_norms: FloatArray


@dataclass(frozen=True, eq=False)
class _KrylovSubspace:
    """Subspace with an orthonormal basis, and the operator projected on it.

    Attributes
    ----------
    basis, images : (p, m) arrays
        Basis V, and the operator applied to it, AV.
    projected : (m, m) array
        V'AV, symmetric up to rounding.
    """

    basis: FloatArray
    images: FloatArray
    projected: FloatArray

    @classmethod
    def project(cls, operator: Operator, basis: FloatArray) -> "_KrylovSubspace":
        """Project an operator on the span of an orthonormal (p, m) basis."""
        images = operator(basis)
        return cls(basis, images, basis.T @ images)

    @property
    def dim(self) -> int:
        """Dimension of the subspace, m."""
        return int(self.basis.shape[1])

    def ritz_pairs(self, n_vectors: int) -> _RitzPairs:
        """Return the Ritz pairs, with the first `n_vectors` vectors (Rayleigh-Ritz)."""
        ascending_values, ascending_coefficients = np.linalg.eigh(symmetrize(self.projected))
        values = ascending_values[::-1]
        coefficients = ascending_coefficients[:, ::-1]
        vectors = self.basis @ coefficients[:, :n_vectors]
        residuals = self.images @ coefficients[:, :n_vectors] - vectors * values[:n_vectors]
        norms = np.linalg.norm(residuals, axis=0)
        return _RitzPairs(values, coefficients, vectors, residuals, norms)

    def restart(self, ritz: _RitzPairs, size: int) -> "_KrylovSubspace":
        """Return the span of the best Ritz vectors, in which the projected matrix is diagonal."""
        leading = ritz.coefficients[:, :size]
        return _KrylovSubspace(
            self.basis @ leading, self.images @ leading, np.diag(ritz.values[:size])
        )

    def extend(self, operator: Operator, new_columns: FloatArray) -> "_KrylovSubspace":
        """Extend the basis by orthonormal (p, q) columns orthogonal to it."""
        # Apply the operator to the new columns only: its products take most of the time.
        new_images = operator(new_columns)
        coupling = self.basis.T @ new_images
        projected = np.block([[self.projected, coupling], [coupling.T, new_columns.T @ new_images]])
        basis = np.hstack([self.basis, new_columns])
        return _KrylovSubspace(basis, np.hstack([self.images, new_images]), projected)


def _initial_basis(
    start: FloatArray | None, n_random: int, orthogonal_to: FloatArray
) -> FloatArray:
    """Orthonormal basis of (p, m) starting directions, if any, and of random ones.

    Random directions, always the same, ensure that no eigenvector is orthogonal to the start. The
    basis is orthogonal to the orthonormal (p, r) columns `orthogonal_to`.
    """
    p, n_orthogonal = orthogonal_to.shape
    columns = np.random.default_rng(0).standard_normal((p, n_random))
    if start is not None:
        columns = np.hstack([start, columns])
    max_dim = p - n_orthogonal
    return orthonormalize_against(orthogonal_to, columns[:, :max_dim])


def orthonormalize_against(basis: FloatArray, columns: FloatArray) -> FloatArray:
    """Orthonormalize (p, m) columns against a (p, r) orthonormal basis.

    Directions that contribute only rounding error are dropped.

    Examples
    --------
    >>> import numpy as np
    >>> basis = np.array([[1.0], [0.0], [0.0]])
    >>> abs(orthonormalize_against(basis, np.array([[5.0, 2.0], [1.0, 0.0], [0.0, 0.0]])))
    array([[0.],
           [1.],
           [0.]])
    """
    columns = _normalize_columns(columns, min_norm=0.0)
    # Drop columns in the span of the basis, of which only rounding error is left.
    columns = _normalize_columns(columns - basis @ (basis.T @ columns), min_norm=RANK_TOL)
    # Twice: nearly dependent columns lose orthogonality in the first pass. Scaled eigenvectors of
    # the Gram matrix orthonormalize the columns, without those of tiny eigenvalues.
    for _ in range(2):
        columns = columns - basis @ (basis.T @ columns)
        values, rotation = np.linalg.eigh(columns.T @ columns)
        is_independent = values > EIGENVALUE_ROUNDING * values.max(initial=0.0)
        columns = columns @ (rotation[:, is_independent] / np.sqrt(values[is_independent]))
    return np.asarray(columns)


def _normalize_columns(columns: FloatArray, min_norm: float) -> FloatArray:
    """Unit-length columns, without those no longer than `min_norm`."""
    norms = np.linalg.norm(columns, axis=0)
    is_longer = norms > min_norm
    return np.asarray(columns[:, is_longer] / norms[is_longer])


class _Accuracy(NamedTuple):
    """Accuracy of Ritz pairs.

    Attributes
    ----------
    sum_error : float
        Estimated error of the sum of the d largest eigenvalues.
    suffices : bool
        Whether the iteration may stop.
    """

    sum_error: float
    suffices: bool


def _assess_accuracy(
    ritz: _RitzPairs, d: int, norm_bound: float, sum_tol: float | None
) -> _Accuracy:
    """Estimate the error of the sum of the d largest eigenvalues, and decide whether to stop.

    With a tolerance of the sum, stop once the error is within it, or residuals are rounding errors.
    By default, stop once the eigenvectors are known to float64 accuracy.
    """
    if sum_tol is None:
        return _assess_full_accuracy(ritz.values, ritz.residual_norms, d, norm_bound)
    sum_error = _sum_error(ritz.values, ritz.residuals, d)
    suffices = sum_error <= sum_tol or _are_rounding_errors(ritz.residual_norms[:d], norm_bound)
    return _Accuracy(sum_error, suffices)


def _assess_full_accuracy(
    ritz_values: FloatArray, residual_norms: FloatArray, d: int, norm_bound: float
) -> _Accuracy:
    """Estimate the error of the eigenvalue sum, and decide whether it is as small as possible.

    The error of a Ritz value is at most the norm of its residual, and about the square of that norm
    over the gap to the other eigenvalues. The norm over the gap bounds the angle between the
    subspace and the true one.
    """
    # Norm of the residuals of all d vectors together, and the sum of their norms.
    residual = float(np.linalg.norm(residual_norms[:d]))
    residual_sum = float(residual_norms[:d].sum())
    rounding = EIGENVALUE_ROUNDING * norm_bound
    gap = 0.0
    if len(residual_norms) > d:
        # Eigenvalue d + 1 is at most its Ritz value plus its residual, if none was missed.
        gap = ritz_values[d - 1] - ritz_values[d] - residual_norms[d]
    if gap <= 0:  # with a tie at d no angle is defined; each eigenvalue is within its residual
        return _Accuracy(residual_sum, residual <= rounding)
    sum_error = float(min(residual**2 / gap, residual_sum))
    # Both the angle, residual / gap, and the error of the sum, residual^2 / gap, must be within
    # their tolerances; a residual that is rounding error cannot be reduced.
    residual_tol = max(rounding, min(ANGLE_TOL * gap, np.sqrt(rounding * gap)))
    return _Accuracy(sum_error, residual <= residual_tol)


def _are_rounding_errors(residual_norms: FloatArray, norm_bound: float) -> bool:
    """Return whether residuals are rounding errors, which no iteration reduces.

    Rounding the basis leaves residuals of a few eps times the norm of the operator.
    """
    rounding = EPS * ROTATION_TERMS * norm_bound * np.sqrt(len(residual_norms))
    return bool(np.linalg.norm(residual_norms) <= rounding)


def _sum_error(ritz_values: FloatArray, residuals: FloatArray, d: int) -> float:
    """Estimate the error of the sum of the d largest eigenvalues as squared residuals over the gap.

    It is infinite without a gap, and assumes that no eigenvalue was missed. The first Ritz value
    beyond the block stands for all other eigenvalues.
    """
    block = residuals.shape[1]
    if len(ritz_values) <= block:
        return np.inf
    gap = ritz_values[d - 1] - ritz_values[block]
    return float((residuals[:, :d] ** 2).sum() / gap) if gap > 0 else np.inf
