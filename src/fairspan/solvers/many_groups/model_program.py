"""The largest value of a model of the dual, over a working set of multipliers where there are many.

Maximise s.m - |F'(m - c)|^2 / 2 - damping |m - c|^2 / 2 - t_j(sum_i m_i C_i) over one simplex for
each block of m, t_j the sum of the j largest eigenvalues. Of hundreds of pieces few have a
multiplier at the optimum, and the time of an interior point grows with the cube of their number. So
the program is solved for those that look promising; then those that would gain more than the level
of their block join, until there are none, which is what proves it for all.
"""

from dataclasses import dataclass

import numpy as np

from fairspan.linalg import eigh, eigvalsh
from fairspan.problem.pieces import Blocks, IntArray
from fairspan.solvers.many_groups.simplex_program import least_on_simplex
from fairspan.solvers.many_groups.spectral_program import SpectralProgram
from fairspan.typing import FloatArray

# Up to so many pieces all are taken at once.
_ALL = 64
# Of each block, so many join at a time.
_JOIN = 24
# A gain of this share of the largest is rounding.
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class ModelProgram:
    """What is maximised.

    Attributes
    ----------
    slopes : (m,) array
        s.
    factor : (m, s) array
        F.
    damping : float
    center : (m,) array
        c, on a simplex for each block.
    matrices : (m, r, r) array
        C, symmetric; r = 0 where there is none.
    rank : int
        j, from 1 to r - 1; 0 for r = 0.
    blocks : Blocks
    """

    slopes: FloatArray
    factor: FloatArray
    damping: float
    center: FloatArray
    matrices: FloatArray
    rank: int
    blocks: Blocks

    def value(self, multipliers: FloatArray) -> float:
        """What is maximised, at some multipliers."""
        step = multipliers - self.center
        along = step @ self.factor
        bent = float(along @ along) + self.damping * float(step @ step)
        mixed = np.tensordot(multipliers, self.matrices, axes=1)
        top = float(eigvalsh(mixed)[::-1][: self.rank].sum())
        return float(multipliers @ self.slopes) - bent / 2 - top

    def gains(self, multipliers: FloatArray, shares: FloatArray) -> FloatArray:
        """What each multiplier would gain, at the shares of the other player, shape (m,)."""
        held = self.matrices.reshape(len(self.slopes), -1) @ shares.ravel()
        return np.asarray(self.slopes - self._bend(multipliers - self.center) - held)

    def solve(self, tolerance: float) -> tuple[FloatArray, FloatArray]:
        """Both players' best: multipliers, shape (m,), and shares, shape (r, r).

        Parameters
        ----------
        tolerance : float
            How much either player may still gain, in the units of the slopes.
        """
        if not self.rank:
            linear = -self.slopes - self._bend(self.center)
            best = least_on_simplex(self.factor, linear, self.blocks, added=self.damping)
            return best, np.zeros((0, 0))
        n = len(self.slopes)
        if n <= _ALL:
            return self._among(np.arange(n)).solve(tolerance)
        which, multipliers = self.blocks.of(n), np.zeros(n)
        chosen = self._promising()
        while True:
            found, shares = self._among(chosen).solve(tolerance)
            multipliers[chosen] = found
            gains = self.gains(multipliers, shares)
            more = gains - self.blocks.sums(multipliers * gains)[which]
            more[chosen] = 0.0
            least = max(tolerance, _ROUNDING * float(np.abs(gains).max()))
            joining = self._first_of_blocks(np.where(more > least, more, 0.0))
            if not len(joining):
                return multipliers, shares
            chosen = np.union1d(chosen, joining)

    def _bend(self, step: FloatArray) -> FloatArray:
        return np.asarray(self.factor @ (step @ self.factor) + self.damping * step)

    def _promising(self) -> IntArray:
        """Those with the largest multipliers at the center, and with the most to gain there."""
        values, vectors = eigh(np.tensordot(self.center, self.matrices, axes=1))
        leading = vectors[:, len(values) - self.rank :]
        gains = self.gains(self.center, leading @ leading.T)
        gains = gains - gains.min() + 1.0
        return np.union1d(self._first_of_blocks(self.center), self._first_of_blocks(gains))

    def _first_of_blocks(self, values: FloatArray) -> IntArray:
        """Indices of the largest positive values of each block, some of them."""
        which = self.blocks.of(len(values))
        order = np.lexsort((-values, which))
        places = np.arange(len(values)) - np.array(self.blocks.starts)[which]
        first = order[places < _JOIN]
        return np.sort(first[values[first] > 0])

    def _among(self, chosen: IntArray) -> SpectralProgram:
        """The program with the multipliers of all others zero.

        Its center is what the chosen ones have of c; the rest of c shifts the slopes.
        """
        blocks, factor = self.blocks.among(chosen), self.factor[chosen]
        center, rest = blocks.normalised(self.center[chosen]), self.center.copy()
        rest[chosen] -= center
        return SpectralProgram(
            self.slopes[chosen] + self._bend(rest)[chosen],
            factor @ factor.T + self.damping * np.eye(len(chosen)),
            center,
            self.matrices[chosen],
            self.rank,
            blocks,
        )
