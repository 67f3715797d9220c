"""Two groups: what a supporting line touches, and the boundary between such lines.

Let W be the set of (c_1(V), c_2(V)) over all orthonormal (p, d) bases V. A mixture M = w_1 S_1 +
w_2 S_2 gives the line w.c = t_d(M), which W touches. Without a tie at eigenvalue d it does so at
one point. With a tie it touches along an edge: V keeps the eigenvectors above the tie and picks j
columns inside the tied eigenspace E. Turning one such pick into another moves the point along the
edge without leaving it, so every point of the edge belongs to a basis of rank exactly d, on the
path between the subspaces at its ends. Where rounding hides a tie, the path between the subspaces
of two neighbouring supporting lines takes its place.

Let (x, y) be the errors of the two groups. Weights w = (cos a, sin a) touch the convex hull of all
errors along the line w.(x, y) = w.(tr S_1, tr S_2) - t_d(w_1 S_1 + w_2 S_2), at a point or, where
eigenvalue d is tied, along an edge. Between the lines at two angles the boundary lies in the
triangle of their points and the crossing of the lines: a sector.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import Any, cast

import numpy as np
import scipy

from fairspan.certificates.certificate import TracePoint, errors_and_rounding, target_gap
from fairspan.certificates.proofs import (
    Proof,
    SupportingLinesProof,
    clip_polygon,
    min_of_max_affine,
)
from fairspan.linalg import LeadingSubspace
from fairspan.moments.operators import SecondMoments
from fairspan.problem.criteria import ErrorGap
from fairspan.problem.problem import Problem
from fairspan.typing import FloatArray

# Shares of a path nearer to each other than this are one.
_ROOT_XTOL, _ROOT_MAX_ITER = 1e-17, 80
# Lines closer in angle than this (radians) are taken as one: their crossing is rounding.
_ANGLE_TOL = 1e-12
# A subspace that misses its supporting line by less than this share of its errors touches it, and
# heights below this share of the variance are rounding.
_CONTACT_ROUNDING = 1e-14
RIGHT_ANGLE = np.pi / 2
# Points nearer than this share of the total variance are one: rounding, times some room.
_POINT_TOL = 1e-12
_HALF_RIGHT_ANGLE = np.pi / 4
_TIE_GAP_SHARE = 1 / 16
_MAX_STEPS = 400
# Of a sector's width: it is split no nearer to an end.
_MIN_SPLIT_FRACTION = 0.1


def face_endpoints(
    second_moments: SecondMoments,
    weights: FloatArray,
    leading: LeadingSubspace,
) -> tuple[FloatArray, FloatArray]:
    """Of all leading subspaces of one mixture, those that capture least and most along a direction.

    Parameters
    ----------
    weights : (2,) array
        h: how much the captured variance of each group counts, not as in the mixture.
    leading : LeadingSubspace
        Of the mixture.

    Returns
    -------
    least, most : (p, d) arrays
        The same twice without a tie.
    """
    if not leading.is_tied:
        return leading.vectors, leading.vectors
    compressed = second_moments.compress(leading.tied_vectors)
    axes = leading.tied_vectors @ np.linalg.eigh(np.tensordot(weights, compressed, axes=1))[1]
    fixed = leading.vectors[:, : leading.n_untied]
    n_free = leading.vectors.shape[1] - leading.n_untied
    least, most = (np.hstack([fixed, each]) for each in (axes[:, :n_free], axes[:, -n_free:]))
    return least, most


class GrassmannGeodesic:
    """The shortest path from one subspace to another: every quantity in between is met on the way.

    Let V and W be orthonormal bases whose principal angles are theta_j (Bjoerck and Golub 1973).
    With A the principal vectors of V and H the directions in which those of W lie, A cos(s theta) +
    H sin(s theta) leads from V (s = 0) to W (s = 1). Where both are optimal for the same mixture,
    the whole path lies in its tied eigenspace and is optimal as well.

    Parameters
    ----------
    start, end : (p, d) arrays
        Orthonormal columns.
    """

    def __init__(self, start: FloatArray, end: FloatArray) -> None:
        left, cosines, right = np.linalg.svd(start.T @ end)
        self._start = start @ left
        residual = end @ right.T - self._start * cosines
        # Twice, so that what is left of a small angle is orthogonal to all of the start.
        residual -= start @ (start.T @ residual)
        sines = np.linalg.norm(residual, axis=0)
        self.angles = np.arctan2(sines, cosines)
        self._directions = residual / np.where(sines > 0, sines, 1.0)

    def basis_at(self, t: float) -> FloatArray:
        """The (p, d) basis at a share of the way."""
        turned = t * self.angles
        return np.asarray(self._start * np.cos(turned) + self._directions * np.sin(turned))

    def find_root(
        self,
        function: Callable[[FloatArray], float],
        end_values: tuple[float, float],
        tol: float,
    ) -> FloatArray:
        """A basis at which a function is zero that is positive at the start, negative at the end.

        Parameters
        ----------
        function : function of a (p, d) basis
        ends : tuple of 2 floats
            Its values at the start and at the end.
        enough : float
            Absolute values up to this are taken as zero.
        """
        known = dict(enumerate(end_values))

        def value_at(t: float) -> float:
            value = known[int(t)] if t in known else function(self.basis_at(t))
            return 0.0 if abs(value) <= tol else value

        t = scipy.optimize.brentq(
            value_at, 0.0, 1.0, xtol=_ROOT_XTOL, maxiter=_ROOT_MAX_ITER, disp=False
        )
        return np.asarray(np.linalg.qr(self.basis_at(t))[0])


@dataclass(frozen=True, eq=False)
class BoundaryPoint:
    """A subspace on the boundary.

    Attributes
    ----------
    angle : float
        Of its supporting weights, in radians; it grows with the weight of the second group.
    weights : (2,) array
        w, the normal of the supporting line.
    basis : (p, d) array
    errors : (2,) array
    foot : (2,) array
        The errors moved onto the supporting line. They lie on it, unless the face holds eigenvalues
        that were only taken as tied.
    """

    angle: float
    weights: FloatArray
    basis: FloatArray
    errors: FloatArray
    foot: FloatArray


# What a search found: a basis, its proof, the number of eigenproblems, and the bounds on the way.
SearchResult = tuple[FloatArray, Proof | FloatArray, int, list[TracePoint]]
# Both ends of the boundary's contact with one supporting line; the same twice at a point.
EdgeEnds = tuple[BoundaryPoint, BoundaryPoint]


@dataclass(frozen=True, eq=False)
class Sector:
    """The boundary between two points.

    Attributes
    ----------
    first, last : BoundaryPoint
        first.angle <= last.angle.
    corner : (2,) array or None
        Crossing of both supporting lines; None where the boundary is not beyond the chord of the
        feet.
    """

    first: BoundaryPoint
    last: BoundaryPoint
    corner: FloatArray | None = None

    @classmethod
    def from_points(cls, first: BoundaryPoint, last: BoundaryPoint) -> "Sector":
        """The sector of two points in the order of their angles."""
        angle = last.angle - first.angle
        w, v = first.weights, last.weights
        chord = last.foot - first.foot
        # Where a foot lies beyond the other line, so does the chord: the boundary is behind it.
        if angle < _ANGLE_TOL or v @ chord > 0 or w @ chord < 0:
            return cls(first, last)
        # In exact arithmetic the limit is not passed, since lines at most 90 degrees apart cross no
        # further from a point than the other point is; at angles of 1e-12 rounding would.
        length, sine = float(np.hypot(*chord)), np.sin(angle)
        # From the foot with the smaller errors: far out, both lines are rounded by more than it.
        if last.foot[0] + last.foot[1] < first.foot[0] + first.foot[1]:
            ahead = min(float(w @ chord) / sine, length)
            return cls(first, last, last.foot + ahead * np.array([-v[1], v[0]]))
        distance = min(-float(v @ chord) / sine, length)
        return cls(first, last, first.foot - distance * np.array([-w[1], w[0]]))

    @property
    def height(self) -> float:
        """Distance of the corner from the chord: how far the boundary may be from it."""
        if self.corner is None:
            return 0.0
        chord, arm = self.last.foot - self.first.foot, self.corner - self.first.foot
        length = float(np.hypot(*chord))
        if length == 0:
            return float(np.hypot(*arm))
        return abs(float(chord[0] * arm[1] - chord[1] * arm[0])) / length

    @property
    def chord_normal_angle(self) -> float:
        """Angle of the weights at right angles to the chord; the middle if rounding hides it."""
        chord = self.last.errors - self.first.errors
        angle = float(np.arctan2(chord[0], -chord[1]))
        inside = self.first.angle < angle < self.last.angle
        return angle if inside else (self.first.angle + self.last.angle) / 2


def supporting_contact(problem: Problem, angle: float, tie_tolerance: float = 0.0) -> EdgeEnds:
    """Both ends of the boundary's contact with the supporting line at an angle."""
    # Exactly (1, 0), (0, 1) or the like where the angle is meant to be.
    weights = np.array([np.cos(angle), np.sin(angle)])
    weights[np.abs(weights) < 1e-15] = 0.0
    leading = problem.second_moments.leading(weights, problem.n_components, tie_tolerance)
    errors = problem.errors(leading.vectors)
    if not leading.is_tied:
        point = BoundaryPoint(angle, weights, leading.vectors, errors, errors)
        return point, point
    ordered, height = np.array([-weights[1], weights[0]]), float(weights @ errors)
    bases = face_endpoints(problem.second_moments, ordered, leading)
    first, last = (boundary_point(problem, angle, weights, each, height) for each in bases)
    return first, last


