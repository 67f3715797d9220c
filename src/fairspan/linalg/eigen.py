"""Eigenvectors of symmetric matrices, and proven sums of their smallest eigenvalues.

LAPACK finds every eigenvalue to a share of the largest one. If a column of currency makes that 1e16
times as large as the eigenvalues that decide, these are rounding. So where eigenvalues lie far
apart the largest eigenvectors X are split off, and the matrix is decomposed again on what is
orthogonal to them, where the others are largest. What the split neglects, X'MU, is rounding itself,
and enters the eigenvalues by its square over the gap alone.

Mixtures of second moments are solved once in a fit. The whole decomposition of a small matrix takes
little longer than its leading part, and can be used for every number of components and every
criterion. Of large matrices the leading part alone is kept. What takes too much memory is
forgotten, the oldest first.

The error that a subspace leaves is a sum of small eigenvalues. Taken as the trace less the sum of
the largest ones it can be wrong by more than itself: by 400 % where one column is 1e8 times as
large as the others. Here the largest s eigenvectors X are split off. Let U be their complement, N
= U'MU, R = X'MU, and theta the least eigenvalue of X'MX. For any s with theta > lambda_1(N), the
sum of the smallest eigenvalues of M is at least that of N less tr R'(X'MX - lambda_1(N) I)^-1 R.

A Cholesky factorisation says whether a matrix may be the scatter of some rows.

Signs of eigenvectors are arbitrary; what is shown gets its signs by :func:`with_positive_signs`.
"""

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import scipy.linalg

from fairspan.errors import InvalidInput
from fairspan.linalg.resources import threads_of
from fairspan.progress import eigenproblem_solved
from fairspan.typing import FloatArray

# Eigenvalues closer than this share of the matrix's norm cannot be told apart in float64.
TIE_TOLERANCE = 1e-13
# LAPACK's partial decomposition (evr) beats the full one only for few vectors of larger matrices.
_PARTIAL_FROM_FEATURES = 40
_PARTIAL_UP_TO_SHARE = 0.2
# Threads pay from here on.
_THREADS_FROM_FEATURES = 1000
# An eigenvalue this share of the largest one has lost so many digits that it is worth a second
# decomposition: with less, about nine digits of a gap could not be told.
_LOST = 1e-5
# What is split off must be this many times as large as what is left.
_APART = 16.0
# Less than this share of the largest eigenvalue is nothing at all.
NOTHING = 1e-60
EPSILON, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)
# A loading within this relative distance of the largest one counts as equally large, so that the
# sign of, say, (1, -1) / sqrt(2) does not hang on the last bit.
_SIGN_TOLERANCE = 1e-8
# Up to so many features the whole decomposition takes no longer than its leading part.
_SMALL = 60
# Numbers that are remembered, at most: 32 megabytes.
_MOST_NUMBERS = 2**22


