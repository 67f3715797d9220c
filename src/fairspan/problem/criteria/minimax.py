"""The largest of the groups: worst-case criteria of errors, losses and variances kept.

The worst case is the largest (a_g - c_g(V)) / s_g of a group, c_g the variance that it keeps: with
a_g = tr S_g its error, with a_g = t_d(S_g) its excess loss (Samadi et al. 2018), with a_g = 0 minus
the variance itself (Tantipongpipat et al. 2019); s_g is one, or tr S_g for shares of the variance.
In errors, a_g - c_g = e_g - b_g with b_g = tr S_g - a_g.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.problem.parameters import changed_fields, check_flag
from fairspan.problem.pieces import KY_FAN, Formula, Pieces
from fairspan.problem.problem import Criterion, Problem
from fairspan.rows.groups import listed
from fairspan.typing import FloatArray

_LOSS_IN_WORDS = (
    "The excess loss of a group is its error minus the smallest error that any subspace of the "
    "same dimension has on that group."
)


@dataclass(frozen=True, repr=False)
class LargestOfGroups(Criterion):
    """The largest (e_g - b_g) / s_g of a group: weights w with w.s = 1 prove L(M) - w.b.

    b is the groups' own optima where losses are measured, and zero otherwise; s is the groups'
    variances tr S_g where it is relative, and one otherwise.
    """

    relative: bool = False
    is_never_negative: ClassVar[bool] = True
    sentences: ClassVar[tuple[str, str]]
    formulas: ClassVar[tuple[Formula, Formula]]

    def __post_init__(self) -> None:
        check_flag("relative", self.relative)

    def __repr__(self) -> str:
        # What is not said is the default, so that names of models stay short.
        said = ", ".join(f"{name}={value!r}" for name, value in changed_fields(self).items())
        return f"{type(self).__name__}({said})"

    @property
    def sentence(self) -> str:
        """What it minimises, in words."""
        return self.sentences[self.relative]

    @property
    def formula(self) -> Formula:
        """How a reader computes it."""
        return self.formulas[self.relative]

    @property
    def can_be_nested(self) -> bool:
        """Unless it is relative: beside the components before, the variances are others."""
        return not self.relative

    @property
    def moves_with_errors(self) -> float | None:
        """By one, unless each group's error is divided by another number."""
        return None if self.relative else 1.0

    def divisors(self, problem: Problem) -> FloatArray:
        """s, shape (k,): one, or the group's variance tr S_g.

        Raises
        ------
        InvalidInput
            The variance of a group is zero, and a share of it is requested.
        """
        if not self.relative:
            return np.ones(problem.n_groups)
        without = problem.groups_without_variance
        if without:
            raise InvalidInput(
                f"These groups have no variance, of which {self!r} takes a share: "
                f"{listed(without)}",
                "Allowed: groups whose rows differ from each other and from the centre",
                "Leave these groups out, or use a criterion that is not relative",
            )
        return problem.variances

    def pieces(self, problem: Problem) -> Pieces:
        """One for each group."""
        divisors = problem.divisors
        offsets = problem.best_errors if self.measures_losses else np.zeros(len(divisors))
        return Pieces(np.diag(1 / divisors), offsets / divisors)


@dataclass(frozen=True, repr=False)
class MinimaxLoss(LargestOfGroups):
    """Largest excess loss of a group, max_g (e_g - e*_g): Samadi et al. (2018), equation (1).

    Each group is compared with its own best subspace of the same dimension, so a group that is
    hard to compress does not determine the answer by itself.

    Parameters
    ----------
    relative : bool, default=False
        Divide each group's loss by its variance tr S_g: the objective is then the largest share of
        a group's variance that its own best subspace would keep in addition.

    Raises
    ------
    InvalidParameter
        `relative` is neither True nor False. When fitting: InvalidInput for a group without
        variance, where it is relative.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MinimaxLoss
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=MinimaxLoss()).fit(X, sensitive_features=groups)
    >>> fair.group_errors_.round(3), fair.group_losses_.round(3)
    (array([1.636, 3.636]), array([1.636, 1.636]))

    Group a has variance 9 and group b has variance 4. The losses are the same share of both:

    >>> shares = FairPCA(1, criterion=MinimaxLoss(relative=True)).fit(X, sensitive_features=groups)
    >>> shares.group_losses_.round(3), round(shares.solution_.objective, 3)
    (array([3.   , 1.333]), 0.333)
    """

    name: ClassVar[str] = "minimax_loss"
    measures_losses: ClassVar[bool] = True

    sentences: ClassVar[tuple[str, str]] = (
        f"The largest excess loss of a group is minimised. {_LOSS_IN_WORDS}",
        "The largest excess loss of a group, as a share of the group's variance, is minimised. "
        + _LOSS_IN_WORDS,
    )
    formulas: ClassVar[tuple[Formula, Formula]] = (
        Formula(
            "the largest excess loss of a group: its error minus the least error that any "
            "subspace of as many dimensions has on it.",
            "float((errors - best).max())",
            KY_FAN + "So no subspace has a weighted mean of excess losses below L(M) - "
            "sum_g w_g L(S_g), and the largest loss is never below their mean.",
            "least_left(mixture) - float(weights @ best)",
        ),
        Formula(
            "the largest excess loss of a group, its error minus the least error that any "
            "subspace of as many dimensions has on it, as a share of the group's variance tr S_g.",
            "float(((errors - best) / traces).max())",
            KY_FAN + "The weights times the variances tr S_g sum to one. So no subspace has a "
            "weighted mean of these shares below L(M) - sum_g w_g L(S_g), and the largest is "
            "never below their mean.",
            "least_left(mixture) - float(weights @ best)",
        ),
    )

    def value(self, errors: FloatArray, problem: Problem) -> float:
        """max_g (e_g - e*_g) / s_g, which only rounding makes negative.

        Under a restriction the errors may leave out what all groups lose alike.
        """
        return max(super().value(errors, problem), -problem.left_out)


