"""Two groups: the lower-left boundary of their errors, in points and the sectors between them.

Let (x, y) be the errors of the two groups. Weights w = (cos a, sin a) touch the convex hull of all
errors along the line w.(x, y) = w.(tr S_1, tr S_2) - t_d(w_1 S_1 + w_2 S_2), at a point or, where
eigenvalue d is tied, along an edge. Between the lines at two angles the boundary lies in the
triangle of their points and the crossing of the lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fairspan.problem.problem import Problem
from fairspan.solvers.two_groups.contact import Face
from fairspan.typing import FloatArray

# Lines closer in angle than this (radians) are taken as one: their crossing is rounding.
_SAME_ANGLE = 1e-12
# A subspace that misses its supporting line by less than this share of its errors touches it.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class BoundaryPoint:
    """A subspace on the boundary.

    Attributes
    ----------
    angle : float
        Of its supporting weights, in radians; it grows with the weight of the second group.
    face : Face
        All subspaces on the supporting line, ordered along the boundary.
    position : float
        Which of them.
    errors : (2,) array
    foot : (2,) array
        The errors moved onto the supporting line. They lie on it, unless the face holds eigenvalues
        that were only taken as tied.
    """

    angle: float
    face: Face
    position: float
    errors: FloatArray
    foot: FloatArray

    @property
    def basis(self) -> FloatArray:
        """The (p, d) basis."""
        return self.face.basis_at(self.position)


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
    corner: FloatArray | None

    @property
    def is_edge(self) -> bool:
        """Whether both points lie on one supporting line."""
        return self.first.face is self.last.face

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
    def chord_angle(self) -> float:
        """Angle of the weights at right angles to the chord; the middle if rounding hides it."""
        chord = self.last.errors - self.first.errors
        angle = float(np.arctan2(chord[0], -chord[1]))
        inside = self.first.angle < angle < self.last.angle
        return angle if inside else (self.first.angle + self.last.angle) / 2


def weights_at(angle: float) -> FloatArray:
    """(cos a, sin a), exactly (1, 0), (0, 1) or the like where the angle is meant to be."""
    weights = np.array([np.cos(angle), np.sin(angle)])
    weights[np.abs(weights) < 1e-15] = 0.0
    return weights


def points_at(
    problem: Problem, angle: float, tie_tolerance: float
) -> tuple[BoundaryPoint, BoundaryPoint]:
    """Both ends of the boundary's contact with one supporting line; the same twice at a point."""
    weights = weights_at(angle)
    leading = problem.second_moments.leading(weights, problem.n_components, tie_tolerance)
    along = np.array([-weights[1], weights[0]])
    face = Face.of(problem.second_moments, weights, leading, along)
    first = point_on(problem, angle, face, face.low)
    return first, first if face.low == face.high else point_on(problem, angle, face, face.high)


def point_on(problem: Problem, angle: float, face: Face, position: float) -> BoundaryPoint:
    """The point at a position of a face."""
    basis = face.basis_at(position)
    errors = problem.errors(basis)
    foot = errors
    if face.leading.is_tied:
        weights, least = face.weights, problem.errors(face.leading.vectors)
        missed = float(weights @ (errors - least))
        if missed > _ROUNDING * float(np.abs(weights) @ errors):
            foot = errors - missed * weights
    return BoundaryPoint(angle, face, position, errors, foot)


def sector_between(first: BoundaryPoint, last: BoundaryPoint) -> Sector:
    """The sector of two points in the order of their angles."""
    turn = last.angle - first.angle
    if turn < _SAME_ANGLE:
        return Sector(first, last, None)
    w, v = first.face.weights, last.face.weights
    chord = last.foot - first.foot
    if v @ chord > 0 or w @ chord < 0:
        # A foot lies beyond the other line, and so does the chord: the boundary is behind it.
        return Sector(first, last, None)
    along = np.array([-w[1], w[0]])
    # In exact arithmetic the limit is not passed, since lines at most 90 degrees apart cross no
    # further from a point than the other point is; at angles of 1e-12 rounding would.
    back = min(-float(v @ chord) / np.sin(turn), float(np.hypot(*chord)))
    return Sector(first, last, first.foot - back * along)


def sectors_through(
    contacts: Sequence[tuple[BoundaryPoint, BoundaryPoint]],
) -> list[Sector]:
    """Sectors between neighbouring contacts in the order of their angles, and edges within them."""
    edges = [Sector(first, last, None) for first, last in contacts if first is not last]
    return edges + [sector_between(a[1], b[0]) for a, b in pairwise(contacts)]
