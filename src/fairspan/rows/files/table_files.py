"""Tables in files and folders: format detection, schema, and parts.

The format is detected from the file name or the first and last bytes. Parts are picklable.
"""

import json
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote
from zipfile import BadZipFile

import pyarrow as pa

from fairspan.errors import Cause, InvalidInput, warn
from fairspan.formatting.messages import quoted_label, shown_reason
from fairspan.rows.column_selection import is_text_type
from fairspan.rows.files.batch_request import BatchRequest
from fairspan.rows.files.compression import COMPRESSED_SUFFIXES
from fairspan.rows.files.csv_files import CsvTable, read_csv_batches, read_csv_schema
from fairspan.rows.files.csv_format import CsvFormat
from fairspan.rows.files.csv_reader import line_of_row
from fairspan.rows.files.na_values import NO_NA_VALUES, NaValues
from fairspan.rows.labels import format_list

PartitionValues = tuple[tuple[str, str | int | None], ...]

_CSV_SUFFIXES = (".csv", ".tsv", ".txt")
_SUFFIXES = {
    "csv": (
        *(end + packed for end in _CSV_SUFFIXES for packed in ("", *COMPRESSED_SUFFIXES)),
        ".zip",
    ),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "excel": (".xlsx", ".xlsm"),
}
_FORMAT_NAMES = {
    "parquet": "a Parquet file",
    "arrow": "an Arrow file",
    "excel": "an Excel file",
}
# Errors of damaged files, besides those of Arrow.
_READ_ERRORS = (json.JSONDecodeError, UnicodeDecodeError, OSError, BadZipFile, zlib.error)
_MAGIC = {b"PAR1": "parquet", b"ARRO": "arrow"}


@dataclass(frozen=True)
class FilePart:
    """Unit of reading: a row group of a Parquet file, or a whole file of another format.

    Attributes
    ----------
    path : Path
    n_rows : int or None
        Number of rows, if known before reading.
    row_group : int or None
        Index of the row group in a Parquet file.
    csv_format : CsvFormat or None
        Format of a CSV file.
    partition_values : tuple of (column, value)
        Constant columns implied by the folder names.
    na_values : NaValues
        Codes for missing values.
    workbook_format : CsvFormat or None
        Skipped rows and header of an Excel workbook, whose cells have types, unlike those of CSV.
    """

    path: Path
    n_rows: int | None = None
    row_group: int | None = None
    csv_format: CsvFormat | None = None
    partition_values: PartitionValues = ()
    na_values: NaValues = NO_NA_VALUES
    workbook_format: CsvFormat | None = None

    @property
    def location(self) -> str:
        """Location for messages."""
        row_group = "" if self.row_group is None else f", row group {self.row_group}"
        return f"{self.path}{row_group}"

    def line_name(self, index: int) -> str | None:
        """Return the name of a row of a CSV file for messages, its line; None for other files."""
        if self.csv_format is None:
            return None
        line = line_of_row(self.path, self.csv_format, index)
        return None if line is None else f"line {line}"

    def batches(
        self, schema: pa.Schema, request: BatchRequest, size: int
    ) -> Iterator[pa.RecordBatch]:
        """Read columns as record batches of about `size` rows.

        Text columns of the request are kept as text in formats without types. Columns implied by
        folder names are constant, and codes for missing values become null.
        """
        constants = dict(self.partition_values)
        columns = request.columns
        stored_columns = [name for name in columns if name not in constants]
        stored = BatchRequest.from_columns(stored_columns, request.text_columns)
        with explain_read_errors(self.path):
            for batch in self._read_stored(schema, stored, size):
                arrays = []
                for name in columns:
                    if name in constants:
                        arrays.append(pa.repeat(pa.scalar(constants[name]), batch.num_rows))
                    else:
                        arrays.append(batch.column(name))
                yield self.na_values.mask(pa.record_batch(arrays, names=list(columns)))

    def _read_stored(
        self, schema: pa.Schema, request: BatchRequest, size: int
    ) -> Iterator[pa.RecordBatch]:
        """Read columns stored in the file as record batches.

        `size` is the number of rows of a batch for Parquet; those of other formats have the sizes
        of the reader or of the file.
        """
        columns = list(request.columns)
        if self.csv_format is not None:
            table = CsvTable(self.path, self.csv_format, schema, self.na_values)
            yield from read_csv_batches(table, request)
        elif self.workbook_format is not None:
            from fairspan.rows.files.excel_files import read_excel_batches

            yield from read_excel_batches(
                self.path, self.workbook_format, schema, columns, self.na_values
            )
        elif self.row_group is not None:  # a Parquet file
            from pyarrow import parquet

            # pre_buffer would keep row groups in memory until the file is read. One thread
            # suffices, since batches are prefetched.
            with parquet.ParquetFile(self.path, pre_buffer=False) as file:
                groups = [self.row_group]
                yield from file.iter_batches(size, groups, columns=columns, use_threads=False)
        else:  # an Arrow file
            with pa.memory_map(str(self.path)) as file, pa.ipc.open_file(file) as reader:
                for index in range(reader.num_record_batches):
                    batch = reader.get_batch(index).select(columns)
                    # Arrow trusts its input: a damaged file could crash the process.
                    batch.validate(full=True)
                    yield batch