def boundary_point(
    problem: Problem, angle: float, weights: FloatArray, basis: FloatArray, height: float
) -> BoundaryPoint:
    """A subspace that touches the supporting line w.e = height, or nearly so."""
    foot = errors = problem.errors(basis)
    missed = float(weights @ errors) - height
    if missed > _CONTACT_ROUNDING * float(np.abs(weights) @ errors):
        foot = errors - missed * weights
    return BoundaryPoint(angle, weights, basis, errors, foot)


def sectors_between(contacts: Sequence[EdgeEnds]) -> list[Sector]:
    """Sectors between neighbouring contacts in the order of their angles, and edges within them."""
    edges = [Sector(first, last) for first, last in contacts if first is not last]
    return edges + [Sector.from_points(a[1], b[0]) for a, b in pairwise(contacts)]


def refine_worst(
    sectors: list[Sector],
    priority: Callable[[Sector], float],
    is_converged: Callable[[float], bool],
    split: Callable[[Sector], list[Sector]],
) -> tuple[list[Sector], float, int]:
    """Split the worst sector, one after the other, until the worst that is left is good enough.

    Returns
    -------
    sectors : list of Sector
        What is left, in any order.
    worst : float
        The badness of the worst.
    n_splits : int
    """
    tie_breaker, heap, n_splits = count(), list[tuple[float, int, Sector]](), 0
    while True:
        for each in sectors:
            heappush(heap, (-priority(each), next(tie_breaker), each))
        if is_converged(-heap[0][0]):
            return [sector for _, _, sector in heap], -heap[0][0], n_splits
        sectors = split(heappop(heap)[2])
        n_splits += 1


