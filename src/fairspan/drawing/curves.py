"""Pictures of curves: errors against the number of dimensions, disparity against a parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fairspan.drawing.labels import (
    BEST,
    FAINT,
    FAIR,
    INK,
    PLAIN,
    Look,
    head,
    labels_within,
    look,
    width_of,
)
from fairspan.drawing.layout import label_bounds, panelled_size, panels, plain_numbers, stacked
from fairspan.drawing.picture import Picture, unproven
from fairspan.formatting.names import label_of, spoken
from fairspan.formatting.numbers import axis_number
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Beyond this many groups each has a panel: its lines and bands are then still told apart.
_MOST_TOGETHER = 2
_BAND = 0.16
# Beyond this many dimensions the marks in a panel are smaller.
_MOST_MARKED = 12
_TITLES = {
    "error": "What is lost of each group, by number of dimensions",
    "loss": "What each group loses against its own best subspace",
}


@dataclass(eq=False)
class ErrorCurvePicture(Picture):
    """What PCA and a fair criterion leave of each group, at each number of dimensions.

    Attributes
    ----------
    dimensions : (m,) array of int
        Rising.
    groups : tuple of k str
    plain, fair : (m, k) arrays
        Of ordinary PCA, and of the criterion; NaN where no subspace answers it.
    name : str
        The criterion's.
    best : (m, k) array or None
        The least that any subspace leaves of each group alone.
    plain_interval, fair_interval : (m, k, 2) arrays or None
        Ends of the 95 % intervals; NaN where there is none.
    marked : int or None
        The dimension that was chosen.
    quantity : {"error", "loss"}
    statuses : sequence of m str, or None
        How each fit of the criterion ended, "no answer" where there is none.
    """

    dimensions: npt.NDArray[np.int64]
    groups: tuple[str, ...]
    plain: FloatArray
    fair: FloatArray
    name: str = "fair"
    best: FloatArray | None = None
    plain_interval: FloatArray | None = None
    fair_interval: FloatArray | None = None
    marked: int | None = None
    quantity: Literal["error", "loss"] = "error"
    statuses: Sequence[str] | None = None

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return (6.6, 4.8) if self._together else panelled_size(len(self.groups))

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each model, dimension and group; the ends of intervals where there are."""
        models = self._models()
        shape = (len(models), len(self.dimensions), len(self.groups))
        model, dimension, group = (each.ravel() for each in np.indices(shape))
        none = np.full((*shape[1:], 2), np.nan)
        ends = np.array([none if each.interval is None else each.interval for each in models])
        return {
            "model": [models[i].name for i in model],
            "n_components": self.dimensions[dimension].tolist(),
            "group": [self.groups[g] for g in group],
            self.quantity: np.array([each.values for each in models]).ravel().tolist(),
            "low": ends[..., 0].ravel().tolist(),
            "high": ends[..., 1].ravel().tolist(),
            "status": [
                self.statuses[i] if self.statuses and models[m].style is FAIR else None
                for m, i in zip(model, dimension, strict=True)
            ],
        }

    @property
    def _together(self) -> bool:
        return len(self.groups) <= _MOST_TOGETHER

    def _models(self) -> list[_Model]:
        models = [
            _Model("plain", "PCA", self.plain, self.plain_interval, PLAIN),
            _Model("fair", self.name, self.fair, self.fair_interval, FAIR),
        ]
        if self.best is not None:
            models.append(_Model("best", "best possible", self.best, None, BEST))
        return models

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        from matplotlib.ticker import MaxNLocator

        drawn = (axes,) if self._together else panels(axes, self.groups)
        for i, panel in enumerate(drawn):
            if self.marked is not None:
                panel.axvline(self.marked, color=FAINT, linewidth=1, zorder=0, gid=f"marked-{i}")
        for g in range(len(self.groups)):
            # Where groups share axes, colour and marker tell them apart; else they tell models.
            panel, own = (axes, look(g)) if self._together else (drawn[g], None)
            for model in self._models():
                _draw_line(panel, self.dimensions, model, g, own)
        drawn[0].set_ylim(bottom=0)
        plain_numbers(drawn[:1])  # all are of one scale
        drawn[0].xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, min_n_ticks=1))
        what = "reconstruction error" if self.quantity == "error" else "excess loss"
        label_bounds(axes, drawn, "number of dimensions", what)
        head(axes, _TITLES[self.quantity], *self._legend(axes), note=self._note())
        return drawn

    def _legend(self, axes: Axes) -> tuple[list[Any], list[str]]:
        from matplotlib.lines import Line2D

        handles, labels = [], []
        if self._together:
            labels = labels_within(axes, self.groups, width_of(axes) / 2.5, 10)
            for own in map(look, range(len(self.groups))):
                handles.append(Line2D([], [], color=own.colour, marker=own.marker, linestyle=""))
        for model in self._models():
            colour = INK if self._together and model.style is not BEST else model.style.colour
            line = Line2D([], [], color=colour, linestyle=model.style.line)
            if model.style is not BEST:
                line.set_marker("o" if self._together else model.style.marker)
                line.set_markerfacecolor(colour if model.style.is_filled else "white")
            handles.append(line)
            labels.append(label_of(spoken(model.name)))
        if self.marked is not None:
            handles.append(Line2D([], [], color=FAINT, linewidth=1))
            labels.append(f"{self.marked}, the fitted one")
        return handles, labels

    def _note(self) -> str:
        has_bands = self.plain_interval is not None or self.fair_interval is not None
        bands = "Bands are 95 % intervals from the rows." if has_bands else ""
        return f"{bands} {unproven(self.statuses or ())}".strip()


class _Model(NamedTuple):
    """One line in each panel, which `key` and the group's position identify."""

    key: str
    name: str
    values: FloatArray
    interval: FloatArray | None
    style: Look


def _draw_line(
    axes: Axes, dimensions: npt.NDArray[np.int64], model: _Model, g: int, own: Look | None
) -> None:
    style = model.style
    colour = style.colour if own is None else own.colour
    (line,) = axes.plot(dimensions, model.values[:, g], color=colour, linestyle=style.line)
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
    if model.interval is not None:
        low, high = model.interval[:, g].T
        axes.fill_between(dimensions, low, high, color=colour, alpha=_BAND, linewidth=0)


@dataclass(eq=False)
class DisparityPathPicture(Picture):
    """What more weight on fairness does to the disparity, and what it costs.

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
            labels.append(f"{axis_number(self.current)}, the fitted one")
        upper.axhline(0, color=INK, linewidth=0.8, zorder=1)
        if self.logarithmic:
            _set_logarithmic(lower, self.values)
        plain_numbers((upper, lower), "y" if self.logarithmic else "both")
        upper.set_ylabel("disparity")
        lower.set_ylabel("total error")
        name = label_of(spoken(self.parameter))
        label_bounds(axes, (upper, lower), name)
        title = f"What the {name} does to the disparity, and what it costs"
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
