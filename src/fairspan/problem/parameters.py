"""Parameters of criteria, restrictions and solvers: checked, and as people read them."""

import math
import numbers
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import InvalidParameter, InvalidType
from fairspan.rows.groups import Label, printable, spelled

if TYPE_CHECKING:
    from fairspan.problem.problem import Problem


def check_number(name: str, value: object, least: float, most: float = math.inf) -> None:
    """Make sure that a parameter is a finite number in a range.

    Raises
    ------
    InvalidType
        No number.
    InvalidParameter
        Out of range, infinite or NaN.
    """
    allowed = f"Allowed: a finite number of at least {least:g}"
    if most < math.inf:
        allowed = f"Allowed: a number from {least:g} to {most:g}"
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise InvalidType(f"{name} is {value!r}", allowed, "Pass a number")
    if not math.isfinite(value) or not least <= float(value) <= most:
        raise InvalidParameter(f"{name} is {value!r}", allowed, "Choose a number in that range")


def check_flag(name: str, value: object) -> None:
    """Make sure that a parameter is True or False.

    Raises
    ------
    InvalidParameter
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidParameter(
            f"{name} is {value!r}", "Allowed: True and False", "Use one of these"
        )


def check_count(name: str, value: object, least: int = 1) -> None:
    """Make sure that a parameter is a whole number of at least `least`.

    Raises
    ------
    InvalidType, InvalidParameter
    """
    allowed = f"Allowed: a whole number of at least {least}"
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise InvalidType(f"{name} is {value!r}", allowed, "Pass a whole number")
    if value < least:
        raise InvalidParameter(f"{name} is {value!r}", allowed, "Choose a larger number")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Make sure that a parameter is one of a few words.

    Raises
    ------
    InvalidParameter
    """
    if value not in choices:
        words = ", ".join(map(repr, choices))
        raise InvalidParameter(f"{name} is {value!r}", f"Allowed: {words}", "Use one of these")


def field_values(settings: object) -> dict[str, Any]:
    """The fields of a settings object that can be chosen; none of anything else.

    Examples
    --------
    >>> from fairspan.problem.criteria import ErrorGap
    >>> field_values(ErrorGap(2.0)), field_values("error_gap")
    ({'penalty': 2.0}, {})
    """
    if not is_dataclass(settings) or isinstance(settings, type):
        return {}
    return {field.name: getattr(settings, field.name) for field in fields(settings) if field.init}


def changed_fields(settings: Any) -> dict[str, Any]:
    """The fields of a settings object that are not at their defaults.

    Examples
    --------
    >>> from fairspan.problem.criteria import ErrorGap
    >>> changed_fields(ErrorGap(2.0)), changed_fields(ErrorGap())
    ({'penalty': 2.0}, {})
    """
    defaults = {field.name: field.default for field in fields(settings)}
    return {
        name: value for name, value in field_values(settings).items() if value != defaults[name]
    }


def used_parameters(problem: "Problem") -> dict[str, Any]:
    """The parameters of the problem's criterion, groups as tables print them.

    The group that was chosen where none was named is named; what differs by group is a mapping; a
    flag that is not set is left out.
    """
    values: dict[str, Any] = {}
    for name, value in field_values(problem.criterion.settled(problem)).items():
        if name == "protected":
            values[name] = _shown(value)
        elif isinstance(value, Mapping):
            values[name] = {_shown(label): value[label] for label in problem.labels}
        elif value is not False:
            values[name] = value
    return values


def _shown(label: Label) -> str:
    return printable(spelled(label))
