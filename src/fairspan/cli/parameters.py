"""Values of options: paths, sizes, shares, names, and parameters of criteria and restrictions."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from fairspan.errors import nearest
from fairspan.registry import Foreign, names_of

# A number, yes or no, the name of a group, or a number for each of some groups by their names.
Value = float | bool | str | dict[str, float]
# What the parameters of a criterion take; NUMBERS is one for all groups, or one for each of them.
NUMBER, NUMBERS, GROUP, FLAG = "a number", "numbers", "a group", "yes or no"

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FILE_OR_FOLDER = click.Path(path_type=Path, allow_dash=True)
OUT = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


class _Data(click.Path):
    """A path that exists, or rows of another package, as package.module:Object."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The path, or what makes the rows."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            found = Foreign.named("DATA", str(value))
            if found is None:
                raise
            return found


DATA_PATH = _Data(exists=True, path_type=Path)


def number_or_share(value: str) -> int | float:
    """A whole number from 1 on, or a share above 0 and below 1.

    Examples
    --------
    >>> number_or_share("3"), number_or_share("0.9")
    (3, 0.9)
    """
    text = value.strip()
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    share = float(text) if re.fullmatch(r"0?\.\d+", text) else 0.0
    if not 0 < share < 1:
        raise click.BadParameter(
            f"{value!r} is not a number of dimensions; write a whole number of at least 1, or "
            "a share of every group's variance, such as 0.9."
        )
    return share


def size(value: str) -> int:
    """Bytes, as a number or with a unit of 1,000, such as 500MB or 8GB.

    Examples
    --------
    >>> size("1.5GB")
    1500000000
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)B?", value.strip().upper())
    n_bytes = round(float(found[1]) * 1000 ** " KMGT".index(found[2] or " ")) if found else 0
    if n_bytes < 1:
        raise click.BadParameter(
            f"{value!r} is not a size; write a number with a unit, such as 500MB or 8GB."
        )
    return n_bytes


def folds_or_none(value: str | int) -> int:
    """A number of folds; 0 or "none" for no estimates of new rows, which gives 0."""
    text = "0" if str(value).lower() == "none" else str(value)
    if not text.isdecimal() or int(text) == 1:
        raise click.BadParameter(
            f"{value!r} is not a number of folds: 2 or more, or none for figures on these rows."
        )
    return int(text)


def part_of_others(value: str) -> Foreign:
    """A criterion or restriction of another package: package.module:Object."""
    found = Foreign.named("part", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not of the form package.module:Object.")
    return found


class Named(click.ParamType):  # type: ignore[type-arg]
    """The name of a criterion or another part, or one of another package: package.module:Object."""

    def __init__(self, kind: str) -> None:
        self.name = kind

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | Foreign:
        """The same name if it is known, or what makes the part of another package."""
        names = names_of(self.name)
        if value in names:
            return str(value)
        if (found := Foreign.named(self.name, str(value))) is not None:
            return found
        close = nearest(value, names)
        meant = f" Did you mean {close!r}?" if close else ""
        raise click.BadParameter(f"{value!r} is not one of {', '.join(map(repr, names))}.{meant}")

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin like this."""
        return [CompletionItem(name) for name in names_of(self.name) if name.startswith(incomplete)]


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
