"""Files of CSV: how they are written, what is in them, and where one cannot be read."""

import codecs
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv, types

from fairspan.errors import Cause, InvalidInput, InvalidParameter, warn
from fairspan.formatting.text import quoted_cell, shown_reason
from fairspan.rows.checks import numbers_of, warn_of_rounding
from fairspan.rows.files.csv_lines import RowLines, rows_of_lines
from fairspan.rows.files.na_values import NO_NA_VALUES, NaValues
from fairspan.rows.files.number_advice import columns_of_numbers, number_advice
from fairspan.rows.files.numbers_as_text import (
    MISSING_TEXTS,
    THOUSANDS,
    NotANumber,
    NumberStyle,
)

# How columns without a name are called here, so that each has another name.
_NAMELESS = "\0"
_DELIMITERS = ",;\t|"
# That a column of whole numbers may hold.
_LARGEST_INTEGER = 2.0**64
_SNIFFED = 1 << 16
# What pyarrow says of a cell that is no number, or no text, and of rows of another length.
_OF_A_COLUMN = re.compile(r"In CSV column #(\d+)")
_OF_A_ROW = "columns, got"
_QUOTE, _LINE_END = b'"\n'
# Of a file that is searched for quotes.
_BYTES_AT_ONCE = 1 << 20
# Rows that are looked at to tell a wrong header from wrong rows, and fewer of which tell nothing.
_ROWS_OF_A_HEADER, _FEWEST_ROWS_OF_A_HEADER = 1000, 2
_ALLOWED = "Allowed: complete CSV files of equally long rows"
_CORRECT_CELL = "Correct the cell, or leave the column out"
# Options that say how a file is written, on the command line and in Python.
_OPTIONS = "--delimiter, --decimal, --encoding, --comment"
_SETTINGS_OF_OPEN = "FileRows.open(..., csv={...})"
# What callers choose; the rest is found in the file.
_SETTINGS = ("delimiter", "decimal", "thousands", "encoding", "comment", "header")
# The line by which spreadsheets say what separates cells.
_SEPARATOR_LINE = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=(.)"?\r?\n', re.IGNORECASE)
# Rows of which a value that is also the name of the column shows that the header is a row.
_ROWS_BESIDE_A_HEADER = 1000
# Numbers that name columns, such as 0.1, 0.2, 0.3, are equally far apart up to rounding.
_DIGITS_OF_A_STEP = 9


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file is written.

    Parameters
    ----------
    delimiter : str, optional
        The letter between cells; without it, the one that the header shows.
    decimal : {".", ","}
        The letter before the fraction of a number.
    encoding : str
        The name of the encoding, as Python knows it.
    comment : str, optional
        What lines begin with that are passed over.
    thousands : {",", ".", "'", " "}, optional
        The separator between groups of three digits. A space includes no-break and thin
        spaces, and an apostrophe the curly one.
    header : bool
        Whether the first row holds the names of the columns. Without names, the columns are named
        column_1, column_2 and so on.
    n_skipped : int
        Lines at the start that are neither header nor rows. Found when a file is opened.
    names : tuple of str
        Names of all columns in place of those in the header; none to read these. Found when a file
        is opened.
    header_is_data : bool
        Whether the header looks like a row. Found when a file is opened.

    Raises
    ------
    InvalidParameter

    Examples
    --------
    >>> CsvFormat(decimal=",", encoding="latin-1").delimiter is None
    True
    """

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    comment: str | None = None
    thousands: str | None = None
    header: bool = True
    n_skipped: int = 0
    names: tuple[str, ...] = ()
    header_is_data: bool = False

    def __post_init__(self) -> None:
        if self.delimiter is not None and not (
            self.delimiter.isascii() and len(self.delimiter) == 1
        ):
            raise InvalidParameter(
                f"delimiter is {self.delimiter!r}", "Allowed: one ASCII letter", "Name one"
            )
        if self.decimal not in (".", ",") or self.decimal == self.delimiter:
            raise InvalidParameter(
                f"decimal is {self.decimal!r} and delimiter {self.delimiter!r}",
                "Allowed: '.' or ',', other than the delimiter",
                "Leave 'decimal' out, or name the 'delimiter', such as ';'",
                cause=Cause.CSV_STYLE,
                command="Leave out --decimal, or name the delimiter, such as --delimiter ';'",
            )
        if self.thousands is not None and (
            self.thousands not in THOUSANDS or self.thousands == self.decimal
        ):
            raise InvalidParameter(
                f"thousands is {self.thousands!r} and decimal {self.decimal!r}",
                f"Allowed: {', '.join(map(repr, THOUSANDS))}, other than the decimal mark",
                "Pass csv={'thousands': '.', 'decimal': ','}, as a point is the usual decimal mark"
                if self.thousands == "."
                else "Choose one of these",
                cause=Cause.CSV_STYLE,
                command="Add --decimal , to the command, as a point is the usual decimal mark"
                if self.thousands == "."
                else "Choose one of these",
            )
        try:
            codecs.lookup(self.encoding)
        except LookupError as error:
            raise InvalidParameter(
                f"encoding is {self.encoding!r}",
                "Allowed: the encodings that Python knows, such as 'latin-1' or 'utf-16'",
                "Correct the name",
            ) from error
        if self.comment == "":
            raise InvalidParameter("comment is ''", "Allowed: a text", "Use '#', for example")

    @property
    def style(self) -> NumberStyle:
        """How numbers are written."""
        return NumberStyle(self.thousands, self.decimal)


def format_of(said: Mapping[str, Any]) -> CsvFormat:
    """The format of these choices, by their names.

    Raises
    ------
    InvalidParameter
    """
    unknown = [name for name in said if name not in _SETTINGS]
    if unknown:
        raise InvalidParameter(
            f"csv has the entry {unknown[0]!r}",
            f"Allowed: {', '.join(map(repr, _SETTINGS))}",
            "Choose one of these",
        )
    if not isinstance(said.get("header", True), bool):
        raise InvalidParameter(
            f"csv has the header {said['header']!r}",
            "Allowed: True or False",
            "Say whether the first row holds the names of the columns",
        )
    return CsvFormat(**said)


def open_csv(path: Path, form: CsvFormat, na_values: NaValues) -> tuple[Any, CsvFormat]:
    """Schema of a CSV file, as its first rows suggest, and the format with its delimiter.

    Raises
    ------
    InvalidInput
        An empty file, or one that cannot be read in this format.
    """
    try:
        with _stream(path, form) as stream:
            start = stream.read(_SNIFFED)
        if not start.strip():
            raise InvalidInput(
                f"{path} is empty",
                "Allowed: a header line and at least one row",
                "Check the file",
            )
        if separator := _SEPARATOR_LINE.match(start):
            named = form.delimiter or separator[1].decode()
            form = replace(form, delimiter=named, n_skipped=1)
            start = start[separator.end() :]
        form = replace(form, delimiter=form.delimiter or _delimiter_of(path, start))
        with opened_csv(path, form, na_values=na_values) as reader:
            schema = reader.schema
        if any("\n" in name for name in schema.names):
            _check_quotes(path, form)
        form = _with_names(path, form, schema.names)
        columns = [name for name in form.names if not name.startswith(_NAMELESS)]
        needs_rows = form.header and _may_be_data(schema, form.style)
        if form.names or needs_rows or _reads_text(form, na_values):
            with opened_csv(path, form, columns, na_values=na_values) as reader:
                schema, batch = reader.schema, next(iter(reader), None)
            if batch is not None and needs_rows:
                form = replace(form, header_is_data=_header_is_data(batch, form.style))
            if batch is not None and _reads_text(form, na_values):
                schema = _with_numbers(schema, batch, form, na_values)
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise unreadable(path, form, error) from error
    return schema, form


def _with_names(path: Path, form: CsvFormat, names: Sequence[str]) -> CsvFormat:
    """Return the format with names of the columns, where those in the header cannot be used.

    Columns at the end that have neither a name nor a cell are left out, with a warning.

    Raises
    ------
    InvalidInput
        A cell in a column without a name.
    """
    if not form.header:
        return replace(form, names=tuple(f"column_{i}" for i in range(1, len(names) + 1)))
    n_named = len(names)
    # The first column may be an index, which has no name.
    while n_named > 1 and not names[n_named - 1].strip():
        n_named -= 1
    if n_named == len(names):
        return form
    nameless = [f"{_NAMELESS}{i}" for i in range(n_named + 1, len(names) + 1)]
    form = replace(form, names=(*names[:n_named], *nameless))
    _check_empty(path, form, nameless)
    n = len(nameless)
    warn(
        f"{path}: {n} column{'s' * (n > 1)} at the end {'has' if n == 1 else 'have'} neither a "
        f"name nor a cell, and {'is' if n == 1 else 'are'} left out."
    )
    return form


def _check_empty(path: Path, form: CsvFormat, columns: Sequence[str]) -> None:
    """Make sure that no cell of some columns holds anything.

    Raises
    ------
    InvalidInput
    """
    n_rows = 0
    with opened_csv(path, form, columns, dict.fromkeys(columns, pa.string())) as reader:
        for batch in reader:
            for place, name in enumerate(columns):
                is_blank = compute.equal(compute.utf8_trim_whitespace(batch.column(place)), "")
                index = compute.index(compute.fill_null(is_blank, True), False).as_py()
                if index >= 0:
                    line = line_of_row(path, form, n_rows + index)
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


def _reads_text(form: CsvFormat, na_values: NaValues) -> bool:
    """Whether numbers are converted here, as Arrow knows no thousands separators and no codes."""
    return form.thousands is not None or bool(na_values)


def _with_numbers(schema: Any, batch: Any, form: CsvFormat, na_values: NaValues) -> Any:
    """Return the schema with columns of text that hold numbers in this format as numbers."""
    for place, field in enumerate(schema):
        if not types.is_string(field.type):
            continue
        try:
            numbers = _numbers_of_text(batch.column(place), form, na_values.of_column(field.name))
        except NotANumber:
            continue
        kind = pa.null() if numbers.null_count == len(numbers) else pa.float64()
        schema = schema.set(place, field.with_type(kind))
    return schema


def _numbers_of_text(cells: Any, form: CsvFormat, missing: Sequence[str]) -> Any:
    """Return texts as numbers, with null for the texts that stand for missing values.

    Raises
    ------
    NotANumber
    """
    trimmed = compute.utf8_trim_whitespace(cells)
    # The missing ones by their text, which need not be a number in this format.
    texts = pa.array([*MISSING_TEXTS[1:], *missing], pa.string())
    is_missing = compute.is_in(trimmed, value_set=texts)
    present = compute.if_else(is_missing, pa.scalar(None, pa.string()), trimmed)
    return form.style.converted(present)


def csv_batches(
    path: Path,
    form: CsvFormat,
    schema: Any,
    columns: Sequence[str],
    texts: Sequence[str],
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
    kinds = {name: schema.field(name).type for name in columns if name not in texts}
    whole = [name for name, kind in kinds.items() if types.is_integer(kind)]
    numeric = [
        name
        for name, kind in kinds.items()
        if name in whole or types.is_null(kind) or types.is_floating(kind)
    ]
    converted = numeric if _reads_text(form, na_values) else []
    kinds_read = dict.fromkeys(numeric, pa.string() if converted else pa.float64())
    kinds_read |= dict.fromkeys(set(texts).intersection(columns), pa.string())
    lines = _Lines(form.comment)
    n_rows = 0
    try:
        with opened_csv(path, form, columns, kinds_read, na_values, lines) as reader:
            for batch in reader:
                if converted:
                    batch = _with_converted(batch, path, form, converted, na_values)
                values = {name: numbers_of(batch[name]) for name in whole}
                # Later rows may have larger ones than an integer may hold.
                exact = {
                    name: numbers
                    for name, numbers in values.items()
                    if np.fmax.reduce(np.abs(numbers), initial=0) <= _LARGEST_INTEGER
                }
                warn_of_rounding(exact)
                n_rows += batch.num_rows
                yield batch
        # Arrow takes all that follows an unclosed quote for one cell, and says nothing.
        n_lines = n_rows + form.header + form.n_skipped
        has_long_cells = lines.n_quotes > 0 and lines.n_line_ends > n_lines
        if lines.n_quotes % 2 or (has_long_cells and _may_be_unclosed(path, form)):
            _check_quotes(path, form)
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise unreadable(path, form, error, columns) from error


def _with_converted(
    batch: Any, path: Path, form: CsvFormat, columns: Collection[str], na_values: NaValues
) -> Any:
    """Return a RecordBatch whose columns of numbers were read as text, with the numbers."""
    arrays = []
    for name, cells in zip(batch.schema.names, batch.columns, strict=True):
        if name not in columns:
            arrays.append(cells)
            continue
        try:
            arrays.append(_numbers_of_text(cells, form, na_values.of_column(name)))
        except NotANumber as error:
            raise _not_a_number(path, form, name, na_values) from error
    return pa.record_batch(arrays, names=batch.schema.names)


def opened_csv(
    path: Path,
    form: CsvFormat,
    columns: Sequence[str] = (),
    kinds: Any = None,
    na_values: NaValues = NO_NA_VALUES,
    lines: "_Lines | None" = None,
) -> Any:
    """pyarrow's reader of some columns of a CSV file, in batches."""
    return csv.open_csv(
        _stream(path, form, lines),
        read_options=csv.ReadOptions(
            skip_rows=form.n_skipped,
            column_names=form.names,
            skip_rows_after_names=int(form.header and bool(form.names)),
            autogenerate_column_names=not form.header and not form.names,
        ),
        # Without newlines_in_values a quoted line break fails wherever two blocks meet.
        parse_options=csv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            include_columns=list(columns),
            column_types=kinds,
            null_values=[*MISSING_TEXTS, *na_values.everywhere],
            strings_can_be_null=True,
            decimal_point=form.decimal,
        ),
    )