class OpenedTable(NamedTuple):
    """Schema (inferred for CSV) and parts of a table."""

    schema: pa.Schema
    parts: tuple[FilePart, ...]


@contextmanager
def explain_read_errors(path: Path) -> Iterator[None]:
    """Raise pyarrow errors as InvalidInput with the file name."""
    try:
        yield
    except (*_READ_ERRORS, pa.ArrowException) as error:
        raise InvalidInput(
            f"{path} cannot be read ({shown_reason(error)})",
            "Allowed: complete CSV, Parquet, Arrow and Excel files with rows of equal length",
            "Check the file; recreate it if it is damaged",
        ) from error


def open_file(
    path: Path,
    file_format: str | None = None,
    partition_values: PartitionValues = (),
    csv_format: CsvFormat | None = None,
    na_values: NaValues = NO_NA_VALUES,
) -> OpenedTable:
    """Open one file.

    Parameters
    ----------
    path : Path
    file_format : {"csv", "parquet", "arrow"}, optional
        Detected by default.
    partition_values : tuple of (column, value)
        Columns implied by folder names; columns in the file take precedence.
    csv_format : CsvFormat, optional
        Format of a CSV file.
    na_values : NaValues, optional
        Codes for missing values.

    Raises
    ------
    InvalidInput
        Unreadable file, unknown format, or duplicate column names.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"The file name {str(path)!a} is not valid UTF-8",
            "Allowed: UTF-8 file names, as Arrow requires",
            "Rename the file or its folder",
        ) from error
    with explain_read_errors(path):
        if file_format is None:
            file_format = _detect_format(path)
        if csv_format is not None:
            _check_format_options(path, file_format, csv_format)
        schema, parts = _open_format(path, file_format, csv_format, na_values)
        # Columns implied by folder names are not stored in the file, so add them to its schema.
        constants = tuple((name, v) for name, v in partition_values if name not in schema.names)
        for name, value in constants:
            schema = schema.append(pa.field(name, pa.scalar(value).type))
        pandas_index_columns(schema)  # raises for a damaged schema
    _check_unique_columns(path, schema.names, parts[0].csv_format if parts else None)
    return OpenedTable(
        schema,
        tuple(replace(part, partition_values=constants, na_values=na_values) for part in parts),
    )


def _open_format(
    path: Path, file_format: str, csv_format: CsvFormat | None, na_values: NaValues
) -> OpenedTable:
    """Open a file of a known format, with the columns that are stored in it."""
    if file_format == "csv":
        schema, detected_format = read_csv_schema(path, csv_format or CsvFormat(), na_values)
        return OpenedTable(schema, (FilePart(path, csv_format=detected_format),))
    if file_format == "parquet":
        return _open_parquet(path)
    if file_format == "excel":
        from fairspan.rows.files.excel_files import read_excel_table

        workbook_format = csv_format or CsvFormat()
        table = read_excel_table(path, workbook_format, na_values)
        part = FilePart(path, len(table), workbook_format=workbook_format)
        return OpenedTable(table.schema, (part,))
    return _open_arrow(path)


def _check_format_options(path: Path, file_format: str, csv_format: CsvFormat) -> None:
    """Check that options for the format apply to a file of this format; raises InvalidInput.

    Workbooks may have rows above the header, or no header, like CSV files.
    """
    if file_format == "csv":
        return
    if file_format == "excel":
        other_options = replace(csv_format, skip_rows=0, header=True)
        if other_options == CsvFormat():
            return
    raise InvalidInput(
        f"{path} is {_FORMAT_NAMES[file_format]}, which has no such format options",
        "Allowed: format options for CSV files; skip_rows and header also for Excel files",
        "Omit them",
    )


def _check_unique_columns(path: Path, columns: Sequence[str], csv_format: CsvFormat | None) -> None:
    """Check that no two columns have the same name, or both none; raises InvalidInput."""
    if len(set(columns)) == len(columns):
        return
    duplicate = min(name for name in columns if columns.count(name) > 1)
    if duplicate:
        problem = f"{path} has several columns named {quoted_label(duplicate)}"
    else:
        unnamed = [str(n) for n, name in enumerate(columns, start=1) if not name]
        problem = f"{path} has no names for the columns {', '.join(unnamed)}"
    remedy = "Rename them"
    cause = None
    # A name that occurs twice may be a cell.
    if csv_format is not None and csv_format.header_is_data:
        remedy = (
            "If the first line is a row, open the file with FileRows.open(path, group_columns, "
            "csv={'header': False}); otherwise rename them"
        )
        cause = Cause.CSV_NAMES_IN_A_ROW
    raise InvalidInput(problem, "Allowed: unique column names", remedy, cause=cause)


def pandas_index_columns(schema: pa.Schema) -> list[str]:
    """Columns that store the index of a pandas frame; never features."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in index if isinstance(name, str)]  # a RangeIndex is not stored


