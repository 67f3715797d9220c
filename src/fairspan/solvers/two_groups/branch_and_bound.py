"""Two groups: global minimum of a largest of concave functions, such as the robust error gap.

On each sector of the boundary (see :mod:`fairspan.solvers.two_groups.faces`) every score is at
least the affine function through its values at the vertices, since it is concave there. The least
of the larger of these affine functions is found at a vertex or where two of them cross on a side.
The sector with the least bound is split until the least bound meets the best value.

Far from the best point it is split along the chord, which reaches the boundary where it is furthest
from the chord. Near it, bisection would halve the way to it time after time. Where the scores are
smooth and concave, the least of their linearisation is the next point: for one score the angle of
its gradient, for two the angle at which they agree.
"""

from itertools import pairwise
from math import sqrt
from typing import Any, cast

import numpy as np

from fairspan.certificates.certificate import TracePoint
from fairspan.certificates.optimality import goal, rounding_at
from fairspan.certificates.proofs import LinesProof, clipped, least_of_largest
from fairspan.problem.criteria import ErrorGap
from fairspan.problem.problem import Problem
from fairspan.solvers.two_groups.faces import (
    QUARTER,
    BoundaryPoint,
    Ends,
    Found,
    Sector,
    ends_at,
    point_on,
    sectors_through,
    split_worst,
)
from fairspan.typing import FloatArray

_EIGHTH = np.pi / 4
_TIE_SHARE = 1 / 16
_MAX_STEPS = 400
# Of a sector's width: a point nearer to an end is passed.
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
    lower : float
        No subspace has a lower value.
    goal : float
        The gap to reach, absolute.
    """

    best: BoundaryPoint

    def __init__(self, problem: Problem, tol: float) -> None:
        self.problem, self.tolerance = problem, tol
        self.upper = self.goal = np.inf
        self.lower, self.supporting_weights = -np.inf, list[FloatArray]()
        self.trace: list[TracePoint] = []
        self._far: BoundaryPoint | None = None

    def run(self) -> Found:
        """Split the sector of least bound until the gap is closed."""
        sectors = sectors_through([self._touch(angle) for angle in self._first_angles()])
        split_worst(sectors, lambda each: -self._bound(each), self._is_closed, self._split)
        lines = np.array(self.supporting_weights)
        proof = LinesProof(self.best.face.weights, lines)
        return self.best.basis, proof, len(lines), self.trace

    def _first_angles(self) -> list[float]:
        """At most 45 degrees apart, over the arc on which the optimum lies.

        A criterion that weighs a group's error negatively may reach beyond the Pareto frontier,
        which is the arc from 0 to 90 degrees.
        """
        penalty, q = cast(ErrorGap, self.problem.criterion).penalty, self.problem.proportions
        pooled = float(np.arctan2(q[1], q[0]))
        between = not _EIGHTH / 2 < pooled < QUARTER - _EIGHTH / 2
        others = {_EIGHTH: between, -_EIGHTH: penalty > q[1], QUARTER + _EIGHTH: penalty > q[0]}
        return sorted({0.0, pooled, QUARTER, *(angle for angle in others if others[angle])})

    def _is_closed(self, least_bound: float) -> bool:
        """Whether the least bound, with its sign turned, meets the best value."""
        self.lower, n_lines = min(-least_bound, self.upper), len(self.supporting_weights)
        self.trace.append(TracePoint(n_lines, self.lower, self.upper))
        return self.upper - self.lower <= self.goal or len(self.trace) > _MAX_STEPS

    def _touch(self, angle: float) -> Ends:
        tie = 0.0
        if np.isfinite(self.upper):
            # Nearer eigenvalues are taken as tied: it moves no score at the best by much of the
            # goal. A small error has a steep score, and a large penalty makes any steep.
            slopes = self.problem.criterion.gradients(self.best.errors, self.problem)
            steepest = float(np.abs(slopes).sum(axis=1).max())
            tie = _TIE_SHARE * self.goal / (self.problem.n_components * steepest)
        contact = ends_at(self.problem, angle, tie)
        self.supporting_weights.append(contact[0].face.weights)
        for point in dict.fromkeys(contact):
            self._try(point)
        return contact

    def _try(self, point: BoundaryPoint) -> None:
        value = max(self._scores(point.errors))
        if value < self.upper:
            self.upper, self.best = value, point
            # The root of a small error makes much of its rounding.
            self.goal = max(
                goal(self.problem, point.errors, self.tolerance),
                rounding_at(self.problem, point.basis) / 2,
            )

    def _split(self, sector: Sector) -> list[Sector]:
        first, last = sector.first, sector.last
        if first.face is not last.face:
            contact = self._touch(self._angle(sector))
            return sectors_through([(first, first), contact, (last, last)])
        # Both lie on one supporting line.
        middle = (first.position + last.position) / 2
        point = point_on(self.problem, first.angle, first.face, middle)
        self._try(point)
        return [Sector(first, point), Sector(point, last)]

    def _scores(self, errors: FloatArray) -> Any:
        """Both scores at one point, or a row of them for each of several."""
        return self.problem.criterion.scores(errors, self.problem).tolist()

    def _angle(self, sector: Sector) -> float:
        """Where to split: an angle strictly inside the sector.

        A point near an end is passed, so that it is soon enclosed from both sides.
        """
        low, high = sector.first.angle, sector.last.angle
        angle, width, gap = self._wanted_angle(sector), high - low, self.upper - self.lower
        # Bounds of narrow sectors miss by the square of their width.
        least = width * min(sqrt(self.goal / (2 * gap)), 0.5) if gap > 0 else width / 2
        near, far = min(
            ((angle - low, sector.last), (high - angle, sector.first)), key=lambda end: end[0]
        )
        if 0 <= near < _NEAR_AN_END * width:
            if far is self._far:
                # That did not enclose it the last time: it is a kink, which the chord finds.
                self._far = None
                return sector.chord_angle
            self._far, step = far, max(2 * near, least)
            angle = low + step if far is sector.last else high - step
        return angle if low < angle < high else sector.chord_angle

    def _wanted_angle(self, sector: Sector) -> float:
        """Where the other score becomes the larger one, or where the larger one is least.

        The latter if it is replaced by its tangent at the best point; where a slope is infinite, so
        that there is no tangent, it is no angle.
        """
        (a, b), (c, d) = self._scores(np.array([sector.first.errors, sector.last.errors]))
        if (a - b) * (c - d) < 0:
            width = sector.last.angle - sector.first.angle
            return float(sector.first.angle + width * (a - b) / (a - b - (c - d)))
        errors = self.best.errors
        larger = int(np.argmax(self._scores(errors)))
        slope = self.problem.criterion.gradients(errors, self.problem)[larger]
        return float(np.arctan2(slope[1], slope[0])) if np.isfinite(slope).all() else np.nan

    def _bound(self, sector: Sector) -> float:
        """Lower bound of the largest score on a sector."""
        feet = [sector.first.foot, sector.last.foot]
        if sector.corner is not None:
            feet.insert(1, sector.corner)
        scores = self._scores(clipped_to_positive(np.array(feet)))
        if len(scores) < 3:
            return least_of_largest(scores)
        return min(least_of_largest([scores[0], *pair]) for pair in pairwise(scores[1:]))


def clipped_to_positive(corners: FloatArray) -> FloatArray:
    """The part of a convex polygon where neither error is negative.

    Where rounding leaves nothing of it, its corners are moved there.
    """
    kept = corners
    if corners.min() < 0:
        for normal in np.eye(2):
            kept = clipped(kept, normal, 0.0)
    return np.maximum(kept if len(kept) else corners, 0.0)