def unreadable(
    path: Path, form: CsvFormat, error: Exception, columns: Sequence[str] = ()
) -> InvalidInput:
    """What to raise where a file cannot be read: with row and column, and what helps.

    Parameters
    ----------
    path : Path
    form : CsvFormat
    error : Exception
        Of pyarrow or a codec.
    columns : sequence of str
        Those that were read, in this order.
    """
    told = " ".join(str(error).split())
    if isinstance(error, UnicodeError) or "invalid UTF8" in told:
        return InvalidInput(
            f"{path} is not written in {form.encoding}{_place_of_bytes(path, form)}",
            "Allowed: any encoding that Python knows, if it is named",
            f"Name it: FileRows.open(..., csv={{'encoding': {_likely_encoding(path)!r}}})",
            cause=Cause.CSV_STYLE,
            command=f"Name it: --encoding {_likely_encoding(path)}",
        )
    if _OF_A_ROW in told and (uneven := _uneven_rows(path, form)) is not None:
        return uneven
    found = _OF_A_COLUMN.search(told)
    if found and columns:
        return _not_a_number(path, form, columns[int(found[1])], NO_NA_VALUES)
    for row in _rows_of_file(path, form):
        if not row.is_closed:
            return _unclosed_quote(path, row)
    return InvalidInput(
        f"{path} cannot be read ({shown_reason(error)})",
        _ALLOWED,
        f"Check the file, or say how it is written ({_SETTINGS_OF_OPEN})",
        cause=Cause.CSV_STYLE,
        command=f"Check the file, or say how it is written ({_OPTIONS})",
    )


