"""The optimization problem: second moments of the groups, number of components, criterion.

For weights w, let L(M) be the sum of the p - d smallest eigenvalues of M = sum_g w_g S_g. Every
subspace satisfies w.e >= L(M) (Ky Fan), so a criterion that is bounded below by an affine function
w.e - b is bounded below by L(M) - b. Dual multipliers of the affine pieces supply such w and b.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypedDict, Unpack, cast

import numpy as np

from fairspan.errors import IncompatibleParameters, InvalidInput
from fairspan.formatting.messages import counted
from fairspan.linalg import LeadingSubspace
from fairspan.moments.second_moments import DenseSecondMoments, SecondMoments
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.limits import ParityLimit
from fairspan.problem.part_parameters import check_n_components
from fairspan.problem.piecewise import AffinePieces
from fairspan.problem.rounding_budget import RoundingBudget
from fairspan.problem.warm_start import WarmStart
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Embedding:
    """Place of a restricted problem within the problem without its restriction.

    Attributes
    ----------
    parent : Problem or None
        The problem without the restriction, to which excess losses and the figures of ordinary PCA
        refer; None if there is no restriction.
    axes : (p, m) array or None
        Orthonormal axes of the restricted problem in the features of its parent: the directions
        that the restriction allows. None if both have the same features.
    fixed_errors : (k,) array, or 0
        Error of each group in the forbidden directions, which no choice changes, less the common
        part.
    common_error : float
        Error in the forbidden directions that all groups share; not part of the errors of the
        restricted problem.
    """

    parent: "Problem | None" = None
    axes: FloatArray | None = None
    fixed_errors: FloatArray | float = 0.0
    common_error: float = 0.0


_NO_RESTRICTION = Embedding()
_NO_ROUNDING = RoundingBudget()


class ProblemChanges(TypedDict, total=False):
    """Fields of a problem that change with its coordinates."""

    second_moments: SecondMoments
    criterion: Criterion
    embedding: Embedding
    limit: ParityLimit | None
    rounding: RoundingBudget


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimize a criterion of the group errors over orthonormal (p, d) bases V.

    Attributes
    ----------
    second_moments : SecondMoments
        S_1 .. S_k about the chosen center, each divided by its group's weight.
    group_labels : list of k labels
    group_weights : (k,) array
        n_g, the number of rows of each group or the sum of their weights, in units of
        2**weight_exponent.
    n_components : int
        d, from 1 to p.
    criterion : Criterion
    allow_extra : bool
        Whether a soft projection of more than d dimensions may be returned.
    embedding : Embedding
        Place of the problem within that without its restriction, and errors outside of it.
    limit : ParityLimit or None
        Constraint on the subspace, for a restriction with a tolerance.
    rounding : RoundingBudget
        Rounding errors of second moments and coordinates.
    warm_start : WarmStart or None
        Basis and weights of a nearby solution, where the search starts.
    weight_exponent : int
        Binary exponent of the unit of the group weights, even.
    """

    second_moments: SecondMoments
    group_labels: list[Label]
    group_weights: FloatArray
    n_components: int
    criterion: Criterion
    allow_extra: bool = False
    embedding: Embedding = _NO_RESTRICTION
    limit: ParityLimit | None = None
    rounding: RoundingBudget = _NO_ROUNDING
    warm_start: WarmStart | None = None
    weight_exponent: int = 0

    def __post_init__(self) -> None:
        check_n_components(self.n_components, self.second_moments.n_features)
        basis = None if self.warm_start is None else self.warm_start.basis
        if basis is not None and len(basis) != self.n_features:
            raise InvalidInput(
                f"The warm start has a basis in {counted(len(basis), 'coordinate')}",
                f"Allowed: the {counted(self.n_features, 'coordinate')} of the problem",
                "Use Problem.along(axes, ...) where the coordinates change",
            )
        self.criterion.check_groups(self.group_labels)

    def along(self, axes: FloatArray, /, **changes: Unpack[ProblemChanges]) -> "Problem":
        """Return the problem in the coordinates along orthonormal (p, m) axes.

        Parameters
        ----------
        axes : (p, m) array
        **changes
            The second moments in these coordinates, and other fields that change with them.
        """
        warm_start = None if self.warm_start is None else self.warm_start.within(axes)
        return replace(self, warm_start=warm_start, **changes)

    @property
    def dense_moments(self) -> DenseSecondMoments:
        """Second moments as matrices, as most solvers need them."""
        return cast(DenseSecondMoments, self.second_moments)

    @property
    def n_groups(self) -> int:
        """Number of groups, k."""
        return len(self.group_labels)

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return self.second_moments.n_features

    @cached_property
    def proportions(self) -> FloatArray:
        """q_g, each group's share of the total weight, shape (k,)."""
        return np.asarray(self.group_weights / self.group_weights.sum())

    @property
    def unrestricted(self) -> "Problem":
        """The problem without its restriction; the problem itself if it has none."""
        parent = self.embedding.parent
        return self if parent is None else parent

    @cached_property
    def divisors(self) -> FloatArray:
        """Divisors of the group errors in the criterion, shape (k,); ones if it has none."""
        return self.criterion.divisors(self)

    @cached_property
    def total_variance(self) -> float:
        """Pooled trace sum_g q_g tr S_g, the reference of relative tolerances."""
        return float(self.proportions @ self.second_moments.traces)

    @cached_property
    def smallest_row_variance(self) -> float:
        """Variance with which errors of the size of rounding are compared, to tell exact zeros.

        It is the least variance along a direction in which the rows vary, or the variance if all
        rows were of the size of a typical one, whichever is smaller. If d dimensions contain all
        rows, all errors are exactly zero, and what is computed for them is rounding error, far
        below this variance. It is zero if d dimensions, together with earlier nested components,
        may not contain all rows, so that no error counts as an exact zero, or if too few digits are
        left to tell; and infinity if the rows do not vary at all.
        """
        if not self.second_moments.traces.any():
            return np.inf
        rank = self.rounding.row_rank
        # The rank is at most `maximum`; `n_deflated` of it are in earlier nested components.
        if rank is None or rank.maximum > self.n_components + rank.n_deflated:
            return 0.0
        return rank.smallest_variance

    @property
    def objective_offset(self) -> float:
        """Increase of the objective over all directions, due to the common error."""
        slope = self.criterion.common_shift_slope
        return self.embedding.common_error * (0.0 if slope is None else slope)

    @cached_property
    def pieces(self) -> AffinePieces | None:
        """The criterion as a sum of maxima of affine functions; None if it is not one."""
        return self.criterion.pieces(self)

    @cached_property
    def affine_pieces(self) -> AffinePieces:
        """The pieces, for criteria without formulas of their own.

        Raises
        ------
        IncompatibleParameters
            The criterion defines no pieces.
        """
        if self.pieces is None:
            raise IncompatibleParameters(
                f"The criterion {self.criterion.name!r} defines neither pieces nor a lower bound "
                "of its own",
                "Allowed: criteria with a provable lower bound, such as sums of maxima of affine "
                "functions of the errors",
                "Return AffinePieces from its pieces method",
            )
        return self.pieces

    @cached_property
    def pooled_optimum(self) -> LeadingSubspace:
        """The leading eigenvectors of the pooled second moment: ordinary PCA."""
        return self.second_moments.leading(self.proportions, self.n_components)

    @cached_property
    def group_optima(self) -> tuple[LeadingSubspace, ...]:
        """Best d-dimensional subspace of each group: k eigenproblems, solved once."""
        return tuple(
            self.second_moments.leading(unit_weights, self.n_components)
            for unit_weights in np.eye(self.n_groups)
        )

    @cached_property
    def best_errors(self) -> FloatArray:
        """e*_g = tr S_g - t_d(S_g), the best error of each group, shape (k,)."""
        second_moments = self.unrestricted.second_moments
        return np.array(
            [
                second_moments.select_group(g).residual_variances(optimum.vectors)[0]
                for g, optimum in enumerate(self.unrestricted.group_optima)
            ]
        )

    def errors(self, basis: FloatArray) -> FloatArray:
        """e_g(V) = tr S_g - tr(V'S_gV) of each group, clipped at zero, shape (k,)."""
        return self.second_moments.residual_variances(basis)

    def objective(self, basis: FloatArray) -> float:
        """Objective at a basis."""
        return self.criterion.value(self.errors(basis), self)
