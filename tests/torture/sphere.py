"""In three dimensions a line or a plane is a direction, and all directions can be tried."""

from collections.abc import Callable

import numpy as np

from torture.cases import FloatArray

_DIRECTIONS, _STARTS, _ROUNDS, _TRIED = 3000, 12, 70, 40
# Starts are at least so far apart, as the sine of their angle.
_APART = 0.15


def least_value(
    matrices: FloatArray, d: int, value: Callable[[FloatArray], FloatArray]
) -> tuple[float, FloatArray]:
    """The least value on the sphere, and where.

    Parameters
    ----------
    matrices : (k, 3, 3) array
    d : 1 or 2
        A direction u spans the line; or is what a plane leaves out.
    value : function of (k, n) errors
        Gives (n,) values.

    Returns
    -------
    float, (3,) array
    """
    traces = np.trace(matrices, axis1=1, axis2=2)[:, None]

    def at(directions: FloatArray) -> FloatArray:
        along = np.einsum("ni,gij,nj->gn", directions, matrices, directions)
        return value(traces - along if d == 1 else along)

    found = _spread_points(_DIRECTIONS)
    best = _angular_distance(found[np.argsort(at(found))])
    radius, disc = np.full((len(best), 1, 1), 2.5 / np.sqrt(_DIRECTIONS)), _disc_points(_TRIED)
    for _ in range(_ROUNDS):
        moved = best[:, None, :] + radius * _tangent_points(best, disc)
        tried = np.concatenate([best[:, None, :], moved], axis=1)
        tried /= np.linalg.norm(tried, axis=2, keepdims=True)
        values = at(tried.reshape(-1, 3)).reshape(tried.shape[:2])
        chosen = values.argmin(axis=1)
        best = tried[np.arange(len(best)), chosen]
        # Along the bottom of a fold it is a long way, which only steps as long find.
        radius = np.where(chosen[:, None, None] == 0, 0.5 * radius, radius)
    values = at(best)
    return float(values.min()), best[values.argmin()]


def _angular_distance(sorted_directions: FloatArray) -> FloatArray:
    """The first of them, and those that follow and are not near one that was chosen."""
    chosen: list[FloatArray] = []
    for direction in sorted_directions:
        near = [abs(float(direction @ each)) for each in chosen]
        if not near or max(near) < np.sqrt(1 - _APART**2):
            chosen.append(direction)
        if len(chosen) == _STARTS:
            break
    return np.array(chosen)


def _spread_points(n: int) -> FloatArray:
    """Directions spread evenly over half a sphere, by golden angles."""
    height = (np.arange(n) + 0.5) / n
    angle = np.pi * (3 - np.sqrt(5)) * np.arange(n)
    width = np.sqrt(1 - height**2)
    return np.stack([width * np.cos(angle), width * np.sin(angle), height], axis=1)


def _disc_points(n: int) -> FloatArray:
    length = np.sqrt((np.arange(n) + 0.5) / n)
    angle = np.pi * (3 - np.sqrt(5)) * np.arange(n)
    return np.stack([length * np.cos(angle), length * np.sin(angle)], axis=1)


def _tangent_points(directions: FloatArray, disc: FloatArray) -> FloatArray:
    helper = np.eye(3)[np.argmin(np.abs(directions), axis=1)]
    first = np.cross(directions, helper)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second = np.cross(directions, first)
    return disc[None, :, :1] * first[:, None, :] + disc[None, :, 1:] * second[:, None, :]
