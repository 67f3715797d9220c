"""How pictures look: colours and markers, names beside rows, title and legend, and panels.

The colours are those of Okabe and Ito, made for all kinds of colour vision. Groups also differ by
marker and line, so that a picture printed in grey can still be read. matplotlib's constrained
layout places everything. A legend inside the axes hides data sooner or later, so it stands above
them. Lengths are in points.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

from fairspan.formatting.text import format_tick, plot_labels, wrap_text

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

# Types by name, as matplotlib is imported when something is drawn.
Axes: TypeAlias = "matplotlib.axes.Axes"
Figure: TypeAlias = "matplotlib.figure.Figure"

# Text and lines that carry information; grids and hints.
FOREGROUND, MUTED = "#1b1e23", "#8b929c"
# Opacity of notes: ink, so that they follow it where a page sets its colour.
NOTE_ALPHA = 0.72
BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, ORANGE, SKY = "#cc79a7", "#e69f00", "#56b4e9"
# What takes their place on dark paper.
_DARK_THEME_COLORS = {
    FOREGROUND: "#e6e8eb",
    MUTED: "#828b97",
    BLUE: "#56a9dd",
    VERMILION: "#f08a45",
}
_DARK_THEME_COLORS |= {GREEN: "#2bb98d", PURPLE: "#dd94bb", ORANGE: "#e6a93a", SKY: "#7cc6f2"}
# On cells of a colour map, which is the same on any paper: neither ink nor paper.
ON_LIGHT_CELLS, ON_DARK_CELLS = "#111111", "#fefefe"
# Loadings: negative orange, zero white, positive purple, as dark at both ends.
DIVERGING_COLORMAP = "PuOr"
_COLORS = (BLUE, ORANGE, GREEN, SKY, PURPLE)
_MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
_TITLE_SIZE, NAME_SIZE = 12.0, 10.0
# Paper is dark where red, green and blue together are less, of 3.
_MAX_DARK_RGB_SUM = 1.2
# Width of a letter on average, as a share of its size, and how much wider capitals are.
_LETTER_WIDTH, _CAPITAL_EXTRA_WIDTH = 0.58, 0.7
# Between what stands above the axes; of the mark in a legend and the room beside it.
_PADDING, _LEGEND_HANDLE_WIDTH = 5.0, 44.0
# Names beside rows take at most this share of the picture's width.
_MAX_NAMES_SHARE = 0.42
# Of a number along an axis with the room beside it, and how many of them there are at most.
_TICK_LABEL_WIDTH, _MAX_TICKS = 44.0, 9
# Between numbers and names, of images, as a share of the height of those below it.
_HEADER_HEIGHT_RATIO = 1e-3
# Inches of a row, of what stands above and below all of them, of the axes, and of a letter.
_ROW_HEIGHT, _HEADER_HEIGHT, _AXES_WIDTH, _WIDTH_PER_LETTER, _MAX_NAME_LENGTH = (
    0.36,
    1.75,
    5.2,
    0.08,
    40,
)
# An axis shows a range of at least this share of its numbers, whose digits could not be read else.
_MIN_RELATIVE_RANGE = 1e-4
# matplotlib's settings while one of our pictures is drawn. Any: its types list every setting.
STYLE: Any = {
    "font.size": 11,
    "axes.titlesize": _TITLE_SIZE,
    "axes.labelsize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FOREGROUND,
    "axes.labelcolor": FOREGROUND,
    "axes.axisbelow": True,
    "axes.grid": False,
    "text.color": FOREGROUND,
    "xtick.color": FOREGROUND,
    "ytick.color": FOREGROUND,
    "xtick.labelsize": NAME_SIZE,
    "ytick.labelsize": NAME_SIZE,
    "legend.fontsize": NAME_SIZE,
    "legend.title_fontsize": NAME_SIZE,
    "legend.frameon": False,
    "legend.borderaxespad": 0.0,
    "legend.borderpad": 0.0,
    "legend.labelspacing": 0.4,
    "legend.columnspacing": 1.6,
    "legend.handlelength": 2.0,
    "legend.handletextpad": 0.6,
    "legend.handleheight": 1.0,
    "grid.color": MUTED,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
}


@dataclass(frozen=True)
class SeriesStyle:
    """How one of several things is drawn.

    Attributes
    ----------
    colour : str
    marker : str
    line : line style of matplotlib
    is_filled : bool
        Whether markers are.
    """

    color: str
    marker: str
    line: Any
    is_filled: bool = True


def series_style(i: int) -> SeriesStyle:
    """How the i-th thing beside ordinary PCA is drawn: in no colour or marker that PCA has."""
    return SeriesStyle(_COLORS[i % 5], _MARKERS[i % 11], "-")


# Ordinary PCA is drawn dashed and hollow throughout; what repairs it solid.
PCA_STYLE = SeriesStyle(VERMILION, "o", (0, (4, 2)), is_filled=False)
FAIR_STYLE = series_style(0)
BEST_STYLE = SeriesStyle(MUTED, "|", (0, (1, 1.5)), is_filled=False)


def root_figure(axes: Axes) -> Figure:
    """The figure that axes are in."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def adapt_to_background(artists: Sequence[Any], background: Any) -> None:
    """Give what was drawn lighter colours where the paper of its figure is dark."""
    from matplotlib.colors import to_hex, to_rgb, to_rgba, to_rgba_array

    if sum(to_rgb(background)) > _MAX_DARK_RGB_SUM:
        return
    colours = {**_DARK_THEME_COLORS, "#ffffff": to_hex(background)}
    properties = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")
    for artist in (artist for each in artists for artist in each.findobj()):
        for name in (name for name in properties if hasattr(artist, f"set_{name}")):
            old = to_rgba_array(getattr(artist, f"get_{name}", lambda: "none")())
            new = [to_rgba(colours.get(to_hex(each), to_hex(each)), each[3]) for each in old]
            if any(to_hex(each) in colours for each in old):
                getattr(artist, f"set_{name}")(new[0] if len(new) == 1 else new)
    for axes in (each for each in artists if hasattr(each, "tick_params")):
        axes.tick_params(colors=colours[FOREGROUND], grid_color=colours[MUTED])


