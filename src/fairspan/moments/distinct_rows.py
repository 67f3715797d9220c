"""Distinct rows of a table."""

from typing import NamedTuple

import numpy as np

from fairspan.linalg.rounding import SUM_ROUNDING
from fairspan.moments.shifted_rows import ShiftedRows
from fairspan.typing import IndexArray

# Seed of the random vector; arbitrary but unlikely to be chosen by users.
_RANDOM_SEED = 0x5AFE_C0DE_2018
# Features that are compared first to see whether rows are distinct.
_N_SAMPLED_FEATURES = 16


class DistinctRows(NamedTuple):
    """Distinct rows of a table, and where they occur.

    Attributes
    ----------
    first : (m,) array of int
        First position of each distinct row.
    inverse : (n,) array of int
        For each row, the index among the distinct ones of the row that it equals.
    """

    first: IndexArray
    inverse: IndexArray


def distinct_rows(rows: ShiftedRows) -> DistinctRows:
    """Find the distinct rows of a table.

    Parameters
    ----------
    rows : ShiftedRows

    Examples
    --------
    >>> table = np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 2.0]])
    >>> distinct_rows(ShiftedRows(table, np.arange(3), shift=table[0]))
    DistinctRows(first=array([0, 1]), inverse=array([0, 1, 0]))
    """
    n, p = rows.shape
    all_indices = np.arange(n)
    all_distinct = DistinctRows(all_indices, all_indices)
    # Distinct rows nearly always differ in a few features already.
    n_sampled = min(p, _N_SAMPLED_FEATURES)
    sampled = rows.select_features(np.arange(n_sampled) * (p - 1) // max(n_sampled - 1, 1))
    # A single feature with distinct values is the fastest proof that rows are distinct.
    if (np.diff(np.sort(sampled, axis=0), axis=0) > 0).all(axis=0).any():
        return all_distinct
    if len(np.unique(sampled, axis=0)) == n:
        return all_distinct
    # Equal rows have nearly equal products with a random vector: only such neighbors are compared.
    products = rows @ np.random.default_rng(_RANDOM_SEED).standard_normal(p)
    order = np.argsort(products, kind="stable")
    is_near = np.diff(products[order]) <= SUM_ROUNDING * float(np.abs(products).max())
    candidates = np.unique(order[np.append(is_near, False) | np.append(False, is_near)])
    # `first_equal` is the first row that each row equals; rows with equal hashes are compared.
    first_equal = all_indices.copy()
    by_hash: dict[int, list[int]] = {}
    for row in candidates.tolist():
        values = rows[row : row + 1].toarray() + 0.0  # turns -0.0 into 0.0
        same_hash = by_hash.setdefault(hash(values.tobytes()), [])
        for other in same_hash:
            if np.array_equal(rows[other : other + 1].toarray(), values):
                first_equal[row] = other
                break
        else:
            same_hash.append(row)
    first, inverse = np.unique(first_equal, return_inverse=True)
    return DistinctRows(first, inverse)
