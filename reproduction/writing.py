"""Results as text, CSV and pictures."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from fairspan.displays.base_display import SAVE_METADATA, new_figure, reproducible_svg
from fairspan.displays.style import STYLE
from fairspan.errors import MissingDependency
from fairspan.formatting.terminal import display_width, wrap_text
from fairspan.storage.atomic import open_atomic
from reproduction.experiment import Cell, Result

_WIDTH = 80
_FORMATS = ("svg", "png")


def text_of(result: Result, width: int = _WIDTH) -> str:
    """Format the table with texts aligned left and figures right, and the notes below.

    Columns that do not fit into `width` follow below, beside the first ones again.
    """
    cells = [[format_cell(cell) for cell in row] for row in result.rows]
    columns = [
        _align_column([heading, *(row[i] for row in cells)], [row[i] for row in result.rows])
        for i, heading in enumerate(result.columns)
    ]
    lines: list[str] = []
    for part in _parts(columns, _n_naming_columns(cells), width):
        table = ["  ".join(line).rstrip() for line in zip(*part, strict=True)]
        lines += [""] * bool(lines) + table
    notes = ["\n".join(wrap_text(note, width, "  ")) for note in result.notes]
    title = wrap_text(result.title, width)
    return "\n".join([*title, "", *lines, *(["", *notes] if notes else [])])


def _align_column(texts: Sequence[str], values: Sequence[Cell]) -> list[str]:
    """Align a column under its heading and a line."""
    width = max(map(display_width, texts))
    is_figures = any(isinstance(value, int | float) for value in values) and not any(
        isinstance(value, str | bool) for value in values
    )
    padded = [
        " " * (width - display_width(text)) + text
        if is_figures
        else text + " " * (width - display_width(text))
        for text in texts
    ]
    return [padded[0], "-" * width, *padded[1:]]


def _n_naming_columns(cells: Sequence[Sequence[str]]) -> int:
    """Return the number of first columns that distinguish all rows; one if none does."""
    n_columns = len(cells[0]) if cells else 1
    for n in range(1, n_columns):
        if len({tuple(row[:n]) for row in cells}) == len(cells):
            return n
    return 1


def _parts(columns: Sequence[list[str]], n_naming: int, width: int) -> list[list[list[str]]]:
    """Return parts of the columns that fit the width, each after those that name the rows."""
    naming = list(columns[:n_naming])
    others = columns[n_naming:]
    parts = [list(naming)]
    for column in others:
        wide = sum(display_width(cells[0]) + 2 for cells in [*parts[-1], column]) - 2
        if wide > width and len(parts[-1]) > n_naming:
            parts.append(list(naming))
        parts[-1].append(column)
    return parts


def format_cell(cell: Cell) -> str:
    """Format a value for tables: five significant digits, an empty text for None.

    Examples
    --------
    >>> [format_cell(cell) for cell in (13.946173, 22, 2.5e-12, None, "LFW")]
    ['13.946', '22', '2.5e-12', '', 'LFW']
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    # Infinite and missing values are spelled inf and nan.
    return f"{cell:.5g}" if isinstance(cell, float) else str(cell)


def csv_of(result: Result) -> str:
    """Format the table as CSV, figures with all digits, empty cells for None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows(
        ["" if cell is None else _exact_text(cell) for cell in row] for row in result.rows
    )
    return text.getvalue()


def write_result(result: Result, folder: Path, name: str) -> tuple[list[Path], str | None]:
    """Write NAME.csv, and the figure as NAME.svg and NAME.png if there is one.

    Each file appears only when it is complete.

    Returns
    -------
    paths : list of Path
        What was written.
    missing : str or None
        Why there is no figure, if it needs a package that is not installed.
    """
    table = folder / f"{name}.csv"
    with open_atomic(table) as file:
        file.write(csv_of(result).encode())
    if result.draw is None:
        return [table], None
    try:
        return [table, *_write_figures(result, folder, name)], None
    except MissingDependency as error:
        return [table], str(error)


def _write_figures(result: Result, folder: Path, name: str) -> Sequence[Path]:
    assert result.draw is not None
    figure = new_figure("The figure")
    paths = [folder / f"{name}.{ending}" for ending in _FORMATS]
    from matplotlib import rc_context

    with rc_context(STYLE):
        result.draw(figure)
    for path, ending in zip(paths, _FORMATS, strict=True):
        with open_atomic(path) as file, reproducible_svg("fairspan"):
            figure.savefig(file, format=ending, metadata=SAVE_METADATA[ending])
    return paths


def _exact_text(cell: Cell) -> Cell:
    # repr of a numpy float would name its type; of a Python float it is the shortest exact text.
    return repr(float(cell)) if isinstance(cell, float) else cell