def _uneven_rows(path: Path, form: CsvFormat) -> InvalidInput | None:
    """What to raise of rows that are not as long as the header; None if all are."""
    rows = _rows_of_file(path, form)
    header = next(rows, None)
    if header is None:
        return None
    first_rows = list(islice(rows, _ROWS_OF_A_HEADER))
    lengths = {row.n_cells for row in first_rows if row.is_closed}
    for row in chain([header], first_rows, rows):
        if not row.is_closed:
            return _unclosed_quote(path, row)
        if row.n_cells == header.n_cells:
            continue
        has_equal_rows = len(lengths) == 1 and len(first_rows) >= _FEWEST_ROWS_OF_A_HEADER
        if form.header and has_equal_rows:
            return _wrong_header(path, header, row.n_cells)
        spans = ""
        if row.last_line > row.first_line:
            spans = f", as a quoted cell there continues up to line {row.last_line}"
        return InvalidInput(
            f"{path} has a row of {row.n_cells} cells in line {row.first_line}, below a "
            f"{'header' if form.header else 'first row'} of {header.n_cells}{spans}",
            _ALLOWED,
            f"Correct line {row.first_line}, or say how the file is written ({_SETTINGS_OF_OPEN})",
            cause=Cause.CSV_STYLE,
            command=f"Correct line {row.first_line}, or say how the file is written ({_OPTIONS})",
        )
    return None


