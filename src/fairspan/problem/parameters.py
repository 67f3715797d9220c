"""Parameters of criteria, restrictions and solvers: checked, and as people read them."""

import math
import numbers
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from fairspan.errors import InvalidParameter, InvalidType


def check_number(
    name: str, value: Any, least: float, most: float = math.inf, *, whole: bool = False
) -> None:
    """Make sure that a parameter is a finite number in a range, or a whole one.

    Raises
    ------
    InvalidType
        No number, or no whole one.
    InvalidParameter
        Out of range, infinite or NaN.
    """
    kind: Any = numbers.Integral if whole else numbers.Real
    allowed = f"Allowed: a {'whole' if whole else 'finite'} number of at least {least:g}"
    if most < math.inf:
        allowed = f"Allowed: a number from {least:g} to {most:g}"
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidType(f"{name} is {value!r}", allowed, f"Pass a {'whole ' * whole}number")
    if not least <= value <= most or value == math.inf:
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
    check_number(name, value, least, whole=True)


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
