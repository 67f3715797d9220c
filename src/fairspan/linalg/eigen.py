"""Eigendecompositions of symmetric matrices, and rigorous sums of their smallest eigenvalues.

LAPACK's absolute error is a multiple of the largest eigenvalue. If one column in a small unit makes
that 1e16 times the eigenvalues that matter, these are pure rounding error. Widely separated leading
eigenvectors X are therefore deflated, and the matrix is decomposed again on their orthogonal
complement U, where the remaining eigenvalues are largest. The neglected coupling X'MU is itself of
the size of rounding errors and enters the eigenvalues only as its square over the gap.

Each mixture of second moments is decomposed once per fit. For small matrices the full decomposition
costs little more than its leading part and serves every number of components and every criterion;
for large ones only the leading part is kept. The cache evicts its oldest entries when it gets too
large.

The least error of a d-dimensional subspace is a sum of small eigenvalues. Computed as the trace
minus the largest eigenvalues it can have a relative error above 100 %: 400 % where one column is
1e8 times as large as the others. Here the s largest eigenvectors X are deflated instead. Let U be
their orthogonal complement, N = U'MU, R = X'MU, and theta the smallest eigenvalue of X'MX. For any
s with theta > lambda_1(N), the sum of the smallest eigenvalues of M is at least that of N less
tr R'(X'MX - lambda_1(N) I)^-1 R.

A Cholesky factorization tests whether a matrix is a possible scatter matrix.

Signs of eigenvectors are arbitrary; displayed components are normalized by :func:`normalize_signs`.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import scipy.linalg

from fairspan.errors import InvalidInput
from fairspan.linalg.resources import BlasPackage, limit_blas_threads
from fairspan.progress import count_eigenproblem
from fairspan.typing import FloatArray

# Eigenvalues closer than this, relative to the matrix norm, are indistinguishable in float64.
TIE_TOL = 1e-13
# LAPACK's partial decomposition (evr) is faster than the full one from this many features on, and
# up to this ratio of computed eigenvectors to features.
_MIN_PARTIAL_FEATURES = 40
_MAX_PARTIAL_RATIO = 0.2
# Number of features from which multithreading pays off.
_MIN_THREADED_FEATURES = 1000
# An eigenvalue below this ratio of the largest has lost enough digits to justify a second
# decomposition: about nine digits of a duality gap need it.
_INACCURATE_RATIO = 1e-5
# A deflated eigenvalue must be this many times the largest remaining one.
_MIN_DEFLATION_RATIO = 16.0
# Eigenvalues below this ratio of the largest count as zero.
_ZERO_RATIO = 1e-60
_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
# Loadings within this relative distance of the largest count as tied with it, so that the sign of
# (1, -1) / sqrt(2) does not depend on the last bit.
_SIGN_TOL = 1e-8
# Number of features up to which the full decomposition is as fast as its leading part.
_MAX_SMALL_FEATURES = 60
# Entries of cached eigenvectors, at most (32 MB).
_MAX_CACHED_ENTRIES = 2**22


@dataclass(frozen=True)
class LeadingSubspace:
    """Leading eigenvectors of a symmetric matrix, and the tie at eigenvalue d if there is one.

    Attributes
    ----------
    eigenvalues : (d,) array
        The d largest eigenvalues, largest first.
    vectors : (p, d) array
        Orthonormal eigenvectors.
    n_untied : int
        Number of eigenvalues strictly above a tie at eigenvalue d; d if there is no tie.
    tied_vectors : (p, m) array
        Orthonormal basis of the eigenspace of eigenvalue d if it extends beyond column d
        (m > d - n_untied); empty (m = 0) if the leading subspace is unique.
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
        """Truncate an eigendecomposition, in descending order, after d eigenvectors.

        Eigenvalues within the tolerance of eigenvalue d are tied with it.
        """
        d = n_components
        gap = float(values[d - 1] - values[d]) if len(values) > d else np.inf
        leading = np.ascontiguousarray(vectors[:, :d])
        n_vectors = vectors.shape[1]
        if gap > tolerance or n_vectors == d:
            return cls(values[:d], leading, d, vectors[:, :0], gap)
        is_tied = np.abs(values[:n_vectors] - values[d - 1]) <= tolerance
        n_untied = int(np.argmax(is_tied))
        return cls(values[:d], leading, n_untied, vectors[:, is_tied], gap)

    @property
    def eigenvalue_sum(self) -> float:
        """Sum t_d of the d largest eigenvalues."""
        return float(self.eigenvalues.sum())

    @property
    def is_tied(self) -> bool:
        """Whether other subspaces attain the same eigenvalue sum."""
        return bool(self.tied_vectors.shape[1] > 0)


