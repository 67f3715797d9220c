"""Quadratic programs over a simplex, or a product of several; small and dense."""

import numpy as np

from fairspan.problem.pieces import ONE_BLOCK, Blocks
from fairspan.typing import FloatArray

# Slopes below this, in the scaled program, are rounding; as much is added to the diagonal.
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
