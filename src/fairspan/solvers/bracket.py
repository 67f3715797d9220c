"""Root finding for a non-decreasing function that may jump, with a supporting cut at every point.

The function is a position h.c less its target, against the weight t (see
:mod:`fairspan.solvers.segment`). Where the boundary of the trade-off is a smooth arc it is smooth,
and inverse quadratic interpolation converges fastest. Where the boundary has an edge it jumps; the
cuts from both sides then cross exactly at the jump. So interpolation is tried first, and the
crossing whenever it was slow.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

# Interpolation is slow if the smaller excess shrank to no less than this share of the last one.
# Of 0.1, 0.3 and always alternating, 0.3 took the fewest steps on 185 problems of real data.
_SLOW = 0.3


@dataclass(frozen=True, eq=False)
class BracketEnd:
    """One evaluated weight.

    Attributes
    ----------
    weight : float
        t, between 0 and 1.
    excess : float
        h.c - target: below zero left of the root, above zero right of it.
    values : (2,) array
        (t, 1 - t) times these is a cut over the dual.
    """

    weight: float
    excess: float
    values: FloatArray


@dataclass
class Bracket:
    """The two evaluated weights nearest to the root, and the one they replaced last."""

    left: BracketEnd
    right: BracketEnd
    replaced: BracketEnd | None = None
    slow: bool = False
    tried_crossing: bool = False

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
        self.slow = min(-self.left.excess, self.right.excess) > _SLOW * before

    def _proposal(self) -> float:
        self.tried_crossing = self.slow and not self.tried_crossing
        if self.tried_crossing:
            return self._crossing()
        return self._inverse_quadratic()

    def _crossing(self) -> float:
        """Where the cuts of both ends cross."""
        left, right = self.left.values, self.right.values
        return float((right[1] - left[1]) / ((left[0] - left[1]) - (right[0] - right[1])))

    def _inverse_quadratic(self) -> float:
        """Zero of the parabola t(excess) through three points; of the line through two."""
        (a, fa), (b, fb) = ((end.weight, end.excess) for end in (self.left, self.right))
        secant = a - fa * (b - a) / (fb - fa)
        if self.replaced is None or self.replaced.excess in (fa, fb):
            return secant
        c, fc = self.replaced.weight, self.replaced.excess
        root = (
            a * fb * fc / ((fa - fb) * (fa - fc))
            + b * fa * fc / ((fb - fa) * (fb - fc))
            + c * fa * fb / ((fc - fa) * (fc - fb))
        )
        return root if a < root < b else secant
