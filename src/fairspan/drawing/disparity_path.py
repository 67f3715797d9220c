"""Picture of a path: disparity and total error against a parameter of the criterion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairspan.drawing.labels import FAINT, FAIR, INK, PLAIN, head, labels_within, width_of
from fairspan.drawing.layout import label_bounds, plain_numbers, stacked
from fairspan.drawing.picture import Picture, unproven
from fairspan.formatting.names import label_of, spoken
from fairspan.formatting.numbers import axis_number
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
