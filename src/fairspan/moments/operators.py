"""What solvers may ask of second moments, and its dense implementation.

Solvers never see a p x p matrix: only traces, variances captured by a subspace, leading
eigenvectors of a mixture, and small compressions. Other implementations can then avoid the matrix.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fairspan.linalg import LeadingSubspace, leading_subspace
from fairspan.soft_projection import softened

FloatArray = npt.NDArray[np.float64]

# Below this share of the total, a difference of two traces has lost more than four digits.
CANCELLING = 1e-4


class SecondMoments(Protocol):
    """Second moments S_1 .. S_k of k groups in p features."""

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

    def compressed(self, basis: FloatArray) -> FloatArray:
        """V'S_gV of every group, shape (k, d, d)."""

    def applied(self, basis: FloatArray) -> FloatArray:
        """S_gV of every group, shape (k, p, d)."""

    def leading(
        self, weights: FloatArray, n_components: int, tie_tolerance: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of sum_g weights_g S_g, with ties within the tolerance."""


@dataclass(frozen=True, eq=False)
class DenseSecondMoments:
    """Second moments held as a (k, p, p) array.

    Parameters
    ----------
    matrices : (k, p, p) array
        Symmetric.
    outside : (k,) array, optional
        Variance of each group that no basis reaches, since the directions are restricted.
    """

    matrices: FloatArray
    outside: FloatArray = field(default_factory=lambda: np.zeros(()))

    def __post_init__(self) -> None:
        if not self.outside.shape:
            object.__setattr__(self, "outside", np.zeros(len(self.matrices)))

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
        return np.asarray(np.einsum("gii->g", self.matrices)) + self.outside

    def captured_variances(self, basis: FloatArray) -> FloatArray:
        """c_g(V) = tr(V'S_gV), shape (k,)."""
        return np.array([np.vdot(basis, matrix @ basis) for matrix in self.matrices])

    def residual_variances(self, basis: FloatArray) -> FloatArray:
        """tr S_g - c_g(V) of each group, accurate however little is lost, shape (k,).

        Where nearly everything is captured, the difference would be nothing but rounding: a column
        of currency beside columns of rates can hold all but 1e-16 of the variance. The trace of
        (I - VV') S (I - VV') has no such cancellation, at the cost of a matrix product. A basis of
        a soft projection, orthogonal columns of length up to one, is taken too.
        """
        losses = self.traces - self.captured_variances(basis)
        small = losses <= CANCELLING * self.traces
        if small.any():
            soft = softened(basis)
            outside = np.eye(self.n_features) - soft @ soft.T
            for group in np.flatnonzero(small):
                inside = np.vdot(outside, self.matrices[group] @ outside)
                losses[group] = inside + self.outside[group]
        return np.maximum(losses, 0.0)

    def compressed(self, basis: FloatArray) -> FloatArray:
        """V'S_gV of every group, shape (k, d, d)."""
        return np.array([basis.T @ (matrix @ basis) for matrix in self.matrices])

    def applied(self, basis: FloatArray) -> FloatArray:
        """S_gV of every group, shape (k, p, d)."""
        return np.asarray(self.matrices @ basis)

    def within(self, directions: FloatArray) -> "DenseSecondMoments":
        """The second moments Q'S_gQ in the coordinates of orthonormal (p, m) directions Q.

        What lies outside of them is remembered, so that errors stay those of the whole rows.
        """
        rest = np.eye(self.n_features) - directions @ directions.T
        lost = [np.vdot(rest, matrix @ rest) for matrix in self.matrices]
        return DenseSecondMoments(self.compressed(directions), self.outside + np.array(lost))

    def leading(
        self, weights: FloatArray, n_components: int, tie_tolerance: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of sum_g weights_g S_g."""
        mixture = np.tensordot(weights, self.matrices, axes=1)
        return leading_subspace(mixture, n_components, tie_tolerance)
