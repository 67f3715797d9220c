"""Root search over mixtures of two functions of the group errors.

Let f_0 and f_1 be affine functions of the group errors. For t from 0 to 1, (1 - t) f_0 + t f_1 is
minimized by the leading eigenvectors V(t) of one matrix; as t increases, f_0 rises and f_1 falls.
This solves two problems:

- max(f_0, f_1) is smallest where both are equal, or at an end at which the function minimized there
  is also the larger one: D(t) = (1 - t) f_0 + t f_1 at V(t) is a lower bound for every t;
- f_0 subject to f_1 <= 0 (or = 0) is smallest where f_1 vanishes; D(t) / (1 - t) is a lower bound.

If eigenvalue d is tied at the root, the residual jumps across zero. The subspaces on both sides are
then optimal for the same mixture, and so is every subspace on the geodesic between them
(:mod:`fairspan.solvers.two_groups.geodesic`), along which the residual is continuous.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from fairspan.certificates.certificate_parts import TracePoint
from fairspan.certificates.error_rounding import target_gap
from fairspan.linalg.rounding import TINY
from fairspan.moments.second_moments import SecondMoments
from fairspan.problem.problem import Problem
from fairspan.solvers.two_groups.branch_and_bound import SearchResult
from fairspan.solvers.two_groups.geodesic import GrassmannGeodesic, face_endpoints
from fairspan.typing import FloatArray


@dataclass(frozen=True)
class _SearchRules:
    """Rules by which a bracket of the root is refined.

    Attributes
    ----------
    max_steps : int
        Eigenproblems of a search; bisection alone would reach the resolution of float64 in 53.
    geodesic_gap_ratio : float
        The geodesic is tried once the supporting lines leave at most this many target gaps.
    residual_tol_fraction : float
        A residual below this fraction of the target gap counts as zero.
    slow_reduction : float
        A step that leaves more than this fraction of the bracket is slow.
    end_fraction : float
        A root within this fraction of the bracket from one of its ends is overshot.
    overshoot : float
        Factor of its distance from that end by which it is overshot.
    n_cubic_steps : int
        Newton steps from the root of the quadratic to that of the cubic model.
    max_target_growth : float
        Largest factor by which the target gap may grow during the search.
    """

    max_steps: int = 120
    geodesic_gap_ratio: float = 100.0
    residual_tol_fraction: float = 0.1
    slow_reduction: float = 0.8
    end_fraction: float = 0.1
    overshoot: float = 1.5
    n_cubic_steps: int = 3
    max_target_growth: float = 16.0


_RULES = _SearchRules()


class PairValues(NamedTuple):
    """Errors of a subspace, and what the search compares.

    Attributes
    ----------
    errors : (k,) array
        Errors of each group.
    f0, f1 : float
    value : float
        Objective: max(f_0, f_1); if constrained, f_0, which counts only where f_1 vanishes.
    residual : float
        Difference that vanishes at the root: f_1 - f_0; if constrained, f_1.
    """

    errors: FloatArray
    f0: float
    f1: float
    value: float
    residual: float


class DualPoint(NamedTuple):
    """Contact of the supporting line of a mixture with the boundary of the trade-off.

    Attributes
    ----------
    t : float
        Weight of f_1 in the mixture.
    basis : (p, d) array
        V(t).
    errors : (k,) array
        Errors of each group at V(t).
    f0, f1 : float
        f_0 and f_1 at V(t). Their combination with weights (1 - s, s) is D(s) at s = t and at least
        D(s) elsewhere.
    dual_value : float
        D(t).
    residual : float
        Residual that decreases in t and vanishes at the root: f_1 if constrained, otherwise f_1 -
        f_0.
    """

    t: float
    basis: FloatArray
    errors: FloatArray
    f0: float
    f1: float
    dual_value: float
    residual: float


class RootSearch:
    """Search for the root of the residual, keeping the best subspace and bound.

    Parameters
    ----------
    problem : Problem
    tol : float
        Relative gap to reach.
    coefficients : (2, k) array
        Coefficients of the group errors in f_0 and f_1.
    evaluate_pair : function of a (p, d) basis and its (k,) errors
        Returns f_0 and f_1.
    second_moments : SecondMoments, optional
        Second moments that the coefficients combine, if not those of the problem.
    constrained : bool
        Whether to minimize f_0 subject to f_1 = 0, instead of max(f_0, f_1).
    constraint_tol : float
        If constrained, values of f_1 up to this count as zero.
    """

    def __init__(
        self,
        problem: Problem,
        tol: float,
        coefficients: FloatArray,
        evaluate_pair: Callable[[FloatArray, FloatArray], tuple[float, float]],
        *,
        second_moments: SecondMoments | None = None,
        constrained: bool = False,
        constraint_tol: float = 0.0,
    ) -> None:
        """Prepare the search for the t at which the residual vanishes, without a solution so far.

        The residual is f_1 - f_0, to minimize max(f_0, f_1) or, if constrained, f_1, to minimize
        f_0 subject to f_1 = 0. `evaluate_pair` returns f_0 and f_1 of a basis and its errors;
        `coefficients`, shape (2, k), holds the group weights of both.
        """
        self.problem = problem
        self.tol = tol
        self.coefficients = coefficients
        self.evaluate_pair = evaluate_pair
        self.constrained = constrained
        self.constraint_tol = constraint_tol
        self.second_moments = problem.second_moments if second_moments is None else second_moments
        self.n_eigenproblems = 0
        # Best lower bound, with its t, and best value of a subspace, with its basis and errors.
        self.lower_bound = -np.inf
        self.upper_bound = np.inf
        self.best_t = 0.0
        self.basis: FloatArray | None = None
        self.errors = np.empty(0)
        self.trace: list[TracePoint] = []

    def weights_at(self, t: float) -> FloatArray:
        """Group weights (1 - t) w_0 + t w_1 of the mixture at t, shape (k,)."""
        return np.asarray((1 - t) * self.coefficients[0] + t * self.coefficients[1])

    def target_gap_near(self, point: DualPoint) -> float:
        """Absolute gap for which the best subspace, or else that of a point, counts as optimal."""
        errors = point.errors if self.basis is None else self.errors
        return target_gap(self.problem, errors, self.tol)

    def evaluate(self, basis: FloatArray) -> PairValues:
        """Evaluate the errors and both functions at a (p, d) basis."""
        errors = self.problem.errors(basis)
        f0, f1 = self.evaluate_pair(basis, errors)
        if self.constrained:
            return PairValues(errors, f0, f1, value=f0, residual=f1)
        return PairValues(errors, f0, f1, value=max(f0, f1), residual=f1 - f0)

    def solve_at(self, t: float) -> DualPoint:
        """Minimize the mixture (1 - t) f_0 + t f_1, and record the bound and the subspace.

        The search minimizes max(f_0, f_1), where the residual is f_1 - f_0, or, if constrained, f_0
        subject to f_1 = 0, where it is f_1. Both are affine functions of the group errors, so the
        mixture is minimized by the leading eigenvectors of one matrix. If constrained, these are
        not recorded as a solution, since they rarely are feasible.

        Returns
        -------
        DualPoint
            The subspace, its errors, f_0 and f_1, the minimum D(t) of the mixture, and the
            residual.
        """
        weights = self.weights_at(t)
        leading = self.second_moments.leading(weights, self.problem.n_components)
        basis = leading.vectors
        minimizes_one_function = t == 1 or (t == 0 and not self.constrained)
        if minimizes_one_function and leading.is_tied:
            # Among the minimizers of one function, take the one that is best for the other: it
            # captures most with the other's weights.
            other_weights = self.weights_at(1 - t)
            _, basis = face_endpoints(self.second_moments, other_weights, leading)
        errors, f0, f1, value, residual = self.evaluate(basis)
        dual_value = (1 - t) * f0 + t * f1
        self.n_eigenproblems += 1
        # D(t) is a lower bound on the maximum of both functions; and where f_1 = 0,
        # (1 - t) f_0 >= D(t).
        if not self.constrained:
            bound = dual_value
        elif t < 1:
            bound = dual_value / (1 - t)
        else:
            bound = -np.inf
        if bound > self.lower_bound:
            self.lower_bound = bound
            self.best_t = t
        attained_value = np.inf if self.constrained else value
        self.update_best(basis, errors, attained_value)
        return DualPoint(t, basis, errors, f0, f1, dual_value, residual)

    def update_best(self, basis: FloatArray, errors: FloatArray, value: float) -> None:
        """Keep a subspace if it is the best so far, and record the bounds in the trace.

        `value` is what the subspace attains; infinite if it is not feasible.
        """
        if value < self.upper_bound:
            self.upper_bound = value
            self.basis = basis
            self.errors = errors
        self.trace.append(TracePoint(self.n_eigenproblems, self.lower_bound, self.upper_bound))

    @property
    def result(self) -> SearchResult:
        """Best subspace, and the weights that prove the best bound."""
        assert self.basis is not None
        weights = self.weights_at(self.best_t)
        return SearchResult(self.basis, weights, self.n_eigenproblems, self.trace)

    def narrow_bracket(
        self, left: DualPoint, right: DualPoint, weights: FloatArray
    ) -> tuple[DualPoint, DualPoint]:
        """Replace one end of a bracket of the root by the mixture closest to the given weights.

        Parameters
        ----------
        left, right : DualPoint
            Ends of the bracket.
        weights : (k,) array
            Group weights of a nearby root. The bracket is unchanged if they lie outside of it.
        """
        direction = self.coefficients[1] - self.coefficients[0]
        offset = float((weights - self.coefficients[0]) @ direction)
        t = offset / max(float(direction @ direction), TINY)
        if not left.t < t < right.t:
            return left, right
        point = self.solve_at(t)
        return (point, right) if point.residual > 0 else (left, point)

    def refine_bracket(self, left: DualPoint, right: DualPoint) -> None:
        """Refine a bracket of the root until the gap is closed or no number is left in between.

        The root is the weight t at which the residual vanishes: f_1 - f_0 or, if constrained, f_1,
        at the subspace that minimizes (1 - t) f_0 + t f_1; the dual D(t) is that minimum. The
        residual is positive at the left end of the bracket, and not at its right end. Each step
        goes to the root of a cubic model of D. Where the residual jumps no smooth model holds, but
        the supporting lines of both ends cross there: this weight is tried after a slow step. Near
        the root a subspace on the geodesic between the ends is tried. Results are kept as
        attributes (bounds, basis, errors, trace).
        """
        # The target gap is relative to the value, which changes by a bounded factor, so most gaps
        # can be rejected without evaluating the target. A gap that is NaN is rejected, too.
        max_target_gap = _RULES.max_target_growth * self.target_gap_near(right)

        def is_closed(gap: float, n_target_gaps: float = 1.0) -> bool:
            """Return whether a gap is at most so many target gaps."""
            if not gap <= n_target_gaps * max_target_gap:
                return False
            return gap <= n_target_gaps * self.target_gap_near(left)

        was_slow = False
        for _ in range(_RULES.max_steps):
            low = left.t
            high = right.t
            if is_closed(self.upper_bound - self.lower_bound):
                return
            # No bound in the bracket can exceed the height at which the supporting lines cross; if
            # constrained, the bound at t is D(t) / (1 - t).
            crossing = _line_crossing(left, right)
            crossing_bound = crossing.height
            if self.constrained:
                crossing_bound = crossing.height / max(1 - crossing.t, TINY)
            if is_closed(crossing_bound - self.lower_bound, _RULES.geodesic_gap_ratio):
                self._solve_on_geodesic(left, right)
                if is_closed(self.upper_bound - self.lower_bound):
                    return
            may_jump = was_slow and low < crossing.t < high
            t = crossing.t if may_jump else self._cubic_root(left, right)
            if not low < t < high:
                t = (low + high) / 2
            if not low < t < high:
                # There is no floating-point number in between.
                break
            point = self.solve_at(t)
            if point.residual > 0:
                left = point
            else:
                right = point
            # The crossing is tried for one step only; the next one goes to a cubic root again.
            was_slow = not was_slow and right.t - left.t > _RULES.slow_reduction * (high - low)
        self._solve_on_geodesic(left, right)

    def _solve_on_geodesic(self, left: DualPoint, right: DualPoint) -> None:
        """Record the subspace on the geodesic between both ends at which the residual vanishes."""
        # A residual of zero at the right end needs no search.
        basis = self._root_on_geodesic(left, right) if right.residual < 0 else right.basis
        values = self.evaluate(basis)
        # If constrained, f_1 vanishes here up to its tolerance, so the subspace is feasible.
        self.update_best(basis, values.errors, values.value)

    def _root_on_geodesic(self, left: DualPoint, right: DualPoint) -> FloatArray:
        """Find the basis on the geodesic between both ends at which the residual vanishes.

        The residual is f_1 - f_0 or, if constrained to f_1 = 0, f_1. Values of it up to a tolerance
        count as zero.
        """
        if self.constrained:
            residual_tol = self.constraint_tol
        else:
            # The objective max(f_0, f_1) is off by no more than the residual.
            gap = target_gap(self.problem, left.errors, self.tol)
            residual_tol = _RULES.residual_tol_fraction * gap
        geodesic = GrassmannGeodesic(left.basis, right.basis)
        end_residuals = (left.residual, right.residual)
        return geodesic.find_root(
            lambda basis: self.evaluate(basis).residual, end_residuals, residual_tol
        )

    def _cubic_root(self, left: DualPoint, right: DualPoint) -> float:
        """Root t of the residual if the dual D is the cubic in t determined by both ends.

        D(t) is the minimum of (1 - t) f_0 + t f_1 over all subspaces. Each end of the bracket gives
        its value D and slope D' = f_1 - f_0. The residual is D', a quadratic, or, if f_0 is
        minimized subject to f_1 = 0 (`constrained`), f_1 = D + (1 - t) D', a cubic. Coefficients
        refer to the fraction x = (t - low) / width of the bracket.
        """
        low = left.t
        width = right.t - left.t
        left_slope = left.f1 - left.f0
        right_slope = right.f1 - right.f0
        mean_slope = (right.dual_value - left.dual_value) / width
        # D / width is a constant + left_slope x + quadratic_term x^2 + cubic_term x^3 (Hermite
        # interpolation).
        quadratic_term = 3 * mean_slope - 2 * left_slope - right_slope
        cubic_term = left_slope + right_slope - 2 * mean_slope
        # The residual is left.residual + linear x + square x^2 + cubic x^3. The sum `quadratic` of
        # the last two coefficients follows from the value at the right end; it is the square of the
        # first model, which drops the cubic term.
        linear = 2 * quadratic_term
        cubic = 0.0
        if self.constrained:
            linear = linear * (1 - low)
            cubic = -2 * width * cubic_term
        quadratic = right.residual - left.residual - linear
        root = sqrt(max(linear * linear - 4 * quadratic * left.residual, 0.0))
        fraction = 2 * left.residual / max(root - linear, TINY)
        # The root of the quadratic is the start of Newton's method on the cubic.
        if cubic != 0:
            for _ in range(_RULES.n_cubic_steps):
                square = quadratic - cubic + fraction * cubic
                value = left.residual + fraction * (linear + fraction * square)
                slope = linear + fraction * (2 * square + fraction * cubic)
                fraction -= value / (slope if slope != 0 else TINY)
        # Steps near an end go a little too far, so that the next bracket encloses the root closely.
        return low + width * _overshoot(fraction)


def _overshoot(fraction: float) -> float:
    """Move a root, a fraction of its bracket, away from the end that it is near.

    The next bracket then encloses it closely from both sides: a step that falls short of the root
    would leave the far end where it is.
    """
    if fraction < _RULES.end_fraction:
        return fraction * _RULES.overshoot
    if 1 - fraction < _RULES.end_fraction:
        return 1 - _RULES.overshoot * (1 - fraction)
    return fraction


class LineCrossing(NamedTuple):
    """Weight t and height at which two lines cross; NaN if they do not."""

    t: float
    height: float


def _line_crossing(left: DualPoint, right: DualPoint) -> LineCrossing:
    """Find where the lines that bound the dual from both ends of a bracket cross.

    The line of an end is (1 - t) f_0 + t f_1 with its values; the dual, which is concave, lies
    below both.
    """
    slope = left.f1 - left.f0
    slope_decrease = slope - (right.f1 - right.f0)
    t = (right.f0 - left.f0) / slope_decrease if slope_decrease > 0 else np.nan
    return LineCrossing(t, height=left.f0 + t * slope)
