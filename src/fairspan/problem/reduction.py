"""From moments, and criteria by name, to the problem that solvers receive or verification poses.

A problem is made smaller where something is known of its answer: a restriction leaves some
directions, rows that are fewer than their features have coordinates of their own, nested components
leave what those before them do not take. Each of these is a :class:`Reduction`: a smaller problem,
and the map of its components back to the larger one.
"""

import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy.linalg import blas

from fairspan.errors import IncompatibleParameters, warn
from fairspan.formatting.text import counted, describe_position
from fairspan.moments.base import Center
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import (
    DenseSecondMoments,
    OrthogonalComplement,
    Projector,
    deflate,
)
from fairspan.moments.sparse import SparseSecondMoments
from fairspan.moments.wide import RowSpace, WideMoments
from fairspan.problem.criteria import Criterion
from fairspan.problem.problem import Problem
from fairspan.problem.restrictions import (
    CovarianceParity,
    MeanParity,
    ObliqueShift,
    Restriction,
    Uncorrelated,
    check_enough_directions,
    differences_of,
    mean_difference_directions,
    oblique_shift,
    pairs_to_compare,
    variances_along,
)
from fairspan.registry import builtin_names, resolve_object
from fairspan.rows.groups import format_list
from fairspan.typing import BoolArray, FloatArray, IndexArray

# Sums of squares in the directions that a restriction forbids are rounded by this share.
_SUM_ROUNDING = 8 * float(np.finfo(np.float64).eps)
# Directions are few where they are no more than one in so many.
_FEW_DIRECTIONS_DIVISOR = 20
# A column that is so many times as large as most may leave the others few digits.
_DOMINANCE_RATIO = 100.0
# Means that are to be equal may differ by this share of the standard deviation of a coordinate.
_MOST_APART = 1e-6
# Rows vary along directions with more than this share of the largest variance of a direction, where
# features are divided by their spread: the rest is rounding.
_VARIES = 1e-12
# What means differ by along directions without variance, in roundings of each feature.
_ROUNDINGS_APART = 64.0
_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Reduction:
    """A smaller problem, with the map of its components back to the larger one.

    Attributes
    ----------
    problem : Problem
    axes : (p, m) array or None
        Orthonormal columns, along which the coordinates of the smaller problem are; None where
        they are the features of the larger one.
    encoding : Encoding or None
        How rows are moved before they are projected, where a restriction is oblique; the problem
        is then that of the moved rows.
    """

    problem: Problem
    axes: FloatArray | None = None
    oblique_shift: ObliqueShift | None = None

    def lift(self, columns: FloatArray) -> FloatArray:
        """(m, r) columns in the coordinates of the larger problem, (p, r)."""
        return columns if self.axes is None else self.axes @ columns

    def projector(self, components: FloatArray) -> Projector:
        """The projection that (d, p) components of an answer stand for."""
        if self.oblique_shift is None:
            return Projector(components)
        return Projector(components @ self.oblique_shift.matrix, components.T)


@dataclass(frozen=True, eq=False)
class MeansApart:
    """By how much means differ that are to be equal, for each pair along each coordinate.

    Attributes
    ----------
    apart : (m, d) array
        With the rounding of the means.
    units : (m, d) array
        Standard deviation of the coordinate within the rows of the pair; zero where it is rounding.
    least : (m, d) array
        What rounding makes of no difference along a coordinate without variance.
    """

    apart: FloatArray
    units: FloatArray
    least: FloatArray


