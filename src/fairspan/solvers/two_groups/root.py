"""Two groups: the optimum as the root of one function of one weight.

Let f_0 and f_1 be two affine functions of the groups' errors. For t from 0 to 1 the mixture
(1 - t) f_0 + t f_1 is least at the leading eigenvectors V(t) of one matrix; on the way f_0 rises
and f_1 falls. Two questions are answered so:

- the largest of both is least where they are equal, or at an end where the other one is smaller
  still: D(t) = (1 - t) f_0 + t f_1 at V(t) bounds it from below, for every t;
- f_0 subject to f_1 <= 0 (or = 0) is least where f_1 vanishes; D(t) / (1 - t) bounds it.

Where eigenvalue d is tied at the root, the function jumps over zero. The subspaces on both sides
are then optimal for the same mixture, and so is every subspace on the path between them
(:mod:`fairspan.solvers.two_groups.faces`), on which the function is continuous.
"""

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple

import numpy as np

from fairspan.certificates.certificate import TracePoint
from fairspan.certificates.optimality import goal
from fairspan.moments.operators import SecondMoments
from fairspan.problem.problem import Problem
from fairspan.solvers.two_groups.faces import Face, Found, PathBetween
from fairspan.typing import FloatArray

# Bisection alone would reach float64's resolution in 53 steps.
_MAX_STEPS = 120
# The path between the ends is tried once the supporting lines leave no more than so many goals.
_NEAR = 100.0
# An excess of this share of the gap to reach is none.
_ENOUGH = 0.1
# A step that leaves more than this share of the bracket was slow.
_SLOW = 0.8
# A root within this share of the bracket from an end is passed by half its distance.
_NEAR_AN_END, _PAST = 0.1, 1.5
# To the root of the model from that of a parabola, where it has a cube.
_NEWTON_STEPS = 3
# How many times as large the gap to reach may become on the way.
_ROOM = 16.0
_TINY = float(np.finfo(np.float64).tiny)


class Contact(NamedTuple):
    """Where the supporting line of one mixture touches the boundary of the trade-off.

    Attributes
    ----------
    weight : float
        t.
    basis : (p, d) array
        V(t).
    first, last : float
        f_0 and f_1 there. (1 - t, t) times these is the dual at t, and at every other weight no
        less than the dual.
    dual : float
        D(t).
    excess : float
        What vanishes at the root and falls as t grows: f_1 with a constraint, otherwise f_1 - f_0.
    """

    weight: float
    basis: FloatArray
    first: float
    last: float
    dual: float
    excess: float