@dataclass(frozen=True, eq=False)
class Eigendecomposition:
    """Full eigendecomposition of a symmetric matrix.

    Attributes
    ----------
    values : (p,) array
        Largest first.
    vectors : (p, p) array
        Orthonormal columns in the same order; their signs are arbitrary.
    error_scales : (p,) array
        Magnitude to which the rounding error of each eigenvalue is relative.
    """

    values: FloatArray
    vectors: FloatArray
    error_scales: FloatArray

    @classmethod
    def from_matrix(cls, matrix: FloatArray) -> "Eigendecomposition":
        """Decompose a symmetric (p, p) matrix.

        Raises
        ------
        InvalidInput
            The matrix is not finite.
        """
        _check_finite(matrix)
        with _threads_if_large("numpy", len(matrix)):
            values, vectors, scales = graded_eigh(matrix, len(matrix) - 1)
        count_eigenproblem()
        return cls(values[::-1], vectors[:, ::-1], scales[::-1])

    def leading(self, n_components: int, tie_tol: float = 0.0) -> LeadingSubspace:
        """Return the d leading eigenvectors, as :func:`leading_subspace` does."""
        rounding = TIE_TOL * float(self.error_scales[n_components - 1])
        return LeadingSubspace.from_eigenpairs(
            self.values, self.vectors, n_components, max(tie_tol, rounding)
        )


def leading_subspace(
    matrix: FloatArray, n_components: int, tie_tol: float = 0.0
) -> LeadingSubspace:
    """Return the leading eigenvectors of a symmetric matrix.

    Parameters
    ----------
    matrix : (p, p) array
        Symmetric, of any rank; need not be positive semidefinite.
    n_components : int
        Number d of eigenvectors, from 1 to p.
    tie_tol : float
        Eigenvalues within this absolute distance of eigenvalue d count as tied with it. At least
        1e-13 times the scale of LAPACK's rounding error: the norm of the matrix or, after deflation
        of dominant eigenvalues, of the deflated one.

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
    >>> leading_subspace(np.diag([2.0, 1.0, 1.0]), 2).tied_vectors.shape
    (3, 2)
    """
    _check_finite(matrix)
    p = len(matrix)
    d = n_components
    if is_zero(matrix):
        return LeadingSubspace.from_eigenpairs(np.zeros(p), np.eye(p), d, tie_tol)
    if d < _MAX_PARTIAL_RATIO * p and p >= _MIN_PARTIAL_FEATURES:
        # Eigenvalue d + 1 shows whether there is a tie at d.
        with _threads_if_large("scipy", p):
            values, vectors = scipy.linalg.eigh(
                matrix, subset_by_index=[p - d - 1, p - 1], driver="evr", check_finite=False
            )
        count_eigenproblem()
        tolerance = max(tie_tol, TIE_TOL * float(np.abs(matrix).sum(axis=0).max()))
        # On a near multiple of the identity LAPACK may return fewer than requested.
        if len(values) > d and float(values[0]) > _INACCURATE_RATIO * float(values[-1]):
            subspace = LeadingSubspace.from_eigenpairs(values[::-1], vectors[:, ::-1], d, tolerance)
            if not subspace.is_tied:
                return subspace
    return Eigendecomposition.from_matrix(matrix).leading(d, tie_tol)


def _threads_if_large(package: BlasPackage, n_features: int) -> AbstractContextManager[object]:
    """Leave a package multithreaded, and no other, where that pays off."""
    if n_features >= _MIN_THREADED_FEATURES:
        return limit_blas_threads(package)
    return nullcontext()


