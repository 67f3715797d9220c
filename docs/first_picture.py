"""Draw the README's picture: python docs/first_picture.py.

The 32,561 people of Adult by sex (Becker and Kohavi 1996), which fairspan ships.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairspan import Audit, FairPCA, audit
from fairspan.auditing.results import GroupResult
from fairspan.datasets import load_adult_by_sex

PICTURE = Path(__file__).with_name("first-picture.svg")
DIMENSIONS = range(2, 7)
_LOOKS = {"PCA": ("#d55e00", "o", -0.06), "fair PCA": ("#0072b2", "D", 0.06)}
_NAMES = {"Female": "women", "Male": "men"}


def audited(dimensions: int) -> Audit:
    """Audit what PCA and fair PCA would do to new people."""
    people = load_adult_by_sex()
    fair = FairPCA(n_components=dimensions, scale=True)
    fair.fit(people.X, sensitive_features=people.sensitive_features)
    return audit({"fair PCA": fair}, people.X, people.sensitive_features)


def _curve(axes: Axes, name: str, groups: list[GroupResult]) -> None:
    """Draw the losses of one group under one projection, with intervals."""
    color, marker, beside = _LOOKS[name]
    places = [d + beside for d in DIMENSIONS]
    losses, shares = (
        [each.expected_loss for each in groups],
        [100 / each.observed_total_variance for each in groups],
    )
    for place, loss, share in zip(places, losses, shares, strict=True):
        axes.plot([place, place], [loss.low * share, loss.high * share], color=color)
    values = [loss.value * share for loss, share in zip(losses, shares, strict=True)]
    axes.plot(places, values, color=color, marker=marker, linewidth=1, label=name)
    axes.annotate(
        name,
        (places[-1], values[-1]),
        (9, 0),
        textcoords="offset points",
        va="center",
        color=color,
    )


def figure_of(results: list[Audit]) -> Figure:
    """Draw a panel for each group: its loss against the number of components."""
    figure = Figure(figsize=(8.2, 3.1), layout="constrained")
    panels = figure.subplots(1, len(_NAMES), sharey=True)
    for place, axes in enumerate(panels):
        for model in range(len(_LOOKS)):
            found = [each.models[model] for each in results]
            _curve(axes, found[0].name, [each.groups[place] for each in found])
        group = found[0].groups[place]
        axes.set_title(
            f"{group.n_rows:,} {_NAMES[str(group.group)]}", loc="left", fontsize="medium"
        )
        axes.set(xlabel="components", xticks=DIMENSIONS, xlim=(1.7, 7.1))
        axes.axhline(0, color="0.6", linewidth=1, zorder=0)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("% of its variance that a group loses\nbeyond its own best components")
    figure.suptitle(
        "Expected on new people, with 95 % intervals (census income, 40 features)",
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
