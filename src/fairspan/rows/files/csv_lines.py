"""Lines and rows of a CSV file as an editor shows them, which error messages count by."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO


@dataclass(frozen=True)
class RowLines:
    """Where one row of a CSV file stands.

    Attributes
    ----------
    first_line : int
        Number of its first line, counted from 1.
    n_cells : int
    last_line : int
    is_closed : bool
        Whether every quote that opens a cell is closed before the file ends.
    has_text_after_quote : bool
        Whether a quote that closes a cell of several lines has text after it: most likely it opens
        another cell, and the quotes of both are not closed.
    """

    first_line: int
    n_cells: int
    last_line: int
    is_closed: bool = True
    has_text_after_quote: bool = False


def rows_of_lines(
    stream: BinaryIO, encoding: str, delimiter: str, comment: str | None = None, skip: int = 0
) -> Iterator[RowLines]:
    """Yield where each row of a CSV file stands, the header included.

    Blank lines and comments are no rows. A quoted cell may hold line breaks.

    Parameters
    ----------
    stream : binary file
    encoding : str
    delimiter : str
    comment : str, optional
        Beginning of lines that are skipped.
    skip : int
        Number of lines at the start that are no rows.
    """
    # An empty newline keeps line breaks as they are and ends lines at each kind of them.
    lines = io.TextIOWrapper(stream, encoding, errors="replace", newline="")
    first_line = n_cells = number = 0
    is_open = has_text = False
    for number, text in enumerate(lines, start=1):
        line = text.removeprefix("\ufeff") if number == 1 else text
        if number <= skip or (comment is not None and line.startswith(comment)):
            continue
        if not is_open:
            if not line.strip("\r\n"):
                continue
            first_line, n_cells, has_text = number, 1, False
        elif _has_text_after_quote(line, delimiter):
            has_text = True
        n_delimiters, is_open = _scan(line, delimiter, is_open)
        n_cells += n_delimiters
        if not is_open:
            yield RowLines(first_line, n_cells, number, has_text_after_quote=has_text)
    if is_open:
        yield RowLines(first_line, n_cells, number, is_closed=False)


def _has_text_after_quote(line: str, delimiter: str) -> bool:
    """Whether the first quote of a line, which closes a cell, has text after it."""
    rest = line.replace('""', "").partition('"')[2].rstrip("\r\n")
    return rest != "" and not rest.startswith(delimiter)


def _scan(line: str, delimiter: str, is_open: bool) -> tuple[int, bool]:
    """Count the delimiters outside quotes, and tell whether a quoted cell continues after the line.

    As in Arrow, a quote opens a cell only at its beginning, and two quotes within are one.
    """
    if not is_open and '"' not in line:
        return line.count(delimiter), False
    place, n_delimiters, starts_cell = 0, 0, not is_open
    while True:
        if starts_cell and line.startswith('"', place):
            place, is_open = place + 1, True
        if is_open:
            end = line.find('"', place)
            if end < 0:
                return n_delimiters, True
            place = end + 1
            if line.startswith('"', place):
                place, starts_cell = place + 1, False
                continue
            is_open = False
        end = line.find(delimiter, place)
        if end < 0:
            return n_delimiters, False
        place, n_delimiters, starts_cell = end + 1, n_delimiters + 1, True
