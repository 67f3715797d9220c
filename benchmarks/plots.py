"""Plots of the results, in colors that color-blind readers can tell apart, each with a marker."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from fairspan.displays.style import BLUE, MUTED, VERMILION


def draw_ratios(
    figure: Figure, names: Sequence[str], ratios: Sequence[float], goals: Sequence[float]
) -> None:
    """Plot a dot for each ratio and a bar for its goal, with a line at one, the fastest PCA."""
    axes = figure.add_subplot()
    places = np.arange(len(names))[::-1]
    axes.axvline(1, color=MUTED, linewidth=1, zorder=0)
    axes.scatter(goals, places, marker="|", s=350, color=VERMILION, label="goal: at most", zorder=2)
    axes.scatter(ratios, places, marker="o", s=45, color=BLUE, label="reached", zorder=3)
    for place, ratio in zip(places, ratios, strict=True):
        axes.annotate(
            f"{ratio:.2f}", (ratio, place), (0, 7), textcoords="offset points", ha="center",
            color=BLUE, fontsize=9,
        )  # fmt: skip
    axes.set(xscale="log", yticks=places, yticklabels=names, ylim=(-0.6, len(names) - 0.2))
    lower = min(*ratios, *goals, 1) / 1.4
    upper = max(*ratios, *goals, 1) * 1.4
    axes.set_xlim(lower, upper)
    _set_decimal_ticks(axes, lower, upper)
    axes.set_xlabel("time of a fair fit / time of scikit-learn's fastest PCA")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, 1.13), ncols=2, frameon=False)
    _hide_top_and_right_frame(axes)


def draw_curves(
    figure: Figure,
    label: str,
    values: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    title: str,
) -> None:
    """Plot seconds against a size, both logarithmic, with each curve's fitted exponent.

    `label` is that of the size and begins with its symbol, such as "n, rows"; `curves` has the
    seconds of each method at `values`.
    """
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
    # Ticks at 1, 2 and 5 times the powers of ten: at least one, however short the axis is.
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=30))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylim(min(map(min, curves.values())) / 1.5, max(map(max, curves.values())) * 3)
    axes.grid(which="major", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
    _hide_top_and_right_frame(axes)


def exponent(values: Sequence[float], seconds: Sequence[float]) -> float:
    """Return b of the least-squares fit seconds = a values^b in logarithms."""
    return float(np.polyfit(np.log(values), np.log(seconds), 1)[0])


def _set_decimal_ticks(axes: Axes, lower: float, upper: float) -> None:
    """Replace the powers of ten of a logarithmic axis by ticks at 1, 2 and 5 times them."""
    candidates = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
    ticks = [tick for tick in candidates if lower <= tick <= upper]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _hide_top_and_right_frame(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
