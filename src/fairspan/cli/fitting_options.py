"""Options of what is fitted: the criterion, the restriction, and how components are chosen."""

from typing import Any

import click

from fairspan.cli.options import Command, with_options
from fairspan.cli.parameters import Value, parameters_of, restriction_parameters_of
from fairspan.cli.value_types import Named
from fairspan.registry import names_of


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


def restricts(command: Command) -> Command:
    """Add the options of commands that hide the group."""
    return with_options(command, _HIDING)


def fits(command: Command) -> Command:
    """Add the options of commands that fit."""
    return with_options(command, _FITTING)


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
