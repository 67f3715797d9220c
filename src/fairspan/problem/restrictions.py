"""Restrictions: subspaces in which the groups look alike, whatever criterion is minimised in them.

A criterion decides how much each group may lose. A restriction hides the group instead: it removes
differences between the groups from the projected rows (Olfat and Aswani 2019; Kleindessner et al.
2023). The two goals differ, and a subspace that hides the group can have a larger error for one
group.

Symbols: m_g is the mean of group g, C_g its covariance about that mean (divided by its weight), V
the orthonormal (p, d) basis. All are in scaled units where the features are scaled.

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

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import lapack, solve_triangular

from fairspan.errors import (
    Cause,
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    InvalidType,
)
from fairspan.formatting.text import counted
from fairspan.linalg import TIE_TOL, graded_eigh
from fairspan.moments.group_moments import GroupMoments, merge_moments
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import OrthogonalComplement
from fairspan.problem.criteria import Criterion, TotalError
from fairspan.problem.problem import CovarianceDifferenceLimit, MeanDistanceLimit, ParityLimit
from fairspan.registry import (
    check_bool,
    check_choice,
    check_integer,
    check_number,
    make_plain,
    non_default_parameters,
)
from fairspan.rows.attributes import ColumnKey, column_positions
from fairspan.rows.groups import Label, format_list, to_python_labels
from fairspan.typing import FloatArray, IndexArray

# A mean is known up to this share of its feature's deviation within the group, and of itself: some
# roundings of the rows that are summed, and of the sum.
_SPREAD_ROUNDING, _MEAN_ROUNDING = 1e-12, 1e-15
# A difference of means is a direction of its own where it leaves those before it by so many times
# its own rounding.
_SEEN = 32.0
# Variance below this share of what the columns of a direction have is rounding.
_VARIANCE_ROUNDING = 1e-13
_EPSILON = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
# Entries of a direction of unit length that may be rounding alone.
_ENTRY_ROUNDING = 64 * _EPSILON
# A direction with less than this share of the variance of standardised features has none.
_MIN_EIGENVALUE_RATIO = 1e-12
# Directions that depend on each other linearly span less; relative to the largest.
_SINGULAR_VALUE_TOL = 1e-10


def _moments_by_class(
    by_class: GroupMoments, within_classes: str | Sequence[Label]
) -> Sequence[GroupMoments]:
    """The moments of the groups among the rows of each chosen class."""
    classes = [pair[-1] for pair in by_class.labels if isinstance(pair, tuple)]
    wanted = sorted(set(classes)) if within_classes == "all" else within_classes
    unknown = [each for each in wanted if each not in classes]
    if unknown:
        raise InvalidInput(
            f"within_classes names {format_list(unknown)}, which no row of y has",
            f"Allowed: 'all' and some of the classes {format_list(sorted(set(classes)))}",
            "Correct within_classes, or pass another y",
        )
    return [
        by_class.select_groups(np.array([each == label for each in classes])) for label in wanted
    ]


def _mean_families(moments: Moments, attributes: str, of_groups: FloatArray) -> list[FloatArray]:
    """Means over the rows whose means are to coincide, (m, p) of each family, of (k, p) means."""
    if attributes == "intersections":
        return [of_groups]
    label_tuples = [label if isinstance(label, tuple) else (label,) for label in moments.labels]
    families = []
    for column in zip(*label_tuples, strict=True):
        indicator = np.array([[each == value for each in column] for value in sorted({*column})])
        shares = indicator * moments.weights / (indicator @ moments.weights)[:, None]
        families.append(shares @ of_groups)
    return families


def central_differences(moments: Moments) -> FloatArray:
    """Return the group means minus that of a group in their middle, shape (k, p).

    From a group that lies far from the others, their differences would lose digits.
    """
    return moments.mean_differences(_central(moments.mean_differences(0)))


def _central(points: FloatArray) -> int:
    """Index of the point that is nearest to the median of each feature."""
    if len(points) <= 2:
        return 0
    middle = np.sort(points, axis=0)[len(points) // 2]
    return int(np.argmin(((points - middle) ** 2).sum(axis=1)))


def variances_along(moments: Moments, columns: FloatArray | None = None) -> FloatArray:
    """Variance of each feature, or along each of (p, q) columns, about each group's own mean."""
    if columns is None:
        return moments.variances
    if isinstance(moments, GroupMoments):
        images = moments.scatters @ columns / moments.weights[:, None, None]
    else:
        images = moments.second_moments_about(None).apply(columns)
    return np.asarray(np.maximum(np.einsum("ij,gij->gj", columns, images), 0.0))


