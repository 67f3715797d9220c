"""The loss or error of each group by number of dimensions, with bands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from fairspan.displays.base import Picture, unproven
from fairspan.displays.fitted import (
    BEST_NAME,
    PLAIN_NAME,
    Quantity,
    Record,
    best_possible,
    column,
    columns_of,
    moments_of_fit,
    names_in,
    records_here,
    records_on_new_rows,
    refitted,
    rows_for,
)
from fairspan.displays.groups import CANNOT_TELL, shown_range
from fairspan.displays.style import (
    BEST,
    FAINT,
    FAIR,
    INK,
    PLAIN,
    Axes,
    Look,
    add_header,
    grid_of,
    panelled_size,
    panels_of,
    width_of,
    write_numbers,
)
from fairspan.errors import InvalidParameter
from fairspan.formatting.text import label_of, percent, spoken
from fairspan.problem.problem import check_n_components
from fairspan.progress import track, whole
from fairspan.registry import check_choice, check_flag
from fairspan.typing import IntegerArray

_ON_ROWS: dict[str, Any] = {"linestyle": ":", "linewidth": 1.4}
_BAND = 0.16
# Beyond this many dimensions the marks in a panel are smaller.
_MOST_MARKED = 12
# Beside what is known, the panels' common axis shows so little of what is not.
_BEYOND = 0.3
# As many dimensions as are shown by default.
_MOST = 20
_TITLES = {
    "error_here": "Error of each group, by number of dimensions",
    "loss_here": "Excess loss of each group, by number of dimensions",
    "expected_error": "Expected error of each group on new rows, by number of dimensions",
    "expected_loss": "Expected loss of each group on new rows, by number of dimensions",
}
_LABELS = {
    "error_here": "reconstruction error",
    "loss_here": "excess loss",
    "expected_error": "expected error",
    "expected_loss": "expected loss",
}


@dataclass(eq=False, repr=False)
class ErrorCurveDisplay(Picture):
    """Plot the loss of each group on new rows, or its error, against the number of dimensions.

    Ordinary PCA is shown beside the estimator's criterion, refitted at each d. Make it with
    :meth:`from_estimator`.

    Attributes
    ----------
    records : sequence of mappings
        One for each model, dimension and group, with the names of :meth:`fairspan.Audit.records`
        and `status`, how each fit of the criterion ended. The models are "PCA", the criterion, and
        for errors "best possible". Intervals are each of one group at one dimension, and points
        with the state "cannot tell" are grey.
    quantity : {"error_here", "loss_here", "expected_error", "expected_loss"}
    marked : int or None
        The dimension that was chosen.
    on_rows : bool
        Whether the figures on these rows are shown beside the expected ones.
    level : float
        Level of the intervals.
    why_on_rows : str
        Why nothing is said of new rows, though rows were given.
    """

    records: Sequence[Record]
    quantity: str = "expected_loss"
    marked: int | None = None
    on_rows: bool = False
    level: float = 0.95
    why_on_rows: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        sensitive_features: Any = None,
        *,
        dimensions: Sequence[int] | None = None,
        quantity: Quantity = "loss",
        on_rows: bool = False,
        ax: Any = None,
    ) -> Self:
        """Fit PCA and the estimator's criterion at every dimension, and draw what they do.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        X : (n, p) table of finite numbers, optional
            Rows of the fit or held-out rows, as `FairPCA.fit` takes them. They give estimates for
            new rows, with intervals, as in :func:`fairspan.audit`, in two passes for all
            dimensions. Without them, the figures are those on the rows that the estimator was
            fitted on, where a group of few rows seems to lose more than it does.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        dimensions : sequence of int, optional
            By default from 1 to 20, or up to twice the estimator's own in 20 steps.
        quantity : {"loss", "error"}
            e_g - e*_g, what the group loses against its own best subspace; or e_g.
        on_rows : bool
            Show the figures on the rows as well.
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

        Returns
        -------
        ErrorCurveDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidParameter
            A dimension that the features do not have, another quantity, or settings of the
            estimator that were changed after it was fitted.
        InvalidInput
            Rows without groups, or of other features.
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
        >>> [round(record["loss_here"], 2) for record in display.records[:2]]
        [0.0, 4.0]
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.standard_normal((200, 3)) * [3, 2, 1]
        >>> groups = ["a", "b"] * 100
        >>> fair = FairPCA(1).fit(rows, sensitive_features=groups)
        >>> display = ErrorCurveDisplay.from_estimator(fair, rows, groups, on_rows=True)
        >>> display.quantity, display.records[0]["state"]
        ('expected_loss', 'not shown')
        """
        settings = {"dimensions": dimensions, "quantity": quantity, "on_rows": on_rows}
        return cls._drawn(ax, estimator, X, sensitive_features, **settings)

    @classmethod
    @whole("computing the curve", fitting=15, fitting_again_without_each_part=60, reading=25)
    def undrawn(
        cls,
        estimator: Any,
        X: Any = None,
        sensitive_features: Any = None,
        *,
        dimensions: Sequence[int] | None = None,
        quantity: Quantity = "loss",
        on_rows: bool = False,
    ) -> Self:
        """What `from_estimator` draws, of the same parameters."""
        moments = moments_of_fit(estimator, cls.__name__)
        check_choice("quantity", quantity, ("error", "loss"))
        check_flag("on_rows", on_rows)
        own = estimator.subspace_.dimension
        shown = _dimensions(dimensions, own, moments.n_features).tolist()
        rows = rows_for(estimator, X, sensitive_features, cls.__name__)
        fits = {
            d: estimator if d == own else refitted(estimator, n_components=d)
            for d in track("fitting", shown, "dimensions")
        }
        why, name, best = "", f"{quantity}_here", "best_error_here"
        if rows is None:
            records = records_here(estimator, fits, moments)
        else:
            records, why = records_on_new_rows(estimator, fits, rows)
            if not why:
                name, best = f"expected_{quantity}", "expected_best_error"
        if quantity == "error":
            plain = [record for record in records if record["model"] == PLAIN_NAME]
            records += best_possible(plain, name, column(plain, best))
        return cls(records, name, own, on_rows and name.startswith("expected"), why_on_rows=why)

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The groups' names."""
        return names_in(self.records, "group")

    def of(self, model: str, g: int) -> list[Record]:
        """The records of a model and the g-th group, by number of dimensions."""
        k = len(self.groups)
        return [record for record in self.records if record["model"] == model][g::k]

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return panelled_size(len(self.groups))

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each model, dimension and group; the ends of intervals where there are."""
        ends = [f"{self.quantity}{end}" for end in ("", "_low", "_high")]
        more = ["state"] if self._is_expected else []
        more += [self._here] if self.on_rows else []
        return columns_of(self.records, "model", "n_components", "group", *ends, *more, "status")

    @property
    def _is_expected(self) -> bool:
        return self.quantity.startswith("expected")

    @property
    def _here(self) -> str:
        """The figure on these rows beside the expected one."""
        return f"{self.quantity.removeprefix('expected_')}_here"

    def _looks(self) -> dict[str, Look]:
        """The models, in the order in which they were fitted, and how each is drawn."""
        looks = {PLAIN_NAME: PLAIN, BEST_NAME: BEST}
        return {record["model"]: looks.get(record["model"], FAIR) for record in self.records}

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        from matplotlib.ticker import MaxNLocator

        k, label = len(self.groups), _LABELS[self.quantity]
        drawn = panels_of(axes, self.groups, "dimensions", label)
        room = width_of(axes) / grid_of(k)[1]
        for i, panel in enumerate(drawn):
            if self.marked is not None:
                panel.axvline(self.marked, color=FAINT, linewidth=1, zorder=0, gid=f"marked-{i}")
        # New rows may be estimated at some dimensions alone: lines run through these. Elsewhere a
        # gap is where a criterion has no answer.
        values = np.array([column(self.of(PLAIN_NAME, g), self.quantity) for g in range(k)])
        known = ~np.isnan(values)
        estimated = known.any(axis=0) | (not self._is_expected)
        for g, panel in enumerate(drawn):
            for model, style in self._looks().items():
                self._draw_line(panel, model, style, g, estimated)
            # Nothing is expected of this group, though there are estimates of others.
            if known.any() and not known[g].any():
                where: dict[str, Any] = {"transform": panel.transAxes, "ha": "center", "va": "top"}
                panel.text(0.5, 0.97, "too few rows", color=FAINT, **where)
                for line in panel.lines:  # those on the rows
                    line.set_color(FAINT)
        if self._is_expected:
            for panel in drawn:
                panel.axhline(0, color=INK, linewidth=0.6, zorder=1)
            marks = [column(self.records, self.quantity)]
            marks += [column(self.records, self._here)] * self.on_rows
            limits = shown_range(self.records, self.quantity, np.concatenate(marks), _BEYOND)
            drawn[0].set_ylim(*limits)
        else:
            drawn[0].set_ylim(bottom=0)
        write_numbers(drawn[0], room=room)  # all are of one scale
        drawn[0].xaxis.set_major_locator(
            MaxNLocator(nbins=min(max(int(room / 25), 2), 7), integer=True, min_n_ticks=1)
        )
        legend = self._legend()
        add_header(axes, _TITLES[self.quantity], [*legend.values()], [*legend], note=self._note())
        return drawn

    def _draw_line(self, axes: Axes, model: str, style: Look, g: int, shown: Any) -> None:
        """Draw one model's figures of a group, with bands, and those on the rows beside them."""
        records, colour = self.of(model, g), style.colour
        fill = colour if style.is_filled else "white"
        if self.on_rows:
            d, here = column(records, "n_components"), column(records, self._here)
            axes.plot(d, here, color=colour, zorder=1.8, **_ON_ROWS)
        records = [record for record, is_shown in zip(records, shown, strict=True) if is_shown]
        names = ("n_components", *(f"{self.quantity}{end}" for end in ("", "_low", "_high")))
        d, values, low, high = (column(records, name) for name in names)
        marks: dict[str, Any] = {"marker": "" if style is BEST else style.marker}
        marks["markersize"] = 5.5 if len(d) <= _MOST_MARKED else 4
        line: dict[str, Any] = {"linestyle": style.line, "gid": f"{model}-{g}"}
        order = 3 if style is FAIR else 2.5
        axes.plot(d, values, color=colour, markerfacecolor=fill, zorder=order, **line, **marks)
        unknown = np.array([record.get("state") == CANNOT_TELL for record in records], dtype=bool)
        unknown &= self._is_expected
        if unknown.any():
            at, fill = (d[unknown], values[unknown]), FAINT if style.is_filled else "white"
            axes.plot(*at, color=FAINT, markerfacecolor=fill, linestyle="", zorder=3.5, **marks)
        known = ~np.isnan(low)
        if known.sum() == 1:  # a band of no width is not seen
            shade = FAINT if unknown[known].any() else colour
            axes.vlines(d, low, high, color=shade, linewidth=1.6)
        if known.any():
            axes.fill_between(d, low, high, color=colour, alpha=_BAND, linewidth=0)

    def _legend(self) -> dict[str, Any]:
        """What each mark means."""
        from matplotlib.lines import Line2D

        marks = {}
        for model, style in self._looks().items():
            line = Line2D([], [], color=style.colour, linestyle=style.line)
            line.set_markerfacecolor(style.colour if style.is_filled else "white")
            line.set_marker("" if style is BEST else style.marker)
            marks[label_of(spoken(model))] = line
        if self.on_rows:
            marks["on these rows"] = Line2D([], [], color=INK, **_ON_ROWS)
        if self.marked is not None:
            marks[f"chosen: {self.marked}"] = Line2D([], [], color=FAINT, linewidth=1)
        return marks

    def _note(self) -> str:
        each_of = ", for all groups at once, at one d" if self._is_expected else ""
        intervals = f"Bands are {percent(self.level)} confidence intervals{each_of}."
        bands = "" if np.isnan(column(self.records, f"{self.quantity}_low")).all() else intervals
        if self._is_expected and CANNOT_TELL in {record.get("state") for record in self.records}:
            bands += " Grey: too uncertain to tell."
        if self.why_on_rows:
            bands = f"Figures on the rows: no estimates for new ones ({self.why_on_rows})."
        # One status for each fit of the criterion.
        answers = unproven([each.get("status") for each in self.records[:: len(self.groups)]])
        return f"{bands} {answers}".strip()


def _dimensions(asked: Sequence[int] | None, own: int, n_features: int) -> IntegerArray:
    if asked is not None:
        if not len(asked):
            raise InvalidParameter(
                "dimensions is empty",
                f"Allowed: whole numbers from 1 to {n_features}",
                "Leave it out to see the smallest",
            )
        for d in asked:
            check_n_components(d, n_features)
        return np.unique(np.asarray(asked, dtype=np.int64))
    top = min(n_features, max(_MOST, 2 * own))
    return np.union1d(np.round(np.linspace(1, top, min(top, _MOST))).astype(np.int64), [own])
