"""How pictures look, and where their parts lie: colours, names, title, note, legend, and panels.

The colours are those of Okabe and Ito, made for all kinds of colour vision. Groups also differ by
marker and line, so that a picture printed in grey can still be read. A legend inside the axes hides
data sooner or later, so it stands above all. Panels are inset axes: whatever layout their figure
has, it then sees one axes with all that belongs to it. Lengths are in points.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fairspan.formatting.text import axis_number, labels_of
from fairspan.typing import FloatArray

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
# Of the mark in a legend, and of the room beside it.
_OF_MARK = 28.0
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
    "legend.fontsize": 10,
    "legend.title_fontsize": _NOTE_SIZE,
    "legend.frameon": False,
    "legend.borderaxespad": 0.0,
    "legend.borderpad": 0.0,
    "legend.labelspacing": 0.4,
    "legend.columnspacing": 1.6,
    "legend.handlelength": 2.0,
    "legend.handletextpad": 0.6,
    "legend.handleheight": 1.0,
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
    room, top = max(width_of(axes) + beside, _LEAST_ROOM), _PAD
    labels = [lines_within(axes, each, room - _OF_MARK, _NOTE_SIZE) for each in labels]
    if handles or note:
        for n_columns in range(max(len(labels), 1), 0, -1):  # as many as fit
            legend = axes.legend(
                handles,
                labels,
                title=lines_within(axes, note, room, _NOTE_SIZE) or None,
                alignment="left",
                loc="lower left",
                bbox_to_anchor=(0, 1),
                bbox_transform=_shifted(axes, -beside, _PAD),
                ncols=n_columns,
            )
            box = legend.get_window_extent()
            if float(box.width) * points_of(axes) <= room:
                break
        legend.get_title().set_alpha(QUIET)
        # At other resolutions its rows may be a little higher.
        top += 1.04 * float(box.height) * points_of(axes) + _PAD
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


# Points between panels beside each other, and above each for its name.
_BESIDE, _ABOVE = 17.0, 23.0
# At most this share of a panel's place goes to what is between.
_MOST_BETWEEN = 0.4
# Between numbers along an axis, and between images, in points.
_APART, _BESIDE_IMAGES = 14.0, 7.0
# From the axes to their tick labels, and from these to what they are labels of.
_TICK = 11.0
# An axis shows a range of at least this share of its numbers, whose digits could not be read else.
_LEAST_RANGE = 1e-4
# An axis of shares shows so much of them at least, and beside them this share of what it shows.
_LEAST_SHARES, _SHARE_MARGIN = 0.1, 0.06
# Panels that may differ in their vertical scale.
_MOST_SCALES = 2


def set_shares(axes: Axes, shares: FloatArray) -> None:
    """Limit an axis of shares to where they are, and write them in per cent.

    Parameters
    ----------
    axes : matplotlib Axes
    shares : array
        From 0 to 1; NaN where there is none.
    """
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    known = shares[~np.isnan(shares)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    missing = max(_LEAST_SHARES - (high - low), 0.0) / 2
    low, high = max(low - missing, 0.0), min(high + missing, 1.0)
    margin = _SHARE_MARGIN * (high - low)
    axes.set_xlim(low - margin, high + margin)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))


def grid(n: int) -> tuple[int, int]:
    """Rows and columns of n panels.

    Examples
    --------
    >>> grid(3), grid(4), grid(12)
    ((1, 3), (2, 2), (3, 4))
    """
    n_columns = min(n, 3) if n < 4 else min(4, ceil(n**0.5))
    return ceil(n / n_columns), n_columns


def panelled_size(n: int) -> tuple[float, float]:
    """Width and height of a new figure of n panels, in inches."""
    n_rows, n_columns = grid(n)
    return max(6.4, 1.2 + 2.3 * n_columns), 2.0 + 1.8 * n_rows


def panels(axes: Axes, names: Sequence[str]) -> tuple[Axes, ...]:
    """A panel for each name, all of one scale; with a single name, the axes themselves.

    The given axes keep their title and the labels of their axes, which then are those of all.
    """
    if len(names) == 1:
        return (axes,)
    n_rows, n_columns = grid(len(names))
    drawn = _insets(axes, n_rows, n_columns, len(names), above=_ABOVE)
    shown = labels_within(axes, names, width_of(axes) / n_columns - _BESIDE, _NAME_SIZE)
    for i, (panel, name) in enumerate(zip(drawn, shown, strict=True)):
        panel.set_title(name, fontsize=_NAME_SIZE, pad=4)
        panel.tick_params(labelbottom=i + n_columns >= len(names), labelleft=i % n_columns == 0)
    return drawn


def stacked(axes: Axes, n: int) -> tuple[Axes, ...]:
    """Panels one below the other, of one horizontal scale."""
    drawn = _insets(axes, n, 1, n, above=0.6 * _ABOVE, share_y=False)
    for panel in drawn[:-1]:
        panel.tick_params(labelbottom=False)
    return drawn


def images(axes: Axes, n_rows: int, n_columns: int) -> tuple[Axes, ...]:
    """Panels without scales, row by row."""
    return _insets(
        axes, n_rows, n_columns, n_rows * n_columns, above=0.8 * _ABOVE, beside=_BESIDE_IMAGES
    )


def label_bounds(axes: Axes, drawn: Sequence[Axes], x: str, y: str = "") -> None:
    """Label axes that may be the bounds of panels, beyond the panels' tick labels.

    To be called when everything is drawn.
    """
    apart = len(drawn) > 1
    below = left = _TICK
    if apart:
        unit = points_of(axes)
        # The last panel has numbers below it, and panels of one scale have the same beside.
        below += _extent(drawn[-1].xaxis, 1) * unit
        left += max(_extent(panel.yaxis, 0) for panel in drawn[:_MOST_SCALES]) * unit
    axes.set_xlabel(x, labelpad=below if apart else None)
    axes.set_ylabel(y, labelpad=left if apart else None)


def fill_evenly(axes: Axes) -> None:
    """Widen the limits until both scales are the same where the axes are as they are."""
    box = axes.get_window_extent()
    limits = np.array([axes.get_xlim(), axes.get_ylim()])
    spans = limits[:, 1] - limits[:, 0]
    unit = (spans / [box.width, box.height]).max()
    more = (unit * np.array([box.width, box.height]) - spans) / 2
    axes.set_xlim(limits[0, 0] - more[0], limits[0, 1] + more[0])
    axes.set_ylim(limits[1, 0] - more[1], limits[1, 1] + more[1])


def plain_numbers(drawn: Sequence[Axes], which: str = "both") -> None:
    """Write numbers out at their ticks, since a common factor would stand in the title's way."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for panel in drawn:
        for name in ("x", "y") if which == "both" else (which,):
            axis = getattr(panel, f"{name}axis")
            low, high = sorted(axis.get_view_interval())
            least = _LEAST_RANGE * max(abs(low), abs(high))
            if high - low < least:
                middle = (low + high) / 2
                getattr(panel, f"set_{name}lim")(middle - least / 2, middle + least / 2)
            axis.set_major_formatter(FuncFormatter(lambda value, _: axis_number(value)))
        if which != "y":  # as few numbers below the axes as fit beside each other
            told = [axis_number(float(x)) for x in panel.get_xticks()]
            widest = max((text_width(panel, each, _NAME_SIZE) for each in told), default=0.0)
            n_bins = min(max(int(width_of(panel) / (widest + _APART)), 1), 9)
            panel.xaxis.set_major_locator(MaxNLocator(nbins=n_bins, steps=[1, 2, 2.5, 5, 10]))


def _insets(
    axes: Axes,
    n_rows: int,
    n_columns: int,
    n: int,
    *,
    above: float,
    share_y: bool = True,
    beside: float = _BESIDE,
) -> tuple[Axes, ...]:
    axes.spines[:].set_visible(False)
    axes.patch.set_visible(False)
    axes.set(xticks=[], yticks=[])
    lay_out(axes)
    beside = min(beside * n_columns / width_of(axes), _MOST_BETWEEN)
    over = min(above * n_rows / height_of(axes), _MOST_BETWEEN)
    # No room is left to the right of the last column.
    width = 1 / (n_columns - beside)
    made: list[Axes] = []
    for i in range(n):
        row, column = divmod(i, n_columns)
        box = (column * width, 1 - (row + 1) / n_rows, width * (1 - beside), (1 - over) / n_rows)
        first: Any = made[0] if made else None
        made.append(axes.inset_axes(box, sharex=first, sharey=first if share_y else None))
    return tuple(made)


def _extent(axis: object, dimension: int) -> float:
    """Size of tick labels across the axis, in pixels."""
    box = axis.get_tightbbox()  # type: ignore[attr-defined]
    return 0.0 if box is None else float((box.width, box.height)[dimension])
