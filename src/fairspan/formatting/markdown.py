"""Text and tables as Markdown, in the dialect of GitHub."""

import re
from collections.abc import Sequence

from fairspan.formatting.numbers import to_ascii
from fairspan.formatting.table import Cell, Column, Table

# Characters that Markdown or HTML inside of it would interpret.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#&])")
# Line breaks and other control characters would end a row of a table or begin another block.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def escape_markdown(text: str) -> str:
    r"""Return the text so that Markdown shows it literally, on one line.

    Examples
    --------
    >>> print(escape_markdown("a_b | <i>"))
    a\_b \| \<i\>
    """
    return _SPECIAL.sub(r"\\\1", _CONTROL.sub(" ", text))


def code_span(text: str) -> str:
    """Return the text as code, in as many backticks as it needs.

    Examples
    --------
    >>> code_span("fairspan audit"), code_span("a`b")
    ('`fairspan audit`', '`` a`b ``')
    """
    text = _CONTROL.sub(" ", text)
    longest = max(map(len, re.findall("`+", text)), default=0)
    if longest == 0:
        return f"`{text}`"
    ticks = "`" * (longest + 1)
    return f"{ticks} {text} {ticks}"


def table_to_markdown(table: Table) -> str:
    """Render a table with its caption, without its notes.

    Each section is a table of its own under its heading. Details, such as intervals, follow the
    text of their cell in parentheses, and the worst cells are bold.
    """
    blocks = []
    if table.caption:
        blocks.append(escape_markdown(table.caption))
    rows = table.rows
    headings = dict(table.sections)
    starts = sorted({0, *headings})
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        if headings.get(start):
            blocks.append(f"**{escape_markdown(headings[start])}**")
        blocks.append(_render_rows(table.columns, rows[start:end]))
    return "\n\n".join(blocks)


def _render_rows(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> str:
    """Render the headings, their alignment, and some rows."""
    headings = [_heading(column) for column in columns]
    alignments = [":--" if column.is_text else "--:" for column in columns]
    lines = [headings, alignments]
    for row in rows:
        lines.append([_cell(column, cell) for column, cell in zip(columns, row, strict=True)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _heading(column: Column) -> str:
    heading = escape_markdown(column.full_heading)
    if column.detail_heading:
        heading += f" ({escape_markdown(column.detail_heading)})"
    return heading


def _cell(column: Column, cell: Cell) -> str:
    text = cell.text if column.is_text else to_ascii(cell.text)
    text = escape_markdown(text)
    if cell.is_worst and text:
        text = f"**{text}**"
    if cell.detail:
        text += f" ({escape_markdown(to_ascii(cell.detail))})"
    return text