@dataclass(frozen=True, eq=False)
class ProblemFamily:
    """The problems of a criterion, one for each dimension.

    Attributes
    ----------
    any_dimension : Problem
        Without the restriction; its number of components is to be replaced.
    restriction : Restriction or None
        In the coordinates of the problem.
    moments : GroupMoments, SparseMoments or WideMoments
        What the problem was made of.
    point : (p,) array or None
        About which errors are measured; None for each group's own mean.
    coordinates : Coordinates or None
        Those of the problem, where it is not posed in the features.
    """

    template: Problem
    restriction: Restriction | None
    moments: Moments
    center_point: FloatArray | None
    coordinates: RowSpace | None

    def reduction_at(self, n_components: int) -> Reduction:
        """The problem at a dimension, in the directions that the restriction leaves.

        Raises
        ------
        Incompatible
            The restriction leaves too few directions.
        """
        unrestricted = replace(self.template, n_components=n_components)
        restriction = self.restriction
        if restriction is None:
            return Reduction(unrestricted)
        if not unrestricted.has_matrices:
            forbidden = self._forbidden_basis(n_components)
            sparse_moments = cast(SparseSecondMoments, unrestricted.second_moments)
            fixed_errors, common_error = unrestricted.criterion.split_fixed_errors(
                sparse_moments.captured_variances(forbidden)
            )
            second_moments = sparse_moments.forbid(forbidden, fixed_errors)
            return Reduction(
                replace(
                    unrestricted,
                    second_moments=second_moments,
                    parent=unrestricted,
                    fixed_errors=fixed_errors,
                    common_error=common_error,
                )
            )
        if restriction.oblique:
            return self._oblique_reduction(unrestricted)
        forbidden, axes, covariances = self._split_directions(restriction, n_components)
        if axes is None:
            return Reduction(
                replace(unrestricted, limit=restriction.limit(self._constrained_means, covariances))
            )
        limit = restriction.limit(self._constrained_means @ axes, covariances)
        fixed_errors, common_error, rounding = self._fixed_errors(unrestricted, forbidden)
        # Not from the second moments: means that lie far apart would leave their rounding.
        covariances = np.ascontiguousarray(covariances) if limit is None else covariances.copy()
        for matrix, offset in zip(covariances, self._mean_offsets @ axes, strict=True):
            # In place, as the matrix is in C order: a product of its own would take longer.
            blas.dger(1.0, offset, offset, a=matrix.T, overwrite_a=1)
        offset_rounding = np.abs(axes.T) @ unrestricted.dense_moments.offset_rounding_error
        problem = unrestricted.along(
            axes,
            second_moments=DenseSecondMoments(
                covariances, fixed_errors, offset_rounding, unrestricted.dense_moments.doubt
            ),
            parent=unrestricted,
            axes=axes,
            limit=limit,
            fixed_errors=fixed_errors,
            common_error=common_error,
            fixed_rounding=rounding,
            inner_variance_rounding=_SUM_ROUNDING * self.moments.variances.sum(axis=1),
        )
        return Reduction(problem, axes)

    @property
    def max_components(self) -> int:
        """The largest d that can be requested."""
        coordinates = self.coordinates
        maximum = self.template.n_features if coordinates is None else coordinates.max_components
        if self.restriction is None:
            return maximum
        if self.restriction.oblique:
            return min(maximum, self._oblique_shift.rank)
        return min(
            maximum, self.restriction.max_components(self._constrained_means, self._covariances)
        )

    @cached_property
    def _constrained_means(self) -> FloatArray:
        """The points whose differences the restriction removes, from one of them, (m, p).

        Where errors are about the origin, covariance parity also takes the direction of the means
        from them: what they have in common is added, as short as keeps the digits of differences.
        """
        restriction = cast(Restriction, self.restriction)
        points = restriction.constrained_means(self.moments)
        if not isinstance(restriction, CovarianceParity):
            return points
        common = self._mean_from_point
        length = float(np.linalg.norm(common))
        most = float(np.linalg.norm(self.moments.standard_deviations))
        if length > most:
            common = common * (most / length)
        return points + common

    @cached_property
    def _mean_from_point(self) -> FloatArray:
        """Mean of all rows minus the point about which errors are measured, (p,)."""
        if self.center_point is None:
            return np.zeros(self.moments.n_features)
        return np.asarray(self.moments.proportions @ self._mean_offsets)

    @cached_property
    def _mean_offsets(self) -> FloatArray:
        """The groups' means, from the point about which errors are measured, (k, p)."""
        return self.moments.offsets_from(self.center_point)

    @cached_property
    def _scatters(self) -> FloatArray:
        """Sums of weighted squares and products about each group's own mean, (k, p, p)."""
        return self.moments.to_dense().scatters

    @cached_property
    def _covariances(self) -> FloatArray:
        """About each group's own mean, (k, p, p)."""
        return self._scatters / self.moments.weights[:, None, None]

    @cached_property
    def _oblique_shift(self) -> ObliqueShift:
        differences = self._differences
        problem = self.template
        return oblique_shift(problem.dense_moments.mixture(problem.proportions), differences)

    @cached_property
    def _variances(self) -> FloatArray:
        """Of each feature in the rows of each of these means."""
        return cast(Restriction, self.restriction).variances_of(self.moments)

    @cached_property
    def _differences(self) -> FloatArray:
        """Independent columns of unit length, (p, r), that span all differences of the means."""
        return mean_difference_directions(self._constrained_means, self._variances, self._pairs)

    def means_surely_agree(self, columns: FloatArray) -> bool:
        """Whether means that are to be equal are, by the coarsest bound, along (p, d) columns."""
        first, second = self._pairs.T
        units = self._squared_units(columns)
        squares, of_features = columns**2, self._variances_of_pairs
        rounding = self._variance_rounding(of_features, squares) + self._spilled(
            of_features, squares
        )
        if not (units > 2 * rounding).all():
            return False
        apart = np.abs(
            (self._constrained_means[second] - self._constrained_means[first]) @ columns
        ).max(initial=0.0)
        share = len(columns) * _EPSILON + self.template.orthogonality_defect
        longest = np.sqrt(len(columns)) * self._sizes.max(initial=0.0)
        most = float(apart + share * longest * np.linalg.norm(columns, axis=0).max())
        # Half of the variance may be rounding.
        return bool(2 * most**2 <= _MOST_APART**2 * units.min(initial=np.inf))

    def means_apart(self, columns: FloatArray) -> MeansApart:
        """By how much means differ that are to be equal, along each of (p, d) columns."""
        first, second = self._pairs.T
        differences = self._constrained_means[second] - self._constrained_means[first]
        # With more digits than the columns have, where the machine has such numbers.
        exact = np.abs(differences.astype(np.longdouble) @ columns.astype(np.longdouble))
        sizes, squares = self._sizes, columns**2
        rounding = _EPSILON / 2 * np.sqrt(sizes**2 @ squares)
        if self.template.orthogonality_defect:
            lengths = np.linalg.norm(differences, axis=1)[:, None] * np.sqrt(squares.sum(axis=0))
            rounding += self.template.orthogonality_defect * lengths
        units, unknown = self._squared_units(columns), self._variances_of_pairs
        is_rounding = self._is_constant(columns, units, unknown, self._squared_units)
        least = np.zeros_like(rounding)
        if is_rounding.any():
            units, is_rounding = self._units_of_others(columns, units, is_rounding)
            # Entries of the columns are rounded to a share of themselves, and of one.
            squared_sizes = sizes**2 + unknown
            spilled = squared_sizes @ squares
            spilled += squared_sizes.sum(axis=1)[:, None] * squares.sum(axis=0)
            least[is_rounding] = _ROUNDINGS_APART * _EPSILON * np.sqrt(spilled[is_rounding])
            if (within := self._within) > 0:
                # Beside numbers so large that all variance is rounding, nothing is known.
                least = np.minimum(least, _MOST_APART * within)
        apart = np.asarray(exact, dtype=np.float64) + rounding
        return MeansApart(apart, np.where(is_rounding, 0.0, np.sqrt(units)), least)

    def _squared_units(self, columns: FloatArray) -> FloatArray:
        """Return the variances that differences along (p, d) columns are compared with, (m, d)."""
        restriction = cast(Restriction, self.restriction)
        along = restriction.variances_of(self.moments, columns)
        units = along[self._pairs].max(axis=1)
        if isinstance(restriction, Uncorrelated):
            return np.asarray(units)
        # A pair of groups may vary more than the rows of all groups do.
        return np.asarray(np.minimum(units, self._pooled_variances(columns)))

    def _pooled_variances(self, columns: FloatArray) -> FloatArray:
        """Return the variance of all rows about their groups' means along (p, d) columns, (d,)."""
        return np.asarray(self.moments.proportions @ variances_along(self.moments, columns))

    @cached_property
    def _variances_of_pairs(self) -> FloatArray:
        """The larger variance of each feature in the rows of a pair of means, (m, p)."""
        return np.asarray(self._variances[self._pairs].max(axis=1))

    def _units_of_others(
        self, columns: FloatArray, units: FloatArray, is_rounding: BoolArray
    ) -> tuple[FloatArray, BoolArray]:
        """Squared units, those of all groups between groups of equal rows; and where none is."""
        of_all = self._pooled_variances(columns)
        of_features = self.moments.proportions @ self.moments.variances
        none = self._is_constant(columns, of_all, of_features, self._pooled_variances)
        return np.where(is_rounding, of_all, units), is_rounding & none

    def _is_constant(
        self,
        columns: FloatArray,
        variances: FloatArray,
        of_features: FloatArray,
        variances_of: Callable[[FloatArray], FloatArray],
    ) -> BoolArray:
        """Return where rows vary along a column by no more than rounding.

        A variance is computed up to a share of what the features of the column have. Entries of a
        column are rounded to a share of its length, which brings in every feature; so entries that
        are no larger count as zero. What varies without them is no rounding, however little it is
        beside other features.

        Parameters
        ----------
        columns : (p, d) array
        variances : (..., d) array
            Along the columns.
        of_features : (..., p) array
            Variances of the features in the same rows.
        variances_of : callable
            Returns such variances along other columns.
        """
        squares = columns**2
        is_rounding = variances <= self._variance_rounding(of_features, squares)
        is_spilled = variances <= self._spilled(of_features, squares)
        if (is_spilled & ~is_rounding).any():
            least_entry = self._rounding_of_entries * np.linalg.norm(columns, axis=0)
            kept = np.where(np.abs(columns) > least_entry, columns, 0.0)
            varies = variances_of(kept) > self._variance_rounding(of_features, kept**2)
            is_rounding |= is_spilled & ~varies
        return np.asarray(is_rounding)

    def _variance_rounding(self, of_features: FloatArray, squares: FloatArray) -> FloatArray:
        """Return the rounding of variances along columns, of those of features and squares."""
        return np.asarray(len(squares) * _SUM_ROUNDING * (of_features @ squares))

    def _spilled(self, of_features: FloatArray, squares: FloatArray) -> FloatArray:
        """Return the variance along columns that rounding of their entries may bring in."""
        in_all = np.multiply.outer(of_features.sum(axis=-1), squares.sum(axis=0))
        return np.asarray(self._rounding_of_entries**2 * in_all)

    @property
    def _rounding_of_entries(self) -> float:
        """The rounding of the entries of a column, as a share of its length."""
        return _SUM_ROUNDING + self.template.orthogonality_defect

    @property
    def _within(self) -> float:
        """Standard deviation of the rows about the means of their groups, of all features."""
        rows = self.moments if self.coordinates is None else self.coordinates.moments_of_rows
        return float(np.sqrt(rows.proportions @ rows.variances.sum(axis=1)))

    def largest_column(self, pair: int, component: FloatArray) -> str:
        """The feature whose rounding in a pair of means moves a coordinate most, in words."""
        largest = int(np.argmax(self._sizes[pair] * np.abs(component)))
        names = self.moments.feature_names
        return (
            describe_position("column", largest) if names is None else f"column {names[largest]!r}"
        )

    @cached_property
    def _sizes(self) -> FloatArray:
        """How large numbers are that are rounded where a pair of means is compared, (m, p)."""
        about = self.moments.mean if self.center_point is None else self.center_point
        if isinstance(self.restriction, Uncorrelated):
            # A covariance is a sum of products of deviations, and of those of the groups' means.
            sizes, about = np.sqrt(self._variances)[self._pairs].max(axis=1), self.moments.mean
            if self.restriction.within_groups:
                return np.asarray(sizes)
        else:
            sizes = np.abs(self._constrained_means)[self._pairs].max(axis=1)
        # Rows are transformed about the point, the differences from which are rounded as well.
        offsets = np.abs(self.moments.offsets_from(about)).max(axis=0)
        if self.moments.matrix_free:  # products with sparse rows are taken before
            offsets = np.maximum(offsets, np.abs(self.moments.mean))
        return np.asarray(np.maximum(sizes, offsets))

    @cached_property
    def _pairs(self) -> IndexArray:
        return pairs_to_compare(self._constrained_means, self._variances)

    def _forbidden_basis(self, n_components: int) -> FloatArray:
        """Orthonormal columns, (p, r): all that is forbidden where few directions are."""
        columns = self._differences
        check_enough_directions(n_components, len(columns), columns.shape[1])
        return np.linalg.qr(columns)[0]

    def _split_directions(
        self, restriction: Restriction, n_components: int
    ) -> tuple[FloatArray, FloatArray | None, FloatArray]:
        """What is forbidden, what is left (Q; None for all), and Q'C_gQ of each group.

        Where few of many directions are forbidden, what is left has a basis in which that takes
        products with those few alone.
        """
        p = self._constrained_means.shape[1]
        if restriction.forbids_mean_differences_only:
            forbidden = self._forbidden_basis(n_components)
            complement = OrthogonalComplement.of_differences(self._differences)
            basis = complement.basis
            if forbidden.shape[1] <= p // _FEW_DIRECTIONS_DIVISOR:
                covariances = complement.compress(self._scatters, 1 / self.moments.weights)
            else:
                covariances = np.array([basis.T @ each @ basis for each in self._covariances])
            return forbidden, basis, covariances
        axes = restriction.allowed_directions(
            self._constrained_means, self._covariances, n_components
        )
        if axes is None:
            return self._constrained_means[:0].T, None, self._covariances
        forbidden = np.linalg.qr(axes, mode="complete")[0][:, axes.shape[1] :]
        covariances = np.array([axes.T @ each @ axes for each in self._covariances])
        return forbidden, axes, covariances

    @property
    def _rank_within_groups(self) -> int:
        """The number of directions along which rows vary about the means of their groups.

        It is that of correlations, in which no column is too small to count.
        """
        pooled = np.tensordot(self.moments.proportions, self._covariances, axes=1)
        spreads = np.sqrt(np.maximum(np.diag(pooled), 0.0))
        units = np.where(spreads > 0, spreads, 1.0)
        eigenvalues = np.linalg.eigvalsh(pooled / units / units[:, None])
        return int(np.count_nonzero(eigenvalues > _VARIES * eigenvalues[-1]))

    def _oblique_reduction(self, unrestricted: Problem) -> Reduction:
        """The problem of rows that an oblique restriction moves first: the same for all groups.

        What matters is the total error, which is that of the moved rows and what moving them costs.
        """
        encoding, k, p = self._oblique_shift, unrestricted.n_groups, unrestricted.n_features
        if unrestricted.n_components > encoding.rank:
            if unrestricted.n_components <= self._rank_within_groups - (k - 1):
                raise IncompatibleParameters(
                    f"{self.restriction!r} was requested with n_components={unrestricted.n_components}, "
                    "and the means of the groups lie so far apart that double precision resolves "
                    f"{counted(encoding.rank, 'direction')} along which rows vary within them",
                    "Allowed: differences of means that leave digits for how rows vary within "
                    "groups",
                    "Look for wrong entries in the group that lies far away, such as codes of "
                    "missing values; or leave out that group",
                )
            raise IncompatibleParameters(
                f"n_components is {unrestricted.n_components} with {self.restriction!r}",
                f"Allowed: at most {encoding.rank}: once their means agree, the rows vary along "
                "no more directions",
                "Choose fewer components",
            )
        shifted_moments = DenseSecondMoments(
            np.broadcast_to(encoding.shifted_second_moment, (k, p, p)),
            offset_rounding_error=unrestricted.dense_moments.offset_rounding_error,
            doubt=unrestricted.dense_moments.doubt,
        )
        problem = replace(
            unrestricted,
            second_moments=shifted_moments,
            parent=unrestricted,
            common_error=encoding.variance_lost,
            fixed_rounding=_SUM_ROUNDING * encoding.variance_lost,
            inner_variance_rounding=_SUM_ROUNDING * shifted_moments.traces,
            oblique_rounding=encoding.rounding,
        )
        return Reduction(problem, oblique_shift=encoding)

    def _fixed_errors(
        self, unrestricted: Problem, forbidden: FloatArray
    ) -> tuple[FloatArray, float, FloatArray]:
        """What counts of each group's errors beside the directions left, what all lose alike.

        And by how much rounding may have moved both.
        """
        within = np.array([np.vdot(forbidden, each @ forbidden) for each in self._scatters])
        outside = within / self.moments.weights + ((self._mean_offsets @ forbidden) ** 2).sum(
            axis=1
        )
        offset_rounding = float(np.linalg.norm(unrestricted.dense_moments.offset_rounding_error))
        counted, common_error = unrestricted.criterion.split_fixed_errors(outside)
        total_fixed = counted + common_error
        rounding = (
            2 * np.sqrt(total_fixed) * offset_rounding
            + offset_rounding**2
            + _SUM_ROUNDING * total_fixed
        )
        return counted, common_error, rounding


