"""Branch and bound over the sectors of the boundary of two groups' errors."""

from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np

from fairspan.certificates.certificate_parts import TracePoint
from fairspan.certificates.error_rounding import measure_errors, target_gap
from fairspan.certificates.polygons import clip_polygon, min_of_max_affine
from fairspan.certificates.proofs import Proof, SupportingLinesProof
from fairspan.problem.criteria.criterion import ConcaveScoresCriterion
from fairspan.problem.problem import Problem
from fairspan.solvers.two_groups.frontier import (
    RIGHT_ANGLE,
    BoundaryPoint,
    EdgeEnds,
    Sector,
    boundary_point,
    refine_worst,
    sectors_between,
    supporting_contact,
)
from fairspan.solvers.two_groups.geodesic import GrassmannGeodesic
from fairspan.typing import FloatArray

# In radians.
_HALF_RIGHT_ANGLE = np.pi / 4
# Eigenvalues count as tied if that changes no score by more than this fraction of the target gap.
_TIE_GAP_FRACTION = 1 / 16
# Splits of a branch and bound; 10 to 30 are common.
_MAX_STEPS = 400
# Minimum distance of a split from the ends, relative to the sector's width.
_MIN_SPLIT_FRACTION = 0.1


class SearchResult(NamedTuple):
    """Result of a search.

    Attributes
    ----------
    basis : (p, d) array
        Best subspace found.
    proof : Proof or (k,) array
        Proof of the lower bound; an array holds the group weights of a dual bound.
    n_eigenproblems : int
        Number of eigenproblems solved.
    trace : list of TracePoint
        Bounds after each step.
    """

    basis: FloatArray
    proof: Proof | FloatArray
    n_eigenproblems: int
    trace: list[TracePoint]