def available_width(axes: Axes) -> float:
    """Width of the place that axes have in their figure, with all that belongs to them."""
    parent, subplot = axes.get_figure(), axes.get_subplotspec()
    assert parent is not None  # or a part of the figure
    whole = 72 * float(parent.bbox.width) / root_figure(axes).dpi
    if subplot is None:
        return whole * axes.get_position().width
    subplot = subplot.get_topmost_subplotspec()
    return whole * len(subplot.colspan) / subplot.get_gridspec().ncols - 2 * _PADDING


def max_letters(texts: Sequence[str], width: float, size: float) -> int:
    """How many letters fit, as wide as they are on average; capitals are wider."""
    n_letters = width / (_LETTER_WIDTH * size)
    widths = [
        1 + _CAPITAL_EXTRA_WIDTH * sum(map(str.isupper, each)) / max(len(each), 1) for each in texts
    ]
    too_wide = [w for w, each in zip(widths, texts, strict=True) if len(each) * w > n_letters]
    return max(int(n_letters / max(too_wide, default=1.0)), 8)


def wrap_to_width(text: str, width: float, size: float) -> str:
    """A text in lines no wider than the room."""
    return "\n".join(wrap_text(text, max_letters([text], width, size)))


def shorten_names(names: Sequence[str], width: float) -> list[str]:
    """Names no wider than the room, and still different."""
    return plot_labels(names, min(max_letters(names, width, NAME_SIZE), _MAX_NAME_LENGTH))


def row_figure_size(names: Sequence[str], row: float = _ROW_HEIGHT) -> tuple[float, float]:
    """Width and height of a new figure with a row for each name, in inches."""
    letters = min(max(map(len, names)), _MAX_NAME_LENGTH)
    return max(6.4, _AXES_WIDTH + _WIDTH_PER_LETTER * letters), _HEADER_HEIGHT + row * max(
        len(names), 2
    )


def label_rows(axes: Axes, names: Sequence[str]) -> None:
    """Write names beside rows 0, 1, ... from the top: in full where two lines hold them."""
    width = _MAX_NAMES_SHARE * available_width(axes)
    whole = plot_labels(names, max(map(len, names)))
    longest = max_letters(names, width, NAME_SIZE)
    labels = ["\n".join(wrap_text(each, longest)) for each in whole]
    if max(label.count("\n") for label in labels) > 1:
        labels = shorten_names(names, width)
    axes.set_yticks(range(len(names)), labels, fontsize=NAME_SIZE)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0, pad=4)
    axes.grid(axis="x", visible=True, color=MUTED, alpha=0.3, linewidth=0.6)


def format_ticks(axes: Axes, which: str = "xy", *, width: float | None = None) -> None:
    """Write numbers out at the ticks: a common factor would stand in the title's way.

    Parameters
    ----------
    axes : matplotlib Axes
    which : {"x", "y", "xy"}
    room : float, optional
        Width of the axes, which has as few numbers below as fit beside each other.
    """
    from matplotlib.ticker import MaxNLocator

    for name in which:
        axis = getattr(axes, f"{name}axis")
        low, high = sorted(axis.get_view_interval())
        least = _MIN_RELATIVE_RANGE * max(abs(low), abs(high))
        if high - low < least:
            middle = (low + high) / 2
            getattr(axes, f"set_{name}lim")(middle - least / 2, middle + least / 2)
        axis.set_major_formatter(lambda value, _: format_tick(value))
    if "x" in which:
        most = int((available_width(axes) if width is None else width) / _TICK_LABEL_WIDTH)
        steps = [1, 2, 2.5, 5, 10]
        axes.xaxis.set_major_locator(MaxNLocator(min(max(most, 1), _MAX_TICKS), steps=steps))


