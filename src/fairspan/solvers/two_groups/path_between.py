"""A path of subspaces between two: every quantity in between is met on the way.

Let V and W be orthonormal bases whose principal angles are theta_j (Bjoerck and Golub 1973). With A
the principal vectors of V and H the directions in which those of W lie, A cos(s theta) +
H sin(s theta) leads from V (s = 0) to W (s = 1). Where both are optimal for the same mixture, the
whole path lies in its tied eigenspace and is optimal as well: along a flat edge of the trade-off
the path meets every point of the edge, in exactly d dimensions.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_MOST_STEPS = 80


class PathBetween:
    """The shortest path from one subspace to another.

    Parameters
    ----------
    start, end : (p, d) arrays
        Orthonormal columns.
    """

    def __init__(self, start: FloatArray, end: FloatArray) -> None:
        left, cosines, right = np.linalg.svd(start.T @ end)
        self._from = start @ left
        towards = end @ right.T
        beside = towards - self._from * cosines
        # Twice, so that what is left of a small angle is orthogonal to all of the start.
        beside -= start @ (start.T @ beside)
        sines = np.linalg.norm(beside, axis=0)
        self.angles = np.arctan2(sines, np.clip(cosines, -1.0, 1.0))
        self._beside = beside / np.where(sines > 0, sines, 1.0)

    def at(self, share: float) -> FloatArray:
        """The (p, d) basis at a share of the way."""
        turned = share * self.angles
        return np.asarray(self._from * np.cos(turned) + self._beside * np.sin(turned))

    def where_zero(self, function: Callable[[FloatArray], float], enough: float) -> FloatArray:
        """A basis at which a function is zero that has different signs at the ends.

        Absolute values up to `enough` are taken as zero.
        """
        low, high = 0.0, 1.0
        above, below = function(self.at(low)), function(self.at(high))
        for step in range(_MOST_STEPS):
            # By the chord; every third time by halves, so that an end does not stay for long.
            chord = above - below if step % 3 < 2 else 0.0
            share = low + (high - low) * above / chord if chord else np.nan
            if not low < share < high:
                share = (low + high) / 2
            value = function(self.at(share))
            if abs(value) <= enough or not low < share < high:
                break
            if (value > 0) == (above > 0):
                low, above = share, value
            else:
                high, below = share, value
        return np.asarray(np.linalg.qr(self.at(share))[0])
