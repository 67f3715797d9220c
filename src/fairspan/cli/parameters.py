"""KEY=VALUE: parameters of criteria and restrictions as they are typed, read without numpy.

A group is named by what tables print of it. Which groups there are is known only when the rows have
been read, so a name stays text until then; usage errors come at once.
"""

from collections.abc import Sequence
from typing import Any

import click

# A number, yes or no, the name of a group, or a number for each of some groups by their names.
Value = float | bool | str | dict[str, float]

NUMBERS = {
    "disparity": ("trade_off",),
    "error_gap": ("penalty",),
    "robust_error_gap": ("penalty", "radius"),
}
GROUPS = {"disparity": ("protected",)}
FLAGS = {"minimax_loss": ("relative",), "minimax_error": ("relative",)}
_YES_OR_NO = {"yes": True, "true": True, "no": False, "false": False}
BY_GROUP = {"robust_error_gap": ("radius",)}


def parameters_of(criterion: str, arguments: Sequence[str]) -> dict[str, Value]:
    """What KEY=VALUE arguments say.

    Parameters
    ----------
    criterion : str
        Name of a criterion.
    arguments : sequence of str
        Such as "penalty=2", "protected=female" or "radius.female=0.2".

    Returns
    -------
    dict
        By parameter: a number, True or False, the text that names a group, or numbers by such
        texts.

    Raises
    ------
    click.BadParameter
        Another form, a parameter that the criterion does not have, the same twice, or no number,
        or neither yes nor no, where one is wanted.

    Examples
    --------
    >>> parameters_of("robust_error_gap", ["penalty=2", "radius.a=0.1", "radius.b=0.2"])
    {'penalty': 2.0, 'radius': {'a': 0.1, 'b': 0.2}}
    """
    values: dict[str, Value] = {}
    for argument in arguments:
        key, text = _halves(criterion, argument)
        name, dot, group = key.partition(".")
        if dot and name in BY_GROUP.get(criterion, ()):
            own = values.setdefault(name, {})
            if not isinstance(own, dict):
                raise click.BadParameter(f"Give {name} once for all groups, or for each of them.")
            if group in own:
                raise click.BadParameter(f"{key!r} is given twice.")
            own[group] = _number(key, text)
            continue
        if key not in _allowed(criterion):
            raise click.BadParameter(_unknown(criterion, key))
        if isinstance(values.get(key), dict):
            raise click.BadParameter(f"Give {key} once for all groups, or for each of them.")
        if key in values:
            raise click.BadParameter(f"{key!r} is given twice.")
        values[key] = _read(criterion, key, text)
    return values


def _read(criterion: str, key: str, text: str) -> Value:
    if key in GROUPS.get(criterion, ()):
        return text
    if key not in FLAGS.get(criterion, ()):
        return _number(key, text)
    if text.lower() not in _YES_OR_NO:
        raise click.BadParameter(f"{key} is {text!r}; it takes yes or no.")
    return _YES_OR_NO[text.lower()]


def _halves(criterion: str, argument: str) -> tuple[str, str]:
    """KEY and VALUE; the name of a group may hold an equals sign, on either side."""
    by_group = any(argument.startswith(f"{name}.") for name in BY_GROUP.get(criterion, ()))
    key, equals, text = argument.rpartition("=") if by_group else argument.partition("=")
    if not key or not equals or not text:
        raise click.BadParameter(f"{argument!r} is not of the form KEY=VALUE.")
    return key, text


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f"{key} is {text!r}; it takes a number.") from None


def _allowed(criterion: str) -> tuple[str, ...]:
    return NUMBERS.get(criterion, ()) + GROUPS.get(criterion, ()) + FLAGS.get(criterion, ())


def _unknown(criterion: str, key: str) -> str:
    allowed = [*_allowed(criterion), *(f"{name}.GROUP" for name in BY_GROUP.get(criterion, ()))]
    return f"The criterion {criterion!r} has no parameter {key!r}; " + (
        f"allowed: {', '.join(allowed)}." if allowed else "it has no parameters."
    )


def plain_parameters_of(arguments: Sequence[str]) -> dict[str, Any]:
    """What KEY=VALUE arguments say of any other part: numbers, yes and no, words, classes.

    Raises
    ------
    click.BadParameter
        Another form, or the same twice.

    Examples
    --------
    >>> plain_parameters_of(["oblique=yes", "given_labels=hired,refused"])
    {'oblique': True, 'given_labels': ['hired', 'refused']}
    """
    values: dict[str, Any] = {}
    for argument in arguments:
        key, text = _halves("", argument)
        if key in values:
            raise click.BadParameter(f"{key!r} is given twice.")
        values[key] = _plain_value(key, text)
    return values


def _plain_value(key: str, text: str) -> Any:
    if key == "given_labels":
        return text if text == "all" else text.split(",")
    if text in _YES_OR_NO:
        return _YES_OR_NO[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
