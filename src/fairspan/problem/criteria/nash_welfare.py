"""Nash social welfare of the variances kept."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.errors import IncompatibleParameters
from fairspan.linalg import scale_to_one
from fairspan.linalg.rounding import EPS, TINY
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.problem_view import ProblemView
from fairspan.problem.formulas import KY_FAN_TEXT, CriterionFormula
from fairspan.typing import FloatArray


@dataclass(frozen=True)
class NashWelfare(Criterion):
    """Nash social welfare of the variances kept: Tantipongpipat et al. (2019).

    Minimizes minus the mean of log c_g, c_g = tr S_g - e_g the variance kept of group g, and so
    maximizes the product of the c_g. Scaling all features by a constant only shifts the objective.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, NashWelfare
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=NashWelfare()).fit(X, sensitive_features=groups)
    >>> fair.group_errors_.round(3)
    array([4.5, 3. ])
    >>> fair.group_explained_variance_ratio_.sum(axis=1).round(3)
    array([0.5 , 0.25])
    """

    name: ClassVar[str] = "nash_welfare"
    formula: ClassVar[CriterionFormula] = CriterionFormula(
        "This criterion maximizes the product of the variances kept by the groups.",
        "minus the mean logarithm of the variances kept by the groups.",
        KY_FAN_TEXT
        + "So the weighted sum of the variances kept, sum_g w_g c_g, is at most tr M - L(M) for "
        "every subspace. For a given weighted sum, the product of the c_g is largest where all "
        "w_g c_g are equal.",
    )

    @property
    def depends_on_variance_kept(self) -> bool:
        """True: it is a function of the variances kept."""
        return True

    def check_problem(self, problem: ProblemView) -> None:
        """Raise IncompatibleParameters if a group has no variance, whose logarithm is undefined."""
        second_moments = problem.second_moments
        variance_rounding = problem.rounding.variance_rounding(second_moments)
        if (second_moments.traces <= variance_rounding).any():
            # A problem has a parent, the problem without its restriction, only if it has one.
            where = "" if problem.embedding.parent is None else " in the allowed directions"
            raise IncompatibleParameters(
                f"The criterion 'nash_welfare' received a group without variance{where}",
                "Allowed: groups with positive variance, since the criterion is a product of "
                "variances",
                "Exclude that group, or use 'minimax_loss'",
            )

    def pieces(self, problem: ProblemView) -> None:
        """Return None: the logarithm is not piecewise linear."""

    def value(self, errors: FloatArray, problem: ProblemView) -> float:
        """-(1 / k) sum_g log(tr S_g - e_g); infinite if a group keeps no variance."""
        variances_kept = problem.second_moments.traces - errors
        return float(self.scores(errors, problem)[0]) if (variances_kept > 0).all() else np.inf

    def scores(self, errors: FloatArray, problem: ProblemView) -> FloatArray:
        """Return the value as a single smooth score, shape (1,)."""
        return np.array([-np.log(self._clipped_variance_kept(errors, problem)).mean()])

    def score_gradients(self, errors: FloatArray, problem: ProblemView) -> FloatArray:
        """Gradient of the score at (k,) errors, shape (1, k)."""
        return (1 / (len(errors) * self._clipped_variance_kept(errors, problem)))[None, :]

    def _clipped_variance_kept(self, errors: FloatArray, problem: ProblemView) -> FloatArray:
        """Variances kept c_g, clipped below at epsilon times the group's variance."""
        traces = problem.second_moments.traces
        return np.maximum(traces - errors, EPS * traces)

    def dual_feasible_weights(self, weights: FloatArray, problem: ProblemView) -> FloatArray:
        """Return positive weights.

        For such weights mean log c_g <= log(w.c) - mean log w_g - log k, and w.c <= t_d(M).
        """
        scaled = scale_to_one(weights)
        min_weight = EPS * float(scaled.max())
        if min_weight > 0:
            return np.maximum(scaled, min_weight)
        return 1 / problem.second_moments.traces

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: ProblemView
    ) -> float:
        """Lower bound on the value -(1 / k) sum_g log c_g: mean log(k w_g) - log(tr M - L(M)).

        Errors e_g and variances kept c_g = tr S_g - e_g of the k groups have the weighted sums
        w.e + w.c = tr M with M = sum_g w_g S_g. So w.c is at most tr M - L(M) if L(M), here
        `min_weighted_error`, is a lower bound on w.e. For a fixed w.c, mean log c_g is largest if
        all w_g c_g are equal.
        """
        max_weighted_variance = max(
            float(weights @ problem.second_moments.traces) - min_weighted_error, TINY
        )
        return float(np.log(problem.n_groups * weights).mean() - np.log(max_weighted_variance))

    def split_fixed_errors(self, fixed_errors: FloatArray) -> tuple[FloatArray, float]:
        """Return zeros: variance in forbidden directions cannot be kept, so it does not count."""
        return np.zeros_like(fixed_errors), 0.0

    def magnitude(self, errors: FloatArray, problem: ProblemView) -> float:
        """Return 1: differences of logarithms are already relative."""
        return 1.0

    def largest_scaled_error(self, errors: FloatArray, problem: ProblemView) -> float:
        """Return 1, like the magnitude."""
        return 1.0

    def unresolved_reason(self, scale: float, problem: ProblemView) -> str:
        """Reason that the logarithm amplifies the rounding error of small variances."""
        return "a group keeps so little of its variance that the logarithm is uncertain"

    def rounding_bound(
        self, error_rounding: FloatArray, errors: FloatArray, problem: ProblemView
    ) -> float:
        """Sum the logarithm's rounding error and that of its argument, amplified by it."""
        variances_kept = np.maximum(problem.second_moments.traces - errors, TINY)
        log_rounding = 2 * (problem.n_features + np.abs(np.log(variances_kept)).mean()) * EPS
        variance_rounding = problem.rounding.variance_rounding(problem.second_moments)
        return float(log_rounding + (variance_rounding / variances_kept).mean())
