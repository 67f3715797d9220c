"""Display of the loss or error of each group against the number of dimensions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fairspan.auditing.estimation_options import DEFAULT_OPTIONS
from fairspan.displays.audit_display import LOSSES, MIN_REACH, UNIT_LABELS
from fairspan.displays.base_display import BaseDisplay, describe_unproven
from fairspan.displays.loss_rows import INCONCLUSIVE, axis_limits
from fairspan.displays.records import (
    BEST_NAME,
    PCA_NAME,
    Quantity,
    Record,
    best_records,
    distinct_names,
    expected_records,
    fitted_moments,
    materiality_by_group,
    observed_records,
    open_display_rows,
    plotted_values,
    refit,
    to_columns,
    values_of,
)
from fairspan.displays.style import (
    BAND_ALPHA,
    BEST_STYLE,
    FOREGROUND,
    MUTED,
    PCA_STYLE,
    Axes,
    SeriesStyle,
    add_header,
    available_width,
    format_ticks,
    grid_shape,
    materiality_label,
    model_styles,
    named_panels,
    panel_figure_size,
)
from fairspan.errors import InvalidParameter
from fairspan.formatting.names import plot_label, readable_name
from fairspan.formatting.numbers import format_count, format_level, format_tick
from fairspan.formatting.units import Unit, check_unit
from fairspan.parameters import check_bool, check_choice
from fairspan.problem.part_parameters import check_n_components
from fairspan.progress import overall_progress, track
from fairspan.typing import BoolArray, FloatArray, IntegerArray

if TYPE_CHECKING:
    from matplotlib.artist import Artist

    from fairspan.estimator.fair_pca import FairPCA

_OBSERVED_LINE: dict[str, Any] = {"linestyle": ":", "linewidth": 1.4}
# Above this number of dimensions, markers are smaller.
_MAX_LARGE_MARKERS = 12
# Extra axis range for inconclusive estimates, as a share of the range of the conclusive ones: less
# than in an audit's display, since all panels share the axis.
_MAX_UNCERTAIN_SHARE = 0.3
# Number of dimensions shown by default.
_MAX_DIMENSIONS = 20
# Width of a panel in points per tick of the axis of dimensions, and the range of their number.
_WIDTH_PER_TICK = 25
_MIN_TICKS = 2
_MAX_TICKS = 7
# Line at the selected dimension: lighter than the marks and intervals that are on it.
_SELECTED_LINE: dict[str, Any] = {
    "color": MUTED,
    "linewidth": 0.9,
    "linestyle": (0, (1, 3)),
}
# Shift of a single value of a fair model, as a share of the axis of dimensions.
_SINGLE_VALUE_SHIFT = 0.025
# Ratio of the largest to the smallest dimension from which their axis is logarithmic, and its
# margin as a share of its length.
_MIN_LOG_RATIO = 16
_LOG_MARGIN = 0.05
_TITLES = {
    "observed_error": "Error of each group, by number of dimensions",
    "observed_loss": "Excess loss of each group, by number of dimensions",
    "expected_error": "Expected error of each group on new rows, by number of dimensions",
    "expected_loss": "Expected loss of each group on new rows, by number of dimensions",
}
_LABELS = {
    "observed_error": "reconstruction error",
    "observed_loss": "excess loss",
    "expected_error": "expected error",
    "expected_loss": "expected loss",
}


@dataclass(eq=False, repr=False)
class ErrorCurveDisplay(BaseDisplay):
    """Plot the expected loss or error of each group against the number of dimensions.

    Ordinary PCA is shown together with the estimator's criterion, refitted at each d. Create it
    with :meth:`from_estimator`.

    Attributes
    ----------
    records : sequence of mappings
        One record per model, dimension and group, with the keys of
        :meth:`fairspan.Audit.to_records` and `status`, the status of each fit. The models are
        "PCA", the criterion, and for errors "best possible". Intervals are for one dimension at a
        time; points with the state "inconclusive" are gray. Values are in squared units of the
        features; the plot divides them by `observed_total_variance` if `unit` is "share".
    quantity : {"observed_error", "observed_loss", "expected_error", "expected_loss"}
    selected_dimension : int or None
        The selected number of dimensions.
    show_observed : bool
        Whether observed values are shown along with expected ones.
    level : float
        Confidence level.
    no_estimates_reason : str
        Why there are no estimates for new rows, if rows were given.
    unit : {"share", "squared"}
        Unit of the plot: shares of the group's variance, or squared units of the features.
    materiality : float
        Materiality threshold, as a share of a group's variance; losses below it are within a band.
    n_columns : int or None
        Number of columns of panels; None for as many as suit the number of groups.
    """

    records: Sequence[Record]
    quantity: str = "expected_loss"
    selected_dimension: int | None = None
    show_observed: bool = False
    level: float = 0.95
    no_estimates_reason: str = ""
    unit: Unit = "share"
    materiality: float = DEFAULT_OPTIONS.materiality
    n_columns: int | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: "FairPCA",
        X: object = None,
        sensitive_features: object = None,
        *,
        dimensions: Sequence[int] | None = None,
        quantity: Quantity = "loss",
        show_observed: bool = False,
        unit: Unit = "share",
        ax: "Axes | None" = None,
    ) -> Self:
        """Fit PCA and the criterion at each dimension, and plot their losses or errors.

        Parameters
        ----------
        estimator : FairPCA
            Fitted estimator.
        X : (n, p) table of finite numbers, optional
            Training or held-out rows, as for `FairPCA.fit`. They give estimates for new rows with
            intervals, as in :func:`fairspan.audit`, in two passes for all dimensions. Without rows,
            the figures are those of the training rows, on which the loss of small groups is
            overestimated.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        dimensions : sequence of int, optional
            Dimensions to show; by default 1 to 20, or 20 values up to twice the estimator's
            dimension.
        quantity : {"loss", "error"}
            Excess loss e_g - e*_g over the group's best subspace, or error e_g.
        show_observed : bool
            Also show the observed values.
        unit : {"share", "squared"}
            Shares of the group's variance, or squared units of the features.
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        ErrorCurveDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidParameter
            Invalid dimension, quantity or unit, or settings of the estimator changed after the fit.
        InvalidInput
            Rows without groups, or with other features.
        UnknownGroup
            A group that the estimator was not fitted on.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import ErrorCurveDisplay
        >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> display = ErrorCurveDisplay.from_estimator(fair)
        >>> [round(record["observed_loss"], 2) for record in display.records[:2]]
        [0.0, 4.0]
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.standard_normal((200, 3)) * [3, 2, 1]
        >>> groups = ["a", "b"] * 100
        >>> fair = FairPCA(1).fit(rows, sensitive_features=groups)
        >>> display = ErrorCurveDisplay.from_estimator(fair, rows, groups, show_observed=True)
        >>> display.quantity, display.records[0]["state"]
        ('expected_loss', 'no material harm')
        """
        settings = {
            "dimensions": dimensions,
            "quantity": quantity,
            "show_observed": show_observed,
            "unit": unit,
        }
        return cls._compute_and_plot(ax, estimator, X, sensitive_features, **settings)

    @classmethod
    # Shares of the stages in the run time, in percent.
    @overall_progress("computing the curve", fitting=15, refitting_without_each_fold=60, reading=25)
    def compute(
        cls,
        estimator: "FairPCA",
        X: object = None,
        sensitive_features: object = None,
        *,
        dimensions: Sequence[int] | None = None,
        quantity: Quantity = "loss",
        show_observed: bool = False,
        unit: Unit = "share",
    ) -> Self:
        """Compute the losses or errors at each dimension; parameters as for `from_estimator`.

        The quantity is the expected one if the rows give estimates, otherwise the observed one.
        """
        moments = fitted_moments(estimator, cls.__name__)
        check_choice("quantity", quantity, ("error", "loss"))
        check_bool("show_observed", show_observed)
        check_unit(unit)
        selected = estimator.subspace_.dimension
        plotted_dimensions = _select_dimensions(dimensions, selected, moments.n_features).tolist()
        rows = open_display_rows(estimator, X, sensitive_features, cls.__name__)
        fits = {}
        for d in track("fitting", plotted_dimensions, "dimensions"):
            fits[d] = estimator
            if d != selected:
                fits[d] = refit(estimator, n_components=d)  # None if infeasible
        reason = ""  # why there are no estimates, although there are rows
        if rows is None:
            records = observed_records(estimator, fits, moments)
        else:
            expected = expected_records(estimator, fits, rows)
            records = expected.records
            reason = expected.no_estimates_reason
        is_expected = rows is not None and not reason
        prefix = "expected" if is_expected else "observed"
        shown_quantity = f"{prefix}_{quantity}"
        # Add each group's best error as a third model. Its best loss, zero, is not shown.
        if quantity == "error":
            pca_records = [record for record in records if record["model"] == PCA_NAME]
            best_errors = values_of(pca_records, f"{prefix}_best_error")
            records += best_records(pca_records, shown_quantity, best_errors)
        return cls(
            records,
            shown_quantity,
            selected,
            show_observed=show_observed and is_expected,
            no_estimates_reason=reason,
            unit=unit,
        )

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups."""
        return distinct_names(self.records, "group")

    def records_of(self, model: str, g: int) -> list[Record]:
        """Return the records of a model and the g-th group, by number of dimensions.

        The records of a model are ordered by dimension, then by group.
        """
        k = len(self.groups)
        return [record for record in self.records if record["model"] == model][g::k]

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        return panel_figure_size(len(self.groups), self.n_columns)

    def to_columns(self) -> Mapping[str, Sequence[object]]:
        """Columns with one row per model, dimension and group, with limits, in squared units."""
        names = [f"{self.quantity}{suffix}" for suffix in ("", "_low", "_high")]
        names.append("observed_total_variance")
        if self._is_expected:
            names.append("state")
        if self.show_observed:
            names.append(self._observed_quantity)
        return to_columns(self.records, "model", "n_components", "group", *names, "status")

    @property
    def _is_expected(self) -> bool:
        return self.quantity.startswith("expected")

    @property
    def _observed_quantity(self) -> str:
        """Observed counterpart of the expected quantity."""
        return f"observed_{self.quantity.removeprefix('expected_')}"

    def _styles(self) -> dict[str, SeriesStyle]:
        """Line styles by model, in fitting order."""
        names = dict.fromkeys(record["model"] for record in self.records)
        fixed_styles = {PCA_NAME: PCA_STYLE, BEST_NAME: BEST_STYLE}
        styles = fixed_styles | model_styles(name for name in names if name not in fixed_styles)
        return {name: styles[name] for name in names}

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        k = len(self.groups)
        label = f"{_LABELS[self.quantity]}\n{UNIT_LABELS[self.unit]}"
        panels = named_panels(axes, self.groups, "dimensions", label, self.n_columns)
        _, n_columns = grid_shape(k, self.n_columns)
        panel_width = available_width(axes) / n_columns
        self._draw_selected(panels)
        pca_values = [values_of(self.records_of(PCA_NAME, g), self.quantity) for g in range(k)]
        has_estimate = ~np.isnan(np.array(pca_values))  # (k, number of dimensions)
        # Expected values may exist for some dimensions only: leave out the others, so that a line
        # connects neighbors that have them. PCA is never infeasible, so a gap in the line of the
        # criterion that remains means that its problem is. Observed values need no selection.
        if self._is_expected:
            is_connected = np.any(has_estimate, axis=0)
        else:
            is_connected = np.ones_like(has_estimate[0])
        for g, panel in enumerate(panels):
            for model, style in self._styles().items():
                self._draw_line(panel, model, style, g, is_connected)
            if has_estimate.any() and not has_estimate[g].any():
                _mark_as_missing(panel)
        self._draw_thresholds(panels)
        self._set_limits(panels)
        # Panels share their limits.
        _format_axes(panels[0], panel_width, is_share=self.unit == "share")
        if self._has_log_axis:
            _set_log_axis(panels[0], self._dimension_range())
        legend = self._legend()
        add_header(axes, _TITLES[self.quantity], [*legend.values()], [*legend], note=self._note())
        return panels

    def _draw_selected(self, panels: Sequence[Axes]) -> None:
        """Mark the selected dimension by a vertical line in every panel, if there is one."""
        if self.selected_dimension is None:
            return
        for i, panel in enumerate(panels):
            panel.axvline(self.selected_dimension, zorder=0, gid=f"marked-{i}", **_SELECTED_LINE)

    @property
    def _has_threshold(self) -> bool:
        """Whether the materiality threshold is shown."""
        return self.quantity in LOSSES and self.materiality > 0

    def _thresholds(self) -> FloatArray:
        """Materiality threshold of each group in the unit of the plot, (k,)."""
        k = len(self.groups)
        return materiality_by_group(self.records[:k], self.materiality, self.unit)

    def _draw_thresholds(self, panels: Sequence[Axes]) -> None:
        """Draw the band of losses below the materiality threshold of the group of each panel."""
        if not self._has_threshold:
            return
        for g, (panel, threshold) in enumerate(zip(panels, self._thresholds(), strict=True)):
            if not np.isnan(threshold):
                band = panel.axhspan(0, threshold, color=MUTED, alpha=BAND_ALPHA, linewidth=0)
                band.set(zorder=0.4, gid=f"materiality-{g}")
                gid = f"threshold-{g}"
                panel.axhline(threshold, color=MUTED, linewidth=1, zorder=0.5, gid=gid)

    def _set_limits(self, panels: Sequence[Axes]) -> None:
        """Set the limits of the y axis, which the panels share.

        Observed values are not negative, so they start at zero. Expected ones may be, and their
        inconclusive intervals may be too long to show. Losses reach a few times the materiality
        threshold.
        """
        min_end = 0.0
        if self._has_threshold:
            min_end = MIN_REACH * float(np.nanmax(self._thresholds(), initial=0.0))
        if not self._is_expected:
            panels[0].set_ylim(0, max(panels[0].get_ylim()[1], min_end))
            return
        for panel in panels:
            panel.axhline(0, color=FOREGROUND, linewidth=0.6, zorder=1)
        values = self._plotted(self.records)
        if self.show_observed:
            observed = plotted_values(self.records, self._observed_quantity, self.unit)
            values = np.concatenate([values, observed])
        limits = axis_limits(
            self._plotted(self.records, "_low"),
            self._plotted(self.records, "_high"),
            np.array([record.get("state") == INCONCLUSIVE for record in self.records]),
            np.append(values, min_end),
            _MAX_UNCERTAIN_SHARE,
        )
        panels[0].set_ylim(*limits)

    def _plotted(self, records: Sequence[Record], suffix: str = "") -> FloatArray:
        """Return the quantity of some records, or its limits, in the unit of the plot."""
        return plotted_values(records, f"{self.quantity}{suffix}", self.unit)

    def _draw_line(
        self, axes: Axes, model: str, style: SeriesStyle, g: int, is_connected: BoolArray
    ) -> None:
        """Draw the values of one model and group, with confidence bands if there are any.

        The line connects the dimensions for which `is_connected`, of shape (number of dimensions,),
        is true; a dotted line shows the observed values at all of them, if requested.
        """
        all_records = self.records_of(model, g)
        if self.show_observed:
            all_d = values_of(all_records, "n_components")
            observed = plotted_values(all_records, self._observed_quantity, self.unit)
            axes.plot(all_d, observed, color=style.color, zorder=1.8, **_OBSERVED_LINE)
        records = [
            record
            for record, is_plotted in zip(all_records, is_connected, strict=True)
            if is_plotted
        ]
        d = self._drawn_places(records, style)
        values = self._plotted(records)
        marker_style: dict[str, Any] = {
            "marker": "" if style is BEST_STYLE else style.marker,
            "markersize": 5.5 if len(d) <= _MAX_LARGE_MARKERS else 4,
        }
        axes.plot(
            d,
            values,
            color=style.color,
            markerfacecolor=style.marker_fill(style.color),
            linestyle=style.line,
            zorder=2.5 if style in (PCA_STYLE, BEST_STYLE) else 3,
            gid=f"{model}-{g}",
            **marker_style,
        )
        is_inconclusive = np.array(
            [record.get("state") == INCONCLUSIVE for record in records], dtype=bool
        )
        # The state of a group is about its expected values.
        is_inconclusive &= self._is_expected
        if is_inconclusive.any():
            axes.plot(
                d[is_inconclusive],
                values[is_inconclusive],
                color=MUTED,
                markerfacecolor=style.marker_fill(MUTED),
                linestyle="",
                zorder=3.5,
                **marker_style,
            )
        self._draw_intervals(axes, records, style, is_inconclusive)

    def _draw_intervals(
        self,
        axes: Axes,
        records: Sequence[Record],
        style: SeriesStyle,
        is_inconclusive: BoolArray,
    ) -> None:
        """Draw the intervals of the records of one model and group: a band, or a single bar."""
        d = self._drawn_places(records, style)
        low = self._plotted(records, "_low")
        high = self._plotted(records, "_high")
        has_interval = ~np.isnan(low)
        if has_interval.sum() == 1:  # a band over a single dimension would be invisible
            color = MUTED if is_inconclusive[has_interval].any() else style.color
            axes.vlines(d, low, high, color=color, linewidth=1.6)
        if has_interval.any():
            axes.fill_between(d, low, high, color=style.color, alpha=BAND_ALPHA, linewidth=0)

    def _drawn_places(self, records: Sequence[Record], style: SeriesStyle) -> FloatArray:
        """Return the x coordinates of records of a model.

        A fair model with a value at a single dimension is next to PCA's, which would cover it.
        """
        d = values_of(records, "n_components")
        has_value = ~np.isnan(self._plotted(records))
        if style in (PCA_STYLE, BEST_STYLE) or has_value.sum() != 1:
            return d
        start, end = self._dimension_range()
        if self._has_log_axis:
            return np.asarray(d * (end / start) ** _SINGLE_VALUE_SHIFT)
        return d + _SINGLE_VALUE_SHIFT * (end - start)

    def _dimension_range(self) -> tuple[float, float]:
        d = values_of(self.records, "n_components")
        return float(d.min()), float(d.max())

    @property
    def _has_log_axis(self) -> bool:
        """Whether dimensions are on a logarithmic axis, on which small ones are not crowded."""
        start, end = self._dimension_range()
        return start > 0 and end / start >= _MIN_LOG_RATIO

    def _legend(self) -> "dict[str, Artist]":
        """Return the legend's handles by label."""
        from matplotlib.lines import Line2D

        handles: dict[str, Artist] = {}
        for model, style in self._styles().items():
            line = Line2D([], [], color=style.color, linestyle=style.line)
            line.set_markerfacecolor(style.marker_fill(style.color))
            # The best possible errors are no model, so their line has no markers.
            line.set_marker("" if style is BEST_STYLE else style.marker)
            handles[plot_label(readable_name(model))] = line
        if self.show_observed:
            handles["observed"] = Line2D([], [], color=FOREGROUND, **_OBSERVED_LINE)
        return handles

    def _note(self) -> str:
        """Describe intervals, gray points, guides and unproven solutions, or missing estimates.

        Guides are described here, since a legend of all of them would be taller than the panels.
        """
        notes = []
        if self.no_estimates_reason:
            notes.append(
                "Observed values: there are no estimates for new rows "
                f"({self.no_estimates_reason})."
            )
        elif not np.isnan(values_of(self.records, f"{self.quantity}_low")).all():
            scope = " that hold together for all groups" if self._is_expected else ""
            notes.append(f"Bands are {format_level(self.level)} confidence intervals{scope}.")
        states = {record.get("state") for record in self.records}
        if self._is_expected and INCONCLUSIVE in states:
            notes.append("Gray: inconclusive.")
        if self._has_threshold:
            notes.append(f"Shaded: losses {materiality_label(self.materiality)}.")
        if self.selected_dimension is not None:
            selected = format_count(self.selected_dimension, "dimension")
            notes.append(f"Dotted line: {selected}, as selected.")
        # All groups have the status of the fit, so take that of the first group. It is None for
        # PCA and the best possible errors, which need no proof.
        statuses = [record.get("status") for record in self.records[:: len(self.groups)]]
        notes.append(describe_unproven(statuses))
        return " ".join(filter(None, notes))


