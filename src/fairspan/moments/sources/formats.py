"""Files of rows: CSV, Parquet and Arrow, each read in batches through pyarrow."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan.errors import InvalidInput, MissingDependency

_SUFFIXES = {
    "csv": (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
}
_MAGIC = {b"PAR1": "parquet", b"ARRO": "arrow"}
_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class TableFile:
    """A file, or a folder of Parquet files, with columns and batches of rows.

    Attributes
    ----------
    path : Path
    columns : tuple of str
    n_rows : int or None
        None where only reading the whole file would tell.
    batches : callable
        ``batches(columns, labels, size)`` reads the file from its beginning: record batches of
        these columns, of about `size` rows; those in `labels` stay text if the file has no types.
    index : tuple of str
        Columns that hold the index of the pandas frame that was written, which is no feature.
    """

    path: Path
    columns: tuple[str, ...]
    n_rows: int | None
    batches: Callable[[tuple[str, ...], tuple[str, ...], int], Iterator[Any]]
    index: tuple[str, ...] = ()


def open_table(path: Path) -> TableFile:
    """Open a file by its name, or by its first bytes where the name does not tell.

    Raises
    ------
    InvalidInput
        Not a table that can be read: missing, empty, damaged, of another kind, or with two columns
        of the same name.
    MissingDependency
        pyarrow is not installed.
    """
    if not path.exists():
        raise InvalidInput(
            f"There is no file {path}", "Allowed is a file or folder that exists", "Check the path"
        )
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingDependency.for_extra("pyarrow", "arrow", f"Reading {path}") from error
    with reading(path):
        table = {"csv": _open_csv, "parquet": _open_parquet, "arrow": _open_arrow}[_kind(path)](
            path
        )
    if len(set(table.columns)) < len(table.columns):
        twice = sorted({name for name in table.columns if table.columns.count(name) > 1})
        raise InvalidInput(
            f"{path} has several columns named {twice[0]!r}",
            "Allowed are columns of different names",
            "Rename them",
        )
    return table


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn pyarrow's errors into InvalidInput that names the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, json.JSONDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidInput(
            f"{path} cannot be read ({' '.join(str(error).split())})",
            "Allowed are complete CSV, Parquet and Arrow files of equally long rows",
            "Check the file; a damaged one must be made again",
        ) from error


def _kind(path: Path) -> str:
    if path.is_dir():
        return "parquet"
    name = path.name.lower()
    for kind, suffixes in _SUFFIXES.items():
        if name.endswith(suffixes):
            return kind
    with path.open("rb") as file:
        start = file.read(4)
    if start not in _MAGIC:
        raise InvalidInput(
            f"{path} is of an unknown kind",
            "Allowed are CSV (.csv, .tsv), Parquet (.parquet, or a folder of them) and Arrow "
            "(.arrow, .feather) files, and saved moments",
            "Convert the file, or give it the right ending",
        )
    return _MAGIC[start]


def _open_csv(path: Path) -> TableFile:
    import pyarrow as pa
    from pyarrow import csv

    with pa.input_stream(str(path)) as stream:
        start = stream.read(1 << 16)
    if not start.strip():
        raise InvalidInput(
            f"{path} is empty", "Allowed is a header line and at least one row", "Check the file"
        )
    header = start.strip(b"\r\n").splitlines()[0].decode("utf-8-sig")
    # Without newlines_in_values a quoted line break fails wherever two blocks meet.
    parse = csv.ParseOptions(delimiter=_delimiter(path, header), newlines_in_values=True)
    with csv.open_csv(path, parse_options=parse) as reader:
        schema = reader.schema

    def batches(columns: tuple[str, ...], labels: tuple[str, ...], size: int) -> Iterator[Any]:
        # The first block may show only whole numbers, or nothing, where fractions follow. Labels
        # are text, as a CSV has no types: "01" and "1" must not become one group.
        number_like = (pa.types.is_null, pa.types.is_integer, pa.types.is_floating)
        types = {
            name: pa.float64()
            for name in columns
            if any(matches(schema.field(name).type) for matches in number_like)
        }
        types |= dict.fromkeys(labels, pa.string())
        convert = csv.ConvertOptions(
            include_columns=columns, column_types=types, strings_can_be_null=True
        )
        with csv.open_csv(path, parse_options=parse, convert_options=convert) as reader:
            yield from reader

    return TableFile(path, tuple(schema.names), None, batches)


def _delimiter(path: Path, header: str) -> str:
    """What the header shows most often outside quotes; a comma if it is a single column."""
    if "\t" in header and path.name.lower().endswith((".tsv", ".tsv.gz")):
        return "\t"
    return max(_DELIMITERS, key=re.sub(r'"[^"]*"', "", header).count)


def _open_parquet(path: Path) -> TableFile:
    from pyarrow import parquet

    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise InvalidInput(
            f"The folder {path} holds no .parquet file", "Allowed is at least one", "Check the path"
        )
    n_rows = 0
    schemas = []
    for file in files:
        with reading(file), parquet.ParquetFile(file) as head:
            n_rows += head.metadata.num_rows
            schemas.append(head.schema_arrow)
        if set(schemas[-1].names) != set(schemas[0].names):
            raise InvalidInput(
                f"{file} has other columns than {files[0]}",
                "Allowed are files of the same columns",
                "Put files of another kind into another folder",
            )

    def batches(columns: tuple[str, ...], labels: tuple[str, ...], size: int) -> Iterator[Any]:
        for file in files:
            # Buffered ahead, row groups stay in memory until the whole file has been read.
            with reading(file), parquet.ParquetFile(file, pre_buffer=False) as opened:
                for batch in opened.iter_batches(batch_size=size, columns=list(columns)):
                    yield batch.select(columns)

    return TableFile(path, tuple(schemas[0].names), n_rows, batches, _pandas_index(schemas[0]))


def _open_arrow(path: Path) -> TableFile:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        schema = reader.schema
        n_rows = sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))

    def batches(columns: tuple[str, ...], labels: tuple[str, ...], size: int) -> Iterator[Any]:
        with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
            for index in range(reader.num_record_batches):
                batch = reader.get_batch(index).select(columns)
                # Arrow trusts the file, and a damaged one would end the process.
                batch.validate(full=True)
                yield batch

    return TableFile(path, tuple(schema.names), n_rows, batches, _pandas_index(schema))


def _pandas_index(schema: Any) -> tuple[str, ...]:
    """Names of the columns that pandas will read back as the index of the frame."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return tuple(name for name in index if isinstance(name, str))  # a range is no column