def add_header(
    axes: Axes,
    title: str,
    handles: Sequence[Any] = (),
    labels: Sequence[str] = (),
    *,
    note: str = "",
) -> None:
    """Set title, note and legend above axes and the names beside them, in the lines they take."""
    width, points_per_pixel, offset_up, offset_left = (
        available_width(axes),
        72 / root_figure(axes).dpi,
        _PADDING,
        0.0,
    )
    if not axes.axison:  # above panels: numbers and labels stand to the left of the first
        width -= _TICK_LABEL_WIDTH
    elif (names := axes.yaxis.get_tightbbox(None)) is not None:
        offset_left = (float(names.x0) - float(axes.bbox.x0)) * points_per_pixel
    if handles or note:
        labels = [wrap_to_width(each, width - _LEGEND_HANDLE_WIDTH, NAME_SIZE) for each in labels]
        widths = [
            _LEGEND_HANDLE_WIDTH + _LETTER_WIDTH * NAME_SIZE * max(map(len, each.split("\n")))
            for each in labels
        ] or [width]
        # All beside each other, or in columns of the width of the widest.
        n_columns = len(widths) if sum(widths) <= width else max(int(width / max(widths)), 1)
        legend = axes.legend(
            handles,
            labels,
            title=wrap_to_width(note, width, NAME_SIZE) or None,
            alignment="left",
            loc="lower left",
            bbox_to_anchor=(0, 1),
            bbox_transform=_offset_transform(axes, offset_left, offset_up),
            ncols=n_columns,
        )
        legend.get_title().set_alpha(NOTE_ALPHA)
        offset_up += float(legend.get_window_extent().height) * points_per_pixel + _PADDING
    axes.set_title(wrap_to_width(title, width, _TITLE_SIZE)).set(
        transform=_offset_transform(axes, offset_left, offset_up), verticalalignment="bottom"
    )


def _offset_transform(axes: Axes, right: float, up: float) -> Any:
    """From the axes' corner by so many points."""
    from matplotlib.transforms import ScaledTranslation

    return axes.transAxes + ScaledTranslation(
        right / 72, up / 72, root_figure(axes).dpi_scale_trans
    )


def grid_shape(n: int) -> tuple[int, int]:
    """Rows and columns of n panels.

    Examples
    --------
    >>> grid_shape(3), grid_shape(4), grid_shape(12)
    ((1, 3), (2, 2), (3, 4))
    """
    n_columns = min(n, 3) if n < 4 else min(4, ceil(n**0.5))
    return ceil(n / n_columns), n_columns


def panel_figure_size(n: int) -> tuple[float, float]:
    """Width and height of a new figure of n panels, in inches."""
    n_rows, n_columns = grid_shape(n)
    return max(6.4, 1.2 + 2.3 * n_columns), 2.0 + 1.8 * n_rows


def add_panels(
    axes: Axes, n: int, shape: tuple[int, int], *, share_y: bool = True
) -> tuple[Axes, ...]:
    """Divide the place of axes into panels of one scale; the axes become what stands above them."""
    figure, subplot = axes.get_figure(), axes.get_subplotspec()
    assert figure is not None
    if subplot is None:
        ends = zip(("left", "bottom", "right", "top"), axes.get_position().extents, strict=True)
        subplot = figure.add_gridspec(1, 1, **dict(ends))[0]
    n_rows, n_columns = shape
    grid = subplot.subgridspec(
        1 + n_rows, n_columns, height_ratios=[_HEADER_HEIGHT_RATIO, *[1.0] * n_rows]
    )
    axes.set_subplotspec(grid[0, :])
    axes.set_axis_off()
    drawn: list[Axes] = []
    for i in range(n):
        first = drawn[0] if drawn else None
        cell = grid[1 + i // n_columns, i % n_columns]
        panel = figure.add_subplot(cell, sharex=first, sharey=first if share_y else None)
        panel.tick_params(labelbottom=i + n_columns >= n, labelleft=i % n_columns == 0)
        drawn.append(panel)
    return tuple(drawn)


def named_panels(axes: Axes, names: Sequence[str], xlabel: str, ylabel: str) -> tuple[Axes, ...]:
    """A panel for each name, of one scale, with the labels of both axes at the outer ones."""
    n_rows, n_columns = grid_shape(len(names))
    drawn = add_panels(axes, len(names), (n_rows, n_columns))
    shown = shorten_names(names, 0.9 * available_width(axes) / n_columns - 4 * _PADDING)
    for i, (panel, name) in enumerate(zip(drawn, shown, strict=True)):
        panel.set_title(name, fontsize=NAME_SIZE, pad=4)
        panel.set_xlabel(xlabel if i // n_columns == n_rows - 1 else "")
        panel.set_ylabel(ylabel if i % n_columns == 0 else "")
    return drawn
