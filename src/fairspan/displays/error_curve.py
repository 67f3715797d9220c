"""The loss or error of each group by number of dimensions, with bands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from fairspan.displays.audit import INCONCLUSIVE, axis_limits
from fairspan.displays.base import BaseDisplay, describe_unproven
from fairspan.displays.records import (
    BEST_NAME,
    PCA_NAME,
    Quantity,
    Record,
    best_records,
    distinct_names,
    expected_records,
    fitted_moments,
    observed_records,
    open_display_rows,
    refit,
    to_columns,
    values_of,
)
from fairspan.displays.style import (
    BEST_STYLE,
    FAIR_STYLE,
    FOREGROUND,
    MUTED,
    PCA_STYLE,
    Axes,
    SeriesStyle,
    add_header,
    available_width,
    format_ticks,
    grid_shape,
    named_panels,
    panel_figure_size,
)
from fairspan.errors import InvalidParameter
from fairspan.formatting.text import format_level, plot_label, readable_name
from fairspan.problem.problem import check_n_components
from fairspan.progress import overall_progress, track
from fairspan.registry import check_bool, check_choice
from fairspan.typing import IntegerArray

_OBSERVED_LINE: dict[str, Any] = {"linestyle": ":", "linewidth": 1.4}
_BAND_ALPHA = 0.16
# Beyond this many dimensions the marks in a panel are smaller.
_MAX_LARGE_MARKERS = 12
# Beside what is known, the panels' common axis shows so little of what is not.
_MAX_UNCERTAIN_SHARE = 0.3
# As many dimensions as are shown by default.
_MAX_DIMENSIONS = 20
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
    """Plot the loss of each group on new rows, or its error, against the number of dimensions.

    Ordinary PCA is shown beside the estimator's criterion, refitted at each d. Make it with
    :meth:`from_estimator`.

    Attributes
    ----------
    records : sequence of mappings
        One for each model, dimension and group, with the names of :meth:`fairspan.Audit.to_records`
        and `status`, how each fit of the criterion ended. The models are "PCA", the criterion, and
        for errors "best possible". Intervals are each of one group at one dimension, and points
        with the state "inconclusive" are grey.
    quantity : {"observed_error", "observed_loss", "expected_error", "expected_loss"}
    marked : int or None
        The dimension that was chosen.
    show_observed : bool
        Whether the figures on these rows are shown beside the expected ones.
    level : float
        Level of the intervals.
    no_estimates_reason : str
        Why nothing is said of new rows, though rows were given.
    """

    records: Sequence[Record]
    quantity: str = "expected_loss"
    selected_dimension: int | None = None
    show_observed: bool = False
    level: float = 0.95
    no_estimates_reason: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        sensitive_features: Any = None,
        *,
        dimensions: Sequence[int] | None = None,
        quantity: Quantity = "loss",
        show_observed: bool = False,
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
        show_observed : bool
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
        settings = {"dimensions": dimensions, "quantity": quantity, "show_observed": show_observed}
        return cls._compute_and_plot(ax, estimator, X, sensitive_features, **settings)

    @classmethod
    @overall_progress(
        "computing the curve", fitting=15, fitting_again_without_each_part=60, reading=25
    )
    def compute(
        cls,
        estimator: Any,
        X: Any = None,
        sensitive_features: Any = None,
        *,
        dimensions: Sequence[int] | None = None,
        quantity: Quantity = "loss",
        show_observed: bool = False,
    ) -> Self:
        """What `from_estimator` draws, of the same parameters."""
        moments = fitted_moments(estimator, cls.__name__)
        check_choice("quantity", quantity, ("error", "loss"))
        check_bool("show_observed", show_observed)
        selected = estimator.subspace_.dimension
        shown = _select_dimensions(dimensions, selected, moments.n_features).tolist()
        rows = open_display_rows(estimator, X, sensitive_features, cls.__name__)
        fits = {
            d: estimator if d == selected else refit(estimator, n_components=d)
            for d in track("fitting", shown, "dimensions")
        }
        why, name, best_name = "", f"{quantity}_here", "observed_best_error"
        if rows is None:
            records = observed_records(estimator, fits, moments)
        else:
            records, why = expected_records(estimator, fits, rows)
            if not why:
                name, best_name = f"expected_{quantity}", "expected_best_error"
        if quantity == "error":
            plain = [record for record in records if record["model"] == PCA_NAME]
            records += best_records(plain, name, values_of(plain, best_name))
        return cls(
            records,
            name,
            selected,
            show_observed and name.startswith("expected"),
            no_estimates_reason=why,
        )

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The groups' names."""
        return distinct_names(self.records, "group")

    def records_of(self, model: str, g: int) -> list[Record]:
        """The records of a model and the g-th group, by number of dimensions."""
        k = len(self.groups)
        return [record for record in self.records if record["model"] == model][g::k]

    def figure_size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return panel_figure_size(len(self.groups))

    def to_columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each model, dimension and group; the ends of intervals where there are."""
        ends = [f"{self.quantity}{end}" for end in ("", "_low", "_high")]
        more = ["state"] if self._is_expected else []
        more += [self._observed_quantity] if self.show_observed else []
        return to_columns(self.records, "model", "n_components", "group", *ends, *more, "status")

    @property
    def _is_expected(self) -> bool:
        return self.quantity.startswith("expected")

    @property
    def _observed_quantity(self) -> str:
        """The figure on these rows beside the expected one."""
        return f"{self.quantity.removeprefix('expected_')}_here"

    def _styles(self) -> dict[str, SeriesStyle]:
        """The models, in the order in which they were fitted, and how each is drawn."""
        looks = {PCA_NAME: PCA_STYLE, BEST_NAME: BEST_STYLE}
        return {record["model"]: looks.get(record["model"], FAIR_STYLE) for record in self.records}

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        from matplotlib.ticker import MaxNLocator

        k, label = len(self.groups), _LABELS[self.quantity]
        drawn = named_panels(axes, self.groups, "dimensions", label)
        panel_width = available_width(axes) / grid_shape(k)[1]
        for i, panel in enumerate(drawn):
            if self.selected_dimension is not None:
                panel.axvline(
                    self.selected_dimension, color=MUTED, linewidth=1, zorder=0, gid=f"marked-{i}"
                )
        # New rows may be estimated at some dimensions alone: lines run through these. Elsewhere a
        # gap is where a criterion has no answer.
        values = np.array(
            [values_of(self.records_of(PCA_NAME, g), self.quantity) for g in range(k)]
        )
        known = ~np.isnan(values)
        estimated = known.any(axis=0) | (not self._is_expected)
        for g, panel in enumerate(drawn):
            for model, style in self._styles().items():
                self._draw_line(panel, model, style, g, estimated)
            # Nothing is expected of this group, though there are estimates of others.
            if known.any() and not known[g].any():
                text_style: dict[str, Any] = {
                    "transform": panel.transAxes,
                    "ha": "center",
                    "va": "top",
                }
                panel.text(0.5, 0.97, "too few rows", color=MUTED, **text_style)
                for line in panel.lines:  # those on the rows
                    line.set_color(MUTED)
        if self._is_expected:
            for panel in drawn:
                panel.axhline(0, color=FOREGROUND, linewidth=0.6, zorder=1)
            marks = [values_of(self.records, self.quantity)]
            marks += [values_of(self.records, self._observed_quantity)] * self.show_observed
            limits = axis_limits(
                self.records, self.quantity, np.concatenate(marks), _MAX_UNCERTAIN_SHARE
            )
            drawn[0].set_ylim(*limits)
        else:
            drawn[0].set_ylim(bottom=0)
        format_ticks(drawn[0], width=panel_width)  # all are of one scale
        drawn[0].xaxis.set_major_locator(
            MaxNLocator(nbins=min(max(int(panel_width / 25), 2), 7), integer=True, min_n_ticks=1)
        )
        legend = self._legend()
        add_header(axes, _TITLES[self.quantity], [*legend.values()], [*legend], note=self._note())
        return drawn

    def _draw_line(self, axes: Axes, model: str, style: SeriesStyle, g: int, shown: Any) -> None:
        """Draw one model's figures of a group, with bands, and those on the rows beside them."""
        records, colour = self.records_of(model, g), style.color
        fill = colour if style.is_filled else "white"
        if self.show_observed:
            d, here = (
                values_of(records, "n_components"),
                values_of(records, self._observed_quantity),
            )
            axes.plot(d, here, color=colour, zorder=1.8, **_OBSERVED_LINE)
        records = [record for record, is_shown in zip(records, shown, strict=True) if is_shown]
        names = ("n_components", *(f"{self.quantity}{end}" for end in ("", "_low", "_high")))
        d, values, low, high = (values_of(records, name) for name in names)
        marks: dict[str, Any] = {"marker": "" if style is BEST_STYLE else style.marker}
        marks["markersize"] = 5.5 if len(d) <= _MAX_LARGE_MARKERS else 4
        line: dict[str, Any] = {"linestyle": style.line, "gid": f"{model}-{g}"}
        zorder = 3 if style is FAIR_STYLE else 2.5
        axes.plot(d, values, color=colour, markerfacecolor=fill, zorder=zorder, **line, **marks)
        is_inconclusive = np.array(
            [record.get("state") == INCONCLUSIVE for record in records], dtype=bool
        )
        is_inconclusive &= self._is_expected
        if is_inconclusive.any():
            at, fill = (
                (d[is_inconclusive], values[is_inconclusive]),
                MUTED if style.is_filled else "white",
            )
            axes.plot(*at, color=MUTED, markerfacecolor=fill, linestyle="", zorder=3.5, **marks)
        known = ~np.isnan(low)
        if known.sum() == 1:  # a band of no width is not seen
            color = MUTED if is_inconclusive[known].any() else colour
            axes.vlines(d, low, high, color=color, linewidth=1.6)
        if known.any():
            axes.fill_between(d, low, high, color=colour, alpha=_BAND_ALPHA, linewidth=0)

    def _legend(self) -> dict[str, Any]:
        """What each mark means."""
        from matplotlib.lines import Line2D

        values = {}
        for model, style in self._styles().items():
            line = Line2D([], [], color=style.color, linestyle=style.line)
            line.set_markerfacecolor(style.color if style.is_filled else "white")
            line.set_marker("" if style is BEST_STYLE else style.marker)
            values[plot_label(readable_name(model))] = line
        if self.show_observed:
            values["on these rows"] = Line2D([], [], color=FOREGROUND, **_OBSERVED_LINE)
        if self.selected_dimension is not None:
            values[f"chosen: {self.selected_dimension}"] = Line2D([], [], color=MUTED, linewidth=1)
        return values

    def _note(self) -> str:
        each_of = ", for all groups at once, at one d" if self._is_expected else ""
        intervals = f"Bands are {format_level(self.level)} confidence intervals{each_of}."
        note = "" if np.isnan(values_of(self.records, f"{self.quantity}_low")).all() else intervals
        if self._is_expected and INCONCLUSIVE in {record.get("state") for record in self.records}:
            note += " Grey: too uncertain to tell."
        if self.no_estimates_reason:
            note = f"Figures on the rows: no estimates for new ones ({self.no_estimates_reason})."
        # One status for each fit of the criterion.
        answers = describe_unproven(
            [each.get("status") for each in self.records[:: len(self.groups)]]
        )
        return f"{note} {answers}".strip()


def _select_dimensions(
    requested: Sequence[int] | None, selected: int, n_features: int
) -> IntegerArray:
    if requested is not None:
        if not len(requested):
            raise InvalidParameter(
                "dimensions is empty",
                f"Allowed: whole numbers from 1 to {n_features}",
                "Leave it out to see the smallest",
            )
        for d in requested:
            check_n_components(d, n_features)
        return np.unique(np.asarray(requested, dtype=np.int64))
    largest = min(n_features, max(_MAX_DIMENSIONS, 2 * selected))
    return np.union1d(
        np.round(np.linspace(1, largest, min(largest, _MAX_DIMENSIONS))).astype(np.int64),
        [selected],
    )
