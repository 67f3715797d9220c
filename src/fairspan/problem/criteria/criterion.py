"""The protocol of criteria, whose members make checks of the type unnecessary."""

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from fairspan.problem.pieces import Pieces
from fairspan.rows.groups import Label
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from fairspan.problem.problem import Problem


class Criterion(Protocol):
    """A function of the groups' errors, to be minimised.

    A criterion may also declare its ``sentence``, its goal in plain words; and its
    ``formula`` with ``formula_parameters(problem)``, by which a report lets a reader compute it.
    """

    @property
    def name(self) -> str:
        """The name by which it can be requested."""

    def check(self, labels: list[Label]) -> None:
        """Raise Incompatible or UnknownGroup if it is not defined for these groups."""

    def value(self, errors: FloatArray, problem: "Problem") -> float:
        """Evaluate at the (k,) errors of a subspace."""

    def pieces(self, problem: "Problem") -> Pieces | None:
        """The same as a sum of maxima of affine functions; None if this is not possible."""


def declares(criterion: object, what: str) -> bool:
    """Whether a criterion says of itself what a solver needs to know.

    Parameters
    ----------
    criterion : Criterion
    what : str
        "wants_equal_errors": the errors of all groups must be equal; "is_logarithmic": its unit is
        that of a logarithm; "measures_losses": its pieces hold the groups' own optima;
        "has_concave_scores": it is the largest of concave functions of the errors;
        "is_largest_of_groups": it is the largest of one affine function of each group's error;
        "is_largest_loss": it is the largest loss itself; "is_relative": its unit is that of a
        share; "counts_kept_variance": errors where nothing can be kept do not matter to it;
        "can_be_nested": its components may be chosen one after the other, each beside those before
        it, and weights of the groups prove what each of these steps claims.

    Returns
    -------
    bool
        False for a criterion that does not say.

    Examples
    --------
    >>> from fairspan.problem.criteria import EqualError, TotalError
    >>> declares(EqualError(), "wants_equal_errors"), declares(TotalError(), "is_logarithmic")
    (True, False)
    """
    return bool(getattr(criterion, what, False))


class OfErrors:
    """What most criteria have in common: defined for any groups, in the units of the errors."""

    is_never_negative: ClassVar[bool] = True

    if TYPE_CHECKING:  # what each criterion has of its own

        def value(self, errors: FloatArray, problem: "Problem") -> float:
            """Evaluate at the (k,) errors of a subspace."""

    @property
    def moves_with_errors(self) -> float | None:
        """By how much the value rises if all errors rise by one; None if not always by the same."""
        return 1.0

    def formula_parameters(self, problem: "Problem") -> dict[str, Any]:
        """None."""
        return {}

    def check(self, labels: list[Label]) -> None:
        """Accept any groups."""

    def scale(self, errors: FloatArray, weights: FloatArray, problem: "Problem") -> float:
        """What a gap is compared with: the value."""
        return self.value(errors, problem)
