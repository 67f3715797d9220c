"""Warm starts: solutions of nearby problems, from which a search starts."""

from dataclasses import dataclass

import numpy as np

from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Solution of a nearby problem, from which a search starts.

    It saves iterations and proves nothing: the result of the search is proven like any other.

    Attributes
    ----------
    weights : (k,) array
        Dual weights of the nearby solution.
    basis : (p, d) array or None
        Orthonormal basis in the coordinates of the new problem; None if only the weights apply.
    directions : tuple of k (p, m) arrays
        Directions near the leading eigenvectors of each group in the new problem, at least d; empty
        if they are not known.
    """

    weights: FloatArray
    basis: FloatArray | None = None
    directions: tuple[FloatArray, ...] = ()

    def within(self, axes: FloatArray) -> "WarmStart":
        """Return the warm start in the coordinates along orthonormal (p, m) axes.

        Directions are left out, which problems in few coordinates do not need.
        """
        if self.basis is None:
            return WarmStart(self.weights)
        return WarmStart(self.weights, np.linalg.qr(axes.T @ self.basis)[0])

    def basis_of(self, n_components: int) -> FloatArray | None:
        """Return the basis if it has this number of components."""
        if self.basis is None or self.basis.shape[1] != n_components:
            return None
        return self.basis
