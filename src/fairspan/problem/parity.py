"""What mean parity asks of the groups' means: which are to coincide, and along which directions.

Exact mean parity says that some points have the same image in the subspace. These points are
computed here from the moments of the groups, then the directions along which they agree.

Oblique mean parity moves rows along the means' differences before they are projected. With S the
pooled second moment and F directions whose image is to be zero, find E (d x p) and D (p x d) that
minimise the mean of ||x - D E x||^2 subject to E F = 0. With P = F(F'S^+F)^+F'S^+, the projection
onto the span of F that is orthogonal in the metric of S^+, and N = S - P S, the optimum is
tr S - t_d(N), at the d leading eigenvectors U of N: E = U'(I - P), D = U. Where features depend on
each other, any generalised inverse in place of S^+ does the same to all rows; taken is that of
standardised features, whatever their units. The idea is that of LEACE (Belrose et al. 2023), which
moves rows and keeps all dimensions; mean parity (Kleindessner et al. 2023) projects orthogonally
instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from fairspan.errors import Incompatible, InvalidInput
from fairspan.linalg import eigh, graded_eigh
from fairspan.moments.group_means import GroupMeans
from fairspan.moments.group_moments import GroupMoments
from fairspan.rows.groups import Label, listed
from fairspan.typing import FloatArray

ATTRIBUTES = ("intersections", "marginal")

# Differences of means below this share of a feature's spread, or of the means, are rounding.
_ROUNDING_OF_SPREAD, _ROUNDING_OF_MEAN = 1e-12, 1e-14
# Mean differences that depend on each other linearly span less; relative to the largest.
_DEPENDENT = 1e-9
# Variance below this share of what the columns of a direction have is rounding.
_NO_VARIANCE = 1e-13
# A direction with less than this share of the variance of standardised features has none.
_NO_SHARE = 1e-12
# Directions that depend on each other linearly span less; relative to the largest.
_ALONG_OTHERS = 1e-10


def coinciding_means(
    moments: GroupMeans, attributes: str, given_labels: str | Sequence[Label] | None = None
) -> FloatArray:
    """Points of the features that a subspace is to map to one point.

    Parameters
    ----------
    moments : GroupMeans
        Weight and mean of each group.
    attributes : {"intersections", "marginal"}
        The means of all groups; or, where labels are tuples of several attributes, the means of the
        categories of each attribute: V'Cov(x, z) = 0 for the indicator z of every category.
    given_labels : "all", sequence of classes, or None
        Classes of y, among whose rows alone the means are to coincide; None for all rows.

    Returns
    -------
    (m, p) array

    Raises
    ------
    InvalidInput
        The moments do not know the classes, or not this one.

    Examples
    --------
    >>> from fairspan import GroupMoments
    >>> X, groups = np.eye(4), [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    >>> coinciding_means(GroupMoments.from_rows(X, groups), "intersections").shape
    (4, 4)
    >>> points = coinciding_means(GroupMoments.from_rows(X, groups), "marginal")
    >>> int(np.linalg.matrix_rank(points - points[0]))
    2
    """
    parts: Sequence[GroupMeans] = [moments]
    if given_labels is not None and moments.n_groups > 1:
        if moments.by_label is None:
            raise InvalidInput(
                f"given_labels is {given_labels!r}, and y is missing",
                "Allowed: the class of each row: an array, or the name of a column of X",
                "Pass y to fit, labels=y to audit, verify and GroupMoments.from_rows, or "
                "--label COL",
            )
        parts = _of_classes(moments.by_label, given_labels)
    families = [family for part in parts for family in _families(part, attributes)]
    # Every family is moved so that all begin at the same point, which changes no difference.
    return np.vstack([families[0][0] + (family - family[0]) for family in families])


def _of_classes(
    by_label: GroupMoments, given_labels: str | Sequence[Label]
) -> Sequence[GroupMoments]:
    """The moments of the groups among the rows of each chosen class."""
    classes = [pair[-1] for pair in by_label.labels if isinstance(pair, tuple)]
    wanted = sorted(set(classes)) if given_labels == "all" else given_labels
    unknown = [each for each in wanted if each not in classes]
    if unknown:
        raise InvalidInput(
            f"given_labels names {listed(unknown)}, which no row of y has",
            f"Allowed: 'all' and some of the classes {listed(sorted(set(classes)))}",
            "Correct given_labels, or pass another y",
        )
    return [by_label.of_groups(np.array([each == label for each in classes])) for label in wanted]


def _families(moments: GroupMeans, attributes: str) -> list[FloatArray]:
    """Means that are to coincide with those of their own family.

    Those of the categories of an attribute are merged from those of intersections, about the first
    one, so that a large common offset costs no digits.
    """
    if attributes == "intersections":
        return [moments.means]
    first, found = moments.means[0], []
    crossed = [label if isinstance(label, tuple) else (label,) for label in moments.labels]
    for column in zip(*crossed, strict=True):
        isin = np.array([[each == value for each in column] for value in sorted({*column})])
        shares = isin * moments.weights / (isin @ moments.weights)[:, None]
        found.append(first + shares @ (moments.means - first))
    return found


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
    varies = (
        values > _NO_VARIANCE * (np.sqrt(np.maximum(np.diag(pooled), 0.0)) @ np.abs(turned)) ** 2
    )
    return turned[:, varies], turned[:, ~varies]


@dataclass(frozen=True, eq=False)
class Encoding:
    """What is done to rows before they are projected orthogonally.

    Attributes
    ----------
    forbidden : (p, m) array
        F; its columns are orthonormal where features are divided by their spread.
    mover : (p, p) array
        I - P.
    second_moment : (p, p) array
        N, the pooled second moment of the moved rows.
    lost : float
        tr(S - N): what moving rows costs, in any subspace.
    rank : int
        That of N: with more components, some would be dead.
    """

    forbidden: FloatArray
    mover: FloatArray
    second_moment: FloatArray
    lost: float
    rank: int

    def settled(self, basis: FloatArray) -> FloatArray:
        """The same (p, d) basis, exactly among the moved rows.

        Eigenvectors are known to a share of their length, but an encoder may have large entries
        where those of its decoder are small.
        """
        inside = self.mover @ basis
        lower = np.linalg.cholesky(inside.T @ inside)  # nearly the identity
        return np.asarray(solve_triangular(lower, inside.T, lower=True).T)

    def encoder(self, basis: FloatArray) -> FloatArray:
        """E = U'(I - P) of an orthonormal (p, d) basis U, shape (d, p)."""
        return np.asarray(basis.T @ self.mover)


def encoding_without(pooled: FloatArray, forbidden: FloatArray) -> Encoding:
    """The moved rows' second moment, where some directions are to have the image zero.

    Parameters
    ----------
    pooled : (p, p) array
        S, about the mean of all rows.
    forbidden : (p, m) array
        F, independent columns.

    Returns
    -------
    Encoding

    Examples
    --------
    >>> S, F = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[0.0], [1.0]])
    >>> encoding = encoding_without(S, F)
    >>> encoding.second_moment.round(6)
    array([[2. , 1. ],
           [1. , 0.5]])
    >>> encoding.rank, round(encoding.lost, 6)
    (1, 1.5)
    """
    # Of standardised features, so that a column of large numbers does not make others rounding.
    spread = np.sqrt(np.maximum(np.diag(pooled), 0.0))
    spread = np.where(spread > 0, spread, 1.0)[:, None]
    values, vectors = eigh(pooled / spread / spread.T)
    varies = values > _NO_SHARE * max(float(values[-1]), 0.0)
    values, vectors = values[varies], vectors[:, varies]
    factor, whitening = vectors * np.sqrt(values), (vectors / np.sqrt(values)).T
    # Beside all rows, means differ by rounding alone.
    hidden = np.linalg.qr(vectors @ (vectors.T @ (forbidden / spread)))[0]
    axes, sizes, _ = np.linalg.svd(whitening @ hidden, full_matrices=False)
    axes = axes[:, sizes > _ALONG_OTHERS * sizes.max(initial=0.0)]
    moved = factor @ axes
    mover = spread * (np.eye(len(pooled)) - moved @ (axes.T @ whitening)) / spread.T
    # Once more: P may be large, and what it leaves of F is its rounding.
    mover -= (mover @ (spread * hidden)) @ (hidden / spread).T
    moved, left = spread * moved, spread * (factor - moved @ axes.T)
    return Encoding(
        spread * hidden,
        mover,
        left @ left.T,
        float(np.vdot(moved, moved)),
        factor.shape[1] - axes.shape[1],
    )
