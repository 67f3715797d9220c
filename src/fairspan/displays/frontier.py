"""Displays of the Pareto frontier of two groups, and of disparity and total error on a path."""

import numbers
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairspan.auditing.results import format_group
from fairspan.displays.base import BaseDisplay, describe_unproven
from fairspan.displays.records import (
    fit_status,
    fitted_moments,
    fitted_pca,
    objective_name,
    refit,
    zero_negligible,
)
from fairspan.displays.style import (
    FAIR_STYLE,
    FOREGROUND,
    MUTED,
    NOTE_ALPHA,
    PCA_STYLE,
    Axes,
    add_header,
    add_panels,
    available_width,
    format_ticks,
    series_style,
    shorten_names,
)
from fairspan.errors import InvalidParameter
from fairspan.formatting.names import plot_label, readable_name
from fairspan.formatting.numbers import format_ascii_number, format_count, format_tick
from fairspan.metrics import group_errors
from fairspan.pareto import Frontier, frontier_for_display
from fairspan.problem.problem import signed_disparity
from fairspan.progress import track
from fairspan.typing import FloatArray

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
# Height of a legend row in inches.
_LEGEND_ROW_HEIGHT = 0.16
# Start and end of the arrow to a solution outside the axes, as shares of the axes.
_ARROW_INSETS = (0.06, 0.005)


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
    """

    errors: FloatArray
    groups: tuple[str, str]
    achievable_region: FloatArray | None
    pca_errors: FloatArray
    solutions: Mapping[str, FloatArray]
    n_components: int

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, criteria: Sequence[Any] | None = None, ax: Any = None
    ) -> Self:
        """Plot the frontier for the training rows of an estimator.

        Parameters
        ----------
        estimator : FairPCA
            Estimator fitted to two groups.
        criteria : sequence of str or criterion objects, optional
            Criteria whose solutions are shown; by default all.
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        FrontierDisplay

        Raises
        ------
        Incompatible
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
        return cls._compute_and_plot(ax, estimator, criteria)

    @classmethod
    def compute(cls, estimator: Any, criteria: Sequence[Any] | None = None) -> Self:
        """Compute the display; parameters as for `from_estimator`."""
        moments = fitted_moments(estimator, cls.__name__)
        subspace = estimator.subspace_
        is_scaled = subspace.scale is not None
        frontier = frontier_for_display(
            moments, subspace.dimension, subspace.center, scale=is_scaled
        )
        return cls.from_frontier(frontier, criteria)

    @classmethod
    def from_frontier(cls, frontier: Frontier, criteria: Sequence[Any] | None = None) -> Self:
        """Compute the display of a frontier, with ordinary PCA and the solutions of criteria."""
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
        )

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        return 6.6, 4.8 + _LEGEND_ROW_HEIGHT * len(self.solutions)

    def to_columns(self) -> Mapping[str, Sequence[Any]]:
        """Columns of the plotted points; `kind` is "frontier", "PCA" or the name of a criterion."""
        solutions = {"PCA": self.pca_errors, **self.solutions}
        points = np.vstack([self.errors, *solutions.values()])
        return {
            "kind": ["frontier"] * len(self.errors) + [*solutions],
            **{f"error of {group}": points[:, g].tolist() for g, group in enumerate(self.groups)},
        }

    def distant_solutions(self) -> Mapping[str, FloatArray]:
        """Solutions that lie outside the axes."""
        low, high = self._limits()
        return {
            name: errors
            for name, errors in self.solutions.items()
            if (errors < low).any() or (errors > high).any()
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        low, high = self._limits()
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        handles, labels = self._draw_curve(axes)
        distant = self.distant_solutions()
        for i, (names, errors) in enumerate(self._merge_overlapping()):
            style = series_style(i)
            label = ", ".join(plot_label(readable_name(name)) for name in names)
            (marker,) = axes.plot(
                *errors,
                style.marker,
                color=style.color,
                markeredgecolor=FOREGROUND,
                markeredgewidth=0.8,
                markersize=_MARKER_SIZE,
                gid=f"answer-{i}",
            )
            if names[0] in distant:
                start, end = (
                    np.clip(errors, low + inset * (high - low), high - inset * (high - low))
                    for inset in _ARROW_INSETS
                )
                axes.annotate(
                    "",
                    (end[0], end[1]),
                    (start[0], start[1]),
                    arrowprops={"arrowstyle": "->", "color": style.color, "linewidth": 2.2},
                )
                position = ", ".join(map(format_ascii_number, errors.tolist()))
                label += f" ({position}), outside the axes"
            handles.append(marker)
            labels.append(label)
        format_ticks(axes)
        first, second = shorten_names(self.groups, 0.5 * available_width(axes))
        axes.set(xlabel=f"error of {first}", ylabel=f"error of {second}")
        dimensions = format_count(self.n_components, "dimension")
        add_header(axes, f"Achievable errors of the two groups with {dimensions}", handles, labels)
        return (axes,)

    def _draw_curve(self, axes: Axes) -> tuple[list[Any], list[str]]:
        """Draw the frontier, the diagonal of equal errors, PCA and the achievable region."""
        limits = np.array([axes.get_xlim(), axes.get_ylim()])
        ends = [limits[:, 0].min(), limits[:, 1].max()]
        (diagonal,) = axes.plot(
            ends, ends, color=FOREGROUND, alpha=NOTE_ALPHA, linewidth=1.2, linestyle=(0, (1, 2))
        )
        (frontier_line,) = axes.plot(
            *self.errors.T,
            color=FOREGROUND,
            linewidth=2.2,
            marker="." if len(self.errors) == 1 else "",
            gid="frontier",
        )
        # Hollow and large, so that it surrounds the marker of a coinciding solution.
        (pca_marker,) = axes.plot(
            *self.pca_errors,
            PCA_STYLE.marker,
            markersize=_PCA_MARKER_SIZE,
            fillstyle="none",
            color=PCA_STYLE.color,
            markeredgewidth=2.2,
            zorder=4,
            gid="PCA",
        )
        legend_marker = copy(pca_marker)
        legend_marker.set_markersize(_MARKER_SIZE)
        handles: list[Any] = [frontier_line, diagonal, legend_marker]
        labels = ["frontier", "equal errors", "PCA"]
        if self.achievable_region is not None:
            handles += axes.fill(
                *self.achievable_region.T, color=MUTED, alpha=0.16, linewidth=0, gid="region"
            )
            labels.append("achievable errors")
        return handles, labels

    def _merge_overlapping(self) -> list[tuple[list[str], FloatArray]]:
        """Solutions grouped by position: overlapping ones share an entry with all their names."""
        low, high = self._limits()
        max_distance = _MERGE_DISTANCE * (high - low)
        merged: list[tuple[list[str], FloatArray]] = []
        for name, errors in self.solutions.items():
            overlapping = [
                names
                for names, position in merged
                if (np.abs(errors - position) <= max_distance).all()
            ]
            if overlapping:
                overlapping[0].append(name)
            else:
                merged.append(([name], errors))
        return merged

    def _limits(self) -> tuple[FloatArray, FloatArray]:
        """Axis limits that contain the frontier, PCA and the solutions that are not distant."""
        points = np.vstack([self.errors, self.pca_errors])
        points = np.vstack([points, *self._reachable_solutions(points)])
        low = points.min(axis=0)
        high = points.max(axis=0)
        extent = high - low
        # Ensure a positive extent for a degenerate frontier.
        min_extent = _MIN_RELATIVE_EXTENT * max(*extent, *high)
        if min_extent == 0:
            min_extent = 1.0
        middle = (low + high) / 2
        half_range = (0.5 + _MARGIN) * np.maximum(extent, min_extent)
        return middle - half_range, middle + half_range

    def _reachable_solutions(self, points: FloatArray) -> list[FloatArray]:
        """Return the solutions that are near enough to the points to be within the axes."""
        low = points.min(axis=0)
        high = points.max(axis=0)
        extent = high - low
        max_distance = _MAX_DISTANCE * np.maximum(extent, extent.max() * _MARGIN)
        return [
            errors
            for errors in self.solutions.values()
            if (errors >= low - max_distance).all() and (errors <= high + max_distance).all()
        ]


# Range of penalties in decades (10^-2 to 10^1), around the default of 0.5, and number of values.
_PENALTY_DECADES = (-2.0, 1.0)
_N_PENALTIES = 19
# Parameters in [0, 1], and number of values; all others are nonnegative.
_SHARE_PARAMETERS = ("criterion__trade_off",)
_N_SHARES = 21


@dataclass(eq=False, repr=False)
class DisparityPathDisplay(BaseDisplay):
    """Plot disparity and total error against a parameter of the criterion, such as a penalty.

    Create it with :meth:`from_estimator`.

    Attributes
    ----------
    values : (m,) array
        Increasing values of the parameter.
    disparity, total_error : (m,) arrays
        Values at each parameter; NaN if the problem is infeasible.
    pca_disparity, pca_total_error : float
        Values of ordinary PCA.
    groups : tuple of k str
        Names of the groups. With two, the disparity is the error of the second minus that of the
        first; with more, the largest difference.
    name : str
        Name of the criterion.
    parameter : str
    selected_value : float or None
        The estimator's value.
    log_scale : bool
        Whether the parameter axis is logarithmic (linear near zero).
    statuses : sequence of m str, or None
        Status of each fit, "infeasible" if there is none.
    """

    values: FloatArray
    disparity: FloatArray
    total_error: FloatArray
    pca_disparity: float
    pca_total_error: float
    groups: tuple[str, ...]
    name: str = "fair"
    parameter: str = "penalty"
    selected_value: float | None = None
    log_scale: bool = True
    statuses: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        parameter: str = "criterion__penalty",
        values: Sequence[float] | None = None,
        *,
        ax: Any = None,
    ) -> Self:
        """Refit the estimator for each value of a parameter, and plot the path.

        Parameters
        ----------
        estimator : FairPCA
            Fitted estimator.
        parameter : str
            Name of a numeric parameter of the estimator, such as "criterion__penalty" of
            `ErrorGap`, "criterion__radius" of `RobustErrorGap` or "criterion__trade_off" of
            `Disparity`.
        values : sequence of float, optional
            Values of the parameter; by default 0 to 1 for a trade-off, otherwise zero and 0.01 to
            10 on a logarithmic scale. The estimator's value is always included.
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        DisparityPathDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidParameter
            The estimator has no such parameter, a value is out of range, or settings were changed
            after the fit.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import ErrorGap, FairPCA
        >>> from fairspan.displays import DisparityPathDisplay
        >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0]])
        >>> fair = FairPCA(1, criterion=ErrorGap(0.5)).fit(
        ...     X, sensitive_features=["a", "a", "b", "b"]
        ... )
        >>> display = DisparityPathDisplay.from_estimator(fair, values=[0, 0.5])
        >>> display.values, display.disparity.round(2)
        (array([0. , 0.5]), array([4., 0.]))
        """
        return cls._compute_and_plot(ax, estimator, parameter, values)

    @classmethod
    def compute(
        cls,
        estimator: Any,
        parameter: str = "criterion__penalty",
        values: Sequence[float] | None = None,
    ) -> Self:
        """Compute the display; parameters as for `from_estimator`."""
        moments = fitted_moments(estimator, cls.__name__)
        selected = _selected_value(estimator, parameter, cls.__name__)
        is_share = parameter in _SHARE_PARAMETERS
        shown = _parameter_values(values, selected, is_share=is_share)
        fits = [
            refit(estimator, **{parameter: value})
            for value in track("fitting", shown.tolist(), "values")
        ]
        path = np.array([_disparity_and_total_error(fit) for fit in fits])
        pca = group_errors(fitted_pca(estimator), moments)
        rounding_bound = float(pca.roundings.max())
        return cls(
            values=shown,
            disparity=zero_negligible(path[:, 0], rounding_bound),
            total_error=path[:, 1],
            pca_disparity=float(zero_negligible(signed_disparity(pca.errors), rounding_bound)),
            pca_total_error=float(moments.proportions @ pca.errors),
            groups=tuple(map(format_group, moments.labels)),
            name=objective_name(estimator),
            parameter=parameter.rsplit("__", 1)[-1],
            selected_value=selected,
            log_scale=not is_share and values is None,
            statuses=tuple(map(fit_status, fits)),
        )

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        return 6.4, 5.4

    def to_columns(self) -> Mapping[str, Sequence[Any]]:
        """Columns with one row per value of the parameter."""
        statuses: list[str | None] = [None] * len(self.values)
        if self.statuses:
            statuses = list(self.statuses)
        return {
            self.parameter: self.values.tolist(),
            "disparity": self.disparity.tolist(),
            "total_error": self.total_error.tolist(),
            "status": statuses,
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        upper, lower = add_panels(axes, 2, (2, 1), share_y=False)
        self._draw_panel(upper, self.disparity, self.pca_disparity)
        handles = self._draw_panel(lower, self.total_error, self.pca_total_error)
        upper.axhline(0, color=FOREGROUND, linewidth=0.8, zorder=1)
        if self.log_scale:
            self._set_log_scale(lower)
        for panel in (upper, lower):
            format_ticks(panel, "y" if self.log_scale else "xy", width=available_width(axes))
        name = plot_label(readable_name(self.parameter))
        upper.set_ylabel("disparity")
        lower.set(xlabel=name, ylabel="total error")
        title = f"Disparity and total error against the {name}"
        add_header(axes, title, [*handles.values()], [*handles], note=self._note(axes))
        return upper, lower

    def _draw_panel(self, panel: Axes, path: FloatArray, pca_value: float) -> dict[str, Any]:
        """Draw one quantity along the path, and return the legend entries."""
        pca_line = panel.axhline(pca_value, color=PCA_STYLE.color, linestyle=PCA_STYLE.line)
        (path_line,) = panel.plot(
            self.values,
            path,
            FAIR_STYLE.marker,
            linestyle="-",
            color=FAIR_STYLE.color,
            markersize=4.5,
        )
        handles: dict[str, Any] = {"PCA": pca_line, plot_label(readable_name(self.name)): path_line}
        if self.selected_value is not None:
            selected_line = panel.axvline(self.selected_value, color=MUTED, linewidth=1)
            handles[f"selected: {format_tick(self.selected_value)}"] = selected_line
        return handles

    def _set_log_scale(self, panel: Axes) -> None:
        """Set a logarithmic scale that is linear near zero; panels share it."""
        positive = self.values[self.values > 0]
        if not len(positive):
            return
        smallest = float(self.values.min())
        smallest_positive = float(positive.min())
        panel.set_xscale("symlog", linthresh=smallest_positive, linscale=0.5)
        panel.xaxis.set_major_formatter(lambda value, _: format_tick(value))
        start = smallest if smallest > 0 else -0.1 * smallest_positive
        panel.set_xlim(start, positive.max() * 1.1)

    def _note(self, axes: Axes) -> str:
        definition = "the largest difference between two groups' errors"
        if len(self.groups) == 2:
            first, second = shorten_names(self.groups, 0.45 * available_width(axes))
            definition = f"the error of {second} minus that of {first}"
        unproven = describe_unproven(() if self.statuses is None else self.statuses)
        return f"The disparity is {definition}. {unproven}".strip()


def _selected_value(estimator: Any, parameter: str, purpose: str) -> float | None:
    """Return the current value of the parameter; None if it is not numeric."""
    parameters = estimator.get_params()
    if parameter not in parameters:
        numeric = [name for name, value in parameters.items() if _is_number(value)]
        raise InvalidParameter(
            f"{purpose} received parameter={parameter!r}, which the estimator does not have",
            f"Allowed: its numeric parameters, {', '.join(sorted(numeric))}",
            "Choose one of these, or fit with a criterion that has the parameter, such as ErrorGap",
        )
    value = parameters[parameter]
    return float(value) if _is_number(value) else None


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _parameter_values(
    requested: Sequence[float] | None, selected: float | None, *, is_share: bool
) -> FloatArray:
    if requested is not None:
        values = np.asarray(requested, dtype=np.float64)
    elif is_share:
        values = np.linspace(0, 1, _N_SHARES)
    else:
        values = np.concatenate([[0.0], np.logspace(*_PENALTY_DECADES, _N_PENALTIES)])
    if selected is not None:
        values = np.append(values, selected)
    return np.unique(values)


def _disparity_and_total_error(fit: Any) -> tuple[float, float]:
    if fit is None:
        return np.nan, np.nan
    return fit.disparity_, float(fit.moments_.proportions @ fit.group_errors_)
