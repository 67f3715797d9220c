"""The least value over all lines or planes of three dimensions, by a search over directions.

A line is spanned by a direction, and a plane is orthogonal to one, so all directions of a sphere
can be tried.
"""

from collections.abc import Callable

import numpy as np

from torture.cases import FloatArray

_N_DIRECTIONS = 3000
_MAX_STARTS = 12
_N_ROUNDS = 70
_N_TRIALS = 40
# Least distance of two starts, as the sine of their angle.
_START_DISTANCE = 0.15


def least_value(
    matrices: FloatArray, d: int, value: Callable[[FloatArray], FloatArray]
) -> tuple[float, FloatArray]:
    """Return the least value on the sphere, and its direction.

    Parameters
    ----------
    matrices : (k, 3, 3) array
    d : 1 or 2
        A direction spans a line (1), or is orthogonal to a plane (2).
    value : function of (k, n) errors
        Returns (n,) values.

    Returns
    -------
    float, (3,) array
    """
    traces = np.trace(matrices, axis1=1, axis2=2)[:, None]

    def evaluate(directions: FloatArray) -> FloatArray:
        along = np.einsum("ni,gij,nj->gn", directions, matrices, directions)
        return value(traces - along if d == 1 else along)

    directions = _spread_points(_N_DIRECTIONS)
    best = _choose_starts(directions[np.argsort(evaluate(directions))])
    disc = _disc_points(_N_TRIALS)
    radius = np.full((len(best), 1, 1), 2.5 / np.sqrt(_N_DIRECTIONS))
    for _ in range(_N_ROUNDS):
        neighbors = best[:, None, :] + radius * _tangent_points(best, disc)
        trials = np.concatenate([best[:, None, :], neighbors], axis=1)
        trials /= np.linalg.norm(trials, axis=2, keepdims=True)
        values = evaluate(trials.reshape(-1, 3)).reshape(trials.shape[:2])
        best_index = values.argmin(axis=1)
        best = trials[np.arange(len(best)), best_index]
        # The radius shrinks only where no neighbor is better: the bottom of a fold is long.
        radius = np.where(best_index[:, None, None] == 0, 0.5 * radius, radius)
    values = evaluate(best)
    return float(values.min()), best[values.argmin()]


def _choose_starts(sorted_directions: FloatArray) -> FloatArray:
    """Return the best directions that are not near one that is better."""
    starts: list[FloatArray] = []
    for direction in sorted_directions:
        cosines = [abs(float(direction @ start)) for start in starts]
        if not cosines or max(cosines) < np.sqrt(1 - _START_DISTANCE**2):
            starts.append(direction)
        if len(starts) == _MAX_STARTS:
            break
    return np.array(starts)


def _spread_points(n: int) -> FloatArray:
    """Return directions spread evenly over half a sphere, by golden angles."""
    height = (np.arange(n) + 0.5) / n
    angle = np.pi * (3 - np.sqrt(5)) * np.arange(n)
    width = np.sqrt(1 - height**2)
    return np.stack([width * np.cos(angle), width * np.sin(angle), height], axis=1)


def _disc_points(n: int) -> FloatArray:
    """Return points spread evenly over a disc of radius one, by golden angles."""
    length = np.sqrt((np.arange(n) + 0.5) / n)
    angle = np.pi * (3 - np.sqrt(5)) * np.arange(n)
    return np.stack([length * np.cos(angle), length * np.sin(angle)], axis=1)


def _tangent_points(directions: FloatArray, disc: FloatArray) -> FloatArray:
    """Return the points of a disc in the tangent plane of each direction, (m, n, 3)."""
    helper = np.eye(3)[np.argmin(np.abs(directions), axis=1)]
    first = np.cross(directions, helper)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second = np.cross(directions, first)
    return disc[None, :, :1] * first[:, None, :] + disc[None, :, 1:] * second[:, None, :]
