"""Groups one below the other: their names beside the axes, and the room that they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairspan.drawing.measures import labels_within, text_width, width_of
from fairspan.drawing.palette import FAINT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Inches of a row, of what stands above and below all of them, of the axes, and of a letter.
_ROW, _AROUND, _AXES, _LETTER = 0.36, 1.75, 5.2, 0.08
_LONGEST = 40
_SIZE = 10.0
# Names take at most this share of the axes.
_MOST = 0.5
# Between names and axes, in points.
_PAD = 4.0


def rows_size(names: Sequence[str], row: float = _ROW) -> tuple[float, float]:
    """Width and height of a new figure, in inches.

    Parameters
    ----------
    names : sequence of str
    row : float
        Height of each.
    """
    letters = min(max(map(len, names)), _LONGEST)
    return max(6.4, _AXES + _LETTER * letters), _AROUND + row * max(len(names), 2)


def set_rows(axes: Axes, names: Sequence[str]) -> float:
    """Write the names beside rows 0, 1, ... from the top; the width that they take, in points."""
    labels = labels_within(axes, names, _MOST * width_of(axes), _SIZE)
    axes.set_yticks(range(len(names)), labels, fontsize=_SIZE)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0, pad=_PAD)
    axes.grid(axis="x", visible=True, color=FAINT, alpha=0.3, linewidth=0.6)
    return _PAD + max(text_width(axes, label, _SIZE) for label in labels)
