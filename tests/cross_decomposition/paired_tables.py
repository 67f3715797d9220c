"""Pairs of tables, and independent formulas of the covariance that subspaces capture."""

import numpy as np


def draw_tables(seed=0, n=300, p=5, q=4, groups="ab", shared=0.0):
    """Two tables that covary in other directions in each group, with group labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * np.linspace(2, 1, p)
    labels = np.array(list(groups))[rng.integers(len(groups), size=n)]
    common = rng.normal(size=(p, q))
    Y = rng.normal(size=(n, q))
    for label in groups:
        mine = labels == label
        Y[mine] += X[mine] @ (shared * common + rng.normal(size=(p, q)))
    return X, Y, labels


def cross_covariances(X, Y, labels, center="global", scale=True, weights=None):
    """C_g of each group, by definition, (k, p, q)."""
    weights = np.ones(len(X)) if weights is None else weights
    tables = []
    for table in (X, Y):
        mean = np.average(table, axis=0, weights=weights)
        if scale:
            variances = np.average((table - mean) ** 2, axis=0, weights=weights)
            table, mean = table / np.sqrt(variances), mean / np.sqrt(variances)
        tables.append((table, np.zeros(table.shape[1]) if center == "none" else mean))
    (X, x_mean), (Y, y_mean) = tables
    matrices = []
    for label in sorted(set(labels)):
        mine = labels == label
        w = weights[mine] / weights[mine].sum()
        x_center = w @ X[mine] if center == "group" else x_mean
        y_center = w @ Y[mine] if center == "group" else y_mean
        matrices.append((X[mine] - x_center).T @ ((Y[mine] - y_center) * w[:, None]))
    return np.array(matrices)


def max_covariance(C, d):
    """Sum of the d largest singular values."""
    return np.linalg.svd(C, compute_uv=False)[:d].sum()


def captured_covariance(C, U, V):
    """Return tr U'CV."""
    return np.trace(U.T @ C @ V)


def random_basis(rng, n, d):
    return np.linalg.qr(rng.normal(size=(n, d)))[0]
