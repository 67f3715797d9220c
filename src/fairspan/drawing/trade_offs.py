"""Pictures of trade-offs: between two groups, and between disparity and total error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from fairspan.drawing.labels import (
    FAINT,
    FAIR,
    INK,
    PLAIN,
    QUIET,
    Axes,
    head,
    height_of,
    labels_within,
    lay_out,
    other_look,
    width_of,
)
from fairspan.drawing.layout import label_bounds, plain_numbers, stacked
from fairspan.drawing.picture import Picture, unproven
from fairspan.formatting.text import axis_number, count, figure, label_of, spoken
from fairspan.typing import FloatArray

_SIZE = 10.0
# Distances from a mark that are tried, in points, and the sides of it, as signs of right and up.
_DISTANCES = (11.0, 20.0, 30.0, 45.0, 64.0)
_SIDES = ((1, 0), (1, 1), (1, -1), (-1, 0), (0, 1), (-1, 1), (0, -1), (-1, -1))
# From this distance on, a line leads from the name to its mark.
_APART = 12.0
# Points of a line that are compared with the place of a name.
_ALONG = 200
_HORIZONTAL = {-1: "right", 0: "center", 1: "left"}
_VERTICAL = {-1: "top", 0: "center", 1: "bottom"}
# Room around what is shown, as a share of its extent.
_MARGIN = 0.12
# An answer is shown where it is if it lies beyond the frontier's ends by this share of its extent.
_FAR = 0.5
# Answers this near, as a share of the extent, are drawn inside each other.
_NEAR = 0.02
_MARKER_SIZE, _LARGER = 7.0, 3.5
# Where the arrow to an answer outside the picture begins and ends, as shares of the axes.
_ARROW = (0.045, 0.005)


def write_beside(
    axes: Axes, named: Sequence[tuple[str, tuple[float, float]]], lines: Sequence[FloatArray]
) -> None:
    """Write each name as near to its mark as it hides nothing.

    To be called when all else is drawn, as that decides how large the axes are.

    Parameters
    ----------
    axes : matplotlib Axes
    named : sequence of (name, place)
        Names may have several lines; places are in the units of the axes.
    lines : sequence of (m, 2) arrays
        Lines that names must not cover.
    """
    lay_out(axes)
    marks = axes.transData.transform([place for _, place in named])
    covered = np.vstack([marks, *(_along(axes.transData.transform(line)) for line in lines)])
    boxes: list[Any] = []
    for name, place in named:
        boxes.append(_write(axes, name, place, covered, boxes))


def _along(corners: FloatArray) -> FloatArray:
    """Points of a line, so many that no name lies between them."""
    lengths = np.linalg.norm(np.diff(corners, axis=0), axis=1)
    at = np.concatenate([[0.0], np.cumsum(lengths)])
    chosen = np.linspace(0.0, at[-1], _ALONG)
    return np.column_stack([np.interp(chosen, at, corners[:, i]) for i in (0, 1)])


def _write(
    axes: Axes, name: str, place: tuple[float, float], covered: FloatArray, boxes: Sequence[Any]
) -> Any:
    """Write a name where it hides least, as near as can be; the box that it takes."""
    text = axes.annotate(name, place, (0, 0), textcoords="offset points", fontsize=_SIZE, zorder=5)
    tried = []
    for distance, side in product(_DISTANCES, _SIDES):
        _put(text, distance, side)
        tried.append((_hidden(axes, text.get_window_extent(), covered, boxes), distance, side))
        if not tried[-1][0]:
            break
    _, distance, side = min(tried, key=lambda found: found[0])
    _put(text, distance, side)
    if distance > _APART:
        axes.annotate(
            "",
            place,
            text.get_position(),
            textcoords="offset points",
            arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.6, "shrinkB": 4},
        )
    return text.get_window_extent()


def _put(text: Any, distance: float, side: tuple[int, int]) -> None:
    right, up = side
    text.set_position((distance / np.hypot(*side) * right, distance / np.hypot(*side) * up))
    text.set(horizontalalignment=_HORIZONTAL[right], verticalalignment=_VERTICAL[up])


def _hidden(axes: Axes, box: Any, covered: FloatArray, boxes: Sequence[Any]) -> int:
    """How much a name would hide there: marks, the line, other names, or lie outside."""
    frame = axes.get_window_extent()
    inside = (covered > [box.x0, box.y0]) & (covered < [box.x1, box.y1])
    others = sum(bool(box.overlaps(other)) for other in boxes)
    outside = box.x0 < frame.x0 or box.y0 < frame.y0 or box.x1 > frame.x1 or box.y1 > frame.y1
    return int(inside.all(axis=1).sum()) + _ALONG * (others + int(outside))


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
        return 6.6, 5.2

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
        lines = [np.asarray(each.get_xydata()) for each in handles]
        far = self.outside()
        for i, (name, errors) in enumerate(self.answers.items()):
            if name not in far:
                axes.plot(
                    *errors,
                    other_look(i).marker,
                    color=other_look(i).colour,
                    markeredgecolor=INK,
                    markeredgewidth=0.8,
                    markersize=_MARKER_SIZE + _LARGER * self._n_inside(i),
                    zorder=3 + 0.01 * i,
                    gid=f"answer-{i}",
                )
        plain_numbers((axes,))
        names = labels_within(axes, self.groups, 0.7 * min(width_of(axes), height_of(axes)), 11)
        axes.set_xlabel(f"error of {names[0]}")
        axes.set_ylabel(f"error of {names[1]}")
        if self.region is not None:
            handles += axes.fill(*self.region.T, color=FAINT, alpha=0.16, linewidth=0, gid="region")
            labels.append("achievable errors")
        dimensions = count(self.n_components, "dimension")
        head(axes, f"Achievable errors of the two groups with {dimensions}", handles, labels)
        write_beside(axes, self._named(axes), lines)
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
        axes.plot(
            *self.plain,
            PLAIN.marker,
            markersize=_MARKER_SIZE + _LARGER * (2 + self._n_inside(-1)),
            fillstyle="none",
            color=PLAIN.colour,
            markeredgewidth=2.2,
            zorder=4,
            gid="PCA",
        )
        return [curve, equal], ["frontier", "equal errors"]

    def _named(self, axes: Axes) -> list[tuple[str, tuple[float, float]]]:
        """Names of PCA and the answers, of those at one place together; with arrows to far ones."""
        low, high = self._limits()
        places: list[tuple[FloatArray, list[str]]] = []
        far = self.outside()
        # First: they have the least room.
        for name, errors in far.items():
            place = _point_outside(axes, errors, low, high)
            places.append(
                (place, [f"{label_of(spoken(name))} ({figure(errors[0])}, {figure(errors[1])})"])
            )
        for name, errors in [("PCA", self.plain), *self.answers.items()]:
            if name in far:
                continue
            near = _NEAR * (high - low)
            here = [names for place, names in places if (np.abs(errors - place) <= near).all()]
            if not here:
                here = [[]]
                places.append((errors, here[0]))
            here[0].append(label_of(spoken(name)))
        return [("\n".join(names), (float(place[0]), float(place[1]))) for place, names in places]

    def _n_inside(self, i: int) -> int:
        """How many answers drawn later than the i-th lie at the same place; -1 means PCA."""
        points = np.array([*self.answers.values()]).reshape(-1, 2)
        low, high = self._limits()
        place = self.plain if i < 0 else points[i]
        return int((np.abs(points[i + 1 :] - place) <= _NEAR * (high - low)).all(axis=1).sum())

    def _limits(self) -> tuple[FloatArray, FloatArray]:
        points = np.vstack([self.errors, self.plain])
        low, high = points.min(axis=0), points.max(axis=0)
        reach = _FAR * np.maximum(high - low, (high - low).max() * _MARGIN)
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
        half = (0.5 + _MARGIN) * extent
        return middle - half, middle + half


def _point_outside(axes: Axes, errors: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Draw an arrow to an answer outside; where it begins, in the units of the axes."""
    share = (errors - low) / (high - low)
    start, end = (low + np.clip(share, inset, 1 - inset) * (high - low) for inset in _ARROW)
    axes.annotate(
        "",
        (end[0], end[1]),
        (start[0], start[1]),
        arrowprops={"arrowstyle": "->", "color": INK, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0},
    )
    return np.asarray(start)