def equal_means_basis(means: FloatArray, covariances: FloatArray, n_components: int) -> FloatArray:
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
    >>> abs(equal_means_basis(means, np.array([np.eye(2)] * 2), 1))
    array([[0.],
           [1.]])
    """
    variances = np.einsum("gii->gi", covariances)
    if len(variances) != len(means):  # of categories, classes or covariances
        variances = np.broadcast_to(variances.min(axis=0), means.shape)
    difference_directions = mean_difference_directions(means, variances)
    check_enough_directions(n_components, means.shape[1], difference_directions.shape[1])
    return OrthogonalComplement.of_differences(difference_directions).basis


def check_enough_directions(n_components: int, n_features: int, rank: int) -> None:
    """Make sure that d directions are left of p where the means differ along some.

    Raises
    ------
    Incompatible
    """
    if n_components > n_features - rank:
        raise IncompatibleParameters(
            f"n_components is {n_components} with a restriction",
            f"Allowed: at most {n_features - rank}: of {counted(n_features, 'feature')}, it "
            f"takes {counted(rank, 'direction')} away",
            "Choose fewer components, or leave the restriction out",
        )


def mean_difference_directions(
    means: FloatArray, variances: FloatArray, pairs: IndexArray | None = None
) -> FloatArray:
    """Independent columns of unit length that span all differences of the means, (p, rank).

    Each is a difference of two of the means, the largest first. Whether it adds a direction is
    decided in units of its own rounding, so that a group that lies far away hides no difference of
    others.

    Parameters
    ----------
    means : (m, p) array
    variances : (m, p) array
        Of each feature in the rows of each mean: they show what is rounding.
    pairs : (m - 1, 2) array of int, optional
        Those of :func:`pairs_to_compare`.
    """
    pairs = pairs_to_compare(means, variances) if pairs is None else pairs
    if not len(pairs):
        return np.empty((means.shape[1], 0))
    differences = means[pairs[:, 1]] - means[pairs[:, 0]]
    rounding = _rounding_of_means(means, variances)[pairs].max(axis=1)
    differences = np.where(np.abs(differences) > rounding, differences, 0.0)
    # The largest rounding of each feature is its unit, and that of a difference the unit of it: no
    # entry is then larger than the inverse of a rounding, and rounding is about one everywhere.
    divisors = rounding.max(axis=0, initial=0.0)
    divisors = np.where(divisors > 0, divisors, 1.0)
    lengths = np.sqrt(((rounding / divisors) ** 2).sum(axis=1))
    lengths = np.where(lengths > 0, lengths, 1.0)
    scaled = differences / divisors / lengths[:, None]
    upper, order, *_ = lapack.dgeqp3(scaled.T)
    seen = np.abs(np.diag(upper)) > _SEEN
    # Once more by their size: LAPACK counts from one, and orders those that are scaled.
    chosen = differences[order[: len(seen)][seen] - 1]
    singular_values = np.sqrt((chosen**2).sum(axis=1))
    largest_first = np.argsort(-singular_values, kind="stable")
    return np.asarray((chosen / singular_values[:, None])[largest_first].T)


def differences_of(restriction: "Restriction", moments: Moments) -> FloatArray:
    """Those of the means that a restriction makes equal, as :func:`mean_differences`."""
    return mean_difference_directions(
        restriction.constrained_means(moments), restriction.variances_of(moments)
    )


def pairs_to_compare(means: FloatArray, variances: FloatArray) -> IndexArray:
    """Pairs of means, (m - 1, 2), such that all are equal where those of each pair are.

    A pair has a small rounding, and is close: the difference of two means that lie close to each
    other keeps digits that their differences from a third lose. The pairs are a smallest spanning
    tree (Prim).
    """
    m, pairs = len(means), list[tuple[int, int]]()
    if m <= 2:
        return np.array([[0, 1]] if m == 2 else [], dtype=np.int64).reshape(-1, 2)
    rounding = _rounding_of_means(means, variances)
    divisors = np.sort(rounding, axis=0)[m // 2]
    divisors = np.where(divisors > 0, divisors, np.maximum(rounding.max(axis=0), _TINY))
    rounding, scaled = rounding / divisors, means * (_EPSILON / divisors)
    selected, newest = dict.fromkeys(range(1, m), (np.inf, 0)), 0
    while selected:
        apart = np.maximum(rounding, rounding[newest]) + np.abs(scaled - scaled[newest])
        distances = np.einsum("ij,ij->i", apart, apart).tolist()
        selected = {i: min(known, (distances[i], newest)) for i, known in selected.items()}
        newest = min(selected, key=selected.__getitem__)
        pairs.append((selected.pop(newest)[1], newest))
    return np.array(pairs, dtype=np.int64)


def _rounding_of_means(means: FloatArray, variances: FloatArray) -> FloatArray:
    return _SPREAD_ROUNDING * np.sqrt(variances) + _MEAN_ROUNDING * np.abs(means)


def split_by_variance(
    directions: FloatArray, covariances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Directions along which the rows vary, and the others, of the same span."""
    pooled = covariances.mean(axis=0)
    compressed = directions.T @ pooled @ directions
    rotated = (
        directions @ graded_eigh((compressed + compressed.T) / 2, max(len(compressed) - 1, 0))[1]
    )
    # What rounding of the entries may make of a direction without variance, and entries that are
    # nothing but rounding, as in columns without variance beside others.
    abs_entries, feature_deviations = np.abs(rotated), np.sqrt(np.maximum(np.diag(pooled), 0.0))
    entry_rounding = feature_deviations @ np.where(abs_entries <= _ENTRY_ROUNDING, abs_entries, 0.0)
    variances = np.einsum("ij,ij->j", rotated, pooled @ rotated)
    has_variance = variances > np.maximum(
        _VARIANCE_ROUNDING * (feature_deviations @ abs_entries) ** 2, entry_rounding**2
    )
    return rotated[:, has_variance], rotated[:, ~has_variance]


