"""How pictures look: colours, markers and lines, and the text around: names, title, note, legend.

The colours are those of Okabe and Ito, made for all kinds of colour vision. Groups also differ by
marker and line, so that a picture printed in grey can still be read. A legend inside the axes hides
data sooner or later, so it stands above all. Lengths are in points.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fairspan.formatting.text import labels_of

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

# Types by name, as matplotlib is imported when something is drawn.
Axes: TypeAlias = "matplotlib.axes.Axes"
Figure: TypeAlias = "matplotlib.figure.Figure"

# Lengths that are tried for names, in letters.
_LENGTHS = (40, 36, 32, 29, 26, 23, 20, 18, 16, 14, 12, 10, 8)
# Inches of a row, of what stands above and below all of them, of the axes, and of a letter.
_ROW, _AROUND, _AXES, _LETTER = 0.36, 1.75, 5.2, 0.08
_LONGEST = 40
_NAME_SIZE = 10.0
# Names take at most this share of the axes.
_MOST_OF_AXES = 0.5
# Between names and axes, in points.
_NAME_PAD = 4.0
_PAD = 5.0
_TITLE_SIZE, _NOTE_SIZE = 12.0, 10.0
_LEAST_ROOM = 150.0
_LEGEND_SIZE = 10.0
# Of a legend, in heights of its letters: a mark, what follows it, and what separates columns.
_HANDLE, _BESIDE_HANDLE, _BETWEEN_COLUMNS = 2.0, 0.6, 1.6
_MARK_SIZE = 8.0
# Text and lines that carry information; grids and hints.
INK, FAINT = "#1b1e23", "#8b929c"
# Opacity of notes: ink, so that they follow it where a page sets its colour.
QUIET = 0.72
BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, ORANGE, SKY = "#cc79a7", "#e69f00", "#56b4e9"
# Loadings: negative orange, zero white, positive purple, as dark at both ends.
DIVERGING = "PuOr"
_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
_OTHER_COLOURS = (BLUE, ORANGE, GREEN, SKY, PURPLE)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
_LINES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
# matplotlib's settings while one of our pictures is drawn. Any: its types list every setting.
STYLE: Any = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "axes.grid": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": _LEGEND_SIZE,
    "legend.frameon": False,
    "grid.color": FAINT,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "hatch.linewidth": 0.8,
}


def points_of(axes: Axes) -> float:
    """Points of one pixel."""
    return 72.0 / float(figure_of(axes).dpi)


def figure_of(axes: Axes) -> Figure:
    """The figure that axes are in."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def lay_out(axes: Axes) -> None:
    """Give the axes the size that they will have, where their figure has a layout engine."""
    figure = figure_of(axes)
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)


def width_of(axes: Axes) -> float:
    """Width of axes; beside others, which may still need room, no more than without a layout."""
    width, figure = float(axes.get_window_extent().width), figure_of(axes)
    place = axes.get_subplotspec()
    if place is not None and len(figure.axes) > 1:
        width = min(width, float(place.get_position(figure).width * figure.bbox.width))
    return width * points_of(axes)


def height_of(axes: Axes) -> float:
    """Height of axes."""
    return float(axes.get_window_extent().height) * points_of(axes)


def text_width(axes: Axes, text: str, size: float) -> float:
    """Width of a text."""
    import matplotlib

    return _measured(
        text, size, tuple(matplotlib.rcParams["font.family"]), float(figure_of(axes).dpi)
    ) * points_of(axes)


