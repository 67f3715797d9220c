"""Second moments of the groups, as solvers use them, and the errors of projections under them.

Solvers access second moments only through traces, captured variances, leading eigenvectors of
mixtures and small compressions, so that implementations need not form p x p matrices.
"""

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from fairspan.linalg import (
    N_GUARD_VECTORS,
    ApproximateSubspace,
    EigenCache,
    LeadingSubspace,
    SmallestEigenvalueSum,
    basis_rounding_bound,
    column_rms,
    leading_subspace,
    leading_subspace_krylov,
    smallest_eigenvalue_sum,
)
from fairspan.linalg.complement import OrthogonalComplement
from fairspan.linalg.rounding import CANCELLATION_RATIO, ENTRY_TERMS, EPS, SUM_ROUNDING
from fairspan.linalg.threads import limit_blas_threads
from fairspan.moments.em_uncertainty import EMUncertainty
from fairspan.moments.projector import Projector, encoder_columns
from fairspan.typing import FloatArray

# Up to this captured share, the squared row norm of E = I - VV' is accurate as a difference.
_MAX_SUBTRACTED_SHARE = 0.9
# Up to this ratio d / p, block Krylov is faster than LAPACK (p = 1764: a third of the time at
# d = 20, equal at d = 50).
_MAX_KRYLOV_RATIO = 1 / 40
# For noise, whose effective rank (tr M)^2 / |M|_F^2 is nearly p, an iteration takes nine times as
# long as LAPACK with 520 features and twice as long with 1,500; where the eigenvalues decay like
# 1 / sqrt(i), of an effective rank of p / 2, it takes as long with 520 and less with more.
_FLAT_EFFECTIVE_RANK_RATIO = 3 / 4
_MAX_FLAT_FEATURES = 1500
# With LAPACK, one extra guard vector per this many components, at little cost.
_COMPONENTS_PER_GUARD = 8
# Use multithreaded products from this many features.
_MIN_THREADED_FEATURES = 400


