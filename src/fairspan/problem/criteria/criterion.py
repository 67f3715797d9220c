"""Criteria: the objectives that a fair projection can minimize, and their base classes.

Notation, after Samadi et al. (2018): e_g(V) = tr S_g - tr(V'S_gV) is the mean squared
reconstruction error of group g in the subspace with the basis V, S_g its second moment matrix;
e*_g is its best error under any d-dimensional subspace, and l_g = e_g - e*_g >= 0 its excess loss.
q_g is the group's share of the rows. All errors are in squared units of the features.

The base class of a criterion follows from its formula in the errors e:

=====================================  ===============================================  ============
Formula                                Base class, and the members to write             Example
=====================================  ===============================================  ============
w.e with fixed weights w               `LinearCriterion`: `name`, `group_weights`       linear.py
max_g (e_g - b_g) / s_g                `MinimaxCriterion`: `name`, `reference_errors`   minimax.py
max_i (A_i.e - b_i), or a sum of such  `Criterion`: `name`, `pieces` (`AffinePieces`)   error_gap.py
maxima
largest of concave functions of e      `ConcaveScoresCriterion`: `name`, `scores`,      error_gap.py
                                       `score_gradients`, `affine_minorant`,
                                       `rounding_bound`
any other that bounds of w.e bound     `Criterion`: `name`, `value`, `scores`,          nash_welfare
                                       `dual_feasible_weights`, `lower_bound`, ...      .py
=====================================  ===============================================  ============

Every criterion with pieces is solved and certified by the existing solvers. One without returns
None from `pieces`, and a solver must support it. A constraint on e, such as equal errors, overrides
`is_constrained`, `constraint_violation` and `constraint_text` (equal_error.py). A criterion that is
selected by name is listed in criterion_catalog.py and in :mod:`fairspan.registry`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from fairspan.problem.criteria.problem_view import ProblemView
from fairspan.problem.formulas import DEFAULT_FORMULA, CriterionFormula
from fairspan.problem.piecewise import AffinePieces
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray


class Criterion(ABC):
    """Function f of the group errors e to be minimized.

    To define a criterion, subclass this and provide `name` and `pieces`; everything else follows
    from the pieces or has a default.

    Attributes
    ----------
    uses_excess_loss : bool
        Whether the value depends on the groups' best errors, as excess losses do.
    is_nonnegative : bool
    is_constrained : bool
        Whether errors must satisfy a constraint: see `constraint_violation`.
    is_steep_at_zero : bool
        Whether the value may change without limit when an error that is zero changes, as with
        square roots. Reaching the lower bound then does not make the value certain.
    common_shift_slope : float or None
        Increase of the value when all errors increase by one; None if it is not constant.
    favors_equal_errors : bool
        Whether equal errors are an aim in themselves, even where this raises the smaller error more
        than it lowers the larger. Whether that is fair is a value judgment, so audits show such
        models but never recommend them.
    supports_nesting : bool
        Whether components can be computed one at a time, each in the orthogonal complement of those
        before it. Group weights then prove the bound of each step.
    """

    uses_excess_loss: ClassVar[bool] = False
    is_nonnegative: ClassVar[bool] = False
    is_constrained: ClassVar[bool] = False
    is_steep_at_zero: ClassVar[bool] = False
    favors_equal_errors: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Name by which the criterion is selected."""

    @abstractmethod
    def pieces(self, problem: ProblemView) -> AffinePieces | None:
        """Return the criterion as a sum of maxima of affine functions; None if it is not one."""

    def check_groups(self, group_labels: list[Label]) -> None:
        """Raise an error if the criterion is undefined: IncompatibleParameters or UnknownGroup."""
        return

    @property
    def supports_nesting(self) -> bool:
        """Whether components can be computed one at a time."""
        return False

    @property
    def common_shift_slope(self) -> float | None:
        """Increase of the value when all errors increase by one."""
        return None

    @property
    def bounds_largest_loss(self) -> bool:
        """Whether the value is the largest excess loss itself, in the units of the errors."""
        return False

    @property
    def constraint_text(self) -> str:
        """Constraint that completes "no subspace", such as " with equal errors"; may be empty."""
        return ""

    def constraint_violation(self, errors: FloatArray) -> float:
        """Amount by which (k,) errors violate the constraint; positive only if they do."""
        return 0.0

    def constraint_rounding(
        self, error_rounding: FloatArray, weights: FloatArray, problem: ProblemView
    ) -> float:
        """Bound the rounding error of the gap that the constraint adds to that of the value.

        Parameters
        ----------
        error_rounding : (k,) array
            Rounding error bounds of the errors.
        weights : (k,) array
            Weights of the proof.
        problem : ProblemView
        """
        return 0.0

    def with_defaults(self, problem: ProblemView) -> Self:
        """Return a copy with the parameters that depend on the data filled in."""
        return self

    @property
    def depends_on_variance_kept(self) -> bool:
        """Whether the value depends on variances kept, not on the groups' errors alone."""
        return False

    def divisors(self, problem: ProblemView) -> FloatArray:
        """Divisor of each group's error, shape (k,)."""
        return np.ones(problem.n_groups)

    def value(self, errors: FloatArray, problem: ProblemView) -> float:
        """Value of the criterion at (k,) errors."""
        return problem.affine_pieces.value(errors)

    def scores(self, errors: FloatArray, problem: ProblemView) -> FloatArray:
        """Smooth functions of (..., k) errors, whose block maxima sum to the value, (..., m)."""
        return problem.affine_pieces.piece_values(errors)

    def score_gradients(self, errors: FloatArray, problem: ProblemView) -> FloatArray:
        """Gradients of the scores at (k,) errors, shape (m, k)."""
        return problem.affine_pieces.coefficients

    def dual_feasible_weights(self, weights: FloatArray, problem: ProblemView) -> FloatArray:
        """Dual-feasible weights near the given (k,) weights."""
        pieces = problem.affine_pieces
        return np.asarray(pieces.nearest_multipliers(weights) @ pieces.coefficients)

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: ProblemView
    ) -> float:
        """Lower bound on the value, given a lower bound on w.e for dual-feasible weights w."""
        pieces = problem.affine_pieces
        return min_weighted_error - float(pieces.nearest_multipliers(weights) @ pieces.offsets)

    def magnitude(self, errors: FloatArray, problem: ProblemView) -> float:
        """Magnitude of the value at (k,) errors; by default its absolute value."""
        return abs(self.value(errors, problem))

    def largest_scaled_error(self, errors: FloatArray, problem: ProblemView) -> float:
        """Largest of (k,) errors within the allowed directions, in units of the divisors."""
        return float(((errors - problem.embedding.fixed_errors) / problem.divisors).max())

    def scale(self, errors: FloatArray, problem: ProblemView) -> float:
        """Magnitude with which the gap is compared.

        Under a restriction, at most the largest error within the allowed directions.
        """
        magnitude = self.magnitude(errors + problem.embedding.common_error, problem)
        if problem.embedding.parent is None:
            return magnitude
        return min(magnitude, self.largest_scaled_error(errors, problem))

    def split_fixed_errors(self, fixed_errors: FloatArray) -> tuple[FloatArray, float]:
        """Split (k,) errors in forbidden directions into a part per group and a common part.

        Adding the common part to all errors adds it, times `common_shift_slope`, to the value. It
        can therefore be left out of the optimization, where it would hide digits of small errors.

        Returns
        -------
        errors : (k,) array
            The errors less the common part.
        common_error : float
            The smallest error, if a common shift changes the value at a constant rate; otherwise 0.
        """
        common_error = 0.0 if self.common_shift_slope is None else float(fixed_errors.min())
        return fixed_errors - common_error, common_error

    def unresolved_reason(self, scale: float, problem: ProblemView) -> str:
        """Reason why double precision cannot resolve a gap of this scale.

        Used if no feature is so large that it is the reason by itself.
        """
        max_variance = float((problem.second_moments.traces / problem.divisors).max())
        return f"the objective is no more than {scale / max_variance:.0e} of the variance"

    def rounding_bound(
        self, error_rounding: FloatArray, errors: FloatArray, problem: ProblemView
    ) -> float:
        """Bound the rounding error of the value, given that of the errors.

        Doubled where offsets are subtracted, since they are rounded too.
        """
        pieces = problem.affine_pieces
        factor = 2 if pieces.offsets.any() else 1
        return pieces.magnitude(error_rounding) * factor

    @property
    def formula(self) -> CriterionFormula:
        """Formula in words that reports print."""
        return DEFAULT_FORMULA

    def theorem_3_2_holds(self, problem: ProblemView) -> bool | None:
        """Whether that theorem of Vu et al. (2022) applies; None where it is irrelevant."""
        return None

    def check_problem(self, problem: ProblemView) -> None:
        """Raise IncompatibleParameters if no lower bound can be proven for this problem."""
        # Loss-based criteria have pieces, which cost one eigenproblem per group: do not compute
        # them here.
        if not self.uses_excess_loss:
            self.dual_feasible_weights(problem.proportions, problem)


