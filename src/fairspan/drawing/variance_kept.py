"""The share of each group's variance that is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.drawing.heading import for_legend, head
from fairspan.drawing.palette import BEST, FAINT, FAIR, PLAIN
from fairspan.drawing.picture import Picture
from fairspan.drawing.rows import rows_size, set_rows
from fairspan.formatting.names import label_of, spoken
from fairspan.formatting.numbers import count
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False)
class VarianceKeptPicture(Picture):
    """The share of each group's variance that PCA keeps, a fair criterion, and the best possible.

    Attributes
    ----------
    groups : tuple of k str
    plain, fair, best : (k,) arrays
        From 0 to 1; NaN for a group without variance.
    n_components : int
    name : str
        The criterion's.
    """

    groups: tuple[str, ...]
    plain: FloatArray
    fair: FloatArray
    best: FloatArray
    n_components: int
    name: str = "fair"

    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return rows_size(self.groups)

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each group."""
        return {
            "group": list(self.groups),
            "PCA": self.plain.tolist(),
            self.name: self.fair.tolist(),
            "best possible": self.best.tolist(),
        }

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        from matplotlib.ticker import PercentFormatter

        rows = np.arange(len(self.groups))
        axes.hlines(rows, self.plain, self.fair, color=FAINT, linewidth=2.5, zorder=1)
        (best,) = axes.plot(
            self.best, rows, "|", color=BEST.colour, markersize=17, markeredgewidth=2.2
        )
        (fair,) = axes.plot(self.fair, rows, FAIR.marker, color=FAIR.colour, markersize=8)
        (plain,) = axes.plot(
            self.plain,
            rows,
            PLAIN.marker,
            color=PLAIN.colour,
            markersize=11,
            fillstyle="none",
            markeredgewidth=2.2,
        )
        axes.set(xlim=(-0.02, 1.02), xlabel="share of the group's variance that is kept")
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        beside = set_rows(axes, self.groups)
        labels = ["PCA", label_of(spoken(self.name)), "best possible for the group alone"]
        dimensions = count(self.n_components, "dimension")
        title = f"The share of each group's variance that {dimensions} can keep"
        head(axes, title, for_legend([plain, fair, best]), labels, beside=beside)
        return (axes,)
