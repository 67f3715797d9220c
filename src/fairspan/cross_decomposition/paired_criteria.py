"""Criteria of pairs of subspaces: functions of the covariances that the groups keep.

Notation: a pair (U, V) of orthonormal (p, d) and (q, d) bases keeps c_g = tr U'C_gV of the
cross-covariance C_g of group g, at most its own best K_d(C_g), the sum of the d largest singular
values. The loss of a group is K_d(C_g) - c_g >= 0. For weights w >= 0, every pair satisfies
sum_g w_g c_g <= K_d(sum_g w_g C_g) (Fan 1951), and every bound on a criterion rests on this.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from fairspan.cross_decomposition.cross_covariances import CrossCovariances
from fairspan.errors import IncompatibleParameters, InvalidParameter, InvalidType, describe_type
from fairspan.linalg.rounding import EPS, TINY
from fairspan.parameters import check_bool
from fairspan.problem.piecewise import AffinePieces
from fairspan.solvers.many_groups.nash_search import maximize_mean_log
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class PairedProblem:
    """Minimize a criterion of the covariances kept over pairs of d-dimensional subspaces.

    Attributes
    ----------
    covariances : CrossCovariances
        In the directions that are allowed.
    best_covariances : (k,) array
        Most covariance that a pair of d-dimensional subspaces of all directions keeps of each
        group, K_d(C_g).
    best_rounding : (k,) array
        Bound on the rounding errors of these.
    n_components : int
        d, less than the number of columns of either table.
    criterion : PairedCriterion
    """

    covariances: CrossCovariances
    best_covariances: FloatArray
    best_rounding: FloatArray
    n_components: int
    criterion: "PairedCriterion"

    @property
    def n_groups(self) -> int:
        """Number of groups, k."""
        return self.covariances.n_groups

    @property
    def proportions(self) -> FloatArray:
        """q_g, each group's share of the total weight, shape (k,)."""
        return self.covariances.proportions

    @property
    def kept_rounding(self) -> FloatArray:
        """Bound on the rounding error of the covariance kept of each group, shape (k,)."""
        return self.covariances.kept_rounding(self.n_components)


class PairedCriterion(ABC):
    """Convex function of the covariances kept, to be minimized; it decreases in each of them."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name by which the criterion is selected."""

    @abstractmethod
    def value(self, kept: FloatArray, problem: PairedProblem) -> float:
        """Value at (k,) covariances kept."""

    @abstractmethod
    def lower_bound(
        self, weights: FloatArray, max_weighted: float, problem: PairedProblem
    ) -> float:
        """Lower bound on the value over all pairs.

        Parameters
        ----------
        weights : (k,) array
            Feasible weights w, see :meth:`feasible_weights`.
        max_weighted : float
            Upper bound on sum_g w_g c_g over all pairs.
        problem : PairedProblem
        """

    @abstractmethod
    def feasible_weights(self, weights: FloatArray, problem: PairedProblem) -> FloatArray:
        """Nearby weights for which :meth:`lower_bound` holds, shape (k,)."""

    @abstractmethod
    def gradient_weights(self, kept: FloatArray, problem: PairedProblem) -> FloatArray:
        """Minus the gradient, or a subgradient, at (k,) covariances kept, shape (k,)."""

    def affine_pieces(self, problem: PairedProblem) -> AffinePieces | None:
        """Return the value as the largest of affine functions of minus the covariances kept.

        None if it is smooth: the search then follows :meth:`gradient_weights`.
        """
        return None

    def best_mixture(
        self, kept: FloatArray, start: FloatArray, problem: PairedProblem
    ) -> FloatArray:
        """Weights of the convex combination of pairs with the smallest value, shape (m,).

        By default the best one between the present weights and the last pair, by a line search.

        Parameters
        ----------
        kept : (m, k) array
            Covariances that each of m pairs keeps.
        start : (m,) array
            Present weights, of which the last is zero.
        problem : PairedProblem
        """
        newest = np.eye(len(start))[-1]

        def value_at(step: float) -> float:
            return self.value(((1 - step) * start + step * newest) @ kept, problem)

        step = float(
            scipy.optimize.minimize_scalar(value_at, bounds=(0.0, 1.0), method="bounded").x
        )
        return np.asarray((1 - step) * start + step * newest)

    def scale(self, kept: FloatArray, problem: PairedProblem) -> float:
        """Magnitude with which a gap is compared; by default that of the value."""
        return abs(self.value(kept, problem))

    def zero_scale(self, problem: PairedProblem) -> float:
        """Magnitude beside which the value counts as zero, in units of the value."""
        return float(problem.best_covariances.max())

    def rounding_bound(self, kept: FloatArray, problem: PairedProblem) -> float:
        """Bound on the rounding error of value and bound at (k,) covariances kept."""
        return float(np.max(problem.kept_rounding + problem.best_rounding))

    def check_problem(self, problem: PairedProblem) -> None:
        """Raise IncompatibleParameters if the criterion is undefined for these groups."""
        return


