"""The frontier of two groups' errors, and the path of disparity and total error."""

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
from fairspan.formatting.text import (
    format_ascii_number,
    format_count,
    format_tick,
    plot_label,
    readable_name,
)
from fairspan.metrics import group_errors
from fairspan.pareto import Frontier, frontier_for_display
from fairspan.problem.problem import signed_disparity
from fairspan.progress import track
from fairspan.typing import FloatArray

# Room around what is shown, as a share of its extent.
_MARGIN = 0.12
# An answer is shown where it is if it lies beyond the frontier's ends by this share of its extent.
_MAX_DISTANCE = 0.5
# Answers this near, as a share of the extent, share a mark.
_MERGE_DISTANCE = 0.02
_MARKER_SIZE, _PCA_MARKER_SIZE = 9.0, 15.0
# Inches that the legend takes for each answer, where it has one column.
_LEGEND_ROW_HEIGHT = 0.16
# Where the arrow to an answer outside the picture begins and ends, as shares of the axes.
_ARROW_INSETS = (0.06, 0.005)


@dataclass(eq=False, repr=False)
class FrontierDisplay(BaseDisplay):
    """Plot the Pareto frontier of two groups' errors, with PCA and every criterion.

    Make it with :meth:`from_estimator`, or with :meth:`fairspan.Frontier.plot`.

    Attributes
    ----------
    errors : (m, 2) array
        The frontier from the optimum of the first group to that of the second.
    groups : tuple of 2 str
    region : (r, 2) array or None
        Corners of all pairs of errors that some subspace has.
    plain : (2,) array
        The errors of ordinary PCA.
    answers : mapping of name to (2,) array
        What criteria choose. An answer far from the frontier is an arrow at the edge.
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
        """Draw the frontier of the rows that an estimator was fitted on.

        Parameters
        ----------
        estimator : FairPCA
            Fitted, on two groups.
        criteria : sequence of str or criterion objects, optional
            Criteria whose answers are shown; all by default.
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

        Returns
        -------
        FrontierDisplay

        Raises
        ------
        Incompatible
            Not exactly two groups.
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
        >>> display.answers["minimax_loss"].round(2)
        array([2.77, 2.77])
        """
        return cls._compute_and_plot(ax, estimator, criteria)

    @classmethod
    def compute(cls, estimator: Any, criteria: Sequence[Any] | None = None) -> Self:
        """What `from_estimator` draws, of the same parameters."""
        moments = fitted_moments(estimator, cls.__name__)
        subspace = estimator.subspace_
        d, is_scaled = subspace.dimension, subspace.scale is not None
        return cls.from_frontier(
            frontier_for_display(moments, d, subspace.center, scale=is_scaled), criteria
        )

    @classmethod
    def from_frontier(cls, frontier: Frontier, criteria: Sequence[Any] | None = None) -> Self:
        """What a frontier's `plot` draws: it, ordinary PCA and answers of criteria."""
        solutions = (
            frontier.locate_all() if criteria is None else tuple(map(frontier.locate, criteria))
        )
        first, second = map(format_group, frontier.groups)
        plain = frontier.locate("total_error")
        return cls(
            errors=frontier.round_to_zero(frontier.errors),
            groups=(first, second),
            achievable_region=frontier.round_to_zero(frontier.achievable_region()),
            pca_errors=frontier.round_to_zero(plain.errors),
            solutions={
                each.name: frontier.round_to_zero(each.errors)
                for each in solutions
                if each.name != plain.name
            },
            n_components=frontier.n_components,
        )

    def figure_size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6.6, 4.8 + _LEGEND_ROW_HEIGHT * len(self.solutions)

    def to_columns(self) -> Mapping[str, Sequence[Any]]:
        """What is drawn: `what` is "frontier", "PCA" or an answer's name."""
        named = [("PCA", self.pca_errors), *self.solutions.items()]
        points = np.vstack([self.errors, *(each for _, each in named)])
        return {
            "what": ["frontier"] * len(self.errors) + [name for name, _ in named],
            **{f"error of {group}": points[:, g].tolist() for g, group in enumerate(self.groups)},
        }

    def distant_solutions(self) -> Mapping[str, FloatArray]:
        """The answers too far away to be shown where they are."""
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
        for i, (names, errors) in enumerate(self._merge_overlapping()):
            style, label = (
                series_style(i),
                ", ".join(plot_label(readable_name(name)) for name in names),
            )
            (mark,) = axes.plot(
                *errors,
                style.marker,
                color=style.color,
                markeredgecolor=FOREGROUND,
                markeredgewidth=0.8,
                markersize=_MARKER_SIZE,
                gid=f"answer-{i}",
            )
            if names[0] in self.distant_solutions():
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
                label += f" ({format_ascii_number(errors[0])}, {format_ascii_number(errors[1])}), outside"
            handles.append(mark)
            labels.append(label)
        format_ticks(axes)
        smallest, second = shorten_names(self.groups, 0.5 * available_width(axes))
        axes.set(xlabel=f"error of {smallest}", ylabel=f"error of {second}")
        dimensions = format_count(self.n_components, "dimension")
        add_header(axes, f"Achievable errors of the two groups with {dimensions}", handles, labels)
        return (axes,)

    def _draw_curve(self, axes: Axes) -> tuple[list[Any], list[str]]:
        """What every answer is compared with."""
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
        # Around the mark of an answer that is the same.
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
        """The answers, under all names those that could not be told apart."""
        low, high = self._limits()
        merged: list[tuple[list[str], FloatArray]] = []
        for name, errors in self.solutions.items():
            near = _MERGE_DISTANCE * (high - low)
            overlapping = [names for names, each in merged if (np.abs(errors - each) <= near).all()]
            if overlapping:
                overlapping[0].append(name)
            else:
                merged.append(([name], errors))
        return merged

    def _limits(self) -> tuple[FloatArray, FloatArray]:
        points = np.vstack([self.errors, self.pca_errors])
        low, high = points.min(axis=0), points.max(axis=0)
        reach = _MAX_DISTANCE * np.maximum(high - low, (high - low).max() * _MARGIN)
        near = [
            each
            for each in self.solutions.values()
            if (each >= low - reach).all() and (each <= high + reach).all()
        ]
        points = np.vstack([points, *near])
        low, high = points.min(axis=0), points.max(axis=0)
        extent = high - low
        # A frontier of one point, or along one axis, still needs room.
        extent = np.maximum(extent, 1e-3 * max(*extent, *high) or 1.0)
        middle = (low + high) / 2
        half = (0.5 + _MARGIN) * extent
        return middle - half, middle + half


