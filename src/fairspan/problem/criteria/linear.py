"""Weighted sums of the groups' errors: the total error, and the total error plus a signed gap."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fairspan.errors import IncompatibleParameters, UnknownGroup
from fairspan.formatting.messages import counted
from fairspan.linalg.rounding import ANGLE_TOL
from fairspan.parameters import check_number, make_plain
from fairspan.problem.criteria.criterion import LinearCriterion
from fairspan.problem.criteria.problem_view import ProblemView
from fairspan.problem.formulas import CriterionFormula
from fairspan.rows.label_matching import remedy_for
from fairspan.rows.labels import Label, format_list
from fairspan.typing import FloatArray


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

    def group_weights(self, problem: ProblemView) -> FloatArray:
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
        The trade-off is not a number between 0 and 1. When fitting: IncompatibleParameters for more
        than two groups, UnknownGroup if no row belongs to the protected group.

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
    favors_equal_errors: ClassVar[bool] = True
    formula: ClassVar[CriterionFormula] = CriterionFormula(
        "This criterion minimizes a weighted sum of the error over all rows and the error of the "
        "protected group minus that of the other. The difference may be negative. The "
        "protected group is the one with the larger error under PCA, in squared units, unless the "
        "parameter 'protected' names it.",
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

    def group_weights(self, problem: ProblemView) -> FloatArray:
        """Return the weights of the total error and of the signed gap; one may be negative."""
        if problem.n_groups < 2:
            return problem.proportions
        signs = np.where(np.arange(2) == self._protected_index(problem), 1.0, -1.0)
        return np.asarray(self.trade_off * problem.proportions + (1 - self.trade_off) * signs)

    def magnitude(self, errors: FloatArray, problem: ProblemView) -> float:
        """Weighted error with absolute coefficients, since the value itself may cancel to zero."""
        return problem.affine_pieces.magnitude(errors)

    def with_defaults(self, problem: ProblemView) -> "Disparity":
        """Return a copy in which the protected group is named."""
        return replace(self, protected=problem.group_labels[self._protected_index(problem)])

    def _protected_index(self, problem: ProblemView) -> int:
        """Index of the protected group; by default, that of the largest error under ordinary PCA.

        Ties go to the last such group, so that rounding does not decide, for example if PCA leaves
        no error.
        """
        if self.protected is not None:
            return problem.group_labels.index(self.protected)
        # Ordinary PCA is that of the problem without its restriction.
        unrestricted = problem.unrestricted
        errors = unrestricted.errors(unrestricted.pooled_optimum.vectors)
        # Errors are tied up to the accuracy of iterative eigenvectors.
        tie_tol = ANGLE_TOL * float(unrestricted.second_moments.traces.max())
        return int(np.flatnonzero(errors >= errors.max() - tie_tol)[-1])
