"""Wasserstein distance of two normal distributions, as used by Vu et al. (2022)."""

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import InvalidInput
from fairspan.formatting.messages import counted
from fairspan.linalg import symmetric_root, symmetrize
from fairspan.linalg.rounding import AGREEMENT_TOL
from fairspan.typing import FloatArray


def gaussian_wasserstein(
    mean1: ArrayLike, cov1: ArrayLike, mean2: ArrayLike, cov2: ArrayLike
) -> float:
    """Squared Wasserstein distance of two normal distributions: Vu et al. (2022), Definition 3.1.

    W = ||m_1 - m_2||^2 + tr(C_1 + C_2 - 2 (C_1^(1/2) C_2 C_1^(1/2))^(1/2)). Among all distributions
    with these means and covariances, normal ones are closest (Gelbrich 1990).

    Parameters
    ----------
    mean1, mean2 : (p,) array-like
    cov1, cov2 : (p, p) array-like
        Symmetric, positive semidefinite; of any rank.

    Returns
    -------
    float
        In squared units of the features.

    Raises
    ------
    InvalidInput
        Inconsistent shapes, numbers that are not finite, or a matrix that is not a covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> metrics.gaussian_wasserstein([0, 0], np.eye(2), [3, 4], 4 * np.eye(2))
    27.0
    """
    means = [np.asarray(mean, dtype=np.float64) for mean in (mean1, mean2)]
    p = means[0].size
    roots = [_matrix_sqrt("cov1", cov1, p), _matrix_sqrt("cov2", cov2, p)]
    if any(mean.shape != (p,) or not np.isfinite(mean).all() for mean in means):
        raise InvalidInput(
            f"The means have the shapes {means[0].shape} and {means[1].shape}",
            "Allowed: two vectors of p finite numbers each",
            "Pass the means of the same features",
        )
    # tr (R_1 R_2^2 R_1)^(1/2) is the sum of the singular values of R_1 R_2.
    cross_trace = float(np.linalg.svd(roots[0] @ roots[1], compute_uv=False).sum())
    squared_distance = float(np.sum((means[0] - means[1]) ** 2))
    traces = sum(float(np.sum(root**2)) for root in roots)
    return max(squared_distance + traces - 2 * cross_trace, 0.0)


def _matrix_sqrt(name: str, covariance: ArrayLike, p: int) -> FloatArray:
    """Symmetric square root of a covariance, which is validated."""
    matrix = np.asarray(covariance, dtype=np.float64)
    if not _is_covariance(matrix, p):
        raise InvalidInput(
            f"{name} has shape {matrix.shape} and is not a covariance of {counted(p, 'feature')}",
            "Allowed: a symmetric positive semidefinite (p, p) matrix of finite numbers",
            "Pass a covariance, such as numpy.cov(rows, rowvar=False)",
        )
    return symmetric_root(symmetrize(matrix))


def _is_covariance(matrix: FloatArray, p: int) -> bool:
    """Whether a (p, p) matrix is finite, and symmetric and semidefinite up to rounding."""
    if matrix.shape != (p, p) or not np.isfinite(matrix).all():
        return False
    eigenvalues = np.linalg.eigvalsh(symmetrize(matrix))
    tol = AGREEMENT_TOL * float(np.abs(eigenvalues).max(initial=0.0))
    asymmetry = np.abs(matrix - matrix.T).max(initial=0.0)
    return bool(asymmetry <= tol and eigenvalues.min(initial=0.0) >= -tol)
