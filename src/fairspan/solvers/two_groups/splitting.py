"""Two groups: at which angle to split a sector of the boundary in the search for the least score.

Far from the best point, along the chord, which reaches the boundary where it is furthest from the
chord. Near it, bisection would halve the way to it time after time. Where the scores are smooth and
concave, the least of their linearisation is the next point: for one score the angle of its
gradient, for two the angle at which they agree.
"""

from math import atan2, isfinite, sqrt
from typing import NamedTuple

from fairspan.solvers.two_groups.robust_scores import Point, RobustScores
from fairspan.solvers.two_groups.sectors import BoundaryPoint, Sector

# As a share of the sector's width.
_NEAR_AN_END = 0.25


class Near(NamedTuple):
    """What is known near the best point.

    Attributes
    ----------
    best : BoundaryPoint
    gap : float
        The best value less the sector's bound.
    goal : float
        The gap to reach.
    """

    best: BoundaryPoint
    gap: float
    goal: float


def errors_of(point: BoundaryPoint) -> Point:
    """In plain floats."""
    first, second = point.errors.tolist()
    return first, second


class Splitting:
    """Chooses angles, one after the other.

    Parameters
    ----------
    scores : RobustScores
    """

    def __init__(self, scores: RobustScores) -> None:
        self._scores = scores
        self._far: BoundaryPoint | None = None

    def angle(self, sector: Sector, near: Near) -> float:
        """An angle strictly inside the sector."""
        low, high = sector.first.angle, sector.last.angle
        # Bounds of narrow sectors miss by the square of their width.
        share = min(sqrt(near.goal / (2 * near.gap)), 0.5) if near.gap > 0 else 0.5
        angle = _where_scores_agree(sector, self._scores)
        if angle is None:
            angle = _where_least(near.best, self._scores)
        if angle is None or not low <= angle <= high:
            return sector.chord_angle
        angle = self._past(sector, angle, share)
        return angle if low < angle < high else sector.chord_angle

    def _past(self, sector: Sector, angle: float, share: float) -> float:
        """Past a point near an end, so that it is soon enclosed from both sides.

        Where that did not enclose it the last time, it is a kink, which the chord finds.
        """
        low, high = sector.first.angle, sector.last.angle
        near_end, far = min((angle - low, sector.last), (high - angle, sector.first), key=_distance)
        if near_end >= _NEAR_AN_END * (high - low):
            return angle
        if far is self._far:
            self._far = None
            return sector.chord_angle
        self._far = far
        step = max(2 * near_end, share * (high - low))
        return low + step if far is sector.last else high - step


def _distance(end: tuple[float, BoundaryPoint]) -> float:
    return end[0]


def _where_scores_agree(sector: Sector, scores: RobustScores) -> float | None:
    """Where the other score becomes the larger one, if it does."""
    first, last = scores.at(errors_of(sector.first)), scores.at(errors_of(sector.last))
    before, after = first[0] - first[1], last[0] - last[1]
    if before * after >= 0:
        return None
    width = sector.last.angle - sector.first.angle
    return sector.first.angle + width * before / (before - after)


def _where_least(best: BoundaryPoint, scores: RobustScores) -> float | None:
    """Where the larger score is least, if it is replaced by its tangent at the best point."""
    errors = errors_of(best)
    here = scores.at(errors)
    gradient = scores.gradient(errors, int(here[1] > here[0]))
    return atan2(gradient[1], gradient[0]) if all(map(isfinite, gradient)) else None