def graded_eigh(matrix: FloatArray, max_deflated: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the full eigendecomposition of a graded symmetric matrix, in ascending order.

    Parameters
    ----------
    matrix : (p, p) array
        Symmetric.
    max_deflated : int
        Of so many largest eigenvalues, those far above the rest are deflated first. The others are
        then accurate relative to their own size, if the large entries of the matrix are confined to
        few rows and columns.

    Returns
    -------
    values : (p,) array
    vectors : (p, p) array
        Orthonormal columns.
    error_scales : (p,) array
        Scale of each eigenvalue's rounding error: the largest absolute eigenvalue of the same
        (deflated) decomposition, or more if large entries of the matrix couple to its eigenvector.

    Examples
    --------
    >>> import numpy as np
    >>> matrix = np.array([[1e16, 1e8, 0.0], [1e8, 3.0, 0.5], [0.0, 0.5, 1.0]])
    >>> graded_eigh(matrix, 1)[0][:2].round(6)
    array([0.792893, 2.207107])
    """
    if is_zero(matrix):
        zeros = np.zeros(len(matrix))
        return zeros, np.eye(len(matrix)), zeros
    values, vectors = np.linalg.eigh(matrix)
    n_deflated = _n_deflated(values, max_deflated)
    size = max(-float(values[0]), float(values[-1]), 0.0)
    if n_deflated == 0:
        return values, vectors, np.full(len(values), size)
    n_remaining = len(values) - n_deflated
    complement = vectors[:, :n_remaining]
    compressed = symmetrize(complement.T @ (matrix @ complement))
    remaining_values, rotation, scales = graded_eigh(compressed, max_deflated - n_deflated)
    all_vectors = np.hstack([complement @ rotation, vectors[:, n_remaining:]])
    # Each entry carries a relative rounding error, even where products with it cancel.
    entry_rounding = np.maximum.accumulate(np.abs(np.diagonal(matrix)) @ all_vectors**2)
    scales = np.maximum(np.append(scales, np.full(n_deflated, size)), entry_rounding)
    return np.concatenate([remaining_values, values[n_remaining:]]), all_vectors, scales


def _n_deflated(values: FloatArray, max_deflated: int) -> int:
    """Number of leading eigenvalues to deflate; 0 if no accuracy is lost."""
    p = len(values)
    largest = float(values[-1])
    most_negative = max(-float(values[0]), 0.0)
    n_candidates = min(max_deflated, p - 1)
    if n_candidates <= 0 or largest <= 0:
        return 0
    following = abs(float(values[p - n_candidates - 1]))
    if max(following, most_negative) > _INACCURATE_RATIO * largest:
        return 0
    # Largest remaining magnitude after deflating s eigenvalues.
    remaining = np.maximum(np.abs(values[p - n_candidates - 1 : p - 1]), most_negative)[::-1]
    deflated = values[p - n_candidates :][::-1]
    smallest_nonzero = max(_ZERO_RATIO * largest, _TINY)
    separated = np.flatnonzero(
        deflated > _MIN_DEFLATION_RATIO * np.maximum(remaining, smallest_nonzero)
    )
    if len(separated) == 0:
        return 0
    # Deflation rotates the subspace by eps * (largest / last deflated), which perturbs the
    # remaining eigenvalues by the square of that angle times the last deflated one. This must be
    # negligible.
    accurate = separated[deflated[separated] / largest * (remaining[-1] / largest) >= _EPS]
    last = accurate[-1] if len(accurate) else separated[0]
    return int(last) + 1


def is_zero(matrix: FloatArray) -> bool:
    """Return whether all entries of a matrix are zero.

    Examples
    --------
    >>> is_zero(np.zeros((2, 2))), is_zero(np.eye(2))
    (True, False)
    """
    # Test the first entry before all others: nearly every other matrix differs there.
    return not (matrix.size and matrix[0, 0]) and not matrix.any()


def symmetrize(products: FloatArray) -> FloatArray:
    """Symmetrize (..., n, n) matrices that are symmetric up to rounding error."""
    return np.asarray((products + products.swapaxes(-1, -2)) / 2)


def symmetric_root(matrices: FloatArray) -> FloatArray:
    """Return the symmetric square root of (..., n, n) positive semidefinite matrices.

    Unlike the product of eigenvectors and roots of eigenvalues, it does not depend on the signs of
    the eigenvectors or on their rotation within ties, so that random draws made with it depend
    continuously on the matrices. Negative eigenvalues count as zero.

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
    # Entries are at most 1e150, so their sum is finite exactly if all entries are.
    if not np.isfinite(matrix.sum()):
        raise InvalidInput(
            "The matrix contains NaN or infinity",
            "Allowed: finite numbers",
            "Rescale the columns if their squares overflow (values beyond 1e150)",
        )


class EigenCache:
    """Cache of eigendecompositions of mixtures sum_g weights_g S_g.

    Parameters
    ----------
    matrices : (k, p, p) array
        S_g, symmetric.
    """

    def __init__(self, matrices: FloatArray) -> None:
        self._matrices = matrices
        self._cache: dict[tuple[bytes, int | None], LeadingSubspace | Eigendecomposition] = {}

    def mixture(self, weights: FloatArray) -> FloatArray:
        """Return sum_g weights_g S_g, shape (p, p); must not be modified."""
        matrices = self._matrices
        used = np.flatnonzero(weights)
        if len(used) == 1 and weights[used[0]] == 1:
            return np.asarray(matrices[used[0]])
        # Much faster than tensordot.
        if len(matrices) == 2 and matrices.shape[1] <= _MAX_SMALL_FEATURES:
            return np.asarray(weights[0] * matrices[0] + weights[1] * matrices[1])
        return np.tensordot(weights, matrices, axes=1)

    def decomposition(self, weights: FloatArray) -> Eigendecomposition:
        """Return the full eigendecomposition of a mixture.

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
        """Return the full decomposition if it is cached or cheap to compute; otherwise None."""
        is_cached = (weights.tobytes(), None) in self._cache
        is_small = self._matrices.shape[1] <= _MAX_SMALL_FEATURES
        return self.decomposition(weights) if is_cached or is_small else None

    def leading(self, weights: FloatArray, n_components: int, tie_tol: float) -> LeadingSubspace:
        """Return the leading eigenvectors of a mixture, with ties within the tolerance."""
        cached = self._cache.get((weights.tobytes(), n_components))
        if isinstance(cached, LeadingSubspace) and cached.gap > tie_tol:
            return cached
        if decomposition := self.cheap_decomposition(weights):
            return decomposition.leading(n_components, tie_tol)
        subspace = leading_subspace(self.mixture(weights), n_components, tie_tol)
        self.add(weights, subspace)
        return subspace

    def add(self, weights: FloatArray, subspace: LeadingSubspace) -> None:
        """Cache a subspace computed elsewhere, unless it is tied.

        Which eigenvalues count as tied depends on the tolerance of the caller.
        """
        if not subspace.is_tied and subspace.gap > TIE_TOL * abs(subspace.eigenvalues[0]):
            self._store((weights.tobytes(), len(subspace.eigenvalues)), subspace)

    def _store(
        self, key: tuple[bytes, int | None], result: LeadingSubspace | Eigendecomposition
    ) -> None:
        self._cache[key] = result
        while len(self._cache) > 1 and self._n_entries() > _MAX_CACHED_ENTRIES:
            oldest = next(iter(self._cache))
            del self._cache[oldest]

    def _n_entries(self) -> int:
        return sum(result.vectors.size for result in self._cache.values())


# Rounding error of a second-moment entry, in units of eps times the root mean squares of its two
# columns; it depends on the order in which the rows are summed.
_ENTRY_ROUNDING = 8.0
# Errors below this ratio of the variance are computed without subtraction.
_DIRECT_RATIO = 1e-4
# Rotation of a subspace by rounding its basis to float64, in units of eps.
_ROTATION_ROUNDING = 16.0
# Gap below the deflated eigenvalues, relative to the largest remaining one, from which the
# neglected coupling is tiny.
_MIN_GAP_RATIO = 1e-3
# Rounding error of a scaled scatter entry (a correlation).
_CORRELATION_TOL = 1e-9
# Deviations below this ratio of the mean are rounding errors of the rows.
_MEAN_ROUNDING = 1e-12
# Squares of smaller deviations underflow.
_UNDERFLOW = 1.5e-154


class SmallestEigenvalueSum(NamedTuple):
    """Sum of the smallest eigenvalues, with a bound on its rounding error.

    Attributes
    ----------
    value : float
        Computed sum.
    rounding_error : float
        Bound on its rounding error: `value - rounding_error` is a rigorous lower bound.
    """

    value: float
    rounding_error: float


def smallest_eigenvalue_sum(
    matrices: FloatArray,
    weights: FloatArray,
    n_leading: int,
    spectrum: Eigendecomposition | None = None,
) -> SmallestEigenvalueSum:
    """Return the sum of all but the d largest eigenvalues of sum_g weights_g S_g.

    Parameters
    ----------
    matrices : (k, p, p) array
        S_g, symmetric.
    weights : (k,) array
        Of any sign.
    n_leading : int
        Number d of eigenvalues to leave out.
    spectrum : Eigendecomposition, optional
        Decomposition of the mixture, if available.

    Returns
    -------
    SmallestEigenvalueSum

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.linalg import smallest_eigenvalue_sum
    >>> matrices = np.array([[[1e16, 1e8, 0.0], [1e8, 3.0, 0.5], [0.0, 0.5, 1.0]]])
    >>> round(smallest_eigenvalue_sum(matrices, np.ones(1), 1).value, 12)
    3.0
    """
    used = np.flatnonzero(weights)
    used = used[[not is_zero(matrices[g]) for g in used.tolist()]]
    p = matrices.shape[1]
    d = n_leading
    if d == p or len(used) == 0:
        return SmallestEigenvalueSum(0.0, 0.0)
    if len(used) < len(weights):
        matrices = matrices[used]
        weights = weights[used]
    if spectrum is None:
        values, vectors, _ = graded_eigh(np.tensordot(weights, matrices, axes=1), d)
    else:
        values = spectrum.values[::-1]
        vectors = np.ascontiguousarray(spectrum.vectors[:, ::-1])
    images = matrices @ vectors
    rms = column_rms(matrices)
    basis_rounding = basis_rounding_bound(np.sqrt((rms**2).sum(axis=1)), np.zeros(len(rms)))
    sums: list[SmallestEigenvalueSum] = []
    for n_deflated in _deflation_candidates(values, d):
        n_remaining = p - n_deflated
        complement = vectors[:, :n_remaining]
        inner = complement.T @ images[:, :, :n_remaining]
        compressed = symmetrize(np.tensordot(weights, inner, axes=1))
        norms = np.sqrt(np.einsum("gij,gij->g", inner, inner))
        row_norms = np.sqrt(np.einsum("ij,ij->i", complement, complement))
        entry_rounding = _ENTRY_ROUNDING * (rms @ row_norms) ** 2
        rounding = float(
            np.abs(weights) @ (_EPS * (2 * p * norms + entry_rounding) + basis_rounding)
        )
        # Products of subnormal numbers have a larger relative rounding error.
        rounding += _TINY * p
        if n_deflated == d:
            value = float(np.trace(compressed))
            # The compressed matrix is nearly diagonal: a norm bounds its largest eigenvalue.
            deviation = compressed - np.diag(values[:n_remaining])
            largest = float(values[n_remaining - 1]) + float(np.linalg.norm(deviation))
        else:
            eigenvalues = np.linalg.eigvalsh(compressed)
            value = float(eigenvalues[: p - d].sum())
            largest = float(eigenvalues[-1])
        neglected = 0.0
        if n_deflated:
            image = np.tensordot(weights, images[:, :, n_remaining:], axes=1)
            neglected = _coupling_bound(image, vectors, n_remaining, largest)
        sums.append(SmallestEigenvalueSum(value - neglected, rounding))
        if neglected <= rounding:
            break
    return max(sums, key=lambda candidate: candidate.value - candidate.rounding_error)


def _coupling_bound(
    image: FloatArray, vectors: FloatArray, n_remaining: int, largest: float
) -> float:
    """Return the coupling term tr R'(X'MX - largest I)^-1 R; infinite without a gap.

    X are the eigenvectors after the first `n_remaining`, and R = X'MU with the others.
    """
    shifted = symmetrize(vectors[:, n_remaining:].T @ image)
    shifted.flat[:: len(shifted) + 1] -= largest
    # Use all of X'MX, not only its smallest eigenvalue: R is largest where X'MX is.
    factor, failed = scipy.linalg.lapack.dpotrf(shifted, lower=True)
    if failed:
        return np.inf
    coupling = image.T @ vectors[:, :n_remaining]
    solution, _ = scipy.linalg.lapack.dtrtrs(factor, coupling, lower=True)
    return float(np.vdot(solution, solution))


def scaled_to_one(vectors: FloatArray) -> FloatArray:
    """Divide each vector by a power of two so that its largest entry is at least 1/2 and below 1.

    Parameters
    ----------
    vectors : (..., k) array
        Finite. Zero vectors are unchanged; no digit of the others is lost.

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

    Division by it is exact, and weights that differ by a power of two become equal. The unit is 1
    if there is no weight, or all are zero.

    Examples
    --------
    >>> import numpy as np
    >>> unit_of(np.array([0.0, 3.0]))
    2.0
    """
    largest = float(weights.max(initial=0.0))
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest > 0 else 1.0


def column_rms(matrices: FloatArray) -> FloatArray:
    """Root mean square of each column in each group, shape (k, p)."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("gii->gi", matrices), 0.0)))