def _wrong_header(path: Path, header: RowLines, n_cells: int) -> InvalidInput:
    """What to raise where all rows are equally long, and the header is not."""
    remedy = f"Name each of the {n_cells} columns in line {header.first_line}"
    command = remedy
    if header.n_cells == 1:
        delete = "Delete what is above the names of the columns"
        remedy = (
            f"{delete}, or skip it with FileRows.open(..., csv={{'comment': ...}}); or name the "
            "letter between cells with csv={'delimiter': ...}"
        )
        command = (
            f"{delete}, or skip it with --comment; or name the letter between cells with "
            "--delimiter"
        )
    elif n_cells == header.n_cells + 1:
        remedy = (
            f"Name each column in line {header.first_line}: the first one may be an index or row "
            "names without a name"
        )
        command = remedy
    return InvalidInput(
        f"{path} has a header of {header.n_cells} cell{'s' * (header.n_cells != 1)} in line "
        f"{header.first_line}, and rows of {n_cells}",
        _ALLOWED,
        remedy,
        cause=Cause.CSV_STYLE,
        command=command,
    )


def _unclosed_quote(path: Path, row: RowLines) -> InvalidInput:
    """What to raise of a quote that is not closed before the file ends."""
    return InvalidInput(
        f"{path} has a quote in line {row.first_line} that opens a cell and is never closed",
        _ALLOWED,
        "Close the quote, or delete it",
    )


