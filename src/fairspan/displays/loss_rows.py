"""Rows of expected losses: one per group and model, each with its interval and state.

Every row names its model below a heading with its group, and every interval its state, so that no
legend is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.displays.style import (
    FOREGROUND,
    GREEN,
    LETTER_WIDTH,
    MUTED,
    NAME_SIZE,
    ORANGE,
    PURPLE,
    Axes,
    SeriesStyle,
    available_width,
    shorten_names,
)
from fairspan.typing import BoolArray, FloatArray

INCONCLUSIVE = "inconclusive"
# One color per state, the same as in the tables of the page.
STATE_COLORS = {
    "harmed": PURPLE,
    "minor": ORANGE,
    "no material harm": GREEN,
    INCONCLUSIVE: MUTED,
}
HEADING_HEIGHT = 0.8
"""Height of the heading of a group above its rows, if it has several; a row has the height one."""
# Distance from a heading to the first row below it.
_HEADING_DISTANCE = 0.93
# Distance from an interval to the text above it, and size of that text, in points.
_TEXT_DISTANCE = 4.0
_TEXT_SIZE = 9.0
# Background of the text. (Any: matplotlib types each setting.)
_BACKGROUND: Any = {"facecolor": "#ffffff", "edgecolor": "none", "alpha": 0.9, "pad": 0.3}
# Maximum width of a heading as a share of the width of axes and labels.
_HEADING_WIDTH = 0.6
# Marker sizes in points. Hollow ones look smaller.
_MARKER_SIZE = 7.0
_HOLLOW_MARKER_SIZE = 8.5
# Share of the width of axes and labels that the axis has at least beside names of usual length.
_AXIS_SHARE = 0.7
# Margin of the axis, as a share of its range.
_MARGIN = 0.04


@dataclass(frozen=True)
class LossRow:
    """Expected loss of a group under a model, in the unit of the plot.

    Attributes
    ----------
    position : float
        Y coordinate.
    value, low, high : float
        Loss and its limits; NaN where they are unknown.
    state : str
    text : str
        Text above the interval.
    style : SeriesStyle
        Style of the model. Only its marker is used: colors tell states apart.
    element_id : str
        Identifier of the marker in SVG, unique in the figure.
    """

    position: float
    value: float
    low: float
    high: float
    state: str
    text: str
    style: SeriesStyle
    element_id: str


def row_positions(n_groups: int, n_models: int) -> FloatArray:
    """Return the y coordinates by group and model, (k, m); the first is zero.

    Examples
    --------
    >>> row_positions(2, 2).tolist()
    [[0.0, 1.0], [2.8, 3.8]]
    """
    distance = n_models + (HEADING_HEIGHT if n_models > 1 else 0.0)
    return distance * np.arange(n_groups, dtype=np.float64)[:, None] + np.arange(n_models)


def draw_headings(axes: Axes, names: Sequence[str], positions: FloatArray) -> None:
    """Write the name of each group above its rows, whose y coordinates are (k, m)."""
    start = axes.get_xlim()[0]
    names = shorten_names(names, _HEADING_WIDTH * available_width(axes))
    for name, position in zip(names, positions[:, 0].tolist(), strict=True):
        axes.annotate(
            name,
            (start, position - _HEADING_DISTANCE),
            (_TEXT_DISTANCE, 0),
            textcoords="offset points",
            va="center",
            fontsize=NAME_SIZE,
            fontweight="bold",
            color=FOREGROUND,
            zorder=1.5,
            bbox=_BACKGROUND,
        )


def draw_loss_rows(axes: Axes, rows: Sequence[LossRow], limits: tuple[float, float]) -> None:
    """Draw intervals, markers and texts, within the limits of the x axis."""
    axes.set_xlim(*limits)
    axes.axvline(0, color=FOREGROUND, linewidth=0.8, zorder=1)
    for row in rows:
        _draw_row(axes, row, limits)


def _draw_row(axes: Axes, row: LossRow, limits: tuple[float, float]) -> None:
    start, end = limits
    middle = 0.0
    if not np.isnan(row.value):
        color = STATE_COLORS.get(row.state, FOREGROUND)
        axes.plot(
            row.value,
            row.position,
            color=color,
            marker=row.style.marker,
            markerfacecolor=row.style.marker_fill(color),
            markersize=_MARKER_SIZE if row.style.is_filled else _HOLLOW_MARKER_SIZE,
            markeredgewidth=1 if row.style.is_filled else 2,
            gid=row.element_id,
        )
        middle = row.value
    if not np.isnan(row.low):
        _draw_interval(axes, row, limits)
        middle = float(np.clip([row.low, row.high], start, end).mean())
    _draw_text(axes, row, middle, (middle - start) / (end - start))


def _draw_interval(axes: Axes, row: LossRow, limits: tuple[float, float]) -> None:
    """Draw an interval, with an arrow where it extends beyond the axis."""
    start, end = limits
    color = STATE_COLORS.get(row.state, FOREGROUND)
    axes.hlines(row.position, *np.clip([row.low, row.high], start, end), color=color, linewidth=2)
    for limit, arrow, exceeds in ((start, "<", row.low < start), (end, ">", row.high > end)):
        if exceeds:
            axes.plot(limit, row.position, arrow, color=color, markersize=6, clip_on=False)


def _draw_text(axes: Axes, row: LossRow, x: float, share: float) -> None:
    """Write the text above an interval, so that it extends to both sides within the axes.

    Parameters
    ----------
    axes : matplotlib Axes
    row : LossRow
    x : float
        Middle of the interval.
    share : float
        Position of the middle between the ends of the axis, from 0 to 1.
    """
    width = LETTER_WIDTH * _TEXT_SIZE * len(row.text)
    offset = (0.5 - share) * width
    alignment = "center"
    start, end = axes.get_xlim()
    axis_width = _AXIS_SHARE * available_width(axes)
    zero = -start / (end - start) * axis_width
    # In points from the start of the axis, where the text would begin.
    text_start = share * (axis_width - width)
    if text_start - _TEXT_DISTANCE < zero < text_start + width + _TEXT_DISTANCE:
        # The line at zero would cross the text, so that it starts, or ends, at this line.
        x = 0.0
        fits_right = axis_width - zero >= min(width + _TEXT_DISTANCE, zero)
        alignment = "left" if fits_right else "right"
        offset = _TEXT_DISTANCE if fits_right else -_TEXT_DISTANCE
    axes.annotate(
        row.text,
        (x, row.position),
        (offset, _TEXT_DISTANCE),
        textcoords="offset points",
        ha=alignment,
        va="bottom",
        fontsize=_TEXT_SIZE,
        color=FOREGROUND,
        annotation_clip=False,
        # The grid would cross the letters; markers are above the background.
        zorder=1.5,
        bbox=_BACKGROUND,
    )


def axis_limits(
    low: FloatArray,
    high: FloatArray,
    is_inconclusive: BoolArray,
    values: FloatArray,
    max_extra: float,
) -> tuple[float, float]:
    """Return axis limits that contain zero, all values, and all conclusive intervals.

    Inconclusive intervals may be far longer, so they extend this range only by a multiple of it;
    without conclusive ones, all of them are contained.

    Parameters
    ----------
    low, high : (n,) arrays
        Intervals; NaN where there is none.
    is_inconclusive : (n,) array of bool
        Whether the state is inconclusive.
    values : array
        Values that are drawn; NaN where there is none.
    max_extra : float
        Maximum extra range for inconclusive intervals, as a multiple of the range without them.
    """
    has_interval = ~np.isnan(low)
    is_conclusive = has_interval & ~is_inconclusive
    start = np.min(low[has_interval], initial=0.0)
    end = np.max(high[has_interval], initial=0.0)
    finite_values = values[~np.isnan(values)]
    if is_conclusive.any():
        known_start = min(np.min(low[is_conclusive]), np.min(finite_values, initial=0.0))
        known_end = max(np.max(high[is_conclusive]), np.max(finite_values, initial=0.0))
        extra = max_extra * (known_end - known_start)
        start = max(start, known_start - extra)
        end = min(end, known_end + extra)
    start = np.min(finite_values, initial=start)
    end = np.max(finite_values, initial=end)
    # All values may be zero, and an axis needs a positive range.
    margin = _MARGIN * (end - start) if end > start else 1.0
    return float(start - margin), float(end + margin)
