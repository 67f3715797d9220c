"""Pictures of points in a plane: two groups' errors and the answers' place, and reduced rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairspan.drawing.labels import (
    FAINT,
    INK,
    PLAIN,
    QUIET,
    Look,
    for_legend,
    head,
    height_of,
    labels_within,
    look,
    other_look,
    width_of,
)
from fairspan.drawing.layout import fill_evenly, label_bounds, panelled_size, panels, plain_numbers
from fairspan.drawing.picture import Picture
from fairspan.formatting.names import label_of, spoken
from fairspan.formatting.numbers import count
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Room around the frontier and the answers, as a share of their extent.
_MARGIN = 0.12
# Answers this near, as a share of the extent, are drawn inside each other.
_NEAR = 0.02
_MARKER_SIZE, _LARGER = 7.0, 3.5


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
        What criteria choose.
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
        return 6.6, 5.6

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """What is drawn: `what` is "frontier", "PCA" or an answer's name."""
        named = [("PCA", self.plain), *self.answers.items()]
        points = np.vstack([self.errors, *(each for _, each in named)])
        return {
            "what": ["frontier"] * len(self.errors) + [name for name, _ in named],
            **{f"error of {group}": points[:, g].tolist() for g, group in enumerate(self.groups)},
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        low, high = self._limits()
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        handles, labels = self._draw_curve(axes)
        for i, (name, errors) in enumerate(self.answers.items()):
            (mark,) = axes.plot(
                *errors,
                other_look(i).marker,
                color=other_look(i).colour,
                markeredgecolor=INK,
                markeredgewidth=0.8,
                markersize=_MARKER_SIZE + _LARGER * self._n_inside(i),
                zorder=3 + 0.01 * i,
                gid=f"answer-{i}",
            )
            handles.append(mark)
            labels.append(label_of(spoken(name)))
        plain_numbers((axes,))
        names = labels_within(axes, self.groups, 0.7 * min(width_of(axes), height_of(axes)), 11)
        axes.set_xlabel(f"error of {names[0]}")
        axes.set_ylabel(f"error of {names[1]}")
        dimensions = count(self.n_components, "dimension")
        title = f"What {dimensions} can do for the two groups"
        handles = for_legend(handles)
        if self.region is not None:
            handles += axes.fill(*self.region.T, color=FAINT, alpha=0.16, linewidth=0, gid="region")
            labels.append("achievable errors")
        head(axes, title, handles, labels)
        return (axes,)

    def _draw_curve(self, axes: Axes) -> tuple[list[Any], list[str]]:
        """What every answer is compared with."""
        ends = [min(axes.get_xlim()[0], axes.get_ylim()[0]), 0.0]
        ends[1] = max(axes.get_xlim()[1], axes.get_ylim()[1])
        (equal,) = axes.plot(ends, ends, color=INK, alpha=QUIET, linewidth=1.2)
        equal.set_linestyle((0, (1, 2)))
        is_point = len(self.errors) == 1
        (curve,) = axes.plot(
            *self.errors.T, color=INK, linewidth=2.2, marker="." if is_point else "", gid="frontier"
        )
        (plain,) = axes.plot(
            *self.plain,
            PLAIN.marker,
            markersize=_MARKER_SIZE + _LARGER * (2 + self._n_inside(-1)),
            fillstyle="none",
            color=PLAIN.colour,
            markeredgewidth=2.2,
            zorder=4,
            gid="PCA",
        )
        return [curve, equal, plain], ["frontier", "equal errors", "PCA"]

    def _n_inside(self, i: int) -> int:
        """How many answers drawn later than the i-th lie at the same place; -1 stands for PCA."""
        points = np.array([*self.answers.values()]).reshape(-1, 2)
        low, high = self._limits()
        place = self.plain if i < 0 else points[i]
        near = (np.abs(points[i + 1 :] - place) <= _NEAR * (high - low)).all(axis=1)
        return int(near.sum())

    def _limits(self) -> tuple[FloatArray, FloatArray]:
        points = np.vstack([self.errors, self.plain, *self.answers.values()])
        low, high = points.min(axis=0), points.max(axis=0)
        extent = high - low
        # A frontier of one point, or along one axis, still needs room.
        extent = np.maximum(extent, 1e-3 * max(*extent, *high) or 1.0)
        middle = (low + high) / 2
        half = (0.5 + _MARGIN) * extent
        return middle - half, middle + half


_MOST_TOGETHER = 4
# Standard deviations that an ellipse and its axes reach.
_REACH = 2.0
# Points are fainter the more there are, so that dense places are told from dark ones.
_MOST_OPAQUE, _OPACITY = 0.6, 7.0
# Points are far where they lie this many times the range of all but this share of them beyond it.
_TAIL, _FAR = 0.05, 2.0
_TITLE = "The rows in two dimensions, with each group's own axes"


@dataclass(eq=False)
class ReducedRowsPicture(Picture):
    """Rows of every group in the plane of the first two components.

    Attributes
    ----------
    points : (n, 2) array
    codes : (n,) array of int
        Position of each row's group.
    groups : tuple of k str
    means : (k, 2) array
        Of all rows of each group, also those that are not shown.
    covariances : (k, 2, 2) array
        Of all rows of each group about their own mean.
    n_rows : int
        Rows that the points were drawn from.
    """

    points: FloatArray
    codes: npt.NDArray[np.intp]
    groups: tuple[str, ...]
    means: FloatArray
    covariances: FloatArray
    n_rows: int

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        if len(self.groups) <= _MOST_TOGETHER:
            return 6.4, 5.4
        return panelled_size(len(self.groups))

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each point."""
        return {
            "group": [self.groups[g] for g in self.codes],
            "component 1": self.points[:, 0].tolist(),
            "component 2": self.points[:, 1].tolist(),
        }

    def principal_axes(self, g: int) -> FloatArray:
        """The axes of a group's ellipse as rows, two standard deviations long, longest first."""
        variances, directions = np.linalg.eigh(self.covariances[g])
        lengths = _REACH * np.sqrt(np.maximum(variances, 0.0))
        return np.asarray((directions * lengths).T[::-1])

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        together = len(self.groups) <= _MOST_TOGETHER
        drawn = (axes,) if together else panels(axes, self.groups)
        handles = []
        for g in range(len(self.groups)):
            if together:
                handles.append(self._draw_group(axes, g, look(g)))
            else:
                # The other groups behind, so that it is seen where among them this one lies.
                _scatter(drawn[g], self.points[self.codes != g], Look(FAINT, "o", "-"))
                self._draw_group(drawn[g], g, look(0))
        n_outside = self._leave_out_far_points(drawn)
        whole = together and not n_outside
        if not whole:
            fill_evenly(drawn[0])
        for panel in drawn:
            # At one scale, axes at right angles are seen at right angles.
            panel.set_aspect("equal", adjustable="datalim" if whole else "box")
        plain_numbers(drawn[:1])  # all are of one scale
        label_bounds(axes, drawn, "component 1", "component 2")
        labels = labels_within(axes, self.groups, width_of(axes) / 2.5, 10) if together else []
        note = "Ellipses: two standard deviations of the group's rows, along its own axes."
        if len(self.points) < self.n_rows:
            note = f"{len(self.points):,} of {self.n_rows:,} rows are shown. {note}"
        if n_outside:
            lies = "lies" if n_outside == 1 else "lie"
            note += f" {count(n_outside, 'row')} {lies} outside the picture."
        head(axes, _TITLE, handles, labels, note=note)
        return drawn

    def _leave_out_far_points(self, drawn: Sequence[Axes]) -> int:
        """Limit the axes where single points lie far from all others; how many these are."""
        low, high = np.quantile(self.points, [_TAIL, 1 - _TAIL], axis=0)
        reach = np.maximum(high - low, (high - low).max())
        low, high = low - _FAR * reach, high + _FAR * reach
        inside = ((self.points >= low) & (self.points <= high)).all(axis=1)
        if inside.all():
            return 0
        axes = [self.principal_axes(g) for g in range(len(self.groups))]
        ends = [
            mean + sign * each
            for mean, each in zip(self.means, axes, strict=True)
            for sign in (-1, 1)
        ]
        shown = np.vstack([self.points[inside], np.clip(np.vstack(ends), low, high)])
        start, end = shown.min(axis=0), shown.max(axis=0)
        margin = _MARGIN * (end - start) / 2
        for panel in drawn:
            panel.set_xlim(start[0] - margin[0], end[0] + margin[0])
            panel.set_ylim(start[1] - margin[1], end[1] + margin[1])
        return int((~inside).sum())

    def _draw_group(self, axes: Axes, g: int, own: Look) -> Any:
        from matplotlib.lines import Line2D

        _scatter(axes, self.points[self.codes == g], own)
        long, short = self.principal_axes(g)
        turn = np.linspace(0, 2 * np.pi, 200)[:, None]
        lines = [
            self.means[g] + np.cos(turn) * long + np.sin(turn) * short,
            np.array([self.means[g] - long, self.means[g] + long]),
            np.array([self.means[g] - short, self.means[g] + short]),
        ]
        for i, line in enumerate(lines):
            style = own.line if i == 0 else "-"
            axes.plot(*line.T, color="white", linewidth=3.4, alpha=0.8)
            axes.plot(*line.T, color=own.colour, linestyle=style, linewidth=1.7)
        return Line2D([], [], color=own.colour, marker=own.marker, linestyle=own.line)


def _scatter(axes: Axes, points: FloatArray, own: Look) -> None:
    """Points as one image inside a drawing, which would get large otherwise."""
    axes.plot(
        *points.T,
        own.marker,
        color=own.colour,
        alpha=min(_MOST_OPAQUE, _OPACITY / np.sqrt(max(len(points), 1))),
        markersize=4,
        markeredgewidth=0,
        rasterized=True,
    )
