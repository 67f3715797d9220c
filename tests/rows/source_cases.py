"""The same rows as every source must hold them, with their moments by numpy alone."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fairspan import FairPCA, GroupMoments
from numpy_reference import assert_moments, reference_moments

N, P = 700, 6
NAMES = [f"x{i}" for i in range(P)]


@dataclass(frozen=True)
class Case:
    """Some rows.

    Attributes
    ----------
    X : (n, p) array
    labels : (n,) array of objects
        Text, or None where the group is missing.
    weights : (n,) array or None
    """

    X: np.ndarray
    labels: np.ndarray
    weights: np.ndarray | None = None

    @property
    def on_missing(self) -> str:
        return "error" if all(label is not None for label in self.labels) else "drop"

    @property
    def present(self) -> "Case":
        """Return the rows that have a group and no missing feature."""
        is_complete = np.array([label is not None for label in self.labels]) & ~np.isnan(
            self.X
        ).any(axis=1)
        weights = None if self.weights is None else self.weights[is_complete]
        return Case(self.X[is_complete], self.labels[is_complete], weights)

    @property
    def n_dropped(self) -> int:
        return len(self.X) - len(self.present.X)

    def frame(self) -> pd.DataFrame:
        """All columns side by side: features, g, and w if there are weights."""
        frame = pd.DataFrame(self.X, columns=NAMES)
        frame["g"] = pd.Series(self.labels, dtype=object)
        if self.weights is not None:
            frame["w"] = self.weights
        return frame

    @property
    def weight(self) -> str | None:
        """The column of weights."""
        return None if self.weights is None else "w"

    def check(self, X: Any, sensitive_features: Any = "g", sample_weight: Any = None) -> None:
        """Compare moments and fit of a source with numpy on the rows themselves."""
        rows = self.present
        expected = reference_moments(rows.X.astype(float), rows.labels.astype(str), rows.weights)
        moments = GroupMoments.from_rows(
            X, sensitive_features, sample_weight, on_missing=self.on_missing
        )
        assert_moments(moments, expected)
        assert moments.n_dropped == self.n_dropped
        if self.on_missing == "error":
            fair = FairPCA(2).fit(
                X, sensitive_features=sensitive_features, sample_weight=sample_weight
            )
        else:
            fair = FairPCA(2).fit_moments(moments)
        np.testing.assert_allclose(_projector(fair), self.projector, atol=1e-7)

    @cached_property
    def projector(self) -> np.ndarray:
        """Projector of a fit to an array of the same rows, with which sources are compared."""
        rows = self.present
        plain = FairPCA(2).fit(
            rows.X.astype(float), sensitive_features=rows.labels, sample_weight=rows.weights
        )
        return _projector(plain)


def _projector(model: FairPCA) -> np.ndarray:
    return model.components_.T @ model.components_


def _rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    labels = rng.choice(["a", "b", "c"], N, p=[0.6, 0.3, 0.1]).astype(object)
    spread = {label: rng.uniform(0.5, 3, P) for label in "abc"}
    X = rng.standard_normal((N, P)) * np.array([spread[label] for label in labels])
    return X + np.array([0, 5, 100, -3, 0, 1e4]), labels


_X, _LABELS = _rows()
_RNG = np.random.default_rng(6)
_WITH_MISSING = _LABELS.copy()
_WITH_MISSING[_RNG.choice(N, 40, replace=False)] = None
_WITH_NAN = _X.copy()
_WITH_NAN[_RNG.choice(N, 30, replace=False), _RNG.integers(0, P, 30)] = np.nan
_SORTED = np.argsort(_LABELS.astype(str), kind="stable")

CASES = {
    "three groups": Case(_X, _LABELS),
    "two groups": Case(_X[_LABELS != "c"], _LABELS[_LABELS != "c"]),
    "weights": Case(_X, _LABELS, _RNG.uniform(0.1, 4, N)),
    "weights, some zero": Case(_X, _LABELS, _RNG.choice([0.0, 1.0, 2.5], N)),
    "rows without a group": Case(_X, _WITH_MISSING),
    "rows without a feature": Case(_WITH_NAN, _WITH_MISSING),
    "float32": Case(_X.astype(np.float32), _LABELS),
    "groups absent from parts": Case(_X[_SORTED], _LABELS[_SORTED]),
}
