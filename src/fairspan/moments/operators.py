"""What solvers may ask of second moments, and its dense implementation.

Solvers never see a p x p matrix: only traces, variances captured by a subspace, leading
eigenvectors of a mixture, and small compressions. Other implementations can then avoid the matrix.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fairspan.linalg import LeadingSubspace, leading_subspace

FloatArray = npt.NDArray[np.float64]


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

    def compressed(self, basis: FloatArray) -> FloatArray:
        """V'S_gV of every group, shape (k, d, d)."""

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
    """

    matrices: FloatArray

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
        return np.asarray(np.einsum("gii->g", self.matrices))

    def captured_variances(self, basis: FloatArray) -> FloatArray:
        """c_g(V) = tr(V'S_gV), shape (k,)."""
        return np.array([np.vdot(basis, matrix @ basis) for matrix in self.matrices])

    def compressed(self, basis: FloatArray) -> FloatArray:
        """V'S_gV of every group, shape (k, d, d)."""
        return np.array([basis.T @ (matrix @ basis) for matrix in self.matrices])

    def leading(
        self, weights: FloatArray, n_components: int, tie_tolerance: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of sum_g weights_g S_g."""
        mixture = np.tensordot(weights, self.matrices, axes=1)
        return leading_subspace(mixture, n_components, tie_tolerance)
