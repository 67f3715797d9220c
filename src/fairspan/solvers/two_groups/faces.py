"""Geometry of two groups: faces of the achievable set, and the boundary between supporting lines.

Let W be the set of (c_1(V), c_2(V)) over all orthonormal (p, d) bases V. A mixture M = w_1 S_1 +
w_2 S_2 defines the supporting line w.c = t_d(M) of W. If eigenvalue d is simple, it touches W at
one point. If it is tied, it touches along an edge: V contains the eigenvectors above the tie and j
columns from the tied eigenspace E. Rotating one choice of columns into another moves the point
along the edge, so every point of the edge is attained by a basis of rank exactly d, on the geodesic
between the subspaces at its ends. If rounding hides a tie, the geodesic between the subspaces of
two neighboring supporting lines is used instead.

Let (x, y) be the errors of the two groups. Weights w = (cos a, sin a) define the supporting line
w.(x, y) = w.(tr S_1, tr S_2) - t_d(w_1 S_1 + w_2 S_2) of the convex hull of all errors, which it
touches at a point or, if eigenvalue d is tied, along an edge. Between two supporting lines the
boundary lies in the triangle of their contact points and the intersection of the lines: a sector.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import Any, NamedTuple, cast

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

# Tolerance in t, below the resolution of float64, and maximum number of steps of the root search
# along a geodesic: bisection alone takes 57.
_ROOT_XTOL = 1e-17
_ROOT_MAX_ITER = 80
# Supporting lines closer in angle (radians) count as one: their intersection would be rounding
# error.
_ANGLE_TOL = 1e-12
# A subspace whose relative distance from its supporting line is below this touches it; deviations
# below this fraction of the variance are negligible.
_CONTACT_ROUNDING = 1e-14
# In radians.
RIGHT_ANGLE = np.pi / 2
_HALF_RIGHT_ANGLE = np.pi / 4
# Points closer than this fraction of the total variance coincide: rounding error with some
# allowance.
_POINT_TOL = 1e-12
# Eigenvalues count as tied if that changes no score by more than this fraction of the target gap.
_TIE_GAP_FRACTION = 1 / 16
# Splits of a branch and bound; 10 to 30 are common.
_MAX_STEPS = 400
# Minimum distance of a split from the ends, relative to the sector's width.
_MIN_SPLIT_FRACTION = 0.1


def face_endpoints(
    second_moments: SecondMoments,
    weights: FloatArray,
    leading: LeadingSubspace,
) -> tuple[FloatArray, FloatArray]:
    """Leading subspaces of a mixture that capture least and most in a given direction.

    Parameters
    ----------
    weights : (2,) array
        Weights of the groups' captured variances that define the direction (not those of the
        mixture).
    leading : LeadingSubspace
        Leading subspace of the mixture.

    Returns
    -------
    least, most : (p, d) arrays
        Identical if there is no tie.
    """
    if not leading.is_tied:
        return leading.vectors, leading.vectors
    compressed = second_moments.compress(leading.tied_vectors)
    axes = leading.tied_vectors @ np.linalg.eigh(np.tensordot(weights, compressed, axes=1))[1]
    fixed = leading.vectors[:, : leading.n_untied]
    n_free = leading.vectors.shape[1] - leading.n_untied
    least = np.hstack([fixed, axes[:, :n_free]])
    most = np.hstack([fixed, axes[:, -n_free:]])
    return least, most


class GrassmannGeodesic:
    """Geodesic between two subspaces.

    Every continuous function attains all intermediate values along it. Let V and W be orthonormal
    bases with principal angles theta_j (Bjoerck and Golub 1973). With A the principal vectors of V
    and H the orthogonal directions of those of W, A cos(s theta) + H sin(s theta) leads from V (s =
    0) to W (s = 1). If both are optimal for the same mixture, the whole geodesic lies in its tied
    eigenspace and is optimal as well.

    Parameters
    ----------
    start, end : (p, d) arrays
        Orthonormal columns.
    """

    def __init__(self, start: FloatArray, end: FloatArray) -> None:
        left, cosines, right = np.linalg.svd(start.T @ end)
        self._start = start @ left
        residual = end @ right.T - self._start * cosines
        # Orthogonalize twice, so that the residual of a small angle is orthogonal to all of the
        # start.
        residual -= start @ (start.T @ residual)
        sines = np.linalg.norm(residual, axis=0)
        self.angles = np.arctan2(sines, cosines)
        self._directions = residual / np.where(sines > 0, sines, 1.0)

    def basis_at(self, t: float) -> FloatArray:
        """Basis at parameter t in [0, 1], shape (p, d)."""
        angles = t * self.angles
        return np.asarray(self._start * np.cos(angles) + self._directions * np.sin(angles))

    def find_root(
        self,
        function: Callable[[FloatArray], float],
        end_values: tuple[float, float],
        tol: float,
    ) -> FloatArray:
        """Basis at which a function vanishes that is positive at the start and negative at the end.

        Parameters
        ----------
        function : function of a (p, d) basis
        end_values : tuple of 2 floats
            Values of the function at the start and at the end.
        tol : float
            Absolute values up to this count as zero.
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


