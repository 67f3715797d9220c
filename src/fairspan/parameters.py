"""Validation of parameters, and the init parameters of dataclasses."""

import math
import numbers
from dataclasses import Field, fields, is_dataclass
from typing import Any, ClassVar, Protocol, TypeGuard

from fairspan.errors import InvalidParameter, InvalidType


class DataclassInstance(Protocol):
    """Instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of any package; booleans are not.

    Examples
    --------
    >>> import numpy as np
    >>> is_integer(np.int64(2)), is_integer(2.0), is_integer(True)
    (True, False, False)
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number of any package; booleans are not.

    Examples
    --------
    >>> import numpy as np
    >>> is_number(np.float32(0.5)), is_number(2), is_number("2"), is_number(np.bool_(True))
    (True, True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_number(
    name: str,
    value: object,
    minimum: float,
    maximum: float = math.inf,
    *,
    integer: bool = False,
    also_allowed: str = "",
) -> None:
    """Check that a parameter is a finite number, or an integer, from `minimum` to `maximum`.

    `name` is that of the parameter in messages. `also_allowed` is prepended to the allowed values
    in messages, such as "'auto', or ".

    Raises
    ------
    InvalidType
        Not a number, or not an integer.
    InvalidParameter
        Out of range, infinite or NaN.
    """
    required_type: type = numbers.Integral if integer else numbers.Real
    if maximum < math.inf:
        noun = "an integer" if integer else "a number"
        limits = f"from {minimum:g} to {maximum:g}"
    else:
        noun = "an integer" if integer else "a finite number"
        limits = f"of at least {minimum:g}"
    allowed = f"Allowed: {also_allowed}{noun} {limits}"
    if not isinstance(value, required_type) or isinstance(value, bool):
        remedy = "Pass an integer" if integer else "Pass a number"
        raise InvalidType(f"{name} is {value!r}", allowed, remedy)
    try:
        # A comparison in half precision would overflow.
        plain = plain_value(value)
        is_allowed = math.isfinite(plain) and minimum <= plain <= maximum
    except OverflowError:  # an integer or a fraction beyond float64
        is_allowed = False
    if not is_allowed:
        raise InvalidParameter(f"{name} is {value!r}", allowed, "Choose a number in that range")


def plain_value(value: object) -> Any:
    """Convert a number of another package to a built-in one; return anything else unchanged.

    Parameters are saved with a model as JSON, which supports only built-in numbers.

    Examples
    --------
    >>> from fractions import Fraction
    >>> plain_value(Fraction(1, 2)), plain_value("auto")
    (0.5, 'auto')
    """
    # The checks against abstract classes below are slow.
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return value


def make_plain(settings: object) -> None:
    """Convert the numbers among the fields of a frozen dataclass, in place, to built-in ones."""
    for name, value in init_parameters(settings).items():
        object.__setattr__(settings, name, plain_value(value))


def check_bool(name: str, value: object) -> None:
    """Check that a parameter is a boolean.

    Raises
    ------
    InvalidParameter
    """
    # Including numpy's booleans, without an import of numpy.
    if type(value).__name__ not in ("bool", "bool_"):
        raise InvalidParameter(f"{name} is {value!r}", "Allowed: True or False", "Use one of these")


def check_integer(name: str, value: object, minimum: int = 1) -> None:
    """Check that a parameter is an integer of at least `minimum`.

    Raises
    ------
    InvalidType, InvalidParameter
    """
    check_number(name, value, minimum, integer=True)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Check that a parameter is one of the allowed strings.

    Raises
    ------
    InvalidParameter
    """
    if value not in choices:
        allowed = ", ".join(map(repr, choices))
        raise InvalidParameter(f"{name} is {value!r}", f"Allowed: {allowed}", "Use one of these")


def init_parameters(settings: object) -> dict[str, object]:
    """Init parameters of a dataclass instance with their values; empty for anything else.

    Examples
    --------
    >>> from fairspan.problem.criteria.error_gap import ErrorGap
    >>> init_parameters(ErrorGap(2.0)), init_parameters("error_gap")
    ({'penalty': 2.0}, {})
    """
    if not is_dataclass(settings) or isinstance(settings, type):
        return {}
    return {field.name: getattr(settings, field.name) for field in fields(settings) if field.init}


def non_default_parameters(settings: DataclassInstance) -> dict[str, object]:
    """Init parameters that differ from their defaults.

    Examples
    --------
    >>> from fairspan.problem.criteria.error_gap import ErrorGap
    >>> non_default_parameters(ErrorGap(2.0)), non_default_parameters(ErrorGap())
    ({'penalty': 2.0}, {})
    """
    defaults = {field.name: field.default for field in fields(settings)}
    return {
        name: value for name, value in init_parameters(settings).items() if value != defaults[name]
    }
