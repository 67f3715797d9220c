"""Two groups: finding where a position along the boundary of the trade-off meets a target.

A segment of weights w(t), t from 0 to 1, walks along the boundary of conv W, W the set of
(c_1(V), c_2(V)): one eigenproblem a step. The position h.c does not decrease on the way. Where it
jumps over the target, the leading subspace is tied, and the edge between both sides is walked along
(:mod:`fairspan.solvers.face`). What is asked is a :class:`Question`: which bound a weight proves,
and what a subspace is worth.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fairspan.linalg import LeadingSubspace
from fairspan.moments.operators import SecondMoments
from fairspan.solvers.bracket import Bracket, BracketEnd
from fairspan.solvers.face import Face
from fairspan.solvers.solution import TracePoint

FloatArray = npt.NDArray[np.float64]

# Near-ties count as ties up to this share of the gap to reach for each component, so that a nearly
# flat edge is walked along instead of bisected down to rounding.
_TIE_SHARE = 1 / 16
# Bisection alone would reach float64's resolution in 53 steps.
_MAX_STEPS = 120


class Worth(NamedTuple):
    """What a subspace is worth.

    Attributes
    ----------
    value : float
        What is minimised.
    violation : float
        By how much a constraint is missed; 0 without one.
    cuts : (2,) array
        Its dual function is (t, 1 - t) times these.
    """

    value: float
    violation: float
    cuts: FloatArray


class Question(Protocol):
    """What is minimised over V, and how weights bound it."""

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The weights w(0) and w(1)."""

    @property
    def direction(self) -> FloatArray:
        """h; the position of a subspace is h.c."""

    @property
    def target(self) -> float:
        """The position looked for."""

    def bound(self, t: float, top_eigenvalue_sum: float) -> float:
        """Lower bound on the optimum from t_d of the mixture w(t)."""

    def worth(self, captured: FloatArray) -> Worth:
        """What a subspace with these captured variances is worth."""


