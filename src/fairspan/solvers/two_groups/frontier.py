"""Boundary of the achievable errors of two groups, enclosed between supporting lines.

Let (x, y) be the errors of the two groups, S_1 and S_2 their second moments, and t_d the sum of the
d largest eigenvalues. Weights w = (cos a, sin a) define the supporting line w.(x, y) = w.(tr S_1,
tr S_2) - t_d(w_1 S_1 + w_2 S_2) of the convex hull of all errors, which it touches at a point or,
if eigenvalue d is tied, along an edge. Between two supporting lines the boundary lies in the
triangle of their contact points and the intersection of the lines: a sector.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import NamedTuple

import numpy as np

from fairspan.linalg.rounding import FIGURE_ROUNDING, SUM_ROUNDING, VALUE_ROUNDING
from fairspan.problem.problem import Problem
from fairspan.solvers.two_groups.geodesic import face_endpoints
from fairspan.typing import FloatArray

# In radians.
RIGHT_ANGLE = np.pi / 2


@dataclass(frozen=True, eq=False)
class BoundaryPoint:
    """Subspace whose errors lie on the boundary.

    Attributes
    ----------
    angle : float
        Angle of its supporting weights in radians; increases with the weight of the second group.
    weights : (2,) array
        w, the normal of the supporting line.
    basis : (p, d) array
    errors : (2,) array
    foot : (2,) array
        Errors projected onto the supporting line. They lie on it, unless the face contains
        eigenvalues that are tied only within a tolerance.
    """

    angle: float
    weights: FloatArray
    basis: FloatArray
    errors: FloatArray
    foot: FloatArray


# Both ends of the contact with a supporting line; identical if it is a point.
EdgeEnds = tuple[BoundaryPoint, BoundaryPoint]


@dataclass(frozen=True, eq=False)
class Sector:
    """Part of the boundary between two points.

    Attributes
    ----------
    first, last : BoundaryPoint
        first.angle <= last.angle.
    corner : (2,) array or None
        Intersection of both supporting lines; None if the boundary does not extend beyond the chord
        between the feet.
    """

    first: BoundaryPoint
    last: BoundaryPoint
    corner: FloatArray | None = None

    @classmethod
    def from_points(cls, first: BoundaryPoint, last: BoundaryPoint) -> "Sector":
        """Sector between two points in increasing order of angle."""
        angle = last.angle - first.angle
        # Unit normals of both lines, and the vector from foot to foot.
        w = first.weights
        v = last.weights
        chord = last.foot - first.foot
        # If rounding puts a foot beyond the other supporting line, so is part of the chord, and the
        # boundary lies on the inner side of the chord: there is no corner.
        is_beyond = v @ chord > 0 or w @ chord < 0
        # Lines that are closer in angle would intersect in rounding error.
        if angle < SUM_ROUNDING or is_beyond:
            return cls(first, last)
        # The corner is at a distance along one line, limited by the length of the chord. In exact
        # arithmetic the limit is inactive, since lines at most 90 degrees apart intersect no
        # further from a point than the other point is; at angles near 1e-12 rounding could exceed
        # it.
        length = float(np.hypot(*chord))
        sine = np.sin(angle)
        # Start from the foot with the smaller errors: far out, rounding moves both lines further.
        if last.foot[0] + last.foot[1] < first.foot[0] + first.foot[1]:
            distance = min(float(w @ chord) / sine, length)
            return cls(first, last, last.foot + distance * np.array([-v[1], v[0]]))
        distance = min(-float(v @ chord) / sine, length)
        return cls(first, last, first.foot - distance * np.array([-w[1], w[0]]))

    @property
    def height(self) -> float:
        """Distance of the corner from the chord, which bounds the deviation of the boundary."""
        if self.corner is None:
            return 0.0
        chord = self.last.foot - self.first.foot
        arm = self.corner - self.first.foot
        length = float(np.hypot(*chord))
        if length == 0:
            return float(np.hypot(*arm))
        return abs(float(chord[0] * arm[1] - chord[1] * arm[0])) / length

    @property
    def chord_normal_angle(self) -> float:
        """Angle of the weights orthogonal to the chord, inside the sector.

        The midpoint if rounding puts it outside.
        """
        chord = self.last.errors - self.first.errors
        angle = float(np.arctan2(chord[0], -chord[1]))
        if self.first.angle < angle < self.last.angle:
            return angle
        return (self.first.angle + self.last.angle) / 2


def supporting_contact(problem: Problem, angle: float, tie_tol: float = 0.0) -> EdgeEnds:
    """Both ends of the boundary's contact with the supporting line at an angle.

    Parameters
    ----------
    problem : Problem
    angle : float
        Angle a of the weights (cos a, sin a) of the two groups, in radians.
    tie_tol : float
        Distance up to which eigenvalues count as equal to eigenvalue d.

    Returns
    -------
    tuple of 2 BoundaryPoint
        In the order from the optimum of the first group to that of the second; the same point
        twice unless eigenvalue d is tied.
    """
    # Make (1, 0), (0, 1) and the like exact.
    weights = np.array([np.cos(angle), np.sin(angle)])
    weights[np.abs(weights) < VALUE_ROUNDING] = 0.0
    leading = problem.second_moments.leading(weights, problem.n_components, tie_tol)
    errors = problem.errors(leading.vectors)
    if not leading.is_tied:
        point = BoundaryPoint(angle, weights, leading.vectors, errors, errors)
        return point, point
    # Among the tied subspaces, the ends of the edge capture least and most in its direction.
    along_line = np.array([-weights[1], weights[0]])
    height = float(weights @ errors)
    first_basis, last_basis = face_endpoints(problem.second_moments, along_line, leading)
    first = boundary_point(problem, angle, weights, first_basis, height)
    last = boundary_point(problem, angle, weights, last_basis, height)
    return first, last


def boundary_point(
    problem: Problem, angle: float, weights: FloatArray, basis: FloatArray, height: float
) -> BoundaryPoint:
    """Boundary point of a subspace whose errors e lie on, or nearly on, a supporting line.

    The line is w.e = `height`, with the weights w = (cos a, sin a) at the angle a. Errors lie above
    it if eigenvalues are tied only within a tolerance. If that is by more than rounding, the foot
    of the point is the closest point of the line, otherwise the errors themselves.

    Parameters
    ----------
    problem : Problem
    angle : float
        a, in radians.
    weights : (2,) array
        w.
    basis : (p, d) array
        Basis of the subspace.
    height : float
        Smallest w.e of all subspaces.
    """
    errors = problem.errors(basis)
    foot = errors
    distance = float(weights @ errors) - height
    if distance > FIGURE_ROUNDING * float(np.abs(weights) @ errors):
        foot = errors - distance * weights
    return BoundaryPoint(angle, weights, basis, errors, foot)


def sectors_between(contacts: Sequence[EdgeEnds]) -> list[Sector]:
    """Edges within contacts, and sectors between neighbors, in increasing order of angle."""
    edges = [Sector(first, last) for first, last in contacts if first is not last]
    sectors = [Sector.from_points(before[1], after[0]) for before, after in pairwise(contacts)]
    return edges + sectors


class RefinedSectors(NamedTuple):
    """Sectors of the boundary after the worst ones were split.

    Attributes
    ----------
    sectors : list of Sector
        In any order.
    worst : float
        Priority of the worst sector.
    n_splits : int
        Number of splits.
    """

    sectors: list[Sector]
    worst: float
    n_splits: int


def refine_worst(
    sectors: list[Sector],
    priority: Callable[[Sector], float],
    is_converged: Callable[[float], bool],
    split: Callable[[Sector], list[Sector]],
) -> RefinedSectors:
    """Split the worst sector repeatedly until the worst remaining one is good enough.

    Parameters
    ----------
    sectors : list of Sector
        Sectors to start with.
    priority : function of a sector
        The sector with the largest priority is the worst.
    is_converged : function of the largest priority
        Whether to stop; called before each split.
    split : function of a sector
        Returns the sectors that replace it.

    Returns
    -------
    RefinedSectors
    """
    tie_breaker = count()
    heap: list[tuple[float, int, Sector]] = []
    n_splits = 0
    while True:
        for sector in sectors:
            heappush(heap, (-priority(sector), next(tie_breaker), sector))
        worst = -heap[0][0]
        if is_converged(worst):
            return RefinedSectors([sector for _, _, sector in heap], worst, n_splits)
        sectors = split(heappop(heap)[2])
        n_splits += 1


class FrontierVertices(NamedTuple):
    """Vertices of the Pareto frontier of two groups' errors.

    Attributes
    ----------
    points : tuple of m BoundaryPoint
        From the optimum of the first group to that of the second, all distinct.
    max_deviation : float
        Bound on the distance of the curve from the polygon of the points, in units of the errors.
    n_eigenproblems : int
        One for each supporting line: three at the start, and one for each split.
    """

    points: tuple[BoundaryPoint, ...]
    max_deviation: float
    n_eigenproblems: int


def frontier_vertices(problem: Problem, max_deviation: float) -> FrontierVertices:
    """Find vertices of the Pareto frontier, until no sector is higher than `max_deviation`.

    The highest sector is split in the direction normal to its chord, which touches the curve where
    it is furthest from the chord. Along an edge this direction touches the edge itself and yields
    both of its ends.

    Parameters
    ----------
    problem : Problem
        Problem of two groups; its criterion is ignored.
    max_deviation : float
        Largest distance allowed, in squared units of the features; values below the resolution of
        float64 are raised to it.

    Returns
    -------
    FrontierVertices
    """
    # Deviations below rounding could be refined forever.
    threshold = max(max_deviation, FIGURE_ROUNDING * float(problem.second_moments.traces.max()))
    q = problem.proportions

    def split(sector: Sector) -> list[Sector]:
        contact = supporting_contact(problem, sector.chord_normal_angle)
        first_end = (sector.first, sector.first)
        last_end = (sector.last, sector.last)
        return sectors_between([first_end, contact, last_end])

    first = supporting_contact(problem, 0.0)
    # Ordinary PCA lies on the frontier and becomes a vertex.
    pooled = supporting_contact(problem, float(np.arctan2(q[1], q[0])))
    last = supporting_contact(problem, RIGHT_ANGLE)
    # Of an edge at an end, only the end with the smaller error of the other group is Pareto
    # optimal.
    first_end = (first[1], first[1])
    last_end = (last[0], last[0])
    refined = refine_worst(
        sectors_between([first_end, pooled, last_end]),
        priority=lambda sector: sector.height,
        is_converged=lambda height: height <= threshold,
        split=split,
    )
    vertices = _distinct_vertices(refined.sectors, SUM_ROUNDING * problem.total_variance)
    return FrontierVertices(tuple(vertices), refined.worst, 3 + refined.n_splits)


def _distinct_vertices(sectors: Sequence[Sector], tol: float) -> list[BoundaryPoint]:
    """Return the ends of sectors in their order along the curve, without repetitions.

    A corner of the curve is touched at many angles, by points whose errors differ by rounding, up
    to `tol`. It is kept once.
    """
    points = {point for sector in sectors for point in (sector.first, sector.last)}
    # Along the curve the first error increases and the second decreases.
    ordered = sorted(points, key=lambda point: (point.angle, point.errors[0], -point.errors[1]))
    vertices = [ordered[0]]
    for point in ordered[1:]:
        step = point.errors - vertices[-1].errors
        if step[0] > tol or step[1] < -tol:
            vertices.append(point)
        elif point is ordered[-1] and len(vertices) > 1:
            # The end keeps its own weights, which prove the optimum of the second group.
            vertices[-1] = point
    return vertices