@dataclass(frozen=True, repr=False)
class MinimaxError(LargestOfGroups):
    """Largest error of a group, max_g e_g: an alternative of Samadi et al. (2018).

    A group with more variance than the others can keep the larger error at the optimum: then its
    own best subspace is the answer.

    Parameters
    ----------
    relative : bool, default=False
        Divide each group's error by its variance tr S_g: then every group keeps at least the share
        1 - value of its variance, and no subspace keeps more of every group.

    Raises
    ------
    InvalidParameter
        `relative` is neither True nor False. When fitting: InvalidInput for a group without
        variance, where it is relative.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MinimaxError
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=MinimaxError()).fit(X, sensitive_features=groups)
    >>> fair.group_errors_.round(3), fair.group_losses_.round(3)
    (array([3.273, 3.273]), array([3.273, 1.273]))

    Both groups keep a third of their variances, 9 and 4:

    >>> shares = FairPCA(1, criterion=MinimaxError(relative=True)).fit(X, sensitive_features=groups)
    >>> shares.group_explained_variance_ratio_.sum(axis=1).round(3)
    array([0.333, 0.333])
    """

    name: ClassVar[str] = "minimax_error"

    sentences: ClassVar[tuple[str, str]] = (
        "The largest error of a group is minimised.",
        "The largest error of a group, as a share of the group's variance, is minimised.",
    )
    formulas: ClassVar[tuple[Formula, Formula]] = (
        Formula("the largest error of a group.", "float(errors.max())"),
        Formula(
            "the largest error of a group as a share of its variance tr S_g.",
            "float((errors / traces).max())",
            KY_FAN + "The weights times the variances tr S_g sum to one. So no subspace has a "
            "weighted mean of these shares below L(M), and the largest is never below their mean.",
        ),
    )


@dataclass(frozen=True)
class LeastVariance(Criterion):
    """Smallest variance that a group keeps, max_g -c_g with c_g = tr S_g - e_g.

    The value is minus the least c_g, so that it is minimised as all criteria are: fair PCA of
    Tantipongpipat et al. (2019) with the least variance as welfare. A group with little variance
    determines the answer, because its variance is compared and not its share; for shares see
    ``MinimaxError(relative=True)``.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, LeastVariance
    >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> fair = FairPCA(1, criterion=LeastVariance()).fit(X, sensitive_features=groups)
    >>> kept = np.array([9, 4]) - fair.group_errors_
    >>> kept.round(3), round(fair.solution_.objective, 3)
    (array([1.636, 1.636]), -1.636)
    """

    name: ClassVar[str] = "least_variance"
    can_be_nested: ClassVar[bool] = True
    counts_kept_variance: ClassVar[bool] = True
    moves_with_errors: ClassVar[float] = 1.0
    sentence: ClassVar[str] = "This criterion maximises the least variance that a group keeps."
    formula: ClassVar[Formula] = Formula(
        "minus the least variance that a group keeps.",
        "float((errors - traces).max())",
        KY_FAN + "So no subspace has a weighted mean of kept variances above tr M - L(M), and the "
        "least of them is never above their mean.",
        "least_left(mixture) - float(weights @ traces)",
    )

    def pieces(self, problem: Problem) -> Pieces:
        """One for each group, less its variance within the directions of a restriction."""
        return Pieces(np.eye(problem.n_groups), problem.second_moments.traces)

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: Problem) -> float:
        """Of the errors, and of the variances that they are subtracted from."""
        return float((roundings + problem.variance_roundings).max())
