"""Errors for unreadable CSV files, with location and remedy."""

import codecs
import io
import re
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from fairspan.errors import Cause, InvalidInput
from fairspan.formatting.messages import counted, quoted_cell, shown_reason
from fairspan.rows.files.compression import open_decompressed
from fairspan.rows.files.csv_format import CsvFormat
from fairspan.rows.files.csv_lines import RowLines
from fairspan.rows.files.csv_reader import (
    QUOTE,
    SNIFF_BYTES,
    iterate_rows,
    line_of_row,
    open_csv_reader,
    open_utf8_stream,
    parse_numbers,
)
from fairspan.rows.files.na_values import NO_NA_VALUES, NaValues
from fairspan.rows.files.number_format_advice import number_advice, scan_columns
from fairspan.rows.files.numbers_as_text import NotANumber

# pyarrow's messages for an unparsable cell, and for a row of the wrong length.
_COLUMN_ERROR = re.compile(r"In CSV column #(\d+)")
_ROW_ERROR = "columns, got"
# Bytes that are searched for quotes at a time (1 MB).
_CHUNK_BYTES = 1 << 20
# Number of rows whose lengths decide whether the header or a row is wrong.
_MAX_COMPARED_ROWS = 1000
# Minimum number of rows of equal length for the header to be considered wrong.
_MIN_EQUAL_ROWS = 2
_ALLOWED = "Allowed: complete CSV files with rows of equal length"
_CORRECT_CELL = "Correct the cell, or exclude the column"
_OPEN_CALL = "FileRows.open(..., csv={...})"


def csv_read_error(
    path: Path, csv_format: CsvFormat, error: Exception, columns: Sequence[str] = ()
) -> InvalidInput:
    """Build the error for an unreadable CSV file, with location and remedy.

    Parameters
    ----------
    path : Path
    csv_format : CsvFormat
    error : Exception
        Error of pyarrow or a codec.
    columns : sequence of str
        Columns being read, in order; pyarrow's message has only the index of a column.
    """
    message = " ".join(str(error).split())
    if isinstance(error, UnicodeError) or "invalid UTF8" in message:
        return _encoding_error(path, csv_format)
    if _ROW_ERROR in message:  # pyarrow found a row of another length
        row_error = _row_length_error(path, csv_format)
        if row_error is not None:
            return row_error
    match = _COLUMN_ERROR.search(message)  # pyarrow found a cell that is not a number
    if match and columns:
        # Without codes: if there are any, numbers are parsed here and not by pyarrow.
        return not_a_number_error(path, csv_format, columns[int(match[1])], NO_NA_VALUES)
    # Other messages of pyarrow may result from a quote that is never closed.
    for row in iterate_rows(path, csv_format):
        if not row.is_closed:
            return _unclosed_quote_error(path, row)
    return InvalidInput(
        f"{path} cannot be read ({shown_reason(error)})",
        _ALLOWED,
        f"Check the file, or specify its format ({_OPEN_CALL})",
        cause=Cause.CSV_FORMAT,
        # Beginning of the remedy of the command line, which has its own options.
        check="Check the file, or specify its format",
    )


def _encoding_error(path: Path, csv_format: CsvFormat) -> InvalidInput:
    """Build the error for a file that is not in the encoding of the format.

    The details `encoding` and `alternative` are for the remedy of the command line.
    """
    encoding = _guess_encoding(path)
    # Any file can be decoded as latin-1, so this guess may be wrong.
    alternative = ", or cp1252 of Windows" if encoding == "latin-1" else ""
    location = _locate_undecodable_line(path, csv_format)
    return InvalidInput(
        f"{path} is not encoded as {csv_format.encoding}{location}",
        "Allowed: any encoding that Python knows",
        f"Specify it: FileRows.open(..., csv={{'encoding': {encoding!r}}}){alternative}",
        cause=Cause.CSV_ENCODING,
        encoding=encoding,
        alternative=alternative,
    )


def _row_length_error(path: Path, csv_format: CsvFormat) -> InvalidInput | None:
    """Build the error for rows that differ in length from the header; None if there are none.

    It is about the header if the first rows all have another length, else about the first row that
    differs; or about a quote that is not closed, if one comes first.
    """
    rows = iterate_rows(path, csv_format)
    header = next(rows, None)
    if header is None:
        return None
    # If all of these (at least two) have one length, the header is wrong rather than a row.
    first_rows = list(islice(rows, _MAX_COMPARED_ROWS))
    lengths = {row.n_cells for row in first_rows if row.is_closed}
    for row in chain([header], first_rows, rows):
        if not row.is_closed:
            return _unclosed_quote_error(path, row)
        if row.n_cells == header.n_cells:
            continue
        has_equal_rows = len(lengths) == 1 and len(first_rows) >= _MIN_EQUAL_ROWS
        if csv_format.header and has_equal_rows:
            return _header_length_error(path, header, row)
        header_name = "header" if csv_format.header else "first row"
        return _deviating_row_error(path, row, f"a {header_name} with {header.n_cells}")
    return None


def _deviating_row_error(path: Path, row: RowLines, expected: str) -> InvalidInput:
    """Build the error for a row that differs in length from the others.

    `expected` describes the header, or the first row, and its number of cells.
    """
    quoted_lines = ""
    if row.last_line > row.first_line:
        quoted_lines = f", since a quoted cell there continues up to line {row.last_line}"
    correct = f"Correct line {row.first_line}, or specify the format"
    return InvalidInput(
        f"{path} has a row with {row.n_cells} cells in line {row.first_line}, but {expected}"
        f"{quoted_lines}",
        _ALLOWED,
        f"{correct} ({_OPEN_CALL})",
        cause=Cause.CSV_FORMAT,
        check=correct,  # beginning of the remedy of the command line, which has its own options
    )


