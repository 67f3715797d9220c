"""Reference figures of an audit of PCA, from the rows with numpy and scipy alone."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

FloatArray = npt.NDArray[np.float64]


def reference_pca(
    X: Any, labels: Any, d: int, *, center: str = "global", standardize: bool = False
) -> dict[Any, Any]:
    """Figures of ordinary PCA for each group, from singular vectors of the rows."""
    X = np.asarray(X, dtype=np.float64)
    mean = np.zeros(X.shape[1]) if center == "none" else X.mean(axis=0)
    scale = X.std(axis=0) if standardize else np.ones(X.shape[1])
    basis = np.linalg.svd((X - mean) / scale, full_matrices=False)[2][:d]
    return reference_figures(X, labels, basis, mean, scale, center=center)


def reference_figures(
    X: Any, labels: Any, basis: FloatArray, mean: FloatArray, scale: FloatArray, *, center: str
) -> dict[Any, Any]:
    """Figures of any projection for each group, row by row."""
    X = np.asarray(X, dtype=np.float64)
    labels = np.asarray(labels)
    figures = {}
    for label in sorted(set(labels.tolist())):
        group = X[labels == label]
        rows = (group - (group.mean(axis=0) if center == "group" else mean)) / scale
        n = len(rows)
        d = len(basis)
        errors = ((rows - rows @ basis.T @ basis) ** 2).sum(axis=1)
        left_over = np.linalg.svd(rows, compute_uv=False)[d:]
        half = stats.t.ppf(0.975, n - 1) * errors.std(ddof=1) / np.sqrt(n)
        figures[label] = SimpleNamespace(
            n=n,
            total_variance=(rows**2).sum() / n,
            error=errors.mean(),
            low=max(errors.mean() - half, 0.0),
            high=errors.mean() + half,
            best_error=(left_over**2).sum() / n,
            row_errors=errors,
        )
    return figures


def assert_agrees(model: dict[str, Any], expected: dict[Any, Any]) -> None:
    """Assert that a model of the JSON output has the reference figures and disparity."""
    assert [group["group"] for group in model["groups"]] == list(expected)
    n_rows = sum(figures.n for figures in expected.values())
    for group, figures in zip(model["groups"], expected.values(), strict=True):
        actual_figures = (
            group["n_rows"],
            group["proportion"],
            group["observed_total_variance"],
            group["observed_error"],
            group["observed_error_low"],
            group["observed_error_high"],
            group["observed_best_error"],
            group["observed_loss"],
            group["observed_variance_kept"],
        )
        reference = (
            figures.n,
            figures.n / n_rows,
            figures.total_variance,
            figures.error,
            figures.low,
            figures.high,
            figures.best_error,
            figures.error - figures.best_error,
            1 - figures.error / figures.total_variance,
        )
        np.testing.assert_allclose(
            actual_figures, reference, rtol=1e-9, atol=1e-9 * figures.total_variance
        )
    first, second = (expected[label].row_errors for label in model["disparity_pair"])
    welch = stats.ttest_ind(second, first, equal_var=False).confidence_interval()
    if len(expected) == 2:
        actual_disparity = [model[f"observed_disparity{end}"] for end in ("", "_low", "_high")]
        difference = second.mean() - first.mean()
        np.testing.assert_allclose(actual_disparity, (difference, welch.low, welch.high), rtol=1e-9)
