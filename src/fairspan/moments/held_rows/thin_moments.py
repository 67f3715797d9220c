"""Moments of rows that are fewer than their features: the rows are kept instead of the matrices."""

import numbers
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fairspan.moments.accumulate import statistics_of
from fairspan.moments.group_means import Center, GroupMeans
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.group_statistics import EVERY_ROW, Intake
from fairspan.moments.held_rows.frame import (
    CentredRows,
    Frame,
    InCoordinates,
    RowSpan,
    directions_beside,
)
from fairspan.moments.operators import DenseSecondMoments
from fairspan.moments.running_group import USUAL_LIMIT, GroupLimit
from fairspan.rows.checks import checked_values, converted
from fairspan.rows.groups import CodedLabels, LabelCoder, in_order, label_array
from fairspan.rows.registry import rows_of
from fairspan.typing import AnyArray, FloatArray, IndexArray, IntegerArray

# Means of all groups that differ by less than this share of their length are the same.
_ROUNDING_OF_MEANS = 1e-14
# So are rows of a group that differ by less than this share of the longest row about the mean.
_ROUNDING_OF_ROWS = 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class ThinMoments(GroupMeans):
    """Weight and mean of each group of rows, and the rows themselves, fewer than their features.

    What a fit needs of :class:`GroupMoments`, without matrices of p x p numbers and without loss:
    n rows have n coordinates at most, in which all problems are solved (see :meth:`framed`). It
    refers to the rows, which must stay as they are, so it cannot be merged, saved or given away as
    moments can; `matrices()` can.

    Attributes
    ----------
    groups : (k,) array
        Labels in sorted order.
    counts, weights : (k,) arrays
    means : (k, p) array
    rows : CentredRows
        Those of positive weight, about the mean of all.
    codes : (n,) array of int
        Group of each of these rows.
    row_weights : (n,) array or None
    feature_names : tuple of str or None
    intake : Intake
    """

    groups: AnyArray
    counts: IntegerArray
    weights: FloatArray
    means: FloatArray
    rows: CentredRows = field(repr=False)
    codes: IndexArray = field(repr=False)
    row_weights: FloatArray | None = field(repr=False)
    feature_names: tuple[str, ...] | None = None
    intake: Intake = EVERY_ROW

    @property
    def scale(self) -> FloatArray | None:
        """What the rows are divided by, (p,)."""
        return self.rows.scale

    @cached_property
    def span(self) -> RowSpan:
        """The rows' coordinates: one symmetric product of all rows."""
        return RowSpan.of(self.rows)

    @cached_property
    def variances(self) -> FloatArray:
        """Variance of each feature about each group's own mean (ddof 0), shape (k, p)."""
        variances = np.empty_like(self.means)
        centers = self.means - self.mean
        weights = 1.0 if self.row_weights is None else self.row_weights
        shares = _shares_by_group(self.codes, weights / self.weights[self.codes])
        with np.errstate(over="ignore", invalid="ignore"):  # found by in_range
            for own, block in self.rows.blocks():
                block -= centers[self.codes, own]
                variances[:, own] = shares @ block**2
        return variances

    def operator_about(self, point: FloatArray | None) -> DenseSecondMoments:
        """Second moments about a point in all features, by matrices; see :meth:`in_coordinates`."""
        return self.matrices().operator_about(point)

    def divided_by(self, scale: FloatArray) -> "ThinMoments":
        """The moments of the rows divided by `scale`, a (p,) array of positive numbers."""
        whole = scale if self.scale is None else self.scale * scale
        return replace(self, means=self.means / scale, rows=replace(self.rows, scale=whole))

    def in_coordinates(
        self, n_components: int | float, center: Center, *, nested: bool = False
    ) -> InCoordinates:
        """What is to be solved in the coordinates of the rows.

        Parameters
        ----------
        n_components : int or float
            d, or a share above 0 and below 1.
        center : {"global", "group", "none"}
        nested : bool
            Whether components are chosen one after the other.
        """
        point, p = self.center_point(center), self.n_features
        beside = (
            directions_beside(self.span, self.mean[:, None])
            if center == "none"  # the origin, which may lie outside the span
            else np.empty((p, 0))
        )
        n_known = self.span.rank + beside.shape[1]
        whole = isinstance(n_components, numbers.Integral)
        n_inside = max(n_known, 1)
        if whole:
            n_inside = int(n_components) if nested else min(int(n_components), n_inside)
        n_apart = int(n_components) - n_inside if whole else 0
        frame = self.framed(beside, min(n_inside, p - n_known - n_apart))
        # Not the mean of the features, which is rounded at their offset.
        own = frame.moments.mean if center == "global" else frame.point(point, self.mean)
        return InCoordinates(frame, own, n_components, nested)

    def with_basis(
        self, point: FloatArray | None, basis: FloatArray, n_components: int
    ) -> tuple[GroupMoments, FloatArray | None, FloatArray]:
        """Moments, a point and a basis of any subspace in coordinates that hold all three.

        Parameters
        ----------
        point : (p,) array or None
        basis : (p, r) array
        n_components : int
            There are at least that many coordinates.

        Returns
        -------
        GroupMoments, (m,) array or None, (m, r) array
        """
        directions = basis if point is None else np.column_stack([basis, point - self.mean])
        beside = directions_beside(self.span, directions)
        frame = self.framed(beside, max(n_components - self.span.rank - beside.shape[1], 0))
        return frame.moments, frame.point(point, self.mean), frame.reduced(basis)

    def framed(self, beside: FloatArray, n_padding: int) -> Frame:
        """Coordinates in which a problem can be solved as one of few features.

        Parameters
        ----------
        beside : (p, e) array
            Orthonormal directions beside the span, which have coordinates too.
        n_padding : int
            Further directions along which all is zero, beside all these. At least one coordinate
            is needed in all.

        Returns
        -------
        Frame
        """
        rows = np.pad(self.span.coordinates, [(0, 0), (0, beside.shape[1] + n_padding)])
        inside = GroupMoments.of(statistics_of(rows_of(rows, self.codes, self.row_weights)))
        inside = replace(inside, groups=self.groups, intake=self.intake)
        return Frame(self._without_rounding(inside), self.span, beside, n_padding)

    def _without_rounding(self, inside: GroupMoments) -> GroupMoments:
        """Moments of coordinates; means that agree, and rows that are equal, are so exactly."""
        apart = np.linalg.norm(self.means - self.means[0], axis=1).max()
        if apart <= _ROUNDING_OF_MEANS * np.linalg.norm(self.means[0]):
            inside = replace(inside, means=np.tile(inside.mean, (self.n_groups, 1)))
        size = np.einsum("ij,ij->i", self.span.coordinates, self.span.coordinates).max()
        spread = np.einsum("gii->g", inside.scatters) / inside.weights
        equal = spread <= _ROUNDING_OF_ROWS**2 * size
        if equal.any():
            inside = replace(inside, scatters=np.where(equal[:, None, None], 0.0, inside.scatters))
        return inside

    @property
    def scatters(self) -> FloatArray:
        """(k, p, p) scatters about each group's own mean, computed now: k p^2 numbers."""
        return self.matrices().scatters

    def matrices(self) -> GroupMoments:
        """The same as moments without rows: k p^2 numbers, which can be merged and saved."""
        values, present = self.rows.values, self.rows.present
        counted = values if present is None else values[present]
        whole = GroupMoments.from_rows(counted, self.codes, self.row_weights)
        whole = replace(
            whole, groups=self.groups, feature_names=self.feature_names, intake=self.intake
        )
        return whole if self.scale is None else whole.divided_by(self.scale)


