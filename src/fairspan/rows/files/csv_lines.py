"""Lines and rows of a CSV file as an editor shows them, for error messages."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO


@dataclass(frozen=True)
class RowLines:
    """Lines of one row of a CSV file.

    Attributes
    ----------
    first_line : int
        Its first line, counted from 1.
    n_cells : int
    last_line : int
    is_closed : bool
        Whether every quote that opens a cell is closed before the file ends.
    has_text_after_quote : bool
        Whether text follows a quote that closes a multi-line cell: most likely this quote opens
        another cell, and both quotes are unclosed.
    """

    first_line: int
    n_cells: int
    last_line: int
    is_closed: bool = True
    has_text_after_quote: bool = False


def iterate_row_lines(
    stream: BinaryIO, encoding: str, delimiter: str, comment: str | None = None, skip: int = 0
) -> Iterator[RowLines]:
    """Yield the lines of each row of a CSV file, including the header, with its number of cells.

    Blank lines and comments are not rows. A quoted cell may contain line breaks.

    Parameters
    ----------
    stream : binary file
    encoding : str
    delimiter : str
    comment : str, optional
        Prefix of lines that are skipped.
    skip : int
        Number of leading lines that are not rows.
    """
    # newline="" recognizes all kinds of line breaks and keeps them unchanged.
    lines = io.TextIOWrapper(stream, encoding, errors="replace", newline="")
    number = 0
    first_line = 0
    n_cells = 0
    is_open = False
    has_text_after_quote = False
    for number, text in enumerate(lines, start=1):
        line = text.removeprefix("\ufeff") if number == 1 else text
        if number <= skip or (comment is not None and line.startswith(comment)):
            continue
        if not is_open:
            if not line.strip("\r\n"):
                continue
            first_line = number
            n_cells = 1
            has_text_after_quote = False
        elif _has_text_after_quote(line, delimiter):
            has_text_after_quote = True
        n_delimiters, is_open = _count_delimiters(line, delimiter, is_open)
        n_cells += n_delimiters
        if not is_open:
            yield RowLines(
                first_line, n_cells, last_line=number, has_text_after_quote=has_text_after_quote
            )
    if is_open:
        yield RowLines(first_line, n_cells, last_line=number, is_closed=False)


def _has_text_after_quote(line: str, delimiter: str) -> bool:
    """Return whether text follows the first quote of a line, which closes a cell."""
    remainder = line.replace('""', "").partition('"')[2].rstrip("\r\n")
    return remainder != "" and not remainder.startswith(delimiter)


def _count_delimiters(line: str, delimiter: str, is_open: bool) -> tuple[int, bool]:
    """Count the delimiters outside quotes, and return whether a quoted cell is still open.

    As in Arrow, a quote opens a cell only at its beginning, and two quotes in a quoted cell stand
    for one.
    """
    if not is_open and '"' not in line:
        return line.count(delimiter), False
    position = 0
    n_delimiters = 0
    starts_cell = not is_open
    while True:
        if starts_cell and line.startswith('"', position):
            position += 1
            is_open = True
        if is_open:
            end = line.find('"', position)
            if end < 0:
                return n_delimiters, True
            position = end + 1
            if line.startswith('"', position):
                position += 1
                starts_cell = False
                continue
            is_open = False
        end = line.find(delimiter, position)
        if end < 0:
            return n_delimiters, False
        position = end + 1
        n_delimiters += 1
        starts_cell = True
