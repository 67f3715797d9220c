"""The base class of criteria, whose members make checks of the type unnecessary.

Each criterion declares in formulas that a reader can run how it is computed, and its bound proven;
the report writes a program with them.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from fairspan.problem.pieces import Pieces
from fairspan.rows.groups import Label
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from fairspan.problem.problem import Problem

KY_FAN = (
    "S_g is the second moment matrix of group g, and M = sum_g w_g S_g with the weights w below. "
    "No subspace of as many dimensions leaves less of M than L(M), {rest} (Ky Fan 1949). "
)
_OF_ERRORS = (
    KY_FAN + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M), and the "
    "criterion is never below this weighted sum."
)
LEAST_LEFT = "least_left(mixture)"


@dataclass(frozen=True)
class Formula:
    """How a criterion is computed from errors, and its bound from a mixture.

    Attributes
    ----------
    objective_in_words : str
        What follows "The objective is".
    bound_in_words : str
        Why no subspace is below the bound; `{rest}` names the remaining eigenvalues.
    objective : str
        In Python, of `errors`, `S`, `q` and `best`.
    bound : str
        In Python, of `weights`, `best` and `mixture`; or lines that set `lower_bound`.
    function : str
        In Python, a function that the objective calls; empty if there is none.
    """

    objective_in_words: str
    bound_in_words: str
    objective: str
    bound: str
    function: str = ""

    @classmethod
    def of_errors(cls, objective_in_words: str, objective: str) -> "Formula":
        """Of a criterion that is never below a weighted sum of errors."""
        return cls(objective_in_words, _OF_ERRORS, objective, LEAST_LEFT)


# Of a criterion that declares no formula of its own.
OF_PIECES = Formula(
    "the sum, over blocks of affine functions of the errors, of the largest of each block.",
    KY_FAN + "The criterion is never below the sum of its affine functions times multipliers that "
    "sum to one in each block. The weights w are the slopes of that sum.",
    "float(np.maximum.reduceat(slopes @ errors - offsets, starts).sum())",
    "least_left(mixture) - float(multipliers @ offsets)",
)


class Criterion(Protocol):
    """A function of the groups' errors, to be minimised.

    Four members are required. The others say what solvers and reports need to know; an object that
    has the required ones alone is taken with the defaults.

    Attributes
    ----------
    wants_equal_errors : bool
        Whether the errors of all groups must be equal.
    is_logarithmic : bool
        Whether its unit is that of a logarithm.
    measures_losses : bool
        Whether its pieces hold the groups' own optima.
    has_concave_scores : bool
        Whether it is the largest of concave functions of the errors.
    is_largest_of_groups : bool
        Whether it is the largest of one affine function of each group's error.
    counts_kept_variance : bool
        Whether errors where nothing can be kept do not matter to it.
    is_never_negative : bool
    is_gap : bool
        Whether it is an error gap, plain or robust.
    proves_itself : bool
        Whether it is a :class:`fairspan.problem.pieces.ProofFormula` too; otherwise its
        pieces prove its bound.
    """

    wants_equal_errors: ClassVar[bool] = False
    is_logarithmic: ClassVar[bool] = False
    measures_losses: ClassVar[bool] = False
    has_concave_scores: ClassVar[bool] = False
    is_largest_of_groups: ClassVar[bool] = False
    counts_kept_variance: ClassVar[bool] = False
    is_never_negative: ClassVar[bool] = False
    is_gap: ClassVar[bool] = False
    proves_itself: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which it can be requested."""

    @abstractmethod
    def check(self, labels: list[Label]) -> None:
        """Raise Incompatible or UnknownGroup if it is not defined for these groups."""

    @abstractmethod
    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """Evaluate at the (k,) errors of a subspace."""

    @abstractmethod
    def pieces(self, problem: "Problem") -> Pieces | None:
        """The same as a sum of maxima of affine functions; None if this is not possible."""

    @property
    def sentence(self) -> str:
        """Its goal in plain words."""
        return "The package of this criterion describes what it minimises."

    @property
    def formula(self) -> Formula:
        """How a reader of the report computes it, with `formula_parameters`."""
        return OF_PIECES

    @property
    def is_relative(self) -> bool:
        """Whether its unit is that of a share."""
        return False

    @property
    def is_largest_loss(self) -> bool:
        """Whether it is the largest loss itself."""
        return False

    @property
    def can_be_nested(self) -> bool:
        """Whether components may be chosen one after the other, each beside those before it.

        Weights of the groups then prove what each of these steps claims.
        """
        return False

    @property
    def moves_with_errors(self) -> float | None:
        """By how much the value rises if all errors rise by one; None if not always by the same."""
        return None

    def divisors(self, problem: "Problem") -> FloatArray:
        """What each group's error is divided by, shape (k,)."""
        return np.ones(problem.n_groups)

    def settled(self, problem: "Problem") -> Self:
        """The same, with everything named that was left to be chosen."""
        return self

    def formula_parameters(self, problem: "Problem") -> dict[str, Any]:
        """What the formula needs beside errors, by name."""
        return {}

    def theorem_3_2_holds(self, problem: "Problem") -> bool | None:
        """Whether that theorem of Vu et al. (2022) applies; None where it says nothing."""
        return None


class OfErrors(Criterion):
    """What most criteria have in common: defined for any groups, in the units of the errors."""

    is_never_negative: ClassVar[bool] = True
    proves_itself: ClassVar[bool] = True

    @property
    def moves_with_errors(self) -> float | None:
        """By how much the value rises if all errors rise by one; None if not always by the same."""
        return 1.0

    def check(self, labels: list[Label]) -> None:
        """Accept any groups."""

    def scale(self, errors: FloatArray, weights: FloatArray, problem: "Problem") -> float:
        """What a gap is compared with: the value."""
        return self.value(errors, problem)
