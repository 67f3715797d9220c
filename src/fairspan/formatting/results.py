"""Results as plain values that JSON can hold, as data frames of pandas, and as one HTML table.

The table takes the colours of the page around it, light or dark, needs no style sheet, and shows
every text as text, whatever markup a name from the data holds.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from fairspan.errors import imported


def plain(value: Any, digits: int = 17) -> Any:
    """The same in str, int, float, bool, None, list and dict; None for NaN and infinity.

    Parameters
    ----------
    value : object
    digits : int
        Significant digits of floats; 17 are all.

    Examples
    --------
    >>> plain({"a": (np.float64(1 / 3), float("nan"))}, digits=12)
    {'a': [0.333333333333, None]}
    """
    if isinstance(value, dict):
        return {str(key): plain(each, digits) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, digits) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") + 0.0 if math.isfinite(value) else None
    return value


def data_frame(data: Any, purpose: str) -> Any:
    """A pandas DataFrame of columns, or of one dictionary for each row.

    Raises
    ------
    MissingDependency
        pandas is not installed; the message names the purpose.
    """
    return imported("pandas", "pandas", purpose).DataFrame(data)


# Cells, or a remark across all columns.
Row = Sequence[str] | str
# A paragraph, or its emphasised beginning and the rest.
Note = str | tuple[str, str]

_LINE = "1px solid currentColor"
_PADDING = "padding:0.2em 0.6em"
_LEFT = f"{_PADDING};text-align:left"
_NAME = f"{_LEFT};overflow-wrap:break-word;min-width:9em;max-width:24em;font-weight:normal"
_FIGURE = f"{_PADDING};text-align:right;white-space:nowrap"
_HEADING = "text-align:right;vertical-align:bottom;overflow-wrap:break-word;max-width:10em"
_TABLE = "border-collapse:collapse;color:inherit;background:none;font-variant-numeric:tabular-nums"
_CAPTION = f"{_LEFT};caption-side:top;color:inherit;white-space:nowrap"


def html_table(
    caption: str,
    headings: Sequence[str],
    sections: Sequence[tuple[str, Sequence[Row]]],
    notes: Sequence[Note] = (),
) -> str:
    """A table whose first column is to the left and whose other columns are to the right.

    Parameters
    ----------
    caption : str
        What the table shows.
    headings : sequence of m str
    sections : sequence of (str, rows)
        Rows under a heading that goes across all columns; an empty heading is not shown. A row is m
        texts, or one that is a remark.
    notes : sequence of str or (str, str)
        Paragraphs below, the first of two texts emphasised.

    Returns
    -------
    str
        HTML in which all of these texts are escaped.

    Examples
    --------
    >>> table = html_table("Errors", ["group", "error"], [("", [["<b>", "1.5"]])])
    >>> "<b>" in table, "&lt;b&gt;" in table
    (False, True)
    """
    head = "".join(
        f'<th scope="col" style="{_PADDING};{_HEADING if index else _LEFT}">{escape(heading)}</th>'
        for index, heading in enumerate(headings)
    )
    body = "".join(_section(name, rows, len(headings)) for name, rows in sections)
    below = "".join(map(_paragraph, notes))
    return (
        f'<div style="overflow-x:auto"><table style="{_TABLE}">'
        f'<caption style="{_CAPTION}">{escape(caption)}</caption>'
        f'<thead style="border-bottom:{_LINE}"><tr>{head}</tr></thead>{body}</table></div>{below}'
    )


def first_and_last(rows: Sequence[Row], most: int, what: str) -> list[Row]:
    """All rows, or the first and last of them around a remark that says how many there are.

    Examples
    --------
    >>> first_and_last(["a", "b", "c", "d", "e"], 2, "vertices")
    ['a', '… 3 more vertices', 'e']
    """
    if len(rows) <= most:
        return list(rows)
    half = most // 2
    return [*rows[:half], f"… {len(rows) - 2 * half:,} more {what}", *rows[-half:]]


def _paragraph(note: Note) -> str:
    start, rest = ("", note) if isinstance(note, str) else note
    emphasised = f"<strong>{escape(start)}</strong>" if start else ""
    return f'<p style="margin:0.3em 0.6em">{emphasised}{escape(rest)}</p>'


def _section(name: str, rows: Sequence[Row], n_columns: int) -> str:
    heading = (
        f'<tr><th scope="rowgroup" colspan="{n_columns}" style="{_LEFT}">{escape(name)}</th></tr>'
    )
    lines = "".join(f"<tr>{_cells(row, n_columns)}</tr>" for row in rows)
    return f'<tbody style="border-bottom:{_LINE}">{heading if name else ""}{lines}</tbody>'


def _cells(row: Row, n_columns: int) -> str:
    if isinstance(row, str):
        return f'<td colspan="{n_columns}" style="{_LEFT};font-style:italic">{escape(row)}</td>'
    first, *others = row
    return f'<th scope="row" style="{_NAME}">{escape(first)}</th>' + "".join(
        f'<td style="{_FIGURE}">{escape(cell)}</td>' for cell in others
    )
