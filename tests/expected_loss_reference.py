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
    groups = np.asarray(groups)
    figures = {}
    d = basis.shape[1]
    share = (n_folds - 1) / (2 * n_folds - 1)
    # The errors of new rows are about the mean of all rows, or about that of their own group.
    excess_weight = 0.5 if point is None else float(learns_point)
    for label in np.unique(groups):
        in_group = groups == label
        w, f = weights[in_group], folds[in_group]
        center = np.average(X[in_group], axis=0, weights=w) if point is None else point
        rows = X[in_group] - center
        inside = residuals(rows, best_subspace(rows, w, d))
        outside = np.zeros(len(rows))
        training = 0.0
        mine = residuals(rows, basis)
        mine_excess, best_excess = np.zeros(len(rows)), np.zeros(len(rows))
        for fold in range(n_folds):
            in_fold = f == fold
            outside_fold = f != fold
            if not in_fold.any():
                continue
            best = best_subspace(rows[outside_fold], w[outside_fold], d)
            outside[in_fold] = residuals(rows[in_fold], best)
            error = np.average(residuals(rows[outside_fold], best), weights=w[outside_fold])
            training += w[in_fold].sum() / w.sum() * error
            fold_basis = basis if by_fold is None else by_fold[fold]
            mine[in_fold] = residuals(rows[in_fold], fold_basis)
            # The same rows about the center without this fold, and as far on the other side.
            center_rows = in_group if point is None else slice(None)
            apart = folds != fold
            means = [
                np.average(X[center_rows][keep], axis=0, weights=weights[center_rows][keep])
                for keep in (apart[center_rows], np.full(len(apart[center_rows]), True))
            ]
            away = rows[in_fold] - means[0] + means[1]
            towards = rows[in_fold] + means[0] - means[1]
            mine_excess[in_fold] = (
                residuals(away, fold_basis) - residuals(towards, fold_basis)
            ) / 2
            best_excess[in_fold] = (residuals(away, best) - residuals(towards, best)) / 2
        error = np.average(mine + excess_weight * mine_excess, weights=w)
        best_error = (training + np.average(outside, weights=w)) / 2
        best_error += excess_weight * np.average(best_excess, weights=w)
        corrected = mine - (1 - share) * inside - share * outside
        crossed = mine - outside
        tied = None if clusters is None else np.asarray(clusters)[in_group]
        loss = error - best_error
        shifted = crossed + excess_weight * (mine_excess - best_excess)
        cross = np.average(shifted, weights=w)
        refit_error = 0.0
        spread = 0.0
        if by_fold is not None:
            refit_error = training_standard_error(crossed, w, f, tied)
            spread = jackknife([np.average(residuals(rows, b), weights=w) for b in by_fold])
        # At once for all groups (Bonferroni).
        level_of_each = 1 - (1 - level) / len(np.unique(groups))
        low = cross - interval_half_width(crossed, w, tied, level_of_each, refit_error)
        high = loss + interval_half_width(corrected, w, tied, level_of_each, spread)
        figures[label] = (error, loss, cross, low, high)
    return figures


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
    used_folds = np.unique(folds)
    means = np.array(
        [np.average(values[folds == f], weights=weights[folds == f]) for f in used_folds]
    )
    shares = np.array([weights[folds == f].sum() for f in used_folds]) / weights.sum()
    k = len(used_folds)
    variance = k / (k - 1) * (shares @ (means - shares @ means) ** 2)
    beyond = variance - k * standard_error(values, weights, clusters)[0] ** 2
    return np.sqrt(max(beyond, 0.0) * (1 / k + 1 / (k - 1)))
