"""Distance of transformed rows from parity, from the rows alone in extended precision.

Pairs of groups are compared in units of the standard deviation of each coordinate within the two
groups. Coordinates whose variance is within rounding are left out.
"""

from itertools import combinations

import numpy as np

# Variance below this share of what the features of a coordinate have is rounding of moments.
ROUNDING = 1e-12


def coordinates(model, X):
    """Return the rows as the model transforms them, (n, d), in extended precision."""
    X = np.asarray(X, dtype=np.longdouble)
    own = model.subspace_
    encoder = own.encoder.astype(np.longdouble)
    rows = X - np.asarray(own.mean, dtype=np.longdouble)
    rows = rows if own.scale is None else rows / own.scale
    return rows @ encoder.T


def largest_mean_distance(Z, X, groups, encoder, weights=None):
    """Return the largest distance of two groups' means along a coordinate, in deviations."""
    groups = np.asarray(groups)
    weights = np.ones(len(groups)) if weights is None else weights
    Z, X, weights = (np.asarray(each, dtype=np.longdouble) for each in (Z, X, weights))
    parts = {}
    for label in sorted(set(groups.tolist())):
        own, share = groups == label, weights[groups == label] / weights[groups == label].sum()
        means = share @ Z[own]
        variances = share @ (Z[own] - means) ** 2
        of_features = share @ (X[own] - share @ X[own]) ** 2
        parts[label] = means, variances, of_features @ np.square(encoder.T)
    pooled = sum(each[1] for each in parts.values()) / len(parts)
    largest = sum(each[2] for each in parts.values()) / len(parts)
    worst = 0.0
    for a, b in combinations(parts, 2):
        unit, most = (np.maximum(parts[a][i], parts[b][i]) for i in (1, 2))
        unit, most = (
            np.where(unit > ROUNDING * most, each, other)
            for each, other in ((unit, pooled), (most, largest))
        )
        varies = unit > ROUNDING * most
        differs = np.abs(parts[a][0] - parts[b][0])[varies]
        worst = max(worst, float((differs / np.sqrt(unit[varies])).max(initial=0)))
    return worst


def transformed_mean_distance(model, X, groups, weights=None):
    """Return the largest distance of transformed means, in float64 and extended precision."""
    encoder = model.subspace_.encoder
    scaled = X if model.subspace_.scale is None else X / model.subspace_.scale
    return max(
        largest_mean_distance(Z, scaled, groups, encoder, weights)
        for Z in (model.transform(X), coordinates(model, X))
    )


def largest_correlation(model, X, z, groups=None):
    """Return the largest correlation of a coordinate with a column, within groups or overall."""
    own, z = model.subspace_, np.asarray(z, dtype=np.longdouble)
    rows = np.asarray(X, dtype=np.longdouble)
    groups = np.zeros(len(z)) if groups is None else np.asarray(groups)
    worst = 0.0
    for label in set(groups.tolist()):
        here = groups == label
        # About their own mean first, as far from zero these numbers are rounded, too.
        left, right = (each[here] - each[here].mean(axis=0) for each in (rows, z[:, None]))
        if own.scale is not None:
            # Only now: quotients of numbers far from zero keep too few digits of how they vary.
            left = left / own.scale
        left = left @ own.encoder.T.astype(np.longdouble)
        lengths = np.sqrt((left**2).mean(axis=0) * (right**2).mean())
        worst = max(worst, float((np.abs((left * right).mean(axis=0)) / lengths).max()))
    return worst
