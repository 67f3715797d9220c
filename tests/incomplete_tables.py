"""Tables in which cells are missing at random."""

import numpy as np


def incomplete_rows(seed: int, n: int, p: int, share: float) -> np.ndarray:
    """Correlated rows with cells missing at random, and something observed in each."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + 10 * rng.random(p)
    holes = rng.random((n, p)) < share
    holes[np.arange(n), rng.integers(0, p, n)] = False
    return np.where(holes, np.nan, rows)


def collinear_rows(seed: int, n: int, p: int, share: float) -> np.ndarray:
    """Rows in which the last column is the sum of two others, with cells missing."""
    rows = incomplete_rows(seed, n, p, 0.0)
    rows[:, -1] = rows[:, 0] + rows[:, 1]
    rng = np.random.default_rng(seed)
    holes = rng.random(rows.shape) < share
    holes[np.arange(n), rng.integers(0, p, n)] = False
    return np.where(holes, np.nan, rows)
