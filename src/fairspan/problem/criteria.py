"""What a fair projection minimises: one small class for each criterion.

Symbols, as in Samadi et al. (2018): e_g(V) = tr S_g - tr(V'S_gV) is the average squared
reconstruction error of group g, e*_g the least error that any d-dimensional subspace has on g, and
l_g = e_g - e*_g >= 0 its excess loss. q_g is its share of the rows. All errors are in squared units
of the features.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from fairspan.errors import Incompatible, UnknownGroup
from fairspan.problem import verification_formulas
from fairspan.problem.parameters import check_number
from fairspan.problem.pieces import Pieces
from fairspan.problem.proof_formulas import LargestProof, LinearProof
from fairspan.problem.verification_formulas import Formula
from fairspan.rows.groups import Label, listed
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from fairspan.problem.problem import Problem


_EPSILON = float(np.finfo(np.float64).eps)
# Weights that use up this much of a penalty use all of it.
_SAME = 1e-14


class Criterion(Protocol):
    """A function of the groups' errors, to be minimised.

    A criterion may also declare its ``sentence``, what it asks for in plain words; and its
    ``formula`` with ``formula_parameters(problem)``, by which a report lets a reader compute it.
    """

    @property
    def name(self) -> str:
        """The name by which it can be asked for."""

    def check(self, labels: list[Label]) -> None:
        """Raise Incompatible or UnknownGroup if it is not defined for these groups."""

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """Evaluate at the (k,) errors of a subspace."""

    def pieces(self, problem: "Problem") -> Pieces | None:
        """The same as a sum of maxima of affine functions; None if it is not one."""


def declares(criterion: object, what: str) -> bool:
    """Whether a criterion says of itself what a solver needs to know.

    Parameters
    ----------
    criterion : Criterion
    what : str
        "wants_equal_errors": the errors of all groups must be equal; "is_logarithmic": its unit is
        that of a logarithm; "measures_losses": its pieces hold the groups' own optima;
        "has_concave_scores": it is the largest of concave functions of the errors.

    Returns
    -------
    bool
        False for a criterion that does not say.

    Examples
    --------
    >>> declares(EqualError(), "wants_equal_errors"), declares(TotalError(), "is_logarithmic")
    (True, False)
    """
    return bool(getattr(criterion, what, False))


class _AnyGroups:
    """A criterion that is defined whatever the groups, and has no parameters."""

    def formula_parameters(self, problem: "Problem") -> dict[str, Any]:
        """None."""
        return {}

    def check(self, labels: list[Label]) -> None:
        """Accept any groups."""


@dataclass(frozen=True)
class TotalError(_AnyGroups, LinearProof):
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
    sentence: ClassVar[str] = "The least error over all rows together, whichever group they are of."
    formula: ClassVar[Formula] = verification_formulas.TOTAL_ERROR
    moves_with_errors: ClassVar[float] = 1.0
    is_never_negative: ClassVar[bool] = True

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """sum_g q_g e_g."""
        return float(problem.proportions @ errors)

    def pieces(self, problem: "Problem") -> Pieces:
        """One piece, q."""
        return Pieces.single(problem.proportions)


@dataclass(frozen=True)
class MinimaxLoss(_AnyGroups, LargestProof):
    """Largest excess loss of a group, max_g (e_g - e*_g): Samadi et al. (2018), equation (1).

    Each group is measured against what the same number of dimensions could do for it alone, so a
    group that is hard to compress does not decide by itself.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MinimaxLoss
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=MinimaxLoss()).fit(X, sensitive_features=groups)
    >>> fair.group_errors_.round(3), fair.group_losses_.round(3)
    (array([1.636, 3.636]), array([1.636, 1.636]))
    """

    name: ClassVar[str] = "minimax_loss"
    measures_losses: ClassVar[bool] = True
    sentence: ClassVar[str] = (
        "The largest excess loss of a group is as small as it can be. A group's excess loss "
        "is its error above what as many dimensions could do for that group alone."
    )
    formula: ClassVar[Formula] = verification_formulas.MINIMAX_LOSS
    moves_with_errors: ClassVar[float] = 1.0
    is_never_negative: ClassVar[bool] = True

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """max_g (e_g - e*_g)."""
        largest = float((errors - problem.best_errors).max())
        # Exact losses are never negative; rounding may make them so. Under a restriction the errors
        # may leave out what all groups lose alike.
        return largest if problem.fixed is not None else max(largest, 0.0)

    def pieces(self, problem: "Problem") -> Pieces:
        """One piece for each group's loss."""
        return Pieces(np.eye(problem.n_groups), problem.best_errors)