def _check_quotes(path: Path, form: CsvFormat) -> None:
    """Make sure that every quote that opens a cell is closed, and by a quote that ends a cell.

    Raises
    ------
    InvalidInput
    """
    for row in _rows_of_file(path, form):
        if not row.is_closed:
            raise _unclosed_quote(path, row)
        if row.has_text_after_quote:
            raise InvalidInput(
                f"{path} has a quote in line {row.first_line} that opens a cell, and the next "
                f"one, in line {row.last_line}, has text after it",
                _ALLOWED,
                f"Close the quotes in lines {row.first_line} and {row.last_line}, or delete them",
            )


def _may_be_unclosed(path: Path, form: CsvFormat) -> bool:
    """Whether two quotes that follow each other both begin a cell and end none."""
    ends_cell = np.zeros(256, dtype=bool)
    ends_cell[list(f"{form.delimiter}\r\n".encode())] = True
    begins_text = ~ends_cell
    begins_text[_QUOTE] = False
    rest = b"\n"
    was_opening = False
    with _stream(path, form) as stream:
        while chunk := stream.read(_BYTES_AT_ONCE):
            # The last byte is looked at with the next chunk, as it may be a quote.
            found = np.frombuffer(rest + chunk, np.uint8)
            rest = bytes(found[-2:])
            quotes = np.flatnonzero(found[1:-1] == _QUOTE) + 1
            if not len(quotes):
                continue
            is_opening = ends_cell[found[quotes - 1]] & begins_text[found[quotes + 1]]
            if (was_opening and is_opening[0]) or (is_opening[1:] & is_opening[:-1]).any():
                return True
            was_opening = bool(is_opening[-1])
    return False


def _stream(path: Path, form: CsvFormat, lines: "_Lines | None" = None) -> Any:
    """The bytes of a file in UTF-8, unpacked and without the lines that are comments."""
    stream = pa.input_stream(str(path), compression="detect")
    if codecs.lookup(form.encoding).name != "utf-8":
        stream = pa.transcoding_input_stream(stream, form.encoding, "utf-8")
    if form.comment is None and lines is None:
        return stream
    return pa.TransformInputStream(stream, lines or _Lines(form.comment))


