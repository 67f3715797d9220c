"""Panels inside given axes, and how numbers are written along axes.

Panels are inset axes. Whatever layout their figure has, it then sees one axes with all that belongs
to it, and nothing of ours overlaps what stands beside.
"""

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np

from fairspan.drawing.labels import (
    Axes,
    height_of,
    labels_within,
    lay_out,
    points_of,
    text_width,
    width_of,
)
from fairspan.formatting.text import axis_number
from fairspan.typing import FloatArray

# Points between panels beside each other, and above each for its name.
_BESIDE, _ABOVE = 17.0, 23.0
# At most this share of a panel's place goes to what is between.
_MOST_BETWEEN = 0.4
_NAME_SIZE = _NUMBER_SIZE = 10.0
# Between numbers along an axis, and between images, in points.
_APART, _BESIDE_IMAGES = 14.0, 7.0
# Between tick labels and what they are labels of.
_PAD = 4.0
# From the axes to their tick labels.
_TICK = 7.0
# An axis shows a range of at least this share of its numbers, whose digits could not be read else.
_LEAST_RANGE = 1e-4
# An axis of shares shows so much of them at least, and beside them this share of what it shows.
_LEAST_SHARES, _SHARE_MARGIN = 0.1, 0.06
# Panels that may differ in their vertical scale.
_MOST_SCALES = 2


def set_shares(axes: Axes, shares: FloatArray) -> None:
    """Limit an axis of shares to where they are, and write them in per cent.

    Parameters
    ----------
    axes : matplotlib Axes
    shares : array
        From 0 to 1; NaN where there is none.
    """
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    known = shares[~np.isnan(shares)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    missing = max(_LEAST_SHARES - (high - low), 0.0) / 2
    low, high = max(low - missing, 0.0), min(high + missing, 1.0)
    margin = _SHARE_MARGIN * (high - low)
    axes.set_xlim(low - margin, high + margin)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))


def grid(n: int) -> tuple[int, int]:
    """Rows and columns of n panels.

    Examples
    --------
    >>> grid(3), grid(4), grid(12)
    ((1, 3), (2, 2), (3, 4))
    """
    n_columns = min(n, 3) if n < 4 else min(4, ceil(n**0.5))
    return ceil(n / n_columns), n_columns


def panelled_size(n: int) -> tuple[float, float]:
    """Width and height of a new figure of n panels, in inches."""
    n_rows, n_columns = grid(n)
    return max(6.4, 1.2 + 2.3 * n_columns), 2.0 + 1.8 * n_rows


def panels(axes: Axes, names: Sequence[str]) -> tuple[Axes, ...]:
    """A panel for each name, all of one scale; with a single name, the axes themselves.

    The given axes keep their title and the labels of their axes, which then are those of all.
    """
    if len(names) == 1:
        return (axes,)
    n_rows, n_columns = grid(len(names))
    drawn = _insets(axes, n_rows, n_columns, len(names), above=_ABOVE)
    shown = labels_within(axes, names, width_of(axes) / n_columns - _BESIDE, _NAME_SIZE)
    for i, (panel, name) in enumerate(zip(drawn, shown, strict=True)):
        panel.set_title(name, fontsize=_NAME_SIZE, pad=4)
        panel.tick_params(labelbottom=i + n_columns >= len(names), labelleft=i % n_columns == 0)
    return drawn


def stacked(axes: Axes, n: int) -> tuple[Axes, ...]:
    """Panels one below the other, of one horizontal scale."""
    drawn = _insets(axes, n, 1, n, above=0.6 * _ABOVE, share_y=False)
    for panel in drawn[:-1]:
        panel.tick_params(labelbottom=False)
    return drawn


def images(axes: Axes, n_rows: int, n_columns: int) -> tuple[Axes, ...]:
    """Panels without scales, row by row."""
    return _insets(
        axes, n_rows, n_columns, n_rows * n_columns, above=0.8 * _ABOVE, beside=_BESIDE_IMAGES
    )


