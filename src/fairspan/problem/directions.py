"""Directions along which the means of groups differ, and those along which they agree."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg import graded_eigh
from fairspan.linalg.complement import OrthogonalComplement
from fairspan.linalg.rounding import (
    EIGENVALUE_ROUNDING,
    EPS,
    FIGURE_ROUNDING,
    RANK_TERMS,
    SUM_ROUNDING,
    TINY,
    TRANSFORMATION_TERMS,
    VALUE_ROUNDING,
    zero_negligible,
)
from fairspan.moments.compute import Moments
from fairspan.typing import FloatArray, IndexArray


def central_differences(moments: Moments) -> FloatArray:
    """Return the group means relative to that of a central group, shape (k, p).

    Relative to a group far from the others, the differences between these would lose precision.
    """
    return moments.mean_differences(central_index(moments.mean_differences(0)))


def central_index(points: FloatArray) -> int:
    """Index of the point closest to the componentwise median; the first of one or two points."""
    if len(points) <= 2:
        return 0
    median = np.sort(points, axis=0)[len(points) // 2]
    return int(np.argmin(((points - median) ** 2).sum(axis=1)))


def equal_means_basis(means: FloatArray, covariances: FloatArray, n_components: int) -> FloatArray:
    """Orthonormal basis of the directions along which all group means agree.

    Parameters
    ----------
    means : (k, p) array
        Means that must agree: one for each group, or for each of another number of categories.
    covariances : (k, p, p) array
        One for each group. Their diagonals set the scale on which a mean difference is negligible.
    n_components : int
        d.

    Returns
    -------
    (p, p - rank) array
        rank is the rank of the (k, p) mean differences m_g - m.

    Raises
    ------
    IncompatibleParameters
        d exceeds p - rank.

    Examples
    --------
    >>> means = np.array([[1.0, 0.0], [0.0, 0.0]])
    >>> abs(equal_means_basis(means, np.array([np.eye(2)] * 2), 1))
    array([[0.],
           [1.]])
    """
    variances = np.einsum("gii->gi", covariances)
    if len(variances) != len(means):
        # The means are not those of the groups but of categories, classes or columns. The smallest
        # variance of a group gives the strictest scale for each of them.
        variances = np.broadcast_to(variances.min(axis=0), means.shape)
    difference_directions = mean_difference_directions(means, variances)
    check_enough_directions(n_components, means.shape[1], difference_directions.shape[1])
    return OrthogonalComplement.from_differences(difference_directions).basis


def check_enough_directions(n_components: int, n_features: int, rank: int) -> None:
    """Check that at least d directions remain once those along which the means differ are removed.

    Raises
    ------
    IncompatibleParameters
    """
    if n_components > n_features - rank:
        raise IncompatibleParameters(
            f"n_components is {n_components} with a restriction",
            f"Allowed: at most {n_features - rank}: the restriction removes {rank} of "
            f"{counted(n_features, 'direction')}",
            "Choose fewer components, or drop the restriction",
        )


def mean_difference_directions(
    means: FloatArray, variances: FloatArray, pairs: IndexArray | None = None
) -> FloatArray:
    """Linearly independent unit vectors that span all differences of the means, shape (p, rank).

    Each is a normalized difference of two of the means, the largest first. The rank is decided in
    units of the rounding error of each difference, so that a distant group does not hide the
    differences of others.

    Parameters
    ----------
    means : (m, p) array
    variances : (m, p) array
        Variance of each feature in the rows of each mean, which sets the rounding error.
    pairs : (m - 1, 2) array of int, optional
        Indices of the two means of each difference; by default those of :func:`pairs_to_compare`.
    """
    if pairs is None:
        pairs = pairs_to_compare(means, variances)
    if not len(pairs):
        return np.empty((means.shape[1], 0))
    differences = means[pairs[:, 1]] - means[pairs[:, 0]]
    # A difference is as inexact as the less accurate of its two means, feature by feature.
    rounding = _mean_rounding(means, variances)[pairs].max(axis=1)
    differences = zero_negligible(differences, rounding)
    # Scale each feature by its largest rounding error and each difference by its own, so that
    # rounding errors are about one everywhere and no entry exceeds 1 / (relative rounding).
    feature_scale = rounding.max(axis=0, initial=0.0)
    feature_scale = np.where(feature_scale > 0, feature_scale, 1.0)
    pair_scale = np.sqrt(((rounding / feature_scale) ** 2).sum(axis=1))
    pair_scale = np.where(pair_scale > 0, pair_scale, 1.0)
    scaled = differences / feature_scale / pair_scale[:, None]
    # QR with column pivoting: the diagonal holds the length of each scaled difference's residual
    # from those before it, in rounding errors. A residual of few of them is no further direction.
    upper, order, *_ = lapack.dgeqp3(scaled.T)
    is_direction = np.abs(np.diag(upper)) > RANK_TERMS
    # LAPACK counts columns from one, and its order is that of scaled lengths: return the unscaled
    # differences in the order of their own lengths.
    selected = differences[order[: len(is_direction)][is_direction] - 1]
    lengths = np.sqrt((selected**2).sum(axis=1))
    largest_first = np.argsort(-lengths, kind="stable")
    return np.asarray((selected / lengths[:, None])[largest_first].T)


def pairs_to_compare(means: FloatArray, variances: FloatArray) -> IndexArray:
    """Pairs of means that imply equality of all means if both means of each pair are equal.

    Close means with small rounding errors are paired, since their difference keeps digits that
    their differences from a third mean lose. The pairs are a minimum spanning tree (Prim).

    Returns
    -------
    (m - 1, 2) array of int
    """
    m = len(means)
    if m < 2:
        return np.empty((0, 2), dtype=np.int64)
    if m == 2:
        return np.array([[0, 1]], dtype=np.int64)
    # The length of an edge is the rounding error of a difference: that of the less accurate mean,
    # plus one rounding of the difference itself, in units of the median mean's rounding error.
    rounding = _mean_rounding(means, variances)
    divisors = np.sort(rounding, axis=0)[m // 2]
    divisors = np.where(divisors > 0, divisors, np.maximum(rounding.max(axis=0), TINY))
    rounding = rounding / divisors
    # EPS times the means, in these units: their differences are one rounding of a difference.
    scaled = means * (EPS / divisors)
    pairs: list[tuple[int, int]] = []
    # For each mean outside the tree, the distance from the nearest mean of the tree, and this mean.
    nearest = dict.fromkeys(range(1, m), (np.inf, 0))
    newest = 0
    while nearest:
        lengths = np.maximum(rounding, rounding[newest]) + np.abs(scaled - scaled[newest])
        distances = np.einsum("ij,ij->i", lengths, lengths).tolist()
        for outside, previous in nearest.items():
            nearest[outside] = min(previous, (distances[outside], newest))
        # The mean closest to the tree joins it.
        newest = min(nearest, key=nearest.__getitem__)
        _, partner = nearest.pop(newest)
        pairs.append((partner, newest))
    return np.array(pairs, dtype=np.int64)


def _mean_rounding(means: FloatArray, variances: FloatArray) -> FloatArray:
    """Bound the rounding error of each entry of the means, shape (m, p).

    The sum over the rows is rounded relative to their spread, and the rows relative to the mean.
    """
    return SUM_ROUNDING * np.sqrt(variances) + VALUE_ROUNDING * np.abs(means)


@dataclass(frozen=True, eq=False)
class VarianceSplit:
    """Orthonormal directions along which rows vary, and those along which they do not.

    Attributes
    ----------
    varying : (p, a) array
    constant : (p, b) array
        The variance along these is rounding error.
    min_varying, max_varying : int
        Numbers of directions along which rows certainly and possibly vary, at least and at most a.
    """

    varying: FloatArray
    constant: FloatArray
    min_varying: int
    max_varying: int


def split_by_variance(
    directions: FloatArray, covariances: FloatArray, *, in_row_coordinates: bool = False
) -> VarianceSplit:
    """Split the span of orthonormal directions into those with and without variance.

    Parameters
    ----------
    directions : (p, m) array
    covariances : (k, p, p) array
        Of each group; their plain mean decides.
    in_row_coordinates : bool
        Whether the covariances are those of row coordinates, which resolve smaller variances than
        matrices of the features. Only what these resolve, too, is then certain.
    """
    pooled = covariances.mean(axis=0)
    compressed = directions.T @ pooled @ directions
    symmetric = (compressed + compressed.T) / 2
    # Deflate large variances, beside which eigenvectors of small ones would be inaccurate.
    eigenvectors = graded_eigh(symmetric, max(len(symmetric) - 1, 0)).vectors
    rotated = directions @ eigenvectors
    # Entries that should be zero are rounded too, as where a constant column is next to others.
    abs_entries = np.abs(rotated)
    feature_deviations = np.sqrt(np.maximum(np.diag(pooled), 0.0))
    max_zero = EPS * TRANSFORMATION_TERMS
    entry_rounding = feature_deviations @ np.where(abs_entries <= max_zero, abs_entries, 0.0)
    # Largest sums of terms of which the variances are computed.
    magnitudes = (feature_deviations @ abs_entries) ** 2
    variances = np.einsum("ij,ij->j", rotated, pooled @ rotated)
    has_variance = variances > np.maximum(EIGENVALUE_ROUNDING * magnitudes, entry_rounding**2)
    # The limit of EIGENVALUE_ROUNDING covers errors of one sign. They usually cancel, so variances
    # far below it may be real: those above a sum of squares. Those less than twice the limit may be
    # rounding error. In any features, `magnitudes` are at most the total variance (Cauchy-Schwarz).
    typical_rounding = FIGURE_ROUNDING * (feature_deviations**2 @ rotated**2)
    is_possible = variances > np.maximum(typical_rounding, entry_rounding**2)
    if in_row_coordinates:
        magnitudes = np.full_like(magnitudes, np.trace(pooled))
    is_certain = has_variance & (variances > 2 * EIGENVALUE_ROUNDING * magnitudes)
    return VarianceSplit(
        varying=rotated[:, has_variance],
        constant=rotated[:, ~has_variance],
        min_varying=int(np.count_nonzero(is_certain)),
        max_varying=int(np.count_nonzero(has_variance | is_possible)),
    )
