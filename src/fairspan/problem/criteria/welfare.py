"""Welfare of the groups: largest excess loss or error (Samadi et al. 2018), and Nash welfare."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fairspan.problem.criteria.criterion import OfErrors
from fairspan.problem.pieces import Pieces
from fairspan.problem.verification_formulas import KY_FAN, Formula
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from fairspan.problem.problem import Problem


class _Largest(OfErrors):
    """The largest e_g - b_g of a group: weights on the simplex prove L(M) - w.b."""

    is_largest_of_groups: ClassVar[bool] = True
    can_be_nested: ClassVar[bool] = True

    def offsets(self, problem: "Problem") -> FloatArray:
        """b, shape (k,)."""
        return np.zeros(problem.n_groups)

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """max_g (e_g - b_g)."""
        return float((errors - self.offsets(problem)).max())

    def pieces(self, problem: "Problem") -> Pieces:
        """One piece for each group."""
        return Pieces(np.eye(problem.n_groups), self.offsets(problem))

    def proving_weights(self, weights: FloatArray, problem: "Problem") -> FloatArray:
        """Not negative, and summing to one."""
        return _on_simplex(weights)

    def gap(
        self, errors: FloatArray, excess: float, weights: FloatArray, problem: "Problem"
    ) -> float:
        """The excess, and by how much groups that have weight stay below the largest."""
        heights = errors - self.offsets(problem)
        return float(weights @ (heights.max() - heights)) + excess

    def scale(self, errors: FloatArray, weights: FloatArray, problem: "Problem") -> float:
        """The value."""
        return max(float((errors - self.offsets(problem)).max()), 0.0)

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: "Problem") -> float:
        """The largest; twice where the groups' own optima are subtracted."""
        subtracted = bool(self.offsets(problem).any())
        return float(roundings.max()) * (2 if subtracted else 1)


@dataclass(frozen=True)
class MinimaxLoss(_Largest):
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
    formula: ClassVar[Formula] = Formula(
        "the largest excess loss of a group: its error minus the least error that any subspace of "
        "as many dimensions has on it.",
        KY_FAN + "So no subspace has a weighted mean of excess losses below L(M) - sum_g w_g "
        "L(S_g), and the largest loss is never below their mean.",
        "float((errors - best).max())",
        "least_left(mixture) - float(weights @ best)",
    )

    def offsets(self, problem: "Problem") -> FloatArray:
        """The groups' own optima e*_g."""
        return problem.best_errors

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """max_g (e_g - e*_g)."""
        largest = super().value(errors, problem)
        # Exact losses are never negative; rounding may make them so. Under a restriction the errors
        # may leave out what all groups lose alike.
        return largest if problem.fixed is not None else max(largest, 0.0)


@dataclass(frozen=True)
class MinimaxError(_Largest):
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
    formula: ClassVar[Formula] = Formula.of_errors(
        "the largest error of a group.", "float(errors.max())"
    )


def _on_simplex(weights: FloatArray) -> FloatArray:
    positive = np.maximum(weights, 0.0)
    total = float(positive.sum())
    if not total > 0:
        return np.full(len(weights), 1 / len(weights))
    return np.asarray(positive / total)


_EPSILON = float(np.finfo(np.float64).eps)


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
        "The product of the variances that the groups keep is as large as it can be."
    )
    formula: ClassVar[Formula] = Formula(
        "minus the mean logarithm of the variances that the groups keep.",
        KY_FAN + "So no subspace has a weighted sum of kept variances c_g above tr M - L(M), and "
        "of all variances with that sum those have the largest product whose w_g c_g are equal.",
        "-float(np.log(traces - errors).mean())",
        "float(np.log(weights * len(weights)).mean())\n"
        "lower_bound -= float(np.log(np.trace(mixture) - least_left(mixture)))",
    )
    moves_with_errors: ClassVar[float | None] = None
    is_never_negative: ClassVar[bool] = False
    is_logarithmic: ClassVar[bool] = True

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """-(1 / k) sum_g log(tr S_g - e_g); infinite where nothing of a group is kept."""
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
        """c_g, where nothing is kept as little as float64 can tell."""
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
