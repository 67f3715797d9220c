"""Errors of CSV files that cannot be read: in which line, and what helps."""

import codecs
import io
import re
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from fairspan.errors import Cause, InvalidInput
from fairspan.formatting.text import counted, quoted_cell, shown_reason
from fairspan.rows.files.csv_format import CsvFormat
from fairspan.rows.files.csv_lines import RowLines
from fairspan.rows.files.csv_reader import (
    QUOTE,
    SNIFFED_BYTES,
    csv_stream,
    line_of_row,
    numbers_of_text,
    open_csv_reader,
    rows_of_file,
)
from fairspan.rows.files.na_values import NO_NA_VALUES, NaValues
from fairspan.rows.files.number_advice import columns_of_numbers, number_advice
from fairspan.rows.files.numbers_as_text import NotANumber

# Texts of pyarrow about a cell that is no number, or no text, and about rows of another length.
_COLUMN_ERROR = re.compile(r"In CSV column #(\d+)")
_ROW_ERROR = "columns, got"
# Bytes of a file that are searched for quotes at once.
_BYTES_AT_ONCE = 1 << 20
# Rows that are looked at to tell a wrong header from wrong rows.
_ROWS_OF_A_HEADER = 1000
# Fewer rows of one length do not show that the header is wrong.
_FEWEST_ROWS_OF_A_HEADER = 2
_ALLOWED = "Allowed: complete CSV files of equally long rows"
_CORRECT_CELL = "Correct the cell, or leave the column out"
# Options that say how a file is written, on the command line and in Python.
_OPTIONS = "--delimiter, --decimal, --encoding, --comment"
_SETTINGS_OF_OPEN = "FileRows.open(..., csv={...})"


def csv_read_error(
    path: Path, form: CsvFormat, error: Exception, columns: Sequence[str] = ()
) -> InvalidInput:
    """Return the error to raise where a file cannot be read: its row and column, and what helps.

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
        encoding = _guess_encoding(path)
        alternative = ", or cp1252 of Windows" if encoding == "latin-1" else ""
        return InvalidInput(
            f"{path} is not written in {form.encoding}{_locate_undecodable_line(path, form)}",
            "Allowed: any encoding that Python knows, if it is named",
            f"Name it: FileRows.open(..., csv={{'encoding': {encoding!r}}}){alternative}",
            cause=Cause.CSV_STYLE,
            command=f"Name it: --encoding {encoding}{alternative}",
        )
    if _ROW_ERROR in told and (uneven := _uneven_rows(path, form)) is not None:
        return uneven
    found = _COLUMN_ERROR.search(told)
    if found and columns:
        return not_a_number(path, form, columns[int(found[1])], NO_NA_VALUES)
    for row in rows_of_file(path, form):
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
    """Return the error to raise of rows that are not as long as the header; None if all are."""
    rows = rows_of_file(path, form)
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
    """Return the error to raise where all rows are equally long, and the header is not."""
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
        f"{path} has a header of {counted(header.n_cells, 'cell')} in line "
        f"{header.first_line}, and rows of {n_cells}",
        _ALLOWED,
        remedy,
        cause=Cause.CSV_STYLE,
        command=command,
    )


def _unclosed_quote(path: Path, row: RowLines) -> InvalidInput:
    """Return the error to raise of a quote that is not closed before the file ends."""
    return InvalidInput(
        f"{path} has a quote in line {row.first_line} that opens a cell and is never closed",
        _ALLOWED,
        "Close the quote, or delete it",
    )


def check_quotes(path: Path, form: CsvFormat) -> None:
    """Make sure that every quote that opens a cell is closed, and by a quote that ends a cell.

    Raises
    ------
    InvalidInput
    """
    for row in rows_of_file(path, form):
        if not row.is_closed:
            raise _unclosed_quote(path, row)
        if row.has_text_after_quote:
            raise InvalidInput(
                f"{path} has a quote in line {row.first_line} that opens a cell, and the next "
                f"one, in line {row.last_line}, has text after it",
                _ALLOWED,
                f"Close the quotes in lines {row.first_line} and {row.last_line}, or delete them",
            )


def may_be_unclosed(path: Path, form: CsvFormat) -> bool:
    """Whether two quotes that follow each other both begin a cell and end none."""
    ends_cell = np.zeros(256, dtype=bool)
    ends_cell[list(f"{form.delimiter}\r\n".encode())] = True
    begins_text = ~ends_cell
    begins_text[QUOTE] = False
    rest = b"\n"
    was_opening = False
    with csv_stream(path, form) as stream:
        while chunk := stream.read(_BYTES_AT_ONCE):
            # The last byte is looked at with the next chunk, as it may be a quote.
            found = np.frombuffer(rest + chunk, np.uint8)
            rest = bytes(found[-2:])
            quotes = np.flatnonzero(found[1:-1] == QUOTE) + 1
            if not len(quotes):
                continue
            is_opening = ends_cell[found[quotes - 1]] & begins_text[found[quotes + 1]]
            if (was_opening and is_opening[0]) or (is_opening[1:] & is_opening[:-1]).any():
                return True
            was_opening = bool(is_opening[-1])
    return False


def _guess_encoding(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(SNIFFED_BYTES)
    is_utf16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return "utf-16" if is_utf16 else "latin-1"


def _locate_undecodable_line(path: Path, form: CsvFormat) -> str:
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


def not_a_number(path: Path, form: CsvFormat, name: str, na_values: NaValues) -> InvalidInput:
    """Return the error to raise where a column of numbers holds a text."""
    index = 0
    cell = ""
    with open_csv_reader(path, form, [name], {name: pa.string()}) as reader:
        for batch in reader:
            try:
                numbers_of_text(batch[name], form, na_values.of_column(name))
            except NotANumber as error:
                index += error.index
                cell = batch[name][error.index].as_py()
                break
            index += len(batch)
    with open_csv_reader(path, form, [name], {name: pa.string()}) as reader:
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
