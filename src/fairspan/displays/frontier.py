"""Two groups' errors: the frontier, what lies above it, and answers of criteria on or near it."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairspan.auditing.results import group_name
from fairspan.displays.base import Picture
from fairspan.displays.fitted import moments_of_fit
from fairspan.displays.style import (
    FAINT,
    INK,
    PLAIN,
    QUIET,
    Axes,
    add_header,
    names_within,
    other_look,
    width_of,
    write_numbers,
)
from fairspan.formatting.text import count, figure, label_of, spoken
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