def frontier_vertices(
    problem: Problem, max_deviation: float
) -> tuple[tuple[BoundaryPoint, ...], float, int]:
    """Sample the frontier until no triangle is higher than `height`.

    The highest triangle is split along the direction of its chord, which touches the curve where it
    is furthest from the chord. Along an edge that direction meets the edge itself and gives both
    its ends.

    Parameters
    ----------
    problem : Problem
        Of two groups; its criterion plays no part.
    height : float
        In squared units of the features; at least what float64 can resolve is taken.

    Returns
    -------
    points : tuple of m BoundaryPoint
        From the optimum of the first group to that of the second, each different from the last.
    max_deviation : float
        The curve is nowhere further from the polygon than this, in units of the errors.
    n_eigenproblems : int
    """
    threshold = max(max_deviation, _CONTACT_ROUNDING * float(problem.second_moments.traces.max()))
    q = problem.proportions

    def split(sector: Sector) -> list[Sector]:
        contact = supporting_contact(problem, sector.chord_normal_angle)
        return sectors_between([(sector.first,) * 2, contact, (sector.last,) * 2])

    # Ordinary PCA lies on the frontier, and is a vertex of its own.
    first, pooled, last = (
        supporting_contact(problem, angle)
        for angle in (0.0, float(np.arctan2(q[1], q[0])), RIGHT_ANGLE)
    )
    # Of an edge at an end, only the point where the other group has the least error is Pareto.
    sectors, highest, n_splits = refine_worst(
        sectors_between([(first[1],) * 2, pooled, (last[0],) * 2]),
        lambda sector: sector.height,
        lambda max_deviation: max_deviation <= threshold,
        split,
    )
    # Along the curve; where many angles touch one corner, it comes once.
    points = {point for sector in sectors for point in (sector.first, sector.last)}
    ordered = sorted(points, key=lambda each: (each.angle, *each.errors * (1, -1)))
    vertices, tol = [ordered[0]], _POINT_TOL * problem.total_variance
    for point in ordered[1:]:
        step = point.errors - vertices[-1].errors
        if step[0] > tol or step[1] < -tol:
            vertices.append(point)
        elif point is ordered[-1] and len(vertices) > 1:
            # The end keeps its own weights: they prove the optimum of the second group.
            vertices[-1] = point
    return tuple(vertices), highest, 3 + n_splits


