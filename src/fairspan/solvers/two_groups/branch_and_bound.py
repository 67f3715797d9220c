"""Two groups: global minimum of a largest of concave functions, such as the robust error gap.

On each sector of the boundary (see :mod:`fairspan.solvers.two_groups.frontier`) every score is at
least the affine function through its values at the vertices, since it is concave there. The least
of the larger of these affine functions is found at a vertex or where two of them cross on a side.
The sector with the least bound is split until the least bound meets the best value.

Far from the best point it is split along the chord, which reaches the boundary where it is furthest
from the chord. Near it, bisection would halve the way to it time after time. Where the scores are
smooth and concave, the least of their linearisation is the next point: for one score the angle of
its gradient, for two the angle at which they agree.
"""

from heapq import heappop, heappush
from itertools import count, pairwise
from math import sqrt
from typing import Any

import numpy as np

from fairspan.certificates.optimality import goal, rounding_at
from fairspan.certificates.proof import least_of_largest
from fairspan.certificates.solution import TracePoint
from fairspan.problem.criteria.error_gap import worst_case, worst_case_slope
from fairspan.problem.problem import Problem
from fairspan.solvers.two_groups.frontier import (
    BoundaryPoint,
    Sector,
    point_on,
    points_at,
    sectors_through,
)
from fairspan.typing import FloatArray

Point = tuple[float, float]

_QUARTER, _EIGHTH = np.pi / 2, np.pi / 4
_TIE_SHARE = 1 / 16
_MAX_STEPS = 400
# As a share of the sector's width.
_NEAR_AN_END = 0.25


