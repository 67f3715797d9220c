"""How large things are, in points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairspan.formatting.names import labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Lengths that are tried for names, in letters.
_LENGTHS = (40, 36, 32, 29, 26, 23, 20, 18, 16, 14, 12, 10, 8)


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
    engine = figure.get_layout_engine()
    if engine is not None:
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
    artist = axes.text(0, 0, text, fontsize=size, transform=axes.transAxes)
    width = float(artist.get_window_extent().width) * points_of(axes)
    artist.remove()
    return width


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
