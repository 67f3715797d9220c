"""Rows that are read as options say, and what transform writes of them.

Reduced rows are written block by block, so that nothing need fit into memory.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import click

from fairspan.cli.options import Reading
from fairspan.errors import InvalidInput, InvalidParameter, InvalidType
from fairspan.formatting.text import count
from fairspan.model.subspace import FairSubspace
from fairspan.registry import Foreign
from fairspan.rows.checks import check_columns
from fairspan.rows.columns import ChosenColumns, is_text
from fairspan.rows.files.file_rows import (
    FileRows,
    encode_text,
    first_text,
    not_numeric,
    without_features,
)
from fairspan.rows.groups import listed
from fairspan.rows.protocol import Rows, RowSource
from fairspan.storage import replacing

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
_WRITERS = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def csv_format(reading: Reading) -> dict[str, str] | None:
    """How CSV files are written, for `FileRows.open`; None where nothing was said."""
    names = ("delimiter", "decimal", "encoding", "comment")
    said = {name: getattr(reading, name) for name in names if getattr(reading, name) is not None}
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
    rows = FileRows.open(
        path,
        (*reading.groups, *[name for name in (reading.label, clusters) if name is not None]),
        reading.features,
        reading.exclude,
        weight=reading.weight,
        on_missing=reading.on_missing,
        csv=csv_format(reading),
    )
    rows = _prepared(rows, numeric_only=reading.numeric_only, one_hot=reading.one_hot)
    chosen = replace(rows.chosen, ignores_unseen=reading.unseen == "ignore")
    return replace(rows, jobs=reading.jobs or 1, chosen=chosen)


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
    return rows.selected(
        ChosenColumns.of(
            rows.feature_names or (), {}, features=reading.features, exclude=reading.exclude
        ).features
    )


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
    part = rows.parts[0]
    kinds = {name: str(rows.schema.field(name).type) for name in columns}
    if part.form is not None and "binary" in kinds.values():  # as what cannot be decoded is
        from fairspan.rows.files.csv_files import unreadable

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
    return {
        name: first_text(rows, name) for name in columns if is_text(rows.schema.field(name).type)
    }


def _remedy(rows: FileRows, text: str | None) -> str | None:
    """What helps where a text was meant as a number; None if it was not."""
    part = rows.parts[0]
    between_commas = part.form is not None and part.form.delimiter == ","
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
    return "Write numbers without a per-cent sign" if text.endswith("%") else None


def _held(columns: tuple[str, ...]) -> str:
    """Columns, and that they hold what follows."""
    several = len(columns) > 1
    return f"the column{'s' * several} {listed(columns)} hold{'s' * (not several)}"


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes
    ----------
    n_rows, n_dropped : int
        Rows that were reduced, and those left out since something is missing.
    n_components : int
    columns : list of str
    """

    n_rows: int
    n_dropped: int
    n_components: int
    columns: list[str]

    def in_words(self) -> str:
        """How many rows there are, of what, and how many are missing."""
        n_kept = len(self.columns) - self.n_components
        words = f"{count(self.n_rows, 'row')} of {count(self.n_components, 'component')}"
        words += f" beside {count(n_kept, 'column')}" if n_kept else ""
        if self.n_dropped:
            words += f" (without {count(self.n_dropped, 'row')} in which a feature is missing)"
        return words


def transform_file(model: Path, data: Path | Foreign, out: Path, reading: Reading) -> Written:
    """Write the coordinates of every row, beside the columns that are kept.

    The output appears only when it is complete.
    """
    kind = _kind_of(out)
    subspace = FairSubspace.load(model)
    rows = _opened(data, subspace, reading)
    names = list(subspace.component_names)
    import pyarrow as pa

    n_rows = n_dropped = 0
    if isinstance(rows, FileRows):
        rows = replace(rows, activity="transforming")
    blocks = rows.blocks()
    # Standard output cannot be taken back, so nothing is written before rows are known to be good.
    first = next(blocks, None)
    if first is None:
        raise InvalidInput(f"{data} holds no rows", "Allowed: at least one row", "Check the file")
    kept = [] if first.extra_columns is None else list(first.extra_columns.schema)
    schema = pa.schema([*kept, *((name, pa.float64()) for name in names)])
    with _writer(kind, out, schema) as writer:
        for block in chain([first], blocks):
            n_dropped += block.n_dropped
            if not len(block.values):
                continue
            reduced = subspace.transform(block.values)
            beside = [] if block.extra_columns is None else block.extra_columns.columns
            writer.write(pa.table([*beside, *reduced.T], schema=schema))
            n_rows += len(reduced)
    return Written(n_rows, n_dropped, len(names), schema.names)


def _opened(data: Path | Foreign, subspace: FairSubspace, reading: Reading) -> RowSource:
    """Rows of a file, or of another package."""
    names = subspace.feature_names
    if isinstance(data, Path):
        return _opened_file(data, subspace, reading)
    if reading.requested:
        raise click.UsageError(f"{data} is no file of rows: give no option but -o.")
    rows = foreign_rows(data)
    return rows if names is None else rows.selected(names)


def _opened_file(data: Path, subspace: FairSubspace, reading: Reading) -> FileRows:
    names = subspace.feature_names
    rows = FileRows.open(data, on_missing=reading.on_missing, csv=csv_format(reading))
    available = rows.chosen.available
    rows = replace(rows, chosen=replace(rows.chosen, ignores_unseen=reading.unseen == "ignore"))
    if names is not None:
        rows = rows.selected(names)
    check_numeric(
        rows,
        "Allowed: numbers in every feature of the model",
        "Write them as in the rows that the model was fitted on",
    )
    keep = available if reading.keep_all else reading.keep
    check_columns(keep, available)
    if taken := set(keep).intersection(subspace.component_names):
        raise click.UsageError(f"The column {min(taken)!r} would appear twice in the output.")
    return replace(rows, chosen=replace(rows.chosen, extra_columns=keep))


def _kind_of(out: Path) -> str:
    if str(out) == "-":
        return "csv"
    if out.suffix.lower() not in _WRITERS:
        raise InvalidParameter(
            f"The output {out} has the ending {out.suffix!r}",
            f"Allowed: {', '.join(_WRITERS)}, or - for standard output",
            "Choose one of these endings",
        )
    return _WRITERS[out.suffix.lower()]


@contextmanager
def _writer(kind: str, out: Path, schema: Any) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv, parquet

    openers = {
        "csv": csv.CSVWriter,
        "parquet": parquet.ParquetWriter,
        "arrow": pa.ipc.new_file,
    }
    if str(out) == "-":
        with csv.CSVWriter(sys.stdout.buffer, schema) as writer:
            yield writer
        return
    # Opened here, as Arrow takes only names in UTF-8.
    with (
        replacing(out) as file,
        openers[kind](file, schema) as writer,
    ):
        yield writer
