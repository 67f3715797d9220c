"""Minimax criteria: the largest error or excess loss of a group, and the least variance kept.

They are max_g (a_g - c_g(V)) / s_g, c_g the variance kept of group g: a_g = tr S_g gives errors,
a_g = t_d(S_g), the sum of the d largest eigenvalues of S_g, gives excess losses (Samadi et al.
2018), and a_g = 0 minus the variance kept (Tantipongpipat et al. 2019). The divisor s_g is one, or
tr S_g for relative criteria. In terms of errors, a_g - c_g = e_g - b_g with b_g = tr S_g - a_g.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.parameters import check_bool, make_plain, non_default_parameters
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.problem_view import ProblemView
from fairspan.problem.formulas import KY_FAN_TEXT, CriterionFormula
from fairspan.problem.piecewise import AffinePieces
from fairspan.rows.labels import format_list
from fairspan.typing import FloatArray

_LOSS_TEXT = (
    "The excess loss of a group is its error minus its smallest error under any subspace of the "
    "same dimension."
)


@dataclass(frozen=True, repr=False)
class MinimaxCriterion(Criterion):
    """Base class of max_g (e_g - b_g) / s_g; weights w with w.s = 1 give the bound L(M) - w.b.

    b is the groups' best errors for excess losses and zero for errors; s is the groups' variances
    tr S_g if relative and one otherwise.
    """

    relative: bool = False
    is_nonnegative: ClassVar[bool] = True
    _formulas: ClassVar[tuple[CriterionFormula, CriterionFormula]]

    def __post_init__(self) -> None:
        check_bool("relative", self.relative)
        make_plain(self)

    def __repr__(self) -> str:
        # Omit defaults, to keep the names of models short.
        arguments = ", ".join(
            f"{name}={value!r}" for name, value in non_default_parameters(self).items()
        )
        return f"{type(self).__name__}({arguments})"

    @property
    def formula(self) -> CriterionFormula:
        """Formula that reports print."""
        return self._formulas[self.relative]

    @property
    def supports_nesting(self) -> bool:
        """True unless relative: in the complement of earlier components the variances change."""
        return not self.relative

    @property
    def common_shift_slope(self) -> float | None:
        """One, unless the groups' errors have different divisors."""
        return None if self.relative else 1.0

    def divisors(self, problem: ProblemView) -> FloatArray:
        """Divisors of the groups' errors: ones, or the groups' variances tr S_g, shape (k,).

        Under a restriction, the variances are those in all directions.

        Raises
        ------
        InvalidInput
            The criterion is relative and a group has no variance.
        """
        if not self.relative:
            return np.ones(problem.n_groups)
        unrestricted = problem.unrestricted
        traces = unrestricted.second_moments.traces
        # The groups' means relative to the center are rounded, in each feature by at most
        # `offset_rounding_error`, so that a constant group seems to vary about its mean.
        rounding = 0.0
        if unrestricted.second_moments.has_matrices:
            rounding = float(np.sum(unrestricted.dense_moments.offset_rounding_error**2))
        is_constant = traces <= rounding
        if is_constant.any():
            constant_groups = [problem.group_labels[g] for g in np.flatnonzero(is_constant)]
            raise InvalidInput(
                f"{self!r} divides by the variance of each group, and these groups have none: "
                f"{format_list(constant_groups)}",
                "Allowed: groups with positive variance about the center",
                "Exclude these groups, or use relative=False",
            )
        return traces

    def pieces(self, problem: ProblemView) -> AffinePieces:
        """Return one piece per group."""
        divisors = problem.divisors
        return AffinePieces(np.diag(1 / divisors), self.reference_errors(problem) / divisors)

    @abstractmethod
    def reference_errors(self, problem: ProblemView) -> FloatArray:
        """Error b_g with which each group's error is compared, shape (k,)."""


@dataclass(frozen=True, repr=False)
class MinimaxLoss(MinimaxCriterion):
    """Largest excess loss of a group, max_g (e_g - e*_g): Samadi et al. (2018), equation (1).

    Each group is compared with its own best subspace of the same dimension, so that a group that is
    hard to compress does not determine the solution by itself.

    Parameters
    ----------
    relative : bool, default=False
        Divide each group's loss by its variance tr S_g. The objective is then the largest fraction
        of a group's variance that its own best subspace would keep in addition.

    Raises
    ------
    InvalidParameter
        `relative` is not a bool. When fitting with relative=True: InvalidInput for a group without
        variance.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MinimaxLoss
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=MinimaxLoss()).fit(X, sensitive_features=groups)
    >>> fair.group_errors_.round(3), fair.group_losses_.round(3)
    (array([1.636, 3.636]), array([1.636, 1.636]))

    Group a has variance 9 and group b has variance 4. Both losses are the same fraction of the
    variance:

    >>> relative = FairPCA(1, criterion=MinimaxLoss(relative=True))
    >>> relative = relative.fit(X, sensitive_features=groups)
    >>> relative.group_losses_.round(3), round(relative.solution_.objective, 3)
    (array([3.   , 1.333]), 0.333)
    """

    name: ClassVar[str] = "minimax_loss"
    uses_excess_loss: ClassVar[bool] = True

    _formulas: ClassVar[tuple[CriterionFormula, CriterionFormula]] = (
        CriterionFormula(
            f"This criterion minimizes the largest excess loss of a group. {_LOSS_TEXT}",
            "the largest excess loss of a group: its error minus its smallest error under any "
            "subspace of the same dimension.",
            KY_FAN_TEXT + "So the weighted mean of the excess losses is at least L(M) - "
            "sum_g w_g L(S_g) for every subspace, and the largest loss is at least the mean.",
        ),
        CriterionFormula(
            "This criterion minimizes the largest excess loss of a group as a fraction of the "
            f"group's variance. {_LOSS_TEXT}",
            "the largest excess loss of a group as a fraction of its variance tr S_g; the excess "
            "loss is its error minus its smallest error under any subspace of the same dimension.",
            KY_FAN_TEXT + "The weights times the variances tr S_g sum to one. So the weighted mean "
            "of these fractions is at least L(M) - sum_g w_g L(S_g) for every subspace, and the "
            "largest is at least the mean.",
        ),
    )

    def reference_errors(self, problem: ProblemView) -> FloatArray:
        """Return the best error of each group."""
        return problem.best_errors

    @property
    def bounds_largest_loss(self) -> bool:
        """Whether losses are not divided by variances."""
        return not self.relative

    def value(self, errors: FloatArray, problem: ProblemView) -> float:
        """max_g (e_g - e*_g) / s_g, clipped at zero, since only rounding makes it negative.

        Under a restriction the errors exclude the common error, so the value is clipped at minus
        that.
        """
        return max(problem.affine_pieces.value(errors), -problem.embedding.common_error)


