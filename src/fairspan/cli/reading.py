"""Rows that are read as options say: their columns of text, formats, and sources of others."""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fairspan.cli.options import Reading
from fairspan.errors import InvalidInput, InvalidType
from fairspan.formatting.numbers import count, in_ascii
from fairspan.registry import Foreign
from fairspan.rows.columns import ChosenColumns, is_text
from fairspan.rows.files.csv_files import CsvPart, unreadable
from fairspan.rows.files.file_rows import (
    FileRows,
    encode_text,
    first_text,
    not_numeric,
    without_features,
)
from fairspan.rows.groups import listed
from fairspan.rows.protocol import Rows, RowSource

# Options that also concern rows of another package.
_OF_ANY_ROWS = {"features", "exclude", "max_groups", "max_memory", "unseen"}
# As pandas writes them, and people in Europe.
_DECIMAL_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_MISSING = {"?", "-", "--", ".", "missing", "none", "unknown"}
_ALLOWED = "Allowed: numbers and truth values; a group column is named with --group"
_LEAVE_OUT = "Leave them out with --numeric-only or --exclude, or encode text with --one-hot"
_READ_COMMAS = "Read decimal commas with --decimal ,"
_NO_THOUSANDS = "Write numbers without commas between thousands"
_POINT = "Write numbers with a decimal point"


def csv_format(options: Any) -> dict[str, str] | None:
    """How CSV files are written, for `FileRows.open`; None where nothing was said."""
    names = ("delimiter", "decimal", "encoding", "comment")
    said = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if said.get("delimiter") in ("tab", "\\t"):
        said["delimiter"] = "\t"
    return said or None


def opened(reading: Reading, path: Path | Foreign, clusters: str | None = None) -> RowSource:
    """The rows of a file or folder, or of another package.

    The last columns of their labels are the class in y and the cluster, where these were requested.
    """
    if isinstance(path, Foreign):
        return _opened_foreign(reading, path)
    if not reading.groups:
        raise click.UsageError("Name the group column with --group COL.")
    beside = [name for name in (reading.label, clusters) if name is not None]
    rows = FileRows.open(
        path,
        (*reading.groups, *beside),
        reading.features,
        reading.exclude,
        weight=reading.weight,
        on_missing=reading.on_missing,
        csv=csv_format(reading),
    )
    rows = _prepared(rows, numeric_only=reading.numeric_only, one_hot=reading.one_hot)
    encoding = replace(rows.chosen.encoding, ignores_unseen=reading.unseen == "ignore")
    chosen = replace(rows.chosen, encoding=encoding)
    return replace(rows, jobs=_useful_jobs(reading.jobs or 1, len(rows.parts)), chosen=chosen)


def _opened_foreign(reading: Reading, source: Foreign) -> RowSource:
    """Rows of another package, which bring their groups, with the features requested."""
    rows = foreign_rows(source)
    if refused := sorted(reading.requested - _OF_ANY_ROWS):
        option = "--group" if "groups" in refused else f"--{refused[0].replace('_', '-')}"
        raise click.UsageError(
            f"{source} makes rows that bring their groups and are no file: no {option}."
        )
    if not (reading.features or reading.exclude):
        return rows
    chosen = ChosenColumns.of(
        rows.feature_names or (), {}, features=reading.features, exclude=reading.exclude
    )
    return rows.selected(chosen.features)


def _useful_jobs(asked: int, n_parts: int) -> int:
    """As many processes as were requested, but no more than there are parts or cores."""
    n_cores = os.cpu_count() or 1
    useful = min(asked, max(n_parts, 1), n_cores)
    if useful < asked:
        limit = count(n_cores, "core") if n_cores < n_parts else count(n_parts, "part")
        where = "this machine has" if n_cores < n_parts else "the files have"
        used = count(useful, "process", "processes")
        verb = "reads" if useful == 1 else "read"
        said = f"{used} {verb} the rows, as {where} {limit}."
        click.echo(f"fairspan: --jobs {asked}: {in_ascii(said)}", err=True)
    return useful


def foreign_rows(source: Foreign) -> RowSource:
    """The rows that an object of another package is, or that a class or function there makes.

    Raises
    ------
    InvalidType
        It is not, or does not make, rows that can be read in blocks.
    """
    rows = source.factory()
    if not isinstance(rows, RowSource):
        raise InvalidType(
            f"{source} makes an object of type {type(rows).__name__}",
            "Allowed: rows that are read in blocks, as fairspan.extending.RowSource describes them",
            "Name such an object, or a function without arguments that returns one",
        )
    return rows


