"""A subspace of the features with what the second moments do to it, to solve small problems in."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from fairspan.linalg import (
    IterativeSubspace,
    frobenius_ceiling,
    leading_subspace,
    orthonormal_beside,
    top_sum_bound,
)
from fairspan.moments.operators import CANCELLING, DenseSecondMoments, SecondMoments
from fairspan.typing import FloatArray

# Up to so many groups, products of all pairs' residuals serve any number of mixtures.
_FEW_GROUPS = 3


class SoughtMoments(SecondMoments, Protocol):
    """Second moments whose leading eigenvectors are found by iteration."""

    def sought(
        self,
        weights: FloatArray,
        n_components: int,
        *,
        start: FloatArray | None = None,
        sum_goal: float | None = None,
        n_vectors: int | None = None,
    ) -> IterativeSubspace:
        """Leading eigenvectors of a mixture, and how far their eigenvalue sum may be off."""

    def n_held(self, n_components: int) -> int:
        """How many leading vectors are found with d of them."""


@dataclass(frozen=True, eq=False)
class MixtureWithin:
    """A mixture M of the second moments as a subspace W sees it.

    Attributes
    ----------
    compressed : (m, m) array
        H = W'MW.
    residual_gram : (m, m) array
        G'G, G = MW - WH.
    n_beside : int
        p - m.
    """

    compressed: FloatArray
    residual_gram: FloatArray
    n_beside: int
    _found: tuple[FloatArray, FloatArray] | None = field(default=None, repr=False)

    def top_values(self, n: int) -> FloatArray:
        """The n largest eigenvalues of H, largest first."""
        return self._leading(n)[0]

    def top_vectors(self, n: int) -> FloatArray:
        """Their eigenvectors, shape (m, n)."""
        return self._leading(n)[1]

    def residual(self, n: int) -> float:
        """Sum of the squared residuals of the n leading Ritz vectors."""
        vectors = self.top_vectors(n)
        return max(float(np.vdot(vectors, self.residual_gram @ vectors)), 0.0)

    def _leading(self, n: int) -> tuple[FloatArray, FloatArray]:
        if self._found is None or len(self._found[0]) < n:
            found = leading_subspace(self.compressed, n)
            object.__setattr__(self, "_found", (found.eigenvalues, found.vectors))
        assert self._found is not None
        values, vectors = self._found
        return values[:n], vectors[:, :n]

    def excess(self, n_components: int, ceiling: float) -> float:
        """By how much t_d(M) may exceed that of H, if `ceiling` bounds M beside W."""
        if self.n_beside == 0:
            return 0.0
        bound = top_sum_bound(
            self.compressed, self.residual_gram, n_components, ceiling, self.n_beside
        )
        return max(bound - float(self.top_values(n_components).sum()), 0.0)

    def leading_part(self, n: int) -> "MixtureWithin":
        """The mixture as its n leading Ritz vectors see it."""
        turn = self.top_vectors(n)
        gram = turn.T @ self.residual_gram @ turn
        n_beside = self.n_beside + len(self.compressed) - n
        return MixtureWithin(np.diag(self.top_values(n)), gram, n_beside)

    def frobenius_ceiling(self, squared_norm: float, size: float) -> float:
        """Bound on the eigenvalues of M beside W from |M|_F^2; `size` is what may cancel in M."""
        return frobenius_ceiling(squared_norm, self.compressed, self.residual_gram, size)


@dataclass(frozen=True, eq=False)
class GrownSpace:
    """A subspace W with the images S_gW.

    Attributes
    ----------
    full : SoughtMoments
    basis : (p, m) array
    images : (k, p, m) array
    compressed : (k, m, m) array
        W'S_gW.
    """

    full: SoughtMoments
    basis: FloatArray
    images: FloatArray
    compressed: FloatArray
    _mixtures: dict[bytes, MixtureWithin] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, full: SoughtMoments, basis: FloatArray) -> "GrownSpace":
        """The span of (p, m) orthonormal columns."""
        images = full.applied(basis)
        return cls(full, basis, images, _symmetric(basis.T @ images))

    @property
    def n_dimensions(self) -> int:
        """m."""
        return int(self.basis.shape[1])

    @cached_property
    def second_moments(self) -> DenseSecondMoments:
        """W'S_gW, and what lies outside of W."""
        outside = self.full.traces - np.einsum("gii->g", self.compressed)
        # The difference is good enough unless nearly everything lies within.
        if (outside <= CANCELLING * self.full.traces).any():
            outside = self.full.residual_variances(self.basis)
        return DenseSecondMoments(self.compressed, outside)

    def first(self, n: int) -> "GrownSpace":
        """The span of its first n basis vectors."""
        return GrownSpace(
            self.full, self.basis[:, :n], self.images[:, :, :n], self.compressed[:, :n, :n]
        )

    def with_columns(self, columns: FloatArray) -> "GrownSpace":
        """The space with the span of (p, r) columns too; the same object if they add nothing."""
        room = self.basis.shape[0] - self.n_dimensions
        if columns.shape[1] == 0 or room == 0:
            return self
        fresh = orthonormal_beside(self.basis, columns)[:, :room]
        if fresh.shape[1] == 0:
            return self
        images = self.full.applied(fresh)
        across = self.basis.T @ images
        own = _symmetric(fresh.T @ images)
        rows = [np.concatenate([self.compressed, across], axis=2)]
        rows.append(np.concatenate([across.transpose(0, 2, 1), own], axis=2))
        return GrownSpace(
            self.full,
            np.hstack([self.basis, fresh]),
            np.concatenate([self.images, images], axis=2),
            np.concatenate(rows, axis=1),
        )

    def image(self, weights: FloatArray) -> FloatArray:
        """MW of the mixture sum_g weights_g S_g, shape (p, m)."""
        return np.tensordot(weights, self.images, axes=1)

    def mixture(self, weights: FloatArray) -> MixtureWithin:
        """The mixture sum_g weights_g S_g within; looked at once."""
        key = weights.tobytes()
        if key not in self._mixtures:
            self._mixtures[key] = self._mixture(weights)
        return self._mixtures[key]

    def _mixture(self, weights: FloatArray) -> MixtureWithin:
        compressed = np.tensordot(weights, self.compressed, axes=1)
        if self.images.shape[0] <= _FEW_GROUPS:
            products = np.tensordot(weights, self._residual_products, axes=1)
            gram = np.tensordot(weights, products, axes=1)
        else:
            residual = self.image(weights) - self.basis @ compressed
            gram = residual.T @ residual
        return MixtureWithin(compressed, gram, self.basis.shape[0] - self.n_dimensions)

    @cached_property
    def _residual_products(self) -> FloatArray:
        """G_g'G_h of the groups' residuals G_g = S_gW - WW'S_gW, shape (k, k, m, m)."""
        residuals = self.images - self.basis @ self.compressed
        return np.array([[left.T @ right for right in residuals] for left in residuals])

    def ritz_vectors(self, weights: FloatArray, n: int) -> FloatArray:
        """What the space knows of the n leading eigenvectors of a mixture, shape (p, n)."""
        return self.basis @ self.mixture(weights).top_vectors(n)


def _symmetric(products: FloatArray) -> FloatArray:
    return np.asarray((products + products.transpose(0, 2, 1)) / 2)
