"""A subspace of the features with what the second moments do to it, to solve small problems in."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fairspan.linalg import IterativeSubspace, orthonormal_beside
from fairspan.moments.operators import DenseSecondMoments, SecondMoments

FloatArray = npt.NDArray[np.float64]


class SoughtMoments(SecondMoments, Protocol):
    """Second moments whose leading eigenvectors are found by iteration."""

    def sought(
        self, weights: FloatArray, n_components: int, *, start: FloatArray | None = None
    ) -> IterativeSubspace:
        """Leading eigenvectors of a mixture, and how far their eigenvalue sum may be off."""


class Ritz(NamedTuple):
    """Approximate eigenvectors of a mixture.

    Attributes
    ----------
    values : (m,) array
        All Ritz values, largest first.
    vectors, residuals : (p, d) arrays
        Of the d leading ones: V, and MV - V diag(values).
    """

    values: FloatArray
    vectors: FloatArray
    residuals: FloatArray


@dataclass(frozen=True, eq=False)
class GrownSpace:
    """A subspace W with the images S_gW.

    Attributes
    ----------
    full : SoughtMoments
    basis : (p, m) array
    images : (k, p, m) array
    """

    full: SoughtMoments
    basis: FloatArray
    images: FloatArray

    @classmethod
    def of(cls, full: SoughtMoments, columns: FloatArray) -> "GrownSpace":
        """The span of (p, m) columns."""
        basis = orthonormal_beside(np.empty((full.n_features, 0)), columns)
        return cls(full, basis, full.applied(basis))

    @property
    def second_moments(self) -> DenseSecondMoments:
        """W'S_gW, and what lies outside of W."""
        products = self.basis.T @ self.images
        compressed = (products + products.transpose(0, 2, 1)) / 2
        return DenseSecondMoments(compressed, self.full.residual_variances(self.basis))

    def with_columns(self, columns: FloatArray) -> "GrownSpace":
        """The space with the span of (p, r) columns too; the same object if they add nothing."""
        if columns.shape[1] == 0 or self.basis.shape[1] == self.basis.shape[0]:
            return self
        fresh = orthonormal_beside(self.basis, columns)
        fresh = fresh[:, : self.basis.shape[0] - self.basis.shape[1]]
        if fresh.shape[1] == 0:
            return self
        images = np.concatenate([self.images, self.full.applied(fresh)], axis=2)
        return GrownSpace(self.full, np.hstack([self.basis, fresh]), images)

    def ritz(self, weights: FloatArray, n_components: int) -> Ritz:
        """What the space knows of the eigenvectors of sum_g weights_g S_g."""
        image = np.tensordot(weights, self.images, axes=1)
        products = self.basis.T @ image
        values, turn = np.linalg.eigh((products + products.T) / 2)
        values, turn = values[::-1], turn[:, ::-1][:, :n_components]
        vectors = self.basis @ turn
        return Ritz(values, vectors, image @ turn - vectors * values[:n_components])
