"""Check the number of components, and print the parameters of criteria."""

from collections.abc import Mapping, Sequence
from typing import cast

from fairspan.errors import InvalidParameter
from fairspan.parameters import init_parameters, is_integer, is_number
from fairspan.rows.labels import Label, format_label, printable


def reported_parameters(criterion: object, group_labels: Sequence[Label]) -> dict[str, object]:
    """Parameters of the criterion as tables print them, with printable group names.

    A protected group that was chosen by default is named; a parameter per group is a mapping; flags
    that are off are omitted.
    """
    names = {label: printable(format_label(label)) for label in group_labels}

    def printable_value(name: str, value: object) -> object:
        if name == "protected":
            return names[cast(Label, value)]
        if isinstance(value, Mapping) and names.keys() == value.keys():
            return {names[label]: value[label] for label in group_labels}
        return value

    return {
        name: printable_value(name, value)
        for name, value in init_parameters(criterion).items()
        if value is not False or name == "protected"  # a group's label may be False
    }


def check_n_components(
    n_components: object,
    maximum: int,
    *,
    of: str = "features",
    allow_fraction: bool = False,
    name: str = "n_components",
) -> None:
    """Check that n_components is an integer in range or, if allowed, a fraction between 0 and 1.

    Parameters
    ----------
    n_components : object
        The value to check, as received.
    maximum : int
        Largest integer allowed; the smallest is 1.
    of : str
        What `maximum` counts, for the message.
    allow_fraction : bool
        Whether a fraction of every group's variance is allowed, too.
    name : str
        The caller's name of the parameter.

    Raises
    ------
    InvalidParameter
    """
    if is_integer(n_components) and 1 <= n_components <= maximum:
        return
    allowed = f"Allowed: an integer from 1 to the number of {of}, {maximum}"
    remedy = "Choose a number in that range"
    if allow_fraction:
        if is_number(n_components) and 0 < n_components < 1:
            return
        allowed += ", or a fraction between 0 and 1 of every group's variance"
        remedy = "Choose such a number, for example 2 or 0.9"
    raise InvalidParameter(f"{name} is {n_components!r}", allowed, remedy)
