"""The centre about which errors are measured: never implied, always recorded."""

from typing import Literal, get_args

from fairspan.errors import InvalidParameter

Center = Literal["global", "group", "none"]


def check_center(center: object) -> None:
    """Make sure that a centre has one of the three names.

    Raises
    ------
    InvalidParameter
    """
    if not isinstance(center, str) or center not in get_args(Center):
        raise InvalidParameter(
            f"center is {center!r}",
            "Allowed: 'global', 'group' and 'none'",
            "Use 'global' unless you reproduce a paper that centres each group",
        )
