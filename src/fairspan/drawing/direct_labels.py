"""Names beside the marks that they belong to, where nothing else is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.drawing.labels import INK, lay_out
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = 10.0
# Distances from a mark that are tried, in points, and the sides of it, as signs of right and up.
_DISTANCES = (11.0, 20.0, 30.0, 45.0, 64.0)
_SIDES = ((1, 0), (1, 1), (1, -1), (-1, 0), (0, 1), (-1, 1), (0, -1), (-1, -1))
# From this distance on, a line leads from the name to its mark.
_APART = 12.0
# Points of a line that are compared with the place of a name.
_ALONG = 200
_HORIZONTAL = {-1: "right", 0: "center", 1: "left"}
_VERTICAL = {-1: "top", 0: "center", 1: "bottom"}


@dataclass(frozen=True)
class Named:
    """A mark and its name.

    Attributes
    ----------
    name : str
        It may have several lines.
    place : tuple of 2 floats
        In the units of the axes.
    """

    name: str
    place: tuple[float, float]


def write_beside(axes: Axes, named: Sequence[Named], lines: Sequence[FloatArray]) -> None:
    """Write each name as near to its mark as it hides nothing.

    To be called when all else is drawn, as that decides how large the axes are.

    Parameters
    ----------
    axes : matplotlib Axes
    named : sequence of Named
    lines : sequence of (m, 2) arrays
        Lines that names must not cover.
    """
    lay_out(axes)
    marks = axes.transData.transform([each.place for each in named])
    covered = np.vstack([marks, *(_along(axes.transData.transform(line)) for line in lines)])
    boxes: list[Any] = []
    for each in named:
        boxes.append(_write(axes, each, covered, boxes))


def _along(corners: FloatArray) -> FloatArray:
    """Points of a line, so many that no name lies between them."""
    lengths = np.linalg.norm(np.diff(corners, axis=0), axis=1)
    at = np.concatenate([[0.0], np.cumsum(lengths)])
    chosen = np.linspace(0.0, at[-1], _ALONG)
    return np.column_stack([np.interp(chosen, at, corners[:, i]) for i in (0, 1)])


def _write(axes: Axes, each: Named, covered: FloatArray, boxes: Sequence[Any]) -> Any:
    """Write a name where it hides least, as near as can be; the box that it takes."""
    text = axes.annotate(
        each.name, each.place, (0, 0), textcoords="offset points", fontsize=_SIZE, zorder=5
    )
    tried = []
    for distance, side in product(_DISTANCES, _SIDES):
        _put(text, distance, side)
        tried.append((_hidden(axes, text.get_window_extent(), covered, boxes), distance, side))
        if not tried[-1][0]:
            break
    _, distance, side = min(tried, key=lambda found: found[0])
    _put(text, distance, side)
    if distance > _APART:
        axes.annotate(
            "",
            each.place,
            text.get_position(),
            textcoords="offset points",
            arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.6, "shrinkB": 4},
        )
    return text.get_window_extent()


def _put(text: Any, distance: float, side: tuple[int, int]) -> None:
    right, up = side
    text.set_position((distance / np.hypot(*side) * right, distance / np.hypot(*side) * up))
    text.set(horizontalalignment=_HORIZONTAL[right], verticalalignment=_VERTICAL[up])


def _hidden(axes: Axes, box: Any, covered: FloatArray, boxes: Sequence[Any]) -> int:
    """How much a name would hide there: marks, the line, other names, or lie outside."""
    frame = axes.get_window_extent()
    inside = (covered > [box.x0, box.y0]) & (covered < [box.x1, box.y1])
    others = sum(bool(box.overlaps(other)) for other in boxes)
    outside = box.x0 < frame.x0 or box.y0 < frame.y0 or box.x1 > frame.x1 or box.y1 > frame.y1
    return int(inside.all(axis=1).sum()) + _ALONG * (others + int(outside))
