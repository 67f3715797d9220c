"""Draw the README's picture: python docs/first_picture.py.

The 32,561 people of Adult by race (Becker and Kohavi 1996), which fairspan ships.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairspan import Audit, FairPCA, audit
from fairspan.auditing.results import GroupResult
from fairspan.datasets import load_adult_by_race

PICTURE = Path(__file__).with_name("first-picture.svg")
DIMENSIONS = range(1, 6)
_COLORS = {"PCA": "#d55e00", "fair PCA": "#0072b2"}
_MARKERS = {"PCA": "o", "fair PCA": "D"}
# Shift of the marks of each model along the axis of components, so that intervals do not overlap.
_SHIFTS = {"PCA": -0.06, "fair PCA": 0.06}
# Loss in percent below which a name is above its mark: the line at zero would strike it through.
_NEAR_ZERO = 0.15
_NAMES = {"Black": "Black people", "other": "other people"}


def audited(dimensions: int) -> Audit:
    """Audit the effect of PCA and fair PCA on new people."""
    people = load_adult_by_race()
    fair = FairPCA(n_components=dimensions, scale=True)
    fair.fit(people.X, sensitive_features=people.sensitive_features)
    return audit({"fair PCA": fair}, people.X, people.sensitive_features)


def _draw_curve(axes: Axes, name: str, groups: list[GroupResult]) -> None:
    """Draw the losses of one group under one model, with intervals."""
    color = _COLORS[name]
    places = [d + _SHIFTS[name] for d in DIMENSIONS]
    percents = [100 / group.observed_total_variance for group in groups]
    losses = [group.expected_loss for group in groups]
    for place, loss, percent in zip(places, losses, percents, strict=True):
        axes.plot([place, place], [loss.low * percent, loss.high * percent], color=color)
    values = [loss.value * percent for loss, percent in zip(losses, percents, strict=True)]
    axes.plot(places, values, color=color, marker=_MARKERS[name], linewidth=1, label=name)
    axes.annotate(
        name,
        (places[-1], values[-1]),
        (9, 0),
        textcoords="offset points",
        va="bottom" if abs(values[-1]) < _NEAR_ZERO else "center",
        color=color,
    )


def _draw_materiality(axes: Axes, materiality: float) -> None:
    """Shade the losses that are too small to matter."""
    axes.axhspan(0, 100 * materiality, color="0.92", zorder=0)
    axes.axhline(0, color="0.6", linewidth=1, zorder=0)


def figure_of(results: list[Audit]) -> Figure:
    """Draw a panel for each group: its loss against the number of components."""
    figure = Figure(figsize=(8.2, 3.1), layout="constrained")
    panels = figure.subplots(1, len(_NAMES), sharey=True)
    for group_index, axes in enumerate(panels):
        _draw_materiality(axes, results[0].materiality)
        for model_index in range(len(_COLORS)):
            models = [result.models[model_index] for result in results]
            _draw_curve(axes, models[0].name, [model.groups[group_index] for model in models])
        group = models[0].groups[group_index]
        title = f"{group.n_rows:,} {_NAMES[str(group.group)]}"
        axes.set_title(title, loc="left", fontsize="medium")
        axes.set(xlabel="components", xticks=DIMENSIONS, xlim=(0.7, 6.1))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("loss, % of the group's variance")
    threshold = f"{100 * results[0].materiality:.0f} %"
    panels[1].text(0.8, 1.08, f"shaded: losses below {threshold}", color="0.35", fontsize="small")
    figure.suptitle(
        "Expected loss of new people, with 95 % intervals (census income, 7 features)",
        x=0.01,
        ha="left",
        fontsize="medium",
    )
    return figure


def draw(path: Path) -> None:
    """Write the picture, letters as outlines, so that it looks the same everywhere."""
    style = {"svg.hashsalt": "fairspan", "svg.fonttype": "path", "savefig.facecolor": "white"}
    with matplotlib.rc_context(style):
        figure_of([audited(d) for d in DIMENSIONS]).savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
