"""Arrows of features in the plane of two components, the longest labeled without overlap."""

from collections.abc import Iterator, Sequence
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
    lengths = np.hypot(*tips.T)
    shown_names = [_break_label(name) for name in plot_labels(names, _MAX_LETTERS)]
    placed: list[_Label] = []
    labeled: list[int] = []
    for j in np.argsort(-lengths, kind="stable").tolist():
        if len(placed) == max_labels or lengths[j] <= _MIN_LABELED_SHARE * lengths.max():
            break
        occupied = _places_along(tips[labeled] * points_per_unit)
        candidates = _candidate_labels(shown_names[j], tips[j], points_per_unit, corner)
        for i, label in enumerate(candidates):
            is_free = label.box.lies_within(-corner, corner)
            is_free &= not any(label.box.overlaps(other.box) for other in placed)
            # A label in its first place belongs to the arrow; elsewhere it might to another one.
            if is_free and i > 0:
                is_free = not label.box.contains(occupied).any()
            if is_free:
                placed.append(label)
                labeled.append(j)
                break
    is_labeled = np.isin(np.arange(len(tips)), labeled)
    for chosen, settings in ((~is_labeled, _OTHER_STYLE), (is_labeled, _LABELED_STYLE)):
        if chosen.any():
            origin = np.zeros(int(chosen.sum()))
            axes.quiver(
                origin,
                origin,
                *tips[chosen].T,
                angles="xy",
                scale_units="xy",
                scale=1,
                color=color,
                zorder=3,
                **settings,
            )
    for label in placed:
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
    return [names[j] for j in labeled]


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
    up = 1.0 if y >= 0 else -1.0
    vertical = "bottom" if up > 0 else "top"
    right = 1.0 if x >= 0 else -1.0
    side = "left" if right > 0 else "right"
    center = x * points_per_unit
    middle = y * points_per_unit
    beyond_in_x = center + right * (_TIP_DISTANCE + width / 2)
    beyond_in_y = middle + up * (_TIP_DISTANCE + height / 2)
    is_flat = abs(x) >= _FLAT_SHARE * float(np.hypot(x, y))
    if is_flat:
        box = LabelBox.about(np.array([beyond_in_x, middle]), size)
        yield _Label(text, (x, y), (right * _TIP_DISTANCE, 0.0), (side, "center"), box)
    else:
        offset = (right * _TIP_DISTANCE, up * _TIP_DISTANCE)
        box = LabelBox.about(np.array([beyond_in_x, beyond_in_y]), size)
        yield _Label(text, (x, y), offset, (side, vertical), box)
    above = LabelBox.about(np.array([center, beyond_in_y]), size)
    yield _Label(text, (x, y), (0.0, up * _TIP_DISTANCE), ("center", vertical), above)
    # At the edge of the axes, wide letters would cover the tick labels.
    wide = size * [_EDGE_WIDTH_FACTOR, 1.0]
    reach = max(float(corner[0] - wide[0] / 2), 0.0)
    moved = min(max(center, -reach), reach)
    box = LabelBox.about(np.array([moved, beyond_in_y]), wide)
    yield _Label(text, (x, y), (moved - center, up * _TIP_DISTANCE), ("center", vertical), box)
