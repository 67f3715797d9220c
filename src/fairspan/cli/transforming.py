"""Reduced rows: what transform writes, block by block, so that nothing need fit into memory."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import click

from fairspan.cli.reading import check_numeric, csv_format, foreign_rows
from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.formatting.numbers import count
from fairspan.registry import Foreign
from fairspan.rows.checks import check_columns
from fairspan.rows.columns import Encoding
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.protocol import OnMissing, RowSource
from fairspan.storage import replacing, writing
from fairspan.subspace import FairSubspace

_WRITERS = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


@dataclass(frozen=True)
class Transforming:
    """The options of how rows are read to be reduced, by the names of the options.

    Attributes
    ----------
    keep : tuple of str
        Columns of the input that stay beside the coordinates.
    keep_all : bool
    on_missing : {"error", "drop"}
    unseen : {"error", "ignore"}
    delimiter, decimal, encoding, comment : str or None
        How a CSV file is written.
    """

    keep: tuple[str, ...] = ()
    keep_all: bool = False
    on_missing: OnMissing = "error"
    unseen: Literal["error", "ignore"] = "error"
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    comment: str | None = None


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


def transform_file(model: Path, data: Path | Foreign, out: Path, options: Transforming) -> Written:
    """Write the coordinates of every row, beside the columns that are kept.

    The output appears only when it is complete.
    """
    kind = _kind_of(out)
    subspace = FairSubspace.load(model)
    rows = _opened(data, subspace, options)
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
    kept = [] if first.beside is None else list(first.beside.schema)
    schema = pa.schema([*kept, *((name, pa.float64()) for name in names)])
    with _writer(kind, out, schema) as writer:
        for block in chain([first], blocks):
            n_dropped += block.n_dropped
            if not len(block.values):
                continue
            reduced = subspace.transform(block.values)
            beside = [] if block.beside is None else block.beside.columns
            writer.write(pa.table([*beside, *reduced.T], schema=schema))
            n_rows += len(reduced)
    return Written(n_rows, n_dropped, len(names), schema.names)


def _opened(data: Path | Foreign, subspace: FairSubspace, options: Transforming) -> RowSource:
    """Rows of a file, or of another package."""
    names = subspace.feature_names
    if isinstance(data, Path):
        return _opened_file(data, subspace, options)
    if options != Transforming():
        raise click.UsageError(f"{data} is no file of rows: give no option but -o.")
    rows = foreign_rows(data)
    return rows if names is None else rows.selected(names)


def _opened_file(data: Path, subspace: FairSubspace, options: Transforming) -> FileRows:
    names = subspace.feature_names
    rows = FileRows.open(data, on_missing=options.on_missing, csv=csv_format(options))
    available = rows.chosen.available
    encoding = Encoding(ignores_unseen=options.unseen == "ignore")
    rows = replace(rows, chosen=replace(rows.chosen, encoding=encoding))
    if names is not None:
        rows = rows.selected(names)
    check_numeric(
        rows,
        "Allowed: numbers in every feature of the model",
        "Write them as in the rows that the model was fitted on",
    )
    keep = available if options.keep_all else options.keep
    check_columns(keep, available)
    if taken := set(keep).intersection(subspace.component_names):
        raise click.UsageError(f"The column {min(taken)!r} would appear twice in the output.")
    return replace(rows, chosen=replace(rows.chosen, beside=keep))


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
        writing(out),
        replacing(out) as file,
        openers[kind](file, schema) as writer,
    ):
        yield writer
