"""Restrictions of groups and columns that lie far apart or have very different sizes, from a seed.

Every answer is judged by its rows, in extended precision: whether it removes what its restriction
names, and, for the total error about the means of the groups, whether it is the optimum.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import fairspan as fs
from measured_parity import (
    coordinates,
    largest_correlation,
    largest_mean_distance,
    transformed_mean_distance,
)
from torture.judges import Wrong

# Of a standard deviation.
ALLOWED = 1e-6
# Of an entry of the encoder: it is a rounded number, after a few operations.
ENTRY_ROUNDING = 4 * np.finfo(float).eps
# Of the objective: the optimum by other arithmetic.
SAME_OPTIMUM = 1e-6
KINDS = (
    "mean parity",
    "marginal attributes",
    "classes of y",
    "tolerance",
    "oblique",
    "covariance parity",
    "uncorrelated",
    "uncorrelated within groups",
)
PLACES = ("all columns", "one column", "spread", "offset of all", "sizes of columns", "near")
SHAPES = ((300, 6), (200, 12), (60, 8), (40, 45), (60, 600))


@dataclass
class FarGroupsCase:
    """Rows, groups, and the restriction under which they are fitted."""

    kind: str
    place: str
    size: float
    X: Any
    groups: Any
    second: Any
    z: Any
    settings: dict[str, Any]

    def __str__(self) -> str:
        k = len(set(self.groups.tolist()))
        return f"{self.kind}, {self.place} {self.size:.0e}, {k} groups, {self.X.shape}, " + str(
            {name: each for name, each in self.settings.items() if name != "restriction"}
        )

    def fit(self) -> fs.FairPCA:
        """The model.

        Raises
        ------
        FairspanError
        """
        model, X, y, groups = fs.FairPCA(**self.settings), self.X, None, self.groups
        if self.kind.startswith("uncorrelated"):
            X = pd.DataFrame(np.column_stack([X, self.z])).rename(columns=str)
            groups = pd.Series(groups, index=X.index)
        if self.kind == "marginal attributes":
            groups = np.column_stack([groups, self.second])
        if self.kind == "classes of y":
            y = self.second
        return model.fit(X, y, sensitive_features=groups)

    def missed(self, model: fs.FairPCA) -> float:
        """By how much the transformed rows miss the restriction, in standard deviations."""
        X, groups = self.X, self.groups
        if self.kind.startswith("uncorrelated"):
            return largest_correlation(model, X, self.z, groups if "within" in self.kind else None)
        if self.kind == "marginal attributes":
            return max(transformed_mean_distance(model, X, each) for each in (groups, self.second))
        if self.kind == "classes of y":
            own = [self.second == label for label in set(self.second.tolist())]
            Z, encoder = model.transform(X), model.subspace_.encoder
            scaled = X if model.subspace_.scale is None else X / model.subspace_.scale
            return max(
                largest_mean_distance(Z[each], scaled[each], groups[each], encoder) for each in own
            )
        if self.kind == "tolerance":
            Z = coordinates(model, X)
            means = [Z[groups == each].mean(axis=0) for each in sorted(set(groups.tolist()))]
            within = [Z[groups == each].std(axis=0) for each in sorted(set(groups.tolist()))]
            distance = float(np.sqrt(((means[0] - means[-1]) ** 2).sum()))
            # The entries of the encoder are rounded, which counts by the distances of the features.
            encoder = model.subspace_.encoder
            rounding = np.linalg.norm(
                ENTRY_ROUNDING * np.abs(encoder) @ self._feature_distances(model)
            )
            beyond = distance - self.settings["restriction"].tolerance - float(rounding)
            return beyond / float(np.max(within))
        return transformed_mean_distance(model, X, groups)

    def _feature_distances(self, model: fs.FairPCA) -> Any:
        """Distances of the first and last group's means in each feature, in its units."""
        scale = 1.0 if model.scale_ is None else model.scale_
        scaled = np.asarray(self.X, dtype=np.longdouble) / scale
        labels = sorted(set(self.groups.tolist()))
        first, last = (
            scaled[self.groups == label].mean(axis=0) for label in (labels[0], labels[-1])
        )
        return np.abs(first - last)


