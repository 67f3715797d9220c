"""Eigendecompositions of symmetric matrices, with ties, signs and a cache.

LAPACK's absolute error is a multiple of the largest eigenvalue. If one column in a small unit makes
that 1e16 times the eigenvalues that matter, these are pure rounding error. Widely separated leading
eigenvectors X are therefore deflated, and the matrix is decomposed again on their orthogonal
complement U, where the remaining eigenvalues are largest. The neglected coupling X'MU is itself of
the size of rounding errors and enters the eigenvalues only as its square over the gap.

Each mixture of second moments is decomposed once per fit. For small matrices the full decomposition
costs little more than its leading part and serves every number of components and every criterion;
for large ones only the leading part is kept. The cache evicts its oldest entries when it gets too
large.

Signs of eigenvectors are arbitrary; displayed components are normalized by :func:`normalize_signs`.
"""

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.linalg

from fairspan.errors import InvalidInput
from fairspan.linalg.rounding import EIGENVALUE_ROUNDING, EPS, TINY
from fairspan.linalg.threads import limit_blas_threads
from fairspan.progress import count_eigenproblem
from fairspan.typing import FloatArray

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
ZERO_RATIO = 1e-60
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

        Eigenvalues within the tolerance of eigenvalue d are tied with it. There may be more values
        than vectors, but at least d of each. With exactly d vectors a tie is not reported, since
        the eigenvectors beyond d that belong to it are unknown.
        """
        d = n_components
        gap = float(values[d - 1] - values[d]) if len(values) > d else np.inf
        leading = np.ascontiguousarray(vectors[:, :d])
        n_vectors = vectors.shape[1]
        if gap > tolerance or n_vectors == d:
            no_vectors = vectors[:, :0]
            return cls(values[:d], leading, n_untied=d, tied_vectors=no_vectors, gap=gap)
        is_tied = np.abs(values[:n_vectors] - values[d - 1]) <= tolerance
        n_untied = int(np.argmax(is_tied))  # position of the first tied eigenvalue
        return cls(values[:d], leading, n_untied, tied_vectors=vectors[:, is_tied], gap=gap)

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

        Dominant eigenvalues are deflated, as many as necessary, so that small ones are accurate.

        Raises
        ------
        InvalidInput
            The matrix is not finite.
        """
        _check_finite(matrix)
        p = len(matrix)
        is_threaded = p >= _MIN_THREADED_FEATURES
        with limit_blas_threads("numpy") if is_threaded else nullcontext():
            values, vectors, error_scales = graded_eigh(matrix, max_deflated=p - 1)
        count_eigenproblem()
        # From ascending order to largest first.
        return cls(values[::-1], vectors[:, ::-1], error_scales[::-1])

    def leading(self, n_components: int, tie_tol: float = 0.0) -> LeadingSubspace:
        """Return the d leading eigenvectors, as :func:`leading_subspace` does."""
        rounding = EIGENVALUE_ROUNDING * float(self.error_scales[n_components - 1])
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
        # All directions are tied.
        return LeadingSubspace.from_eigenpairs(np.zeros(p), np.eye(p), d, tie_tol)
    # A partial decomposition is faster only for few eigenvectors of a large matrix.
    if d < _MAX_PARTIAL_RATIO * p and p >= _MIN_PARTIAL_FEATURES:
        # Eigenvalue d + 1 shows whether there is a tie at d.
        is_threaded = p >= _MIN_THREADED_FEATURES
        with limit_blas_threads("scipy") if is_threaded else nullcontext():
            values, vectors = scipy.linalg.eigh(
                matrix, subset_by_index=[p - d - 1, p - 1], driver="evr", check_finite=False
            )
        count_eigenproblem()
        tolerance = max(tie_tol, EIGENVALUE_ROUNDING * float(np.abs(matrix).sum(axis=0).max()))
        # On a near multiple of the identity LAPACK may return fewer than requested. An eigenvalue
        # far below the largest one is too inaccurate without deflation.
        if len(values) > d and float(values[0]) > _INACCURATE_RATIO * float(values[-1]):
            subspace = LeadingSubspace.from_eigenpairs(values[::-1], vectors[:, ::-1], d, tolerance)
            if not subspace.is_tied:
                return subspace
    # A tie may need more eigenvectors than d + 1, and small eigenvalues need deflation.
    return Eigendecomposition.from_matrix(matrix).leading(d, tie_tol)