def check_means_agree(family: ProblemFamily, projector: Projector) -> None:
    """Make sure that an answer removes the differences that its restriction names.

    The directions left are rounded, and so are the means: beside numbers that are many times as
    large as they vary, that may be as much as coordinates vary.

    Parameters
    ----------
    family : ProblemFamily
    projector : Projector
        The answer, in the coordinates of the problems.

    Raises
    ------
    Incompatible
        Along some coordinate, means differ by more than a millionth of its standard deviation.
    """
    restriction = family.restriction
    if not isinstance(restriction, MeanParity | CovarianceParity | Uncorrelated):
        return
    if family.moments.n_groups == 1 and not isinstance(restriction, Uncorrelated):
        return
    tolerance = restriction.tolerance if isinstance(restriction, MeanParity) else 0.0
    if not tolerance and family.means_surely_agree(projector.encoder.T):
        return
    found = family.means_apart(projector.encoder.T)
    allowed = np.maximum(_MOST_APART * found.units, found.least)
    excess = found.apart
    if tolerance > 0:
        excess = np.maximum(np.linalg.norm(found.apart, axis=1, keepdims=True) - tolerance, 0.0)
        # A distance in all coordinates: that along which rows vary least says what is rounding.
        pooled = family.moments.proportions @ variances_along(family.moments, projector.encoder.T)
        least = float(np.sqrt(pooled.min()))
        allowed = np.full_like(allowed, _MOST_APART * max(tolerance, least))
    if (excess <= allowed).all():
        return
    with np.errstate(divide="ignore"):
        shares = np.broadcast_to(excess / found.units, found.apart.shape)
    pair, component = np.unravel_index(int(np.argmax(shares)), shares.shape)
    share = float(shares[pair, component])
    size = f"by {share:.1e} of its standard deviation" if np.isfinite(share) else "by rounding"
    where = "in some column"
    if family.coordinates is None:
        where = f"in {family.largest_column(int(pair), projector.encoder[component])}"
    raise IncompatibleParameters(
        f"{restriction!r} was requested, and double precision misses it along component "
        f"{int(component) + 1}, {size}",
        f"Allowed: by at most {_MOST_APART:.0e} of it. The numbers {where} are so large, in a "
        "group or in all, that too few digits are left for how they vary",
        "Look for wrong entries there, such as codes of missing values; subtract a constant from "
        "the column if all rows are far from zero; or leave out the column or the group",
    )


