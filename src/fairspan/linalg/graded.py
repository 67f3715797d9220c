"""Matrices whose eigenvalues lie many orders of magnitude apart: eigenvectors, and proven sums.

LAPACK finds every eigenvalue to a share of the largest one. If a column of currency makes that 1e16
times as large as the eigenvalues that decide, these are rounding. So the largest eigenvectors X are
split off, and the matrix is decomposed again on what is orthogonal to them, where the others are
largest. What the split neglects, X'MU, is rounding itself, and enters the eigenvalues by its square
over the gap alone.

The error that a subspace leaves is a sum of small eigenvalues. Taken as the trace less the sum of
the largest ones it can be wrong by more than itself: by 400 % where one column is 1e8 times as
large as the others. Here the largest s eigenvectors X are split off. Let U be their complement, N
= U'MU, R = X'MU, and theta the least eigenvalue of X'MX. For any s with theta > lambda_1(N), the
sum of the smallest eigenvalues of M is at least that of N less tr R'(X'MX - lambda_1(N) I)^-1 R.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg

from fairspan.typing import FloatArray

# An eigenvalue this share of the largest one has lost so many digits that it is worth a second
# decomposition: with less, about nine digits of a gap could not be told.
_LOST = 1e-5
# What is split off must be this many times as large as what is left.
_APART = 16.0
EPSILON = float(np.finfo(np.float64).eps)
# What float64 does to the entries of a second moment, in units of epsilon times the root mean
# squares of the two columns: products are summed over many rows, and the order of the rows decides.
_ENTRIES = 8.0
# Errors below this share of the variance are worked out without subtraction.
_SMALL = 1e-4
# By how many epsilon the rounding of a basis may turn a subspace.
_TURN = 16.0
# A gap below the split of this share of what is left lets next to nothing be neglected.
_CLEAR = 1e-3
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
    inner = symmetric(rest.T @ (matrix @ rest))
    inner_values, turn, sizes = graded_eigh(inner, n_leading - n_split)
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
    left = np.maximum(np.abs(values[p - most - 1 : p - 1]), max(-float(values[0]), 0.0))[::-1]
    if not is_graded(largest, float(left[-1])):
        return 0
    above = values[p - most :][::-1]
    ratios = above / np.maximum(left, max(_NOTHING * largest, np.finfo(np.float64).tiny))
    apart = np.flatnonzero(ratios > _APART)
    if len(apart) == 0:
        return 0
    # Splitting turns subspaces by rounding of the largest over the last that is split off, and
    # adds the square of that times the latter to what is left, where it should be rounding.
    exact = apart[above[apart] / largest * (left[-1] / largest) >= EPSILON]
    return int(exact[-1] if len(exact) else apart[0]) + 1


def symmetric(products: FloatArray) -> FloatArray:
    """The nearest symmetric matrices to (.., n, n) ones that are symmetric up to rounding."""
    return np.asarray((products + np.swapaxes(products, -1, -2)) / 2)


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


def smallest_sum(matrices: FloatArray, weights: FloatArray, n_leading: int) -> SmallestSum:
    """The sum of all but the d largest eigenvalues of sum_g weights_g S_g.

    Parameters
    ----------
    matrices : (k, p, p) array
        S_g, symmetric.
    weights : (k,) array
        Of either sign.
    n_leading : int
        d.

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
    used = np.flatnonzero(weights)
    if n_leading == matrices.shape[1] or len(used) == 0:
        return SmallestSum(0.0, 0.0)
    matrices, weights = matrices[used], weights[used]
    mixture = np.tensordot(weights, matrices, axes=1)
    values, vectors, _ = graded_eigh(mixture, n_leading)
    spreads = root_mean_squares(matrices)
    found: list[SmallestSum] = []
    for n_split in _splits(values, n_leading):
        value, neglected, rounding = _split_sum(
            matrices, weights, mixture, (values, vectors), n_leading, n_split, spreads
        )
        found.append(SmallestSum(value - neglected, rounding))
        if neglected <= rounding:
            break
    return max(found, key=lambda each: each.value - each.rounding)


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
    nothing = max(_NOTHING * float(np.abs(values).max()), np.finfo(np.float64).tiny)
    ratios = (largest - following) / np.maximum(left, nothing)
    clear = np.flatnonzero(ratios > _CLEAR)
    wanted = [int(clear[-1]) + 1, int(np.argmax(ratios)) + 1] if len(clear) else []
    return list(dict.fromkeys([*wanted, 0]))


def _split_sum(
    matrices: FloatArray,
    weights: FloatArray,
    mixture: FloatArray,
    eigen: tuple[FloatArray, FloatArray],
    n_leading: int,
    n_split: int,
    spreads: FloatArray,
) -> tuple[float, float, float]:
    """The sum of N, what the split neglects (infinite without a gap), and the rounding."""
    p = len(mixture)
    values, vectors = eigen[0][: p - n_split], eigen[1]
    rest, split = vectors[:, : p - n_split], vectors[:, p - n_split :]
    inner = np.array([rest.T @ (matrix @ rest) for matrix in matrices])
    mixed = symmetric(np.tensordot(weights, inner, axes=1))
    sizes = np.sqrt(np.einsum("gij,gij->g", inner, inner))
    entries = (spreads @ np.linalg.norm(rest, axis=1)) ** 2
    of_basis = rounding_of_basis(np.sqrt((spreads**2).sum(axis=1)), np.zeros(len(spreads)))
    rounding = float(np.abs(weights) @ (EPSILON * (2 * p * sizes + _ENTRIES * entries) + of_basis))
    if n_split == n_leading:
        value = float(np.trace(mixed))
        # The matrix is nearly diagonal, which tells its largest eigenvalue at once.
        top = float(values[-1]) + float(np.linalg.norm(mixed - np.diag(values)))
    else:
        own = np.linalg.eigvalsh(mixed)
        value, top = float(own[: p - n_leading].sum()), float(own[-1])
    if n_split == 0:
        return value, 0.0, rounding
    image = mixture @ split
    inside = symmetric(split.T @ image)
    inside.flat[:: n_split + 1] -= top
    coupling = image.T @ rest
    try:
        factor = np.linalg.cholesky(inside)
    except np.linalg.LinAlgError:
        return value, np.inf, rounding
    # With the whole of Theta, and not its least eigenvalue alone: R is largest where Theta is.
    neglected = scipy.linalg.solve_triangular(factor, coupling, lower=True, check_finite=False)
    return value, float(np.vdot(neglected, neglected)), rounding
