"""Proven sums of the smallest eigenvalues, and what rounding may have done to errors.

The error that a subspace leaves is a sum of small eigenvalues. Taken as the trace less the sum of
the largest ones it can be wrong by more than itself: by 400 % where one column is 1e8 times as
large as the others. Here the largest s eigenvectors X are split off. Let U be their complement, N
= U'MU, R = X'MU, and theta the least eigenvalue of X'MX. For any s with theta > lambda_1(N), the
sum of the smallest eigenvalues of M is at least that of N less tr R'(X'MX - lambda_1(N) I)^-1 R.

A Cholesky factorisation says whether a matrix may be the scatter of some rows.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from fairspan.linalg.eigen import EPSILON, NOTHING, TINY, Spectrum, graded_eigh, symmetric
from fairspan.typing import FloatArray

# What float64 does to the entries of a second moment, in units of epsilon times the root mean
# squares of the two columns: products are summed over many rows, and the order of the rows decides.
_ENTRIES = 8.0
# Errors below this share of the variance are worked out without subtraction.
_SMALL = 1e-4
# By how many epsilon the rounding of a basis may turn a subspace.
_TURN = 16.0
# A gap below the split of this share of what is left lets next to nothing be neglected.
_CLEAR = 1e-3
# What rounding may add to the product of two columns, as a share of both their sizes.
_ROUNDED = 1e-9
# Deviations below this share of the mean are rounding of the rows, and below this number their
# squares leave double precision.
_UNSURE, _UNDERFLOW = 1e-12, 1.5e-154


class SmallestSum(NamedTuple):
    """A sum of smallest eigenvalues.

    Attributes
    ----------
    value : float
        The sum up to rounding.
    rounding : float
        By how much rounding may have raised it: value - rounding is a proven bound.
    """

    value: float
    rounding: float


def smallest_sum(
    matrices: FloatArray, weights: FloatArray, n_leading: int, spectrum: Spectrum | None = None
) -> SmallestSum:
    """The sum of all but the d largest eigenvalues of sum_g weights_g S_g.

    Parameters
    ----------
    matrices : (k, p, p) array
        S_g, symmetric.
    weights : (k,) array
        Of either sign.
    n_leading : int
        d.
    spectrum : Spectrum, optional
        Of the sum, where it is known.

    Returns
    -------
    SmallestSum

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.linalg import smallest_sum
    >>> one = np.array([[[1e16, 1e8, 0.0], [1e8, 3.0, 0.5], [0.0, 0.5, 1.0]]])
    >>> round(smallest_sum(one, np.ones(1), 1).value, 12)
    3.0
    """
    used, (p, d) = np.flatnonzero(weights), (matrices.shape[1], n_leading)
    if d == p or len(used) == 0:
        return SmallestSum(0.0, 0.0)
    if len(used) < len(weights):
        matrices, weights = matrices[used], weights[used]
    if spectrum is None:
        values, vectors, _ = graded_eigh(np.tensordot(weights, matrices, axes=1), d)
    else:
        values, vectors = spectrum.values[::-1], np.ascontiguousarray(spectrum.vectors[:, ::-1])
    images, spreads = matrices @ vectors, root_mean_squares(matrices)
    of_basis = rounding_of_basis(np.sqrt((spreads**2).sum(axis=1)), np.zeros(len(spreads)))
    found: list[SmallestSum] = []
    for n_split in _splits(values, d):
        cut = p - n_split
        inner = vectors[:, :cut].T @ images[:, :, :cut]
        mixed = symmetric(np.tensordot(weights, inner, axes=1))
        sizes = np.sqrt(np.einsum("gij,gij->g", inner, inner))
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors[:, :cut], vectors[:, :cut]))
        entries = _ENTRIES * (spreads @ lengths) ** 2
        rounding = float(np.abs(weights) @ (EPSILON * (2 * p * sizes + entries) + of_basis))
        if n_split == d:
            value = float(np.trace(mixed))
            # The matrix is nearly diagonal, which tells its largest eigenvalue at once.
            top = float(values[cut - 1]) + float(np.linalg.norm(mixed - np.diag(values[:cut])))
        else:
            own = np.linalg.eigvalsh(mixed)
            value, top = float(own[: p - d].sum()), float(own[-1])
        neglected = 0.0
        if n_split:
            image = np.tensordot(weights, images[:, :, cut:], axes=1)
            neglected = _neglected(image, vectors, cut, top)
        found.append(SmallestSum(value - neglected, rounding))
        if neglected <= rounding:
            break
    return max(found, key=lambda each: each.value - each.rounding)


def _neglected(image: FloatArray, vectors: FloatArray, cut: int, top: float) -> float:
    """tr R'(X'MX - top I)^-1 R of the eigenvectors X beyond the cut; infinite without a gap."""
    inside = symmetric(vectors[:, cut:].T @ image)
    inside.flat[:: len(inside) + 1] -= top
    # With the whole of X'MX, and not its least eigenvalue alone: R is largest where that is.
    factor, failed = lapack.dpotrf(inside, lower=True)
    if failed:
        return np.inf
    left, _ = lapack.dtrtrs(factor, image.T @ vectors[:, :cut], lower=True)
    return float(np.vdot(left, left))


def root_mean_squares(matrices: FloatArray) -> FloatArray:
    """Of each column in each group, shape (k, p)."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("gii->gi", matrices), 0.0)))


def rounding_of_errors(spreads: FloatArray, errors: FloatArray, lengths: FloatArray) -> FloatArray:
    """By how much rounding may have moved tr(E'S_gE), E = I - VV', of each group.

    Parameters
    ----------
    spreads : (k, p) array
        Root mean squares of the columns.
    errors : (k,) array
        tr(E'S_gE).
    lengths : (p,) array
        Of the rows of E.

    Returns
    -------
    (k,) array
    """
    by_entries = _ENTRIES * (spreads @ lengths) ** 2
    # Errors that are no small share of the variance are worked out as differences.
    variances = (spreads**2).sum(axis=1)
    subtracted = np.where(errors > _SMALL * variances, 4 * variances, 0.0)
    each = EPSILON * (2 * len(lengths) * errors + by_entries + subtracted)
    return np.asarray(each + rounding_of_basis(np.sqrt(variances), errors))


def rounding_of_basis(deviations: FloatArray, errors: FloatArray) -> FloatArray:
    """What the rounding of a basis to float64 may do to the errors that it leaves, shape (k,).

    It turns the subspace by some epsilon, and with it the direction of largest variance.

    Parameters
    ----------
    deviations : (k,) array
        sqrt(tr S_g).
    errors : (k,) array
    """
    turned = _TURN * EPSILON * deviations
    return np.asarray(2 * turned * np.sqrt(np.maximum(errors, 0.0)) + turned**2)


def _splits(values: FloatArray, n_leading: int) -> list[int]:
    """How many of the d largest eigenvectors to split off: first the most with a gap below them."""
    p = len(values)
    largest = values[p - n_leading :][::-1]
    following = values[p - n_leading - 1 : p - 1][::-1]
    left = np.maximum(np.abs(following), max(-float(values[0]), 0.0))
    nothing = max(NOTHING * float(np.abs(values).max()), TINY)
    ratios = (largest - following) / np.maximum(left, nothing)
    clear = np.flatnonzero(ratios > _CLEAR)
    wanted = [int(clear[-1]) + 1, int(np.argmax(ratios)) + 1] if len(clear) else []
    return list(dict.fromkeys([*wanted, 0]))


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
