"""Figures 3 and 7 to 16: errors of both groups against the number of components."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.projector import Projector
from fairspan.typing import FloatArray
from reproduction.experiment import Cell, Effort, Result, Setting
from reproduction.vu import methods
from reproduction.vu.data_sets import data_set_of
from reproduction.vu.methods import Method
from reproduction.vu.protocol import (
    GroupArray,
    Part,
    errors_of,
    split_rows,
    standardized,
)
from reproduction.vu.scatter import STYLES
from reproduction.vu.threads import on_one_thread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DATA_SETS = {
    "biodeg": "Figure 3",
    "default_credit": "Figures 7, 8",
    "ecoli": "Figures 9, 10",
    "magic": "Figures 11, 12",
    "steel_plates": "Figures 13, 14",
    "wine_quality": "Figures 15, 16",
}
_MAX_COMPONENTS = 12
_SETTING = {"radius": 0.15, "penalty": 0.5}
_METHODS = (
    Method("PCA", None, methods.pca),
    Method("FairPCA", None, methods.exact_fair_pca),
    Method("RFPCA certified", None, methods.certified_rfpca, (_SETTING,)),
)
_COLUMNS = ("data set", "rows", "components", "method", "group 1", "group 2", "ABDiff", "ARE")

# By part, method and number of components: errors of both groups, ABDiff, ARE.
Curves = dict[str, dict[str, list[list[float]]]]


class Dimensions:
    """Errors against the number of components, in sample and out of sample."""

    name = "vu-dimensions"
    title = "RFPCA, FairPCA and PCA: errors by group against the number of components"
    source = "Vu, Tran, Yue and Nguyen (2022), Figures 3 and 7 to 16"
    files = tuple(_DATA_SETS)

    def run(self, setting: Setting) -> Result:
        """Fit at every dimension; each split of a data set is one step."""
        quick = setting.effort is Effort.QUICK
        names = ("ecoli", "wine_quality") if quick else tuple(_DATA_SETS)
        n_splits = 2 if quick else 5
        curves_by_data_set: dict[str, Curves] = {}
        total = len(names) * n_splits
        for i, name in enumerate(names):
            splits = []
            for split in range(n_splits):
                setting.progress(f"{name}, split {split + 1}", i * n_splits + split, total)
                step = partial(on_one_thread, _step, name, setting, setting.seed + split)
                splits.append(setting.store.get_or_compute(f"{name}/{split}", step))
            curves_by_data_set[name] = mean_curves(splits)
        rows: list[tuple[Cell, ...]] = [
            (name, part, d, method, *figures)
            for name, curves in curves_by_data_set.items()
            for part, of_part in curves.items()
            for method, of_method in of_part.items()
            for d, figures in enumerate(of_method, start=1)
        ]
        notes = (
            f"Means over {n_splits} splits into halves, standardized by the training half; RFPCA "
            "at radius alpha = 0.15 and penalty 0.5, as in the paper. The paper prints pictures "
            "without figures and does not say how many components they show.",
            "Groups in alphabetical order of their labels.",
        )
        return Result(
            self.title, _COLUMNS, rows, notes, lambda figure: _draw(figure, curves_by_data_set)
        )


def curves_of(X: FloatArray, groups: GroupArray, selection: Sequence[Method], seed: int) -> Curves:
    """Errors of both groups, ABDiff and ARE at 1 to 12 components, on both halves of the rows.

    Parameters
    ----------
    X : (n, p) array
        Raw rows.
    groups : (n,) array
    selection : sequence of Method
    seed : int
        Of the split.
    """
    train_rows, test_rows = split_rows(len(X), 0.5, seed)
    everything = Part(standardized(X, train_rows), groups)
    parts = {"training": everything.at(train_rows), "test": everything.at(test_rows)}
    train = parts["training"]
    moments = GroupMoments.from_rows(train.rows, train.groups)
    curves: Curves = {part: {method.name: [] for method in selection} for part in parts}
    for d in range(1, min(X.shape[1] - 1, _MAX_COMPONENTS) + 1):
        for method in selection:
            fit = method.fit(moments, d, method.settings[0], seed)
            for name, part in parts.items():
                curves[name][method.name].append(_figures(fit.components, part))
    return curves


def mean_curves(splits: Sequence[Curves]) -> Curves:
    """Return the means of curves over splits."""
    return {
        part: {
            method: np.mean([split[part][method] for split in splits], axis=0).tolist()
            for method in of_part
        }
        for part, of_part in splits[0].items()
    }


def _figures(components: FloatArray, part: Part) -> list[float]:
    by_row = Projector(components).squared_residuals(part.rows)
    of_groups = [float(by_row[part.groups == label].mean()) for label in np.unique(part.groups)]
    errors: dict[str, Any] = asdict(errors_of(components, part))
    return [*of_groups, errors["gap"], errors["error"]]


def _step(name: str, setting: Setting, seed: int) -> Curves:
    X, groups = data_set_of(name).load(setting.data)
    return curves_of(X, groups, _METHODS, seed)


def _draw(figure: "Figure", curves_by_data_set: dict[str, Curves]) -> None:
    """Draw errors of both groups, and next to them the gap, of the test half of each data set."""
    figure.set_size_inches(8.4, 2.7 * len(curves_by_data_set) + 0.5)
    figure.suptitle("Rows of the test half")
    panels = figure.subplots(len(curves_by_data_set), 2, squeeze=False)
    for (left, right), (name, curves) in zip(panels, curves_by_data_set.items(), strict=True):
        for method, of_method in curves["test"].items():
            color, marker = STYLES[method]
            table = np.array(of_method)
            d = np.arange(1, len(table) + 1)
            for group, line in ((0, "-"), (1, "--")):
                left.plot(d, table[:, group], color=color, marker=marker, markersize=4, ls=line)
            right.plot(d, table[:, 2], color=color, marker=marker, markersize=4, label=method)
        left.set(title=f"{name}, {_DATA_SETS[name]}", ylabel="mean error")
        right.set(title="gap between the groups", ylabel="ABDiff", ylim=(0, None))
        for axes in (left, right):
            axes.set_xlabel("components")
            axes.xaxis.get_major_locator().set_params(integer=True)
    left = panels[0][0]
    left.plot([], [], color="0.4", ls="-", label="group 1")
    left.plot([], [], color="0.4", ls="--", label="group 2")
    left.legend(frameon=False, fontsize=9)
    panels[0][1].legend(frameon=False, fontsize=9)


DIMENSIONS = Dimensions()