class BranchAndBound:
    """Robust error gap of two groups.

    Parameters
    ----------
    problem : Problem
    tol : float
        The gap to reach, as a share of the value.

    Attributes
    ----------
    best : BoundaryPoint
    upper : float
        Its value.
    goal : float
        The gap to reach, absolute.
    """

    best: BoundaryPoint

    def __init__(self, problem: Problem, tol: float) -> None:
        self.problem, self.tolerance = problem, tol
        self.upper = self.goal = np.inf
        self.n_eigenproblems, self.supporting_weights = 0, list[FloatArray]()
        self.trace: list[TracePoint] = []
        criterion = problem.robust
        self._weights, self._radii = criterion.pair_weights(problem), criterion.radii(problem)
        self._far: BoundaryPoint | None = None
        self._open: list[tuple[float, int, Sector]] = []
        self._order = count()

    @property
    def lower(self) -> float:
        """No subspace has a lower value."""
        return min(self._open[0][0], self.upper)

    def run(self) -> None:
        """Split sectors until the gap is closed."""
        self._add(sectors_through([self._touch(angle) for angle in self._first_angles()]))
        for _ in range(_MAX_STEPS):
            if self.upper - self.lower <= self.goal:
                return
            bound, _, sector = heappop(self._open)
            self._add(self._split(sector, bound))

    def _first_angles(self) -> list[float]:
        """At most 45 degrees apart, over the arc on which the optimum lies.

        A criterion that weighs a group's error negatively may reach beyond the Pareto frontier,
        which is the arc from 0 to 90 degrees.
        """
        penalty, q = self.problem.robust.penalty, self.problem.proportions
        pooled = float(np.arctan2(q[1], q[0]))
        angles = {0.0, pooled, _QUARTER}
        if not _EIGHTH / 2 < pooled < _QUARTER - _EIGHTH / 2:
            angles.add(_EIGHTH)
        if penalty > q[1]:
            angles.add(-_EIGHTH)
        if penalty > q[0]:
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
        slopes = worst_case_slope(self._weights, self.best.errors, self._radii)
        steepest = float(np.abs(slopes).sum(axis=1).max())
        return _TIE_SHARE * self.goal / (self.problem.n_components * steepest)

    def _try(self, point: BoundaryPoint) -> None:
        value = max(self._scores(point.errors))
        if value < self.upper:
            self.upper, self.best = value, point
            # The root of a small error makes much of its rounding.
            self.goal = max(
                goal(self.problem, point.errors, self.tolerance),
                rounding_at(self.problem, point.basis) / 2,
            )

    def _split(self, sector: Sector, bound: float) -> list[Sector]:
        first, last = sector.first, sector.last
        if first.face is last.face:  # both lie on one supporting line
            point = point_on(
                self.problem, first.angle, first.face, (first.position + last.position) / 2
            )
            self._try(point)
            return [Sector(first, point, None), Sector(point, last, None)]
        contact = self._touch(self._angle(sector, self.upper - bound))
        return sectors_through([(first, first), contact, (last, last)])

    def _add(self, sectors: list[Sector]) -> None:
        for sector in sectors:
            heappush(self._open, (self._bound(sector), next(self._order), sector))
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.upper))

    def _scores(self, errors: FloatArray) -> Any:
        """Both scores at one point, or a row of them for each of several."""
        return worst_case(self._weights, errors[..., None, :], self._radii).sum(axis=-1).tolist()

    def _angle(self, sector: Sector, gap: float) -> float:
        """Where to split: an angle strictly inside the sector."""
        low, high = sector.first.angle, sector.last.angle
        # Bounds of narrow sectors miss by the square of their width.
        share = min(sqrt(self.goal / (2 * gap)), 0.5) if gap > 0 else 0.5
        angle = self._where_scores_agree(sector)
        angle = self._where_least() if angle is None else angle
        if not low <= angle <= high:
            return sector.chord_angle
        angle = self._past(sector, angle, share)
        return angle if low < angle < high else sector.chord_angle

    def _past(self, sector: Sector, angle: float, share: float) -> float:
        """Past a point near an end, so that it is soon enclosed from both sides.

        Where that did not enclose it the last time, it is a kink, which the chord finds.
        """
        low, high = sector.first.angle, sector.last.angle
        near_end, far = angle - low, sector.last
        if high - angle < near_end:
            near_end, far = high - angle, sector.first
        if near_end >= _NEAR_AN_END * (high - low):
            return angle
        if far is self._far:
            self._far = None
            return sector.chord_angle
        self._far = far
        step = max(2 * near_end, share * (high - low))
        return low + step if far is sector.last else high - step

    def _where_scores_agree(self, sector: Sector) -> float | None:
        """Where the other score becomes the larger one, if it does."""
        first, last = self._scores(sector.first.errors), self._scores(sector.last.errors)
        before, after = first[0] - first[1], last[0] - last[1]
        if before * after >= 0:
            return None
        width = sector.last.angle - sector.first.angle
        return float(sector.first.angle + width * before / (before - after))

    def _where_least(self) -> float:
        """Where the larger score is least, if it is replaced by its tangent at the best point.

        Where a slope is infinite, so that there is no tangent, it is no angle.
        """
        errors = self.best.errors
        larger = int(np.argmax(self._scores(errors)))
        first, second = worst_case_slope(self._weights, errors, self._radii)[larger]
        return float(np.arctan2(second, first)) if np.isfinite([first, second]).all() else np.nan

    def _bound(self, sector: Sector) -> float:
        """Lower bound of the largest score on a sector."""
        feet = [sector.first.foot, sector.last.foot]
        if sector.corner is not None:
            feet.insert(1, sector.corner)
        scores = self._scores(
            np.array(clipped_to_positive([(float(x), float(y)) for x, y in feet]))
        )
        if len(scores) < 3:
            return least_of_largest(scores)
        return min(least_of_largest([scores[0], *pair]) for pair in pairwise(scores[1:]))


def clipped_to_positive(polygon: list[Point]) -> list[Point]:
    """The part of a convex polygon where neither error is negative.

    Where rounding leaves nothing of it, its corners are moved there.
    """
    whole = polygon
    for axis in (0, 1):
        if min(corner[axis] for corner in polygon) >= 0:
            continue
        kept = []
        for a, b in pairwise([*polygon, polygon[0]]):
            if a[axis] >= 0:
                kept.append(a)
            if (a[axis] < 0) != (b[axis] < 0):
                share = a[axis] / (a[axis] - b[axis])
                other = a[1 - axis] + share * (b[1 - axis] - a[1 - axis])
                kept.append((other, 0.0) if axis else (0.0, other))
        if not kept:
            return [(max(x, 0.0), max(y, 0.0)) for x, y in whole]
        polygon = kept
    return polygon
