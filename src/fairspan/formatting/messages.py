"""Cells, labels, counts and positions in messages, without more of the data than needed."""

from __future__ import annotations

import re
from collections.abc import Callable

from fairspan.formatting.numbers import noun_form

# Characters of a cell shown in messages, at most: enough to find it, and no more of the data.
_MAX_CELL_LENGTH = 40
# Characters of a name shown in messages, at most: names of groups and columns may be sentences.
_MAX_LABEL_LENGTH = 120
# Characters of a message of another package, at most: it may include the contents of a file.
_MAX_REASON_LENGTH = 200
_ROW = re.compile(r"row (\d+) \(index (\d+)\)")
_BETWEEN_CELLS = re.compile(r"[,;|\t\r\n]")
_QUOTED = re.compile(r"'[^']*'")
# The row at the end of an error message of Arrow.
_TRAILING_ROW = re.compile(r"(got \d+):.*")


def quoted_cell(cell: object) -> str:
    """Quote a cell for a message, truncated if it is long.

    Examples
    --------
    >>> quoted_cell("n.a."), quoted_cell(1.5)
    ("'n.a.'", '1.5')
    >>> quoted_cell("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'"
    """
    return _quoted(cell, _MAX_CELL_LENGTH)


def quoted_label(label: object) -> str:
    """Quote the name of a group or a column for a message, truncated if it is very long.

    Examples
    --------
    >>> quoted_label("Amer-Indian-Eskimo"), quoted_label(("a", 1))
    ("'Amer-Indian-Eskimo'", "('a', 1)")
    """
    return _quoted(label, _MAX_LABEL_LENGTH)


def _quoted(value: object, max_length: int) -> str:
    """Quote a value for a message, the parts of a tuple one by one.

    Text is truncated after `max_length` characters, and within what seems to be several cells.
    """
    if isinstance(value, tuple):
        parts = [_quoted(part, max_length) for part in value]
        if len(parts) == 1:
            return f"({parts[0]},)"
        return f"({', '.join(parts)})"
    if not isinstance(value, str):
        return repr(value)
    start = value
    if "\n" in value:
        # A quote that is not closed in a file makes the reader take the following cells and rows
        # for one value: keep only the first of them, to show no more of the data.
        start = _BETWEEN_CELLS.split(value.lstrip("\r\n"))[0]
    if start == value and len(value) <= max_length:
        return repr(value)
    return repr(f"{start[:max_length]}...")


def shown_reason(error: BaseException) -> str:
    """Format an error of another package in one line, without rows of a table.

    Examples
    --------
    >>> shown_reason(ValueError("CSV parse error: Expected 2 columns, got 3: Ann,1,2"))
    'CSV parse error: Expected 2 columns, got 3'
    """
    reason = _TRAILING_ROW.sub(r"\1", " ".join(str(error).split()))
    reason = _QUOTED.sub(lambda match: quoted_cell(match[0][1:-1]), reason)
    if len(reason) > _MAX_REASON_LENGTH:
        return f"{reason[:_MAX_REASON_LENGTH]}..."
    return reason


def counted(value: int, singular: str, plural: str = "") -> str:
    """Format a count with its noun in ASCII, for messages and representations.

    Examples
    --------
    >>> counted(1, "group"), counted(0, "row"), counted(2000, "vertex", "vertices")
    ('1 group', '0 rows', '2,000 vertices')
    """
    return f"{value:,} {noun_form(value, singular, plural)}"


def describe_position(noun: str, index: int) -> str:
    """Describe a row or column by its 1-based number and 0-based index.

    Examples
    --------
    >>> describe_position("row", 3)
    'row 4 (index 3)'
    """
    return f"{noun} {index + 1} (index {index})"


def with_row_names(text: str, name_of: Callable[[int], str | None]) -> str:
    """Replace row numbers in a message by names, such as lines of a file or index labels.

    Parameters
    ----------
    text : str
        With rows in the format of :func:`describe_position`.
    name_of : callable
        Returns the name of a row by its 0-based index; None to keep its number.

    Examples
    --------
    >>> with_row_names("NaN in row 3 (index 2)", lambda index: f"line {index + 2}")
    'NaN in line 4'
    """

    def rename(match: re.Match[str]) -> str:
        index = int(match[2])
        # The number of a row is its index plus one; another one is a name from an earlier
        # replacement, which is kept.
        is_position = int(match[1]) == index + 1
        name = name_of(index) if is_position else None
        return name or match[0]

    return _ROW.sub(rename, text)
