"""One table, made of columns once, and shown on a terminal, in a notebook and on a page.

In HTML every text stays a text, whatever markup a name from the data holds. A page has a style
sheet; a notebook gets a small one beside the table, which takes the colours around it.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from fairspan.formatting.text import (
    WIDTH,
    Paint,
    called,
    cut_names,
    decimals_of,
    in_ascii,
    number,
    number_with_interval,
    parts,
    plain,
    share,
    terminal_width,
    whole,
    wrapped,
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
_MOST_ROWS = 16
# Of figures that a table sorts by.
_DIGITS = 12
_SHEET = """\
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
    value: float | str | None = None
    below: str = ""
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
    is_aside : bool
        Whether it says less than the others, and is smaller.
    total : Cell
        Below the others, wherever these are sorted to.
    """

    heading: str
    cells: Sequence[Cell]
    group: str = ""
    below: str = ""
    is_text: bool = False
    is_aside: bool = False
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
    chosen: int | None = None
    faint: tuple[int, ...] = ()
    kind: str = ""

    @classmethod
    def of_texts(
        cls, caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]], **others: Any
    ) -> "Table":
        """A table of texts as they are, the names of the rows to the left of the others.

        Examples
        --------
        >>> table = Table.of_texts("Errors", ["group", "error"], [["<b>", "1.5"]])
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

    def to_text(self, width: int, paint: Paint = plain) -> str:
        """Lines of at most `width` columns, without the notes.

        What is too wide gets shorter names, or each interval on its own line; names that would look
        the same when cut stand above their figures. Where that is still too wide, every row is a
        paragraph.
        """
        names, heads = [row[0].text for row in self.rows], dict(self.sections)
        for is_beside, longest, gap in _LAYOUTS:
            cut = cut_names(names, longest)
            lines, ends = self._aligned(cut or [""] * len(names), gap, paint, is_beside=is_beside)
            if ends[-1] <= width:
                break
        is_narrow = ends[-1] > width
        text = [*wrapped(self.caption, width), ""] if self.caption else []
        text += [] if is_narrow else lines[:1]
        for i, (name, row) in enumerate(zip(names, self.rows, strict=True)):
            if i in heads:
                text += ["-" * min(ends[-1], width), *wrapped(heads[i], width, "  ")]
            if is_narrow or cut is None:
                text += wrapped(f"{self._indent}{name}", width, "    ")
            if is_narrow:
                text += wrapped(f"    {self._in_words(row)}", width, "    ")
                continue
            text.append(lines[i + 1])
            text += [
                f"{column.below.removesuffix(' interval')}: {in_ascii(cell.below)}".rjust(end)
                for column, cell, end in zip(self.columns, row, ends, strict=not is_beside)
                if cell.below and not is_beside
            ]
        return "\n".join(text)

    def to_html(self) -> str:
        """The table, for a page or a notebook, with its notes."""
        rows, heads, m = self.rows, dict(self.sections), str(len(self.columns))
        is_sorted = len(rows) > 1 and not heads and not self.kind
        bodies = [""]
        for i, row in enumerate(rows):
            if i in heads:
                heading = _element("th", escape(heads[i]), scope="rowgroup", colspan=m)
                bodies.append(_element("tr", heading) if heads[i] else "")
            kind = "chosen" if i == self.chosen else "faint" if i in self.faint else ""
            bodies[-1] += self._row_in_html(row, kind, is_sorted=is_sorted)
        totals = tuple(column.total for column in self.columns)
        head = "".join(
            _element(
                "th",
                f"{escape(each.heading)} {name_in_html(each.group) if each.group else ''}".strip()
                + _below_in_html(each.below),
                "text" if each.is_text else "aside" if each.is_aside else "",
                scope="col",
            )
            for each in self.columns
        )
        table = _element(
            "table",
            _element("caption", escape(self.caption))
            + _element("thead", _element("tr", head))
            + "".join(_element("tbody", body) for body in bodies if body)
            + (_element("tfoot", self._row_in_html(totals)) if totals[0].text else ""),
            "sortable" if is_sorted else self.kind,
        )
        long, label = "long" if len(rows) > _MOST_ROWS else "", f"Table: {self.caption}"
        box = _element("div", table, "scroll", long, tabindex="0", role="group", aria_label=label)
        return box + "".join(
            _element("p", escape(each))
            if isinstance(each, str)
            else _element("p", _element("strong", escape(each[0])) + escape(each[1]))
            for each in self.notes
        )

    def __str__(self) -> str:
        return self.to_text(WIDTH)

    def _repr_html_(self) -> str:
        return f'<style>{_SHEET}</style><div class="fairspan">{self.to_html()}</div>'

    @property
    def _indent(self) -> str:
        """Before names, where these stand under headings."""
        return "  " if self.sections else ""

    def _aligned(
        self, names: Sequence[str], gap: int, paint: Paint, *, is_beside: bool
    ) -> tuple[list[str], list[int]]:
        """The line of the headings and those of the rows; and where each column ends."""
        first = self.columns[0]
        indented = [Cell(f"{self._indent}{each}") for each in names]
        shown: list[tuple[str, Sequence[Cell], bool]] = [(first.heading, indented, first.is_text)]
        for column in self.columns[1:]:
            shown.append((column.heading, column.cells, column.is_text))
            if is_beside and any(cell.below for cell in column.cells):
                shown.append((column.below, [Cell(cell.below) for cell in column.cells], False))
        lines, ends, between = [""] * (len(names) + 2), [-gap], " " * gap
        for heading, cells, is_text in shown:
            figures = [each.text if is_text else in_ascii(each.text) for each in cells]
            # A heading that is wider than what stands below it has its last word there.
            above, _, last = heading.rpartition(" ")
            if terminal_width(heading) <= max(map(terminal_width, figures), default=0):
                above, last = "", heading
            texts = [above, last, *figures]
            widths = list(map(terminal_width, texts))
            widest = max(widths)
            ends.append(ends[-1] + gap + widest)
            for i, (text, width) in enumerate(zip(texts, widths, strict=True)):
                blank = " " * (widest - width)
                text = paint(text, "worst") if i > 1 and cells[i - 2].is_worst else text
                lines[i] += f"{between}{text}{blank}" if is_text else f"{between}{blank}{text}"
        above, heads, *rows = (line[gap:].rstrip() for line in lines)
        return [f"{above}\n{heads}" if above else heads, *rows], ends[1:]

    def _in_words(self, row: Sequence[Cell]) -> str:
        """The figures of a row, each after its heading."""
        return ", ".join(
            f"{column.heading} {cell.text if column.is_text else in_ascii(cell.text)}"
            + f" ({in_ascii(cell.below)})" * bool(cell.below)
            for column, cell in zip(self.columns[1:], row[1:], strict=True)
        )

    def _row_in_html(self, row: Sequence[Cell], kind: str = "", *, is_sorted: bool = False) -> str:
        cells = ""
        for i, (column, cell) in enumerate(zip(self.columns, row, strict=True)):
            told = dict(cell.attributes)
            if is_sorted:
                told["data-value"] = _sorting_text(cell.value)
            text = name_in_html(cell.text) if column.is_text else escape(cell.text)
            shown = text + _below_in_html(cell.below)
            kinds = "text" * column.is_text, "aside" * column.is_aside, "worst" * cell.is_worst
            of_cell = _element("td", shown, *kinds, **told)
            cells += of_cell if i else _element("th", shown, scope="row", **told)
        return _element("tr", cells, kind)


