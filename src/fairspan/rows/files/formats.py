"""Tables in files: the format by name or first bytes, the columns and the parts of a file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan.errors import InvalidInput
from fairspan.rows.files.csv_files import CsvFormat, open_csv
from fairspan.rows.files.parts import ArrowPart, Constants, FilePart, RowGroup, reading

_SUFFIXES = {
    "csv": tuple(
        end + packed for end in (".csv", ".tsv", ".txt") for packed in ("", ".gz", ".zst")
    ),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
}
_KINDS = {"parquet": "a Parquet file", "arrow": "an Arrow file"}
_MAGIC = {b"PAR1": "parquet", b"ARRO": "arrow"}


@dataclass(frozen=True)
class TableFile:
    """A file, or a folder of files, with columns and parts.

    Attributes
    ----------
    path : Path
    schema : pyarrow.Schema
        Of a CSV, as its first rows suggest.
    columns : tuple of str
    index : tuple of str
        Columns that hold the index of the pandas frame that was written, which is no feature.
    parts : tuple of FilePart
    """

    path: Path
    schema: Any
    columns: tuple[str, ...]
    index: tuple[str, ...]
    parts: tuple[FilePart, ...]

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if only reading the whole file would show this."""
        counts = [part.n_rows for part in self.parts]
        return None if None in counts else sum(count or 0 for count in counts)


def open_file(
    path: Path, kind: str | None = None, constants: Constants = (), form: CsvFormat | None = None
) -> TableFile:
    """Open one file.

    Parameters
    ----------
    path : Path
    kind : {"csv", "parquet", "arrow"}, optional
        If left out, it follows from the ending of the name or the first bytes.
    constants : tuple of (column, value)
        Columns that its place in a folder implies; a column in the file takes precedence.
    form : CsvFormat, optional
        How a CSV file is written.

    Raises
    ------
    InvalidInput
        It cannot be read, is of another kind, or has two columns of the same name.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"The name {str(path)!a} is not UTF-8",
            "Allowed: files whose names are, as Arrow opens no other",
            "Rename the file or its folder",
        ) from error
    with reading(path):
        kind = kind or _kind(path)
        if form is not None and kind != "csv":
            raise InvalidInput(
                f"{path} is a {kind} file, whose format has no options",
                "Allowed with delimiter, decimal, encoding and comment: CSV files",
                "Leave them out",
            )
        schema, part_of = (
            open_csv(path, form or CsvFormat()) if kind == "csv" else _OPENING[kind](path)
        )
        constants = tuple(each for each in constants if each[0] not in schema.names)
        columns = (*schema.names, *(name for name, _ in constants))
        # A damaged schema shows here.
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        names = tuple(name for name in index if isinstance(name, str))  # a range is no column
        table = TableFile(path, _with_fields(schema, constants), columns, names, part_of(constants))
    if len(set(columns)) < len(columns):
        twice = sorted({name for name in columns if columns.count(name) > 1})
        raise InvalidInput(
            f"{path} has several columns named {twice[0]!r}",
            "Allowed: columns of different names",
            "Rename them",
        )
    return table


def kind_by_name(path: Path) -> str | None:
    """The kind that the ending of a name implies, if any."""
    name = path.name.lower()
    return next((kind for kind, ends in _SUFFIXES.items() if name.endswith(ends)), None)


def is_table(path: Path) -> bool:
    """Whether a path is a folder, or a file of a known kind."""
    try:
        return path.is_dir() or (path.is_file() and _known_kind(path) is not None)
    except OSError:  # who reads it will say so
        return True


def _known_kind(path: Path) -> str | None:
    kind = kind_by_name(path)
    if kind is None:
        with path.open("rb") as file:
            kind = _MAGIC.get(file.read(4))
    return kind


def _kind(path: Path) -> str:
    kind = _known_kind(path)
    if kind is None:
        raise InvalidInput(
            f"{path} is of an unknown kind",
            "Allowed: CSV (.csv, .tsv), Parquet (.parquet) and Arrow (.arrow, .feather) files, "
            "folders of one of these kinds, and saved moments",
            "Convert the file, or give it the right ending",
        )
    if kind == "csv" and (other := _binary_kind(path)):
        raise InvalidInput(
            f"{path} is named as CSV, but it is {_KINDS[other]}",
            "Allowed: names whose ending says what the file is",
            f"Rename it, with the ending {_SUFFIXES[other][0]}",
        )
    return kind


def _binary_kind(path: Path) -> str | None:
    """What a file is that begins and ends with the mark of a kind."""
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(max(path.stat().st_size - 6, 0))
        return _MAGIC.get(start) if start in file.read() else None


def _with_fields(schema: Any, constants: Constants) -> Any:
    """A schema with the columns that a place in a folder implies."""
    import pyarrow as pa

    for name, value in constants:
        schema = schema.append(pa.field(name, pa.scalar(value).type))
    return schema


# Schema of a file, and its parts given the columns that its place in a folder stands for.
_Opened = tuple[Any, Callable[[Constants], tuple[FilePart, ...]]]


def _open_parquet(path: Path) -> _Opened:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as head:
        schema, metadata = head.schema_arrow, head.metadata
        counts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return schema, lambda constants: tuple(
        RowGroup(path, constants, count, number) for number, count in enumerate(counts)
    )


def _open_arrow(path: Path) -> _Opened:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        schema = reader.schema
        n_rows = sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
    return schema, lambda constants: (ArrowPart(path, constants, n_rows),)


_OPENING: dict[str, Callable[[Path], _Opened]] = {
    "parquet": _open_parquet,
    "arrow": _open_arrow,
}
