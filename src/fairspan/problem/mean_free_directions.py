"""The directions along which the means of all groups agree: where exact mean parity holds."""

import numpy as np

from fairspan.errors import Incompatible
from fairspan.linalg import graded_eigh
from fairspan.typing import FloatArray

# Differences of means below this share of a feature's spread, or of the means, are rounding.
_ROUNDING_OF_SPREAD = 1e-12
_ROUNDING_OF_MEAN = 1e-14
# Mean differences that depend on each other linearly span less; relative to the largest.
_DEPENDENT = 1e-9
# Variance below this share of what the columns of a direction have is rounding.
_NO_VARIANCE = 1e-13


def mean_free_directions(
    means: FloatArray, covariances: FloatArray, n_components: int
) -> FloatArray:
    """Orthonormal basis of all directions along which the groups' means agree.

    Parameters
    ----------
    means : (k, p) array
    covariances : (k, p, p) array
        Their diagonals show what is small in each feature.
    n_components : int
        d.

    Returns
    -------
    (p, p - rank) array
        rank is that of the (k, p) differences m_g - m.

    Raises
    ------
    Incompatible
        d exceeds p - rank.

    Examples
    --------
    >>> means = np.array([[1.0, 0.0], [0.0, 0.0]])
    >>> abs(mean_free_directions(means, np.array([np.eye(2)] * 2), 1))
    array([[0.],
           [1.]])
    """
    p, span = means.shape[1], mean_differences(means, np.einsum("gii->gi", covariances))
    rank = span.shape[1]
    check_enough_left(n_components, p, rank)
    return np.ascontiguousarray(np.linalg.qr(span, mode="complete")[0][:, rank:])


def check_enough_left(n_components: int, n_features: int, rank: int) -> None:
    """Make sure that d directions are left of p where the means differ along some.

    Raises
    ------
    Incompatible
    """
    if n_components > n_features - rank:
        raise Incompatible(
            f"n_components is {n_components} with mean parity",
            f"Allowed: at most {n_features - rank}: of {n_features} features, the means that are "
            f"to agree differ along {rank} direction(s)",
            "Choose fewer components, or leave the restriction out",
        )


def mean_differences(means: FloatArray, variances: FloatArray) -> FloatArray:
    """Independent columns of unit length that span all differences of the means, (p, rank).

    Parameters
    ----------
    means : (k, p) array
    variances : (k, p) array
        Of each feature in each group: they show what is small in it.
    """
    # From one of them first: far from zero a mean of means is rounded, and two groups would seem to
    # differ along two directions.
    differences = means - means[0]
    differences = differences - differences.mean(axis=0)
    spread = np.sqrt(variances.mean(axis=0) + (differences**2).mean(axis=0))
    rounding = _ROUNDING_OF_SPREAD * spread + _ROUNDING_OF_MEAN * np.abs(means).max(axis=0)
    differences = np.where(np.abs(differences) > rounding, differences, 0.0)
    # Rates beside currencies: the rank is that of differences in units of each feature's spread.
    unit = np.where(spread > 0, spread, 1.0)
    _, sizes, axes = np.linalg.svd(differences / unit, full_matrices=False)
    rank = int((sizes > _DEPENDENT * sizes[0]).sum()) if sizes[0] > 0 else 0
    span = (axes[:rank] * unit).T
    return np.asarray(span / np.maximum(np.linalg.norm(span, axis=0), np.finfo(np.float64).tiny))


def split_by_variance(
    directions: FloatArray, covariances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Directions along which the rows vary, and the others, of the same span."""
    pooled = covariances.mean(axis=0)
    within = directions.T @ pooled @ directions
    values, vectors, _ = graded_eigh((within + within.T) / 2, max(len(within) - 1, 0))
    turned = directions @ vectors
    # What rounding of the entries may make of a direction without variance.
    spreads = np.sqrt(np.maximum(np.diag(pooled), 0.0))
    varies = values > _NO_VARIANCE * (spreads @ np.abs(turned)) ** 2
    return turned[:, varies], turned[:, ~varies]