@lru_cache(maxsize=10_000)
def _measured(text: str, size: float, families: tuple[str, ...], dpi: float) -> float:
    """Width of a text in pixels; pictures ask for the same names and numbers many times."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    figure = Figure(figsize=(1, 1), dpi=dpi)
    FigureCanvasAgg(figure)
    return float(
        Text(text=text, fontsize=size, fontfamily=families, figure=figure).get_window_extent().width
    )


def labels_within(axes: Axes, names: Sequence[str], room: float, size: float) -> list[str]:
    """Names as labels no wider than the room, as far as short names can be."""
    for longest in _LENGTHS:
        labels = labels_of(names, longest)
        if max((text_width(axes, label, size) for label in labels), default=0.0) <= room:
            break
    return labels


def lines_within(axes: Axes, text: str, room: float, size: float) -> str:
    """The words of a text in lines no wider than the room."""
    lines: list[str] = []
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(axes, longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


def rows_size(names: Sequence[str], row: float = _ROW) -> tuple[float, float]:
    """Width and height of a new figure, in inches.

    Parameters
    ----------
    names : sequence of str
    row : float
        Height of each.
    """
    letters = min(max(map(len, names)), _LONGEST)
    return max(6.4, _AXES + _LETTER * letters), _AROUND + row * max(len(names), 2)


def set_rows(axes: Axes, names: Sequence[str]) -> float:
    """Write the names beside rows 0, 1, ... from the top; the width that they take, in points."""
    labels = _in_two_lines(axes, names, _MOST_OF_AXES * width_of(axes))
    axes.set_yticks(range(len(names)), labels, fontsize=_NAME_SIZE)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0, pad=_NAME_PAD)
    axes.grid(axis="x", visible=True, color=FAINT, alpha=0.3, linewidth=0.6)
    return _NAME_PAD + max(
        text_width(axes, line, _NAME_SIZE) for label in labels for line in label.split("\n")
    )


def _in_two_lines(axes: Axes, names: Sequence[str], room: float) -> list[str]:
    """Names in full where two lines hold them; otherwise as short as they must be."""
    whole = labels_of(names, max(map(len, names)))
    lines = [lines_within(axes, label, room, _NAME_SIZE) for label in whole]
    widest = max(
        text_width(axes, each, _NAME_SIZE) for label in lines for each in label.split("\n")
    )
    if widest <= room and max(label.count("\n") for label in lines) <= 1:
        return lines
    return labels_within(axes, names, room, _NAME_SIZE)


def head(
    axes: Axes,
    title: str,
    handles: Sequence[Any] = (),
    labels: Sequence[str] = (),
    *,
    note: str = "",
    beside: float = 0.0,
) -> None:
    """Set title, note and legend, each in as many lines as it takes.

    To be called when all else is drawn, as that decides how wide the axes are.

    Parameters
    ----------
    axes : matplotlib Axes
    title, note : str
        Names from the data as labels.
    handles, labels : sequences
    beside : float
        Width of what stands to the left of the axes, in points: the title begins above that.
    """
    lay_out(axes)
    room = max(width_of(axes) + beside, _LEAST_ROOM)
    top = _PAD
    if handles:
        legend = _legend(axes, handles, labels, room, beside)
        top += float(legend.get_window_extent().height) * points_of(axes) + _PAD
    if note:
        text = axes.text(
            0,
            1,
            lines_within(axes, note, room, _NOTE_SIZE),
            transform=_shifted(axes, -beside, top),
            fontsize=_NOTE_SIZE,
            alpha=QUIET,
            va="bottom",
        )
        top += float(text.get_window_extent().height) * points_of(axes) + _PAD
    axes.set_title(lines_within(axes, title, room, _TITLE_SIZE)).set(
        transform=_shifted(axes, -beside, top), verticalalignment="bottom"
    )


def for_legend(marks: Sequence[Any]) -> list[Any]:
    """Marks of one size, whatever size they have in the picture."""
    shown = [copy(mark) for mark in marks]
    for mark in shown:
        mark.set_markersize(_MARK_SIZE)
    return shown


def _shifted(axes: Axes, right: float, up: float) -> Any:
    """From the axes' corner by so many points."""
    from matplotlib.transforms import ScaledTranslation

    return axes.transAxes + ScaledTranslation(right / 72, up / 72, figure_of(axes).dpi_scale_trans)


def _legend(
    axes: Axes, handles: Sequence[Any], labels: Sequence[str], room: float, beside: float
) -> Any:
    """A legend above the axes in as many columns as fit."""
    for n_columns in range(_most_columns(axes, labels, room), 0, -1):
        legend = axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0, 1),
            bbox_transform=_shifted(axes, -beside, _PAD),
            ncols=n_columns,
            borderaxespad=0,
            borderpad=0,
            labelspacing=0.4,
            columnspacing=_BETWEEN_COLUMNS,
            handlelength=_HANDLE,
            handletextpad=_BESIDE_HANDLE,
            handleheight=1.0,
        )
        if float(legend.get_window_extent().width) * points_of(axes) <= room:
            break
    return legend


def _most_columns(axes: Axes, labels: Sequence[str], room: float) -> int:
    """How many columns of a legend may fit: each attempt to draw one takes its time."""
    widths = [text_width(axes, label, _LEGEND_SIZE) for label in labels]
    beside = _LEGEND_SIZE * (_HANDLE + _BESIDE_HANDLE + _BETWEEN_COLUMNS)
    for n_columns in range(len(labels), 1, -1):
        columns = np.array_split(widths, n_columns)
        if (
            sum(column.max() + beside for column in columns) - _LEGEND_SIZE * _BETWEEN_COLUMNS
            <= room
        ):
            return n_columns
    return 1


@dataclass(frozen=True)
class Look:
    """How one of several things is drawn.

    Attributes
    ----------
    colour : str
    marker : str
    line : line style of matplotlib
    hatch : str
        Of bars.
    is_filled : bool
        Whether markers are.
    """

    colour: str
    marker: str
    line: Any
    hatch: str = ""
    is_filled: bool = True


def look(i: int) -> Look:
    """How the i-th group is drawn; the first twelve differ by marker alone."""
    return Look(_COLOURS[i % 6], _MARKERS[i % 12], _LINES[i % 4])


def other_look(i: int) -> Look:
    """How the i-th thing beside ordinary PCA is drawn: in no colour or marker that PCA has."""
    return Look(_OTHER_COLOURS[i % 5], _MARKERS[1 + i % 11], "-")


# Ordinary PCA is drawn dashed, hollow and hatched throughout; what repairs it solid.
PLAIN = Look(VERMILION, "o", (0, (4, 2)), "////", is_filled=False)
FAIR = Look(BLUE, "s", "-")
BEST = Look(FAINT, "|", (0, (1, 1.5)), is_filled=False)
