"""The command that writes the audit page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fairspan.cli import options
from fairspan.cli.outputs import refuse_overwriting
from fairspan.cli.parameters import Value
from fairspan.cli.reading import Reading
from fairspan.cli.shell_text import shell_text

_OUT = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


@click.command(short_help="Write a page on what PCA does to each group of DATA.")
@options.DATA
@click.option("-o", "--output", "page", type=_OUT, help="Where to write the page, as HTML.")
@options.reads_rows
@options.chooses_dimension
@options.fits
@options.JSON
def report(
    data: Path | str,
    page: Path | None,
    reading: Reading,
    n_components: int | None,
    center: str,
    standardize: bool,
    criterion: str,
    parameters: dict[str, Value],
    as_json: bool,
) -> None:
    """Write one page on what PCA does to each group of DATA, and what fair criteria would change.

    The page is one HTML file that asks for nothing outside itself; the same data and options give
    the same bytes. --json prints all that it shows, and then needs no page.
    """
    if page is None and not as_json:
        raise click.UsageError("Name the page with -o, or print its facts with --json.")
    if page is not None:
        if str(page) == "-":
            raise click.UsageError("A page is a file; name it with -o, or print --json.")
        refuse_overwriting(page, data)
    from fairspan.cli.inputs import open_input
    from fairspan.cli.output import echo_json
    from fairspan.cli.reporting import facts_of_table, summary
    from fairspan.problem.by_name import criterion_of
    from fairspan.report.facts.settings import ReportSettings
    from fairspan.report.writing import check_can_write, write_page
    from fairspan.rows.groups import printable

    if page is not None:
        check_can_write(page)

    def settings_with(values: Mapping[str, Any]) -> ReportSettings:
        chosen = criterion_of(criterion, **values)
        return ReportSettings.of(chosen, None, n_components, center, standardize)

    typed = click.get_current_context().find_root().obj
    command = shell_text(["fairspan", *(typed or ())])
    table = open_input(data, reading)
    facts = facts_of_table(table, data, reading, command, settings_with, parameters)
    if page is not None:
        write_page(page, facts)
    if as_json:
        echo_json(facts)
    else:
        click.echo(summary(facts))
        click.echo(f"\nWritten to {printable(str(page))}")
