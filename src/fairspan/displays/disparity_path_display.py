"""Display of disparity and total error against a parameter of the criterion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from fairspan.auditing.group_names import format_group
from fairspan.displays.base_display import BaseDisplay, describe_unproven
from fairspan.displays.records import (
    fit_status,
    fitted_moments,
    fitted_pca,
    objective_name,
    refit,
)
from fairspan.displays.style import (
    FAIR_STYLE,
    FOREGROUND,
    MUTED,
    PCA_STYLE,
    Axes,
    add_header,
    add_panels,
    available_width,
    format_ticks,
    shorten_names,
)
from fairspan.errors import InvalidParameter
from fairspan.formatting.names import plot_label, readable_name
from fairspan.formatting.numbers import format_tick
from fairspan.linalg.rounding import zero_negligible
from fairspan.metrics import group_errors
from fairspan.parameters import is_number
from fairspan.problem.disparity import signed_disparity
from fairspan.progress import track
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

    from fairspan.estimator.fair_pca import FairPCA

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
        estimator: "FairPCA",
        parameter: str = "criterion__penalty",
        values: Sequence[float] | None = None,
        *,
        ax: "Axes | None" = None,
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
        estimator: "FairPCA",
        parameter: str = "criterion__penalty",
        values: Sequence[float] | None = None,
    ) -> Self:
        """Refit the estimator for each value, and compute the disparity and the total error.

        Parameters and exceptions as for `from_estimator`. A disparity within the rounding error
        bound of PCA's errors is zero.
        """
        moments = fitted_moments(estimator, cls.__name__)
        selected = _selected_value(estimator, parameter, cls.__name__)
        # Values of a share are in [0, 1]; those of other parameters are nonnegative.
        is_share = parameter in _SHARE_PARAMETERS
        plotted_values = _parameter_values(values, selected, is_share=is_share)
        fits = [
            refit(estimator, **{parameter: value})
            for value in track("fitting", plotted_values.tolist(), "values")
        ]
        # One row per value; NaN where the problem is infeasible.
        path = np.array([_disparity_and_total_error(fit) for fit in fits])
        pca = group_errors(fitted_pca(estimator), moments)
        rounding_bound = float(pca.roundings.max())
        return cls(
            values=plotted_values,
            disparity=zero_negligible(path[:, 0], rounding_bound),
            total_error=path[:, 1],
            pca_disparity=float(zero_negligible(signed_disparity(pca.errors), rounding_bound)),
            pca_total_error=float(moments.proportions @ pca.errors),
            groups=tuple(map(format_group, moments.labels)),
            name=objective_name(estimator),
            parameter=parameter.rsplit("__", 1)[-1],  # without "criterion__"
            selected_value=selected,
            # Only the default penalties are spaced logarithmically.
            log_scale=not is_share and values is None,
            statuses=tuple(map(fit_status, fits)),
        )

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        return 6.4, 5.4

    def to_columns(self) -> Mapping[str, Sequence[object]]:
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
        upper, lower = add_panels(axes, n=2, shape=(2, 1), share_y=False)
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

    def _draw_panel(self, panel: Axes, path: FloatArray, pca_value: float) -> "dict[str, Line2D]":
        """Draw a quantity at each value of the parameter, with a line at its value under PCA.

        Returns the legend entries: handles by label.
        """
        pca_line = panel.axhline(pca_value, color=PCA_STYLE.color, linestyle=PCA_STYLE.line)
        (path_line,) = panel.plot(
            self.values,
            path,
            FAIR_STYLE.marker,
            linestyle="-",
            color=FAIR_STYLE.color,
            markersize=4.5,
        )
        handles = {"PCA": pca_line, plot_label(readable_name(self.name)): path_line}
        if self.selected_value is not None:
            selected_line = panel.axvline(self.selected_value, color=MUTED, linewidth=1)
            handles[f"selected: {format_tick(self.selected_value)}"] = selected_line
        return handles

    def _set_log_scale(self, panel: Axes) -> None:
        """Set a logarithmic scale that is linear below the smallest positive value.

        The panels share it. Without a positive value, the scale remains linear.
        """
        positive = self.values[self.values > 0]
        if not len(positive):
            return
        smallest = float(self.values.min())
        smallest_positive = float(positive.min())
        panel.set_xscale("symlog", linthresh=smallest_positive, linscale=0.5)
        panel.xaxis.set_major_formatter(lambda value, _: format_tick(value))
        # Leave some room to the left of a value of zero.
        start = smallest if smallest > 0 else -0.1 * smallest_positive
        panel.set_xlim(start, positive.max() * 1.1)

    def _note(self, axes: Axes) -> str:
        definition = "the largest difference between two groups' errors"
        if len(self.groups) == 2:
            first, second = shorten_names(self.groups, 0.45 * available_width(axes))
            definition = f"the error of {second} minus that of {first}"
        unproven = describe_unproven(() if self.statuses is None else self.statuses)
        return f"The disparity is {definition}. {unproven}".strip()


def _selected_value(estimator: "FairPCA", parameter: str, purpose: str) -> float | None:
    """Return the estimator's value of a parameter, which the plot marks as selected.

    None if the value is not a number, such as a radius by group: there is then no mark. `purpose`
    names the caller in errors.

    Raises
    ------
    InvalidParameter
        The estimator has no such parameter.
    """
    parameters = estimator.get_params()
    if parameter not in parameters:
        numeric = [name for name, value in parameters.items() if is_number(value)]
        raise InvalidParameter(
            f"{purpose} received parameter={parameter!r}, which the estimator does not have",
            f"Allowed: its numeric parameters, {', '.join(sorted(numeric))}",
            "Choose one of these, or fit with a criterion that has the parameter, such as ErrorGap",
        )
    value = parameters[parameter]
    if not is_number(value):
        return None
    return float(value)


def _parameter_values(
    requested: Sequence[float] | None, selected: float | None, *, is_share: bool
) -> FloatArray:
    """Return the increasing, distinct values of the parameter to fit.

    Parameters
    ----------
    requested : sequence of float or None
        Values of the caller; None for the default ones.
    selected : float or None
        The estimator's value, which is included.
    is_share : bool
        Whether the parameter is in [0, 1]; otherwise it is a penalty.
    """
    if requested is not None:
        values = np.asarray(requested, dtype=np.float64)
    elif is_share:
        values = np.linspace(0, 1, _N_SHARES)
    else:
        values = np.concatenate([[0.0], np.logspace(*_PENALTY_DECADES, _N_PENALTIES)])
    if selected is not None:
        values = np.append(values, selected)
    return np.unique(values)


def _disparity_and_total_error(fit: "FairPCA | None") -> tuple[float, float]:
    """Return the disparity and total error of a fit; NaN if the problem is infeasible (None)."""
    if fit is None:
        return np.nan, np.nan
    return fit.disparity_, float(fit.moments_.proportions @ fit.group_errors_)