def build_problem_family(
    moments: Moments,
    n_components: int | float,
    criterion: Criterion,
    *,
    restriction: Restriction | None = None,
    center: Center = "global",
    feature_scale: FloatArray | None = None,
    allow_extra: bool = False,
    second_moments: DenseSecondMoments | None = None,
) -> ProblemFamily:
    """The problems of a criterion.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        Thin ones are posed in the coordinates of the rows.
    n_components : int or float
        d, or a share of every group's variance.
    criterion : Criterion
    restriction : Restriction or None
    center : {"global", "group", "none"}
    divisor : (p,) array, optional
        What each feature is divided by.
    allow_extra : bool
    second : DenseSecondMoments, optional
        Those of the same moments about the same centre, of which some eigenproblems are solved.

    Returns
    -------
    ProblemFamily

    Raises
    ------
    Incompatible, UnknownGroup
        The criterion or the restriction is not defined for these groups.
    """
    scaled_moments = moments if feature_scale is None else moments.divided_by(feature_scale)
    deviations = scaled_moments.standard_deviations
    # Coordinates of few rows turn the features, which a restriction may treat differently.
    allows_rotation = restriction is None or restriction.is_rotation_equivariant
    thin_moments = (
        scaled_moments if isinstance(scaled_moments, WideMoments) and allows_rotation else None
    )
    coordinates = (
        None if thin_moments is None else thin_moments.reduce_to_row_space(n_components, center)
    )
    if coordinates is None:
        problem_moments: Moments = (
            scaled_moments if scaled_moments.matrix_free else scaled_moments.to_dense()
        )
        center_point = scaled_moments.center_point(center)
    else:
        problem_moments, center_point = coordinates.moments, coordinates.point
    problem = Problem(
        problem_moments.second_moments_about(center_point)
        if second_moments is None
        else second_moments,
        moments.labels,
        moments.weights,
        int(n_components) if isinstance(n_components, numbers.Integral) else 1,
        criterion,
        allow_extra,
        orthogonality_defect=0.0 if coordinates is None else coordinates.orthogonality_defect,
        span_residuals=0.0 if coordinates is None else coordinates.span_residuals(),
        smallest_feature_variance=float(deviations[deviations > 0].min(initial=np.inf)) ** 2,
        weight_exponent=moments.weight_exponent,
    )
    if restriction is not None:
        restriction.check_compatible(moments.labels, criterion, allow_extra=allow_extra)
        if center != "global" and restriction.oblique:
            raise IncompatibleParameters(
                f"{restriction!r} was requested with center={center!r}",
                "Allowed: center='global': rows are moved about the mean of all of them",
                "Use center='global', or an orthogonal restriction",
            )
        if coordinates is not None:
            restriction = _restriction_in_coordinates(
                restriction, coordinates, problem.n_components
            )
    return ProblemFamily(problem, restriction, problem_moments, center_point, coordinates)


