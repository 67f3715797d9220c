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

Signs of eigenvectors are arbitrary; what is shown gets its signs by :func:`normalize_signs`.
"""

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import scipy.linalg

from fairspan.errors import InvalidInput
from fairspan.linalg.resources import limit_blas_threads
from fairspan.progress import count_eigenproblem
from fairspan.typing import FloatArray

# Eigenvalues closer than this share of the matrix's norm cannot be told apart in float64.
TIE_TOL = 1e-13
# LAPACK's partial decomposition (evr) beats the full one only for few vectors of larger matrices.
_MIN_PARTIAL_FEATURES = 40
_MAX_PARTIAL_RATIO = 0.2
# Threads pay from here on.
_MIN_THREADED_FEATURES = 1000
# An eigenvalue this share of the largest one has lost so many digits that it is worth a second
# decomposition: with less, about nine digits of a gap could not be told.
_INACCURATE_RATIO = 1e-5
# What is split off must be this many times as large as what is left.
_MIN_DEFLATION_RATIO = 16.0
# Less than this share of the largest eigenvalue is nothing at all.
_ZERO_RATIO = 1e-60
_EPS, _TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)
# A loading within this relative distance of the largest one counts as equally large, so that the
# sign of, say, (1, -1) / sqrt(2) does not hang on the last bit.
_SIGN_TOL = 1e-8
# Up to so many features the whole decomposition takes no longer than its leading part.
_MAX_SMALL_FEATURES = 60
# Numbers that are remembered, at most: 32 megabytes.
_MAX_CACHED_ENTRIES = 2**22


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
    n_untied: int
    tied_vectors: FloatArray
    gap: float

    @classmethod
    def from_eigenpairs(
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
    def eigenvalue_sum(self) -> float:
        """t_d: the sum of the d largest eigenvalues."""
        return float(self.eigenvalues.sum())

    @property
    def is_tied(self) -> bool:
        """Whether other subspaces reach the same eigenvalue sum."""
        return bool(self.tied_vectors.shape[1] > 0)


@dataclass(frozen=True, eq=False)
class Eigendecomposition:
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
    error_scales: FloatArray

    @classmethod
    def from_matrix(cls, matrix: FloatArray) -> "Eigendecomposition":
        """The decomposition of a symmetric (p, p) matrix.

        Raises
        ------
        InvalidInput
            The matrix is not finite.
        """
        _check_finite(matrix)
        with (
            limit_blas_threads("numpy") if len(matrix) >= _MIN_THREADED_FEATURES else nullcontext()
        ):
            values, vectors, scales = graded_eigh(matrix, len(matrix) - 1)
        count_eigenproblem()
        return cls(values[::-1], vectors[:, ::-1], scales[::-1])

    def leading(self, n_components: int, tie_tolerance: float = 0.0) -> LeadingSubspace:
        """As of :func:`leading_subspace`."""
        return LeadingSubspace.from_eigenpairs(
            self.values,
            self.vectors,
            n_components,
            max(tie_tolerance, TIE_TOL * float(self.error_scales[n_components - 1])),
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
        return LeadingSubspace.from_eigenpairs(np.zeros(p), np.eye(p), d, tie_tolerance)
    if d < _MAX_PARTIAL_RATIO * p and p >= _MIN_PARTIAL_FEATURES:
        # One eigenvalue beyond the cut shows whether the cut goes through a tie.
        with limit_blas_threads("scipy") if p >= _MIN_THREADED_FEATURES else nullcontext():
            values, vectors = scipy.linalg.eigh(
                matrix, subset_by_index=[p - d - 1, p - 1], driver="evr", check_finite=False
            )
        count_eigenproblem()
        tolerance = max(tie_tolerance, TIE_TOL * float(np.abs(matrix).sum(axis=0).max()))
        # On a near multiple of the identity LAPACK may return fewer than requested.
        if len(values) > d and float(values[0]) > _INACCURATE_RATIO * float(values[-1]):
            found = LeadingSubspace.from_eigenpairs(values[::-1], vectors[:, ::-1], d, tolerance)
            if not found.is_tied:
                return found
    return Eigendecomposition.from_matrix(matrix).leading(d, tie_tolerance)


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
    n_deflated = _n_deflated(values, n_leading)
    size = max(-float(values[0]), float(values[-1]), 0.0)
    if n_deflated == 0:
        return values, vectors, np.full(len(values), size)
    n_remaining = len(values) - n_deflated
    rest = vectors[:, :n_remaining]
    inner = symmetrize(rest.T @ (matrix @ rest))
    inner_values, turn, scales = graded_eigh(inner, n_leading - n_deflated)
    found = np.hstack([rest @ turn, vectors[:, n_remaining:]])
    # Entries are rounded to a share of themselves, whatever cancels in the products with them.
    entry_rounding = np.maximum.accumulate(np.abs(np.diagonal(matrix)) @ found**2)
    scales = np.maximum(np.append(scales, np.full(n_deflated, size)), entry_rounding)
    return np.concatenate([inner_values, values[n_remaining:]]), found, scales


def _n_deflated(values: FloatArray, n_leading: int) -> int:
    """How many of the largest eigenvalues are to be split off; 0 if no digits are lost."""
    largest, most_negative, p = float(values[-1]), max(-float(values[0]), 0.0), len(values)
    most = min(n_leading, p - 1)
    if most <= 0 or largest <= 0:
        return 0
    if max(abs(float(values[p - most - 1])), most_negative) > _INACCURATE_RATIO * largest:
        return 0
    # What is left after s are split off, at its largest.
    left = np.maximum(np.abs(values[p - most - 1 : p - 1]), most_negative)[::-1]
    above = values[p - most :][::-1]
    apart = np.flatnonzero(
        above > _MIN_DEFLATION_RATIO * np.maximum(left, max(_ZERO_RATIO * largest, _TINY))
    )
    if len(apart) == 0:
        return 0
    # Splitting turns subspaces by rounding of the largest over the last that is split off, and
    # adds the square of that times the latter to what is left, where it should be rounding.
    exact = apart[above[apart] / largest * (left[-1] / largest) >= _EPS]
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


def symmetrize(products: FloatArray) -> FloatArray:
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
    return symmetrize(scaled @ np.swapaxes(vectors, -1, -2))


def normalize_signs(vectors: FloatArray) -> FloatArray:
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
    >>> normalize_signs(np.array([[0.6], [-0.8]]))
    array([[-0.6],
           [ 0.8]])
    """
    size = np.abs(vectors)
    first_largest = np.argmax(size >= (1 - _SIGN_TOL) * size.max(axis=0), axis=0)
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
        self._cache: dict[tuple[bytes, int | None], LeadingSubspace | Eigendecomposition] = {}

    def mixture(self, weights: FloatArray) -> FloatArray:
        """sum_g weights_g S_g, shape (p, p); not to be written to."""
        matrices, used = self._matrices, np.flatnonzero(weights)
        if len(used) == 1 and weights[used[0]] == 1:
            return np.asarray(matrices[used[0]])
        if (
            len(matrices) == 2 and matrices.shape[1] <= _MAX_SMALL_FEATURES
        ):  # a fraction of the time
            return np.asarray(weights[0] * matrices[0] + weights[1] * matrices[1])
        return np.tensordot(weights, matrices, axes=1)

    def decomposition(self, weights: FloatArray) -> Eigendecomposition:
        """All eigenvectors of a mixture.

        Raises
        ------
        InvalidInput
            The mixture is not finite.
        """
        key = (weights.tobytes(), None)
        if key not in self._cache:
            self._store(key, Eigendecomposition.from_matrix(self.mixture(weights)))
        return cast(Eigendecomposition, self._cache[key])

    def cheap_decomposition(self, weights: FloatArray) -> Eigendecomposition | None:
        """The same where it is known, or is found in next to no time."""
        known = (weights.tobytes(), None) in self._cache or self._matrices.shape[
            1
        ] <= _MAX_SMALL_FEATURES
        return self.decomposition(weights) if known else None

    def leading(
        self, weights: FloatArray, n_components: int, tie_tolerance: float
    ) -> LeadingSubspace:
        """The leading eigenvectors of a mixture, with ties within the tolerance."""
        known = self._cache.get((weights.tobytes(), n_components))
        if isinstance(known, LeadingSubspace) and known.gap > tie_tolerance:
            return known
        if decomposition := self.cheap_decomposition(weights):
            return decomposition.leading(n_components, tie_tolerance)
        found = leading_subspace(self.mixture(weights), n_components, tie_tolerance)
        self.add(weights, found)
        return found

    def add(self, weights: FloatArray, subspace: LeadingSubspace) -> None:
        """Keep what was found elsewhere; not with a tie at the cut, which depends on who asks."""
        if not subspace.is_tied and subspace.gap > TIE_TOL * abs(subspace.eigenvalues[0]):
            self._store((weights.tobytes(), len(subspace.eigenvalues)), subspace)

    def _store(
        self, key: tuple[bytes, int | None], found: LeadingSubspace | Eigendecomposition
    ) -> None:
        known = self._cache
        known[key] = found
        while (
            len(known) > 1
            and sum(each.vectors.size for each in known.values()) > _MAX_CACHED_ENTRIES
        ):
            del known[next(iter(known))]


