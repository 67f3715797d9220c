"""Expected losses from their formulas, row by row, with numpy's singular vectors alone."""

import numpy as np
from scipy import stats

from fairspan.rows.folds import Folds


def best_subspace(rows, weights, d):
    """Leading eigenvectors of centered rows' weighted second moments, (p, d)."""
    weighted = rows * np.sqrt(weights)[:, None]
    return np.linalg.svd(weighted, full_matrices=False)[2][:d].T


def residuals(rows, basis):
    return ((rows - rows @ basis @ basis.T) ** 2).sum(axis=1)


def reference_losses(
    X,
    groups,
    basis,
    *,
    point=None,
    weights=None,
    n_folds=10,
    seed=0,
    folds=None,
    by_fold=None,
    clusters=None,
    level=0.95,
):
    """Return error, loss, cross-fitted loss and interval of the loss of each group.

    `point` is the center about which errors are measured, or None for the mean of each group.
    `by_fold` has the basis of the model refitted without each fold.
    """
    n = len(X)
    weights = np.ones(n) if weights is None else weights
    if folds is None:
        folds = Folds(n_folds, seed).folds_of_positions(np.arange(n))
    groups, found = np.asarray(groups), {}
    d = basis.shape[1]
    for label in np.unique(groups):
        own = groups == label
        w, f = weights[own], folds[own]
        center = np.average(X[own], axis=0, weights=w) if point is None else point
        rows = X[own] - center
        inside = residuals(rows, best_subspace(rows, w, d))
        outside, training, mine = np.zeros(len(rows)), 0.0, residuals(rows, basis)
        for fold in range(n_folds):
            left, others = f == fold, f != fold
            if not left.any():
                continue
            best = best_subspace(rows[others], w[others], d)
            outside[left] = residuals(rows[left], best)
            error = np.average(residuals(rows[others], best), weights=w[others])
            training += w[left].sum() / w.sum() * error
            if by_fold is not None:
                mine[left] = residuals(rows[left], by_fold[fold])
        error = np.average(mine, weights=w)
        best_error = (training + np.average(outside, weights=w)) / 2
        share = (n_folds - 1) / (2 * n_folds - 1)
        corrected = mine - (1 - share) * inside - share * outside
        crossed = mine - outside
        tied = None if clusters is None else np.asarray(clusters)[own]
        loss, cross = error - best_error, np.average(crossed, weights=w)
        beside = 0.0 if by_fold is None else training_standard_error(crossed, w, f, tied)
        # At once for all groups (Bonferroni).
        each = 1 - (1 - level) / len(np.unique(groups))
        low = cross - interval_half_width(crossed, w, tied, each, beside)
        high = loss + interval_half_width(corrected, w, tied, each)
        found[label] = (error, loss, cross, low, high)
    return found


def standard_error(values, weights, clusters):
    """Return the standard error of a weighted mean, over clusters if given, and their number."""
    deviations = weights * (values - np.average(values, weights=weights))
    if clusters is not None:
        deviations = np.array([deviations[clusters == c].sum() for c in np.unique(clusters)])
    n = len(deviations)
    return np.sqrt(n / (n - 1) * (deviations**2).sum()) / weights.sum(), n


def interval_half_width(values, weights, clusters, level, beside=0.0):
    """Return the half-width of Student's interval for the sum of two independent errors."""
    error, n = standard_error(values, weights, clusters)
    return stats.t.ppf(0.5 + level / 2, n - 1) * np.hypot(error, beside)


def training_standard_error(values, weights, folds, clusters):
    """Return the spread of folds beyond sampling (Nadeau and Bengio 2003), as a standard error."""
    own = np.unique(folds)
    means = np.array([np.average(values[folds == f], weights=weights[folds == f]) for f in own])
    shares = np.array([weights[folds == f].sum() for f in own]) / weights.sum()
    k = len(own)
    variance = k / (k - 1) * (shares @ (means - shares @ means) ** 2)
    beyond = variance - k * standard_error(values, weights, clusters)[0] ** 2
    return np.sqrt(max(beyond, 0.0) * (1 / k + 1 / (k - 1)))
