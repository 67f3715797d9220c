"""Where a few words fit into axes without touching what is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairspan.drawing.measures import height_of, text_width, width_of
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_SIZE = 10.0
# Room around the words, in points, and how many places are tried along each axis.
_ROOM, _TRIED = 6.0, 17
# Points along each side of an outline, which must not cross the words.
_ALONG = 24


def free_place(
    axes: Axes, text: str, taken: FloatArray, outline: FloatArray, *, inside: bool
) -> tuple[float, float] | None:
    """The place farthest from everything, inside or outside an outline.

    Parameters
    ----------
    axes : matplotlib Axes
    text : str
        In one line.
    taken : (m, 2) array
        Points to keep away from, as shares of the axes.
    outline : (r, 2) array
        Corners of a convex set.
    inside : bool

    Returns
    -------
    tuple of 2 float, or None
        Middle of the text, as shares of the axes; None if it fits nowhere.
    """
    size = np.array([width_of(axes), height_of(axes)])
    half = np.array([text_width(axes, text, _SIZE) / 2, _SIZE / 2]) + _ROOM
    obstacles = np.vstack([taken, _along(outline)]) * size
    best, place = 0.0, None
    tried = np.linspace(0, 1, _TRIED)
    for x in tried:
        for y in tried:
            middle = np.array([x, y]) * size
            if (middle < half).any() or (middle > size - half).any():
                continue
            if _is_inside(np.array([x, y]), outline) != inside:
                continue
            beyond = np.maximum(np.abs(obstacles - middle) - half, 0.0)
            apart = float(np.hypot(*beyond.T).min())
            if apart > best:
                best, place = apart, (float(x), float(y))
    return place


def _along(outline: FloatArray) -> FloatArray:
    """Points along the sides of a polygon."""
    steps = np.linspace(0, 1, _ALONG)[:, None, None]
    return np.asarray(outline + steps * (np.roll(outline, -1, axis=0) - outline)).reshape(-1, 2)


def _is_inside(point: FloatArray, outline: FloatArray) -> bool:
    """Whether a ray from the point to the right crosses the sides an odd number of times."""
    start, end = outline, np.roll(outline, -1, axis=0)
    crosses = (start[:, 1] > point[1]) != (end[:, 1] > point[1])
    start, end = start[crosses], end[crosses]
    share = (point[1] - start[:, 1]) / (end[:, 1] - start[:, 1])
    return bool((start[:, 0] + share * (end[:, 0] - start[:, 0]) > point[0]).sum() % 2)
