"""Two groups: where a supporting line touches the boundary of their trade-off.

Let W be the set of (c_1(V), c_2(V)) over all orthonormal (p, d) bases V. A mixture M = w_1 S_1 +
w_2 S_2 gives the line w.c = t_d(M), which W touches. Without a tie at eigenvalue d it does so at
one point. With a tie it touches along an edge: V keeps the eigenvectors above the tie and picks j
columns inside the tied eigenspace E. Turning one such pick into another moves the point along the
edge without leaving it, so every point of the edge belongs to a basis of rank exactly d. The
position along the edge is chosen in closed form where the tie is exact; where rounding hides it, a
root on the path between the subspaces of two neighbouring supporting lines takes its place.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from fairspan.linalg import LeadingSubspace, eigh
from fairspan.moments.operators import SecondMoments
from fairspan.typing import FloatArray

_MOST_STEPS = 80
# Shares of a path nearer to each other than this are one.
_LEAST_SHARE = 1e-17


@dataclass(frozen=True, eq=False)
class Face:
    """All leading subspaces of one mixture, ordered along a direction h.

    Attributes
    ----------
    weights : (2,) array
        w, the normal of the supporting line.
    leading : LeadingSubspace
        Of the mixture with these weights.
    low, high : float
        The least and largest h.c(V) over these subspaces, apart from what all of them share; equal
        without a tie.
    axes : (p, m) array
        Basis of the tied eigenspace that diagonalises h_1 S_1 + h_2 S_2, largest first.
    positions : (m,) array
        The diagonal: what each axis contributes to h.c.
    """

    weights: FloatArray
    leading: LeadingSubspace
    low: float
    high: float
    axes: FloatArray
    positions: FloatArray

    @classmethod
    def of(
        cls,
        second_moments: SecondMoments,
        weights: FloatArray,
        leading: LeadingSubspace,
        direction: FloatArray,
    ) -> "Face":
        """Order the leading subspaces of a mixture along h.

        Parameters
        ----------
        direction : (2,) array
            h, not parallel to the weights: along a parallel one the edge does not move.
        """
        if not leading.is_tied:
            return cls(weights, leading, 0.0, 0.0, leading.tied, np.empty(0))
        compressed = np.tensordot(direction, second_moments.compressed(leading.tied), axes=1)
        positions, turn = eigh(compressed)
        positions, axes = positions[::-1], leading.tied @ turn[:, ::-1]
        n_free = leading.vectors.shape[1] - leading.n_fixed
        low = float(positions[len(positions) - n_free :].sum())
        high = float(positions[:n_free].sum())
        return cls(weights, leading, low, high, axes, positions)

    def basis_at(self, target: float) -> FloatArray:
        """The (p, d) basis whose position is `target`, which lies between low and high.

        Starts from the j largest axes and swaps them, one pair after the other, for the smallest;
        turning a pair by the angle theta moves h.c from g_hi to g_lo along
        cos^2(theta) g_hi + sin^2(theta) g_lo.
        """
        if not self.leading.is_tied:
            return self.leading.vectors
        n_fixed, n_axes = self.leading.n_fixed, len(self.positions)
        n_free = self.leading.vectors.shape[1] - n_fixed
        free = self.axes[:, :n_free].copy()
        excess = self.high - target
        for upper in range(min(n_free, n_axes - n_free)):
            if excess <= 0:
                break
            lower = n_axes - 1 - upper
            drop = self.positions[upper] - self.positions[lower]
            share = min(excess / drop, 1.0) if drop > 0 else 1.0
            free[:, upper] = (
                np.sqrt(1 - share) * self.axes[:, upper] + np.sqrt(share) * self.axes[:, lower]
            )
            excess -= drop
        return np.hstack([self.leading.vectors[:, :n_fixed], free])


class PathBetween:
    """The shortest path from one subspace to another: every quantity in between is met on the way.

    Let V and W be orthonormal bases whose principal angles are theta_j (Bjoerck and Golub 1973).
    With A the principal vectors of V and H the directions in which those of W lie, A cos(s theta) +
    H sin(s theta) leads from V (s = 0) to W (s = 1). Where both are optimal for the same mixture,
    the whole path lies in its tied eigenspace and is optimal as well.

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
        self.angles = np.arctan2(sines, cosines)
        self._beside = beside / np.where(sines > 0, sines, 1.0)

    def at(self, share: float) -> FloatArray:
        """The (p, d) basis at a share of the way."""
        turned = share * self.angles
        return np.asarray(self._from * np.cos(turned) + self._beside * np.sin(turned))

    def where_zero(self, function: Callable[[FloatArray], float], enough: float) -> FloatArray:
        """A basis at which a function is zero that has different signs at the ends.

        Absolute values up to `enough` are taken as zero.
        """
        ends = {end: function(self.at(end)) for end in (0.0, 1.0)}

        def value_at(share: float) -> float:
            value = ends[share] if share in ends else function(self.at(share))
            return 0.0 if abs(value) <= enough else value

        if (ends[0.0] > 0) == (ends[1.0] > 0):  # rounding may turn the sign at an end
            share = min(ends, key=lambda end: abs(ends[end]))
        else:
            share = scipy.optimize.brentq(
                value_at, 0.0, 1.0, xtol=_LEAST_SHARE, maxiter=_MOST_STEPS, disp=False
            )
        return np.asarray(np.linalg.qr(self.at(share))[0])
