"""What a fair projection minimises: one small class for each criterion.

Symbols, as in Samadi et al. (2018): e_g(V) = tr S_g - tr(V'S_gV) is the average squared
reconstruction error of group g, e*_g the least error that any d-dimensional subspace has on g, and
l_g = e_g - e*_g >= 0 its excess loss. q_g is its share of the rows. All errors are in squared units
of the features.

The worst case is the largest (a_g - c_g(V)) / s_g of a group, c_g the variance that it keeps: with
a_g = tr S_g its error, with a_g = t_d(S_g) its excess loss (Samadi et al. 2018), with a_g = 0 minus
the variance itself (Tantipongpipat et al. 2019); s_g is one, or tr S_g for shares of the variance.
In errors, a_g - c_g = e_g - b_g with b_g = tr S_g - a_g.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidParameter, UnknownGroup
from fairspan.formatting.text import counted
from fairspan.linalg import scaled_to_one
from fairspan.problem.problem import (
    KY_FAN_TEXT,
    AffinePieces,
    Blocks,
    Criterion,
    CriterionFormula,
    Problem,
)
from fairspan.registry import (
    check_bool,
    check_number,
    make_plain,
    non_default_parameters,
    plain_value,
)
from fairspan.rows.groups import Label, format_list
from fairspan.rows.label_matching import remedy_for
from fairspan.typing import FloatArray

__all__ = [
    "Criterion",
    "Disparity",
    "EqualError",
    "ErrorGap",
    "LeastVariance",
    "MinimaxCriterion",
    "MinimaxError",
    "MinimaxLoss",
    "NashWelfare",
    "RobustErrorGap",
    "TotalError",
]

# The largest penalty for a gap: beyond it the mean error that it is added to is lost to rounding.
_LARGEST_PENALTY = 1e15
_EPSILON = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
# Errors within this share of the variance are the same, to eigenvectors found by iteration.
_TIE_TOL = 1e-9


@dataclass(frozen=True)
class TotalError(Criterion):
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
        "This criterion minimises the error over all rows, regardless of their groups.",
        "the error over all rows.",
        "float(q @ errors)",
    )

    def pieces(self, problem: Problem) -> AffinePieces:
        """One: the groups' shares of the rows."""
        return AffinePieces(problem.proportions[None], np.zeros(1))


