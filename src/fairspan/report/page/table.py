"""A table of the audit page: plain texts with the values that they sort by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes
    ----------
    text : str
    value : float, str or None
        What it sorts by; None comes last.
    below : str
        A second, smaller line.
    """

    text: str
    value: float | str | None = None
    below: str = ""


@dataclass(frozen=True)
class Row:
    """A name and the cells beside it.

    Attributes
    ----------
    name : Cell
    cells : tuple of Cell
    is_chosen : bool
        Whether it stands out.
    """

    name: Cell
    cells: tuple[Cell, ...]
    is_chosen: bool = False


@dataclass(frozen=True)
class Heading:
    """The heading of a column: of figures, or of words; before a group's name, what is told of it.

    Attributes
    ----------
    text : str
    group : str
        Empty, or a group's name that follows the text.
    is_text : bool
    """

    text: str
    group: str = ""
    is_text: bool = False


@dataclass(frozen=True)
class Table:
    """A table with a caption; those of several rows can be sorted.

    Attributes
    ----------
    caption : str
    headings : tuple of m Heading
        The first is that of the names.
    rows : tuple of Row
        Each with m - 1 cells.
    totals : tuple of Row
        Below, wherever the others are sorted to.
    """

    caption: str
    headings: tuple[Heading, ...]
    rows: tuple[Row, ...]
    totals: tuple[Row, ...] = ()

    @property
    def is_sortable(self) -> bool:
        """Whether there is more than one order."""
        return len(self.rows) > 1
