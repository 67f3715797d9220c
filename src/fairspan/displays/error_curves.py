"""The loss or error of each group by number of dimensions, with bands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from fairspan.auditing.results import column_of
from fairspan.displays.fitted import (
    Quantity,
    audited_beside_pca,
    criterion_name,
    estimates_of,
    moments_of_fit,
    names_of,
    plain_of_fit,
    refitted,
    rows_for,
    status_of,
    without_rounding,
)
from fairspan.drawing.layout import (
    BEST,
    FAINT,
    FAIR,
    INK,
    PLAIN,
    Axes,
    Look,
    head,
    label_bounds,
    labels_within,
    look,
    panelled_size,
    panels,
    plain_numbers,
    width_of,
)
from fairspan.drawing.pictures import (
    Estimates,
    Picture,
    columns_of,
    shown_range,
    together,
    unproven,
)
from fairspan.errors import InvalidParameter
from fairspan.formatting.text import label_of, percent, spoken
from fairspan.metrics import GroupFigures, group_figures
from fairspan.model.subspace import FairSubspace
from fairspan.moments.of_rows import Moments
from fairspan.problem.problem import check_n_components
from fairspan.registry import check_choice, check_flag
from fairspan.rows.protocol import Rows
from fairspan.typing import BoolArray, FloatArray, IntegerArray

ON_ROWS: dict[str, Any] = {"linestyle": ":", "linewidth": 1.4}
_BAND = 0.16
# Beyond this many dimensions the marks in a panel are smaller.
_MOST_MARKED = 12
# Beyond this many groups each has a panel: its lines and bands are then still told apart.
_MOST_TOGETHER = 2
# Beside what is known, the panels' common axis shows so little of what is not.
_BEYOND = 0.3
# As many dimensions as are shown by default.
_MOST = 20
_TITLES = {
    "error": "Error of each group, by number of dimensions",
    "loss": "Excess loss of each group, by number of dimensions",
    "expected error": "Expected error of each group on new rows, by number of dimensions",
    "expected loss": "Expected loss of each group on new rows, by number of dimensions",
}
_LABELS = {
    "error": "reconstruction error",
    "loss": "excess loss",
    "expected error": "expected error",
    "expected loss": "expected loss",
}


class ErrorLine(NamedTuple):
    """One line in each panel, which `key` and the group's position identify."""

    key: str
    name: str
    estimates: Estimates
    style: Look