def _element(tag: str, content: str, *kinds: str, **attributes: str) -> str:
    """An element of HTML, with those of its classes that are not empty; attributes are escaped."""
    if any(kinds):
        attributes["class"] = " ".join(filter(None, kinds))
    told = "".join(
        f' {name.replace("_", "-")}="{escape(value)}"' for name, value in attributes.items()
    )
    return f"<{tag}{told}>{content}</{tag}>"


def _sorting_text(value: float | str | None) -> str:
    """What a cell sorts by; the last digits of a float are left to rounding."""
    if isinstance(value, float):
        return f"{value + 0.0:.{_DIGITS}g}"
    return "" if value is None else str(value)


def _below_in_html(text: str) -> str:
    return _element("span", escape(text), "below") if text else ""


def name_in_html(name: str) -> str:
    """A name from the data, apart from the direction of what is around it, and where it may break.

    Examples
    --------
    >>> name_in_html("a_<b>")
    '<bdi>a_<wbr>&lt;b&gt;</bdi>'
    """
    return _element("bdi", "<wbr>".join(map(escape, parts(called(name)))))


def names_column(heading: str, names: Sequence[str], total: str = "") -> Column:
    """The names of groups, models or steps; or other words."""
    return Column(heading, [Cell(each, each) for each in names], is_text=True, total=Cell(total))


def figures_column(
    heading: str,
    values: Sequence[float | None],
    *,
    ends: Sequence[tuple[float | None, float | None]] | None = None,
    below: str = "",
    worst: Container[int] = (),
    total: float | None = None,
) -> Column:
    """Figures of one number of decimals, with their intervals below.

    Examples
    --------
    >>> column = figures_column("loss", [1.25, 0.5], ends=[(1.0, 1.5), (None, None)])
    >>> [cell.text for cell in column.cells], column.cells[0].below.split()
    (['1.250', '0.500'], ['1.000', 'to', '1.500'])
    """
    decimals = decimals_of([*values, total])
    cells = []
    for i, (value, (low, high)) in enumerate(
        zip(values, ends or [(None, None)] * len(values), strict=True)
    ):
        figure, around = number_with_interval(value, low, high, decimals)
        cells.append(Cell(figure, value, around, i in worst))
    last = Cell("" if total is None else number(total, decimals))
    has_ends = any(cell.below for cell in cells)
    return Column(heading, cells, below=below if has_ends else "", total=last)


def estimates_column(
    heading: str,
    records: Sequence[Mapping[str, Any]],
    what: str,
    *,
    below: str = "",
    total: float | None = None,
) -> Column:
    """Figures, each with the interval below that its record has beside it."""
    values = [each[what] for each in records]
    ends = [(each[f"{what}_low"], each[f"{what}_high"]) for each in records]
    return figures_column(heading, values, ends=ends, below=below, total=total)


def rows_column(records: Sequence[Mapping[str, Any]]) -> Column:
    """How many rows each group has, and below of how many clusters, where its record says that."""
    cells = [
        Cell(
            whole(each["n"]) if each["n"] else number(None),
            each["n"],
            "" if each["n_clusters"] is None else whole(each["n_clusters"]),
        )
        for each in records
    ]
    return Column("rows", cells, below="clusters" if any(cell.below for cell in cells) else "")


def shares_column(heading: str, values: Sequence[float | None]) -> Column:
    """Shares in percent."""
    return Column(heading, [Cell(share(value), value) for value in values])
