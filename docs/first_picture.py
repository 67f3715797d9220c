"""Draw the README's picture: python docs/first_picture.py.

569 patients, whose tumours are benign or malignant (Street et al. 1993, shipped with scikit-learn).
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairspan import Audit, FairPCA, audit
from fairspan.auditing.expected_losses import Estimate
from fairspan.auditing.results import ModelResult
from fairspan.datasets import tumours_by_diagnosis

PICTURE = Path(__file__).with_name("first-picture.svg")
_LOOKS = {"PCA": ("#d55e00", "o", -0.14), "fair PCA": ("#0072b2", "D", 0.14)}
_CHANGE = "#4d4d4d"


def audited() -> Audit:
    """What three components of PCA, and of fair PCA, would do to new patients."""
    data = tumours_by_diagnosis()
    fair = FairPCA(n_components=3, scale=True)
    fair.fit(data.X, sensitive_features=data.sensitive_features)
    return audit({"fair PCA": fair}, data.X, data.sensitive_features)


def _interval(
    axes: Axes, interval: Estimate, share: float, y: float, look: tuple[str, str]
) -> None:
    """Draw a value and its interval as per cent of the group's variance."""
    colour, marker = look
    axes.plot([interval.low * share, interval.high * share], [y, y], color=colour, linewidth=2)
    axes.plot(interval.value * share, y, marker, color=colour)


def _losses(axes: Axes, found: Audit) -> None:
    """Draw the expected loss of each group under both models, each named beside its interval."""
    for model in found.models:
        colour, marker, beside = _LOOKS[model.name]
        for place, group in enumerate(model.groups):
            share = 100 / group.total_variance_here
            loss = group.expected_loss
            _interval(axes, loss, share, place + beside, (colour, marker))
            axes.annotate(
                f"{model.name}: {group.state}",
                (loss.high * share, place + beside),
                (6, 0),
                textcoords="offset points",
                va="center",
                color=colour,
            )
    axes.set(xlim=(-1.5, 13), xticks=range(0, 9, 2))
    axes.set_title("Loss on new patients", loc="left", fontsize="medium")


def _changes(axes: Axes, fair: ModelResult) -> None:
    """Draw how much each group's error changes from PCA to fair PCA."""
    for place, group in enumerate(fair.groups):
        change, share = group.expected_change, 100 / group.total_variance_here
        _interval(axes, change, share, place, (_CHANGE, "s"))
        axes.annotate(
            "loses less" if change.high < 0 else "loses more" if change.low > 0 else "cannot tell",
            (change.value * share, place),
            (0, 8),
            textcoords="offset points",
            ha="center",
            color=_CHANGE,
        )
    axes.set(xlim=(-2.6, 2.6))
    axes.set_title("Change from PCA to fair PCA", loc="left", fontsize="medium")


def figure_of(found: Audit) -> Figure:
    """Two panels: the loss of each group under both models, and the change between them."""
    figure = Figure(figsize=(8.2, 2.7), layout="constrained")
    losses, changes = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    fair = next(model for model in found.models if not model.is_plain_pca)
    _losses(losses, found)
    _changes(changes, fair)
    names = [f"{group.group}\n{group.n} patients" for group in fair.groups]
    losses.set_yticks(range(len(names)), names)
    losses.set_ylim(len(names) - 0.5, -0.5)
    for axes in (losses, changes):
        axes.axvline(0, color="0.6", linewidth=1, zorder=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
    figure.supxlabel("% of the group's variance, with 95 % intervals", fontsize="medium")
    return figure


def draw(path: Path) -> None:
    """Write the picture, letters as outlines, so that it looks the same everywhere."""
    style = {"svg.hashsalt": "fairspan", "svg.fonttype": "path", "savefig.facecolor": "white"}
    with matplotlib.rc_context(style):
        figure_of(audited()).savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
