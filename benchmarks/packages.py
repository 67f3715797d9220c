"""Published packages that hide the group: how fast, and what they keep."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from benchmarks.effort import Effort
from benchmarks.report import Measured
from benchmarks.results import seconds_and_turns, shown_seconds, table_of
from benchmarks.rows import FloatArray, made, missing, table
from fairspan import FairPCA, MeanParity

D = 5
_STRENGTH = 100.0
_FOUND = """\
**We found no package on the Python package index that serves groups**, that is, minimizes a
criterion of the groups' reconstruction errors. What was tried, in November 2026: no package is
called `fair-pca` or `fairpca`; `fairlearn` 0.15 and `aif360` 0.6.1 have preprocessing, but nothing
that is a PCA; R's `fairmodels::fairness_pca` is ordinary PCA of a table of fairness metrics.
Repositories have it: minPCA, which installs from its own, with PyTorch, and, as scripts, some of
them Matlab, StablePCA and the code of the older papers (Samadi et al., Vu et al., Shen et al.).
What the methods of the first two reach is under *The worst case of several groups*.

Two packages compete on the other goal, **hiding the group**: `fairlearn`'s `CorrelationRemover`
before ordinary PCA, which shifts each group's rows and so needs the group of every row to
transform, and `augmented-pca`'s adversarial `AAPCA`, which does without. Beside them
`FairPCA(criterion="total_error", restriction=MeanParity())`, a projection that needs no group to
transform; fit and transform, on"""


@dataclass(frozen=True)
class Reduced:
    """Rows reduced by one method: how fast, what they keep, what they reveal."""

    name: str
    seconds: float
    kept: float
    apart: float


def measure(effort: Effort) -> Measured:
    """The methods that are installed, on the same rows."""
    if missing("default_credit.parquet"):
        (X, labels), what = made(30_000, 22), "made rows (30,000 x 22)"
    else:
        X, labels = table("default_credit", "education", integer_labels=True)
        what = f"Default Credit ({len(X):,} x {X.shape[1]}), education"
    found = reduced(X, np.asarray(labels, dtype=np.float64), effort)
    lines = [
        [
            each.name,
            shown_seconds(each.seconds),
            f"{each.seconds / found[0].seconds:.1f}",
            f"{each.kept:.2%}",
            f"{each.apart:.1e}",
        ]
        for each in found
    ]
    header = ["by", "fit and transform", "over ours", "variance kept", "group means apart"]
    text = (
        f"{_FOUND} {what}, d = {D}.\n\n{table_of(header, lines)}\n\nVariance kept is that of the "
        "reduced rows over that of all features; group means apart is the distance between the "
        "groups' mean reduced rows, zero where the group is hidden from them."
    )
    absent = [name for name, package in _RIVALS.items() if find_spec(package) is None]
    if absent:
        text += f" Not installed here, so not measured: {', '.join(absent)}."
    packages = ("fairspan", "numpy", "scikit-learn", "fairlearn", "augmented-pca")
    return Measured(text, packages)


def reduced(X: FloatArray, group: FloatArray, effort: Effort) -> list[Reduced]:
    """Ours first."""
    runs: dict[str, Callable[[], FloatArray]] = {"fairspan": partial(ours, X, group)}
    if find_spec("fairlearn"):
        runs["fairlearn, CorrelationRemover + PCA"] = partial(correlation_removed, X, group)
    if find_spec("apca"):
        runs[f"augmented-pca, AAPCA(mu={_STRENGTH:g})"] = partial(adversarial, X, group)
    seconds, _ = seconds_and_turns(dict(runs), effort.repetitions)
    return [
        Reduced(
            name,
            seconds[name],
            float(rows.var(axis=0).sum() / X.var(axis=0).sum()),
            float(np.linalg.norm(rows[group == 1].mean(axis=0) - rows[group == 0].mean(axis=0))),
        )
        for name, rows in ((name, run()) for name, run in runs.items())
    ]


def ours(X: FloatArray, group: FloatArray) -> FloatArray:
    """Exact mean parity, and the least error it allows."""
    fair = FairPCA(D, criterion="total_error", restriction=MeanParity())
    return np.asarray(fair.fit(X, sensitive_features=group).transform(X))


def correlation_removed(X: FloatArray, group: FloatArray) -> FloatArray:
    """Regress every feature on the group, and reduce what is left."""
    remover: Any = import_module("fairlearn.preprocessing").CorrelationRemover
    rows = remover(sensitive_feature_ids=[X.shape[1]]).fit_transform(np.column_stack([X, group]))
    return np.asarray(PCA(D).fit_transform(rows))


def adversarial(X: FloatArray, group: FloatArray) -> FloatArray:
    """Components that keep X and fail to reconstruct the group."""
    model: Any = import_module("apca.models").AAPCA(n_components=D, mu=_STRENGTH)
    return np.asarray(model.fit_transform(X - X.mean(axis=0), (group - group.mean())[:, None]))


# What a package is imported as.
_RIVALS = {"fairlearn": "fairlearn", "augmented-pca": "apca"}