@dataclass(frozen=True)
class LinearCriterion(Criterion):
    """Base class of weighted sums of the groups' errors; a weight may be negative."""

    @abstractmethod
    def group_weights(self, problem: ProblemView) -> FloatArray:
        """Weight of each group's error, shape (k,)."""

    def pieces(self, problem: ProblemView) -> AffinePieces:
        """Return one piece, with the groups' weights as coefficients."""
        return AffinePieces(self.group_weights(problem)[None], np.zeros(1))


@dataclass(frozen=True)
class ConcaveScoresCriterion(Criterion):
    """Base class of largest values of concave functions of the errors, the scores.

    Along each side of a polygon of errors, a concave function is smallest at an end. So the
    criterion is bounded from below over all errors that supporting lines allow.

    Searches and proofs rely on more than concavity: the value is never below the total error
    sum_g q_g e_g, q_g the groups' proportions; and for two groups there are exactly two scores (one
    that is all there is may be repeated).
    """

    is_steep_at_zero: ClassVar[bool] = True

    def pieces(self, problem: ProblemView) -> AffinePieces | None:
        """Return None: concave scores are not affine."""
        return None

    @abstractmethod
    def affine_minorant(self, problem: ProblemView) -> AffinePieces:
        """Sum of maxima of affine functions of the errors that is nowhere above the criterion.

        A lower bound on it is one on the criterion. If a score can decrease while the error of a
        group increases, some coefficient of that group must be negative: two-group searches then
        include subspaces beyond the Pareto frontier.
        """

    @abstractmethod
    def scores(self, errors: FloatArray, problem: ProblemView) -> FloatArray:
        """Scores at (..., k) errors, shape (..., m)."""

    @abstractmethod
    def score_gradients(self, errors: FloatArray, problem: ProblemView) -> FloatArray:
        """Gradients of the scores at (k,) errors, shape (m, k)."""

    @abstractmethod
    def rounding_bound(
        self, error_rounding: FloatArray, errors: FloatArray, problem: ProblemView
    ) -> float:
        """Bound the rounding error of the value, given that of the errors."""

    def value(self, errors: FloatArray, problem: ProblemView) -> float:
        """Largest score at (k,) errors."""
        return float(self.scores(errors, problem).max())

    def dual_feasible_weights(self, weights: FloatArray, problem: ProblemView) -> FloatArray:
        """Dual-feasible weights of the minorant near the given (k,) weights."""
        minorant = self.affine_minorant(problem)
        return np.asarray(minorant.nearest_multipliers(weights) @ minorant.coefficients)

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: ProblemView
    ) -> float:
        """Lower bound on the minorant, given a lower bound on w.e for dual-feasible weights w."""
        minorant = self.affine_minorant(problem)
        return min_weighted_error - float(minorant.nearest_multipliers(weights) @ minorant.offsets)
