"""The trade-off of two groups' errors, and where answers lie on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.drawing.labels import for_legend, head, height_of, labels_within, width_of
from fairspan.drawing.layout import plain_numbers
from fairspan.drawing.palette import (
    FAINT,
    INK,
    PLAIN,
    QUIET,
    other_look,
)
from fairspan.drawing.picture import Picture
from fairspan.formatting.names import label_of, spoken
from fairspan.formatting.numbers import count
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Room around the frontier and the answers, as a share of their extent.
_MARGIN = 0.12
# Answers this near, as a share of the extent, are drawn inside each other.
_NEAR = 0.02
_MARKER_SIZE, _LARGER = 7.0, 3.5


@dataclass(eq=False)
class FrontierPicture(Picture):
    """Two groups' errors: the frontier, what lies above it, and answers on or near it.

    Attributes
    ----------
    errors : (m, 2) array
        The frontier from the optimum of the first group to that of the second.
    groups : tuple of 2 str
    region : (r, 2) array or None
        Corners of all pairs of errors that some subspace has.
    plain : (2,) array
        The errors of ordinary PCA.
    answers : mapping of name to (2,) array
        What criteria choose.
    n_components : int
    """

    errors: FloatArray
    groups: tuple[str, str]
    region: FloatArray | None
    plain: FloatArray
    answers: Mapping[str, FloatArray]
    n_components: int

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6.6, 5.6

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """What is drawn: `what` is "frontier", "PCA" or an answer's name."""
        named = [("PCA", self.plain), *self.answers.items()]
        points = np.vstack([self.errors, *(each for _, each in named)])
        return {
            "what": ["frontier"] * len(self.errors) + [name for name, _ in named],
            **{f"error of {group}": points[:, g].tolist() for g, group in enumerate(self.groups)},
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        low, high = self._limits()
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        handles, labels = self._draw_curve(axes)
        for i, (name, errors) in enumerate(self.answers.items()):
            (mark,) = axes.plot(
                *errors,
                other_look(i).marker,
                color=other_look(i).colour,
                markeredgecolor=INK,
                markeredgewidth=0.8,
                markersize=_MARKER_SIZE + _LARGER * self._n_inside(i),
                zorder=3 + 0.01 * i,
                gid=f"answer-{i}",
            )
            handles.append(mark)
            labels.append(label_of(spoken(name)))
        plain_numbers((axes,))
        names = labels_within(axes, self.groups, 0.7 * min(width_of(axes), height_of(axes)), 11)
        axes.set_xlabel(f"error of {names[0]}")
        axes.set_ylabel(f"error of {names[1]}")
        dimensions = count(self.n_components, "dimension")
        title = f"What {dimensions} can do for the two groups"
        handles = for_legend(handles)
        if self.region is not None:
            handles += axes.fill(*self.region.T, color=FAINT, alpha=0.16, linewidth=0, gid="region")
            labels.append("errors that some subspace has")
        head(axes, title, handles, labels)
        return (axes,)

    def _draw_curve(self, axes: Axes) -> tuple[list[Any], list[str]]:
        """What every answer is compared with."""
        ends = [min(axes.get_xlim()[0], axes.get_ylim()[0]), 0.0]
        ends[1] = max(axes.get_xlim()[1], axes.get_ylim()[1])
        (equal,) = axes.plot(ends, ends, color=INK, alpha=QUIET, linewidth=1.2)
        equal.set_linestyle((0, (1, 2)))
        is_point = len(self.errors) == 1
        (curve,) = axes.plot(
            *self.errors.T, color=INK, linewidth=2.2, marker="." if is_point else "", gid="frontier"
        )
        (plain,) = axes.plot(
            *self.plain,
            PLAIN.marker,
            markersize=_MARKER_SIZE + _LARGER * (2 + self._n_inside(-1)),
            fillstyle="none",
            color=PLAIN.colour,
            markeredgewidth=2.2,
            zorder=4,
            gid="PCA",
        )
        return [curve, equal, plain], ["frontier", "equal errors", "PCA"]

    def _n_inside(self, i: int) -> int:
        """How many answers drawn later than the i-th lie at the same place; -1 stands for PCA."""
        points = np.array([*self.answers.values()]).reshape(-1, 2)
        low, high = self._limits()
        place = self.plain if i < 0 else points[i]
        near = (np.abs(points[i + 1 :] - place) <= _NEAR * (high - low)).all(axis=1)
        return int(near.sum())

    def _limits(self) -> tuple[FloatArray, FloatArray]:
        points = np.vstack([self.errors, self.plain, *self.answers.values()])
        low, high = points.min(axis=0), points.max(axis=0)
        extent = high - low
        # A frontier of one point, or along one axis, still needs room.
        extent = np.maximum(extent, 1e-3 * max(*extent, *high) or 1.0)
        middle = (low + high) / 2
        half = (0.5 + _MARGIN) * extent
        return middle - half, middle + half
