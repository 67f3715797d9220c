"""One line of an error curve: figures of a group by number of dimensions, with their band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fairspan.drawing.expected_losses import CANNOT_TELL
from fairspan.drawing.labels import BEST, FAINT, FAIR, Look
from fairspan.typing import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

States = Sequence[Sequence[str | None]]
ON_ROWS: dict[str, Any] = {"linestyle": ":", "linewidth": 1.4}
_BAND = 0.16
# Beyond this many dimensions the marks in a panel are smaller.
_MOST_MARKED = 12


class ErrorLine(NamedTuple):
    """One line in each panel, which `key` and the group's position identify."""

    key: str
    name: str
    values: FloatArray
    interval: FloatArray | None
    style: Look
    states: States | None = None
    on_rows: FloatArray | None = None


def draw_line(
    axes: Axes,
    dimensions: npt.NDArray[np.int64],
    model: ErrorLine,
    g: int,
    own: Look | None,
    shown: BoolArray,
) -> None:
    """Draw one model's figures of one group, with bands, and those on the rows beside them.

    Parameters
    ----------
    axes : matplotlib Axes
    dimensions : (m,) array of int
    model : ErrorLine
    g : int
        Position of the group.
    own : Look or None
        The group's, where groups share axes.
    shown : (m,) array of bool
        Dimensions that the line runs through.
    """
    style = model.style
    colour = style.colour if own is None else own.colour
    if model.on_rows is not None:
        axes.plot(dimensions, model.on_rows[:, g], color=colour, zorder=1.8, **ON_ROWS)
    dimensions, values = dimensions[shown], model.values[shown, g]
    (line,) = axes.plot(dimensions, values, color=colour, linestyle=style.line)
    line.set_gid(f"{model.key}-{g}")
    if style is BEST:
        line.set(linewidth=1.4, zorder=1.5)
    else:
        size = 5.5 if own is not None or len(dimensions) <= _MOST_MARKED else 4
        line.set(marker=style.marker if own is None else own.marker, markersize=size)
        line.set(markerfacecolor=colour if style.is_filled else "white")
        line.set_zorder(3 if style is FAIR else 2.5)
    if own is not None and g == 0 and style is FAIR:
        # Where the other group's line covers it, as equal losses do, it is seen on both sides.
        line.set(linewidth=3.2, markersize=8)
    unknown = np.zeros(len(values), dtype=np.bool_)
    if model.states is not None:
        unknown = np.array([row[g] == CANNOT_TELL for row in model.states])[shown]
        (grey,) = axes.plot(dimensions[unknown], values[unknown], color=FAINT, linestyle="")
        grey.set(marker=line.get_marker(), markersize=line.get_markersize(), zorder=3.5)
        grey.set(markerfacecolor=FAINT if style.is_filled else "white")
    if model.interval is not None:
        low, high = model.interval[shown, g].T
        if (~np.isnan(low)).sum() == 1:  # a band of no width is not seen
            told = not unknown[~np.isnan(low)].any()
            axes.vlines(dimensions, low, high, color=colour if told else FAINT, linewidth=1.6)
        axes.fill_between(dimensions, low, high, color=colour, alpha=_BAND, linewidth=0)
