"""Display of component loadings, as a heat map or as images."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Self

import numpy as np

from fairspan.displays.base_display import BaseDisplay
from fairspan.displays.records import fitted_moments, fitted_pca, objective_name
from fairspan.displays.style import (
    DIVERGING_COLORMAP,
    ON_DARK_CELLS,
    ON_LIGHT_CELLS,
    Axes,
    add_header,
    add_panels,
    available_width,
    label_rows,
    root_figure,
    row_figure_size,
    shorten_names,
)
from fairspan.errors import IncompatibleParameters, InvalidParameter
from fairspan.formatting.messages import counted
from fairspan.formatting.names import readable_name
from fairspan.formatting.numbers import format_loading, verb_form
from fairspan.parameters import check_bool, check_integer
from fairspan.rows.labels import printable
from fairspan.typing import FloatArray, IndexArray

if TYPE_CHECKING:
    from matplotlib.image import AxesImage

    from fairspan.estimator.fair_pca import FairPCA

# Row height and maximum figure width, in inches.
_ROW_HEIGHT = 0.3
_MAX_WIDTH = 12.0
# Minimum width and height of an annotated cell, in points.
_MIN_CELL_SIZE = (34.0, 13.0)
# Luminance below which cell text is light.
_MAX_DARK_LUMINANCE = 0.5
# Maximum number of component numbers below a heat map.
_MAX_TICKS = 20
# Maximum number of component images in a row and in a set; more would be too small to read.
_MAX_IMAGES_PER_ROW = 6
_MAX_IMAGES = 24
# Width of a component image in inches.
_IMAGE_WIDTH = 1.5


@dataclass(eq=False, repr=False)
class LoadingsDisplay(BaseDisplay):
    """Plot the loadings of the features on each component, or the components as images.

    Create it with :meth:`from_estimator`.

    Attributes
    ----------
    loadings : (r, p) array
        Loadings of each of r components.
    features : tuple of p str
    n_features : int
        Number of features shown, by decreasing sum of squared loadings (the squared length of the
        feature's projection onto the subspace).
    image_shape : tuple of 2 int or None
        Height and width if the features are the pixels of an image; components are then shown as
        images.
    pca_components : (d, p) array or None
        Components of ordinary PCA to show for comparison, as images.
    name : str
        Name of the criterion.
    """

    loadings: FloatArray
    features: tuple[str, ...]
    n_features: int = 20
    image_shape: tuple[int, int] | None = None
    pca_components: FloatArray | None = None
    name: str = "fair"

    @classmethod
    def from_estimator(
        cls,
        estimator: "FairPCA",
        *,
        n_features: int = 20,
        image_shape: tuple[int, int] | None = None,
        show_pca: bool = False,
        ax: "Axes | None" = None,
    ) -> Self:
        """Plot the loadings of a fitted estimator.

        Parameters
        ----------
        estimator : FairPCA
            Fitted estimator.
        n_features : int
            Number of features to show, by decreasing loadings.
        image_shape : tuple of 2 int, optional
            Height and width in pixels, if the features are the pixels of an image.
        show_pca : bool
            Also show the components of ordinary PCA; requires `image_shape`.
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        LoadingsDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA, or `n_features` is not an integer.
        InvalidParameter
            `n_features` is not positive, `show_pca` is no boolean, or `image_shape` does not match
            the number of features.
        IncompatibleParameters
            `show_pca` was given without `image_shape`.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import LoadingsDisplay
        >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> LoadingsDisplay.from_estimator(fair, n_features=2).to_columns()["feature"]
        ['feature 0', 'feature 1']
        """
        return cls._compute_and_plot(ax, estimator, n_features, image_shape, show_pca=show_pca)

    @classmethod
    def compute(
        cls,
        estimator: "FairPCA",
        n_features: int = 20,
        image_shape: tuple[int, int] | None = None,
        *,
        show_pca: bool = False,
    ) -> Self:
        """Compute the loadings and the features to show; parameters as for `from_estimator`."""
        fitted_moments(estimator, cls.__name__)  # raises if the estimator is not fitted
        check_integer("n_features", n_features)
        check_bool("show_pca", show_pca)
        subspace = estimator.subspace_
        p = subspace.n_features
        if image_shape is not None and (
            len(image_shape) != 2 or image_shape[0] * image_shape[1] != p
        ):
            raise InvalidParameter(
                f"image_shape is {image_shape!r}",
                f"Allowed: two integers whose product is the number of features, {p}",
                "Pass the height and width of the images",
            )
        if show_pca and image_shape is None:
            raise IncompatibleParameters(
                "show_pca was given without image_shape",
                "Allowed: show_pca with components shown as images",
                "Pass image_shape, or make a second display of a FairPCA with criterion "
                "'total_error'",
            )
        names = subspace.feature_names or [f"feature {j}" for j in range(p)]
        return cls(
            loadings=subspace.components,
            features=tuple(map(printable, names)),
            n_features=int(n_features),
            image_shape=image_shape,
            pca_components=fitted_pca(estimator).components if show_pca else None,
            name=objective_name(estimator),
        )

    @property
    def shown_features(self) -> IndexArray:
        """Indices of the features shown, in display order."""
        if self.image_shape is not None:
            return np.arange(len(self.features))
        squared_sums = (self.loadings**2).sum(axis=0)
        return np.argsort(-squared_sums, kind="stable")[: self.n_features]

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        if self.image_shape is None:
            names = [self.features[j] for j in self.shown_features]
            width, height = row_figure_size(names, _ROW_HEIGHT)
            return max(width, min(2.6 + 0.55 * len(self.loadings), _MAX_WIDTH)), height
        n_rows, n_columns = self._image_grid()
        image_height = _IMAGE_WIDTH * self.image_shape[0] / self.image_shape[1]
        return max(6.4, 0.6 + _IMAGE_WIDTH * n_columns), 1.0 + (image_height + 0.3) * n_rows

    def to_columns(self) -> Mapping[str, Sequence[object]]:
        """Columns: feature, and the loadings of each component."""
        selected_features = self.shown_features
        columns: dict[str, list[object]] = {
            "feature": [self.features[j] for j in selected_features]
        }
        for i, loadings in enumerate(self.loadings):
            columns[f"component {i + 1}"] = loadings[selected_features].tolist()
        return columns

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        if self.image_shape is None:
            return self._draw_heatmap(axes)
        return self._draw_images(axes)

    def _draw_heatmap(self, axes: Axes) -> Sequence[Axes]:
        """Draw one row per feature shown and one column per component; return the axes."""
        values = self.loadings[:, self.shown_features].T
        max_abs = _color_range(self.loadings)
        image = axes.imshow(
            values, cmap=DIVERGING_COLORMAP, vmin=-max_abs, vmax=max_abs, aspect="auto"
        )
        label_rows(axes, [self.features[j] for j in self.shown_features])
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        tick_step = ceil(len(self.loadings) / _MAX_TICKS)
        ticks = range(0, len(self.loadings), tick_step)
        axes.set_xticks(ticks, [str(i + 1) for i in ticks])
        axes.set_xlabel("component")
        annotate_cells(axes, image, values, format_loading, label="loading")
        n_omitted = len(self.features) - len(values)
        omitted_note = ""
        if n_omitted:
            verb = verb_form(n_omitted, "is", "are")
            omitted_note = f"{counted(n_omitted, 'feature')} with smaller loadings {verb} omitted."
        add_header(axes, "Loadings of the components", note=omitted_note)
        return (axes,)

    def _draw_images(self, axes: Axes) -> Sequence[Axes]:
        """Draw one image per component, those of PCA first if shown; return the panels."""
        assert self.image_shape is not None
        n_rows, n_columns = self._image_grid()
        panels = add_panels(axes, n_rows * n_columns, (n_rows, n_columns))
        for panel in panels:
            panel.set_axis_off()
        component_sets = self._component_sets()
        names = ["component"]
        if self.pca_components is not None:
            names = ["PCA", readable_name(self.name)]
        # A title ends with the number of the component, which takes some of the width.
        names = shorten_names(names, available_width(axes) / n_columns - 30)
        # Each set starts a new row of panels; the last ones of a set may remain empty.
        panels_per_set = len(panels) // len(component_sets)
        for i, (name, components) in enumerate(zip(names, component_sets, strict=True)):
            set_panels = panels[i * panels_per_set : (i + 1) * panels_per_set]
            for j, loadings in enumerate(components[:_MAX_IMAGES]):
                self._draw_image(set_panels[j], loadings, f"{name} {j + 1}")
        note = "Each image has its own color scale; white is zero."
        n_omitted = max(map(len, component_sets)) - _MAX_IMAGES
        if n_omitted > 0:
            verb = verb_form(n_omitted, "is", "are")
            note += f" {n_omitted} more {verb} omitted."
        add_header(axes, "Components as images", note=note)
        # Omit empty panels at the end; with two sets, those of the first are between the sets.
        if len(component_sets) == 1:
            return panels[: min(len(self.loadings), _MAX_IMAGES)]
        return panels

    def _draw_image(self, panel: Axes, loadings: FloatArray, title: str) -> None:
        assert self.image_shape is not None
        max_abs = _color_range(loadings)
        panel.imshow(
            loadings.reshape(self.image_shape),
            cmap=DIVERGING_COLORMAP,
            vmin=-max_abs,
            vmax=max_abs,
        )
        panel.set_title(title, fontsize=10, pad=3, loc="center")

    def _component_sets(self) -> list[FloatArray]:
        """Return the components to draw as images: those of PCA if shown, and the estimator's."""
        if self.pca_components is None:
            return [self.loadings]
        return [self.pca_components, self.loadings]

    def _image_grid(self) -> tuple[int, int]:
        """Return the rows and columns of the grid of images, the rows of all sets together."""
        component_sets = self._component_sets()
        n_images = min(max(map(len, component_sets)), _MAX_IMAGES)
        n_columns = min(n_images, _MAX_IMAGES_PER_ROW)
        return ceil(n_images / n_columns) * len(component_sets), n_columns


def _color_range(values: FloatArray) -> float:
    """Largest absolute value, or 1 if all values are zero."""
    max_abs = float(np.abs(values).max())
    if max_abs == 0:
        return 1.0
    return max_abs


def annotate_cells(
    axes: Axes,
    image: "AxesImage",
    values: FloatArray,
    format_value: Callable[[float], str],
    label: str,
) -> None:
    """Write the values into the cells of a heat map, or add a color bar if they are too small.

    Parameters
    ----------
    axes : matplotlib Axes
    image : matplotlib AxesImage
        The heat map.
    values : (rows, columns) array
    format_value : callable
        Converts a value to its text.
    label : str
        Label of the color bar.
    """
    # Width and height in points.
    cell_size = np.array(axes.bbox.size) * 72 / root_figure(axes).dpi / values.shape[::-1]
    if (cell_size < np.array(_MIN_CELL_SIZE)).any():
        root_figure(axes).colorbar(image, ax=axes, label=label)
        return
    for (row, column), value in np.ndenumerate(values):
        red, green, blue, _ = image.to_rgba(np.asarray(value))
        # Luma of ITU-R BT.601: the perceived brightness of a color.
        luminance = 0.299 * red + 0.587 * green + 0.114 * blue
        is_dark = luminance < _MAX_DARK_LUMINANCE
        axes.text(
            column,
            row,
            format_value(float(value)),
            color=ON_DARK_CELLS if is_dark else ON_LIGHT_CELLS,
            ha="center",
            va="center",
            fontsize=9,
        )