def compute_feature_scale(moments: Moments) -> FloatArray:
    """What features are divided by where they are to be scaled: 1 for those that are constant."""
    deviations = moments.standard_deviations
    constant = deviations == 0
    if constant.any():
        names = moments.feature_names or tuple(map(str, range(moments.n_features)))
        columns = [name for name, is_constant in zip(names, constant, strict=True) if is_constant]
        warn(
            f"These columns are constant and stay unscaled: {format_list(columns)}. Scaling needs "
            "columns that vary. They carry no variance, so you can leave them out."
        )
    return np.where(constant, 1.0, deviations)


def describe_dominant_feature(moments: Moments, center: Center) -> str | None:
    """Which feature is so large that others are rounding beside it, in words; None of none."""
    spreads = moments.standard_deviations
    if center == "none":
        spreads = np.hypot(spreads, moments.mean)
    largest = int(np.argmax(spreads))
    names = moments.feature_names or tuple(map(str, range(moments.n_features)))
    others = np.delete(spreads, largest)
    ratio = float(spreads[largest]) / np.median(others[others > 0]) if others.any() else np.inf
    if ratio < _DOMINANCE_RATIO:
        return None
    ratio_text = f", {ratio:.0e} times as large as most" if np.isfinite(ratio) else ""
    return f"the column {names[largest]!r} is the largest{ratio_text}"


