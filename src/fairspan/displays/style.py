"""Style of displays: colors, markers, row labels, title, legend and panels.

Colors are those of Okabe and Ito, which are distinguishable with all types of color vision. Markers
and line styles differ as well, so that plots remain legible in grayscale. Layout is matplotlib's
constrained layout. Legends are placed above the axes so that they never cover data. Lengths are in
points.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

from fairspan.formatting.names import plot_labels
from fairspan.formatting.numbers import format_tick
from fairspan.formatting.terminal import wrap_text

if TYPE_CHECKING:
    import matplotlib.artist
    import matplotlib.axes
    import matplotlib.figure
    import matplotlib.transforms

# Forward references: matplotlib is imported lazily.
Axes: TypeAlias = "matplotlib.axes.Axes"
Figure: TypeAlias = "matplotlib.figure.Figure"

# Text and data lines; grids and secondary elements.
FOREGROUND = "#1b1e23"
MUTED = "#8b929c"
# Opacity of notes, which use the foreground color so that pages can restyle them.
NOTE_ALPHA = 0.72
# Opacity of bands: overlapping ones can still be told apart.
BAND_ALPHA = 0.16
BLUE = "#0072b2"
VERMILION = "#d55e00"
GREEN = "#009e73"
PURPLE = "#cc79a7"
ORANGE = "#e69f00"
SKY = "#56b4e9"
# Replacements on dark backgrounds.
_DARK_THEME_COLORS = {
    FOREGROUND: "#e6e8eb",
    MUTED: "#828b97",
    BLUE: "#56a9dd",
    VERMILION: "#f08a45",
    GREEN: "#2bb98d",
    PURPLE: "#dd94bb",
    ORANGE: "#e6a93a",
    SKY: "#7cc6f2",
}
# Text on colormap cells, which do not change with the background.
ON_LIGHT_CELLS = "#111111"
ON_DARK_CELLS = "#fefefe"
# Loadings: orange for negative, white for zero, purple for positive.
DIVERGING_COLORMAP = "PuOr"
_COLORS = (BLUE, ORANGE, GREEN, SKY, PURPLE)
_MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
# Font sizes of titles, and of names, tick labels and legends.
_TITLE_SIZE = 12.0
NAME_SIZE = 10.0
# A background is dark if the sum of its RGB values (0 to 3) is below this.
_MAX_DARK_RGB_SUM = 1.2
LETTER_WIDTH = 0.58
"""Average letter width relative to the font size, measured on names in matplotlib's own font."""
# Relative extra width of capitals, measured likewise.
_CAPITAL_EXTRA_WIDTH = 0.7
# Spacing of header elements.
_PADDING = 5.0
# Width of a legend handle with padding.
_LEGEND_HANDLE_WIDTH = 44.0
# Minimum number of letters of a shortened name: fewer would not tell names apart.
_MIN_LETTERS = 8
# Maximum share of the figure width for row labels.
_MAX_NAMES_SHARE = 0.42
# Width of a tick label with padding, and maximum number of ticks.
_TICK_LABEL_WIDTH = 44.0
_MAX_TICKS = 9
# Height ratio of the invisible header row above panels; zero is not allowed.
_HEADER_HEIGHT_RATIO = 1e-3
# Height of a row, and of header and footer together, in inches.
_ROW_HEIGHT = 0.36
_HEADER_HEIGHT = 1.75
# Minimum width of a figure in inches; matplotlib's default width.
_MIN_FIGURE_WIDTH = 6.4
# Width of the axes, and per letter of the longest row label, in inches.
_AXES_WIDTH = 5.2
_WIDTH_PER_LETTER = 0.08
# Maximum length of a row label, in letters.
_MAX_NAME_LENGTH = 40
# Minimum axis range relative to its values, so that tick labels remain distinguishable.
_MIN_RELATIVE_RANGE = 1e-4
# rc settings while drawing. (Any: matplotlib types each setting.)
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
    """Style of one data series.

    Attributes
    ----------
    color : str
    marker : str
    line : line style of matplotlib
    is_filled : bool
        Whether markers are filled.
    """

    color: str
    marker: str
    line: Any
    is_filled: bool = True

    def marker_fill(self, color: str) -> str:
        """Return the fill of markers with edges of this color; white for hollow markers."""
        if self.is_filled:
            return color
        return "white"


def series_style(i: int) -> SeriesStyle:
    """Style of the i-th series other than ordinary PCA, distinct from PCA's.

    Colors and markers are cycled; their numbers have no common divisor, so 55 styles are distinct.
    """
    return SeriesStyle(_COLORS[i % 5], _MARKERS[i % 11], "-")


# Criteria in the order of their styles, which are the same in all figures.
_STYLED_CRITERIA = (
    "minimax_loss",
    "minimax_error",
    "least_variance",
    "disparity",
    "equal_error",
    "error_gap",
    "robust_error_gap",
    "nash_welfare",
)


