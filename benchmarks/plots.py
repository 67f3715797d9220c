"""Plots that are read at a glance: few colors that everybody tells apart, and a marker each."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from fairspan.displays.style import BLUE, MUTED, VERMILION


def draw_ratios(
    figure: Figure, names: Sequence[str], ratios: Sequence[float], goals: Sequence[float]
) -> None:
    """A dot for each ratio, a bar for its goal, the best plain PCA at one."""
    axes, places = figure.add_subplot(), np.arange(len(names))[::-1]
    axes.axvline(1, color=MUTED, linewidth=1, zorder=0)
    axes.scatter(goals, places, marker="|", s=350, color=VERMILION, label="goal: at most", zorder=2)
    axes.scatter(ratios, places, marker="o", s=45, color=BLUE, label="reached", zorder=3)
    for place, ratio in zip(places, ratios, strict=True):
        axes.annotate(
            f"{ratio:.2f}", (ratio, place), (0, 7), textcoords="offset points", ha="center",
            color=BLUE, fontsize=9,
        )  # fmt: skip
    axes.set(xscale="log", yticks=places, yticklabels=names, ylim=(-0.6, len(names) - 0.2))
    least, most = min(*ratios, *goals, 1), max(*ratios, *goals, 1)
    axes.set_xlim(least / 1.4, most * 1.4)
    _plain_ticks(axes, least / 1.4, most * 1.4)
    axes.set_xlabel("time of a fair fit / time of scikit-learn's fastest PCA")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, 1.13), ncols=2, frameon=False)
    _open_frame(axes)


def draw_curves(
    figure: Figure,
    label: str,
    values: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    title: str,
) -> None:
    """Seconds against a size, both logarithmic, with each curve's fitted exponent."""
    axes = figure.add_subplot()
    symbol = label.partition(",")[0]
    styles = ((BLUE, "o", "-"), (VERMILION, "s", "--"))
    for (name, seconds), (color, marker, line) in zip(curves.items(), styles, strict=True):
        power = exponent(values, seconds)
        axes.plot(
            values, seconds, color=color, marker=marker, linestyle=line, markersize=6,
            label=f"{name}: grows like {symbol}$^{{{power:.2f}}}$",
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel="seconds", title=title)
    axes.xaxis.set_major_locator(FixedLocator(list(values)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    # Ticks at 1, 2 and 5 times the powers of ten; there is at least one, however short the axis.
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=30))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylim(min(map(min, curves.values())) / 1.5, max(map(max, curves.values())) * 3)
    axes.grid(which="major", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
    _open_frame(axes)


def exponent(values: Sequence[float], seconds: Sequence[float]) -> float:
    """b of the least-squares fit seconds = a values^b in logarithms."""
    return float(np.polyfit(np.log(values), np.log(seconds), 1)[0])


def _plain_ticks(axes: Axes, least: float, most: float) -> None:
    ticks = [each for each in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if least <= each <= most]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _open_frame(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
