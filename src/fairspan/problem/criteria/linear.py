"""Criteria that are linear in the groups' errors: their total, and it beside the gap of two."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fairspan.errors import Incompatible, UnknownGroup
from fairspan.problem.parameters import check_number
from fairspan.problem.pieces import KY_FAN, Formula, Pieces
from fairspan.problem.problem import Criterion, Problem
from fairspan.rows.groups import Label, listed
from fairspan.typing import FloatArray


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
    can_be_nested: ClassVar[bool] = True
    is_never_negative: ClassVar[bool] = True
    moves_with_errors: ClassVar[float] = 1.0
    sentence: ClassVar[str] = (
        "This criterion minimises the error over all rows, regardless of their groups."
    )
    formula: ClassVar[Formula] = Formula("the error over all rows.", "float(q @ errors)")

    def pieces(self, problem: Problem) -> Pieces:
        """One: the groups' shares of the rows."""
        return Pieces(problem.proportions[None], np.zeros(1))


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
    sentence: ClassVar[str] = (
        "This criterion minimises a weighted sum of the error over all rows and of the error of "
        "the protected group minus that of the other. The difference can become negative."
    )
    formula: ClassVar[Formula] = Formula(
        "trade_off times the error over all rows, plus 1 - trade_off times the difference in "
        "error between the protected group and the other.",
        "trade_off * float(q @ errors) + (1 - trade_off) * float(errors[b] - errors[1 - b])",
    )

    def __post_init__(self) -> None:
        check_number("trade_off", self.trade_off, 0, 1)

    @property
    def moves_with_errors(self) -> float:
        """By how much the value rises if all errors rise by one."""
        return self.trade_off

    def formula_parameters(self, problem: Problem, weights: FloatArray) -> dict[str, Any]:
        """The trade-off, and the position of the protected group."""
        return {"trade_off": self.trade_off, "b": self._protected(problem)}

    def check(self, labels: list[Label]) -> None:
        """Raise unless there are two groups at most, the protected one among them."""
        if len(labels) > 2:
            raise Incompatible(
                f"The criterion 'disparity' received {len(labels)} groups",
                "It is the signed gap of two groups",
                "Use 'error_gap', the largest gap of any two groups, or join groups until two "
                "are left",
            )
        if self.protected is not None and self.protected not in labels:
            raise UnknownGroup(
                f"protected is {self.protected!r}",
                f"Allowed: the groups {listed(labels)}",
                "Name one of them, or leave it out for the group with the larger error under PCA",
            )

    def pieces(self, problem: Problem) -> Pieces:
        """One, which may weigh a group negatively."""
        weights = problem.proportions
        if problem.n_groups == 2:
            signs = np.where(np.arange(2) == self._protected(problem), 1.0, -1.0)
            weights = self.trade_off * weights + (1 - self.trade_off) * signs
        return Pieces(weights[None], np.zeros(1))

    def scale(self, errors: FloatArray, problem: Problem) -> float:
        """The sum without its signs, as the value may be zero by chance."""
        return self._affine(problem).size(errors)

    def settled(self, problem: Problem) -> "Disparity":
        """The same, with the protected group named."""
        return replace(self, protected=problem.labels[self._protected(problem)])

    def _protected(self, problem: Problem) -> int:
        """Index of the protected group."""
        if self.protected is None:
            return problem.served_worse_by_pca
        return problem.labels.index(self.protected)


@dataclass(frozen=True)
class EqualError(Criterion):
    """Total error subject to the same error for both of two groups.

    Not every table has such a subspace. It exists if and only if zero lies between the sums of the
    p - d smallest and the p - d largest eigenvalues of S_1 - S_2; that rank(S_1 - S_2) <= d
    suffices is Proposition 2.2 of Vu et al. (2022), which is not necessary. If there is none, the
    fit raises Incompatible, which states the smallest achievable gap. With more than two groups it
    is refused; :class:`ErrorGap` with a large penalty makes the largest gap small.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, EqualError
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=EqualError()).fit(X, sensitive_features=groups)
    >>> fair.group_errors_.round(3)
    array([3.273, 3.273])
    """

    name: ClassVar[str] = "equal_error"
    sentence: ClassVar[str] = (
        "All groups have the same error. Among such projections, this criterion minimises the "
        "error over all rows."
    )
    formula: ClassVar[Formula] = Formula(
        "the error over all rows, where all groups have the same error.",
        "float(q @ errors)",
        KY_FAN + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M). Where "
        "all errors are the same, the sum is sum_g w_g times one error.",
        "least_left(mixture) / float(weights.sum())",
    )
    wants_equal_errors: ClassVar[bool] = True
    is_never_negative: ClassVar[bool] = True
    moves_with_errors: ClassVar[float] = 1.0

    def check(self, labels: list[Label]) -> None:
        """Raise for more than two groups, of which equal errors are seldom achievable."""
        if len(labels) > 2:
            raise Incompatible(
                f"The criterion 'equal_error' received {len(labels)} groups",
                "Allowed: two groups; errors of more are seldom equal in any subspace",
                "Use 'error_gap' with a large penalty, or join groups",
            )

    def pieces(self, problem: Problem) -> Pieces:
        """The groups' shares of the rows; whether the errors are equal is checked separately."""
        return Pieces(problem.proportions[None], np.zeros(1))

    def dual_weights(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Any with a positive sum: if errors are equal, w.e is this sum times the error."""
        return weights if weights.sum() > 0 else problem.proportions

    def bound(self, least: float, weights: FloatArray, problem: Problem) -> float:
        """The error of all groups of which the weighted sum is the least."""
        return least / float(weights.sum())