def _restriction_in_coordinates(
    restriction: Restriction, coordinates: RowSpace, n_components: int
) -> Restriction:
    """The restriction in coordinates that is equivalent to that of all features.

    Rows that are fewer than their features have coordinates in which most directions without
    variance are left out (:mod:`fairspan.moments.wide`). A restriction counts those as well.

    Raises
    ------
    Incompatible
        Fewer directions are left than components or directions were requested, or it is not said
        how many.
    """
    # A restriction that counts no directions means the same in all coordinates.
    counts_directions = isinstance(restriction, CovarianceParity) and restriction.tolerance is None
    if not restriction.forbids_mean_differences_only and not counts_directions:
        return restriction
    moments, n_features = coordinates.moments, coordinates.moments_of_rows.n_features
    rank = differences_of(restriction, moments).shape[1]
    n_available = n_features - rank
    check_enough_directions(n_components, n_features, rank)
    if not isinstance(restriction, CovarianceParity) or moments.n_groups == 1:
        return restriction
    n_directions = restriction.n_directions
    if n_directions is None or not n_components <= n_directions <= n_available:
        n_varying = coordinates.n_axes
        raise IncompatibleParameters(
            f"{restriction!r} was requested with rows that vary along only {n_varying} of "
            f"{counted(n_features, 'direction')}",
            f"Allowed: a number n_directions from {n_components} to {n_available}; unless it is above "
            f"{n_features - n_varying}, no direction with variance needs to be among them",
            "Choose such a number, or another n_components",
        )
    # Directions without variance, which the coordinates leave out, are taken last.
    return replace(restriction, n_directions=min(n_directions, moments.n_features - rank))