@dataclass(frozen=True)
class Disparity(Criterion):
    """Weighted sum of the total error and the error gap of two groups.

    Minimises trade_off * sum_g q_g e_g + (1 - trade_off) * (e_B - e_A). The leading eigenvectors
    of trade_off S + (1 - trade_off) (S_B - S_A) are optimal (fair PCA by eigendecomposition,
    Theorem 1). The gap is signed, so with a small trade-off B may have the smaller error; for a
    gap of exactly zero use :class:`EqualError`.

    Parameters
    ----------
    trade_off : float, default=0.5
        From 0 (the gap alone) to 1 (ordinary PCA).
    protected : label, default=None
        The group B; None takes the group that ordinary PCA leaves with the larger error.

    Raises
    ------
    InvalidParameter, InvalidType
        The trade-off is no number from 0 to 1. When fitting: Incompatible for more than two groups,
        UnknownGroup for a protected group that is not there.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, Disparity
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> ahead = Disparity(trade_off=0.75, protected="b")
    >>> FairPCA(1, criterion=ahead).fit(X, sensitive_features=groups).group_errors_.round(3)
    array([9., 2.])
    >>> hardly = Disparity(trade_off=0.9, protected="b")
    >>> FairPCA(1, criterion=hardly).fit(X, sensitive_features=groups).group_errors_.round(3)
    array([0., 4.])
    """

    trade_off: float = 0.5
    protected: Label | None = None
    name: ClassVar[str] = "disparity"
    formula: ClassVar[CriterionFormula] = CriterionFormula(
        "This criterion minimises a weighted sum of the error over all rows and of the error of "
        "the protected group minus that of the other. The difference can become negative.",
        "trade_off times the error over all rows, plus 1 - trade_off times the difference in "
        "error between the protected group and the other.",
        "trade_off * float(q @ errors) + (1 - trade_off) * float(errors[b] - errors[1 - b])",
    )

    def __post_init__(self) -> None:
        check_number("trade_off", self.trade_off, 0, 1)
        make_plain(self)

    @property
    def common_shift_slope(self) -> float:
        """By how much the value rises if all errors rise by one."""
        return self.trade_off

    def formula_parameters(self, problem: Problem, weights: FloatArray) -> dict[str, Any]:
        """The trade-off, and the position of the protected group."""
        return {"trade_off": self.trade_off, "b": self._protected_index(problem)}

    def check_groups(self, group_labels: list[Label]) -> None:
        """Raise unless there are two groups at most, the protected one among them."""
        if len(group_labels) > 2:
            raise IncompatibleParameters(
                f"The criterion 'disparity' received {counted(len(group_labels), 'group')}",
                "It is the signed gap of two groups",
                "Use 'error_gap', the largest gap of any two groups, or join groups until two "
                "are left",
            )
        if self.protected is not None and self.protected not in group_labels:
            raise UnknownGroup(
                f"protected is {self.protected!r}",
                f"Allowed: the groups {format_list(group_labels)}",
                remedy_for(
                    self.protected,
                    group_labels,
                    "Name one of them, or leave it out for the group with the larger error under "
                    "PCA",
                ),
            )

    def pieces(self, problem: Problem) -> AffinePieces:
        """One, which may weigh a group negatively."""
        weights = problem.proportions
        if problem.n_groups == 2:
            signs = np.where(np.arange(2) == self._protected_index(problem), 1.0, -1.0)
            weights = self.trade_off * weights + (1 - self.trade_off) * signs
        return AffinePieces(weights[None], np.zeros(1))

    def magnitude(self, errors: FloatArray, problem: Problem) -> float:
        """The sum without its signs, as the value may be zero by chance."""
        return self._require_pieces(problem).magnitude(errors)

    def with_defaults(self, problem: Problem) -> "Disparity":
        """The same, with the protected group named."""
        return replace(self, protected=problem.group_labels[self._protected_index(problem)])

    def _protected_index(self, problem: Problem) -> int:
        """Index of the protected group: without a name, of the largest error under ordinary PCA.

        The last of those that share it: rounding must not choose, as where PCA leaves no error.
        """
        if self.protected is not None:
            return problem.group_labels.index(self.protected)
        whole = problem.unrestricted
        errors = whole.errors(whole.pooled_optimum.vectors)
        tie_tol = _TIE_TOL * float(whole.second_moments.traces.max())
        return int(np.flatnonzero(errors >= errors.max() - tie_tol)[-1])