@dataclass(frozen=True, repr=False)
class MinimaxError(MinimaxCriterion):
    """Largest error of a group, max_g e_g: an alternative of Samadi et al. (2018).

    A group with more variance than the others may have the largest error even under its own best
    subspace, which is then optimal.

    Parameters
    ----------
    relative : bool, default=False
        Divide each group's error by its variance tr S_g. Every group then keeps at least the
        fraction 1 - objective of its variance, and no subspace guarantees all groups more.

    Raises
    ------
    InvalidParameter
        `relative` is not a bool. When fitting with relative=True: InvalidInput for a group without
        variance.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MinimaxError
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=MinimaxError()).fit(X, sensitive_features=groups)
    >>> fair.group_errors_.round(3), fair.group_losses_.round(3)
    (array([3.273, 3.273]), array([3.273, 1.273]))

    Both groups keep a third of their variance (9 and 4):

    >>> relative = FairPCA(1, criterion=MinimaxError(relative=True))
    >>> relative = relative.fit(X, sensitive_features=groups)
    >>> relative.group_explained_variance_ratio_.sum(axis=1).round(3)
    array([0.333, 0.333])
    """

    name: ClassVar[str] = "minimax_error"

    _formulas: ClassVar[tuple[CriterionFormula, CriterionFormula]] = (
        CriterionFormula(
            "This criterion minimizes the largest error of a group.",
            "the largest error of a group.",
        ),
        CriterionFormula(
            "This criterion minimizes the largest error of a group as a fraction of the group's "
            "variance.",
            "the largest error of a group as a fraction of its variance tr S_g.",
            KY_FAN_TEXT + "The weights times the variances tr S_g sum to one. So the weighted mean "
            "of these fractions is at least L(M) for every subspace, and the largest is at least "
            "the mean.",
        ),
    )

    def reference_errors(self, problem: ProblemView) -> FloatArray:
        """Return zeros: errors are compared as they are."""
        return np.zeros(problem.n_groups)


@dataclass(frozen=True)
class LeastVariance(Criterion):
    """Minus the smallest variance kept by a group, max_g -c_g with c_g = tr S_g - e_g.

    Maximizes the smallest variance kept: fair PCA of Tantipongpipat et al. (2019) with the minimum
    as welfare function. Variances are compared, not fractions, so a group with little variance
    determines the solution; to compare fractions, use ``MinimaxError(relative=True)``.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, LeastVariance
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=LeastVariance()).fit(X, sensitive_features=groups)
    >>> captured = np.array([9, 4]) - fair.group_errors_
    >>> captured.round(3), round(fair.solution_.objective, 3)
    (array([1.636, 1.636]), -1.636)
    """

    name: ClassVar[str] = "least_variance"
    supports_nesting: ClassVar[bool] = True
    formula: ClassVar[CriterionFormula] = CriterionFormula(
        "This criterion maximizes the smallest variance kept by a group.",
        "minus the smallest variance kept by a group.",
        KY_FAN_TEXT
        + "So the weighted mean of the variances kept is at most tr M - L(M) for every subspace, "
        "and the smallest of them is at most the mean.",
    )

    @property
    def depends_on_variance_kept(self) -> bool:
        """True: it is a function of the variances kept."""
        return True

    def pieces(self, problem: ProblemView) -> AffinePieces:
        """Return one piece per group, offset by its variance in the allowed directions."""
        return AffinePieces(np.eye(problem.n_groups), problem.second_moments.traces)

    def split_fixed_errors(self, fixed_errors: FloatArray) -> tuple[FloatArray, float]:
        """Return zeros: variance in forbidden directions cannot be kept, so it does not count."""
        return np.zeros_like(fixed_errors), 0.0

    def scale(self, errors: FloatArray, problem: ProblemView) -> float:
        """Smallest variance kept by a group, with or without a restriction."""
        return self.magnitude(errors, problem)

    def rounding_bound(
        self, error_rounding: FloatArray, errors: FloatArray, problem: ProblemView
    ) -> float:
        """Sum the rounding errors of the errors and of the variances they are subtracted from."""
        variance_rounding = problem.rounding.variance_rounding(problem.second_moments)
        return float((error_rounding + variance_rounding).max())
