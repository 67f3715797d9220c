"""KEY=VALUE: parameters of criteria and restrictions as they are typed, read without numpy.

A group is named by what tables print of it. Which groups there are is known only when the rows have
been read, so a name stays text until then; usage errors come at once.
"""

from collections.abc import Sequence
from typing import Any

import click

# A number, yes or no, the name of a group, or a number for each of some groups by their names.
Value = float | bool | str | dict[str, float]

# What the parameters of a criterion take; NUMBERS is one for all groups, or one for each of them.
NUMBER, NUMBERS, GROUP, FLAG = "a number", "numbers", "a group", "yes or no"
PARAMETERS = {
    "minimax_loss": {"relative": FLAG},
    "minimax_error": {"relative": FLAG},
    "disparity": {"trade_off": NUMBER, "protected": GROUP},
    "error_gap": {"penalty": NUMBER},
    "robust_error_gap": {"penalty": NUMBER, "radius": NUMBERS},
}
_YES_OR_NO = {"yes": True, "true": True, "no": False, "false": False}


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
    known = PARAMETERS.get(criterion, {})
    values: dict[str, Value] = {}
    for argument in arguments:
        # The name of a group may hold an equals sign, on either side.
        name, dot, _ = argument.partition("=")[0].partition(".")
        is_of_group = bool(dot) and known.get(name) == NUMBERS
        key, text = _halves(argument, at_last=is_of_group)
        name = name if is_of_group else key
        if name not in known:
            raise click.BadParameter(_unknown(criterion, key))
        if is_of_group != isinstance(values.get(name, {} if is_of_group else None), dict):
            raise click.BadParameter(f"Give {name} once for all groups, or for each of them.")
        own: Any = values.setdefault(name, {}) if is_of_group else values
        place = key.removeprefix(f"{name}.") if is_of_group else key
        if place in own:
            raise click.BadParameter(f"{key!r} is given twice.")
        own[place] = _read(key, text, known[name])
    return values


def _read(key: str, text: str, kind: str) -> Value:
    if kind == GROUP:
        return text
    try:
        return _YES_OR_NO[text.lower()] if kind == FLAG else float(text)
    except (KeyError, ValueError):
        wanted = FLAG if kind == FLAG else NUMBER
        raise click.BadParameter(f"{key} is {text!r}; it takes {wanted}.") from None


def _halves(argument: str, *, at_last: bool = False) -> tuple[str, str]:
    key, equals, text = argument.rpartition("=") if at_last else argument.partition("=")
    if not key or not equals or not text:
        raise click.BadParameter(f"{argument!r} is not of the form KEY=VALUE.")
    return key, text


def _unknown(criterion: str, key: str) -> str:
    known = PARAMETERS.get(criterion, {})
    allowed = [*known, *(f"{name}.GROUP" for name in known if known[name] == NUMBERS)]
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
        key, text = _halves(argument)
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