def draw_case(rng: np.random.Generator) -> FarGroupsCase:
    """A restriction, and rows for it."""
    kind, place = str(rng.choice(KINDS)), str(rng.choice(PLACES))
    n, p = SHAPES[rng.integers(len(SHAPES))]
    two = kind in ("tolerance", "covariance parity")
    k = 2 if two else int(rng.integers(2, 6))
    size = float(10.0 ** rng.uniform(0, 16))
    X, z = rng.standard_normal((n, p)), rng.standard_normal(n)
    X *= rng.uniform(0.5, 3, p)
    groups = np.array(list("abcde"))[np.arange(n) % k]
    second = rng.integers(0, 2, n)
    X += np.outer(z, rng.standard_normal(p))
    X[second == 1, 2] += 0.5
    for label in "bcde"[: k - 1]:
        X[groups == label, : p // 2] += 0.5 * rng.standard_normal(p // 2)
    last = groups == "abcde"[k - 1]
    few = rng.choice(p, 1 if rng.random() < 0.5 else 2, replace=False)
    if place == "all columns":
        X[last] += size * (1.0 if rng.random() < 0.5 else rng.standard_normal(p))
    elif place == "one column":
        X[np.ix_(last, few)] += size
    elif place == "spread":
        X[last] *= size if rng.random() < 0.5 else 1 / size
    elif place == "offset of all":
        X += size * rng.standard_normal(p)
    elif place == "sizes of columns":
        X *= 10.0 ** rng.uniform(-np.log10(size) / 2, np.log10(size) / 2, p)
    else:  # two groups that are far from others, and near to each other
        X[last | (groups == "abcde"[max(k - 2, 0)])] += size
    restriction: Any = fs.MeanParity()
    if kind == "marginal attributes":
        restriction = fs.MeanParity(attributes="marginal")
    elif kind == "classes of y":
        restriction = fs.MeanParity(within_classes="all")
    elif kind == "tolerance":
        restriction = fs.MeanParity(float(10.0 ** rng.uniform(-6, -1)))
    elif kind == "oblique":
        restriction = fs.MeanParity(oblique=True)
    elif kind == "covariance parity":
        restriction = fs.CovarianceParity(None if p < n else p - 10)
    elif kind.startswith("uncorrelated"):
        restriction = fs.Uncorrelated([str(p)], within_groups="within" in kind)
    total = kind in ("tolerance", "oblique") or rng.random() < 0.6
    settings = {
        "n_components": int(rng.integers(1, 4)),
        "criterion": "total_error" if total else str(rng.choice(["minimax_loss", "error_gap"])),
        "restriction": restriction,
        "center": "global" if kind == "oblique" else str(rng.choice(["global", "group", "none"])),
        "scale": bool(rng.random() < 0.2),
    }
    return FarGroupsCase(kind, place, size, X, groups, second, z, settings)


def check(case: FarGroupsCase, model: fs.FairPCA) -> float:
    """By how much the rows miss the restriction.

    Raises
    ------
    Wrong
        More than is allowed of an answer that is called optimal; or another optimum.
    """
    missed = case.missed(model)
    if missed > ALLOWED and model.solution_.status == "optimal":
        raise Wrong(f"the rows miss the restriction: by {missed:.1e} deviations, {case}")
    settings = case.settings
    is_plain = case.kind == "mean parity" and settings["criterion"] == "total_error"
    if (
        is_plain
        and settings["center"] == "group"
        and not settings["scale"]
        and case.X.shape[1] < 50
    ):
        best, found = least_total_error(case.X, case.groups, settings["n_components"]), 0.0
        found = model.solution_.objective
        if model.solution_.status == "optimal" and not abs(found - best) <= SAME_OPTIMUM * best:
            raise Wrong(f"another optimum: {found:.9g}, by other arithmetic {best:.9g}, {case}")
    return missed


def least_total_error(X: np.ndarray, groups: np.ndarray, d: int) -> float:
    """Of subspaces in which the groups' means agree, about these means.

    In extended precision up to one eigenproblem. Differences of groups that lie close to each other
    come first, so that they keep their digits.
    """
    X = X.astype(np.longdouble)
    labels = sorted(set(groups.tolist()))
    means = np.array([X[groups == each].mean(axis=0) for each in labels])
    inside = sum(
        np.square(X[groups == g] - m).sum(axis=0) for g, m in zip(labels, means, strict=True)
    )
    units = np.sqrt(np.asarray(inside, dtype=np.float64) / len(X))
    pairs = [(i, j) for j in range(len(means)) for i in range(j)]
    pairs.sort(key=lambda pair: float(np.linalg.norm((means[pair[0]] - means[pair[1]]) / units)))
    joined, axes = list(range(len(means))), []
    for i, j in pairs:
        if joined[i] == joined[j]:
            continue
        joined = [joined[i] if each == joined[j] else each for each in joined]
        axis = means[i] - means[j]
        for _ in range(3):
            for other in axes:
                axis = axis - other * (other @ axis)
        axes.append(axis / np.sqrt((axis**2).sum()))
    scatter = sum(
        (X[groups == g] - m).T @ (X[groups == g] - m) for g, m in zip(labels, means, strict=True)
    )
    second = scatter / len(X)
    project = np.eye(X.shape[1], dtype=np.longdouble) - sum(np.outer(each, each) for each in axes)
    left = np.asarray(project @ second @ project, dtype=np.float64)
    return float(np.trace(second) - np.linalg.eigvalsh(left)[-d:].sum())