def model_styles(names: Iterable[str]) -> dict[str, SeriesStyle]:
    """Return the styles of models other than ordinary PCA by name.

    A built-in criterion has its own style; other models have those that are left.

    Examples
    --------
    >>> styles = model_styles(["mine", "Nash welfare"])
    >>> styles["Nash welfare"] == series_style(7), styles["mine"] == series_style(0)
    (True, True)
    """
    numbers: dict[str, int] = {}
    others = []
    for name in dict.fromkeys(names):
        # A name may end with parameters in parentheses.
        criterion = name.partition(" (")[0].replace(" ", "_").lower()
        number = -1
        if criterion in _STYLED_CRITERIA:
            number = _STYLED_CRITERIA.index(criterion)
        if number < 0 or number in numbers.values():
            others.append(name)
        else:
            numbers[name] = number
    taken = set(numbers.values())
    unused = (number for number in count() if number not in taken)
    numbers |= dict(zip(others, islice(unused, len(others)), strict=True))
    return {name: series_style(number) for name, number in numbers.items()}


# Ordinary PCA is dashed with hollow markers; fair models are solid.
PCA_STYLE = SeriesStyle(VERMILION, "o", (0, (4, 2)), is_filled=False)
FAIR_STYLE = series_style(0)
BEST_STYLE = SeriesStyle(MUTED, "|", (0, (1, 1.5)), is_filled=False)