def _mark_as_missing(panel: Axes) -> None:
    """Mark the panel of a group without estimates, although others have them.

    Its lines, which show only observed values and guides, become gray.
    """
    panel.text(
        0.5,
        0.97,
        "too few rows",
        color=MUTED,
        transform=panel.transAxes,
        horizontalalignment="center",
        verticalalignment="top",
    )
    for line in panel.lines:
        line.set_color(MUTED)


def _format_axes(panel: Axes, panel_width: float, *, is_share: bool) -> None:
    """Format the ticks of a panel whose width is in points; dimensions are integers."""
    from matplotlib.ticker import MaxNLocator

    format_ticks(panel, "x", width=panel_width)
    format_ticks(panel, "y", is_share=is_share)
    n_ticks = min(max(int(panel_width / _WIDTH_PER_TICK), _MIN_TICKS), _MAX_TICKS)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=n_ticks, integer=True, min_n_ticks=1))


def _set_log_axis(panel: Axes, dimensions: tuple[float, float]) -> None:
    """Make the axis of dimensions logarithmic, with ticks at 1, 2, 5, 10, 20 and so on."""
    from matplotlib.ticker import FixedLocator, NullLocator

    start, end = dimensions
    ticks = [digit * 10**power for power in range(len(str(int(end)))) for digit in (1, 2, 5)]
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if start <= tick <= end]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(lambda value, _: format_tick(value))
    margin = (end / start) ** _LOG_MARGIN
    panel.set_xlim(start / margin, end * margin)


def _select_dimensions(
    requested: Sequence[int] | None, selected: int, n_features: int
) -> IntegerArray:
    """Return the increasing dimensions to show: those requested, or spaced ones.

    By default, spaced dimensions up to twice the estimator's dimension, `selected`, which they
    include; requested ones are not extended by it.

    Raises
    ------
    InvalidParameter
        No dimension is requested, or one is out of range.
    """
    if requested is not None:
        if not len(requested):
            raise InvalidParameter(
                "dimensions is empty",
                f"Allowed: integers from 1 to {n_features}",
                "Omit it for the default",
            )
        for d in requested:
            check_n_components(d, n_features)
        return np.unique(np.asarray(requested, dtype=np.int64))
    largest = min(n_features, max(_MAX_DIMENSIONS, 2 * selected))
    spaced = np.linspace(1, largest, min(largest, _MAX_DIMENSIONS))
    return np.union1d(np.round(spaced).astype(np.int64), [selected])
