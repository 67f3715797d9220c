"""A picture of our figures against the printed ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairspan.displays.style import BLUE, FOREGROUND, GREEN, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colors of Okabe and Ito, distinct in all common kinds of color vision; so are the shapes.
STYLES = {
    "RFPCA certified": (BLUE, "o"),
    "RFPCA paper's algorithm": (SKY, "D"),
    "FairPCA": (VERMILION, "s"),
    "CFPCA mean": (GREEN, "^"),
    "CFPCA both": (PURPLE, "v"),
    "PCA": (FOREGROUND, "X"),
}


@dataclass(frozen=True)
class Pair:
    """One figure of one method on one data set."""

    figure: str
    method: str
    printed: float
    ours: float


def draw_pairs(figure: "Figure", pairs: Sequence[Pair]) -> None:
    """One panel for each figure: printed across, ours up, logarithmic; a band of ten per cent."""
    from matplotlib.ticker import LogLocator, NullFormatter

    # A logarithmic axis has no place for zero.
    pairs = [pair for pair in pairs if pair.ours > 0]
    names = list(dict.fromkeys(pair.figure for pair in pairs))
    figure.set_size_inches(5.2 * len(names), 5.4 if len(names) > 1 else 5.8)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        pairs_of_figure = [pair for pair in pairs if pair.figure == name]
        least = min(min(pair.printed, pair.ours) for pair in pairs_of_figure)
        most = max(max(pair.printed, pair.ours) for pair in pairs_of_figure)
        line = [least / 1.3, most * 1.3]
        axes.fill_between(
            line,
            [0.9 * x for x in line],
            [1.1 * x for x in line],
            color="0.88",
            label="within 10 %",
        )
        axes.plot(line, line, color="0.5", linewidth=1)
        for method, (color, marker) in STYLES.items():
            points = [pair for pair in pairs_of_figure if pair.method == method]
            if points:
                axes.scatter(
                    [pair.printed for pair in points],
                    [pair.ours for pair in points],
                    s=34,
                    marker=marker,
                    facecolor="none" if method == "RFPCA paper's algorithm" else color,
                    edgecolor=color,
                    label=method,
                )
        axes.set(xscale="log", yscale="log", xlim=line, ylim=line, title=name)
        axes.set(xlabel="printed", ylabel="ours", aspect="equal")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 3)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
    handles, labels = panels[0].get_legend_handles_labels()
    # The layout does not widen the figure for its legend: one panel has room for two columns.
    ncols = 3 if len(names) > 1 else 2
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols, frameon=False)