def check_nesting_supported(
    criterion: Criterion, restriction: Restriction | None, *, allow_extra: bool
) -> None:
    """Make sure that components can be nested.

    Raises
    ------
    Incompatible
        The criterion or the restriction does not say so of itself, or a soft projection is allowed.
    """
    if not criterion.supports_nesting:
        supported = [
            name for name in builtin_names("criterion") if get_criterion(name).supports_nesting
        ]
        raise IncompatibleParameters(
            f"nested=True was requested with {criterion!r}",
            f"Allowed: the criteria {', '.join(map(repr, supported))}, with default settings",
            "Use one of these, or nested=False",
        )
    if restriction is not None and not restriction.forbids_mean_differences_only:
        raise IncompatibleParameters(
            f"nested=True was requested with {restriction!r}",
            "Allowed: restrictions that leave the same directions for every number of "
            "components, such as MeanParity()",
            "Use MeanParity(), or nested=False",
        )
    if allow_extra:
        raise IncompatibleParameters(
            "nested=True was requested with allow_extra=True",
            "Allowed with nested components: allow_extra=False, as each of them is one direction",
            "Leave out one of the two",
        )


def deflate_reduction(reduction: Reduction, basis: FloatArray) -> Reduction:
    """The problem of the next of nested components, in what those before it leave.

    Component v_r minimises the criterion over the unit vectors that are orthogonal to
    V = (v_1 .. v_(r-1)), where the second moments are P S_g P, P = I - VV': for the largest loss,
    max_g (lambda_1(P S_g P) - v'S_gv). So the first d components are an answer of d dimensions for
    every d, and d can be cut later (Matakos et al. 2025). Every step is the problem of d = 1,
    proven given the steps before it; the first d components together need not be optimal among all
    subspaces of d dimensions.

    Parameters
    ----------
    reduction : Reduction
        The problem of a single component.
    basis : (p, r) array
        The components before it: orthonormal columns, r < p.

    Returns
    -------
    Reduction
        In coordinates beside these; where the rows stay sparse, in those of the features.
    """
    problem, unrestricted = reduction.problem, reduction.problem.unrestricted
    if not basis.shape[1]:
        return reduction
    if not problem.has_matrices:
        inside, deflated_unrestricted = (
            cast(SparseSecondMoments, each.second_moments).forbid(basis)
            for each in (problem, unrestricted)
        )
        unrestricted = replace(unrestricted, second_moments=deflated_unrestricted)
        problem = replace(problem, second_moments=inside, parent=unrestricted)
        return replace(reduction, problem=problem)
    if reduction.axes is None:
        complement, problem = _deflate_problem(problem, basis)
        return Reduction(problem, complement.basis)
    complement, problem = _deflate_problem(problem, reduction.axes.T @ basis)
    unrestricted_complement, unrestricted = _deflate_problem(unrestricted, basis)
    axes = complement.coordinates(reduction.axes.T).T
    problem = replace(problem, parent=unrestricted, axes=unrestricted_complement.coordinates(axes))
    return Reduction(problem, axes)


