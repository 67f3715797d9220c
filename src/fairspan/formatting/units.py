"""Units in which tables and displays show errors, losses and changes."""

from typing import Literal, get_args

from fairspan.parameters import check_choice

Unit = Literal["share", "squared"]
"""Shares of the group's variance, or squared (scaled) units of the features."""


def check_unit(unit: object) -> None:
    """Make sure that a unit is one of the two.

    Raises
    ------
    InvalidParameter
    """
    check_choice("unit", unit, get_args(Unit))


def unit_phrase(unit: Unit) -> str:
    """Return the phrase for the unit in notes.

    Examples
    --------
    >>> unit_phrase("share")
    "in per cent of the group's variance"
    """
    if unit == "share":
        return "in per cent of the group's variance"
    return "in squared units of the features"
