"""Arrows of features in the plane of two components, the longest labeled without overlap."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.displays.label_box import LabelBox
from fairspan.displays.style import (
    LETTER_WIDTH,
    NAME_SIZE,
    Axes,
    available_width,
    root_figure,
)
from fairspan.formatting.names import plot_labels
from fairspan.typing import FloatArray

# Maximum number of letters of a label, and of one in a single line if it can be broken.
_MAX_LETTERS = 40
_MAX_LETTERS_OF_LINE = 14
# Letters after which a label may be broken.
_BREAKS = " =_-/:"
# Height of a line, and distance from the tip of its arrow, in points.
_LINE_HEIGHT = 1.45 * NAME_SIZE
_TIP_DISTANCE = 3.0
# Factor of the estimated width of a label: some letters are wider than the average.
_WIDTH_FACTOR = 1.25
# Further factor for labels at the edge of the axes, for names that consist of wide letters.
_EDGE_WIDTH_FACTOR = 1.4
# Number of places along an arrow that labels keep free.
_N_ARROW_PLACES = 40
# Height and width that title, legend and axis labels take at most, in points.
_HEADER_HEIGHT = 130.0
_LABELS_WIDTH = 70.0
# Share of an arrow's length that is horizontal, from which its label is centered vertically.
_FLAT_SHARE = 0.94
# Arrows shorter than this share of the longest have no label.
_MIN_LABELED_SHARE = 0.1
# Opacity and width (relative to the axes) of arrows with a label, and of those without.
_LABELED_STYLE: Any = {"alpha": 0.95, "width": 0.0045}
_OTHER_STYLE: Any = {"alpha": 0.35, "width": 0.0025}


@dataclass(frozen=True, eq=False)
class _Label:
    """Label of an arrow, with its box in points from the origin of the axes.

    Attributes
    ----------
    text : str
    tip : (float, float)
        Tip of the arrow in data coordinates.
    offset : (float, float)
        Offset of the text from the tip, in points.
    alignment : (str, str)
        Horizontal and vertical alignment.
    box : LabelBox
    """

    text: str
    tip: tuple[float, float]
    offset: tuple[float, float]
    alignment: tuple[str, str]
    box: LabelBox


def draw_feature_arrows(
    axes: Axes,
    tips: FloatArray,
    names: Sequence[str],
    *,
    max_labels: int,
    half_ranges: tuple[float, float],
    color: str,
) -> list[str]:
    """Draw an arrow from the origin for each feature, and label the longest.

    Parameters
    ----------
    axes : matplotlib Axes
        With equal scales on both axes.
    tips : (p, 2) array
        Tips of the arrows in data coordinates.
    names : sequence of p str
    max_labels : int
        Maximum number of labels; those that would overlap a longer arrow's label are left out.
    half_ranges : (float, float)
        Half the range of the x and of the y axis in data coordinates, about the origin.
    color : str

    Returns
    -------
    list of str
        Names of the labeled features, the longest arrow first.
    """
    points_per_unit = _estimated_scale(axes, half_ranges)
    corner = points_per_unit * np.array(half_ranges)
    labels = _place_labels(tips, names, max_labels, points_per_unit, corner)
    is_labeled = np.isin(np.arange(len(tips)), list(labels))
    _draw_arrows(axes, tips[~is_labeled], color, _OTHER_STYLE)
    _draw_arrows(axes, tips[is_labeled], color, _LABELED_STYLE)
    for label in labels.values():
        _draw_label(axes, label)
    return [names[j] for j in labels]


def _place_labels(
    tips: FloatArray,
    names: Sequence[str],
    max_labels: int,
    points_per_unit: float,
    corner: FloatArray,
) -> dict[int, _Label]:
    """Return the labels of the longest arrows by feature, the longest first.

    Parameters
    ----------
    tips : (p, 2) array
        Tips of the arrows in data coordinates.
    names : sequence of p str
    max_labels : int
        Maximum number of labels.
    points_per_unit : float
        Points (1/72 inch) per unit of the data.
    corner : (2,) array
        Upper right corner of the axes, in points from the origin.
    """
    lengths = np.hypot(*tips.T)
    shown_names = [_break_label(name) for name in plot_labels(names, _MAX_LETTERS)]
    labels: dict[int, _Label] = {}
    for j in np.argsort(-lengths, kind="stable").tolist():
        if len(labels) == max_labels or lengths[j] <= _MIN_LABELED_SHARE * lengths.max():
            break
        arrow_places = _places_along(tips[list(labels)] * points_per_unit)
        candidates = _candidate_labels(shown_names[j], tips[j], points_per_unit, corner)
        for i, label in enumerate(candidates):
            is_free = label.box.lies_within(-corner, corner)
            is_free &= not any(label.box.overlaps(other.box) for other in labels.values())
            # A label in its first place belongs to the arrow; elsewhere it might to another one.
            if is_free and i > 0:
                is_free = not label.box.contains(arrow_places).any()
            if is_free:
                labels[j] = label
                break
    return labels


def _draw_arrows(axes: Axes, tips: FloatArray, color: str, settings: Mapping[str, Any]) -> None:
    """Draw arrows from the origin to these tips, (n, 2) in data coordinates."""
    if not len(tips):
        return
    starts = np.zeros(len(tips))
    axes.quiver(
        starts,
        starts,
        *tips.T,
        angles="xy",
        scale_units="xy",
        scale=1,
        color=color,
        zorder=3,
        **settings,
    )


def _draw_label(axes: Axes, label: _Label) -> None:
    horizontal, vertical = label.alignment
    axes.annotate(
        label.text,
        label.tip,
        xytext=label.offset,
        textcoords="offset points",
        horizontalalignment=horizontal,
        verticalalignment=vertical,
        multialignment=horizontal,
        fontsize=NAME_SIZE,
        zorder=4,
    )


def _places_along(tips: FloatArray) -> FloatArray:
    """Return places along arrows from the origin to these tips, (n, 2)."""
    steps = np.linspace(0, 1, _N_ARROW_PLACES)
    return np.asarray((steps[:, None, None] * tips).reshape(-1, 2))


def _estimated_scale(axes: Axes, half_ranges: tuple[float, float]) -> float:
    """Estimate the points per unit of axes with equal scales, before the layout is known."""
    figure = root_figure(axes)
    width = available_width(axes) - _LABELS_WIDTH
    height = 72 * float(figure.bbox.height) / figure.dpi - _HEADER_HEIGHT
    half_width, half_height = half_ranges
    return max(min(width / half_width, height / half_height), 1.0) / 2


def _break_label(text: str) -> str:
    """Break a long label into two lines, near its middle, if there is a place to break it."""
    places = [i + 1 for i, letter in enumerate(text[:-1]) if letter in _BREAKS]
    if len(text) <= _MAX_LETTERS_OF_LINE or not places:
        return text
    place = min(places, key=lambda i: abs(i - len(text) / 2))
    return f"{text[:place].rstrip()}\n{text[place:]}"


def _candidate_labels(
    text: str, tip: FloatArray, points_per_unit: float, corner: FloatArray
) -> Iterator[_Label]:
    """Yield labels beyond the tip of an arrow: to the side it points to, and above or below it.

    The last one is moved to the side as far as the axes, which end at the corner, require.
    """
    x = float(tip[0])
    y = float(tip[1])
    lines = text.split("\n")
    width = _WIDTH_FACTOR * LETTER_WIDTH * NAME_SIZE * max(map(len, lines))
    height = _LINE_HEIGHT * len(lines)
    size = np.array([width, height])
    x_sign = 1.0 if x >= 0 else -1.0
    y_sign = 1.0 if y >= 0 else -1.0
    # The edge of the text that is next to the tip.
    near_side = "left" if x_sign > 0 else "right"
    near_end = "bottom" if y_sign > 0 else "top"
    # Position of the tip, and centers of labels beyond it, in points from the origin.
    tip_x = x * points_per_unit
    tip_y = y * points_per_unit
    beyond_x = tip_x + x_sign * (_TIP_DISTANCE + width / 2)
    beyond_y = tip_y + y_sign * (_TIP_DISTANCE + height / 2)
    is_flat = abs(x) >= _FLAT_SHARE * float(np.hypot(x, y))
    if is_flat:
        box = LabelBox.about(np.array([beyond_x, tip_y]), size)
        yield _Label(text, (x, y), (x_sign * _TIP_DISTANCE, 0.0), (near_side, "center"), box)
    else:
        offset = (x_sign * _TIP_DISTANCE, y_sign * _TIP_DISTANCE)
        box = LabelBox.about(np.array([beyond_x, beyond_y]), size)
        yield _Label(text, (x, y), offset, (near_side, near_end), box)
    centered_box = LabelBox.about(np.array([tip_x, beyond_y]), size)
    yield _Label(text, (x, y), (0.0, y_sign * _TIP_DISTANCE), ("center", near_end), centered_box)
    # At the edge of the axes, wide letters would cover the tick labels.
    wide_size = size * [_EDGE_WIDTH_FACTOR, 1.0]
    max_center = max(float(corner[0] - wide_size[0] / 2), 0.0)
    center = min(max(tip_x, -max_center), max_center)
    box = LabelBox.about(np.array([center, beyond_y]), wide_size)
    offset = (center - tip_x, y_sign * _TIP_DISTANCE)
    yield _Label(text, (x, y), offset, ("center", near_end), box)
