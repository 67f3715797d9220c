"""Polygons of the frontier and of the achievable errors of two groups, as figures show them."""

import numpy as np

from fairspan.typing import FloatArray


def extend_frontier(frontier: FloatArray, solutions: FloatArray) -> FloatArray:
    """Extend the polygon of a frontier through solutions below its edges, shape (n, 2).

    The polygon approximates a convex curve, and an exact solution may lie slightly below an edge,
    where the figure would show it as better than the frontier.

    Parameters
    ----------
    frontier : (n, 2) array
        Errors of both groups, from the optimum of the first group to that of the second.
    solutions : (m, 2) array
        Errors of the models; those beyond the ends of the frontier are ignored.
    """
    within_ends = (solutions[:, 0] <= frontier[-1, 0]) & (solutions[:, 1] <= frontier[0, 1])
    return np.array(_lower_hull(np.vstack([frontier, solutions[within_ends]])))


def enclose_achievable_region(
    vertices: FloatArray, frontier: FloatArray, solutions: FloatArray
) -> FloatArray:
    """Enclose all achievable errors that are known by their convex hull, shape (n, 2).

    The given vertices of the region are too few to follow the frontier closely. All arguments have
    shape (n, 2), with n of their own.
    """
    points = np.vstack([vertices, frontier, solutions])
    lower = np.array(_lower_hull(points))
    upper = -np.array(_lower_hull(-points))
    # Each part ends where the other starts.
    return np.vstack([lower[:-1], upper[:-1]])


def _lower_hull(points: FloatArray) -> list[FloatArray]:
    """Return the vertices of the lower convex hull, left to right (Andrew's monotone chain)."""
    hull: list[FloatArray] = []
    for point in points[np.lexsort((points[:, 1], points[:, 0]))]:
        while len(hull) > 1 and _cross_product(hull[-2], hull[-1], point) <= 0:
            hull.pop()
        hull.append(point)
    return hull


def _cross_product(start: FloatArray, middle: FloatArray, end: FloatArray) -> float:
    """Cross product of two consecutive edges; positive for a left turn."""
    first = middle - start
    second = end - middle
    return float(first[0] * second[1] - first[1] * second[0])
