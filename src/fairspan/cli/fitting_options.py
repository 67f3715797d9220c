"""Options of what is fitted: the criterion, the restriction, the solver, and how far it goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import click

from fairspan.cli.help_pages import fitted_option
from fairspan.cli.options import bundled, with_options
from fairspan.cli.parameters import Value, parameters_of, plain_parameters_of
from fairspan.cli.value_types import Named
from fairspan.registry import Foreign, names_of


@dataclass(frozen=True)
class Fitting:
    """The options of a fit as they were typed: the names of parts, with their parameters.

    Attributes
    ----------
    criterion : str or Foreign
    parameters : mapping
        Of the criterion; texts name groups.
    restriction : str, Foreign or None
    of_restriction : mapping
    solver : str or Foreign
    of_solver : mapping
    tol : float
        Largest gap to call optimal, as a share of the objective.
    allow_extra : bool
    nested : bool
    """

    criterion: str | Foreign = "minimax_loss"
    parameters: Mapping[str, Value] = field(default_factory=dict)
    restriction: str | Foreign | None = None
    of_restriction: Mapping[str, Any] = field(default_factory=dict)
    solver: str | Foreign = "auto"
    of_solver: Mapping[str, Any] = field(default_factory=dict)
    tol: float = 1e-9
    allow_extra: bool = False
    nested: bool = False


def _of_criterion(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, Value]:
    criterion = context.params["criterion"]
    if isinstance(criterion, Foreign):
        return plain_parameters_of(values)
    return parameters_of(criterion, values)


def _of_restriction(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    if values and context.params.get("restriction") is None:
        raise click.BadParameter("Name the restriction with --restriction.")
    return plain_parameters_of(values)


def _of_solver(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    return plain_parameters_of(values)


_CRITERION = (
    fitted_option(
        "--criterion",
        type=Named("criterion"),
        default="minimax_loss",
        is_eager=True,  # which parameters there are depends on it
        metavar="NAME",  # all of them in one word would be wider than a terminal
        help=f"What to minimise: {', '.join(names_of('criterion'))}.",
    ),
    fitted_option(
        "--param",
        "parameters",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_of_criterion,
        help="A parameter of the criterion, such as penalty=2, relative=yes, protected=GROUP or "
        "radius.GROUP=0.1 (repeatable).",
    ),
)

_RESTRICTION = (
    fitted_option(
        "--restriction",
        type=Named("restriction"),
        is_eager=True,
        metavar="NAME",
        help=f"What hides the group: {', '.join(names_of('restriction'))}.",
    ),
    fitted_option(
        "--restriction-param",
        "of_restriction",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_of_restriction,
        help="A parameter of the restriction, such as oblique=yes, attributes=marginal or "
        "given_labels=all (repeatable).",
    ),
)

_SOLVING = (
    fitted_option(
        "--solver",
        type=Named("solver"),
        default="auto",
        metavar="NAME",
        help=f"How to minimise: {', '.join(names_of('solver'))}. Random starts use the seed 0.",
    ),
    fitted_option(
        "--solver-param",
        "of_solver",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_of_solver,
        help="A parameter of the solver, such as max_iter=500 (repeatable).",
    ),
    fitted_option(
        "--tol",
        type=click.FloatRange(0, 1, max_open=True),
        default=1e-9,
        metavar="SHARE",
        help="Largest gap that is called optimal, as a share of the objective.",
    ),
    fitted_option(
        "--allow-extra",
        is_flag=True,
        help="With three groups or more: allow more components than dimensions, each scaled down, "
        "if only these reach the optimum.",
    ),
    fitted_option(
        "--nested",
        is_flag=True,
        help="Choose components one after the other: the first ones answer fewer dimensions.",
    ),
)

# Of commands that take a criterion; and of those that fit, as one `fitting`.
chooses_criterion = partial(with_options, options=_CRITERION)
fits = bundled("fitting", Fitting, (*_CRITERION, *_RESTRICTION, *_SOLVING))
