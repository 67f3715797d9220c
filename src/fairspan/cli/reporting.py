"""The facts of a report of a file, and what the terminal shows of them."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan.cli.inputs import Table, with_labels
from fairspan.cli.parameters import Value
from fairspan.cli.reading import Reading
from fairspan.cli.shell_text import shell_text
from fairspan.cli.terminal import paint_on, width_of
from fairspan.formatting.terminal_text import Paint, wrapped
from fairspan.problem.named_criteria import criterion_of
from fairspan.report.facts.answers import PCA
from fairspan.report.facts.assembly import check_size, facts_of
from fairspan.report.facts.fingerprints import fingerprint_of, of_files
from fairspan.report.facts.origin import Origin, title_of
from fairspan.report.facts.settings import ReportSettings

_INDENT = " " * len("FS101 ")


@dataclass(frozen=True)
class Settings:
    """The options of the command that say what is compared.

    Attributes
    ----------
    n_components : int or None
    center : {"global", "group", "none"}
    standardize : bool
    criterion : str
    parameters : mapping
        Of the criterion; texts name groups.
    """

    n_components: int | None
    center: str
    standardize: bool
    criterion: str
    parameters: Mapping[str, Value]

    def asked(self, parameters: Mapping[str, Any]) -> ReportSettings:
        """The same, with these parameters of the criterion."""
        criterion = criterion_of(self.criterion, **parameters)
        return ReportSettings.of(criterion, None, self.n_components, self.center, self.standardize)


def facts_of_table(
    table: Table, path: Path, reading: Reading, settings: Settings, command: str
) -> dict[str, Any]:
    """Everything there is to say about a file.

    Parameters
    ----------
    table : Table
        The file, opened.
    path : Path
        As it was typed.
    reading : Reading
    settings : Settings
    command : str
        What was typed.

    Raises
    ------
    FairspanError
        Rows or settings that cannot be used; settings are looked at before the rows.
    """
    asked = settings.asked(settings.parameters)
    if table.source is not None:
        check_size(table.source.n_features, asked)
    moments = table.moments
    if settings.parameters:
        asked = settings.asked(with_labels(settings.parameters, moments.labels))
    if table.source is None:
        fingerprint: str | None = of_files(path, [path])
        line = f"moments = GroupMoments.load({str(path)!r})"
    else:
        fingerprint = fingerprint_of(table.source)
        # Where --exclude and the like choose columns, these are the same moments.
        making = shell_text(["fairspan", "moments", str(path), *_options_of(reading)])
        line = f'# {making} -o moments.npz\nmoments = GroupMoments.load("moments.npz")'
    origin = Origin(path.name, title_of(path.name), fingerprint, command, line)
    rows = None if table.source is None else table.rows("auditing")
    return facts_of(moments, rows, asked, origin)


def summary(facts: Mapping[str, Any]) -> str:
    """The findings about the rows, ordinary PCA and the main criterion, as wide as the terminal."""
    width, paint = width_of(sys.stdout), paint_on(sys.stdout)
    lines = [*wrapped(facts["title"], width), *wrapped(_what(facts), width), ""]
    main = next(model["name"] for model in facts["models"] if model["is_main"])
    for finding in facts["findings"]:
        if finding["model"] in (None, PCA, main):
            lines += _lines_of(finding, width, paint)
    return "\n".join(lines)


def _what(facts: Mapping[str, Any]) -> str:
    data, settings = facts["data"], facts["settings"]
    sizes = ", ".join(f"{group['group']} {group['n']:,}" for group in data["groups"])
    return (
        f"{data['n_rows']:,} rows ({sizes}) of {data['n_features']} features; PCA and "
        f"{len(facts['models']) - 1} criteria, each with {settings['n_components']} dimensions."
    )


def _lines_of(finding: Mapping[str, Any], width: int, paint: Paint) -> Iterator[str]:
    code = finding["code"]
    first, *others = wrapped(f"{code} {finding['message']}", width, _INDENT)
    if finding["severity"] == "warning":
        first = paint(code, "warning") + first.removeprefix(code)
    yield from (first, *others)


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