class SecondMoments(Protocol):
    """Second moments S_1 .. S_k of k groups in p features."""

    @property
    def has_matrices(self) -> bool:
        """Whether matrices are available, so that bounds can be proven."""

    @property
    def forbidden(self) -> FloatArray:
        """Orthonormal directions outside of which bases lie, shape (p, r); none for matrices."""

    @property
    def n_groups(self) -> int:
        """Number of groups, k."""

    @property
    def n_features(self) -> int:
        """Number of features, p."""

    @property
    def traces(self) -> FloatArray:
        """Total variance tr S_g of each group, shape (k,)."""

    @property
    def smallest_variances(self) -> FloatArray:
        """Smallest variance of a varying coordinate in each group, shape (k,), or the trace.

        The trace takes its place for a group without variance, and without matrices.
        """

    def captured_variances(self, basis: FloatArray) -> FloatArray:
        """Return captured variances c_g(V) = tr(V'S_gV) of orthonormal (p, d) V, shape (k,)."""

    def residual_variances(self, basis: FloatArray) -> FloatArray:
        """Residual variance tr S_g - c_g(V) of each group, shape (k,)."""

    def select_group(self, group: int) -> "SecondMoments":
        """Second moments of one group."""

    def compress(self, basis: FloatArray) -> FloatArray:
        """Compress: V'S_gV of each group, shape (k, d, d)."""

    def apply(self, basis: FloatArray) -> FloatArray:
        """Apply: S_gV of each group, shape (k, p, d)."""

    def leading(
        self, weights: FloatArray, n_components: int, tie_tol: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of sum_g weights_g S_g, with ties within the tolerance."""

    def decompose_groups(self) -> None:
        """Cache the eigenvectors of each group, if there are matrices."""


class ResidualNorms(NamedTuple):
    """Norms of a residual projector E = I - VV' that determine the rounding bound of errors.

    Attributes
    ----------
    row_norms : (p,) array
        Row norms of E.
    offset_norm : float
        Upper bound on the norm of |E| o for the offset rounding errors o; close to it unless many
        entries of E nearly vanish.
    """

    row_norms: FloatArray
    offset_norm: float


def reconstruction_errors(projector: Projector, second_moments: SecondMoments) -> FloatArray:
    """Reconstruction error tr((I - DE) S_g (I - DE)') of each group, shape (k,).

    E is the encoder and D the decoder of the projector, and S_g the second moments of group g. An
    oblique projector adds the variance that its oblique part displaces to the residual variance.
    """
    errors = second_moments.residual_variances(projector.basis)
    if not projector.oblique_part.size:
        return errors
    return errors + second_moments.captured_variances(projector.oblique_part)


def figure_roundings(
    second_moments: SecondMoments, errors: FloatArray, *, by_feature: bool = True
) -> FloatArray:
    """Return the size up to which an error or loss of each group may be rounding, shape (k,).

    It is relative to the group's error, or to the smallest variance of a varying feature if that is
    larger. A large-scale column therefore does not turn the figures of the others into rounding
    errors: its residual is computed without cancellation.

    Parameters
    ----------
    second_moments : SecondMoments
    errors : (k,) array
    by_feature : bool
        Whether the coordinates of the second moments are features. Otherwise the variance of the
        group replaces the smallest one.
    """
    scales = second_moments.smallest_variances if by_feature else second_moments.traces
    return np.asarray(SUM_ROUNDING * np.maximum(scales, errors))


def error_reduction_by_component(projector: Projector, second_moments: SecondMoments) -> FloatArray:
    """Reduction of each group's error by each component, shape (k, r).

    It is nonnegative for orthogonal projections; oblique components may increase an error.
    """
    # Rounding may give tiny negative values along directions without variance.
    captured = np.maximum(np.einsum("gii->gi", second_moments.compress(projector.basis)), 0.0)
    if projector.oblique_part.size:
        displacement = second_moments.compress(projector.oblique_part)
        captured = captured - np.einsum("gii->gi", displacement)
    return np.asarray(captured)


@dataclass(frozen=True, eq=False)
class DenseSecondMoments:
    """Second moments as a dense (k, p, p) array.

    Parameters
    ----------
    matrices : (k, p, p) array
        Symmetric matrices S_g.
    excluded_variances : (k,) array, optional
        Variance of each group outside the allowed directions.
    offset_rounding_error : (p,) array, optional
        Rounding bound of the group means relative to the center of the second moments.
    uncertainty : EMUncertainty, optional
        Further uncertainty of the matrices, if they were fitted by EM.
    """

    matrices: FloatArray
    excluded_variances: FloatArray = field(default_factory=lambda: np.zeros(()))
    offset_rounding_error: FloatArray = field(default_factory=lambda: np.zeros(()))
    uncertainty: EMUncertainty | None = None
    has_matrices: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.excluded_variances.shape:
            object.__setattr__(self, "excluded_variances", np.zeros(len(self.matrices)))
        if not self.offset_rounding_error.shape:
            object.__setattr__(self, "offset_rounding_error", np.zeros(self.n_features))

    def select_group(self, group: int) -> "DenseSecondMoments":
        """Second moments of one group."""
        index = slice(group, group + 1)
        return DenseSecondMoments(
            self.matrices[index],
            self.excluded_variances[index],
            self.offset_rounding_error,
            None if self.uncertainty is None else self.uncertainty.select_groups(index),
        )

    @property
    def n_groups(self) -> int:
        """Number of groups, k."""
        return len(self.matrices)

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.matrices.shape[1])

    @cached_property
    def traces(self) -> FloatArray:
        """Total variance tr S_g of each group, shape (k,)."""
        return self._inner_traces + self.excluded_variances

    @cached_property
    def _inner_traces(self) -> FloatArray:
        return np.asarray(np.einsum("gii->g", self.matrices))

    @cached_property
    def column_rms(self) -> FloatArray:
        """Root mean square of each column in each group, shape (k, p)."""
        return column_rms(self.matrices)

    @property
    def smallest_variances(self) -> FloatArray:
        """Smallest mean square of a varying column in each group, shape (k,).

        Columns vary if their root mean square exceeds the rounding error of their mean; the trace
        replaces the variance of a group without any.
        """
        varies = self.column_rms > self.offset_rounding_error
        min_rms = np.where(varies, self.column_rms, np.inf).min(axis=1)
        return np.where(varies.any(axis=1), min_rms**2, self.traces)

    @property
    def forbidden(self) -> FloatArray:
        """No directions, shape (p, 0): matrices are in coordinates of the allowed ones."""
        return np.empty((self.n_features, 0))

    @cached_property
    def root_traces(self) -> FloatArray:
        """sqrt(tr S_g) of each group, excluding `excluded_variances`, shape (k,)."""
        return np.asarray(np.sqrt(np.maximum(self._inner_traces, 0.0)))

    def captured_variances(self, basis: FloatArray) -> FloatArray:
        """Return captured variances c_g(V) = tr(V'S_gV), shape (k,)."""
        images = self.apply(basis)
        return np.asarray(images.reshape(len(images), -1) @ basis.ravel())

    def residual_variances(self, basis: FloatArray, images: FloatArray | None = None) -> FloatArray:
        """tr S_g - c_g(V) of each group, accurate even if tiny, shape (k,).

        `images` are S_gV of each group, (k, p, d), if they are known already.
        """
        return self.inner_errors(basis, images) + self.excluded_variances

    def inner_errors(self, basis: FloatArray, images: FloatArray | None = None) -> FloatArray:
        """Residual variances tr S_g - tr(V'S_gV) of a (p, d) basis V, shape (k,).

        `images` are S_gV of each group, (k, p, d), if they are known already.

        A restriction may confine subspaces to allowed directions, in whose coordinates the matrices
        S_g then are. Variance outside them, `excluded_variances`, is the same for every basis and
        not included here.

        If nearly everything is captured the difference cancels (one large-scale column can hold all
        but 1e-16 of the variance); then tr (I - VV') S_g (I - VV') is computed instead, at the cost
        of two products of p x p and p x d matrices. Soft bases (orthogonal columns of length at
        most one) are supported; with :func:`encoder_columns` in place of V, the product gives the
        same variance.
        """
        traces = self._inner_traces
        if images is None:
            captured = self.captured_variances(basis)
        else:
            captured = np.einsum("gpj,pj->g", images, basis)
        errors = traces - captured
        cancels = (errors <= CANCELLATION_RATIO * traces) & (traces > 0)
        if cancels.any():
            columns = encoder_columns(basis)  # V itself if its columns are orthonormal
            residual_projector = np.eye(len(basis)) - columns @ columns.T
            is_square = basis.shape[1] == len(basis)
            if is_square and np.abs(residual_projector).max() <= SUM_ROUNDING:
                residual_projector[:] = 0.0  # exactly zero if V spans everything
            matrices = self.matrices[cancels]
            # S E = S - (S V) V': d columns instead of p in the product, and rounded alike.
            remainders = matrices - (matrices @ columns) @ columns.T
            errors[cancels] = remainders.reshape(len(remainders), -1) @ residual_projector.ravel()
        return np.maximum(errors, 0.0)

    def residual_projector_norms(self, basis: FloatArray) -> ResidualNorms:
        """Norms of the residual projector E = I - VV', without forming it.

        V are the encoder columns of the (p, d) basis.
        """
        columns = encoder_columns(basis)
        abs_columns = np.abs(columns)
        offset_error = self.offset_rounding_error
        row_squares = np.einsum("ij,ij->i", columns, columns)
        captured = np.flatnonzero(row_squares > _MAX_SUBTRACTED_SHARE)
        # For nearly captured features E has small rows; compute only these explicitly.
        rows = columns[captured] @ -columns.T
        rows[np.arange(len(captured)), captured] += 1.0
        # |e_i|^2 = 1 - 2 |v_i|^2 + v_i V'V v_i' for the rows e_i of E and v_i of V.
        gram_image = columns @ (columns.T @ columns)
        squared_norms = 1 - 2 * row_squares + (gram_image * columns).sum(axis=1)
        squared_norms[captured] = (rows**2).sum(axis=1)
        # For other features, |E| o is at most o + |V| |V'| o. `other_error` is o without the nearly
        # captured features, whose part is exact.
        other_error = offset_error.copy()
        other_error[captured] = 0.0
        projected_error = (
            other_error
            + abs_columns @ (abs_columns.T @ other_error)
            + np.abs(rows.T) @ offset_error[captured]
        )
        projected_error[captured] = np.abs(rows) @ offset_error
        return ResidualNorms(np.sqrt(squared_norms), float(np.linalg.norm(projected_error)))

    def compress(self, basis: FloatArray) -> FloatArray:
        """Compress: V'S_gV of each group, shape (k, d, d)."""
        return np.asarray(basis.T @ self.apply(basis))

    def apply(self, basis: FloatArray) -> FloatArray:
        """Apply: S_gV of each group, shape (k, p, d)."""
        if len(basis) < _MIN_THREADED_FEATURES:
            return self.matrices @ basis
        with limit_blas_threads("numpy"):
            return self.matrices @ basis

    def leading(
        self, weights: FloatArray, n_components: int, tie_tol: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of sum_g weights_g S_g."""
        return self.eigen_cache.leading(weights, n_components, tie_tol)

    def decompose_groups(self) -> None:
        """Cache the eigendecompositions of single groups, which fits of all dimensions need."""
        for unit_weights in np.eye(self.n_groups):
            self.eigen_cache.decomposition(unit_weights)

    @cached_property
    def eigen_cache(self) -> EigenCache:
        """Cache of eigendecompositions of mixtures, shared by all dimensions and criteria."""
        return EigenCache(self.matrices)

    def smallest_eigenvalue_sum(self, weights: FloatArray, n_leading: int) -> SmallestEigenvalueSum:
        """Sum of all but the d largest eigenvalues of a mixture, with a rounding bound."""
        return smallest_eigenvalue_sum(
            self.matrices, weights, n_leading, self.eigen_cache.cheap_decomposition(weights)
        )

    def approximate_leading(
        self,
        weights: FloatArray,
        n_components: int,
        *,
        start: FloatArray | None = None,
        sum_tol: float | None = None,
    ) -> ApproximateSubspace:
        """Approximate leading eigenvectors of a mixture, by iteration if that is faster.

        With many components for the number of features, or a spectrum that hardly decays, LAPACK is
        faster; it needs neither a start nor a tolerance, and has no error to estimate. Guard
        vectors, the next eigenvectors after the d leading ones, are included; after an iteration
        they are less accurate.

        Parameters
        ----------
        weights : (k,) array
            Weights of the groups' second moments in the mixture.
        n_components : int
        start : (p, m) array, optional
            Directions near the eigenvectors.
        sum_tol : float, optional
            Stop once the estimated error of the sum of the d largest eigenvalues is at most this;
            by default, iterate to float64 accuracy.

        Returns
        -------
        ApproximateSubspace
            Up to :meth:`n_ritz` vectors, guard vectors included.
        """
        mixture = self.mixture(weights)
        if n_components > _MAX_KRYLOV_RATIO * self.n_features or _has_flat_spectrum(mixture):
            guarded = leading_subspace(mixture, self.n_ritz(n_components))
            leading = LeadingSubspace.from_eigenpairs(
                guarded.eigenvalues, guarded.vectors, n_components, tolerance=0.0
            )
            return ApproximateSubspace(leading, guarded.vectors, guarded.eigenvalues, sum_error=0.0)
        return leading_subspace_krylov(
            lambda block: _symmetric_product(mixture, block),
            self.n_features,
            n_components,
            norm_bound=float(np.abs(weights) @ self.traces),
            start=start,
            sum_tol=sum_tol,
        )

    def n_ritz(self, n_components: int) -> int:
        """Return the number of Ritz vectors computed for d components, guard vectors included."""
        n_guard = N_GUARD_VECTORS
        if n_components > _MAX_KRYLOV_RATIO * self.n_features:
            n_guard = max(n_guard, n_components // _COMPONENTS_PER_GUARD)
        return min(n_components + n_guard, self.n_features)

    def norm_bound(self, weights: FloatArray) -> float:
        """Bound sum_g |weights_g| |S_g|_F on the norm of a mixture, the scale of its rounding."""
        return float(np.abs(weights) @ self._frobenius_norms)

    def mixture(self, weights: FloatArray) -> FloatArray:
        """Mixture sum_g weights_g S_g, shape (p, p); must not be modified."""
        return self.eigen_cache.mixture(weights)

    @cached_property
    def _frobenius_norms(self) -> FloatArray:
        return np.asarray(np.sqrt(np.einsum("gij,gij->g", self.matrices, self.matrices)))


def _has_flat_spectrum(mixture: FloatArray) -> bool:
    """Return whether the spectrum is so flat that an iteration takes longer than LAPACK."""
    p = len(mixture)
    if p > _MAX_FLAT_FEATURES:
        return False
    squared_norm = float(np.vdot(mixture, mixture))
    return float(np.trace(mixture)) ** 2 > _FLAT_EFFECTIVE_RANK_RATIO * p * squared_norm


def _symmetric_product(matrix: FloatArray, block: FloatArray) -> FloatArray:
    """Product of a symmetric matrix and a block of vectors, multithreaded with many features."""
    is_threaded = len(block) >= _MIN_THREADED_FEATURES
    with limit_blas_threads("numpy") if is_threaded else nullcontext():
        # The transposed product takes two thirds of the time.
        return np.asarray((block.T @ matrix).T)


class DeflatedMoments(NamedTuple):
    """Second moments in the orthogonal complement of some columns.

    Attributes
    ----------
    second_moments : DenseSecondMoments
        Q'S_gQ, where Q is an orthonormal basis of the complement, (p, p - r). Variance along the
        columns is left out; `excluded_variances`, which was left out before, is unchanged.
    rounding : (k,) array
        Bound on the rounding errors of the traces of Q'S_gQ.
    complement : OrthogonalComplement
        Q, orthogonal to the columns.
    """

    second_moments: DenseSecondMoments
    rounding: FloatArray
    complement: OrthogonalComplement


def deflate(second_moments: DenseSecondMoments, basis: FloatArray) -> DeflatedMoments:
    """Return second moments in the orthogonal complement of orthonormal (p, r) columns, r < p."""
    complement = OrthogonalComplement.from_directions(basis)
    k = second_moments.n_groups
    abs_basis = np.abs(complement.basis.T)
    unscaled = np.ones(k)
    deflated = DenseSecondMoments(
        complement.compress(second_moments.matrices, scales=unscaled),
        excluded_variances=second_moments.excluded_variances,
        # Coordinates are sums over features, whose rounding errors add up in the worst case.
        offset_rounding_error=abs_basis @ second_moments.offset_rounding_error,
        uncertainty=second_moments.uncertainty,
    )
    # Terms of Q'S_gQ are bounded by column RMS values; and rounding the basis to float64 leaves a
    # residue of the removed directions. That residue is of second order (`errors` of zero).
    sum_rounding = EPS * ENTRY_TERMS * ((abs_basis @ second_moments.column_rms.T) ** 2).sum(axis=0)
    basis_rounding = basis_rounding_bound(second_moments.root_traces, errors=np.zeros(k))
    return DeflatedMoments(deflated, sum_rounding + basis_rounding, complement)
