"""Criteria by name."""

from dataclasses import fields
from typing import Any, cast

from fairspan.errors import InvalidParameter, InvalidType
from fairspan.problem.criteria import (
    Criterion,
    Disparity,
    EqualError,
    ErrorGap,
    MinimaxError,
    MinimaxLoss,
    NashWelfare,
    TotalError,
)
from fairspan.problem.parameters import kind_of
from fairspan.problem.robust_error_gap import RobustErrorGap

_BY_NAME: dict[str, Any] = {
    each.name: each
    for each in (
        MinimaxLoss,
        MinimaxError,
        TotalError,
        Disparity,
        EqualError,
        ErrorGap,
        RobustErrorGap,
        NashWelfare,
    )
}


def criterion_of(criterion: object, **parameters: Any) -> Criterion:
    """A criterion from its name and parameters, or the object itself.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter, or a parameter out of range.
    InvalidType
        Neither a name nor a criterion.

    Examples
    --------
    >>> criterion_of("error_gap", penalty=2.0)
    ErrorGap(penalty=2.0)
    """
    remedy = f"Choose one of {', '.join(map(repr, _BY_NAME))}"
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
        made: Criterion = _BY_NAME[criterion](**parameters)
        return made
    if isinstance(criterion, tuple(_BY_NAME.values())):
        return cast(Criterion, criterion)
    raise InvalidType(
        f"criterion is {kind_of(criterion)}",
        "Allowed is the name of a criterion, or a criterion object",
        remedy,
    )
