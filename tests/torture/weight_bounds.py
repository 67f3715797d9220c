"""The lower bound that returned weights prove, in mpmath."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from mpmath import mp, mpf

from torture.exact_criteria import ExactCriterion
from torture.exact_moments import EPSILON, AllowedDirections, ExactMoments
from torture.high_precision import (
    Rounded,
    dot,
    smallest_eigenspace,
    sum_of_smallest,
    trace_rounding,
    weighted_sum,
)
from torture.wrong_answer import WrongAnswer

# More halvings of a polygon's sides than this take too long.
_MAX_SPLITS = 4000
# Relative accuracy of the least score on a polygon. As text, so that mpmath reads it to the digits
# of the current precision.
_POLYGON_ACCURACY = "1e-12"

Point = tuple[Any, ...]


class WeightBound:
    """Lower bounds on a criterion from weights, lines or a multiplier, as certificates have them.

    Attributes
    ----------
    leverage : mpf
        What an equal-error bound may exceed an objective by, per unit by which errors differ.
        Known after `bound`.
    """

    def __init__(
        self,
        criterion: ExactCriterion,
        exact: ExactMoments,
        directions: AllowedDirections,
        d: int,
    ) -> None:
        self.criterion = criterion
        self.exact = exact
        self.directions = directions
        self.d = d
        self.leverage = mpf(0)

    def bound(self, solution: Any, best_rounding: list[Any]) -> Rounded:
        """Return what the weights of a solution prove."""
        criterion = self.criterion
        multiplier = getattr(getattr(solution, "proof", None), "multiplier", None)
        if multiplier is not None:
            return self._bound_with_tolerance(max(mpf(float(multiplier)), mpf(0)))
        lines = getattr(solution, "supporting_weights", None)
        if criterion.name == "robust_error_gap" and lines is not None:
            return self._bound_on_polygon(lines)
        weights = self._to_feasible([mpf(float(weight)) for weight in solution.weights])
        least = self._least_weighted_error(weights)
        if criterion.is_largest:
            offset = dot(weights, criterion.offsets)
            shares = [w * t for w, t in zip(weights, criterion.divisors, strict=True)]
            zeros = [mpf(0)] * len(weights)
            roundings = criterion.term_rounding(criterion.best, zeros, best_rounding)
            return Rounded(least.value - offset, least.rounding + dot(shares, roundings))
        if criterion.wants_equal:
            return self._equal_error_bound(weights, least)
        if criterion.is_nash:
            return self._nash_bound(weights, least)
        return least

    def _equal_error_bound(self, weights: list[Any], least: Rounded) -> Rounded:
        total = sum(weights, mpf(0))
        self.leverage = sum(
            (
                abs(weight / total - share)
                for weight, share in zip(weights, self.criterion.proportions, strict=True)
            ),
            mpf(0),
        )
        # The leverage of two groups is twice the multiplier of their gap.
        relief = self.criterion.tolerance * self.leverage / 2
        return Rounded(least.value / total - relief, least.rounding / total)

    def _nash_bound(self, weights: list[Any], least: Rounded) -> Rounded:
        k = len(weights)
        total = dot(weights, self.criterion.traces)
        captured = total - least.value
        if captured <= 0:
            return Rounded(-mp.inf, mpf(0))
        mean_logarithm = sum((mp.log(weight) for weight in weights), mpf(0)) / k
        rounding = least.rounding + dot(weights, self.criterion.trace_rounding)
        rounding = (rounding + 16 * EPSILON * total) / captured
        return Rounded(mp.log(k) + mean_logarithm - mp.log(captured), rounding)

    def _least_weighted_error(self, weights: list[Any]) -> Rounded:
        """Return the least w.e of any allowed subspace."""
        fixed = dot(weights, self.directions.fixed_errors)
        mixture = weighted_sum(self.directions.matrices, weights)
        if not self.exact.is_rounded:
            return Rounded(sum_of_smallest(mixture, self.d) + fixed, mpf(0))
        least, residual = smallest_eigenspace(mixture, self.d)
        basis = self.directions.basis
        rounding = self._weighted_rounding(
            [abs(weight) for weight in weights], basis * residual * basis.T
        )
        return Rounded(least + fixed, rounding)

    def _weighted_rounding(self, weights: list[Any], projector: Any) -> Any:
        return sum(
            (
                weight * trace_rounding(projector, rounding)
                for weight, rounding in zip(weights, self.directions.entry_rounding, strict=True)
            ),
            mpf(0),
        )

    def _to_feasible(self, weights: list[Any]) -> list[Any]:
        """Return the nearest weights that prove a bound, as a reader of a certificate would."""
        criterion = self.criterion
        k = len(weights)
        if criterion.name == "disparity":
            return criterion.signed_weights
        if criterion.name == "total_error" or k == 1:
            return list(criterion.proportions)
        if criterion.is_largest:
            shares = [max(w, mpf(0)) * t for w, t in zip(weights, criterion.divisors, strict=True)]
            total = sum(shares, mpf(0))
            shares = [share / total for share in shares] if total > 0 else [mpf(1) / k] * k
            return [share / t for share, t in zip(shares, criterion.divisors, strict=True)]
        if criterion.wants_equal:
            return weights if sum(weights, mpf(0)) > 0 else list(criterion.proportions)
        if criterion.is_nash:
            least = mpf(EPSILON) * max(weights)
            return [max(weight, least) for weight in weights]
        return self._to_gap_weights(weights)

    def _to_gap_weights(self, weights: list[Any]) -> list[Any]:
        """Return proportions plus differences that sum to zero and to 2 penalty in size."""
        criterion = self.criterion
        differences = [w - q for w, q in zip(weights, criterion.proportions, strict=True)]
        mean = sum(differences, mpf(0)) / len(weights)
        differences = [difference - mean for difference in differences]
        size = sum((abs(difference) for difference in differences), mpf(0))
        max_size = 2 * criterion.penalty
        if size > max_size:
            differences = [difference * max_size / size for difference in differences]
        return [q + a for q, a in zip(criterion.proportions, differences, strict=True)]

    def _bound_with_tolerance(self, multiplier: Any) -> Rounded:
        """Return the bound of mean parity with a tolerance.

        It is the larger of tr S - t_d(S - mu ff') - mu delta^2 and a bound from the limit alone:
        with f = |f| u, P = I - uu' and s = delta / |f|, no subspace within the limit captures more
        than t_d(PSP) + 2 s |PSu| + s^2 u'Su.
        """
        difference = self.directions.mean_differences[0]
        delta = mpf(float(self.exact.case.restriction.tolerance))
        pooled = self.exact.mixture(self.criterion.proportions)
        shifted = pooled - multiplier * (difference * difference.T)
        if self.exact.is_rounded:
            least, residual = smallest_eigenspace(shifted, self.d)
        else:
            least = sum_of_smallest(shifted, self.d)
            residual = None
        by_multiplier = least + multiplier * ((difference.T * difference)[0] - delta**2)
        length = mp.norm(difference)
        if not length:
            return Rounded(by_multiplier, mpf(0))
        bound = max(
            by_multiplier, self._bound_of_limit(pooled, difference / length, delta / length)
        )
        if not self.exact.is_rounded:
            return Rounded(bound, mpf(0))
        mean_rounding = mp.norm(mp.matrix([16 * EPSILON * x for x in self.exact.largest]))
        rounding = self._weighted_rounding(self.criterion.proportions, residual)
        rounding += 4 * multiplier * mean_rounding * (mean_rounding + length)
        return Rounded(bound, rounding)

    def _bound_of_limit(self, pooled: Any, unit: Any, share: Any) -> Any:
        product = pooled * unit
        variance = (unit.T * product)[0]
        outside = product - variance * unit
        inside = pooled - unit * outside.T - outside * unit.T - variance * (unit * unit.T)
        # The smallest eigenvalues of P S P include its zero along u.
        least_inside = sum_of_smallest(inside, self.d)
        return least_inside + variance - 2 * share * mp.norm(outside) - share**2 * variance

    def _bound_on_polygon(self, lines: Any) -> Rounded:
        """Return the least score of two errors that lie beyond all supporting lines."""
        traces = [2 * t + mpf(10) ** -300 for t in self.criterion.traces]
        corners: list[Point] = [
            (mpf(0), mpf(0)),
            (traces[0], mpf(0)),
            (traces[0], traces[1]),
            (mpf(0), traces[1]),
        ]
        rounding = mpf(0)
        for line in lines:
            weights = [mpf(float(x)) for x in line]
            height = self._least_weighted_error(weights)
            size = max(abs(x) for x in weights)
            if size > 0:
                rounding = max(rounding, height.rounding / size)
            corners = _cut_polygon(corners, weights, height.value)
            if not corners:
                raise WrongAnswer("the supporting lines leave no errors at all")
        zeros = [mpf(0)] * 2
        roundings = [
            self.criterion.value_rounding(list(corner), [rounding] * 2, zeros) for corner in corners
        ]
        return Rounded(_minimum_on_sides(self.criterion.pair_scores, corners), 4 * max(roundings))


def _cut_polygon(corners: list[Point], weights: list[Any], height: Any) -> list[Point]:
    """Return the part of a convex polygon in the half-plane w.e >= height."""
    remaining: list[Point] = []
    for first, last in zip(corners, corners[1:] + corners[:1], strict=True):
        a = weights[0] * first[0] + weights[1] * first[1] - height
        b = weights[0] * last[0] + weights[1] * last[1] - height
        if a >= 0:
            remaining.append(first)
        if (a > 0 > b) or (a < 0 < b):
            t = a / (a - b)
            remaining.append(tuple(x + t * (y - x) for x, y in zip(first, last, strict=True)))
    return remaining


def _minimum_on_sides(scores: Callable[[list[Any]], list[Any]], corners: list[Point]) -> Any:
    """Return a lower bound on the largest score along all sides, to twelve digits.

    Each score is concave, so along a part of a side it is nowhere below the lesser of its ends.
    """
    heap: list[Any] = []
    least = mp.inf
    n_splits = 0

    def push(first: Point, last: Point, at_first: list[Any], at_last: list[Any]) -> None:
        below = max(min(x, y) for x, y in zip(at_first, at_last, strict=True))
        # The second entry breaks ties, so that points are never compared.
        order = len(heap) + _MAX_SPLITS * n_splits
        heappush(heap, (below, order, first, last, at_first, at_last))

    for first, last in zip(corners, corners[1:] + corners[:1], strict=True):
        at_first = scores(list(first))
        at_last = scores(list(last))
        least = min(least, max(at_first), max(at_last))
        push(first, last, at_first, at_last)
    accuracy = mpf(_POLYGON_ACCURACY)
    while least - heap[0][0] > accuracy * abs(least) and n_splits < _MAX_SPLITS:
        n_splits += 1
        _, _, first, last, at_first, at_last = heappop(heap)
        middle = tuple((x + y) / 2 for x, y in zip(first, last, strict=True))
        at_middle = scores(list(middle))
        least = min(least, max(at_middle))
        push(first, middle, at_first, at_middle)
        push(middle, last, at_middle, at_last)
    return heap[0][0]
