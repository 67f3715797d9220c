"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from fairspan.cli.parameters import Value, parameters_of
from fairspan.problem.criterion_names import CRITERION_NAMES

_Command = TypeVar("_Command", bound=Callable[..., Any])

DATA = click.argument("data", type=click.Path(exists=True, path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="Print machine-readable results.")


def reads_rows(command: _Command) -> _Command:
    """Add the options of commands that read rows with groups."""
    options = (
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
            "--standardize", is_flag=True, help="Divide each feature by its standard deviation."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def fits(command: _Command) -> _Command:
    """Add the options of commands that fit."""
    options = (
        click.option(
            "--criterion",
            type=click.Choice(CRITERION_NAMES),
            default="minimax_loss",
            show_default=True,
            is_eager=True,  # which parameters there are depends on it
            help="What to minimise.",
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
    for option in reversed(options):
        command = option(command)
    return command


def _parsed(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, Value]:
    return parameters_of(context.params["criterion"], values)
