"""The largest errors of distributions near the rows, and how near they are: Vu et al. (2022)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.metrics.reconstruction import moments_for
from fairspan.model.subspace import FairSubspace
from fairspan.moments.operators import errors_under
from fairspan.problem.criteria import RobustErrorGap
from fairspan.problem.problem import Problem
from fairspan.rows.groups import Label
from fairspan.typing import FloatArray

# Eigenvalues below minus this share of the largest one are no rounding.
_ROUNDING = 1e-9


def gaussian_wasserstein(mean1: Any, cov1: Any, mean2: Any, cov2: Any) -> float:
    """Squared Wasserstein distance of two normal distributions: Vu et al. (2022), Definition 3.1.

    W = ||m_1 - m_2||^2 + tr(C_1 + C_2 - 2 (C_1^(1/2) C_2 C_1^(1/2))^(1/2)). No two distributions
    with these means and covariances are closer than two normal ones (Gelbrich 1990).

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
        Shapes that do not belong together, numbers that are not finite, or a matrix that is no
        covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> metrics.gaussian_wasserstein([0, 0], np.eye(2), [3, 4], 4 * np.eye(2))
    27.0
    """
    means = [np.asarray(each, dtype=np.float64) for each in (mean1, mean2)]
    p = means[0].size
    roots = [_root(name, each, p) for name, each in (("cov1", cov1), ("cov2", cov2))]
    if any(mean.shape != (p,) or not np.isfinite(mean).all() for mean in means):
        raise InvalidInput(
            f"The means have the shapes {means[0].shape} and {means[1].shape}",
            "Allowed: two vectors of p finite numbers",
            "Pass the means of the same features",
        )
    # tr (R_1 R_2^2 R_1)^(1/2) is the sum of the singular values of R_1 R_2.
    common = float(np.linalg.svd(roots[0] @ roots[1], compute_uv=False).sum())
    apart = float(np.sum((means[0] - means[1]) ** 2))
    return max(apart + sum(float(np.sum(each**2)) for each in roots) - 2 * common, 0.0)


def _root(name: str, covariance: Any, p: int) -> FloatArray:
    """The symmetric square root of a covariance."""
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.shape == (p, p) and np.isfinite(matrix).all():
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        size = _ROUNDING * float(np.abs(values).max(initial=0.0))
        if np.abs(matrix - matrix.T).max(initial=0.0) <= size and values.min(initial=0.0) >= -size:
            return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
    raise InvalidInput(
        f"{name} has the shape {matrix.shape} and is no covariance of {p} features",
        "Allowed: a symmetric positive semidefinite (p, p) matrix of finite numbers",
        "Pass a covariance, such as numpy.cov(rows, rowvar=False)",
    )


def worst_case_error(
    model: Any,
    X_or_moments: Any,
    sensitive_features: Any = None,
    radius: float | Mapping[Label, float] = 0.15,
    *,
    least: bool = False,
    sample_weight: Any = None,
    max_groups: int | None = None,
) -> dict[Label, float]:
    """The largest error of each group within a Wasserstein ball about its rows.

    Vu et al. (2022), Proposition 3.3, at a given projection: the supremum of E||x - x'||^2, x' the
    reconstruction, over all distributions whose distance from the group's rows
    (:func:`gaussian_wasserstein`) is at most eps_g is (sqrt(e_g) + sqrt(eps_g))^2. It is attained
    by the rows x + sqrt(eps_g / e_g) (I - VV')(x - mean). The infimum is
    (sqrt(e_g) - sqrt(eps_g))^2, or 0 where e_g < eps_g.

    Parameters
    ----------
    model, sample_weight, max_groups
        As for :func:`reconstruction_error`; a projection.
    X_or_moments : (n, p) table, or GroupMoments
    sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        Not needed with moments.
    radius : float or mapping of label to float, default=0.15
        As of :class:`~fairspan.RobustErrorGap`: a number alpha gives eps_g = alpha / sqrt(n_g), a
        mapping gives eps_g itself, in squared (scaled) units of the features.
    least : bool, default=False
        The smallest error within the ball instead.

    Returns
    -------
    dict of label to float
        In squared units of the features (scaled, if the model scales).

    Raises
    ------
    InvalidInput, InvalidType, InvalidParameter
    UnknownGroup
        A mapping that does not name exactly the groups of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> line, groups = np.array([[1.0, 0.0]]), ["a", "a", "b", "b"]
    >>> metrics.worst_case_error(line, X, groups, radius={"a": 0.25, "b": 0.25})
    {'a': 0.25, 'b': 2.25}
    >>> metrics.worst_case_error(line, X, groups, radius={"a": 0.25, "b": 0.25}, least=True)
    {'a': 0.0, 'b': 0.25}
    """
    subspace = FairSubspace.of(model)
    moments = moments_for(subspace, X_or_moments, sensitive_features, sample_weight, max_groups)
    second, projector = subspace.judged_by(moments)
    ball = RobustErrorGap(radius=radius)
    problem = Problem(second, moments.labels, moments.weights, subspace.dimension, ball)
    reach = np.sqrt(ball.radii(problem))
    roots = np.sqrt(np.maximum(errors_under(projector, second), 0.0))
    extremes = np.maximum(roots - reach, 0.0) if least else roots + reach
    return dict(zip(moments.labels, (extremes**2).tolist(), strict=True))
