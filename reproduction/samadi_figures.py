"""The pictures of :mod:`reproduction.samadi`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairspan.displays.style import BLUE, FOREGROUND, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Told apart with any color vision, and by line style in black and white.
_COLORS = (BLUE, VERMILION)
_PLAIN, _FAIR = "--", "-"
_PANELS_A_ROW = 3

_Table = list[list[float]]


@dataclass(frozen=True)
class Curve:
    """Figures of one data set by dimension, [d - 1][group].

    Attributes
    ----------
    data : str
    groups : tuple of str
    pca_errors, pca_losses : list
    fair_errors, fair_losses : list or None
    proofs : list of (gap, status)
    """

    data: str
    groups: tuple[str, str]
    pca_errors: _Table
    pca_losses: _Table
    fair_errors: _Table | None = None
    fair_losses: _Table | None = None
    proofs: list[tuple[float, str]] = field(default_factory=list)

    def pca(self, quantity: str) -> _Table:
        """Return the table of ordinary PCA for "error" or "loss"."""
        return self.pca_errors if quantity == "error" else self.pca_losses

    def fair(self, quantity: str) -> _Table | None:
        """Return the table of fair PCA for "error" or "loss", or None if it was not computed."""
        return self.fair_errors if quantity == "error" else self.fair_losses


def draw_errors(figure: "Figure", curves: Sequence[Curve]) -> None:
    """Draw a panel for each data set: both groups' errors, PCA dashed and fair PCA solid."""
    for axes, curve in _panels(figure, curves, "average reconstruction error"):
        for g, (group, color) in enumerate(zip(curve.groups, _COLORS, strict=True)):
            _line(axes, curve.pca_errors, g, _PLAIN, color, f"PCA, {group}")
            if curve.fair_errors is not None:
                _line(axes, curve.fair_errors, g, _FAIR, color, f"fair PCA, {group}")
        axes.legend(fontsize=8)


def draw_losses(figure: "Figure", curves: Sequence[Curve]) -> None:
    """Draw a panel for each data set: both groups' losses under PCA, and their common fair loss."""
    for axes, curve in _panels(figure, curves, "average excess loss"):
        for g, (group, color) in enumerate(zip(curve.groups, _COLORS, strict=True)):
            _line(axes, curve.pca_losses, g, _PLAIN, color, f"PCA, {group}")
        if curve.fair_losses is not None:
            worst = [[max(losses)] for losses in curve.fair_losses]
            _line(axes, worst, 0, _FAIR, FOREGROUND, "fair PCA, both")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)


def _panels(figure: "Figure", curves: Sequence[Curve], ylabel: str) -> "list[tuple[Axes, Curve]]":
    n_rows = -(-len(curves) // _PANELS_A_ROW)
    n_columns = min(len(curves), _PANELS_A_ROW)
    figure.set_size_inches(1.2 + 4 * n_columns, 3.6 * n_rows)
    every = figure.subplots(n_rows, n_columns, squeeze=False).ravel().tolist()
    for axes, curve in zip(every, curves, strict=False):
        axes.set(title=curve.data, xlabel="dimensions d", xticks=[1, 5, 10, 15, 20])
        axes.set_ylabel(ylabel)
        axes.grid(alpha=0.25)
    for axes in every[len(curves) :]:
        axes.remove()
    return list(zip(every, curves, strict=False))


def _line(axes: "Axes", table: _Table, g: int, style: str, color: str, label: str) -> None:
    values = [row[g] for row in table]
    axes.plot(range(1, len(values) + 1), values, style, color=color, label=label, linewidth=1.6)
