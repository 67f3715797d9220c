"""Proven upper bounds on the sum of the largest eigenvalues, from a subspace that holds them.

For a symmetric matrix M and orthonormal W let H = W'MW, G = MW - WH, and let beta be at least the
largest eigenvalue of M on the complement of W. For every eta > 0 Young's inequality gives
M <= (H + G'G / eta) + (beta + eta) I on the two parts, so the d largest eigenvalues of the right
side bound those of M. If beta lies below eigenvalue d by delta, the bound exceeds the sum within W
by |G|_F^2 / delta at most: a residual of 1e-5 proves ten digits.

A residual cannot exclude that W misses an eigenvalue; beta does. It is proven by a Cholesky
factorisation, or by the Frobenius norm that W leaves over, with room for what rounding may do.

Such a factorisation also says whether a matrix may be the scatter of some rows.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from fairspan.linalg.machine import threads_of
from fairspan.typing import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)
# Multiples of the residual at which Young's inequality is tried where nothing lies between.
_MULTIPLES = (0.1, 1.0, 10.0)
# What rounding may add to the product of two columns, as a share of both their sizes.
_ROUNDED = 1e-9
# Deviations below this share of the mean are rounding of the rows, and below this number their
# squares leave double precision.
_UNSURE, _UNDERFLOW = 1e-12, 1.5e-154


def frobenius_ceiling(
    squared_norm: float, compressed: FloatArray, residual_gram: FloatArray, size: float
) -> float:
    """Bound on every eigenvalue beside W from |M|_F^2 = |H|_F^2 + 2 |G|_F^2 + |N|_F^2.

    Parameters
    ----------
    squared_norm : float
        |M|_F^2.
    compressed : (m, m) array
        H = W'MW.
    residual_gram : (m, m) array
        G'G.
    size : float
        At least |M|_F; more, where M is a difference of larger matrices and has their rounding.

    Returns
    -------
    float
        At least |N|_F, N = M on the complement of W.
    """
    left = squared_norm - float((compressed**2).sum()) - 2 * float(np.trace(residual_gram))
    # Sums of squares are off by less than their number of terms in a row times epsilon.
    return float(np.sqrt(max(left, 0.0) + 16 * len(compressed) * _EPSILON * size**2))


def cholesky_ceiling(
    matrix: FloatArray, basis: FloatArray, image: FloatArray, level: float, size: float
) -> float | None:
    """Bound on every eigenvalue beside W, near a level; None if the level is too low.

    If level I - (I - WW') M (I - WW') has a Cholesky factor in floating point, its least eigenvalue
    is at least minus (p + 1) epsilon times its trace (Rump 2006).

    Parameters
    ----------
    matrix : (p, p) array
        M, symmetric.
    basis, image : (p, m) arrays
        W, orthonormal, and MW.
    level : float
        What is to be proven, above zero.
    size : float
        As of :func:`frobenius_ceiling`.

    Returns
    -------
    float or None

    Examples
    --------
    >>> import numpy as np
    >>> matrix, basis = np.diag([3.0, 2.0, 1.0]), np.eye(3)[:, :1]
    >>> round(cholesky_ceiling(matrix, basis, matrix @ basis, 2.1, 4.0), 6)
    2.1
    >>> cholesky_ceiling(matrix, basis, matrix @ basis, 1.9, 4.0) is None
    True
    """
    if level <= 0:
        return None
    with threads_of("numpy"):
        p, m = basis.shape
        half = image - basis @ ((basis.T @ image) / 2)
        shifted = np.hstack([basis, half]) @ np.hstack([half, basis]).T
        shifted -= matrix
        shifted.flat[:: p + 1] += level
        trace = float(np.trace(shifted))
        try:
            np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            return None
    # Rounding in the products, each term at its largest.
    rounding = 4 * (p + m) * _EPSILON * np.sqrt(m + 1) * size
    return float(level + 2 * (p + 1) * _EPSILON * trace + rounding)


def top_sum_bound(
    compressed: FloatArray,
    residual_gram: FloatArray,
    n_components: int,
    ceiling: float,
    n_beside: int,
) -> float:
    """Upper bound on t_d(M), the sum of the d largest eigenvalues.

    Parameters
    ----------
    compressed, residual_gram : (m, m) arrays
        H = W'MW and G'G.
    n_components : int
        d, at most m.
    ceiling : float
        At least every eigenvalue of M on the complement of W.
    n_beside : int
        p - m, the dimension of the complement.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> within, gram = np.diag([3.0, 2.0]), np.zeros((2, 2))
    >>> top_sum_bound(within, gram, 1, ceiling=1.0, n_beside=5)
    3.0
    >>> top_sum_bound(within, gram, 2, ceiling=2.5, n_beside=5)
    5.5
    """
    d = n_components
    values = np.linalg.eigvalsh(compressed)[::-1]
    if n_beside == 0:
        return float(values[:d].sum())
    size = float(np.sqrt(max(np.trace(residual_gram), 0.0)))
    beside: FloatArray = np.full(min(d, n_beside), ceiling)
    if size == 0.0:
        return _largest(values, beside, d)
    distance = float(values[d - 1]) - ceiling
    # The whole distance raises eigenvalues within the least, and those beside to eigenvalue d.
    etas = [distance] if distance > 0 else [multiple * size for multiple in _MULTIPLES]
    raised = ((compressed + residual_gram / eta, eta) for eta in etas)
    return min(_largest(np.linalg.eigvalsh(each), beside + eta, d) for each, eta in raised)


def _largest(within: npt.NDArray[Any], beside: npt.NDArray[Any], d: int) -> float:
    return float(np.sort(np.concatenate([within, beside]))[::-1][:d].sum())


def may_be_scatter(scatter: FloatArray, mean: FloatArray, weight: float) -> bool:
    """Whether rows of this mean and weight may have this (p, p) scatter.

    The scatter is divided by the size of each feature: what its own entry says, or what rounding of
    the rows may hide there. A Cholesky factor of that then exists, or there are no such rows:
    p^3 / 3 steps, less than a tenth of the eigenproblem that a fit solves.

    Examples
    --------
    >>> import numpy as np
    >>> may_be_scatter(np.array([[1.0, 1.0], [1.0, 1.0]]), np.zeros(2), 3.0)
    True
    >>> may_be_scatter(np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros(2), 3.0)
    False
    """
    variances = np.diag(scatter)
    if not (variances >= 0).all():
        return False
    sizes = np.sqrt(variances) + np.sqrt(weight) * np.maximum(_UNSURE * np.abs(mean), _UNDERFLOW)
    with np.errstate(over="ignore"):
        scaled = scatter / sizes[:, None]
        scaled /= sizes
    if np.abs(scaled).max(initial=0.0) > 1 + _ROUNDED:
        return False
    scaled[np.diag_indices_from(scaled)] += _ROUNDED * len(scaled)
    return bool(lapack.dpotrf(scaled.T, lower=True, overwrite_a=True, clean=False)[1] == 0)
