"""Programs over a simplex, or a product of several: quadratic ones, and the best of a dual's model.

The model of a dual is a saddle program: maximise
s.m - |F'(m - c)|^2 / 2 - damping |m - c|^2 / 2 - t_j(sum_i m_i C_i) over one simplex for each block
of m, t_j the sum of the j largest eigenvalues. As t_j(C) = min j u + tr Z over Z >= 0 and
Z >= C - u I, it is one conic program; the multipliers of its second constraint are the shares Y,
0 <= Y <= I with tr Y = j, for which t_j(C) = <C, Y>.
"""

from dataclasses import dataclass

import numpy as np

from fairspan.linalg import eigvalsh
from fairspan.problem.pieces import ONE_BLOCK, Blocks
from fairspan.solvers.conic import from_triangle, solve_conic, to_triangle
from fairspan.typing import FloatArray

# Slopes below this, in the scaled program, are rounding; as much is added to the diagonal. So are
# gains below this share of the largest.
_ROUNDING = 1e-13
# Of the conic program, gap and feasibility.
_CONIC = 1e-12
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
    blocks: Blocks = ONE_BLOCK

    def value(self, multipliers: FloatArray) -> float:
        """What is maximised, at some multipliers."""
        step = multipliers - self.center
        along = step @ self.factor
        bent = float(along @ along) + self.damping * float(step @ step)
        mixed = np.tensordot(multipliers, self.matrices, axes=1)
        top = float(eigvalsh(mixed)[::-1][: self.rank].sum())
        return float(multipliers @ self.slopes) - bent / 2 - top

    def solve(self) -> tuple[FloatArray, FloatArray]:
        """Both players' best: multipliers, shape (m,), and shares, shape (r, r)."""
        if not self.rank:
            linear = -self.slopes - self.factor @ (self.center @ self.factor)
            linear = linear - self.damping * self.center
            best = least_on_simplex(self.factor, linear, self.blocks, added=self.damping)
            return best, np.zeros((0, 0))
        (n, r), sums = self.matrices.shape[:2], self.blocks.membership(len(self.slopes))
        which = self.blocks.of(n)
        # What a block has in common is the same for every m; the rest has numbers of size one.
        middles = self.blocks.sums(self.center * np.einsum("irr->i", self.matrices) / r)
        matrices = self.matrices - middles[which, None, None] * np.eye(r)
        slopes = self.slopes - self.blocks.sums(self.center * self.slopes)[which]
        size = float(max(np.abs(matrices).max(), np.abs(slopes).max())) or 1.0
        damping = self.damping / size
        factor = np.linalg.qr(self.factor.T)[1].T / np.sqrt(size)
        identity, n_entries, n_along = to_triangle(np.eye(r)), r * (r + 1) // 2, factor.shape[1]
        # The unknowns are m, u, the triangle of Z, and y = F'm.
        ends = np.cumsum([n, 1, n_entries, n_along])
        quadratic = np.concatenate([np.full(n, damping), np.zeros(1 + n_entries), np.ones(n_along)])
        linear = np.concatenate(
            [-slopes / size - damping * self.center, [self.rank], identity, -self.center @ factor]
        )
        rows = np.zeros((len(sums) + n_along + n + 2 * n_entries, ends[-1]))
        lines = np.cumsum([len(sums), n_along, n, n_entries])
        on_simplex, along, positive, above, semidefinite = np.split(rows, lines)
        on_simplex[:, :n], positive[:, :n] = sums, -np.eye(n)
        along[:, :n], along[:, ends[2] :] = factor.T, -np.eye(n_along)
        above[:, :n], above[:, n] = to_triangle(matrices / size).T, -identity
        above[:, n + 1 : ends[2]] = semidefinite[:, n + 1 : ends[2]] = -np.eye(n_entries)
        right = np.zeros(len(rows))
        right[: len(sums)] = 1.0
        counts = len(sums) + n_along, n
        found = solve_conic(np.diag(quadratic), linear, rows, right, (*counts, (r, r)), _CONIC)
        shares = from_triangle(found.duals[lines[2] : lines[3]], r)
        return self.blocks.normalised(found.x[:n]), shares
