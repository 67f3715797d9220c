"""One table, made of columns once, and shown on a terminal, in a notebook and on a page.

In HTML every text stays a text, whatever markup a name from the data holds. A page has a style
sheet; a notebook gets a small one beside the table, which takes the colours around it.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from fairspan.formatting.text import (
    MAX_WIDTH,
    Styler,
    breakable_parts,
    common_decimals,
    display_name,
    display_width,
    format_integer,
    format_number,
    format_share,
    number_with_interval,
    shorten_names,
    to_ascii,
    unstyled,
    wrap_text,
)

# How a table is made narrower on a terminal: whether intervals stand beside their figures, the
# longest name, and blanks between columns. Intervals go below before names are cut very short.
_LAYOUTS = (
    (True, 32, 2),
    *((True, longest, 1) for longest in (32, 18, 15)),
    *((False, longest, 1) for longest in (32, 18, 15)),
    *((True, 11, 1), (False, 11, 1)),
)
# Rows that a page or a notebook shows at once; more of them scroll.
_MAX_VISIBLE_ROWS = 16
# Of figures that a table sorts by.
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
    """One cell.

    Attributes
    ----------
    text : str
    value : float, str or None
        What it sorts by; None comes last.
    below : str
        A second, smaller line, such as an interval.
    is_worst : bool
        Whether it stands out.
    attributes : mapping of str to str
        Of its element on a page.
    """

    text: str
    sort_value: float | str | None = None
    detail: str = ""
    is_worst: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """A column of figures, or of words; its heading may end with a group's name.

    Attributes
    ----------
    heading : str
    cells : sequence of n Cell
    group : str
        Empty, or a group's name that follows the heading.
    below : str
        What the second lines of the cells are: on a terminal, the heading of a column of these.
    is_text : bool
        Words, to the left; figures are to the right.
    is_secondary : bool
        Whether it says less than the others, and is smaller.
    total : Cell
        Below the others, wherever these are sorted to.
    """

    heading: str
    cells: Sequence[Cell]
    group: str = ""
    detail_heading: str = ""
    is_text: bool = False
    is_secondary: bool = False
    total: Cell = Cell("")


@dataclass(frozen=True)
class Table:
    """A table; without sections and with several rows it can be sorted on a page.

    Attributes
    ----------
    caption : str
    columns : tuple of Column
        The first has the names of the rows.
    sections : tuple of (int, str)
        Headings, each above the row of this position; an empty one draws a line alone.
    notes : tuple of str or (str, str)
        Paragraphs below it, the first of two texts emphasised.
    chosen : int or None
        The row that stands out.
    faint : tuple of int
        Rows without information.
    kind : str
        Class of a table whose figures a page changes; it is not sorted.
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
        """A table of texts as they are, the names of the rows to the left of the others.

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
            Column(heading, [Cell(row[i], row[i]) for row in rows], is_text=i == 0)
            for i, heading in enumerate(headings)
        ]
        return cls(caption, tuple(columns), **others)

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        """The cells of each row."""
        return list(zip(*(column.cells for column in self.columns), strict=True))

    def to_text(self, width: int, paint: Styler = unstyled) -> str:
        """Lines of at most `width` columns, without the notes.

        What is too wide gets shorter names, or each interval on its own line; names that would look
        the same when cut stand above their figures. Where that is still too wide, every row is a
        paragraph.
        """
        names, heads = [row[0].text for row in self.rows], dict(self.sections)
        for inline_details, longest, gap in _LAYOUTS:
            cut = shorten_names(names, longest)
            lines, ends = self._render_lines(
                cut or [""] * len(names), gap, paint, inline_details=inline_details
            )
            if ends[-1] <= width:
                break
        is_narrow = ends[-1] > width
        text = [*wrap_text(self.caption, width), ""] if self.caption else []
        text += [] if is_narrow else lines[:1]
        for i, (name, row) in enumerate(zip(names, self.rows, strict=True)):
            if i in heads:
                text += ["-" * min(ends[-1], width), *wrap_text(heads[i], width, "  ")]
            if is_narrow or cut is None:
                text += wrap_text(f"{self._indent}{name}", width, "    ")
            if is_narrow:
                text += wrap_text(f"    {self._row_as_text(row)}", width, "    ")
                continue
            text.append(lines[i + 1])
            text += [
                f"{column.detail_heading.removesuffix(' interval')}: {to_ascii(cell.detail)}".rjust(
                    end
                )
                for column, cell, end in zip(self.columns, row, ends, strict=not inline_details)
                if cell.detail and not inline_details
            ]
        return "\n".join(text)

    def to_html(self) -> str:
        """The table, for a page or a notebook, with its notes."""
        rows, heads, m = self.rows, dict(self.sections), str(len(self.columns))
        is_sorted = len(rows) > 1 and not heads and not self.css_class
        bodies = [""]
        for i, row in enumerate(rows):
            if i in heads:
                heading = _html_element("th", escape(heads[i]), scope="rowgroup", colspan=m)
                bodies.append(_html_element("tr", heading) if heads[i] else "")
            kind = (
                "chosen" if i == self.highlighted_row else "faint" if i in self.muted_rows else ""
            )
            bodies[-1] += self._row_to_html(row, kind, is_sorted=is_sorted)
        totals = tuple(column.total for column in self.columns)
        head = "".join(
            _html_element(
                "th",
                f"{escape(each.heading)} {name_to_html(each.group) if each.group else ''}".strip()
                + _detail_to_html(each.detail_heading),
                "text" if each.is_text else "aside" if each.is_secondary else "",
                scope="col",
            )
            for each in self.columns
        )
        table = _html_element(
            "table",
            _html_element("caption", escape(self.caption))
            + _html_element("thead", _html_element("tr", head))
            + "".join(_html_element("tbody", body) for body in bodies if body)
            + (_html_element("tfoot", self._row_to_html(totals)) if totals[0].text else ""),
            "sortable" if is_sorted else self.css_class,
        )
        long, label = "long" if len(rows) > _MAX_VISIBLE_ROWS else "", f"Table: {self.caption}"
        box = _html_element(
            "div", table, "scroll", long, tabindex="0", role="group", aria_label=label
        )
        return box + "".join(
            _html_element("p", escape(each))
            if isinstance(each, str)
            else _html_element("p", _html_element("strong", escape(each[0])) + escape(each[1]))
            for each in self.notes
        )

    def __str__(self) -> str:
        return self.to_text(MAX_WIDTH)

    def _repr_html_(self) -> str:
        return f'<style>{_STYLE_SHEET}</style><div class="fairspan">{self.to_html()}</div>'

    @property
    def _indent(self) -> str:
        """Before names, where these stand under headings."""
        return "  " if self.sections else ""

    def _render_lines(
        self, names: Sequence[str], gap: int, paint: Styler, *, inline_details: bool
    ) -> tuple[list[str], list[int]]:
        """The line of the headings and those of the rows; and where each column ends."""
        first = self.columns[0]
        indented = [Cell(f"{self._indent}{each}") for each in names]
        shown: list[tuple[str, Sequence[Cell], bool]] = [(first.heading, indented, first.is_text)]
        for column in self.columns[1:]:
            shown.append((column.heading, column.cells, column.is_text))
            if inline_details and any(cell.detail for cell in column.cells):
                shown.append(
                    (column.detail_heading, [Cell(cell.detail) for cell in column.cells], False)
                )
        lines, ends, between = [""] * (len(names) + 2), [-gap], " " * gap
        for heading, cells, is_text in shown:
            figures = [each.text if is_text else to_ascii(each.text) for each in cells]
            # A heading that is wider than what stands below it has its last word there.
            above, _, last = heading.rpartition(" ")
            if display_width(heading) <= max(map(display_width, figures), default=0):
                above, last = "", heading
            texts = [above, last, *figures]
            widths = list(map(display_width, texts))
            widest = max(widths)
            ends.append(ends[-1] + gap + widest)
            for i, (text, width) in enumerate(zip(texts, widths, strict=True)):
                blank = " " * (widest - width)
                text = paint(text, "worst") if i > 1 and cells[i - 2].is_worst else text
                lines[i] += f"{between}{text}{blank}" if is_text else f"{between}{blank}{text}"
        above, heads, *rows = (line[gap:].rstrip() for line in lines)
        return [f"{above}\n{heads}" if above else heads, *rows], ends[1:]

    def _row_as_text(self, row: Sequence[Cell]) -> str:
        """The figures of a row, each after its heading."""
        return ", ".join(
            f"{column.heading} {cell.text if column.is_text else to_ascii(cell.text)}"
            + f" ({to_ascii(cell.detail)})" * bool(cell.detail)
            for column, cell in zip(self.columns[1:], row[1:], strict=True)
        )

    def _row_to_html(self, row: Sequence[Cell], kind: str = "", *, is_sorted: bool = False) -> str:
        cells = ""
        for i, (column, cell) in enumerate(zip(self.columns, row, strict=True)):
            told = dict(cell.attributes)
            if is_sorted:
                told["data-value"] = _sort_key(cell.sort_value)
            text = name_to_html(cell.text) if column.is_text else escape(cell.text)
            shown = text + _detail_to_html(cell.detail)
            kinds = "text" * column.is_text, "aside" * column.is_secondary, "worst" * cell.is_worst
            of_cell = _html_element("td", shown, *kinds, **told)
            cells += of_cell if i else _html_element("th", shown, scope="row", **told)
        return _html_element("tr", cells, kind)


def _html_element(tag: str, content: str, *classes: str, **attributes: str) -> str:
    """An element of HTML, with those of its classes that are not empty; attributes are escaped."""
    if any(classes):
        attributes["class"] = " ".join(filter(None, classes))
    told = "".join(
        f' {name.replace("_", "-")}="{escape(value)}"' for name, value in attributes.items()
    )
    return f"<{tag}{told}>{content}</{tag}>"


def _sort_key(value: float | str | None) -> str:
    """What a cell sorts by; the last digits of a float are left to rounding."""
    if isinstance(value, float):
        return f"{value + 0.0:.{_SORT_DIGITS}g}"
    return "" if value is None else str(value)


def _detail_to_html(text: str) -> str:
    return _html_element("span", escape(text), "below") if text else ""


def name_to_html(name: str) -> str:
    """A name from the data, apart from the direction of what is around it, and where it may break.

    Examples
    --------
    >>> name_to_html("a_<b>")
    '<bdi>a_<wbr>&lt;b&gt;</bdi>'
    """
    return _html_element("bdi", "<wbr>".join(map(escape, breakable_parts(display_name(name)))))


def name_column(heading: str, names: Sequence[str], total: str = "") -> Column:
    """The names of groups, models or steps; or other words."""
    return Column(heading, [Cell(each, each) for each in names], is_text=True, total=Cell(total))


def number_column(
    heading: str,
    values: Sequence[float | None],
    *,
    intervals: Sequence[tuple[float | None, float | None]] | None = None,
    detail_heading: str = "",
    worst_rows: Container[int] = (),
    total: float | None = None,
) -> Column:
    """Figures of one number of decimals, with their intervals below.

    Examples
    --------
    >>> column = number_column("loss", [1.25, 0.5], ends=[(1.0, 1.5), (None, None)])
    >>> [cell.text for cell in column.cells], column.cells[0].below.split()
    (['1.250', '0.500'], ['1.000', 'to', '1.500'])
    """
    decimals = common_decimals([*values, total])
    cells = []
    for i, (value, (low, high)) in enumerate(
        zip(values, intervals or [(None, None)] * len(values), strict=True)
    ):
        figure, around = number_with_interval(value, low, high, decimals)
        cells.append(Cell(figure, value, around, i in worst_rows))
    last = Cell("" if total is None else format_number(total, decimals))
    has_ends = any(cell.detail for cell in cells)
    return Column(heading, cells, detail_heading=detail_heading if has_ends else "", total=last)


def estimate_column(
    heading: str,
    records: Sequence[Mapping[str, Any]],
    key: str,
    *,
    below: str = "",
    total: float | None = None,
) -> Column:
    """Figures, each with the interval below that its record has beside it."""
    values = [each[key] for each in records]
    ends = [(each[f"{key}_low"], each[f"{key}_high"]) for each in records]
    return number_column(heading, values, intervals=ends, detail_heading=below, total=total)


def row_count_column(records: Sequence[Mapping[str, Any]]) -> Column:
    """How many rows each group has, and below of how many clusters, where its record says that."""
    cells = [
        Cell(
            format_integer(each["n_rows"]) if each["n_rows"] else format_number(None),
            each["n_rows"],
            "" if each["n_clusters"] is None else format_integer(each["n_clusters"]),
        )
        for each in records
    ]
    return Column(
        "rows", cells, detail_heading="clusters" if any(cell.detail for cell in cells) else ""
    )


def share_column(heading: str, values: Sequence[float | None]) -> Column:
    """Shares in percent."""
    return Column(heading, [Cell(format_share(value), value) for value in values])