# Decades below and above the default of 0.5 that penalties are tried at, and steps.
_PENALTY_DECADES, _N_PENALTIES = (-2.0, 1.0), 19
# Parameters that are shares; all others may be any number from zero on.
_SHARE_PARAMETERS = ("criterion__trade_off",)


@dataclass(eq=False, repr=False)
class DisparityPathDisplay(BaseDisplay):
    """Plot disparity and total error against a trade-off or penalty of the criterion.

    Make it with :meth:`from_estimator`.

    Attributes
    ----------
    values : (m,) array
        Of the parameter, rising.
    disparity, total_error : (m,) arrays
        At each value; NaN where no subspace answers the criterion.
    pca_disparity, pca_total_error : float
        Of ordinary PCA.
    groups : tuple of k str
        Of two, the disparity is the error of the second minus that of the first; of more, the
        largest gap.
    name : str
        The criterion's.
    parameter : str
    current : float or None
        The value that was chosen.
    logarithmic : bool
        Whether the parameter is shown on a logarithmic scale, with zero at its beginning.
    statuses : sequence of m str, or None
        How each fit ended, "no answer" where there is none.
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
        """Fit the estimator's criterion at every value of a parameter, and draw the path.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        parameter : str
            A number among the estimator's parameters, such as "criterion__penalty" of `ErrorGap`,
            "criterion__radius" of `RobustErrorGap` or "criterion__trade_off" of `Disparity`.
        values : sequence of float, optional
            By default from 0 to 1 for a trade-off; else zero and 0.01 to 10, evenly on a
            logarithmic scale. The estimator's own value is always among them.
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

        Returns
        -------
        DisparityPathDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidParameter
            The estimator has no such parameter, a value is out of its range, or settings of the
            estimator were changed after it was fitted.

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
        """What `from_estimator` draws, of the same parameters."""
        moments = fitted_moments(estimator, cls.__name__)
        current = _selected_value(estimator, parameter, cls.__name__)
        is_share = parameter in _SHARE_PARAMETERS
        shown = _parameter_values(values, current, is_share=is_share)
        fits = [
            refit(estimator, **{parameter: value})
            for value in track("fitting", shown.tolist(), "values")
        ]
        path = np.array([_disparity_and_total_error(fit) for fit in fits])
        plain = group_errors(fitted_pca(estimator), moments)
        gaps = np.append(path[:, 0], signed_disparity(plain.errors))
        gaps = zero_negligible(gaps, float(plain.roundings.max()))
        return cls(
            values=shown,
            disparity=gaps[:-1],
            total_error=path[:, 1],
            pca_disparity=float(gaps[-1]),
            pca_total_error=float(moments.proportions @ plain.errors),
            groups=tuple(map(format_group, moments.labels)),
            name=objective_name(estimator),
            parameter=parameter.rsplit("__", 1)[-1],
            selected_value=current,
            log_scale=not is_share and values is None,
            statuses=tuple(map(fit_status, fits)),
        )

    def figure_size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6.4, 5.4

    def to_columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each value of the parameter."""
        return {
            self.parameter: self.values.tolist(),
            "disparity": self.disparity.tolist(),
            "total_error": self.total_error.tolist(),
            "status": list(self.statuses or ()) or [None] * len(self.values),
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        upper, lower = add_panels(axes, 2, (2, 1), share_y=False)
        for panel, path, plain in (
            (upper, self.disparity, self.pca_disparity),
            (lower, self.total_error, self.pca_total_error),
        ):
            pca = panel.axhline(plain, color=PCA_STYLE.color, linestyle=PCA_STYLE.line)
            (line,) = panel.plot(
                self.values,
                path,
                FAIR_STYLE.marker,
                linestyle="-",
                color=FAIR_STYLE.color,
                markersize=4.5,
            )
        handles: list[Any] = [pca, line]
        labels = ["PCA", plot_label(readable_name(self.name))]
        if self.selected_value is not None:
            for panel in (upper, lower):
                mark = panel.axvline(self.selected_value, color=MUTED, linewidth=1)
            handles.append(mark)
            labels.append(f"chosen: {format_tick(self.selected_value)}")
        upper.axhline(0, color=FOREGROUND, linewidth=0.8, zorder=1)
        if self.log_scale and (positive := self.values[self.values > 0]).any():
            smallest_positive, smallest = float(positive.min()), float(self.values.min())
            lower.set_xscale("symlog", linthresh=smallest_positive, linscale=0.5)
            lower.xaxis.set_major_formatter(lambda value, _: format_tick(value))
            lower.set_xlim(
                smallest if smallest > 0 else -0.1 * smallest_positive, positive.max() * 1.1
            )
        for panel in (upper, lower):
            format_ticks(panel, "y" if self.log_scale else "xy", width=available_width(axes))
        name = plot_label(readable_name(self.parameter))
        upper.set_ylabel("disparity")
        lower.set(xlabel=name, ylabel="total error")
        title = f"Disparity and total error against the {name}"
        add_header(axes, title, handles, labels, note=self._note(axes))
        return upper, lower

    def _note(self, axes: Axes) -> str:
        what = "the largest difference of two groups' errors"
        if len(self.groups) == 2:
            first, second = shorten_names(self.groups, 0.45 * available_width(axes))
            what = f"the error of {second} minus that of {first}"
        return f"The disparity is {what}. {describe_unproven(self.statuses or ())}".strip()


def _selected_value(estimator: Any, parameter: str, purpose: str) -> float | None:
    """The estimator's own value; None if it is no number."""
    parameters = estimator.get_params()
    if parameter not in parameters:
        numeric = [name for name, value in parameters.items() if _is_number(value)]
        raise InvalidParameter(
            f"{purpose} received parameter={parameter!r}, which the estimator does not have",
            f"Allowed: its numeric parameters, {', '.join(sorted(numeric))}",
            "Choose one of these, or fit with a criterion that has this one, such as ErrorGap",
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
        values = np.linspace(0, 1, 21)
    else:
        values = np.concatenate([[0.0], np.logspace(*_PENALTY_DECADES, _N_PENALTIES)])
    return np.unique(values if selected is None else [*values, selected])


def _disparity_and_total_error(fit: Any) -> tuple[float, float]:
    if fit is None:
        return np.nan, np.nan
    return fit.disparity_, float(fit.moments_.proportions @ fit.group_errors_)
