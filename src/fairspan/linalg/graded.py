"""Eigendecompositions of graded matrices, with entries of widely different size.

LAPACK's absolute error is a multiple of the largest eigenvalue. If one column in a small unit makes
that 1e16 times the eigenvalues that matter, these are pure rounding error. Widely separated leading
eigenvectors X are therefore deflated, and the matrix is decomposed again on their orthogonal
complement U, where the remaining eigenvalues are largest. The neglected coupling X'MU is itself of
the size of rounding errors and enters the eigenvalues only as its square over the gap.
"""

from typing import NamedTuple

import numpy as np

from fairspan.linalg.rounding import EPS, TINY
from fairspan.linalg.symmetric import symmetrize
from fairspan.typing import FloatArray

# An eigenvalue below this ratio of the largest has lost enough digits to justify a second
# decomposition: about nine digits of a duality gap need it.
INACCURATE_RATIO = 1e-5
# A deflated eigenvalue must be this many times the largest remaining one.
_MIN_DEFLATION_RATIO = 16.0
# Eigenvalues below this ratio of the largest count as zero.
ZERO_RATIO = 1e-60


class AscendingEigenpairs(NamedTuple):
    """Eigenvalues of a symmetric matrix in ascending order, and their eigenvectors.

    Attributes
    ----------
    values : (p,) array
    vectors : (p, p) array
        Orthonormal columns.
    error_scales : (p,) array
        Scale of each eigenvalue's rounding error: the largest absolute eigenvalue of the same
        (deflated) decomposition, or more if large entries of the matrix couple to its eigenvector.
    """

    values: FloatArray
    vectors: FloatArray
    error_scales: FloatArray


def graded_eigh(matrix: FloatArray, max_deflated: int) -> AscendingEigenpairs:
    """Return the full eigendecomposition of a graded symmetric matrix, in ascending order.

    The largest eigenvectors are deflated: the matrix is decomposed again on their orthogonal
    complement, recursively.

    Parameters
    ----------
    matrix : (p, p) array
        Symmetric.
    max_deflated : int
        Maximum number of leading eigenvalues to deflate; only those far above the rest are. The
        remaining ones are then accurate relative to their own size, if the large entries of the
        matrix are confined to few rows and columns.

    Returns
    -------
    AscendingEigenpairs

    Examples
    --------
    >>> import numpy as np
    >>> matrix = np.array([[1e16, 1e8, 0.0], [1e8, 3.0, 0.5], [0.0, 0.5, 1.0]])
    >>> graded_eigh(matrix, 1).values[:2].round(6)
    array([0.792893, 2.207107])
    """
    values, vectors = np.linalg.eigh(matrix)
    smallest = float(values[0])
    largest = float(values[-1])
    # Largest absolute eigenvalue, to which LAPACK's rounding errors are relative.
    norm = max(-smallest, largest, 0.0)
    # Without tiny or negative eigenvalues, this decomposition is accurate enough.
    is_accurate = smallest > INACCURATE_RATIO * largest
    n_deflated = 0 if is_accurate else _count_deflated(values, max_deflated)
    if n_deflated == 0:
        return AscendingEigenpairs(values, vectors, np.full(len(values), norm))
    n_remaining = len(values) - n_deflated
    complement = vectors[:, :n_remaining]
    compressed = symmetrize(complement.T @ (matrix @ complement))
    remaining_values, rotation, scales = graded_eigh(compressed, max_deflated - n_deflated)
    all_vectors = np.hstack([complement @ rotation, vectors[:, n_remaining:]])
    # Each matrix entry carries a relative rounding error, even where products with it cancel;
    # that of a feature counts by its squared loading in the eigenvector. The scale of an eigenvalue
    # is at least that of every smaller one.
    entry_rounding = np.maximum.accumulate(np.abs(np.diagonal(matrix)) @ all_vectors**2)
    scales = np.maximum(np.append(scales, np.full(n_deflated, norm)), entry_rounding)
    all_values = np.concatenate([remaining_values, values[n_remaining:]])
    return AscendingEigenpairs(all_values, all_vectors, scales)


def _count_deflated(values: FloatArray, max_deflated: int) -> int:
    """Return the number of leading eigenvalues to deflate; 0 if deflation gains no accuracy.

    That is the case without tiny eigenvalues, or without a wide gap above them. `values` are in
    ascending order.
    """
    p = len(values)
    largest = float(values[-1])
    most_negative = max(-float(values[0]), 0.0)
    n_candidates = min(max_deflated, p - 1)
    if n_candidates <= 0 or largest <= 0:
        return 0
    following = abs(float(values[p - n_candidates - 1]))
    # Without tiny eigenvalues, the first decomposition is accurate enough.
    if max(following, most_negative) > INACCURATE_RATIO * largest:
        return 0
    # Entry s - 1 is about the deflation of s eigenvalues: the last of these, and the largest
    # magnitude of those that remain. Indices are those of entries with a wide gap between both.
    last_deflated = values[p - n_candidates :][::-1]
    max_remaining = np.maximum(np.abs(values[p - n_candidates - 1 : p - 1]), most_negative)[::-1]
    smallest_nonzero = max(ZERO_RATIO * largest, TINY)
    separated_indices = np.flatnonzero(
        last_deflated > _MIN_DEFLATION_RATIO * np.maximum(max_remaining, smallest_nonzero)
    )
    if len(separated_indices) == 0:
        return 0
    # Deflation rotates the subspace by eps * (largest / last deflated), which perturbs the
    # remaining eigenvalues by the square of that angle times the last deflated one. Deflate the
    # most for which this is within eps of the smallest remaining one; if it never is, the fewest,
    # which perturb the least.
    smallest_remaining_ratio = max_remaining[-1] / largest
    last_ratios = last_deflated[separated_indices] / largest
    accurate_indices = separated_indices[last_ratios * smallest_remaining_ratio >= EPS]
    index = accurate_indices[-1] if len(accurate_indices) else separated_indices[0]
    return int(index) + 1
