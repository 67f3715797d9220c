"""Criteria: the objectives that a fair projection can minimize.

Notation, after Samadi et al. (2018): e_g(V) = tr S_g - tr(V'S_gV) is the mean squared
reconstruction error of group g, e*_g its best error under any d-dimensional subspace, and
l_g = e_g - e*_g >= 0 its excess loss. q_g is the group's share of the rows. All errors are in
squared units of the features.

Minimax criteria are max_g (a_g - c_g(V)) / s_g, c_g the variance kept of group g: a_g = tr S_g
gives errors, a_g = t_d(S_g) excess losses (Samadi et al. 2018), and a_g = 0 minus the variance kept
(Tantipongpipat et al. 2019). The divisor s_g is one, or tr S_g for relative criteria. In terms of
errors, a_g - c_g = e_g - b_g with b_g = tr S_g - a_g.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidParameter, UnknownGroup
from fairspan.formatting.messages import counted
from fairspan.linalg import scaled_to_one
from fairspan.linalg.rounding import ANGLE_TOL, EPS, TINY
from fairspan.parameters import (
    check_bool,
    check_number,
    make_plain,
    non_default_parameters,
    plain_value,
)
from fairspan.problem.formulas import KY_FAN_TEXT, CriterionFormula
from fairspan.problem.piecewise import AffinePieces, Blocks
from fairspan.problem.problem import Criterion, Problem
from fairspan.registry import resolve_object
from fairspan.rows.label_matching import remedy_for
from fairspan.rows.labels import Label, format_list
from fairspan.typing import FloatArray

__all__ = [
    "ConcaveScoresCriterion",
    "Criterion",
    "Disparity",
    "EqualError",
    "ErrorGap",
    "LeastVariance",
    "LinearCriterion",
    "MinimaxCriterion",
    "MinimaxError",
    "MinimaxLoss",
    "NashWelfare",
    "RobustErrorGap",
    "TotalError",
]

# Largest penalty on a gap. Near 1 / eps the mean error, to which the penalized gap is added, would
# be lost to rounding.
_MAX_PENALTY = 1e15


@dataclass(frozen=True)
class LinearCriterion(Criterion):
    """Base class of weighted sums of the groups' errors; a weight may be negative."""

    @abstractmethod
    def group_weights(self, problem: Problem) -> FloatArray:
        """Weight of each group's error, shape (k,)."""

    def pieces(self, problem: Problem) -> AffinePieces:
        """Return one piece, with the groups' weights as coefficients."""
        return AffinePieces(self.group_weights(problem)[None], np.zeros(1))


