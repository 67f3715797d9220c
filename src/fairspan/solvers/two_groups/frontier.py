"""Two groups: the Pareto part of the boundary of their errors, sampled until it is a polygon.

Between two points the curve lies in the triangle of their chord and their supporting lines. The
highest triangle is split along the direction of its chord, which touches the curve where it is
furthest from the chord, until all are low enough. Along an edge, where the eigenproblem is tied,
that direction meets the edge itself and gives both its ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count

import numpy as np

from fairspan.problem.problem import Problem
from fairspan.solvers.two_groups.sectors import (
    BoundaryPoint,
    Sector,
    points_at,
    sectors_through,
)
from fairspan.typing import FloatArray

_QUARTER = np.pi / 2
# Angles of weights of which one is negative at least.
_N_BEYOND = 64
# Points nearer than this share of the total variance are one: rounding, times some room.
_SAME_POINT = 1e-12
# Heights below this share of the variance are rounding.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class FrontierVertices:
    """Points along the Pareto frontier.

    Attributes
    ----------
    points : tuple of m BoundaryPoint
        From the optimum of the first group to that of the second, each different from the last.
    largest_height : float
        The curve is nowhere further from the polygon than this, in units of the errors.
    n_eigenproblems : int
    """

    points: tuple[BoundaryPoint, ...]
    largest_height: float
    n_eigenproblems: int


def frontier_vertices(problem: Problem, height: float) -> FrontierVertices:
    """Sample the frontier until no triangle is higher than `height`.

    Parameters
    ----------
    problem : Problem
        Of two groups; its criterion plays no part.
    height : float
        In squared units of the features; at least what float64 can resolve is taken.

    Returns
    -------
    FrontierVertices
    """
    goal = max(height, _ROUNDING * float(problem.second_moments.traces.max()))
    q = problem.proportions
    # Ordinary PCA lies on the frontier, and is a vertex of its own.
    first, pooled, last = (
        points_at(problem, angle, 0.0) for angle in (0.0, float(np.arctan2(q[1], q[0])), _QUARTER)
    )
    n_eigenproblems = 3
    # Of an edge at an end, only the point where the other group has the least error is Pareto.
    contacts = [(first[1], first[1]), pooled, (last[0], last[0])]
    order = count()
    queue = [(-each.height, next(order), each) for each in sectors_through(contacts)]
    heapify(queue)
    while -queue[0][0] > goal:
        _, _, sector = heappop(queue)
        contact = points_at(problem, sector.chord_angle, 0.0)
        n_eigenproblems += 1
        parts = [(sector.first, sector.first), contact, (sector.last, sector.last)]
        for part in sectors_through(parts):
            heappush(queue, (-part.height, next(order), part))
    points = _along_the_curve([sector for _, _, sector in queue], problem.total_variance)
    return FrontierVertices(points, -queue[0][0], n_eigenproblems)


def attainable_polygon(problem: Problem, frontier: Sequence[BoundaryPoint]) -> FloatArray:
    """Corners of the convex set of all pairs of errors, each reached by some subspace.

    Every pair inside is reached as well, as the errors of two groups form a convex set. Its
    boundary is followed through all weights of both signs: the Pareto part from its vertices, the
    rest by angles that are closest where the Pareto part ends.

    Parameters
    ----------
    problem : Problem
    frontier : sequence of BoundaryPoint
        Points along the Pareto part, from the optimum of the first group.

    Returns
    -------
    (r, 2) array
        In counterclockwise order, from the optimum of the first group.
    """
    evenly = np.linspace(0.0, np.pi, _N_BEYOND + 2)[1:-1]
    angles = _QUARTER + 3 * _QUARTER * (1 - np.cos(evenly)) / 2
    rest = [points_at(problem, float(angle), 0.0) for angle in angles]
    pareto = [point.errors for point in frontier]
    return np.array([*pareto, *(end.errors for ends in rest for end in ends)])


def _along_the_curve(sectors: list[Sector], total_variance: float) -> tuple[BoundaryPoint, ...]:
    """The points of all sectors in order; where many angles touch one corner, it comes once."""
    met = {point for sector in sectors for point in (sector.first, sector.last)}
    along = sorted(met, key=lambda point: (point.angle, point.position))
    kept, slack = [along[0]], _SAME_POINT * total_variance
    for point in along[1:]:
        step = point.errors - kept[-1].errors
        if step[0] > slack or step[1] < -slack:
            kept.append(point)
        elif point is along[-1] and len(kept) > 1:
            # The end keeps its own weights: they prove the optimum of the second group.
            kept[-1] = point
    return tuple(kept)
