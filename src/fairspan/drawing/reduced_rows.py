"""Rows in the plane of two components, and each group's own principal axes in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairspan.drawing.layout import head, labels_within, name_panels, panelled_size, panels
from fairspan.drawing.palette import look
from fairspan.drawing.picture import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = npt.NDArray[np.float64]

_MOST_TOGETHER = 4
# Standard deviations that an ellipse and its axes reach.
_REACH = 2.0


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
        drawn = panels(axes, 1 if together else len(self.groups))
        handles = [
            self._draw_group(drawn[0 if together else g], g) for g in range(len(self.groups))
        ]
        axes.set_xlabel("component 1")
        axes.set_ylabel("component 2")
        if together:
            labels = labels_within(axes, self.groups, 150, 10)
            head(axes, self._title(), handles, labels)
        else:
            name_panels(drawn, self.groups)
            head(axes, self._title())
        return drawn

    def _draw_group(self, axes: Axes, g: int) -> Any:
        own, points = look(g), self.points[self.codes == g]
        (handle,) = axes.plot(
            *points.T,
            own.marker,
            color=own.colour,
            alpha=0.5,
            markersize=3.5,
            markeredgewidth=0,
            rasterized=True,
        )
        self._draw_ellipse(axes, g)
        return handle

    def _draw_ellipse(self, axes: Axes, g: int) -> None:
        long, short = self.principal_axes(g)
        turn = np.linspace(0, 2 * np.pi, 200)[:, None]
        outline = self.means[g] + np.cos(turn) * long + np.sin(turn) * short
        own = look(g)
        axes.plot(*outline.T, color="white", linewidth=3.5)
        axes.plot(*outline.T, color=own.colour, linestyle=own.line, linewidth=1.8)
        for axis in (long, short):
            ends = np.array([self.means[g] - axis, self.means[g] + axis])
            axes.plot(*ends.T, color=own.colour, linewidth=1.8)

    def _title(self) -> str:
        shown = "" if len(self.points) == self.n_rows else f" ({len(self.points)} shown)"
        return f"The reduced rows{shown}, and each group's own principal axes"