class BranchAndBound:
    """Branch and bound for a maximum of concave scores of two groups, such as the robust error gap.

    On each sector every score is at least the affine interpolation of its values at the vertices,
    since it is concave. The minimum of the larger of these affine functions is attained at a vertex
    or where two of them cross on an edge. The sector with the smallest bound is split until that
    bound meets the best value.

    A sector is split in the direction normal to its chord, which reaches the boundary where it is
    furthest from the chord. Near the best point, where the scores are smooth and concave, the
    minimizer of their linearization is the next point: for one score, the angle of its gradient;
    for two, the angle at which they are equal.

    Parameters
    ----------
    problem : Problem
    tol : float
        Relative gap to reach.

    Attributes
    ----------
    best : BoundaryPoint
    upper : float
        Value of the best point.
    lower : float
        Lower bound on the value of every subspace.
    target_gap : float
        Absolute gap to reach.
    """

    best: BoundaryPoint

    def __init__(self, problem: Problem, tol: float) -> None:
        self.problem = problem
        self.tol = tol
        self.lower = -np.inf
        self.upper = np.inf
        self.target_gap = np.inf
        self.supporting_weights: list[FloatArray] = []
        self.trace: list[TracePoint] = []

    def run(self) -> SearchResult:
        """Split the sector with the smallest bound until the gap is closed.

        A sector is the part of the boundary of the achievable pairs of errors between two
        supporting lines, whose weights are the cosine and sine of an angle. Stops after a maximum
        number of steps. Returns the best point, with all supporting lines as proof of the bound.
        """
        criterion = cast(ConcaveScoresCriterion, self.problem.criterion)
        # One row of weights for each affine function of a lower bound on the criterion.
        slopes = criterion.affine_minorant(self.problem).coefficients
        q = self.problem.proportions
        # Angle of the weights of ordinary PCA.
        pooled = float(np.arctan2(q[1], q[0]))
        # The initial lines are at most 45 degrees apart, over the arc that contains the optimum. If
        # a group's error has a negative weight, this arc extends beyond the Pareto frontier, which
        # is the arc from 0 to 90 degrees.
        has_wide_gap = not _HALF_RIGHT_ANGLE / 2 < pooled < RIGHT_ANGLE - _HALF_RIGHT_ANGLE / 2
        angles = {0.0, pooled, RIGHT_ANGLE}
        if has_wide_gap:
            angles.add(_HALF_RIGHT_ANGLE)
        if slopes[:, 1].min() < 0:
            angles.add(-_HALF_RIGHT_ANGLE)
        if slopes[:, 0].min() < 0:
            angles.add(RIGHT_ANGLE + _HALF_RIGHT_ANGLE)
        sectors = sectors_between([self._add_contact(angle) for angle in sorted(angles)])
        # The worst sector is the one with the smallest lower bound. The callbacks update the best
        # point, the bounds and the lines, which are attributes.
        refine_worst(
            sectors, lambda sector: -self._sector_bound(sector), self._is_closed, self._split
        )
        lines = np.array(self.supporting_weights)
        proof = SupportingLinesProof(self.best.weights, lines)
        return SearchResult(self.best.basis, proof, len(lines), self.trace)

    def _is_closed(self, negative_bound: float) -> bool:
        """Update the lower bound; return whether the gap is closed, or the steps are used up.

        `negative_bound` is minus the smallest bound of all sectors, none of which can contain a
        smaller value.
        """
        self.lower = min(-negative_bound, self.upper)
        self.trace.append(TracePoint(len(self.supporting_weights), self.lower, self.upper))
        return self.upper - self.lower <= self.target_gap or len(self.trace) > _MAX_STEPS

    def _add_contact(self, angle: float) -> EdgeEnds:
        """Return the contact with the supporting line at an angle, after recording it."""
        contact = supporting_contact(self.problem, angle, self._tie_tol())
        self.supporting_weights.append(contact[0].weights)
        for point in dict.fromkeys(contact):
            self._update_best(point)
        return contact

    def _tie_tol(self) -> float:
        """Distance within which eigenvalues count as tied; zero before a positive bound is known.

        Close eigenvalues count as tied if that changes no score near the best point by much of the
        target gap: confusing d of them changes the errors by at most d times their distance, and
        scores by that times their slope, which small errors and large penalties make steep. The
        target gap is relative to the best value so far, which may be 1e10 times the optimum after
        the first line in the presence of a large column: an edge of that width would never be
        narrowed, so the tolerance is relative to the proven bound.
        """
        if self.lower <= 0:
            return 0.0
        slopes = self.problem.criterion.score_gradients(self.best.errors, self.problem)
        max_slope = float(np.abs(slopes).sum(axis=1).max())
        proven_target_gap = self.target_gap * (self.lower / self.upper)
        return _TIE_GAP_FRACTION * proven_target_gap / (self.problem.n_components * max_slope)

    def _update_best(self, point: BoundaryPoint) -> None:
        """Keep a point if it is the best so far, and set the target gap to that of its value.

        The target gap is at least half of the rounding error of the value, which cannot be reduced.
        """
        value = float(self._scores(point.errors).max())
        if value < self.upper:
            self.upper = value
            self.best = point
            errors = measure_errors(self.problem, point.basis)
            # The square root amplifies the rounding error of small errors.
            rounding = self.problem.criterion.rounding_bound(
                errors.rounding, errors.values, self.problem
            )
            self.target_gap = max(target_gap(self.problem, errors.values, self.tol), rounding / 2)

    def _split(self, sector: Sector) -> list[Sector]:
        """Return the parts of a sector, split at a new point of the boundary.

        An edge between two points on one supporting line is split at the middle of the geodesic
        between their subspaces.
        """
        first = sector.first
        last = sector.last
        if first.angle < last.angle:
            # Contacts have two ends, which are the same point unless they are edges.
            contact = self._add_contact(self._split_angle(sector))
            return sectors_between([(first, first), contact, (last, last)])
        # Both points lie on one supporting line, and so does the geodesic between them.
        basis = GrassmannGeodesic(first.basis, last.basis).basis_at(0.5)
        height = float(first.weights @ first.foot)
        point = boundary_point(self.problem, first.angle, first.weights, basis, height)
        self._update_best(point)
        return [Sector(first, point), Sector(point, last)]

    def _scores(self, errors: FloatArray) -> FloatArray:
        """Both scores at one point, or a row of them for each of several points."""
        return np.asarray(self.problem.criterion.scores(errors, self.problem))

    def _split_angle(self, sector: Sector) -> float:
        """Angle at which to split a sector.

        The criterion is the larger of two scores, which are concave functions of the errors. If the
        larger score changes, it is the angle at which the scores cross; otherwise that at which the
        larger one is smallest, linearized at the best point. If that angle is outside the sector,
        it is the one of the normal of the chord (from end to end of the sector), in which the
        boundary is furthest from the chord.
        """
        ends = np.array([sector.first.errors, sector.last.errors])
        (first_score, first_other), (last_score, last_other) = self._scores(ends).tolist()
        first_difference = first_score - first_other
        last_difference = last_score - last_other
        low = sector.first.angle
        width = sector.last.angle - sector.first.angle
        if first_difference * last_difference < 0:
            fraction = first_difference / (first_difference - last_difference)
        else:
            errors = self.best.errors
            larger = int(np.argmax(self._scores(errors)))
            # Minimizing a linear function means solving for the weights of its gradient.
            slope = self.problem.criterion.score_gradients(errors, self.problem)[larger]
            fraction = (float(np.arctan2(slope[1], slope[0])) - low) / width
        if not 0 < fraction < 1:
            return sector.chord_normal_angle
        # Keep away from the ends, so that a point is soon enclosed from both sides.
        fraction = float(np.clip(fraction, _MIN_SPLIT_FRACTION, 1 - _MIN_SPLIT_FRACTION))
        return low + width * fraction

    def _sector_bound(self, sector: Sector) -> float:
        """Lower bound on the larger score of all errors in a sector.

        The sector is a segment, or a triangle with the corner of its supporting lines. Scores are
        concave, so they are at least the affine functions with their values at the vertices: the
        bound is the minimum of the larger of these. Errors are nonnegative, so the part of the
        sector outside of the quadrant is clipped.
        """
        vertices = [sector.first.foot, sector.last.foot]
        if sector.corner is not None:
            vertices.insert(1, sector.corner)
        scores = self._scores(clip_to_quadrant(np.array(vertices))).tolist()
        # Clipping may leave a polygon of more vertices: split it into triangles at the first.
        if len(scores) < 3:
            return min_of_max_affine(scores)
        return min(min_of_max_affine([scores[0], *pair]) for pair in pairwise(scores[1:]))


def clip_to_quadrant(corners: FloatArray) -> FloatArray:
    """Clip the (n, 2) corners of a convex polygon to nonnegative errors; return (m, 2) corners.

    If rounding leaves nothing of it, its corners are moved to the quadrant instead.
    """
    vertices = corners
    if corners.min() < 0:
        for normal in np.eye(2):
            vertices = clip_polygon(vertices, normal, 0.0)
    return np.maximum(vertices if len(vertices) else corners, 0.0)
