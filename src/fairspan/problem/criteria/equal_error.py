"""Total error subject to equal errors of two groups."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg import scale_to_one
from fairspan.parameters import check_number, make_plain
from fairspan.problem.criteria.criterion import LinearCriterion
from fairspan.problem.criteria.problem_view import ProblemView
from fairspan.problem.formulas import KY_FAN_TEXT, CriterionFormula
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray


@dataclass(frozen=True)
class EqualError(LinearCriterion):
    """Total error subject to equal errors of two groups, up to a tolerance.

    Minimizes sum_g q_g e_g subject to ``|e_1 - e_2| <= tolerance``: the exactly (tolerance 0) and
    approximately fair projections of Vu et al. (2022), section 2. The optimum equals that of
    :class:`ErrorGap` for one value of the penalty, the multiplier of the constraint.

    Such a subspace need not exist. One with equal errors exists if and only if zero lies between
    the sums of the p - d smallest and the p - d largest eigenvalues of S_1 - S_2;
    rank(S_1 - S_2) <= d is sufficient (Vu et al. 2022, Proposition 2.2) but not necessary.
    Otherwise the fit raises IncompatibleParameters and reports the smallest achievable gap, which
    is the smallest feasible tolerance.
    More than two groups are not supported: use :class:`ErrorGap` with a large penalty.

    Parameters
    ----------
    tolerance : float, default=0.0
        Largest allowed difference between the groups' errors, in squared units of the (scaled)
        features.

    Raises
    ------
    InvalidParameter, InvalidType
        The tolerance is negative or not finite. When fitting: IncompatibleParameters for more than
        two groups, or if no subspace has errors that close.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, EqualError
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=EqualError()).fit(X, sensitive_features=groups)
    >>> fair.group_errors_.round(3)
    array([3.273, 3.273])
    >>> tolerant = FairPCA(1, criterion=EqualError(tolerance=1.0))
    >>> tolerant.fit(X, sensitive_features=groups).group_errors_.round(3)
    array([2.455, 3.455])
    """

    tolerance: float = 0.0
    name: ClassVar[str] = "equal_error"
    favors_equal_errors: ClassVar[bool] = True
    is_constrained: ClassVar[bool] = True
    _formulas: ClassVar[tuple[CriterionFormula, CriterionFormula]] = (
        CriterionFormula(
            "All groups have the same error. Among such projections, this criterion minimizes the "
            "error over all rows.",
            "the error over all rows, subject to equal errors of all groups.",
            KY_FAN_TEXT + "So sum_g w_g e_g is at least L(M) for every subspace. "
            "If all errors are equal, it is sum_g w_g times the common error.",
        ),
        CriterionFormula(
            "The errors of the two groups differ by at most the tolerance. Among such "
            "projections, this criterion minimizes the error over all rows.",
            "the error over all rows, subject to errors that differ by at most the tolerance.",
            KY_FAN_TEXT + "So sum_g w_g e_g is at least L(M) for every subspace. "
            "For weights scaled to sum to one, it exceeds the error over all rows by "
            "w_1 - q_1 times the difference of the errors, which is at most the tolerance.",
        ),
    )
    is_nonnegative: ClassVar[bool] = True
    common_shift_slope: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_number("tolerance", self.tolerance, 0)
        make_plain(self)

    @property
    def formula(self) -> CriterionFormula:
        """Formula that reports print."""
        return self._formulas[self.tolerance > 0]

    @property
    def constraint_text(self) -> str:
        """Constraint that completes "no subspace"."""
        if self.tolerance > 0:
            return f" with errors at most {self.tolerance:g} apart"
        return " with equal errors"

    def constraint_violation(self, errors: FloatArray) -> float:
        """Difference of the errors in excess of the tolerance."""
        return float(np.ptp(errors)) - self.tolerance

    def constraint_rounding(
        self, error_rounding: FloatArray, weights: FloatArray, problem: ProblemView
    ) -> float:
        """Bound the rounding error of the difference of the errors, amplified by the weights.

        The bound compares errors that are equal up to rounding only. Weights of opposite sign
        amplify that by their distance from the proportions.
        """
        weights = self.dual_feasible_weights(weights, problem)
        weight_differences = np.abs(problem.proportions - weights / weights.sum())
        return float(weight_differences @ error_rounding)

    def check_groups(self, group_labels: list[Label]) -> None:
        """Raise IncompatibleParameters for more than two groups, which can seldom be equal."""
        if len(group_labels) > 2:
            raise IncompatibleParameters(
                f"The criterion 'equal_error' received {counted(len(group_labels), 'group')}",
                "Allowed: two groups; equal errors of more are seldom achievable",
                "Use 'error_gap' with a large penalty, or merge groups",
            )

    def group_weights(self, problem: ProblemView) -> FloatArray:
        """Return the groups' proportions; the constraint is checked separately."""
        return problem.proportions

    def dual_feasible_weights(self, weights: FloatArray, problem: ProblemView) -> FloatArray:
        """Return weights with a positive sum.

        For such weights w.e is their sum times q.e plus a multiple of the gap.
        """
        scaled = scale_to_one(weights)
        return scaled if scaled.sum() > 0 else problem.proportions

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: ProblemView
    ) -> float:
        """Lower bound from w / sum(w) = q + nu (1, -1).

        Hence q.e is w.e / sum(w) less nu times the gap, which is at most the tolerance.
        """
        total = float(weights.sum())
        multiplier = abs(float(weights[0]) / total - float(problem.proportions[0]))
        return min_weighted_error / total - self.tolerance * multiplier