def error_rounding_bound(
    column_rms: FloatArray, errors: FloatArray, row_norms: FloatArray
) -> FloatArray:
    """Return a rounding bound of tr(E'S_gE), E = I - VV', for each group.

    Parameters
    ----------
    column_rms : (k, p) array
        Root mean squares of the columns.
    errors : (k,) array
        tr(E'S_gE).
    row_norms : (p,) array
        Norms of the rows of E.

    Returns
    -------
    (k,) array
    """
    entry_term = _ENTRY_ROUNDING * (column_rms @ row_norms) ** 2
    # Larger errors are computed as differences of sums of p terms, whose rounding errors accumulate
    # like a random walk.
    variances = (column_rms**2).sum(axis=1)
    sum_factor = max(4.0, np.sqrt(len(row_norms)))
    subtracted = np.where(errors > _DIRECT_RATIO * variances, sum_factor * variances, 0.0)
    product_rounding = _EPS * (2 * len(row_norms) * errors + entry_term + subtracted)
    return np.asarray(product_rounding + basis_rounding_bound(np.sqrt(variances), errors))


def basis_rounding_bound(root_traces: FloatArray, errors: FloatArray) -> FloatArray:
    """Bound on the effect on the groups' errors of rounding a basis to float64, shape (k,).

    Rounding rotates the subspace by a few eps, in the worst case along the direction of largest
    variance.

    Parameters
    ----------
    root_traces : (k,) array
        sqrt(tr S_g).
    errors : (k,) array
    """
    rotated = _ROTATION_ROUNDING * _EPS * root_traces
    return np.asarray(2 * rotated * np.sqrt(np.maximum(errors, 0.0)) + rotated**2)


