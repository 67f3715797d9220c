"""Restricted fits to groups and columns that lie far apart or have very different sizes.

Every answer is judged from its rows, in extended precision: whether it meets its restriction and,
for the total error about the means of the groups, whether it is the optimum.
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
from torture.wrong_answer import WrongAnswer

# Largest violation of a restriction, in standard deviations.
MAX_VIOLATION = 1e-6
# Relative rounding of an entry of the encoder, after a few operations.
ENTRY_ROUNDING = 4 * np.finfo(float).eps
# Relative difference of the objective from the optimum by other arithmetic.
OPTIMUM_ACCURACY = 1e-6
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
    """Rows, groups, and the restriction under which they are fitted.

    Attributes
    ----------
    kind : str
        Kind of the restriction, one of KINDS.
    place : str
        Where the rows have extreme numbers, one of PLACES.
    size : float
        How extreme the numbers are.
    X : (n, p) array
    groups : (n,) array
    second : (n,) array
        A second attribute, or the classes of y.
    z : (n,) array
        A column with which the reduced rows must be uncorrelated.
    settings : dict
        Parameters of FairPCA.
    """

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
        settings = {name: value for name, value in self.settings.items() if name != "restriction"}
        return (
            f"{self.kind}, {self.place} {self.size:.0e}, {k} groups, {self.X.shape}, {settings!s}"
        )

    def fit(self) -> fs.FairPCA:
        """Fit the model.

        Raises
        ------
        FairspanError
        """
        model = fs.FairPCA(**self.settings)
        X = self.X
        y = None
        groups = self.groups
        if self.kind.startswith("uncorrelated"):
            X = pd.DataFrame(np.column_stack([X, self.z])).rename(columns=str)
            groups = pd.Series(groups, index=X.index)
        if self.kind == "marginal attributes":
            groups = np.column_stack([groups, self.second])
        if self.kind == "classes of y":
            y = self.second
        return model.fit(X, y, sensitive_features=groups)

    def violation(self, model: fs.FairPCA) -> float:
        """Return by how much the reduced rows violate the restriction, in standard deviations."""
        X, groups = self.X, self.groups
        if self.kind.startswith("uncorrelated"):
            return largest_correlation(model, X, self.z, groups if "within" in self.kind else None)
        if self.kind == "marginal attributes":
            return max(
                transformed_mean_distance(model, X, labels) for labels in (groups, self.second)
            )
        if self.kind == "classes of y":
            return self._distance_within_classes(model)
        if self.kind == "tolerance":
            return self._excess_over_tolerance(model)
        return transformed_mean_distance(model, X, groups)

    def _distance_within_classes(self, model: fs.FairPCA) -> float:
        scale, encoder = model.subspace_.scale, model.subspace_.encoder
        Z = model.transform(self.X)
        scaled = self.X if scale is None else self.X / scale
        distances = []
        for label in set(self.second.tolist()):
            members = self.second == label
            distances.append(
                largest_mean_distance(Z[members], scaled[members], self.groups[members], encoder)
            )
        return max(distances)

    def _excess_over_tolerance(self, model: fs.FairPCA) -> float:
        Z = coordinates(model, self.X)
        labels = sorted(set(self.groups.tolist()))
        means = [Z[self.groups == label].mean(axis=0) for label in labels]
        deviations = [Z[self.groups == label].std(axis=0) for label in labels]
        distance = float(np.sqrt(((means[0] - means[-1]) ** 2).sum()))
        # Rounding of the encoder's entries counts in proportion to the distances of the features.
        encoder = np.abs(model.subspace_.encoder)
        rounding = np.linalg.norm(ENTRY_ROUNDING * encoder @ self._feature_distances(model))
        excess = distance - self.settings["restriction"].tolerance - float(rounding)
        return excess / float(np.max(deviations))

    def _feature_distances(self, model: fs.FairPCA) -> Any:
        """Return distances of the first and last group's means in each feature, in its units."""
        scale = 1.0 if model.scale_ is None else model.scale_
        scaled = np.asarray(self.X, dtype=np.longdouble) / scale
        labels = sorted(set(self.groups.tolist()))
        first, last = (
            scaled[self.groups == label].mean(axis=0) for label in (labels[0], labels[-1])
        )
        return np.abs(first - last)


