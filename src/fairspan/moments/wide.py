"""Moments of wide tables, with fewer rows than features, in coordinates of the row space.

Few rows span a low-dimensional space. Shifted by one row, n rows span r < n directions; with an
orthonormal basis Q of these, a row is x = shift + Ql, and the r coordinates l have ordinary
moments. A d-dimensional subspace may extend beyond the row space: Q is therefore extended by the
direction of the origin (if errors are measured about it) and by min(d, p - r) directions without
variance. The problem in these m coordinates has the same d and the same solution as the problem in
all p features.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from fairspan.linalg.memory import check_memory
from fairspan.moments.base_moments import Center, CompactCoordinates
from fairspan.moments.distinct_rows import distinct_rows
from fairspan.moments.dropped_rows import no_complete_rows_error, warn_of_lost_groups
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.group_rows import GroupRows, RowChunk, blocks_in_cache
from fairspan.moments.row_axes import span_rows
from fairspan.moments.row_moments import RowMoments
from fairspan.moments.row_space import RowSpace
from fairspan.moments.shifted_rows import ShiftedRows, SparseShiftedRows
from fairspan.moments.sparse_scatter import row_indices_by_group
from fairspan.parameters import is_integer
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.error_context import name_rows_in_errors
from fairspan.rows.frames import FrameRows
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.labels import Label
from fairspan.rows.row_validation import to_finite_float64, to_numeric
from fairspan.rows.sparse_rows import SparseRows
from fairspan.typing import AnyArray, BoolArray, FloatArray, IndexArray

# Up to this many features, data with fewer rows than features are verified in the features
# themselves.
MAX_WIDE_FEATURES = 2500


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WideMoments(RowMoments):
    """Moments of a wide table; a fit works in the row space, which is exact.

    See :meth:`reduce_to_row_space`. A dense table is not copied, and of a sparse one only blocks
    are made dense.

    Attributes
    ----------
    rows : ShiftedRows
        Rows B minus the first of them, sorted by group.
    """

    rows: ShiftedRows
    has_row_coordinates = True

    @classmethod
    def from_rows(
        cls, rows: ArrayRows | FrameRows | SparseRows, limit: GroupLimit = DEFAULT_GROUP_LIMIT
    ) -> "WideMoments":
        """Build from rows, which are sorted by group and shifted by the first of them.

        Without the shift, a large offset of all rows would hide their variation. Rows with missing
        cells or labels are left out if `rows.on_missing` is "drop".

        Raises
        ------
        InvalidInput, InvalidType
            NaN, infinity, no numbers, missing labels, no rows, too many groups, or overflow.
        """
        assert rows.groups is not None
        values = _values_of(rows)
        complete = _complete_rows(rows, values)
        weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
        n_dropped = rows.n_rows - len(complete)
        labels = rows.groups[complete] if n_dropped else rows.groups
        complete_by_group = row_indices_by_group(labels, weights[complete], limit)
        # Positions in the table, dropped rows included.
        indices_by_group = {
            label: complete[indices] for label, indices in complete_by_group.items()
        }
        if not indices_by_group:
            raise no_complete_rows_error(rows, n_dropped)
        if n_dropped:
            lost_groups = rows.lost_groups(indices_by_group.keys())
            if lost_groups:
                warn_of_lost_groups(rows, lost_groups)
        order = np.concatenate(list(indices_by_group.values()))
        shifted = _shifted_by_first(values, order)
        # Infinity and NaN show in the means and are reported below.
        with np.errstate(over="ignore", invalid="ignore"):
            moments = cls._from_groups(
                _group_wide_rows(shifted, indices_by_group, weights[order]),
                rows=shifted,
                feature_names=rows.feature_names,
                n_dropped=n_dropped,
                weight_exponent=rows.weight_exponent,
            )
        if isinstance(rows, SparseRows):  # whose values were validated when they were opened
            return moments
        # Rows of zero weight, which have no moments, are validated too.
        if len(order) < len(complete) or not np.isfinite(moments.means).all():
            with name_rows_in_errors(rows.row_name):
                _check_finite(values, complete, rows.feature_names)
        return moments

    def divided_by(self, scale: FloatArray) -> "WideMoments":
        """Moments of the rows divided by `scale`, a (p,) array of positive numbers."""
        scaled_rows = self.rows.divided_by(scale)
        shift = scaled_rows.shift
        groups = []
        for group in self.group_rows:
            scaled_chunks = [
                RowChunk(chunk.rows.divided_by(scale), chunk.weights) for chunk in group.chunks
            ]
            scaled_group = replace(
                group,
                chunks=tuple(scaled_chunks),
                shift=shift,
                shifted_mean=group.shifted_mean / scale,
                known_variances=group.variances / scale / scale,
            )
            groups.append(scaled_group)
        return self._from_groups(
            groups,
            rows=scaled_rows,
            feature_names=self.feature_names,
            n_dropped=self.n_dropped,
            weight_exponent=self.weight_exponent,
            row_spread=self.row_spread,
        )

    def moments_of_coordinates(self, coordinates: FloatArray) -> GroupMoments:
        """Dense moments of (n, m) coordinates of the rows, in the order of :attr:`rows`."""
        no_shift = np.zeros(coordinates.shape[1])  # coordinates are relative to the shift
        groups = []
        start = 0
        for group in self.group_rows:
            stop = start + len(group.row_indices)
            weights = np.concatenate([weights for _, weights in group.chunks])
            groups.append(
                GroupRows.from_rows(
                    group.label, coordinates[start:stop], weights, no_shift, group.row_indices
                )
            )
            start = stop
        return self._dense_moments(groups, coordinates.shape[1])

    def guard_rows(self) -> None:
        """From now on, raise InvalidInput if rows that are read again have changed."""
        self.rows.guard()

    def in_features(self) -> GroupMoments:
        """Dense moments, for problems that depend on the features."""
        return self.to_dense()

    def for_verification(
        self, n_components: int, *, has_restriction: bool
    ) -> "GroupMoments | WideMoments":
        """Return the moments in which to verify a subspace of d = `n_components` dimensions.

        These are dense moments where they are more precise than row coordinates, else `self`.
        Row coordinates lose digits if one column is very large, and matrices of many features take
        long. A restriction may have been fitted in row coordinates, and is verified in them.
        """
        # About their mean, n rows span n - 1 dimensions. If the components contain all rows of a
        # group, its error is zero, which matrices cannot distinguish from rounding error.
        spans_a_group = n_components + 1 >= self.counts.min()
        if spans_a_group or has_restriction or self.n_features > MAX_WIDE_FEATURES:
            return self
        return self.to_dense()

    @property
    def shift(self) -> FloatArray:
        """Shift: the first row, (p,)."""
        return self.rows.shift

    @cached_property
    def row_space(self) -> "RowSpace":
        """Row space of `self.rows`, from which the shift, one of the rows, is subtracted already.

        Each axis is a sum of the rows, weighted by a column of `row_weights`. Where Cholesky QR is
        not accurate enough, the axes are the columns of `explicit_axes` instead. There are no more
        axes than the rows span, so there may be fewer than components.
        """
        # All rows equal the shift, and are zero after subtracting it. Means and variances are zero
        # then; these are known already, and rarely zero otherwise.
        has_spread = self.variances.any() or any(g.shifted_mean.any() for g in self.group_rows)
        n = self.rows.shape[0]
        if not has_spread and not any(block.any() for _, block in self.rows.blocks()):
            no_coordinates = np.empty((n, 0))
            no_axes = np.empty((self.n_features, 0))
            return RowSpace(
                self,
                row_coordinates=no_coordinates,
                row_weights=no_coordinates,
                explicit_axes=no_axes,
            )
        distinct = distinct_rows(self.rows)
        if len(distinct.first) == n:
            return span_rows(self, self.rows)
        # Equal rows have equal coordinates, which are computed once. The first of them stands for
        # all in the weighted sums that are the axes; the others get weight zero.
        row_space = span_rows(self, self.rows[distinct.first])
        row_weights = np.zeros((n, row_space.row_weights.shape[1]))
        row_weights[distinct.first] = row_space.row_weights
        row_coordinates = row_space.row_coordinates[distinct.inverse]
        return replace(row_space, row_coordinates=row_coordinates, row_weights=row_weights)

    def reduce_to_row_space(self, n_components: int | float, center: Center) -> "RowSpace":
        """Row space with the axes and the center of a problem with d components.

        If errors are about the origin, its direction is one more axis. Padding, which is axes
        without variance, lets subspaces extend beyond the rows. `point` of the result holds the
        coordinates of the center, or those of each group's mean.

        Parameters
        ----------
        n_components : int or float
            d, or a fraction of the variance in (0, 1): d is then at most the number of axes, which
            capture all of it.
        center : {"global", "group", "none"}
            Center about which errors are measured: the mean of all rows, the mean of each group,
            or the origin.

        Returns
        -------
        RowSpace

        Raises
        ------
        InvalidInput
            The matrices of that many coordinates do not fit into memory.
        """
        row_space = self.row_space
        origin = -self.shift  # axes and coordinates are relative to the shift, the first row
        if center == "none":
            row_space = row_space.extend(origin[:, None])
        n_padding = max(row_space.n_axes, 1)  # the largest d; at least one
        if is_integer(n_components):
            n_padding = int(n_components)  # every component may lie outside the rows
        n_padding = min(n_padding, self.n_features - row_space.n_axes)
        check_memory(self.n_groups, row_space.n_axes + n_padding)
        return replace(row_space, n_padding=n_padding, center=center)

    def to_compact_coordinates(
        self, point: FloatArray, basis: FloatArray, n_components: int
    ) -> CompactCoordinates:
        """Express moments, a point and a basis in coordinates that contain all three.

        Parameters
        ----------
        point : (p,) array, or (k, p) means of the groups
        basis : (p, r) array
            Columns of features, such as the components and decoder of a subspace.
        n_components : int
            Minimum number of coordinates; axes without variance are added up to it.

        Returns
        -------
        CompactCoordinates
        """
        # Coordinates are relative to the shift, the first row, but a basis consists of directions.
        # Group means are in the span of the rows already, so they add no column.
        is_common = point.ndim == 1
        columns = np.column_stack([basis, point - self.shift]) if is_common else basis
        row_space = self.row_space.extend(columns)
        row_space = replace(row_space, n_padding=max(n_components - row_space.n_axes, 0))
        coordinates = row_space.project(columns)
        compact_basis = coordinates[:, : basis.shape[1]]
        compact_moments = row_space.coordinate_moments
        # The means of the coordinates are more exact than the projected means of the features.
        compact_point = coordinates[:, -1] if is_common else compact_moments.means
        return CompactCoordinates(compact_moments, compact_point, compact_basis)


def _check_finite(values: AnyArray, rows: IndexArray, names: tuple[str, ...] | None) -> None:
    """Raise the error of the first value that is not finite, in rows at some positions."""
    is_checked = np.isin(np.arange(len(values)), rows)
    for part in blocks_in_cache(*values.shape):
        block = np.where(is_checked[part, None], values[part], 0)
        to_finite_float64(block, part.start, names)


def _complete_rows(rows: ArrayRows | FrameRows | SparseRows, values: Any) -> IndexArray:
    """Return the positions of the rows that are not dropped; `values` is their table."""
    if isinstance(rows, SparseRows):
        return np.flatnonzero(rows.kept_mask)
    if rows.on_missing == "drop":
        return np.flatnonzero(~(rows.missing_label_mask | _incomplete_rows(values)))
    return np.arange(rows.n_rows)


def _values_of(rows: ArrayRows | FrameRows | SparseRows) -> Any:
    """Return the table of rows, as an array of numbers or a csr_array."""
    if isinstance(rows, SparseRows):
        return rows.matrix
    return to_numeric(rows.array if isinstance(rows, ArrayRows) else rows.unvalidated())


def _shifted_by_first(values: Any, order: IndexArray) -> ShiftedRows:
    """Select rows of an array or csr_array, in this order, and shift them by the first of them."""
    if isinstance(values, np.ndarray):
        return ShiftedRows(values, order, shift=values[order[0]].astype(np.float64))
    # A copy, which the caller does not change.
    selected = values[order]
    return SparseShiftedRows(selected, np.arange(len(order)), shift=selected[[0]].toarray()[0])


def _incomplete_rows(values: AnyArray) -> BoolArray:
    """Return the mask of the rows that have a missing cell, (n,)."""
    masks = [np.isnan(values[part]).any(axis=1) for part in blocks_in_cache(*values.shape)]
    return np.concatenate(masks)


def _group_wide_rows(
    rows: ShiftedRows, indices_by_group: dict[Label, IndexArray], weights: FloatArray
) -> list[GroupRows]:
    """Split rows that are sorted by group, in one pass over them.

    Records the checksums of the rows.

    Parameters
    ----------
    rows : ShiftedRows
    indices_by_group : dict of label to array of int
        Positions of the rows of each group in the whole table.
    weights : (n,) array
        Positive weights of `rows`.
    """
    sizes = [len(indices) for indices in indices_by_group.values()]
    # The rows of each group are consecutive.
    bounds = accumulate(sizes, initial=0)
    slices = [slice(start, stop) for start, stop in pairwise(bounds)]
    group_weights = [float(weights[part].sum()) for part in slices]
    means = np.zeros((len(slices), rows.shape[1]))
    variances = np.zeros_like(means)
    for features, block in rows.blocks():
        rows.record_checksum(block)
        for group, part in enumerate(slices):
            deviations = block[part]
            mean = weights[part] @ deviations / group_weights[group]
            deviations -= mean  # in place, as the next block overwrites them anyway
            squares = np.square(deviations, out=deviations)
            means[group, features] = mean
            variances[group, features] = weights[part] @ squares / group_weights[group]
    groups = []
    for group, (label, indices) in enumerate(indices_by_group.items()):
        part = slices[group]
        group_rows = GroupRows(
            label,
            chunks=(RowChunk(rows[part], weights[part]),),
            weight=group_weights[group],
            shift=rows.shift,
            shifted_mean=means[group],
            row_indices=indices,
            known_variances=variances[group],
        )
        groups.append(group_rows)
    return groups
