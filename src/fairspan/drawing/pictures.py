"""What every picture can do, and those that audits and frontiers make: of every group, of two.

A picture draws itself on axes, gives its data as a table, and can be a file.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from fairspan.drawing.layout import (
    FAINT,
    INK,
    ORANGE,
    PLAIN,
    PURPLE,
    QUIET,
    STYLE,
    Axes,
    Figure,
    figure_of,
    for_legend,
    head,
    height_of,
    labels_within,
    other_look,
    plain_numbers,
    rows_size,
    set_rows,
    set_shares,
    width_of,
)
from fairspan.errors import imported
from fairspan.formatting.results import data_frame
from fairspan.formatting.text import count, figure, label_of, percent, spoken
from fairspan.typing import AnyArray, BoolArray, FloatArray

# Widely installed ones of the East Asian scripts and of symbols, in the order they are asked.
_FALLBACKS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Malgun Gothic",
    "WenQuanYi Zen Hei",
    "Arial Unicode MS",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Emoji",
    "Segoe UI Symbol",
)
OPTIMAL, UNRESOLVED, NONE = "optimal", "unresolved", "no answer"
# With a salt and without a date the same figure gives the same bytes. Text stays text.
_STYLE: Any = {"svg.fonttype": "none", "savefig.dpi": 150}
METADATA: Mapping[str, Any] = {"svg": {"Date": None}, "png": {"Software": None}}


def fallback_fonts() -> Any:  # matplotlib's types list every setting
    """matplotlib's setting of font families, with those installed that fill its gaps.

    Only installed ones, as matplotlib reports every family that it does not find.
    """
    import matplotlib

    return {"font.family": [*matplotlib.rcParams["font.family"], *_installed()]}


@cache
def _installed() -> tuple[str, ...]:
    from matplotlib.font_manager import fontManager

    return tuple(sorted({*_FALLBACKS} & {*fontManager.get_font_names()}, key=_FALLBACKS.index))


def unproven(statuses: Sequence[str]) -> str:
    """How many answers of a criterion are not proven optimal, in sentences; or nothing.

    Examples
    --------
    >>> unproven(["optimal", "open gap", "optimal"])
    'Of 3 answers, 1 is not proven optimal.'
    >>> unproven(["optimal", "unresolved", "optimal"])
    'Of 3 answers, 1 is unresolved: double precision cannot tell how close it is to the optimum.'
    >>> unproven(["optimal", "no answer"])
    ''
    """
    answers = [status for status in statuses if status != NONE]
    n_unresolved = answers.count(UNRESOLVED)
    n_open = len(answers) - n_unresolved - answers.count(OPTIMAL)
    of, sentences = f"Of {len(answers)} answers,", []
    if n_open:
        sentences.append(f"{of} {n_open} {_are(n_open)} not proven optimal.")
    if n_unresolved:
        sentences.append(
            f"{of} {n_unresolved} {_are(n_unresolved)} unresolved: double precision cannot tell "
            f"how close {'it is' if n_unresolved == 1 else 'they are'} to the optimum."
        )
    return " ".join(sentences)


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


@runtime_checkable
class Display(Protocol):
    """A picture of a fitted model: what is drawn, as a table, and how it is drawn.

    A display that can be requested by name is made by a function that takes a fitted FairPCA, whose
    `moments_` are those of the rows that it was fitted on.
    """

    def frame(self) -> Any:
        """What is drawn, as a pandas DataFrame."""

    def plot(self, ax: Axes | None = None) -> Any:
        """Draw on these matplotlib axes; without them, on a new figure."""


class Picture(ABC):
    """Plain arrays, and how they are drawn.

    After scikit-learn's convention for displays: `plot` draws, and leaves `ax_` and `figure_`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was drawn on; where a picture has several panels, the axes that bound them.
    axes_ : tuple of matplotlib Axes
        The panels; `ax_` alone where there is one.
    figure_ : matplotlib Figure
    """

    ax_: Axes
    axes_: tuple[Axes, ...]
    figure_: Figure

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot. Titles and legends stand
            outside the axes, so give a figure of several `layout="constrained"`.

        Returns
        -------
        Self
            With `ax_`, `axes_` and `figure_`.

        Raises
        ------
        MissingDependency
            matplotlib is not installed.
        """
        imported("matplotlib", "plot", "plot")
        from matplotlib import rc_context

        with rc_context({**STYLE, **fallback_fonts()}), warnings.catch_warnings():
            # Texts are measured; whoever shows them may have other fonts.
            warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
            if ax is None:
                from matplotlib import pyplot  # takes its time, and a page needs none of it

                _, ax = pyplot.subplots(figsize=self.size(), layout="constrained")
            # Axes made elsewhere may have something of another style.
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_axisbelow(True)
            ax.tick_params(labelsize=STYLE["xtick.labelsize"], colors=INK)
            self.axes_ = tuple(self._draw(ax))
        self.ax_ = ax
        self.figure_ = figure_of(ax)
        return self

    def frame(self) -> Any:
        """What is drawn, as a table.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        return data_frame(dict(self.columns()), f"{type(self).__name__}.frame()")

    @abstractmethod
    def columns(self) -> Mapping[str, Sequence[Any]]:
        """What is drawn, as columns of one length."""

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6.4, 4.6

    @abstractmethod
    def _draw(self, axes: Axes) -> Sequence[Axes]:
        """Draw on these axes, with our style set; the panels that were made of them."""


def empty_figure(purpose: str) -> Figure:
    """A figure that pyplot does not keep.

    Raises
    ------
    MissingDependency
        matplotlib is not installed.
    """
    imported("matplotlib", "plot", purpose)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    # It keeps what measures texts; the canvas of a bare figure makes that anew for each of them.
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def reproducible(salt: str) -> Iterator[None]:
    """Settings under which the same figure gives the same bytes."""
    import matplotlib

    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        # Text stays text, and whoever shows it has fonts of his own.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield


AuditQuantity = Literal["expected loss", "error", "loss", "variance kept"]

CANNOT_TELL = "cannot tell"
# One colour a state, which ordinary PCA and its repair do not have elsewhere; none where the
# interval contains zero.
_STATES = {"harmed": PURPLE, "minor": ORANGE, "not shown": INK, CANNOT_TELL: FAINT}
_TITLES = {
    "expected loss": "Expected loss of each group on new rows",
    "error": "Reconstruction error of each group under each model",
    "loss": "Excess loss of each group: its error beyond that of its own best subspace",
    "variance kept": "The share of each group's variance that each model keeps",
}
_LABELS = {
    "expected loss": "expected loss on new rows",
    "error": "reconstruction error",
    "loss": "excess loss",
    "variance kept": "share of the group's variance that is kept",
}
# Share of a row that its models take; inches of a row, and of each model in it.
_SPREAD = 0.66
_AUDIT_ROW, _OF_MODEL = 0.22, 0.14
# Beside what is known the axis shows so many times its width of what is not.
_BEYOND = 3.0
_MARGIN = 0.04


class Estimates(NamedTuple):
    """One figure of every group under a model, and what is known of it; of one shape.

    Attributes
    ----------
    values : array
        The last axis is that of the groups; NaN where there is none.
    low, high : arrays
        Ends of the intervals; NaN where there is none.
    states : array of str or None
        What may be said of each expected loss; None where nothing was estimated.
    on_rows : array
        Figures on the rows beside expected ones; NaN where they are not shown.
    """

    values: FloatArray
    low: FloatArray
    high: FloatArray
    states: AnyArray
    on_rows: FloatArray

    @classmethod
    def of(
        cls,
        values: FloatArray,
        low: FloatArray | None = None,
        high: FloatArray | None = None,
        states: Any = None,
        on_rows: FloatArray | None = None,
    ) -> Self:
        """Estimates of which nothing else is known than what is given."""
        said = np.empty(values.shape, dtype=object)
        said[...] = states
        # Each its own array, as whoever made the estimates may fill them in.
        known = (
            np.full(values.shape, np.nan) if each is None else each for each in (low, high, on_rows)
        )
        return cls(values, next(known), next(known), said, next(known))

    def at(self, index: Any) -> Self:
        """Those at an index of their arrays."""
        return type(self)(*(each[index] for each in self))

    @property
    def unknown(self) -> BoolArray:
        """Where the state is that nothing can be told."""
        return np.asarray(self.states == CANNOT_TELL, dtype=np.bool_)


def together(models: Iterable[Estimates]) -> Estimates:
    """The estimates of several models along a first axis."""
    return Estimates(*map(np.stack, zip(*models, strict=True)))


def columns_of(estimates: Estimates, quantity: str) -> dict[str, Sequence[Any]]:
    """Everything that is known of some estimates, one after the other, as columns of a table."""
    columns = {
        quantity: estimates.values,
        "low": estimates.low,
        "high": estimates.high,
        "state": estimates.states,
        f"{quantity.removeprefix('expected ')} on the rows": estimates.on_rows,
    }
    nothing = {
        "state": all(each is None for each in estimates.states.ravel()),
        list(columns)[-1]: np.isnan(estimates.on_rows).all(),
    }
    return {name: each.ravel().tolist() for name, each in columns.items() if not nothing.get(name)}


@dataclass(eq=False)
class AuditPicture(Picture):
    """A figure of every group under every model, with intervals where there are.

    Expected losses have the colours of their states, and their intervals may leave the axes.

    Attributes
    ----------
    groups : tuple of k str
    models : mapping of name to Estimates of (k,) arrays
    plain : tuple of str
        The models that are ordinary PCA.
    quantity : {"expected loss", "error", "loss", "variance kept"}
    level : float
        Level of the intervals.
    """

    groups: tuple[str, ...]
    models: Mapping[str, Estimates]
    plain: tuple[str, ...] = ()
    quantity: AuditQuantity = "error"
    level: float = 0.95

    @property
    def estimates(self) -> Estimates:
        """Those of all models, (m, k)."""
        return together(self.models.values())

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return rows_size(self.groups, _AUDIT_ROW + _OF_MODEL * len(self.models))

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each model and group."""
        return {
            "model": [name for name in self.models for _ in self.groups],
            "group": list(self.groups) * len(self.models),
            **columns_of(self.estimates, self.quantity),
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        from matplotlib.lines import Line2D

        every, limits = self.estimates, self._limits()
        handles = [self._draw_model(axes, name, limits) for name in self.models]
        names = list(map(spoken, self.models))
        if not np.isnan(every.on_rows).all():
            rows = np.array([self._rows_of(name) for name in self.models])
            handles += axes.plot(
                every.on_rows.ravel(), rows.ravel(), "|", color=INK, markersize=11, zorder=3.5
            )
            names.append("on these rows")
        present = [state for state in _STATES if state in every.states]
        handles += [Line2D([], [], color=_STATES[each], linewidth=3) for each in present]
        names += present
        if self.quantity == "variance kept":
            set_shares(axes, every.values)
        else:
            if self.quantity == "expected loss":
                axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
                axes.set_xlim(*limits)
            elif self.quantity == "error":  # their size is seen, not only their difference
                axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
            plain_numbers((axes,), "x")
        missing = every.unknown.any(axis=0) & np.isnan(every.values).all(axis=0)
        for row in np.flatnonzero(missing).tolist():  # though there are estimates of others
            axes.text(0, row, " too few rows", color=FAINT, fontsize=10, va="center")
        axes.set_xlabel(_LABELS[self.quantity])
        beside = set_rows(axes, self.groups)
        labels = labels_within(axes, names, width_of(axes) / 2.5, 10)
        head(axes, _TITLES[self.quantity], handles, labels, note=self._note(), beside=beside)
        return (axes,)

    def _draw_model(self, axes: Axes, name: str, limits: tuple[float, float]) -> Any:
        """Marks with intervals; an arrow at the edge if an interval continues beyond it."""
        from matplotlib.lines import Line2D

        place, is_plain = list(self.models).index(name), name in self.plain
        others = [each for each in self.models if each not in self.plain]
        # Ordinary PCA has a look of its own, which no other model gets.
        own = PLAIN if is_plain else other_look(others.index(name))
        estimates, rows = self.models[name], self._rows_of(name)
        style: dict[str, Any] = {
            "marker": own.marker,
            "linestyle": "",
            "markersize": 7.5 if is_plain else 6.5,
            "markeredgewidth": 2 if is_plain else 1,
        }
        colours = np.array([_STATES.get(each, own.colour) for each in estimates.states])
        for colour in dict.fromkeys(colours.tolist()):
            chosen = colours == colour
            values, low, high, *_ = estimates.at(chosen)
            fill = "white" if is_plain else colour
            gid = None if colour == FAINT else f"model-{place}"
            axes.plot(values, rows[chosen], color=colour, markerfacecolor=fill, gid=gid, **style)
            if np.isnan(low).all():
                continue
            axes.hlines(rows[chosen], *np.clip([low, high], *limits), color=colour, linewidth=2)
            for edge, arrow, leaves in zip(
                limits, "<>", (low < limits[0], high > limits[1]), strict=True
            ):
                for row in rows[chosen][leaves]:
                    axes.plot(edge, row, arrow, color=colour, markersize=6, clip_on=False)
        shown = INK if any(estimates.states) else own.colour
        return Line2D([], [], color=shown, markerfacecolor="white" if is_plain else shown, **style)

    def _rows_of(self, name: str) -> FloatArray:
        """Where a model stands among those of each group."""
        place = list(self.models).index(name) + 0.5
        return np.asarray(np.arange(len(self.groups)) + (place / len(self.models) - 0.5) * _SPREAD)

    def _limits(self) -> tuple[float, float]:
        """Ends of the axis; intervals of other figures never leave it."""
        is_expected = self.quantity == "expected loss"
        return shown_range(self.estimates, _BEYOND) if is_expected else (-np.inf, np.inf)

    def _note(self) -> str:
        every, (start, end) = self.estimates, self._limits()
        if np.isnan(every.low).all():
            return ""
        has_arrow = (every.low < start).any() or (every.high > end).any()
        return (
            f"Lines are {percent(self.level)} confidence intervals"
            f"{', each for one group.' if self.quantity == 'expected loss' else '.'}"
            f"{' Arrow: the interval continues outside the picture.' if has_arrow else ''}"
        )


def shown_range(estimates: Estimates, most_beyond: float) -> tuple[float, float]:
    """Ends of an axis with zero: all values and informative intervals, and little more of others.

    Parameters
    ----------
    estimates : Estimates
    most_beyond : float
        How much more of others is shown, as a share of what these take.
    """
    values, low, high, _, on_rows = estimates
    known = ~np.isnan(low)
    told, marks = known & ~estimates.unknown, np.concatenate([values, on_rows], axis=None)
    start, end = np.min(low[known], initial=0.0), np.max(high[known], initial=0.0)
    if told.any():
        first, last = np.min(low[told], initial=0.0), np.max(high[told], initial=0.0)
        beyond = most_beyond * (last - first)
        start, end = max(start, first - beyond), min(end, last + beyond)
    marks = marks[~np.isnan(marks)]
    start, end = np.min(marks, initial=start), np.max(marks, initial=end)
    margin = _MARGIN * (end - start) or 1.0
    return float(start - margin), float(end + margin)


# Room around what is shown, as a share of its extent.
_ROOM = 0.12
# An answer is shown where it is if it lies beyond the frontier's ends by this share of its extent.
_FAR = 0.5
# Answers this near, as a share of the extent, share a mark.
_NEAR = 0.02
_MARKER_SIZE, _OF_PCA = 9.0, 15.0
# Inches that the legend takes for each answer, where it has one column.
_LEGEND_ROW = 0.16
# Where the arrow to an answer outside the picture begins and ends, as shares of the axes.
_ARROW = (0.06, 0.005)


@dataclass(eq=False)
class FrontierPicture(Picture):
    """Two groups' errors: the frontier, what lies above it, and answers on or near it.

    Attributes
    ----------
    errors : (m, 2) array
        The frontier from the optimum of the first group to that of the second.
    groups : tuple of 2 str
    region : (r, 2) array or None
        Corners of all pairs of errors that some subspace has.
    plain : (2,) array
        The errors of ordinary PCA.
    answers : mapping of name to (2,) array
        What criteria choose. An answer far from the frontier is an arrow at the edge.
    n_components : int
    """

    errors: FloatArray
    groups: tuple[str, str]
    region: FloatArray | None
    plain: FloatArray
    answers: Mapping[str, FloatArray]
    n_components: int

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6.6, 4.8 + _LEGEND_ROW * len(self.answers)

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """What is drawn: `what` is "frontier", "PCA" or an answer's name."""
        named = [("PCA", self.plain), *self.answers.items()]
        points = np.vstack([self.errors, *(each for _, each in named)])
        return {
            "what": ["frontier"] * len(self.errors) + [name for name, _ in named],
            **{f"error of {group}": points[:, g].tolist() for g, group in enumerate(self.groups)},
        }

    def outside(self) -> Mapping[str, FloatArray]:
        """The answers too far away to be shown where they are."""
        low, high = self._limits()
        return {
            name: errors
            for name, errors in self.answers.items()
            if (errors < low).any() or (errors > high).any()
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        low, high = self._limits()
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        handles, labels = self._draw_curve(axes)
        for i, (names, errors) in enumerate(self._at_one_place()):
            own, label = other_look(i), ", ".join(label_of(spoken(name)) for name in names)
            (mark,) = axes.plot(
                *errors,
                own.marker,
                color=own.colour,
                markeredgecolor=INK,
                markeredgewidth=0.8,
                markersize=_MARKER_SIZE,
                gid=f"answer-{i}",
            )
            if names[0] in self.outside():
                _point_outside(axes, errors, low, high, own.colour)
                label += f" ({figure(errors[0])}, {figure(errors[1])}), outside"
            handles.append(mark)
            labels.append(label)
        plain_numbers((axes,))
        names = labels_within(axes, self.groups, 0.7 * min(width_of(axes), height_of(axes)), 11)
        axes.set_xlabel(f"error of {names[0]}")
        axes.set_ylabel(f"error of {names[1]}")
        dimensions = count(self.n_components, "dimension")
        head(axes, f"Achievable errors of the two groups with {dimensions}", handles, labels)
        return (axes,)

    def _draw_curve(self, axes: Axes) -> tuple[list[Any], list[str]]:
        """What every answer is compared with."""
        limits = np.array([axes.get_xlim(), axes.get_ylim()])
        ends = [limits[:, 0].min(), limits[:, 1].max()]
        (equal,) = axes.plot(
            ends, ends, color=INK, alpha=QUIET, linewidth=1.2, linestyle=(0, (1, 2))
        )
        (curve,) = axes.plot(
            *self.errors.T,
            color=INK,
            linewidth=2.2,
            marker="." if len(self.errors) == 1 else "",
            gid="frontier",
        )
        # Around the mark of an answer that is the same.
        (plain,) = axes.plot(
            *self.plain,
            PLAIN.marker,
            markersize=_OF_PCA,
            fillstyle="none",
            color=PLAIN.colour,
            markeredgewidth=2.2,
            zorder=4,
            gid="PCA",
        )
        handles: list[Any] = [curve, equal, *for_legend([plain])]
        labels = ["frontier", "equal errors", "PCA"]
        if self.region is not None:
            handles += axes.fill(*self.region.T, color=FAINT, alpha=0.16, linewidth=0, gid="region")
            labels.append("achievable errors")
        return handles, labels

    def _at_one_place(self) -> list[tuple[list[str], FloatArray]]:
        """The answers, under all names those that could not be told apart."""
        low, high = self._limits()
        places: list[tuple[list[str], FloatArray]] = []
        for name, errors in self.answers.items():
            near = _NEAR * (high - low)
            here = [names for names, each in places if (np.abs(errors - each) <= near).all()]
            if here:
                here[0].append(name)
            else:
                places.append(([name], errors))
        return places

    def _limits(self) -> tuple[FloatArray, FloatArray]:
        points = np.vstack([self.errors, self.plain])
        low, high = points.min(axis=0), points.max(axis=0)
        reach = _FAR * np.maximum(high - low, (high - low).max() * _ROOM)
        near = [
            each
            for each in self.answers.values()
            if (each >= low - reach).all() and (each <= high + reach).all()
        ]
        points = np.vstack([points, *near])
        low, high = points.min(axis=0), points.max(axis=0)
        extent = high - low
        # A frontier of one point, or along one axis, still needs room.
        extent = np.maximum(extent, 1e-3 * max(*extent, *high) or 1.0)
        middle = (low + high) / 2
        half = (0.5 + _ROOM) * extent
        return middle - half, middle + half


def _point_outside(
    axes: Axes, errors: FloatArray, low: FloatArray, high: FloatArray, colour: str
) -> None:
    """Draw an arrow to an answer outside."""
    share = (errors - low) / (high - low)
    start, end = (low + np.clip(share, inset, 1 - inset) * (high - low) for inset in _ARROW)
    style = {"arrowstyle": "->", "color": colour, "linewidth": 2.2, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (end[0], end[1]), (start[0], start[1]), arrowprops=style)