def _header_length_error(path: Path, header: RowLines, first_row: RowLines) -> InvalidInput:
    """Build the error for a header that differs in length from all rows, which have one length."""
    n_cells = first_row.n_cells
    n_above = first_row.first_line - 1  # lines above the first row, perhaps the true header
    cause = None  # the command line replaces the remedy only for a known cause
    if header.n_cells == 1:
        # Most likely a title above the header, or cells separated by another delimiter.
        cause = Cause.CSV_TITLE
        remedy = (
            "Skip the lines above the header with FileRows.open(..., "
            f"csv={{'skip_rows': {n_above}}}) or csv={{'comment': ...}}, or specify the delimiter "
            "with csv={'delimiter': ...}"
        )
    elif n_cells == header.n_cells + 1:
        remedy = (
            f"Name each column in line {header.first_line}: the first one may be an unnamed index "
            "or row names"
        )
    else:
        remedy = f"Name each of the {n_cells} columns in line {header.first_line}"
    return InvalidInput(
        f"{path} has a header of {counted(header.n_cells, 'cell')} in line "
        f"{header.first_line}, and rows of {n_cells}",
        _ALLOWED,
        remedy,
        cause=cause,
        n_above=n_above,
    )


def _unclosed_quote_error(path: Path, row: RowLines) -> InvalidInput:
    """Build the error for a quote that is not closed before the file ends."""
    return InvalidInput(
        f"{path} has a quote in line {row.first_line} that opens a cell and is never closed",
        _ALLOWED,
        "Close the quote, or delete it",
    )


def check_quotes(path: Path, csv_format: CsvFormat) -> None:
    """Check that every quote that opens a cell is closed, by a quote that ends a cell.

    Raises
    ------
    InvalidInput
    """
    for row in iterate_rows(path, csv_format):
        if not row.is_closed:
            raise _unclosed_quote_error(path, row)
        if row.has_text_after_quote:
            raise InvalidInput(
                f"{path} has a quote in line {row.first_line} that opens a cell, and the next "
                f"one, in line {row.last_line}, has text after it",
                _ALLOWED,
                f"Close the quotes in lines {row.first_line} and {row.last_line}, or delete them",
            )


def may_have_unclosed_quotes(path: Path, csv_format: CsvFormat) -> bool:
    """Return whether two consecutive quotes both begin a cell, and neither ends one.

    The cell that the first of them begins is then not closed. This is a fast search of the bytes,
    which may be wrong; :func:`check_quotes` decides row by row.
    """
    ends_cell = np.zeros(256, dtype=bool)
    ends_cell[list(f"{csv_format.delimiter}\r\n".encode())] = True
    begins_text = ~ends_cell
    begins_text[QUOTE] = False
    previous = b"\n"  # last bytes of the previous chunk
    was_opening = False  # whether the last quote before this chunk begins a cell
    with open_utf8_stream(path, csv_format) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            # A quote is judged by the bytes before and after it, so the last byte of a chunk is
            # judged with the next chunk.
            content = np.frombuffer(previous + chunk, np.uint8)
            previous = bytes(content[-2:])
            quotes = np.flatnonzero(content[1:-1] == QUOTE) + 1
            if not len(quotes):
                continue
            is_opening = ends_cell[content[quotes - 1]] & begins_text[content[quotes + 1]]
            if (was_opening and is_opening[0]) or (is_opening[1:] & is_opening[:-1]).any():
                return True
            was_opening = bool(is_opening[-1])
    return False


def _guess_encoding(path: Path) -> str:
    with open_decompressed(path) as stream:
        start = stream.read(SNIFF_BYTES)
    is_utf16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return "utf-16" if is_utf16 else "latin-1"


def _locate_undecodable_line(path: Path, csv_format: CsvFormat) -> str:
    """Return the end of a message: the number and first invalid byte of the undecodable line.

    If the encoding fails without naming a byte, the end of the message is the reason. It is empty
    if each line alone can be decoded.
    """
    with open_decompressed(path) as stream:
        lines = io.BufferedReader(stream)
        for number, line in enumerate(lines, start=1):
            try:
                line.decode(csv_format.encoding)
            except UnicodeDecodeError as error:
                return f": line {number} has the byte 0x{line[error.start]:02x}"
            except UnicodeError as error:
                return f": {error}"
    return ""


def not_a_number_error(
    path: Path, csv_format: CsvFormat, name: str, na_values: NaValues
) -> InvalidInput:
    """Build the error for text in the numeric column `name`, which is read again as text.

    `na_values` are the codes for missing values, which are no such text.
    """
    # Index, in the file, of the row with the first cell that is not a number.
    index = 0
    cell = ""
    with open_csv_reader(path, csv_format, [name], {name: pa.string()}) as reader:
        for batch in reader:
            try:
                parse_numbers(batch[name], csv_format, na_values.for_column(name))
            except NotANumber as error:
                index += error.index
                cell = batch[name][error.index].as_py()
                break
            index += len(batch)
    # Advice must be right for all cells of the column.
    with open_csv_reader(path, csv_format, [name], {name: pa.string()}) as reader:
        columns = scan_columns(reader, {name: na_values.for_column(name)})
    advice = number_advice(columns, name, csv_format.style, csv_format.delimiter)
    line = line_of_row(path, csv_format, index)
    return InvalidInput(
        f"{path} has {quoted_cell(cell)} in line {line} of column {name!r}, which is numeric in "
        "earlier rows",
        "Allowed: numbers, or empty cells for missing values",
        _CORRECT_CELL if advice is None else advice.call,
        cause=None if advice is None else Cause.NUMBER_FORMAT,
        advice=advice,
    )
