"""Schema and record batches of CSV files."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute, types

from fairspan.errors import InvalidInput, warn
from fairspan.formatting.messages import counted
from fairspan.rows.column_selection import is_numeric_type
from fairspan.rows.conversion import arrow_to_numpy
from fairspan.rows.files.batch_request import BatchRequest
from fairspan.rows.files.csv_errors import (
    check_quotes,
    csv_read_error,
    may_have_unclosed_quotes,
    not_a_number_error,
)
from fairspan.rows.files.csv_format import CsvFormat
from fairspan.rows.files.csv_reader import (
    SNIFF_BYTES,
    LineCounter,
    line_of_row,
    open_csv_reader,
    open_utf8_stream,
    parse_numbers,
)
from fairspan.rows.files.na_values import NaValues, replace_by_null
from fairspan.rows.files.numbers_as_text import NotANumber, NumberStyle
from fairspan.rows.row_validation import warn_if_rounded

# Prefix of the internal names of unnamed columns, so that all names differ.
_UNNAMED = "\0"
_DELIMITERS = ",;\t|"
# Largest value of an integer column.
_MAX_INTEGER = 2.0**64
# Line in which spreadsheets declare the delimiter.
_SEPARATOR_LINE = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=(.)"?\r?\n', re.IGNORECASE)
# Number of rows that are compared with the header: a name that is also a value below it suggests
# that the header is a row.
_MAX_COMPARED_ROWS = 1000
# Decimal digits to which steps between column names such as 0.1, 0.2, 0.3 are rounded, so that
# equally spaced numbers have equal steps.
_STEP_DIGITS = 9


def read_csv_schema(
    path: Path, csv_format: CsvFormat, na_values: NaValues
) -> tuple[pa.Schema, CsvFormat]:
    """Return the schema inferred from the first rows, and the format with what was detected.

    Detected are the delimiter, a first line that declares it, names in place of a header that
    cannot be used, and whether the header looks like a row.

    Raises
    ------
    InvalidInput
        An empty file, or one that cannot be read in this format.
    """
    try:
        with open_utf8_stream(path, csv_format) as stream:
            start = stream.read(SNIFF_BYTES)
        if not start.strip():
            raise InvalidInput(
                f"{path} is empty",
                "Allowed: a header line and at least one row",
                "Check the file",
            )
        csv_format = _with_delimiter(path, csv_format, start)
        return _infer_schema(path, csv_format, na_values)
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise csv_read_error(path, csv_format, error) from error


def _infer_schema(
    path: Path, csv_format: CsvFormat, na_values: NaValues
) -> tuple[pa.Schema, CsvFormat]:
    """Return the schema and format of a file whose delimiter is known, from its first rows."""
    first_rows = None  # if they are needed
    # Whether numbers may have a form that Arrow reads as text: the first rows show in which columns
    # they do.
    reads_text = _reads_text(csv_format, na_values)
    with open_csv_reader(path, csv_format, na_values=na_values, only_beginning=True) as reader:
        schema = reader.schema
        # A line break in a name suggests a quote that is not closed.
        if any("\n" in name for name in schema.names):
            check_quotes(path, csv_format)
        csv_format = _with_names(path, csv_format, schema.names)
        # If the header may be a row, it is compared with the first rows.
        may_be_data = csv_format.header and _may_be_data(schema, csv_format.style)
        if not csv_format.names and (may_be_data or reads_text):
            first_rows = next(iter(reader), None)
    if csv_format.names:
        # Open the file again, with these names and without unnamed columns.
        columns = [name for name in csv_format.names if not name.startswith(_UNNAMED)]
        with open_csv_reader(
            path, csv_format, columns, na_values=na_values, only_beginning=True
        ) as reader:
            schema = reader.schema
            first_rows = next(iter(reader), None)
    if first_rows is not None and may_be_data:
        header_is_data = _header_is_data(first_rows, csv_format.style)
        csv_format = replace(csv_format, header_is_data=header_is_data)
    if first_rows is not None and reads_text:
        schema = _with_numbers(schema, first_rows, csv_format, na_values)
    return schema, csv_format


def _with_delimiter(path: Path, csv_format: CsvFormat, start: bytes) -> CsvFormat:
    """Return the format with a delimiter, declared or detected in the first bytes of the file."""
    separator = _SEPARATOR_LINE.match(start)
    if separator is not None:
        csv_format = replace(csv_format, n_skipped=1)
    if csv_format.delimiter is not None:
        return csv_format
    if separator is not None:
        return replace(csv_format, delimiter=separator[1].decode())
    return replace(csv_format, delimiter=_detect_delimiter(path, start))


def _with_names(path: Path, csv_format: CsvFormat, names: Sequence[str]) -> CsvFormat:
    """Return the format with column names if those in the header cannot be used.

    Columns of a file without a header are named column_1, column_2 and so on. Trailing columns
    without a name or any cell get internal names, which begin with `_UNNAMED`, and are ignored,
    with a warning. `names` are those that Arrow read.

    Raises
    ------
    InvalidInput
        A cell in an unnamed column.
    """
    if not csv_format.header:
        return replace(csv_format, names=tuple(f"column_{i}" for i in range(1, len(names) + 1)))
    n_named = len(names)
    # The first column may be an index, which has no name.
    while n_named > 1 and not names[n_named - 1].strip():
        n_named -= 1
    if n_named == len(names):
        return csv_format
    unnamed = [f"{_UNNAMED}{i}" for i in range(n_named + 1, len(names) + 1)]
    csv_format = replace(csv_format, names=(*names[:n_named], *unnamed))
    _check_empty(path, csv_format, unnamed)
    columns = counted(len(unnamed), "trailing column")
    warn(f"{path}: ignoring {columns} without a name or any cell.")
    return csv_format


def _check_empty(path: Path, csv_format: CsvFormat, columns: Sequence[str]) -> None:
    """Check that unnamed columns are empty.

    Raises
    ------
    InvalidInput
    """
    n_rows = 0
    with open_csv_reader(path, csv_format, columns, dict.fromkeys(columns, pa.string())) as reader:
        for batch in reader:
            for position, name in enumerate(columns):
                is_blank = compute.equal(compute.utf8_trim_whitespace(batch.column(position)), "")
                index = compute.index(compute.fill_null(is_blank, True), False).as_py()
                if index >= 0:
                    line = line_of_row(path, csv_format, n_rows + index)
                    number = name.removeprefix(_UNNAMED)
                    raise InvalidInput(
                        f"{path} has a cell in line {line} of column {number}, which has no name "
                        "in the header",
                        "Allowed: a name for each column that is not empty",
                        "Name the column in the header, or delete it",
                    )
            n_rows += batch.num_rows


def _may_be_data(schema: pa.Schema, style: NumberStyle) -> bool:
    """Return whether all numeric columns have numeric names, as if the header were a row."""
    return all(style.is_number(name) for name in _numeric_names(schema))


def _numeric_names(schema: pa.Schema) -> list[str]:
    """Return the names of the numeric columns, without an unnamed index."""
    return [
        field.name
        for field in schema
        if field.name and (types.is_integer(field.type) or types.is_floating(field.type))
    ]


def _header_is_data(batch: pa.RecordBatch, style: NumberStyle) -> bool:
    """Return whether column names look like the cells below them.

    Names of text columns do if they occur below: at least two, or one next to a numeric column,
    whose name is then a number (the caller has checked this). Otherwise names of numeric columns do
    if they are several numbers without equal steps.
    """
    n_names_below = 0  # names of text columns that are also cells of the column
    for position, field in enumerate(batch.schema):
        if types.is_string(field.type) and field.name:
            cells = batch.column(position).slice(0, _MAX_COMPARED_ROWS)
            n_names_below += field.name in compute.unique(cells).to_pylist()
    numbers = [style.to_number(name) for name in _numeric_names(batch.schema)]
    if n_names_below:
        # A single name may also be a value by chance.
        return bool(numbers) or n_names_below > 1
    # Columns may be numbered, or named by equally spaced years.
    steps = {round(second - first, _STEP_DIGITS) for first, second in pairwise(numbers)}
    is_sequence = steps == {1.0} or (len(steps) == 1 and len(numbers) > 2)
    return len(numbers) > 1 and not is_sequence


def _reads_text(csv_format: CsvFormat, na_values: NaValues) -> bool:
    """Return whether columns that Arrow reads as text may be numbers.

    Arrow does not read thousands separators, nor all codes of missing values.
    """
    return csv_format.thousands is not None or bool(na_values)


def _with_numbers(
    schema: pa.Schema, batch: pa.RecordBatch, csv_format: CsvFormat, na_values: NaValues
) -> pa.Schema:
    """Return the schema in which text columns that contain numbers in this format are numeric.

    Their cells in `batch`, the first rows, are all numbers in this format or missing. A column has
    the type null if all of them are missing.
    """
    for position, field in enumerate(schema):
        if not types.is_string(field.type):
            continue
        codes = na_values.for_column(field.name)
        try:
            numbers = parse_numbers(batch.column(position), csv_format, codes)
        except NotANumber:
            continue
        dtype = pa.null() if numbers.null_count == len(numbers) else pa.float64()
        schema = schema.set(position, field.with_type(dtype))
    return schema


class CsvTable(NamedTuple):
    """An opened CSV file.

    Attributes
    ----------
    path : Path
    csv_format : CsvFormat
        Format with its delimiter.
    schema : pyarrow.Schema
        Inferred schema.
    na_values : NaValues
        Codes for missing values.
    """

    path: Path
    csv_format: CsvFormat
    schema: pa.Schema
    na_values: NaValues


def read_csv_batches(table: CsvTable, request: BatchRequest) -> Iterator[pa.RecordBatch]:
    """Read columns of a CSV file as record batches.

    Raises
    ------
    InvalidInput
        The file cannot be read in this format, or a numeric column contains text.
    """
    n_rows = 0  # rows that Arrow reads before it fails; the second reader skips them
    try:
        # Arrow parses numbers fast, but not with thousands separators.
        if table.csv_format.thousands is None:
            try:
                for batch in _iterate_batches(table, request, parses_text=False):
                    n_rows += batch.num_rows
                    yield batch
                return
            except pa.ArrowInvalid:
                # If there are codes, the cell may be one that Arrow does not recognize, such as a
                # code between spaces: read the rest as text. Otherwise it is not a number.
                if not table.na_values:
                    raise
        yield from _iterate_batches(table, request, n_rows, parses_text=True)
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise csv_read_error(table.path, table.csv_format, error, request.columns) from error


def _iterate_batches(
    table: CsvTable, request: BatchRequest, first_row: int = 0, *, parses_text: bool
) -> Iterator[pa.RecordBatch]:
    """Read columns from the row with index `first_row` on, see :func:`read_csv_batches`.

    `parses_text` reads numbers as text and parses them, which takes three times as long, but
    supports all number formats. Unclosed quotes are detected at the end, by counts of the lines.
    """
    path, csv_format, schema, na_values = table
    # Labels are read as text, so that "01" and "1" stay different groups.
    dtypes = {
        name: schema.field(name).type
        for name in request.columns
        if name not in request.text_columns
    }
    integer_columns = [name for name, dtype in dtypes.items() if types.is_integer(dtype)]
    numeric_columns = [name for name, dtype in dtypes.items() if is_numeric_type(dtype)]
    # Integers (or nulls) in the first block may be followed by fractions: read them as float64, and
    # warn below if this rounds integers.
    read_dtypes = dict.fromkeys(numeric_columns, pa.string() if parses_text else pa.float64())
    read_dtypes |= dict.fromkeys(request.text_columns, pa.string())
    lines = LineCounter(csv_format.comment)
    n_rows = 0
    with open_csv_reader(
        path, csv_format, request.columns, read_dtypes, na_values, lines
    ) as reader:
        for batch in reader:
            n_before = n_rows
            n_rows += batch.num_rows
            if first_row and n_rows <= first_row:
                continue
            batch = batch.slice(max(first_row - n_before, 0))
            if parses_text:
                batch = _parse_columns(batch, numeric_columns, table)
            _warn_if_integers_rounded(batch, integer_columns, na_values)
            yield batch
    _check_counted_quotes(path, csv_format, lines, n_rows)


def _check_counted_quotes(
    path: Path, csv_format: CsvFormat, lines: LineCounter, n_rows: int
) -> None:
    """Check the quotes of a file that was read to the end, if counts suggest an unclosed one.

    Arrow silently reads everything after an unclosed quote as one cell. Signs of it are an odd
    number of quotes, or more line ends than rows, so that some cell has several lines.

    Raises
    ------
    InvalidInput
        A quote is not closed.
    """
    n_lines = n_rows + csv_format.header + csv_format.n_skipped
    has_long_cells = lines.n_quotes > 0 and lines.n_line_ends > n_lines
    if lines.n_quotes % 2 or (has_long_cells and may_have_unclosed_quotes(path, csv_format)):
        check_quotes(path, csv_format)


def _warn_if_integers_rounded(
    batch: pa.RecordBatch, integer_columns: Collection[str], na_values: NaValues
) -> None:
    """Warn about columns whose integers were rounded to float64, since they may be identifiers.

    Columns with a value beyond the range of 64-bit integers are floats, without a warning.
    """
    codes_by_column = dict(na_values.by_column)
    integer_values = {}
    for name in integer_columns:
        # Arrow has replaced codes of all columns by null, but not those of a single column.
        values = arrow_to_numpy(replace_by_null(batch[name], codes_by_column.get(name, ())))
        if np.fmax.reduce(np.abs(values), initial=0) <= _MAX_INTEGER:
            integer_values[name] = values
    warn_if_rounded(integer_values)


def _parse_columns(
    batch: pa.RecordBatch, columns: Collection[str], table: CsvTable
) -> pa.RecordBatch:
    """Parse the numbers in `columns` of a batch, which were read as text; others are unchanged.

    Raises
    ------
    InvalidInput
        A cell is not a number.
    """
    path, csv_format, _, na_values = table
    arrays = []
    for name, cells in zip(batch.schema.names, batch.columns, strict=True):
        if name not in columns:
            arrays.append(cells)
            continue
        try:
            arrays.append(parse_numbers(cells, csv_format, na_values.for_column(name)))
        except NotANumber as error:
            raise not_a_number_error(path, csv_format, name, na_values) from error
    return pa.record_batch(arrays, names=batch.schema.names)


def _detect_delimiter(path: Path, start: bytes) -> str:
    """Return the most frequent delimiter in the header outside quotes; a comma for one column."""
    header = start.strip(b"\r\n").splitlines()[0].decode("utf-8-sig")
    if "\t" in header and re.search(r"\.tsv(\.|$)", path.name.lower()):
        return "\t"
    return max(_DELIMITERS, key=re.sub(r'"[^"]*"', "", header).count)
