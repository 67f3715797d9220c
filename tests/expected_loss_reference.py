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
    learns_point=False,
    weights=None,
    n_folds=10,
    seed=0,
    folds=None,
    by_fold=None,
    clusters=None,
    level=0.95,
):
    """Return error, loss, cross-fitted loss and interval of the loss of each group.

    `point` is the center about which errors are measured, or None for the mean of each group. With
    `learns_point`, it is the mean of these rows, which are nearer to it than new rows are.
    `by_fold` has the basis of the model refitted without each fold.
    """
    n = len(X)
    weights = np.ones(n) if weights is None else weights
    if folds is None:
        folds = Folds(n_folds, seed).folds_of_positions(np.arange(n))
    groups, found = np.asarray(groups), {}
    d, share = basis.shape[1], (n_folds - 1) / (2 * n_folds - 1)
    # The errors of new rows are about the mean of all rows, or about that of their own group.
    excess_weight = 0.5 if point is None else float(learns_point)
    for label in np.unique(groups):
        own = groups == label
        w, f = weights[own], folds[own]
        center = np.average(X[own], axis=0, weights=w) if point is None else point
        rows = X[own] - center
        inside = residuals(rows, best_subspace(rows, w, d))
        outside, training, mine = np.zeros(len(rows)), 0.0, residuals(rows, basis)
        mine_excess, best_excess = np.zeros(len(rows)), np.zeros(len(rows))
        for fold in range(n_folds):
            left, others = f == fold, f != fold
            if not left.any():
                continue
            best = best_subspace(rows[others], w[others], d)
            outside[left] = residuals(rows[left], best)
            error = np.average(residuals(rows[others], best), weights=w[others])
            training += w[left].sum() / w.sum() * error
            kept = basis if by_fold is None else by_fold[fold]
            mine[left] = residuals(rows[left], kept)
            # The same rows about the center without this fold, and as far on the other side.
            judged, apart = (own if point is None else slice(None)), folds != fold
            means = [
                np.average(X[judged][keep], axis=0, weights=weights[judged][keep])
                for keep in (apart[judged], np.full(len(apart[judged]), True))
            ]
            away, towards = rows[left] - means[0] + means[1], rows[left] + means[0] - means[1]
            mine_excess[left] = (residuals(away, kept) - residuals(towards, kept)) / 2
            best_excess[left] = (residuals(away, best) - residuals(towards, best)) / 2
        error = np.average(mine + excess_weight * mine_excess, weights=w)
        best_error = (training + np.average(outside, weights=w)) / 2
        best_error += excess_weight * np.average(best_excess, weights=w)
        corrected = mine - (1 - share) * inside - share * outside
        crossed = mine - outside
        tied = None if clusters is None else np.asarray(clusters)[own]
        loss = error - best_error
        moved = crossed + excess_weight * (mine_excess - best_excess)
        cross, refit_error, spread = np.average(moved, weights=w), 0.0, 0.0
        if by_fold is not None:
            refit_error = training_standard_error(crossed, w, f, tied)
            spread = jackknife([np.average(residuals(rows, b), weights=w) for b in by_fold])
        # At once for all groups (Bonferroni).
        each = 1 - (1 - level) / len(np.unique(groups))
        low = cross - interval_half_width(crossed, w, tied, each, refit_error)
        high = loss + interval_half_width(corrected, w, tied, each, spread)
        found[label] = (error, loss, cross, low, high)
    return found


def jackknife(figures):
    """Return the delete-a-fold jackknife standard error."""
    k = len(figures)
    return np.sqrt((k - 1) / k * ((figures - np.mean(figures)) ** 2).sum())


def standard_error(values, weights, clusters):
    """Return the standard error of a weighted mean, over clusters if given, and their number."""
    deviations = weights * (values - np.average(values, weights=weights))
    if clusters is not None:
        deviations = np.array([deviations[clusters == c].sum() for c in np.unique(clusters)])
    n = len(deviations)
    return np.sqrt(n / (n - 1) * (deviations**2).sum()) / weights.sum(), n


def interval_half_width(values, weights, clusters, level, refit_error=0.0):
    """Return the half-width of Student's interval for the sum of two independent errors."""
    error, n = standard_error(values, weights, clusters)
    return stats.t.ppf(0.5 + level / 2, n - 1) * np.hypot(error, refit_error)


def training_standard_error(values, weights, folds, clusters):
    """Return the spread of folds beyond sampling (Nadeau and Bengio 2003), as a standard error."""
    own = np.unique(folds)
    means = np.array([np.average(values[folds == f], weights=weights[folds == f]) for f in own])
    shares = np.array([weights[folds == f].sum() for f in own]) / weights.sum()
    k = len(own)
    variance = k / (k - 1) * (shares @ (means - shares @ means) ** 2)
    beyond = variance - k * standard_error(values, weights, clusters)[0] ** 2
    return np.sqrt(max(beyond, 0.0) * (1 / k + 1 / (k - 1)))
