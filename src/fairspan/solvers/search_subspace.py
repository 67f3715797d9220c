"""Search subspace W with the second moments projected onto it."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fairspan.linalg import (
    SmallestEigenvalueSum,
    leading_subspace,
    orthonormalize_against,
    symmetrize,
)
from fairspan.moments.projector import CANCELLATION_RATIO
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.moments.sparse import SparseSecondMoments
from fairspan.solvers.eigenvalue_bounds import (
    RESIDUAL_TOL,
    TRACE_ROUNDING,
    ProjectedMixture,
    complement_eigenvalue_bound,
)
from fairspan.typing import FloatArray

# Second moments whose leading eigenvectors can be computed iteratively.
IterativeMoments = DenseSecondMoments | SparseSecondMoments


@dataclass(frozen=True, eq=False)
class _ProjectedMoments(DenseSecondMoments):
    """Projected second moments W'S_gW, whose eigenvalue sums allow for what W misses.

    Attributes
    ----------
    missing_sums : dict of bytes to float
        Bound on t_d(M) - t_d(H) of each mixture, keyed by the bytes of its weights.
    """

    missing_sums: dict[bytes, float] = field(default_factory=dict)

    def smallest_eigenvalue_sum(
        self, weights: FloatArray, n_components: int
    ) -> SmallestEigenvalueSum:
        """Sum of the smallest eigenvalues; a bound in all features once it allows for W."""
        smallest = super().smallest_eigenvalue_sum(weights, n_components)
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
    images : (k, p, m) array
    compressed : (k, m, m) array
        W'S_gW.
    """

    full_moments: IterativeMoments
    n_ritz: int
    basis: FloatArray
    images: FloatArray
    compressed: FloatArray
    _mixtures: dict[bytes, ProjectedMixture] = field(default_factory=dict, repr=False)

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

    def expand(self, columns: FloatArray) -> "SearchSubspace":
        """Return the subspace extended by (p, r) columns; the same object if they add nothing."""
        existing = self.basis
        if isinstance(self.full_moments, SparseSecondMoments):
            # Otherwise components along forbidden directions would be amplified in columns that add
            # little.
            existing = np.hstack([self.full_moments.forbidden, existing])
        max_columns = len(existing) - existing.shape[1]
        new_columns = orthonormalize_against(existing, columns)[:, :max_columns]
        if new_columns.shape[1] == 0:
            return self
        images = self.full_moments.apply(new_columns)
        cross_products = self.basis.T @ images
        new_products = symmetrize(new_columns.T @ images)
        rows = [
            [self.compressed, cross_products],
            [cross_products.transpose(0, 2, 1), new_products],
        ]
        return SearchSubspace(
            self.full_moments,
            self.n_ritz,
            np.hstack([self.basis, new_columns]),
            np.concatenate([self.images, images], axis=2),
            np.concatenate([np.concatenate(row, axis=2) for row in rows], axis=1),
        )

    def project_mixture(self, weights: FloatArray) -> ProjectedMixture:
        """Projection of the mixture sum_g weights_g S_g, computed once."""
        key = weights.tobytes()
        if key not in self._mixtures:
            compressed = np.tensordot(weights, self.compressed, axes=1)
            residual = self._image(weights) - self.basis @ compressed
            gram = residual.T @ residual
            p, m = self.basis.shape
            leading = leading_subspace(compressed, min(self.n_ritz, m))
            self._mixtures[key] = ProjectedMixture(weights, compressed, gram, p - m, leading)
        return self._mixtures[key]

    def _image(self, weights: FloatArray) -> FloatArray:
        """Image MW of the mixture, shape (p, m)."""
        return np.tensordot(weights, self.images, axes=1)

    def ritz_vectors(self, weights: FloatArray) -> FloatArray:
        """Ritz vectors of a mixture, shape (p, n_ritz)."""
        return np.asarray(self.basis @ self.project_mixture(weights).leading.vectors)

    def residual_directions(
        self, weights: FloatArray, coordinates: FloatArray, min_gain: float
    ) -> FloatArray:
        """Residual of a mixture applied to an (m, d) basis within W: the directions outside of W.

        A solution need not be spanned by leading eigenvectors. If the solution would gain at most
        `min_gain` from these directions, none is returned: until a basis has converged, each
        direction added makes others appear, without end.
        """
        mixture = self.project_mixture(weights)
        if mixture.residual_gain(coordinates, coordinates.shape[1]) <= min_gain:
            return self.basis[:, :0]
        image = self._image(weights) @ coordinates
        residual = image - self.basis @ (self.basis.T @ image)
        rounding = TRACE_ROUNDING * float(np.abs(weights) @ self.full_moments.traces)
        min_norm = max(RESIDUAL_TOL * float(np.linalg.norm(image)), rounding)
        if float(np.linalg.norm(residual)) > min_norm:
            return residual
        return residual[:, :0]

    def prove_missing_sums(
        self, mixtures: list[FloatArray], n_components: int, goal: float
    ) -> dict[bytes, float]:
        """Proven bounds on t_d(M) - t_d(H) for all mixtures, keyed by the bytes of their weights.

        One joint factorization on the complement of W; if it fails, or leaves more than the goal
        for a mixture, a separate one on the complement of that mixture's Ritz vectors.
        """
        d = n_components
        projected = [self.project_mixture(weights) for weights in mixtures]
        targets = [mixture.complement_bound_target(d, goal) for mixture in projected]
        # Each mixture divided by its target: complement eigenvalues of at most one are wanted.
        scaled_weights = np.maximum(mixtures, 0.0) / np.array(targets)[:, None]
        joint_bounds = self._bound_complement_jointly(scaled_weights)
        missing_sums: dict[bytes, float] = {}
        for mixture, target, joint_bound in zip(projected, targets, joint_bounds, strict=True):
            excess = mixture.top_sum_excess(d, float(joint_bound) * target)
            if excess > goal:
                excess = min(excess, self._prove_separately(mixture, d, target))
            missing_sums[mixture.weights.tobytes()] = excess
        return missing_sums

    def _bound_complement_jointly(self, mixtures: FloatArray) -> FloatArray:
        """Bound the eigenvalues of (n, k) mixtures on the complement of W by one factorization.

        Returns
        -------
        (n,) array
            Just above one, or infinite for mixtures that had to be left out.
        """
        second_moments = self.full_moments
        assert isinstance(second_moments, DenseSecondMoments)
        bounds = np.full(len(mixtures), np.inf)
        largest_first = np.argsort(-mixtures.max(axis=1))
        # The mixtures with the largest weights are left out until a factorization succeeds: none,
        # 1, 3, 7, ...
        n_left_out = 0
        while n_left_out < len(mixtures) and not np.isfinite(bounds).any():
            joint = largest_first[n_left_out:]
            envelope = mixtures[joint].max(axis=0)
            image = np.tensordot(envelope, self.images, axes=1)
            matrix = second_moments.mixture(envelope)
            size = second_moments.norm_bound(envelope)
            bounds[joint] = complement_eigenvalue_bound(matrix, self.basis, image, 1.0, size)
            n_left_out = 2 * n_left_out + 1
        return bounds

    def _prove_separately(
        self, mixture: ProjectedMixture, n_components: int, target: float
    ) -> float:
        """Proven bound on t_d(M) - t_d(H) of one mixture, with its own factorization."""
        second_moments = self.full_moments
        assert isinstance(second_moments, DenseSecondMoments)
        weights = mixture.weights
        ritz_coordinates = mixture.leading.vectors
        matrix = second_moments.mixture(weights)
        size = second_moments.norm_bound(weights)
        basis = self.basis @ ritz_coordinates
        image = self._image(weights) @ ritz_coordinates
        separate_bound = complement_eigenvalue_bound(matrix, basis, image, target, size)
        return mixture.restrict_to_leading().top_sum_excess(n_components, separate_bound)
