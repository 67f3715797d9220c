"""Which files hold rows: their kind by name or first bytes, and folders of them."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from fairspan.errors import InvalidInput, MissingDependency

_SUFFIXES = {
    "csv": (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
}
_MAGIC = {b"PAR1": "parquet", b"ARRO": "arrow"}
# Each has a function `opened(path, constants)`.
_READERS = {
    "csv": "fairspan.rows.files.csv_files",
    "parquet": "fairspan.rows.files.parquet_files",
    "arrow": "fairspan.rows.files.arrow_files",
}

_ALLOWED = (
    "Allowed are CSV (.csv, .tsv), Parquet (.parquet) and Arrow (.arrow, .feather) files, folders "
    "of one of these kinds, and saved moments"
)


class FilePart(Protocol):
    """What is read at once and counted as one: a row group of a Parquet file, or another file.

    A plain value that can be sent to another process.
    """

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def where(self) -> str:
        """What the part is called in messages."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if it is known before reading."""

    def batches(self, columns: Sequence[str], labels: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of these columns, of about `size` rows.

        Columns in `labels` stay text if the file has no types.
        """


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

    @classmethod
    def of(cls, path: Path, schema: Any, parts: tuple[FilePart, ...]) -> "TableFile":
        """A table of this schema; a damaged one shows here."""
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        names = tuple(name for name in index if isinstance(name, str))  # a range is no column
        return cls(path, schema, tuple(schema.names), names, parts)

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where only reading the whole file would tell."""
        counts = [part.n_rows for part in self.parts]
        return None if None in counts else sum(count or 0 for count in counts)


Constants = tuple[tuple[str, str | int | None], ...]


def open_table(path: Path) -> TableFile:
    """Open a file by its name, or by its first bytes where the name does not tell; or a folder.

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
    if not (path.is_dir() or path.is_file()):
        raise InvalidInput(
            f"{path} is a pipe or a device",
            "Allowed are files and folders, since rows are read more than once",
            "Write the rows to a file first",
        )
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingDependency.for_extra("pyarrow", "arrow", f"Reading {path}") from error
    if path.is_dir():
        from fairspan.rows.files.folders import open_folder

        return open_folder(path)
    return open_file(path, _kind(path), ())


def open_file(path: Path, kind: str, constants: Constants) -> TableFile:
    """Open one file; `constants` are columns that its place in a folder stands for."""
    if not _is_utf8(str(path)):
        raise InvalidInput(
            f"The name {str(path)!a} is not UTF-8",
            "Allowed are files whose names are, as Arrow opens no other",
            "Rename the file or its folder",
        )
    with reading(path):
        table: TableFile = import_module(_READERS[kind]).opened(path, constants)
    if len(set(table.columns)) < len(table.columns):
        twice = sorted({name for name in table.columns if table.columns.count(name) > 1})
        raise InvalidInput(
            f"{path} has several columns named {twice[0]!r}",
            "Allowed are columns of different names",
            "Rename them",
        )
    return table


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def kind_by_name(path: Path) -> str | None:
    """The kind that the ending of a name stands for, if any."""
    name = path.name.lower()
    return next((kind for kind, ends in _SUFFIXES.items() if name.endswith(ends)), None)


def _kind(path: Path) -> str:
    kind = kind_by_name(path)
    if kind is None:
        with path.open("rb") as file:
            kind = _MAGIC.get(file.read(4))
    if kind is None:
        raise InvalidInput(
            f"{path} is of an unknown kind",
            _ALLOWED,
            "Convert the file, or give it the right ending",
        )
    return kind


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


def with_constants(batch: Any, columns: Sequence[str], constants: Constants) -> Any:
    """A record batch with these columns, in this order, those of its folder filled in."""
    import pyarrow as pa

    repeated = {
        name: pa.nulls(batch.num_rows) if value is None else pa.repeat(value, batch.num_rows)
        for name, value in constants
    }
    arrays = [repeated[name] if name in repeated else batch.column(name) for name in columns]
    return pa.record_batch(arrays, names=list(columns))


def with_constant_fields(schema: Any, constants: Constants) -> Any:
    """A schema with the columns that a place in a folder stands for."""
    import pyarrow as pa

    for name, value in constants:
        if name not in schema.names:
            kind = pa.null() if value is None else pa.scalar(value).type
            schema = schema.append(pa.field(name, kind))
    return schema