def label_bounds(axes: Axes, drawn: Sequence[Axes], x: str, y: str = "") -> None:
    """Label axes that may be the bounds of panels, beyond the panels' tick labels.

    To be called when everything is drawn.
    """
    apart = len(drawn) > 1
    below = left = _PAD + _TICK
    if apart:
        unit = points_of(axes)
        # The last panel has numbers below it, and panels of one scale have the same beside.
        below += _extent(drawn[-1].xaxis, 1) * unit
        left += max(_extent(panel.yaxis, 0) for panel in drawn[:_MOST_SCALES]) * unit
    axes.set_xlabel(x, labelpad=below if apart else None)
    axes.set_ylabel(y, labelpad=left if apart else None)


def fill_evenly(axes: Axes) -> None:
    """Widen the limits until both scales are the same where the axes are as they are."""
    box = axes.get_window_extent()
    limits = np.array([axes.get_xlim(), axes.get_ylim()])
    spans = limits[:, 1] - limits[:, 0]
    unit = (spans / [box.width, box.height]).max()
    more = (unit * np.array([box.width, box.height]) - spans) / 2
    axes.set_xlim(limits[0, 0] - more[0], limits[0, 1] + more[0])
    axes.set_ylim(limits[1, 0] - more[1], limits[1, 1] + more[1])


def plain_numbers(drawn: Sequence[Axes], which: str = "both") -> None:
    """Write numbers out at their ticks, since a common factor would stand in the title's way."""
    from matplotlib.ticker import FuncFormatter

    for panel in drawn:
        for name in ("x", "y") if which == "both" else (which,):
            axis = getattr(panel, f"{name}axis")
            low, high = sorted(axis.get_view_interval())
            least = _LEAST_RANGE * max(abs(low), abs(high))
            if high - low < least:
                middle = (low + high) / 2
                getattr(panel, f"set_{name}lim")(middle - least / 2, middle + least / 2)
            axis.set_major_formatter(FuncFormatter(lambda value, _: axis_number(value)))
            if name == "x":
                _thin_ticks(panel)


def _thin_ticks(axes: Axes) -> None:
    """As few numbers below axes as fit beside each other."""
    from matplotlib.ticker import MaxNLocator

    widest = max(
        (text_width(axes, axis_number(float(x)), _NUMBER_SIZE) for x in axes.get_xticks()),
        default=0.0,
    )
    axes.xaxis.set_major_locator(
        MaxNLocator(
            nbins=min(max(int(width_of(axes) / (widest + _APART)), 1), 9), steps=[1, 2, 2.5, 5, 10]
        )
    )


def _insets(
    axes: Axes,
    n_rows: int,
    n_columns: int,
    n: int,
    *,
    above: float,
    share_y: bool = True,
    beside: float = _BESIDE,
) -> tuple[Axes, ...]:
    axes.spines[:].set_visible(False)
    axes.patch.set_visible(False)
    axes.set(xticks=[], yticks=[])
    lay_out(axes)
    beside = min(beside * n_columns / width_of(axes), _MOST_BETWEEN)
    over = min(above * n_rows / height_of(axes), _MOST_BETWEEN)
    # No room is left to the right of the last column.
    width = 1 / (n_columns - beside)
    made: list[Axes] = []
    for i in range(n):
        row, column = divmod(i, n_columns)
        box = (column * width, 1 - (row + 1) / n_rows, width * (1 - beside), (1 - over) / n_rows)
        first: Any = made[0] if made else None
        made.append(axes.inset_axes(box, sharex=first, sharey=first if share_y else None))
    return tuple(made)


def _extent(axis: object, dimension: int) -> float:
    """Size of tick labels across the axis, in pixels."""
    box = axis.get_tightbbox()  # type: ignore[attr-defined]
    return 0.0 if box is None else float((box.width, box.height)[dimension])
