"""Tables in files and folders: their format, columns and parts, which are read one by one.

The format follows from the name or the first and last bytes. A part is a plain value that can be
sent to another process.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from fairspan.errors import Cause, InvalidInput, warn
from fairspan.formatting.text import quoted_label, shown_reason
from fairspan.rows.columns import is_text_type
from fairspan.rows.files.csv_files import read_csv_batches, read_csv_schema
from fairspan.rows.files.csv_format import CsvFormat
from fairspan.rows.files.csv_reader import line_of_row
from fairspan.rows.files.na_values import NO_NA_VALUES, NaValues
from fairspan.rows.groups import format_list

PartitionValues = tuple[tuple[str, str | int | None], ...]

_SUFFIXES = {
    "csv": tuple(
        end + packed for end in (".csv", ".tsv", ".txt") for packed in ("", ".gz", ".zst")
    ),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
}
_FORMAT_NAMES = {"parquet": "a Parquet file", "arrow": "an Arrow file"}
_MAGIC = {b"PAR1": "parquet", b"ARRO": "arrow"}


@dataclass(frozen=True)
class FilePart:
    """What is read at once and counted as one: a row group of a Parquet file, or another file.

    Attributes
    ----------
    path : Path
        The file.
    n_rows : int or None
        Number of rows, if it is known before reading.
    row_group : int or None
        Its number in a Parquet file, counted from 0.
    form : CsvFormat or None
        How a CSV file is written.
    constants : tuple of (column, value)
        Columns that the file's place in a folder implies.
    na_values : NaValues
        Values of cells that stand for missing ones.
    """

    path: Path
    n_rows: int | None = None
    row_group: int | None = None
    form: CsvFormat | None = None
    partition_values: PartitionValues = ()
    na_values: NaValues = NO_NA_VALUES

    @property
    def location(self) -> str:
        """What the part is called in messages."""
        number = "" if self.row_group is None else f", row group {self.row_group}"
        return f"{self.path}{number}"

    def line_name(self, index: int) -> str | None:
        """Return what messages call a row of a CSV file: its line; None for other files."""
        line = None if self.form is None else line_of_row(self.path, self.form, index)
        return None if line is None else f"line {line}"

    def batches(
        self, schema: Any, columns: Sequence[str], texts: Sequence[str], size: int
    ) -> Iterator[Any]:
        """Record batches of these columns, of about `size` rows where the format allows.

        Columns in `texts` stay text if the file has no types.
        """
        known = dict(self.partition_values)
        stored = [name for name in columns if name not in known]
        with explain_read_errors(self.path):
            for batch in self._read_stored(schema, stored, texts, size):
                arrays = [
                    pa.repeat(pa.scalar(known[name]), batch.num_rows)
                    if name in known
                    else batch.column(name)
                    for name in columns
                ]
                yield self.na_values.masked(pa.record_batch(arrays, names=list(columns)))

    def _read_stored(
        self, schema: Any, columns: list[str], texts: Sequence[str], size: int
    ) -> Iterator[Any]:
        """Record batches of columns that are in the file."""
        if self.form is not None:
            yield from read_csv_batches(
                self.path, self.form, schema, columns, texts, self.na_values
            )
        elif self.row_group is not None:
            from pyarrow import parquet

            # Buffered ahead, row groups stay in memory until the whole file has been read. One
            # thread: the next batch is read while the one before is worked on.
            with parquet.ParquetFile(self.path, pre_buffer=False) as file:
                groups = [self.row_group]
                yield from file.iter_batches(size, groups, columns=columns, use_threads=False)
        else:
            with pa.memory_map(str(self.path)) as file, pa.ipc.open_file(file) as reader:
                for index in range(reader.num_record_batches):
                    batch = reader.get_batch(index).select(columns)
                    # Arrow trusts the file, and a damaged one would end the process.
                    batch.validate(full=True)
                    yield batch


# Of a table the pyarrow.Schema, for a CSV as its first rows suggest, and the parts.
OpenedTable = tuple[Any, tuple[FilePart, ...]]


@contextmanager
def explain_read_errors(path: Path) -> Iterator[None]:
    """Turn pyarrow's errors into InvalidInput that names the file."""
    try:
        yield
    except (pa.ArrowException, json.JSONDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidInput(
            f"{path} cannot be read ({shown_reason(error)})",
            "Allowed: complete CSV, Parquet and Arrow files of equally long rows",
            "Check the file; a damaged one must be made again",
        ) from error


def open_file(
    path: Path,
    file_format: str | None = None,
    partition_values: PartitionValues = (),
    form: CsvFormat | None = None,
    na_values: NaValues = NO_NA_VALUES,
) -> OpenedTable:
    """Open one file.

    Parameters
    ----------
    path : Path
    kind : {"csv", "parquet", "arrow"}, optional
        If left out, it follows from the ending of the name or the first and last bytes.
    constants : tuple of (column, value)
        Columns that its place in a folder implies; a column in the file takes precedence.
    form : CsvFormat, optional
        How a CSV file is written.
    na_values : NaValues, optional
        Values of cells that stand for missing ones.

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
    with explain_read_errors(path):
        file_format = file_format or _detect_format(path)
        if form is not None and file_format != "csv":
            raise InvalidInput(
                f"{path} is a {file_format} file, whose format has no options",
                "Allowed with delimiter, decimal, encoding and comment: CSV files",
                "Leave them out",
            )
        if file_format == "csv":
            schema, form = read_csv_schema(path, form or CsvFormat(), na_values)
            parts = [FilePart(path, form=form)]
        elif file_format == "parquet":
            schema, parts = _open_parquet(path)
        else:
            with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
                schema = reader.schema
                sizes = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
            parts = [FilePart(path, sum(sizes))]
        partition_values = tuple(each for each in partition_values if each[0] not in schema.names)
        for name, value in partition_values:
            schema = schema.append(pa.field(name, pa.scalar(value).type))
        pandas_index_columns(schema)  # a damaged schema shows here
    columns = schema.names
    if len(set(columns)) < len(columns):
        duplicates = min(name for name in columns if columns.count(name) > 1)
        places = [str(place) for place, name in enumerate(columns, start=1) if name == duplicates]
        # A name that occurs twice may be somebody's cell.
        is_row = form is not None and form.header_is_data
        raise InvalidInput(
            f"{path} has several columns named {quoted_label(duplicates)}"
            if duplicates
            else f"{path} has no names for the columns {', '.join(places)}",
            "Allowed: columns of different names",
            "If the first line is a row, open the file with FileRows.open(path, groups, "
            "csv={'header': False}); otherwise rename them"
            if is_row
            else "Rename them",
            cause=Cause.CSV_STYLE,
            command="If the first line is a row, add --no-header; otherwise rename them"
            if is_row
            else "Rename them",
        )
    return schema, tuple(
        replace(part, partition_values=partition_values, na_values=na_values) for part in parts
    )


def pandas_index_columns(schema: Any) -> list[str]:
    """Columns that hold the index of the pandas frame that was written, which is no feature."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in index if isinstance(name, str)]  # a range is no column


def _open_parquet(path: Path) -> tuple[Any, list[FilePart]]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        counts = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        return file.schema_arrow, [FilePart(path, n, i) for i, n in enumerate(counts)]


def format_from_suffix(path: Path) -> str | None:
    """The kind that the ending of a name implies, if any."""
    name = path.name.lower()
    return next(
        (file_format for file_format, ends in _SUFFIXES.items() if name.endswith(ends)), None
    )


def _detect_format(path: Path) -> str:
    """The kind by the name, or else by what the file begins and ends with."""
    file_format = format_from_suffix(path)
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(max(path.stat().st_size - 6, 0))
        detected = _MAGIC.get(start) if start in file.read() else None
    if file_format is None and detected is None:
        raise InvalidInput(
            f"{path} is of an unknown kind",
            "Allowed: CSV (.csv, .tsv), Parquet (.parquet) and Arrow (.arrow, .feather) files, "
            "folders of one of these kinds, and saved moments",
            "Convert the file, or give it the right ending",
        )
    if file_format == "csv" and detected is not None:
        raise InvalidInput(
            f"{path} is named as CSV, but it is {_FORMAT_NAMES[detected]}",
            "Allowed: names whose ending says what the file is",
            f"Rename it, with the ending {_SUFFIXES[detected][0]}",
        )
    return file_format or str(detected)


# "01" is a name: as a number it would become 1. Arrow has no room for 19 digits or more.
_INTEGER = re.compile(r"0|(?=.{1,18}$)-?[1-9]\d*", re.ASCII)
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def open_table(
    path: Path, form: CsvFormat | None = None, na_values: NaValues = NO_NA_VALUES
) -> OpenedTable:
    """Open a file by the ending of its name, or else by its first bytes; or a folder.

    Raises
    ------
    InvalidInput
        Not a table that can be read: missing, empty, damaged, of another kind, or with two columns
        of the same name.
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
    if path.is_dir():
        return open_folder(path, form, na_values)
    return open_file(path, form=form, na_values=na_values)


def open_folder(
    folder: Path, form: CsvFormat | None = None, na_values: NaValues = NO_NA_VALUES
) -> OpenedTable:
    """Open all files of a folder and its sub-folders, in the order of their names.

    A sub-folder named ``year=2024`` gives its files the column ``year``: whole numbers if all its
    values are, else text. Names that begin with a dot or an underscore are passed over, as writers
    keep their notes there.

    Raises
    ------
    InvalidInput
        No files, files of several kinds, or files that differ in columns or in their types.
    """
    detected = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(
            name.startswith((".", "_")) and "=" not in name
            for name in path.relative_to(folder).parts
        )
    )
    files = [path for path in detected if format_from_suffix(path) is not None]
    if files and len(files) < len(detected):
        warn(
            f"{folder}: files with other endings are skipped: "
            f"{format_list([path.name for path in detected if path not in files])}. "
            "Rename them if they hold rows."
        )
    kinds = sorted({str(format_from_suffix(path)) for path in files})
    if len(kinds) != 1:
        raise InvalidInput(
            f"The folder {folder} holds "
            + (f"files of several kinds: {', '.join(kinds)}" if kinds else "no file of rows"),
            "Allowed: Parquet files, or CSV files, or Arrow files, at least one",
            "Check the path, or sort the files into folders; moments of parts are merged with "
            "fairspan merge",
        )
    tables = [
        open_file(file, kinds[0], constants, form, na_values)
        for file, constants in zip(files, _parse_partition_values(folder, files), strict=True)
    ]
    (first, _), *others = tables
    for file, (schema, _) in zip(files[1:], others, strict=True):
        _check_same_schema(files[0], first, file, schema)
    return first, tuple(part for _, parts in tables for part in parts)


def _parse_partition_values(folder: Path, files: Sequence[Path]) -> list[PartitionValues]:
    """Columns and values of each file's sub-folders, numbers where a column has only numbers."""
    texts: list[dict[str, str | None]] = []
    for file in files:
        pairs = [name.split("=", 1) for name in file.relative_to(folder).parts[:-1] if "=" in name]
        texts.append(
            {unquote(key): None if text == _HIVE_NULL else unquote(text) for key, text in pairs}
        )
        if set(texts[-1]) != set(texts[0]):
            raise InvalidInput(
                f"{file} lies under {format_list(sorted(texts[-1]))}, but {files[0]} under "
                f"{format_list(sorted(texts[0]))}",
                "Allowed: files under sub-folders of the same columns, as in year=2024",
                "Move the files that do not belong here",
            )
    numbers = {
        name
        for name in texts[0]
        if all(each[name] is None or _INTEGER.fullmatch(str(each[name])) for each in texts)
    }
    return [
        tuple(
            (name, int(value) if name in numbers and value is not None else value)
            for name, value in each.items()
        )
        for each in texts
    ]


def _check_same_schema(first: Path, first_schema: Any, other: Path, schema: Any) -> None:
    """Make sure that two files have the same columns, and that these hold the same kind."""
    missing = [name for name in first_schema.names if name not in schema.names]
    extra = [name for name in schema.names if name not in first_schema.names]
    if missing or extra:
        differences = [f"it lacks {format_list(missing)}"] if missing else []
        differences += [f"it has {format_list(extra)} besides"] if extra else []
        raise InvalidInput(
            f"{other} has other columns than {first}: {' and '.join(differences)}",
            "Allowed: files of the same columns",
            "Put files of another kind into another folder",
        )
    for name in first_schema.names:
        left, right = first_schema.field(name).type, schema.field(name).type
        if len({_type_family(left), _type_family(right)} - {"nothing"}) > 1:
            raise InvalidInput(
                f"{other} holds {right} in column {name!r}, but {first} holds {left}",
                "Allowed: files whose columns hold the same kind of values",
                "Write one of the files again, with the types of the other",
            )


def _type_family(file_format: Any) -> str:
    types = pa.types
    if types.is_null(file_format):
        return "nothing"
    if (
        types.is_integer(file_format)
        or types.is_floating(file_format)
        or types.is_decimal(file_format)
    ):
        return "numbers"
    if is_text_type(file_format):
        return "text"
    return (
        _type_family(file_format.value_type)
        if types.is_dictionary(file_format)
        else str(file_format)
    )