@dataclass(frozen=True, eq=False)
class ObliqueShift:
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
    rounding : float
        By how much N may be off, as a trace.
    """

    forbidden: FloatArray
    matrix: FloatArray
    shifted_second_moment: FloatArray
    variance_lost: float
    rank: int
    rounding: float

    def project_basis(self, basis: FloatArray) -> FloatArray:
        """The same (p, d) basis, exactly among the moved rows.

        Eigenvectors are known to a share of their length, but an encoder may have large entries
        where those of its decoder are small.

        Raises
        ------
        Incompatible
            Some component lies along what rows are moved by: beside columns of large numbers, the
            variance that is left there is rounding.
        """
        shifted = self.matrix @ basis
        try:
            lower = np.linalg.cholesky(shifted.T @ shifted)  # nearly the identity
        except np.linalg.LinAlgError as error:
            raise encoder_not_resolved(
                "moved rows vary along some component by rounding"
            ) from error
        return np.asarray(solve_triangular(lower, shifted.T, lower=True).T)


def encoder_not_resolved(why: str) -> IncompatibleParameters:
    """Return the error for an oblique encoder that double precision cannot hold."""
    return IncompatibleParameters(
        f"MeanParity(oblique=True) was requested, and {why}",
        "Allowed: columns whose variances differ by less than double precision resolves",
        "Use scale=True, fewer components, or MeanParity(), which is orthogonal",
    )


def oblique_shift(pooled: FloatArray, forbidden: FloatArray) -> ObliqueShift:
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
    >>> encoding = oblique_shift(S, F)
    >>> encoding.second_moment.round(6)
    array([[2. , 1. ],
           [1. , 0.5]])
    >>> encoding.rank, round(encoding.lost, 6)
    (1, 1.5)
    """
    # Of standardised features, so that a column of large numbers does not make others rounding.
    spread = np.sqrt(np.maximum(np.diag(pooled), 0.0))
    spread = np.where(spread > 0, spread, 1.0)[:, None]
    values, vectors = np.linalg.eigh(pooled / spread / spread.T)
    factor, whitening, forbidden_basis, axes = _whitened_factors(
        values, vectors, forbidden / spread, _MIN_EIGENVALUE_RATIO
    )
    removed_factor = factor @ axes
    oblique_projection = removed_factor @ (axes.T @ whitening)
    mover = spread * (np.eye(len(pooled)) - oblique_projection) / spread.T
    # Once more: P may be large, and what it leaves of F is its rounding.
    mover -= (mover @ (spread * forbidden_basis)) @ (forbidden_basis / spread).T
    removed_factor, left = spread * removed_factor, spread * (factor - removed_factor @ axes.T)
    lost = float(np.vdot(removed_factor, removed_factor))
    # P is sensitive to S where rows hardly vary: where standardised features are rounded by E, the
    # trace of N moves by up to ||E|| times the sum of squares below. Fits of rows and of moments
    # differed by at most a twelfth of `sensitive`. Directions with less variance than is used may
    # be real all the same: by `apart` it matters whether they count.
    min_ratio = len(pooled) * _EPSILON
    full_factor, _, _, full_axes = _whitened_factors(values, vectors, forbidden / spread, min_ratio)
    rank_uncertainty = abs(lost - float(np.sum((spread * (full_factor @ full_axes)) ** 2)))
    rounding = _EPSILON / 4 * float(values[-1]) * float(np.sum((spread * oblique_projection) ** 2))
    return ObliqueShift(
        spread * forbidden_basis,
        mover,
        left @ left.T,
        lost,
        factor.shape[1] - axes.shape[1],
        rounding + rank_uncertainty,
    )


