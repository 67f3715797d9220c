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
    subspace = model.subspace_
    encoder = subspace.encoder.astype(np.longdouble)
    rows = X - np.asarray(subspace.mean, dtype=np.longdouble)
    rows = rows if subspace.scale is None else rows / subspace.scale
    return rows @ encoder.T


def largest_mean_distance(Z, X, groups, encoder, weights=None):
    """Return the largest distance of two groups' means along a coordinate, in deviations."""
    groups = np.asarray(groups)
    weights = np.ones(len(groups)) if weights is None else weights
    Z, X, weights = (np.asarray(values, dtype=np.longdouble) for values in (Z, X, weights))
    parts = {}
    for label in sorted(set(groups.tolist())):
        in_group = groups == label
        share = weights[groups == label] / weights[groups == label].sum()
        means = share @ Z[in_group]
        variances = share @ (Z[in_group] - means) ** 2
        of_features = share @ (X[in_group] - share @ X[in_group]) ** 2
        parts[label] = means, variances, of_features @ np.square(encoder.T)
    pooled = sum(part[1] for part in parts.values()) / len(parts)
    largest = sum(part[2] for part in parts.values()) / len(parts)
    worst = 0.0
    for a, b in combinations(parts, 2):
        unit, most = (np.maximum(parts[a][i], parts[b][i]) for i in (1, 2))
        unit, most = (
            np.where(unit > ROUNDING * most, value, fallback)
            for value, fallback in ((unit, pooled), (most, largest))
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
    subspace = model.subspace_
    z = np.asarray(z, dtype=np.longdouble)
    rows = np.asarray(X, dtype=np.longdouble)
    groups = np.zeros(len(z)) if groups is None else np.asarray(groups)
    worst = 0.0
    for label in set(groups.tolist()):
        in_group = groups == label
        # About their own mean first, as far from zero these numbers are rounded, too.
        left, right = (
            values[in_group] - values[in_group].mean(axis=0) for values in (rows, z[:, None])
        )
        if subspace.scale is not None:
            # Only now: quotients of numbers far from zero keep too few digits of how they vary.
            left = left / subspace.scale
        left = left @ subspace.encoder.T.astype(np.longdouble)
        lengths = np.sqrt((left**2).mean(axis=0) * (right**2).mean())
        worst = max(worst, float((np.abs((left * right).mean(axis=0)) / lengths).max()))
    return worst
