"""Checking the numbers that criteria, restrictions and solvers are given."""

import math
import numbers

import numpy as np

from fairspan.errors import InvalidParameter, InvalidType


def check_number(name: str, value: object, least: float, most: float = math.inf) -> None:
    """Make sure that a parameter is a finite number in a range.

    Raises
    ------
    InvalidType
        No number.
    InvalidParameter
        Out of range, infinite or NaN.
    """
    allowed = f"Allowed is a finite number of at least {least:g}"
    if most < math.inf:
        allowed = f"Allowed is a number from {least:g} to {most:g}"
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
            f"{name} is {value!r}", "Allowed are True and False", "Use one of these"
        )


def check_count(name: str, value: object, least: int = 1) -> None:
    """Make sure that a parameter is a whole number of at least `least`.

    Raises
    ------
    InvalidType, InvalidParameter
    """
    allowed = f"Allowed is a whole number of at least {least}"
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
        raise InvalidParameter(f"{name} is {value!r}", f"Allowed are {words}", "Use one of these")
