"""Commands whose help has option headings and examples."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import click
from click.core import ParameterSource

from fairspan.errors import caller_remedies, closest_match

# Headings in the help of a command.
READING = "Reading data"
FITTING = "Fitting"
AUDITING = "Audit"
OUTPUT = "Output"


class _GroupedOption(click.Option):
    """Option with a help heading; plain options appear under "Reading data"."""

    def __init__(self, *names: Any, heading: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.heading = heading


fit_option = partial(click.option, cls=_GroupedOption, heading=FITTING)
audit_option = partial(click.option, cls=_GroupedOption, heading=AUDITING)
output_option = partial(click.option, cls=_GroupedOption, heading=OUTPUT)


class Command(click.Command):
    """Command whose help has option headings and examples.

    Parameters
    ----------
    examples : sequence of str
        Example command lines for a table `patients.csv`.
    """

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options; suggest the closest name for an unknown one."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            # click compares names including dashes, which makes all of them similar.
            names = [name.removeprefix("--") for name in error.possibilities or ()]
            suggestion = closest_match(error.option_name.removeprefix("--"), names)
            raise click.NoSuchOption(
                error.option_name,
                possibilities=[f"--{suggestion}"] if suggestion else None,
                ctx=ctx,
            ) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; remedies of errors about rows name its own options."""
        from fairspan.cli.option_remedies import command_remedies

        with caller_remedies(command_remedies(self)):
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the help page under their headings, without empty sections."""
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        for heading in (READING, FITTING, AUDITING, OUTPUT):
            records = [
                option.get_help_record(ctx)
                for option in options
                if self._heading_of(option, ctx) == heading
            ]
            # A hidden option has no help record.
            visible_records = [record for record in records if record is not None]
            if visible_records:
                with formatter.section(heading):
                    formatter.write_dl(visible_records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Format the examples, one copyable line each."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")

    def _heading_of(self, option: click.Option, ctx: click.Context) -> str:
        if option is self.get_help_option(ctx):
            return OUTPUT
        return str(getattr(option, "heading", READING))


command = partial(click.command, cls=Command)


def is_on_command_line(name: str) -> bool:
    """Whether an option of the current command was written, rather than being the default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def command_line_arguments() -> tuple[str, ...]:
    """Arguments of the command line, which `run` stored in the context."""
    return tuple(click.get_current_context().find_root().obj or ())


def usage_error_if(condition: object, message: str) -> None:
    """Raise a usage error if the condition is true."""
    if condition:
        raise click.UsageError(message)
