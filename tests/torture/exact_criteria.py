"""Formulas of the criteria in mpmath, from the mathematics of the papers."""

from functools import cached_property
from itertools import permutations
from typing import Any

from mpmath import mp, mpf

from torture.cases import Case
from torture.exact_moments import EPSILON, ExactMoments
from torture.high_precision import dot, to_mpf, trace


class ExactCriterion:
    """A criterion, its parameters and the constants that it derives from the moments.

    Attributes
    ----------
    name : str
    proportions : list of k
        Shares of the groups in the total weight.
    is_largest : bool
        Whether the value is the largest of (e_g - offset_g) / divisor_g.
    is_relative : bool
        Whether errors are divided by the groups' variances.
    is_nash : bool
    wants_equal : bool
        Whether errors have to be equal up to `tolerance`.
    best : list of k
        Least possible error of each group.
    traces, trace_rounding : list of k
        Variances of the groups, and bounds on their rounding.
    offsets, divisors : list of k
    """

    def __init__(self, criterion: Any, case: Case, exact: ExactMoments, best: list[Any]) -> None:
        self.criterion = criterion
        self.case = case
        self.exact = exact
        self.best = best
        self.name = criterion.name
        self.proportions = exact.proportions
        self.is_nash = self.name == "nash_welfare"
        self.is_largest = self.name in ("minimax_loss", "minimax_error", "least_variance")
        self.is_relative = getattr(criterion, "relative", False)
        self.wants_equal = self.name == "equal_error" and exact.k > 1
        self.tolerance = mpf(float(getattr(criterion, "tolerance", 0)))
        self.traces = [trace(matrix) for matrix in exact.matrices]
        self.trace_rounding = [
            sum((mpf(rounding[j][j]) for j in range(exact.p)), mpf(0))
            for rounding in exact.entry_rounding
        ]
        zeros = [mpf(0)] * exact.k
        self.offsets = {"minimax_loss": best, "least_variance": self.traces}.get(self.name, zeros)
        self.divisors = self.traces if self.is_relative else [mpf(1)] * exact.k
        penalty = getattr(criterion, "penalty", None)
        self.penalty = None if penalty is None else mpf(float(penalty))

    def value(self, errors: list[Any]) -> Any:
        """Return the criterion at these errors of the groups."""
        if self.is_largest:
            return max(self.terms(errors))
        if self.name == "disparity":
            return dot(self.signed_weights, errors)
        if self.name == "error_gap":
            return self.average(errors) + self.penalty * (max(errors) - min(errors))
        if self.name == "robust_error_gap":
            return max(self.pair_scores(errors))
        if self.is_nash:
            captured = [t - e for t, e in zip(self.traces, errors, strict=True)]
            if min(captured) <= 0:
                return mp.inf
            return -sum((mp.log(c) for c in captured), mpf(0)) / len(captured)
        return self.average(errors)

    def terms(self, errors: list[Any]) -> list[Any]:
        """Return (e_g - offset_g) / divisor_g, the largest of which is the value."""
        return [
            (error - offset) / divisor
            for error, offset, divisor in zip(errors, self.offsets, self.divisors, strict=True)
        ]

    def average(self, numbers: list[Any]) -> Any:
        """Return the mean over the groups, weighted by their proportions."""
        return dot(self.proportions, numbers)

    @cached_property
    def signed_weights(self) -> list[Any]:
        """Weights of the two groups' errors in the disparity."""
        if self.exact.k == 1:
            return list(self.proportions)
        trade_off = mpf(float(self.criterion.trade_off))
        labels = sorted(set(self.case.groups)) if self.case.rows is not None else ["0", "1"]
        protected = labels.index(self.criterion.protected)
        signs = [1 if g == protected else -1 for g in range(2)]
        return [
            trade_off * share + (1 - trade_off) * sign
            for share, sign in zip(self.proportions, signs, strict=True)
        ]

    @cached_property
    def radii(self) -> list[Any]:
        """Radius of the ambiguity set of each group."""
        radius = self.criterion.radius
        if isinstance(radius, dict):
            return [mpf(float(radius[label])) for label in sorted(radius)]
        return [mpf(float(radius)) / mp.sqrt(to_mpf(weight)) for weight in self.exact.weights]

    @cached_property
    def pair_weights(self) -> list[list[Any]]:
        """Weights of the groups' errors for each ordered pair of groups."""
        if self.exact.k == 1:
            return [list(self.proportions)]
        all_weights = []
        for larger, smaller in permutations(range(self.exact.k), 2):
            weights = list(self.proportions)
            weights[larger] += self.penalty
            weights[smaller] -= self.penalty
            all_weights.append(weights)
        return all_weights

    def pair_scores(self, errors: list[Any]) -> list[Any]:
        """Return the worst case of the weighted errors for each ordered pair of groups."""
        return [
            sum(
                (
                    _worst_case(weight, error, radius)
                    for weight, error, radius in zip(weights, errors, self.radii, strict=True)
                ),
                mpf(0),
            )
            for weights in self.pair_weights
        ]

    def scale(self, errors: list[Any]) -> Any:
        """Return the size that the tolerance is relative to."""
        if self.is_nash:
            return mpf(1)
        if self.name == "disparity":
            return dot([abs(weight) for weight in self.signed_weights], errors)
        return abs(self.value(errors))

    def unconditional_bound(self) -> Any:
        """Return a bound that needs no weights, from the groups' own best errors, or None."""
        if self.is_largest:
            return max(self.terms(self.best))
        if self.name in ("total_error", "error_gap", "equal_error"):
            return self.average(self.best)
        if self.name == "robust_error_gap" and self.exact.k == 1:
            return self.value(self.best)
        return None

    def value_rounding(
        self, errors: list[Any], error_rounding: list[Any], best_rounding: list[Any]
    ) -> Any:
        """Return the most by which the value changes if errors and best errors are rounded."""
        if self.is_largest:
            return max(self.term_rounding(errors, error_rounding, best_rounding))
        if self.name == "disparity":
            return dot([abs(weight) for weight in self.signed_weights], error_rounding)
        if self.name == "error_gap":
            return self.average(error_rounding) + 2 * self.penalty * max(error_rounding)
        if self.name == "robust_error_gap":
            return self._robust_rounding(errors, error_rounding)
        if self.is_nash:
            return self._logarithm_rounding(errors, error_rounding)
        return self.average(error_rounding)

    def _robust_rounding(self, errors: list[Any], error_rounding: list[Any]) -> Any:
        changes = []
        for error, rounding, radius in zip(errors, error_rounding, self.radii, strict=True):
            upper = mp.sqrt(error + rounding)
            lower = mp.sqrt(max(error - rounding, mpf(0)))
            changes.append(rounding + 2 * mp.sqrt(radius) * (upper - lower))
        return sum(changes, mpf(0)) + 2 * self.penalty * max(changes)

    def _logarithm_rounding(self, errors: list[Any], error_rounding: list[Any]) -> Any:
        relative = []
        for g, error in enumerate(errors):
            captured = self.traces[g] - error
            rounding = error_rounding[g] + self.trace_rounding[g] + 16 * EPSILON * self.traces[g]
            relative.append(rounding / captured if captured > 0 else mp.inf)
        return 16 * EPSILON + sum(relative, mpf(0)) / len(relative)

    def term_rounding(
        self, errors: list[Any], error_rounding: list[Any], best_rounding: list[Any]
    ) -> list[Any]:
        """Return the most by which each of `terms` changes."""
        zeros = [mpf(0)] * len(errors)
        offset_rounding = {
            "minimax_loss": best_rounding,
            "least_variance": self.trace_rounding,
        }.get(self.name, zeros)
        numerators = [
            (error + offset) / divisor
            for error, offset, divisor in zip(
                error_rounding, offset_rounding, self.divisors, strict=True
            )
        ]
        if not self.is_relative:
            return numerators
        # The divisors are variances, which are rounded as well.
        divisor_rounding = [u / t for u, t in zip(self.trace_rounding, self.traces, strict=True)]
        return [
            numerator + abs(term) * (share + 8 * EPSILON)
            for numerator, term, share in zip(
                numerators, self.terms(errors), divisor_rounding, strict=True
            )
        ]


def _worst_case(weight: Any, error: Any, radius: Any) -> Any:
    """Return the largest w E over errors E with (sqrt E - sqrt e)^2 <= radius."""
    root = mp.sqrt(max(error, mpf(0)))
    spread = mp.sqrt(radius)
    if weight >= 0:
        return weight * (root + spread) ** 2
    return weight * max(root - spread, mpf(0)) ** 2
