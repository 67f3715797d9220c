"""Display of the Pareto frontier of two groups."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from fairspan.auditing.group_names import format_group
from fairspan.displays.base_display import BaseDisplay
from fairspan.displays.point_labels import label_points
from fairspan.displays.records import fitted_moments
from fairspan.displays.style import (
    FOREGROUND,
    MUTED,
    NOTE_ALPHA,
    PCA_STYLE,
    Axes,
    add_header,
    available_width,
    format_ticks,
    model_styles,
    shorten_names,
)
from fairspan.formatting.names import plot_label, readable_name
from fairspan.formatting.numbers import (
    format_ascii_number,
    format_count,
    format_share,
    to_ascii,
)
from fairspan.formatting.units import Unit, check_unit
from fairspan.pareto import Frontier, frontier_for_display
from fairspan.problem.criteria.criterion import Criterion
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.lines import Line2D

    from fairspan.estimator.fair_pca import FairPCA

# Margin as a share of the extent.
_MARGIN = 0.12
# Maximum distance of a solution beyond the frontier, as a share of its extent, for it to be within
# the axes: farther ones would shrink the frontier too much.
_MAX_DISTANCE = 0.5
# Solutions within this share of the extent share a marker.
_MERGE_DISTANCE = 0.02
# Minimum extent relative to the largest error, for a degenerate frontier.
_MIN_RELATIVE_EXTENT = 1e-3
# Marker sizes in points; PCA's surrounds the others.
_MARKER_SIZE = 9.0
_PCA_MARKER_SIZE = 15.0
# Start and end of the arrow to a solution outside the axes, as shares of the axes.
_ARROW_INSETS = (0.06, 0.005)


@dataclass(frozen=True, eq=False)
class _NamedPoint:
    """A drawn point with its name.

    Attributes
    ----------
    handle : Artist
        Handle of a legend entry.
    position : (2,) array
        Where the name belongs, in data coordinates.
    text : str
        Name, in several lines if it has several parts.
    """

    handle: "Artist"
    position: FloatArray
    text: str


class _Solutions(NamedTuple):
    """Names of solutions that share a position, and the position in the unit of the plot."""

    names: list[str]
    position: FloatArray


def _join_names(names: Sequence[str]) -> str:
    """Join the names of solutions to a label of several lines."""
    return ",\n".join(plot_label(readable_name(name)) for name in names)


@dataclass(eq=False, repr=False)
class FrontierDisplay(BaseDisplay):
    """Plot the Pareto frontier of two groups' errors, with the solutions of PCA and the criteria.

    Create it with :meth:`from_estimator` or :meth:`fairspan.Frontier.plot`.

    Attributes
    ----------
    errors : (m, 2) array
        Points of the frontier, from the optimum of the first group to that of the second.
    groups : tuple of 2 str
    achievable_region : (r, 2) array or None
        Vertices of the convex region of achievable errors.
    pca_errors : (2,) array
        Errors of ordinary PCA.
    solutions : mapping of name to (2,) array
        Errors of the criteria's solutions. A solution far from the frontier is shown as an arrow at
        the edge.
    n_components : int
    variances : (2,) array or None
        Variances of the groups, of which errors are shown as shares if `unit` is "share".
    unit : {"share", "squared"}
        Unit of the plot: shares of each group's variance, or squared units of the features, as in
        the other attributes. Groups without variance, or unknown ones, have squared units.
    """

    errors: FloatArray
    groups: tuple[str, str]
    achievable_region: FloatArray | None
    pca_errors: FloatArray
    solutions: Mapping[str, FloatArray]
    n_components: int
    variances: FloatArray | None = None
    unit: Unit = "share"

    @classmethod
    def from_estimator(
        cls,
        estimator: "FairPCA",
        *,
        criteria: Sequence[str | Criterion] | None = None,
        unit: Unit = "share",
        ax: "Axes | None" = None,
    ) -> Self:
        """Plot the frontier for the training rows of an estimator.

        Parameters
        ----------
        estimator : FairPCA
            Estimator fitted to two groups.
        criteria : sequence of str or criterion objects, optional
            Criteria whose solutions are shown; by default all.
        unit : {"share", "squared"}
            Shares of each group's variance, or squared units of the features.
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        FrontierDisplay

        Raises
        ------
        IncompatibleParameters
            The number of groups is not two.
        InvalidType
            The estimator is not a fitted FairPCA.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import FrontierDisplay
        >>> X = np.array([[3.0, 0], [-3, 0], [0, 2], [0, -2]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> display = FrontierDisplay.from_estimator(fair, criteria=["minimax_loss"])
        >>> display.solutions["minimax_loss"].round(2)
        array([2.77, 2.77])
        """
        return cls._compute_and_plot(ax, estimator, criteria, unit=unit)

    @classmethod
    def compute(
        cls,
        estimator: "FairPCA",
        criteria: Sequence[str | Criterion] | None = None,
        *,
        unit: Unit = "share",
    ) -> Self:
        """Compute the frontier for the training rows; parameters as for `from_estimator`."""
        moments = fitted_moments(estimator, cls.__name__)
        subspace = estimator.subspace_
        is_scaled = subspace.is_scaled
        frontier = frontier_for_display(
            moments, subspace.dimension, subspace.center, scale=is_scaled
        )
        return cls.from_frontier(frontier, criteria, unit=unit)

    @classmethod
    def from_frontier(
        cls,
        frontier: Frontier,
        criteria: Sequence[str | Criterion] | None = None,
        *,
        unit: Unit = "share",
    ) -> Self:
        """Compute the display of a frontier, with ordinary PCA and the solutions of criteria.

        Parameters
        ----------
        frontier : Frontier
        criteria : sequence of str or criterion objects, optional
            Criteria whose solutions are shown; by default all.
        unit : {"share", "squared"}
            Shares of each group's variance, or squared units of the features.

        Returns
        -------
        FrontierDisplay
            Errors within their rounding error bounds are zero.
        """
        check_unit(unit)
        if criteria is None:
            located = frontier.locate_all()
        else:
            located = tuple(map(frontier.locate, criteria))
        first, second = map(format_group, frontier.groups)
        pca = frontier.locate("total_error")
        solutions = {
            solution.name: frontier.round_to_zero(solution.errors)
            for solution in located
            if solution.name != pca.name
        }
        return cls(
            errors=frontier.round_to_zero(frontier.errors),
            groups=(first, second),
            achievable_region=frontier.round_to_zero(frontier.achievable_region()),
            pca_errors=frontier.round_to_zero(pca.errors),
            solutions=solutions,
            n_components=frontier.n_components,
            variances=frontier.variances,
            unit=unit,
        )

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        return 6.6, 5.0

    def to_columns(self) -> Mapping[str, Sequence[object]]:
        """Columns of the points in squared units, with their kind.

        `kind` is "frontier", "PCA" or the name of a criterion.
        """
        solutions = {"PCA": self.pca_errors, **self.solutions}
        points = np.vstack([self.errors, *solutions.values()])
        return {
            "kind": ["frontier"] * len(self.errors) + [*solutions],
            **{f"error of {group}": points[:, g].tolist() for g, group in enumerate(self.groups)},
        }

    @property
    def _shows_shares(self) -> bool:
        """Whether errors are shown as shares of the variances."""
        if self.unit == "squared" or self.variances is None:
            return False
        return bool((self.variances > 0).all())

    def in_unit(self, errors: FloatArray) -> FloatArray:
        """Return errors, (..., 2) in squared units, in the unit of the plot."""
        if self.variances is None or not self._shows_shares:
            return errors
        return np.asarray(errors / self.variances)

    def _format(self, value: float) -> str:
        """Format an error in the unit of the plot."""
        if not self._shows_shares:
            return format_ascii_number(value)
        return to_ascii(format_share(value))

    def distant_solutions(self) -> Mapping[str, FloatArray]:
        """Solutions that lie outside the axes."""
        low, high = self._limits()
        return {
            name: errors
            for name, errors in self.solutions.items()
            if (self.in_unit(errors) < low).any() or (self.in_unit(errors) > high).any()
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        low, high = self._limits()
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        handles, labels = self._draw_curve(axes)
        at_pca, *others = self._merge_overlapping()
        # Where room is short, the legend names PCA, whose marker is unlike all others.
        points = [*self._draw_solutions(axes, others), self._draw_pca(axes, at_pca)]
        is_labeled = label_points(
            axes,
            np.array([point.position for point in points]),
            [point.text for point in points],
            self.in_unit(self.errors),
            self._equal_errors_line(),
        )
        # The legend names the points next to which there is no room.
        for point, has_label in zip(points, is_labeled, strict=True):
            if not has_label:
                handles.append(point.handle)
                labels.append(point.text.replace("\n", " "))
        format_ticks(axes, is_share=self._shows_shares)
        first, second = shorten_names(self.groups, 0.5 * available_width(axes))
        unit = "share of its variance" if self._shows_shares else "squared units"
        axes.set(xlabel=f"error of {first}, {unit}", ylabel=f"error of {second}, {unit}")
        dimensions = format_count(self.n_components, "dimension")
        add_header(axes, f"Achievable errors of the two groups with {dimensions}", handles, labels)
        return (axes,)

    def _draw_solutions(self, axes: Axes, solutions: "Sequence[_Solutions]") -> "list[_NamedPoint]":
        """Draw the solutions of criteria, and an arrow to those outside the axes."""
        low, high = self._limits()
        distant = self.distant_solutions()
        points = []
        for names, errors in solutions:
            # Solutions at the same position share one marker, whose label has all their names.
            text = _join_names(names)
            position = errors
            marker = self._draw_marker(axes, names[0], errors)
            color = marker.get_color()
            if names[0] in distant:
                # The marker is not visible: point from inside the nearest edge to the edge itself.
                position, end = (
                    np.clip(errors, low + inset * (high - low), high - inset * (high - low))
                    for inset in _ARROW_INSETS
                )
                axes.annotate(
                    "",
                    (end[0], end[1]),
                    (position[0], position[1]),
                    arrowprops={"arrowstyle": "->", "color": color, "linewidth": 2.2},
                )
                outside = ", ".join(map(self._format, errors.tolist()))
                text += f"\noutside the axes:\n{outside}"
            points.append(_NamedPoint(marker, position, text))
        return points

    def _draw_marker(self, axes: Axes, name: str, position: FloatArray) -> "Line2D":
        """Draw the marker of a criterion, which it has in all figures."""
        style = model_styles(self.solutions)[name]
        (marker,) = axes.plot(
            *position,
            style.marker,
            color=style.color,
            markeredgecolor=FOREGROUND,
            markeredgewidth=0.8,
            markersize=_MARKER_SIZE,
            gid=f"answer-{[*self.solutions].index(name)}",
        )
        return marker

    def _draw_curve(self, axes: Axes) -> "tuple[list[Artist], list[str]]":
        """Draw the frontier, the line of equal errors and the achievable region.

        Returns the handles and labels of their legend entries.
        """
        (equal_errors,) = axes.plot(
            *self._equal_errors_line().T,
            color=FOREGROUND,
            alpha=NOTE_ALPHA,
            linewidth=1.2,
            linestyle=(0, (1, 2)),
        )
        (frontier_line,) = axes.plot(
            *self.in_unit(self.errors).T,
            color=FOREGROUND,
            linewidth=2.2,
            marker="." if len(self.errors) == 1 else "",  # a line through one point is invisible
            gid="frontier",
        )
        handles: list[Artist] = [frontier_line, equal_errors]
        labels = [
            "frontier",
            "equal errors in squared units" if self._shows_shares else "equal errors",
        ]
        if self.achievable_region is not None:
            handles += axes.fill(
                *self.in_unit(self.achievable_region).T,
                color=MUTED,
                alpha=0.16,
                linewidth=0,
                gid="region",
            )
            labels.append("achievable errors")
        return handles, labels

    def _equal_errors_line(self) -> FloatArray:
        """Return the ends of the line of equal errors in squared units, cut at the axes, (2, 2).

        It passes through the origin, but is no diagonal where axes are shares of the variances.
        """
        low, high = self._limits()
        size = self.in_unit(np.ones(2))
        return np.outer([(low / size).min(), (high / size).max()], size)

    def _draw_pca(self, axes: Axes, at_pca: "_Solutions") -> "_NamedPoint":
        """Draw the marker of PCA, and within it that of the solutions that coincide with it."""
        position = self.in_unit(self.pca_errors)
        # Hollow and large, so that it surrounds the marker of a coinciding solution.
        (marker,) = axes.plot(
            *position,
            PCA_STYLE.marker,
            markersize=_PCA_MARKER_SIZE,
            fillstyle="none",
            color=PCA_STYLE.color,
            markeredgewidth=2.2,
            zorder=4,
            gid="PCA",
        )
        handle = copy(marker)
        handle.set_markersize(_MARKER_SIZE)
        if at_pca.names:
            self._draw_marker(axes, at_pca.names[0], at_pca.position)
        return _NamedPoint(handle, position, _join_names(["PCA", *at_pca.names]))

    def _merge_overlapping(self) -> "list[_Solutions]":
        """Return the solutions, merging those whose markers would overlap.

        The first entry has those that coincide with PCA, if any. A solution joins the first entry
        whose errors are close to its own; the entry keeps its errors.
        """
        low, high = self._limits()
        max_distance = _MERGE_DISTANCE * (high - low)
        entries = [_Solutions([], self.in_unit(self.pca_errors))]
        for name, squared_errors in self.solutions.items():
            errors = self.in_unit(squared_errors)
            overlapping = [
                names
                for names, position in entries
                if (np.abs(errors - position) <= max_distance).all()
            ]
            if overlapping:
                overlapping[0].append(name)
            else:
                entries.append(_Solutions([name], errors))
        return entries

    def _limits(self) -> tuple[FloatArray, FloatArray]:
        """Axis limits that contain the frontier, PCA and the solutions that are not distant."""
        points = self.in_unit(np.vstack([self.errors, self.pca_errors]))
        points = np.vstack([points, *self._reachable_solutions(points)])
        low = points.min(axis=0)
        high = points.max(axis=0)
        extent = high - low
        # Ensure a positive extent for a degenerate frontier, also where all errors are zero.
        min_extent = _MIN_RELATIVE_EXTENT * max(*extent, *high)
        if min_extent == 0:
            min_extent = 1.0
        middle = (low + high) / 2
        half_range = (0.5 + _MARGIN) * np.maximum(extent, min_extent)
        return middle - half_range, middle + half_range

    def _reachable_solutions(self, points: FloatArray) -> list[FloatArray]:
        """Return the positions of the solutions that are near enough to be within the axes.

        The points are those of the frontier and PCA, (n, 2). A solution is near if it exceeds their
        bounding box by at most `_MAX_DISTANCE` of its width and height; a side that is very short
        counts as `_MARGIN` of the other.
        """
        low = points.min(axis=0)
        high = points.max(axis=0)
        extent = high - low
        max_distance = _MAX_DISTANCE * np.maximum(extent, extent.max() * _MARGIN)
        return [
            errors
            for errors in map(self.in_unit, self.solutions.values())
            if (errors >= low - max_distance).all() and (errors <= high + max_distance).all()
        ]