class SearchResult(NamedTuple):
    """Basis, proof of its bound (or dual weights), number of eigenproblems, trace of the bounds."""

    basis: FloatArray
    proof: Proof | FloatArray
    n_eigenproblems: int
    trace: list[TracePoint]


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
        w = first.weights
        v = last.weights
        chord = last.foot - first.foot
        # If a foot lies beyond the other line, so does the chord, and the boundary is on its inner
        # side.
        is_beyond = v @ chord > 0 or w @ chord < 0
        if angle < _ANGLE_TOL or is_beyond:
            return cls(first, last)
        # In exact arithmetic the limit is inactive, since lines at most 90 degrees apart intersect
        # no further from a point than the other point is; at angles near 1e-12 rounding could
        # exceed it.
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


def supporting_contact(problem: Problem, angle: float, tie_tolerance: float = 0.0) -> EdgeEnds:
    """Both ends of the boundary's contact with the supporting line at an angle."""
    # Make (1, 0), (0, 1) and the like exact.
    weights = np.array([np.cos(angle), np.sin(angle)])
    weights[np.abs(weights) < 1e-15] = 0.0
    leading = problem.second_moments.leading(weights, problem.n_components, tie_tolerance)
    errors = problem.errors(leading.vectors)
    if not leading.is_tied:
        point = BoundaryPoint(angle, weights, leading.vectors, errors, errors)
        return point, point
    along_line = np.array([-weights[1], weights[0]])
    height = float(weights @ errors)
    first_basis, last_basis = face_endpoints(problem.second_moments, along_line, leading)
    first = boundary_point(problem, angle, weights, first_basis, height)
    last = boundary_point(problem, angle, weights, last_basis, height)
    return first, last


def boundary_point(
    problem: Problem, angle: float, weights: FloatArray, basis: FloatArray, height: float
) -> BoundaryPoint:
    """Subspace that touches, or nearly touches, the supporting line w.e = height."""
    errors = problem.errors(basis)
    foot = errors
    distance = float(weights @ errors) - height
    if distance > _CONTACT_ROUNDING * float(np.abs(weights) @ errors):
        foot = errors - distance * weights
    return BoundaryPoint(angle, weights, basis, errors, foot)


def sectors_between(contacts: Sequence[EdgeEnds]) -> list[Sector]:
    """Edges within contacts, and sectors between neighbors, in increasing order of angle."""
    edges = [Sector(first, last) for first, last in contacts if first is not last]
    sectors = [Sector.from_points(before[1], after[0]) for before, after in pairwise(contacts)]
    return edges + sectors


def refine_worst(
    sectors: list[Sector],
    priority: Callable[[Sector], float],
    is_converged: Callable[[float], bool],
    split: Callable[[Sector], list[Sector]],
) -> tuple[list[Sector], float, int]:
    """Split the worst sector repeatedly until the worst remaining one is good enough.

    Returns
    -------
    sectors : list of Sector
        Remaining sectors, in any order.
    worst : float
        Priority of the worst sector.
    n_splits : int
    """
    tie_breaker = count()
    heap: list[tuple[float, int, Sector]] = []
    n_splits = 0
    while True:
        for sector in sectors:
            heappush(heap, (-priority(sector), next(tie_breaker), sector))
        worst = -heap[0][0]
        if is_converged(worst):
            return [sector for _, _, sector in heap], worst, n_splits
        sectors = split(heappop(heap)[2])
        n_splits += 1