@dataclass(frozen=True)
class ConcaveScoresCriterion(Criterion):
    """Base class of largest values of concave functions of the errors, the scores.

    Along each side of a polygon of errors, a concave function is smallest at an end. So the
    criterion is bounded from below over all errors that supporting lines allow. The solvers support
    the scores of :class:`RobustErrorGap`.
    """

    @abstractmethod
    def scores(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """Scores at (..., k) errors, shape (..., m)."""

    @abstractmethod
    def score_gradients(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """Gradients of the scores at (k,) errors, shape (m, k)."""

    def value(self, errors: FloatArray, problem: Problem) -> float:
        """Largest score at (k,) errors."""
        return float(self.scores(errors, problem).max())


@dataclass(frozen=True)
class TotalError(LinearCriterion):
    """Average error over all rows, sum_g q_g e_g: ordinary PCA.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, TotalError
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> pca = FairPCA(1, criterion=TotalError()).fit(X, sensitive_features=groups)
    >>> pca.group_errors_.round(3)
    array([0., 4.])
    """

    name: ClassVar[str] = "total_error"
    supports_nesting: ClassVar[bool] = True
    is_nonnegative: ClassVar[bool] = True
    common_shift_slope: ClassVar[float] = 1.0
    formula: ClassVar[CriterionFormula] = CriterionFormula(
        "This criterion minimizes the error over all rows, regardless of their groups.",
        "the error over all rows.",
    )

    def group_weights(self, problem: Problem) -> FloatArray:
        """Return the groups' proportions."""
        return problem.proportions


@dataclass(frozen=True)
class Disparity(LinearCriterion):
    """Weighted sum of the total error and the error gap of two groups.

    Minimizes trade_off * sum_g q_g e_g + (1 - trade_off) * (e_B - e_A). The leading eigenvectors
    of trade_off S + (1 - trade_off) (S_B - S_A) are optimal (fair PCA by eigendecomposition,
    Theorem 1). The gap is signed, so with a small trade-off B may have the smaller error; for a
    gap of exactly zero use :class:`EqualError`.

    Parameters
    ----------
    trade_off : float, default=0.5
        From 0 (the gap alone) to 1 (ordinary PCA).
    protected : label, default=None
        Group B. By default, the group with the larger error under ordinary PCA.

    Raises
    ------
    InvalidParameter, InvalidType
        The trade-off is not a number between 0 and 1. When fitting: Incompatible for more than two
        groups, UnknownGroup if no row belongs to the protected group.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, Disparity
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> favor_b = Disparity(trade_off=0.75, protected="b")
    >>> FairPCA(1, criterion=favor_b).fit(X, sensitive_features=groups).group_errors_.round(3)
    array([9., 2.])
    >>> nearly_pca = Disparity(trade_off=0.9, protected="b")
    >>> FairPCA(1, criterion=nearly_pca).fit(X, sensitive_features=groups).group_errors_.round(3)
    array([0., 4.])
    """

    trade_off: float = 0.5
    protected: Label | None = None
    name: ClassVar[str] = "disparity"
    formula: ClassVar[CriterionFormula] = CriterionFormula(
        "This criterion minimizes a weighted sum of the error over all rows and the error of the "
        "protected group minus that of the other. The difference may be negative.",
        "trade_off times the error over all rows, plus 1 - trade_off times the difference in "
        "error between the protected group and the other.",
    )

    def __post_init__(self) -> None:
        check_number("trade_off", self.trade_off, 0, 1)
        make_plain(self)

    @property
    def common_shift_slope(self) -> float:
        """Increase of the value when all errors increase by one."""
        return self.trade_off

    def check_groups(self, group_labels: list[Label]) -> None:
        """Raise unless there are at most two groups and a named protected group is one of them."""
        if len(group_labels) > 2:
            raise IncompatibleParameters(
                f"The criterion 'disparity' received {counted(len(group_labels), 'group')}",
                "Allowed: at most two groups, whose signed gap it minimizes",
                "Use 'error_gap', the largest gap of any two groups, or merge groups until two "
                "remain",
            )
        if self.protected is not None and self.protected not in group_labels:
            raise UnknownGroup(
                f"protected is {self.protected!r}",
                f"Allowed: the groups {format_list(group_labels)}",
                remedy_for(
                    self.protected,
                    group_labels,
                    "Name one of them, or omit it to use the group with the larger error under PCA",
                ),
            )

    def group_weights(self, problem: Problem) -> FloatArray:
        """Return the weights of the total error and of the signed gap; one may be negative."""
        if problem.n_groups < 2:
            return problem.proportions
        signs = np.where(np.arange(2) == self._protected_index(problem), 1.0, -1.0)
        return np.asarray(self.trade_off * problem.proportions + (1 - self.trade_off) * signs)

    def magnitude(self, errors: FloatArray, problem: Problem) -> float:
        """Weighted error with absolute coefficients, since the value itself may cancel to zero."""
        return problem.affine_pieces.magnitude(errors)

    def with_defaults(self, problem: Problem) -> "Disparity":
        """Return a copy in which the protected group is named."""
        return replace(self, protected=problem.group_labels[self._protected_index(problem)])

    def _protected_index(self, problem: Problem) -> int:
        """Index of the protected group; by default, that of the largest error under ordinary PCA.

        Ties go to the last such group, so that rounding does not decide, for example if PCA leaves
        no error.
        """
        if self.protected is not None:
            return problem.group_labels.index(self.protected)
        # Ordinary PCA knows no restriction.
        unrestricted = problem.unrestricted
        errors = unrestricted.errors(unrestricted.pooled_optimum.vectors)
        # Errors are tied up to the accuracy of iterative eigenvectors.
        tie_tol = ANGLE_TOL * float(unrestricted.second_moments.traces.max())
        return int(np.flatnonzero(errors >= errors.max() - tie_tol)[-1])


@dataclass(frozen=True)
class EqualError(LinearCriterion):
    """Total error subject to equal errors of two groups, up to a tolerance.

    Minimizes sum_g q_g e_g subject to ``|e_1 - e_2| <= tolerance``: the exactly (tolerance 0) and
    approximately fair projections of Vu et al. (2022), section 2. The optimum equals that of
    :class:`ErrorGap` for one value of the penalty, the multiplier of the constraint.

    Such a subspace need not exist. One with equal errors exists if and only if zero lies between
    the sums of the p - d smallest and the p - d largest eigenvalues of S_1 - S_2;
    rank(S_1 - S_2) <= d is sufficient (Vu et al. 2022, Proposition 2.2) but not necessary.
    Otherwise the fit raises Incompatible and reports the smallest achievable gap, which is the
    smallest feasible tolerance.
    More than two groups are not supported: use :class:`ErrorGap` with a large penalty.

    Parameters
    ----------
    tolerance : float, default=0.0
        Largest allowed difference between the groups' errors, in squared units of the (scaled)
        features.

    Raises
    ------
    InvalidParameter, InvalidType
        The tolerance is negative or not finite. When fitting: Incompatible for more than two
        groups, or if no subspace has errors that close.

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

    def check_groups(self, group_labels: list[Label]) -> None:
        """Raise Incompatible for more than two groups, whose errors can seldom all be equal."""
        if len(group_labels) > 2:
            raise IncompatibleParameters(
                f"The criterion 'equal_error' received {counted(len(group_labels), 'group')}",
                "Allowed: two groups; equal errors of more are seldom achievable",
                "Use 'error_gap' with a large penalty, or merge groups",
            )

    def group_weights(self, problem: Problem) -> FloatArray:
        """Return the groups' proportions; the constraint is checked separately."""
        return problem.proportions

    def dual_feasible_weights(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Return weights with a positive sum.

        For such weights w.e is their sum times q.e plus a multiple of the gap.
        """
        scaled = scaled_to_one(weights)
        return scaled if scaled.sum() > 0 else problem.proportions

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: Problem
    ) -> float:
        """Lower bound from w / sum(w) = q + nu (1, -1).

        Hence q.e is w.e / sum(w) less nu times the gap, which is at most the tolerance.
        """
        total = float(weights.sum())
        multiplier = abs(float(weights[0]) / total - float(problem.proportions[0]))
        return min_weighted_error / total - self.tolerance * multiplier


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

    def divisors(self, problem: Problem) -> FloatArray:
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
        if unrestricted.has_matrices:
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

    def pieces(self, problem: Problem) -> AffinePieces:
        """Return one piece per group."""
        divisors = problem.divisors
        return AffinePieces(np.diag(1 / divisors), self.reference_errors(problem) / divisors)

    @abstractmethod
    def reference_errors(self, problem: Problem) -> FloatArray:
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

    def reference_errors(self, problem: Problem) -> FloatArray:
        """Return the best error of each group."""
        return problem.best_errors

    @property
    def bounds_largest_loss(self) -> bool:
        """Whether losses are not divided by variances."""
        return not self.relative

    def value(self, errors: FloatArray, problem: Problem) -> float:
        """max_g (e_g - e*_g) / s_g, clipped at zero, since only rounding makes it negative.

        Under a restriction the errors exclude the common error, so the value is clipped at minus
        that.
        """
        return max(super().value(errors, problem), -problem.embedding.common_error)


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

    def reference_errors(self, problem: Problem) -> FloatArray:
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
    >>> kept = np.array([9, 4]) - fair.group_errors_
    >>> kept.round(3), round(fair.solution_.objective, 3)
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

    def pieces(self, problem: Problem) -> AffinePieces:
        """Return one piece per group, offset by its variance in the allowed directions."""
        return AffinePieces(np.eye(problem.n_groups), problem.second_moments.traces)

    def split_fixed_errors(self, fixed_errors: FloatArray) -> tuple[FloatArray, float]:
        """Return zeros: variance in forbidden directions cannot be kept, so it does not count."""
        return np.zeros_like(fixed_errors), 0.0

    def scale(self, errors: FloatArray, problem: Problem) -> float:
        """Smallest variance kept by a group, with or without a restriction."""
        return self.magnitude(errors, problem)

    def rounding_bound(
        self, error_rounding: FloatArray, errors: FloatArray, problem: Problem
    ) -> float:
        """Sum the rounding errors of the errors and of the variances they are subtracted from."""
        variance_rounding = problem.rounding.variance_rounding(problem.second_moments)
        return float((error_rounding + variance_rounding).max())


@dataclass(frozen=True)
class ErrorGap(Criterion):
    """Total error plus a penalty on the largest error gap: Vu et al. (2022), equation (3).

    Minimizes sum_g q_g e_g + penalty * max_(a, b) (e_a - e_b); with two groups the gap is
    ``|e_1 - e_2|``. For a large enough penalty the errors are equal, if equal errors are
    achievable (:class:`EqualError`).

    Parameters
    ----------
    penalty : float, default=0.5
        From 0, which gives ordinary PCA, to 1e15.

    Raises
    ------
    InvalidParameter, InvalidType
        The penalty is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, ErrorGap
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> for penalty in (0.1, 0.5):
    ...     fair = FairPCA(1, criterion=ErrorGap(penalty)).fit(X, sensitive_features=groups)
    ...     print(penalty, fair.group_errors_.round(3))
    0.1 [0. 4.]
    0.5 [3.273 3.273]
    """

    penalty: float = 0.5
    name: ClassVar[str] = "error_gap"
    is_nonnegative: ClassVar[bool] = True
    common_shift_slope: ClassVar[float | None] = 1.0
    formula: ClassVar[CriterionFormula] = CriterionFormula(
        "This criterion minimizes the error over all rows, plus a penalty for the largest "
        "difference in error between two groups.",
        "the error over all rows, plus the penalty times the largest difference in error.",
    )

    def __post_init__(self) -> None:
        check_number("penalty", self.penalty, 0)
        make_plain(self)
        if self.penalty > _MAX_PENALTY:
            raise InvalidParameter(
                f"penalty is {self.penalty:g}",
                f"Allowed: a number from 0 to {_MAX_PENALTY:g}; beyond that the mean error is lost "
                "to rounding",
                "Use EqualError() to require equal errors at any cost",
            )

    def pieces(self, problem: Problem) -> AffinePieces | None:
        """Return the value as a sum of two maxima, for the largest and the smallest error.

        It is max_a (q.e + penalty e_a) + max_b (-penalty e_b) for the groups' proportions q. Each
        piece is an affine function of the errors e, given by its coefficients and an offset of
        zero. Two blocks of k pieces replace a piece for every ordered pair of groups. With two
        groups the two pairs are kept, since the solver for two groups moves along the segment
        between two pieces. Without a penalty or a second group, the value is the total error q.e.
        """
        q = problem.proportions
        k = problem.n_groups
        if self.penalty == 0 or k == 1:
            return AffinePieces(q[None], np.zeros(1))
        if k == 2:
            return AffinePieces(self.pair_weights(problem), np.zeros(2))
        penalties = self.penalty * np.eye(k)
        coefficients = np.vstack([q + penalties, -penalties])
        return AffinePieces(coefficients, np.zeros(2 * k), Blocks((0, k)))

    def dual_feasible_weights(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Return w = q + penalty (u - v) with u and v on the simplex.

        These are the w with sum 1 and ``|w - q|_1 <= 2 penalty``. The deviation of the given
        weights from q is centered, and shortened if it is too long.
        """
        deviation = weights - problem.proportions
        deviation = deviation - deviation.mean()
        limit = 2 * self.penalty
        norm = max(float(np.abs(deviation).sum()), limit, TINY)
        return np.asarray(problem.proportions + deviation * (limit / norm))

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: Problem
    ) -> float:
        """Return the lower bound on w.e, which for such weights bounds the value too."""
        return min_weighted_error

    def radii(self, problem: Problem) -> FloatArray:
        """Radii eps_g of the robust criterion, shape (k,); zero for this one."""
        return np.zeros(problem.n_groups)

    def pair_weights(self, problem: Problem) -> FloatArray:
        """Weights v = q + penalty (1_a - 1_b) of each ordered pair of groups, shape (m, k)."""
        units = np.eye(problem.n_groups)
        contrasts = np.zeros((1, 1))
        if len(units) > 1:
            contrasts = (units[:, None] - units)[units == 0]
        return np.asarray(problem.proportions + self.penalty * contrasts)

    def scores(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """Concave score of each ordered pair of groups at (..., k) errors, shape (..., m)."""
        v = self.pair_weights(problem)
        root_radii = np.sqrt(self.radii(problem))
        roots = np.sqrt(errors[..., None, :]) + np.where(v >= 0, root_radii, -root_radii)
        return np.asarray((v * np.maximum(roots, 0.0) ** 2).sum(axis=-1))

    def score_gradients(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """Gradients of the scores; infinite where an error is zero and its radius is not."""
        v = self.pair_weights(problem)
        radii = self.radii(problem)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(radii > 0, np.sqrt(radii / errors), 0.0)
            slopes = v * np.maximum(1 + np.where(v >= 0, ratio, -ratio), 0.0)
        return np.where(v != 0, slopes, 0.0)


@dataclass(frozen=True)
class RobustErrorGap(ErrorGap, ConcaveScoresCriterion):
    """Error gap under the worst-case distribution in a ball around each group's rows.

    Vu et al. (2022), equations (4) and (6): the supremum of sum_g q_g e_g + penalty
    ``|e_1 - e_2|`` over all pairs of distributions within radius eps_g of each group's. It equals
    the max over ordered pairs (a, b) of sum_g h(v_g, e_g, eps_g), v_a = q_a + penalty,
    v_b = q_b - penalty, v_g = q_g for the others. h(v, e, eps) is the extreme of v E over errors E
    with (sqrt(E) - sqrt(e))^2 <= eps: v (sqrt(e) + sqrt(eps))^2 for v >= 0; for v < 0
    v (sqrt(e) - sqrt(eps))^2, or 0 where e < eps. It is concave in e.

    Parameters
    ----------
    penalty : float, default=0.5
        From 0 to 1e15.
    radius : float or mapping of label to float, default=0.15
        A number alpha gives eps_g = alpha / sqrt(n_g), n_g the weight of the group; a mapping gives
        eps_g directly, in squared units of the (scaled) features. Radius 0 is :class:`ErrorGap`.

    Raises
    ------
    InvalidParameter, InvalidType
        A penalty or radius is negative or not finite. When fitting: UnknownGroup if a mapping does
        not name exactly the groups of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, RobustErrorGap
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> common_radius = RobustErrorGap(penalty=0.5, radius=0.15)
    >>> FairPCA(1, criterion=common_radius).fit(X, sensitive_features=groups).group_errors_.round(1)
    array([3.4, 3.2])
    >>> group_radii = RobustErrorGap(penalty=0.5, radius={"a": 0.5, "b": 0.0})
    >>> FairPCA(1, criterion=group_radii).fit(X, sensitive_features=groups).group_errors_.round(1)
    array([1.8, 3.6])
    """

    radius: float | Mapping[Label, float] = 0.15
    name: ClassVar[str] = "robust_error_gap"
    common_shift_slope: ClassVar[float | None] = None
    formula: ClassVar[CriterionFormula] = CriterionFormula(
        "The error gap criterion under the worst-case distribution near the rows.",
        "the error over all rows plus the penalty times the largest difference in error, under the "
        "worst-case distribution within a radius of each group's rows.",
        KY_FAN_TEXT
        + "So sum_g w_g e_g is at least L(M) for every subspace. The criterion is smallest for "
        "radius zero, where it is at least this weighted sum.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.radius, Mapping):
            # Copy with built-in numbers, which JSON can hold, so that later changes to the mapping
            # do not affect the criterion.
            radii = {plain_value(label): radius for label, radius in self.radius.items()}
            for label, radius in radii.items():
                check_number(f"radius of {label!r}", radius, 0)
                radii[label] = plain_value(radius)
            object.__setattr__(self, "radius", radii)
        else:
            check_number("radius", self.radius, 0)
            make_plain(self)  # converts numbers likewise

    def check_groups(self, group_labels: list[Label]) -> None:
        """Raise UnknownGroup unless a mapping of radii names exactly these groups."""
        if not isinstance(self.radius, Mapping) or set(self.radius) == set(group_labels):
            return
        unknown = [label for label in self.radius if label not in group_labels]
        raise UnknownGroup(
            f"radius is given for the groups {format_list(list(self.radius)) or '(none)'}",
            f"The rows have the groups {format_list(group_labels)}",
            remedy_for(
                unknown[0] if unknown else group_labels[0],
                group_labels,
                "Give a radius for each group, or one number for all",
            ),
        )

    def radii(self, problem: Problem) -> FloatArray:
        """Radii eps_g, shape (k,): as given, or alpha / sqrt(n_g).

        The group weights n_g are in units of 2**weight_exponent, an even power.
        """
        if isinstance(self.radius, Mapping):
            return np.array(
                [self.radius[label] for label in problem.group_labels], dtype=np.float64
            )
        radii = float(self.radius) / np.sqrt(problem.group_weights)
        return np.asarray(np.ldexp(radii, -(problem.weight_exponent // 2)))

    def pieces(self, problem: Problem) -> AffinePieces | None:
        """Pieces of the error gap if every radius is zero; otherwise None."""
        return None if self.radii(problem).any() else super().pieces(problem)

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: Problem
    ) -> float:
        """Lower bound of the error gap, valid since h(v, e, eps) >= v e.

        With one group, h at the lower bound on its error.
        """
        if problem.n_groups > 1:
            return min_weighted_error
        return self.value(np.maximum([min_weighted_error], 0.0), problem)

    def rounding_bound(
        self, error_rounding: FloatArray, errors: FloatArray, problem: Problem
    ) -> float:
        """Bound the rounding error of the value by the largest over ordered pairs of groups.

        For a group with error e, radius r and weight v in the pair, the value contains
        v (sqrt(e) + sqrt(r))^2 = v (e + 2 sqrt(r e) + r), with minus sqrt(r) if v is negative. All
        three terms are rounded, and the square root amplifies the rounding error of a small e.
        """
        radii = self.radii(problem)
        root_rounding = 2 * np.sqrt(radii) * (np.sqrt(errors + error_rounding) - np.sqrt(errors))
        group_rounding = error_rounding + root_rounding + EPS * radii
        return float((np.abs(self.pair_weights(problem)) @ group_rounding).max())

    def theorem_3_2_holds(self, problem: Problem) -> bool:
        """Whether the condition of Theorem 3.2 of Vu et al. holds.

        For each group, penalty <= q_g or its best error is at least eps_g. Otherwise equation (6)
        of the paper may underestimate the supremum; h does not.
        """
        holds = (self.penalty <= problem.proportions) | (problem.best_errors >= self.radii(problem))
        return bool(holds.all())


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

    def check_problem(self, problem: Problem) -> None:
        """Raise Incompatible if a group has no variance, whose logarithm is undefined."""
        second_moments = problem.second_moments
        variance_rounding = problem.rounding.variance_rounding(second_moments)
        if (second_moments.traces <= variance_rounding).any():
            where = "" if problem.embedding.parent is None else " in the allowed directions"
            raise IncompatibleParameters(
                f"The criterion 'nash_welfare' received a group without variance{where}",
                "Allowed: groups with positive variance, since the criterion is a product of "
                "variances",
                "Exclude that group, or use 'minimax_loss'",
            )

    def pieces(self, problem: Problem) -> None:
        """Return None: the logarithm is not piecewise linear."""

    def value(self, errors: FloatArray, problem: Problem) -> float:
        """-(1 / k) sum_g log(tr S_g - e_g); infinite if a group keeps no variance."""
        variances_kept = problem.second_moments.traces - errors
        return float(self.scores(errors, problem)[0]) if (variances_kept > 0).all() else np.inf

    def scores(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """Return the value as a single smooth score, shape (1,)."""
        return np.array([-np.log(self._clipped_variance_kept(errors, problem)).mean()])

    def score_gradients(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """Gradient of the score at (k,) errors, shape (1, k)."""
        return (1 / (len(errors) * self._clipped_variance_kept(errors, problem)))[None, :]

    def _clipped_variance_kept(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """Variances kept c_g, clipped below at epsilon times the group's variance."""
        traces = problem.second_moments.traces
        return np.maximum(traces - errors, EPS * traces)

    def dual_feasible_weights(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Return positive weights.

        For such weights mean log c_g <= log(w.c) - mean log w_g - log k, and w.c <= t_d(M).
        """
        scaled = scaled_to_one(weights)
        min_weight = EPS * float(scaled.max())
        if min_weight > 0:
            return np.maximum(scaled, min_weight)
        return 1 / problem.second_moments.traces

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: Problem
    ) -> float:
        """Lower bound mean log(k w_g) - log(tr M - L(M)) on the value, minus mean log c_g.

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

    def magnitude(self, errors: FloatArray, problem: Problem) -> float:
        """Return 1: differences of logarithms are already relative."""
        return 1.0

    def largest_scaled_error(self, errors: FloatArray, problem: Problem) -> float:
        """Return 1, like the magnitude."""
        return 1.0

    def unresolved_reason(self, scale: float, problem: Problem) -> str:
        """Reason that the logarithm amplifies the rounding error of small variances."""
        return "a group keeps so little of its variance that the logarithm is uncertain"

    def rounding_bound(
        self, error_rounding: FloatArray, errors: FloatArray, problem: Problem
    ) -> float:
        """Sum the logarithm's rounding error and that of its argument, amplified by it."""
        variances_kept = np.maximum(problem.second_moments.traces - errors, TINY)
        log_rounding = 2 * (problem.n_features + np.abs(np.log(variances_kept)).mean()) * EPS
        variance_rounding = problem.rounding.variance_rounding(problem.second_moments)
        return float(log_rounding + (variance_rounding / variances_kept).mean())


# Criteria by name.
CRITERIA = {
    criterion.name: criterion
    for criterion in (
        MinimaxLoss,
        MinimaxError,
        LeastVariance,
        TotalError,
        Disparity,
        EqualError,
        ErrorGap,
        RobustErrorGap,
        NashWelfare,
    )
}


def get_criterion(criterion: object, **parameters: Any) -> Criterion:
    """Get a criterion by name, with parameters, or return the given object.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter, or a parameter out of range.
    InvalidType
        Neither a name nor a criterion object.

    Examples
    --------
    >>> get_criterion("error_gap", penalty=2.0)
    ErrorGap(penalty=2.0)
    """
    return cast(Criterion, resolve_object("criterion", criterion, Criterion, CRITERIA, parameters))
