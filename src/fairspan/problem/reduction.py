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

from fairspan.errors import Incompatible, warn
from fairspan.formatting.text import counted, position
from fairspan.moments.group_means import Center
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import (
    Complement,
    DenseSecondMoments,
    Projector,
    deflated,
)
from fairspan.moments.sparse import SparseSecondMoments
from fairspan.moments.thin import Coordinates, ThinMoments
from fairspan.problem.criteria import Criterion
from fairspan.problem.problem import Problem
from fairspan.problem.restrictions import (
    CovarianceParity,
    Encoding,
    MeanParity,
    Restriction,
    Uncorrelated,
    check_enough_left,
    differences_of,
    encoding_without,
    mean_differences,
    pairs_to_compare,
    variances_along,
)
from fairspan.registry import names_of, object_of
from fairspan.rows.groups import listed
from fairspan.typing import BoolArray, FloatArray, IndexArray

# Sums of squares in the directions that a restriction forbids are rounded by this share.
_ROUNDINGS = 8 * float(np.finfo(np.float64).eps)
# Directions are few where they are no more than one in so many.
_FEW_OF = 20
# A column that is so many times as large as most may leave the others few digits.
_FAR_LARGER = 100.0
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
    encoding: Encoding | None = None

    def lift(self, columns: FloatArray) -> FloatArray:
        """(m, r) columns in the coordinates of the larger problem, (p, r)."""
        return columns if self.axes is None else self.axes @ columns

    def projector(self, components: FloatArray) -> Projector:
        """The projection that (d, p) components of an answer stand for."""
        if self.encoding is None:
            return Projector(components)
        return Projector(components @ self.encoding.mover, components.T)


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
    moments : GroupMoments, SparseMoments or ThinMoments
        What the problem was made of.
    point : (p,) array or None
        About which errors are measured; None for each group's own mean.
    coordinates : Coordinates or None
        Those of the problem, where it is not posed in the features.
    """

    any_dimension: Problem
    restriction: Restriction | None
    moments: Moments
    point: FloatArray | None
    coordinates: Coordinates | None

    def at(self, n_components: int) -> Reduction:
        """The problem at a dimension, in the directions that the restriction leaves.

        Raises
        ------
        Incompatible
            The restriction leaves too few directions.
        """
        whole = replace(self.any_dimension, n_components=n_components)
        restriction = self.restriction
        if restriction is None:
            return Reduction(whole)
        if not whole.has_matrices:
            forbidden = self._forbidden(n_components)
            sparse = cast(SparseSecondMoments, whole.second_moments)
            outside, common = whole.criterion.lost(sparse.captured_variances(forbidden))
            second = sparse.beside(forbidden, outside)
            return Reduction(
                replace(
                    whole,
                    second_moments=second,
                    unrestricted=whole,
                    fixed=outside,
                    left_out=common,
                )
            )
        if restriction.oblique:
            return self._of_moved_rows(whole)
        forbidden, axes, within = self._split(restriction, n_components)
        if axes is None:
            return Reduction(replace(whole, limit=restriction.limit(self._means, within)))
        limit = restriction.limit(self._means @ axes, within)
        outside, common, rounding = self._outside(whole, forbidden)
        # Not from the second moments: means that lie far apart would leave their rounding.
        within = np.ascontiguousarray(within) if limit is None else within.copy()
        for matrix, offset in zip(within, self._offsets @ axes, strict=True):
            # In place, as the matrix is in C order: a product of its own would take longer.
            blas.dger(1.0, offset, offset, a=matrix.T, overwrite_a=1)
        moved = np.abs(axes.T) @ whole.dense.offset_rounding
        problem = whole.along(
            axes,
            second_moments=DenseSecondMoments(within, outside, moved, whole.dense.doubt),
            unrestricted=whole,
            axes=axes,
            limit=limit,
            fixed=outside,
            left_out=common,
            fixed_rounding=rounding,
            inner_rounding=_ROUNDINGS * self.moments.variances.sum(axis=1),
        )
        return Reduction(problem, axes)

    @property
    def most_components(self) -> int:
        """The largest d that can be requested."""
        known = self.coordinates
        most = self.any_dimension.n_features if known is None else known.most_components
        if self.restriction is None:
            return most
        if self.restriction.oblique:
            return min(most, self._encoding.rank)
        return min(most, self.restriction.most_components(self._means, self._covariances))

    @cached_property
    def _means(self) -> FloatArray:
        """The points whose differences the restriction removes, from one of them, (m, p).

        Where errors are about the origin, covariance parity also takes the direction of the means
        from them: what they have in common is added, as short as keeps the digits of differences.
        """
        restriction = cast(Restriction, self.restriction)
        points = restriction.means_of(self.moments)
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
        if self.point is None:
            return np.zeros(self.moments.n_features)
        return np.asarray(self.moments.proportions @ self._offsets)

    @cached_property
    def _offsets(self) -> FloatArray:
        """The groups' means, from the point about which errors are measured, (k, p)."""
        return self.moments.offsets_from(self.point)

    @cached_property
    def _scatters(self) -> FloatArray:
        """Sums of weighted squares and products about each group's own mean, (k, p, p)."""
        return self.moments.matrices().scatters

    @cached_property
    def _covariances(self) -> FloatArray:
        """About each group's own mean, (k, p, p)."""
        return self._scatters / self.moments.weights[:, None, None]

    @cached_property
    def _encoding(self) -> Encoding:
        differences = self._differences
        problem = self.any_dimension
        return encoding_without(problem.dense.mixture(problem.proportions), differences)

    @cached_property
    def _variances(self) -> FloatArray:
        """Of each feature in the rows of each of these means."""
        return cast(Restriction, self.restriction).variances_of(self.moments)

    @cached_property
    def _differences(self) -> FloatArray:
        """Independent columns of unit length, (p, r), that span all differences of the means."""
        return mean_differences(self._means, self._variances, self._pairs)

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
        apart = np.abs((self._means[second] - self._means[first]) @ columns).max(initial=0.0)
        share = len(columns) * _EPSILON + self.any_dimension.stretched
        longest = np.sqrt(len(columns)) * self._sizes.max(initial=0.0)
        most = float(apart + share * longest * np.linalg.norm(columns, axis=0).max())
        # Half of the variance may be rounding.
        return bool(2 * most**2 <= _MOST_APART**2 * units.min(initial=np.inf))

    def means_apart(self, columns: FloatArray) -> MeansApart:
        """By how much means differ that are to be equal, along each of (p, d) columns."""
        first, second = self._pairs.T
        differences = self._means[second] - self._means[first]
        # With more digits than the columns have, where the machine has such numbers.
        exact = np.abs(differences.astype(np.longdouble) @ columns.astype(np.longdouble))
        sizes, squares = self._sizes, columns**2
        rounding = _EPSILON / 2 * np.sqrt(sizes**2 @ squares)
        if self.any_dimension.stretched:
            lengths = np.linalg.norm(differences, axis=1)[:, None] * np.sqrt(squares.sum(axis=0))
            rounding += self.any_dimension.stretched * lengths
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
        return np.asarray(len(squares) * _ROUNDINGS * (of_features @ squares))

    def _spilled(self, of_features: FloatArray, squares: FloatArray) -> FloatArray:
        """Return the variance along columns that rounding of their entries may bring in."""
        in_all = np.multiply.outer(of_features.sum(axis=-1), squares.sum(axis=0))
        return np.asarray(self._rounding_of_entries**2 * in_all)

    @property
    def _rounding_of_entries(self) -> float:
        """The rounding of the entries of a column, as a share of its length."""
        return _ROUNDINGS + self.any_dimension.stretched

    @property
    def _within(self) -> float:
        """Standard deviation of the rows about the means of their groups, of all features."""
        rows = self.moments if self.coordinates is None else self.coordinates.thin
        return float(np.sqrt(rows.proportions @ rows.variances.sum(axis=1)))

    def largest_column(self, pair: int, component: FloatArray) -> str:
        """The feature whose rounding in a pair of means moves a coordinate most, in words."""
        largest = int(np.argmax(self._sizes[pair] * np.abs(component)))
        names = self.moments.feature_names
        return position("column", largest) if names is None else f"column {names[largest]!r}"

    @cached_property
    def _sizes(self) -> FloatArray:
        """How large numbers are that are rounded where a pair of means is compared, (m, p)."""
        about = self.moments.mean if self.point is None else self.point
        if isinstance(self.restriction, Uncorrelated):
            # A covariance is a sum of products of deviations, and of those of the groups' means.
            sizes, about = np.sqrt(self._variances)[self._pairs].max(axis=1), self.moments.mean
            if self.restriction.within_groups:
                return np.asarray(sizes)
        else:
            sizes = np.abs(self._means)[self._pairs].max(axis=1)
        # Rows are transformed about the point, the differences from which are rounded as well.
        offsets = np.abs(self.moments.offsets_from(about)).max(axis=0)
        if self.moments.matrix_free:  # products with sparse rows are taken before
            offsets = np.maximum(offsets, np.abs(self.moments.mean))
        return np.asarray(np.maximum(sizes, offsets))

    @cached_property
    def _pairs(self) -> IndexArray:
        return pairs_to_compare(self._means, self._variances)

    def _forbidden(self, n_components: int) -> FloatArray:
        """Orthonormal columns, (p, r): all that is forbidden where few directions are."""
        columns = self._differences
        check_enough_left(n_components, len(columns), columns.shape[1])
        return np.linalg.qr(columns)[0]

    def _split(
        self, restriction: Restriction, n_components: int
    ) -> tuple[FloatArray, FloatArray | None, FloatArray]:
        """What is forbidden, what is left (Q; None for all), and Q'C_gQ of each group.

        Where few of many directions are forbidden, what is left has a basis in which that takes
        products with those few alone.
        """
        p = self._means.shape[1]
        if restriction.forbids_few:
            forbidden = self._forbidden(n_components)
            complement = Complement.of_differences(self._differences)
            basis = complement.basis
            if forbidden.shape[1] <= p // _FEW_OF:
                within = complement.compressed(self._scatters, 1 / self.moments.weights)
            else:
                within = np.array([basis.T @ each @ basis for each in self._covariances])
            return forbidden, basis, within
        axes = restriction.directions(self._means, self._covariances, n_components)
        if axes is None:
            return self._means[:0].T, None, self._covariances
        forbidden = np.linalg.qr(axes, mode="complete")[0][:, axes.shape[1] :]
        within = np.array([axes.T @ each @ axes for each in self._covariances])
        return forbidden, axes, within

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

    def _of_moved_rows(self, whole: Problem) -> Reduction:
        """The problem of rows that an oblique restriction moves first: the same for all groups.

        What matters is the total error, which is that of the moved rows and what moving them costs.
        """
        encoding, k, p = self._encoding, whole.n_groups, whole.n_features
        if whole.n_components > encoding.rank:
            if whole.n_components <= self._rank_within_groups - (k - 1):
                raise Incompatible(
                    f"{self.restriction!r} was requested with n_components={whole.n_components}, "
                    "and the means of the groups lie so far apart that double precision resolves "
                    f"{counted(encoding.rank, 'direction')} along which rows vary within them",
                    "Allowed: differences of means that leave digits for how rows vary within "
                    "groups",
                    "Look for wrong entries in the group that lies far away, such as codes of "
                    "missing values; or leave out that group",
                )
            raise Incompatible(
                f"n_components is {whole.n_components} with {self.restriction!r}",
                f"Allowed: at most {encoding.rank}: once their means agree, the rows vary along "
                "no more directions",
                "Choose fewer components",
            )
        moved = DenseSecondMoments(
            np.broadcast_to(encoding.second_moment, (k, p, p)),
            offset_rounding=whole.dense.offset_rounding,
            doubt=whole.dense.doubt,
        )
        problem = replace(
            whole,
            second_moments=moved,
            unrestricted=whole,
            left_out=encoding.lost,
            fixed_rounding=_ROUNDINGS * encoding.lost,
            inner_rounding=_ROUNDINGS * moved.traces,
            moving_rounding=encoding.rounding,
        )
        return Reduction(problem, encoding=encoding)

    def _outside(
        self, whole: Problem, forbidden: FloatArray
    ) -> tuple[FloatArray, float, FloatArray]:
        """What counts of each group's errors beside the directions left, what all lose alike.

        And by how much rounding may have moved both.
        """
        within = np.array([np.vdot(forbidden, each @ forbidden) for each in self._scatters])
        outside = within / self.moments.weights + ((self._offsets @ forbidden) ** 2).sum(axis=1)
        moved = float(np.linalg.norm(whole.dense.offset_rounding))
        counted, common = whole.criterion.lost(outside)
        both = counted + common
        rounding = 2 * np.sqrt(both) * moved + moved**2 + _ROUNDINGS * both
        return counted, common, rounding


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
    raise Incompatible(
        f"{restriction!r} was requested, and double precision misses it along component "
        f"{int(component) + 1}, {size}",
        f"Allowed: by at most {_MOST_APART:.0e} of it. The numbers {where} are so large, in a "
        "group or in all, that too few digits are left for how they vary",
        "Look for wrong entries there, such as codes of missing values; subtract a constant from "
        "the column if all rows are far from zero; or leave out the column or the group",
    )