@dataclass(frozen=True)
class MinimaxError(_AnyGroups, LargestProof):
    """Largest error of a group, max_g e_g: an alternative of Samadi et al. (2018).

    A group with more variance than the others can keep the larger error at the optimum: then its
    own best subspace is the answer.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MinimaxError
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=MinimaxError()).fit(X, sensitive_features=groups)
    >>> fair.group_errors_.round(3), fair.group_losses_.round(3)
    (array([3.273, 3.273]), array([3.273, 1.273]))
    """

    name: ClassVar[str] = "minimax_error"
    sentence: ClassVar[str] = "The largest error of a group is as small as it can be."
    formula: ClassVar[Formula] = verification_formulas.MINIMAX_ERROR
    moves_with_errors: ClassVar[float] = 1.0
    is_never_negative: ClassVar[bool] = True

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """max_g e_g."""
        return float(errors.max())

    def pieces(self, problem: "Problem") -> Pieces:
        """One piece for each group's error."""
        return Pieces(np.eye(problem.n_groups), np.zeros(problem.n_groups))


@dataclass(frozen=True)
class Disparity(LinearProof):
    """Total error against the error gap of two groups, traded off linearly.

    Minimises trade_off * sum_g q_g e_g + (1 - trade_off) * (e_B - e_A), which the leading
    eigenvectors of trade_off S + (1 - trade_off) (S_B - S_A) do (fair PCA by eigendecomposition,
    Theorem 1). The gap is signed, so a small trade-off may overshoot until B has the smaller error;
    for a gap of exactly zero use :class:`EqualError`.

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
        "A mixture of the error over all rows and the protected group's error minus the "
        "other's is as small as it can be; it does not stop where the two are equal."
    )
    formula: ClassVar[Formula] = verification_formulas.DISPARITY

    def __post_init__(self) -> None:
        check_number("trade_off", self.trade_off, 0, 1)

    def formula_parameters(self, problem: "Problem") -> dict[str, Any]:
        """The trade-off, and the position of the protected group."""
        return {"trade_off": self.trade_off, "b": self._protected(problem)}

    @property
    def moves_with_errors(self) -> float:
        """By how much the value rises if all errors rise by one."""
        return self.trade_off

    def check(self, labels: list[Label]) -> None:
        """Raise unless there are two groups at most, the protected one among them."""
        if len(labels) > 2:
            raise Incompatible(
                f"The criterion 'disparity' was asked for {len(labels)} groups",
                "It is the signed gap of two groups",
                "Use 'error_gap', the largest gap of any two groups, or join groups until two "
                "are left",
            )
        if self.protected is not None and self.protected not in labels:
            raise UnknownGroup(
                f"protected is {self.protected!r}",
                f"Allowed are the groups {listed(labels)}",
                "Name one of them, or leave it out: then it is the group that PCA serves worse",
            )

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """trade_off * sum_g q_g e_g + (1 - trade_off) * (e_B - e_A)."""
        return self.pieces(problem).value(errors)

    def pieces(self, problem: "Problem") -> Pieces:
        """One piece, which may weigh a group negatively."""
        if problem.n_groups == 1:
            return Pieces.single(problem.proportions)
        gap = np.where(np.arange(2) == self._protected(problem), 1.0, -1.0)
        return Pieces.single(self.trade_off * problem.proportions + (1 - self.trade_off) * gap)

    def settled(self, problem: "Problem") -> "Disparity":
        """The same, with the protected group named."""
        return replace(self, protected=problem.labels[self._protected(problem)])

    def _protected(self, problem: "Problem") -> int:
        if self.protected is None:
            return problem.served_worse_by_pca
        return problem.labels.index(self.protected)


@dataclass(frozen=True)
class EqualError(_AnyGroups):
    """Total error subject to the same error for every group.

    Not every table has such a subspace. For two groups it exists if and only if zero lies between
    the sums of the p - d smallest and the p - d largest eigenvalues of S_1 - S_2; that
    rank(S_1 - S_2) <= d suffices is Proposition 2.2 of Vu et al. (2022), which is not necessary.
    Where there is none, the fit raises Incompatible, which tells the least gap within reach.

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
        "All groups have the same error; among such projections the error over all rows is "
        "the least."
    )
    formula: ClassVar[Formula] = verification_formulas.EQUAL_ERROR
    moves_with_errors: ClassVar[float] = 1.0
    is_never_negative: ClassVar[bool] = True
    wants_equal_errors: ClassVar[bool] = True

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """sum_g q_g e_g; that the errors are equal is looked at apart."""
        return float(problem.proportions @ errors)

    def pieces(self, problem: "Problem") -> None:
        """None: a constraint is no largest of finitely many pieces."""

    def proving_weights(self, weights: FloatArray, problem: "Problem") -> FloatArray:
        """Any that do not cancel: where errors are equal, w.e is their sum times the error."""
        return weights if weights.sum() > 0 else problem.proportions

    def gap(
        self, errors: FloatArray, excess: float, weights: FloatArray, problem: "Problem"
    ) -> float:
        """The excess over the sum of the weights, and what unequal errors make of the rest.

        Errors that are not quite equal may lower the value below what equal ones can reach; so
        their share counts against the bound whatever its sign.
        """
        total = float(weights.sum())
        apart = float((problem.proportions - weights / total) @ (errors - errors.min()))
        return excess / total + abs(apart)

    def scale(self, errors: FloatArray, weights: FloatArray, problem: "Problem") -> float:
        """The value."""
        return self.value(errors, problem)

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: "Problem") -> float:
        """sum_g q_g times the errors' own."""
        return float(problem.proportions @ roundings)


