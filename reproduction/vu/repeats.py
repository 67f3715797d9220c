"""One repeat on one data set: split, choose settings by cross-validation, fit, judge."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fairspan.moments.group_moments import GroupMoments
from fairspan.typing import FloatArray
from reproduction.vu.methods import Method, Setting
from reproduction.vu.protocol import (
    GroupArray,
    Part,
    errors_of,
    fold_rows,
    split_rows,
    standardized,
)

TRAIN_SHARE = 0.3
N_COMPONENTS = 3

# What one method did in one repeat, as JSON keeps it.
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Repeat:
    """Settings of one repeat.

    Attributes
    ----------
    seed : int
        Of the split, the folds and random starts.
    n_folds : int
    scale : bool
        Whether rows are divided by the training part's standard deviations.
    leakage : bool
        Whether to train a classifier of the group on the projected rows.
    """

    seed: int
    n_folds: int = 3
    scale: bool = True
    leakage: bool = False


def run_repeat(
    X: FloatArray, groups: GroupArray, methods: Sequence[Method], repeat: Repeat
) -> dict[str, Outcome]:
    """Fit every method to 30 % of the rows and judge it on these and on the others.

    Parameters
    ----------
    X : (n, p) array
        Raw rows.
    groups : (n,) array
        Of two groups.
    methods : sequence of Method
        One that follows another comes after it.
    repeat : Repeat

    Returns
    -------
    dict of method name to outcome
        ``left_out`` with the reason, or ``setting``, ``train`` and ``test`` (the fields of Errors),
        ``objective`` (of its own criterion, on the training part) and, if asked for, ``leakage``.
    """
    train_rows, test_rows = split_rows(len(X), TRAIN_SHARE, repeat.seed)
    everything = Part(standardized(X, train_rows, scale=repeat.scale), groups)
    train, test = everything.at(train_rows), everything.at(test_rows)
    moments = GroupMoments.from_rows(train.rows, train.groups)
    folds = fold_moments(train, repeat.n_folds, repeat.seed)
    outcomes: dict[str, Outcome] = {}
    for method in methods:
        if method.max_features is not None and X.shape[1] > method.max_features:
            reason = f"{X.shape[1]} features, over {method.max_features}"
            outcomes[method.name] = {"left_out": reason}
            continue
        if method.follows is not None:
            setting = outcomes[method.follows]["setting"]
        else:
            setting = choose_setting(method, folds, repeat.seed)
        fit = method.fit(moments, N_COMPONENTS, setting, repeat.seed)
        components = fit.components
        outcomes[method.name] = {
            "setting": setting,
            "objective": fit.require_certificate().objective,
            "train": asdict(errors_of(components, train)),
            "test": asdict(errors_of(components, test)),
        }
        if repeat.leakage:
            outcomes[method.name]["leakage"] = leakage_of(components, train, test)
    return outcomes


def fold_moments(train: Part, n_folds: int, seed: int) -> list[tuple[GroupMoments, Part]]:
    """Return the training moments and the held-out rows of each fold."""
    return [
        (
            GroupMoments.from_rows(train.rows[training_rows], train.groups[training_rows]),
            train.at(held_out_rows),
        )
        for training_rows, held_out_rows in fold_rows(len(train.rows), n_folds, seed)
    ]


def choose_setting(
    method: Method, folds: Sequence[tuple[GroupMoments, Part]], seed: int
) -> Setting:
    """Return the setting with the least mean ABDiff + ARE over the folds; the first of ties."""
    if len(method.settings) == 1:
        return method.settings[0]
    sums = [
        np.mean([_score_setting(method, moments, part, setting, seed) for moments, part in folds])
        for setting in method.settings
    ]
    return method.settings[int(np.argmin(sums))]


def leakage_of(components: FloatArray, train: Part, test: Part) -> float:
    """Return Delta F_Lin, the leakage of the group by a linear classifier on held-out rows."""
    # Imported here: scikit-learn's classifiers are slow to import, and most tables need none.
    from fairspan.metrics import leakage

    return float(
        leakage(train.rows @ components.T, train.groups, test.rows @ components.T, test.groups)
    )


def figures_of(outcomes: Sequence[Mapping[str, Outcome]], name: str, *path: str) -> list[float]:
    """Return a figure of one method in each repeat that includes it."""
    figures = []
    for outcome in outcomes:
        entry: Any = outcome.get(name, {"left_out": "not run in this repeat"})
        if "left_out" not in entry:
            for step in path:
                entry = entry[step]
            figures.append(float(entry))
    return figures


def _score_setting(
    method: Method, moments: GroupMoments, part: Part, setting: Setting, seed: int
) -> float:
    components = method.fit(moments, N_COMPONENTS, setting, seed).components
    errors = errors_of(components, part)
    return errors.gap + errors.error
