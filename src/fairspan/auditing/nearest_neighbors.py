"""Undeclared clusters among rows in any order, found by the distances of their nearest neighbors.

Around a row of a smooth distribution, the distance r_k to its k-th nearest neighbor grows as a
power of k: k (log r_(k+1) - log r_k) is about 1 / D for rows in D dimensions, whatever k. If rows
come in clusters of b, the first b - 1 neighbors are of the same cluster and the next ones are far,
so that this growth peaks near k = b - 1.
"""

import numpy as np

from fairspan.typing import FloatArray, IndexArray

# Growth at small k, relative to that at larger k, beyond which rows form clusters. Largest value of
# independent rows in simulations (normal, Student, mixtures): 0.98; of groups of real tables: 1.16.
MIN_NEIGHBOR_JUMP = 1.3
# Largest size of a cluster that is searched for, in rows.
_MAX_CLUSTER_SIZE = 24
# Number of rows per row of the largest cluster: several clusters have to be found.
_MIN_ROWS_PER_SIZE = 20
# Below this number of distinct rows, clusters of five would be too few.
_MIN_ROWS = 100
# In few dimensions rows have near neighbors by chance.
_MIN_FEATURES = 4
# Limits on the cost: features, and rows whose neighbors are searched, in all and at a time.
_MAX_FEATURES = 200
_MAX_QUERIES = 500
_QUERIES_PER_BLOCK = 100
# Number of successive k over which the growth is averaged.
_WINDOW = 3


def neighbor_jump(rows: FloatArray, seed: int = 0) -> float:
    """Largest growth of the distance to a near neighbor, relative to that of farther ones.

    About one for independent rows. NaN for fewer than 100 distinct rows, or fewer than four
    features in which at least half of the values are distinct; duplicates are left out. Features
    are replaced by scores of their ranks, so that neither units nor tails matter.

    Parameters
    ----------
    rows : (n, p) array
        Rows of one group.
    seed : int
        Seed of the choice of 500 rows.
    """
    n_values = (np.diff(np.sort(rows, axis=0), axis=0) != 0).sum(axis=0) + 1
    continuous = np.flatnonzero(2 * n_values >= len(rows))[:_MAX_FEATURES]
    if len(continuous) < _MIN_FEATURES:
        return float("nan")
    rows = np.unique(rows[:, continuous], axis=0)
    if len(rows) < _MIN_ROWS:
        return float("nan")
    scores = np.column_stack([_rank_scores(column) for column in rows.T])
    max_size = min(_MAX_CLUSTER_SIZE, len(rows) // _MIN_ROWS_PER_SIZE)
    n_neighbors = 4 * max_size
    rng = np.random.default_rng(seed)
    queries = rng.permutation(len(rows))[:_MAX_QUERIES]
    log_distances = _mean_log_distances(scores, queries, n_neighbors)
    growth = np.diff(log_distances) * np.arange(1, n_neighbors)
    near = np.convolve(growth[: max_size + _WINDOW - 1], np.ones(_WINDOW) / _WINDOW, "valid")
    return float(near.max() / np.median(growth[max_size:]))


def _rank_scores(values: FloatArray) -> FloatArray:
    """Return logistic quantiles of the ranks of n values; ties have the mean of their ranks."""
    ordered = np.sort(values)
    n_below = np.searchsorted(ordered, values, side="left")
    n_not_above = np.searchsorted(ordered, values, side="right")
    levels = (n_below + n_not_above) / (2 * len(values))
    # Nearly normal quantiles, without the slow import of scipy.special.
    return np.asarray(np.log(levels / (1 - levels)))


def _mean_log_distances(rows: FloatArray, queries: IndexArray, n_neighbors: int) -> FloatArray:
    """Mean over some rows of the log distances to their nearest neighbors, (n_neighbors,).

    `queries` are the positions of these rows.
    """
    squared_norms = (rows**2).sum(axis=1)
    total = np.zeros(n_neighbors)
    for start in range(0, len(queries), _QUERIES_PER_BLOCK):
        block = queries[start : start + _QUERIES_PER_BLOCK]
        squares = squared_norms[block, None] + squared_norms - 2 * rows[block] @ rows.T
        squares[np.arange(len(block)), block] = np.inf  # a row is not its own neighbor
        nearest = np.sort(np.partition(squares, n_neighbors - 1, axis=1)[:, :n_neighbors], axis=1)
        # Rounding may make the smallest of them zero.
        nearest = np.maximum(nearest, np.finfo(np.float64).eps * squared_norms.max())
        total += np.log(nearest).sum(axis=0) / 2
    return np.asarray(total / len(queries))
