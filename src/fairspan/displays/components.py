"""Loadings of components, and rows in the plane of the first two, reduced in one pass."""

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
from fairspan.formatting.text import counted, format_count, format_loading, readable_name
from fairspan.model.subspace import FairSubspace
from fairspan.moments.of_rows import compute_moments
from fairspan.registry import check_integer
from fairspan.rows.groups import Label, LabelEncoder, printable
from fairspan.rows.protocol import RowBlock, RowSource, aggregate
from fairspan.typing import FloatArray, IndexArray

# Inches of a row, and of the widest figure that is made by itself.
_ROW_HEIGHT, _MAX_WIDTH = 0.3, 12.0
# Points that a figure of two digits takes, beside and below.
_MIN_CELL_SIZE = (34.0, 13.0)
# On cells darker than this, by brightness, figures are white.
_MAX_DARK_LUMINANCE = 0.5
_MAX_TICKS = 20
_MAX_IMAGES_PER_ROW, _MAX_IMAGES = 6, 24
_IMAGE_WIDTH = 1.5


@dataclass(eq=False, repr=False)
class LoadingsDisplay(BaseDisplay):
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
        """Draw the loadings of a fitted estimator.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        n_features : int
            How many of the features with the largest loadings are shown.
        image_shape : tuple of 2 int, optional
            Rows and columns of an image whose pixels the features are.
        show_pca : bool
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
            `show_pca` without images.

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
        """What `from_estimator` draws, of the same parameters."""
        fitted_moments(estimator, cls.__name__)
        check_integer("n_features", n_features)
        subspace = estimator.subspace_
        shape, p = image_shape, subspace.n_features
        if shape is not None and (len(shape) != 2 or shape[0] * shape[1] != p):
            raise InvalidParameter(
                f"image_shape is {image_shape!r}",
                f"Allowed: two whole numbers whose product is the number of features, {p}",
                "Pass the rows and columns of the images that the features are the pixels of",
            )
        if show_pca and image_shape is None:
            raise IncompatibleParameters(
                "show_pca was requested without image_shape",
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
            pca_components=fitted_pca(estimator).components if show_pca else None,
            name=objective_name(estimator),
        )

    @property
    def shown_features(self) -> IndexArray:
        """Positions of the features that are shown, in the order in which they are."""
        return (
            np.argsort(-(self.loadings**2).sum(axis=0), kind="stable")[: self.n_features]
            if self.image_shape is None
            else np.arange(len(self.features))
        )

    def figure_size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        if self.image_shape is None:
            width, height = row_figure_size(
                [self.features[j] for j in self.shown_features], _ROW_HEIGHT
            )
            return max(width, min(2.6 + 0.55 * len(self.loadings), _MAX_WIDTH)), height
        n_rows, n_columns = self._image_grid()
        image_height = _IMAGE_WIDTH * self.image_shape[0] / self.image_shape[1]
        return max(6.4, 0.6 + _IMAGE_WIDTH * n_columns), 1.0 + (image_height + 0.3) * n_rows

    def to_columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each feature shown, one column for each component."""
        shown_points = self.shown_features
        return {
            "feature": [self.features[j] for j in shown_points],
            **{
                f"component {i + 1}": row[shown_points].tolist()
                for i, row in enumerate(self.loadings)
            },
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        max_abs = float(np.abs(self.loadings).max()) or 1.0
        return (
            self._draw_heatmap(axes, max_abs)
            if self.image_shape is None
            else self._draw_images(axes)
        )

    def _draw_heatmap(self, axes: Axes, most: float) -> Sequence[Axes]:
        values = self.loadings[:, self.shown_features].T
        image = axes.imshow(values, cmap=DIVERGING_COLORMAP, vmin=-most, vmax=most, aspect="auto")
        label_rows(axes, [self.features[j] for j in self.shown_features])
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        steps = range(0, len(self.loadings), ceil(len(self.loadings) / _MAX_TICKS))
        axes.set_xticks(steps, [str(i + 1) for i in steps])
        axes.set_xlabel("component")
        annotate_cells(axes, image, values, format_loading, "loading")
        n_omitted = len(self.features) - len(values)
        are = "is" if n_omitted == 1 else "are"
        note = (
            f"{counted(n_omitted, 'feature')} with smaller loadings {are} left out."
            if n_omitted
            else ""
        )
        add_header(axes, "Loadings of the components", note=note)
        return (axes,)

    def _draw_images(self, axes: Axes) -> Sequence[Axes]:
        assert self.image_shape is not None
        n_rows, n_columns = self._image_grid()
        drawn = add_panels(axes, n_rows * n_columns, (n_rows, n_columns))
        # Each image of each block with what stands above it.
        names = (
            ["PCA", readable_name(self.name)] if self.pca_components is not None else ["component"]
        )
        short = shorten_names(names, available_width(axes) / n_columns - 30)
        titled_blocks = [
            [(f"{name} {i + 1}", row) for i, row in enumerate(block[:_MAX_IMAGES])]
            for name, block in zip(short, self._component_sets(), strict=True)
        ]
        for panel in drawn:
            panel.set_axis_off()
        for row, block in enumerate(titled_blocks):
            for column, (title, loadings) in enumerate(block):
                panel = drawn[row * (n_rows // len(titled_blocks)) * n_columns + column]
                max_abs = float(np.abs(loadings).max()) or 1.0
                panel.imshow(
                    loadings.reshape(self.image_shape),
                    cmap=DIVERGING_COLORMAP,
                    vmin=-max_abs,
                    vmax=max_abs,
                )
                panel.set_title(title, fontsize=10, pad=3, loc="center")
        n_omitted = max(map(len, self._component_sets())) - _MAX_IMAGES
        are = "is" if n_omitted == 1 else "are"
        omitted_note = f" {n_omitted} more {are} left out." if n_omitted > 0 else ""
        add_header(
            axes,
            "The components as images",
            note=f"Each has its own scale; white is zero.{omitted_note}",
        )
        return drawn[: sum(map(len, titled_blocks))] if len(titled_blocks) == 1 else drawn

    def _component_sets(self) -> list[FloatArray]:
        return (
            [self.loadings] if self.pca_components is None else [self.pca_components, self.loadings]
        )

    def _image_grid(self) -> tuple[int, int]:
        """Rows, of all blocks, and columns of images."""
        n = min(max(map(len, self._component_sets())), _MAX_IMAGES)
        n_columns = min(n, _MAX_IMAGES_PER_ROW)
        return ceil(n / n_columns) * len(self._component_sets()), n_columns


def annotate_cells(
    axes: Axes, image: Any, values: FloatArray, format_value: Callable[[float], str], label: str
) -> None:
    """Write the numbers into the cells of a map; where they are too small, a bar of colours."""
    cell = np.array(axes.bbox.size) * 72 / root_figure(axes).dpi / values.shape[::-1]
    if (cell < np.array(_MIN_CELL_SIZE)).any():
        root_figure(axes).colorbar(image, ax=axes, label=label)
        return
    for (row, column), value in np.ndenumerate(values):
        red, green, blue, _ = image.to_rgba(np.asarray(value))
        is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < _MAX_DARK_LUMINANCE
        axes.text(
            column,
            row,
            format_value(float(value)),
            color=ON_DARK_CELLS if is_dark else ON_LIGHT_CELLS,
            ha="center",
            va="center",
            fontsize=9,
        )


# Room around the rows, as a share of their extent.
_MARGIN_SHARE = 0.12
# The ellipses of others are shown among so many groups; inches that each row is taller.
_MAX_GROUPS_WITH_ELLIPSES, _EXTRA_ROW_HEIGHT = 4, 0.6
# Room where all rows are the same, as a share of where they lie.
_MIN_EXTENT_SHARE = 1e-6
# Standard deviations that an ellipse and its axes reach.
_ELLIPSE_DEVIATIONS = 2.0
# Points are fainter the more there are, so that dense places are told from dark ones.
_MAX_OPACITY, _OPACITY_FACTOR = 0.6, 7.0
# Points are far where they lie this many times the range of all but this share of them beyond it.
_TAIL_SHARE, _OUTLIER_RANGE = 0.05, 2.0
_TITLE = "The rows in two dimensions, with each group's own axes"


class PlaneSample(NamedTuple):
    """Rows of each group in the plane: sums over all, and the points of some.

    Attributes
    ----------
    n_rows : int
    sums : (k, 3, 3) array
        Of the weighted products of (1, x, y) with themselves: weights, coordinates, products.
    keys : (n,) array
        Random, one for each point that was kept: those of the smallest are drawn first.
    codes : (n,) array of int
    points : (n, 2) array
    """

    n_rows: int
    moment_sums: FloatArray
    priorities: FloatArray
    group_codes: IndexArray
    points: FloatArray

    def group_moments(self) -> tuple[IndexArray, FloatArray, FloatArray]:
        """Groups that have rows; their means, and covariances about these by weight."""
        present = np.flatnonzero(self.moment_sums[:, 0, 0])
        means = self.moment_sums[present] / self.moment_sums[present, :1, :1]
        centre = means[:, 0, 1:]
        return present, centre, means[:, 1:, 1:] - np.einsum("gi,gj->gij", centre, centre)

    def subsample(self, max_points: int) -> Self:
        """With so many points, which stay in the order of the rows.

        Every group has the same number as far as it has them; what small ones leave goes to others.
        Whatever is among these of all rows is among these of a part of them.
        """
        order = np.lexsort((self.priorities, self.group_codes))
        sorted_codes, rank_in_group = self.group_codes[order], np.empty(len(order), dtype=np.intp)
        rank_in_group[order] = np.arange(len(order)) - np.searchsorted(sorted_codes, sorted_codes)
        # The first of every group, then the second of every group, and so on.
        selected = np.sort(np.lexsort((self.group_codes, rank_in_group))[:max_points])
        return self._replace(
            priorities=self.priorities[selected],
            group_codes=self.group_codes[selected],
            points=self.points[selected],
        )


@dataclass(frozen=True, eq=False)
class PlaneSampleAggregator:
    """The pass that makes an `PlaneSample`.

    Attributes
    ----------
    subspace : FairSubspace
        Of two components or more.
    labels : tuple of k labels
    most : int
        Points that are kept.
    seed : int
    """

    subspace: FairSubspace
    labels: tuple[Label, ...]
    most: int
    seed: int

    def aggregate(self, rows: RowSource) -> PlaneSample | None:
        """The result over some rows."""
        rng, coder = np.random.default_rng(self.seed), LabelEncoder(self.labels)
        parts = (self._aggregate_block(block, coder, rng) for block in rows.blocks())
        return reduce(self.merge, parts, None)

    def merge(self, left: PlaneSample | None, right: PlaneSample) -> PlaneSample:
        """The result over both parts."""
        if left is None:
            return right
        rows: Any = map(np.concatenate, zip(left[2:], right[2:], strict=True))
        both = PlaneSample(left.n_rows + right.n_rows, left.moment_sums + right.moment_sums, *rows)
        return both.subsample(self.most)

    def _aggregate_block(
        self, block: RowBlock, coder: LabelEncoder, rng: np.random.Generator
    ) -> PlaneSample:
        if block.group_labels is None:
            raise InvalidInput(
                "The rows have no groups",
                "Allowed: rows with the group of each",
                "Open them with the name of the group column",
            )
        keys, subspace = rng.random(len(block.values)), self.subspace
        weights = np.ones(len(keys)) if block.weights is None else block.weights
        present = np.flatnonzero(weights)
        codes = coder.encode(block.group_labels, block.first_row)[present]
        rows = block.values[present] - (0 if subspace.mean is None else subspace.mean)
        points = (
            rows / (1 if subspace.scale is None else subspace.scale) @ subspace.components[:2].T
        )
        with_one = np.column_stack([np.ones(len(points)), points])
        sums = np.zeros((len(self.labels), 3, 3))
        np.add.at(sums, codes, np.einsum("n,ni,nj->nij", weights[present], with_one, with_one))
        return PlaneSample(len(present), sums, keys[present], codes, points).subsample(self.most)


@dataclass(eq=False, repr=False)
class ReducedRowsDisplay(BaseDisplay):
    """Plot rows by their first two components, with each group's own principal axes.

    Make it with :meth:`from_estimator`.

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
        """Reduce rows, and draw some of each group.

        Parameters
        ----------
        estimator : FairPCA
            Fitted, with two components or more.
        X : (n, p) table of finite numbers, as `FairPCA.fit` takes it
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        max_rows : int
            Largest number of rows that are drawn, the same number of each group if it has as many.
            Means and principal axes are those of all rows.
        random_state : int
            Which rows are drawn.
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

        Returns
        -------
        ReducedRowsDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        Incompatible
            It has a single component.
        InvalidInput
            Rows without groups, or of other features.
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
        """What `from_estimator` draws, of the same parameters."""
        moments = fitted_moments(estimator, cls.__name__)
        check_integer("max_rows", max_rows)
        check_integer("random_state", random_state, minimum=0)
        subspace = estimator.subspace_
        if subspace.n_components < 2:
            raise IncompatibleParameters(
                f"{cls.__name__} received an estimator of one component",
                "Allowed: two components or more, whose first two make the plane",
                "Fit with n_components=2",
            )
        rows = open_display_rows(estimator, X, sensitive_features, cls.__name__)
        no_rows = InvalidInput("X has no rows", "Allowed: at least one", "Pass some rows")
        if rows is None:
            raise no_rows
        # Fitted without groups, it knows nothing of these.
        labels = compute_moments(rows).labels if moments.n_groups == 1 else moments.labels
        sample = aggregate(
            rows, PlaneSampleAggregator(subspace, tuple(labels), int(max_rows), int(random_state))
        )
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
        """Width and height of a new figure, in inches."""
        width, height = panel_figure_size(len(self.groups))
        return width, height + _EXTRA_ROW_HEIGHT * grid_shape(len(self.groups))[0]

    def to_columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each point."""
        return {
            "group": [self.groups[g] for g in self.codes],
            "component 1": self.points[:, 0].tolist(),
            "component 2": self.points[:, 1].tolist(),
        }

    def principal_axes(self, g: int) -> FloatArray:
        """The axes of a group's ellipse as rows, two standard deviations long, longest first."""
        variances, directions = np.linalg.eigh(self.covariances[g])
        return np.asarray(
            (directions * (_ELLIPSE_DEVIATIONS * np.sqrt(np.maximum(variances, 0.0)))).T[::-1]
        )

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        k, room = len(self.groups), available_width(axes)
        drawn = named_panels(axes, self.groups, "component 1", "component 2")
        for g, panel in enumerate(drawn):
            # The other groups behind, so that it is seen where among them this one lies.
            _scatter(panel, self.points[self.codes != g], MUTED)
            _scatter(panel, self.points[self.codes == g], BLUE)
            for other in range(k if k <= _MAX_GROUPS_WITH_ELLIPSES else 0):
                self._draw_ellipse(panel, other, MUTED)
            self._draw_ellipse(panel, g, BLUE, with_axes=True)
            # At one scale, axes at right angles are seen at right angles.
            panel.set_aspect("equal", adjustable="box")
        n_outside = self._set_limits_without_outliers(drawn[0])  # all are of one scale
        format_ticks(drawn[0], width=room / grid_shape(k)[1] - 25)
        lie = f"{format_count(n_outside, 'row')} {'lies' if n_outside == 1 else 'lie'}"
        notes = (
            f"{len(self.points):,} of {self.n_rows:,} rows are shown."
            if len(self.points) < self.n_rows
            else "",
            "Ellipses: two standard deviations of the group's rows, along its own axes.",
            f"{lie} outside the picture." if n_outside else "",
        )
        add_header(axes, _TITLE, note=" ".join(filter(None, notes)))
        return drawn

    def _set_limits_without_outliers(self, axes: Axes) -> int:
        """Limit axes to where all points lie but single ones far from them; how many these are."""
        low, high = np.quantile(self.points, [_TAIL_SHARE, 1 - _TAIL_SHARE], axis=0)
        range_ = _OUTLIER_RANGE * np.maximum(high - low, (high - low).max())
        low, high = low - range_, high + range_
        is_inside = ((self.points >= low) & (self.points <= high)).all(axis=1)
        axis_ends = [
            mean + sign * self.principal_axes(g)
            for g, mean in enumerate(self.means)
            for sign in (-1, 1)
        ]
        shown_points = np.vstack([self.points[is_inside], np.clip(np.vstack(axis_ends), low, high)])
        start, end = shown_points.min(axis=0), shown_points.max(axis=0)
        margin = _MARGIN_SHARE * (end - start) / 2 + _MIN_EXTENT_SHARE * max(
            np.abs(shown_points).max(), _MIN_EXTENT_SHARE
        )
        axes.set_xlim(start[0] - margin[0], end[0] + margin[0])
        axes.set_ylim(start[1] - margin[1], end[1] + margin[1])
        return int((~is_inside).sum())

    def _draw_ellipse(self, axes: Axes, g: int, colour: str, *, with_axes: bool = False) -> None:
        (long, short), angles = self.principal_axes(g), np.linspace(0, 2 * np.pi, 200)[:, None]
        lines = [np.cos(angles) * long + np.sin(angles) * short]
        lines += [np.array([-each, each]) for each in (long, short) if with_axes]
        for line in lines:
            axes.plot(*(self.means[g] + line).T, color="white", linewidth=3.4, alpha=0.8)
            axes.plot(*(self.means[g] + line).T, color=colour, linewidth=1.7)


def _scatter(axes: Axes, points: FloatArray, colour: str) -> None:
    """Points as one image inside a drawing, which would get large otherwise."""
    opacity = min(_MAX_OPACITY, _OPACITY_FACTOR / np.sqrt(max(len(points), 1)))
    style: dict[str, Any] = {"alpha": opacity, "markersize": 4, "markeredgewidth": 0}
    axes.plot(*points.T, "o", color=colour, rasterized=True, **style)
