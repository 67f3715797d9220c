"""Eigenvectors of matrices whose eigenvalues lie many orders of magnitude apart.

LAPACK finds every eigenvalue to a share of the largest one. If a column of currency makes that 1e16
times as large as the eigenvalues that decide, these are rounding. So the largest eigenvectors X are
split off, and the matrix is decomposed again on what is orthogonal to them, where the others are
largest. What the split neglects, X'MU, is rounding itself, and enters the eigenvalues by its square
over the gap alone (:mod:`fairspan.linalg.smallest_sums`).
"""

import numpy as np

from fairspan.typing import FloatArray

# An eigenvalue this share of the largest one has lost so many digits that it is worth a second
# decomposition: with less, about nine digits of a gap could not be told.
_LOST = 1e-5
# What is split off must be this many times as large as what is left.
_APART = 16.0
_EPSILON = float(np.finfo(np.float64).eps)
# Less than this share of the largest eigenvalue is nothing at all.
_NOTHING = 1e-60


def graded_eigh(matrix: FloatArray, n_leading: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """All eigenvalues, smallest first, and eigenvectors of a symmetric matrix.

    Parameters
    ----------
    matrix : (p, p) array
        Symmetric.
    n_leading : int
        d: of the largest d eigenvalues, those far above the others are split off first. The
        accuracy of the others is then relative to themselves, if the large entries of the matrix
        lie in few rows and columns.

    Returns
    -------
    values : (p,) array
    vectors : (p, p) array
        Orthonormal columns.
    sizes : (p,) array
        What each eigenvalue is known to a share of: the largest absolute one of those that were
        found with it, or more where large entries of the matrix reach into its eigenvector.

    Examples
    --------
    >>> import numpy as np
    >>> matrix = np.array([[1e16, 1e8, 0.0], [1e8, 3.0, 0.5], [0.0, 0.5, 1.0]])
    >>> graded_eigh(matrix, 1)[0][:2].round(6)
    array([0.792893, 2.207107])
    """
    values, vectors = np.linalg.eigh(matrix)
    n_split = _split(values, n_leading)
    size = max(-float(values[0]), float(values[-1]), 0.0)
    if n_split == 0:
        return values, vectors, np.full(len(values), size)
    cut = len(values) - n_split
    rest = vectors[:, :cut]
    inner = rest.T @ (matrix @ rest)
    inner_values, turn, sizes = graded_eigh((inner + inner.T) / 2, n_leading - n_split)
    found = np.hstack([rest @ turn, vectors[:, cut:]])
    # Entries are rounded to a share of themselves, whatever cancels in the products with them.
    entries = np.maximum.accumulate(np.abs(np.diagonal(matrix)) @ found**2)
    sizes = np.maximum(np.append(sizes, np.full(n_split, size)), entries)
    return np.concatenate([inner_values, values[cut:]]), found, sizes


def is_graded(largest: float, smallest: float) -> bool:
    """Whether the smaller of two eigenvalues has lost digits to the larger one."""
    return smallest <= _LOST * largest


def _split(values: FloatArray, n_leading: int) -> int:
    """How many of the largest eigenvalues are to be split off; 0 if no digits are lost."""
    largest = float(values[-1])
    p = len(values)
    most = min(n_leading, p - 1)
    if most <= 0 or largest <= 0:
        return 0
    # What is left after s are split off, at its largest.
    below = max(-float(values[0]), 0.0)
    left = np.maximum(np.abs(values[p - most - 1 : p - 1]), below)[::-1]
    if not is_graded(largest, float(left[-1])):
        return 0
    above = values[p - most :][::-1]
    ratios = above / np.maximum(left, max(_NOTHING * largest, np.finfo(np.float64).tiny))
    apart = np.flatnonzero(ratios > _APART)
    if len(apart) == 0:
        return 0
    # Splitting turns subspaces by rounding of the largest over the last that is split off, and
    # adds the square of that times the latter to what is left, where it should be rounding.
    exact = apart[above[apart] / largest * (left[-1] / largest) >= _EPSILON]
    return int(exact[-1] if len(exact) else apart[0]) + 1
