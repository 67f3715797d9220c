"""The loadings of components, as a map or as images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Self

import numpy as np

from fairspan.displays.base import Picture
from fairspan.displays.fitted import criterion_name, moments_of_fit, plain_of_fit
from fairspan.displays.style import (
    DIVERGING,
    INK,
    Axes,
    add_header,
    add_panels,
    figure_of,
    names_within,
    rows_size,
    set_rows,
    width_of,
)
from fairspan.errors import Incompatible, InvalidParameter
from fairspan.formatting.text import loading, spoken
from fairspan.registry import check_count
from fairspan.rows.groups import printable
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


@dataclass(eq=False, repr=False)
class LoadingsDisplay(Picture):
    """Plot the loadings of the features on each component, or the components as images.

    Make it with :meth:`from_estimator`.

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

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        n_features: int = 20,
        image_shape: tuple[int, int] | None = None,
        beside_pca: bool = False,
        ax: Any = None,
    ) -> Self:
        """Draw the loadings of a fitted estimator.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        n_features : int
            How many of the features with the largest loadings are shown.
        image_shape : tuple of 2 int, optional
            Rows and columns of an image whose pixels the features are.
        beside_pca : bool
            Show the components of ordinary PCA as well; as images only.
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

        Returns
        -------
        LoadingsDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA, or a number is not a whole number.
        InvalidParameter
            No features, or an image of another number of pixels.
        Incompatible
            `beside_pca` without images.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import LoadingsDisplay
        >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> LoadingsDisplay.from_estimator(fair, n_features=2).columns()["feature"]
        ['feature 0', 'feature 1']
        """
        return cls._drawn(ax, estimator, n_features, image_shape, beside_pca=beside_pca)

    @classmethod
    def undrawn(
        cls,
        estimator: Any,
        n_features: int = 20,
        image_shape: tuple[int, int] | None = None,
        *,
        beside_pca: bool = False,
    ) -> Self:
        """What `from_estimator` draws, of the same parameters."""
        moments_of_fit(estimator, cls.__name__)
        check_count("n_features", n_features)
        subspace = estimator.subspace_
        shape, p = image_shape, subspace.n_features
        if shape is not None and (len(shape) != 2 or shape[0] * shape[1] != p):
            raise InvalidParameter(
                f"image_shape is {image_shape!r}",
                f"Allowed: two whole numbers whose product is the number of features, {p}",
                "Pass the rows and columns of the images that the features are the pixels of",
            )
        if beside_pca and image_shape is None:
            raise Incompatible(
                "beside_pca was requested without image_shape",
                "Allowed: PCA beside components that are shown as images",
                "Pass image_shape, or make a second display of a FairPCA with criterion "
                "'total_error'",
            )
        names = subspace.feature_names or [f"feature {j}" for j in range(subspace.n_features)]
        return cls(
            loadings=subspace.components,
            features=tuple(map(printable, names)),
            n_features=int(n_features),
            image_shape=image_shape,
            plain=plain_of_fit(estimator).components if beside_pca else None,
            name=criterion_name(estimator),
        )

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
        set_rows(axes, [self.features[j] for j in self.shown])
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        steps = range(0, len(self.loadings), ceil(len(self.loadings) / _MOST_NUMBERED))
        axes.set_xticks(steps, [str(i + 1) for i in steps])
        axes.set_xlabel("component")
        cell = np.array(axes.bbox.size) * 72 / figure_of(axes).dpi / values.shape[::-1]
        if (cell >= np.array(_CELL)).all():
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
        add_header(axes, "Loadings of the components", note=note)
        return (axes,)

    def _draw_images(self, axes: Axes) -> Sequence[Axes]:
        assert self.image_shape is not None
        n_rows, n_columns = self._grid()
        drawn = add_panels(axes, n_rows * n_columns, (n_rows, n_columns))
        # Each image of each block with what stands above it.
        names = ["PCA", spoken(self.name)] if self.plain is not None else ["component"]
        short = names_within(names, width_of(axes) / n_columns - 30)
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
        add_header(
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