@dataclass(eq=False)
class ErrorCurveDisplay(Picture):
    """Plot the loss of each group on new rows, or its error, against the number of dimensions.

    Ordinary PCA is shown beside the estimator's criterion, refitted at each d. Make it with
    :meth:`from_estimator`.

    Attributes
    ----------
    dimensions : (m,) array of int
        Rising.
    groups : tuple of k str
    plain, fair : Estimates of (m, k) arrays
        Of ordinary PCA, and of the criterion; NaN where no subspace answers it, or where too little
        is known of new rows. Intervals are each of one group at one dimension, and points with the
        state "cannot tell" are grey.
    name : str
        The criterion's.
    best : (m, k) array or None
        The least that any subspace leaves of each group alone.
    marked : int or None
        The dimension that was chosen.
    quantity : {"error", "loss", "expected error", "expected loss"}
        The last two are those of new rows.
    statuses : sequence of m str, or None
        How each fit of the criterion ended, "no answer" where there is none.
    level : float
        Level of the intervals.
    why_on_rows : str
        Why nothing is said of new rows, though rows were given.
    """

    dimensions: IntegerArray
    groups: tuple[str, ...]
    plain: Estimates
    fair: Estimates
    name: str = "fair"
    best: FloatArray | None = None
    marked: int | None = None
    quantity: Literal["error", "loss", "expected error", "expected loss"] = "error"
    statuses: Sequence[str] | None = None
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
    ) -> Self:
        """Fit PCA and the estimator's criterion at every dimension.

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
        >>> display.dimensions, display.plain.values[0], display.fair.values[0].round(2)
        (array([1, 2, 3]), array([0., 4.]), array([2.77, 2.77]))
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.standard_normal((200, 3)) * [3, 2, 1]
        >>> groups = ["a", "b"] * 100
        >>> fair = FairPCA(1).fit(rows, sensitive_features=groups)
        >>> display = ErrorCurveDisplay.from_estimator(fair, rows, groups, on_rows=True)
        >>> display.quantity, display.plain.states[0]
        ('expected loss', array(['not shown', 'not shown'], dtype=object))
        """
        moments = moments_of_fit(estimator, cls.__name__)
        check_choice("quantity", quantity, ("error", "loss"))
        check_flag("on_rows", on_rows)
        own = estimator.subspace_.dimension
        shown = _dimensions(dimensions, own, moments.n_features)
        rows = (
            None
            if X is None and sensitive_features is None
            else rows_for(estimator, X, sensitive_features, cls.__name__)
        )
        fits = [estimator if d == own else refitted(estimator, n_components=int(d)) for d in shown]
        plain = [plain_of_fit(estimator, int(d)) for d in shown]
        figures = (
            _on_rows(plain, fits, moments, quantity)
            if rows is None
            else _expected(estimator, plain, fits, rows, quantity, on_rows=on_rows)
        )
        return cls(
            dimensions=shown,
            name=criterion_name(estimator),
            marked=own,
            statuses=tuple(map(status_of, fits)),
            **figures,
        )

    @property
    def is_expected(self) -> bool:
        """Whether these are figures of new rows."""
        return self.quantity.startswith("expected")

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return (6.6, 4.8) if self._together else panelled_size(len(self.groups))

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each model, dimension and group; the ends of intervals where there are."""
        models, k = self._models(), len(self.groups)
        none = [None] * len(self.dimensions)
        told = [self.statuses or none if each.style is FAIR else none for each in models]
        columns = columns_of(together(each.estimates for each in models), self.quantity)
        return {
            "model": [each.name for each in models for _ in range(len(none) * k)],
            "n_components": self.dimensions.repeat(k).tolist() * len(models),
            "group": list(self.groups) * (len(none) * len(models)),
            **columns,
            "status": [status for each in told for status in each for _ in range(k)],
        }

    @property
    def _has_on_rows(self) -> bool:
        return not np.isnan(self.plain.on_rows).all()

    @property
    def _together(self) -> bool:
        return len(self.groups) <= _MOST_TOGETHER and not self._has_on_rows

    def _models(self) -> list[ErrorLine]:
        models = [
            ErrorLine("plain", "PCA", self.plain, PLAIN),
            ErrorLine("fair", self.name, self.fair, FAIR),
        ]
        if self.best is not None:
            models.append(ErrorLine("best", "best possible", Estimates.of(self.best), BEST))
        return models

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        from matplotlib.ticker import MaxNLocator

        drawn = (axes,) if self._together else panels(axes, self.groups)
        for i, panel in enumerate(drawn):
            if self.marked is not None:
                panel.axvline(self.marked, color=FAINT, linewidth=1, zorder=0, gid=f"marked-{i}")
        # New rows may be estimated at some dimensions alone: lines run through these. Elsewhere a
        # gap is where a criterion has no answer.
        known = ~np.isnan(self.plain.values)
        estimated = np.asarray(known.any(axis=1) | (not self.is_expected))
        for g in range(len(self.groups)):
            # Where groups share axes, colour and marker tell them apart; else they tell models.
            panel, own = (axes, look(g)) if self._together else (drawn[g], None)
            for model in self._models():
                draw_line(panel, self.dimensions, model, g, own, estimated)
            # Nothing is expected of this group, though there are estimates of others.
            if not self._together and known.any() and not known[:, g].any():
                panel.text(
                    *(0.5, 0.97, "too few rows"),
                    color=FAINT,
                    transform=panel.transAxes,
                    ha="center",
                    va="top",
                )
                for line in panel.lines:  # those on the rows
                    line.set_color(FAINT)
        if self.is_expected:
            for panel in drawn:
                panel.axhline(0, color=INK, linewidth=0.6, zorder=1)
            every = together(each.estimates for each in self._models())
            drawn[0].set_ylim(*shown_range(every, _BEYOND))
        else:
            drawn[0].set_ylim(bottom=0)
        plain_numbers(drawn[:1])  # all are of one scale
        drawn[0].xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, min_n_ticks=1))
        label_bounds(axes, drawn, "number of dimensions", _LABELS[self.quantity])
        head(axes, _TITLES[self.quantity], *self._legend(axes), note=self._note())
        return drawn

    def _legend(self, axes: Axes) -> tuple[list[Any], list[str]]:
        from matplotlib.lines import Line2D

        handles, labels = [], []
        if self._together:
            labels = labels_within(axes, self.groups, width_of(axes) / 2.5, 10)
            handles += [
                Line2D([], [], color=own.colour, marker=own.marker, linestyle="")
                for own in map(look, range(len(self.groups)))
            ]
        for model in self._models():
            colour = INK if self._together and model.style is not BEST else model.style.colour
            line = Line2D([], [], color=colour, linestyle=model.style.line)
            if model.style is not BEST:
                line.set_marker("o" if self._together else model.style.marker)
                line.set_markerfacecolor(colour if model.style.is_filled else "white")
            handles.append(line)
            labels.append(label_of(spoken(model.name)))
        for model in self._models():
            if not np.isnan(model.estimates.on_rows).all():
                handles.append(Line2D([], [], color=model.style.colour, **ON_ROWS))
                labels.append(f"{label_of(spoken(model.name))}, on these rows")
        if self.marked is not None:
            handles.append(Line2D([], [], color=FAINT, linewidth=1))
            labels.append(f"chosen: {self.marked}")
        return handles, labels

    def _note(self) -> str:
        every = together((self.plain, self.fair))
        each_of = ", each for one group and one d" if self.is_expected else ""
        intervals = f"Bands are {percent(self.level)} confidence intervals{each_of}."
        bands = "" if np.isnan(every.low).all() else intervals
        if every.unknown.any():
            bands += " Grey: too uncertain to tell."
        if self.why_on_rows:
            bands = f"Figures on the rows: no estimates for new ones ({self.why_on_rows})."
        return f"{bands} {unproven(self.statuses or ())}".strip()


def draw_line(
    axes: Axes,
    dimensions: IntegerArray,
    model: ErrorLine,
    g: int,
    own: Look | None,
    shown: BoolArray,
) -> None:
    """Draw one model's figures of one group, with bands, and those on the rows beside them.

    Parameters
    ----------
    axes : matplotlib Axes
    dimensions : (m,) array of int
    model : ErrorLine
    g : int
        Position of the group.
    own : Look or None
        The group's, where groups share axes.
    shown : (m,) array of bool
        Dimensions that the line runs through.
    """
    style, estimates = model.style, model.estimates.at((..., g))
    colour = style.colour if own is None else own.colour
    if not np.isnan(estimates.on_rows).all():
        axes.plot(dimensions, estimates.on_rows, color=colour, zorder=1.8, **ON_ROWS)
    dimensions, estimates = dimensions[shown], estimates.at(shown)
    values, low, high, *_ = estimates
    (line,) = axes.plot(dimensions, values, color=colour, linestyle=style.line)
    line.set_gid(f"{model.key}-{g}")
    if style is BEST:
        line.set(linewidth=1.4, zorder=1.5)
    else:
        size = 5.5 if own is not None or len(dimensions) <= _MOST_MARKED else 4
        line.set(marker=style.marker if own is None else own.marker, markersize=size)
        line.set(markerfacecolor=colour if style.is_filled else "white")
        line.set_zorder(3 if style is FAIR else 2.5)
    if own is not None and g == 0 and style is FAIR:
        # Where the other group's line covers it, as equal losses do, it is seen on both sides.
        line.set(linewidth=3.2, markersize=8)
    unknown = estimates.unknown
    if unknown.any():
        (grey,) = axes.plot(dimensions[unknown], values[unknown], color=FAINT, linestyle="")
        grey.set(marker=line.get_marker(), markersize=line.get_markersize(), zorder=3.5)
        grey.set(markerfacecolor=FAINT if style.is_filled else "white")
    known = ~np.isnan(low)
    if known.sum() == 1:  # a band of no width is not seen
        axes.vlines(
            dimensions, low, high, color=FAINT if unknown[known].any() else colour, linewidth=1.6
        )
    if known.any():
        axes.fill_between(dimensions, low, high, color=colour, alpha=_BAND, linewidth=0)


def _on_rows(
    plain: Sequence[FairSubspace], fits: Sequence[Any], moments: Moments, quantity: Quantity
) -> dict[str, Any]:
    """The figures on the rows of the fit, of which there are the moments alone."""
    of_plain = [group_figures(each, moments) for each in plain]
    of_fair = [None if fit is None else group_figures(fit.subspace_, moments) for fit in fits]
    values = [_values(each, quantity, moments.n_groups) for each in [*of_plain, *of_fair]]
    of_both = np.split(np.array(values), 2)
    return {
        "groups": names_of(moments.labels),
        **{key: Estimates.of(each) for key, each in zip(("plain", "fair"), of_both, strict=True)},
        "best": np.array([each.best_errors for each in of_plain]) if quantity == "error" else None,
        "quantity": quantity,
    }


def _expected(
    estimator: Any,
    plain: Sequence[FairSubspace],
    fits: Sequence[Any],
    rows: Rows,
    quantity: Quantity,
    *,
    on_rows: bool,
) -> dict[str, Any]:
    """What is expected on new rows; those on the rows where nothing can be."""
    audited = audited_beside_pca(estimator, fits, plain, rows)
    groups = names_of([group.group for group in audited[0][0].groups])
    k = len(groups)
    found = {
        "plain": estimates_of(audited[0], k, quantity),
        "fair": estimates_of(audited[1], k, quantity),
    }
    if np.isnan(found["plain"].values).all():
        return {
            "groups": groups,
            **{key: Estimates.of(each.on_rows) for key, each in found.items()},
            "quantity": quantity,
            "why_on_rows": audited[0][0].why_no_estimates or "too few rows",
        }
    if not on_rows:
        found = {key: Estimates.of(*each[:-1]) for key, each in found.items()}
    return {
        **found,
        "groups": groups,
        "best": column_of(audited[0], "expected_best_error", k) if quantity == "error" else None,
        "quantity": f"expected {quantity}",
    }


def _values(figures: GroupFigures | None, quantity: Quantity, n_groups: int) -> FloatArray:
    if figures is None:
        return np.full(n_groups, np.nan)
    return without_rounding(
        figures.errors if quantity == "error" else figures.excess_losses, figures
    )


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
