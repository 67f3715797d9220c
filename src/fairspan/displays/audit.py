"""A figure of every group under several models: of an audit, and of an estimator beside PCA."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np

from fairspan.displays.base import BaseDisplay
from fairspan.displays.records import (
    BEST_NAME,
    PCA_NAME,
    Record,
    best_records,
    distinct_names,
    expected_records,
    fitted_moments,
    known_group_moments,
    observed_records,
    open_display_rows,
    records_without_rounding,
    to_columns,
    values_of,
)
from fairspan.displays.style import (
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
    row_figure_size,
    series_style,
    shorten_names,
)
from fairspan.errors import InvalidInput
from fairspan.formatting.text import (
    format_count,
    format_level,
    format_tick,
    plot_label,
    readable_name,
)
from fairspan.problem.reduction import get_criterion
from fairspan.registry import check_bool, check_choice
from fairspan.typing import FloatArray

AuditQuantity = Literal[
    "expected_loss", "observed_error", "observed_loss", "observed_variance_kept"
]

INCONCLUSIVE = "inconclusive"
# One colour a state, which ordinary PCA and its repair do not have elsewhere; none where the
# interval contains zero.
STATE_COLORS = {
    "harmed": PURPLE,
    "minor": ORANGE,
    "no material harm": FOREGROUND,
    INCONCLUSIVE: MUTED,
}
# Of each quantity the title and the label of its axis.
_TITLES_AND_LABELS = {
    "expected_loss": ("Expected loss of each group on new rows", "expected loss on new rows"),
    "observed_error": ("Reconstruction error of each group on these rows", "reconstruction error"),
    "observed_loss": (
        "Loss of each group on these rows, against its own best subspace",
        "excess loss of the group",
    ),
    "observed_variance_kept": (
        "The share of each group's variance that is kept",
        "share of the group's variance that is kept",
    ),
}
# Share of a row that its models take; inches of a row, of each model in it, and at least.
_MODEL_SPREAD = 0.66
_ROW_HEIGHT, _HEIGHT_PER_MODEL, _MIN_ROW_HEIGHT = 0.22, 0.14, 0.36
# Beside what is known the axis shows so many times its width of what is not.
_MAX_UNCERTAIN_RATIO = 3.0
_MARGIN = 0.04


@dataclass(eq=False, repr=False)
class AuditDisplay(BaseDisplay):
    """Plot a figure of every group under every model, with intervals where there are.

    Expected losses have the colours of their states, and their intervals may leave the axes. Made
    by :meth:`fairspan.Audit.plot`.

    Attributes
    ----------
    records : sequence of mappings
        One for each model and group, with the names of :meth:`fairspan.Audit.to_records`.
    quantity : {"expected_loss", "observed_error", "observed_loss", "observed_variance_kept"}
    plain : tuple of str
        The models that are ordinary PCA.
    level : float
        Level of the intervals.
    show_observed : bool
        Whether the loss on these rows is shown beside the expected one.
    """

    records: Sequence[Record]
    quantity: AuditQuantity = "expected_loss"
    pca_models: tuple[str, ...] = (PCA_NAME,)
    level: float = 0.95
    show_observed: bool = False

    @classmethod
    def compute(cls, audit: Any, quantity: AuditQuantity | None = None) -> Self:
        """What an audit's `plot` draws; the quantity by default is the best that is known."""
        has_estimates = any(model.has_estimates for model in audit.models)
        if quantity is None:
            quantity = "expected_loss" if has_estimates else "observed_error"
        check_choice("quantity", quantity, get_args(AuditQuantity))
        if quantity == "expected_loss" and not has_estimates:
            raise InvalidInput(
                "This audit holds no estimates for new rows",
                "Allowed: 'observed_error', 'observed_loss' and 'observed_variance_kept'",
                "Audit rows with folds, or choose another quantity",
            )
        records = [record for model in audit.models for record in records_without_rounding(model)]
        plain = tuple(model.name for model in audit.models if model.is_pca)
        return cls(records, quantity, plain, audit.level)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups' names."""
        return distinct_names(self.records, "group")

    @property
    def models(self) -> tuple[str, ...]:
        """The models' names."""
        return tuple(dict.fromkeys(record["model"] for record in self.records))

    def values(self, suffix: str = "") -> FloatArray:
        """The figure of every model and group, (m, k); or the `_low` or `_high` end of it."""
        return values_of(self.records, self.quantity + suffix).reshape(len(self.models), -1)

    def figure_size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        n_offset_models = 0 if np.isnan(self.values("_low")).all() else len(self.models)
        return row_figure_size(
            self.groups, max(_ROW_HEIGHT + _HEIGHT_PER_MODEL * n_offset_models, _MIN_ROW_HEIGHT)
        )

    def to_columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each model and group."""
        ends = [f"{self.quantity}{end}" for end in ("", "_low", "_high")]
        more = ["state"] if self.quantity == "expected_loss" else []
        more += ["observed_loss"] * self.show_observed
        return to_columns(self.records, "model", "group", *ends, *more)

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        from matplotlib.lines import Line2D

        values, limits = self.values(), self._limits()
        has_intervals = not np.isnan(self.values("_low")).all()
        rows = np.tile(np.arange(values.shape[1], dtype=np.float64), (len(values), 1))
        if has_intervals:  # which would lie above each other
            rows += ((np.arange(len(values)) + 0.5) / len(values) - 0.5)[:, None] * _MODEL_SPREAD
        elif len(values) > 1:
            ends = np.fmin.reduce(values), np.fmax.reduce(values)
            axes.hlines(rows[0], *ends, color=MUTED, linewidth=2.5, zorder=1, alpha=0.6)
        handles = [self._draw_model(axes, i, rows[i], limits) for i in range(len(values))]
        labels = [readable_name(name) for name in self.models]
        if self.show_observed:
            here = values_of(self.records, "observed_loss")
            handles += axes.plot(
                here, rows.ravel(), "|", color=FOREGROUND, markersize=11, zorder=3.5
            )
            labels.append("on these rows")
        states = self._states()
        present = [state for state in STATE_COLORS if state in states]
        handles += [Line2D([], [], color=STATE_COLORS[each], linewidth=3) for each in present]
        labels += present
        if self.quantity == "expected_loss":
            axes.axvline(0, color=FOREGROUND, linewidth=0.8, zorder=1)
            axes.set_xlim(*limits)
        elif (
            self.quantity != "observed_variance_kept"
        ):  # their size is seen, not only their difference
            axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        handles, labels = self._draw_extras(axes, handles, labels)
        missing = (states == INCONCLUSIVE).any(axis=0) & np.isnan(values).all(axis=0)
        for row in np.flatnonzero(missing).tolist():  # though there are estimates of others
            axes.text(0, row, " too few rows", color=MUTED, fontsize=10, va="center")
        axes.set_xlabel(_TITLES_AND_LABELS[self.quantity][1])
        room = available_width(axes)
        label_rows(axes, self.groups)
        format_ticks(axes, "x", width=room / 2)
        if self.quantity == "observed_variance_kept":
            axes.xaxis.set_major_formatter(lambda share, _: f"{format_tick(100 * share)} %")
        labels = shorten_names(labels, room / 2)
        add_header(axes, self._title(), handles, labels, note=self._note())
        return (axes,)

    def _draw_model(self, axes: Axes, place: int, rows: FloatArray, limits: Any) -> Any:
        """Marks with intervals; an arrow at the edge if an interval continues beyond it."""
        from matplotlib.lines import Line2D

        name, states = self.models[place], self._states()[place]
        own = self._style_of(name)
        values, low, high = (self.values(end)[place] for end in ("", "_low", "_high"))
        style: dict[str, Any] = {
            "marker": own.marker,
            "linestyle": "",
            "markersize": 15 if own is BEST_STYLE else 7 if own.is_filled else 8.5,
            "markeredgewidth": 1 if own.is_filled else 2,
        }
        colours = np.array([STATE_COLORS.get(each, own.color) for each in states])
        for colour in dict.fromkeys(colours.tolist()):
            at = colours == colour
            fill = colour if own.is_filled else "white"
            gid = None if colour == MUTED and own is not BEST_STYLE else f"model-{place}"
            axes.plot(values[at], rows[at], color=colour, markerfacecolor=fill, gid=gid, **style)
            if np.isnan(low[at]).all():
                continue
            axes.hlines(rows[at], *np.clip([low[at], high[at]], *limits), color=colour, linewidth=2)
            for limit, arrow, exceeds in zip(
                limits, "<>", (low < limits[0], high > limits[1]), strict=True
            ):
                for row in rows[at & exceeds]:
                    axes.plot(limit, row, arrow, color=colour, markersize=6, clip_on=False)
        legend_color = FOREGROUND if any(states) else own.color
        fill = legend_color if own.is_filled else "white"
        return Line2D(
            [], [], color=legend_color, markerfacecolor=fill, **{**style, "markersize": 7.5}
        )

    def _style_of(self, name: str) -> SeriesStyle:
        """Ordinary PCA has a look of its own, which no other model gets."""
        others = [each for each in self.models if each not in (*self.pca_models, BEST_NAME)]
        if name in others:
            return series_style(others.index(name))
        return PCA_STYLE if name in self.pca_models else BEST_STYLE

    def _states(self) -> Any:
        """What may be said of each expected loss, (m, k); None where another figure is shown."""
        states = np.full(len(self.records), None, dtype=object)
        if self.quantity == "expected_loss":
            states[:] = [record.get("state") for record in self.records]
        return states.reshape(len(self.models), -1)

    def _limits(self) -> tuple[float, float]:
        """Ends of the axis; intervals of other figures never leave it."""
        if self.quantity != "expected_loss":
            return -np.inf, np.inf
        marks = [self.values().ravel()] + [
            values_of(self.records, "observed_loss")
        ] * self.show_observed
        return axis_limits(self.records, self.quantity, np.concatenate(marks), _MAX_UNCERTAIN_RATIO)

    def _draw_extras(
        self, axes: Axes, handles: list[Any], labels: list[str]
    ) -> tuple[list[Any], list[str]]:
        """Draw what one kind of picture has beside the models; the legend with it."""
        return handles, labels

    def _title(self) -> str:
        return _TITLES_AND_LABELS[self.quantity][0]

    def _note(self) -> str:
        low, high, (start, end) = self.values("_low"), self.values("_high"), self._limits()
        if np.isnan(low).all():
            return ""
        has_arrow = (low < start).any() or (high > end).any()
        return (
            f"Lines are {format_level(self.level)} confidence intervals"
            f"{', for all groups at once.' if self.quantity == 'expected_loss' else '.'}"
            f"{' Arrow: the interval continues outside the picture.' if has_arrow else ''}"
        )


def axis_limits(
    records: Sequence[Record], quantity: str, values: FloatArray, max_extra: float
) -> tuple[float, float]:
    """Ends of an axis with zero: all marks and informative intervals, and little more of others.

    Parameters
    ----------
    records : sequence of mappings
    quantity : str
    marks : array
    max_extra : float
        How much more of others is shown, as a share of what these take.
    """
    low, high = (values_of(records, f"{quantity}{end}") for end in ("_low", "_high"))
    known = ~np.isnan(low)
    is_conclusive = known & [record.get("state") != INCONCLUSIVE for record in records]
    start, end = np.min(low[known], initial=0.0), np.max(high[known], initial=0.0)
    if is_conclusive.any():
        first, last = (
            np.min(low[is_conclusive], initial=0.0),
            np.max(high[is_conclusive], initial=0.0),
        )
        beyond = max_extra * (last - first)
        start, end = max(start, first - beyond), min(end, last + beyond)
    values = values[~np.isnan(values)]
    start, end = np.min(values, initial=start), np.max(values, initial=end)
    margin = _MARGIN * (end - start) or 1.0
    return float(start - margin), float(end + margin)


@dataclass(eq=False, repr=False)
class VarianceKeptDisplay(AuditDisplay):
    """Plot the share of each group's variance kept: by PCA, by the criterion, and at most.

    Make it with :meth:`from_estimator`.

    Attributes
    ----------
    records : sequence of mappings
        `observed_variance_kept` of each group under "PCA", the criterion and "best possible", from 0 to 1; NaN
        for a group without variance.
    n_components : int
    """

    n_components: int = 1

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, sensitive_features: Any = None, *, ax: Any = None
    ) -> Self:
        """Draw the shares on the rows of the fit, or on others.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        X : (n, p) table of finite numbers, optional
            Rows, such as held-out ones, as `FairPCA.fit` takes them.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

        Returns
        -------
        VarianceKeptDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidInput
            Rows without groups, or of other features.
        UnknownGroup
            A group that the estimator was not fitted on.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import VarianceKeptDisplay
        >>> X = np.array([[3.0, 0], [-3, 0], [0, 2], [0, -2]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> display = VarianceKeptDisplay.from_estimator(fair)
        >>> display.models, display.values().round(2)
        (('PCA', 'minimax_loss', 'best possible'), array([[1.  , 0.  ],
               [0.69, 0.31],
               [1.  , 1.  ]]))
        """
        return cls._compute_and_plot(ax, estimator, X, sensitive_features)

    @classmethod
    def compute(cls, estimator: Any, X: Any = None, sensitive_features: Any = None) -> Self:
        """What `from_estimator` draws, of the same parameters."""
        moments, d = fitted_moments(estimator, cls.__name__), estimator.subspace_.dimension
        if (rows := open_display_rows(estimator, X, sensitive_features, cls.__name__)) is not None:
            moments = known_group_moments(estimator, rows)
        records = observed_records(estimator, {d: estimator}, moments)
        plain = records[: len(moments.labels)]
        with np.errstate(invalid="ignore"):  # 0 / 0: a group without variance
            best = 1 - values_of(plain, "observed_best_error") / values_of(
                plain, "observed_total_variance"
            )
        records += best_records(plain, "observed_variance_kept", best)
        return cls(records, "observed_variance_kept", n_components=d)

    def _title(self) -> str:
        dimensions = format_count(self.n_components, "dimension")
        return f"The share of each group's variance that {dimensions} can keep"


@dataclass(eq=False, repr=False)
class GroupLossDisplay(AuditDisplay):
    """Plot the loss of each group on new rows, or on the rows of the fit with the proven bound.

    Make it with :meth:`from_estimator`.

    Attributes
    ----------
    records : sequence of mappings
        `expected_loss` or `observed_loss` of each group under ordinary PCA and then the criterion.
    n_components : int
    bound : float or None
        No subspace has a smaller largest loss; None where the criterion proves no such thing.
    status : str
        How the fit ended: "optimal" (with a loose tolerance "optimal within 1 %", for example),
        "estimated", "open gap" or "unresolved".
    """

    n_components: int = 1
    bound: float | None = None
    status: str = "optimal"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        sensitive_features: Any = None,
        *,
        show_observed: bool = False,
        ax: Any = None,
    ) -> Self:
        """Draw the losses under ordinary PCA and under an estimator.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        X : (n, p) table of finite numbers, optional
            Rows of the fit or held-out rows, as `FairPCA.fit` takes them: losses are then those
            expected on new rows, with intervals, as in :func:`fairspan.audit`. Without rows, they
            are excess losses on the rows of the fit, where a group of few rows seems to lose more
            than it does. They are shown with the bound of the certificate if the criterion is
            "minimax_loss"; other criteria prove nothing about the largest loss.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        show_observed : bool
            Show the excess losses on `X` beside those that are expected.
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

        Returns
        -------
        GroupLossDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidInput
            Rows without groups, or of other features; rows that give no estimates for new rows.
        UnknownGroup
            A group that the estimator was not fitted on.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import GroupLossDisplay
        >>> X = np.array([[3.0, 0], [-3, 0], [0, 2], [0, -2]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> display = GroupLossDisplay.from_estimator(fair)
        >>> display.values().round(2), round(display.bound, 2)
        (array([[0.  , 4.  ],
               [2.77, 2.77]]), 2.77)
        """
        return cls._compute_and_plot(
            ax, estimator, X, sensitive_features, show_observed=show_observed
        )

    @classmethod
    def compute(
        cls,
        estimator: Any,
        X: Any = None,
        sensitive_features: Any = None,
        *,
        show_observed: bool = False,
    ) -> Self:
        """What `from_estimator` draws, of the same parameters."""
        moments, d = fitted_moments(estimator, cls.__name__), estimator.subspace_.dimension
        check_bool("show_observed", show_observed)
        solution, fits = estimator.solution_, {d: estimator}
        said: dict[str, Any] = {"n_components": d, "status": solution.status_text}
        if (rows := open_display_rows(estimator, X, sensitive_features, cls.__name__)) is not None:
            records, why = expected_records(estimator, fits, rows)
            if why:
                raise InvalidInput(
                    f"The rows give no estimates for new rows: {why}",
                    "Allowed: rows that do, or none, which shows the losses on the rows of the fit",
                    "Leave out X",
                )
            return cls(records, show_observed=show_observed, **said)
        criterion = get_criterion(estimator.criterion)
        is_loss = criterion.uses_excess_loss and not criterion.relative
        bounds_losses = solution.criterion.name == criterion.name and is_loss
        bound = max(solution.lower_bound, 0.0) if bounds_losses else None
        return cls(observed_records(estimator, fits, moments), "observed_loss", bound=bound, **said)

    def to_columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each model and group; the bound is the same in all."""
        bound = np.nan if self.bound is None else self.bound
        return {**super().to_columns(), "bound": [bound] * len(self.records)}

    def _draw_extras(
        self, axes: Axes, handles: list[Any], labels: list[str]
    ) -> tuple[list[Any], list[str]]:
        if self.bound is None:
            return handles, labels
        line = axes.axvline(self.bound, color=FOREGROUND, linewidth=1.6, gid="bound", zorder=1.5)
        word = "estimated" if self.status == "estimated" else "proven"
        return [*handles, line], [*labels, f"{word} lower bound"]

    def _title(self) -> str:
        if self.quantity == "expected_loss":
            return super()._title()
        d = self.n_components
        own = "its own best dimension" if d == 1 else f"its own best {d} dimensions"
        return f"Loss of each group against {own}"

    def _note(self) -> str:
        """What is proven of the largest loss on the rows of the fit."""
        if self.quantity == "expected_loss":
            return super()._note()
        name = plot_label(readable_name(self.models[-1]))
        if self.bound is None:
            return f"{name} minimises another quantity, so it gives no bound on the largest loss."
        gap = format_tick(float(f"{self.values()[-1].max() - self.bound:.3g}"))
        if self.status.startswith("optimal"):
            proven = self.status.replace("optimal", "Proven")
            return f"{proven}: no subspace has a smaller largest loss than that of {name}."
        said = {
            "estimated": "The lower bound is an estimate: it depends on eigenvectors found by "
            "iteration.",
            "unresolved": "The gap to the lower bound is within the rounding error of these data.",
        }
        open_gap = f"Open gap: a largest loss that is smaller by up to {gap} is not ruled out."
        return said.get(self.status, open_gap)
