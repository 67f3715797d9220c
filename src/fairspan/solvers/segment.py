"""Two groups: finding where a position along the boundary of the trade-off meets a target.

A segment of weights w(t), t from 0 to 1, walks along the boundary of conv W, W the set of
(c_1(V), c_2(V)): one eigenproblem a step. The position h.c does not decrease on the way. Where it
jumps over the target, the leading subspace is tied, and the edge between both sides is walked along
(:mod:`fairspan.solvers.face`). What is asked is a :class:`fairspan.solvers.questions.Question`.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fairspan.linalg import LeadingSubspace
from fairspan.moments.operators import SecondMoments
from fairspan.problem.spectrum import Spectra
from fairspan.solvers.bracket import Bracket, BracketEnd
from fairspan.solvers.face import Face
from fairspan.solvers.questions import Question, Worth
from fairspan.solvers.solution import TracePoint
from fairspan.solvers.touching import SMALL_TURN, Segment, Touch

FloatArray = npt.NDArray[np.float64]

# Near-ties count as ties up to this share of the gap to reach for each component, so that a nearly
# flat edge is walked along instead of bisected down to rounding.
_TIE_SHARE = 1 / 16
# Bisection alone would reach float64's resolution in 53 steps.
_MAX_STEPS = 120
# Turning a basis onto the target: each correction gains the digits that the step has.
_MOST_CORRECTIONS = 4


@dataclass
class SegmentSearch:
    """The best subspace and the best bound so far.

    Parameters
    ----------
    second_moments : SecondMoments
        Of two groups.
    n_components : int
    question : Question
    tolerance : float
        The gap to reach, absolute.
    share : float
        The gap to reach as a share of the value, if that is less: one column of large numbers can
        make the total variance exceed every loss by far, and a gap that is small beside the total
        may then still be larger than the loss of ordinary PCA.
    resolution : float
        Gaps below it are rounding.
    spectra : Spectra, optional
        What is known of these second moments.
    """

    second_moments: SecondMoments
    n_components: int
    question: Question
    tolerance: float
    share: float
    resolution: float
    spectra: Spectra | None = None
    n_eigenproblems: int = 0
    lower: float = -np.inf
    best: Worth = field(default_factory=lambda: Worth(np.inf, np.inf, (np.inf, np.inf), -np.inf))
    weights: FloatArray = field(default_factory=lambda: np.empty(2))
    basis: FloatArray = field(default_factory=lambda: np.empty(0))
    trace: list[TracePoint] = field(default_factory=list)

    @cached_property
    def _segment(self) -> Segment:
        spectra = self.spectra or Spectra(self.second_moments)
        return Segment(spectra, self.n_components, self.question.ends)

    @property
    def goal(self) -> float:
        """The gap to reach."""
        return max(min(self.tolerance, self.share * abs(self.best.value)), self.resolution)

    @property
    def closed(self) -> bool:
        """Whether the best subspace is proven as good as can be asked for."""
        meets = self.best.violation <= self.resolution
        return meets and self.best.value - self.lower <= self.goal

    def touch(self, t: float) -> Touch:
        """Solve the eigenproblem at a weight, and take the bound that it proves."""
        goal = self.goal if np.isfinite(self.best.value) else self.resolution
        touch = self._segment.touch(t, _TIE_SHARE * goal / self.n_components)
        self._bound(t, touch.top_sum)
        return touch

    def try_basis(self, basis: FloatArray, captured: tuple[float, float] | None = None) -> Worth:
        """Take a subspace if it is the best so far; return what it is worth.

        Parameters
        ----------
        basis : (p, d) array
        captured : tuple of 2 floats, optional
            Of the mixtures at the start and at the end, if it is known.
        """
        first, last = captured or self._segment.captured(basis)
        end, start = self.question.references
        worth = self.question.worth((end - last, start - first))
        if self._rank(worth) < self._rank(self.best):
            self.best, self.basis = worth, basis
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.best.value))
        return worth

    def end_at(self, touch: Touch, target: float) -> BracketEnd:
        """The leading subspace at a weight whose position is nearest to a target."""
        if touch.tied:
            return self._end_on(self._face(touch, touch.tied), touch, target)
        worth = self.try_basis(touch.basis, touch.captured)
        return BracketEnd(touch.weight, worth.excess, worth.cut, touch.curvature)

    def close(self, left: BracketEnd, right: BracketEnd) -> None:
        """Narrow the bracket until the gap is closed or no weight is left between its ends."""
        bracket, target = Bracket(left, right, self.question.pole), self.question.target
        for _ in range(_MAX_STEPS):
            t = None if self.closed else bracket.next_weight()
            if t is None:
                return
            touch = self.touch(t)
            if touch.tied:
                face = self._face(touch, touch.tied)
                end = self._end_on(face, touch, target)
                if face.low <= target <= face.high:
                    return  # on an edge no other weight can do better
            else:
                end = self.end_at(touch, target)
                if not self.closed:
                    self._turn_onto_target(touch, end, bracket.rate(end))
            bracket.narrow(end)

    def close_on_target(self) -> None:
        """Reach the target from w(0), or leave the position nearest to it as the best."""
        left = self.end_at(self.touch(0.0), self.question.target)
        if left.excess >= -self.resolution:
            return
        last = self.touch(1.0)
        end = self.question.references[0]
        if last.tied:
            # There the weights are the direction itself: along it that face does not move, so ties
            # are left to the objective.
            weights, objective = self._segment.ends[1], self._segment.ends[0]
            face = Face.of(self.second_moments, weights, last.tied, objective)
            worth = self.try_basis(face.basis_at(face.high))
        else:
            worth = self.try_basis(last.basis, last.captured)
        excess = last.top_sum - end
        if excess > -self.resolution:
            excess = max(excess, self.resolution)
            self.close(left, BracketEnd(1.0, excess, worth.cut, last.curvature))

    def _bound(self, t: float, top_sum: float) -> None:
        """Take the bound that an eigenproblem at a weight proves, if it is the best so far."""
        self.n_eigenproblems += 1
        end, start = self.question.references
        bound = self.question.bound(t, t * end + (1 - t) * start - top_sum)
        if bound > self.lower:
            self.lower, self.weights = bound, self._segment.weights(t)

    def _face(self, touch: Touch, tied: LeadingSubspace) -> Face:
        weights = self._segment.weights(touch.weight)
        return Face.of(self.second_moments, weights, tied, self.question.direction)

    def _end_on(self, face: Face, touch: Touch, target: float) -> BracketEnd:
        worth = self.try_basis(face.basis_at(min(max(target, face.low), face.high)))
        return BracketEnd(touch.weight, worth.excess, worth.cut)

    def _turn_onto_target(self, touch: Touch, end: BracketEnd, rate: float | None) -> None:
        """Turn the basis onto the target, where that is near enough.

        The bound at this weight is short of the best one by a term of second order in the distance
        to the target, the turned basis by one of fourth order. If the bound does not do, that at
        the weight of the turned basis will, for which eigenvalues are enough.
        """
        turning = touch.turning() if rate else None
        if turning is None or not rate:
            return
        step = -end.excess / rate
        if touch.top_sum * turning.angle(step) ** 4 > self.goal:
            return
        enough = self.resolution if self.question.pole else self.goal / 4
        for _ in range(_MOST_CORRECTIONS):
            if turning.angle(step) > SMALL_TURN:
                return
            worth = self.try_basis(turning.basis_at(touch.basis, step))
            if self.closed:
                return
            if abs(worth.excess) <= enough:
                break
            step -= worth.excess / rate
        t = touch.weight + step
        self._bound(t, self._segment.top_sum(t))
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.best.value))

    def _rank(self, worth: Worth) -> tuple[float, float]:
        return max(worth.violation - self.resolution, 0.0), worth.value
