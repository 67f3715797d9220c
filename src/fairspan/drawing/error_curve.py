"""Errors or losses of each group against the number of dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from fairspan.drawing.layout import (
    head,
    labels_within,
    name_panels,
    panelled_size,
    panels,
    width_of,
)
from fairspan.drawing.names import label_of
from fairspan.drawing.palette import BEST, FAINT, FAIR, INK, PLAIN, Look, look
from fairspan.drawing.picture import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = npt.NDArray[np.float64]

# Beyond this many groups each has a panel: two lines each, and bands, are still told apart.
_MOST_TOGETHER = 2
_BAND = 0.15


@dataclass(eq=False)
class ErrorCurvePicture(Picture):
    """What PCA and a fair criterion leave of each group, at each number of dimensions.

    Attributes
    ----------
    dimensions : (m,) array of int
        Rising.
    groups : tuple of k str
    plain, fair : (m, k) arrays
        Of ordinary PCA, and of the criterion; NaN where no subspace answers it.
    name : str
        The criterion's.
    best : (m, k) array or None
        The least that any subspace leaves of each group alone.
    plain_interval, fair_interval : (m, k, 2) arrays or None
        Ends of the 95 % intervals; NaN where there is none.
    marked : int or None
        The dimension that was chosen.
    quantity : {"error", "loss"}
    """

    dimensions: npt.NDArray[np.int64]
    groups: tuple[str, ...]
    plain: FloatArray
    fair: FloatArray
    name: str = "fair"
    best: FloatArray | None = None
    plain_interval: FloatArray | None = None
    fair_interval: FloatArray | None = None
    marked: int | None = None
    quantity: Literal["error", "loss"] = "error"

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        if len(self.groups) <= _MOST_TOGETHER:
            return 6.4, 4.6
        return panelled_size(len(self.groups))

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each model, dimension and group; the ends of intervals where there are."""
        models = self._models()
        shape = (len(models), len(self.dimensions), len(self.groups))
        models_at, dimensions_at, groups_at = (each.ravel() for each in np.indices(shape))
        ends = [
            np.full((*shape[1:], 2), np.nan) if interval is None else interval
            for _, _, interval, _ in models
        ]
        return {
            "model": [models[i][0] for i in models_at],
            "n_components": self.dimensions[dimensions_at].tolist(),
            "group": [self.groups[g] for g in groups_at],
            self.quantity: np.array([values for _, values, _, _ in models]).ravel().tolist(),
            "low": np.array(ends)[..., 0].ravel().tolist(),
            "high": np.array(ends)[..., 1].ravel().tolist(),
        }

    def _models(self) -> list[tuple[str, FloatArray, FloatArray | None, Any]]:
        models: list[tuple[str, FloatArray, FloatArray | None, Any]] = [
            ("PCA", self.plain, self.plain_interval, PLAIN),
            (self.name, self.fair, self.fair_interval, FAIR),
        ]
        return models if self.best is None else [*models, ("best possible", self.best, None, BEST)]

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        together = len(self.groups) <= _MOST_TOGETHER
        drawn = panels(axes, 1 if together else len(self.groups))
        for g in range(len(self.groups)):
            panel = drawn[0 if together else g]
            # Where groups share axes, colour tells them apart; else it tells models apart.
            self._draw_group(panel, g, look(g) if together else None)
            if self.marked is not None and (g == 0 or not together):
                panel.axvline(self.marked, color=FAINT, linewidth=1, zorder=0, gid="marked")
        _finish(drawn)
        if not together:
            name_panels(drawn, self.groups)
        axes.set_xlabel("number of dimensions")
        axes.set_ylabel(f"{self.quantity} of the group" + ("" if together else "s"))
        handles, labels = self._legend(axes, together=together)
        head(axes, self._title(), handles, labels)
        return drawn

    def _draw_group(self, axes: Axes, g: int, own: Look | None) -> None:
        for _, values, interval, style in self._models():
            is_best = style is BEST
            colour = style.colour if own is None else own.colour
            axes.plot(
                self.dimensions,
                values[:, g],
                color=colour,
                linestyle=style.line,
                linewidth=1.3 if is_best else 1.8,
                marker="" if is_best else style.marker if own is None else own.marker,
                markersize=5.5,
                markerfacecolor=colour if style.filled else "white",
                zorder=1.5 if is_best else 3 if style is FAIR else 2.5,
            )
            if interval is not None:
                low, high = interval[:, g].T
                axes.fill_between(
                    self.dimensions, low, high, color=colour, alpha=_BAND, linewidth=0
                )

    def _legend(self, axes: Axes, *, together: bool) -> tuple[list[Any], list[str]]:
        from matplotlib.lines import Line2D

        handles, labels = [], []
        if together:
            labels = labels_within(axes, self.groups, width_of(axes) / 2, 10)
            for g in range(len(self.groups)):
                own = look(g)
                handles.append(Line2D([], [], color=own.colour, marker=own.marker, linestyle=""))
        for name, _, _, style in self._models():
            handles.append(
                Line2D(
                    [],
                    [],
                    color=INK if together and style is not BEST else style.colour,
                    linestyle=style.line,
                    marker="" if style is BEST else "o" if together else style.marker,
                    fillstyle="full" if style.filled else "none",
                )
            )
            labels.append(label_of(name))
        if self.marked is not None:
            handles.append(Line2D([], [], color=FAINT, linewidth=1))
            labels.append(f"d = {self.marked}")
        return handles, labels

    def _title(self) -> str:
        what = "What each group loses" if self.quantity == "loss" else "Each group's error"
        if self.quantity == "loss":
            return f"{what} against its own best subspace, by number of dimensions"
        has_bands = self.plain_interval is not None or self.fair_interval is not None
        return f"{what} by number of dimensions" + (", with 95 % intervals" if has_bands else "")


def _finish(drawn: Sequence[Axes]) -> None:
    from matplotlib.ticker import MaxNLocator

    for panel in drawn:
        panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
        panel.set_ylim(bottom=0)