def build_problem(
    moments: Moments,
    n_components: int | float,
    criterion: Criterion,
    *,
    restriction: Restriction | None = None,
    center: Center = "global",
    divisor: FloatArray | None = None,
    allow_extra: bool = False,
    second: DenseSecondMoments | None = None,
) -> ProblemFamily:
    """The problems of a criterion.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or ThinMoments
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
    scaled = moments if divisor is None else moments.divided_by(divisor)
    deviations = scaled.standard_deviations
    # Coordinates of few rows turn the features, which a restriction may treat differently.
    turns = restriction is None or restriction.follows_rotations
    rows = scaled if isinstance(scaled, ThinMoments) and turns else None
    thin = None if rows is None else rows.in_coordinates(n_components, center)
    if thin is None:
        inside: Moments = scaled if scaled.matrix_free else scaled.matrices()
        point = scaled.center_point(center)
    else:
        inside, point = thin.moments, thin.point
    problem = Problem(
        inside.operator_about(point) if second is None else second,
        moments.labels,
        moments.weights,
        int(n_components) if isinstance(n_components, numbers.Integral) else 1,
        criterion,
        allow_extra,
        stretched=0.0 if thin is None else thin.stretched,
        beside=0.0 if thin is None else thin.rows_beside(),
        least_column_variance=float(deviations[deviations > 0].min(initial=np.inf)) ** 2,
        weight_exponent=moments.weight_exponent,
    )
    if restriction is not None:
        restriction.check(moments.labels, criterion, allow_extra=allow_extra)
        if center != "global" and restriction.oblique:
            raise Incompatible(
                f"{restriction!r} was requested with center={center!r}",
                "Allowed: center='global': rows are moved about the mean of all of them",
                "Use center='global', or an orthogonal restriction",
            )
        if thin is not None:
            restriction = _in_coordinates(restriction, thin, problem.n_components)
    return ProblemFamily(problem, restriction, inside, point, thin)


def deviations_of(moments: Moments) -> FloatArray:
    """What features are divided by where they are to be scaled: 1 for those that are constant."""
    deviations = moments.standard_deviations
    constant = deviations == 0
    if constant.any():
        names = moments.feature_names or tuple(map(str, range(moments.n_features)))
        columns = [name for name, is_constant in zip(names, constant, strict=True) if is_constant]
        warn(
            f"These columns are constant and stay unscaled: {listed(columns)}. Scaling needs "
            "columns that vary. They carry no variance, so you can leave them out."
        )
    return np.where(constant, 1.0, deviations)


def largest_column(moments: Moments, center: Center) -> str | None:
    """Which feature is so large that others are rounding beside it, in words; None of none."""
    spreads = moments.standard_deviations
    if center == "none":
        spreads = np.hypot(spreads, moments.mean)
    largest = int(np.argmax(spreads))
    names = moments.feature_names or tuple(map(str, range(moments.n_features)))
    others = np.delete(spreads, largest)
    times = float(spreads[largest]) / np.median(others[others > 0]) if others.any() else np.inf
    if times < _FAR_LARGER:
        return None
    told = f", {times:.0e} times as large as most" if np.isfinite(times) else ""
    return f"the column {names[largest]!r} is the largest{told}"


def _in_coordinates(
    restriction: Restriction, within: Coordinates, n_components: int
) -> Restriction:
    """The restriction in coordinates that is equivalent to that of all features.

    Rows that are fewer than their features have coordinates in which most directions without
    variance are left out (:mod:`fairspan.moments.thin`). A restriction counts those as well.

    Raises
    ------
    Incompatible
        Fewer directions are left than components or directions were requested, or it is not said
        how many.
    """
    # A restriction that counts no directions means the same in all coordinates.
    counts = isinstance(restriction, CovarianceParity) and restriction.tolerance is None
    if not restriction.forbids_few and not counts:
        return restriction
    moments, n_features = within.moments, within.thin.n_features
    rank = differences_of(restriction, moments).shape[1]
    most = n_features - rank
    check_enough_left(n_components, n_features, rank)
    if not isinstance(restriction, CovarianceParity) or moments.n_groups == 1:
        return restriction
    wanted = restriction.n_directions
    if wanted is None or not n_components <= wanted <= most:
        varying = within.n_known
        raise Incompatible(
            f"{restriction!r} was requested with rows that vary along only {varying} of "
            f"{counted(n_features, 'direction')}",
            f"Allowed: a number n_directions from {n_components} to {most}; unless it is above "
            f"{n_features - varying}, no direction with variance needs to be among them",
            "Choose such a number, or another n_components",
        )
    # Directions without variance, which the coordinates leave out, are taken last.
    return replace(restriction, n_directions=min(wanted, moments.n_features - rank))


def check_nested(
    criterion: Criterion, restriction: Restriction | None, *, allow_extra: bool
) -> None:
    """Make sure that components can be nested.

    Raises
    ------
    Incompatible
        The criterion or the restriction does not say so of itself, or a soft projection is allowed.
    """
    if not criterion.can_be_nested:
        able = [name for name in names_of("criterion") if criterion_of(name).can_be_nested]
        raise Incompatible(
            f"nested=True was requested with {criterion!r}",
            f"Allowed: the criteria {', '.join(map(repr, able))}, with default settings",
            "Use one of these, or nested=False",
        )
    if restriction is not None and not restriction.forbids_few:
        raise Incompatible(
            f"nested=True was requested with {restriction!r}",
            "Allowed: restrictions that leave the same directions for every number of "
            "components, such as MeanParity()",
            "Use MeanParity(), or nested=False",
        )
    if allow_extra:
        raise Incompatible(
            "nested=True was requested with allow_extra=True",
            "Allowed with nested components: allow_extra=False, as each of them is one direction",
            "Leave out one of the two",
        )


def left_beside(reduction: Reduction, basis: FloatArray) -> Reduction:
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
    problem, whole = reduction.problem, reduction.problem.whole
    if not basis.shape[1]:
        return reduction
    if not problem.has_matrices:
        inside, of_all = (
            cast(SparseSecondMoments, each.second_moments).beside(basis)
            for each in (problem, whole)
        )
        whole = replace(whole, second_moments=of_all)
        problem = replace(problem, second_moments=inside, unrestricted=whole)
        return replace(reduction, problem=problem)
    if reduction.axes is None:
        complement, problem = _deflated(problem, basis)
        return Reduction(problem, complement.basis)
    complement, problem = _deflated(problem, reduction.axes.T @ basis)
    left, whole = _deflated(whole, basis)
    axes = complement.coordinates(reduction.axes.T).T
    problem = replace(problem, unrestricted=whole, axes=left.coordinates(axes))
    return Reduction(problem, axes)


def _deflated(problem: Problem, basis: FloatArray) -> tuple[Complement, Problem]:
    """What is orthogonal to a basis in a problem's coordinates, and the problem there."""
    left, rounding, complement = deflated(problem.dense, basis)
    rounding = rounding + problem.fixed_rounding
    # A warm start of the components before is none of the next one.
    return complement, replace(problem, second_moments=left, fixed_rounding=rounding, start=None)


def criterion_of(criterion: object, **parameters: Any) -> Criterion:
    """A criterion from its name and parameters, or the object itself.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter, or a parameter out of range.
    InvalidType
        Neither a name nor an object that has what a criterion has.

    Examples
    --------
    >>> criterion_of("error_gap", penalty=2.0)
    ErrorGap(penalty=2.0)
    """
    return cast(Criterion, object_of("criterion", criterion, Criterion, parameters))


def restriction_of(restriction: object, **parameters: Any) -> Restriction | None:
    """A restriction from its name and parameters, the object itself, or None.

    Raises
    ------
    InvalidParameter, InvalidType
        As of :func:`criterion_of`.

    Examples
    --------
    >>> restriction_of("mean_parity")
    MeanParity(tolerance=0.0)
    """
    if restriction is None:
        return None
    return cast(Restriction, object_of("restriction", restriction, Restriction, parameters))