@dataclass(frozen=True, eq=False)
class LargestOfTwo:
    """min over V of max_i (R_i - A_i.c): optimal where both pieces agree, or at an end.

    Attributes
    ----------
    coefficients : (2, 2) array
        A, one row for each piece.
    references : (2,) array
        R.
    """

    coefficients: FloatArray
    references: FloatArray

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Each piece alone."""
        return self.coefficients[1], self.coefficients[0]

    @property
    def direction(self) -> FloatArray:
        """The difference of both pieces."""
        return np.asarray(self.coefficients[0] - self.coefficients[1])

    @property
    def target(self) -> float:
        """Where both pieces agree."""
        return float(self.references[0] - self.references[1])

    def bound(self, t: float, top_eigenvalue_sum: float) -> float:
        """The mixture of the pieces, at its least."""
        return float(t * self.references[0] + (1 - t) * self.references[1]) - top_eigenvalue_sum

    def worth(self, captured: FloatArray) -> Worth:
        """The larger piece."""
        pieces = self.references - self.coefficients @ captured
        return Worth(float(pieces.max()), 0.0, pieces)


@dataclass(frozen=True, eq=False)
class Reach:
    """min over V of reference - a.c subject to h.c = target, or >= target.

    Attributes
    ----------
    objective : (2,) array
        a.
    reference : float
    direction : (2,) array
        h, turned so that the optimum without the constraint lies below the target.
    target : float
    exactly : bool
        Whether positions beyond the target are a violation.
    """

    objective: FloatArray
    reference: float
    direction: FloatArray
    target: float
    exactly: bool

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """From the objective alone to the constraint alone."""
        return self.objective, self.direction

    def bound(self, t: float, top_eigenvalue_sum: float) -> float:
        """Of (1 - t) times the objective plus t times the constraint's slack."""
        if t == 1:
            return -np.inf
        mixture = (1 - t) * self.reference + t * self.target - top_eigenvalue_sum
        return float(mixture / (1 - t))

    def worth(self, captured: FloatArray) -> Worth:
        """The objective, and how far the constraint is from being met."""
        excess = float(self.direction @ captured - self.target)
        value = self.reference - float(self.objective @ captured)
        violation = abs(excess) if self.exactly else max(-excess, 0.0)
        return Worth(value, violation, np.array([-excess, value]))


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
    """

    second_moments: SecondMoments
    n_components: int
    question: Question
    tolerance: float
    share: float
    resolution: float
    n_eigenproblems: int = 0
    lower: float = -np.inf
    best: Worth = field(default_factory=lambda: Worth(np.inf, np.inf, np.empty(0)))
    weights: FloatArray = field(default_factory=lambda: np.empty(2))
    basis: FloatArray = field(default_factory=lambda: np.empty(0))
    trace: list[TracePoint] = field(default_factory=list)

    @property
    def goal(self) -> float:
        """The gap to reach."""
        return max(min(self.tolerance, self.share * abs(self.best.value)), self.resolution)

    @property
    def closed(self) -> bool:
        """Whether the best subspace is proven as good as can be asked for."""
        meets = self.best.violation <= self.resolution
        return meets and self.best.value - self.lower <= self.goal

    def face_at(self, t: float, known: LeadingSubspace | None = None) -> Face:
        """Leading subspaces of the mixture w(t), and the bound that they prove."""
        start, end = self.question.ends
        weights = (1 - t) * start + t * end
        goal = self.goal if np.isfinite(self.best.value) else self.resolution
        tie = _TIE_SHARE * goal / self.n_components
        leading = known or self.second_moments.leading(weights, self.n_components, tie)
        self.n_eigenproblems += 1
        bound = self.question.bound(t, leading.top_eigenvalue_sum)
        if bound > self.lower:
            self.lower, self.weights = bound, weights
        return Face.of(self.second_moments, weights, leading, self.question.direction)

    def try_basis(self, basis: FloatArray) -> Worth:
        """Take a subspace if it is the best so far; return what it is worth."""
        worth = self.question.worth(self.second_moments.captured_variances(basis))
        if self._rank(worth) < self._rank(self.best):
            self.best, self.basis = worth, basis
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.best.value))
        return worth

    def end_at(self, t: float, face: Face, position: float) -> BracketEnd:
        """Try the subspace at a position of the face at w(t)."""
        worth = self.try_basis(face.basis_at(position))
        return BracketEnd(t, position - self.question.target, worth.cuts)

    def close(self, left: BracketEnd, right: BracketEnd) -> None:
        """Narrow the bracket until the gap is closed or no weight is left between its ends."""
        bracket, target = Bracket(left, right), self.question.target
        for _ in range(_MAX_STEPS):
            t = bracket.next_weight()
            if self.closed or t is None:
                return
            face = self.face_at(t)
            if face.low <= target <= face.high:
                self.try_basis(face.basis_at(target))
                # On an edge no other weight can do better; at a point the gap tells.
                if face.leading.is_tied:
                    return
            bracket.narrow(self.end_at(t, face, face.low if face.low > target else face.high))

    def close_on_target(self, start: LeadingSubspace | None = None) -> None:
        """Reach the target from w(0), or leave the position nearest to it as the best.

        Parameters
        ----------
        start : LeadingSubspace, optional
            That of w(0), if it is known.
        """
        first = self.face_at(0.0, start)
        target = self.question.target
        left = self.end_at(0.0, first, min(max(target, first.low), first.high))
        if left.excess >= -self.resolution:
            return
        # At the other end the weights are the direction itself: along it that face does not move,
        # so ties there are left to the objective.
        objective, direction = self.question.ends
        furthest = self.second_moments.leading(direction, self.n_components)
        self.n_eigenproblems += 1
        face = Face.of(self.second_moments, direction, furthest, objective)
        worth = self.try_basis(face.basis_at(face.high))
        excess = furthest.top_eigenvalue_sum - target
        if excess > -self.resolution:
            self.close(left, BracketEnd(1.0, max(excess, self.resolution), worth.cuts))

    def _rank(self, worth: Worth) -> tuple[float, float]:
        return max(worth.violation - self.resolution, 0.0), worth.value
