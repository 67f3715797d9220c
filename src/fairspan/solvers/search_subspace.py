"""Search subspace W with the second moments projected onto it."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fairspan.linalg import (
    EigenCache,
    LeadingSubspace,
    SmallestEigenvalueSum,
    orthonormalize_against,
    symmetrize,
)
from fairspan.linalg.rounding import ANGLE_TOL, CANCELLATION_RATIO, EIGENVALUE_ROUNDING
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.moments.sparse_scatter import SparseSecondMoments
from fairspan.solvers.eigenvalue_bounds import (
    ProjectedMixture,
    complement_eigenvalue_bound,
)
from fairspan.typing import FloatArray

# Up to this ratio of the dimensions of W to the features, one factorization for all mixtures takes
# less time than one for each of them: products with all of W take most of it.
_MAX_JOINT_RATIO = 1 / 5

# Second moments whose leading eigenvectors can be computed iteratively.
IterativeMoments = DenseSecondMoments | SparseSecondMoments


@dataclass(frozen=True, eq=False)
class _ProjectedMoments(DenseSecondMoments):
    """Projected second moments W'S_gW, whose eigenvalue sums allow for what W misses.

    Attributes
    ----------
    missing_sums : dict of bytes to float
        Bound on t_d(M) - t_d(H) of each mixture M = sum_g weights_g S_g, keyed by the bytes of its
        weights. t_d is the sum of the d largest eigenvalues, and H = W'MW.
    """

    missing_sums: dict[bytes, float] = field(default_factory=dict)
    _smallest_sums: dict[tuple[bytes, int], SmallestEigenvalueSum] = field(
        default_factory=dict, repr=False
    )

    @cached_property
    def eigen_cache(self) -> EigenCache:
        """Cache of eigendecompositions, which the solver, the bound and Ritz vectors share."""
        return EigenCache(self.matrices, keeps_all=True)

    def smallest_eigenvalue_sum(
        self, weights: FloatArray, n_components: int
    ) -> SmallestEigenvalueSum:
        """Sum of the p - d smallest eigenvalues, with a rounding error that covers what W misses.

        Value minus rounding error is then a lower bound on the sum in all p features. A mixture
        without a recorded missing sum counts as missing nothing.
        """
        # The bound is evaluated before and after the missing sum is known.
        key = weights.tobytes(), n_components
        if key not in self._smallest_sums:
            self._smallest_sums[key] = super().smallest_eigenvalue_sum(weights, n_components)
        smallest = self._smallest_sums[key]
        missing = self.missing_sums.get(weights.tobytes(), 0.0)
        return smallest._replace(rounding_error=smallest.rounding_error + missing)


@dataclass(frozen=True, eq=False)
class SearchSubspace:
    """Search subspace W with the images S_gW.

    Attributes
    ----------
    full_moments : IterativeMoments
        Second moments S_g in all features.
    n_ritz : int
        Number of leading eigenvectors of a mixture that W should contain, at least d.
    basis : (p, m) array
        W, orthonormal columns.
    images : (k, p, m) array
        S_gW of each group.
    compressed : (k, m, m) array
        W'S_gW.
    """

    full_moments: IterativeMoments
    n_ritz: int
    basis: FloatArray
    images: FloatArray
    compressed: FloatArray
    _mixtures: dict[bytes, ProjectedMixture] = field(default_factory=dict, repr=False)
    _ritz_mixtures: dict[bytes, ProjectedMixture] = field(default_factory=dict, repr=False)
    _inherited: dict[bytes, LeadingSubspace] = field(default_factory=dict, repr=False)
    _ritz_images: dict[bytes, tuple[FloatArray, FloatArray]] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def from_basis(
        cls, full_moments: IterativeMoments, n_ritz: int, basis: FloatArray
    ) -> "SearchSubspace":
        """Subspace spanned by (p, m) orthonormal columns."""
        images = full_moments.apply(basis)
        return cls(full_moments, n_ritz, basis, images, symmetrize(basis.T @ images))

    @cached_property
    def projected_moments(self) -> _ProjectedMoments:
        """Projected second moments, with the variance outside of W."""
        outside = self.full_moments.traces - np.einsum("gii->g", self.compressed)
        # The difference is accurate unless nearly all variance lies within W.
        if (outside <= CANCELLATION_RATIO * self.full_moments.traces).any():
            outside = self.full_moments.residual_variances(self.basis)
        return _ProjectedMoments(self.compressed, outside)

    @property
    def is_large(self) -> bool:
        """Whether what each mixture misses is proven separately, for its Ritz vectors."""
        p, m = self.basis.shape
        return bool(m > _MAX_JOINT_RATIO * p)

    def expand(self, columns: FloatArray) -> "SearchSubspace":
        """Return the subspace extended by (p, r) columns; the same object if they add nothing.

        Images and projected second moments are computed for the new columns only.
        """
        excluded = self.basis
        if self.full_moments.forbidden.size:
            # A restriction forbids these directions: all solutions are orthogonal to them. What
            # rounding leaves of them in a column that adds little would grow when the column is
            # scaled to unit length, so new columns are orthogonalized against them, too.
            excluded = np.hstack([self.full_moments.forbidden, excluded])
        max_columns = len(excluded) - excluded.shape[1]
        # No more columns than the dimensions that are left.
        new_columns = orthonormalize_against(excluded, columns)[:, :max_columns]
        if new_columns.shape[1] == 0:
            return self
        # S_g applied to the new columns, and the new blocks of W'S_gW, with a leading group axis.
        images = self.full_moments.apply(new_columns)
        cross_products = self.basis.T @ images
        new_products = symmetrize(new_columns.T @ images)
        block_rows = [
            [self.compressed, cross_products],
            [cross_products.transpose(0, 2, 1), new_products],
        ]
        compressed = np.concatenate([np.concatenate(row, axis=2) for row in block_rows], axis=1)
        return SearchSubspace(
            self.full_moments,
            self.n_ritz,
            basis=np.hstack([self.basis, new_columns]),
            images=np.concatenate([self.images, images], axis=2),
            compressed=compressed,
        )

    def inherit_ritz_vectors(
        self, smaller: "SearchSubspace", weights: FloatArray, n_components: int
    ) -> None:
        """Keep the Ritz vectors of a mixture within the subspace of which this is an expansion.

        If they miss little of the mixture, its eigenproblem within this subspace need not be
        solved. Only large subspaces inherit: there what is missing is proven for the Ritz vectors,
        whatever else the subspace contains.
        """
        assert self.is_large
        key = weights.tobytes()
        self._ritz_mixtures[key] = smaller.project_on_ritz_vectors(weights)
        self._ritz_images[key] = smaller._ritz_vectors_and_image(weights)
        leading = smaller._leading(weights)
        # The basis begins with that of the smaller subspace.
        n_new = self.basis.shape[1] - smaller.basis.shape[1]
        coordinates = np.pad(leading.vectors, [(0, n_new), (0, 0)])
        self._inherited[key] = replace(leading, vectors=coordinates)
        for n in (n_components, len(leading.eigenvalues)):
            self.projected_moments.eigen_cache.add(
                weights,
                LeadingSubspace.from_eigenpairs(leading.eigenvalues, coordinates, n, tolerance=0.0),
            )

    def project_mixture(self, weights: FloatArray) -> ProjectedMixture:
        """Projection of the mixture sum_g weights_g S_g, computed once."""
        key = weights.tobytes()
        if key not in self._mixtures:
            compressed = np.tensordot(weights, self.compressed, axes=1)
            residual = self._image(weights) - self.basis @ compressed
            gram = residual.T @ residual
            p, m = self.basis.shape
            leading = self._leading(weights)
            self._mixtures[key] = ProjectedMixture(weights, compressed, gram, p - m, leading)
        return self._mixtures[key]

    def project_on_ritz_vectors(self, weights: FloatArray) -> ProjectedMixture:
        """Projection of a mixture onto its leading Ritz vectors only, computed once.

        They are its eigenvectors within W. Other directions of W may have large residuals, which
        would make bounds loose, and take most of the time of a projection onto all of W.
        """
        key = weights.tobytes()
        if key not in self._ritz_mixtures:
            values = self._leading(weights).eigenvalues
            residuals = self.ritz_residuals(weights)
            n = len(values)
            # In the basis of the Ritz vectors the projected mixture is diagonal, and they are unit
            # vectors. Of the leading subspace only values and vectors are used: no ties, no gap.
            leading = LeadingSubspace(
                values, np.eye(n), n_untied=n, tied_vectors=np.empty((n, 0)), gap=0.0
            )
            self._ritz_mixtures[key] = ProjectedMixture(
                weights,
                compressed=np.diag(values),
                residual_gram=residuals.T @ residuals,
                complement_dim=len(self.basis) - n,
                leading=leading,
            )
        return self._ritz_mixtures[key]

    def _leading(self, weights: FloatArray) -> LeadingSubspace:
        """Leading eigenpairs of the projected mixture: Ritz values, and vectors in W."""
        inherited = self._inherited.get(weights.tobytes())
        if inherited is not None:
            return inherited
        n = min(self.n_ritz, self.basis.shape[1])
        return self.projected_moments.leading(weights, n)

    def _image(self, weights: FloatArray) -> FloatArray:
        """Image MW of the mixture, shape (p, m)."""
        return np.tensordot(weights, self.images, axes=1)

    def ritz_vectors(self, weights: FloatArray) -> FloatArray:
        """Ritz vectors of a mixture, shape (p, n_ritz)."""
        return self._ritz_vectors_and_image(weights)[0]

    def ritz_residuals(self, weights: FloatArray) -> FloatArray:
        """Residuals MV - V diag(values) of the Ritz vectors V of a mixture M, shape (p, n_ritz)."""
        vectors, image = self._ritz_vectors_and_image(weights)
        return np.asarray(image - vectors * self._leading(weights).eigenvalues)

    def _ritz_vectors_and_image(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Ritz vectors V of a mixture M, and MV, computed once; each of shape (p, n_ritz)."""
        key = weights.tobytes()
        if key not in self._ritz_images:
            coordinates = self._leading(weights).vectors
            self._ritz_images[key] = (
                self.basis @ coordinates,
                self._image(weights) @ coordinates,
            )
        return self._ritz_images[key]

    def residual_directions(
        self, weights: FloatArray, coordinates: FloatArray, min_gain: float
    ) -> FloatArray:
        """Residual (I - WW')MB of a mixture M at a basis B: the directions that W lacks.

        W is the basis of this search subspace, and M a mixture of the second moments. Adding
        leading eigenvectors of M to W is not enough if the solution is not spanned by them.

        Parameters
        ----------
        weights : (k,) array
            Weights of the groups in the mixture M.
        coordinates : (m, d) array
            Coordinates of the basis B within W.
        min_gain : float
            Smallest estimated gain in captured variance for which directions are returned. Until a
            basis has converged, each direction added makes others appear, without end.

        Returns
        -------
        (p, d) or (p, 0) array
            No columns if the gain is too small or the residual is rounding error.
        """
        mixture = self.project_mixture(weights)
        if mixture.residual_gain(coordinates, n_components=coordinates.shape[1]) <= min_gain:
            return self.basis[:, :0]
        image = self._image(weights) @ coordinates
        residual = image - self.basis @ (self.basis.T @ image)
        rounding = EIGENVALUE_ROUNDING * float(np.abs(weights) @ self.full_moments.traces)
        min_norm = max(ANGLE_TOL * float(np.linalg.norm(image)), rounding)
        if float(np.linalg.norm(residual)) > min_norm:
            return residual
        return residual[:, :0]

    def prove_missing_sums(
        self, mixtures: list[FloatArray], n_components: int, goal: float
    ) -> dict[bytes, float]:
        """Prove how much of the sum of the d largest eigenvalues W misses, for several mixtures.

        W is the basis of this search subspace, M a mixture of the second moments in all features,
        H = W'MW, and t_d the sum of the d largest eigenvalues. A bound on the eigenvalues of M on
        the complement of W limits t_d(M) - t_d(H), the missing sum. One factorization bounds those
        of all mixtures, if W is small. Where it is large, or this bounds the missing sum by more
        than the goal, a mixture gets a separate factorization on the complement of its Ritz
        vectors.

        Parameters
        ----------
        mixtures : list of (k,) arrays
            Weights of each mixture.
        n_components : int
            d.
        goal : float
            Missing sum that is small enough; the result may exceed it or be infinite, which the
            caller checks.

        Returns
        -------
        dict of bytes to float
            Upper bound on t_d(M) - t_d(H) of each mixture, keyed by the bytes of its weights.
        """
        d = n_components
        missing_sums = dict.fromkeys([weights.tobytes() for weights in mixtures], np.inf)
        if not self.is_large:
            missing_sums |= self._prove_jointly(mixtures, d, goal)
        for weights in mixtures:
            key = weights.tobytes()
            if missing_sums[key] > goal:
                missing_sums[key] = min(missing_sums[key], self._prove_separately(weights, d, goal))
        return missing_sums

    def _prove_jointly(
        self, mixtures: list[FloatArray], n_components: int, goal: float
    ) -> dict[bytes, float]:
        """Prove missing sums of several mixtures by one factorization on the complement of W.

        See :meth:`prove_missing_sums`.
        """
        d = n_components
        projected = [self.project_mixture(weights) for weights in mixtures]
        # Bound on the complement's eigenvalues that would make the missing sum small enough.
        targets = [mixture.complement_bound_target(d, goal) for mixture in projected]
        # Divide each mixture by the bound wanted for its eigenvalues on the complement, so that the
        # common trial bound is one. Clipping negative weights at zero can only raise eigenvalues.
        scaled_weights = np.maximum(mixtures, 0.0) / np.array(targets)[:, None]
        joint_bounds = self._bound_complement_jointly(scaled_weights)
        # Missing sum that the proven bound, in the units of the mixture again, allows.
        return {
            mixture.weights.tobytes(): mixture.top_sum_excess(d, float(joint_bound) * target)
            for mixture, target, joint_bound in zip(projected, targets, joint_bounds, strict=True)
        }

    def _bound_complement_jointly(self, mixtures: FloatArray) -> FloatArray:
        """Bound the eigenvalues of several mixtures on the complement of W by one factorization.

        W is the basis of this search subspace. Second moments are positive semidefinite, so no
        mixture exceeds the envelope, in which each group has its largest weight in any of them.

        Parameters
        ----------
        mixtures : (n, k) array
            Nonnegative weights, scaled such that eigenvalues of at most one are wanted.

        Returns
        -------
        (n,) array
            Upper bounds: just above one, or infinite for mixtures that had to be left out.
        """
        second_moments = self.full_moments
        assert isinstance(second_moments, DenseSecondMoments)
        bounds = np.full(len(mixtures), np.inf)
        largest_first = np.argsort(-mixtures.max(axis=1))
        # Mixtures with large weights raise the envelope, and a factorization fails if it exceeds
        # the trial bound of one: leave out none, then the 1, 3, 7, ... with the largest weights.
        n_left_out = 0
        while n_left_out < len(mixtures) and not np.isfinite(bounds).any():
            joint = largest_first[n_left_out:]
            envelope = mixtures[joint].max(axis=0)
            image = np.tensordot(envelope, self.images, axes=1)
            matrix = second_moments.mixture(envelope)
            size = second_moments.norm_bound(envelope)
            bounds[joint] = complement_eigenvalue_bound(
                matrix, self.basis, image, bound=1.0, size=size
            )
            n_left_out = 2 * n_left_out + 1
        return bounds

    def _prove_separately(self, weights: FloatArray, n_components: int, goal: float) -> float:
        """Prove a bound on t_d(M) - t_d(H) of one mixture M, with a factorization of its own.

        H = W'MW for the basis W of this search subspace, and t_d is the sum of the d largest
        eigenvalues: the difference is what W misses. W is replaced by the leading Ritz vectors of
        this mixture, whose residuals are the smallest. The result is infinite if no bound on the
        eigenvalues on their complement can be proven.
        """
        second_moments = self.full_moments
        assert isinstance(second_moments, DenseSecondMoments)
        mixture = self.project_on_ritz_vectors(weights)
        ritz_vectors, image = self._ritz_vectors_and_image(weights)
        complement_bound = complement_eigenvalue_bound(
            second_moments.mixture(weights),
            ritz_vectors,
            image,
            bound=mixture.complement_bound_target(n_components, goal),
            size=second_moments.norm_bound(weights),
        )
        return mixture.top_sum_excess(n_components, complement_bound)
