"""Quadratic programs over the simplex, small and dense."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_ROUNDING = 1e-13


def least_on_simplex(quadratic: FloatArray, linear: FloatArray) -> FloatArray:
    """Minimise x'Qx / 2 + b.x over x >= 0 with sum x = 1, by an active set method.

    Parameters
    ----------
    quadratic : (n, n) array
        Q, positive semidefinite; a trace of identity is added where it is singular.
    linear : (n,) array
        b.

    Returns
    -------
    (n,) array

    Examples
    --------
    >>> least_on_simplex(np.diag([1.0, 3.0]), np.zeros(2))
    array([0.75, 0.25])
    """
    n = len(linear)
    size = max(float(np.trace(quadratic)), float(np.abs(linear).max()), np.finfo(float).tiny)
    quadratic = quadratic / size + _ROUNDING * np.eye(n)
    linear = linear / size
    start = int(np.argmin(np.diag(quadratic) / 2 + linear))
    point, support = np.eye(n)[start], [start]
    # Each round the value falls; the limit only guards against rounding that goes in circles.
    for _ in range(20 * n):
        wanted = _on_support(quadratic, linear, support)
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
        slope = quadratic @ point + linear
        entering = int(np.argmin(slope))
        if entering in support or slope[entering] >= slope @ point - _ROUNDING:
            break
        support.append(entering)
    point = np.maximum(point, 0.0)
    return np.asarray(point / point.sum())


def _on_support(quadratic: FloatArray, linear: FloatArray, support: list[int]) -> FloatArray:
    """The minimiser with only these entries, of any sign."""
    n = len(support)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = quadratic[np.ix_(support, support)]
    system[n, n] = 0.0
    right = np.append(-linear[support], 1.0)
    return np.asarray(np.linalg.solve(system, right)[:n])
