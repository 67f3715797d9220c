"""Rows of two groups with different means and covariances, and fits that limit the differences."""

import numpy as np

from fairspan import FairPCA
from numpy_reference import random_rows

ROWS = random_rows(81, n=100, p=6, offset=1.5)


def fit(restriction, d=2, rows=ROWS, **settings):
    model = FairPCA(d, criterion="total_error", restriction=restriction, **settings)
    return model.fit(rows.X, sensitive_features=rows.labels)


def figures(rows=ROWS):
    group_rows = [rows.X[rows.labels == label] for label in "ab"]
    pooled = np.cov(rows.X.T, bias=True)
    f = group_rows[0].mean(axis=0) - group_rows[1].mean(axis=0)
    return pooled, f, np.cov(group_rows[0].T, bias=True) - np.cov(group_rows[1].T, bias=True)


def figures_of_equal_means(rows=ROWS):
    """Return pooled covariance and difference in the directions of equal means, and these."""
    S, f, D = figures(rows)
    Q = np.linalg.svd(f[None])[2][1:].T
    return Q.T @ S @ Q, Q.T @ D @ Q, Q


def beyond(basis, difference):
    """The largest difference of the variances of both groups along a direction."""
    return float(np.linalg.norm(basis.T @ difference @ basis, 2))


def covariance_gap(model):
    return beyond(model.components_.T, figures()[2])
