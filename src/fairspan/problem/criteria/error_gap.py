"""Total error plus a penalty on the largest gap of two groups, as it is and under uncertainty."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.errors import InvalidParameter, UnknownGroup
from fairspan.linalg.rounding import EPS, TINY
from fairspan.parameters import check_number, make_plain, plain_value
from fairspan.problem.criteria.criterion import ConcaveScoresCriterion, Criterion
from fairspan.problem.criteria.problem_view import ProblemView
from fairspan.problem.formulas import KY_FAN_TEXT, CriterionFormula
from fairspan.problem.piecewise import AffinePieces, Blocks
from fairspan.rows.label_matching import remedy_for
from fairspan.rows.labels import Label, format_list
from fairspan.typing import FloatArray

# Largest penalty on a gap. Near 1 / eps the mean error, to which the penalized gap is added, would
# be lost to rounding.
_MAX_PENALTY = 1e15


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
    favors_equal_errors: ClassVar[bool] = True
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

    def pieces(self, problem: ProblemView) -> AffinePieces | None:
        """Return the pieces of :meth:`gap_pieces`; None in subclasses that are not affine."""
        return self.gap_pieces(problem)

    def gap_pieces(self, problem: ProblemView) -> AffinePieces:
        """Return the error gap with this penalty as a sum of two maxima.

        One is for the largest and one for the smallest error: max_a (q.e + penalty e_a) + max_b
        (-penalty e_b) for the groups' proportions q. Each piece is an affine function of the errors
        e, given by its coefficients and an offset of zero. Two blocks of k pieces replace a piece
        for every ordered pair of groups. With two groups the two pairs are kept, since the solver
        for two groups moves along the segment between two pieces. Without a penalty or a second
        group, the value is the total error q.e.
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

    def dual_feasible_weights(self, weights: FloatArray, problem: ProblemView) -> FloatArray:
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
        self, min_weighted_error: float, weights: FloatArray, problem: ProblemView
    ) -> float:
        """Return the lower bound on w.e, which for such weights bounds the value too."""
        return min_weighted_error

    def radii(self, problem: ProblemView) -> FloatArray:
        """Radii eps_g of the robust criterion, shape (k,); zero for this one."""
        return np.zeros(problem.n_groups)

    def pair_weights(self, problem: ProblemView) -> FloatArray:
        """Weights v = q + penalty (1_a - 1_b) of each ordered pair of groups, shape (m, k)."""
        units = np.eye(problem.n_groups)
        contrasts = np.zeros((1, 1))
        if len(units) > 1:
            contrasts = (units[:, None] - units)[units == 0]
        return np.asarray(problem.proportions + self.penalty * contrasts)

    def scores(self, errors: FloatArray, problem: ProblemView) -> FloatArray:
        """Concave score of each ordered pair of groups at (..., k) errors, shape (..., m)."""
        v = self.pair_weights(problem)
        root_radii = np.sqrt(self.radii(problem))
        roots = np.sqrt(errors[..., None, :]) + np.where(v >= 0, root_radii, -root_radii)
        return np.asarray((v * np.maximum(roots, 0.0) ** 2).sum(axis=-1))

    def score_gradients(self, errors: FloatArray, problem: ProblemView) -> FloatArray:
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

    def radii(self, problem: ProblemView) -> FloatArray:
        """Radii eps_g, shape (k,): as given, or alpha / sqrt(n_g).

        The group weights n_g are in units of 2**weight_exponent, an even power.
        """
        if isinstance(self.radius, Mapping):
            return np.array(
                [self.radius[label] for label in problem.group_labels], dtype=np.float64
            )
        radii = float(self.radius) / np.sqrt(problem.group_weights)
        return np.asarray(np.ldexp(radii, -(problem.weight_exponent // 2)))

    def pieces(self, problem: ProblemView) -> AffinePieces | None:
        """Pieces of the error gap if every radius is zero; otherwise None."""
        return None if self.radii(problem).any() else self.gap_pieces(problem)

    def affine_minorant(self, problem: ProblemView) -> AffinePieces:
        """Return the pieces of the error gap, since h(v, e, eps) >= v e."""
        return self.gap_pieces(problem)

    def lower_bound(
        self, min_weighted_error: float, weights: FloatArray, problem: ProblemView
    ) -> float:
        """Lower bound of the error gap, valid since h(v, e, eps) >= v e.

        With one group, h at the lower bound on its error.
        """
        if problem.n_groups > 1:
            return min_weighted_error
        return self.value(np.maximum([min_weighted_error], 0.0), problem)

    def rounding_bound(
        self, error_rounding: FloatArray, errors: FloatArray, problem: ProblemView
    ) -> float:
        """Bound the rounding error of the value by the largest over ordered pairs of groups.

        The value is the largest of the scores of ordered pairs of groups. To the score of a pair, a
        group with error e, radius r (of the ball of distributions around its rows) and weight v
        contributes v (sqrt(e) + sqrt(r))^2 = v (e + 2 sqrt(r e) + r), with -sqrt(r) if v is
        negative. All three terms are rounded, and the square root amplifies the rounding error of a
        small e.
        """
        radii = self.radii(problem)
        root_rounding = 2 * np.sqrt(radii) * (np.sqrt(errors + error_rounding) - np.sqrt(errors))
        group_rounding = error_rounding + root_rounding + EPS * radii
        return float((np.abs(self.pair_weights(problem)) @ group_rounding).max())

    def theorem_3_2_holds(self, problem: ProblemView) -> bool:
        """Whether the condition of Theorem 3.2 of Vu et al. holds.

        For each group, penalty <= q_g or its best error is at least eps_g. Otherwise equation (6)
        of the paper may underestimate the supremum; h does not.
        """
        holds = (self.penalty <= problem.proportions) | (problem.best_errors >= self.radii(problem))
        return bool(holds.all())
