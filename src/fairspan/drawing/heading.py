"""What stands above a picture: its title, a note and a legend, in this order from the top.

A legend inside the axes hides data sooner or later.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from fairspan.drawing.measures import figure_of, lay_out, lines_within, points_of, width_of
from fairspan.drawing.palette import QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAD = 5.0
_TITLE_SIZE, _NOTE_SIZE = 12.0, 10.0
_LEAST_ROOM = 150.0
_MARK_SIZE = 8.0


def head(
    axes: Axes,
    title: str,
    handles: Sequence[Any] = (),
    labels: Sequence[str] = (),
    *,
    note: str = "",
    beside: float = 0.0,
) -> None:
    """Set title, note and legend, each in as many lines as it takes.

    To be called when all else is drawn, as that decides how wide the axes are.

    Parameters
    ----------
    axes : matplotlib Axes
    title, note : str
        Names from the data as labels.
    handles, labels : sequences
    beside : float
        Width of what stands to the left of the axes, in points: the title begins above that.
    """
    lay_out(axes)
    room = max(width_of(axes) + beside, _LEAST_ROOM)
    top = _PAD
    if handles:
        legend = _legend(axes, handles, labels, room, beside)
        top += float(legend.get_window_extent().height) * points_of(axes) + _PAD
    if note:
        text = axes.text(
            0,
            1,
            lines_within(axes, note, room, _NOTE_SIZE),
            transform=_shifted(axes, -beside, top),
            fontsize=_NOTE_SIZE,
            alpha=QUIET,
            va="bottom",
        )
        top += float(text.get_window_extent().height) * points_of(axes) + _PAD
    artist = axes.set_title(lines_within(axes, title, room, _TITLE_SIZE))
    artist.set(transform=_shifted(axes, -beside, top), verticalalignment="bottom")


def for_legend(marks: Sequence[Any]) -> list[Any]:
    """Marks of one size, whatever size they have in the picture."""
    shown = [copy(mark) for mark in marks]
    for mark in shown:
        mark.set_markersize(_MARK_SIZE)
    return shown


def _shifted(axes: Axes, right: float, up: float) -> Any:
    """From the axes' corner by so many points."""
    from matplotlib.transforms import ScaledTranslation

    moved = ScaledTranslation(right / 72, up / 72, figure_of(axes).dpi_scale_trans)
    return axes.transAxes + moved


def _legend(
    axes: Axes, handles: Sequence[Any], labels: Sequence[str], room: float, beside: float
) -> Any:
    """A legend above the axes in as many columns as fit."""
    for n_columns in range(len(handles), 0, -1):
        legend = axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0, 1),
            bbox_transform=_shifted(axes, -beside, _PAD),
            ncols=n_columns,
            borderaxespad=0,
            borderpad=0,
            labelspacing=0.4,
            columnspacing=1.6,
            handletextpad=0.6,
            handleheight=1.0,
        )
        if float(legend.get_window_extent().width) * points_of(axes) <= room:
            break
    return legend
