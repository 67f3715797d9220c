"""The picture of reduced rows: points in a plane, with each group's own axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairspan.drawing.labels import (
    FAINT,
    Look,
    head,
    labels_within,
    look,
    width_of,
)
from fairspan.drawing.layout import fill_evenly, label_bounds, panelled_size, panels, plain_numbers
from fairspan.drawing.picture import Picture
from fairspan.formatting.numbers import count
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Room around the rows, as a share of their extent.
_MARGIN = 0.12
_MOST_TOGETHER = 4
# Standard deviations that an ellipse and its axes reach.
_REACH = 2.0
# Points are fainter the more there are, so that dense places are told from dark ones.
_MOST_OPAQUE, _OPACITY = 0.6, 7.0
# Points are far where they lie this many times the range of all but this share of them beyond it.
_TAIL, _FAR = 0.05, 2.0
_TITLE = "The rows in two dimensions, with each group's own axes"


@dataclass(eq=False)
class ReducedRowsPicture(Picture):
    """Rows of every group in the plane of the first two components.

    Attributes
    ----------
    points : (n, 2) array
    codes : (n,) array of int
        Position of each row's group.
    groups : tuple of k str
    means : (k, 2) array
        Of all rows of each group, also those that are not shown.
    covariances : (k, 2, 2) array
        Of all rows of each group about their own mean.
    n_rows : int
        Rows that the points were drawn from.
    """

    points: FloatArray
    codes: npt.NDArray[np.intp]
    groups: tuple[str, ...]
    means: FloatArray
    covariances: FloatArray
    n_rows: int

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        if len(self.groups) <= _MOST_TOGETHER:
            return 6.4, 5.4
        return panelled_size(len(self.groups))

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each point."""
        return {
            "group": [self.groups[g] for g in self.codes],
            "component 1": self.points[:, 0].tolist(),
            "component 2": self.points[:, 1].tolist(),
        }

    def principal_axes(self, g: int) -> FloatArray:
        """The axes of a group's ellipse as rows, two standard deviations long, longest first."""
        variances, directions = np.linalg.eigh(self.covariances[g])
        lengths = _REACH * np.sqrt(np.maximum(variances, 0.0))
        return np.asarray((directions * lengths).T[::-1])

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        together = len(self.groups) <= _MOST_TOGETHER
        drawn = (axes,) if together else panels(axes, self.groups)
        handles = []
        for g in range(len(self.groups)):
            if together:
                handles.append(self._draw_group(axes, g, look(g)))
            else:
                # The other groups behind, so that it is seen where among them this one lies.
                _scatter(drawn[g], self.points[self.codes != g], Look(FAINT, "o", "-"))
                self._draw_group(drawn[g], g, look(0))
        n_outside = self._leave_out_far_points(drawn)
        whole = together and not n_outside
        if not whole:
            fill_evenly(drawn[0])
        for panel in drawn:
            # At one scale, axes at right angles are seen at right angles.
            panel.set_aspect("equal", adjustable="datalim" if whole else "box")
        plain_numbers(drawn[:1])  # all are of one scale
        label_bounds(axes, drawn, "component 1", "component 2")
        labels = labels_within(axes, self.groups, width_of(axes) / 2.5, 10) if together else []
        note = "Ellipses: two standard deviations of the group's rows, along its own axes."
        if len(self.points) < self.n_rows:
            note = f"{len(self.points):,} of {self.n_rows:,} rows are shown. {note}"
        if n_outside:
            lies = "lies" if n_outside == 1 else "lie"
            note += f" {count(n_outside, 'row')} {lies} outside the picture."
        head(axes, _TITLE, handles, labels, note=note)
        return drawn

    def _leave_out_far_points(self, drawn: Sequence[Axes]) -> int:
        """Limit the axes where single points lie far from all others; how many these are."""
        low, high = np.quantile(self.points, [_TAIL, 1 - _TAIL], axis=0)
        reach = np.maximum(high - low, (high - low).max())
        low, high = low - _FAR * reach, high + _FAR * reach
        inside = ((self.points >= low) & (self.points <= high)).all(axis=1)
        if inside.all():
            return 0
        axes = [self.principal_axes(g) for g in range(len(self.groups))]
        ends = [
            mean + sign * each
            for mean, each in zip(self.means, axes, strict=True)
            for sign in (-1, 1)
        ]
        shown = np.vstack([self.points[inside], np.clip(np.vstack(ends), low, high)])
        start, end = shown.min(axis=0), shown.max(axis=0)
        margin = _MARGIN * (end - start) / 2
        for panel in drawn:
            panel.set_xlim(start[0] - margin[0], end[0] + margin[0])
            panel.set_ylim(start[1] - margin[1], end[1] + margin[1])
        return int((~inside).sum())

    def _draw_group(self, axes: Axes, g: int, own: Look) -> Any:
        from matplotlib.lines import Line2D

        _scatter(axes, self.points[self.codes == g], own)
        long, short = self.principal_axes(g)
        turn = np.linspace(0, 2 * np.pi, 200)[:, None]
        lines = [
            self.means[g] + np.cos(turn) * long + np.sin(turn) * short,
            np.array([self.means[g] - long, self.means[g] + long]),
            np.array([self.means[g] - short, self.means[g] + short]),
        ]
        for i, line in enumerate(lines):
            style = own.line if i == 0 else "-"
            axes.plot(*line.T, color="white", linewidth=3.4, alpha=0.8)
            axes.plot(*line.T, color=own.colour, linestyle=style, linewidth=1.7)
        return Line2D([], [], color=own.colour, marker=own.marker, linestyle=own.line)


def _scatter(axes: Axes, points: FloatArray, own: Look) -> None:
    """Points as one image inside a drawing, which would get large otherwise."""
    axes.plot(
        *points.T,
        own.marker,
        color=own.colour,
        alpha=min(_MOST_OPAQUE, _OPACITY / np.sqrt(max(len(points), 1))),
        markersize=4,
        markeredgewidth=0,
        rasterized=True,
    )