@dataclass(frozen=True)
class ErrorGap(_AnyGroups):
    """Total error plus a penalty on the largest error gap: Vu et al. (2022), equation (3).

    Minimises sum_g q_g e_g + penalty * max_(a, b) (e_a - e_b); with two groups,
    ``|e_1 - e_2|``. From some penalty on, the errors are equal where they can be
    (:class:`EqualError`).

    Parameters
    ----------
    penalty : float, default=0.5
        Not negative; 0 is ordinary PCA.

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
    sentence: ClassVar[str] = (
        "The error over all rows, plus a penalty for the largest difference in error between "
        "two groups, is as small as it can be."
    )
    formula: ClassVar[Formula] = verification_formulas.ERROR_GAP
    moves_with_errors: ClassVar[float] = 1.0
    is_never_negative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("penalty", self.penalty, 0)

    def formula_parameters(self, problem: "Problem") -> dict[str, Any]:
        """The penalty."""
        return {"penalty": self.penalty}

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """sum_g q_g e_g + penalty * (largest error - least error)."""
        gap = float(errors.max() - errors.min())
        return float(problem.proportions @ errors) + self.penalty * gap

    def pieces(self, problem: "Problem") -> Pieces:
        """Two blocks: the group of the largest error, and that of the least."""
        if self.penalty == 0 or problem.n_groups == 1:
            return Pieces.single(problem.proportions)
        return Pieces.total_and_gap(problem.proportions, self.penalty)

    def proving_weights(self, weights: FloatArray, problem: "Problem") -> FloatArray:
        """w = q + penalty (u - v), u and v on the simplex; ``|w - q|_1`` <= 2 penalty, sum 1."""
        apart = weights - problem.proportions
        apart = apart - apart.mean()
        length, most = float(np.abs(apart).sum()), 2 * self.penalty
        if length > most * (1 - _SAME):
            apart = apart * (most / length)
        return np.asarray(problem.proportions + apart)

    def gap(
        self, errors: FloatArray, excess: float, weights: FloatArray, problem: "Problem"
    ) -> float:
        """The excess, and by how much groups with more or less weight than rows miss the ends."""
        apart = weights - problem.proportions
        up, down = np.maximum(apart, 0.0), np.maximum(-apart, 0.0)
        unused = self.penalty - float(up.sum())
        unused = unused if unused > _SAME * self.penalty else 0.0
        missed = float(up @ (errors.max() - errors)) + float(down @ (errors - errors.min()))
        return missed + unused * float(np.ptp(errors)) + excess

    def scale(self, errors: FloatArray, weights: FloatArray, problem: "Problem") -> float:
        """The value."""
        return self.value(errors, problem)

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: "Problem") -> float:
        """That of the total error, and of the gap."""
        largest = float(roundings.max())
        return float(problem.proportions @ roundings) + 2 * self.penalty * largest


@dataclass(frozen=True)
class NashWelfare(_AnyGroups):
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
        "The product of the variances that the groups keep is as large as it can be."
    )
    formula: ClassVar[Formula] = verification_formulas.NASH_WELFARE
    is_logarithmic: ClassVar[bool] = True

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """-(1 / k) sum_g log(tr S_g - e_g); infinite where nothing of a group is kept."""
        captured = problem.second_moments.traces - errors
        with np.errstate(divide="ignore"):
            return float(-np.log(np.maximum(captured, 0.0)).mean())

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
