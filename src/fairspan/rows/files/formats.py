"""Tables in files and folders: the format by name or first bytes, the columns and the parts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fairspan.errors import InvalidInput, imported, warn
from fairspan.rows.columns import is_text
from fairspan.rows.files.parts import (
    ArrowPart,
    Constants,
    CsvFormat,
    FilePart,
    RowGroup,
    open_csv,
    reading,
)
from fairspan.rows.groups import listed

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
    index : tuple of str
        Columns that hold the index of the pandas frame that was written, which is no feature.
    parts : tuple of FilePart
    """

    path: Path
    schema: Any
    index: tuple[str, ...]
    parts: tuple[FilePart, ...]


def counted_rows(parts: Sequence[FilePart]) -> int | None:
    """Number of rows of parts; None if only reading them would show this."""
    counts = [part.n_rows for part in parts]
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
    import pyarrow as pa

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
        schema, parts = (
            open_csv(path, form or CsvFormat())
            if kind == "csv"
            else (_open_parquet if kind == "parquet" else _open_arrow)(path)
        )
        constants = tuple(each for each in constants if each[0] not in schema.names)
        for name, value in constants:
            schema = schema.append(pa.field(name, pa.scalar(value).type))
        # A damaged schema shows here.
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        names = tuple(name for name in index if isinstance(name, str))  # a range is no column
        table = TableFile(
            path, schema, names, tuple(replace(part, constants=constants) for part in parts)
        )
    columns = schema.names
    if len(set(columns)) < len(columns):
        twice = min(name for name in columns if columns.count(name) > 1)
        raise InvalidInput(
            f"{path} has several columns named {twice!r}",
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
    if kind := kind_by_name(path):
        return kind
    with path.open("rb") as file:
        return _MAGIC.get(file.read(4))


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


def _open_parquet(path: Path) -> tuple[Any, tuple[FilePart, ...]]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as head:
        schema, metadata = head.schema_arrow, head.metadata
        counts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return schema, tuple(RowGroup(path, (), count, number) for number, count in enumerate(counts))


def _open_arrow(path: Path) -> tuple[Any, tuple[FilePart, ...]]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        schema = reader.schema
        n_rows = sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
    return schema, (ArrowPart(path, (), n_rows),)


_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def open_table(path: Path, form: CsvFormat | None = None) -> TableFile:
    """Open a file by the ending of its name, or else by its first bytes; or a folder.

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
            f"There is no file {path}", "Allowed: a file or folder that exists", "Check the path"
        )
    if not (path.is_dir() or path.is_file()):
        raise InvalidInput(
            f"{path} is a pipe or a device",
            "Allowed: files and folders, since rows are read more than once",
            "Write the rows to a file first",
        )
    imported("pyarrow", "arrow", f"Reading {path}")
    return open_folder(path, form) if path.is_dir() else open_file(path, form=form)


def open_folder(folder: Path, form: CsvFormat | None = None) -> TableFile:
    """Open all files of a folder and its sub-folders, in the order of their names.

    A sub-folder named ``year=2024`` gives its files the column ``year``: whole numbers if all its
    values are, else text. Names that begin with a dot or an underscore are passed over, as writers
    keep their notes there.

    Raises
    ------
    InvalidInput
        No files, files of several kinds, or files that differ in columns or in their types.
    """
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(
            name.startswith((".", "_")) and "=" not in name
            for name in path.relative_to(folder).parts
        )
    )
    files = [path for path in found if kind_by_name(path) is not None]
    if files and len(files) < len(found):
        warn(
            f"{folder}: files with other endings are skipped: "
            f"{listed([path.name for path in found if path not in files])}. "
            "Rename them if they hold rows."
        )
    kinds = sorted({str(kind_by_name(path)) for path in files})
    if len(kinds) != 1:
        raise InvalidInput(
            f"The folder {folder} holds "
            + (f"files of several kinds: {', '.join(kinds)}" if kinds else "no file of rows"),
            "Allowed: Parquet files, or CSV files, or Arrow files, at least one",
            "Check the path, or sort the files into folders; moments of parts are merged with "
            "fairspan merge",
        )
    tables = [
        open_file(file, kinds[0], constants, form)
        for file, constants in zip(files, _constants(folder, files), strict=True)
    ]
    for table in tables[1:]:
        _check_alike(tables[0], table)
    return replace(
        tables[0], path=folder, parts=tuple(part for table in tables for part in table.parts)
    )


def _constants(folder: Path, files: Sequence[Path]) -> list[Constants]:
    """Columns and values of each file's sub-folders, numbers where a column has only numbers."""
    texts: list[dict[str, str | None]] = []
    for file in files:
        pairs = [name.split("=", 1) for name in file.relative_to(folder).parts[:-1] if "=" in name]
        texts.append(
            {unquote(key): None if text == _NO_VALUE else unquote(text) for key, text in pairs}
        )
        if set(texts[-1]) != set(texts[0]):
            raise InvalidInput(
                f"{file} lies under {listed(sorted(texts[-1]))}, but {files[0]} under "
                f"{listed(sorted(texts[0]))}",
                "Allowed: files under sub-folders of the same columns, as in year=2024",
                "Move the files that do not belong here",
            )
    numbers = {
        name
        for name in texts[0]
        if all(each[name] is None or _is_whole(str(each[name])) for each in texts)
    }
    return [
        tuple(
            (name, int(value) if name in numbers and value is not None else value)
            for name, value in each.items()
        )
        for each in texts
    ]


def _is_whole(text: str) -> bool:
    # "01" is a name: as a number it would become 1. Arrow has no room for 19 digits or more.
    return text.removeprefix("-").isdecimal() and text == str(int(text)) and len(text) < 19


def _check_alike(first: TableFile, other: TableFile) -> None:
    """Make sure that two files have the same columns, and that these hold the same kind."""
    missing = [name for name in first.schema.names if name not in other.schema.names]
    extra = [name for name in other.schema.names if name not in first.schema.names]
    if missing or extra:
        differences = [f"it lacks {listed(missing)}"] if missing else []
        differences += [f"it has {listed(extra)} besides"] if extra else []
        raise InvalidInput(
            f"{other.path} has other columns than {first.path}: {' and '.join(differences)}",
            "Allowed: files of the same columns",
            "Put files of another kind into another folder",
        )
    for name in first.schema.names:
        left, right = (table.schema.field(name).type for table in (first, other))
        if len({_kind_of_type(left), _kind_of_type(right)} - {"nothing"}) > 1:
            raise InvalidInput(
                f"{other.path} holds {right} in column {name!r}, but {first.path} holds {left}",
                "Allowed: files whose columns hold the same kind of values",
                "Write one of the files again, with the types of the other",
            )


def _kind_of_type(kind: Any) -> str:
    from pyarrow import types

    if types.is_null(kind):
        return "nothing"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if is_text(kind):
        return "text"
    return _kind_of_type(kind.value_type) if types.is_dictionary(kind) else str(kind)
