"""Groups one below the other: their names beside the axes, and the room that they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairspan.drawing.layout import labels_within, text_width, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Inches of a row, and of what stands above and below all of them.
_ROW, _AROUND = 0.36, 1.75
_SIZE = 10.0
# Names take at most this share of the axes.
_MOST = 0.42


def height_of(n_rows: int, row: float = _ROW) -> float:
    """Height of a new figure of so many rows, in inches."""
    return _AROUND + row * max(n_rows, 2)


def set_rows(axes: Axes, names: Sequence[str]) -> float:
    """Write the names beside rows 0, 1, ... from the top; the width that they take, in points."""
    labels = labels_within(axes, names, _MOST * width_of(axes), _SIZE)
    axes.set_yticks(range(len(names)), labels, fontsize=_SIZE)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", visible=True)
    return max(text_width(axes, label, _SIZE) for label in labels)
