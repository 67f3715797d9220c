"""Pictures of what groups lose: expected on new rows, or on these rows with the proven bound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.drawing.by_group import AuditPicture
from fairspan.drawing.labels import (
    FAINT,
    FAIR,
    INK,
    PLAIN,
    Axes,
    head,
    labels_within,
    other_look,
    rows_size,
    set_rows,
    width_of,
)
from fairspan.drawing.layout import plain_numbers
from fairspan.drawing.picture import Picture
from fairspan.formatting.text import axis_number, label_of, percent, spoken
from fairspan.typing import BoolArray, FloatArray

CANNOT_TELL = "cannot tell"
# Share of a row that its models take.
_SPREAD = 0.66
# Beside what is known the axis shows so many times its width of what is not.
_BEYOND = 3.0
# Inches of a row; share of it that each bar takes.
_LOSS_ROW, _BAR = 0.46, 0.38


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

    low: FloatArray
    high: FloatArray
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
        has_grey = any(CANNOT_TELL in row for row in self.states)
        start, end = self._limits()
        has_arrow = np.nanmin(self.low) < start or np.nanmax(self.high) > end
        return (
            f"Lines are {percent(self.level)} confidence intervals, each for one group."
            f"{' Grey: too uncertain to tell.' if has_grey else ''}"
            f"{' Arrow: the interval continues outside the picture.' if has_arrow else ''}"
        )


def _row_of(group: int, model: int, n_models: int) -> float:
    """Where a model stands among those of a group."""
    return group + (model - (n_models - 1) / 2) * _SPREAD / n_models


def _draw_on_rows(axes: Axes, values: FloatArray) -> Any:
    """Short lines across, which no mark hides."""
    rows = [_row_of(g, i, len(values)) for i, g in np.ndindex(*values.shape)]
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


@dataclass(eq=False)
class GroupLossPicture(Picture):
    """What each group loses against its own best subspace, under PCA and a criterion.

    Attributes
    ----------
    groups : tuple of k str
    plain, fair : (k,) arrays
        Losses under ordinary PCA and under the criterion: those expected on new rows, or excess
        losses on the rows of the fit. NaN if there are too few rows.
    n_components : int
    name : str
        The criterion's.
    bound : float or None
        No subspace has a smaller largest loss; None where the criterion proves no such thing.
    status : str
        How the fit ended: "optimal", "estimated", "open gap" or "unresolved".
    plain_interval, fair_interval : (k, 2) arrays or None
        Ends of the intervals of expected losses.
    plain_states, fair_states : tuples of k str or None
        What may be said of expected losses.
    plain_on_rows, fair_on_rows : (k,) arrays or None
        Excess losses on the rows, beside those that are expected.
    level : float
        Of the intervals, each of one group.
    """

    groups: tuple[str, ...]
    plain: FloatArray
    fair: FloatArray
    n_components: int
    name: str = "fair"
    bound: float | None = None
    status: str = "optimal"
    plain_interval: FloatArray | None = None
    fair_interval: FloatArray | None = None
    plain_states: tuple[str | None, ...] = ()
    fair_states: tuple[str | None, ...] = ()
    plain_on_rows: FloatArray | None = None
    fair_on_rows: FloatArray | None = None
    level: float = 0.95

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return rows_size(self.groups, _LOSS_ROW)

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each group; the bound is the same in all."""
        columns: dict[str, Sequence[Any]] = {
            "group": list(self.groups),
            "PCA": self.plain.tolist(),
            self.name: self.fair.tolist(),
            "bound": [np.nan if self.bound is None else self.bound] * len(self.groups),
        }
        for name, interval, states, on_rows in (
            ("PCA", self.plain_interval, self.plain_states, self.plain_on_rows),
            (self.name, self.fair_interval, self.fair_states, self.fair_on_rows),
        ):
            if interval is not None:
                columns[f"{name} low"], columns[f"{name} high"] = interval.T.tolist()
                columns[f"{name} state"] = list(states)
            if on_rows is not None:
                columns[f"{name} on the rows"] = on_rows.tolist()
        return columns

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        if self.plain_interval is not None and self.fair_interval is not None:
            return self._draw_expected(axes, self.plain_interval, self.fair_interval)
        rows = np.arange(len(self.groups))
        plain = axes.barh(
            rows - _BAR / 2,
            self.plain,
            _BAR,
            facecolor="white",
            edgecolor=PLAIN.colour,
            hatch=PLAIN.hatch,
        )
        fair = axes.barh(
            rows + _BAR / 2, self.fair, _BAR, facecolor=FAIR.colour, edgecolor=FAIR.colour
        )
        handles: list[Any] = [plain, fair]
        labels = ["PCA", label_of(spoken(self.name))]
        if self.bound is not None:
            handles.append(axes.axvline(self.bound, color=INK, linewidth=1.6, gid="bound"))
            labels.append(
                "proven lower bound" if self.status != "estimated" else "estimated lower bound"
            )
        axes.set_xlabel("excess loss of the group")
        beside = set_rows(axes, self.groups)
        axes.set_xlim(left=0)
        plain_numbers((axes,), "x")
        d = self.n_components
        own = "its own best dimension" if d == 1 else f"its own best {d} dimensions"
        title = f"Loss of each group against {own}"
        head(axes, title, handles, labels, note=self._note(), beside=beside)
        return (axes,)

    def _draw_expected(
        self, axes: Axes, plain_interval: FloatArray, fair_interval: FloatArray
    ) -> Sequence[Axes]:
        """The losses of new rows as an audit shows them, with those on the rows as lines across."""
        low, high = np.moveaxis(np.array([plain_interval, fair_interval]), 2, 0)
        has_both = self.plain_on_rows is not None and self.fair_on_rows is not None
        on_rows = np.array([self.plain_on_rows, self.fair_on_rows]) if has_both else None
        picture = ExpectedLossPicture(
            groups=self.groups,
            models=("PCA", label_of(spoken(self.name))),
            values=np.array([self.plain, self.fair]),
            low=low,
            high=high,
            plain=(0,),
            quantity="expected loss",
            states=(self.plain_states, self.fair_states),
            level=self.level,
            on_rows=on_rows,
        )
        return picture.plot(axes).axes_

    def _note(self) -> str:
        """What is proven of the largest loss."""
        name = label_of(spoken(self.name))
        if self.bound is None:
            return f"{name} minimises another quantity, so it gives no bound on the largest loss."
        if self.status == "optimal":
            return f"Proven: no subspace has a smaller largest loss than that of {name}."
        if self.status == "estimated":
            return "The lower bound is an estimate: it depends on eigenvectors found by iteration."
        if self.status == "unresolved":
            return "The gap to the lower bound is within the rounding error of these data."
        above = axis_number(float(f"{self.fair.max() - self.bound:.3g}"))
        return f"Open gap: a largest loss that is smaller by up to {above} is not ruled out."
