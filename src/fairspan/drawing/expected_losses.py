"""Picture of the groups' expected losses: intervals, and the groups that are too uncertain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.drawing.by_group import AuditPicture
from fairspan.drawing.labels import (
    FAINT,
    INK,
    PLAIN,
    head,
    labels_within,
    other_look,
    set_rows,
    width_of,
)
from fairspan.drawing.layout import plain_numbers
from fairspan.formatting.numbers import percent
from fairspan.typing import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CANNOT_TELL = "cannot tell"
# Share of a row that its models take.
_SPREAD = 0.66
# Beside what is known the axis shows so many times its width of what is not.
_BEYOND = 3.0


@dataclass(eq=False)
class ExpectedLossPicture(AuditPicture):
    """The loss that each group has to expect on new rows, under every model.

    Groups with the state "cannot tell" are grey, and their intervals may leave the axes.

    Attributes
    ----------
    states : tuple of m tuples of k str or None
        What may be said of each loss; None where nothing was estimated.
    level : float
        Of the intervals, which are those of one group.
    on_rows : (m, k) array or None
        Losses on the rows, as lines across.
    """

    states: tuple[tuple[str | None, ...], ...] = ()
    level: float = 0.95
    on_rows: FloatArray | None = None

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each model and group."""
        states = [state for row in self.states for state in row]
        columns: dict[str, Sequence[Any]] = {**super().columns(), "state": states}
        if self.on_rows is not None:
            columns["loss on the rows"] = self.on_rows.ravel().tolist()
        return columns

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        start, end = self._limits()
        axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
        handles = [self._draw_losses(axes, i, start, end) for i in range(len(self.models))]
        names = list(self.models)
        if self.on_rows is not None:
            handles.append(_draw_on_rows(axes, self.on_rows))
            names.append("on these rows")
        axes.set_xlim(start, end)
        for row in self._rows_of_too_few():
            axes.text(0, row, " too few rows", color=FAINT, fontsize=10, va="center")
        plain_numbers((axes,), "x")
        axes.set_xlabel("expected loss on new rows")
        beside = set_rows(axes, self.groups)
        labels = labels_within(axes, names, width_of(axes) / 2.5, 10)
        title = "Expected loss of each group on new rows"
        head(axes, title, handles, labels, note=self._note(), beside=beside)
        return (axes,)

    def _draw_losses(self, axes: Axes, i: int, start: float, end: float) -> Any:
        """Marks with intervals; an arrow at the edge if an interval continues beyond it."""
        m, is_plain = len(self.models), i in self.plain
        own = PLAIN if is_plain else other_look(i - sum(each < i for each in self.plain))
        assert self.low is not None
        assert self.high is not None
        for g, state in enumerate(self.states[i]):
            value = float(self.values[i, g])
            if np.isnan(value):
                continue
            low, high = float(self.low[i, g]), float(self.high[i, g])
            row = _row_of(g, i, m)
            colour = FAINT if state == CANNOT_TELL else own.colour
            axes.hlines(row, max(low, start), min(high, end), color=colour, linewidth=2)
            for edge, arrow, leaves in ((start, "<", low < start), (end, ">", high > end)):
                if leaves:
                    axes.plot(edge, row, arrow, color=colour, markersize=6, clip_on=False)
            _mark(axes, value, row, own.marker, colour, is_filled=not is_plain)
        # The legend shows the model as it is drawn where something is known.
        return _mark(axes, np.nan, np.nan, own.marker, own.colour, is_filled=not is_plain)

    def _limits(self) -> tuple[float, float]:
        """Ends of the axis: all marks and informative intervals, and little more of the others."""
        assert self.low is not None
        assert self.high is not None
        told = np.array([[state != CANNOT_TELL for state in row] for row in self.states])
        start, end = shown_range(self.low.ravel(), self.high.ravel(), told.ravel())
        marks = self.values if self.on_rows is None else np.concatenate([self.values, self.on_rows])
        if not np.isnan(marks).all():
            margin = 0.04 * (end - start)
            start = min(start, float(np.nanmin(marks)) - margin)
            end = max(end, float(np.nanmax(marks)) + margin)
        return start, end

    def _rows_of_too_few(self) -> list[int]:
        """Groups of which no model has an estimate, though there are estimates of others."""
        unknown = np.isnan(self.values)
        return [
            g
            for g in range(len(self.groups))
            if unknown[:, g].all() and any(row[g] == CANNOT_TELL for row in self.states)
        ]

    def _note(self) -> str:
        assert self.low is not None
        assert self.high is not None
        lines = f"Lines are {percent(self.level)} confidence intervals, each for one group."
        if any(state == CANNOT_TELL for row in self.states for state in row):
            lines += " Grey: too uncertain to tell."
        start, end = self._limits()
        if np.nanmin(self.low) < start or np.nanmax(self.high) > end:
            lines += " Arrow: the interval continues outside the picture."
        return lines


def _row_of(group: int, model: int, n_models: int) -> float:
    """Where a model stands among those of a group."""
    return group + (model - (n_models - 1) / 2) * _SPREAD / n_models


def _draw_on_rows(axes: Axes, values: FloatArray) -> Any:
    """Short lines across, which no mark hides."""
    m, k = values.shape
    rows = [_row_of(g, i, m) for i in range(m) for g in range(k)]
    (marks,) = axes.plot(values.ravel(), rows, "|", color=INK, markersize=11, zorder=3.5)
    return marks


def shown_range(
    low: FloatArray, high: FloatArray, told: BoolArray, most_beyond: float = _BEYOND
) -> tuple[float, float]:
    """Ends of an axis with zero: all informative intervals, and little more of the others.

    Parameters
    ----------
    low, high : (n,) arrays
        NaN where there is no interval.
    told : (n,) array of bool
        Which of them are informative.
    most_beyond : float
        How much more of others is shown, as a share of what these take.
    """
    known = ~(np.isnan(low) | np.isnan(high))
    if not known.any():
        return -0.05, 1.0
    start, end = min(float(low[known].min()), 0.0), max(float(high[known].max()), 0.0)
    told = told & known
    if told.any():
        first, last = min(float(low[told].min()), 0.0), max(float(high[told].max()), 0.0)
        beyond = most_beyond * (last - first)
        start, end = max(start, first - beyond), min(end, last + beyond)
    margin = 0.04 * (end - start) or 1.0
    return start - margin, end + margin


def _mark(
    axes: Axes, value: float, row: float, marker: str, colour: str, *, is_filled: bool
) -> Any:
    (mark,) = axes.plot(
        value,
        row,
        marker,
        color=colour,
        markerfacecolor=colour if is_filled else "white",
        markersize=6.5 if is_filled else 7.5,
        markeredgewidth=1 if is_filled else 2,
    )
    return mark
