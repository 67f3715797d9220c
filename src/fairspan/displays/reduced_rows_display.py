"""Display of rows projected onto the first two components."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fairspan.auditing.group_names import format_group
from fairspan.displays.base_display import BaseDisplay
from fairspan.displays.plane_sample import PlaneSampleAggregator, point_columns
from fairspan.displays.records import fitted_moments, open_display_rows
from fairspan.displays.style import (
    BLUE,
    MUTED,
    Axes,
    add_header,
    available_width,
    format_ticks,
    grid_shape,
    named_panels,
    panel_figure_size,
)
from fairspan.errors import IncompatibleParameters, InvalidInput
from fairspan.formatting.numbers import format_count, verb_form
from fairspan.moments.compute import compute_moments
from fairspan.parameters import check_integer
from fairspan.rows.aggregation import aggregate
from fairspan.typing import FloatArray, IndexArray

if TYPE_CHECKING:
    from fairspan.estimator.fair_pca import FairPCA

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
        estimator: "FairPCA",
        X: object,
        sensitive_features: object,
        *,
        max_rows: int = 1500,
        random_state: int = 0,
        ax: "Axes | None" = None,
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
        IncompatibleParameters
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
        estimator: "FairPCA",
        X: object,
        sensitive_features: object,
        *,
        max_rows: int = 1500,
        random_state: int = 0,
    ) -> Self:
        """Compute the points and the groups' moments; parameters as for `from_estimator`."""
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
        # The codes of the sampled points are positions in these labels.
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
        moments_in_plane = sample.group_moments()
        return cls(
            points=sample.points,
            # Groups without rows are omitted, so the codes become positions among the others.
            codes=np.searchsorted(moments_in_plane.groups, sample.group_codes),
            groups=tuple(format_group(labels[g]) for g in moments_in_plane.groups),
            means=moments_in_plane.means,
            covariances=moments_in_plane.covariances,
            n_rows=int(sample.n_rows),
        )

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        width, height = panel_figure_size(len(self.groups))
        return width, height + _EXTRA_ROW_HEIGHT * grid_shape(len(self.groups))[0]

    def to_columns(self) -> Mapping[str, Sequence[object]]:
        """Columns with one row per point."""
        return point_columns(self.points, self.codes, self.groups)

    def principal_axes(self, g: int) -> FloatArray:
        """Return the semi-axes of a group's two-standard-deviation ellipse.

        Returns
        -------
        (2, 2) array
            The longer and the shorter semi-axis as rows, relative to the group's mean.
        """
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
        _, n_columns = grid_shape(k)
        panel_width = width / n_columns - 25  # in points, without the space between panels
        format_ticks(panels[0], width=panel_width)
        add_header(axes, _TITLE, note=self._note(n_outside))
        return panels

    def _note(self, n_outside: int) -> str:
        notes = []
        if len(self.points) < self.n_rows:
            notes.append(f"{len(self.points):,} of {self.n_rows:,} rows are shown.")
        notes.append("Ellipses: two standard deviations along the group's principal axes.")
        if n_outside:
            verb = verb_form(n_outside, "lies", "lie")
            notes.append(f"{format_count(n_outside, 'row')} {verb} outside the plot.")
        return " ".join(notes)

    def _set_limits_without_outliers(self, axes: Axes) -> int:
        """Set the limits of axes to contain all points except distant outliers.

        They also contain the ends of the ellipses' axes, as far as these are within the limits for
        outliers. Returns the number of outliers.
        """
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
        """Draw the ellipse of a group, also with its axes if requested."""
        long, short = self.principal_axes(g)
        angles = np.linspace(0, 2 * np.pi, 200)[:, None]
        lines = [np.cos(angles) * long + np.sin(angles) * short]
        if with_axes:
            lines += [np.array([-semi_axis, semi_axis]) for semi_axis in (long, short)]
        for line in lines:
            coordinates = (self.means[g] + line).T
            # A white outline separates the line from the points.
            axes.plot(*coordinates, color="white", linewidth=3.4, alpha=0.8)
            axes.plot(*coordinates, color=color, linewidth=1.7)


def _central_limits(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper limits, each of shape (2,), beyond which points are outliers.

    The central range of a coordinate is that between its 5 % and 95 % quantiles. The distance is
    relative to the larger of both ranges, since the axes have the same scale.
    """
    low, high = np.quantile(points, [_TAIL_SHARE, 1 - _TAIL_SHARE], axis=0)
    max_distance = _OUTLIER_RANGE * np.maximum(high - low, (high - low).max())
    return low - max_distance, high + max_distance


def _limits_with_margin(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return limits that contain the points with a margin, also if all coincide."""
    start = points.min(axis=0)
    end = points.max(axis=0)
    # The second term is for points that are all zero.
    min_margin = _MIN_EXTENT_SHARE * max(np.abs(points).max(), _MIN_EXTENT_SHARE)
    margin = _MARGIN_SHARE * (end - start) / 2 + min_margin
    return start - margin, end + margin


def _scatter(axes: Axes, points: FloatArray, color: str) -> None:
    """Draw points, rasterized to keep vector files small."""
    opacity = min(_MAX_OPACITY, _OPACITY_FACTOR / np.sqrt(max(len(points), 1)))
    style: dict[str, Any] = {"alpha": opacity, "markersize": 4, "markeredgewidth": 0}
    axes.plot(*points.T, "o", color=color, rasterized=True, **style)
