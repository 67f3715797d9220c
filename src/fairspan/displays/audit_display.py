"""Display of one quantity of an audit by group and model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, cast, get_args

import numpy as np

from fairspan.auditing.estimation_options import DEFAULT_OPTIONS
from fairspan.displays.base_display import BaseDisplay
from fairspan.displays.loss_rows import (
    HEADING_HEIGHT,
    INCONCLUSIVE,
    LossRow,
    axis_limits,
    draw_headings,
    draw_loss_rows,
    row_positions,
)
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
    PCA_STYLE,
    Axes,
    SeriesStyle,
    add_header,
    available_width,
    format_ticks,
    label_rows,
    materiality_handle,
    materiality_label,
    model_styles,
    row_figure_size,
    shorten_names,
)
from fairspan.errors import InvalidInput
from fairspan.formatting.names import readable_name
from fairspan.formatting.numbers import format_level, format_number, format_share
from fairspan.formatting.units import Unit
from fairspan.parameters import check_choice
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.lines import Line2D

AuditQuantity = Literal[
    "expected_loss", "observed_error", "observed_loss", "observed_variance_kept"
]

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
# Height of a row with a state, in inches: two lines of a name.
_STATE_ROW_HEIGHT = 0.38
# Row height without intervals, height per model with intervals, and minimum row height, in inches.
_ROW_HEIGHT = 0.22
_HEIGHT_PER_MODEL = 0.14
_MIN_ROW_HEIGHT = 0.36
# Maximum extra axis range for inconclusive intervals, as a multiple of the range of all values and
# of the conclusive ones: their ends would otherwise hide the differences that are known.
_MAX_UNCERTAIN_RATIO = 3.0
# Marker sizes in points.
_MARKER_SIZE = 7.0
_HOLLOW_MARKER_SIZE = 8.5
_BEST_MARKER_SIZE = 15.0


@dataclass(eq=False, repr=False)
class AuditDisplay(BaseDisplay):
    """Plot one quantity by group and model, with intervals if available.

    Expected losses have a row per group and model, with its state by color and word; their
    intervals may extend beyond the axes. Losses below the materiality threshold are within a band.
    Created by :meth:`fairspan.Audit.plot`.

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
        if self._has_state_rows:
            names = self._row_names()
            end = float(row_positions(len(self.groups), len(self.models)).max()) + 1
            end += self._heading_height
            # The groups are further apart than the rows of a group.
            return row_figure_size(names, _STATE_ROW_HEIGHT * end / len(names))
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

    @property
    def _has_state_rows(self) -> bool:
        """Whether groups and models have rows of their own: states tell of each of them."""
        return self.quantity == "expected_loss"

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        """Draw the rows, and return the axes drawn on."""
        if self._has_state_rows:
            self._draw_state_rows(axes)
        else:
            self._draw_groups(axes)
        return (axes,)

    def _draw_state_rows(self, axes: Axes) -> None:
        """Draw a row for each group and model, with its interval and state."""
        draw_loss_rows(axes, self._loss_rows(), self._limits())
        positions = row_positions(len(self.groups), len(self.models))
        if self.show_observed:
            # Records are ordered by model, then by group.
            observed = self._plotted("observed_loss")
            axes.plot(
                observed, positions.T.ravel(), "|", color=FOREGROUND, markersize=11, zorder=3.5
            )
        if self._has_threshold:
            self._draw_threshold(axes, positions)
        axes.set_xlabel(self._axis_label())
        width = available_width(axes)
        label_rows(axes, self._row_names(), positions.ravel().tolist(), self._heading_height)
        if self._heading_height:
            draw_headings(axes, self.groups, positions)
        format_ticks(axes, "x", width=width / 2, is_share=self.unit == "share")
        add_header(axes, self._title(), note=self._note())

    def _row_names(self) -> list[str]:
        """Names of the rows: models below headings of groups, or groups if there is one model."""
        if len(self.models) == 1:
            return [*self.groups]
        return [readable_name(name) for name in self.models] * len(self.groups)

    @property
    def _heading_height(self) -> float:
        """Height of the headings of groups, in rows; zero without headings."""
        return HEADING_HEIGHT if len(self.models) > 1 else 0.0

    def _loss_rows(self) -> list[LossRow]:
        """Rows by group, then by model."""
        k = len(self.groups)
        values, low, high = (self.values(suffix) for suffix in ("", "_low", "_high"))
        states = self._states()
        positions = row_positions(k, len(self.models))
        is_unknown = np.isnan(values)
        rows = []
        for g in range(k):
            missing = "too few rows" if is_unknown[:, g].all() else "no estimate"
            for i, model in enumerate(self.models):
                state = str(states[i, g])
                rows.append(
                    LossRow(
                        position=float(positions[g, i]),
                        value=float(values[i, g]),
                        low=float(low[i, g]),
                        high=float(high[i, g]),
                        state=state,
                        text=missing if is_unknown[i, g] else self._describe(values[i, g], state),
                        style=self._style_of(model),
                        element_id=f"model-{i}-{g}",
                    )
                )
        return rows

    def _describe(self, value: float, state: str) -> str:
        """Describe a loss by its value and state."""
        text = format_number(value)
        if self.unit == "share":
            text = format_share(value, self.materiality)
        return f"{text}, {state}"

    def _draw_groups(self, axes: Axes) -> None:
        """Draw a row for each group, with a marker for each model.

        Intervals are drawn if there are any; otherwise a line connects the models' markers.
        """
        values = self.values()
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
            self._draw_model(axes, i, y_positions[i]) for i in range(len(values))
        ]
        labels = [readable_name(name) for name in self.models]
        if self._has_threshold:
            self._draw_threshold(axes, row_positions(values.shape[1], 1))
            handles.append(materiality_handle())
            labels.append(materiality_label(self.materiality))
        if self.quantity != "observed_variance_kept":
            # Start at zero so that sizes are comparable.
            start, end = axes.get_xlim()
            axes.set_xlim(min(0.0, start), max(end, self._min_end()))
        handles, labels = self._draw_extras(axes, handles, labels)
        axes.set_xlabel(self._axis_label())
        width = available_width(axes)
        # The names of the groups take part of the width, so ticks and legend get half of it.
        label_rows(axes, self.groups)
        is_share = self.unit == "share" or self.quantity == "observed_variance_kept"
        format_ticks(axes, "x", width=width / 2, is_share=is_share)
        labels = shorten_names(labels, width / 2)
        add_header(axes, self._title(), handles, labels, note=self._note())

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

    def _draw_threshold(self, axes: Axes, positions: FloatArray) -> None:
        """Draw the band of losses below the materiality threshold across the rows of every group.

        `positions` are the y coordinates of the rows, by group and row of the group.
        """
        thresholds = self._thresholds()
        middles = positions.mean(axis=1)
        if self._has_state_rows:
            middles -= self._heading_height / 2
        # Bands of neighboring groups touch.
        height = middles[1] - middles[0] if len(middles) > 1 else positions.shape[1]
        bars = axes.barh(
            middles, thresholds, height, color=MUTED, alpha=BAND_ALPHA, zorder=0.4, linewidth=0
        )
        for g, bar in enumerate(bars):
            bar.set_gid(f"materiality-{g}")

    def _y_positions(self) -> FloatArray:
        """Y coordinates by model and group, (m, k); group g is centered at y = g."""
        m = len(self.models)
        y_positions = np.tile(np.arange(self.values().shape[1], dtype=np.float64), (m, 1))
        if self._has_intervals:
            # Offset the models so that intervals do not overlap.
            offsets = (np.arange(m) + 0.5) / m - 0.5
            y_positions += offsets[:, None] * _MODEL_SPREAD
        return y_positions

    def _draw_model(self, axes: Axes, i: int, y_positions: FloatArray) -> "Line2D":
        """Draw markers and intervals of the i-th model, and return its legend entry.

        `y_positions`, (k,), are the y coordinates of the groups.
        """
        from matplotlib.lines import Line2D

        style = self._style_of(self.models[i])
        marker_size = _MARKER_SIZE if style.is_filled else _HOLLOW_MARKER_SIZE
        if style is BEST_STYLE:
            marker_size = _BEST_MARKER_SIZE
        marker: dict[str, Any] = {
            "color": style.color,
            "marker": style.marker,
            "markerfacecolor": style.marker_fill(style.color),
            "linestyle": "",
            "markersize": marker_size,
            "markeredgewidth": 1 if style.is_filled else 2,
        }
        values, low, high = (self.values(suffix)[i] for suffix in ("", "_low", "_high"))
        axes.plot(values, y_positions, gid=f"model-{i}", **marker)
        if not np.isnan(low).all():
            axes.hlines(y_positions, low, high, color=style.color, linewidth=2)
        marker["markersize"] = 7.5
        return Line2D([], [], **marker)

    def _style_of(self, name: str) -> SeriesStyle:
        """Style of a model; ordinary PCA has its own."""
        others = [model for model in self.models if model not in (*self.pca_models, BEST_NAME)]
        if name in others:
            return model_styles(others)[name]
        if name in self.pca_models:
            return PCA_STYLE
        return BEST_STYLE

    def _states(self) -> Any:
        """States by model and group, (m, k)."""
        states = np.full(len(self.records), None, dtype=object)
        states[:] = [record.get("state") for record in self.records]
        return states.reshape(len(self.models), -1)

    def _limits(self) -> tuple[float, float]:
        """Limits of the x axis of expected losses; inconclusive intervals may extend beyond it."""
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
        if not self._has_state_rows:
            return f"{note}."
        scope = "groups" if len(self.models) == 1 else "groups and models"
        note += f" that hold together for all {scope}."
        if self._has_threshold:
            note += f" Shaded: losses {materiality_label(self.materiality)}."
        if self.show_observed:
            note += " Upright mark: observed loss."
        start, end = self._limits()
        if (self.values("_low") < start).any() or (self.values("_high") > end).any():
            note += " Arrow: the interval extends beyond the plot."
        return note
