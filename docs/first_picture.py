"""Draw the README's picture: python docs/first_picture.py.

569 patients, whose tumours are benign or malignant (Street et al. 1993, shipped with scikit-learn).
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib.figure import Figure

from fairspan import Audit, FairPCA, audit
from fairspan.datasets import tumours_by_diagnosis

PICTURE = Path(__file__).with_name("first-picture.svg")
_LOOKS = {"PCA": ("#d55e00", "o", -0.12), "fair": ("#0072b2", "D", 0.12)}


def audited() -> Audit:
    """What three components of PCA, and of fair PCA, would do to new patients."""
    data = tumours_by_diagnosis()
    fair = FairPCA(n_components=3, scale=True)
    fair.fit(data.X, sensitive_features=data.sensitive_features)
    return audit({"fair": fair}, data.X, data.sensitive_features)


def figure_of(found: Audit) -> Figure:
    """The expected loss of each group with its interval, as a share of the group's variance."""
    figure = Figure(figsize=(6.4, 2.6), layout="constrained")
    axes = figure.subplots()
    for model in sorted(found.models, key=lambda model: not model.is_plain_pca):
        colour, marker, beside = _LOOKS[model.name]
        for place, group in enumerate(model.groups):
            loss = group.expected.loss
            low, value, high = (
                100 * each / group.total_variance for each in (loss.low, loss.value, loss.high)
            )
            y = place + beside
            axes.plot([low, high], [y, y], color=colour, linewidth=2)
            axes.plot(value, y, marker, color=colour, label=None if place else model.name)
            axes.annotate(
                group.state,
                (high, y),
                (6, 0),
                textcoords="offset points",
                va="center",
                color="0.35",
            )
    axes.axvline(0, color="0.6", linewidth=1)
    names = [f"{group.group}\n{group.n} patients" for group in found.models[0].groups]
    axes.set_yticks(range(len(names)), names)
    axes.set(
        ylim=(len(names) - 0.5, -0.5),
        xlabel="expected loss on new patients, % of the group's variance",
    )
    axes.margins(x=0.15)
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    return figure


def draw(path: Path) -> None:
    """Write the picture, letters as outlines, so that it looks the same everywhere."""
    style = {"svg.hashsalt": "fairspan", "svg.fonttype": "path", "savefig.facecolor": "white"}
    with matplotlib.rc_context(style):
        figure_of(audited()).savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
