"""Options that several commands share, and parameters of criteria, read without numpy.

A group is named by what tables print of it. Which groups there are is known only when the rows have
been read, so a name stays text until then; usage errors come at once.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import click

from fairspan.cli import table_options
from fairspan.cli.reading import Reading
from fairspan.registry import factory_of, names_of, registered

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


class NumberOrShare(click.ParamType):  # type: ignore[type-arg]
    """A whole number from 1 on, or a share above 0 and below 1.

    Examples
    --------
    >>> NumberOrShare().convert("3", None, None), NumberOrShare().convert("0.9", None, None)
    (3, 0.9)
    """

    name = "dimensions"

    def convert(self, value: Any, parameter: Any, context: Any) -> int | float:
        """Read the number."""
        text = str(value).strip()
        if text.isdecimal() and int(text) >= 1:
            return int(text)
        share = float(text) if re.fullmatch(r"0?\.\d+", text) else 0.0
        if not 0 < share < 1:
            self.fail(
                f"{value!r} is no number of dimensions; write a whole number from 1 on, or a share "
                "of every group's variance, such as 0.9."
            )
        return share


class Size(click.ParamType):  # type: ignore[type-arg]
    """Bytes, as a number or with a unit of 1,000, such as 500MB or 8GB.

    Examples
    --------
    >>> Size().convert("1.5GB", None, None)
    1500000000
    """

    name = "size"
    _UNITS: ClassVar = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}

    def convert(self, value: Any, parameter: Any, context: Any) -> int:
        """Read the number and its unit."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?B|)", str(value).strip().upper())
        n_bytes = round(float(found[1]) * self._UNITS[found[2]]) if found else 0
        if n_bytes < 1:
            self.fail(f"{value!r} is no size; write a number with a unit, such as 500MB or 8GB.")
        return n_bytes


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
    factory = registered("criterion").get(criterion)
    if factory is not None:  # of another package: all of its parameters are numbers here
        return tuple(inspect.signature(factory).parameters)
    return NUMBERS.get(criterion, ()) + GROUPS.get(criterion, ()) + FLAGS.get(criterion, ())


def _unknown(criterion: str, key: str) -> str:
    allowed = [*_allowed(criterion), *(f"{name}.GROUP" for name in BY_GROUP.get(criterion, ()))]
    return f"The criterion {criterion!r} has no parameter {key!r}; " + (
        f"allowed {'is' if len(allowed) == 1 else 'are'} {', '.join(allowed)}."
        if allowed
        else "it has no parameters."
    )


_Command = TypeVar("_Command", bound=Callable[..., Any])

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OUT = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


class _Data(click.Path):
    """A path that exists, or a text that a data source of another package takes."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            if any(factory().takes(value) for factory in registered("source").values()):
                return value
            raise


DATA = click.argument("data", type=_Data(exists=True, path_type=Path))
MAYBE_DATA = click.argument("data", type=_Data(exists=True, path_type=Path), required=False)
JSON = click.option("--json", "as_json", is_flag=True, help="Print machine-readable results.")


# Endings of names that say what is in a file, and what has another kind of result.
_OTHER_KINDS = {
    ".csv": "a table",
    ".tsv": "a table",
    ".xlsx": "a table",
    ".json": "JSON, which --json prints",
    ".parquet": "a table",
    ".arrow": "a table",
    ".feather": "a table",
    ".pdf": "a document in PDF",
    ".html": "a page",
    ".htm": "a page",
    ".pkl": "a pickle",
    ".pickle": "a pickle",
    ".joblib": "a pickle",
}


def refuse_text(out: Path, what: str, *endings: str) -> None:
    """Raise a usage error where a result would go to standard output, or be named as another kind.

    Parameters
    ----------
    out : Path
    what : str
        Such as "A model is".
    endings : str
        Those of its own kind.
    """
    if str(out) == "-":
        raise click.UsageError(f"{what} no text to print; name a file with -o.")
    ending = out.suffix.lower()
    if ending in _OTHER_KINDS and ending not in endings:
        own = f"a name that ends in {endings[0]}" if endings else "a name with another ending"
        raise click.UsageError(
            f"{out} is named as {_OTHER_KINDS[ending]}, and {what[0].lower()}{what[1:]} not that; "
            f"choose {own}."
        )


def each_once(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Values that are given once each: a column twice is a mistake."""
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise click.BadParameter(f"{twice[0]!r} is given twice; name each column once.")
    return values