@dataclass(frozen=True)
class EqualError(Criterion):
    """Total error subject to the same error for both of two groups, up to a tolerance.

    Minimises sum_g q_g e_g subject to ``|e_1 - e_2| <= tolerance``: the exactly (0) and the
    approximately fair projection of Vu et al. (2022), section 2. The optimum is that of
    :class:`ErrorGap` with one certain penalty, which is the multiplier of the constraint.

    Not every table has such a subspace. One of equal errors exists if and only if zero lies between
    the sums of the p - d smallest and the p - d largest eigenvalues of S_1 - S_2; that
    rank(S_1 - S_2) <= d suffices is Proposition 2.2 of Vu et al. (2022), which is not necessary. If
    there is none, the fit raises Incompatible, which states the smallest achievable gap: the
    smallest tolerance that can be met. With more than two groups it is refused; :class:`ErrorGap`
    with a large penalty makes the largest gap small.

    Parameters
    ----------
    tolerance : float, default=0.0
        The largest difference of the groups' errors that is allowed, in squared units of the
        (scaled) features.

    Raises
    ------
    InvalidParameter, InvalidType
        The tolerance is no finite number, or negative. When fitting: Incompatible for more than
        two groups, or where no subspace has errors so close.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, EqualError
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=EqualError()).fit(X, sensitive_features=groups)
    >>> fair.group_errors_.round(3)
    array([3.273, 3.273])
    >>> near = FairPCA(1, criterion=EqualError(tolerance=1.0)).fit(X, sensitive_features=groups)
    >>> near.group_errors_.round(3)
    array([2.455, 3.455])
    """

    tolerance: float = 0.0
    name: ClassVar[str] = "equal_error"
    _formulas: ClassVar[tuple[CriterionFormula, CriterionFormula]] = (
        CriterionFormula(
            "All groups have the same error. Among such projections, this criterion minimises the "
            "error over all rows.",
            "the error over all rows, where all groups have the same error.",
            "float(q @ errors)",
            KY_FAN_TEXT + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M). "
            "Where all errors are the same, the sum is sum_g w_g times one error.",
            "least_left(mixture) / float(weights.sum())",
        ),
        CriterionFormula(
            "The errors of the two groups differ by no more than the tolerance. Among such "
            "projections, this criterion minimises the error over all rows.",
            "the error over all rows, where the groups' errors differ by no more than the "
            "tolerance.",
            "float(q @ errors)",
            KY_FAN_TEXT + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M). "
            "With weights divided by their sum, that sum exceeds the error over all rows by "
            "w_1 - q_1 times the difference of the errors, which is at most the tolerance.",
            "least_left(mixture) / float(weights.sum()) - tolerance * "
            "abs(float(weights[0] / weights.sum() - q[0]))",
        ),
    )
    requires_equal_errors: ClassVar[bool] = True
    is_nonnegative: ClassVar[bool] = True
    common_shift_slope: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_number("tolerance", self.tolerance, 0)
        make_plain(self)

    @property
    def formula(self) -> CriterionFormula:
        """How a reader computes it."""
        return self._formulas[self.tolerance > 0]

    def formula_parameters(self, problem: Problem, weights: FloatArray) -> dict[str, Any]:
        """The tolerance, where there is one."""
        return {"tolerance": self.tolerance} if self.tolerance > 0 else {}

    @property
    def constraint_text(self) -> str:
        """That errors are equal, or how far they may be apart."""
        text = f" with errors at most {self.tolerance:g} apart"
        return text if self.tolerance > 0 else " with equal errors"

    def constraint_violation(self, errors: FloatArray) -> float:
        """The difference beyond the tolerance."""
        return float(np.ptp(errors)) - self.tolerance

    def check_groups(self, group_labels: list[Label]) -> None:
        """Raise for more than two groups, of which equal errors are seldom achievable."""
        if len(group_labels) > 2:
            raise IncompatibleParameters(
                f"The criterion 'equal_error' received {counted(len(group_labels), 'group')}",
                "Allowed: two groups; errors of more are seldom equal in any subspace",
                "Use 'error_gap' with a large penalty, or join groups",
            )

    def pieces(self, problem: Problem) -> AffinePieces:
        """The groups' shares of the rows; the condition is checked separately."""
        return AffinePieces(problem.proportions[None], np.zeros(1))

    def dual_feasible_weights(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Any with a positive sum: w.e is this sum times q.e, plus a multiple of the gap."""
        scaled = scaled_to_one(weights)
        return scaled if scaled.sum() > 0 else problem.proportions

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: Problem
    ) -> float:
        """With w / sum(w) = q + nu (1, -1), q.e is w.e / sum(w) less nu times the gap."""
        total = float(weights.sum())
        multiplier = abs(float(weights[0]) / total - float(problem.proportions[0]))
        return min_weighted_error / total - self.tolerance * multiplier


_LOSS_TEXT = (
    "The excess loss of a group is its error minus the smallest error that any subspace of the "
    "same dimension has on that group."
)


@dataclass(frozen=True, repr=False)
class MinimaxCriterion(Criterion):
    """The largest (e_g - b_g) / s_g of a group: weights w with w.s = 1 prove L(M) - w.b.

    b is the groups' own optima where losses are measured, and zero otherwise; s is the groups'
    variances tr S_g where it is relative, and one otherwise.
    """

    relative: bool = False
    is_nonnegative: ClassVar[bool] = True
    _formulas: ClassVar[tuple[CriterionFormula, CriterionFormula]]

    def __post_init__(self) -> None:
        check_bool("relative", self.relative)
        make_plain(self)

    def __repr__(self) -> str:
        # What is not said is the default, so that names of models stay short.
        arguments = ", ".join(
            f"{name}={value!r}" for name, value in non_default_parameters(self).items()
        )
        return f"{type(self).__name__}({arguments})"

    @property
    def formula(self) -> CriterionFormula:
        """How a reader computes it."""
        return self._formulas[self.relative]

    @property
    def supports_nesting(self) -> bool:
        """Unless it is relative: beside the components before, the variances are others."""
        return not self.relative

    @property
    def common_shift_slope(self) -> float | None:
        """By one, unless each group's error is divided by another number."""
        return None if self.relative else 1.0

    def divisors(self, problem: Problem) -> FloatArray:
        """s, shape (k,): one, or the group's variance tr S_g.

        Raises
        ------
        InvalidInput
            The variance of a group is zero, and a share of it is requested.
        """
        if not self.relative:
            return np.ones(problem.n_groups)
        whole, traces = problem.unrestricted, problem.unrestricted.second_moments.traces
        # Of the centre, about which a group without variance has some.
        rounding = (
            float(np.sum(whole.dense_moments.offset_rounding_error**2))
            if whole.has_matrices
            else 0.0
        )
        if (traces <= rounding).any():
            constant_groups = [problem.group_labels[g] for g in np.flatnonzero(traces <= rounding)]
            raise InvalidInput(
                f"These groups have no variance, of which {self!r} takes a share: "
                f"{format_list(constant_groups)}",
                "Allowed: groups whose rows differ from each other and from the centre",
                "Leave these groups out, or use a criterion that is not relative",
            )
        return traces

    def pieces(self, problem: Problem) -> AffinePieces:
        """One for each group."""
        divisors = problem.divisors
        offsets = problem.best_errors if self.uses_excess_loss else np.zeros(len(divisors))
        return AffinePieces(np.diag(1 / divisors), offsets / divisors)


@dataclass(frozen=True, repr=False)
class MinimaxLoss(MinimaxCriterion):
    """Largest excess loss of a group, max_g (e_g - e*_g): Samadi et al. (2018), equation (1).

    Each group is compared with its own best subspace of the same dimension, so a group that is
    hard to compress does not determine the answer by itself.

    Parameters
    ----------
    relative : bool, default=False
        Divide each group's loss by its variance tr S_g: the objective is then the largest share of
        a group's variance that its own best subspace would keep in addition.

    Raises
    ------
    InvalidParameter
        `relative` is neither True nor False. When fitting: InvalidInput for a group without
        variance, where it is relative.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MinimaxLoss
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=MinimaxLoss()).fit(X, sensitive_features=groups)
    >>> fair.group_errors_.round(3), fair.group_losses_.round(3)
    (array([1.636, 3.636]), array([1.636, 1.636]))

    Group a has variance 9 and group b has variance 4. The losses are the same share of both:

    >>> shares = FairPCA(1, criterion=MinimaxLoss(relative=True)).fit(X, sensitive_features=groups)
    >>> shares.group_losses_.round(3), round(shares.solution_.objective, 3)
    (array([3.   , 1.333]), 0.333)
    """

    name: ClassVar[str] = "minimax_loss"
    uses_excess_loss: ClassVar[bool] = True

    _formulas: ClassVar[tuple[CriterionFormula, CriterionFormula]] = (
        CriterionFormula(
            f"The largest excess loss of a group is minimised. {_LOSS_TEXT}",
            "the largest excess loss of a group: its error minus the least error that any "
            "subspace of as many dimensions has on it.",
            "float((errors - best).max())",
            KY_FAN_TEXT + "So no subspace has a weighted mean of excess losses below L(M) - "
            "sum_g w_g L(S_g), and the largest loss is never below their mean.",
            "least_left(mixture) - float(weights @ best)",
        ),
        CriterionFormula(
            "The largest excess loss of a group, as a share of the group's variance, is "
            f"minimised. {_LOSS_TEXT}",
            "the largest excess loss of a group, its error minus the least error that any "
            "subspace of as many dimensions has on it, as a share of the group's variance tr S_g.",
            "float(((errors - best) / traces).max())",
            KY_FAN_TEXT + "The weights times the variances tr S_g sum to one. So no subspace has a "
            "weighted mean of these shares below L(M) - sum_g w_g L(S_g), and the largest is "
            "never below their mean.",
            "least_left(mixture) - float(weights @ best)",
        ),
    )

    def value(self, errors: FloatArray, problem: Problem) -> float:
        """max_g (e_g - e*_g) / s_g, which only rounding makes negative.

        Under a restriction the errors may leave out what all groups lose alike.
        """
        return max(super().value(errors, problem), -problem.common_error)


@dataclass(frozen=True, repr=False)
class MinimaxError(MinimaxCriterion):
    """Largest error of a group, max_g e_g: an alternative of Samadi et al. (2018).

    A group with more variance than the others can keep the larger error at the optimum: then its
    own best subspace is the answer.

    Parameters
    ----------
    relative : bool, default=False
        Divide each group's error by its variance tr S_g: then every group keeps at least the share
        1 - value of its variance, and no subspace keeps more of every group.

    Raises
    ------
    InvalidParameter
        `relative` is neither True nor False. When fitting: InvalidInput for a group without
        variance, where it is relative.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MinimaxError
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=MinimaxError()).fit(X, sensitive_features=groups)
    >>> fair.group_errors_.round(3), fair.group_losses_.round(3)
    (array([3.273, 3.273]), array([3.273, 1.273]))

    Both groups keep a third of their variances, 9 and 4:

    >>> shares = FairPCA(1, criterion=MinimaxError(relative=True)).fit(X, sensitive_features=groups)
    >>> shares.group_explained_variance_ratio_.sum(axis=1).round(3)
    array([0.333, 0.333])
    """

    name: ClassVar[str] = "minimax_error"

    _formulas: ClassVar[tuple[CriterionFormula, CriterionFormula]] = (
        CriterionFormula(
            "The largest error of a group is minimised.",
            "the largest error of a group.",
            "float(errors.max())",
        ),
        CriterionFormula(
            "The largest error of a group, as a share of the group's variance, is minimised.",
            "the largest error of a group as a share of its variance tr S_g.",
            "float((errors / traces).max())",
            KY_FAN_TEXT + "The weights times the variances tr S_g sum to one. So no subspace has a "
            "weighted mean of these shares below L(M), and the largest is never below their mean.",
        ),
    )


@dataclass(frozen=True)
class LeastVariance(Criterion):
    """Smallest variance that a group keeps, max_g -c_g with c_g = tr S_g - e_g.

    The value is minus the least c_g, so that it is minimised as all criteria are: fair PCA of
    Tantipongpipat et al. (2019) with the least variance as welfare. A group with little variance
    determines the answer, because its variance is compared and not its share; for shares see
    ``MinimaxError(relative=True)``.

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
        "This criterion maximises the least variance that a group keeps.",
        "minus the least variance that a group keeps.",
        "float((errors - traces).max())",
        KY_FAN_TEXT
        + "So no subspace has a weighted mean of kept variances above tr M - L(M), and the "
        "least of them is never above their mean.",
        "least_left(mixture) - float(weights @ traces)",
    )

    def pieces(self, problem: Problem) -> AffinePieces:
        """One for each group, less its variance within the directions of a restriction."""
        return AffinePieces(np.eye(problem.n_groups), problem.second_moments.traces)

    def split_fixed_errors(self, fixed_errors: FloatArray) -> tuple[FloatArray, float]:
        """Nothing: where no variance can be kept, none counts."""
        return np.zeros_like(fixed_errors), 0.0

    def scale(self, errors: FloatArray, problem: Problem) -> float:
        """The least variance that a group keeps, under a restriction too."""
        return self.magnitude(errors, problem)

    def rounding_bound(
        self, error_rounding: FloatArray, errors: FloatArray, problem: Problem
    ) -> float:
        """Of the errors, and of the variances that they are subtracted from."""
        return float((error_rounding + problem.variance_rounding).max())


_WORST_CASE_CODE = """\
def worst(errors, a, b):  # if group a has the larger error
    v = q + penalty * (np.arange(len(q)) == a) - penalty * (np.arange(len(q)) == b)
    spread = np.where(v >= 0, np.sqrt(radius), -np.sqrt(radius))
    return (v * np.maximum(np.sqrt(errors) + spread, 0) ** 2).sum(axis=-1)
"""


@dataclass(frozen=True)
class ErrorGap(Criterion):
    """Total error plus a penalty on the largest error gap: Vu et al. (2022), equation (3).

    Minimises sum_g q_g e_g + penalty * max_(a, b) (e_a - e_b); with two groups,
    ``|e_1 - e_2|``. Above some penalty, the errors are equal if equal errors are achievable
    (:class:`EqualError`).

    Parameters
    ----------
    penalty : float, default=0.5
        From 0, which is ordinary PCA, to 1e15.

    Raises
    ------
    InvalidParameter, InvalidType
        The penalty is no finite number, or negative.

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
        "This criterion minimises the error over all rows, plus a penalty for the largest "
        "difference in error between two groups.",
        "the error over all rows, plus the penalty times the largest difference in error.",
        "float(q @ errors) + penalty * float(errors.max() - errors.min())",
    )

    def __post_init__(self) -> None:
        check_number("penalty", self.penalty, 0)
        make_plain(self)
        if self.penalty > _LARGEST_PENALTY:
            raise InvalidParameter(
                f"penalty is {self.penalty:g}",
                f"Allowed: a number from 0 to {_LARGEST_PENALTY:g}, beyond which the mean error is "
                "rounding beside the penalty",
                "Use EqualError() for errors that are to be equal at any cost",
            )

    def formula_parameters(self, problem: Problem, weights: FloatArray) -> dict[str, Any]:
        """The penalty."""
        return {"penalty": self.penalty}

    def pieces(self, problem: Problem) -> AffinePieces | None:
        """Two blocks: the group of the largest error, and that of the least.

        Otherwise every pair of groups would be a separate piece. With two groups there are two
        pieces, and they are kept: the search for two groups is along the segment between them.
        """
        q, k = problem.proportions, problem.n_groups
        if self.penalty == 0 or k == 1:
            return AffinePieces(q[None], np.zeros(1))
        if k == 2:
            return AffinePieces(self.pair_weights(problem), np.zeros(2))
        alone = self.penalty * np.eye(k)
        return AffinePieces(np.vstack([q + alone, -alone]), np.zeros(2 * k), Blocks((0, k)))

    def dual_feasible_weights(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """w = q + penalty (u - v), u and v on the simplex; ``|w - q|_1`` <= 2 penalty, sum 1."""
        deviation = weights - problem.proportions
        deviation = deviation - deviation.mean()
        limit = 2 * self.penalty
        norm = max(float(np.abs(deviation).sum()), limit, np.finfo(np.float64).tiny)
        return np.asarray(problem.proportions + deviation * (limit / norm))

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: Problem
    ) -> float:
        """The least w.e: with such weights it is never above the value."""
        return min_weighted_error

    def radii(self, problem: Problem) -> FloatArray:
        """eps_g of the robust criterion, shape (k,); here zero."""
        return np.zeros(problem.n_groups)

    def pair_weights(self, problem: Problem) -> FloatArray:
        """v of every ordered pair of groups (a, b), shape (m, k): q + penalty (1_a - 1_b)."""
        alone = np.eye(problem.n_groups)
        contrasts = (alone[:, None] - alone)[alone == 0] if len(alone) > 1 else np.zeros((1, 1))
        return np.asarray(problem.proportions + self.penalty * contrasts)

    def scores(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """Of every ordered pair at (..., k) errors, shape (..., m); each is concave in them."""
        v, root_radii = self.pair_weights(problem), np.sqrt(self.radii(problem))
        roots = np.sqrt(errors[..., None, :]) + np.where(v >= 0, root_radii, -root_radii)
        return np.asarray((v * np.maximum(roots, 0.0) ** 2).sum(axis=-1))

    def score_gradients(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """Derivatives of the scores; infinite where an error with a radius is zero."""
        v, radii = self.pair_weights(problem), self.radii(problem)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(radii > 0, np.sqrt(radii / errors), 0.0)
            slopes = v * np.maximum(1 + np.where(v >= 0, ratio, -ratio), 0.0)
        return np.where(v != 0, slopes, 0.0)


@dataclass(frozen=True)
class RobustErrorGap(ErrorGap):
    """The error gap criterion at the worst distribution within a ball about each group's rows.

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
        eps_g itself, in squared units of the (scaled) features. With radius 0 it is
        :class:`ErrorGap`.

    Raises
    ------
    InvalidParameter, InvalidType
        A penalty or radius is no finite number, or negative. When fitting: UnknownGroup for a
        mapping that does not name exactly the groups of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, RobustErrorGap
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> by_number = RobustErrorGap(penalty=0.5, radius=0.15)
    >>> FairPCA(1, criterion=by_number).fit(X, sensitive_features=groups).group_errors_.round(1)
    array([3.4, 3.2])
    >>> by_group = RobustErrorGap(penalty=0.5, radius={"a": 0.5, "b": 0.0})
    >>> FairPCA(1, criterion=by_group).fit(X, sensitive_features=groups).group_errors_.round(1)
    array([1.8, 3.6])
    """

    radius: float | Mapping[Label, float] = 0.15
    name: ClassVar[str] = "robust_error_gap"
    has_concave_scores: ClassVar[bool] = True
    common_shift_slope: ClassVar[float | None] = None
    formula: ClassVar[CriterionFormula] = CriterionFormula(
        "The same as the error gap, for the worst distribution near the rows.",
        "the error over all rows plus the penalty times the largest difference in error, for the "
        "worst rows within a radius of each group's.",
        "float(max(worst(errors, a, b) for a in range(len(q)) for b in range(len(q)) if a != b))",
        KY_FAN_TEXT
        + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M), and the "
        "criterion, which is least where the radius is zero, is never below this weighted sum.",
        helper_code=_WORST_CASE_CODE,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.radius, Mapping):
            # A copy, so that changing the mapping later does not change the criterion.
            radius = {plain_value(label): each for label, each in self.radius.items()}
            for label, each in radius.items():
                check_number(f"radius of {label!r}", each, 0)
                radius[label] = plain_value(each)
            object.__setattr__(self, "radius", radius)
        else:
            check_number("radius", self.radius, 0)
            make_plain(self)

    def check_groups(self, group_labels: list[Label]) -> None:
        """Raise unless a mapping of radii names exactly these groups."""
        if isinstance(self.radius, Mapping) and set(self.radius) != set(group_labels):
            raise UnknownGroup(
                f"radius is given for the groups {format_list(list(self.radius)) or '(none)'}",
                f"The rows have the groups {format_list(group_labels)}",
                remedy_for(
                    next(
                        (label for label in self.radius if label not in group_labels),
                        group_labels[0],
                    ),
                    group_labels,
                    "Give each group a radius, or one number for all",
                ),
            )

    def formula_parameters(self, problem: Problem, weights: FloatArray) -> dict[str, Any]:
        """The penalty, and the radius of each group."""
        return {"penalty": self.penalty, "radius": self.radii(problem)}

    def radii(self, problem: Problem) -> FloatArray:
        """eps_g, shape (k,)."""
        if isinstance(self.radius, Mapping):
            return np.array(
                [self.radius[label] for label in problem.group_labels], dtype=np.float64
            )
        radii = float(self.radius) / np.sqrt(problem.group_weights)
        return np.asarray(np.ldexp(radii, -(problem.weight_exponent // 2)))

    def value(self, errors: FloatArray, problem: Problem) -> float:
        """The largest score of an ordered pair of groups."""
        return float(self.scores(errors, problem).max())

    def pieces(self, problem: Problem) -> AffinePieces | None:
        """Those of the error gap if every radius is zero."""
        return None if self.radii(problem).any() else super().pieces(problem)

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: Problem
    ) -> float:
        """That of the error gap, as h(v, e, eps) >= v e; with one group h of the least error."""
        return (
            min_weighted_error
            if problem.n_groups > 1
            else self.value(np.maximum([min_weighted_error], 0.0), problem)
        )

    def rounding_bound(
        self, error_rounding: FloatArray, errors: FloatArray, problem: Problem
    ) -> float:
        """The largest of a pair; the roots of small errors are steep."""
        radii = self.radii(problem)
        root_rounding = 2 * np.sqrt(radii) * (np.sqrt(errors + error_rounding) - np.sqrt(errors))
        group_rounding = error_rounding + root_rounding + _EPSILON * radii
        return float((np.abs(self.pair_weights(problem)) @ group_rounding).max())

    def theorem_3_2_holds(self, problem: Problem) -> bool:
        """Whether the condition of Theorem 3.2 of Vu et al. holds.

        For each group: penalty <= q_g, or no subspace has an error on it below eps_g. Where it does
        not hold, the paper's equation (6) may underestimate the supremum; h does not.
        """
        holds = (self.penalty <= problem.proportions) | (problem.best_errors >= self.radii(problem))
        return bool(holds.all())


@dataclass(frozen=True)
class NashWelfare(Criterion):
    """Nash social welfare of the captured variances: Tantipongpipat et al. (2019).

    Minimises minus the mean of log c_g, c_g = tr S_g - e_g the variance of group g that is kept:
    the product of the c_g is largest. The units of the features add a constant only.

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
        "This criterion maximises the product of the variances that the groups keep.",
        "minus the mean logarithm of the variances that the groups keep.",
        "-float(np.log(traces - errors).mean())",
        KY_FAN_TEXT
        + "So no subspace has a weighted sum of kept variances c_g above tr M - L(M), and "
        "of all variances with that sum those have the largest product whose w_g c_g are equal.",
        "float(np.log(weights * len(weights)).mean())\n"
        "lower_bound -= float(np.log(np.trace(mixture) - least_left(mixture)))",
    )

    def check_problem(self, problem: Problem) -> None:
        """Raise Incompatible for a group without variance: there is no logarithm."""
        if (problem.second_moments.traces <= problem.variance_rounding).any():
            where = "" if problem.parent is None else " in the directions that are left"
            raise IncompatibleParameters(
                f"The criterion 'nash_welfare' received a group without variance{where}",
                "It is the product of the groups' captured variances: all must have some",
                "Leave that group out, or use 'minimax_loss'",
            )

    def pieces(self, problem: Problem) -> None:
        """None: the logarithm is not piecewise linear."""

    def value(self, errors: FloatArray, problem: Problem) -> float:
        """-(1 / k) sum_g log(tr S_g - e_g); infinite if no variance of a group is kept."""
        kept = problem.second_moments.traces - errors
        return float(self.scores(errors, problem)[0]) if (kept > 0).all() else np.inf

    def scores(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """The value as the largest of one smooth function, shape (1,)."""
        return np.array([-np.log(self._clipped_variance_kept(errors, problem)).mean()])

    def score_gradients(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """Its derivative in the (k,) errors, shape (1, k)."""
        return (1 / (len(errors) * self._clipped_variance_kept(errors, problem)))[None, :]

    def _clipped_variance_kept(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """c_g; if no variance is kept, the smallest positive value that float64 resolves."""
        traces = problem.second_moments.traces
        return np.maximum(traces - errors, _EPSILON * traces)

    def dual_feasible_weights(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Positive ones: mean log c_g <= log(w.c) - mean log w_g - log k, and w.c <= t_d(M)."""
        scaled = scaled_to_one(weights)
        least = _EPSILON * float(scaled.max())
        return np.maximum(scaled, least) if least > 0 else 1 / problem.second_moments.traces

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: Problem
    ) -> float:
        """mean log(k w_g) - log(tr M - L(M))."""
        max_weighted_variance = max(
            float(weights @ problem.second_moments.traces) - min_weighted_error, _TINY
        )
        return float(np.log(problem.n_groups * weights).mean() - np.log(max_weighted_variance))

    def split_fixed_errors(self, fixed_errors: FloatArray) -> tuple[FloatArray, float]:
        """Nothing: where no variance can be kept, none counts."""
        return np.zeros_like(fixed_errors), 0.0

    def magnitude(self, errors: FloatArray, problem: Problem) -> float:
        """1: a difference of logarithms is relative by itself."""
        return 1.0

    def largest_scaled_error(self, errors: FloatArray, problem: Problem) -> float:
        """1, as of its size."""
        return 1.0

    def unresolved_reason(self, scale: float, problem: Problem) -> str:
        """As the logarithm is steep."""
        return "a group keeps so little of its variance that the logarithm is uncertain"

    def rounding_bound(
        self, error_rounding: FloatArray, errors: FloatArray, problem: Problem
    ) -> float:
        """The logarithm is steep where little is kept, and is rounded itself."""
        kept = np.maximum(problem.second_moments.traces - errors, _TINY)
        log_rounding = 2 * (problem.n_features + np.abs(np.log(kept)).mean()) * _EPSILON
        return float(log_rounding + (problem.variance_rounding / kept).mean())
