"""Every audited model, group by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from fairspan.drawing.layout import head, labels_within, width_of
from fairspan.drawing.palette import FAIR, PLAIN, VERMILION, look
from fairspan.drawing.picture import Picture
from fairspan.drawing.rows import height_of, set_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = npt.NDArray[np.float64]

AuditQuantity = Literal["error", "loss", "variance kept"]


@dataclass(eq=False)
class AuditPicture(Picture):
    """A figure of every group under every model, with intervals where there are.

    Attributes
    ----------
    groups : tuple of k str
    models : tuple of m str
    values : (m, k) array
        NaN where there is none.
    low, high : (m, k) arrays or None
        Ends of the 95 % intervals.
    plain : tuple of int
        Positions of the models that are ordinary PCA.
    quantity : {"error", "loss", "variance kept"}
    """

    groups: tuple[str, ...]
    models: tuple[str, ...]
    values: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    plain: tuple[int, ...] = ()
    quantity: AuditQuantity = "error"

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6.8, height_of(len(self.groups), 0.24 + 0.14 * len(self.models))

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each model and group."""
        none = np.full(self.values.shape, np.nan)
        models, groups = (each.ravel() for each in np.indices(self.values.shape))
        return {
            "model": [self.models[i] for i in models],
            "group": [self.groups[g] for g in groups],
            self.quantity: self.values.ravel().tolist(),
            "low": (none if self.low is None else self.low).ravel().tolist(),
            "high": (none if self.high is None else self.high).ravel().tolist(),
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        m = len(self.models)
        handles = []
        for i in range(m):
            rows = np.arange(len(self.groups)) + (i - (m - 1) / 2) * 0.7 / m
            ends = None
            if self.low is not None and self.high is not None:
                ends = np.array([self.values[i] - self.low[i], self.high[i] - self.values[i]])
            marks = axes.errorbar(self.values[i], rows, xerr=ends, **self._style(i))
            handles.append(marks)
        axes.set_xlabel(f"{self.quantity} of the group")
        beside = set_rows(axes, self.groups)
        labels = labels_within(axes, self.models, width_of(axes) / 2, 10)
        head(axes, self._title(), handles, labels, beside=beside)
        return (axes,)

    def _style(self, i: int) -> dict[str, Any]:
        if i in self.plain:
            style = PLAIN
            return {"fmt": style.marker, "color": style.colour, "fillstyle": "none"}
        own = look(i)
        colour = FAIR.colour if own.colour == VERMILION else own.colour
        return {"fmt": own.marker, "color": colour}

    def _title(self) -> str:
        return f"The {self.quantity} of each group under each model"
