"""Programs over a simplex, or a product of several: quadratic ones, and the best of a dual's model.

The model of a dual is maximised over a working set of multipliers where there are many: maximise
s.m - |F'(m - c)|^2 / 2 - damping |m - c|^2 / 2 - t_j(sum_i m_i C_i) over one simplex for each block
of m, t_j the sum of the j largest eigenvalues. Of hundreds of pieces few have a multiplier at the
optimum, and the time of an interior point grows with the cube of their number. So the program is
solved for those that look promising; then those that would gain more than the level of their block
join, until there are none, which is what proves it for all.
"""

from dataclasses import dataclass

import numpy as np

from fairspan.linalg import eigh, eigvalsh
from fairspan.problem.pieces import ONE_BLOCK, Blocks, IntArray
from fairspan.solvers.many_groups.spectral_program import SpectralProgram
from fairspan.typing import FloatArray

# Slopes below this, in the scaled program, are rounding; as much is added to the diagonal. So are
# gains below this share of the largest.
_ROUNDING = 1e-13
# Less is nothing.
_LEAST = float(np.finfo(np.float64).tiny)


def least_on_simplex(
    factor: FloatArray,
    linear: FloatArray,
    blocks: Blocks = ONE_BLOCK,
    *,
    added: float = 0.0,
    start: FloatArray | None = None,
) -> FloatArray:
    """Minimise |F'x|^2 / 2 + added |x|^2 / 2 + b.x over x >= 0 with sum x = 1 in each block.

    By an active set method, which never forms FF': few entries are not zero, of many.

    Parameters
    ----------
    factor : (n, s) array
        F; a trace of identity is added to FF' where it is singular.
    linear : (n,) array
        b.
    blocks : Blocks
        Of x.
    added : float
        Not negative.
    start : (n,) array, optional
        On a simplex for each block, with few entries that are not zero.

    Returns
    -------
    (n,) array

    Examples
    --------
    >>> least_on_simplex(np.diag([1.0, 2.0]), np.zeros(2))
    array([0.8, 0.2])
    """
    n = len(linear)
    which, sums = blocks.of(n), blocks.membership(n)
    squares = np.einsum("is,is->i", factor, factor)
    size = max(float(squares.sum() + n * added), float(np.abs(linear).max()), _LEAST)
    factor, linear, added = factor / np.sqrt(size), linear / size, added / size + _ROUNDING
    if start is None:
        point = np.zeros(n)
        point[blocks.leaders(-squares / (2 * size) - linear)] = 1.0
    else:
        point = start.copy()
    support = np.flatnonzero(point).tolist()
    # Each round the value falls; the limit only guards against rounding that goes in circles.
    for _ in range(20 * n):
        wanted = _on_support(factor[support], added, linear[support], sums[:, support])
        step = wanted - point[support]
        falling = step < 0
        if (wanted < 0).any():
            ratios = np.where(falling, point[support] / np.where(falling, -step, 1.0), np.inf)
            leaving = int(np.argmin(ratios))
            point[support] += min(float(ratios[leaving]), 1.0) * step
            point[support[leaving]] = 0.0
            del support[leaving]
            continue
        point[support] = wanted
        slope = factor @ (point[support] @ factor[support]) + added * point + linear
        # How far below the level of the block's own entries.
        slope -= blocks.sums(slope * point)[which]
        entering = int(np.argmin(slope))
        if entering in support or slope[entering] >= -_ROUNDING:
            break
        support.append(entering)
    return blocks.normalised(point)


def _on_support(
    factor: FloatArray, added: float, linear: FloatArray, sums: FloatArray
) -> FloatArray:
    """The minimiser with only these entries, of any sign."""
    n, n_blocks = len(linear), len(sums)
    system = np.zeros((n + n_blocks, n + n_blocks))
    system[:n, :n] = factor @ factor.T + added * np.eye(n)
    system[n:, :n], system[:n, n:] = sums, sums.T
    right = np.append(-linear, np.ones(n_blocks))
    try:
        return np.asarray(np.linalg.solve(system, right)[:n])
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0][:n])


# Up to so many pieces all are taken at once.
_ALL = 64
# Of each block, so many join at a time.
_JOIN = 24


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
