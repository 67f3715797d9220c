"""Displays of component loadings, and of rows projected onto the first two components."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil
from typing import Any, NamedTuple, Self

import numpy as np

from fairspan.auditing.results import format_group
from fairspan.displays.base import BaseDisplay
from fairspan.displays.records import fitted_moments, fitted_pca, objective_name, open_display_rows
from fairspan.displays.style import (
    BLUE,
    DIVERGING_COLORMAP,
    MUTED,
    ON_DARK_CELLS,
    ON_LIGHT_CELLS,
    Axes,
    add_header,
    add_panels,
    available_width,
    format_ticks,
    grid_shape,
    label_rows,
    named_panels,
    panel_figure_size,
    root_figure,
    row_figure_size,
    shorten_names,
)
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidParameter
from fairspan.formatting.messages import counted
from fairspan.formatting.names import readable_name
from fairspan.formatting.numbers import format_count, format_loading
from fairspan.model.subspace import FairSubspace
from fairspan.moments.of_rows import compute_moments
from fairspan.parameters import check_integer
from fairspan.rows.aggregation import aggregate
from fairspan.rows.blocks import RowBlock
from fairspan.rows.coded_labels import LabelEncoder
from fairspan.rows.labels import Label, printable
from fairspan.rows.protocol import RowSource
from fairspan.typing import FloatArray, IndexArray

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
        estimator: Any,
        *,
        n_features: int = 20,
        image_shape: tuple[int, int] | None = None,
        show_pca: bool = False,
        ax: Any = None,
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
            `n_features` is not positive, or `image_shape` does not match the number of features.
        Incompatible
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
        estimator: Any,
        n_features: int = 20,
        image_shape: tuple[int, int] | None = None,
        *,
        show_pca: bool = False,
    ) -> Self:
        """Compute the display; parameters as for `from_estimator`."""
        fitted_moments(estimator, cls.__name__)
        check_integer("n_features", n_features)
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

    def to_columns(self) -> Mapping[str, Sequence[Any]]:
        """Columns: feature, and the loadings of each component."""
        shown = self.shown_features
        columns: dict[str, list[Any]] = {"feature": [self.features[j] for j in shown]}
        for i, loadings in enumerate(self.loadings):
            columns[f"component {i + 1}"] = loadings[shown].tolist()
        return columns

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        if self.image_shape is None:
            return self._draw_heatmap(axes)
        return self._draw_images(axes)

    def _draw_heatmap(self, axes: Axes) -> Sequence[Axes]:
        values = self.loadings[:, self.shown_features].T
        max_abs = _color_range(self.loadings)
        image = axes.imshow(
            values, cmap=DIVERGING_COLORMAP, vmin=-max_abs, vmax=max_abs, aspect="auto"
        )
        label_rows(axes, [self.features[j] for j in self.shown_features])
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        steps = range(0, len(self.loadings), ceil(len(self.loadings) / _MAX_TICKS))
        axes.set_xticks(steps, [str(i + 1) for i in steps])
        axes.set_xlabel("component")
        annotate_cells(axes, image, values, format_loading, "loading")
        n_omitted = len(self.features) - len(values)
        omitted_note = ""
        if n_omitted:
            verb = "is" if n_omitted == 1 else "are"
            omitted_note = f"{counted(n_omitted, 'feature')} with smaller loadings {verb} omitted."
        add_header(axes, "Loadings of the components", note=omitted_note)
        return (axes,)

    def _draw_images(self, axes: Axes) -> Sequence[Axes]:
        assert self.image_shape is not None
        n_rows, n_columns = self._image_grid()
        panels = add_panels(axes, n_rows * n_columns, (n_rows, n_columns))
        for panel in panels:
            panel.set_axis_off()
        component_sets = self._component_sets()
        names = ["component"]
        if self.pca_components is not None:
            names = ["PCA", readable_name(self.name)]
        names = shorten_names(names, available_width(axes) / n_columns - 30)
        panels_per_set = len(panels) // len(component_sets)
        for i, (name, components) in enumerate(zip(names, component_sets, strict=True)):
            set_panels = panels[i * panels_per_set : (i + 1) * panels_per_set]
            for j, loadings in enumerate(components[:_MAX_IMAGES]):
                self._draw_image(set_panels[j], loadings, f"{name} {j + 1}")
        note = "Each image has its own color scale; white is zero."
        n_omitted = max(map(len, component_sets)) - _MAX_IMAGES
        if n_omitted > 0:
            verb = "is" if n_omitted == 1 else "are"
            note += f" {n_omitted} more {verb} omitted."
        add_header(axes, "Components as images", note=note)
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
        if self.pca_components is None:
            return [self.loadings]
        return [self.pca_components, self.loadings]

    def _image_grid(self) -> tuple[int, int]:
        """Total rows and columns of the image grid."""
        component_sets = self._component_sets()
        n_images = min(max(map(len, component_sets)), _MAX_IMAGES)
        n_columns = min(n_images, _MAX_IMAGES_PER_ROW)
        return ceil(n_images / n_columns) * len(component_sets), n_columns


def _color_range(values: FloatArray) -> float:
    """Largest absolute value, or 1 if all values are zero."""
    max_abs = float(np.abs(values).max())
    return max_abs if max_abs > 0 else 1.0


def annotate_cells(
    axes: Axes, image: Any, values: FloatArray, format_value: Callable[[float], str], label: str
) -> None:
    """Write the values into the cells of a heat map, or add a color bar if they are too small."""
    cell_size = np.array(axes.bbox.size) * 72 / root_figure(axes).dpi / values.shape[::-1]
    if (cell_size < np.array(_MIN_CELL_SIZE)).any():
        root_figure(axes).colorbar(image, ax=axes, label=label)
        return
    for (row, column), value in np.ndenumerate(values):
        red, green, blue, _ = image.to_rgba(np.asarray(value))
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


# Margin around the points, as a share of their extent.
_MARGIN_SHARE = 0.12
# Maximum number of groups for which the other groups' ellipses are shown; more would clutter the
# panels.
_MAX_GROUPS_WITH_ELLIPSES = 4
# Extra height per panel row in inches.
_EXTRA_ROW_HEIGHT = 0.6
# Minimum extent if all points coincide, relative to their coordinates.
_MIN_EXTENT_SHARE = 1e-6
# Radius of the ellipses, in standard deviations.
_ELLIPSE_DEVIATIONS = 2.0
# Opacity decreases with the number of points, so that density remains visible.
_MAX_OPACITY = 0.6
_OPACITY_FACTOR = 7.0
# A point is an outlier if it lies more than `_OUTLIER_RANGE` times the central range outside of it.
# The central range excludes this share at each end.
_TAIL_SHARE = 0.05
_OUTLIER_RANGE = 2.0
_TITLE = "First two components, with each group's principal axes"


class PlaneSample(NamedTuple):
    """Rows in the plane of two components: moment sums of all rows and a subsample of points.

    Attributes
    ----------
    n_rows : int
    moment_sums : (k, 3, 3) array
        Weighted sums of the outer products of (1, x, y).
    priorities : (n,) array
        Random priorities of the points; the smallest are kept first.
    group_codes : (n,) array of int
    points : (n, 2) array
    """

    n_rows: int
    moment_sums: FloatArray
    priorities: FloatArray
    group_codes: IndexArray
    points: FloatArray

    def group_moments(self) -> tuple[IndexArray, FloatArray, FloatArray]:
        """Return the indices of groups with rows, their weighted means and covariances."""
        present = np.flatnonzero(self.moment_sums[:, 0, 0])
        mean_products = self.moment_sums[present] / self.moment_sums[present, :1, :1]
        means = mean_products[:, 0, 1:]
        covariances = mean_products[:, 1:, 1:] - np.einsum("gi,gj->gij", means, means)
        return present, means, covariances

    def subsample(self, max_points: int) -> Self:
        """Keep at most `max_points` points, in row order.

        Groups get equal numbers as far as they have rows; unused slots go to other groups.
        Subsampling commutes with combining parts: a point kept overall is also kept in its part.
        """
        by_group = np.lexsort((self.priorities, self.group_codes))
        sorted_codes = self.group_codes[by_group]
        rank_in_group = np.empty(len(by_group), dtype=np.intp)
        rank_in_group[by_group] = np.arange(len(by_group)) - np.searchsorted(
            sorted_codes, sorted_codes
        )
        # Round robin over groups by rank.
        round_robin = np.lexsort((self.group_codes, rank_in_group))
        selected = np.sort(round_robin[:max_points])
        return self._replace(
            priorities=self.priorities[selected],
            group_codes=self.group_codes[selected],
            points=self.points[selected],
        )


@dataclass(frozen=True, eq=False)
class PlaneSampleAggregator:
    """Aggregator that computes a `PlaneSample`.

    Attributes
    ----------
    subspace : FairSubspace
        Subspace with at least two components.
    labels : tuple of k labels
    max_points : int
        Maximum number of points to keep.
    seed : int
    """

    subspace: FairSubspace
    labels: tuple[Label, ...]
    max_points: int
    seed: int

    def aggregate(self, rows: RowSource) -> PlaneSample | None:
        """Aggregate some rows."""
        rng = np.random.default_rng(self.seed)
        encoder = LabelEncoder(self.labels)
        parts = (self._aggregate_block(block, encoder, rng) for block in rows.blocks())
        return reduce(self.merge, parts, None)

    def merge(self, left: PlaneSample | None, right: PlaneSample) -> PlaneSample:
        """Merge the results of two parts."""
        if left is None:
            return right
        merged = PlaneSample(
            n_rows=left.n_rows + right.n_rows,
            moment_sums=left.moment_sums + right.moment_sums,
            priorities=np.concatenate([left.priorities, right.priorities]),
            group_codes=np.concatenate([left.group_codes, right.group_codes]),
            points=np.concatenate([left.points, right.points]),
        )
        return merged.subsample(self.max_points)

    def _aggregate_block(
        self, block: RowBlock, encoder: LabelEncoder, rng: np.random.Generator
    ) -> PlaneSample:
        """Aggregate one block of rows; rows without weight are skipped."""
        if block.group_labels is None:
            raise InvalidInput(
                "The rows have no groups",
                "Allowed: rows with a group label each",
                "Open them with the name of the group column",
            )
        subspace = self.subspace
        priorities = rng.random(len(block.values))
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        present = np.flatnonzero(weights)
        codes = encoder.encode(block.group_labels, block.first_row)[present]
        rows = block.values[present]
        if subspace.mean is not None:
            rows = rows - subspace.mean
        if subspace.scale is not None:
            rows = rows / subspace.scale
        points = rows @ subspace.components[:2].T
        with_one = np.column_stack([np.ones(len(points)), points])
        products = np.einsum("n,ni,nj->nij", weights[present], with_one, with_one)
        moment_sums = np.zeros((len(self.labels), 3, 3))
        np.add.at(moment_sums, codes, products)
        sample = PlaneSample(
            n_rows=len(present),
            moment_sums=moment_sums,
            priorities=priorities[present],
            group_codes=codes,
            points=points,
        )
        return sample.subsample(self.max_points)


@dataclass(eq=False, repr=False)
class ReducedRowsDisplay(BaseDisplay):
    """Plot rows by their first two components, with the principal axes of each group.

    Create it with :meth:`from_estimator`.

    Attributes
    ----------
    points : (n, 2) array
    codes : (n,) array of int
        Group index of each point.
    groups : tuple of k str
    means : (k, 2) array
        Means over all rows of each group, including those not shown.
    covariances : (k, 2, 2) array
        Covariances over all rows of each group about the group's mean.
    n_rows : int
        Number of rows that the points were sampled from.
    """

    points: FloatArray
    codes: IndexArray
    groups: tuple[str, ...]
    means: FloatArray
    covariances: FloatArray
    n_rows: int

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        sensitive_features: Any,
        *,
        max_rows: int = 1500,
        random_state: int = 0,
        ax: Any = None,
    ) -> Self:
        """Project rows, and plot a sample of each group.

        Parameters
        ----------
        estimator : FairPCA
            Fitted estimator with at least two components.
        X : (n, p) table of finite numbers, as `FairPCA.fit` takes it
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        max_rows : int
            Maximum number of points, equally many per group if available. Means and principal axes
            use all rows.
        random_state : int
            Seed for sampling the points.
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        ReducedRowsDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        Incompatible
            The estimator has a single component.
        InvalidInput
            Rows without groups, or with other features.
        UnknownGroup
            A group that the estimator was not fitted on.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import ReducedRowsDisplay
        >>> X = np.array([[3.0, 0, 1], [-3, 0, 1], [0, 2, 0], [0, -2, 0]])
        >>> groups = ["a", "a", "b", "b"]
        >>> fair = FairPCA(2).fit(X, sensitive_features=groups)
        >>> display = ReducedRowsDisplay.from_estimator(fair, X, groups)
        >>> display.points.shape, display.codes
        ((4, 2), array([0, 0, 1, 1]))
        """
        settings = {"max_rows": max_rows, "random_state": random_state}
        return cls._compute_and_plot(ax, estimator, X, sensitive_features, **settings)

    @classmethod
    def compute(
        cls,
        estimator: Any,
        X: Any,
        sensitive_features: Any,
        *,
        max_rows: int = 1500,
        random_state: int = 0,
    ) -> Self:
        """Compute the display; parameters as for `from_estimator`."""
        moments = fitted_moments(estimator, cls.__name__)
        check_integer("max_rows", max_rows)
        check_integer("random_state", random_state, minimum=0)
        subspace = estimator.subspace_
        if subspace.n_components < 2:
            raise IncompatibleParameters(
                f"{cls.__name__} received an estimator with one component",
                "Allowed: two or more components, since the first two span the plane",
                "Fit with n_components=2",
            )
        rows = open_display_rows(estimator, X, sensitive_features, cls.__name__)
        no_rows = InvalidInput("X has no rows", "Allowed: at least one row", "Pass some rows")
        if rows is None:
            raise no_rows
        labels = moments.labels
        if moments.n_groups == 1:
            # The estimator was fitted without groups, so take them from the rows.
            labels = compute_moments(rows).labels
        aggregator = PlaneSampleAggregator(
            subspace, tuple(labels), int(max_rows), int(random_state)
        )
        sample = aggregate(rows, aggregator)
        if sample is None or not sample.n_rows:
            raise no_rows
        present, means, covariances = sample.group_moments()
        return cls(
            points=sample.points,
            codes=np.searchsorted(present, sample.group_codes),
            groups=tuple(format_group(labels[g]) for g in present),
            means=means,
            covariances=covariances,
            n_rows=int(sample.n_rows),
        )

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        width, height = panel_figure_size(len(self.groups))
        return width, height + _EXTRA_ROW_HEIGHT * grid_shape(len(self.groups))[0]

    def to_columns(self) -> Mapping[str, Sequence[Any]]:
        """Columns with one row per point."""
        return {
            "group": [self.groups[g] for g in self.codes],
            "component 1": self.points[:, 0].tolist(),
            "component 2": self.points[:, 1].tolist(),
        }

    def principal_axes(self, g: int) -> FloatArray:
        """Semi-axes of a group's two-standard-deviation ellipse as rows, longest first."""
        variances, directions = np.linalg.eigh(self.covariances[g])
        lengths = _ELLIPSE_DEVIATIONS * np.sqrt(np.maximum(variances, 0.0))
        return np.asarray((directions * lengths).T[::-1])

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        k = len(self.groups)
        width = available_width(axes)
        panels = named_panels(axes, self.groups, "component 1", "component 2")
        for g, panel in enumerate(panels):
            # Show the other groups in the background for orientation.
            _scatter(panel, self.points[self.codes != g], MUTED)
            _scatter(panel, self.points[self.codes == g], BLUE)
            if k <= _MAX_GROUPS_WITH_ELLIPSES:
                for other in range(k):
                    self._draw_ellipse(panel, other, MUTED)
            self._draw_ellipse(panel, g, BLUE, with_axes=True)
            # Equal aspect keeps principal axes perpendicular.
            panel.set_aspect("equal", adjustable="box")
        n_outside = self._set_limits_without_outliers(panels[0])  # panels share their limits
        format_ticks(panels[0], width=width / grid_shape(k)[1] - 25)
        add_header(axes, _TITLE, note=self._note(n_outside))
        return panels

    def _note(self, n_outside: int) -> str:
        notes = []
        if len(self.points) < self.n_rows:
            notes.append(f"{len(self.points):,} of {self.n_rows:,} rows are shown.")
        notes.append("Ellipses: two standard deviations along the group's principal axes.")
        if n_outside:
            verb = "lies" if n_outside == 1 else "lie"
            notes.append(f"{format_count(n_outside, 'row')} {verb} outside the plot.")
        return " ".join(notes)

    def _set_limits_without_outliers(self, axes: Axes) -> int:
        """Set the limits to contain all points except distant outliers; return their number."""
        low, high = _central_limits(self.points)
        is_inside = ((self.points >= low) & (self.points <= high)).all(axis=1)
        axis_ends = []
        for g, mean in enumerate(self.means):
            semi_axes = self.principal_axes(g)
            axis_ends += [mean - semi_axes, mean + semi_axes]
        inner_points = [self.points[is_inside], np.clip(np.vstack(axis_ends), low, high)]
        start, end = _limits_with_margin(np.vstack(inner_points))
        axes.set_xlim(start[0], end[0])
        axes.set_ylim(start[1], end[1])
        return int((~is_inside).sum())

    def _draw_ellipse(self, axes: Axes, g: int, color: str, *, with_axes: bool = False) -> None:
        long, short = self.principal_axes(g)
        angles = np.linspace(0, 2 * np.pi, 200)[:, None]
        lines = [np.cos(angles) * long + np.sin(angles) * short]
        if with_axes:
            lines += [np.array([-semi_axis, semi_axis]) for semi_axis in (long, short)]
        for line in lines:
            coordinates = (self.means[g] + line).T
            axes.plot(*coordinates, color="white", linewidth=3.4, alpha=0.8)
            axes.plot(*coordinates, color=color, linewidth=1.7)


def _central_limits(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return limits beyond which points are outliers."""
    low, high = np.quantile(points, [_TAIL_SHARE, 1 - _TAIL_SHARE], axis=0)
    max_distance = _OUTLIER_RANGE * np.maximum(high - low, (high - low).max())
    return low - max_distance, high + max_distance


def _limits_with_margin(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return limits that contain the points with a margin, also if all coincide."""
    start = points.min(axis=0)
    end = points.max(axis=0)
    min_margin = _MIN_EXTENT_SHARE * max(np.abs(points).max(), _MIN_EXTENT_SHARE)
    margin = _MARGIN_SHARE * (end - start) / 2 + min_margin
    return start - margin, end + margin


def _scatter(axes: Axes, points: FloatArray, color: str) -> None:
    """Draw points, rasterized to keep vector files small."""
    opacity = min(_MAX_OPACITY, _OPACITY_FACTOR / np.sqrt(max(len(points), 1)))
    style: dict[str, Any] = {"alpha": opacity, "markersize": 4, "markeredgewidth": 0}
    axes.plot(*points.T, "o", color=color, rasterized=True, **style)
