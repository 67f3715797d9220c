"""Criteria that sum over the groups: errors, weighed or equal, and logarithms."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairspan.errors import Incompatible, UnknownGroup
from fairspan.problem.criteria.criterion import KY_FAN, Formula, OfErrors
from fairspan.problem.parameters import check_number
from fairspan.problem.pieces import Pieces
from fairspan.rows.groups import Label, listed
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from fairspan.problem.problem import Problem

_EPSILON = float(np.finfo(np.float64).eps)


class _Linear(OfErrors):
    """One affine function of the errors: its own weights prove its bound."""

    def own_weights(self, problem: "Problem") -> FloatArray:
        """Of the groups' errors, shape (k,)."""
        return problem.proportions

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """The weighted sum."""
        return float(self.own_weights(problem) @ errors)

    def pieces(self, problem: "Problem") -> Pieces:
        """One piece, which may weigh a group negatively."""
        return Pieces.single(self.own_weights(problem))

    def proving_weights(self, weights: FloatArray, problem: "Problem") -> FloatArray:
        """Those of the criterion."""
        return self.own_weights(problem)

    def gap(
        self, errors: FloatArray, excess: float, weights: FloatArray, problem: "Problem"
    ) -> float:
        """The excess."""
        return excess

    def scale(self, errors: FloatArray, weights: FloatArray, problem: "Problem") -> float:
        """``sum_g |w_g| e_g``."""
        return float(np.abs(weights) @ errors)

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: "Problem") -> float:
        """``sum_g |w_g|`` times the errors' own."""
        return float(np.abs(self.own_weights(problem)) @ roundings)


@dataclass(frozen=True)
class TotalError(_Linear):
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
    sentence: ClassVar[str] = (
        "This criterion minimises the error over all rows, regardless of their groups."
    )
    formula: ClassVar[Formula] = Formula.of_errors("the error over all rows.", "float(q @ errors)")


@dataclass(frozen=True)
class Disparity(_Linear):
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
    is_never_negative: ClassVar[bool] = False
    sentence: ClassVar[str] = (
        "This criterion minimises a weighted sum of the error over all rows and of the error of "
        "the protected group minus that of the other. The difference can become negative."
    )
    formula: ClassVar[Formula] = Formula.of_errors(
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

    def formula_parameters(self, problem: "Problem") -> dict[str, Any]:
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

    def own_weights(self, problem: "Problem") -> FloatArray:
        """trade_off q, plus 1 - trade_off for the protected group, less as much for the other."""
        if problem.n_groups == 1:
            return problem.proportions
        gap = np.where(np.arange(2) == self._protected(problem), 1.0, -1.0)
        return np.asarray(self.trade_off * problem.proportions + (1 - self.trade_off) * gap)

    def settled(self, problem: "Problem") -> "Disparity":
        """The same, with the protected group named."""
        return replace(self, protected=problem.labels[self._protected(problem)])

    def _protected(self, problem: "Problem") -> int:
        if self.protected is None:
            return problem.served_worse_by_pca
        return problem.labels.index(self.protected)


@dataclass(frozen=True)
class EqualError(OfErrors):
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
        KY_FAN + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M). Where "
        "all errors are the same, the sum is sum_g w_g times one error.",
        "float(q @ errors)",
        "least_left(mixture) / float(weights.sum())",
    )
    wants_equal_errors: ClassVar[bool] = True

    def check(self, labels: list[Label]) -> None:
        """Raise for more than two groups, of which equal errors are seldom achievable."""
        if len(labels) > 2:
            raise Incompatible(
                f"The criterion 'equal_error' received {len(labels)} groups",
                "Allowed: two groups; errors of more are seldom equal in any subspace",
                "Use 'error_gap' with a large penalty, or join groups",
            )

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """sum_g q_g e_g; whether the errors are equal is checked separately."""
        return float(problem.proportions @ errors)

    def pieces(self, problem: "Problem") -> None:
        """None: a constraint is not the maximum of finitely many pieces."""

    def proving_weights(self, weights: FloatArray, problem: "Problem") -> FloatArray:
        """Any with a positive sum: if errors are equal, w.e is this sum times the error."""
        return weights if weights.sum() > 0 else problem.proportions

    def gap(
        self, errors: FloatArray, excess: float, weights: FloatArray, problem: "Problem"
    ) -> float:
        """The excess over the sum of the weights, and the contribution of unequal errors.

        Errors that are not quite equal may lower the value below what equal ones can reach; so
        their share counts against the bound whatever its sign.
        """
        total = float(weights.sum())
        return excess / total + abs(
            float((problem.proportions - weights / total) @ (errors - errors.min()))
        )

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: "Problem") -> float:
        """sum_g q_g times the errors' own."""
        return float(problem.proportions @ roundings)


