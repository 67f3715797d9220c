"""The subspaces that reach a supporting line of the groups' trade-off: a point, or a flat edge.

Let W be the set of (c_1(V), c_2(V)) over all orthonormal (p, d) bases V. A mixture
M = w_1 S_1 + w_2 S_2 gives the line w.c = t_d(M), which W touches. Without a tie at eigenvalue d it
does so at one point. With a tie it touches along an edge: V keeps the eigenvectors above the tie
and picks j columns inside the tied eigenspace E. Turning one such pick into another moves the point
along the edge without leaving it, so every point of the edge belongs to a basis of rank exactly d.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairspan.linalg import LeadingSubspace
from fairspan.moments.operators import SecondMoments

FloatArray = npt.NDArray[np.float64]


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
        positions, turn = np.linalg.eigh(compressed)
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
