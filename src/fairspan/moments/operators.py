"""Second moments that solvers see, and what a projection makes of rows.

A row x has the coordinates E x and is brought back as D E x. Of an orthogonal projection D is E'.
Of an oblique one D has orthonormal columns U and E is another matrix. By Pythagoras a row is then
||x - UU'x||^2 + ||(U' - E) x||^2 away from what it is brought back as: what the subspace loses
of it, and what its coordinates are moved by.

A soft projection (Samadi et al. 2018, step 5 of Algorithm 1) has rows that are not all of length
one. The relaxed problem is solved by P = sum_j lb_j u_j u_j' with 0 <= lb_j <= 1 and sum_j lb_j =
d. It is no projection, but P* = sum_j lambda_j u_j u_j', lambda_j = 1 - sqrt(1 - lb_j),
reconstructs rows with exactly the errors that P promises: tr((I - P*) S (I - P*)) = tr S - <S, P>.

Solvers never see a p x p matrix: only traces, variances captured by a subspace, leading
eigenvectors of a mixture, and small compressions. Other implementations can then avoid the matrix.
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
from fairspan.linalg.resources import limit_blas_threads
from fairspan.typing import FloatArray, IndexArray

# Of products of rows: lengths and angles that differ by less are equal.
_ORTHONORMAL_TOL = 1e-6
# The weights of a soft projection add up to a whole number within this.
_DIMENSION_TOL = 1e-5
# Products of an oblique encoder and its decoder are one or zero up to this.
_IDENTITY_TOL = 1e-6


def encoder_columns(basis: FloatArray) -> FloatArray:
    """Columns sqrt(lambda_j) u_j of the embedding from columns sqrt(lb_j) u_j.

    Parameters
    ----------
    basis : (p, r) array
        Orthogonal columns no longer than one. Those of length one stay as they are.

    Returns
    -------
    (p, r) array

    Examples
    --------
    >>> softened(np.array([[1.0, 0.0], [0.0, np.sqrt(0.75)]])) ** 2
    array([[1. , 0. ],
           [0. , 0.5]])
    """
    kept = np.minimum(np.einsum("ij,ij->j", basis, basis), 1.0)
    soft = kept < 1 - 1e-12
    factors = np.ones_like(kept)
    factors[soft] = np.sqrt((1 - np.sqrt(1 - kept[soft])) / kept[soft])
    return np.asarray(basis * factors)


def captured_basis(encoder: FloatArray) -> FloatArray:
    """Columns sqrt(lb_j) u_j from rows sqrt(lambda_j) u_j: the inverse of :func:`softened`.

    Parameters
    ----------
    components : (r, p) array
        Orthogonal rows no longer than one.

    Returns
    -------
    (p, r) array
        B, with captured variances tr(B'SB).

    Examples
    --------
    >>> retained(np.array([[1.0, 0.0], [0.0, np.sqrt(0.5)]])) ** 2
    array([[1.  , 0.  ],
           [0.  , 0.75]])
    """
    weights = np.minimum(np.einsum("ij,ij->i", encoder, encoder), 1.0)
    # lb = 1 - (1 - lambda)^2 = lambda (2 - lambda)
    return np.asarray((encoder * np.sqrt(2 - weights)[:, None]).T)


def is_soft(components: FloatArray) -> bool:
    """Whether (r, p) orthogonal rows are not all of length one."""
    return bool((np.einsum("ij,ij->i", components, components) < 1 - _ORTHONORMAL_TOL).any())


def soft_dimension(components: FloatArray) -> float:
    """d = sum_j lb_j of (r, p) rows sqrt(lambda_j) u_j, lb_j = lambda_j (2 - lambda_j)."""
    weights = np.einsum("ij,ij->i", components, components)
    return float((weights * (2 - weights)).sum())


def check_components(components: FloatArray, *, may_be_soft: bool = True) -> None:
    """Make sure that (r, p) components are orthonormal rows, or those of a soft projection.

    The rows of a soft one are orthogonal, no longer than one, and keep a whole number of
    dimensions.

    Raises
    ------
    InvalidInput
    """
    if components.ndim != 2 or not 1 <= len(components) <= components.shape[1]:
        raise InvalidInput(
            f"The components have shape {components.shape}",
            "Allowed: (d, p) with 1 <= d <= p",
            "Pass one row for each component",
        )
    gram = components @ components.T
    weights = np.diag(gram)
    is_soft_projection = (
        may_be_soft
        and (weights <= 1 + _ORTHONORMAL_TOL).all()
        and abs((kept := soft_dimension(components)) - max(round(kept), 1)) <= _DIMENSION_TOL
    )
    expected = np.diag(weights) if is_soft_projection else np.eye(len(gram))
    if not np.allclose(gram, expected, atol=_ORTHONORMAL_TOL):
        raise InvalidInput(
            "The components are not orthonormal",
            "Allowed: rows of length one at right angles",
            "Orthonormalise them, for example with numpy.linalg.qr(components.T)[0].T",
        )


@dataclass(frozen=True, eq=False)
class Projector:
    """Rows to their coordinates and back.

    Attributes
    ----------
    encoder : (r, p) array
        E: orthonormal rows, or those of a soft projection; any rows beside a decoder.
    oblique_decoder : (p, r) array or None
        D of an oblique projection, orthonormal columns with E D = I.

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
        """D, shape (p, r)."""
        return self.encoder.T if self.oblique_decoder is None else self.oblique_decoder

    @property
    def basis(self) -> FloatArray:
        """B, shape (p, r), with tr(B'SB) what the subspace captures of S."""
        if self.oblique_decoder is not None:
            return self.oblique_decoder
        return captured_basis(self.encoder) if is_soft(self.encoder) else self.encoder.T

    @property
    def oblique_part(self) -> FloatArray:
        """E' - U, shape (p, r); (p, 0) of an orthogonal projection."""
        encoder = self.encoder.T
        return encoder[:, :0] if self.oblique_decoder is None else encoder - self.oblique_decoder

    @property
    def stacked_columns(self) -> FloatArray:
        """E' and, of an oblique projection, D beside it: what changes with the coordinates."""
        encoder, oblique = self.encoder.T, self.oblique_decoder
        return encoder if oblique is None else np.hstack([encoder, oblique])

    def with_stacked_columns(self, columns: FloatArray) -> "Projector":
        """The same in other coordinates, in which these are its columns."""
        if self.oblique_decoder is None:
            return Projector(columns.T)
        encoder, decoder = np.hsplit(columns, 2)
        return Projector(encoder.T, decoder)

    def check(self) -> None:
        """Make sure that it projects.

        Raises
        ------
        InvalidInput
            Rows that are not orthonormal, or an encoder and a decoder that do not fit each other.
        """
        check_components(self.encoder if self.oblique_decoder is None else self.oblique_decoder.T)
        if self.encoder.shape != self.decoder.T.shape or not np.isfinite(self.encoder).all():
            raise InvalidInput(
                f"The encoder has shape {self.encoder.shape}, the decoder {self.decoder.shape}",
                "Allowed: (d, p) and (p, d) finite numbers",
                "Use those of one fit",
            )
        product = self.encoder @ self.decoder
        identity = product if self.oblique_decoder is None else np.eye(len(self.encoder))
        if not np.allclose(product, identity, atol=_IDENTITY_TOL):
            raise InvalidInput(
                "The encoder does not undo the decoder",
                "Allowed: an encoder and a decoder whose product is the identity",
                "Use those of one fit",
            )

    @cached_property
    def is_orthonormal(self) -> bool:
        """Whether E has orthonormal rows to rounding, so that |x - E'E x|^2 = |x|^2 - |E x|^2."""
        if self.oblique_decoder is not None:
            return False
        gram = self.encoder @ self.encoder.T
        return bool((np.abs(gram - np.eye(len(gram))) <= _FULL_SPAN_TOL).all())

    def residuals(self, rows: FloatArray) -> FloatArray:
        """x - D E x of centred rows, shape (n, p).

        Zero, not rounding, where there are as many components as features.
        """
        n_components, n_features = self.encoder.shape
        if n_components == n_features and not is_soft(self.encoder):
            return np.zeros_like(rows)
        return np.asarray(rows - (rows @ self.encoder.T) @ self.decoder.T)

    def squared_residuals(self, rows: FloatArray) -> FloatArray:
        """Squared distance of each centred row to its reconstruction, shape (n,)."""
        left = self.residuals(rows)
        return np.asarray(np.einsum("ij,ij->i", left, left))


class Reconstructor(Protocol):
    """What has a distance of each row to its reconstruction: a projector, or another model."""

    def squared_residuals(self, rows: FloatArray) -> FloatArray:
        """Of centred rows in their unit, shape (n,)."""


def squared_residuals(rows: FloatArray, models: Sequence[Reconstructor]) -> FloatArray:
    """Squared distance of each centred row to its reconstruction by each of m models, (m, n).

    Those of orthonormal components come from one product, but where most digits would cancel.

    Examples
    --------
    >>> first, both = Projector(np.eye(2)[:1]), Projector(np.eye(2))
    >>> squared_residuals(np.array([[3.0, 1.0]]), [first, both])
    array([[1.],
           [0.]])
    """
    found, alone = np.empty((len(models), len(rows))), np.ones(len(models), dtype=bool)
    alike = [i for i, each in enumerate(models) if getattr(each, "is_orthonormal", False)]
    if alike:
        encoders = [cast(Projector, models[i]).encoder for i in alike]
        columns, starts = np.vstack(encoders).T, np.cumsum([0, *map(len, encoders[:-1])])
        total = np.einsum("ij,ij->i", rows, rows)
        step = max(_CHUNK_ENTRIES // columns.shape[1], 1)
        for at in (slice(start, start + step) for start in range(0, len(rows), step)):
            kept = np.add.reduceat((rows[at] @ columns) ** 2, starts, axis=1)
            found[alike, at] = total[at] - kept.T
        alone[alike] = (found[alike] < CANCELLATION_RATIO * total).any(axis=1)
    for i in np.flatnonzero(alone).tolist():
        found[i] = models[i].squared_residuals(rows)
    return found


# Entries of I - VV' that are rounding, where V has p columns and is no soft projection.
_FULL_SPAN_TOL = 1e-12
# Of the square of a row of E as 1 minus a share, this share leaves enough digits.
_NEARLY_CAPTURED = 0.9
# Below this share of the total, a difference of two traces has lost more than four digits.
CANCELLATION_RATIO = 1e-4
# How many squares of coordinates are held at once.
_CHUNK_ENTRIES = 2**20
# Up to this share of the features, a block Krylov iteration beats LAPACK. Measured at p = 1764: a
# third of the time at d = 20, the same at d = 50.
_MAX_KRYLOV_RATIO = 1 / 40
# LAPACK finds so many more at little cost: one for each of these.
_COMPONENTS_PER_GUARD = 8
# Products with matrices use threads from here on.
_MIN_THREADED_FEATURES = 400
# Columns that LAPACK applies reflections to at once.
_REFLECTOR_BLOCK = 64
# Sums of products are rounded by this share of their terms.
_SUM_ROUNDING = 8 * float(np.finfo(np.float64).eps)


class SecondMoments(Protocol):
    """Second moments S_1 .. S_k of k groups in p features."""

    @property
    def is_dense(self) -> bool:
        """Whether they are held as p x p matrices, of which bounds can be proven."""

    @property
    def n_groups(self) -> int:
        """k."""

    @property
    def n_features(self) -> int:
        """p."""

    @property
    def traces(self) -> FloatArray:
        """tr S_g, the total variance of each group, shape (k,)."""

    def captured_variances(self, basis: FloatArray) -> FloatArray:
        """c_g(V) = tr(V'S_gV) for an orthonormal (p, d) basis V, shape (k,)."""

    def residual_variances(self, basis: FloatArray) -> FloatArray:
        """tr S_g - c_g(V), what the subspace loses of each group, shape (k,)."""

    def select_group(self, group: int) -> "SecondMoments":
        """That of one group alone."""

    def compress(self, basis: FloatArray) -> FloatArray:
        """V'S_gV of every group, shape (k, d, d)."""

    def apply(self, basis: FloatArray) -> FloatArray:
        """S_gV of every group, shape (k, p, d)."""

    def leading(
        self, weights: FloatArray, n_components: int, tie_tolerance: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of sum_g weights_g S_g, with ties within the tolerance."""


def reconstruction_errors(projector: Projector, second_moments: SecondMoments) -> FloatArray:
    """tr((I - DE) S_g (I - DE)') of each group, shape (k,)."""
    errors, tilt = second_moments.residual_variances(projector.basis), projector.oblique_part
    return errors + second_moments.captured_variances(tilt) if tilt.size else errors


# What means that are off add to correlations that are off as much: the mean of a group and that of
# all rows each enter once.
_WITH_MEANS = 3.0
# Of the sixteen digits of float64, the last four of a figure are left to rounding.
_FIGURE_ROUNDING = 1e-12


def figure_roundings(
    second_moments: SecondMoments, errors: FloatArray, *, by_feature: bool = True
) -> FloatArray:
    """Return the size up to which an error or a loss of each group is rounding, shape (k,).

    It is a share of the group's error, or of the least variance of a feature that varies if that is
    more. A column of large numbers therefore does not turn the figures of the others into rounding:
    what is lost of it is computed without cancellation.

    Parameters
    ----------
    second : SecondMoments
    errors : (k,) array
    by_feature : bool
        Whether the coordinates of the second moments are features. In others the variance of the
        group takes the place of the least one.
    """
    scales = second_moments.traces
    if by_feature and isinstance(second_moments, DenseSecondMoments):
        varies = second_moments.column_rms > second_moments.offset_rounding_error
        least = np.where(varies, second_moments.column_rms, np.inf).min(axis=1)
        scales = np.where(varies.any(axis=1), least**2, scales)
    return np.asarray(_FIGURE_ROUNDING * np.maximum(scales, errors))


def error_reduction_by_component(projector: Projector, second_moments: SecondMoments) -> FloatArray:
    """What each component takes off each group's error, shape (k, r).

    Nothing is below zero but for oblique components, which may add to the error of a group.
    """
    # Along directions without any variance, rounding may be below zero.
    kept = np.maximum(np.einsum("gii->gi", second_moments.compress(projector.basis)), 0.0)
    if projector.oblique_part.size:
        kept = kept - np.einsum("gii->gi", second_moments.compress(projector.oblique_part))
    return np.asarray(kept)


@dataclass(frozen=True, eq=False)
class Doubt:
    """How far second moments may be off, as those of an algorithm that ends are.

    With correlations C off by at most d in norm, an error changes by no more than d / l times
    itself, where l is the least eigenvalue of C, and by no more than d times the variance.

    Attributes
    ----------
    shares : (k,) array
        d / l, infinite where C is singular.
    most : (k,) array
        d times the variance of each group.
    """

    shares: FloatArray
    most: FloatArray

    @classmethod
    def of(cls, scatters: FloatArray, traces: FloatArray, left: float) -> "Doubt | None":
        """Return that of matrices whose correlations and means are off by `left` in all.

        Parameters
        ----------
        scatters : (k, p, p) array
            About the groups' own means, up to a factor.
        traces : (k,) array
            Variances about the point in use.
        left : float
            Root of the sum of squares over all entries, in standard deviations.
        """
        if left <= 0:
            return None
        spreads = column_rms(scatters)
        units = np.where(spreads > 0, spreads, 1.0)
        correlations = scatters / units[:, :, None] / units[:, None, :]
        np.einsum("gii->gi", correlations)[:] = 1.0
        off = _WITH_MEANS * left
        least = np.linalg.eigvalsh(correlations)[:, 0]
        shares = np.divide(off, least, out=np.full(len(least), np.inf), where=least > 0)
        return cls(shares, off * traces)

    def of_groups(self, chosen: slice) -> "Doubt":
        """Return that of some of the groups."""
        return Doubt(self.shares[chosen], self.most[chosen])

    def of_errors(self, errors: FloatArray) -> FloatArray:
        """By how much (k,) errors may be off, shape (k,)."""
        with np.errstate(invalid="ignore"):
            shares = np.nan_to_num(self.shares * np.maximum(errors, 0.0), posinf=np.inf)
        return np.minimum(shares, self.most)


@dataclass(frozen=True, eq=False)
class DenseSecondMoments:
    """Second moments held as a (k, p, p) array.

    Parameters
    ----------
    matrices : (k, p, p) array
        Symmetric.
    outside : (k,) array, optional
        Variance of each group that no basis reaches, since the directions are restricted.
    offset_rounding : (p,) array, optional
        By how much rounding may have moved the groups' means from the point about which the second
        moments are taken.
    doubt : Doubt, optional
        How far the matrices may be off beside that.
    """

    matrices: FloatArray
    excluded_variances: FloatArray = field(default_factory=lambda: np.zeros(()))
    offset_rounding_error: FloatArray = field(default_factory=lambda: np.zeros(()))
    doubt: "Doubt | None" = None
    is_dense: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.excluded_variances.shape:
            object.__setattr__(self, "excluded_variances", np.zeros(len(self.matrices)))
        if not self.offset_rounding_error.shape:
            object.__setattr__(self, "offset_rounding_error", np.zeros(self.n_features))

    def select_group(self, group: int) -> "DenseSecondMoments":
        """That of one group alone."""
        one = slice(group, group + 1)
        doubt = None if self.doubt is None else self.doubt.of_groups(one)
        return DenseSecondMoments(
            self.matrices[one], self.excluded_variances[one], self.offset_rounding_error, doubt
        )

    @property
    def n_groups(self) -> int:
        """k."""
        return len(self.matrices)

    @property
    def n_features(self) -> int:
        """p."""
        return int(self.matrices.shape[1])

    @cached_property
    def traces(self) -> FloatArray:
        """tr S_g of each group, shape (k,)."""
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
        """sqrt(tr S_g) of each group, within the directions of the matrices, shape (k,)."""
        return np.asarray(np.sqrt(np.maximum(self._inner_traces, 0.0)))

    def captured_variances(self, basis: FloatArray) -> FloatArray:
        """c_g(V) = tr(V'S_gV), shape (k,)."""
        return _captured_traces(self.apply(basis), basis)

    def residual_variances(self, basis: FloatArray) -> FloatArray:
        """tr S_g - c_g(V) of each group, accurate however little is lost, shape (k,)."""
        return self.inner_errors(basis) + self.excluded_variances

    def inner_errors(self, basis: FloatArray) -> FloatArray:
        """The same without what lies outside of all directions, shape (k,).

        Where nearly everything is captured, the difference would only be rounding: a column
        of currency beside columns of rates can hold all but 1e-16 of the variance. The trace of
        (I - VV') S (I - VV') has no such cancellation, at the cost of a matrix product. A basis of
        a soft projection, orthogonal columns of length up to one, is taken too.
        """
        traces = self._inner_traces
        losses = traces - self.captured_variances(basis)
        small = (losses <= CANCELLATION_RATIO * traces) & (traces > 0)
        if small.any():
            soft = encoder_columns(basis)
            left = np.eye(len(basis)) - soft @ soft.T
            if basis.shape[1] == len(basis) and np.abs(left).max() <= _FULL_SPAN_TOL:
                left[:] = 0.0  # and no rounding, where V spans all directions
            losses[small] = _captured_traces(self.matrices[small] @ left, left)
        return np.maximum(losses, 0.0)

    def residual_projector_norms(self, basis: FloatArray) -> tuple[FloatArray, float]:
        """What the rounding of errors follows from, by products with few columns.

        Returns
        -------
        lengths : (p,) array
            Of the rows of E = I - VV'.
        moved : float
            A bound on the length of |E|o, where o is the rounding of the offsets; the same where
            E has no zeros to speak of.
        """
        soft, off = encoder_columns(basis), self.offset_rounding_error
        sizes = np.einsum("ij,ij->i", soft, soft)
        kept = np.flatnonzero(sizes > _NEARLY_CAPTURED)
        # Of features that are nearly kept, little is left: E is computed for these alone.
        rows = soft[kept] @ -soft.T
        rows[np.arange(len(kept)), kept] += 1.0
        squares = 1 - 2 * sizes + ((soft @ (soft.T @ soft)) * soft).sum(axis=1)
        squares[kept] = (rows**2).sum(axis=1)
        of_others, columns = off.copy(), np.abs(soft)
        of_others[kept] = 0.0
        moved = of_others + columns @ (columns.T @ of_others) + np.abs(rows.T) @ off[kept]
        moved[kept] = np.abs(rows) @ off
        return np.sqrt(squares), float(np.linalg.norm(moved))

    def compress(self, basis: FloatArray) -> FloatArray:
        """V'S_gV of every group, shape (k, d, d)."""
        return np.asarray(basis.T @ self.apply(basis))

    def apply(self, basis: FloatArray) -> FloatArray:
        """S_gV of every group, shape (k, p, d)."""
        return np.asarray(_threaded_product(self.matrices, basis))

    def leading(
        self, weights: FloatArray, n_components: int, tie_tolerance: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of sum_g weights_g S_g."""
        return self.eigen_cache.leading(weights, n_components, tie_tolerance)

    @cached_property
    def eigen_cache(self) -> EigenCache:
        """The eigenproblems of mixtures, each solved once for all dimensions and criteria."""
        return EigenCache(self.matrices)

    def smallest_eigenvalue_sum(self, weights: FloatArray, n_leading: int) -> SmallestEigenvalueSum:
        """The sum of all but the d largest eigenvalues of sum_g weights_g S_g, and its rounding."""
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
        """The same by iteration where that is faster, with some vectors beyond the leading ones.

        Parameters
        ----------
        weights : (k,) array
        n_components : int
        start : (p, m) array, optional
            Directions near the eigenvectors.
        sum_goal : float, optional
            Enough, as an uncertainty of the eigenvalue sum.
        """
        mixture, n_vectors = self.mixture(weights), self.n_ritz(n_components)
        if n_components > _MAX_KRYLOV_RATIO * self.n_features:
            wider = leading_subspace(mixture, n_vectors)
            found = LeadingSubspace.from_eigenpairs(
                wider.eigenvalues, wider.vectors, n_components, 0.0
            )
            return ApproximateSubspace(found, wider.vectors, 0.0)
        return leading_subspace_krylov(
            lambda block: _threaded_product(mixture, block),
            self.n_features,
            n_components,
            float(np.abs(weights) @ self.traces),
            start=start,
            sum_tol=sum_goal,
        )

    def n_ritz(self, n_components: int) -> int:
        """How many leading vectors are found with d of them, for a gap to what follows."""
        by_lapack = n_components > _MAX_KRYLOV_RATIO * self.n_features
        share = n_components // _COMPONENTS_PER_GUARD if by_lapack else 0
        return min(n_components + max(N_GUARD_VECTORS, share), self.n_features)

    def norm_bound(self, weights: FloatArray) -> float:
        """sum_g |weights_g| |S_g|_F: what a mixture's rounding is a share of."""
        return float(np.abs(weights) @ self._frobenius_norms)

    def mixture(self, weights: FloatArray) -> FloatArray:
        """sum_g weights_g S_g, shape (p, p); not to be written to."""
        return self.eigen_cache.mixture(weights)

    @cached_property
    def _frobenius_norms(self) -> FloatArray:
        return np.asarray(np.sqrt(np.einsum("gij,gij->g", self.matrices, self.matrices)))


def _captured_traces(images: FloatArray, basis: FloatArray) -> FloatArray:
    """tr(V'S_gV) from S_gV of every group, shape (k,)."""
    return np.asarray(images.reshape(len(images), -1) @ basis.ravel())


def _threaded_product(matrices: FloatArray, block: FloatArray) -> FloatArray:
    """A product that is large enough for threads where there are many features."""
    with limit_blas_threads("numpy") if len(block) >= _MIN_THREADED_FEATURES else nullcontext():
        # Of a symmetric matrix the transposed product, which takes two thirds of the time.
        return np.asarray(matrices @ block if matrices.ndim > 2 else (block.T @ matrices).T)


@dataclass(frozen=True, eq=False)
class OrthogonalComplement:
    """Orthonormal basis Q of what is orthogonal to (p, r) directions, as r Householder reflections.

    With them a (p, p) matrix is compressed by products with r columns, where a (p, p - r) basis
    would take products with p - r.

    Attributes
    ----------
    reflectors : (p, r) array
    factors : (r,) array
        As LAPACK's QR decomposition of the directions leaves them.
    order : (p,) array of int
        Of the features, in the reflectors. Few are moved, so that few rows of a matrix are.
    """

    reflectors: FloatArray
    factors: FloatArray
    order: IndexArray

    @classmethod
    def from_directions(cls, directions: FloatArray) -> "OrthogonalComplement":
        """The complement of orthonormal (p, r) directions, r < p.

        The coordinates are near the features that the directions are not near to. So a column of
        large numbers, which a direction follows, does not drown all others.
        """
        r = directions.shape[1]
        nearest = qr(directions.T, mode="r", pivoting=True)[1][:r] if r else []
        order = np.arange(len(directions))
        for place, feature in enumerate(nearest):
            other = int(np.flatnonzero(order == feature)[0])
            order[[place, other]] = order[[other, place]]
        return cls._in_order(directions, order)

    @classmethod
    def of_differences(cls, directions: FloatArray) -> "OrthogonalComplement":
        """The complement of independent (p, r) directions, those of the largest vectors first.

        Each direction is left out up to a rounding of its own, and each entry up to a rounding of
        the entry, as rows are exchanged (Cox and Higham 1998): neither a large vector nor a column
        of large numbers makes the others rounding.
        """
        order = np.arange(len(directions))
        # Gaussian elimination chooses in which feature each direction is largest beside the others.
        for place, pivot in enumerate(lapack.dgetrf(directions)[1]):
            order[[place, pivot]] = order[[pivot, place]]
        return cls._in_order(directions, order)

    @classmethod
    def _in_order(cls, directions: FloatArray, order: IndexArray) -> "OrthogonalComplement":
        reflectors, factors, *_ = lapack.dgeqrf(directions[order])
        return cls(reflectors, factors, order)

    @property
    def basis(self) -> FloatArray:
        """Q, shape (p, p - r)."""
        p, r = self.reflectors.shape
        basis = np.empty((p, p - r))
        basis[self.order] = self._apply_reflectors(np.eye(p)[:, r:], "L", "N")
        return basis

    def coordinates(self, columns: FloatArray) -> FloatArray:
        """Q'C of (p, n) columns C."""
        return self._apply_reflectors(columns[self.order], "L", "T")[len(self.factors) :]

    def compress(self, matrices: FloatArray, scales: FloatArray) -> FloatArray:
        """Q'MQ of each of (k, p, p) symmetric matrices times its factor, shape (k, p - r, p - r).

        So matrices that are to be divided need not be copied.
        """
        k, (p, r) = len(matrices), self.reflectors.shape
        found = np.empty((k, p - r, p - r))
        moved = np.flatnonzero(self.order != np.arange(p))
        for matrix, factor, own in zip(matrices, scales, found, strict=True):
            # Transposed, as LAPACK reads columns: then it works in the memory of the product.
            image = np.multiply(matrix, factor, order="C")
            image[moved] = image[self.order[moved]]
            image[:, moved] = image[:, self.order[moved]]
            image = self._apply_reflectors(image.T, "L", "T", overwrite=True)
            own[:] = self._apply_reflectors(image, "R", "N", overwrite=True).T[r:, r:]
        return found

    def _apply_reflectors(
        self, columns: FloatArray, side: str, transposed: str, *, overwrite: bool = False
    ) -> FloatArray:
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
    """Second moments in what orthonormal (p, r) columns leave, r < p.

    Returns
    -------
    second_moments : DenseSecondMoments
        Q'S_gQ.
    rounding : (k,) array
        By how much rounding may have moved their traces.
    complement : Complement
        Q, orthogonal to the columns.
    """
    complement = OrthogonalComplement.from_directions(basis)
    matrices = complement.compress(second_moments.matrices, np.ones(second_moments.n_groups))
    reach = np.abs(complement.basis.T)
    left = DenseSecondMoments(
        matrices,
        second_moments.excluded_variances,
        reach @ second_moments.offset_rounding_error,
        second_moments.doubt,
    )
    # No term of Q'S_gQ is larger than the root mean squares of its columns allow; and columns that
    # are rounded to float64 leave a rounding of the directions that they should take away.
    rounding = _SUM_ROUNDING * ((reach @ second_moments.column_rms.T) ** 2).sum(axis=0)
    turned = basis_rounding_bound(second_moments.root_traces, np.zeros(second_moments.n_groups))
    return left, rounding + turned, complement