def graded_eigh(matrix: FloatArray, max_deflated: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the full eigendecomposition of a graded symmetric matrix, in ascending order.

    A graded matrix has entries of widely different size. Its largest eigenvectors are deflated: the
    rest is decomposed again on their orthogonal complement, recursively.

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
    values, vectors = np.linalg.eigh(matrix)
    smallest = float(values[0])
    largest = float(values[-1])
    # Largest absolute eigenvalue, to which LAPACK's rounding errors are relative.
    size = max(-smallest, largest, 0.0)
    # Without tiny or negative eigenvalues, the first decomposition is accurate enough.
    is_accurate = smallest > _INACCURATE_RATIO * largest
    n_deflated = 0 if is_accurate else _n_deflated(values, max_deflated)
    if n_deflated == 0:
        return values, vectors, np.full(len(values), size)
    n_remaining = len(values) - n_deflated
    complement = vectors[:, :n_remaining]
    compressed = symmetrize(complement.T @ (matrix @ complement))
    remaining_values, rotation, scales = graded_eigh(compressed, max_deflated - n_deflated)
    all_vectors = np.hstack([complement @ rotation, vectors[:, n_remaining:]])
    # Each matrix entry carries a relative rounding error, even where products with it cancel;
    # that of a feature counts by its squared loading in the eigenvector. The scale of an eigenvalue
    # is at least that of every smaller one.
    entry_rounding = np.maximum.accumulate(np.abs(np.diagonal(matrix)) @ all_vectors**2)
    scales = np.maximum(np.append(scales, np.full(n_deflated, size)), entry_rounding)
    return np.concatenate([remaining_values, values[n_remaining:]]), all_vectors, scales


def _n_deflated(values: FloatArray, max_deflated: int) -> int:
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
    if max(following, most_negative) > _INACCURATE_RATIO * largest:
        return 0
    # Entry s - 1 is the largest remaining magnitude after deflating s eigenvalues; `deflated` has
    # the last of these s eigenvalues, and `separated` the entries with a wide gap between both.
    remaining = np.maximum(np.abs(values[p - n_candidates - 1 : p - 1]), most_negative)[::-1]
    deflated = values[p - n_candidates :][::-1]
    smallest_nonzero = max(ZERO_RATIO * largest, TINY)
    separated = np.flatnonzero(
        deflated > _MIN_DEFLATION_RATIO * np.maximum(remaining, smallest_nonzero)
    )
    if len(separated) == 0:
        return 0
    # Deflation rotates the subspace by eps * (largest / last deflated), which perturbs the
    # remaining eigenvalues by the square of that angle times the last deflated one. Deflate the
    # most for which this is within eps of the smallest remaining one; if it never is, the fewest,
    # which perturb the least.
    accurate = separated[deflated[separated] / largest * (remaining[-1] / largest) >= EPS]
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

    Among entries that are tied up to rounding, the first one counts.

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

    Keys are the bytes of the weights and the number of leading eigenvectors, or None for all.

    Parameters
    ----------
    matrices : (k, p, p) array
        S_g, symmetric.
    keeps_all : bool
        Whether to keep all eigenvectors where the leading ones take a full decomposition, so that
        other numbers of them, and sums of the other eigenvalues, take none. They need more memory.
    """

    def __init__(self, matrices: FloatArray, *, keeps_all: bool = False) -> None:
        self._matrices = matrices
        self._keeps_all = keeps_all
        self._is_small = matrices.shape[1] <= _MAX_SMALL_FEATURES
        self._cache: dict[tuple[bytes, int | None], LeadingSubspace | Eigendecomposition] = {}
        self._n_entries = 0  # of all cached eigenvectors

    def mixture(self, weights: FloatArray) -> FloatArray:
        """Return sum_g weights_g S_g, shape (p, p); must not be modified."""
        matrices = self._matrices
        used = np.flatnonzero(weights)
        if len(used) == 1 and weights[used[0]] == 1:
            return np.asarray(matrices[used[0]])
        # Much faster than tensordot.
        if len(matrices) == 2 and self._is_small:
            return np.asarray(weights[0] * matrices[0] + weights[1] * matrices[1])
        return np.tensordot(weights, matrices, axes=1)

    def decomposition(self, weights: FloatArray) -> Eigendecomposition:
        """Return the full eigendecomposition of the mixture sum_g weights_g S_g, cached.

        Raises
        ------
        InvalidInput
            The mixture is not finite.
        """
        # The second entry is the number of leading eigenvectors; None for all.
        key = (weights.tobytes(), None)
        if key not in self._cache:
            self._store(key, Eigendecomposition.from_matrix(self.mixture(weights)))
        return cast(Eigendecomposition, self._cache[key])

    def cheap_decomposition(self, weights: FloatArray) -> Eigendecomposition | None:
        """Return the full decomposition if it is cached or cheap to compute; otherwise None."""
        is_cached = (weights.tobytes(), None) in self._cache
        return self.decomposition(weights) if is_cached or self._is_small else None

    def leading(self, weights: FloatArray, n_components: int, tie_tol: float) -> LeadingSubspace:
        """Return the leading eigenvectors of a mixture, with ties within the tolerance."""
        if self._is_small:
            return self.decomposition(weights).leading(n_components, tie_tol)
        # A cached subspace has no tied vectors, which a gap within the tolerance would need.
        cached = self._cache.get((weights.tobytes(), n_components))
        if isinstance(cached, LeadingSubspace) and cached.gap > tie_tol:
            return cached
        if self._keeps_all and n_components >= _MAX_PARTIAL_RATIO * self._matrices.shape[1]:
            return self.decomposition(weights).leading(n_components, tie_tol)
        if decomposition := self.cheap_decomposition(weights):
            return decomposition.leading(n_components, tie_tol)
        subspace = leading_subspace(self.mixture(weights), n_components, tie_tol)
        self.add(weights, subspace)
        return subspace

    def add(self, weights: FloatArray, subspace: LeadingSubspace) -> None:
        """Cache a subspace computed elsewhere, unless it is tied.

        Which eigenvalues count as tied depends on the tolerance of the caller.
        """
        rounding = EIGENVALUE_ROUNDING * abs(subspace.eigenvalues[0])
        if not subspace.is_tied and subspace.gap > rounding:
            self._store((weights.tobytes(), len(subspace.eigenvalues)), subspace)

    def _store(
        self, key: tuple[bytes, int | None], result: LeadingSubspace | Eigendecomposition
    ) -> None:
        replaced = self._cache.get(key)
        if replaced is not None:
            self._n_entries -= replaced.vectors.size
        self._cache[key] = result
        self._n_entries += result.vectors.size
        while len(self._cache) > 1 and self._n_entries > _MAX_CACHED_ENTRIES:
            oldest = next(iter(self._cache))
            self._n_entries -= self._cache.pop(oldest).vectors.size


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
