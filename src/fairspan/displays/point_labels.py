"""Labels next to points, where they cover neither each other nor the points nor a curve."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.displays.label_box import LabelBox
from fairspan.displays.style import LETTER_WIDTH, Axes
from fairspan.typing import FloatArray

# Font size of labels, height of a line, and distance of a label from its point, in points.
_SIZE = 9.0
_LINE_HEIGHT = 12.0
_DISTANCE = 9.0
# Half the size of a point that labels keep free, in points.
_POINT_RADIUS = 6.0
# The layout shrinks the axes after labels are placed, by up to this factor.
_LAYOUT_SHRINKAGE = 0.9
# Number of places along a curve that labels keep free.
_N_CURVE_PLACES = 400
# Directions from a point to its label, the preferred first. Above is before below, as the frontier
# of two errors is the lower left edge of what can be achieved.
_DIRECTIONS = ((1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1), (-1, 0), (0, 1), (0, -1))
# A label is nearer to its own point than to any other by this factor, so that it names no other.
_MIN_DISTANCE_RATIO = 1.5


def label_points(
    axes: Axes,
    points: FloatArray,
    texts: Sequence[str],
    curve: FloatArray,
    guide: FloatArray,
) -> list[bool]:
    """Write the text of each point next to it, wherever there is room for it.

    Parameters
    ----------
    axes : matplotlib Axes
        With its final limits.
    points : (n, 2) array
        Positions in data coordinates.
    texts : sequence of n str
    curve : (m, 2) array
        Vertices of a curve that labels may not cover.
    guide : (l, 2) array
        Vertices of a line that a label covers only if there is no other room for it.

    Returns
    -------
    list of n bool
        Whether each text was written.
    """
    to_points = _LAYOUT_SHRINKAGE * _points_per_data_unit(axes)
    origin = np.array([axes.get_xlim()[0], axes.get_ylim()[0]])
    size = to_points * np.array([np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())])
    places = (points - origin) * to_points
    curve_places = _places_along((curve - origin) * to_points)
    guide_places = _places_along((guide - origin) * to_points)
    avoided_places = np.vstack([curve_places, guide_places])

    def place_labels(order: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return the directions of the labels for which there is room, by point."""
        boxes: list[LabelBox] = []
        directions = {}
        for i in order:
            label = _free_label(places[i], texts[i], size, boxes, places, avoided_places)
            if label is None:
                label = _free_label(places[i], texts[i], size, boxes, places, curve_places)
            if label is not None:
                directions[i] = label.direction
                boxes.append(label.box)
        return directions

    # A label may take the room of others, so each is placed first in one attempt.
    n = len(texts)
    orders = [sorted(range(n), key=lambda i: i != first) for first in range(n)]
    directions = max(map(place_labels, orders), key=len)
    for i, direction in directions.items():
        _write(axes, points[i], texts[i], direction)
    return [i in directions for i in range(n)]


def _points_per_data_unit(axes: Axes) -> FloatArray:
    """Return the length of one unit of the data along both axes, in points."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    extent = np.array([axes.bbox.width, axes.bbox.height]) * 72 / figure.dpi
    return np.asarray(extent / [np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())])


def _places_along(vertices: FloatArray) -> FloatArray:
    """Return places along a polygon, evenly spaced between its vertices."""
    steps = np.linspace(0, len(vertices) - 1, _N_CURVE_PLACES)
    indices = np.arange(len(vertices))
    return np.column_stack([np.interp(steps, indices, values) for values in vertices.T])


@dataclass(frozen=True, eq=False)
class _PlacedLabel:
    """Direction from a point to its label, and the box of the label.

    Attributes
    ----------
    direction : (int, int)
        To the right (1) or left (-1), and above (1) or below (-1); 0 if centered.
    box : LabelBox
        In points from the lower left corner of the axes.
    """

    direction: tuple[int, int]
    box: LabelBox


def _free_label(
    place: FloatArray,
    text: str,
    size: FloatArray,
    boxes: Sequence[LabelBox],
    places: FloatArray,
    curve_places: FloatArray,
) -> _PlacedLabel | None:
    """Return a label in the first direction in which it covers nothing; None if there is none.

    The label is clearly nearest to its own point. All positions are in points (1/72 inch) from the
    lower left corner of the axes.

    Parameters
    ----------
    place : (2,) array
        The point to label.
    text : str
    size : (2,) array
        Width and height of the axes.
    boxes : sequence of LabelBox
        Those of the labels that are already placed.
    places : (n, 2) array
        All points.
    curve_places : (m, 2) array
        Places along curves.
    """
    lines = text.split("\n")
    extent = np.array([LETTER_WIDTH * _SIZE * max(map(len, lines)), _LINE_HEIGHT * len(lines)])
    for direction in _DIRECTIONS:
        signs = np.array(direction)
        box = LabelBox.about(place + signs * (_DISTANCE + extent / 2), extent)
        is_inside = box.lies_within(np.zeros(2), size)
        is_free = not box.contains(curve_places, 1.0).any()
        is_free &= not box.contains(places, _POINT_RADIUS).any()
        is_free &= _is_nearest(box, place, places)
        if is_inside and is_free and not any(map(box.overlaps, boxes)):
            return _PlacedLabel(direction, box)
    return None


def _is_nearest(box: LabelBox, place: FloatArray, places: FloatArray) -> bool:
    """Whether a label is clearly nearer to its point than to others, unless these coincide."""
    others = places[np.linalg.norm(places - place, axis=1) > _POINT_RADIUS]
    if not len(others):
        return True
    nearest = float(box.distances(others).min())
    return nearest > _MIN_DISTANCE_RATIO * float(box.distances(place[None])[0])


def _write(axes: Axes, point: FloatArray, text: str, direction: tuple[int, int]) -> None:
    right, up = direction
    axes.annotate(
        text,
        (float(point[0]), float(point[1])),
        (right * _DISTANCE, up * _DISTANCE),
        textcoords="offset points",
        ha={1: "left", 0: "center", -1: "right"}[right],
        va={0: "center", 1: "bottom", -1: "top"}[up],
        fontsize=_SIZE,
    )
