"""The trade-off of two groups' errors, and where answers lie on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairspan.drawing.names import label_of
from fairspan.drawing.palette import BLUE, FAINT, INK, VERMILION, look
from fairspan.drawing.picture import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = npt.NDArray[np.float64]

_MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
# Room around the frontier and the answers, as a share of their extent.
_MARGIN = 0.12


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
        if self.region is not None:
            axes.fill(*self.region.T, color=FAINT, alpha=0.16, linewidth=0)
        ends = np.array([min(low), max(high)])
        axes.plot(ends, ends, color=FAINT, linewidth=1, linestyle=(0, (1, 2)))
        (curve,) = axes.plot(*self.errors.T, color=INK, gid="frontier")
        handles: list[Any] = [curve]
        labels = ["the best there is"]
        for i, (name, errors) in enumerate(self.answers.items()):
            colour = look(i).colour if look(i).colour != VERMILION else BLUE
            handles += axes.plot(
                *errors, _MARKERS[i % 10], color=colour, markeredgecolor=INK, linestyle="none"
            )
            labels.append(label_of(name))
        handles += axes.plot(
            *self.plain, "o", markersize=11, fillstyle="none", color=VERMILION, markeredgewidth=2.2
        )
        labels.append("PCA")
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        axes.set_xlabel(f"error of {label_of(self.groups[0])}")
        axes.set_ylabel(f"error of {label_of(self.groups[1])}")
        axes.set_title(f"What any {self.n_components} dimensions can do for the two groups")
        axes.legend(handles, labels, loc="upper right")
        return (axes,)

    def _limits(self) -> tuple[FloatArray, FloatArray]:
        points = np.vstack([self.errors, self.plain, *self.answers.values()])
        low, high = points.min(axis=0), points.max(axis=0)
        extent = high - low
        # A frontier of one point, or along one axis, still needs room.
        extent = np.where(extent > 0, extent, max(extent.max(), 0.1 * high.max(), 1e-12))
        return low - _MARGIN * extent, high + _MARGIN * extent