def draw_case(rng: np.random.Generator) -> FarGroupsCase:
    """Draw a restriction, and rows for it."""
    kind, place = str(rng.choice(KINDS)), str(rng.choice(PLACES))
    n, p = SHAPES[rng.integers(len(SHAPES))]
    needs_two_groups = kind in ("tolerance", "covariance parity")
    k = 2 if needs_two_groups else int(rng.integers(2, 6))
    size = float(10.0 ** rng.uniform(0, 16))
    X = rng.standard_normal((n, p))
    z = rng.standard_normal(n)
    X *= rng.uniform(0.5, 3, p)
    groups = np.array(list("abcde"))[np.arange(n) % k]
    second = rng.integers(0, 2, n)
    X += np.outer(z, rng.standard_normal(p))
    X[second == 1, 2] += 0.5
    for label in "bcde"[: k - 1]:
        X[groups == label, : p // 2] += 0.5 * rng.standard_normal(p // 2)
    X = _make_extreme(rng, X, groups, k, place, size)
    restriction = _draw_restriction(rng, kind, n, p)
    is_total = kind in ("tolerance", "oblique") or rng.random() < 0.6
    settings = {
        "n_components": int(rng.integers(1, 4)),
        "criterion": "total_error" if is_total else str(rng.choice(["minimax_loss", "error_gap"])),
        "restriction": restriction,
        "center": "global" if kind == "oblique" else str(rng.choice(["global", "group", "none"])),
        "scale": bool(rng.random() < 0.2),
    }
    return FarGroupsCase(kind, place, size, X, groups, second, z, settings)


def _make_extreme(
    rng: np.random.Generator, X: np.ndarray, groups: np.ndarray, k: int, place: str, size: float
) -> np.ndarray:
    """Return rows with extreme numbers in a place."""
    X = X.copy()
    p = X.shape[1]
    is_last = groups == "abcde"[k - 1]
    columns = rng.choice(p, 1 if rng.random() < 0.5 else 2, replace=False)
    if place == "all columns":
        X[is_last] += size * (1.0 if rng.random() < 0.5 else rng.standard_normal(p))
    elif place == "one column":
        X[np.ix_(is_last, columns)] += size
    elif place == "spread":
        X[is_last] *= size if rng.random() < 0.5 else 1 / size
    elif place == "offset of all":
        X += size * rng.standard_normal(p)
    elif place == "sizes of columns":
        X *= 10.0 ** rng.uniform(-np.log10(size) / 2, np.log10(size) / 2, p)
    else:  # two groups that are far from others, and near to each other
        X[is_last | (groups == "abcde"[max(k - 2, 0)])] += size
    return X


def _draw_restriction(rng: np.random.Generator, kind: str, n: int, p: int) -> Any:
    if kind == "marginal attributes":
        return fs.MeanParity(attributes="marginal")
    if kind == "classes of y":
        return fs.MeanParity(within_classes="all")
    if kind == "tolerance":
        return fs.MeanParity(float(10.0 ** rng.uniform(-6, -1)))
    if kind == "oblique":
        return fs.MeanParity(oblique=True)
    if kind == "covariance parity":
        return fs.CovarianceParity(None if p < n else p - 10)
    if kind.startswith("uncorrelated"):
        return fs.Uncorrelated([str(p)], within_groups="within" in kind)
    return fs.MeanParity()


def check(case: FarGroupsCase, model: fs.FairPCA) -> float:
    """Return by how much the rows violate the restriction, in standard deviations.

    Raises
    ------
    WrongAnswer
        If an optimal answer violates it by more than is allowed, or has another objective than the
        optimum by other arithmetic.
    """
    violation = case.violation(model)
    if model.solution_.status != "optimal":
        return violation
    if violation > MAX_VIOLATION:
        raise WrongAnswer(f"the rows miss the restriction: by {violation:.1e} deviations, {case}")
    settings = case.settings
    has_closed_form = (
        case.kind == "mean parity"
        and settings["criterion"] == "total_error"
        and settings["center"] == "group"
        and not settings["scale"]
        and case.X.shape[1] < 50
    )
    if has_closed_form:
        optimum = least_total_error(case.X, case.groups, settings["n_components"])
        objective = model.solution_.objective
        if not abs(objective - optimum) <= OPTIMUM_ACCURACY * optimum:
            raise WrongAnswer(
                f"another optimum: {objective:.9g}, by other arithmetic {optimum:.9g}, {case}"
            )
    return violation


def least_total_error(X: np.ndarray, groups: np.ndarray, d: int) -> float:
    """Return the least total error about the groups' means of subspaces in which these agree.

    In extended precision up to one eigenproblem.
    """
    X = X.astype(np.longdouble)
    labels = sorted(set(groups.tolist()))
    means = np.array([X[groups == label].mean(axis=0) for label in labels])
    centered = [X[groups == label] - mean for label, mean in zip(labels, means, strict=True)]
    variances = sum(np.square(part).sum(axis=0) for part in centered)
    deviations = np.sqrt(np.asarray(variances, dtype=np.float64) / len(X))
    axes = _axes_of_differences(means, deviations)
    second_moment = sum(part.T @ part for part in centered) / len(X)
    projector = np.eye(X.shape[1], dtype=np.longdouble)
    projector = projector - sum(np.outer(axis, axis) for axis in axes)
    restricted = np.asarray(projector @ second_moment @ projector, dtype=np.float64)
    return float(np.trace(second_moment) - np.linalg.eigvalsh(restricted)[-d:].sum())


def _axes_of_differences(means: np.ndarray, deviations: np.ndarray) -> list[np.ndarray]:
    """Return an orthonormal basis of the differences of means.

    Differences of groups that lie close to each other come first, so that they keep their digits.
    """
    pairs = [(i, j) for j in range(len(means)) for i in range(j)]
    pairs.sort(
        key=lambda pair: float(np.linalg.norm((means[pair[0]] - means[pair[1]]) / deviations))
    )
    # A pair adds an axis unless earlier pairs join its groups.
    cluster = list(range(len(means)))
    axes: list[np.ndarray] = []
    for i, j in pairs:
        if cluster[i] == cluster[j]:
            continue
        larger, smaller = cluster[i], cluster[j]
        cluster = [larger if label == smaller else label for label in cluster]
        axis = means[i] - means[j]
        for _ in range(3):
            for other in axes:
                axis = axis - other * (other @ axis)
        axes.append(axis / np.sqrt((axis**2).sum()))
    return axes