def frontier_vertices(
    problem: Problem, max_deviation: float
) -> tuple[tuple[BoundaryPoint, ...], float, int]:
    """Vertices of the Pareto frontier, refined until no sector is higher than `max_deviation`.

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
    points : tuple of m BoundaryPoint
        From the optimum of the first group to that of the second, all distinct.
    max_deviation : float
        Bound on the distance of the curve from the polygon, in units of the errors.
    n_eigenproblems : int
    """
    threshold = max(max_deviation, _CONTACT_ROUNDING * float(problem.second_moments.traces.max()))
    q = problem.proportions

    def split(sector: Sector) -> list[Sector]:
        contact = supporting_contact(problem, sector.chord_normal_angle)
        return sectors_between([(sector.first,) * 2, contact, (sector.last,) * 2])

    first = supporting_contact(problem, 0.0)
    # Ordinary PCA lies on the frontier and becomes a vertex.
    pooled = supporting_contact(problem, float(np.arctan2(q[1], q[0])))
    last = supporting_contact(problem, RIGHT_ANGLE)
    # Of an edge at an end, only the end with the smaller error of the other group is Pareto
    # optimal.
    sectors, highest, n_splits = refine_worst(
        sectors_between([(first[1],) * 2, pooled, (last[0],) * 2]),
        lambda sector: sector.height,
        lambda height: height <= threshold,
        split,
    )
    # Ordered along the curve; a corner touched at many angles is kept once.
    points = {point for sector in sectors for point in (sector.first, sector.last)}
    ordered = sorted(points, key=lambda point: (point.angle, *point.errors * (1, -1)))
    vertices = [ordered[0]]
    tol = _POINT_TOL * problem.total_variance
    for point in ordered[1:]:
        step = point.errors - vertices[-1].errors
        if step[0] > tol or step[1] < -tol:
            vertices.append(point)
        elif point is ordered[-1] and len(vertices) > 1:
            # The end keeps its own weights, which prove the optimum of the second group.
            vertices[-1] = point
    return tuple(vertices), highest, 3 + n_splits