def _prepared(rows: FileRows, *, numeric_only: bool, one_hot: bool) -> FileRows:
    """Rows whose columns of text are left out or encoded.

    Raises
    ------
    InvalidInput
        A column of text looks like numbers with commas, which would be lost.
    """
    others = not_numeric(rows) if numeric_only or one_hot else ()
    texts = _texts(rows, others)
    remedies = {name: _remedy(rows, text) for name, (_, text) in texts.items()}
    commas = tuple(
        name for name in texts if remedies[name] in (_READ_COMMAS, _NO_THOUSANDS, _POINT)
    )
    if commas:
        row, text = texts[commas[0]]
        raise InvalidInput(
            f"{rows.where}: {_held(commas)} numbers with commas, such as {text!r} in row "
            f"{row} of {commas[0]!r}",
            _ALLOWED,
            f"{remedies[commas[0]]}; or leave these columns out with --exclude",
        )
    if one_hot:
        rows = encode_text(rows)
    if numeric_only and others:
        rows = without_features(rows, others)
        click.echo(f"fairspan: --numeric-only leaves out {listed(others)}.", err=True)
    return rows


def check_numeric(rows: Rows, allowed: str = _ALLOWED, remedy: str = _LEAVE_OUT) -> None:
    """Make sure that the features of files are numbers, before any row is read.

    Parameters
    ----------
    rows : Rows
    allowed, remedy : str
        What an error says of columns that were not meant as numbers, either.

    Raises
    ------
    InvalidInput
        Columns of text or dates, with what most likely helps.
    """
    if isinstance(rows, FileRows) and (others := not_numeric(rows)):
        raise _refusal(rows, others, allowed, remedy)


def _refusal(rows: FileRows, columns: tuple[str, ...], allowed: str, usual: str) -> InvalidInput:
    """What to raise of columns that are no numbers, with what most likely helps."""
    part = rows.table.parts[0]
    kinds = {name: str(rows.table.schema.field(name).type) for name in columns}
    if isinstance(part, CsvPart) and "binary" in kinds.values():  # as what cannot be decoded is
        return unreadable(part.path, part.form, UnicodeError())
    texts = _texts(rows, columns)
    # A column that was meant as numbers tells more than one of names.
    remedies = {name: _remedy(rows, text) for name, (_, text) in texts.items()}
    column = next((name for name in remedies if remedies[name]), columns[0])
    remedy = remedies.get(column)
    row, text = texts.get(column, (0, None))
    held = f"no numbers ({kinds[column]})"
    if text is not None:
        held = f"text, such as {text!r} in row {row} of {column!r}"
    elif column in texts:  # as numbers are with a decimal point where commas were named
        held, remedy = (
            "numbers with a decimal point",
            "Use one decimal mark in all columns, or leave out --decimal",
        )
    return InvalidInput(f"{rows.where}: {_held(columns)} {held}", allowed, remedy or usual)


def _texts(rows: FileRows, columns: tuple[str, ...]) -> dict[str, tuple[int, str | None]]:
    """The first text that is no number of each column of text, and its row, counted from 1."""
    schema = rows.table.schema
    return {name: first_text(rows, name) for name in columns if is_text(schema.field(name).type)}


def _remedy(rows: FileRows, text: str | None) -> str | None:
    """What helps where a text was meant as a number; None if it was not."""
    part = rows.table.parts[0]
    between_commas = isinstance(part, CsvPart) and part.form.delimiter == ","
    if text is None:
        return None
    if not between_commas and _DECIMAL_COMMA.fullmatch(text):
        return _READ_COMMAS
    if _THOUSANDS.fullmatch(text):
        return _NO_THOUSANDS
    if _DECIMAL_COMMA.fullmatch(text):
        return _POINT
    if text.strip().lower() in _MISSING:
        return "Leave cells empty where a value is missing, and say --on-missing drop"
    if text.endswith("%"):
        return "Write numbers without a per-cent sign"
    return None


def _held(columns: tuple[str, ...]) -> str:
    """Columns, and that they hold what follows."""
    several = len(columns) > 1
    return f"the column{'s' * several} {listed(columns)} hold{'s' * (not several)}"
