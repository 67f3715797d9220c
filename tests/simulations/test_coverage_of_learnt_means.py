"""Coverage of the figures of a model whose mean was estimated from the rows that evaluate it.

The truth is that of the very model at hand, whose error is about its own mean, or about the true
means of the groups with center="group". Section 8.5 of the design: without a correction, errors
are 2 / N or 1 / n too small, which is more than their standard error if features are many.
"""

import numpy as np
import pytest
from scipy.linalg import expm

import fairspan as fs
from case_selection import select_cases

N_DRAWS = 60
N_DIMENSIONS = 3
# Rows of the two groups, features, rows of a cluster (1: independent rows) and center.
SETTINGS = {
    "few rows, mean of all": (30, 30, 100, 1, "global"),
    "few rows, means of groups": (30, 30, 100, 1, "group"),
    "a smaller group, means of groups": (20, 60, 60, 1, "group"),
    "clusters, mean of all": (60, 60, 50, 4, "global"),
    "clusters, means of groups": (60, 60, 50, 4, "group"),
}


def draw_rows(rng, n, n_features, cluster_size):
    """Standard normal rows; those of a cluster have a correlation of .7."""
    if cluster_size == 1:
        return rng.normal(size=(n, n_features))
    shared = rng.normal(size=(n // cluster_size, n_features)).repeat(cluster_size, axis=0)
    return np.sqrt(0.7) * shared + np.sqrt(0.3) * rng.normal(size=(n, n_features))


def covers(estimate, truth):
    return estimate.low <= truth <= estimate.high


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("setting", SETTINGS)
def test_errors_losses_and_changes_are_covered(setting):
    *sizes, p, cluster_size, center = SETTINGS[setting]
    rng = np.random.default_rng(56)
    variances = np.r_[4.0, 3.0, 2.0, np.linspace(0.8, 0.2, p - 3)]
    skew = rng.normal(size=(p, p))
    turn = expm(0.4 * (skew - skew.T) / np.sqrt(2 * p))
    roots = {"a": np.diag(np.sqrt(variances)), "b": np.sqrt(variances)[:, None] * turn}
    means = {"a": np.zeros(p), "b": np.full(p, 0.6 / np.sqrt(p))}
    groups = np.repeat(["a", "b"], sizes)
    clusters = None if cluster_size == 1 else np.arange(sum(sizes)) // cluster_size
    is_covered = {"error": [], "loss": [], "change": []}
    ratios = []
    for _ in select_cases(range(N_DRAWS), 4):
        X = np.vstack(
            [
                draw_rows(rng, n, p, cluster_size) @ roots[group] + means[group]
                for group, n in zip("ab", sizes, strict=True)
            ]
        )
        model = fs.FairPCA(N_DIMENSIONS, center=center).fit(X, sensitive_features=groups)
        result = fs.audit(model, X, groups, clusters=clusters)
        pca = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:N_DIMENSIONS]
        errors = {}
        for audited_model in result.models:
            basis = pca if audited_model.is_pca else model.components_
            for figures in audited_model.groups:
                group = figures.group
                offset = means[group] - X.mean(axis=0) if center == "global" else np.zeros(p)
                second = roots[group].T @ roots[group] + np.outer(offset, offset)
                error = np.trace(second) - np.trace(basis @ second @ basis.T)
                best = np.linalg.eigvalsh(second)[:-N_DIMENSIONS].sum()
                errors[audited_model.is_pca, group] = error
                ratios.append(figures.expected_error.value / error)
                is_covered["error"].append(covers(figures.expected_error, error))
                is_covered["loss"].append(covers(figures.expected_loss, error - best))
        for figures in next(
            fair_model for fair_model in result.models if not fair_model.is_pca
        ).groups:
            change = errors[False, figures.group] - errors[True, figures.group]
            is_covered["change"].append(covers(figures.expected_change, change))
    # Of one draw, at least two figures of each kind are nearly independent.
    tolerance = 2 * np.sqrt(0.92 * 0.08 / len(is_covered["change"]))
    for name, hits in is_covered.items():
        assert np.mean(hits) >= 0.92 - tolerance, name
    # Twice the standard error of the mean ratio.
    assert (
        abs(np.mean(ratios) - 1) <= 2 * np.std(ratios) / np.sqrt(len(is_covered["change"])) + 0.01
    )
