"""Published packages that hide the group: their time, and how much variance they keep."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from benchmarks.effort import Effort
from benchmarks.measurement import format_seconds, format_table, median_seconds_and_counts
from benchmarks.report import SectionContent
from benchmarks.rows import FloatArray, explain_missing, load_table, make_rows
from fairspan import FairPCA, MeanParity

D = 5
# The parameter mu of AAPCA: how much failing to reconstruct the group counts.
_ADVERSARIAL_STRENGTH = 100.0
# Name of the package on the index to the name of its module.
_RIVALS = {"fairlearn": "fairlearn", "augmented-pca": "apca"}
_SURVEY = """\
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
class MethodResult:
    """Time and quality of one method.

    Attributes
    ----------
    name : str
    seconds : float
        Of fit and transform.
    kept_variance : float
        Variance of the reduced rows over that of all features.
    mean_distance : float
        Distance between the mean reduced rows of the two groups.
    """

    name: str
    seconds: float
    kept_variance: float
    mean_distance: float


def measure(effort: Effort) -> SectionContent:
    """Compare the methods that are installed, on the same rows."""
    if explain_missing("default_credit.parquet"):
        X, labels = make_rows(30_000, 22)
        data = "synthetic rows (30,000 x 22)"
    else:
        X, labels = load_table("default_credit", "education", integer_labels=True)
        data = f"Default Credit ({len(X):,} x {X.shape[1]}), education"
    results = compare_methods(X, np.asarray(labels, dtype=np.float64), effort)
    fairspan_seconds = results[0].seconds
    lines = [
        [
            result.name,
            format_seconds(result.seconds),
            f"{result.seconds / fairspan_seconds:.1f}",
            f"{result.kept_variance:.2%}",
            f"{result.mean_distance:.1e}",
        ]
        for result in results
    ]
    header = ["by", "fit and transform", "over ours", "variance kept", "group means apart"]
    text = (
        f"{_SURVEY} {data}, d = {D}.\n\n{format_table(header, lines)}\n\nVariance kept is that of "
        "the reduced rows over that of all features; group means apart is the distance between "
        "the groups' mean reduced rows, zero where the group is hidden from them."
    )
    absent = [name for name, package in _RIVALS.items() if find_spec(package) is None]
    if absent:
        text += f" Not installed here, so not measured: {', '.join(absent)}."
    packages = ("fairspan", "numpy", "scikit-learn", "fairlearn", "augmented-pca")
    return SectionContent(text, packages)


def compare_methods(X: FloatArray, group: FloatArray, effort: Effort) -> list[MethodResult]:
    """Time every method that is installed, fairspan first; `group` has 0 or 1 for each row."""
    runs: dict[str, Callable[[], FloatArray]] = {
        "fairspan": partial(reduce_with_mean_parity, X, group)
    }
    if find_spec("fairlearn"):
        name = "fairlearn, CorrelationRemover + PCA"
        runs[name] = partial(reduce_without_correlation, X, group)
    if find_spec("apca"):
        name = f"augmented-pca, AAPCA(mu={_ADVERSARIAL_STRENGTH:g})"
        runs[name] = partial(reduce_adversarially, X, group)
    seconds, _ = median_seconds_and_counts(runs, effort.repetitions)
    results = []
    for name, run in runs.items():
        reduced = run()
        means = [reduced[group == g].mean(axis=0) for g in (0, 1)]
        kept_variance = float(reduced.var(axis=0).sum() / X.var(axis=0).sum())
        mean_distance = float(np.linalg.norm(means[1] - means[0]))
        results.append(MethodResult(name, seconds[name], kept_variance, mean_distance))
    return results


def reduce_with_mean_parity(X: FloatArray, group: FloatArray) -> FloatArray:
    """Reduce with equal group means and the smallest total error that they allow."""
    model = FairPCA(D, criterion="total_error", restriction=MeanParity())
    return np.asarray(model.fit(X, sensitive_features=group).transform(X))


def reduce_without_correlation(X: FloatArray, group: FloatArray) -> FloatArray:
    """Regress every feature on the group, and reduce the residuals by PCA."""
    remover: Any = import_module("fairlearn.preprocessing").CorrelationRemover
    model = remover(sensitive_feature_ids=[X.shape[1]])
    residuals = model.fit_transform(np.column_stack([X, group]))
    return np.asarray(PCA(D).fit_transform(residuals))


def reduce_adversarially(X: FloatArray, group: FloatArray) -> FloatArray:
    """Reduce to components that reconstruct X but not the group."""
    model: Any = import_module("apca.models").AAPCA(n_components=D, mu=_ADVERSARIAL_STRENGTH)
    return np.asarray(model.fit_transform(X - X.mean(axis=0), (group - group.mean())[:, None]))