def _deflation_candidates(values: FloatArray, n_leading: int) -> list[int]:
    """Candidate numbers of eigenvectors to deflate, best first: the largest with a gap below it."""
    p = len(values)
    leading = values[p - n_leading :][::-1]
    following = values[p - n_leading - 1 : p - 1][::-1]
    remaining = np.maximum(np.abs(following), max(-float(values[0]), 0.0))
    smallest_nonzero = max(_ZERO_RATIO * float(np.abs(values).max()), _TINY)
    gap_ratios = (leading - following) / np.maximum(remaining, smallest_nonzero)
    separated = np.flatnonzero(gap_ratios > _MIN_GAP_RATIO)
    if len(separated) == 0:
        return [0]
    last_separated = int(separated[-1]) + 1
    most_separated = int(np.argmax(gap_ratios)) + 1
    return list(dict.fromkeys([last_separated, most_separated, 0]))


def is_valid_scatter(scatter: FloatArray, mean: FloatArray, weight: float) -> bool:
    """Return whether a (p, p) matrix is a possible scatter of rows with this mean and weight.

    The matrix is scaled by the size of each feature, including the rounding error of its rows. It
    is a valid scatter only if the result has a Cholesky factor. This takes p^3 / 3 operations, less
    than a tenth of the eigendecomposition of a fit.

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
    deviation_rounding = np.maximum(_MEAN_ROUNDING * np.abs(mean), _UNDERFLOW)
    scales = np.sqrt(variances) + np.sqrt(weight) * deviation_rounding
    with np.errstate(over="ignore"):
        scaled = scatter / scales[:, None]
        scaled /= scales
    if np.abs(scaled).max(initial=0.0) > 1 + _CORRELATION_TOL:
        return False
    scaled[np.diag_indices_from(scaled)] += _CORRELATION_TOL * len(scaled)
    _, failed = scipy.linalg.lapack.dpotrf(scaled.T, lower=True, overwrite_a=True, clean=False)
    return bool(failed == 0)