# What float64 does to the entries of a second moment, in units of epsilon times the root mean
# squares of the two columns: products are summed over many rows, and the order of the rows decides.
_ENTRY_ROUNDING = 8.0
# Errors below this share of the variance are worked out without subtraction.
_DIRECT_RATIO = 1e-4
# By how many epsilon the rounding of a basis may turn a subspace.
_ROTATION_ROUNDING = 16.0
# A gap below the split of this share of what is left lets next to nothing be neglected.
_MIN_GAP_RATIO = 1e-3
# What rounding may add to the product of two columns, as a share of both their sizes.
_CORRELATION_TOL = 1e-9
# Deviations below this share of the mean are rounding of the rows, and below this number their
# squares leave double precision.
_MEAN_ROUNDING, _UNDERFLOW = 1e-12, 1.5e-154


class SmallestEigenvalueSum(NamedTuple):
    """A sum of smallest eigenvalues.

    Attributes
    ----------
    value : float
        The sum up to rounding.
    rounding : float
        By how much rounding may have raised it: value - rounding is a proven bound.
    """

    value: float
    rounding_error: float


def smallest_eigenvalue_sum(
    matrices: FloatArray,
    weights: FloatArray,
    n_leading: int,
    spectrum: Eigendecomposition | None = None,
) -> SmallestEigenvalueSum:
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
    SmallestEigenvalueSum

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
        return SmallestEigenvalueSum(0.0, 0.0)
    if len(used) < len(weights):
        matrices, weights = matrices[used], weights[used]
    if spectrum is None:
        values, vectors, _ = graded_eigh(np.tensordot(weights, matrices, axes=1), d)
    else:
        values, vectors = spectrum.values[::-1], np.ascontiguousarray(spectrum.vectors[:, ::-1])
    images = matrices @ vectors
    rms = column_rms(matrices)
    basis_rounding = basis_rounding_bound(np.sqrt((rms**2).sum(axis=1)), np.zeros(len(rms)))
    found: list[SmallestEigenvalueSum] = []
    for n_deflated in _deflation_candidates(values, d):
        n_remaining = p - n_deflated
        inner = vectors[:, :n_remaining].T @ images[:, :, :n_remaining]
        mixed = symmetrize(np.tensordot(weights, inner, axes=1))
        scales = np.sqrt(np.einsum("gij,gij->g", inner, inner))
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors[:, :n_remaining], vectors[:, :n_remaining]))
        entry_rounding = _ENTRY_ROUNDING * (rms @ lengths) ** 2
        rounding = float(
            np.abs(weights) @ (_EPS * (2 * p * scales + entry_rounding) + basis_rounding)
        )
        # Products of subnormal numbers are rounded by more than their own share.
        rounding += _TINY * p
        if n_deflated == d:
            value = float(np.trace(mixed))
            # The matrix is nearly diagonal, which tells its largest eigenvalue at once.
            top = float(values[n_remaining - 1]) + float(
                np.linalg.norm(mixed - np.diag(values[:n_remaining]))
            )
        else:
            own = np.linalg.eigvalsh(mixed)
            value, top = float(own[: p - d].sum()), float(own[-1])
        neglected = 0.0
        if n_deflated:
            image = np.tensordot(weights, images[:, :, n_remaining:], axes=1)
            neglected = _coupling_bound(image, vectors, n_remaining, top)
        found.append(SmallestEigenvalueSum(value - neglected, rounding))
        if neglected <= rounding:
            break
    return max(found, key=lambda each: each.value - each.rounding_error)


