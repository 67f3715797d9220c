"""Pictures of components: their loadings, and the rows in the plane of the first two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from fairspan.drawing.labels import (
    DIVERGING,
    FAINT,
    INK,
    Axes,
    Look,
    figure_of,
    head,
    height_of,
    labels_within,
    look,
    rows_size,
    set_rows,
    width_of,
)
from fairspan.drawing.layout import (
    fill_evenly,
    images,
    label_bounds,
    panelled_size,
    panels,
    plain_numbers,
)
from fairspan.drawing.picture import Picture
from fairspan.formatting.text import count, loading, spoken
from fairspan.typing import FloatArray, IndexArray

# Inches of a row, and of the widest figure that is made by itself.
_ROW, _WIDEST = 0.3, 12.0
# Points that a figure of two digits takes, beside and below.
_CELL = (34.0, 13.0)
# On cells darker than this, by brightness, figures are white.
_DARK = 0.5
_MOST_NUMBERED = 20
_MOST_BESIDE, _MOST_IMAGES = 6, 24
_INCHES_OF_IMAGE = 1.5
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
    def shown(self) -> IndexArray:
        """Positions of the features that are shown, in the order in which they are."""
        return (
            np.argsort(-(self.loadings**2).sum(axis=0), kind="stable")[: self.n_features]
            if self.image_shape is None
            else np.arange(len(self.features))
        )

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        if self.image_shape is None:
            width, height = rows_size([self.features[j] for j in self.shown], _ROW)
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
                panel.imshow(
                    loadings.reshape(self.image_shape), cmap=DIVERGING, vmin=-most, vmax=most
                )
                panel.set_title(title, fontsize=10, pad=3, loc="center")
        n_left = max(map(len, self._blocks())) - _MOST_IMAGES
        left_out = f" {n_left} more are left out." if n_left > 0 else ""
        head(
            axes,
            "The components as images",
            note=f"Each has its own scale; white is zero.{left_out}",
        )
        return drawn[: sum(map(len, titled))] if len(titled) == 1 else drawn

    def _blocks(self) -> list[FloatArray]:
        return [self.loadings] if self.plain is None else [self.plain, self.loadings]

    def _grid(self) -> tuple[int, int]:
        """Rows, of all blocks, and columns of images."""
        n = min(max(map(len, self._blocks())), _MOST_IMAGES)
        n_columns = min(n, _MOST_BESIDE)
        return ceil(n / n_columns) * len(self._blocks()), n_columns


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
    codes: IndexArray
    groups: tuple[str, ...]
    means: FloatArray
    covariances: FloatArray
    n_rows: int

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        k = len(self.groups)
        return (6.4, 5.4) if k <= _MOST_TOGETHER else panelled_size(k)

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
        return np.asarray((directions * (_REACH * np.sqrt(np.maximum(variances, 0.0)))).T[::-1])

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
        lie = f"{count(n_outside, 'row')} {'lies' if n_outside == 1 else 'lie'}"
        notes = (
            f"{len(self.points):,} of {self.n_rows:,} rows are shown."
            if len(self.points) < self.n_rows
            else "",
            "Ellipses: two standard deviations of the group's rows, along its own axes.",
            f"{lie} outside the picture." if n_outside else "",
        )
        head(axes, _TITLE, handles, labels, note=" ".join(filter(None, notes)))
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
