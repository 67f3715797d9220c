"""What a fair projection minimises: one small class for each criterion.

Symbols, as in Samadi et al. (2018): e_g(V) = tr S_g - tr(V'S_gV) is the average squared
reconstruction error of group g, e*_g the least error that any d-dimensional subspace has on g, and
l_g = e_g - e*_g >= 0 its excess loss. All are in squared units of the features.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Protocol

from fairspan.errors import InvalidParameter, InvalidType

if TYPE_CHECKING:  # numpy takes longer to import than a usage error should take to print
    import numpy as np
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]


class Criterion(Protocol):
    """A function of the groups' errors, to be minimised."""

    @property
    def name(self) -> str:
        """The name by which it can be asked for."""

    def value(
        self, errors: "FloatArray", best_errors: "FloatArray", proportions: "FloatArray"
    ) -> float:
        """Evaluate at a subspace, from each group's error, least error and share of the rows."""


@dataclass(frozen=True)
class TotalError:
    """Average error over all rows, sum_g q_g e_g: ordinary PCA.

    Examples
    --------
    >>> import numpy as np
    >>> TotalError().value(np.array([1.0, 3.0]), np.zeros(2), np.array([0.5, 0.5]))
    2.0
    """

    name: ClassVar[str] = "total_error"

    def value(
        self, errors: "FloatArray", best_errors: "FloatArray", proportions: "FloatArray"
    ) -> float:
        """sum_g q_g e_g."""
        return float(proportions @ errors)


@dataclass(frozen=True)
class MinimaxLoss:
    """Largest excess loss of a group, max_g (e_g - e*_g): Samadi et al. (2018), equation (1).

    Each group is measured against what the same number of dimensions could do for it alone, so a
    group that is hard to compress does not decide by itself.

    Examples
    --------
    >>> import numpy as np
    >>> MinimaxLoss().value(np.array([1.0, 3.0]), np.array([0.5, 2.0]), np.array([0.5, 0.5]))
    1.0
    """

    name: ClassVar[str] = "minimax_loss"

    def value(
        self, errors: "FloatArray", best_errors: "FloatArray", proportions: "FloatArray"
    ) -> float:
        """max_g (e_g - e*_g)."""
        # Exact losses are never negative; rounding may make them so.
        return max(float((errors - best_errors).max()), 0.0)


@dataclass(frozen=True)
class MinimaxError:
    """Largest error of a group, max_g e_g.

    A group with more variance than the other can keep the larger error at the optimum: then its own
    best subspace is the answer.

    Examples
    --------
    >>> import numpy as np
    >>> MinimaxError().value(np.array([1.0, 3.0]), np.zeros(2), np.array([0.5, 0.5]))
    3.0
    """

    name: ClassVar[str] = "minimax_error"

    def value(
        self, errors: "FloatArray", best_errors: "FloatArray", proportions: "FloatArray"
    ) -> float:
        """max_g e_g."""
        return float(errors.max())


_BY_NAME: dict[str, type[TotalError] | type[MinimaxLoss] | type[MinimaxError]] = {
    each.name: each for each in (MinimaxLoss, MinimaxError, TotalError)
}
CRITERION_NAMES = tuple(_BY_NAME)


def criterion_of(criterion: object, **parameters: float) -> Criterion:
    """A criterion from its name and parameters, or the object itself.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter.
    InvalidType
        Neither a name nor a criterion.

    Examples
    --------
    >>> criterion_of("minimax_loss")
    MinimaxLoss()
    """
    remedy = f"Choose one of {', '.join(map(repr, CRITERION_NAMES))}"
    if isinstance(criterion, str):
        if criterion not in _BY_NAME:
            raise InvalidParameter(
                f"criterion is {criterion!r}",
                "Allowed is the name of a criterion, or a criterion object",
                remedy,
            )
        known = [field.name for field in fields(_BY_NAME[criterion])]
        unknown = [name for name in parameters if name not in known]
        if unknown:
            raise InvalidParameter(
                f"The criterion {criterion!r} received the parameter {unknown[0]!r}",
                f"Allowed are {', '.join(known)}" if known else "It has no parameters",
                "Leave this parameter out or choose another criterion",
            )
        return _BY_NAME[criterion](**parameters)
    if isinstance(criterion, tuple(_BY_NAME.values())):
        return criterion  # type: ignore[return-value]
    raise InvalidType(
        f"criterion is a {type(criterion).__name__}",
        "Allowed is the name of a criterion, or a criterion object",
        remedy,
    )
