"""Second moments that stay in sparse rows: applied through the rows, never a p x p matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from fairspan.linalg import GUARD, IterativeSubspace, LeadingSubspace, leading_subspace_of
from fairspan.moments.held_rows.sparse_group import SparseGroup
from fairspan.moments.operators import CANCELLING
from fairspan.rows.protocol import block_rows
from fairspan.soft_projection import softened
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class SparseSecondMoments:
    """Second moments of groups of sparse rows about a point, or about each group's own mean.

    Parameters
    ----------
    parts : sequence of SparseGroup
    variances : (k, p) array
        Of each (scaled) feature in each group, about the group's own mean.
    offsets : (k, p) array
        Means of the (scaled) groups minus the point; zero about each group's own mean.
    scale : (p,) array or None
        What the rows are divided by.
    """

    parts: Sequence[SparseGroup]
    variances: FloatArray
    offsets: FloatArray
    scale: FloatArray | None = None
    has_matrices: ClassVar[bool] = False

    @property
    def n_groups(self) -> int:
        """k."""
        return len(self.parts)

    @property
    def n_features(self) -> int:
        """p."""
        return int(self.offsets.shape[1])

    @cached_property
    def traces(self) -> FloatArray:
        """tr S_g of each group, shape (k,)."""
        return np.asarray((self.variances + self.offsets**2).sum(axis=1))

    def captured_variances(self, basis: FloatArray) -> FloatArray:
        """c_g(V) = tr(V'S_gV), shape (k,)."""
        scaled = self._scaled(basis)
        within = np.array([part.captured(scaled) for part in self.parts])
        return np.asarray(within + ((self.offsets @ basis) ** 2).sum(axis=1))

    def residual_variances(self, basis: FloatArray) -> FloatArray:
        """tr S_g - c_g(V) of each group, accurate however little is lost, shape (k,).

        Where nearly everything is captured, the difference would be nothing but rounding; the
        residual of each row has no such cancellation.
        """
        losses = self.traces - self.captured_variances(basis)
        soft = softened(basis)
        for group in np.flatnonzero(losses <= CANCELLING * self.traces):
            losses[group] = self._mean_residual(int(group), soft)
        return np.maximum(losses, 0.0)

    def compressed(self, basis: FloatArray) -> FloatArray:
        """V'S_gV of every group, shape (k, d, d)."""
        products = basis.T @ self.applied(basis)
        return np.asarray((products + products.transpose(0, 2, 1)) / 2)

    def applied(self, basis: FloatArray) -> FloatArray:
        """S_gV of every group, shape (k, p, d)."""
        return np.array([self._image(group, basis) for group in range(self.n_groups)])

    def leading(
        self, weights: FloatArray, n_components: int, tie_tolerance: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of sum_g weights_g S_g, as far as an iteration can tell."""
        return self.sought(weights, n_components, tie_tolerance=tie_tolerance).leading

    def sought(
        self,
        weights: FloatArray,
        n_components: int,
        *,
        start: FloatArray | None = None,
        tie_tolerance: float = 0.0,
        sum_goal: float | None = None,
        n_vectors: int | None = None,
    ) -> IterativeSubspace:
        """The same, with how far the eigenvalue sum may be off.

        Parameters
        ----------
        weights : (k,) array
            Of either sign.
        n_components : int
        start : (p, m) array, optional
            Directions near the eigenvectors.
        tie_tolerance : float
        sum_goal : float, optional
            Enough, as an uncertainty of the eigenvalue sum.
        n_vectors : int, optional
            How many are wanted; some more than d if left out.
        """
        return leading_subspace_of(
            lambda block: self._mixed(weights, block),
            self.n_features,
            n_components,
            float(np.abs(weights) @ self.traces),
            start=start,
            tie_tolerance=tie_tolerance,
            sum_goal=sum_goal,
            n_vectors=n_vectors,
        )

    def n_held(self, n_components: int) -> int:
        """How many leading vectors are found with d of them."""
        return min(n_components + GUARD, self.n_features)

    def _mixed(self, weights: FloatArray, block: FloatArray) -> FloatArray:
        """sum_g weights_g S_g times a block."""
        image = np.zeros_like(block)
        for group in np.flatnonzero(weights):
            image += weights[group] * self._image(int(group), block)
        return image

    def _image(self, group: int, basis: FloatArray) -> FloatArray:
        offset = self.offsets[group]
        within = self._scaled(self.parts[group].applied(self._scaled(basis)))
        return within + np.outer(offset, offset @ basis)

    def _scaled(self, block: FloatArray) -> FloatArray:
        return block if self.scale is None else block / self.scale[:, None]

    def _mean_residual(self, group: int, soft: FloatArray) -> float:
        part, scale = self.parts[group], self.scale
        offset = self.offsets[group] * (1.0 if scale is None else scale)
        total = 0.0
        for rows, weights in part.deviations(part.mean - offset, block_rows(self.n_features)):
            scaled = rows if scale is None else rows / scale
            residuals = scaled - (scaled @ soft) @ soft.T
            total += float(weights @ np.einsum("ij,ij->i", residuals, residuals))
        return total / part.weight
