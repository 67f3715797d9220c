"""The frontier of two groups' errors, and the path of disparity and total error."""

import numbers
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairspan.auditing.results import group_name
from fairspan.displays.base import Picture, unproven
from fairspan.displays.fitted import (
    criterion_name,
    moments_of_fit,
    plain_of_fit,
    refitted,
    status_of,
    without_rounding,
)
from fairspan.displays.style import (
    FAINT,
    FAIR,
    INK,
    PLAIN,
    QUIET,
    Axes,
    add_header,
    add_panels,
    names_within,
    other_look,
    width_of,
    write_numbers,
)
from fairspan.errors import InvalidParameter
from fairspan.formatting.text import axis_number, count, figure, label_of, spoken
from fairspan.metrics import group_figures
from fairspan.problem.problem import signed_disparity
from fairspan.progress import track
from fairspan.trade_off import Frontier, frontier_to_look_at
from fairspan.typing import FloatArray

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


@dataclass(eq=False, repr=False)
class FrontierDisplay(Picture):
    """Plot the Pareto frontier of two groups' errors, with PCA and every criterion.

    Make it with :meth:`from_estimator`, or with :meth:`fairspan.Frontier.plot`.

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

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, criteria: Sequence[Any] | None = None, ax: Any = None
    ) -> Self:
        """Draw the frontier of the rows that an estimator was fitted on.

        Parameters
        ----------
        estimator : FairPCA
            Fitted, on two groups.
        criteria : sequence of str or criterion objects, optional
            Criteria whose answers are shown; all by default.
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

        Returns
        -------
        FrontierDisplay

        Raises
        ------
        Incompatible
            Not exactly two groups.
        InvalidType
            The estimator is not a fitted FairPCA.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import FrontierDisplay
        >>> X = np.array([[3.0, 0], [-3, 0], [0, 2], [0, -2]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> display = FrontierDisplay.from_estimator(fair, criteria=["minimax_loss"])
        >>> display.answers["minimax_loss"].round(2)
        array([2.77, 2.77])
        """
        return cls._drawn(ax, estimator, criteria)

    @classmethod
    def undrawn(cls, estimator: Any, criteria: Sequence[Any] | None = None) -> Self:
        """What `from_estimator` draws, of the same parameters."""
        moments = moments_of_fit(estimator, cls.__name__)
        subspace = estimator.subspace_
        d, is_scaled = subspace.dimension, subspace.scale is not None
        return cls.of(frontier_to_look_at(moments, d, subspace.center, scale=is_scaled), criteria)

    @classmethod
    def of(cls, frontier: Frontier, criteria: Sequence[Any] | None = None) -> Self:
        """What a frontier's `plot` draws: it, ordinary PCA and answers of criteria."""
        placed = frontier.landmarks() if criteria is None else tuple(map(frontier.place, criteria))
        first, second = map(group_name, frontier.groups)
        plain = frontier.place("total_error")
        return cls(
            errors=frontier.rounded(frontier.errors),
            groups=(first, second),
            region=frontier.rounded(frontier.region()),
            plain=frontier.rounded(plain.errors),
            answers={
                each.name: frontier.rounded(each.errors)
                for each in placed
                if each.name != plain.name
            },
            n_components=frontier.n_components,
        )

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
                start, end = (
                    np.clip(errors, low + inset * (high - low), high - inset * (high - low))
                    for inset in _ARROW
                )
                axes.annotate(
                    "",
                    (end[0], end[1]),
                    (start[0], start[1]),
                    arrowprops={"arrowstyle": "->", "color": own.colour, "linewidth": 2.2},
                )
                label += f" ({figure(errors[0])}, {figure(errors[1])}), outside"
            handles.append(mark)
            labels.append(label)
        write_numbers(axes)
        first, second = names_within(self.groups, 0.5 * width_of(axes))
        axes.set(xlabel=f"error of {first}", ylabel=f"error of {second}")
        dimensions = count(self.n_components, "dimension")
        add_header(axes, f"Achievable errors of the two groups with {dimensions}", handles, labels)
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
        mark = copy(plain)
        mark.set_markersize(_MARKER_SIZE)
        handles: list[Any] = [curve, equal, mark]
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


# Decades below and above the default of 0.5 that penalties are tried at, and steps.
_DECADES, _STEPS = (-2.0, 1.0), 19
# Parameters that are shares; all others may be any number from zero on.
_SHARES = ("criterion__trade_off",)


@dataclass(eq=False, repr=False)
class DisparityPathDisplay(Picture):
    """Plot disparity and total error against a trade-off or penalty of the criterion.

    Make it with :meth:`from_estimator`.

    Attributes
    ----------
    values : (m,) array
        Of the parameter, rising.
    disparity, total_error : (m,) arrays
        At each value; NaN where no subspace answers the criterion.
    plain_disparity, plain_total_error : float
        Of ordinary PCA.
    groups : tuple of k str
        Of two, the disparity is the error of the second minus that of the first; of more, the
        largest gap.
    name : str
        The criterion's.
    parameter : str
    current : float or None
        The value that was chosen.
    logarithmic : bool
        Whether the parameter is shown on a logarithmic scale, with zero at its beginning.
    statuses : sequence of m str, or None
        How each fit ended, "no answer" where there is none.
    """

    values: FloatArray
    disparity: FloatArray
    total_error: FloatArray
    plain_disparity: float
    plain_total_error: float
    groups: tuple[str, ...]
    name: str = "fair"
    parameter: str = "penalty"
    current: float | None = None
    logarithmic: bool = True
    statuses: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        parameter: str = "criterion__penalty",
        values: Sequence[float] | None = None,
        *,
        ax: Any = None,
    ) -> Self:
        """Fit the estimator's criterion at every value of a parameter, and draw the path.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        parameter : str
            A number among the estimator's parameters, such as "criterion__penalty" of `ErrorGap`,
            "criterion__radius" of `RobustErrorGap` or "criterion__trade_off" of `Disparity`.
        values : sequence of float, optional
            By default from 0 to 1 for a trade-off; else zero and 0.01 to 10, evenly on a
            logarithmic scale. The estimator's own value is always among them.
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

        Returns
        -------
        DisparityPathDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidParameter
            The estimator has no such parameter, a value is out of its range, or settings of the
            estimator were changed after it was fitted.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import ErrorGap, FairPCA
        >>> from fairspan.displays import DisparityPathDisplay
        >>> X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0]])
        >>> fair = FairPCA(1, criterion=ErrorGap(0.5)).fit(
        ...     X, sensitive_features=["a", "a", "b", "b"]
        ... )
        >>> display = DisparityPathDisplay.from_estimator(fair, values=[0, 0.5])
        >>> display.values, display.disparity.round(2)
        (array([0. , 0.5]), array([4., 0.]))
        """
        return cls._drawn(ax, estimator, parameter, values)

    @classmethod
    def undrawn(
        cls,
        estimator: Any,
        parameter: str = "criterion__penalty",
        values: Sequence[float] | None = None,
    ) -> Self:
        """What `from_estimator` draws, of the same parameters."""
        moments = moments_of_fit(estimator, cls.__name__)
        current = _current(estimator, parameter, cls.__name__)
        is_share = parameter in _SHARES
        shown = _tried_values(values, current, is_share=is_share)
        fits = [
            refitted(estimator, **{parameter: value})
            for value in track("fitting", shown.tolist(), "values")
        ]
        path = np.array([_gap_and_error(fit) for fit in fits])
        plain = group_figures(plain_of_fit(estimator), moments)
        gaps = np.append(path[:, 0], signed_disparity(plain.errors))
        gaps = without_rounding(gaps, float(plain.roundings.max()))
        return cls(
            values=shown,
            disparity=gaps[:-1],
            total_error=path[:, 1],
            plain_disparity=float(gaps[-1]),
            plain_total_error=float(moments.proportions @ plain.errors),
            groups=tuple(map(group_name, moments.labels)),
            name=criterion_name(estimator),
            parameter=parameter.rsplit("__", 1)[-1],
            current=current,
            logarithmic=not is_share and values is None,
            statuses=tuple(map(status_of, fits)),
        )

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6.4, 5.4

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each value of the parameter."""
        return {
            self.parameter: self.values.tolist(),
            "disparity": self.disparity.tolist(),
            "total_error": self.total_error.tolist(),
            "status": list(self.statuses or ()) or [None] * len(self.values),
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        upper, lower = add_panels(axes, 2, (2, 1), share_y=False)
        for panel, path, plain in (
            (upper, self.disparity, self.plain_disparity),
            (lower, self.total_error, self.plain_total_error),
        ):
            pca = panel.axhline(plain, color=PLAIN.colour, linestyle=PLAIN.line)
            (line,) = panel.plot(
                self.values, path, FAIR.marker, linestyle="-", color=FAIR.colour, markersize=4.5
            )
        handles: list[Any] = [pca, line]
        labels = ["PCA", label_of(spoken(self.name))]
        if self.current is not None:
            for panel in (upper, lower):
                mark = panel.axvline(self.current, color=FAINT, linewidth=1)
            handles.append(mark)
            labels.append(f"chosen: {axis_number(self.current)}")
        upper.axhline(0, color=INK, linewidth=0.8, zorder=1)
        if self.logarithmic and (positive := self.values[self.values > 0]).any():
            least, first = float(positive.min()), float(self.values.min())
            lower.set_xscale("symlog", linthresh=least, linscale=0.5)
            lower.xaxis.set_major_formatter(lambda value, _: axis_number(value))
            lower.set_xlim(first if first > 0 else -0.1 * least, positive.max() * 1.1)
        for panel in (upper, lower):
            write_numbers(panel, "y" if self.logarithmic else "xy", room=width_of(axes))
        name = label_of(spoken(self.parameter))
        upper.set_ylabel("disparity")
        lower.set(xlabel=name, ylabel="total error")
        title = f"Disparity and total error against the {name}"
        add_header(axes, title, handles, labels, note=self._note(axes))
        return upper, lower

    def _note(self, axes: Axes) -> str:
        what = "the largest difference of two groups' errors"
        if len(self.groups) == 2:
            first, second = names_within(self.groups, 0.45 * width_of(axes))
            what = f"the error of {second} minus that of {first}"
        return f"The disparity is {what}. {unproven(self.statuses or ())}".strip()


def _current(estimator: Any, parameter: str, purpose: str) -> float | None:
    """The estimator's own value; None if it is no number."""
    parameters = estimator.get_params()
    if parameter not in parameters:
        numeric = [name for name, value in parameters.items() if _is_number(value)]
        raise InvalidParameter(
            f"{purpose} received parameter={parameter!r}, which the estimator does not have",
            f"Allowed: its numeric parameters, {', '.join(sorted(numeric))}",
            "Choose one of these, or fit with a criterion that has this one, such as ErrorGap",
        )
    value = parameters[parameter]
    return float(value) if _is_number(value) else None


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _tried_values(
    asked: Sequence[float] | None, own: float | None, *, is_share: bool
) -> FloatArray:
    if asked is not None:
        tried = np.asarray(asked, dtype=np.float64)
    elif is_share:
        tried = np.linspace(0, 1, 21)
    else:
        tried = np.concatenate([[0.0], np.logspace(*_DECADES, _STEPS)])
    return np.unique(tried if own is None else [*tried, own])


def _gap_and_error(fit: Any) -> tuple[float, float]:
    if fit is None:
        return np.nan, np.nan
    return fit.disparity_, float(fit.moments_.proportions @ fit.group_errors_)