@dataclass(frozen=True)
class TotalCovariance(PairedCriterion):
    """Minus the covariance kept over all rows: ordinary partial least squares.

    The best pair is spanned by the leading singular vectors of the pooled cross-covariance, as in
    scikit-learn's `PLSSVD`.
    """

    name: ClassVar[str] = "total_covariance"

    def value(self, kept: FloatArray, problem: PairedProblem) -> float:
        """-sum_g q_g c_g."""
        return -float(problem.proportions @ kept)

    def lower_bound(
        self, weights: FloatArray, max_weighted: float, problem: PairedProblem
    ) -> float:
        """Minus the largest covariance kept over all rows."""
        return -max_weighted

    def feasible_weights(self, weights: FloatArray, problem: PairedProblem) -> FloatArray:
        """Return the proportions."""
        return problem.proportions

    def gradient_weights(self, kept: FloatArray, problem: PairedProblem) -> FloatArray:
        """Return the proportions."""
        return problem.proportions

    def rounding_bound(self, kept: FloatArray, problem: PairedProblem) -> float:
        """Bound the rounding error of the pooled covariance kept; losses do not enter."""
        return float(problem.proportions @ problem.kept_rounding)


@dataclass(frozen=True)
class MinimaxCovarianceLoss(PairedCriterion):
    """Largest loss of covariance of a group, max_g (K_d(C_g) - tr U'C_gV).

    Parameters
    ----------
    relative : bool, default=False
        Divide each group's loss by its best, K_d(C_g). The objective is then the largest fraction
        of covariance that a group loses against its own best pair.

    Raises
    ------
    InvalidParameter
        `relative` is not a bool.
    """

    relative: bool = False

    def __post_init__(self) -> None:
        check_bool("relative", self.relative)
        object.__setattr__(self, "relative", bool(self.relative))

    @property
    def name(self) -> str:
        """Name by which the criterion is selected."""
        return "minimax_relative_loss" if self.relative else "minimax_loss"

    def _divisors(self, problem: PairedProblem) -> FloatArray:
        if self.relative:
            return problem.best_covariances
        return np.ones(problem.n_groups)

    def value(self, kept: FloatArray, problem: PairedProblem) -> float:
        """max_g (K_g - c_g) / s_g; only rounding makes it negative, so it is clipped at zero."""
        losses = (problem.best_covariances - kept) / self._divisors(problem)
        return max(float(losses.max()), 0.0)

    def lower_bound(
        self, weights: FloatArray, max_weighted: float, problem: PairedProblem
    ) -> float:
        """w.K - max w.c, for weights with w.s = 1; losses are never negative."""
        return max(float(weights @ problem.best_covariances) - max_weighted, 0.0)

    def feasible_weights(self, weights: FloatArray, problem: PairedProblem) -> FloatArray:
        """Scale nonnegative weights to w.s = 1."""
        divisors = self._divisors(problem)
        weights = np.maximum(weights, 0.0)
        total = float(weights @ divisors)
        if not total > 0:
            return np.asarray(1 / (problem.n_groups * divisors))
        return weights / total

    def gradient_weights(self, kept: FloatArray, problem: PairedProblem) -> FloatArray:
        """Weight of the group with the largest loss alone."""
        divisors = self._divisors(problem)
        losses = (problem.best_covariances - kept) / divisors
        weights = np.zeros(problem.n_groups)
        worst = int(np.argmax(losses))
        weights[worst] = 1 / divisors[worst]
        return weights

    def affine_pieces(self, problem: PairedProblem) -> AffinePieces:
        """One piece a group: (-c_g + K_g) / s_g."""
        divisors = self._divisors(problem)
        return AffinePieces(np.diag(1 / divisors), -problem.best_covariances / divisors)

    def zero_scale(self, problem: PairedProblem) -> float:
        """Largest best covariance of a group, in units of the divisors."""
        return float((problem.best_covariances / self._divisors(problem)).max())

    def rounding_bound(self, kept: FloatArray, problem: PairedProblem) -> float:
        """Largest rounding error of a loss, in units of the divisors."""
        rounding = problem.kept_rounding + problem.best_rounding
        return float((rounding / self._divisors(problem)).max())

    def check_problem(self, problem: PairedProblem) -> None:
        """Check that no divisor is zero."""
        if self.relative:
            _check_all_covary(self.name, problem)