def _deflate_problem(problem: Problem, basis: FloatArray) -> tuple[OrthogonalComplement, Problem]:
    """What is orthogonal to a basis in a problem's coordinates, and the problem there."""
    left, rounding, complement = deflate(problem.dense_moments, basis)
    rounding = rounding + problem.fixed_rounding
    # A warm start of the components before is none of the next one.
    return complement, replace(
        problem, second_moments=left, fixed_rounding=rounding, warm_start=None
    )


def get_criterion(criterion: object, **parameters: Any) -> Criterion:
    """A criterion from its name and parameters, or the object itself.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter, or a parameter out of range.
    InvalidType
        Neither a name nor an object that has what a criterion has.

    Examples
    --------
    >>> get_criterion("error_gap", penalty=2.0)
    ErrorGap(penalty=2.0)
    """
    return cast(Criterion, resolve_object("criterion", criterion, Criterion, parameters))


def get_restriction(restriction: object, **parameters: Any) -> Restriction | None:
    """A restriction from its name and parameters, the object itself, or None.

    Raises
    ------
    InvalidParameter, InvalidType
        As of :func:`get_criterion`.

    Examples
    --------
    >>> get_restriction("mean_parity")
    MeanParity(tolerance=0.0)
    """
    if restriction is None:
        return None
    return cast(Restriction, resolve_object("restriction", restriction, Restriction, parameters))