class BranchAndBound:
    """Branch and bound for the robust error gap of two groups: a maximum of concave functions.

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
        self.upper = self.target_gap = np.inf
        self.lower = -np.inf
        self.supporting_weights: list[FloatArray] = []
        self.trace: list[TracePoint] = []

    def run(self) -> SearchResult:
        """Split the sector with the smallest bound until the gap is closed."""
        penalty = cast(ErrorGap, self.problem.criterion).penalty
        q = self.problem.proportions
        pooled = float(np.arctan2(q[1], q[0]))
        # The initial lines are at most 45 degrees apart, over the arc that contains the optimum. If
        # a group's error has a negative weight, this arc extends beyond the Pareto frontier, which
        # is the arc from 0 to 90 degrees.
        has_wide_gap = not _HALF_RIGHT_ANGLE / 2 < pooled < RIGHT_ANGLE - _HALF_RIGHT_ANGLE / 2
        angles = {0.0, pooled, RIGHT_ANGLE}
        if has_wide_gap:
            angles.add(_HALF_RIGHT_ANGLE)
        if penalty > q[1]:
            angles.add(-_HALF_RIGHT_ANGLE)
        if penalty > q[0]:
            angles.add(RIGHT_ANGLE + _HALF_RIGHT_ANGLE)
        sectors = sectors_between([self._add_contact(angle) for angle in sorted(angles)])
        refine_worst(
            sectors, lambda sector: -self._sector_bound(sector), self._is_closed, self._split
        )
        lines = np.array(self.supporting_weights)
        proof = SupportingLinesProof(self.best.weights, lines)
        return SearchResult(self.best.basis, proof, len(lines), self.trace)

    def _is_closed(self, negative_bound: float) -> bool:
        """Whether the best value meets the smallest sector bound, passed with negative sign."""
        self.lower = min(-negative_bound, self.upper)
        self.trace.append(TracePoint(len(self.supporting_weights), self.lower, self.upper))
        return self.upper - self.lower <= self.target_gap or len(self.trace) > _MAX_STEPS

    def _add_contact(self, angle: float) -> EdgeEnds:
        """Contact with the supporting line at an angle, recorded."""
        contact = supporting_contact(self.problem, angle, self._tie_tolerance())
        self.supporting_weights.append(contact[0].weights)
        for point in dict.fromkeys(contact):
            self._update_best(point)
        return contact

    def _tie_tolerance(self) -> float:
        """Distance within which eigenvalues count as tied.

        Close eigenvalues count as tied if that changes no score near the best point by much of the
        target gap. Small errors and large penalties make scores steep. The target gap is relative
        to the best value so far, which may be 1e10 times the optimum after the first line in the
        presence of a large column: an edge of that width would never be narrowed, so the tolerance
        is relative to the proven bound.
        """
        if self.lower <= 0:
            return 0.0
        slopes = self.problem.criterion.score_gradients(self.best.errors, self.problem)
        max_slope = float(np.abs(slopes).sum(axis=1).max())
        proven_target_gap = self.target_gap * (self.lower / self.upper)
        return _TIE_GAP_FRACTION * proven_target_gap / (self.problem.n_components * max_slope)

    def _update_best(self, point: BoundaryPoint) -> None:
        """Keep a point if it is the best so far, and update the target gap."""
        value = max(self._scores(point.errors))
        if value < self.upper:
            self.upper = value
            self.best = point
            errors, roundings = errors_and_rounding(self.problem, point.basis)
            # The square root amplifies the rounding error of small errors.
            rounding = self.problem.criterion.rounding_bound(roundings, errors, self.problem)
            self.target_gap = max(target_gap(self.problem, errors, self.tol), rounding / 2)

    def _split(self, sector: Sector) -> list[Sector]:
        """Parts of a sector, split at a new point of the boundary."""
        first = sector.first
        last = sector.last
        if first.angle < last.angle:
            contact = self._add_contact(self._split_angle(sector))
            return sectors_between([(first, first), contact, (last, last)])
        # Both points lie on one supporting line, and so does the geodesic between them.
        basis = GrassmannGeodesic(first.basis, last.basis).basis_at(0.5)
        height = float(first.weights @ first.foot)
        point = boundary_point(self.problem, first.angle, first.weights, basis, height)
        self._update_best(point)
        return [Sector(first, point), Sector(point, last)]

    def _scores(self, errors: FloatArray) -> Any:
        """Both scores at one point, or a row of them for each of several points."""
        return self.problem.criterion.scores(errors, self.problem).tolist()

    def _split_angle(self, sector: Sector) -> float:
        """Angle at which to split a sector.

        If the larger score changes, it is the angle at which the scores cross; otherwise that at
        which the larger one is smallest, linearized at the best point. If the angle is outside the
        sector, it is that of the chord's normal.
        """
        ends = np.array([sector.first.errors, sector.last.errors])
        (first_score, first_other), (last_score, last_other) = self._scores(ends)
        first_difference = first_score - first_other
        last_difference = last_score - last_other
        low = sector.first.angle
        width = sector.last.angle - sector.first.angle
        if first_difference * last_difference < 0:
            fraction = first_difference / (first_difference - last_difference)
        else:
            errors = self.best.errors
            larger = int(np.argmax(self._scores(errors)))
            slope = self.problem.criterion.score_gradients(errors, self.problem)[larger]
            fraction = (float(np.arctan2(slope[1], slope[0])) - low) / width
        if not 0 < fraction < 1:
            return sector.chord_normal_angle
        # Keep away from the ends, so that a point is soon enclosed from both sides.
        fraction = float(np.clip(fraction, _MIN_SPLIT_FRACTION, 1 - _MIN_SPLIT_FRACTION))
        return low + width * fraction

    def _sector_bound(self, sector: Sector) -> float:
        """Lower bound on the largest score on a sector."""
        vertices = [sector.first.foot, sector.last.foot]
        if sector.corner is not None:
            vertices.insert(1, sector.corner)
        scores = self._scores(clip_to_quadrant(np.array(vertices)))
        if len(scores) < 3:
            return min_of_max_affine(scores)
        return min(min_of_max_affine([scores[0], *pair]) for pair in pairwise(scores[1:]))


def clip_to_quadrant(corners: FloatArray) -> FloatArray:
    """Clip a convex polygon to nonnegative errors.

    If rounding leaves nothing of it, its corners are moved to the quadrant instead.
    """
    vertices = corners
    if corners.min() < 0:
        for normal in np.eye(2):
            vertices = clip_polygon(vertices, normal, 0.0)
    return np.maximum(vertices if len(vertices) else corners, 0.0)