class BranchAndBound:
    """Robust error gap of two groups: global minimum of a largest of concave functions.

    On each sector every score is at least the affine function through its values at the vertices,
    since it is concave there. The least of the larger of these affine functions is found at a
    vertex or where two of them cross on a side. The sector with the least bound is split until the
    least bound meets the best value.

    It is split along the chord, which reaches the boundary where it is furthest from the chord.
    Near the best point, where the scores are smooth and concave, the least of their linearisation
    is the next point: for one score the angle of its gradient, for two the angle at which they
    agree.

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
        self.problem, self.tol = problem, tol
        self.upper = self.target_gap = np.inf
        self.lower = -np.inf
        self.supporting_weights, self.trace = list[FloatArray](), list[TracePoint]()

    def run(self) -> SearchResult:
        """Split the sector of least bound until the gap is closed."""
        penalty, q = cast(ErrorGap, self.problem.criterion).penalty, self.problem.proportions
        pooled = float(np.arctan2(q[1], q[0]))
        # The first lines are at most 45 degrees apart, over the arc on which the optimum lies. A
        # criterion that weighs a group's error negatively may reach beyond the Pareto frontier,
        # which is the arc from 0 to 90 degrees.
        has_wide_gap = not _HALF_RIGHT_ANGLE / 2 < pooled < RIGHT_ANGLE - _HALF_RIGHT_ANGLE / 2
        extra_angles = {
            _HALF_RIGHT_ANGLE: has_wide_gap,
            -_HALF_RIGHT_ANGLE: penalty > q[1],
            RIGHT_ANGLE + _HALF_RIGHT_ANGLE: penalty > q[0],
        }
        angles = {
            0.0,
            pooled,
            RIGHT_ANGLE,
            *(angle for angle in extra_angles if extra_angles[angle]),
        }
        sectors = sectors_between([self._add_contact(angle) for angle in sorted(angles)])
        refine_worst(sectors, lambda each: -self._sector_bound(each), self._is_closed, self._split)
        lines = np.array(self.supporting_weights)
        proof = SupportingLinesProof(self.best.weights, lines)
        return self.best.basis, proof, len(lines), self.trace

    def _is_closed(self, least_bound: float) -> bool:
        """Whether the least bound, with its sign turned, meets the best value."""
        self.lower = min(-least_bound, self.upper)
        self.trace.append(TracePoint(len(self.supporting_weights), self.lower, self.upper))
        return self.upper - self.lower <= self.target_gap or len(self.trace) > _MAX_STEPS

    def _add_contact(self, angle: float) -> EdgeEnds:
        contact = supporting_contact(self.problem, angle, self._tie_tolerance())
        self.supporting_weights.append(contact[0].weights)
        for point in dict.fromkeys(contact):
            self._update_best(point)
        return contact

    def _tie_tolerance(self) -> float:
        """Return the distance within which eigenvalues are taken as tied.

        It moves no score at the best by much of the goal. A small error has a steep score, and a
        large penalty makes any steep. The goal is a share of the best value so far, which may be
        1e10 times the optimum after a first line beside a large column: an edge of that width would
        never be narrowed, so the tolerance is for the value that is proven so far.
        """
        if self.lower <= 0:
            return 0.0
        slopes = self.problem.criterion.score_gradients(self.best.errors, self.problem)
        steepest = float(np.abs(slopes).sum(axis=1).max())
        goal_at_lower = self.target_gap * (self.lower / self.upper)
        return _TIE_GAP_SHARE * goal_at_lower / (self.problem.n_components * steepest)

    def _update_best(self, point: BoundaryPoint) -> None:
        value = max(self._scores(point.errors))
        if value < self.upper:
            self.upper, self.best = value, point
            errors, roundings = errors_and_rounding(self.problem, point.basis)
            # The root of a small error makes much of its rounding.
            rounding = self.problem.criterion.rounding_bound(roundings, errors, self.problem)
            self.target_gap = max(target_gap(self.problem, errors, self.tol), rounding / 2)

    def _split(self, sector: Sector) -> list[Sector]:
        first, last = sector.first, sector.last
        if first.angle < last.angle:
            contact = self._add_contact(self._split_angle(sector))
            return sectors_between([(first, first), contact, (last, last)])
        # Both lie on one supporting line, and so does the path between them.
        basis = GrassmannGeodesic(first.basis, last.basis).basis_at(0.5)
        height = float(first.weights @ first.foot)
        point = boundary_point(self.problem, first.angle, first.weights, basis, height)
        self._update_best(point)
        return [Sector(first, point), Sector(point, last)]

    def _scores(self, errors: FloatArray) -> Any:
        """Both scores at one point, or a row of them for each of several."""
        return self.problem.criterion.scores(errors, self.problem).tolist()

    def _split_angle(self, sector: Sector) -> float:
        """Where to split: where the other score becomes the larger one, or the larger one is least.

        The latter if it is replaced by its tangent at the best point; where that is not inside, the
        chord decides.
        """
        (a, b), (c, d) = self._scores(np.array([sector.first.errors, sector.last.errors]))
        low, width = sector.first.angle, sector.last.angle - sector.first.angle
        if (a - b) * (c - d) < 0:
            share = (a - b) / (a - b - (c - d))
        else:
            errors = self.best.errors
            larger = int(np.argmax(self._scores(errors)))
            slope = self.problem.criterion.score_gradients(errors, self.problem)[larger]
            share = (float(np.arctan2(slope[1], slope[0])) - low) / width
        if not 0 < share < 1:
            return sector.chord_normal_angle
        # Not too near an end, so that a point is soon enclosed from both sides.
        return low + width * float(np.clip(share, _MIN_SPLIT_FRACTION, 1 - _MIN_SPLIT_FRACTION))

    def _sector_bound(self, sector: Sector) -> float:
        """Lower bound of the largest score on a sector."""
        feet = [sector.first.foot, sector.last.foot]
        if sector.corner is not None:
            feet.insert(1, sector.corner)
        scores = self._scores(clip_to_quadrant(np.array(feet)))
        if len(scores) < 3:
            return min_of_max_affine(scores)
        return min(min_of_max_affine([scores[0], *pair]) for pair in pairwise(scores[1:]))


def clip_to_quadrant(corners: FloatArray) -> FloatArray:
    """The part of a convex polygon where neither error is negative.

    Where rounding leaves nothing of it, its corners are moved there.
    """
    vertices = corners
    if corners.min() < 0:
        for normal in np.eye(2):
            vertices = clip_polygon(vertices, normal, 0.0)
    return np.maximum(vertices if len(vertices) else corners, 0.0)
