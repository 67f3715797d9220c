"""One HTML table for a notebook, from plain texts.

It takes the colours of the page around it, light or dark, needs no style sheet, and shows every
text as text, whatever markup a name from the data holds.
"""

from collections.abc import Sequence
from html import escape

# A row of cells, or one text across all columns.
Row = Sequence[str] | str

_LINE = "1px solid currentColor"
_PADDING = "padding:0.2em 0.6em"
_NAME = f"{_PADDING};text-align:left;overflow-wrap:anywhere;min-width:6em;max-width:24em"
_FIGURE = f"{_PADDING};text-align:right;white-space:nowrap"
_TABLE = "border-collapse:collapse;color:inherit;background:none;font-variant-numeric:tabular-nums"
_CAPTION = f"{_PADDING};text-align:left;caption-side:top;color:inherit"
_NOTE = "margin:0.3em 0.6em"


def html_table(
    caption: str, headings: Sequence[str], rows: Sequence[Row], notes: Sequence[str] = ()
) -> str:
    """A table whose first column is to the left and whose other columns are to the right.

    Parameters
    ----------
    caption : str
        What the table shows.
    headings : sequence of m str
    rows : sequence of rows
        Each is m texts, or one text that is shown across all columns, as a heading of what follows.
    notes : sequence of str
        Paragraphs below.

    Returns
    -------
    str
        HTML in which all of these texts are escaped.

    Examples
    --------
    >>> table = html_table("Errors", ["group", "error"], [["<b>", "1.5"]])
    >>> "<b>" in table, "&lt;b&gt;" in table
    (False, True)
    """
    head = "".join(
        f'<th scope="col" style="{_style(index)};border-bottom:{_LINE}">{escape(heading)}</th>'
        for index, heading in enumerate(headings)
    )
    body = "".join(f"<tr>{_cells(row, len(headings))}</tr>" for row in rows)
    below = "".join(f'<p style="{_NOTE}">{escape(note)}</p>' for note in notes)
    return (
        f'<div style="overflow-x:auto"><table style="{_TABLE}">'
        f'<caption style="{_CAPTION}">{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"
    )


def first_and_last(rows: Sequence[Row], most: int, what: str) -> list[Row]:
    """All rows, or the first and last of them around a row that tells how many there are.

    Examples
    --------
    >>> first_and_last(["a", "b", "c", "d", "e"], 2, "vertices")
    ['a', '… 3 more vertices', 'e']
    """
    if len(rows) <= most:
        return list(rows)
    half = most // 2
    return [*rows[:half], f"… {len(rows) - 2 * half:,} more {what}", *rows[-half:]]


def _cells(row: Row, n_columns: int) -> str:
    if isinstance(row, str):
        style = f"{_PADDING};text-align:left;border-top:{_LINE}"
        return f'<td colspan="{n_columns}" style="{style}">{escape(row)}</td>'
    first, *others = row
    name = f'<th scope="row" style="{_style(0)};font-weight:normal">{escape(first)}</th>'
    return name + "".join(f'<td style="{_style(1)}">{escape(cell)}</td>' for cell in others)


def _style(column: int) -> str:
    return _FIGURE if column else _NAME