def root_figure(axes: Axes) -> Figure:
    """Return the root figure of axes."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def adapt_to_background(artists: "Sequence[matplotlib.artist.Artist]", background: Any) -> None:
    """Replace the colors of this module by lighter ones if the figure background is dark.

    Parameters
    ----------
    artists : sequence of matplotlib artists
        Artists to change, together with all that they contain.
    background : color of matplotlib
        Background color of the figure.
    """
    from matplotlib.colors import to_hex, to_rgb, to_rgba, to_rgba_array

    if sum(to_rgb(background)) > _MAX_DARK_RGB_SUM:
        return
    # White fills of hollow markers become the background.
    replacements = {**_DARK_THEME_COLORS, "#ffffff": to_hex(background)}
    properties = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")
    for artist in chain.from_iterable(parent.findobj() for parent in artists):
        for name in properties:
            if not hasattr(artist, f"set_{name}"):
                continue
            # One color, or one per element of a collection; "none" gives an empty array.
            old = to_rgba_array(getattr(artist, f"get_{name}", lambda: "none")())
            if not any(to_hex(color) in replacements for color in old):
                continue
            # Replace the color and keep its opacity.
            new = [
                to_rgba(replacements.get(to_hex(color), to_hex(color)), color[3]) for color in old
            ]
            getattr(artist, f"set_{name}")(new[0] if len(new) == 1 else new)
    # Ticks that do not exist yet are drawn in the colors of the axes' settings.
    for axes in artists:
        if hasattr(axes, "tick_params"):
            axes.tick_params(colors=replacements[FOREGROUND], grid_color=replacements[MUTED])


def available_width(axes: Axes) -> float:
    """Width available to axes including labels, in points.

    In a grid of subplots, it is the share of the figure of the columns that the axes span, less
    some space on both sides.
    """
    parent = axes.get_figure()  # may be a SubFigure
    assert parent is not None
    parent_width = 72 * float(parent.bbox.width) / root_figure(axes).dpi
    subplot = axes.get_subplotspec()
    if subplot is None:
        return parent_width * axes.get_position().width
    subplot = subplot.get_topmost_subplotspec()
    return parent_width * len(subplot.colspan) / subplot.get_gridspec().ncols - 2 * _PADDING


def max_letters(texts: Sequence[str], width: float, size: float) -> int:
    """Return how many letters of any of the texts fit into a width.

    It is an estimate from average letter widths, and at least `_MIN_LETTERS`. Width and font size
    are in points.
    """
    n_letters = width / (LETTER_WIDTH * size)
    max_relative_width = 1.0
    for text in texts:
        capital_share = sum(map(str.isupper, text)) / max(len(text), 1)
        relative_width = 1 + _CAPITAL_EXTRA_WIDTH * capital_share
        # A text that fits in full does not limit the others.
        if len(text) * relative_width > n_letters:
            max_relative_width = max(max_relative_width, relative_width)
    return max(int(n_letters / max_relative_width), _MIN_LETTERS)


def wrap_to_width(text: str, width: float, size: float) -> str:
    """Wrap a text to a width."""
    return "\n".join(wrap_text(text, max_letters([text], width, size)))


def shorten_names(names: Sequence[str], width: float) -> list[str]:
    """Shorten names to a width, keeping them distinct."""
    return plot_labels(names, min(max_letters(names, width, NAME_SIZE), _MAX_NAME_LENGTH))


def row_figure_size(names: Sequence[str], row_height: float = _ROW_HEIGHT) -> tuple[float, float]:
    """Size in inches of a figure with one row per name."""
    n_letters = min(max(map(len, names)), _MAX_NAME_LENGTH)
    width = max(_MIN_FIGURE_WIDTH, _AXES_WIDTH + _WIDTH_PER_LETTER * n_letters)
    height = _HEADER_HEIGHT + row_height * max(len(names), 2)
    return width, height


def label_rows(
    axes: Axes,
    names: Sequence[str],
    positions: Sequence[float] | None = None,
    heading_height: float = 0.0,
) -> None:
    """Label rows from the top, wrapping names to two lines or shortening them.

    The rows are at the y coordinates `positions`, by default 0, 1, ...; above the first one is a
    heading of a height in the same units.
    """
    if positions is None:
        positions = range(len(names))
    width = _MAX_NAMES_SHARE * available_width(axes)
    full_labels = plot_labels(names, max(map(len, names)))
    n_letters = max_letters(names, width, NAME_SIZE)
    labels = [
        "\n".join(wrap_text(label, n_letters, break_on_hyphens=True)) for label in full_labels
    ]
    # More than one line break: the label has three or more lines.
    if max(label.count("\n") for label in labels) > 1:
        labels = shorten_names(names, width)
    axes.set_yticks(positions, labels, fontsize=NAME_SIZE)
    # Reversed limits put the first row on top, with half a row and a small margin at each end.
    axes.set_ylim(positions[-1] + 0.55, positions[0] - 0.55 - heading_height)
    axes.tick_params(axis="y", length=0, pad=4)
    axes.grid(axis="x", visible=True, color=MUTED, alpha=0.3, linewidth=0.6)


def materiality_handle() -> "matplotlib.artist.Artist":
    """Return the legend handle of the band below the materiality threshold."""
    from matplotlib.patches import Patch

    return Patch(facecolor=MUTED, edgecolor=MUTED, alpha=2 * BAND_ALPHA)


def materiality_label(materiality: float) -> str:
    """Return the legend label of the band below the materiality threshold.

    Examples
    --------
    >>> materiality_label(0.01)
    'below the 1 % threshold'
    """
    return f"below the {format_tick(100 * materiality)} % threshold"


def format_ticks(
    axes: Axes, which: str = "xy", *, width: float | None = None, is_share: bool = False
) -> None:
    """Format ticks as plain numbers or percentages, without a common offset or factor.

    An axis whose range is tiny compared with its values is widened, so that tick labels differ.

    Parameters
    ----------
    axes : matplotlib Axes
    which : {"x", "y", "xy"}
    width : float, optional
        Width in points that limits the number of x ticks; by default that of the axes.
    is_share : bool
        Whether to show shares as percentages.
    """
    from matplotlib.ticker import MaxNLocator

    def _format(value: float, _: object) -> str:
        return f"{format_tick(100 * value)} %" if is_share else format_tick(value)

    for name in which:
        axis = getattr(axes, f"{name}axis")
        low, high = sorted(axis.get_view_interval())
        min_range = _MIN_RELATIVE_RANGE * max(abs(low), abs(high))
        if high - low < min_range:
            middle = (low + high) / 2
            getattr(axes, f"set_{name}lim")(middle - min_range / 2, middle + min_range / 2)
        axis.set_major_formatter(_format)
    if "x" in which:
        if width is None:
            width = available_width(axes)
        n_ticks = min(max(int(width / _TICK_LABEL_WIDTH), 1), _MAX_TICKS)
        axes.xaxis.set_major_locator(MaxNLocator(n_ticks, steps=[1, 2, 2.5, 5, 10]))


def add_header(
    axes: Axes,
    title: str,
    handles: "Sequence[matplotlib.artist.Artist]" = (),
    labels: Sequence[str] = (),
    *,
    note: str = "",
) -> None:
    """Place title, note and legend above the axes, wrapped to their width.

    The legend is directly above the axes, with the note as its title, and the title above both.
    They start at the left end of the tick labels.
    """
    points_per_pixel = 72 / root_figure(axes).dpi
    width = available_width(axes)
    offset_up = _PADDING
    offset_right = 0.0  # negative: to the left
    if not axes.axison:
        # Header of panels: leave room for the tick labels of the first column.
        width -= _TICK_LABEL_WIDTH
    elif (tick_labels := axes.yaxis.get_tightbbox(None)) is not None:
        offset_right = (float(tick_labels.x0) - float(axes.bbox.x0)) * points_per_pixel
    if handles or note:
        label_width = width - _LEGEND_HANDLE_WIDTH
        labels = [wrap_to_width(label, label_width, NAME_SIZE) for label in labels]
        n_columns = _legend_columns(labels, width)
        legend = axes.legend(
            handles,
            labels,
            title=wrap_to_width(note, width, NAME_SIZE) or None,
            alignment="left",
            loc="lower left",
            bbox_to_anchor=(0, 1),
            bbox_transform=_offset_transform(axes, offset_right, offset_up),
            ncols=n_columns,
        )
        legend.get_title().set_alpha(NOTE_ALPHA)
        offset_up += float(legend.get_window_extent().height) * points_per_pixel + _PADDING
    axes.set_title(wrap_to_width(title, width, _TITLE_SIZE)).set(
        transform=_offset_transform(axes, offset_right, offset_up), verticalalignment="bottom"
    )


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """Return the number of legend columns that fit into a width in points.

    All entries are in one row if it fits; otherwise every column is as wide as the widest entry.
    """
    if not labels:
        return 1
    widths = []
    for label in labels:
        n_letters = max(map(len, label.split("\n")))
        widths.append(_LEGEND_HANDLE_WIDTH + LETTER_WIDTH * NAME_SIZE * n_letters)
    if sum(widths) <= width:
        return len(widths)
    return max(int(width / max(widths)), 1)


def _offset_transform(axes: Axes, right: float, up: float) -> "matplotlib.transforms.Transform":
    """Return the transform of axes coordinates (0 to 1) plus an offset in points."""
    from matplotlib.transforms import ScaledTranslation

    return axes.transAxes + ScaledTranslation(
        right / 72, up / 72, root_figure(axes).dpi_scale_trans
    )


def grid_shape(n: int, n_columns: int | None = None) -> tuple[int, int]:
    """Grid shape (rows, columns) for n panels, by default as many columns as suit their number.

    Examples
    --------
    >>> grid_shape(3), grid_shape(4), grid_shape(12), grid_shape(2, 1)
    ((1, 3), (2, 2), (3, 4), (2, 1))
    """
    if n_columns is None:
        n_columns = min(n, 3) if n < 4 else min(4, ceil(n**0.5))
    return ceil(n / n_columns), n_columns


def panel_figure_size(n: int, n_columns: int | None = None) -> tuple[float, float]:
    """Size in inches of a figure with n panels."""
    n_rows, n_columns = grid_shape(n, n_columns)
    return max(_MIN_FIGURE_WIDTH, 1.2 + 2.3 * n_columns), 2.0 + 1.8 * n_rows


def add_panels(
    axes: Axes, n: int, shape: tuple[int, int], *, share_y: bool = True
) -> tuple[Axes, ...]:
    """Replace axes by a grid of n panels, and return them row by row.

    The original axes become an invisible header above them, to which title and legend are attached.

    Parameters
    ----------
    axes : matplotlib Axes
    n : int
    shape : tuple of 2 int
        Rows and columns of the grid; its last cells may remain empty.
    share_y : bool
        Whether the panels share the y scale; they always share the x scale.
    """
    figure = axes.get_figure()
    assert figure is not None
    subplot = axes.get_subplotspec()
    if subplot is None:
        # Axes with a free position: make a grid with one cell at this position.
        edges = zip(("left", "bottom", "right", "top"), axes.get_position().extents, strict=True)
        subplot = figure.add_gridspec(1, 1, **dict(edges))[0]
    n_rows, n_columns = shape
    grid = subplot.subgridspec(
        1 + n_rows, n_columns, height_ratios=[_HEADER_HEIGHT_RATIO, *[1.0] * n_rows]
    )
    axes.set_subplotspec(grid[0, :])
    axes.set_axis_off()
    panels: list[Axes] = []
    for i in range(n):
        first = panels[0] if panels else None
        cell = grid[1 + i // n_columns, i % n_columns]
        panel = figure.add_subplot(cell, sharex=first, sharey=first if share_y else None)
        # Only panels without one below them, and those in the first column, have tick labels.
        panel.tick_params(labelbottom=i + n_columns >= n, labelleft=i % n_columns == 0)
        panels.append(panel)
    return tuple(panels)


def named_panels(
    axes: Axes, names: Sequence[str], xlabel: str, ylabel: str, n_columns: int | None = None
) -> tuple[Axes, ...]:
    """Create one titled panel per name, with axis labels on the outer panels."""
    n_rows, n_columns = grid_shape(len(names), n_columns)
    panels = add_panels(axes, len(names), (n_rows, n_columns))
    title_width = 0.9 * available_width(axes) / n_columns - 4 * _PADDING
    for i, (panel, title) in enumerate(zip(panels, shorten_names(names, title_width), strict=True)):
        panel.set_title(title, fontsize=NAME_SIZE, pad=4)
        panel.set_xlabel(xlabel if i // n_columns == n_rows - 1 else "")
        panel.set_ylabel(ylabel if i % n_columns == 0 else "")
    return panels