class RootSearch:
    """The best subspace and the best bound so far.

    Parameters
    ----------
    problem : Problem
    tol : float
        The gap to reach, as a share of the objective.
    coefficients : (2, k) array
        Of the groups' errors in f_0 and f_1.
    values_at : function of a (p, d) basis
        Gives f_0 and f_1.
    second_moments : SecondMoments, optional
        What the coefficients mix, if not the second moments of the problem.
    constrained : bool
        Whether f_0 is to be least subject to f_1 = 0; otherwise the largest of both.
    met : float
        With a constraint: f_1 up to this is zero.
    """

    def __init__(
        self,
        problem: Problem,
        tol: float,
        coefficients: FloatArray,
        values_at: Callable[[FloatArray], tuple[float, float]],
        *,
        second_moments: SecondMoments | None = None,
        constrained: bool = False,
        met: float = 0.0,
    ) -> None:
        self.problem, self.tol, self.coefficients = problem, tol, coefficients
        self.values_at, self.constrained, self.met = values_at, constrained, met
        self.second_moments = second_moments or problem.second_moments
        self.n_eigenproblems, self.lower, self.upper, self.weight = 0, -np.inf, np.inf, 0.0
        self.basis: FloatArray | None = None
        self.trace: list[TracePoint] = []

    def weights_at(self, t: float) -> FloatArray:
        """Of the groups, in the mixture at t."""
        return np.asarray((1 - t) * self.coefficients[0] + t * self.coefficients[1])

    def goal_at(self, basis: FloatArray) -> float:
        """The gap that would prove a subspace optimal, absolute."""
        return goal(self.problem, self.problem.errors(basis), self.tol)

    def contact(self, t: float) -> Contact:
        """Solve the eigenproblem at t, and take its bound and its subspace."""
        weights = self.weights_at(t)
        leading = self.second_moments.leading(weights, self.problem.n_components)
        basis = leading.vectors
        if leading.is_tied and (t == 1 or (t == 0 and not self.constrained)):
            # Of the subspaces that are best for one function, the best for the other one.
            face = Face.of(self.second_moments, weights, leading, self.weights_at(1 - t))
            basis = face.basis_at(face.high)
        first, last = self.values_at(basis)
        dual = (1 - t) * first + t * last
        self.n_eigenproblems += 1
        bound = dual if not self.constrained else dual / (1 - t) if t < 1 else -np.inf
        if bound > self.lower:
            self.lower, self.weight = bound, t
        self.take(basis, np.inf if self.constrained else max(first, last))
        return Contact(t, basis, first, last, dual, last if self.constrained else last - first)

    def take(self, basis: FloatArray, value: float) -> None:
        """Keep a subspace if it is the best so far."""
        if value < self.upper:
            self.upper, self.basis = value, basis
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.upper))

    @property
    def found(self) -> Found:
        """The best subspace, and the weights that prove the best bound."""
        assert self.basis is not None
        return self.basis, self.weights_at(self.weight), self.n_eigenproblems, self.trace

    def close(self, left: Contact, right: Contact) -> None:
        """Narrow a bracket, excess > 0 at its left end and <= 0 at its right end, to the root.

        Each step goes to where a cubic model of the dual has its root. At a jump of the excess no
        smooth model holds, but there the supporting lines of both ends cross: that weight comes
        after a slow step. Near the root the path between the ends is tried.
        """
        # The goal is a share of the value, which moves by fewer times on the way: most gaps
        # need no goal of their subspace to be seen as too large.
        most = _ROOM * self.goal_at(right.basis if self.basis is None else self.basis)

        def is_at_most(gap: float, n_goals: float) -> bool:
            best = left.basis if self.basis is None else self.basis
            return gap <= n_goals * most and gap <= n_goals * self.goal_at(best)

        slow = False
        for _ in range(_MAX_STEPS):
            low, high = left.weight, right.weight
            if is_at_most(self.upper - self.lower, 1.0):
                return
            crossing, height = _crossing(left, right)
            missing = height / max(1 - crossing, _TINY) if self.constrained else height
            if is_at_most(missing - self.lower, _NEAR):
                self._join(left, right)
                if is_at_most(self.upper - self.lower, 1.0):
                    return
            t = crossing if slow and low < crossing < high else self._modelled_root(left, right)
            if not low < t < high:
                t = (low + high) / 2
            if not low < t < high:  # float64 has no weight left in between
                break
            between = self.contact(t)
            left, right = (between, right) if between.excess > 0 else (left, between)
            slow = not slow and right.weight - left.weight > _SLOW * (high - low)
        self._join(left, right)

    def _join(self, left: Contact, right: Contact) -> None:
        """Take the subspace on the path between both ends at which the excess vanishes."""
        basis = right.basis
        if right.excess < 0:
            enough = self.met if self.constrained else _ENOUGH * self.goal_at(left.basis)

            def excess(basis: FloatArray) -> float:
                first, last = self.values_at(basis)
                return last if self.constrained else last - first

            path = PathBetween(left.basis, right.basis)
            basis = path.where_zero(excess, (left.excess, right.excess), enough)
        first, last = self.values_at(basis)
        self.take(basis, first if self.constrained else max(first, last))

    def _modelled_root(self, left: Contact, right: Contact) -> float:
        """Where the excess vanishes if the dual is the cubic that both ends determine.

        Each end has a value and a slope of the dual D: f_1 - f_0 = D' and f_1 = D + (1 - t) D'.
        """
        low, width = left.weight, right.weight - left.weight
        slope, last = left.last - left.first, right.last - right.first
        rise = (right.dual - left.dual) / width
        bend, twist = 3 * rise - 2 * slope - last, slope + last - 2 * rise
        # The excess by powers of the share of the bracket; the square is set by the right end.
        linear, cube = 2 * bend, 0.0
        if self.constrained:
            linear, cube = linear * (1 - low), -2 * width * twist
        bent = right.excess - left.excess - linear
        root = sqrt(max(linear * linear - 4 * bent * left.excess, 0.0))
        share = 2 * left.excess / max(root - linear, _TINY)
        for _ in range(_NEWTON_STEPS if cube else 0):
            square = bent - cube + share * cube
            value = left.excess + share * (linear + share * square)
            share -= value / (linear + share * (2 * square + share * cube) or _TINY)
        # A little past a root that is near one end, so that it is soon enclosed from both sides.
        if share < _NEAR_AN_END:
            share *= _PAST
        elif 1 - share < _NEAR_AN_END:
            share = 1 - _PAST * (1 - share)
        return low + width * share


def _crossing(left: Contact, right: Contact) -> tuple[float, float]:
    """Where the lines that bound the dual from both ends cross: the weight, and the height."""
    slope = left.last - left.first
    turn = slope - (right.last - right.first)
    t = (right.first - left.first) / turn if turn > 0 else np.nan
    return t, left.first + t * slope