def _coupling_bound(
    image: FloatArray, vectors: FloatArray, n_remaining: int, largest: float
) -> float:
    """tr R'(X'MX - top I)^-1 R of the eigenvectors X beyond the cut; infinite without a gap."""
    inside = symmetrize(vectors[:, n_remaining:].T @ image)
    inside.flat[:: len(inside) + 1] -= largest
    # With the whole of X'MX, and not its least eigenvalue alone: R is largest where that is.
    factor, failed = scipy.linalg.lapack.dpotrf(inside, lower=True)
    if failed:
        return np.inf
    left, _ = scipy.linalg.lapack.dtrtrs(factor, image.T @ vectors[:, :n_remaining], lower=True)
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


def column_rms(matrices: FloatArray) -> FloatArray:
    """Of each column in each group, shape (k, p)."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("gii->gi", matrices), 0.0)))


def error_rounding_bound(
    column_rms: FloatArray, errors: FloatArray, row_norms: FloatArray
) -> FloatArray:
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
    entry_term = _ENTRY_ROUNDING * (column_rms @ row_norms) ** 2
    # Errors that are no small share of the variance are worked out as differences, of sums of p
    # numbers whose roundings add up like a random walk.
    variances = (column_rms**2).sum(axis=1)
    sum_factor = max(4.0, np.sqrt(len(row_norms)))
    subtracted = np.where(errors > _DIRECT_RATIO * variances, sum_factor * variances, 0.0)
    each = _EPS * (2 * len(row_norms) * errors + entry_term + subtracted)
    return np.asarray(each + basis_rounding_bound(np.sqrt(variances), errors))


def basis_rounding_bound(root_traces: FloatArray, errors: FloatArray) -> FloatArray:
    """What the rounding of a basis to float64 may do to the errors that it leaves, shape (k,).

    It turns the subspace by some epsilon, and with it the direction of largest variance.

    Parameters
    ----------
    deviations : (k,) array
        sqrt(tr S_g).
    errors : (k,) array
    """
    turned = _ROTATION_ROUNDING * _EPS * root_traces
    return np.asarray(2 * turned * np.sqrt(np.maximum(errors, 0.0)) + turned**2)


def _deflation_candidates(values: FloatArray, n_leading: int) -> list[int]:
    """How many of the d largest eigenvectors to split off: first the most with a gap below them."""
    p = len(values)
    largest = values[p - n_leading :][::-1]
    following = values[p - n_leading - 1 : p - 1][::-1]
    left = np.maximum(np.abs(following), max(-float(values[0]), 0.0))
    nothing = max(_ZERO_RATIO * float(np.abs(values).max()), _TINY)
    ratios = (largest - following) / np.maximum(left, nothing)
    separated = np.flatnonzero(ratios > _MIN_GAP_RATIO)
    candidates = [int(separated[-1]) + 1, int(np.argmax(ratios)) + 1] if len(separated) else []
    return list(dict.fromkeys([*candidates, 0]))


def is_valid_scatter(scatter: FloatArray, mean: FloatArray, weight: float) -> bool:
    """Whether rows of this mean and weight may have this (p, p) scatter.

    The scatter is divided by the size of each feature: what its own entry says, or what rounding of
    the rows may hide there. A Cholesky factor of that then exists, or there are no such rows:
    p^3 / 3 steps, less than a tenth of the eigenproblem that a fit solves.

    Examples
    --------
    >>> import numpy as np
    >>> is_valid_scatter(np.array([[1.0, 1.0], [1.0, 1.0]]), np.zeros(2), 3.0)
    True
    >>> is_valid_scatter(np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros(2), 3.0)
    False
    """
    variances = np.diag(scatter)
    if not (variances >= 0).all():
        return False
    scales = np.sqrt(variances) + np.sqrt(weight) * np.maximum(
        _MEAN_ROUNDING * np.abs(mean), _UNDERFLOW
    )
    with np.errstate(over="ignore"):
        scaled = scatter / scales[:, None]
        scaled /= scales
    if np.abs(scaled).max(initial=0.0) > 1 + _CORRELATION_TOL:
        return False
    scaled[np.diag_indices_from(scaled)] += _CORRELATION_TOL * len(scaled)
    return bool(
        scipy.linalg.lapack.dpotrf(scaled.T, lower=True, overwrite_a=True, clean=False)[1] == 0
    )
