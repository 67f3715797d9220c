"""The facts of a report of a file, and what the terminal shows of them."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fairspan.auditing.text import finding_lines
from fairspan.cli.inputs import Table, with_labels
from fairspan.cli.parameters import Value
from fairspan.cli.reading import Reading
from fairspan.cli.shell_text import shell_text
from fairspan.cli.terminal import paint_on, width_of
from fairspan.formatting.terminal_text import wrapped
from fairspan.report.facts.answers import PCA
from fairspan.report.facts.assembly import check_size, facts_of
from fairspan.report.facts.origin import Origin, title_of
from fairspan.report.facts.settings import ReportSettings
from fairspan.rows.fingerprint import fingerprint_of, of_files


def facts_of_table(
    table: Table,
    path: Path | str,
    reading: Reading,
    command: str,
    settings_with: Callable[[Mapping[str, Any]], ReportSettings],
    parameters: Mapping[str, Value],
) -> dict[str, Any]:
    """Everything there is to say about a file.

    Parameters
    ----------
    table : Table
        The file, opened.
    path : Path, or text that names rows of another source
        As it was typed.
    reading : Reading
    command : str
        What was typed.
    settings_with : callable
        The settings of the report with some parameters of the criterion.
    parameters : mapping
        Of the criterion; texts name groups.

    Raises
    ------
    FairspanError
        Rows or settings that cannot be used; settings are looked at before the rows.
    """
    settings = settings_with(parameters)
    if table.source is not None:
        check_size(table.source.n_features, settings)
    moments = table.moments
    if parameters:
        settings = settings_with(with_labels(parameters, moments.labels))
    if table.source is None:
        fingerprint: str | None = of_files(Path(path), ())
        line = f"moments = GroupMoments.load({str(path)!r})"
    else:
        fingerprint = fingerprint_of(table.source)
        # Where --exclude and the like choose columns, these are the same moments.
        making = shell_text(["fairspan", "moments", str(path), *_options_of(reading)])
        line = f'# {making} -o moments.npz\nmoments = GroupMoments.load("moments.npz")'
    name = Path(path).name
    origin = Origin(name, title_of(name), fingerprint, command, line)
    rows = None if table.source is None else table.rows("auditing")
    return facts_of(moments, rows, settings, origin)


def summary(facts: Mapping[str, Any]) -> str:
    """The findings about the rows, ordinary PCA and the main criterion, as wide as the terminal."""
    width, paint = width_of(sys.stdout), paint_on(sys.stdout)
    lines = [*wrapped(facts["title"], width), *wrapped(_what(facts), width), ""]
    main = next(model["name"] for model in facts["models"] if model["is_main"])
    for finding in facts["findings"]:
        if finding["model"] in (None, PCA, main):
            code, severity = finding["code"], finding["severity"]
            lines += finding_lines(code, severity, finding["message"], width, paint)
    return "\n".join(lines)


def _what(facts: Mapping[str, Any]) -> str:
    data, settings = facts["data"], facts["settings"]
    sizes = ", ".join(f"{group['group']} {group['n']:,}" for group in data["groups"])
    return (
        f"{data['n_rows']:,} rows ({sizes}) of {data['n_features']} features; PCA and "
        f"{len(facts['models']) - 1} criteria, each with {settings['n_components']} dimensions."
    )


def _options_of(reading: Reading) -> Iterator[str]:
    """The options that choose rows and columns."""
    for name, values in (
        ("--group", reading.groups),
        ("--features", reading.features),
        ("--exclude", reading.exclude),
    ):
        for value in values:
            yield from (name, value)
    if reading.max_groups is not None:
        yield from ("--max-groups", str(reading.max_groups))
    if reading.weight is not None:
        yield from ("--weight", reading.weight)
    if reading.on_missing != "error":
        yield from ("--on-missing", reading.on_missing)
    if reading.sample is not None:
        yield from ("--sample", str(reading.sample), "--seed", str(reading.seed or 0))