@dataclass(frozen=True)
class NashCovariance(PairedCriterion):
    """Minus the mean logarithm of the covariances kept, which maximizes their product."""

    name: ClassVar[str] = "nash_welfare"

    def value(self, kept: FloatArray, problem: PairedProblem) -> float:
        """-(1 / k) sum_g log c_g; infinite if a group keeps nothing but rounding errors."""
        if (kept <= problem.kept_rounding).any():
            return np.inf
        return -float(np.log(kept).mean())

    def lower_bound(
        self, weights: FloatArray, max_weighted: float, problem: PairedProblem
    ) -> float:
        """Mean log(k w_g) - log(max w.c), by the inequality of the means."""
        k = problem.n_groups
        return float(np.log(k * weights).mean() - np.log(max(max_weighted, TINY)))

    def feasible_weights(self, weights: FloatArray, problem: PairedProblem) -> FloatArray:
        """Return positive weights."""
        largest = float(np.max(weights, initial=0.0))
        if not largest > 0:
            return np.asarray(1 / problem.best_covariances)
        return np.maximum(weights / largest, EPS)

    def gradient_weights(self, kept: FloatArray, problem: PairedProblem) -> FloatArray:
        """1 / (k c_g), with c_g clipped below at epsilon times the group's best."""
        clipped = np.maximum(kept, EPS * problem.best_covariances)
        return np.asarray(1 / (problem.n_groups * clipped))

    def best_mixture(
        self, kept: FloatArray, start: FloatArray, problem: PairedProblem
    ) -> FloatArray:
        """Weights of the convex combination with the largest mean logarithm, by Newton steps."""
        # Where a pair keeps less than nothing of a group, only its mixtures count.
        return maximize_mean_log(kept, start)

    def scale(self, kept: FloatArray, problem: PairedProblem) -> float:
        """Return 1: differences of logarithms are already relative."""
        return 1.0

    def zero_scale(self, problem: PairedProblem) -> float:
        """Return 1, like the scale."""
        return 1.0

    def rounding_bound(self, kept: FloatArray, problem: PairedProblem) -> float:
        """Sum the rounding errors of the logarithms and of what they are taken of."""
        clipped = np.maximum(kept, TINY)
        log_rounding = EPS * (1 + float(np.abs(np.log(clipped)).max()))
        return log_rounding + float((problem.kept_rounding / clipped).max())

    def check_problem(self, problem: PairedProblem) -> None:
        """Check that every group can keep some covariance."""
        _check_all_covary(self.name, problem)


def _check_all_covary(name: str, problem: PairedProblem) -> None:
    """Check that X and Y covary in every group.

    Raises
    ------
    IncompatibleParameters
    """
    if (problem.covariances.largest_singular_values > problem.best_rounding).all():
        return
    raise IncompatibleParameters(
        f"The criterion {name!r} received a group in which X and Y do not covary",
        "Allowed: groups with some covariance of X and Y, since the criterion compares shares",
        "Exclude that group, or use 'minimax_loss'",
    )


_BUILTIN: tuple[PairedCriterion, ...] = (
    TotalCovariance(),
    MinimaxCovarianceLoss(),
    MinimaxCovarianceLoss(relative=True),
    NashCovariance(),
)


def get_paired_criterion(criterion: object) -> PairedCriterion:
    """Return a criterion by name, or the given one.

    Raises
    ------
    InvalidParameter, InvalidType
        An unknown name, or an object of another kind.

    Examples
    --------
    >>> get_paired_criterion("minimax_relative_loss")
    MinimaxCovarianceLoss(relative=True)
    """
    if isinstance(criterion, PairedCriterion):
        return criterion
    names = [builtin.name for builtin in _BUILTIN]
    allowed = f"Allowed: {', '.join(map(repr, names))}, or a PairedCriterion"
    if not isinstance(criterion, str):
        raise InvalidType(f"criterion is {describe_type(criterion)}", allowed, "Pass one of these")
    if criterion not in names:
        raise InvalidParameter(f"criterion is {criterion!r}", allowed, "Choose one of these")
    return _BUILTIN[names.index(criterion)]


def builtin_criterion_names() -> tuple[str, ...]:
    """Return the names of the built-in criteria."""
    return tuple(builtin.name for builtin in _BUILTIN)