def _whitened_factors(
    values: FloatArray, vectors: FloatArray, forbidden: FloatArray, min_eigenvalue_ratio: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """A factor of S, its inverse, F within the span of S, and F's whitened orthonormal axes.

    Of eigenvalues above a least share of the largest.
    """
    varies = values > min_eigenvalue_ratio * max(float(values[-1]), 0.0)
    values, vectors = values[varies], vectors[:, varies]
    factor, whitening = vectors * np.sqrt(values), (vectors / np.sqrt(values)).T
    # Beside all rows, means differ by rounding alone.
    forbidden_basis = np.linalg.qr(vectors @ (vectors.T @ forbidden))[0]
    axes, singular_values, _ = np.linalg.svd(whitening @ forbidden_basis, full_matrices=False)
    return (
        factor,
        whitening,
        forbidden_basis,
        axes[:, singular_values > _SINGULAR_VALUE_TOL * singular_values.max(initial=0.0)],
    )


# Without n_directions, covariance parity keeps this share of the directions.
_DEFAULT_FRACTION = 0.85
# What covariances differ by along a direction is rounding below this share of the most.
_DIFFERENCE_ROUNDING = 1e-12
__all__ = ["CovarianceParity", "MeanParity", "Restriction", "Uncorrelated"]


class Restriction(ABC):
    """A condition that hides the group: it limits the subspaces that a criterion may choose.

    A restriction of your own inherits from this class. It has a `name` and says its `directions`;
    the others have defaults.

    Attributes
    ----------
    is_rotation_equivariant : bool
        Whether rotated features only rotate the subspaces that are allowed: rows that are fewer
        than their features are then solved in coordinates of their own. Otherwise moments of all
        features are computed.
    within_classes : "all", sequence of classes, or None
        Classes of y, whose means it is about; moments then have `by_label`. None for all rows.
    columns : tuple of str or int
        Columns that it needs and that are no features; moments then have `whole`.
    oblique : bool
        Whether rows are shifted until the means agree, and then projected, without other
        conditions (:mod:`fairspan.problem.restrictions`).
    """

    is_rotation_equivariant: ClassVar[bool] = False
    within_classes: str | Sequence[Label] | None = None
    columns: tuple[ColumnKey, ...] = ()
    oblique: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which it can be requested."""

    @abstractmethod
    def allowed_directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray | None:
        """Orthonormal (p, m) columns in whose span V is chosen; None for all directions.

        Parameters
        ----------
        means : (k, p) array
        covariances : (k, p, p) array
            About each group's own mean.
        n_components : int
        """

    def check_compatible(
        self, group_labels: list[Label], criterion: Criterion, *, allow_extra: bool
    ) -> None:
        """Raise Incompatible unless it is defined for these groups and this criterion."""
        return

    def max_components(self, means: FloatArray, covariances: FloatArray) -> int:
        """The largest d that can be requested, where it is to be found from a share of variance."""
        directions = self.allowed_directions(means, covariances, 1)
        return int((means if directions is None else directions).shape[1])

    def limit(self, means: FloatArray, covariances: FloatArray) -> ParityLimit | None:
        """What a subspace must not exceed, within the directions; None for no further limit."""
        return None

    @property
    def forbids_mean_differences_only(self) -> bool:
        """Whether all directions but those along which means differ are allowed, for every d.

        Components may then be nested.
        """
        return False

    def constrained_means(self, moments: Moments) -> FloatArray:
        """Points whose differences the directions are computed from, (m, p): means of the groups.

        They are given from the mean of one of the groups, so that rows far from zero keep their
        digits.
        """
        return central_differences(moments)

    def variances_of(self, moments: Moments, columns: FloatArray | None = None) -> FloatArray:
        """Variances within the groups behind each of these means, of features or along columns."""
        return variances_along(moments, columns)


def check_tolerance_supported(
    restriction: Restriction,
    group_labels: list[Label],
    criterion: Criterion,
    *,
    allow_extra: bool,
    alternative: str,
) -> None:
    """Raise Incompatible where a restriction with a tolerance is not defined."""
    received = "allow_extra=True" if allow_extra else f"the criterion {criterion.name!r}"
    if len(group_labels) > 2:
        received = f"{counted(len(group_labels), 'group')}"
    if len(group_labels) > 2 or allow_extra or not isinstance(criterion, TotalError):
        raise IncompatibleParameters(
            f"{restriction!r} was requested together with {received}",
            "Allowed with a tolerance are the criterion 'total_error', two groups and "
            "allow_extra=False",
            f"Use these; or no tolerance: {alternative}",
        )


@dataclass(frozen=True, repr=False)
class MeanParity(Restriction):
    """Require equal, or nearly equal, means of the groups' projected rows.

    Exactly (tolerance 0): V'(m_g - m) = 0 for every group, m any mean of the m_g. V lies in the
    complement of the span of these differences, of dimension p - rank, in which any criterion is
    minimised. With a tolerance, two groups: ||V'(m_1 - m_2)|| <= tolerance, total error only; Olfat
    and Aswani (2019), without their relaxation.

    Parameters
    ----------
    tolerance : float, default=0.0
        Largest distance of the two projected means, in (scaled) units of the features.
    attributes : {"intersections", "marginal"}, default="intersections"
        Which means are equal with several attributes, such as sex and race. "intersections": every
        combination has the same mean. "marginal": the categories of each attribute have the same
        mean, V'Cov(x, z) = 0 for the indicator z of each category, which removes sum_j (k_j - 1)
        directions and not prod_j k_j - 1. For a single attribute both are the same.
    within_classes : "all", list of classes, or None, default=None
        The means agree among the rows of each of these classes of the y passed to `fit` (equal
        opportunity, Kleindessner et al. 2023), instead of among all rows. The criterion is that of
        all rows in any case.
    oblique : bool, default=False
        Project obliquely: rows are shifted along the differences of the means, by an amount that
        is predicted from the other features, and then projected. This keeps more variance at the
        same d. The projection has an encoder, whose rows are not orthonormal, and a decoder. Total
        error and center="global" only; d is at most the rank of the remaining variance
        (:mod:`fairspan.problem.restrictions`).

    Raises
    ------
    InvalidParameter, InvalidType
        The tolerance is no finite number, or negative; another word for the attributes; `oblique`
        neither True nor False.
    Incompatible
        A tolerance with another parameter. When fitting: too few directions are left, or a
        tolerance or an oblique projection meets another criterion, number of groups, centre or
        solver.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MeanParity
    >>> X = np.array([[3.0, 1, 0], [-1, 1, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b"]
    >>> for restriction in (None, MeanParity(tolerance=0.5), MeanParity()):
    ...     hidden = FairPCA(1, criterion="total_error", restriction=restriction)
    ...     reduced = hidden.fit_transform(X, sensitive_features=groups)
    ...     print(abs(reduced[:2].mean() - reduced[2:].mean()).round(3), round(hidden.score(X), 3))
    1.115 -2.219
    0.5 -2.438
    0.0 -2.5
    """

    tolerance: float = 0.0
    attributes: str = field(default="intersections", kw_only=True)
    within_classes: str | Sequence[Label] | None = field(default=None, kw_only=True)
    oblique: bool = field(default=False, kw_only=True)
    name: ClassVar[str] = "mean_parity"
    is_rotation_equivariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("tolerance", self.tolerance, 0)
        check_choice("attributes", self.attributes, ("intersections", "marginal"))
        check_bool("oblique", self.oblique)
        classes = self.within_classes
        if isinstance(classes, list | tuple | np.ndarray) and len(classes):
            object.__setattr__(self, "within_classes", tuple(to_python_labels(classes)))
        elif classes is not None and not (isinstance(classes, str) and classes == "all"):
            raise InvalidParameter(
                f"within_classes is {classes!r}",
                "Allowed: None, 'all' and a list of classes of y",
                "Use one of these, such as within_classes=[1]",
            )
        make_plain(self)
        if self.tolerance > 0 and len(non_default_parameters(self)) > 1:
            raise IncompatibleParameters(
                f"{self!r} has a tolerance",
                "Allowed with a tolerance are the other parameters at their defaults",
                "Leave them out, or use tolerance=0",
            )

    def __repr__(self) -> str:
        # What is not said is the default, so that names of models stay short.
        arguments = {"tolerance": self.tolerance} | non_default_parameters(self)
        return f"MeanParity({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"

    def check_compatible(
        self, group_labels: list[Label], criterion: Criterion, *, allow_extra: bool
    ) -> None:
        """Raise Incompatible unless it is defined for these groups and this criterion."""
        if self.tolerance > 0:
            check_tolerance_supported(
                self,
                group_labels,
                criterion,
                allow_extra=allow_extra,
                alternative="MeanParity(tolerance=0) takes every criterion and number of groups",
            )
        if self.oblique and not isinstance(criterion, TotalError):
            raise IncompatibleParameters(
                f"{self!r} was requested together with the criterion {criterion.name!r}",
                "Allowed with an oblique projection is the criterion 'total_error'",
                "Use it, or MeanParity(), which combines with every criterion",
            )

    def constrained_means(self, moments: Moments) -> FloatArray:
        """The means that must agree, from the mean of one of the groups, (m, p).

        Raises
        ------
        InvalidInput
            The moments do not know the classes, or not this one.

        Examples
        --------
        >>> from fairspan import GroupMoments
        >>> X, groups = np.eye(4), [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
        >>> MeanParity().means_of(GroupMoments.from_rows(X, groups)).shape
        (4, 4)
        >>> marginal = MeanParity(attributes="marginal")
        >>> points = marginal.means_of(GroupMoments.from_rows(X, groups))
        >>> int(np.linalg.matrix_rank(points - points[0]))
        2
        """
        found = []
        for part in self._parts(moments):
            found += _mean_families(part, self.attributes, central_differences(part))
        if len(found) == 1:
            return found[0]
        # Every family is moved so that all have one point in common, which changes no difference.
        return np.vstack([family - family[_central(family)] for family in found])

    def variances_of(self, moments: Moments, columns: FloatArray | None = None) -> FloatArray:
        """Variances within the groups behind each of these means, of features or along columns."""
        found = []
        for part in self._parts(moments):
            found += _mean_families(part, self.attributes, variances_along(part, columns))
        return found[0] if len(found) == 1 else np.vstack(found)

    def _parts(self, moments: Moments) -> Sequence[Moments]:
        """Moments of the rows in which the means agree: all, or those of each class."""
        if self.within_classes is None or moments.n_groups == 1:
            return [moments]
        if moments.by_class is None:
            raise InvalidInput(
                f"within_classes is {self.within_classes!r}, and y is missing",
                "Allowed: the class of each row: an array, or the name of a column of X",
                "Pass y to fit, audit, verify and GroupMoments.from_rows",
                cause=Cause.MISSING_CLASSES,
            )
        return _moments_by_class(moments.by_class, self.within_classes)

    @property
    def forbids_mean_differences_only(self) -> bool:
        """Unless it has a tolerance, or rows are moved."""
        return self.tolerance == 0 and not self.oblique

    def allowed_directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray | None:
        """The directions among which V is chosen; None for all.

        Raises
        ------
        Incompatible
            Fewer than d are left.
        """
        return None if self.tolerance else equal_means_basis(means, covariances, n_components)

    def limit(self, means: FloatArray, covariances: FloatArray) -> ParityLimit | None:
        """The distance of the two means, if there is a tolerance."""
        return MeanDistanceLimit(means[0] - means[-1], self.tolerance) if self.tolerance else None


@dataclass(frozen=True)
class CovarianceParity(Restriction):
    """Require equal means and nearly equal covariances of two groups' projected rows.

    Let Q be the directions that exact :class:`MeanParity` allows. With `n_directions`, V lies in
    the span of the `n_directions` eigenvectors of Q'(C_1 - C_2)Q of smallest absolute eigenvalue,
    and of those whose eigenvalue is equal to the largest of these up to rounding, in which any
    criterion is minimised (Kleindessner et al. 2023). With `tolerance`, the spectral norm of
    V'(C_1 - C_2)V is at most `tolerance`, total error only (Olfat and Aswani 2019, see
    :mod:`fairspan.solvers.covariance_limit`).

    Parameters
    ----------
    n_directions : int, default=None
        From d to p - 1 (to p if the means agree already); fewer make the covariances more alike.
        None, with no tolerance, uses 85 % of the directions that mean parity allows, rounded down,
        and at least d. Directions without variance are taken last, that of the common mean first.
    tolerance : float, default=None
        Largest absolute difference of the groups' variances along a direction of the subspace, in
        squared (scaled) units of the features. Instead of `n_directions`. Zero makes them equal.
        The bound is that of a relaxation, so the gap is usually open; with solver="semidefinite"
        it is smaller, for up to 60 directions.

    Raises
    ------
    InvalidParameter, InvalidType
        A value out of range.
    Incompatible
        Both parameters at once. When fitting: more than two groups, n_directions below d or above
        what mean parity leaves, or a tolerance with another criterion or solver.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import CovarianceParity, FairPCA
    >>> X = np.array([[3.0, 1, 0], [-1, 1, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b"]
    >>> for n_directions in (2, 1):
    ...     parity = CovarianceParity(n_directions)
    ...     hidden = FairPCA(1, criterion="total_error", restriction=parity)
    ...     reduced = hidden.fit_transform(X, sensitive_features=groups)
    ...     print(reduced[:2].var().round(3), reduced[2:].var().round(3))
    0.0 4.0
    2.0 0.0
    """

    n_directions: int | None = None
    tolerance: float | None = None
    name: ClassVar[str] = "covariance_parity"
    is_rotation_equivariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.n_directions is not None:
            check_integer("n_directions", self.n_directions)
        if self.tolerance is not None:
            check_number("tolerance", self.tolerance, 0)
        make_plain(self)
        if self.n_directions is not None and self.tolerance is not None:
            raise IncompatibleParameters(
                f"CovarianceParity received n_directions={self.n_directions!r} and "
                f"tolerance={self.tolerance!r}",
                "Allowed: one of them, or neither: each is a way of its own",
                "Leave one of them out",
            )

    def check_compatible(
        self, group_labels: list[Label], criterion: Criterion, *, allow_extra: bool
    ) -> None:
        """Raise Incompatible unless it is defined for these groups and this criterion."""
        if len(group_labels) > 2:
            raise IncompatibleParameters(
                f"CovarianceParity received {counted(len(group_labels), 'group')}",
                "Allowed: two groups: it compares two covariances",
                "Use MeanParity(), which takes any number of groups, or join groups",
            )
        if self.tolerance is not None:
            check_tolerance_supported(
                self,
                group_labels,
                criterion,
                allow_extra=allow_extra,
                alternative="CovarianceParity(n_directions=...) combines with every criterion",
            )

    def allowed_directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray:
        """The directions among which V is chosen.

        Returns
        -------
        (p, n_directions) array
            Orthonormal columns; with a tolerance those of mean parity alone.

        Raises
        ------
        Incompatible
            Fewer than d directions, or fewer than were requested.
        """
        equal_means = equal_means_basis(means, covariances, n_components)
        if len(means) == 1:
            return equal_means
        varying, still = split_by_variance(equal_means, covariances)
        if n_components > varying.shape[1]:
            raise IncompatibleParameters(
                f"CovarianceParity received n_components={n_components}",
                f"Allowed: up to {varying.shape[1]}: along no more of the directions that mean "
                "parity leaves does any row vary about its group's mean",
                "Choose fewer components, or use MeanParity()",
            )
        values, vectors = np.linalg.eigh(varying.T @ (covariances[0] - covariances[1]) @ varying)
        singular_values = np.abs(values)
        if self.tolerance is not None:
            # Where one group varies more along all directions but those of no difference, equal
            # covariances require these, and the answer among them is exact. Directions without
            # variance would only stand for a feasible subspace of more.
            rounding = _DIFFERENCE_ROUNDING * singular_values.max()
            is_indefinite = values[0] < -rounding and values[-1] > rounding
            null_vectors = vectors[:, singular_values <= rounding]
            is_exact = (
                self.tolerance == 0 and not is_indefinite and null_vectors.shape[1] >= n_components
            )
            return np.asarray(varying @ null_vectors if is_exact else varying)
        n_directions, n_available = self.n_directions, equal_means.shape[1]
        if n_directions is None:
            n_directions = max(int(_DEFAULT_FRACTION * n_available), n_components)
        if not n_components <= n_directions <= n_available:
            raise IncompatibleParameters(
                f"CovarianceParity received n_directions={n_directions}",
                f"Allowed: {n_components} (n_components) to {n_available}: of "
                f"{counted(means.shape[1], 'feature')}, mean parity takes "
                f"{counted(means.shape[1] - n_available, 'direction')} away",
                "Choose a number in that range, or another n_components",
            )
        # Which of equal differences come first is rounding: all are taken, which hides as much.
        threshold = np.sort(singular_values)[:n_directions].max() + TIE_TOL * singular_values.max()
        selected = np.flatnonzero(singular_values <= threshold)
        # Along directions without variance groups are alike. Only along that of their common mean
        # may there be something to be kept, where errors are about the origin.
        still = still @ np.linalg.qr((means[:1] @ still).T, mode="complete")[0]
        return np.hstack(
            [varying @ vectors[:, selected], still[:, : max(n_directions - len(selected), 0)]]
        )

    def max_components(self, means: FloatArray, covariances: FloatArray) -> int:
        """The largest d that can be requested: along so many directions rows vary."""
        allowed = equal_means_basis(means, covariances, 1)
        if len(means) > 1:
            allowed = split_by_variance(allowed, covariances)[0][:, : self.n_directions]
        return int(allowed.shape[1])

    def limit(self, means: FloatArray, covariances: FloatArray) -> ParityLimit | None:
        """The difference of the two covariances, if there is a tolerance and a difference."""
        difference = covariances[0] - covariances[-1]
        is_negligible = np.abs(difference).max() <= _DIFFERENCE_ROUNDING * np.abs(covariances).max()
        return (
            None
            if self.tolerance is None or is_negligible
            else CovarianceDifferenceLimit(difference, self.tolerance)
        )


@dataclass(frozen=True)
class Uncorrelated(Restriction):
    """Require projected rows that are uncorrelated with some columns, such as age and income.

    With f a row's features and z its values in these columns, V'Cov(f, z) = 0: V lies in the
    complement of the span of the columns of S_fz = sum_i w_i (f_i - f)(z_i - z)' / sum_i w_i, in
    which any criterion is minimised. No linear function of the reduced rows then predicts z better
    than a constant. Where z indicates the groups, this is :class:`MeanParity`; the condition is
    that of LEACE (Belrose et al. 2023), by an orthogonal projection.

    The columns are no features: they do not count in any error, and `transform` needs none of them.

    Parameters
    ----------
    columns : str, int, or sequence of these
        Columns of numbers, by name, or by position where the rows have no names.
    within_groups : bool, default=False
        Whether the reduced rows are uncorrelated with the columns within each group, about the
        group's own means, instead of over all rows. This takes up to k times as many directions.

    Raises
    ------
    InvalidParameter, InvalidType
        No column, or the same one twice; `within_groups` neither True nor False.
    InvalidInput
        When fitting: a column that the rows do not have, or that does not vary.
    Incompatible
        When fitting: too few directions are left.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, Uncorrelated
    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(size=200)
    >>> X = np.column_stack([rng.normal(size=(200, 3)) + np.outer(age, [2, 1, 0]), age])
    >>> hidden = FairPCA(1, criterion="total_error", restriction=Uncorrelated([3]))
    >>> reduced = hidden.fit(X, sensitive_features=age > 0).transform(X[:, :3])
    >>> bool(abs(np.corrcoef(reduced[:, 0], age)[0, 1]) < 1e-12)
    True
    """

    columns: tuple[ColumnKey, ...] = ()
    within_groups: bool = field(default=False, kw_only=True)
    name: ClassVar[str] = "uncorrelated"
    forbids_mean_differences_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given: Any = self.columns
        columns = [given] if isinstance(given, str | int) else list(given)
        if not columns or len(set(columns)) < len(columns):
            raise InvalidParameter(
                f"columns is {given!r}",
                "Allowed: names of columns, or positions where the rows have no names, each once",
                'Name at least one, such as Uncorrelated(["age"])',
            )
        if not all(isinstance(each, str | int) and each is not True for each in columns):
            raise InvalidType(
                f"columns is {given!r}",
                "Allowed: names of columns, or whole numbers",
                'Write them as in Uncorrelated(["age"])',
            )
        object.__setattr__(self, "columns", tuple(columns))
        check_bool("within_groups", self.within_groups)
        make_plain(self)

    def constrained_means(self, moments: Moments) -> FloatArray:
        """The covariance of each feature with each column, and zero, (1 + m, p).

        In units of the feature, as the columns are divided by their deviation.

        Raises
        ------
        InvalidInput
            The moments are those of the features alone, or a column does not vary.
        """
        moments_used, column_positions = self._own(moments)
        features = np.arange(moments.n_features)
        deviations = np.sqrt(moments_used.variances[:, column_positions])
        divisors = moments_used.weights[:, None] * np.where(deviations > 0, deviations, 1.0)
        covariances = (
            moments_used.scatters[:, column_positions][:, :, features] / divisors[:, :, None]
        )
        return np.vstack([np.zeros((1, len(features))), *covariances])

    def variances_of(self, moments: Moments, columns: FloatArray | None = None) -> FloatArray:
        """Variances in the rows of each covariance: of features, or along (p, q) columns."""
        moments_used, beside = self._own(moments)
        within = variances_along(moments_used.select_features(range(moments.n_features)), columns)
        repeated = np.repeat(within, len(beside), axis=0)
        return np.vstack([np.zeros((1, within.shape[1])), repeated])

    def _own(self, moments: Moments) -> tuple[GroupMoments, list[int]]:
        """Moments of features and columns, of each group or of all rows, and where columns are."""
        whole = moments.all_columns if isinstance(moments, GroupMoments) else None
        if whole is None:
            raise InvalidInput(
                f"The restriction is {self!r}, and the moments hold the features alone",
                "Allowed: moments of the features and of these columns",
                "Make the moments of rows that have the columns",
            )
        beside = list(range(moments.n_features, whole.n_features))
        if whole.feature_names is not None:
            beside = list(column_positions(self.columns, whole.feature_names, whole.n_features))
        assert len(beside) == len(self.columns)
        varies = whole.standard_deviations[beside] > 0
        if not varies.all():
            constant_columns = [
                each
                for each, column_varies in zip(self.columns, varies, strict=True)
                if not column_varies
            ]
            raise InvalidInput(
                f"The columns {format_list(constant_columns)} of the restriction do not vary",
                "Allowed: columns with at least two values",
                "Leave them out of the restriction and of the rows",
            )
        by_group = replace(whole, by_class=None, is_made_here=True)
        moments_used = (
            by_group if self.within_groups else merge_moments([by_group], lambda label: "")
        )
        return moments_used, beside

    def allowed_directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray:
        """The directions among which V is chosen.

        Raises
        ------
        Incompatible
            Fewer than d are left.
        """
        return equal_means_basis(means, covariances, n_components)
