"""How much each feature takes part in each component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairspan.drawing.layout import head, panels
from fairspan.drawing.palette import DIVERGING, INK
from fairspan.drawing.picture import Picture
from fairspan.drawing.rows import height_of, set_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = npt.NDArray[np.float64]

_ROW = 0.3
# Columns that are wide enough for a figure of two digits.
_MOST_WRITTEN = 10


@dataclass(eq=False)
class LoadingsPicture(Picture):
    """The components: as a map of features and components, or as images.

    Attributes
    ----------
    loadings : (r, p) array
    features : tuple of p str
    n_features : int
        Those with the largest loadings that are shown, most of them first.
    image_shape : tuple of 2 int or None
        Rows and columns of an image whose pixels the features are; then components are images.
    """

    loadings: FloatArray
    features: tuple[str, ...]
    n_features: int = 20
    image_shape: tuple[int, int] | None = None

    @property
    def shown(self) -> npt.NDArray[np.intp]:
        """Positions of the features that take part most, by the sum of their squared loadings."""
        if self.image_shape is not None:
            return np.arange(len(self.features))
        weight = (self.loadings**2).sum(axis=0)
        return np.argsort(-weight, kind="stable")[: self.n_features]

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6.4, height_of(len(self.shown), _ROW)

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each feature shown, one column for each component."""
        shown = self.shown
        return {
            "feature": [self.features[j] for j in shown],
            **{f"component {i + 1}": row[shown].tolist() for i, row in enumerate(self.loadings)},
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        most = float(np.abs(self.loadings).max()) or 1.0
        if self.image_shape is not None:
            return self._draw_images(axes, most)
        shown = self.shown
        values = self.loadings[:, shown].T
        image = axes.imshow(values, cmap=DIVERGING, vmin=-most, vmax=most, aspect="auto")
        beside = set_rows(axes, [self.features[j] for j in shown])
        axes.set_xticks(range(len(self.loadings)), [str(i + 1) for i in range(len(self.loadings))])
        axes.grid(visible=False)
        axes.set_xlabel("component")
        figure = axes.get_figure()
        assert figure is not None
        figure.colorbar(image, ax=axes, label="loading")
        if len(self.loadings) <= _MOST_WRITTEN:
            for (row, column), value in np.ndenumerate(values):
                colour = "white" if abs(value) > 0.6 * most else INK
                text = f"{value:.2f}"
                axes.text(column, row, text, color=colour, ha="center", va="center", fontsize=9)
        head(axes, "How much each feature takes part in each component", beside=beside)
        return (axes,)

    def _draw_images(self, axes: Axes, most: float) -> Sequence[Axes]:
        assert self.image_shape is not None
        drawn = panels(axes, len(self.loadings))
        for i, (panel, loadings) in enumerate(zip(drawn, self.loadings, strict=True)):
            panel.imshow(loadings.reshape(self.image_shape), cmap=DIVERGING, vmin=-most, vmax=most)
            panel.set_axis_off()
            panel.set_title(str(i + 1), fontsize=10, pad=2)
        head(axes, "The components as images")
        return drawn
