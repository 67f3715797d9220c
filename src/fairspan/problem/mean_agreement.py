"""Means that a restriction requires to be equal, and whether a solution makes them so.

Allowed directions and means are rounded. A difference that remains along a component is compared
with the standard deviation of the rows along it or, where rows do not vary, with rounding error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import describe_position
from fairspan.linalg.rounding import (
    ENTRY_TERMS,
    EPS,
    LOOSE_TOL,
    TRANSFORMATION_TERMS,
    zero_negligible,
)
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector
from fairspan.moments.row_space import RowSpace
from fairspan.problem.directions import mean_difference_directions, pairs_to_compare
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.typing import BoolArray, FloatArray, IndexArray

# Largest difference of means that must be equal, relative to the standard deviation of a component.
_MAX_MEAN_DIFFERENCE = LOOSE_TOL


@dataclass(frozen=True, eq=False)
class MeanDifferences:
    """Differences of the means that must be equal, for each pair of means and each component.

    Attributes
    ----------
    differences : (m, d) array
        Absolute difference, plus the rounding error of the means.
    deviations : (m, d) array
        Standard deviation of the component in the rows of the pair; zero if it is rounding error.
    rounding : (m, d) array
        Rounding error of a zero difference, for a component without variance; otherwise zero.
    """

    differences: FloatArray
    deviations: FloatArray
    rounding: FloatArray


@dataclass(frozen=True, eq=False)
class ConstrainedMeans:
    """Means that a restriction requires to be equal, in pairs that are compared.

    Attributes
    ----------
    means : (m, p) array
        Relative to one of them.
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the rows.
    restriction : Restriction
    center_point : (p,) or (k, p) array
        Point about which errors are measured, or each group's own mean.
    coordinates : RowSpace or None
        Row coordinates, if the means are not given in the features.
    orthogonality_defect : float
        Relative error of squared lengths in these coordinates.
    """

    means: FloatArray
    moments: Moments
    restriction: Restriction
    center_point: FloatArray
    coordinates: RowSpace | None
    orthogonality_defect: float

    @cached_property
    def _variances(self) -> FloatArray:
        """Variance of each feature in the rows of each constrained mean, shape (m, p)."""
        return self.restriction.variances_of(self.moments)

    @cached_property
    def difference_directions(self) -> FloatArray:
        """Independent unit vectors that span all differences of the means, shape (p, r)."""
        return mean_difference_directions(self.means, self._variances, self._pairs)

    def check_agree(self, projector: Projector) -> None:
        """Check that a solution removes the differences of the means.

        If numbers are much larger than their variation, the rounding error of a difference may be
        as large as the standard deviation of a component.

        Parameters
        ----------
        projector : Projector
            The solution, in the coordinates of the means.

        Raises
        ------
        IncompatibleParameters
            Along some component, means differ by more than a millionth of its standard deviation.
        """
        restriction = self.restriction
        # Means must agree along these directions, onto which rows are projected.
        columns = projector.encoder.T
        tolerance = restriction.max_mean_distance
        if tolerance == 0 and self._clearly_agree(columns):
            return
        along = self._differences_along(columns)
        # Each difference is allowed to be a small part of the standard deviation or, where rows do
        # not vary, the rounding error of a zero difference.
        allowed = np.maximum(_MAX_MEAN_DIFFERENCE * along.deviations, along.rounding)
        # Without a tolerance, each component and pair of means is compared by itself.
        excess = along.differences
        if tolerance > 0:
            # The tolerance limits the length of each difference over all components.
            distances = np.linalg.norm(along.differences, axis=1, keepdims=True)
            excess = np.maximum(distances - tolerance, 0.0)
            # The excess belongs to no single component: compare it with the smallest deviation.
            min_deviation = float(np.sqrt(self._pooled_variances(columns).min()))
            allowed = np.full_like(allowed, _MAX_MEAN_DIFFERENCE * max(tolerance, min_deviation))
        if (excess <= allowed).all():
            return
        with np.errstate(divide="ignore"):
            ratios = np.broadcast_to(excess / along.deviations, along.differences.shape)
        pair, component = np.unravel_index(int(np.argmax(ratios)), ratios.shape)
        where = "some column"  # row coordinates are no columns of the table
        if self.coordinates is None:
            where = self._describe_coarsest_column(int(pair), projector.encoder[component])
        raise _means_differ_error(
            restriction, int(component), float(ratios[pair, component]), where
        )

    def _clearly_agree(self, columns: FloatArray) -> bool:
        """Whether a coarse bound shows that constrained means are equal along (p, d) columns.

        The largest difference of all, with its rounding error, is compared with the smallest
        variance. Where this returns False, :meth:`_differences_along` decides, at more cost.
        """
        first, second = self._pairs.T
        variances = self._reference_variances(columns)
        squares = columns**2
        rounding = self._variance_rounding(self._pair_variances, squares)
        rounding = rounding + self._entry_rounding_variance(self._pair_variances, squares)
        if not (variances > 2 * rounding).all():
            return False
        # Of all pairs and columns, the largest difference and the largest rounding error that a
        # product of a difference and a column may have.
        differences = (self.means[second] - self.means[first]) @ columns
        max_difference = np.abs(differences).max(initial=0.0)
        relative_rounding = EPS * len(columns) + self.orthogonality_defect
        max_norm = np.sqrt(len(columns)) * self._pair_magnitudes.max(initial=0.0)
        max_length = np.linalg.norm(columns, axis=0).max()
        bound = float(max_difference + relative_rounding * max_norm * max_length)
        # Twice, since half of the variance may be rounding error.
        return bool(2 * bound**2 <= _MAX_MEAN_DIFFERENCE**2 * variances.min(initial=np.inf))

    def _differences_along(self, columns: FloatArray) -> MeanDifferences:
        """Differences of the constrained means along each of (p, d) columns, pair by pair.

        Constrained means are those that the restriction requires to be equal. Each difference comes
        with the standard deviation of the rows along the column, of which it must be a small part,
        and, for columns along which rows do not vary, with the rounding error that it may have.
        """
        first, second = self._pairs.T
        differences = self.means[second] - self.means[first]
        # In extended precision, where the machine has it: columns are nearly orthogonal to the
        # differences, so that the products cancel.
        exact = np.abs(differences.astype(np.longdouble) @ columns.astype(np.longdouble))
        # A mean is rounded relative to the numbers of which it is computed.
        squares = columns**2
        mean_rounding = EPS / 2 * np.sqrt(self._pair_magnitudes**2 @ squares)
        if self.orthogonality_defect:
            # Inexact row coordinates change a product of two vectors relative to their lengths.
            lengths = np.linalg.norm(differences, axis=1)[:, None] * np.sqrt(squares.sum(axis=0))
            mean_rounding += self.orthogonality_defect * lengths
        # Along each column, the variance of the rows of the pair, or of the rows of all groups
        # about their means if that is smaller; `pair_variances` are those of the features.
        variances = self._reference_variances(columns)
        pair_variances = self._pair_variances
        # Whether a variance is nothing but rounding error is decided with those of other columns,
        # which the method computes.
        is_constant = self._is_constant(
            columns, variances, pair_variances, compute_variances=self._reference_variances
        )
        rounding = np.zeros_like(mean_rounding)
        if is_constant.any():
            # Where the smaller of the two is rounding error, compare with the rows of all groups,
            # which may vary although those of the pair do not.
            variances, is_constant = self._with_pooled_variances(columns, variances, is_constant)
            rounding = self._zero_difference_rounding(squares, is_constant)
        # Each difference at its largest, which its rounding error allows.
        return MeanDifferences(
            differences=np.asarray(exact, dtype=np.float64) + mean_rounding,
            deviations=np.where(is_constant, 0.0, np.sqrt(variances)),
            rounding=rounding,
        )

    def _zero_difference_rounding(self, squares: FloatArray, is_constant: BoolArray) -> FloatArray:
        """Return the rounding error of a zero difference along each column, shape (m, d).

        Parameters
        ----------
        squares : (p, d) array
            Squared entries of the columns.
        is_constant : (m, d) array of bool
            Where rows do not vary along the column; zero elsewhere.
        """
        # Entries of a column are rounded relative to themselves (first term) and relative to its
        # length (second term).
        squared_magnitudes = self._pair_magnitudes**2 + self._pair_variances
        squared_rounding = squared_magnitudes @ squares
        squared_rounding += squared_magnitudes.sum(axis=1)[:, None] * squares.sum(axis=0)
        rounding = np.zeros_like(squared_rounding)
        # A transformation of the rows adds up several.
        rounding[is_constant] = EPS * TRANSFORMATION_TERMS * np.sqrt(squared_rounding[is_constant])
        deviation = self._total_deviation
        if deviation > 0:
            # Numbers may be so large that all variance is rounding error. Even then, a difference
            # must be a small part of the total deviation.
            rounding = np.minimum(rounding, _MAX_MEAN_DIFFERENCE * deviation)
        return rounding

    def _reference_variances(self, columns: FloatArray) -> FloatArray:
        """Variances with which differences along (p, d) columns are compared, shape (m, d)."""
        restriction = self.restriction
        along = restriction.variances_of(self.moments, columns)
        variances = along[self._pairs].max(axis=1)
        if restriction.compares_covariances:
            return np.asarray(variances)
        # A pair of groups may vary more than the rows of all groups do.
        return np.asarray(np.minimum(variances, self._pooled_variances(columns)))

    def _pooled_variances(self, columns: FloatArray) -> FloatArray:
        """Variance of all rows about their groups' means along (p, d) columns, shape (d,)."""
        return np.asarray(self.moments.proportions @ self.moments.variances_along(columns))

    @cached_property
    def _pair_variances(self) -> FloatArray:
        """Larger variance of each feature in the rows of each pair of means, shape (m, p)."""
        return np.asarray(self._variances[self._pairs].max(axis=1))

    def _with_pooled_variances(
        self, columns: FloatArray, variances: FloatArray, is_constant: BoolArray
    ) -> tuple[FloatArray, BoolArray]:
        """Replace variances that are rounding error by those of all groups.

        The argument `is_constant` says for which of the (m, d) variances that is so.

        Returns
        -------
        variances : (m, d) array
        is_constant : (m, d) array of bool
            Where the variance of all groups is rounding error too.
        """
        pooled = self._pooled_variances(columns)
        feature_variances = self.moments.proportions @ self.moments.variances
        pooled_is_constant = self._is_constant(
            columns, pooled, feature_variances, self._pooled_variances
        )
        return np.where(is_constant, pooled, variances), is_constant & pooled_is_constant

    def _is_constant(
        self,
        columns: FloatArray,
        variances: FloatArray,
        feature_variances: FloatArray,
        compute_variances: Callable[[FloatArray], FloatArray],
    ) -> BoolArray:
        """Return where the variance along a column is no more than rounding error.

        A variance is rounded relative to those of the features in the column. Entries of a column
        are rounded relative to its length, which mixes in every feature; so entries below that
        count as zero. Any variance that remains without them is real, however small it is relative
        to other features.

        Parameters
        ----------
        columns : (p, d) array
        variances : (..., d) array
            Variances along the columns.
        feature_variances : (..., p) array
            Variances of the features in the same rows.
        compute_variances : callable
            Returns such variances along other columns.
        """
        squares = columns**2
        # Variances up to the first bound are rounding error. Those up to the second may be: they
        # are if they vanish without the entries that are too small to be exact.
        is_rounding = variances <= self._variance_rounding(feature_variances, squares)
        may_be_rounding = variances <= self._entry_rounding_variance(feature_variances, squares)
        if (may_be_rounding & ~is_rounding).any():
            min_entry = self._entry_rounding * np.linalg.norm(columns, axis=0)
            truncated = zero_negligible(columns, min_entry)
            truncated_rounding = self._variance_rounding(feature_variances, truncated**2)
            varies = compute_variances(truncated) > truncated_rounding
            is_rounding |= may_be_rounding & ~varies
        return np.asarray(is_rounding)

    def _variance_rounding(self, feature_variances: FloatArray, squares: FloatArray) -> FloatArray:
        """Return the rounding error of variances along columns, given their squared entries."""
        return np.asarray(EPS * ENTRY_TERMS * len(squares) * (feature_variances @ squares))

    def _entry_rounding_variance(
        self, feature_variances: FloatArray, squares: FloatArray
    ) -> FloatArray:
        """Variance along columns that the rounding error of their entries may add."""
        total = np.multiply.outer(feature_variances.sum(axis=-1), squares.sum(axis=0))
        return np.asarray(self._entry_rounding**2 * total)

    @property
    def _entry_rounding(self) -> float:
        """Rounding error of the entries of a column, relative to its length."""
        return EPS * ENTRY_TERMS + self.orthogonality_defect

    @property
    def _total_deviation(self) -> float:
        """Root of the total variance of the rows about the means of their groups."""
        moments = self.moments if self.coordinates is None else self.coordinates.moments_of_rows
        return float(np.sqrt(moments.proportions @ moments.variances.sum(axis=1)))

    def _describe_coarsest_column(self, pair: int, component: FloatArray) -> str:
        """Describe the column whose rounding error in a pair of means affects a component most."""
        largest = int(np.argmax(self._pair_magnitudes[pair] * np.abs(component)))
        names = self.moments.feature_names
        if names is None:
            return describe_position("column", largest)
        return f"column {names[largest]!r}"

    @cached_property
    def _pair_magnitudes(self) -> FloatArray:
        """Magnitude of the numbers that are rounded when a pair of means is compared, (m, p).

        The means are those that the restriction requires to be equal or, for a restriction on
        correlations, the covariances that take their place.
        """
        # Errors about each group's mean have no common center: use the mean of all rows.
        has_common_center = self.center_point.ndim == 1
        center_point = self.center_point if has_common_center else self.moments.mean
        if self.restriction.compares_covariances:
            # A covariance is a sum of products of deviations, and of those of the groups' means.
            magnitudes = np.sqrt(self._variances)[self._pairs].max(axis=1)
            center_point = self.moments.mean
            if self.restriction.within_groups:
                # Means of groups play no part in covariances within groups.
                return np.asarray(magnitudes)
        else:
            magnitudes = np.abs(self.means)[self._pairs].max(axis=1)
        # Rows are transformed about the center, and the differences from it are rounded as well.
        offsets = np.abs(self.moments.offsets_from(center_point)).max(axis=0)
        if self.moments.matrix_free:
            # Sparse rows are multiplied before the center is subtracted.
            offsets = np.maximum(offsets, np.abs(self.moments.mean))
        return np.asarray(np.maximum(magnitudes, offsets))

    @cached_property
    def _pairs(self) -> IndexArray:
        """Pairs of means that are compared, shape (m - 1, 2)."""
        return pairs_to_compare(self.means, self._variances)


def _means_differ_error(
    restriction: Restriction, component: int, ratio: float, where: str
) -> IncompatibleParameters:
    """Return the error for means that differ along a component, counted from zero.

    The difference is `ratio` standard deviations of the component; the column that `where` names
    is the most inexact.
    """
    amount = f"by {ratio:.1e} of its standard deviation" if np.isfinite(ratio) else "by rounding"
    return IncompatibleParameters(
        f"{restriction!r} was requested, and double precision misses it along component "
        f"{component + 1}, {amount}",
        f"Allowed: by at most {_MAX_MEAN_DIFFERENCE:.0e} of it. The numbers in {where} are so "
        "large, in one group or in all, that too few digits are left for their variation",
        "Look for wrong entries there, such as codes of missing values; subtract a constant from "
        "the column if all rows are far from zero; or drop the column or the group",
    )
