"""Rows whose optimum double precision cannot resolve, and claims that must not be made."""

import numpy as np


def draw_unresolved_rows():
    """Draw two groups; one column is a hundred million times as large as the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    X[:100, 1] *= 3
    X[100:, 2] *= 3
    X[:, 0] *= 1e8
    X[:, 1] += 1e-3 * X[:, 0]
    return X, np.repeat(["one", "other"], 100)


def claims_nothing(text):
    return not any(word in text.lower() for word in ("proven", "is optimal", "open gap"))
