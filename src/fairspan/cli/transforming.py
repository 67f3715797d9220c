"""Reduce a file block by block, so that neither input nor output need fit into memory."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from fairspan.cli.progress import telling
from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.rows.files.file_rows import FileRows, Files
from fairspan.rows.labels import Everyone
from fairspan.rows.protocol import RowSource
from fairspan.rows.registry import opener_of, rows_of
from fairspan.storage import replacing, writing
from fairspan.subspace import FairSubspace

_WRITERS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow"}
_WRITERS |= {".feather": "arrow", ".ipc": "arrow"}


def transform_file(model: Path, data: Path | str, out: Path) -> tuple[int, list[str]]:
    """Write the coordinates of every row; return the number of rows and the column names.

    The output appears only when it is complete.
    """
    kind = _kind_of(out)
    subspace = FairSubspace.load(model)
    rows = _opened(data)
    if subspace.feature_names is not None:
        rows = rows.selected(subspace.feature_names)
    names = list(subspace.component_names)
    import pyarrow as pa

    schema = pa.schema([(name, pa.float64()) for name in names])
    n_rows = 0
    blocks = telling(rows, "transforming").blocks()
    # Standard output cannot be taken back, so nothing is written before rows are known to be good.
    first = next(blocks, None)
    if first is None:
        raise InvalidInput(f"{data} holds no rows", "Allowed is at least one row", "Check the file")
    with _writer(kind, out, schema) as writer:
        for block in chain([first], blocks):
            reduced = subspace.transform(block.values)
            writer.write(pa.record_batch(list(reduced.T), schema=schema))
            n_rows += len(reduced)
    return n_rows, names


def _opened(data: Path | str) -> RowSource:
    """Rows without groups, of a file or of what a source of another package takes."""
    if isinstance(data, Path) and isinstance(opener_of(data), Files):
        return FileRows.open(data)
    rows = rows_of(data, Everyone(""))
    assert isinstance(rows, RowSource)
    return rows


def _kind_of(out: Path) -> str:
    if str(out) == "-":
        return "csv"
    if out.suffix.lower() not in _WRITERS:
        raise InvalidParameter(
            f"The output {out} has the ending {out.suffix!r}",
            f"Allowed are {', '.join(_WRITERS)}, or - for standard output",
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
        replacing(out) as partial,
        partial.open("wb") as file,
        openers[kind](file, schema) as writer,
    ):
        yield writer
