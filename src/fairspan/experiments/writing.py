"""Results as text, CSV and pictures."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

from fairspan.drawing.files import empty_figure, save
from fairspan.drawing.palette import STYLE
from fairspan.errors import MissingDependency
from fairspan.experiments.experiment import Cell, Result
from fairspan.storage import replacing

_WIDTH = 100
_FORMATS = ("svg", "png")


def text_of(result: Result) -> str:
    """The table with aligned columns, texts to the left and figures to the right, and the notes."""
    cells = [[shown(cell) for cell in row] for row in result.rows]
    to_the_right = [
        any(isinstance(row[i], int | float) for row in result.rows)
        and not any(isinstance(row[i], str | bool) for row in result.rows)
        for i in range(len(result.columns))
    ]
    widths = [max(map(len, column)) for column in zip(result.columns, *cells, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, to_the_right, strict=True)
        ).rstrip()
        for row in [result.columns, ["-" * width for width in widths], *cells]
    ]
    notes = ["\n".join(wrap(note, _WIDTH, subsequent_indent="  ")) for note in result.notes]
    return "\n".join([result.title, "", *lines, *(["", *notes] if notes else [])])


def shown(cell: Cell) -> str:
    """A value as tables show it: five significant digits, nothing for None.

    Examples
    --------
    >>> shown(13.946173), shown(22), shown(2.5e-12), shown(None), shown("LFW")
    ('13.946', '22', '2.5e-12', '', 'LFW')
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    # Infinite and missing values are spelled inf and nan.
    return f"{cell:.5g}" if isinstance(cell, float) else str(cell)


def csv_of(result: Result) -> str:
    """The table as CSV, figures with all their digits, nothing for None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows(["" if cell is None else _whole(cell) for cell in row] for row in result.rows)
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
    with replacing(table) as partial:
        partial.write_text(csv_of(result), encoding="utf-8", newline="")
    if result.draw is None:
        return [table], None
    try:
        return [table, *_write_figures(result, folder, name)], None
    except MissingDependency as error:
        return [table], str(error)


def _write_figures(result: Result, folder: Path, name: str) -> Sequence[Path]:
    assert result.draw is not None
    figure = empty_figure("The figure")
    paths = [folder / f"{name}.{ending}" for ending in _FORMATS]
    from matplotlib import rc_context

    with rc_context(STYLE):
        result.draw(figure)
    for path, ending in zip(paths, _FORMATS, strict=True):
        with replacing(path) as partial:
            save(figure, partial, ending)
    return paths


def _whole(cell: Cell) -> Cell:
    # repr of a numpy float would name its type; of a Python float it is the shortest exact text.
    return repr(float(cell)) if isinstance(cell, float) else cell