@dataclass(frozen=True)
class LeadingSubspace:
    """The leading eigenvectors of a symmetric matrix, with the tie at the cut if there is one.

    Attributes
    ----------
    eigenvalues : (d,) array
        The d largest eigenvalues, largest first.
    vectors : (p, d) array
        Orthonormal eigenvectors.
    n_fixed : int
        How many leading columns lie strictly above a tie at eigenvalue d; d without a tie.
    tied : (p, m) array
        Orthonormal basis of the eigenspace of eigenvalue d, m > d - n_fixed, if it reaches beyond
        column d; empty (m = 0) if the leading subspace is unique.
    gap : float
        Eigenvalue d minus eigenvalue d + 1; infinite if d = p.
    """

    eigenvalues: FloatArray
    vectors: FloatArray
    n_fixed: int
    tied: FloatArray
    gap: float

    @classmethod
    def of(
        cls, values: FloatArray, vectors: FloatArray, n_components: int, tolerance: float
    ) -> "LeadingSubspace":
        """Cut a decomposition, largest eigenvalue first, after d eigenvectors.

        Eigenvalues within the tolerance of eigenvalue d are tied with it.
        """
        d = n_components
        gap = float(values[d - 1] - values[d]) if len(values) > d else np.inf
        leading = np.ascontiguousarray(vectors[:, :d])
        if gap > tolerance or vectors.shape[1] == d:
            return cls(values[:d], leading, d, vectors[:, :0], gap)
        tied = np.abs(values[: vectors.shape[1]] - values[d - 1]) <= tolerance
        return cls(values[:d], leading, int(np.argmax(tied)), vectors[:, tied], gap)

    @property
    def top_eigenvalue_sum(self) -> float:
        """t_d: the sum of the d largest eigenvalues."""
        return float(self.eigenvalues.sum())

    @property
    def is_tied(self) -> bool:
        """Whether other subspaces reach the same eigenvalue sum."""
        return bool(self.tied.shape[1] > 0)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The whole decomposition of a symmetric matrix, for every number of components.

    Attributes
    ----------
    values : (p,) array
        Largest first.
    vectors : (p, p) array
        Orthonormal columns in the same order; their signs are arbitrary.
    sizes : (p,) array
        What each eigenvalue is known to a share of.
    """

    values: FloatArray
    vectors: FloatArray
    sizes: FloatArray

    @classmethod
    def of(cls, matrix: FloatArray) -> "Spectrum":
        """The decomposition of a symmetric (p, p) matrix.

        Raises
        ------
        InvalidInput
            The matrix is not finite.
        """
        _check_finite(matrix)
        with threads_of("numpy") if len(matrix) >= _THREADS_FROM_FEATURES else nullcontext():
            values, vectors, sizes = graded_eigh(matrix, len(matrix) - 1)
        eigenproblem_solved()
        return cls(values[::-1], vectors[:, ::-1], sizes[::-1])

    def leading(self, n_components: int, tie_tolerance: float = 0.0) -> LeadingSubspace:
        """As of :func:`leading_subspace`."""
        return LeadingSubspace.of(
            self.values,
            self.vectors,
            n_components,
            max(tie_tolerance, TIE_TOLERANCE * float(self.sizes[n_components - 1])),
        )


def leading_subspace(
    matrix: FloatArray, n_components: int, tie_tolerance: float = 0.0
) -> LeadingSubspace:
    """Eigenvectors of the d largest eigenvalues of a symmetric matrix.

    Parameters
    ----------
    matrix : (p, p) array
        Symmetric; need not be positive semidefinite, may have any rank.
    n_components : int
        d, from 1 to p.
    tie_tolerance : float
        Eigenvalues within this absolute distance of eigenvalue d are taken as tied with it. At
        least 1e-13 of what LAPACK's rounding is a share of: a bound on every eigenvalue, or where
        the largest lie far above the others, on the others.

    Returns
    -------
    LeadingSubspace

    Raises
    ------
    InvalidInput
        The matrix is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.linalg import leading_subspace
    >>> top = leading_subspace(np.diag([1.0, 3.0, 2.0]), 2)
    >>> top.eigenvalues
    array([3., 2.])
    >>> leading_subspace(np.diag([2.0, 1.0, 1.0]), 2).tied.shape
    (3, 2)
    """
    _check_finite(matrix)
    p, d = len(matrix), n_components
    if is_zero(matrix):
        return LeadingSubspace.of(np.zeros(p), np.eye(p), d, tie_tolerance)
    if d < _PARTIAL_UP_TO_SHARE * p and p >= _PARTIAL_FROM_FEATURES:
        # One eigenvalue beyond the cut shows whether the cut goes through a tie.
        with threads_of("scipy") if p >= _THREADS_FROM_FEATURES else nullcontext():
            values, vectors = scipy.linalg.eigh(
                matrix, subset_by_index=[p - d - 1, p - 1], driver="evr", check_finite=False
            )
        eigenproblem_solved()
        tolerance = max(tie_tolerance, TIE_TOLERANCE * float(np.abs(matrix).sum(axis=0).max()))
        # On a near multiple of the identity LAPACK may return fewer than requested.
        if len(values) > d and float(values[0]) > _LOST * float(values[-1]):
            found = LeadingSubspace.of(values[::-1], vectors[:, ::-1], d, tolerance)
            if not found.is_tied:
                return found
    return Spectrum.of(matrix).leading(d, tie_tolerance)


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
    if is_zero(matrix):
        nothing = np.zeros(len(matrix))
        return nothing, np.eye(len(matrix)), nothing
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


def _split(values: FloatArray, n_leading: int) -> int:
    """How many of the largest eigenvalues are to be split off; 0 if no digits are lost."""
    largest, most_negative, p = float(values[-1]), max(-float(values[0]), 0.0), len(values)
    most = min(n_leading, p - 1)
    if most <= 0 or largest <= 0:
        return 0
    if max(abs(float(values[p - most - 1])), most_negative) > _LOST * largest:
        return 0
    # What is left after s are split off, at its largest.
    left = np.maximum(np.abs(values[p - most - 1 : p - 1]), most_negative)[::-1]
    above = values[p - most :][::-1]
    apart = np.flatnonzero(above > _APART * np.maximum(left, max(NOTHING * largest, TINY)))
    if len(apart) == 0:
        return 0
    # Splitting turns subspaces by rounding of the largest over the last that is split off, and
    # adds the square of that times the latter to what is left, where it should be rounding.
    exact = apart[above[apart] / largest * (left[-1] / largest) >= EPSILON]
    return int(exact[-1] if len(exact) else apart[0]) + 1


def is_zero(matrix: FloatArray) -> bool:
    """Return whether all entries of a matrix are zero.

    Examples
    --------
    >>> is_zero(np.zeros((2, 2))), is_zero(np.eye(2))
    (True, False)
    """
    # Nearly all other matrices show by their first entry that they are not.
    return not (matrix.size and matrix[0, 0]) and not matrix.any()


def symmetric(products: FloatArray) -> FloatArray:
    """The nearest symmetric matrices to (.., n, n) ones that are symmetric up to rounding."""
    return np.asarray((products + products.swapaxes(-1, -2)) / 2)


def symmetric_root(matrices: FloatArray) -> FloatArray:
    """Return the symmetric square root of (.., n, n) positive semidefinite matrices.

    Unlike the product of eigenvectors and roots of eigenvalues, it does not depend on the signs of
    the eigenvectors or on their rotation within ties. Draws that are made with it therefore move
    only as far as the matrices do. Negative eigenvalues count as rounding of zero.

    Examples
    --------
    >>> import numpy as np
    >>> symmetric_root(np.diag([4.0, 9.0]))
    array([[2., 0.],
           [0., 3.]])
    """
    values, vectors = np.linalg.eigh(matrices)
    scaled = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return symmetric(scaled @ np.swapaxes(vectors, -1, -2))


def with_positive_signs(vectors: FloatArray) -> FloatArray:
    """Flip columns so that the entry of largest absolute value of each is positive.

    Parameters
    ----------
    vectors : (p, d) array

    Returns
    -------
    (p, d) array

    Examples
    --------
    >>> import numpy as np
    >>> with_positive_signs(np.array([[0.6], [-0.8]]))
    array([[-0.6],
           [ 0.8]])
    """
    size = np.abs(vectors)
    first_largest = np.argmax(size >= (1 - _SIGN_TOLERANCE) * size.max(axis=0), axis=0)
    signs = np.where(vectors[first_largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    return np.ascontiguousarray(vectors * signs)


def _check_finite(matrix: FloatArray) -> None:
    # Entries are at most 1e150, so that their sum is as finite as they are.
    if not np.isfinite(matrix.sum()):
        raise InvalidInput(
            "The matrix holds NaN or infinity",
            "Allowed: finite numbers",
            "Rescale the columns if their squares overflow (values beyond 1e150)",
        )


class EigenCache:
    """Mixtures sum_g weights_g S_g and their eigenvectors.

    Parameters
    ----------
    matrices : (k, p, p) array
        S_g, symmetric.
    """

    def __init__(self, matrices: FloatArray) -> None:
        self._matrices = matrices
        self._known: dict[tuple[bytes, int | None], LeadingSubspace | Spectrum] = {}

    def mixture(self, weights: FloatArray) -> FloatArray:
        """sum_g weights_g S_g, shape (p, p); not to be written to."""
        matrices, used = self._matrices, np.flatnonzero(weights)
        if len(used) == 1 and weights[used[0]] == 1:
            return np.asarray(matrices[used[0]])
        if len(matrices) == 2 and matrices.shape[1] <= _SMALL:  # a fraction of the time
            return np.asarray(weights[0] * matrices[0] + weights[1] * matrices[1])
        return np.tensordot(weights, matrices, axes=1)

    def spectrum(self, weights: FloatArray) -> Spectrum:
        """All eigenvectors of a mixture.

        Raises
        ------
        InvalidInput
            The mixture is not finite.
        """
        key = (weights.tobytes(), None)
        if key not in self._known:
            self._keep(key, Spectrum.of(self.mixture(weights)))
        return cast(Spectrum, self._known[key])

    def known_spectrum(self, weights: FloatArray) -> Spectrum | None:
        """The same where it is known, or is found in next to no time."""
        known = (weights.tobytes(), None) in self._known or self._matrices.shape[1] <= _SMALL
        return self.spectrum(weights) if known else None

    def leading(
        self, weights: FloatArray, n_components: int, tie_tolerance: float
    ) -> LeadingSubspace:
        """The leading eigenvectors of a mixture, with ties within the tolerance."""
        known = self._known.get((weights.tobytes(), n_components))
        if isinstance(known, LeadingSubspace) and known.gap > tie_tolerance:
            return known
        if whole := self.known_spectrum(weights):
            return whole.leading(n_components, tie_tolerance)
        found = leading_subspace(self.mixture(weights), n_components, tie_tolerance)
        self.remember(weights, found)
        return found

    def remember(self, weights: FloatArray, found: LeadingSubspace) -> None:
        """Keep what was found elsewhere; not with a tie at the cut, which depends on who asks."""
        if not found.is_tied and found.gap > TIE_TOLERANCE * abs(found.eigenvalues[0]):
            self._keep((weights.tobytes(), len(found.eigenvalues)), found)

    def _keep(self, key: tuple[bytes, int | None], found: LeadingSubspace | Spectrum) -> None:
        known = self._known
        known[key] = found
        while len(known) > 1 and sum(each.vectors.size for each in known.values()) > _MOST_NUMBERS:
            del known[next(iter(known))]


# What float64 does to the entries of a second moment, in units of epsilon times the root mean
# squares of the two columns: products are summed over many rows, and the order of the rows decides.
_ENTRIES = 8.0
# Errors below this share of the variance are worked out without subtraction.
_SMALL_SHARE = 1e-4
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
    used = np.flatnonzero(weights)
    # Matrices of zeros take no part.
    used = used[[not is_zero(matrices[g]) for g in used.tolist()]]
    p, d = matrices.shape[1], n_leading
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
        # Products of subnormal numbers are rounded by more than their own share.
        rounding += TINY * p
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
    factor, failed = scipy.linalg.lapack.dpotrf(inside, lower=True)
    if failed:
        return np.inf
    left, _ = scipy.linalg.lapack.dtrtrs(factor, image.T @ vectors[:, :cut], lower=True)
    return float(np.vdot(left, left))


def scaled_to_one(vectors: FloatArray) -> FloatArray:
    """Divide each vector by a power of two so that its largest entry is at least 1/2 and below 1.

    Parameters
    ----------
    vectors : (..., k) array
        Finite. Vectors of zeros stay as they are; of others, no digit is lost.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.linalg import scaled_to_one
    >>> scaled_to_one(np.array([5e-324, -5e-324]))
    array([ 0.5, -0.5])
    """
    largest = np.abs(vectors).max(axis=-1, keepdims=True, initial=0.0)
    _, exponents = np.frexp(largest)
    return np.asarray(np.ldexp(vectors, np.where(largest > 0, -exponents, 0)))


def unit_of(weights: FloatArray) -> float:
    """Return the largest power of two that is no larger than the largest weight.

    Divided by it, weights keep all their digits, and those that differ by a power of two are the
    same. It is 1 where there is no weight, or all are zero.

    Examples
    --------
    >>> import numpy as np
    >>> unit_of(np.array([0.0, 3.0]))
    2.0
    """
    largest = float(weights.max(initial=0.0))
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest > 0 else 1.0


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
    # Errors that are no small share of the variance are worked out as differences, of sums of p
    # numbers whose roundings add up like a random walk.
    variances = (spreads**2).sum(axis=1)
    of_sums = max(4.0, np.sqrt(len(lengths)))
    subtracted = np.where(errors > _SMALL_SHARE * variances, of_sums * variances, 0.0)
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
    return bool(
        scipy.linalg.lapack.dpotrf(scaled.T, lower=True, overwrite_a=True, clean=False)[1] == 0
    )