def _open_parquet(path: Path) -> OpenedTable:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        counts = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        parts = tuple(FilePart(path, n, i) for i, n in enumerate(counts))
        return OpenedTable(file.schema_arrow, parts)


def _open_arrow(path: Path) -> OpenedTable:
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        sizes = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
        return OpenedTable(reader.schema, (FilePart(path, sum(sizes)),))


def format_from_suffix(path: Path) -> str | None:
    """Return the format implied by the suffix, if any."""
    name = path.name.lower()
    for file_format, suffixes in _SUFFIXES.items():
        if name.endswith(suffixes):
            return file_format
    return None


def _detect_format(path: Path) -> str:
    """Detect the format from the suffix or the magic bytes.

    The suffix decides if there is a known one.

    Raises
    ------
    InvalidInput
        Neither is known, or a file with the suffix of a CSV file has another format.
    """
    file_format = format_from_suffix(path)
    with path.open("rb") as file:
        magic = file.read(4)
        # Parquet and Arrow files begin and end with the same bytes, "PAR1" and "ARROW1".
        file.seek(max(path.stat().st_size - 6, 0))
        detected = _MAGIC.get(magic) if magic in file.read() else None
    if file_format is None and detected is None:
        raise InvalidInput(
            f"{path} has an unknown format",
            "Allowed: CSV (.csv, .tsv), Parquet (.parquet), Arrow (.arrow, .feather) and Excel "
            "(.xlsx) files, folders of one of these formats, and saved moments",
            "Convert the file, or correct its suffix",
        )
    if file_format == "csv" and detected is not None:
        raise InvalidInput(
            f"{path} has a CSV suffix, but it is {_FORMAT_NAMES[detected]}",
            "Allowed: suffixes that match the format",
            f"Rename it with the suffix {_SUFFIXES[detected][0]}",
        )
    return file_format or str(detected)