def thin_moments(
    values: AnyArray,
    labels: CodedLabels,
    weights: FloatArray | None,
    feature_names: tuple[str, ...] | None,
    limit: GroupLimit = USUAL_LIMIT,
) -> ThinMoments:
    """Moments that refer to (n, p) rows.

    Parameters
    ----------
    values : (n, p) array
        Of any precision; referred to, not copied.
    labels : CodedLabels of n rows
    weights : (n,) array or None
        Finite and not negative, some of them positive.
    feature_names : tuple of str or None
    limit : GroupLimit
        How many groups there may be.

    Returns
    -------
    ThinMoments

    Raises
    ------
    InvalidInput, InvalidType
        NaN, infinity, no numbers, missing labels, too many groups, numbers whose squares overflow.
    """
    values = converted(values)
    present = None if weights is None or weights.all() else np.flatnonzero(weights)
    if present is not None:
        checked_values(values, 0, feature_names)  # also the rows that do not count
    coder = LabelCoder()
    codes = coder.encode(labels)
    if present is not None and weights is not None:
        codes, weights = codes[present], weights[present]
    present_codes, codes = np.unique(codes, return_inverse=True)
    labels = CodedLabels([coder.labels[code] for code in present_codes.tolist()], codes)
    names, codes = in_order(labels)
    counts = np.bincount(codes)
    limit.check(len(counts), len(codes), values.shape[1])
    totals = np.bincount(codes, weights).astype(np.float64)
    pilot = values[0 if present is None else present[0]].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        shares = (1.0 if weights is None else weights) / totals[codes]
        rows = CentredRows(values, pilot, present=present)
        means = pilot + rows.transposed_times(_shares_by_group(codes, shares).T).T
    if not np.isfinite(means).all():
        checked_values(values, 0, feature_names)
    moments = ThinMoments(
        label_array(names), counts, totals, means, rows, codes, weights, feature_names
    )
    return replace(moments, rows=replace(rows, center=moments.mean))


def _shares_by_group(codes: IndexArray, shares: FloatArray) -> FloatArray:
    """What each row counts for in the mean of its group, (k, n)."""
    mixing = np.zeros((codes.max() + 1, len(codes)))
    mixing[codes, np.arange(len(codes))] = shares
    return mixing