class _Lines:
    """Passes on the bytes of a file without comments, and counts its quotes.

    Attributes
    ----------
    n_quotes, n_line_ends : int
    """

    def __init__(self, comment: str | None) -> None:
        self.n_quotes = 0
        self.n_line_ends = 0
        self._comment = None if comment is None else comment.encode()
        self._rest = b""

    def __call__(self, chunk: Any) -> Any:
        passed = chunk if self._comment is None else self._without_comments(bytes(chunk))
        found = np.frombuffer(passed, np.uint8)
        self.n_quotes += int(np.count_nonzero(found == _QUOTE))
        self.n_line_ends += int(np.count_nonzero(found == _LINE_END))
        return passed

    def _without_comments(self, more: bytes) -> bytes:
        lines = (self._rest + more).splitlines(keepends=True)
        # The last line may continue in the next chunk; an empty chunk is the end.
        self._rest = lines.pop() if more and lines else b""
        kept = b"".join(line for line in lines if not line.startswith(self._comment or b""))
        # No bytes would be taken for the end; a blank line is passed over.
        return kept or (b"\n" if more else b"")


def _delimiter_of(path: Path, start: bytes) -> str:
    """What the header shows most often outside quotes; a comma if it is a single column."""
    header = start.strip(b"\r\n").splitlines()[0].decode("utf-8-sig")
    if "\t" in header and re.search(r"\.tsv(\.|$)", path.name.lower()):
        return "\t"
    return max(_DELIMITERS, key=re.sub(r'"[^"]*"', "", header).count)


def _likely_encoding(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(_SNIFFED)
    is_utf16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return "utf-16" if is_utf16 else "latin-1, or cp1252 of Windows,"


def _place_of_bytes(path: Path, form: CsvFormat) -> str:
    """Where the first line is that cannot be decoded."""
    with pa.input_stream(str(path), compression="detect") as stream:
        lines = io.BufferedReader(stream)
        for number, line in enumerate(lines, start=1):
            try:
                line.decode(form.encoding)
            except UnicodeDecodeError as error:
                return f": line {number} has the byte 0x{line[error.start]:02x}"
            except UnicodeError as error:
                return f": {error}"
    return ""


def _not_a_number(path: Path, form: CsvFormat, name: str, na_values: NaValues) -> InvalidInput:
    """What to raise where a column of numbers holds a text."""
    index, cell = 0, ""
    with opened_csv(path, form, [name], {name: pa.string()}) as reader:
        for batch in reader:
            try:
                _numbers_of_text(batch[name], form, na_values.of_column(name))
            except NotANumber as error:
                index, cell = index + error.index, batch[name][error.index].as_py()
                break
            index += len(batch)
    with opened_csv(path, form, [name], {name: pa.string()}) as reader:
        columns = columns_of_numbers(reader, {name: na_values.of_column(name)})
    advice = number_advice(columns, name, form.style, form.delimiter)
    return InvalidInput(
        f"{path} has {quoted_cell(cell)} in line {line_of_row(path, form, index)} of the column "
        f"{name!r}, which holds numbers before",
        "Allowed: numbers, or nothing where they are missing",
        _CORRECT_CELL if advice is None else advice.call,
        cause=Cause.CSV_STYLE,
        command=_CORRECT_CELL if advice is None else advice.command,
    )


def line_of_row(path: Path, form: CsvFormat, index: int) -> int | None:
    """Return the line in which a row begins, counted from 1 as editors do.

    Parameters
    ----------
    path : Path
    form : CsvFormat
        With the delimiter.
    index : int
        Number of the row, counted from 0 below the header.
    """
    rows = islice(_rows_of_file(path, form), index + form.header, None)
    return next((row.first_line for row in rows), None)


def _rows_of_file(path: Path, form: CsvFormat) -> Iterator[RowLines]:
    """Yield where each row of a file stands, the header first."""
    with pa.input_stream(str(path), compression="detect") as stream:
        yield from rows_of_lines(
            stream, form.encoding, form.delimiter or ",", form.comment, form.n_skipped
        )
