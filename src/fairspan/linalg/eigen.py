"""Eigendecompositions of symmetric matrices, with ties and signs.

Signs of eigenvectors are arbitrary; displayed components are normalized by :func:`normalize_signs`.
"""

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fairspan.errors import InvalidInput
from fairspan.linalg.graded import INACCURATE_RATIO, graded_eigh
from fairspan.linalg.rounding import EIGENVALUE_ROUNDING
from fairspan.linalg.symmetric import is_zero
from fairspan.linalg.threads import limit_blas_threads
from fairspan.progress import count_eigenproblem
from fairspan.typing import FloatArray

# LAPACK's partial decomposition (evr) is faster than the full one from this many features on, and
# up to this ratio of computed eigenvectors to features.
_MIN_PARTIAL_FEATURES = 40
MAX_PARTIAL_RATIO = 0.2
# Number of features from which multithreading pays off.
_MIN_THREADED_FEATURES = 1000
# Loadings within this relative distance of the largest count as tied with it, so that the sign of
# (1, -1) / sqrt(2) does not depend on the last bit.
_SIGN_TOL = 1e-8


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
            ascending = graded_eigh(matrix, max_deflated=p - 1)
        count_eigenproblem()
        return cls(ascending.values[::-1], ascending.vectors[:, ::-1], ascending.error_scales[::-1])

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
    if d < MAX_PARTIAL_RATIO * p and p >= _MIN_PARTIAL_FEATURES:
        subspace = _partial_leading_subspace(matrix, d, tie_tol)
        if subspace is not None:
            return subspace
    # A tie may need more eigenvectors than d + 1, and small eigenvalues need deflation.
    return Eigendecomposition.from_matrix(matrix).leading(d, tie_tol)


def _partial_leading_subspace(
    matrix: FloatArray, n_components: int, tie_tol: float
) -> LeadingSubspace | None:
    """Return the leading eigenvectors by a decomposition that computes no others.

    The result is None if eigenvalue d is tied, or if eigenvalues are too inaccurate. The parameters
    are those of :func:`leading_subspace`.
    """
    p = len(matrix)
    d = n_components
    # Eigenvalue d + 1 shows whether there is a tie at d.
    is_threaded = p >= _MIN_THREADED_FEATURES
    with limit_blas_threads("scipy") if is_threaded else nullcontext():
        values, vectors = scipy.linalg.eigh(
            matrix, subset_by_index=[p - d - 1, p - 1], driver="evr", check_finite=False
        )
    count_eigenproblem()
    # On a near multiple of the identity LAPACK may return fewer than requested. An eigenvalue far
    # below the largest one is too inaccurate without deflation.
    if len(values) <= d or float(values[0]) <= INACCURATE_RATIO * float(values[-1]):
        return None
    tolerance = max(tie_tol, EIGENVALUE_ROUNDING * float(np.abs(matrix).sum(axis=0).max()))
    subspace = LeadingSubspace.from_eigenpairs(values[::-1], vectors[:, ::-1], d, tolerance)
    return None if subspace.is_tied else subspace


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
    magnitudes = np.abs(vectors)
    is_largest = magnitudes >= (1 - _SIGN_TOL) * magnitudes.max(axis=0)
    first_largest = np.argmax(is_largest, axis=0)
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
