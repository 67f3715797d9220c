"""Eigenvectors of symmetric matrices, by LAPACK."""

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.linalg.graded import graded_eigh, is_graded
from fairspan.linalg.threads import threads_of
from fairspan.typing import FloatArray

# Eigenvalues closer than this share of the matrix's norm cannot be told apart in float64.
TIE_TOLERANCE = 1e-13
# LAPACK's partial decomposition (evr) beats the full one only for few vectors of larger matrices.
_PARTIAL_FROM_FEATURES = 40
_PARTIAL_UP_TO_SHARE = 0.2
# Threads pay from here on.
_THREADS_FROM_FEATURES = 1000
# A loading within this relative distance of the largest one counts as equally large, so that the
# sign of, say, (1, -1) / sqrt(2) does not hang on the last bit.
_SIGN_TOLERANCE = 1e-8


@dataclass(frozen=True)
class LeadingSubspace:
    """The leading eigenvectors of a symmetric matrix, with the tie at the cut if there is one.

    Attributes
    ----------
    eigenvalues : (d,) array
        The d largest eigenvalues, largest first.
    vectors : (p, d) array
        Orthonormal eigenvectors; the entry of largest absolute value of each is positive.
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

    @property
    def top_eigenvalue_sum(self) -> float:
        """t_d: the sum of the d largest eigenvalues."""
        return float(self.eigenvalues.sum())

    @property
    def is_tied(self) -> bool:
        """Whether other subspaces reach the same eigenvalue sum."""
        return bool(self.tied.shape[1] > 0)


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
        the largest lie far above the others, on the others (:mod:`fairspan.linalg.graded`).

    Returns
    -------
    LeadingSubspace

    Raises
    ------
    InvalidParameter
        n_components is not between 1 and p.
    InvalidInput
        The matrix is not square or not finite.

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
    matrix = _checked(matrix)
    n_features = matrix.shape[0]
    if not 1 <= n_components <= n_features:
        raise InvalidParameter(
            f"n_components is {n_components}",
            f"Allowed is 1 to the number of features, {n_features}",
            "Choose a number in that range",
        )
    # One eigenvalue beyond the cut shows whether the cut goes through a tie.
    values, vectors, size = _decompose(matrix, n_components, n_components + 1)
    tolerance = max(tie_tolerance, TIE_TOLERANCE * size)
    cut = values[n_components - 1]
    gap = np.inf if n_components == n_features else float(cut - values[n_components])
    if gap > tolerance:
        kept = vectors[:, :n_components]
        return LeadingSubspace(
            values[:n_components],
            with_positive_signs(kept),
            n_components,
            np.empty((n_features, 0)),
            gap,
        )
    if len(values) < n_features:
        values, vectors, _ = _decompose(matrix, n_components, n_features)
        cut = values[n_components - 1]
    vectors = with_positive_signs(vectors)
    tied = np.abs(values - cut) <= tolerance
    tied[n_components] = True  # the two decompositions may differ in the last bit
    return LeadingSubspace(
        values[:n_components],
        vectors[:, :n_components],
        int(np.argmax(tied)),
        vectors[:, tied],
        gap,
    )


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


def _checked(matrix: FloatArray) -> FloatArray:
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise InvalidInput(
            f"The matrix has shape {matrix.shape}",
            "Allowed is a square symmetric matrix",
            "Pass a second moment matrix of shape (p, p)",
        )
    if not np.isfinite(matrix).all():
        raise InvalidInput(
            "The matrix holds NaN or infinity",
            "Allowed are finite numbers",
            "Rescale the columns if their squares overflow (values beyond 1e150)",
        )
    return matrix


def _decompose(
    matrix: FloatArray, n_components: int, n_vectors: int
) -> tuple[FloatArray, FloatArray, float]:
    """Eigenvalues, largest first, their eigenvectors, and what the values are known to a share of.

    At least n_vectors of them, as far as there are so many.
    """
    n_features = matrix.shape[0]
    few = n_vectors <= _PARTIAL_UP_TO_SHARE * n_features
    if few and n_features >= _PARTIAL_FROM_FEATURES:
        wanted = [n_features - n_vectors, n_features - 1]
        with threads_of("scipy") if n_features >= _THREADS_FROM_FEATURES else nullcontext():
            values, vectors = scipy.linalg.eigh(
                matrix, subset_by_index=wanted, driver="evr", check_finite=False
            )
        # On a near multiple of the identity LAPACK's evr may return fewer than asked for.
        if len(values) == n_vectors and not is_graded(float(values[-1]), float(values[0])):
            size = float(np.abs(matrix).sum(axis=0).max())
            return values[::-1], vectors[:, ::-1], size
    with threads_of("numpy") if n_features >= _THREADS_FROM_FEATURES else nullcontext():
        values, vectors, sizes = graded_eigh(matrix, n_components)
    return values[::-1], vectors[:, ::-1], float(sizes[n_features - n_components])