@dataclass(frozen=True)
class NashWelfare(OfErrors):
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
    sentence: ClassVar[str] = (
        "This criterion maximises the product of the variances that the groups keep."
    )
    formula: ClassVar[Formula] = Formula(
        "minus the mean logarithm of the variances that the groups keep.",
        KY_FAN + "So no subspace has a weighted sum of kept variances c_g above tr M - L(M), and "
        "of all variances with that sum those have the largest product whose w_g c_g are equal.",
        "-float(np.log(traces - errors).mean())",
        "float(np.log(weights * len(weights)).mean())\n"
        "lower_bound -= float(np.log(np.trace(mixture) - least_left(mixture)))",
    )
    is_never_negative: ClassVar[bool] = False
    is_logarithmic: ClassVar[bool] = True
    counts_kept_variance: ClassVar[bool] = True

    @property
    def moves_with_errors(self) -> None:
        """Not always by the same."""

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """-(1 / k) sum_g log(tr S_g - e_g); infinite if no variance of a group is kept."""
        captured = problem.second_moments.traces - errors
        with np.errstate(divide="ignore"):
            return float(-np.log(np.maximum(captured, 0.0)).mean())

    def scores(self, errors: FloatArray, problem: "Problem") -> FloatArray:
        """The value as the largest of one smooth function, shape (1,)."""
        return np.array([-np.log(self._captured(errors, problem)).mean()])

    def gradients(self, errors: FloatArray, problem: "Problem") -> FloatArray:
        """Its derivative in the (k,) errors, shape (1, k)."""
        return (1 / (len(errors) * self._captured(errors, problem)))[None, :]

    def _captured(self, errors: FloatArray, problem: "Problem") -> FloatArray:
        """c_g; if no variance is kept, the smallest positive value that float64 resolves."""
        traces = problem.second_moments.traces
        return np.maximum(traces - errors, _EPSILON * traces)

    def pieces(self, problem: "Problem") -> None:
        """None: the logarithm is not piecewise linear."""

    def proving_weights(self, weights: FloatArray, problem: "Problem") -> FloatArray:
        """Positive ones: mean log c_g <= log(w.c) - mean log w_g - log k, and w.c <= t_d(M)."""
        least = np.finfo(np.float64).eps * float(weights.max())
        return np.maximum(weights, least) if least > 0 else 1 / problem.second_moments.traces

    def gap(
        self, errors: FloatArray, excess: float, weights: FloatArray, problem: "Problem"
    ) -> float:
        """log(t_d(M) / w.c), and the inequality of arithmetic and geometric means of w_g c_g."""
        captured = np.maximum(problem.second_moments.traces - errors, 0.0)
        if not captured.all():
            return float(np.inf)
        kept = float(weights @ captured)
        ratios = problem.n_groups * (weights * captured / kept)
        return float(np.log1p(max(excess, 0.0) / kept) - np.log(ratios).mean())

    def scale(self, errors: FloatArray, weights: FloatArray, problem: "Problem") -> float:
        """1: a difference of logarithms is relative by itself."""
        return 1.0

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: "Problem") -> float:
        """The logarithm is steep where little is kept."""
        traces = problem.second_moments.traces
        captured = np.maximum(traces - errors, np.finfo(np.float64).tiny)
        if problem.inner_rounding is not None:
            traces = traces + problem.inner_rounding / _EPSILON
        return 2 * problem.n_features * _EPSILON * (1 + float((traces / captured).mean()))
