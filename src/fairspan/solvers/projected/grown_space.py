"""A subspace of the features with what the second moments do to it, to solve small problems in."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from fairspan.linalg import (
    IterativeSubspace,
    LeadingSubspace,
    leading_subspace,
    orthonormal_beside,
    top_sum_bound,
)
from fairspan.moments.operators import CANCELLING, DenseSecondMoments, SecondMoments
from fairspan.typing import FloatArray

# Up to so many groups, products of all pairs' residuals serve any number of mixtures.
_FEW_GROUPS = 3
# What float64 can resolve, as a share of the trace.
ROUNDING = 1e-13
# Directions in which a solution is pulled out of W, as a share of the pull.
_DIRECTION = 1e-9


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
    leading : LeadingSubspace
        Some leading eigenvectors of H, d or more.
    """

    compressed: FloatArray
    residual_gram: FloatArray
    n_beside: int
    leading: LeadingSubspace

    def top_sum(self, n_components: int) -> float:
        """t_d(H)."""
        return float(self.leading.eigenvalues[:n_components].sum())

    def residual(self, n: int) -> float:
        """Sum of the squared residuals of the n leading Ritz vectors."""
        vectors = self.leading.vectors[:, :n]
        return max(float(np.vdot(vectors, self.residual_gram @ vectors)), 0.0)

    def excess(self, n_components: int, ceiling: float) -> float:
        """By how much t_d(M) may exceed t_d(H), if `ceiling` bounds M beside W."""
        if self.n_beside == 0:
            return 0.0
        bound = top_sum_bound(
            self.compressed, self.residual_gram, n_components, ceiling, self.n_beside
        )
        return max(bound - self.top_sum(n_components), 0.0)

    def excess_beside_leading(self, n_components: int, ceiling: float) -> float:
        """The same if `ceiling` bounds M beside the leading Ritz vectors alone."""
        values, turn = self.leading.eigenvalues, self.leading.vectors
        gram = turn.T @ self.residual_gram @ turn
        n_beside = self.n_beside + len(self.compressed) - len(values)
        bound = top_sum_bound(np.diag(values), gram, n_components, ceiling, n_beside)
        return max(bound - self.top_sum(n_components), 0.0)


@dataclass(frozen=True, eq=False)
class GrownSpace:
    """A subspace W with the images S_gW.

    Attributes
    ----------
    full : SoughtMoments
    n_held : int
        How many leading eigenvectors of a mixture W is to hold, d or more.
    basis : (p, m) array
    images : (k, p, m) array
    compressed : (k, m, m) array
        W'S_gW.
    """

    full: SoughtMoments
    n_held: int
    basis: FloatArray
    images: FloatArray
    compressed: FloatArray
    _mixtures: dict[bytes, MixtureWithin] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, full: SoughtMoments, n_held: int, basis: FloatArray) -> "GrownSpace":
        """The span of (p, m) orthonormal columns."""
        images = full.applied(basis)
        return cls(full, n_held, basis, images, _symmetric(basis.T @ images))

    @cached_property
    def second_moments(self) -> DenseSecondMoments:
        """W'S_gW, and what lies outside of W."""
        outside = self.full.traces - np.einsum("gii->g", self.compressed)
        # The difference is good enough unless nearly everything lies within.
        if (outside <= CANCELLING * self.full.traces).any():
            outside = self.full.residual_variances(self.basis)
        return DenseSecondMoments(self.compressed, outside)

    def with_columns(self, columns: FloatArray) -> "GrownSpace":
        """The space with the span of (p, r) columns too; the same object if they add nothing."""
        room = self.basis.shape[0] - self.basis.shape[1]
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
            self.n_held,
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
            compressed = np.tensordot(weights, self.compressed, axes=1)
            if len(self.compressed) <= _FEW_GROUPS:
                products = np.tensordot(weights, self._residual_products, axes=1)
                gram = np.tensordot(weights, products, axes=1)
            else:
                residual = self.image(weights) - self.basis @ compressed
                gram = residual.T @ residual
            p, m = self.basis.shape
            leading = leading_subspace(compressed, min(self.n_held, m))
            self._mixtures[key] = MixtureWithin(compressed, gram, p - m, leading)
        return self._mixtures[key]

    @cached_property
    def _residual_products(self) -> FloatArray:
        """G_g'G_h of the groups' residuals G_g = S_gW - WW'S_gW, shape (k, k, m, m)."""
        residuals = self.images - self.basis @ self.compressed
        return np.array([[left.T @ right for right in residuals] for left in residuals])

    def ritz_vectors(self, weights: FloatArray) -> FloatArray:
        """What the space knows of the leading eigenvectors of a mixture, shape (p, n_held)."""
        return np.asarray(self.basis @ self.mixture(weights).leading.vectors)

    def pull(self, weights: FloatArray, basis: FloatArray) -> FloatArray:
        """Directions outside of W in which a mixture pulls a basis within, in (m, d) coordinates.

        A solution with an open gap need not be made of leading eigenvectors.
        """
        image = self.image(weights) @ basis
        outside = image - self.basis @ (self.basis.T @ image)
        size = float(np.abs(weights) @ self.full.traces)
        least = max(_DIRECTION * float(np.linalg.norm(image, 2)), ROUNDING * size)
        return outside if float(np.linalg.norm(outside)) > least else outside[:, :0]


def _symmetric(products: FloatArray) -> FloatArray:
    return np.asarray((products + products.transpose(0, 2, 1)) / 2)
