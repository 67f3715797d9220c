"""Options that several commands share."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from fairspan.cli.parameters import Value, parameters_of
from fairspan.cli.reading import Reading
from fairspan.registry import factory_of, names_of, registered

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
JSON = click.option("--json", "as_json", is_flag=True, help="Print machine-readable results.")


def refuse_text(out: Path, what: str) -> None:
    """Raise a usage error where a result that is no text would go to standard output."""
    if str(out) == "-":
        raise click.UsageError(f"{what} no text to print; name a file with -o.")


def reads_rows(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that read rows with groups; they come as one `reading`."""
    names = [each.name for each in fields(Reading)]

    @wraps(command)
    def with_reading(*arguments: Any, **values: Any) -> Any:
        reading = Reading(**{name: values.pop(name) for name in names})
        return command(*arguments, reading=reading, **values)

    return _with_options(with_reading, _READING)


def chooses_dimension(command: _Command) -> _Command:
    """Add the options of commands that reduce rows to some dimension."""
    return _with_options(command, _DIMENSION)


def fits(command: _Command) -> _Command:
    """Add the options of commands that fit."""
    return _with_options(command, _FITTING)


def _with_options(command: _Command, options: Sequence[Callable[[Any], Any]]) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command


def _parsed(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, Value]:
    return parameters_of(context.params["criterion"], values)


_READING = (
    click.option(
        "--group",
        "groups",
        multiple=True,
        metavar="COL",
        help="Group column; repeat it for intersections.",
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
    click.option("--weight", metavar="COL", help="Column of sample weights."),
    click.option(
        "--on-missing",
        type=click.Choice(["error", "drop"]),
        default="error",
        show_default=True,
        help="What to do with rows in which a feature or the group is missing.",
    ),
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

_DIMENSION = (
    click.option(
        "-d",
        "n_components",
        type=click.IntRange(min=1),
        metavar="N",
        help="Dimensions to keep; without it the least that keep 90 % of the variance.",
    ),
    click.option(
        "--center",
        type=click.Choice(["global", "group", "none"]),
        default="global",
        show_default=True,
        help="Measure errors about the mean of all rows, of each group, or the origin.",
    ),
    click.option(
        "--standardize",
        is_flag=True,
        help="Divide each feature by its standard deviation (in Python: scale=True).",
    ),
)


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


_FITTING = (
    click.option(
        "--criterion",
        type=Named("criterion"),
        default="minimax_loss",
        show_default=True,
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
        help="A parameter of the criterion, such as penalty=2, protected=GROUP or "
        "radius.GROUP=0.1 (repeatable).",
    ),
)
