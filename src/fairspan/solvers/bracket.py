"""Root finding along a segment of weights, with a supporting line of the dual at every point.

The function is the excess of a position over its target, against the weight t (see
:mod:`fairspan.solvers.segment`). It does not decrease, but may jump. It is read off a convex
function, minus the dual, whose value and slope every eigenproblem gives, and its curvature as well
where all eigenvectors are at hand. So a polynomial through all three at three points finds the root
in few steps. Where the boundary has an edge the excess jumps; the lines from both sides then cross
at the jump. So whenever a step was slow, the crossing is tried.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairspan.solvers.hermite import Node, root_of_slope, value_at

FloatArray = npt.NDArray[np.float64]

# A step was slow if the smaller excess shrank to no less than this share of the last one. A
# curvature this many times that of the chord comes from a near tie, and misleads further away. Of
# 2, 3, 4, 6 and any, and of 0.3, 0.6, 0.8 and never, these took the fewest steps on 176 problems of
# real data and as many random ones; without any slow ones, ties took far more.
_SLOW = 0.8
_STEEP = 4.0
# In narrower brackets differences of the dual are rounding, and only the excess is looked at.
_NARROW = 1e-4


@dataclass(frozen=True, eq=False)
class BracketEnd:
    """One evaluated weight.

    Attributes
    ----------
    weight : float
        t, between 0 and 1.
    excess : float
        h.c - target: below zero left of the root, above zero right of it.
    values : tuple of 2 floats
        (t, 1 - t) times these is a cut over the dual.
    curvature : float or None
        Second derivative of minus the dual; None where it is not known, as at a tie.
    """

    weight: float
    excess: float
    values: tuple[float, float]
    curvature: float | None = None

    @property
    def slope(self) -> float:
        """First derivative of minus the dual."""
        return self.values[1] - self.values[0]

    def node(self, steepest: float) -> Node:
        """What is known of minus the dual; curvatures beyond the steepest are left out."""
        t, slope = self.weight, self.slope
        height = t * slope - self.values[1]
        if self.curvature is None or self.curvature > steepest:
            return Node(t, (height, slope))
        return Node(t, (height, slope, self.curvature))


@dataclass
class Bracket:
    """The two evaluated weights nearest to the root, and the one they replaced last.

    Parameters
    ----------
    left, right : BracketEnd
    pole : float or None
        Where a supporting line of the dual shows the excess: minus its height at this weight, or,
        for None, minus its slope.
    """

    left: BracketEnd
    right: BracketEnd
    pole: float | None = None
    replaced: BracketEnd | None = None
    slow: bool = False

    def next_weight(self) -> float | None:
        """A weight strictly inside the bracket; None if float64 has none left."""
        weight = self._proposal()
        if not self.left.weight < weight < self.right.weight:
            weight = (self.left.weight + self.right.weight) / 2
        return weight if self.left.weight < weight < self.right.weight else None

    def narrow(self, end: BracketEnd) -> None:
        """Replace the end on the same side of the root."""
        before = min(-self.left.excess, self.right.excess)
        if end.excess > 0:
            self.replaced, self.right = self.right, end
        else:
            self.replaced, self.left = self.left, end
        # After the crossing the polynomial has its turn in any case.
        self.slow = not self.slow and min(-self.left.excess, self.right.excess) > _SLOW * before

    def _proposal(self) -> float:
        if self.slow:
            return self._crossing()
        if self.right.weight - self.left.weight > _NARROW:
            return self._of_the_dual()
        return self._of_the_excess()

    def _crossing(self) -> float:
        """Where the lines of both ends cross."""
        (a, b), (c, d) = self.left.values, self.right.values
        turn = (a - b) - (c - d)
        return (d - b) / turn if turn else self.left.weight

    def _of_the_dual(self) -> float:
        """The root that a polynomial through everything known of the dual has."""
        left, right = self.left, self.right
        width, rise = right.weight - left.weight, right.slope - left.slope
        steepest = _STEEP * rise / width
        nodes = [left.node(steepest), right.node(steepest)]
        if self.replaced is not None:
            nodes.insert(0, self.replaced.node(steepest))
        secant = left.weight - left.excess * width / (right.excess - left.excess)
        return root_of_slope(nodes, left.weight, right.weight, secant, self.pole)

    def _of_the_excess(self) -> float:
        """Where the polynomial t(excess) is at zero."""
        ends = [self.left, self.right]
        if self.replaced is not None and self.replaced.excess not in (
            self.left.excess,
            self.right.excess,
        ):
            ends.insert(0, self.replaced)
        weight = value_at([self._inverse(end) for end in ends], 0.0)
        if self.left.weight < weight < self.right.weight:
            return weight
        return value_at([Node(end.excess, (end.weight,)) for end in (self.left, self.right)], 0.0)

    def _inverse(self, end: BracketEnd) -> Node:
        rate = self.rate(end)
        return Node(end.excess, (end.weight, 1 / rate) if rate else (end.weight,))

    def rate(self, end: BracketEnd) -> float | None:
        """Derivative of the excess in the weight; None where it is not known."""
        if self.pole is None or end.curvature is None:
            return end.curvature
        return (self.pole - end.weight) * end.curvature