# "01" stays text; integers of 19 digits or more may overflow int64.
_INTEGER = re.compile(r"0|(?=.{1,18}$)-?[1-9]\d*", re.ASCII)
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def open_table(
    path: Path, csv_format: CsvFormat | None = None, na_values: NaValues = NO_NA_VALUES
) -> OpenedTable:
    """Open a file or a folder of files.

    Raises
    ------
    InvalidInput
        Missing, empty or damaged file, unknown format, or duplicate column names.
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
        return open_folder(path, csv_format, na_values)
    return open_file(path, csv_format=csv_format, na_values=na_values)


def open_folder(
    folder: Path, csv_format: CsvFormat | None = None, na_values: NaValues = NO_NA_VALUES
) -> OpenedTable:
    """Open all files of a folder and its sub-folders, in the order of their names.

    A sub-folder named ``year=2024`` gives its files the column ``year``: integers if all its values
    are, else text. Names starting with a dot or an underscore are skipped (metadata).

    Raises
    ------
    InvalidInput
        No files, mixed formats, or inconsistent schemas.
    """
    paths = sorted(
        path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path, folder)
    )
    files = [path for path in paths if format_from_suffix(path) is not None]
    if files and len(files) < len(paths):
        skipped = [path.name for path in paths if path not in files]
        warn(
            f"{folder}: files with other suffixes are skipped: {format_list(skipped)}. Rename them "
            "if they contain rows."
        )
    formats = sorted({str(format_from_suffix(path)) for path in files})
    if len(formats) != 1:
        contents = f"files of several formats: {', '.join(formats)}" if formats else "no data files"
        # The files may also be moments that were saved, which are not rows.
        raise InvalidInput(
            f"The folder {folder} contains {contents}",
            "Allowed: Parquet files, or CSV files, or Arrow files, at least one",
            "Check the path, or put files of each format into a separate folder; add saved "
            "moments, which GroupMoments.load returns",
            cause=Cause.MIXED_FOLDER,
        )
    partition_values = _parse_partition_values(folder, files)
    tables = [
        open_file(file, formats[0], constants, csv_format, na_values)
        for file, constants in zip(files, partition_values, strict=True)
    ]
    schema = tables[0].schema
    for file, table in zip(files[1:], tables[1:], strict=True):
        _check_same_schema(files[0], schema, file, table.schema)
    return OpenedTable(schema, tuple(part for table in tables for part in table.parts))


def _is_hidden(path: Path, folder: Path) -> bool:
    """Return whether a file, or a sub-folder above it, has the name of metadata."""
    return any(
        name.startswith((".", "_")) and "=" not in name for name in path.relative_to(folder).parts
    )


def _parse_partition_values(folder: Path, files: Sequence[Path]) -> list[PartitionValues]:
    """Return partition columns and values of each file; integers if all values of a column are.

    A missing value, of a folder with Hive's name for null, is None.
    """
    texts_by_file = [_partition_texts(folder, file) for file in files]
    columns = texts_by_file[0].keys()
    for file, texts in zip(files, texts_by_file, strict=True):
        if texts.keys() != columns:
            raise InvalidInput(
                f"{file} is under {format_list(sorted(texts))}, but {files[0]} is under "
                f"{format_list(sorted(columns))}",
                "Allowed: files under sub-folders of the same columns, as in year=2024",
                "Move the files that do not belong to the table",
            )
    integer_columns = {
        name for name in columns if all(_is_integer_or_null(texts[name]) for texts in texts_by_file)
    }

    def parse(name: str, text: str | None) -> str | int | None:
        if name in integer_columns and text is not None:
            return int(text)
        return text

    return [
        tuple((name, parse(name, text)) for name, text in texts.items()) for texts in texts_by_file
    ]


def _partition_texts(folder: Path, file: Path) -> dict[str, str | None]:
    """Return the partition values of a file as text, by column; None for a missing value."""
    names = file.relative_to(folder).parts[:-1]
    pairs = [name.split("=", 1) for name in names if "=" in name]
    return {unquote(key): None if text == _HIVE_NULL else unquote(text) for key, text in pairs}


def _is_integer_or_null(text: str | None) -> bool:
    return text is None or _INTEGER.fullmatch(text) is not None


def _check_same_schema(
    first: Path, first_schema: pa.Schema, other: Path, schema: pa.Schema
) -> None:
    """Check that two files have the same columns with compatible types; raises InvalidInput."""
    missing = [name for name in first_schema.names if name not in schema.names]
    extra = [name for name in schema.names if name not in first_schema.names]
    differences = []
    if missing:
        differences.append(f"it lacks {format_list(missing)}")
    if extra:
        differences.append(f"it also has {format_list(extra)}")
    if differences:
        raise InvalidInput(
            f"{other} has other columns than {first}: {' and '.join(differences)}",
            "Allowed: files with the same columns",
            "Put files with other columns into another folder",
        )
    for name in first_schema.names:
        first_type = first_schema.field(name).type
        other_type = schema.field(name).type
        # The type null, of a column without values, is compatible with any other.
        if len({_type_kind(first_type), _type_kind(other_type)} - {"null"}) > 1:
            raise InvalidInput(
                f"Column {name!r} is {other_type} in {other}, but {first_type} in {first}",
                "Allowed: files with compatible column types",
                "Rewrite one of the files with the types of the other",
            )


def _type_kind(dtype: pa.DataType) -> str:
    """Return a name that pyarrow types share if columns of these types may be read as one."""
    types = pa.types
    if types.is_null(dtype):
        return "null"
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return "number"
    if is_text_type(dtype):
        return "text"
    if types.is_dictionary(dtype):
        return _type_kind(dtype.value_type)
    return str(dtype)
