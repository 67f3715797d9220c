"""Projections of rows, and the second moments that solvers use.

A row x is encoded as E x and reconstructed as D E x. For an orthogonal projection D = E'; for an
oblique one D has orthonormal columns U and E differs from U'. By Pythagoras, the squared
reconstruction error is ||x - UU'x||^2 + ||(U' - E) x||^2: the residual of the subspace plus the
displacement of the coordinates.

A soft projection (Samadi et al. 2018, Algorithm 1, step 5) has components of length below one. The
relaxation is solved by P = sum_j lb_j u_j u_j' with 0 <= lb_j <= 1 and sum_j lb_j = d. P is not a
projection, but P* = sum_j lambda_j u_j u_j', lambda_j = 1 - sqrt(1 - lb_j), attains exactly the
errors of P: tr((I - P*) S (I - P*)) = tr S - <S, P>.

Solvers access second moments only through traces, captured variances, leading eigenvectors of
mixtures and small compressions, so that implementations need not form p x p matrices.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Protocol, cast

import numpy as np
from scipy.linalg import lapack, qr

from fairspan.errors import InvalidInput
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
from fairspan.linalg.threads import limit_blas_threads
from fairspan.typing import FloatArray, IndexArray

# Tolerance of entries of the Gram matrix of components.
_ORTHONORMAL_TOL = 1e-6
# Squared length below which a basis column counts as shorter than one.
_UNIT_LENGTH_TOL = 1e-12
# Tolerance of the dimension of a soft projection, which must be an integer.
_DIMENSION_TOL = 1e-5
# Tolerance of encoder @ decoder = I.
_IDENTITY_TOL = 1e-6


def encoder_columns(basis: FloatArray) -> FloatArray:
    """Return encoder columns sqrt(lambda_j) u_j for basis columns sqrt(lb_j) u_j.

    Parameters
    ----------
    basis : (p, r) array
        Orthogonal columns of length at most one; unit columns are unchanged.

    Returns
    -------
    (p, r) array

    Examples
    --------
    >>> encoder_columns(np.array([[1.0, 0.0], [0.0, np.sqrt(0.75)]])) ** 2
    array([[1. , 0. ],
           [0. , 0.5]])
    """
    retained = np.minimum(np.einsum("ij,ij->j", basis, basis), 1.0)
    is_soft_column = retained < 1 - _UNIT_LENGTH_TOL
    soft = retained[is_soft_column]
    factors = np.ones_like(retained)
    factors[is_soft_column] = np.sqrt((1 - np.sqrt(1 - soft)) / soft)
    return np.asarray(basis * factors)


def captured_basis(encoder: FloatArray) -> FloatArray:
    """Basis columns sqrt(lb_j) u_j from encoder rows sqrt(lambda_j) u_j.

    This is the inverse of :func:`encoder_columns`.

    Parameters
    ----------
    encoder : (r, p) array
        Orthogonal rows of length at most one.

    Returns
    -------
    (p, r) array
        B, with captured variances tr(B'SB).

    Examples
    --------
    >>> captured_basis(np.array([[1.0, 0.0], [0.0, np.sqrt(0.5)]])) ** 2
    array([[1.  , 0.  ],
           [0.  , 0.75]])
    """
    weights = np.minimum(np.einsum("ij,ij->i", encoder, encoder), 1.0)
    # lb = 1 - (1 - lambda)^2 = lambda (2 - lambda)
    return np.asarray((encoder * np.sqrt(2 - weights)[:, None]).T)


def is_soft(components: FloatArray) -> bool:
    """Return whether some of (r, p) orthogonal rows are shorter than one."""
    return bool((np.einsum("ij,ij->i", components, components) < 1 - _ORTHONORMAL_TOL).any())


def soft_dimension(components: FloatArray) -> float:
    """Dimension sum_j lb_j of (r, p) rows sqrt(lambda_j) u_j, lb_j = lambda_j (2 - lambda_j)."""
    weights = np.einsum("ij,ij->i", components, components)
    return float((weights * (2 - weights)).sum())


def check_components(components: FloatArray, *, may_be_soft: bool = True) -> None:
    """Check that (r, p) components are orthonormal, or form a soft projection.

    The latter are orthogonal rows of length at most one with an integer dimension.

    Raises
    ------
    InvalidInput
    """
    if components.ndim != 2 or not 1 <= len(components) <= components.shape[1]:
        raise InvalidInput(
            f"The components have shape {components.shape}",
            "Allowed: (d, p) with 1 <= d <= p",
            "Pass one row per component",
        )
    gram = components @ components.T
    weights = np.diag(gram)
    is_soft_projection = False
    if may_be_soft and (weights <= 1 + _ORTHONORMAL_TOL).all():
        dimension = soft_dimension(components)
        is_soft_projection = abs(dimension - max(round(dimension), 1)) <= _DIMENSION_TOL
    expected = np.diag(weights) if is_soft_projection else np.eye(len(gram))
    if not np.allclose(gram, expected, atol=_ORTHONORMAL_TOL):
        raise InvalidInput(
            "The components are not orthonormal",
            "Allowed: orthonormal rows",
            "Orthonormalize them, for example with numpy.linalg.qr(components.T)[0].T",
        )


@dataclass(frozen=True, eq=False)
class Projector:
    """Encoder and decoder of a projection.

    Attributes
    ----------
    encoder : (r, p) array
        E: orthonormal rows, or those of a soft projection; arbitrary with an oblique decoder.
    oblique_decoder : (p, r) array or None
        D of an oblique projection: orthonormal columns with E D = I.

    Examples
    --------
    >>> oblique = Projector(np.array([[1.0, -1.0]]), np.array([[1.0], [0.0]]))
    >>> oblique.residuals(np.array([[3.0, 1.0]]))
    array([[1., 1.]])
    >>> oblique.squared_residuals(np.array([[3.0, 1.0]]))
    array([2.])
    """

    encoder: FloatArray
    oblique_decoder: FloatArray | None = None

    @property
    def decoder(self) -> FloatArray:
        """Decoder D, shape (p, r)."""
        return self.encoder.T if self.oblique_decoder is None else self.oblique_decoder

    @property
    def basis(self) -> FloatArray:
        """Basis B, shape (p, r); the captured variance of S is tr(B'SB)."""
        if self.oblique_decoder is not None:
            return self.oblique_decoder
        return captured_basis(self.encoder) if is_soft(self.encoder) else self.encoder.T

    @property
    def oblique_part(self) -> FloatArray:
        """E' - U, shape (p, r); empty, (p, 0), for an orthogonal projection."""
        encoder = self.encoder.T
        return encoder[:, :0] if self.oblique_decoder is None else encoder - self.oblique_decoder

    @property
    def stacked_columns(self) -> FloatArray:
        """Columns that transform with the coordinates: E', followed by D if it is oblique."""
        if self.oblique_decoder is None:
            return self.encoder.T
        return np.hstack([self.encoder.T, self.oblique_decoder])

    def with_stacked_columns(self, columns: FloatArray) -> "Projector":
        """Return the projector with these columns, in other coordinates."""
        if self.oblique_decoder is None:
            return Projector(columns.T)
        encoder, decoder = np.hsplit(columns, 2)
        return Projector(encoder.T, decoder)

    def check(self) -> None:
        """Check that this is a projection.

        Raises
        ------
        InvalidInput
            Components are not orthonormal, or encoder and decoder are inconsistent.
        """
        check_components(self.encoder if self.oblique_decoder is None else self.oblique_decoder.T)
        if self.encoder.shape != self.decoder.T.shape or not np.isfinite(self.encoder).all():
            raise InvalidInput(
                f"The encoder has shape {self.encoder.shape}, the decoder {self.decoder.shape}",
                "Allowed: (d, p) and (p, d) finite numbers",
                "Use the encoder and decoder of one fit",
            )
        product = self.encoder @ self.decoder
        identity = product if self.oblique_decoder is None else np.eye(len(self.encoder))
        if not np.allclose(product, identity, atol=_IDENTITY_TOL):
            raise InvalidInput(
                "The encoder is not a left inverse of the decoder",
                "Allowed: an encoder and a decoder whose product is the identity",
                "Use the encoder and decoder of one fit",
            )

    @cached_property
    def is_orthonormal(self) -> bool:
        """Whether E has orthonormal rows up to rounding.

        Then |x - E'E x|^2 = |x|^2 - |E x|^2.
        """
        if self.oblique_decoder is not None:
            return False
        gram = self.encoder @ self.encoder.T
        return bool((np.abs(gram - np.eye(len(gram))) <= _FULL_SPAN_TOL).all())

    def residuals(self, rows: FloatArray) -> FloatArray:
        """Residuals x - D E x of centered rows, shape (n, p).

        Exactly zero with as many components as features.
        """
        n_components, n_features = self.encoder.shape
        if n_components == n_features and not is_soft(self.encoder):
            return np.zeros_like(rows)
        return np.asarray(rows - (rows @ self.encoder.T) @ self.decoder.T)

    def squared_residuals(self, rows: FloatArray) -> FloatArray:
        """Squared distance of each centered row to its reconstruction, shape (n,)."""
        residuals = self.residuals(rows)
        return np.asarray(np.einsum("ij,ij->i", residuals, residuals))


class Reconstructor(Protocol):
    """Anything that reconstructs rows: a projector or another model."""

    def squared_residuals(self, rows: FloatArray) -> FloatArray:
        """Squared distance of each centered row to its reconstruction, shape (n,)."""


def squared_residuals(rows: FloatArray, models: Sequence[Reconstructor]) -> FloatArray:
    """Squared distance of each centered row to its reconstruction by each of m models, (m, n).

    Orthonormal models share one matrix product, unless cancellation would lose most digits.

    Examples
    --------
    >>> first, both = Projector(np.eye(2)[:1]), Projector(np.eye(2))
    >>> squared_residuals(np.array([[3.0, 1.0]]), [first, both])
    array([[1.],
           [0.]])
    """
    distances = np.empty((len(models), len(rows)))
    is_separate = np.ones(len(models), dtype=bool)
    orthonormal = [i for i, model in enumerate(models) if getattr(model, "is_orthonormal", False)]
    if orthonormal:
        encoders = [cast(Projector, models[i]).encoder for i in orthonormal]
        total = np.einsum("ij,ij->i", rows, rows)
        distances[orthonormal] = _orthonormal_distances(rows, total, encoders)
        cancels = distances[orthonormal] < CANCELLATION_RATIO * total
        is_separate[orthonormal] = cancels.any(axis=1)
    for i in np.flatnonzero(is_separate).tolist():
        distances[i] = models[i].squared_residuals(rows)
    return distances


def _orthonormal_distances(
    rows: FloatArray, total: FloatArray, encoders: Sequence[FloatArray]
) -> FloatArray:
    """Return |x|^2 - |E x|^2 of each row x, with |x|^2 in `total`, by each encoder, (m, n)."""
    columns = np.vstack(encoders).T
    starts = np.cumsum([0, *map(len, encoders[:-1])])
    n_rows = max(_CHUNK_ENTRIES // columns.shape[1], 1)
    distances = np.empty((len(encoders), len(rows)))
    for start in range(0, len(rows), n_rows):
        chunk = slice(start, start + n_rows)
        captured = np.add.reduceat((rows[chunk] @ columns) ** 2, starts, axis=1)
        distances[:, chunk] = total[chunk] - captured.T
    return distances


# Entries of I - VV' below this are rounding errors if V is square and not soft.
_FULL_SPAN_TOL = 1e-12
# Up to this captured share, the squared row norm of E = I - VV' is accurate as a difference.
_NEARLY_CAPTURED = 0.9
# Below this ratio to the total, a difference of traces has lost more than four digits.
CANCELLATION_RATIO = 1e-4
# Squared coordinates computed at a time.
_CHUNK_ENTRIES = 2**20
# Up to this ratio d / p, block Krylov is faster than LAPACK (p = 1764: a third of the time at
# d = 20, equal at d = 50).
_MAX_KRYLOV_RATIO = 1 / 40
# With LAPACK, one extra guard vector per this many components, at little cost.
_COMPONENTS_PER_GUARD = 8
# Use multithreaded products from this many features.
_MIN_THREADED_FEATURES = 400
# LAPACK block size for applying reflectors.
_REFLECTOR_BLOCK = 64
# Relative rounding error of sums of products.
_SUM_ROUNDING = 8 * float(np.finfo(np.float64).eps)


class SecondMoments(Protocol):
    """Second moments S_1 .. S_k of k groups in p features."""

    @property
    def is_dense(self) -> bool:
        """Whether dense matrices are available, so that bounds can be proven."""

    @property
    def n_groups(self) -> int:
        """Number of groups, k."""

    @property
    def n_features(self) -> int:
        """Number of features, p."""

    @property
    def traces(self) -> FloatArray:
        """Total variance tr S_g of each group, shape (k,)."""

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
        self, weights: FloatArray, n_components: int, tie_tolerance: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of sum_g weights_g S_g, with ties within the tolerance."""


def reconstruction_errors(projector: Projector, second_moments: SecondMoments) -> FloatArray:
    """Reconstruction error tr((I - DE) S_g (I - DE)') of each group, shape (k,)."""
    errors = second_moments.residual_variances(projector.basis)
    if not projector.oblique_part.size:
        return errors
    return errors + second_moments.captured_variances(projector.oblique_part)


# Factor from the distance of correlations to that of second moments: the means of a group and of
# all rows have the same distance, and each enters once.
_MEANS_FACTOR = 3.0
# Relative rounding of an error or loss: the last four of the sixteen digits of float64.
_FIGURE_ROUNDING = 1e-12


def figure_roundings(
    second_moments: SecondMoments, errors: FloatArray, *, by_feature: bool = True
) -> FloatArray:
    """Return the rounding bound of an error or a loss of each group, shape (k,).

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
    scales = second_moments.traces
    if by_feature and isinstance(second_moments, DenseSecondMoments):
        varies = second_moments.column_rms > second_moments.offset_rounding_error
        min_rms = np.where(varies, second_moments.column_rms, np.inf).min(axis=1)
        scales = np.where(varies.any(axis=1), min_rms**2, scales)
    return np.asarray(_FIGURE_ROUNDING * np.maximum(scales, errors))


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
class EMUncertainty:
    """Bound on the errors of groups due to second moments of an unfinished iteration.

    If correlations C are inexact by at most d in norm, an error changes by at most d / l times
    itself, where l is the smallest eigenvalue of C, and by at most d times the variance.

    Attributes
    ----------
    relative : (k,) array
        d / l, infinite if C is singular.
    absolute : (k,) array
        d times the variance of each group.
    """

    relative: FloatArray
    absolute: FloatArray

    @classmethod
    def from_distance(
        cls, scatters: FloatArray, traces: FloatArray, distance: float
    ) -> "EMUncertainty | None":
        """Build from the distance of the models to their limit; None if it is zero.

        Parameters
        ----------
        scatters : (k, p, p) array
            Scatter matrices about the group means, up to a factor.
        traces : (k,) array
            Variances about the point in use.
        distance : float
            Root of the sum of squares over all means and correlations, in standard deviations.
        """
        if distance <= 0:
            return None
        root_diagonals = column_rms(scatters)
        units = np.where(root_diagonals > 0, root_diagonals, 1.0)
        correlations = scatters / units[:, :, None] / units[:, None, :]
        np.einsum("gii->gi", correlations)[:] = 1.0
        norm_bound = _MEANS_FACTOR * distance
        smallest = np.linalg.eigvalsh(correlations)[:, 0]
        relative = np.full(len(smallest), np.inf)
        np.divide(norm_bound, smallest, out=relative, where=smallest > 0)
        return cls(relative, norm_bound * traces)

    def select_groups(self, groups: slice) -> "EMUncertainty":
        """Select groups by position."""
        return EMUncertainty(self.relative[groups], self.absolute[groups])

    def error_bounds(self, errors: FloatArray) -> FloatArray:
        """Return bounds on the uncertainty of (k,) errors, shape (k,)."""
        with np.errstate(invalid="ignore"):
            relative_bounds = self.relative * np.maximum(errors, 0.0)
        return np.minimum(np.nan_to_num(relative_bounds, posinf=np.inf), self.absolute)


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
    is_dense: ClassVar[bool] = True

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

    @cached_property
    def root_traces(self) -> FloatArray:
        """sqrt(tr S_g) of each group, excluding `excluded_variances`, shape (k,)."""
        return np.asarray(np.sqrt(np.maximum(self._inner_traces, 0.0)))

    def captured_variances(self, basis: FloatArray) -> FloatArray:
        """Return captured variances c_g(V) = tr(V'S_gV), shape (k,)."""
        return _captured_traces(self.apply(basis), basis)

    def residual_variances(self, basis: FloatArray) -> FloatArray:
        """tr S_g - c_g(V) of each group, accurate even if tiny, shape (k,)."""
        return self.inner_errors(basis) + self.excluded_variances

    def inner_errors(self, basis: FloatArray) -> FloatArray:
        """Residual variances without `excluded_variances`, shape (k,).

        If nearly everything is captured the difference cancels (one large-scale column can hold all
        but 1e-16 of the variance); then tr (I - VV') S (I - VV') is computed instead, at the cost
        of a matrix product. Soft bases (orthogonal columns of length at most one) are supported.
        """
        traces = self._inner_traces
        errors = traces - self.captured_variances(basis)
        cancels = (errors <= CANCELLATION_RATIO * traces) & (traces > 0)
        if cancels.any():
            columns = encoder_columns(basis)
            residual_projector = np.eye(len(basis)) - columns @ columns.T
            is_square = basis.shape[1] == len(basis)
            if is_square and np.abs(residual_projector).max() <= _FULL_SPAN_TOL:
                residual_projector[:] = 0.0  # exactly zero if V spans everything
            images = self.matrices[cancels] @ residual_projector
            errors[cancels] = _captured_traces(images, residual_projector)
        return np.maximum(errors, 0.0)

    def residual_projector_norms(self, basis: FloatArray) -> tuple[FloatArray, float]:
        """Norms that determine the rounding bound of errors, without forming E = I - VV'.

        Returns
        -------
        row_norms : (p,) array
            Row norms of E.
        offset_norm : float
            Upper bound on the norm of |E| o for the offset rounding errors o; close to it unless
            many entries of E nearly vanish.
        """
        columns = encoder_columns(basis)
        abs_columns = np.abs(columns)
        offset_error = self.offset_rounding_error
        row_squares = np.einsum("ij,ij->i", columns, columns)
        captured = np.flatnonzero(row_squares > _NEARLY_CAPTURED)
        # For nearly captured features E has small rows; compute only these explicitly.
        rows = columns[captured] @ -columns.T
        rows[np.arange(len(captured)), captured] += 1.0
        squared_norms = (
            1 - 2 * row_squares + ((columns @ (columns.T @ columns)) * columns).sum(axis=1)
        )
        squared_norms[captured] = (rows**2).sum(axis=1)
        other_error = offset_error.copy()
        other_error[captured] = 0.0
        projected_error = (
            other_error
            + abs_columns @ (abs_columns.T @ other_error)
            + np.abs(rows.T) @ offset_error[captured]
        )
        projected_error[captured] = np.abs(rows) @ offset_error
        return np.sqrt(squared_norms), float(np.linalg.norm(projected_error))

    def compress(self, basis: FloatArray) -> FloatArray:
        """Compress: V'S_gV of each group, shape (k, d, d)."""
        return np.asarray(basis.T @ self.apply(basis))

    def apply(self, basis: FloatArray) -> FloatArray:
        """Apply: S_gV of each group, shape (k, p, d)."""
        return np.asarray(_threaded_product(self.matrices, basis))

    def leading(
        self, weights: FloatArray, n_components: int, tie_tolerance: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of sum_g weights_g S_g."""
        return self.eigen_cache.leading(weights, n_components, tie_tolerance)

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
        sum_goal: float | None = None,
    ) -> ApproximateSubspace:
        """Approximate leading eigenvectors with guard vectors, by iteration if that is faster.

        Parameters
        ----------
        weights : (k,) array
        n_components : int
        start : (p, m) array, optional
            Directions near the eigenvectors.
        sum_goal : float, optional
            Tolerance on the eigenvalue sum at which to stop.
        """
        mixture = self.mixture(weights)
        if n_components > _MAX_KRYLOV_RATIO * self.n_features:
            guarded = leading_subspace(mixture, self.n_ritz(n_components))
            leading = LeadingSubspace.from_eigenpairs(
                guarded.eigenvalues, guarded.vectors, n_components, 0.0
            )
            return ApproximateSubspace(leading, guarded.vectors, 0.0)
        return leading_subspace_krylov(
            lambda block: _threaded_product(mixture, block),
            self.n_features,
            n_components,
            float(np.abs(weights) @ self.traces),
            start=start,
            sum_tol=sum_goal,
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


def _captured_traces(images: FloatArray, basis: FloatArray) -> FloatArray:
    """Return tr(V'S_gV) from S_gV of each group, shape (k,)."""
    return np.asarray(images.reshape(len(images), -1) @ basis.ravel())


def _threaded_product(matrices: FloatArray, block: FloatArray) -> FloatArray:
    """Matrix product, multithreaded with many features."""
    is_threaded = len(block) >= _MIN_THREADED_FEATURES
    with limit_blas_threads("numpy") if is_threaded else nullcontext():
        if matrices.ndim > 2:
            return np.asarray(matrices @ block)
        # For a symmetric matrix, the transposed product takes two thirds of the time.
        return np.asarray((block.T @ matrices).T)


@dataclass(frozen=True, eq=False)
class OrthogonalComplement:
    """Orthogonal complement of (p, r) directions, with basis Q stored as r Householder reflectors.

    Compressing a (p, p) matrix then costs products with r columns instead of p - r.

    Attributes
    ----------
    reflectors : (p, r) array
    factors : (r,) array
        Output of LAPACK's QR factorization of the directions.
    order : (p,) array of int
        Order of the features in the reflectors. Few are moved, so that few rows of a matrix are.
    """

    reflectors: FloatArray
    factors: FloatArray
    order: IndexArray

    @classmethod
    def from_directions(cls, directions: FloatArray) -> "OrthogonalComplement":
        """Build the complement of orthonormal (p, r) directions, r < p.

        Features are pivoted so that Q stays close to features that the directions do not follow.
        Then a large-scale column aligned with a direction does not contaminate the others.
        """
        r = directions.shape[1]
        pivots = qr(directions.T, mode="r", pivoting=True)[1][:r] if r else []
        order = np.arange(len(directions))
        for index, feature in enumerate(pivots):
            other = int(np.flatnonzero(order == feature)[0])
            order[[index, other]] = order[[other, index]]
        return cls._in_order(directions, order)

    @classmethod
    def from_differences(cls, directions: FloatArray) -> "OrthogonalComplement":
        """Build the complement of independent (p, r) directions, the largest vectors first.

        With row exchanges (Cox and Higham 1998), each direction is removed up to its own rounding
        error, and each entry up to the rounding error of the entry: neither a large vector nor a
        large-scale column swamps the others.
        """
        order = np.arange(len(directions))
        # Gaussian elimination pivots on the feature in which a direction differs most from others.
        for index, pivot in enumerate(lapack.dgetrf(directions)[1]):
            order[[index, pivot]] = order[[pivot, index]]
        return cls._in_order(directions, order)

    @classmethod
    def _in_order(cls, directions: FloatArray, order: IndexArray) -> "OrthogonalComplement":
        reflectors, factors, *_ = lapack.dgeqrf(directions[order])
        return cls(reflectors, factors, order)

    @property
    def basis(self) -> FloatArray:
        """Basis Q, shape (p, p - r)."""
        p, r = self.reflectors.shape
        basis = np.empty((p, p - r))
        basis[self.order] = self._apply_reflectors(np.eye(p)[:, r:], "L", "N")
        return basis

    def coordinates(self, columns: FloatArray) -> FloatArray:
        """Return the coordinates Q'C of (p, n) columns C."""
        return self._apply_reflectors(columns[self.order], "L", "T")[len(self.factors) :]

    def compress(self, matrices: FloatArray, scales: FloatArray) -> FloatArray:
        """Return Q'MQ of each of (k, p, p) symmetric matrices M times its scale.

        Shape (k, p - r, p - r). Scaling here avoids a scaled copy.
        """
        p, r = self.reflectors.shape
        compressed = np.empty((len(matrices), p - r, p - r))
        moved = np.flatnonzero(self.order != np.arange(p))
        for matrix, scale, block in zip(matrices, scales, compressed, strict=True):
            image = np.multiply(matrix, scale, order="C")
            image[moved] = image[self.order[moved]]
            image[:, moved] = image[:, self.order[moved]]
            # Transposed to Fortran order, so that LAPACK works in place.
            image = self._apply_reflectors(image.T, "L", "T", overwrite=True)
            block[:] = self._apply_reflectors(image, "R", "N", overwrite=True).T[r:, r:]
        return compressed

    def _apply_reflectors(
        self, columns: FloatArray, side: str, transposed: str, *, overwrite: bool = False
    ) -> FloatArray:
        """Multiply a matrix by the product of the reflectors, from the left or the right."""
        if not len(self.factors):
            return columns
        return np.asarray(
            lapack.dormqr(
                side,
                transposed,
                self.reflectors,
                self.factors,
                columns,
                lwork=_REFLECTOR_BLOCK * max(columns.shape),
                overwrite_c=overwrite,
            )[0]
        )


def deflate(
    second_moments: DenseSecondMoments, basis: FloatArray
) -> tuple[DenseSecondMoments, FloatArray, OrthogonalComplement]:
    """Second moments in the orthogonal complement of orthonormal (p, r) columns, r < p.

    Returns
    -------
    second_moments : DenseSecondMoments
        Q'S_gQ.
    rounding : (k,) array
        Rounding bound of their traces.
    complement : OrthogonalComplement
        Q, orthogonal to the columns.
    """
    complement = OrthogonalComplement.from_directions(basis)
    k = second_moments.n_groups
    abs_basis = np.abs(complement.basis.T)
    deflated = DenseSecondMoments(
        complement.compress(second_moments.matrices, np.ones(k)),
        second_moments.excluded_variances,
        abs_basis @ second_moments.offset_rounding_error,
        second_moments.uncertainty,
    )
    # Terms of Q'S_gQ are bounded by column RMS values; and rounding the basis to float64 leaves a
    # residue of the removed directions.
    sum_rounding = _SUM_ROUNDING * ((abs_basis @ second_moments.column_rms.T) ** 2).sum(axis=0)
    basis_rounding = basis_rounding_bound(second_moments.root_traces, np.zeros(k))
    return deflated, sum_rounding + basis_rounding, complement
