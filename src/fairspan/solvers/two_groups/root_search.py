"""Two groups: the optimum as the root of one function of one weight.

Let f_0 and f_1 be two affine functions of the groups' errors. For t from 0 to 1 the mixture
(1 - t) f_0 + t f_1 is least at the leading eigenvectors V(t) of one matrix; on the way f_0 rises
and f_1 falls. Two questions are answered so:

- the largest of both is least where they are equal, or at an end where the other one is smaller
  still: D(t) = (1 - t) f_0 + t f_1 at V(t) bounds it from below, for every t;
- f_0 subject to f_1 <= 0 (or = 0) is least where f_1 vanishes; D(t) / (1 - t) bounds it.

Where eigenvalue d is tied at the root, the function jumps over zero. The subspaces on both sides
are then optimal for the same mixture, and so is every subspace on the path between them
(:mod:`fairspan.solvers.two_groups.frontier`), on which the function is continuous.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy

from fairspan.certificates.solution import TracePoint
from fairspan.moments.operators import DenseSecondMoments
from fairspan.solvers.two_groups.frontier import Face
from fairspan.typing import FloatArray

# What a subspace reaches: f_0 and f_1, and the gap that would prove it optimal, absolute.
Reached = tuple[tuple[float, float], float]

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
# Shares of a path nearer to each other than this are one.
_LEAST_SHARE, _MOST_STEPS = 1e-17, 80


@dataclass(frozen=True, eq=False)
class Contact:
    """Where the supporting line of one mixture touches the boundary of the trade-off.

    Attributes
    ----------
    weight : float
        t.
    basis : (p, d) array
        V(t).
    values : tuple of 2 floats
        f_0 and f_1 there. (1 - t, t) times these is the dual at t, and at every other weight no
        less than the dual.
    goal : float
        The gap that would prove it optimal, absolute.
    """

    weight: float
    basis: FloatArray
    values: tuple[float, float]
    goal: float

    @property
    def dual(self) -> float:
        """D(t)."""
        return (1 - self.weight) * self.values[0] + self.weight * self.values[1]


@dataclass
class RootSearch:
    """The best subspace and the best bound so far.

    Parameters
    ----------
    second_moments : DenseSecondMoments
    n_components : int
    coefficients : (2, k) array
        Of the groups' errors in f_0 and f_1.
    reached_at : function of a (p, d) basis
        Gives f_0 and f_1, and the gap to reach.
    constrained : bool
        Whether f_0 is to be least subject to f_1 = 0; otherwise the largest of both.
    met : float
        With a constraint: f_1 up to this is zero.
    """

    second_moments: DenseSecondMoments
    n_components: int
    coefficients: FloatArray
    reached_at: Callable[[FloatArray], Reached]
    constrained: bool = False
    met: float = 0.0
    n_eigenproblems: int = 0
    lower: float = -np.inf
    upper: float = np.inf
    goal: float = 0.0
    weight: float = 0.0
    basis: FloatArray = field(default_factory=lambda: np.empty(0))
    trace: list[TracePoint] = field(default_factory=list)

    @property
    def weights(self) -> FloatArray:
        """Of the groups, at the weight that proves the best bound."""
        return self.weights_at(self.weight)

    def weights_at(self, t: float) -> FloatArray:
        """Of the groups, in the mixture at t."""
        first, last = self.coefficients
        return np.asarray((1 - t) * first + t * last)

    def contact(self, t: float) -> Contact:
        """Solve the eigenproblem at t, and take its bound and its subspace."""
        weights = self.weights_at(t)
        leading = self.second_moments.leading(weights, self.n_components)
        basis = leading.vectors
        if leading.is_tied and (t == 1 or (t == 0 and not self.constrained)):
            # Of the subspaces that are best for one function, the best for the other one.
            face = Face.of(self.second_moments, weights, leading, self.weights_at(1 - t))
            basis = face.basis_at(face.high)
        values, goal = self.reached_at(basis)
        self.n_eigenproblems += 1
        dual = (1 - t) * values[0] + t * values[1]
        bound = dual if not self.constrained else dual / (1 - t) if t < 1 else -np.inf
        if bound > self.lower:
            self.lower, self.weight = bound, t
        if not self.constrained:
            self._take(basis, max(values), goal)
        self._note()
        return Contact(t, basis, values, goal)

    def _take(self, basis: FloatArray, value: float, goal: float) -> None:
        """Keep a subspace if it is the best so far."""
        if value < self.upper:
            self.upper, self.basis, self.goal = value, basis, goal

    def _note(self) -> None:
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower, self.upper))

    def excess(self, values: tuple[float, float]) -> float:
        """What vanishes at the root; it falls as t grows."""
        return values[1] if self.constrained else values[1] - values[0]

    @property
    def closed(self) -> bool:
        """Whether the best subspace is proven as good as can be requested."""
        return bool(len(self.basis)) and self.upper - self.lower <= self.goal

    def close(self, left: Contact, right: Contact) -> None:
        """Narrow a bracket, excess >= 0 at its left end and <= 0 at its right end, to the root.

        Each step goes to where a cubic model of the dual has its root. At a jump of the excess no
        smooth model holds, but there the supporting lines of both ends cross: that weight comes
        after a slow step.
        """
        slow = False
        for _ in range(_MAX_STEPS):
            if self._meet(left, right):
                return
            low, high = left.weight, right.weight
            crossing = _crossing(left, right)
            t = crossing[0] if slow and crossing else self._modelled_root(left, right)
            if not low < t < high:
                t = (low + high) / 2
            if not low < t < high:  # float64 has no weight left in between
                break
            between = self.contact(t)
            left, right = (between, right) if self.excess(between.values) > 0 else (left, between)
            slow = not slow and right.weight - left.weight > _SLOW * (high - low)
        self._join(left, right)

    def _meet(self, left: Contact, right: Contact) -> bool:
        """Whether the gap is closed; near the root the path between the ends is tried."""
        if self.closed:
            return True
        crossing = _crossing(left, right)
        if crossing is None:
            return False
        t, height = crossing
        missing = height / max(1 - t, np.finfo(np.float64).tiny) if self.constrained else height
        if missing - self.lower > _NEAR * left.goal:
            return False
        self._join(left, right)
        return self.closed

    def _join(self, left: Contact, right: Contact) -> None:
        """Take the subspace on the path between both ends at which the excess vanishes."""
        if self.excess(left.values) <= 0:
            basis = left.basis
        elif self.excess(right.values) >= 0:
            basis = right.basis
        else:
            path = PathBetween(left.basis, right.basis)
            enough = self.met if self.constrained else _ENOUGH * left.goal
            basis = path.where_zero(lambda each: self.excess(self.reached_at(each)[0]), enough)
        values, goal = self.reached_at(basis)
        self._take(basis, values[0] if self.constrained else max(values), goal)
        self._note()

    def _modelled_root(self, left: Contact, right: Contact) -> float:
        """Where the excess vanishes if the dual is the cubic that both ends determine.

        Each end has a value and a slope of the dual D: f_1 - f_0 = D' and f_1 = D + (1 - t) D'.
        """
        low, width = left.weight, right.weight - left.weight
        slope, last = (each.values[1] - each.values[0] for each in (left, right))
        rise = (right.dual - left.dual) / width
        bend, twist = 3 * rise - 2 * slope - last, slope + last - 2 * rise
        at_left, at_right = self.excess(left.values), self.excess(right.values)
        # The excess by powers of the share of the bracket; the square is set by the right end.
        linear, cube = 2 * bend, 0.0
        if self.constrained:
            linear, cube = linear * (1 - low), -2 * width * twist
        square = at_right - at_left - linear - cube

        def excess(share: float) -> float:
            return at_left + share * (linear + share * (square + share * cube))

        if not excess(1.0) < 0 < at_left:
            return low + width / 2
        share = scipy.optimize.brentq(excess, 0.0, 1.0, xtol=1e-12)
        # A little past a root that is near one end, so that it is soon enclosed from both sides.
        if share < _NEAR_AN_END:
            share *= _PAST
        elif 1 - share < _NEAR_AN_END:
            share = 1 - _PAST * (1 - share)
        return float(low + width * share)


def _crossing(left: Contact, right: Contact) -> tuple[float, float] | None:
    """Where the lines that bound the dual from both ends cross: the weight, and the height."""
    (a, b), (c, d) = left.values, right.values
    turn = (b - a) - (d - c)
    if turn <= 0:
        return None
    t = (c - a) / turn
    return t, (1 - t) * a + t * b


class PathBetween:
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
        self._from = start @ left
        beside = end @ right.T - self._from * cosines
        # Twice, so that what is left of a small angle is orthogonal to all of the start.
        beside -= start @ (start.T @ beside)
        sines = np.linalg.norm(beside, axis=0)
        self.angles = np.arctan2(sines, cosines)
        self._beside = beside / np.where(sines > 0, sines, 1.0)

    def at(self, share: float) -> FloatArray:
        """The (p, d) basis at a share of the way."""
        turned = share * self.angles
        return np.asarray(self._from * np.cos(turned) + self._beside * np.sin(turned))

    def where_zero(self, function: Callable[[FloatArray], float], enough: float) -> FloatArray:
        """A basis at which a function is zero that has different signs at the ends.

        Absolute values up to `enough` are taken as zero.
        """
        ends = {end: function(self.at(end)) for end in (0.0, 1.0)}

        def value_at(share: float) -> float:
            value = ends[share] if share in ends else function(self.at(share))
            return 0.0 if abs(value) <= enough else value

        if (ends[0.0] > 0) == (ends[1.0] > 0):  # rounding may turn the sign at an end
            share = min(ends, key=lambda end: abs(ends[end]))
        else:
            share = scipy.optimize.brentq(
                value_at, 0.0, 1.0, xtol=_LEAST_SHARE, maxiter=_MOST_STEPS, disp=False
            )
        return np.asarray(np.linalg.qr(self.at(share))[0])
