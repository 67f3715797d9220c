"""Display of one quantity of an audit by group and model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, cast, get_args

import numpy as np

from fairspan.auditing.estimation_options import DEFAULT_OPTIONS
from fairspan.displays.base_display import BaseDisplay
from fairspan.displays.records import (
    BEST_NAME,
    PCA_NAME,
    Record,
    distinct_names,
    materiality_by_group,
    plotted_values,
    records_without_rounding,
    to_columns,
)
from fairspan.displays.style import (
    BAND_ALPHA,
    BEST_STYLE,
    FOREGROUND,
    MUTED,
    ORANGE,
    PCA_STYLE,
    PURPLE,
    Axes,
    SeriesStyle,
    add_header,
    available_width,
    format_ticks,
    label_rows,
    materiality_handle,
    materiality_label,
    row_figure_size,
    series_style,
    shorten_names,
)
from fairspan.errors import InvalidInput
from fairspan.formatting.names import readable_name
from fairspan.formatting.numbers import format_level
from fairspan.formatting.units import Unit
from fairspan.parameters import check_choice
from fairspan.typing import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.lines import Line2D

AuditQuantity = Literal[
    "expected_loss", "observed_error", "observed_loss", "observed_variance_kept"
]

INCONCLUSIVE = "inconclusive"
# One color per state, distinct from those of the models.
STATE_COLORS = {
    "harmed": PURPLE,
    "minor": ORANGE,
    "no material harm": FOREGROUND,
    INCONCLUSIVE: MUTED,
}
# Title and axis label of each quantity.
_TITLES_AND_LABELS = {
    "expected_loss": ("Expected loss of each group on new rows", "expected loss on new rows"),
    "observed_error": (
        "Reconstruction error of each group on the audited rows",
        "reconstruction error",
    ),
    "observed_loss": ("Excess loss of each group on the audited rows", "excess loss"),
    "observed_variance_kept": ("Share of variance kept in each group", "share of variance kept"),
}
UNIT_LABELS: Mapping[Unit, str] = {
    "share": "share of variance",
    "squared": "squared units of the features",
}
"""Units in axis labels."""
LOSSES = ("expected_loss", "observed_loss")
"""Quantities that are compared with the materiality threshold."""
MIN_REACH = 4.0
"""Axes of losses reach at least this multiple of the threshold, so that small losses look small."""
# Share of a row's height used by its models.
_MODEL_SPREAD = 0.66
# Row height without intervals, height per model with intervals, and minimum row height, in inches.
_ROW_HEIGHT = 0.22
_HEIGHT_PER_MODEL = 0.14
_MIN_ROW_HEIGHT = 0.36
# Maximum extra axis range for inconclusive intervals, as a multiple of the range of the conclusive
# ones: their ends would otherwise hide the differences that are known.
_MAX_UNCERTAIN_RATIO = 3.0
# Margin of the axis, as a share of its range.
_MARGIN = 0.04
# Marker sizes in points.
_MARKER_SIZE = 7.0
_HOLLOW_MARKER_SIZE = 8.5
_BEST_MARKER_SIZE = 15.0


@dataclass(eq=False, repr=False)
class AuditDisplay(BaseDisplay):
    """Plot one quantity by group and model, with intervals if available.

    Expected losses are colored by state, and their intervals may extend beyond the axes. Losses
    below the materiality threshold are within a band. Created by :meth:`fairspan.Audit.plot`.

    Attributes
    ----------
    records : sequence of mappings
        One record per model and group, with the keys of :meth:`fairspan.Audit.to_records`. Values
        are in squared units of the features; the plot divides them by `observed_total_variance` if
        `unit` is "share".
    quantity : {"expected_loss", "observed_error", "observed_loss", "observed_variance_kept"}
    pca_models : tuple of str
        Names of the models that are ordinary PCA.
    level : float
        Confidence level.
    show_observed : bool
        Whether the observed loss is shown along with the expected one.
    unit : {"share", "squared"}
        Unit of errors and losses in the plot: shares of the group's variance, or squared units of
        the features.
    materiality : float
        Materiality threshold, as a share of a group's variance.
    """

    records: Sequence[Record]
    quantity: AuditQuantity = "expected_loss"
    pca_models: tuple[str, ...] = (PCA_NAME,)
    level: float = 0.95
    show_observed: bool = False
    unit: Unit = "share"
    materiality: float = DEFAULT_OPTIONS.materiality

    @classmethod
    def compute(cls, audit: Any, quantity: str | None = None) -> Self:
        """Compute the display of an audit.

        The default quantity is the expected loss if there are estimates for new rows, else the
        observed error.
        """
        has_estimates = any(model.has_estimates for model in audit.models)
        if quantity is None:
            quantity = "expected_loss" if has_estimates else "observed_error"
        check_choice("quantity", quantity, get_args(AuditQuantity))
        if quantity == "expected_loss" and not has_estimates:
            raise InvalidInput(
                "This audit has no estimates for new rows",
                "Allowed: 'observed_error', 'observed_loss' and 'observed_variance_kept'",
                "Audit rows with folds, or choose another quantity",
            )
        # Observed values within their rounding errors are drawn at zero.
        records = [record for model in audit.models for record in records_without_rounding(model)]
        pca_models = tuple(model.name for model in audit.models if model.is_pca)
        return cls(
            records,
            cast(AuditQuantity, quantity),
            pca_models,
            audit.level,
            materiality=audit.materiality,
        )

    @property
    def groups(self) -> tuple[str, ...]:
        """Display names of the groups."""
        return distinct_names(self.records, "group")

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return tuple(dict.fromkeys(record["model"] for record in self.records))

    def values(self, suffix: str = "") -> FloatArray:
        """Values in the plot by model and group, (m, k), or their limits ("_low" or "_high").

        A value that is not available is NaN. The records are ordered by model, then by group.
        """
        return self._plotted(self.quantity + suffix).reshape(len(self.models), -1)

    def _plotted(self, name: str) -> FloatArray:
        """Return one value of every record in the unit of the plot."""
        return plotted_values(self.records, name, self.unit)

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        n_offset_models = len(self.models) if self._has_intervals else 0
        row_height = max(_ROW_HEIGHT + _HEIGHT_PER_MODEL * n_offset_models, _MIN_ROW_HEIGHT)
        return row_figure_size(self.groups, row_height)

    def to_columns(self) -> Mapping[str, Sequence[object]]:
        """Columns with one row per model and group, errors and losses in squared units."""
        names = [f"{self.quantity}{suffix}" for suffix in ("", "_low", "_high")]
        if self.quantity != "observed_variance_kept":
            names.append("observed_total_variance")
        if self.quantity == "expected_loss":
            names.append("state")
        if self.show_observed:
            names.append("observed_loss")
        return to_columns(self.records, "model", "group", *names)

    @property
    def _has_intervals(self) -> bool:
        return not np.isnan(self.values("_low")).all()

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        """Draw a row for each group, with a marker for each model, and return the axes drawn on.

        Intervals are drawn if there are any; otherwise a line connects the models' markers.
        """
        values = self.values()
        limits = self._limits()
        y_positions = self._y_positions()
        if not self._has_intervals and len(values) > 1:
            # Without intervals, the values of all models lie at the same height, so the y positions
            # of the first model serve for all.
            smallest = np.fmin.reduce(values)
            largest = np.fmax.reduce(values)
            axes.hlines(
                y_positions[0], smallest, largest, color=MUTED, linewidth=2.5, zorder=1, alpha=0.6
            )
        handles: list[Artist] = [
            self._draw_model(axes, i, y_positions[i], limits) for i in range(len(values))
        ]
        labels = [readable_name(name) for name in self.models]
        if self.show_observed:
            observed = self._plotted("observed_loss")
            handles += axes.plot(
                observed, y_positions.ravel(), "|", color=FOREGROUND, markersize=11, zorder=3.5
            )
            labels.append("observed")
        for state, handle in self._state_handles().items():
            handles.append(handle)
            labels.append(state)
        if self._has_threshold:
            handles.append(self._draw_threshold(axes))
            labels.append(materiality_label(self.materiality))
        if self.quantity == "expected_loss":
            axes.axvline(0, color=FOREGROUND, linewidth=0.8, zorder=1)
            axes.set_xlim(*limits)
        elif self.quantity != "observed_variance_kept":
            # Start at zero so that sizes are comparable.
            start, end = axes.get_xlim()
            axes.set_xlim(min(0.0, start), max(end, self._min_end()))
        handles, labels = self._draw_extras(axes, handles, labels)
        self._annotate_missing(axes)
        axes.set_xlabel(self._axis_label())
        width = available_width(axes)
        # The names of the groups take part of the width, so ticks and legend get half of it.
        label_rows(axes, self.groups)
        is_share = self.unit == "share" or self.quantity == "observed_variance_kept"
        format_ticks(axes, "x", width=width / 2, is_share=is_share)
        labels = shorten_names(labels, width / 2)
        add_header(axes, self._title(), handles, labels, note=self._note())
        return (axes,)

    def _axis_label(self) -> str:
        label = _TITLES_AND_LABELS[self.quantity][1]
        if self.quantity == "observed_variance_kept":
            return label
        # Long names of groups leave little width for the label.
        return f"{label},\n{UNIT_LABELS[self.unit]}"

    @property
    def _has_threshold(self) -> bool:
        """Whether the materiality threshold is shown."""
        return self.quantity in LOSSES and self.materiality > 0

    def _thresholds(self) -> FloatArray:
        """Materiality threshold of each group in the unit of the plot, (k,)."""
        k = self.values().shape[1]
        return materiality_by_group(self.records[:k], self.materiality, self.unit)

    def _min_end(self) -> float:
        """Smallest end of an axis of losses: a few times the materiality threshold."""
        if not self._has_threshold:
            return 0.0
        return MIN_REACH * float(np.nanmax(self._thresholds(), initial=0.0))

    def _draw_threshold(self, axes: Axes) -> "Artist":
        """Draw the band of losses below the materiality threshold in the row of every group."""
        thresholds = self._thresholds()
        rows = np.arange(len(thresholds))
        bars = axes.barh(
            rows, thresholds, height=1.0, color=MUTED, alpha=BAND_ALPHA, zorder=0.4, linewidth=0
        )
        for bar in bars:
            bar.set_gid("materiality")
        style: dict[str, Any] = {"color": MUTED, "linewidth": 1, "zorder": 0.5}
        axes.vlines(thresholds, rows - 0.5, rows + 0.5, gid="materiality", **style)
        return materiality_handle()

    def _y_positions(self) -> FloatArray:
        """Y coordinates by model and group, (m, k); group g is centered at y = g."""
        m = len(self.models)
        y_positions = np.tile(np.arange(self.values().shape[1], dtype=np.float64), (m, 1))
        if self._has_intervals:
            # Offset the models so that intervals do not overlap.
            offsets = (np.arange(m) + 0.5) / m - 0.5
            y_positions += offsets[:, None] * _MODEL_SPREAD
        return y_positions

    def _state_handles(self) -> dict[str, "Line2D"]:
        """Legend entries of the states that occur."""
        from matplotlib.lines import Line2D

        states = self._states()
        return {
            state: Line2D([], [], color=color, linewidth=3)
            for state, color in STATE_COLORS.items()
            if state in states
        }

    def _annotate_missing(self, axes: Axes) -> None:
        """Mark groups without estimates, although others have them."""
        is_inconclusive = (self._states() == INCONCLUSIVE).any(axis=0)
        is_missing = is_inconclusive & np.isnan(self.values()).all(axis=0)
        for y in np.flatnonzero(is_missing).tolist():
            axes.text(0, y, " too few rows", color=MUTED, fontsize=10, va="center")

    def _draw_model(
        self, axes: Axes, i: int, y_positions: FloatArray, limits: tuple[float, float]
    ) -> "Line2D":
        """Draw markers and intervals of the i-th model, and return its legend entry.

        Parameters
        ----------
        axes : matplotlib Axes
        i : int
        y_positions : (k,) array
            Y coordinate of each group.
        limits : tuple of 2 float
            Ends of the x axis; an arrow marks where an interval extends beyond them.
        """
        from matplotlib.lines import Line2D

        states = self._states()[i]
        style = self._style_of(self.models[i])
        marker_size = _MARKER_SIZE if style.is_filled else _HOLLOW_MARKER_SIZE
        if style is BEST_STYLE:
            marker_size = _BEST_MARKER_SIZE
        marker: dict[str, Any] = {
            "marker": style.marker,
            "linestyle": "",
            "markersize": marker_size,
            "markeredgewidth": 1 if style.is_filled else 2,
        }
        values, low, high = (self.values(suffix)[i] for suffix in ("", "_low", "_high"))
        colors = np.array([STATE_COLORS.get(state, style.color) for state in states])
        # Groups in different states have different colors, and each color is one artist.
        for color in dict.fromkeys(colors.tolist()):
            at = colors == color
            fill = style.marker_fill(color)
            # The id marks the model's values in the SVG, except inconclusive ones. These are muted;
            # the style of the best errors is muted in any state.
            gid = None if color == MUTED and style is not BEST_STYLE else f"model-{i}"
            y = y_positions[at]
            axes.plot(values[at], y, color=color, markerfacecolor=fill, gid=gid, **marker)
            if not np.isnan(low[at]).all():
                _draw_intervals(axes, y, low[at], high[at], limits, color)
        # With states, colors tell the states apart and only the marker identifies the model.
        legend_color = FOREGROUND if any(states) else style.color
        fill = style.marker_fill(legend_color)
        marker["markersize"] = 7.5
        return Line2D([], [], color=legend_color, markerfacecolor=fill, **marker)

    def _style_of(self, name: str) -> SeriesStyle:
        """Style of a model; ordinary PCA has its own."""
        others = [model for model in self.models if model not in (*self.pca_models, BEST_NAME)]
        if name in others:
            return series_style(others.index(name))
        if name in self.pca_models:
            return PCA_STYLE
        return BEST_STYLE

    def _states(self) -> Any:
        """States by model and group, (m, k); None if another quantity is shown."""
        states = np.full(len(self.records), None, dtype=object)
        if self.quantity == "expected_loss":
            states[:] = [record.get("state") for record in self.records]
        return states.reshape(len(self.models), -1)

    def _limits(self) -> tuple[float, float]:
        """Limits of the x axis; infinite except for the expected loss.

        Only the expected loss has inconclusive intervals, which may be too long to show.
        """
        if self.quantity != "expected_loss":
            return -np.inf, np.inf
        values = self.values().ravel()
        if self.show_observed:
            values = np.concatenate([values, self._plotted("observed_loss")])
        return axis_limits(
            self._plotted("expected_loss_low"),
            self._plotted("expected_loss_high"),
            (self._states() == INCONCLUSIVE).ravel(),
            np.append(values, self._min_end()),
            _MAX_UNCERTAIN_RATIO,
        )

    def _draw_extras(
        self, axes: Axes, handles: "list[Artist]", labels: list[str]
    ) -> "tuple[list[Artist], list[str]]":
        """Draw additional artists, and return the legend's handles and labels with theirs.

        A hook for subclasses; here there are none.
        """
        return handles, labels

    def _title(self) -> str:
        return _TITLES_AND_LABELS[self.quantity][0]

    def _note(self) -> str:
        if not self._has_intervals:
            return ""
        note = f"Lines are {format_level(self.level)} confidence intervals"
        if self.quantity == "expected_loss":
            note += ", simultaneous over groups"
        note += "."
        start, end = self._limits()
        if (self.values("_low") < start).any() or (self.values("_high") > end).any():
            note += " Arrow: the interval extends beyond the plot."
        return note


def _draw_intervals(
    axes: Axes,
    y_positions: FloatArray,
    low: FloatArray,
    high: FloatArray,
    limits: tuple[float, float],
    color: str,
) -> None:
    """Draw horizontal intervals, with an arrow where one extends beyond the x axis.

    Parameters
    ----------
    axes : matplotlib Axes
    y_positions : (n,) array
        Y coordinate of each interval.
    low, high : (n,) arrays
        Ends of the intervals; NaN without one.
    limits : tuple of 2 float
        Ends of the x axis, at which the intervals are cut.
    color : str
    """
    start, end = limits
    axes.hlines(y_positions, *np.clip([low, high], start, end), color=color, linewidth=2)
    for limit, arrow, exceeds in ((start, "<", low < start), (end, ">", high > end)):
        for y in y_positions[exceeds]:
            axes.plot(limit, y, arrow, color=color, markersize=6, clip_on=False)


def axis_limits(
    low: FloatArray,
    high: FloatArray,
    is_inconclusive: BoolArray,
    values: FloatArray,
    max_extra: float,
) -> tuple[float, float]:
    """Return axis limits that contain zero, all values, and all conclusive intervals.

    Inconclusive intervals may be far longer, so they extend the range only by a limited amount;
    without conclusive ones, all of them are contained.

    Parameters
    ----------
    low, high : (n,) arrays
        Intervals; NaN where there is none.
    is_inconclusive : (n,) array of bool
        Whether the state is inconclusive.
    values : array
        Values that are drawn; NaN where there is none.
    max_extra : float
        Maximum extra range for inconclusive intervals, as a multiple of the range of the
        conclusive ones.
    """
    has_interval = ~np.isnan(low)
    is_conclusive = has_interval & ~is_inconclusive
    start = np.min(low[has_interval], initial=0.0)
    end = np.max(high[has_interval], initial=0.0)
    if is_conclusive.any():
        conclusive_start = np.min(low[is_conclusive], initial=0.0)
        conclusive_end = np.max(high[is_conclusive], initial=0.0)
        extra = max_extra * (conclusive_end - conclusive_start)
        start = max(start, conclusive_start - extra)
        end = min(end, conclusive_end + extra)
    finite_values = values[~np.isnan(values)]
    start = np.min(finite_values, initial=start)
    end = np.max(finite_values, initial=end)
    # All values may be zero, and an axis needs a positive range.
    margin = _MARGIN * (end - start) if end > start else 1.0
    return float(start - margin), float(end + margin)
