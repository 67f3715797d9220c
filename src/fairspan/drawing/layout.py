"""Where things stand: panels inside given axes, and a title with its legend above the data.

A legend inside the axes hides data sooner or later, so it stands between the title and the axes.
Texts are measured, and names cut until they fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from fairspan.drawing.names import labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Lengths that are tried for names, in letters.
_LENGTHS = (40, 32, 26, 22, 18, 15, 12, 10, 8)
_MOST_COLUMNS = 4
# Between title, legend and axes; between panels, where the figure has no layout of its own.
_PAD, _BETWEEN = 5.0, 0.45
_PANEL_SIZE = 10.0


def panels(axes: Axes, n: int) -> tuple[Axes, ...]:
    """Axes for n panels of one scale; with more than one, the given axes become their bounds.

    The bounds keep their title and the labels of their axes, which then are those of all panels.

    Returns
    -------
    tuple of n Axes
        The outer ones alone have tick labels.
    """
    if n == 1:
        return (axes,)
    _make_bounds(axes)
    n_rows, n_columns = grid(n)
    made: list[Axes] = []
    for i in range(n):
        shared = {"sharex": made[0], "sharey": made[0]} if made else {}
        panel = _part(axes, n_rows, n_columns, i, shared)
        is_lowest = i + n_columns >= n
        panel.tick_params(labelbottom=is_lowest, labelleft=i % n_columns == 0)
        made.append(panel)
    return tuple(made)


def stacked(axes: Axes, n: int) -> tuple[Axes, ...]:
    """Axes for n panels one below the other, of one horizontal scale; the given ones bound them."""
    _make_bounds(axes)
    made: list[Axes] = []
    for i in range(n):
        shared = {"sharex": made[0]} if made else {}
        panel = _part(axes, n, 1, i, shared)
        panel.tick_params(labelbottom=i == n - 1)
        made.append(panel)
    return tuple(made)


def grid(n: int) -> tuple[int, int]:
    """Rows and columns of n panels.

    Examples
    --------
    >>> grid(3), grid(4), grid(12)
    ((1, 3), (2, 2), (3, 4))
    """
    n_columns = min(n, 3) if n < 4 else min(_MOST_COLUMNS, ceil(n**0.5))
    return ceil(n / n_columns), n_columns


def panelled_size(n: int) -> tuple[float, float]:
    """Width and height of a new figure of n panels, in inches."""
    n_rows, n_columns = grid(n)
    return max(6.4, 1.2 + 2.3 * n_columns), 1.9 + 1.75 * n_rows


def name_panels(drawn: Sequence[Axes], names: Sequence[str]) -> None:
    """Write a name above each panel, cut to its width."""
    labels = labels_within(drawn[0], names, width_of(drawn[0]), _PANEL_SIZE)
    for panel, label in zip(drawn, labels, strict=True):
        panel.set_title(label, fontsize=_PANEL_SIZE, pad=4)


def head(
    axes: Axes,
    title: str,
    handles: Sequence[Any] = (),
    labels: Sequence[str] = (),
    *,
    beside: float = 0.0,
) -> None:
    """Set a title and, between it and the axes, a legend, both as wide as there is room.

    Parameters
    ----------
    axes : matplotlib Axes
    title : str
        Its own words; names from the data as labels.
    handles, labels : sequences
    beside : float
        Width that tick labels will take of the axes, in points.
    """
    room = max(width_of(axes) - beside, 120.0)
    pad = _PAD
    if handles:
        legend = _legend(axes, handles, labels, room)
        pad += legend.get_window_extent().height * _points(axes) + _PAD
    axes.set_title("\n".join(_lines(axes, title, room)), pad=pad)


def width_of(axes: Axes) -> float:
    """Width of axes in points, before a layout is computed."""
    return float(axes.get_window_extent().width) * _points(axes)


def labels_within(axes: Axes, names: Sequence[str], room: float, size: float) -> list[str]:
    """Names as labels no wider than the room, in points, as far as short names can be."""
    for longest in _LENGTHS:
        labels = labels_of(names, longest)
        if max((text_width(axes, label, size) for label in labels), default=0.0) <= room:
            break
    return labels


def text_width(axes: Axes, label: str, size: float) -> float:
    """Width of a text in points."""
    text = axes.text(0, 0, label, fontsize=size, transform=axes.transAxes)
    width = float(text.get_window_extent().width) * _points(axes)
    text.remove()
    return width


def _points(axes: Axes) -> float:
    """Points of a pixel."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return 72.0 / float(figure.dpi)


def _make_bounds(axes: Axes) -> None:
    axes.spines[:].set_visible(False)
    axes.patch.set_visible(False)
    axes.set(xticks=[], yticks=[])


def _part(axes: Axes, n_rows: int, n_columns: int, i: int, shared: dict[str, Any]) -> Axes:
    from matplotlib.gridspec import GridSpecFromSubplotSpec

    spec, figure = axes.get_subplotspec(), axes.get_figure()
    assert figure is not None
    if spec is not None:
        inner = GridSpecFromSubplotSpec(
            n_rows, n_columns, spec, wspace=_BETWEEN / 3, hspace=_BETWEEN
        )
        panel: Axes = figure.add_subplot(inner[divmod(i, n_columns)], **shared)
        return panel
    row, column = divmod(i, n_columns)
    width, height = 1 / n_columns, 1 / n_rows
    box = (column * width, 1 - (row + 1) * height, width * 0.9, height * (1 - _BETWEEN / 1.5))
    return axes.inset_axes(box, **shared)


def _legend(axes: Axes, handles: Sequence[Any], labels: Sequence[str], room: float) -> Any:
    """A legend above the axes in as many columns as fit."""
    for n_columns in range(len(handles), 0, -1):
        legend = axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=n_columns,
            borderaxespad=0.3,
            borderpad=0.1,
            labelspacing=0.35,
            columnspacing=1.6,
            handletextpad=0.6,
        )
        if legend.get_window_extent().width * _points(axes) <= room:
            break
    return legend


def _lines(axes: Axes, title: str, room: float) -> list[str]:
    """The words of a title in lines no wider than the room."""
    size = float(axes.title.get_fontsize())
    lines: list[str] = []
    for word in title.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(axes, longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