@dataclass(eq=False)
class DisparityPathPicture(Picture):
    """How disparity and total error change with more weight on fairness.

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
        upper, lower = stacked(axes, 2)
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
        if self.logarithmic:
            _set_logarithmic(lower, self.values)
        plain_numbers((upper, lower), "y" if self.logarithmic else "both")
        upper.set_ylabel("disparity")
        lower.set_ylabel("total error")
        name = label_of(spoken(self.parameter))
        label_bounds(axes, (upper, lower), name)
        title = f"Disparity and total error against the {name}"
        head(axes, title, handles, labels, note=self._note(axes))
        return upper, lower

    def _note(self, axes: Axes) -> str:
        what = "the largest difference of two groups' errors"
        if len(self.groups) == 2:
            first, second = labels_within(axes, self.groups, 0.45 * width_of(axes), 10)
            what = f"the error of {second} minus that of {first}"
        return f"The disparity is {what}. {unproven(self.statuses or ())}".strip()


def _set_logarithmic(axes: Axes, values: FloatArray) -> None:
    from matplotlib.ticker import FuncFormatter

    positive = values[values > 0]
    if not len(positive):
        return
    least = float(positive.min())
    axes.set_xscale("symlog", linthresh=least, linscale=0.5)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axis_number(value)))
    axes.set_xlim(float(values.min()) if values.min() > 0 else -0.1 * least, positive.max() * 1.1)
