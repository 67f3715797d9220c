"""Total error plus a penalty on the largest error gap, as it is and robust: Vu et al. (2022)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairspan.errors import UnknownGroup
from fairspan.problem.parameters import check_number
from fairspan.problem.pieces import KY_FAN, Blocks, Formula, Pieces
from fairspan.problem.problem import Criterion, Problem
from fairspan.rows.groups import Label, listed
from fairspan.typing import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)
_WORST = """\
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
    is_never_negative: ClassVar[bool] = True
    moves_with_errors: ClassVar[float | None] = 1.0
    sentence: ClassVar[str] = (
        "This criterion minimises the error over all rows, plus a penalty for the largest "
        "difference in error between two groups."
    )
    formula: ClassVar[Formula] = Formula(
        "the error over all rows, plus the penalty times the largest difference in error.",
        "float(q @ errors) + penalty * float(errors.max() - errors.min())",
    )

    def __post_init__(self) -> None:
        check_number("penalty", self.penalty, 0)

    def formula_parameters(self, problem: Problem, weights: FloatArray) -> dict[str, Any]:
        """The penalty."""
        return {"penalty": self.penalty}

    def pieces(self, problem: Problem) -> Pieces | None:
        """Two blocks: the group of the largest error, and that of the least.

        Otherwise every pair of groups would be a separate piece. With two groups there are two
        pieces, and they are kept: the search for two groups is along the segment between them.
        """
        q, k = problem.proportions, problem.n_groups
        if self.penalty == 0 or k == 1:
            return Pieces(q[None], np.zeros(1))
        if k == 2:
            return Pieces(self.pair_weights(problem), np.zeros(2))
        alone = self.penalty * np.eye(k)
        return Pieces(np.vstack([q + alone, -alone]), np.zeros(2 * k), Blocks((0, k)))

    def dual_weights(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """w = q + penalty (u - v), u and v on the simplex; ``|w - q|_1`` <= 2 penalty, sum 1."""
        apart = weights - problem.proportions
        apart = apart - apart.mean()
        most = 2 * self.penalty
        length = max(float(np.abs(apart).sum()), most, np.finfo(np.float64).tiny)
        return np.asarray(problem.proportions + apart * (most / length))

    def bound(self, least: float, weights: FloatArray, problem: Problem) -> float:
        """The least w.e: with such weights it is never above the value."""
        return least

    def radii(self, problem: Problem) -> FloatArray:
        """eps_g of the robust criterion, shape (k,); here zero."""
        return np.zeros(problem.n_groups)

    def pair_weights(self, problem: Problem) -> FloatArray:
        """v of every ordered pair of groups (a, b), shape (m, k): q + penalty (1_a - 1_b)."""
        alone = np.eye(problem.n_groups)
        apart = (alone[:, None] - alone)[alone == 0] if len(alone) > 1 else np.zeros((1, 1))
        return np.asarray(problem.proportions + self.penalty * apart)

    def scores(self, errors: FloatArray, problem: Problem) -> FloatArray:
        """Of every ordered pair at (..., k) errors, shape (..., m); each is concave in them."""
        v, spread = self.pair_weights(problem), np.sqrt(self.radii(problem))
        roots = np.sqrt(errors[..., None, :]) + np.where(v >= 0, spread, -spread)
        return np.asarray((v * np.maximum(roots, 0.0) ** 2).sum(axis=-1))

    def gradients(self, errors: FloatArray, problem: Problem) -> FloatArray:
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
        Not negative.
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
    moves_with_errors: ClassVar[float | None] = None
    sentence: ClassVar[str] = "The same as the error gap, for the worst distribution near the rows."
    formula: ClassVar[Formula] = Formula(
        "the error over all rows plus the penalty times the largest difference in error, for the "
        "worst rows within a radius of each group's.",
        "float(max(worst(errors, a, b) for a in range(len(q)) for b in range(len(q)) if a != b))",
        KY_FAN + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M), and the "
        "criterion, which is least where the radius is zero, is never below this weighted sum.",
        function=_WORST,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.radius, Mapping):
            # A copy, so that changing the mapping later does not change the criterion.
            object.__setattr__(self, "radius", dict(self.radius))
            for label, each in self.radius.items():
                check_number(f"radius of {label!r}", each, 0)
        else:
            check_number("radius", self.radius, 0)

    def check(self, labels: list[Label]) -> None:
        """Raise unless a mapping of radii names exactly these groups."""
        if isinstance(self.radius, Mapping) and set(self.radius) != set(labels):
            raise UnknownGroup(
                f"radius is given for the groups {listed(list(self.radius)) or '(none)'}",
                f"The rows have the groups {listed(labels)}",
                "Give each group a radius, or one number for all",
            )

    def formula_parameters(self, problem: Problem, weights: FloatArray) -> dict[str, Any]:
        """The penalty, and the radius of each group."""
        return {"penalty": self.penalty, "radius": self.radii(problem)}

    def radii(self, problem: Problem) -> FloatArray:
        """eps_g, shape (k,)."""
        if isinstance(self.radius, Mapping):
            return np.array([self.radius[label] for label in problem.labels], dtype=np.float64)
        return np.asarray(float(self.radius) / np.sqrt(problem.weights))

    def value(self, errors: FloatArray, problem: Problem) -> float:
        """The largest score of an ordered pair of groups."""
        return float(self.scores(errors, problem).max())

    def pieces(self, problem: Problem) -> Pieces | None:
        """Those of the error gap if every radius is zero."""
        return None if self.radii(problem).any() else super().pieces(problem)

    def bound(self, least: float, weights: FloatArray, problem: Problem) -> float:
        """That of the error gap, as h(v, e, eps) >= v e; with one group h of the least error."""
        return least if problem.n_groups > 1 else self.value(np.maximum([least], 0.0), problem)

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: Problem) -> float:
        """The largest of a pair; the roots of small errors are steep."""
        radii = self.radii(problem)
        steep = 2 * np.sqrt(radii) * (np.sqrt(errors + roundings) - np.sqrt(errors))
        each = roundings + steep + _EPSILON * radii
        return float((np.abs(self.pair_weights(problem)) @ each).max())

    def theorem_3_2_holds(self, problem: Problem) -> bool:
        """Whether the condition of Theorem 3.2 of Vu et al. holds.

        For each group: penalty <= q_g, or no subspace has an error on it below eps_g. Where it does
        not hold, the paper's equation (6) may underestimate the supremum; h does not.
        """
        met = (self.penalty <= problem.proportions) | (problem.best_errors >= self.radii(problem))
        return bool(met.all())