def reads_rows(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that read rows with groups; they come as one `reading`."""
    names = [each.name for each in fields(Reading)]

    @wraps(command)
    def with_reading(*arguments: Any, **values: Any) -> Any:
        reading = Reading(**{name: values.pop(name) for name in names})
        return command(*arguments, reading=reading, **values)

    return _with_options(with_reading, _READING)


def transforms(command: _Command) -> _Command:
    """Add the options of how rows are read to be reduced."""
    return _with_options(command, (*_TRANSFORMING, *table_options.CSV))


def chooses_dimension(command: _Command) -> _Command:
    """Add the options of commands that reduce rows to some dimension."""
    return _with_options(command, _DIMENSION)


def estimates(command: _Command) -> _Command:
    """Add the options of what new rows would show."""
    return _with_options(command, _ESTIMATING)


def restricts(command: _Command) -> _Command:
    """Add the options of commands that hide the group."""
    return _with_options(command, _HIDING)


def fits(command: _Command) -> _Command:
    """Add the options of commands that fit."""
    return _with_options(command, _FITTING)


def _with_options(command: _Command, options: Sequence[Callable[[Any], Any]]) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command


def restriction_parameters_of(arguments: Sequence[str]) -> dict[str, Any]:
    """What KEY=VALUE arguments say of a restriction: numbers, yes and no, words, and classes.

    Raises
    ------
    click.BadParameter
        Another form, or the same twice.

    Examples
    --------
    >>> restriction_parameters_of(["oblique=yes", "given_labels=hired,refused"])
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


def _parsed_of_restriction(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    if values and context.params.get("restriction") is None:
        raise click.BadParameter("Name the restriction with --restriction.")
    return restriction_parameters_of(values)


def _parsed(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, Value]:
    return parameters_of(context.params["criterion"], values)


_READING = (
    click.option(
        "--group",
        "groups",
        multiple=True,
        callback=each_once,
        metavar="COL",
        help="Group column; repeat it for intersections.",
    ),
    click.option(
        "--label",
        metavar="COL",
        help="Column of y, the class of each row, for restrictions that hold in each class.",
    ),
    click.option(
        "--features",
        multiple=True,
        metavar="PATTERN",
        help="Take only columns that match, such as 'PAY_*' (repeatable).",
    ),
    click.option(
        "--exclude",
        multiple=True,
        metavar="PATTERN",
        help="Leave out columns that match (repeatable).",
    ),
    click.option(
        "--max-groups",
        type=click.IntRange(min=1),
        metavar="N",
        help="Allow up to N groups; by default up to 100, or a third as many as rows.",
    ),
    click.option(
        "--max-memory",
        type=Size(),
        metavar="SIZE",
        help="Memory for the matrices of groups, such as 500MB or 8GB; by default the machine's.",
    ),
    click.option("--weight", metavar="COL", help="Column of sample weights."),
    click.option(
        "--on-missing",
        type=click.Choice(["error", "drop", "mean"]),
        default="error",
        help="Where a feature or the group is missing: an error, leave out the row, or take the "
        "mean of the feature.",
    ),
    *table_options.TEXT,
    *table_options.CSV,
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Read files and row groups in N processes.",
    ),
    click.option(
        "--engine",
        type=click.Choice(["dask", "spark"]),
        help="Read files and row groups on a cluster, whose workers see the same paths.",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Address of the cluster; without it, one is started on this machine.",
    ),
    click.option(
        "--sample",
        type=click.IntRange(min=1),
        metavar="N",
        help="For a first look: draw N rows at random, and say so in the output.",
    ),
    click.option(
        "--seed", type=click.IntRange(min=0), metavar="S", help="Seed of the sample; by default 0."
    ),
)

_TRANSFORMING = (
    click.option(
        "--keep",
        multiple=True,
        callback=each_once,
        metavar="COL",
        help="Write this column of DATA beside the reduced rows (repeatable).",
    ),
    click.option("--keep-all", is_flag=True, help="Write all columns of DATA beside them."),
    click.option(
        "--on-missing",
        type=click.Choice(["error", "drop", "mean"]),
        default="error",
        help="Where a feature is missing: an error, leave out the row, or take the model's mean.",
    ),
    click.option(
        "--unseen",
        type=click.Choice(["error", "ignore"]),
        default="error",
        help="A category that the model does not know: an error, or 0 in all its indicators.",
    ),
)

_DIMENSION = (
    click.option(
        "-d",
        "--dimensions",
        "n_components",
        type=NumberOrShare(),
        metavar="N",
        help="Dimensions to keep; or a share, such as 0.9: the fewest dimensions that keep so much "
        "of every group's variance. Without it -d 0.9.",
    ),
    click.option(
        "--center",
        type=click.Choice(["global", "group", "none"]),
        default="global",
        help="Measure errors about the mean of all rows, of each group, or the origin.",
    ),
    click.option(
        "--standardize",
        is_flag=True,
        help="Divide each feature by its standard deviation (in Python: scale=True).",
    ),
)


class FoldsOrNone(click.ParamType):  # type: ignore[type-arg]
    """A number of folds; 0 or "none" for no estimates of new rows, which gives 0."""

    name = "folds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, if it can be one."""
        text = "0" if str(value).lower() == "none" else str(value)
        if not text.isdecimal() or int(text) == 1:
            raise click.BadParameter(
                f"{value!r} is no number of folds: 2 or more, or none for figures on these rows."
            )
        return int(text)


class Named(click.ParamType):  # type: ignore[type-arg]
    """The name of a criterion or a display, built in or of another package."""

    def __init__(self, kind: str) -> None:
        self.name = kind

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same name, if it is known."""
        # Built-in ones first: looking for other packages takes time.
        if value in names_of(self.name) or factory_of(self.name, value) is not None:
            return value
        raise click.BadParameter(
            f"{value!r} is not one of {', '.join(map(repr, names_of(self.name)))}."
        )


_ESTIMATING = (
    click.option(
        "--folds",
        type=FoldsOrNone(),
        default="10",
        metavar="K",
        help="Parts of the rows, each of which stands for new rows; none for no estimates.",
    ),
    click.option(
        "--clusters",
        metavar="COL",
        help="Column that says which rows belong together, such as those of one person.",
    ),
    click.option(
        "--level",
        type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
        default=0.95,
        metavar="P",
        help="Level of the intervals.",
    ),
    click.option(
        "--material",
        type=click.FloatRange(0, 1, max_open=True),
        default=0.01,
        metavar="SHARE",
        help="The least loss that matters, as a share of a group's variance.",
    ),
)

_HIDING = (
    click.option(
        "--restriction",
        type=Named("restriction"),
        is_eager=True,
        metavar="NAME",
        help=f"What hides the group: {', '.join(names_of('restriction'))}.",
    ),
    click.option(
        "--restriction-param",
        "of_restriction",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parsed_of_restriction,
        help="A parameter of the restriction, such as oblique=yes, attributes=marginal or "
        "given_labels=all (repeatable).",
    ),
)

NESTED = click.option(
    "--nested",
    is_flag=True,
    help="Choose components one after the other: the first ones answer fewer dimensions.",
)

_FITTING = (
    click.option(
        "--criterion",
        type=Named("criterion"),
        default="minimax_loss",
        is_eager=True,  # which parameters there are depends on it
        metavar="NAME",  # all of them in one word would be wider than a terminal
        help=f"What to minimise: {', '.join(names_of('criterion'))}.",
    ),
    click.option(
        "--param",
        "parameters",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parsed,
        help="A parameter of the criterion, such as penalty=2, relative=yes, protected=GROUP or "
        "radius.GROUP=0.1 (repeatable).",
    ),
)
