"""Two groups: global minimum of a largest of concave functions, such as the robust error gap.

On each sector of the boundary (see :mod:`fairspan.solvers.trade_off_boundary`) every score is at
least the affine function through its values at the vertices, since it is concave there. The least
of the larger of these affine functions is found at a vertex or where two of them cross on a side.
The sector with the least bound is split along the direction of its chord, which reaches the point
furthest from the chord, until the least bound meets the best value.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import combinations, count

import numpy as np
import numpy.typing as npt

from fairspan.problem.problem import Problem
from fairspan.problem.robust_error_gap import RobustErrorGap
from fairspan.solvers.certificate import resolution
from fairspan.solvers.solution import TracePoint
from fairspan.solvers.trade_off_boundary import (
    BoundaryPoint,
    Sector,
    point_on,
    points_at,
    sectors_through,
)

FloatArray = npt.NDArray[np.float64]

_QUARTER, _EIGHTH = np.pi / 2, np.pi / 4
_TIE_SHARE = 1 / 16
_MAX_STEPS = 400


@dataclass
class BranchAndBound:
    """Robust error gap of two groups.

    Parameters
    ----------
    problem : Problem
    tolerance : float
        The gap to reach, absolute; and, as a share of the total variance, relative to the value.
    """

    problem: Problem
    tolerance: float
    best: BoundaryPoint = field(init=False)
    upper: float = np.inf
    n_eigenproblems: int = 0
    supporting_weights: list[FloatArray] = field(default_factory=list)
    trace: list[TracePoint] = field(default_factory=list)
    _open: list[tuple[float, int, Sector]] = field(default_factory=list)
    _order: "count[int]" = field(default_factory=count)

    @property
    def lower(self) -> float:
        """No subspace has a lower value."""
        return min(self._open[0][0], self.upper)

    @property
    def goal(self) -> float:
        """The gap to reach."""
        total = self.problem.total_variance
        relative = self.tolerance / total * self.upper if total > 0 else 0.0
        return max(min(self.tolerance, relative), resolution(self.problem))

    @property
    def _criterion(self) -> RobustErrorGap:
        assert isinstance(self.problem.criterion, RobustErrorGap)
        return self.problem.criterion

    def run(self) -> None:
        """Split sectors until the gap is closed."""
        self._add(sectors_through([self._touch(angle) for angle in self._first_angles()]))
        for _ in range(_MAX_STEPS):
            if self.upper - self.lower <= self.goal:
                return
            _, _, sector = heappop(self._open)
            parts = self._split(sector)
            self._add(parts)

    def _first_angles(self) -> list[float]:
        """At most 45 degrees apart, over the arc on which the optimum lies.

        A criterion that weighs a group's error negatively may reach beyond the Pareto frontier,
        which is the arc from 0 to 90 degrees.
        """
        criterion, q = self._criterion, self.problem.proportions
        pooled = float(np.arctan2(q[1], q[0]))
        angles = {0.0, pooled, _QUARTER}
        if not _EIGHTH / 2 < pooled < _QUARTER - _EIGHTH / 2:
            angles.add(_EIGHTH)
        if criterion.penalty > q[1]:
            angles.add(-_EIGHTH)
        if criterion.penalty > q[0]:
            angles.add(_QUARTER + _EIGHTH)
        return sorted(angles)

    def _touch(self, angle: float) -> tuple[BoundaryPoint, BoundaryPoint]:
        contact = points_at(self.problem, angle, self._tie())
        self.n_eigenproblems += 1
        self.supporting_weights.append(contact[0].face.weights)
        for point in dict.fromkeys(contact):
            self._try(point)
        return contact

    def _tie(self) -> float:
        """Nearer eigenvalues are taken as tied: it moves no score at the best by much of the goal.

        A small error has a steep score, and a large penalty makes any steep.
        """
        if not np.isfinite(self.upper):
            return 0.0
        slopes = np.abs(self._criterion.gradients(self.best.errors, self.problem)).sum(axis=1)
        return _TIE_SHARE * self.goal / (self.problem.n_components * float(slopes.max()))

    def _try(self, point: BoundaryPoint) -> None:
        value = self.problem.criterion.value(point.errors, self.problem)
        if value < self.upper:
            self.upper, self.best = value, point

    def _split(self, sector: Sector) -> list[Sector]:
        first, last = sector.first, sector.last
        if sector.is_edge:
            middle = (first.position + last.position) / 2
            point = point_on(self.problem, first.angle, first.face, middle)
            self._try(point)
            return [Sector(first, point, None), Sector(point, last, None)]
        contact = self._touch(sector.chord_angle)
        return sectors_through([(first, first), contact, (last, last)])

    def _add(self, sectors: list[Sector]) -> None:
        for sector in sectors:
            heappush(self._open, (self._bound(sector), next(self._order), sector))
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.upper))

    def _bound(self, sector: Sector) -> float:
        """Lower bound of the largest score on a sector."""
        corners = [sector.first.foot, sector.last.foot]
        if sector.corner is not None:
            corners.insert(1, sector.corner)
        polygon = clipped_to_positive(np.array(corners))
        scores = self._criterion.scores(polygon, self.problem)
        if len(scores) < 3:
            return least_of_largest(scores)
        return min(least_of_largest(scores[[0, i, i + 1]]) for i in range(1, len(scores) - 1))


def clipped_to_positive(polygon: FloatArray) -> FloatArray:
    """The part of a convex (n, 2) polygon where neither error is negative."""
    for axis in (0, 1):
        kept = []
        for a, b in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
            if a[axis] >= 0:
                kept.append(a)
            if (a[axis] < 0) != (b[axis] < 0):
                share = a[axis] / (a[axis] - b[axis])
                crossing = a + share * (b - a)
                crossing[axis] = 0.0
                kept.append(crossing)
        polygon = np.array(kept)
    return polygon


def least_of_largest(scores: FloatArray) -> float:
    """Least of the largest of affine functions on a simplex, from their values at its vertices.

    Parameters
    ----------
    scores : (n, m) array
        Value of function j at vertex i; at most two functions.

    Returns
    -------
    float
        Attained at a vertex, or on a side where two functions cross.
    """
    candidates = [float(scores.max(axis=1).min())]
    for u, v in combinations(scores, 2):
        difference = (u[0] - u[-1], v[0] - v[-1])
        if difference[0] * difference[1] < 0:
            share = difference[0] / (difference[0] - difference[1])
            candidates.append(float((u + share * (v - u)).max()))
    return min(candidates)
