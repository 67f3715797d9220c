"""Schema and record batches of CSV files."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, types

from fairspan.errors import InvalidInput, warn
from fairspan.formatting.text import counted
from fairspan.rows.files.csv_errors import (
    check_quotes,
    csv_read_error,
    may_be_unclosed,
    not_a_number,
)
from fairspan.rows.files.csv_format import CsvFormat
from fairspan.rows.files.csv_reader import (
    SNIFFED_BYTES,
    CountedLines,
    csv_stream,
    line_of_row,
    numbers_of_text,
    open_csv_reader,
)
from fairspan.rows.files.na_values import NaValues
from fairspan.rows.files.numbers_as_text import NotANumber, NumberStyle
from fairspan.rows.validation import arrow_to_numpy, warn_if_rounded

# How columns without a name are called here, so that each has another name.
_NAMELESS = "\0"
_DELIMITERS = ",;\t|"
# That a column of whole numbers may hold.
_MAX_INTEGER = 2.0**64
# The line by which spreadsheets say what separates cells.
_SEPARATOR_LINE = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=(.)"?\r?\n', re.IGNORECASE)
# Rows of which a value that is also the name of the column shows that the header is a row.
_ROWS_BESIDE_A_HEADER = 1000
# Numbers that name columns, such as 0.1, 0.2, 0.3, are equally far apart up to rounding.
_DIGITS_OF_A_STEP = 9


def read_csv_schema(
    path: Path, csv_format: CsvFormat, na_values: NaValues
) -> tuple[Any, CsvFormat]:
    """Schema of a CSV file, as its first rows suggest, and the format with its delimiter.

    Raises
    ------
    InvalidInput
        An empty file, or one that cannot be read in this format.
    """
    try:
        with csv_stream(path, csv_format) as stream:
            start = stream.read(SNIFFED_BYTES)
        if not start.strip():
            raise InvalidInput(
                f"{path} is empty",
                "Allowed: a header line and at least one row",
                "Check the file",
            )
        if separator := _SEPARATOR_LINE.match(start):
            named = csv_format.delimiter or separator[1].decode()
            csv_format = replace(csv_format, delimiter=named, n_skipped=1)
            start = start[separator.end() :]
        csv_format = replace(
            csv_format, delimiter=csv_format.delimiter or _detect_delimiter(path, start)
        )
        with open_csv_reader(path, csv_format, na_values=na_values) as reader:
            schema = reader.schema
        if any("\n" in name for name in schema.names):
            check_quotes(path, csv_format)
        csv_format = _with_names(path, csv_format, schema.names)
        columns = [name for name in csv_format.names if not name.startswith(_NAMELESS)]
        needs_rows = csv_format.header and _may_be_data(schema, csv_format.style)
        if csv_format.names or needs_rows or _reads_text(csv_format, na_values):
            with open_csv_reader(path, csv_format, columns, na_values=na_values) as reader:
                schema, batch = reader.schema, next(iter(reader), None)
            if batch is not None and needs_rows:
                csv_format = replace(
                    csv_format, header_is_data=_header_is_data(batch, csv_format.style)
                )
            if batch is not None and _reads_text(csv_format, na_values):
                schema = _with_numbers(schema, batch, csv_format, na_values)
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise csv_read_error(path, csv_format, error) from error
    return schema, csv_format


def _with_names(path: Path, csv_format: CsvFormat, names: Sequence[str]) -> CsvFormat:
    """Return the format with names of the columns, where those in the header cannot be used.

    Columns at the end that have neither a name nor a cell are left out, with a warning.

    Raises
    ------
    InvalidInput
        A cell in a column without a name.
    """
    if not csv_format.header:
        return replace(csv_format, names=tuple(f"column_{i}" for i in range(1, len(names) + 1)))
    n_named = len(names)
    # The first column may be an index, which has no name.
    while n_named > 1 and not names[n_named - 1].strip():
        n_named -= 1
    if n_named == len(names):
        return csv_format
    nameless = [f"{_NAMELESS}{i}" for i in range(n_named + 1, len(names) + 1)]
    csv_format = replace(csv_format, names=(*names[:n_named], *nameless))
    _check_empty(path, csv_format, nameless)
    have, are = ("has", "is") if len(nameless) == 1 else ("have", "are")
    warn(
        f"{path}: {counted(len(nameless), 'column')} at the end {have} neither a name nor a cell, "
        f"and {are} left out."
    )
    return csv_format


def _check_empty(path: Path, csv_format: CsvFormat, columns: Sequence[str]) -> None:
    """Make sure that no cell of some columns holds anything.

    Raises
    ------
    InvalidInput
    """
    n_rows = 0
    with open_csv_reader(path, csv_format, columns, dict.fromkeys(columns, pa.string())) as reader:
        for batch in reader:
            for place, name in enumerate(columns):
                is_blank = compute.equal(compute.utf8_trim_whitespace(batch.column(place)), "")
                index = compute.index(compute.fill_null(is_blank, True), False).as_py()
                if index >= 0:
                    line = line_of_row(path, csv_format, n_rows + index)
                    raise InvalidInput(
                        f"{path} has a cell in line {line} of column {name.removeprefix(_NAMELESS)}"
                        ", which has no name in the header",
                        "Allowed: a name for each column that holds anything",
                        "Name the column in the header, or delete it",
                    )
            n_rows += batch.num_rows


def _may_be_data(schema: Any, style: NumberStyle) -> bool:
    """Whether every column of numbers is named by a number, as where the header is a row."""
    return all(style.is_number(name) for name in _names_of_numbers(schema))


def _names_of_numbers(schema: Any) -> list[str]:
    """Return the names of the columns of numbers; an index has none."""
    return [
        field.name
        for field in schema
        if field.name and (types.is_integer(field.type) or types.is_floating(field.type))
    ]


def _header_is_data(batch: Any, style: NumberStyle) -> bool:
    """Whether names of columns, which may be numbers, look like the cells below them."""
    n_values = 0
    for place, field in enumerate(batch.schema):
        if types.is_string(field.type) and field.name:
            cells = batch.column(place).slice(0, _ROWS_BESIDE_A_HEADER)
            n_values += field.name in compute.unique(cells).to_pylist()
    numbers = [style.number(name) for name in _names_of_numbers(batch.schema)]
    if n_values:
        return bool(numbers) or n_values > 1
    # Columns may be numbered, or named by years that are equally far apart.
    steps = {round(second - first, _DIGITS_OF_A_STEP) for first, second in pairwise(numbers)}
    is_sequence = steps == {1.0} or (len(steps) == 1 and len(numbers) > 2)
    return len(numbers) > 1 and not is_sequence


def _reads_text(csv_format: CsvFormat, na_values: NaValues) -> bool:
    """Whether numbers are converted here, as Arrow knows no thousands separators and no codes."""
    return csv_format.thousands is not None or bool(na_values)


def _with_numbers(schema: Any, batch: Any, csv_format: CsvFormat, na_values: NaValues) -> Any:
    """Return the schema with columns of text that hold numbers in this format as numbers."""
    for place, field in enumerate(schema):
        if not types.is_string(field.type):
            continue
        try:
            numbers = numbers_of_text(
                batch.column(place), csv_format, na_values.of_column(field.name)
            )
        except NotANumber:
            continue
        kind = pa.null() if numbers.null_count == len(numbers) else pa.float64()
        schema = schema.set(place, field.with_type(kind))
    return schema


def read_csv_batches(
    path: Path,
    csv_format: CsvFormat,
    schema: Any,
    columns: Sequence[str],
    text_columns: Sequence[str],
    na_values: NaValues,
) -> Iterator[Any]:
    """Record batches of some columns of a CSV file.

    Parameters
    ----------
    path : Path
    form : CsvFormat
        With the delimiter.
    schema : pyarrow.Schema
        As the first rows suggest.
    columns, texts : sequences of str
        Those that are read, and which of them stay text.
    na_values : NaValues
        Texts in columns of numbers that stand for missing values.
    """
    # The first block may show only whole numbers, or nothing, where fractions follow. Labels are
    # text, as a CSV has no types: "01" and "1" must not become one group.
    kinds = {name: schema.field(name).type for name in columns if name not in text_columns}
    whole = [name for name, kind in kinds.items() if types.is_integer(kind)]
    numeric = [
        name
        for name, kind in kinds.items()
        if name in whole or types.is_null(kind) or types.is_floating(kind)
    ]
    converted = numeric if _reads_text(csv_format, na_values) else []
    kinds_read = dict.fromkeys(numeric, pa.string() if converted else pa.float64())
    kinds_read |= dict.fromkeys(set(text_columns).intersection(columns), pa.string())
    lines = CountedLines(csv_format.comment)
    n_rows = 0
    try:
        with open_csv_reader(path, csv_format, columns, kinds_read, na_values, lines) as reader:
            for batch in reader:
                if converted:
                    batch = _with_converted(batch, path, csv_format, converted, na_values)
                values = {name: arrow_to_numpy(batch[name]) for name in whole}
                # Later rows may have larger ones than an integer may hold.
                integer_values = {
                    name: numbers
                    for name, numbers in values.items()
                    if np.fmax.reduce(np.abs(numbers), initial=0) <= _MAX_INTEGER
                }
                warn_if_rounded(integer_values)
                n_rows += batch.num_rows
                yield batch
        # Arrow takes all that follows an unclosed quote for one cell, and says nothing.
        n_lines = n_rows + csv_format.header + csv_format.n_skipped
        has_long_cells = lines.n_quotes > 0 and lines.n_line_ends > n_lines
        if lines.n_quotes % 2 or (has_long_cells and may_be_unclosed(path, csv_format)):
            check_quotes(path, csv_format)
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise csv_read_error(path, csv_format, error, columns) from error


def _with_converted(
    batch: Any, path: Path, csv_format: CsvFormat, columns: Collection[str], na_values: NaValues
) -> Any:
    """Return a RecordBatch whose columns of numbers were read as text, with the numbers."""
    arrays = []
    for name, cells in zip(batch.schema.names, batch.columns, strict=True):
        if name not in columns:
            arrays.append(cells)
            continue
        try:
            arrays.append(numbers_of_text(cells, csv_format, na_values.of_column(name)))
        except NotANumber as error:
            raise not_a_number(path, csv_format, name, na_values) from error
    return pa.record_batch(arrays, names=batch.schema.names)


def _detect_delimiter(path: Path, start: bytes) -> str:
    """What the header shows most often outside quotes; a comma if it is a single column."""
    header = start.strip(b"\r\n").splitlines()[0].decode("utf-8-sig")
    if "\t" in header and re.search(r"\.tsv(\.|$)", path.name.lower()):
        return "\t"
    return max(_DELIMITERS, key=re.sub(r'"[^"]*"', "", header).count)
