"""Help by purpose: options under four headings, and examples that can be copied."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from fairspan.errors import nearest

TABLE, FITTED, JUDGED, OUTPUT = (
    "Reading the table",
    "What is fitted",
    "How it is judged",
    "Output",
)


class _Option(click.Option):
    """An option that stands under a heading; a plain one stands under that of the table."""

    def __init__(self, *names: Any, heading: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.heading = heading


fitted_option = partial(click.option, cls=_Option, heading=FITTED)
judged_option = partial(click.option, cls=_Option, heading=JUDGED)
output_option = partial(click.option, cls=_Option, heading=OUTPUT)


class Command(click.Command):
    """A command whose help has headings and ends with examples.

    Parameters
    ----------
    examples : sequence of str
        Command lines that work on a table `patients.csv`.
    """

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; of one that does not exist, say which was most likely meant."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            # click compares names with their dashes, which make all of them alike.
            names = [each.removeprefix("--") for each in error.possibilities or ()]
            meant = nearest(error.option_name.removeprefix("--"), names)
            possible = [f"--{meant}"] if meant else None
            raise click.NoSuchOption(error.option_name, possibilities=possible, ctx=ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        for heading in (TABLE, FITTED, JUDGED, OUTPUT):
            of_it = [each for each in options if self._heading_of(each, ctx) == heading]
            records = [each.get_help_record(ctx) for each in of_it]
            written = [record for record in records if record is not None]
            if written:
                with formatter.section(heading):
                    formatter.write_dl(written)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, each in one line that can be copied."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")

    def _heading_of(self, option: click.Option, ctx: click.Context) -> str:
        if option is self.get_help_option(ctx):
            return OUTPUT
        return getattr(option, "heading", TABLE)


command = partial(click.command, cls=Command)
