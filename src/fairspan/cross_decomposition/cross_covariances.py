"""Cross-covariances of two tables by group, in the coordinates in which pairs are searched."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairspan.errors import IncompatibleParameters
from fairspan.linalg.rounding import ENTRY_TERMS, EPS
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class CrossCovariances:
    """Cross-covariance C_g = mean (x - c_x)(y - c_y)' of each group, shape (p, q).

    Attributes
    ----------
    matrices : (k, p, q) array
        C_g, divided by the group's weight.
    rounding : (k,) array
        Bound on the Frobenius norm of the rounding error of each C_g.
    proportions : (k,) array
        q_g, each group's share of the total weight.

    Examples
    --------
    >>> import numpy as np
    >>> diagonals = np.array([np.diag([3.0, 1.0]), np.diag([1.0, 2.0])])
    >>> covariances = CrossCovariances(diagonals, np.zeros(2), np.array([0.5, 0.5]))
    >>> covariances.best_covariances(1)
    array([3., 2.])
    """

    matrices: FloatArray
    rounding: FloatArray
    proportions: FloatArray

    @property
    def n_groups(self) -> int:
        """Number of groups, k."""
        return len(self.matrices)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of columns of the two tables, (p, q)."""
        _, p, q = self.matrices.shape
        return p, q

    @cached_property
    def singular_values(self) -> FloatArray:
        """Singular values of each C_g, largest first, shape (k, min(p, q))."""
        return np.asarray(np.linalg.svd(self.matrices, compute_uv=False), dtype=np.float64)

    @property
    def largest_singular_values(self) -> FloatArray:
        """Spectral norm of each C_g, shape (k,)."""
        return np.asarray(self.singular_values[:, 0])

    def best_covariances(self, n_components: int) -> FloatArray:
        """K_d(C_g), the sum of the d largest singular values of each group, shape (k,).

        No pair of d-dimensional subspaces keeps more covariance of the group (Fan 1951).
        """
        return np.asarray(self.singular_values[:, :n_components].sum(axis=1))

    def kept_covariances(self, U: FloatArray, V: FloatArray) -> FloatArray:
        """tr U'C_gV of each group, shape (k,), for (p, d) U and (q, d) V."""
        images = self.matrices @ V
        return np.asarray(np.einsum("ij,gij->g", U, images))

    def mixture(self, weights: FloatArray) -> FloatArray:
        """sum_g w_g C_g, shape (p, q)."""
        return np.asarray(np.tensordot(weights, self.matrices, axes=1))

    def kept_rounding(self, n_components: int) -> FloatArray:
        """Bound on the rounding error of what any pair keeps of each group, shape (k,).

        A perturbation E of C_g changes tr U'C_gV, and the sum of d singular values, by at most d
        times its spectral norm. The singular values and traces themselves are computed with errors
        of a few roundings for each column, relative to the spectral norm.
        """
        p, q = self.shape
        computation = EPS * (p + q + ENTRY_TERMS) * self.largest_singular_values
        return np.asarray(n_components * (self.rounding + computation))

    def along(self, x_axes: FloatArray, y_axes: FloatArray) -> "CrossCovariances":
        """Cross-covariances along orthonormal (p, a) and (q, b) axes of the two tables."""
        return CrossCovariances(x_axes.T @ self.matrices @ y_axes, self.rounding, self.proportions)

    def check_has_covariance(self) -> None:
        """Check that the columns of the two tables covary in some group.

        Raises
        ------
        IncompatibleParameters
        """
        if (self.largest_singular_values > self.rounding).any():
            return
        raise IncompatibleParameters(
            "The cross-covariance of X and Y is zero in every group, up to rounding",
            "Allowed: tables of which some columns covary",
            "Check that the rows of X and Y belong together",
        )


@dataclass(frozen=True, eq=False)
class SingularPairs:
    """Leading singular vectors of a mixture of cross-covariances.

    Attributes
    ----------
    U : (p, d) array
    V : (q, d) array
    sum : float
        Sum of their singular values: the most covariance that a pair keeps.
    """

    U: FloatArray
    V: FloatArray
    sum: float


def leading_pairs(matrix: FloatArray, n_components: int) -> SingularPairs:
    """Leading singular vectors of a (p, q) matrix, which maximize tr U'MV.

    Examples
    --------
    >>> import numpy as np
    >>> leading_pairs(np.diag([1.0, 3.0]), 1).sum
    3.0
    """
    U, values, Vt = np.linalg.svd(matrix, full_matrices=False)
    d = n_components
    return SingularPairs(U[:, :d], Vt[:d].T, float(values[:d].sum()))


def cross_rounding(x_spread: FloatArray, y_spread: FloatArray) -> FloatArray:
    """Bound on the Frobenius norm of the rounding errors of each group's cross-covariance, (k,).

    Entry (i, j) is a sum over the rows of products, rounded relative to the root mean squares of
    the two columns.

    Parameters
    ----------
    x_spread, y_spread : (k, p) and (k, q) arrays
        Root mean square of each column about the center, in each group.
    """
    norms = np.linalg.norm(x_spread, axis=1) * np.linalg.norm(y_spread, axis=1)
    return np.asarray(EPS * ENTRY_TERMS * norms)
