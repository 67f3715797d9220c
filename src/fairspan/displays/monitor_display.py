"""Display of the error of each group over the looks of a monitor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fairspan.displays.base_display import BaseDisplay
from fairspan.displays.records import distinct_names, to_columns, values_of
from fairspan.displays.style import (
    BLUE,
    FOREGROUND,
    MUTED,
    VERMILION,
    Axes,
    add_header,
    available_width,
    format_ticks,
    grid_shape,
    named_panels,
    panel_figure_size,
)
from fairspan.errors import InvalidInput, InvalidType, describe_type
from fairspan.formatting.numbers import format_level, to_ascii
from fairspan.typing import BoolArray, FloatArray

if TYPE_CHECKING:
    from fairspan.monitoring.history import History

_TITLE = "Error of each group since the fit"
_Y_LABEL = "error relative to the fit"
# Share of the range of the values by which the axis is longer than them.
_MARGIN_SHARE = 0.08
# Hollow marks of looks without an interval.
_UNKNOWN_MARKS: Any = {
    "marker": "o",
    "linestyle": "",
    "color": MUTED,
    "markerfacecolor": "white",
    "markersize": 5,
}
# Maximum number of ticks of looks in a panel.
_MAX_TICKS = 5
# Smallest range of the values that counts for the longest interval.
_MIN_RANGE = 0.05
# Factor of the longest shown interval, relative to the range of the values and of 1: intervals of
# few rows would otherwise hide the values.
_MAX_INTERVAL_RANGE = 4.0


@dataclass(frozen=True, eq=False)
class RelativeErrors:
    """Errors of one group over the looks, divided by its error at the fit.

    Attributes
    ----------
    looks : (t,) array
        Numbers of the looks.
    values : (t,) array
        NaN if the error at the fit is zero or unknown.
    low, high : (t,) arrays
        Limits of the change since the fit, plus one; NaN without an interval.
    is_alarm : (t,) array of bool
        Whether the error has risen.
    """

    looks: FloatArray
    values: FloatArray
    low: FloatArray
    high: FloatArray
    is_alarm: BoolArray


@dataclass(eq=False, repr=False)
class MonitorDisplay(BaseDisplay):
    """Plot the error of each group over the looks of a monitor, relative to its error at the fit.

    Create it with :meth:`from_history`, or with :meth:`History.plot`.

    Attributes
    ----------
    records : sequence of mappings
        Figures of each look and group, as in :meth:`History.frame`.
    level : float
        Level at which the intervals of all looks and groups hold jointly.
    """

    records: Sequence[Mapping[str, Any]]
    level: float

    @classmethod
    def from_history(cls, history: "History", *, ax: "Axes | None" = None) -> Self:
        """Plot the looks of a history.

        Parameters
        ----------
        history : History
            With at least one look.
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        MonitorDisplay

        Raises
        ------
        InvalidType
            Not a history.
        InvalidInput
            There is no look yet.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA, Monitor
        >>> from fairspan.displays import MonitorDisplay
        >>> rng = np.random.default_rng(0)
        >>> groups = np.array(["a", "b"] * 200)
        >>> months = [rng.standard_normal((400, 3)) for _ in range(3)]
        >>> monitor = Monitor(FairPCA(1).fit(months[0], sensitive_features=groups))
        >>> for number, X in enumerate(months[1:], start=1):
        ...     look = monitor.add(X, groups, date=f"2026-0{number}-28")
        >>> display = MonitorDisplay.from_history(monitor.history)
        >>> display.groups, display.relative_errors(0).values.shape
        (('a', 'b'), (2,))
        """
        return cls._compute_and_plot(ax, history)

    @classmethod
    def compute(cls, history: "History") -> Self:
        """Take the figures from a history; parameters and exceptions as for `from_history`."""
        from fairspan.monitoring.history import History

        if not isinstance(history, History):
            raise InvalidType(
                f"The history for {cls.__name__} is {describe_type(history)}",
                "Allowed: the history of a Monitor, or History.load(path)",
                "Pass monitor.history",
            )
        if not history.looks:
            raise InvalidInput(
                "The history has no look yet",
                "Allowed: at least one look",
                "Add rows with Monitor.add",
            )
        return cls(history.to_records(), history.level)

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups."""
        return distinct_names(self.records, "group")

    @cached_property
    def _group_labels(self) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(record["group"] for record in self.records))

    def relative_errors(self, g: int) -> RelativeErrors:
        """Return the errors of the g-th group over the looks."""
        records = self._records_of(g)
        errors = values_of(records, "error")
        errors_at_fit = errors - values_of(records, "drift")
        scale = np.where(errors_at_fit > 0, errors_at_fit, np.nan)
        return RelativeErrors(
            looks=values_of(records, "number"),
            values=errors / scale,
            low=1 + values_of(records, "drift_low") / scale,
            high=1 + values_of(records, "drift_high") / scale,
            is_alarm=np.array([bool(record["is_alarm"]) for record in records]),
        )

    def _records_of(self, g: int) -> list[Mapping[str, Any]]:
        label = self._group_labels[g]
        return [record for record in self.records if record["group"] == label]

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        return panel_figure_size(len(self.groups))

    def to_columns(self) -> Mapping[str, Sequence[object]]:
        """Columns with one row per look and group, errors in squared units."""
        names = ("number", "date", "group", "error", "drift", "drift_low", "drift_high", "is_alarm")
        return to_columns(self.records, *names)

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        from matplotlib.ticker import MaxNLocator

        k = len(self.groups)
        _, n_columns = grid_shape(k)
        panel_width = available_width(axes) / n_columns
        panels = named_panels(axes, self.groups, "look", _Y_LABEL)
        for g, panel in enumerate(panels):
            self._draw_group(panel, g)
        self._set_limits(panels[0])  # panels share their limits
        format_ticks(panels[0], width=panel_width)
        panels[0].xaxis.set_major_locator(MaxNLocator(_MAX_TICKS, integer=True))
        handles, labels = self._legend()
        note = (
            f"The {to_ascii(format_level(self.level))} intervals of all looks and groups hold "
            "jointly."
        )
        add_header(axes, _TITLE, handles, labels, note=note)
        return panels

    def _draw_group(self, panel: Axes, g: int) -> None:
        errors = self.relative_errors(g)
        panel.axhline(1, color=FOREGROUND, linewidth=0.8, zorder=1)
        panel.plot(errors.looks, errors.values, color=MUTED, linewidth=1, zorder=2)
        is_unknown = np.isnan(errors.low)
        panel.plot(errors.looks[is_unknown], errors.values[is_unknown], **_UNKNOWN_MARKS, zorder=3)
        is_calm = ~errors.is_alarm & ~is_unknown
        for color, marker, mask in ((BLUE, "o", is_calm), (VERMILION, "D", errors.is_alarm)):
            looks = errors.looks[mask]
            panel.vlines(
                looks, errors.low[mask], errors.high[mask], color=color, alpha=0.5, zorder=2
            )
            panel.plot(looks, errors.values[mask], marker, color=color, markersize=5, zorder=3)

    def _set_limits(self, panel: Axes) -> None:
        """Set limits that contain all values, and intervals unless they are very long."""
        errors_by_group = [self.relative_errors(g) for g in range(len(self.groups))]
        values = np.concatenate([[1.0], *(errors.values for errors in errors_by_group)])
        limits = np.concatenate(
            [limit for errors in errors_by_group for limit in (errors.low, errors.high)]
        )
        low = np.nanmin(values)
        high = np.nanmax(values)
        reach = _MAX_INTERVAL_RANGE * max(high - low, _MIN_RANGE)
        start = max(np.nanmin([low, *limits]), high - reach)
        end = min(np.nanmax([high, *limits]), low + reach)
        margin = _MARGIN_SHARE * (end - start)
        panel.set_ylim(max(start - margin, 0.0), end + margin)

    def _legend(self) -> tuple[list[Any], list[str]]:
        """Return handles and labels of looks without an alarm and with one, if there are any."""
        from matplotlib.lines import Line2D

        errors_by_group = [self.relative_errors(g) for g in range(len(self.groups))]
        has_alarm = any(errors.is_alarm.any() for errors in errors_by_group)
        has_unknown = any(np.isnan(errors.low).any() for errors in errors_by_group)
        handles = [Line2D([], [], color=BLUE, marker="o", linestyle="", markersize=5)]
        labels = ["not shown to have risen"]
        if has_alarm:
            handles.append(Line2D([], [], color=VERMILION, marker="D", linestyle="", markersize=5))
            labels.append("risen beyond chance")
        if has_unknown:
            handles.append(Line2D([], [], **_UNKNOWN_MARKS))
            labels.append("unknown: a few rows dominate")
        return handles, labels
