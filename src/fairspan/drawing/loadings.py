"""How much each feature takes part in each component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairspan.drawing.labels import (
    DIVERGING,
    INK,
    figure_of,
    head,
    height_of,
    labels_within,
    rows_size,
    set_rows,
    width_of,
)
from fairspan.drawing.layout import images
from fairspan.drawing.picture import Picture
from fairspan.formatting.names import spoken
from fairspan.formatting.numbers import loading
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Inches of a row, and of the widest figure that is made by itself.
_ROW, _WIDEST = 0.3, 12.0
# Points that a figure of two digits takes, beside and below.
_CELL = (34.0, 13.0)
# On cells darker than this, by brightness, figures are white.
_DARK = 0.5
_MOST_NUMBERED = 20
_MOST_BESIDE, _MOST_IMAGES = 6, 24
_INCHES_OF_IMAGE = 1.5


@dataclass(eq=False)
class LoadingsPicture(Picture):
    """The components: as a map of features and components, or as images.

    Attributes
    ----------
    loadings : (r, p) array
    features : tuple of p str
    n_features : int
        How many are shown, from that which takes part most: by the sum of its squared loadings, the
        share of the feature's direction that the subspace holds.
    image_shape : tuple of 2 int or None
        Rows and columns of an image whose pixels the features are; then components are images.
    plain : (d, p) array or None
        The components of ordinary PCA, shown as images beside these.
    name : str
        The criterion's.
    """

    loadings: FloatArray
    features: tuple[str, ...]
    n_features: int = 20
    image_shape: tuple[int, int] | None = None
    plain: FloatArray | None = None
    name: str = "fair"

    @property
    def shown(self) -> npt.NDArray[np.intp]:
        """Positions of the features that are shown, in the order in which they are."""
        if self.image_shape is not None:
            return np.arange(len(self.features))
        part = (self.loadings**2).sum(axis=0)
        return np.argsort(-part, kind="stable")[: self.n_features]

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        if self.image_shape is None:
            names = [self.features[j] for j in self.shown]
            width, height = rows_size(names, _ROW)
            return max(width, min(2.6 + 0.55 * len(self.loadings), _WIDEST)), height
        n_rows, n_columns = self._grid()
        tall = _INCHES_OF_IMAGE * self.image_shape[0] / self.image_shape[1]
        return max(6.4, 0.6 + _INCHES_OF_IMAGE * n_columns), 1.0 + (tall + 0.3) * n_rows

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each feature shown, one column for each component."""
        shown = self.shown
        return {
            "feature": [self.features[j] for j in shown],
            **{f"component {i + 1}": row[shown].tolist() for i, row in enumerate(self.loadings)},
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        most = float(np.abs(self.loadings).max()) or 1.0
        return self._draw_map(axes, most) if self.image_shape is None else self._draw_images(axes)

    def _draw_map(self, axes: Axes, most: float) -> Sequence[Axes]:
        values = self.loadings[:, self.shown].T
        image = axes.imshow(values, cmap=DIVERGING, vmin=-most, vmax=most, aspect="auto")
        beside = set_rows(axes, [self.features[j] for j in self.shown])
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        steps = range(0, len(self.loadings), ceil(len(self.loadings) / _MOST_NUMBERED))
        axes.set_xticks(steps, [str(i + 1) for i in steps])
        axes.set_xlabel("component")
        room = (width_of(axes) / values.shape[1], height_of(axes) / values.shape[0])
        if room[0] >= _CELL[0] and room[1] >= _CELL[1]:
            for (row, column), value in np.ndenumerate(values):
                red, green, blue, _ = image.to_rgba(np.asarray(value))
                is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < _DARK
                axes.text(
                    column,
                    row,
                    loading(float(value)),
                    color="white" if is_dark else INK,
                    ha="center",
                    va="center",
                    fontsize=9,
                )
        else:
            figure_of(axes).colorbar(image, ax=axes, label="loading")
        n_left = len(self.features) - len(values)
        note = f"{n_left} features with smaller loadings are left out." if n_left else ""
        head(axes, "Loadings of the components", note=note, beside=beside)
        return (axes,)

    def _draw_images(self, axes: Axes) -> Sequence[Axes]:
        assert self.image_shape is not None
        n_rows, n_columns = self._grid()
        drawn = images(axes, n_rows, n_columns)
        # Each image of each block with what stands above it.
        names = ["PCA", spoken(self.name)] if self.plain is not None else ["component"]
        short = labels_within(axes, names, width_of(axes) / n_columns - 30, 10)
        titled = [
            [(f"{name} {i + 1}", row) for i, row in enumerate(block[:_MOST_IMAGES])]
            for name, block in zip(short, self._blocks(), strict=True)
        ]
        for panel in drawn:
            panel.set_axis_off()
        for row, block in enumerate(titled):
            for place, (title, loadings) in enumerate(block):
                panel = drawn[row * (n_rows // len(titled)) * n_columns + place]
                most = float(np.abs(loadings).max()) or 1.0
                pixels = loadings.reshape(self.image_shape)
                panel.imshow(pixels, cmap=DIVERGING, vmin=-most, vmax=most)
                panel.set_title(title, fontsize=10, pad=3, loc="center")
        n_left = max(map(len, self._blocks())) - _MOST_IMAGES
        note = "Each has its own scale; white is zero."
        if n_left > 0:
            note = f"{note} {n_left} more are left out."
        head(axes, "The components as images", note=note)
        return drawn[: sum(map(len, titled))] if len(titled) == 1 else drawn

    def _blocks(self) -> list[FloatArray]:
        return [self.loadings] if self.plain is None else [self.plain, self.loadings]

    def _grid(self) -> tuple[int, int]:
        """Rows, of all blocks, and columns of images."""
        n = min(max(map(len, self._blocks())), _MOST_IMAGES)
        n_columns = min(n, _MOST_BESIDE)
        return ceil(n / n_columns) * len(self._blocks()), n_columns
