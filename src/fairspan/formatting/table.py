"""Tables that render to terminals, notebooks and HTML pages.

In HTML all text is escaped. Pages provide a style sheet; in notebooks a small one is embedded that
inherits the surrounding colors.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

from fairspan.formatting.names import breakable_parts, display_name
from fairspan.formatting.numbers import (
    common_decimals,
    format_integer,
    format_number,
    format_share,
    number_with_interval,
    share_decimals,
    share_with_interval,
    to_ascii,
)
from fairspan.formatting.terminal import (
    MAX_WIDTH,
    Styler,
    display_width,
    shorten_names,
    unstyled,
    wrap_text,
)


class _Layout(NamedTuple):
    """Layout of a table on a terminal.

    Attributes
    ----------
    inline_details : bool
        Whether details of cells, such as intervals, are in columns of their own, rather than on
        lines below their row.
    max_name_width : int
    gap : int
        Number of spaces between columns.
    """

    inline_details: bool
    max_name_width: int
    gap: int


# Successively narrower layouts: details move to separate lines before names are shortened very
# much.
_LAYOUTS = (
    _Layout(inline_details=True, max_name_width=32, gap=2),
    _Layout(inline_details=True, max_name_width=32, gap=1),
    _Layout(inline_details=True, max_name_width=18, gap=1),
    _Layout(inline_details=True, max_name_width=15, gap=1),
    _Layout(inline_details=False, max_name_width=32, gap=1),
    _Layout(inline_details=False, max_name_width=18, gap=1),
    _Layout(inline_details=False, max_name_width=15, gap=1),
    _Layout(inline_details=True, max_name_width=11, gap=1),
    _Layout(inline_details=False, max_name_width=11, gap=1),
)
# Rows visible without scrolling in HTML.
_MAX_VISIBLE_ROWS = 16
# Significant digits of sort keys: equal numbers may differ in the last digits by rounding errors.
_SORT_DIGITS = 12
_STYLE_SHEET = """\
.fairspan .scroll{overflow-x:auto}.fairspan .long{max-height:36em;overflow-y:auto}
.fairspan table{border-collapse:collapse;color:inherit;background:none;min-width:24em;
font-variant-numeric:tabular-nums}
.fairspan caption{caption-side:top;color:inherit;text-align:left;padding:0.2em 0.6em}
.fairspan th,.fairspan td{padding:0.2em 0.6em;text-align:right;vertical-align:baseline;
white-space:nowrap}
.fairspan thead th,.fairspan [scope=rowgroup]{vertical-align:bottom;white-space:normal}
.fairspan .text,.fairspan tbody th{text-align:left}
.fairspan tbody th[scope=row]{overflow-wrap:break-word;white-space:normal;min-width:9em;
max-width:24em;font-weight:normal}
.fairspan thead,.fairspan tbody{border-bottom:1px solid currentColor}
.fairspan .below{display:block;font-size:0.85em;font-weight:normal}
.fairspan .worst{font-weight:bold}.fairspan p{margin:0.3em 0.6em}"""


@dataclass(frozen=True)
class Cell:
    """Table cell.

    Attributes
    ----------
    text : str
    sort_value : float, str or None
        Sort value; None sorts last.
    detail : str
        Second, smaller line, such as an interval.
    is_worst : bool
        Whether to emphasize the cell.
    attributes : mapping of str to str
        HTML attributes of the cell.
    """

    text: str
    sort_value: float | str | None = None
    detail: str = ""
    is_worst: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """Column of numbers or text; the heading may end with a group name.

    Attributes
    ----------
    heading : str
    cells : sequence of n Cell
    group : str
        Empty, or a group name that follows the heading.
    detail_heading : str
        Heading of the detail lines; on a terminal, of a separate column.
    is_text : bool
        Text columns are left-aligned, numbers right-aligned.
    is_secondary : bool
        Whether the column is secondary and shown smaller.
    total : Cell
        Footer cell, not sorted.
    """

    heading: str
    cells: Sequence[Cell]
    group: str = ""
    detail_heading: str = ""
    is_text: bool = False
    is_secondary: bool = False
    total: Cell = Cell("")

    @property
    def full_heading(self) -> str:
        """Heading with the group name."""
        return f"{self.heading} {self.group}".strip()


@dataclass(frozen=True)
class Table:
    """Table; sortable on a page if it has several rows and no sections.

    Attributes
    ----------
    caption : str
    columns : tuple of Column
        The first column contains the row names.
    sections : tuple of (int, str)
        Section headings by row position; an empty heading draws a rule.
    notes : tuple of str or (str, str)
        Paragraphs below the table; of a pair, the first text is emphasized.
    highlighted_row : int or None
        Highlighted row.
    muted_rows : tuple of int
        Rows without information, shown muted.
    css_class : str
        CSS class of a table that the page updates; such a table is not sortable.
    """

    caption: str
    columns: tuple[Column, ...]
    sections: tuple[tuple[int, str], ...] = ()
    notes: tuple[str | tuple[str, str], ...] = ()
    highlighted_row: int | None = None
    muted_rows: tuple[int, ...] = ()
    css_class: str = ""

    @classmethod
    def from_texts(
        cls, caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]], **others: Any
    ) -> "Table":
        """Make a table from rows of text; the first column contains row names.

        Cells are sorted by their text. `others` are further attributes of the table, such as notes
        or sections.

        Examples
        --------
        >>> table = Table.from_texts("Errors", ["group", "error"], [["<b>", "1.5"]])
        >>> print(table)
        Errors
        <BLANKLINE>
        group  error
        <b>      1.5
        >>> "<b>" in table.to_html(), "&lt;b&gt;" in table.to_html()
        (False, True)
        """
        columns = [
            Column(heading, [Cell(row[i], sort_value=row[i]) for row in rows], is_text=i == 0)
            for i, heading in enumerate(headings)
        ]
        return cls(caption, tuple(columns), **others)

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        """Cells of each row."""
        return list(zip(*(column.cells for column in self.columns), strict=True))

    def to_text(self, width: int, paint: Styler = unstyled) -> str:
        """Render as text of at most `width` columns, without the notes.

        If it is too wide, names are shortened or the details of cells, such as intervals, moved to
        separate lines; names that would become ambiguous are printed above their row. As a last
        resort every cell gets a line. `paint` adds the terminal's style to emphasized text.
        """
        names = [row[0].text for row in self.rows]
        section_headings = dict(self.sections)
        # Take the first layout that fits. `short_names` is None if names would become equal.
        for layout in _LAYOUTS:
            short_names = shorten_names(names, layout.max_name_width)
            lines, right_edges = self._render_lines(short_names or [""] * len(names), layout, paint)
            if right_edges[-1] <= width:
                break
        is_narrow = right_edges[-1] > width
        text = [*wrap_text(self.caption, width), ""] if self.caption else []
        if not is_narrow:
            text.append(lines[0])
        for i, (name, row) in enumerate(zip(names, self.rows, strict=True)):
            if i in section_headings:
                text.append("-" * min(right_edges[-1], width))
                text += wrap_text(section_headings[i], width, "  ")
            if is_narrow or short_names is None:
                text += wrap_text(f"{self._indent}{name}", width, "    ")
            if is_narrow:
                for line in self._cells_as_lines(row):
                    text += wrap_text(f"    {line}", width, "      ")
                continue
            text.append(lines[i + 1])
            if not layout.inline_details:
                text += self._render_details(row, right_edges)
        return "\n".join(text)

    def _render_details(self, row: Sequence[Cell], right_edges: Sequence[int]) -> list[str]:
        """Render the details of a row on separate lines, each aligned with its column.

        Details share a line if they fit side by side.
        """
        lines: list[str] = []
        for column, cell, right_edge in zip(self.columns, row, right_edges, strict=True):
            if not cell.detail:
                continue
            heading = column.detail_heading.removesuffix(" interval")
            detail = to_ascii(cell.detail)
            if heading:
                detail = f"{heading}: {detail}"
            start = right_edge - display_width(detail)
            if lines and display_width(lines[-1]) < start:
                lines[-1] += " " * (start - display_width(lines[-1])) + detail
            else:
                lines.append(" " * start + detail)
        return lines

    def to_html(self) -> str:
        """Render as HTML with notes."""
        n_rows = len(self.rows)
        # Sorting would separate rows from their section. A table with a class of its own is updated
        # by the page, after which the sort values of its cells would be outdated.
        is_sortable = n_rows > 1 and not self.sections and not self.css_class
        caption = _html_element("caption", escape(self.caption))
        # A row of totals exists if it has a name.
        totals = tuple(column.total for column in self.columns)
        foot = _html_element("tfoot", self._row_to_html(totals)) if totals[0].text else ""
        table = _html_element(
            "table",
            caption + self._head_to_html() + self._bodies_to_html(is_sortable=is_sortable) + foot,
            "sortable" if is_sortable else self.css_class,
        )
        box = _html_element(
            "div",
            table,
            "scroll",
            "long" if n_rows > _MAX_VISIBLE_ROWS else "",
            tabindex="0",
            role="group",
            aria_label=f"Table: {self.caption}",
        )
        return box + self._notes_to_html()

    def _head_to_html(self) -> str:
        """Render the headings, each with its group name and, in smaller type, that of its details.

        CSS classes align columns of text left, and show secondary columns smaller.
        """
        cells = ""
        for column in self.columns:
            group = name_to_html(column.group) if column.group else ""
            heading = f"{escape(column.heading)} {group}".strip()
            css_class = ""
            if column.is_text:
                css_class = "text"
            elif column.is_secondary:
                css_class = "aside"
            content = heading + _detail_to_html(column.detail_heading)
            cells += _html_element("th", content, css_class, scope="col")
        return _html_element("thead", _html_element("tr", cells))

    def _bodies_to_html(self, *, is_sortable: bool) -> str:
        """Render the rows, with CSS classes for the highlighted one and the muted ones."""
        section_headings = dict(self.sections)
        # Each section starts another table body; one without a heading is separated by a rule.
        bodies = [""]
        for i, row in enumerate(self.rows):
            if i in section_headings:
                heading = _html_element(
                    "th",
                    escape(section_headings[i]),
                    scope="rowgroup",
                    colspan=str(len(self.columns)),
                )
                bodies.append(_html_element("tr", heading) if section_headings[i] else "")
            css_class = ""
            if i == self.highlighted_row:
                css_class = "chosen"
            elif i in self.muted_rows:
                css_class = "faint"
            bodies[-1] += self._row_to_html(row, css_class, is_sortable=is_sortable)
        return "".join(_html_element("tbody", body) for body in bodies if body)

    def _notes_to_html(self) -> str:
        paragraphs = ""
        for note in self.notes:
            if isinstance(note, str):
                content = escape(note)
            else:
                emphasized, text = note
                content = _html_element("strong", escape(emphasized)) + escape(text)
            paragraphs += _html_element("p", content)
        return paragraphs

    def __str__(self) -> str:
        return self.to_text(MAX_WIDTH)

    def _repr_html_(self) -> str:
        return f'<style>{_STYLE_SHEET}</style><div class="fairspan">{self.to_html()}</div>'

    @property
    def _indent(self) -> str:
        """Indent of row names under section headings."""
        return "  " if self.sections else ""

    def _render_lines(
        self, names: Sequence[str], layout: _Layout, paint: Styler
    ) -> tuple[list[str], list[int]]:
        """Render the heading and row lines, and return them and the right edge of each column.

        The heading is the first text and may have two lines. With inline details, a column whose
        cells have details, such as intervals, is followed by a column of these.
        """
        first = self.columns[0]
        name_cells = [Cell(f"{self._indent}{name}") for name in names]
        columns = [Column(first.heading, name_cells, is_text=first.is_text)]
        for column in self.columns[1:]:
            columns.append(column)
            if layout.inline_details and any(cell.detail for cell in column.cells):
                detail_cells = [Cell(cell.detail) for cell in column.cells]
                columns.append(Column(column.detail_heading, detail_cells))
        lines = [""] * (len(names) + 2)
        gap = layout.gap
        right_edges = [-gap]
        separator = " " * gap
        for column in columns:
            cells = column.cells
            contents = [cell.text if column.is_text else to_ascii(cell.text) for cell in cells]
            upper_heading = ""
            lower_heading = column.full_heading
            # Break a heading that is wider than its column before its last word.
            if display_width(lower_heading) > max(map(display_width, contents), default=0):
                upper_heading, _, lower_heading = lower_heading.rpartition(" ")
            texts = [upper_heading, lower_heading, *contents]
            widths = list(map(display_width, texts))
            column_width = max(widths)
            right_edges.append(right_edges[-1] + gap + column_width)
            for i, (text, width) in enumerate(zip(texts, widths, strict=True)):
                padding = " " * (column_width - width)
                styled = text
                if i > 1 and cells[i - 2].is_worst:  # after the two lines of the heading
                    styled = paint(text, "worst")
                aligned = f"{styled}{padding}" if column.is_text else f"{padding}{styled}"
                lines[i] += f"{separator}{aligned}"
        # Without the separator before the first column.
        upper_line, lower_line, *row_lines = (line[gap:].rstrip() for line in lines)
        heading_line = f"{upper_line}\n{lower_line}" if upper_line else lower_line
        return [heading_line, *row_lines], right_edges[1:]

    def _cells_as_lines(self, row: Sequence[Cell]) -> list[str]:
        """Render the cells of a row after its name as "heading value", one a line.

        Several cells that are all equal share a line without headings.
        """
        values = []
        for column, cell in zip(self.columns[1:], row[1:], strict=True):
            value = cell.text if column.is_text else to_ascii(cell.text)
            values.append(f"{value} ({to_ascii(cell.detail)})" if cell.detail else value)
        if len(values) > 1 and len(set(values)) == 1:
            return [f"{values[0]} in each column"]
        headings = [column.full_heading for column in self.columns[1:]]
        return [f"{heading}: {value}" for heading, value in zip(headings, values, strict=True)]

    def _row_to_html(
        self, row: Sequence[Cell], css_class: str = "", *, is_sortable: bool = False
    ) -> str:
        """Render a row, with the first cell as its heading; sortable cells carry their sort value.

        CSS classes align text left, show secondary columns smaller and emphasize the worst cells.
        """
        cells = ""
        for i, (column, cell) in enumerate(zip(self.columns, row, strict=True)):
            attributes = dict(cell.attributes)
            if is_sortable:
                attributes["data-value"] = _sort_key(cell.sort_value)
            text = name_to_html(cell.text) if column.is_text else escape(cell.text)
            content = text + _detail_to_html(cell.detail)
            if i == 0:
                cells += _html_element("th", content, scope="row", **attributes)
                continue
            classes = (
                "text" if column.is_text else "",
                "aside" if column.is_secondary else "",
                "worst" if cell.is_worst else "",
            )
            cells += _html_element("td", content, *classes, **attributes)
        return _html_element("tr", cells, css_class)


def _html_element(tag: str, content: str, *classes: str, **attributes: str) -> str:
    """Make an HTML element with the non-empty classes; attribute values are escaped."""
    if any(classes):
        attributes["class"] = " ".join(filter(None, classes))
    attribute_text = "".join(
        f' {name.replace("_", "-")}="{escape(value)}"' for name, value in attributes.items()
    )
    return f"<{tag}{attribute_text}>{content}</{tag}>"


def _sort_key(value: float | str | None) -> str:
    """Sort key of a cell, rounded to ignore rounding errors."""
    if isinstance(value, float):
        return f"{value + 0.0:.{_SORT_DIGITS}g}"
    return "" if value is None else str(value)


def _detail_to_html(text: str) -> str:
    return _html_element("span", escape(text), "below") if text else ""


def name_to_html(name: str) -> str:
    """Render a name as HTML, with bidirectional isolation and line-break opportunities.

    Examples
    --------
    >>> name_to_html("a_<b>")
    '<bdi>a_<wbr>&lt;b&gt;</bdi>'
    """
    parts = breakable_parts(display_name(name))
    return _html_element("bdi", "<wbr>".join(map(escape, parts)))


def name_column(heading: str, names: Sequence[str], total: str = "") -> Column:
    """Column of names or other text."""
    return Column(heading, [Cell(name, name) for name in names], is_text=True, total=Cell(total))


def number_column(
    heading: str,
    values: Sequence[float | None],
    *,
    intervals: Sequence[tuple[float | None, float | None]] | None = None,
    detail_heading: str = "",
    worst_rows: Container[int] = (),
    total: float | None = None,
) -> Column:
    """Column of numbers with common decimals and optional intervals.

    An interval is the detail of its cell; limits of None show none. `detail_heading` is the heading
    of the intervals, left out if there are none. Cells of `worst_rows` (positions) are emphasized,
    and `total` is the number in the footer.

    Examples
    --------
    >>> column = number_column("loss", [1.25, 0.5], intervals=[(1.0, 1.5), (None, None)])
    >>> [cell.text for cell in column.cells], column.cells[0].detail.split()
    (['1.250', '0.500'], ['1.000', 'to', '1.500'])
    """
    decimals = common_decimals([*values, total])
    if not intervals:
        intervals = [(None, None)] * len(values)
    cells = []
    for i, (value, (low, high)) in enumerate(zip(values, intervals, strict=True)):
        text, interval = number_with_interval(value, low, high, decimals)
        cells.append(Cell(text, value, detail=interval, is_worst=i in worst_rows))
    has_intervals = any(cell.detail for cell in cells)
    return Column(
        heading,
        cells,
        detail_heading=detail_heading if has_intervals else "",
        total=Cell("" if total is None else format_number(total, decimals)),
    )


def share_estimate_column(
    heading: str,
    shares: Sequence[float | None],
    intervals: Sequence[tuple[float | None, float | None]],
    *,
    detail_heading: str = "",
    worst_rows: Container[int] = (),
    shows_intervals: bool = True,
    threshold: float | None = None,
) -> Column:
    """Column of shares in percent, with enough decimals for their intervals.

    Parameters as for :func:`number_column`. Unless `shows_intervals`, the intervals only determine
    the decimals. No share is rounded to the `threshold` that shares are compared with.

    Examples
    --------
    >>> column = share_estimate_column("loss", [0.031], [(0.02, 0.04)])
    >>> column.cells[0].text.split(), column.cells[0].detail.split()
    (['3.1', '%'], ['2.0', 'to', '4.0', '%'])
    """
    decimals = share_decimals(intervals)
    cells = []
    for i, (share, (low, high)) in enumerate(zip(shares, intervals, strict=True)):
        text, interval = share_with_interval(share, low, high, decimals, threshold)
        detail = interval if shows_intervals else ""
        cells.append(Cell(text, share, detail=detail, is_worst=i in worst_rows))
    has_details = any(cell.detail for cell in cells)
    return Column(heading, cells, detail_heading=detail_heading if has_details else "")


def estimate_column(
    heading: str,
    records: Sequence[Mapping[str, Any]],
    key: str,
    *,
    detail_heading: str = "",
    total: float | None = None,
) -> Column:
    """Column of estimates with their intervals.

    Each record is one row, with the entries `KEY`, `KEY_low` and `KEY_high`, where KEY is `key`.
    `detail_heading` is the heading of the intervals, and `total` the number in the footer.
    """
    values = [record[key] for record in records]
    intervals = [(record[f"{key}_low"], record[f"{key}_high"]) for record in records]
    return number_column(
        heading, values, intervals=intervals, detail_heading=detail_heading, total=total
    )


def row_count_column(records: Sequence[Mapping[str, Any]]) -> Column:
    """Column of row counts, with cluster counts as details if available."""
    cells = []
    for record in records:
        n_rows = record["n_rows"]
        n_clusters = record["n_clusters"]
        # A group without rows has a dash, as for a missing number.
        text = format_integer(n_rows) if n_rows else format_number(None)
        detail = "" if n_clusters is None else format_integer(n_clusters)
        cells.append(Cell(text, n_rows, detail=detail))
    has_clusters = any(cell.detail for cell in cells)
    return Column("rows", cells, detail_heading="clusters" if has_clusters else "")


def share_column(heading: str, values: Sequence[float | None]) -> Column:
    """Column of shares in percent."""
    return Column(heading, [Cell(format_share(value), value) for value in values])
