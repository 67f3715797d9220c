"""Moments that keep the rows: sparse rows, and wide tables (fewer rows than features).

Many sparse rows with many features are fitted by products with them
(:mod:`fairspan.moments.sparse_scatter`). The rest of this text is about wide tables, dense or
sparse.

Few rows span a low-dimensional space. Shifted by one row, n rows span r < n directions; with an
orthonormal basis Q of these, a row is x = shift + Ql, and the r coordinates l have ordinary
moments. A d-dimensional subspace may extend beyond the row space: Q is therefore extended by the
direction of the origin (if errors are measured about it) and by min(d, p - r) directions without
variance. The problem in these m coordinates has the same d and the same solution as the problem in
all p features.

Let B = DW be the shifted rows, with unit rows W. Cholesky QR takes the Gram matrix WW' = TT' and
Q = W'T^-T, which is applied through the rows and never formed; its loss of orthogonality
||Q'Q - I|| is up to eps ||T^-1||_F^2. If that is too large, a second Cholesky factorization of Q'Q,
summed over blocks of features, is taken (CholeskyQR2, Yamamoto et al. 2015); if it is still too
large, or the rows are linearly dependent, rank-revealing Householder QR of W' gives Q to full
precision, dropping directions in which every row's component is below n eps of its length. Of
sparse rows, which often depend on each other exactly, it first takes only the triangular factor
TT' = WW', block by block, and Q = W'T^-T of the independent rows.

Products with random probes bound s = ||Q'Q - I|| and the distance of the rows from the span of Q. A
lifted subspace QU leaves between 1 - s and 1 + s times the residual of U, so s is a relative error
of every group error and of the bound. Both quantities enter the resolution of the certificate;
neither a fit nor verification uses axes if either exceeds 1e-8.
"""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import blas, lapack, qr

from fairspan.errors import InvalidInput
from fairspan.linalg.memory import check_memory, explain_memory_errors
from fairspan.linalg.rounding import ANGLE_TOL, EPS, FIGURE_ROUNDING, RANK_TOL, SUM_ROUNDING
from fairspan.moments.base_moments import BaseMoments, Center, check_magnitudes
from fairspan.moments.dropped_rows import no_complete_rows_error, warn_of_lost_groups
from fairspan.moments.group_moments import GroupMoments, dense_moments
from fairspan.moments.shifted_rows import ShiftedRows, SparseShiftedRows
from fairspan.moments.sparse_scatter import (
    GroupRows,
    SparseSecondMoments,
    blocks_in_cache,
    group_sparse_rows,
    row_indices_by_group,
)
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.attributes import ColumnKey
from fairspan.rows.error_context import name_rows_in_errors
from fairspan.rows.frames import FrameRows
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.labels import Label, label_array
from fairspan.rows.row_validation import to_finite_float64, to_numeric
from fairspan.rows.sparse_rows import SparseRows
from fairspan.typing import AnyArray, BoolArray, FloatArray, IndexArray

# Largest accepted bound on ||Q'Q - I|| of axes that are weighted sums of the rows.
MAX_ORTHOGONALITY_DEFECT = 3e-11
# A-priori estimate of ||Q'Q - I|| up to which CholeskyQR2 is used, and Householder QR above ...
_MAX_CHOLQR2_LOSS = 1e-9
# ... and up to which a single round of Cholesky QR, or QR of blocks of sparse rows, suffices.
_MAX_CHOLQR_LOSS = 1e-11
# Largest accepted error of the axes, ||Q'Q - I|| or relative distance of rows from the span.
_MAX_AXES_ERROR = 1e-8
# Random probes that bound the error of the axes; each bound fails with probability 10^-10.
_N_PROBES = 10
# Seed of zero-variance directions and random probes; arbitrary but unlikely to be chosen by users.
_RANDOM_SEED = 0x5AFE_C0DE_2018
# Largest number of entries of the second moments for which sparse rows are verified with matrices:
# 2.4 GB.
_MAX_MATRIX_ENTRIES = 3e8
# Up to this many features, data with fewer rows than features are verified in the features
# themselves.
MAX_WIDE_FEATURES = 2500
# Features that are compared first to see whether rows are distinct.
_N_SAMPLED_FEATURES = 16
# Features of which explicit axes are rotated at a time.
_BLOCK_FEATURES = 2048


@dataclass(frozen=True, eq=False, repr=False)
class RowMoments(BaseMoments):
    """Moments that keep the rows instead of p x p matrices.

    Offers what a fit needs of :class:`GroupMoments`. Refers to all rows, so it cannot be merged or
    saved; the result of :meth:`to_dense` can.

    Attributes
    ----------
    groups : (k,) array
        Labels in sorted order.
    counts, weights : (k,) arrays
    means : (k, p) array
    group_rows : tuple of GroupRows
        Rows of each group.
    n_dropped : int
    feature_names : tuple of str or None
    """

    group_rows: tuple[GroupRows, ...]
    # Only GroupMoments have these.
    by_class: ClassVar[None] = None
    all_columns: ClassVar[None] = None
    em_summary: ClassVar[None] = None

    @classmethod
    def _from_groups(cls, groups: Sequence[GroupRows], **fields: Any) -> Self:
        """Build from the rows of each group, in label order, and the other fields of the class."""
        with np.errstate(over="ignore", invalid="ignore"):  # detected by check_range
            return cls(
                label_array([group.label for group in groups]),
                np.array([len(group.row_indices) for group in groups]),
                np.array([group.weight for group in groups]),
                np.array([group.mean for group in groups]),
                tuple(groups),
                mean_corrections=np.array([group.mean_correction for group in groups]),
                **fields,
            )

    @cached_property
    def variances(self) -> FloatArray:
        """Variance of each feature about each group's own mean (ddof 0), shape (k, p)."""
        with np.errstate(over="ignore", invalid="ignore"):  # detected by check_range
            return np.array([group.variances for group in self.group_rows])

    def second_moments_about(self, point: FloatArray) -> SparseSecondMoments:
        """Second moments about a (p,) point, or about (k, p) points, one for each group."""
        return SparseSecondMoments(
            self.group_rows,
            offsets=self.offsets_from(point),
            forbidden=np.empty((self.n_features, 0)),
            excluded_variances=np.zeros(self.n_groups),
        )

    def divided_by(self, scale: FloatArray) -> Self:
        """Moments of the rows divided by `scale`, a (p,) array of positive numbers."""
        return self._from_groups(
            [group.divided_by(scale) for group in self.group_rows],
            n_dropped=self.n_dropped,
            weight_exponent=self.weight_exponent,
        )

    def with_attributes(self, columns: Sequence[ColumnKey]) -> Self:
        """Return self; only :class:`GroupMoments` keep attributes.

        A restriction that needs `columns` says so when it finds none.
        """
        return self

    def select_named_features(self, names: Sequence[str] | None) -> Self:
        """Return self: features are selected before rows become moments."""
        return self

    def matched_to(self, known: KnownLabels) -> Self:
        """Return self: labels are matched before rows become moments."""
        return self

    @explain_memory_errors()
    def to_dense(self) -> GroupMoments:
        """Convert to dense `GroupMoments` (k p^2 entries), which can be merged and saved."""
        moments = self._dense_moments(self.group_rows, self.n_features)
        return replace(moments, feature_names=self.feature_names, skip_validation=True)

    def _dense_moments(self, groups: Sequence[GroupRows], n_features: int) -> GroupMoments:
        """Dense moments of these rows, in these or in other features."""
        check_memory(self.n_groups, n_features)
        return replace(
            dense_moments(groups, n_features, self.n_dropped),
            weight_exponent=self.weight_exponent,
            row_spread=self.row_spread,
            skip_validation=True,
        )


class SparseMoments(RowMoments):
    """Moments of many sparse rows; a fit is matrix-free."""

    matrix_free = True

    def in_features(self) -> Self:
        """Return self: solvers multiply sparse rows, in the features."""
        return self

    def for_verification(
        self, n_components: int, *, has_restriction: bool
    ) -> "GroupMoments | SparseMoments":
        """Return dense moments if they are small enough: products with rows prove no bound."""
        n_entries = self.n_groups * float(self.n_features) ** 2
        return self.to_dense() if n_entries <= _MAX_MATRIX_ENTRIES else self

    def reduce_to_row_space(self, n_components: int | float, center: Center) -> None:
        """Return None: coordinates of so many rows would take more memory than the rows."""

    @classmethod
    def from_rows(
        cls, rows: SparseRows, limit: GroupLimit = DEFAULT_GROUP_LIMIT
    ) -> "SparseMoments":
        """Build from sparse rows, without those that have missing cells.

        Raises
        ------
        InvalidInput
            No rows, invalid labels, too many groups, or overflow.
        """
        groups, n_dropped = group_sparse_rows(rows, limit)
        if not groups:
            raise no_complete_rows_error(rows, n_dropped)
        if n_dropped:
            lost_groups = rows.lost_groups([group.label for group in groups])
            if lost_groups:
                warn_of_lost_groups(rows, lost_groups)
        moments = cls._from_groups(
            groups, n_dropped=n_dropped, weight_exponent=rows.weight_exponent
        )
        # Only upper limits here, beyond which products overflow; `check_range` has lower ones too.
        check_magnitudes(moments.means, moments.variances, None, is_partial=True)
        return moments


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
        n = rows.n_rows
        kept = np.arange(n)
        if isinstance(rows, SparseRows):
            kept = np.flatnonzero(rows.kept_mask)
        elif rows.on_missing == "drop":
            kept = np.flatnonzero(~(rows.missing_label_mask | _incomplete_rows(values)))
        weights = np.ones(n) if rows.weights is None else rows.weights
        n_dropped = n - len(kept)
        labels = rows.groups[kept] if n_dropped else rows.groups
        kept_by_group = row_indices_by_group(labels, weights[kept], limit)
        indices_by_group = {label: kept[indices] for label, indices in kept_by_group.items()}
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
        # Raises the error of the first value that is not finite. Rows of zero weight, which have no
        # moments, are validated too.
        if len(order) < len(kept) or not np.isfinite(moments.means).all():
            is_kept = np.isin(np.arange(n), kept)
            with name_rows_in_errors(rows.row_name):
                for part in blocks_in_cache(*values.shape):
                    block = np.where(is_kept[part, None], values[part], 0)
                    to_finite_float64(block, part.start, rows.feature_names)
        return moments

    def divided_by(self, scale: FloatArray) -> "WideMoments":
        """Moments of the rows divided by `scale`, a (p,) array of positive numbers."""
        rows = self.rows.divided_by(scale)
        shift = rows.shift
        groups = [
            replace(
                group,
                chunks=tuple((chunk.divided_by(scale), weights) for chunk, weights in group.chunks),
                shift=shift,
                shifted_mean=group.shifted_mean / scale,
                known_variances=group.variances / scale / scale,
            )
            for group in self.group_rows
        ]
        return self._from_groups(
            groups,
            rows=rows,
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
        # `first` has the index of each distinct row, and `inverse` that of each row among these.
        first, inverse = distinct_rows(self.rows)
        if len(first) == n:
            return self._span(self.rows)
        # Equal rows have equal coordinates, which are computed once. The first of them stands for
        # all in the weighted sums that are the axes; the others get weight zero.
        row_space = self._span(self.rows[first])
        row_weights = np.zeros((n, row_space.row_weights.shape[1]))
        row_weights[first] = row_space.row_weights
        row_coordinates = row_space.row_coordinates[inverse]
        return replace(row_space, row_coordinates=row_coordinates, row_weights=row_weights)

    def _span(self, distinct: ShiftedRows) -> "RowSpace":
        """Return the row space of distinct shifted rows, of which the first is zero.

        Cholesky QR is faster; Householder QR takes over where it loses too many digits. Sparse rows
        are first factorized in blocks, since their copy could be much larger than the table.
        """
        gram = distinct.gram()
        row_norms = np.sqrt(np.diag(gram))
        row_space = self._span_by_cholesky_qr(distinct, gram, row_norms)
        if row_space is None and isinstance(distinct, SparseShiftedRows):
            row_space = self._span_by_qr_of_blocks(distinct, row_norms)
        if row_space is None:
            row_space = self._span_by_householder_qr(distinct, row_norms)
        return row_space

    def _span_by_cholesky_qr(
        self, distinct: ShiftedRows, gram: FloatArray, row_norms: FloatArray
    ) -> "RowSpace | None":
        """Row space by Cholesky QR from the Gram matrix; None if that is not accurate enough."""
        nonzero_norms = row_norms[1:]  # the first row is the shift, hence zero
        if not nonzero_norms.size or not nonzero_norms.all():
            return None
        unit_gram = gram[1:, 1:] / nonzero_norms / nonzero_norms[:, None]
        row_space = self._axes_by_cholesky_qr(distinct, unit_gram, nonzero_norms)
        if row_space is None:
            return None
        row_space = row_space.with_error_bounds(distinct, row_norms)
        return row_space if row_space.is_accurate else None

    def _span_by_qr_of_blocks(
        self, distinct: ShiftedRows, row_norms: FloatArray
    ) -> "RowSpace | None":
        """Row space by Householder QR of blocks of features; None if that is not accurate enough.

        Only the triangular factor of the rows is kept, with as many digits as that of all features
        at once. Unlike Cholesky QR, this finds rows that depend on others, which is common if most
        cells are zero. The axes are weighted sums of the independent rows, so they lose digits
        where these are nearly dependent.

        Parameters
        ----------
        distinct : ShiftedRows
            Rows minus the first row, without repetitions.
        row_norms : (n,) array
            Norms of these rows; that of the first is zero.
        """
        n = len(row_norms)
        divisors = np.where(row_norms > 0, row_norms, 1.0)
        # The factor of the blocks so far, and blocks until they have as many features as it.
        pending = [np.empty((0, n))]
        for _, block in distinct.blocks():
            pending.append((block / divisors[:, None]).T)
            if sum(map(len, pending)) >= 2 * n:
                pending = [_triangular_factor(np.vstack(pending))]
        upper = _triangular_factor(np.vstack(pending))
        upper, order = qr(upper, mode="r", pivoting=True, check_finite=False)
        # Shorter components of unit rows are rounding error.
        rank = int((np.abs(np.diag(upper)) > EPS * n).sum())
        inverse = lapack.dtrtri(upper[:rank, :rank])[0]
        # Axes of nearly dependent rows are less orthogonal than what removes differences of means
        # needs: weighted sums of rows are trusted as far as those of one round of Cholesky QR.
        if not EPS * float(np.vdot(inverse, inverse)) <= _MAX_CHOLQR_LOSS:
            return None
        independent = order[:rank]
        coordinates = np.empty((n, rank))
        coordinates[order] = upper[:rank].T
        row_weights = np.zeros((n, rank))
        row_weights[independent] = inverse
        row_space = RowSpace(
            self,
            row_coordinates=coordinates * row_norms[:, None],
            row_weights=row_weights / divisors[:, None],
            explicit_axes=np.empty((self.n_features, 0)),
        )
        row_space = row_space.with_error_bounds(distinct, row_norms)
        return row_space if row_space.is_accurate else None

    def _span_by_householder_qr(self, distinct: ShiftedRows, row_norms: FloatArray) -> "RowSpace":
        """Row space by Householder QR of the rows: slower, but with twice the digits.

        Cholesky QR loses them in the Gram matrix, which squares the condition number of the rows.
        Rows of length one are factorized, so that short rows count as much as long ones. All axes
        are stored explicitly, instead of as weighted sums of rows, and dependent directions are
        dropped.

        Parameters
        ----------
        distinct : ShiftedRows
            Rows minus the first row, without repetitions.
        row_norms : (n,) array
            Norms of these rows; that of the first is zero.
        """
        unit_rows = distinct.toarray()
        unit_rows /= np.where(row_norms > 0, row_norms, 1.0)[:, None]
        axes, upper = qr(unit_rows.T, mode="economic", overwrite_a=True, check_finite=False)
        # Pivot in the small factor; pivoting the tall matrix is slow.
        rotation, upper, order = qr(upper, mode="economic", pivoting=True, check_finite=False)
        # Shorter components of unit rows are rounding error.
        rank = int((np.abs(np.diag(upper)) > EPS * len(row_norms)).sum())
        coordinates = np.empty((len(row_norms), rank))
        coordinates[order] = upper[:rank].T
        coordinates *= row_norms[:, None]
        # In place, since the axes are as large as the table.
        for start in range(0, self.n_features, _BLOCK_FEATURES):
            block = axes[start : start + _BLOCK_FEATURES]
            block[:, :rank] = block @ rotation[:, :rank]
        row_space = RowSpace(
            self,
            row_coordinates=coordinates,
            row_weights=coordinates[:, :0],  # no axis is a weighted sum of rows
            explicit_axes=axes[:, :rank],
        )
        row_space = row_space.with_error_bounds(distinct, row_norms)
        # Errors of both kinds are relative: to unit axes, and to the length of the rows.
        error = max(row_space.orthogonality_defect, row_space.relative_span_residual)
        if not error <= _MAX_AXES_ERROR:
            raise InvalidInput(
                f"Row-space axes have an error of {error:.0e}",
                f"Allowed: orthonormal axes that contain every row, up to {_MAX_AXES_ERROR:.0e}",
                "Fit GroupMoments of the rows, and report this as a bug",
            )
        return row_space

    def _axes_by_cholesky_qr(
        self, distinct: ShiftedRows, gram: FloatArray, row_norms: FloatArray
    ) -> "RowSpace | None":
        """Cholesky QR from the Gram matrix of unit rows; None if they are nearly dependent.

        `distinct` are shifted rows, the first of which is zero; `row_norms` are the norms of the
        n - 1 others, and `gram` is the Gram matrix of these divided by their norms. No axes are
        formed: they are Q = distinct' row_weights.
        """
        lower, inverse = _cholesky_with_inverse(gram)
        # With the Cholesky factor T, one round leaves an error ||Q'Q - I|| of up to
        # eps ||T^-1||_F^2. It is NaN, which counts as too large, if the factorization fails.
        orthogonality_loss = EPS * float(np.vdot(inverse, inverse))
        if not orthogonality_loss <= _MAX_CHOLQR2_LOSS:
            return None
        if orthogonality_loss > _MAX_CHOLQR_LOSS:
            # Second round: orthonormalize the axes of the first, formed block by block.
            # `axes_gram` gets their lower triangle of products.
            axes_gram = np.zeros_like(gram)
            for _, block in distinct.blocks():
                unit_rows = block[1:] / row_norms[:, None]
                axes = blas.dtrmm(
                    1.0, inverse, unit_rows.T, side=1, lower=1, trans_a=1, overwrite_b=1
                )
                axes_gram += blas.dsyrk(1.0, axes, trans=1, lower=1)
            second_factor, second_inverse = _cholesky_with_inverse(axes_gram)
            lower = lower @ second_factor
            inverse = second_inverse @ inverse
        # A row is its norm times a row of the Cholesky factor in coordinates, and the axes are unit
        # rows times the transposed inverse. The first row is zero: zero coordinates and no weight.
        n_axes = len(row_norms)
        coordinates, row_weights = np.zeros((2, n_axes + 1, n_axes))
        coordinates[1:] = lower * row_norms[:, None]
        row_weights[1:] = inverse.T / row_norms[:, None]
        no_axes = np.empty((self.n_features, 0))
        return RowSpace(self, coordinates, row_weights, explicit_axes=no_axes)

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
        if isinstance(n_components, numbers.Integral):
            n_padding = int(n_components)  # every component may lie outside the rows
        else:
            n_padding = max(row_space.n_axes, 1)  # the largest d; at least one
        n_padding = min(n_padding, self.n_features - row_space.n_axes)
        check_memory(self.n_groups, row_space.n_axes + n_padding)
        return replace(row_space, n_padding=n_padding, center=center)

    def to_compact_coordinates(
        self, point: FloatArray, basis: FloatArray, n_components: int
    ) -> tuple[GroupMoments, FloatArray, FloatArray]:
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
        GroupMoments, (m,) or (k, m) array, (m, r) array
            Moments, point or means, and basis in m coordinates.
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
        return compact_moments, compact_point, compact_basis


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
    k = len(indices_by_group)
    stops = np.cumsum([len(indices) for indices in indices_by_group.values()]).tolist()
    positions = [slice(start, stop) for start, stop in zip([0, *stops], stops, strict=False)]
    group_weights = [float(weights[part].sum()) for part in positions]
    means = np.zeros((k, rows.shape[1]))
    variances = np.zeros_like(means)
    for features, block in rows.blocks():
        rows.record_checksum(block)
        for group, part in enumerate(positions):
            deviations = block[part]
            mean = weights[part] @ deviations / group_weights[group]
            deviations -= mean  # in place, as the next block overwrites them anyway
            squares = np.square(deviations, out=deviations)
            means[group, features] = mean
            variances[group, features] = weights[part] @ squares / group_weights[group]
    return [
        GroupRows(
            label,
            ((rows[positions[group]], weights[positions[group]]),),
            group_weights[group],
            rows.shift,
            means[group],
            indices,
            known_variances=variances[group],
        )
        for group, (label, indices) in enumerate(indices_by_group.items())
    ]


def distinct_rows(rows: ShiftedRows) -> tuple[IndexArray, IndexArray]:
    """Return the first index of each distinct row, and for each row the distinct row it equals.

    Parameters
    ----------
    rows : ShiftedRows

    Examples
    --------
    >>> table = np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 2.0]])
    >>> distinct_rows(ShiftedRows(table, np.arange(3), shift=table[0]))
    (array([0, 1]), array([0, 1, 0]))
    """
    n, p = rows.shape
    all_indices = np.arange(n)
    # Distinct rows nearly always differ in a few features already.
    n_sampled = min(p, _N_SAMPLED_FEATURES)
    sampled = rows.select_features(np.arange(n_sampled) * (p - 1) // max(n_sampled - 1, 1))
    # A single feature with distinct values is the fastest proof that rows are distinct.
    if (np.diff(np.sort(sampled, axis=0), axis=0) > 0).all(axis=0).any():
        return all_indices, all_indices
    if len(np.unique(sampled, axis=0)) == n:
        return all_indices, all_indices
    # Equal rows have nearly equal products with a random vector: only such neighbors are compared.
    products = rows @ np.random.default_rng(_RANDOM_SEED).standard_normal(p)
    order = np.argsort(products, kind="stable")
    is_near = np.diff(products[order]) <= SUM_ROUNDING * float(np.abs(products).max())
    candidates = np.unique(order[np.append(is_near, False) | np.append(False, is_near)])
    # `first_equal` is the first row that each row equals; rows with equal hashes are compared.
    first_equal = all_indices.copy()
    by_hash: dict[int, list[int]] = {}
    for row in candidates.tolist():
        values = rows[row : row + 1].toarray() + 0.0  # turns -0.0 into 0.0
        same_hash = by_hash.setdefault(hash(values.tobytes()), [])
        for other in same_hash:
            if np.array_equal(rows[other : other + 1].toarray(), values):
                first_equal[row] = other
                break
        else:
            same_hash.append(row)
    first, inverse = np.unique(first_equal, return_inverse=True)
    return first, inverse


def _triangular_factor(columns: FloatArray) -> FloatArray:
    """Return the triangular factor of the QR decomposition of (m, n) columns, min(m, n) rows."""
    return np.asarray(qr(columns, mode="r", check_finite=False)[0][: columns.shape[1]])


def _cholesky_with_inverse(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Cholesky factor of a Gram matrix (lower half given) and the inverse of this factor.

    The inverse is NaN if the matrix is not positive definite.
    """
    lower, failed = lapack.dpotrf(gram, lower=1)
    if failed:
        return lower, np.full_like(lower, np.nan)
    return lower, lapack.dtrtri(lower, lower=1)[0]


@dataclass(frozen=True, eq=False)
class RowSpace:
    """Orthonormal axes that span the shifted rows, and the coordinates of the rows.

    The first axes are B'M (implicit), where B are the (n, p) shifted rows. Explicit axes come
    next, then padding without variance. Q are the axes without padding, as columns.

    Attributes
    ----------
    moments_of_rows : WideMoments
        Moments of the rows in all features.
    row_coordinates : (n, r) array
        Coordinates of the rows.
    row_weights : (n, r') array
        M; empty (r' = 0) if all axes are explicit.
    explicit_axes : (p, e) array
        Explicit axes.
    n_padding : int
        Number of axes without variance.
    center : {"global", "group", "none"}
        Center about which errors are measured; see :attr:`point`.
    orthogonality_defect : float
        Bound on ||Q'Q - I||.
    relative_span_residual : float
        Bound on the distance of rows from the span, relative to their norm.
    """

    moments_of_rows: WideMoments
    row_coordinates: FloatArray
    row_weights: FloatArray
    explicit_axes: FloatArray
    n_padding: int = 0
    center: Center = "global"
    orthogonality_defect: float = 0.0
    relative_span_residual: float = 0.0

    @property
    def n_axes(self) -> int:
        """Number of axes without padding."""
        return int(self.row_weights.shape[1] + self.explicit_axes.shape[1])

    @property
    def is_accurate(self) -> bool:
        """Whether axes that are weighted sums of rows are orthonormal, and span the rows."""
        # NaN compares as false, so it counts as inaccurate.
        if self.orthogonality_defect <= MAX_ORTHOGONALITY_DEFECT:
            return self.relative_span_residual <= _MAX_AXES_ERROR
        return False

    @cached_property
    def point(self) -> FloatArray:
        """Center of the errors in coordinates, (m,), or the mean of each group, (k, m)."""
        if self.center == "none":
            # Coordinates are relative to the shift.
            return self.project(-self.moments_of_rows.shift[:, None])[:, 0]
        # Means of the coordinates, and not projected means of the features, which carry the
        # rounding error of their offset.
        return self.coordinate_moments.center_point(self.center)

    @property
    def max_components(self) -> int:
        """Largest number of components for which the padding suffices.

        A subspace may extend beyond the rows in as many directions as it has components, unless
        axes and padding span all features.
        """
        spans_all_features = self.n_axes + self.n_padding == len(self.explicit_axes)
        return len(self.explicit_axes) if spans_all_features else self.n_padding

    @cached_property
    def coordinate_moments(self) -> GroupMoments:
        """Dense moments of the rows, with their coordinates along all axes as features.

        Group means that are equal up to rounding are made exactly equal, and so are the rows of a
        group: their scatter becomes zero.
        """
        n, r = self.row_coordinates.shape
        # Rows have zero coordinates along the other axes, which a fit may need besides those of the
        # rows: the direction of the origin, and the padding (directions without variance).
        m = self.n_axes + self.n_padding
        rows = np.zeros((n, m))
        rows[:, :r] = self.row_coordinates
        moments = self.moments_of_rows.moments_of_coordinates(rows)
        squares = np.einsum("ij,ij->i", rows, rows)
        # Sums of rows are rounded relative to the distance of rows from the shift.
        rms_distance = np.sqrt(squares.sum() / len(squares))
        max_difference = np.linalg.norm(moments.means - moments.means[0], axis=1).max()
        if max_difference <= FIGURE_ROUNDING * rms_distance:
            common_means = np.tile(moments.mean, (moments.n_groups, 1))
            moments = replace(
                moments, means=common_means, mean_corrections=None, skip_validation=True
            )
        # A group of equal rows has no variance, which rounding would make positive. Scatters are
        # sums over the rows, hence the weights.
        traces = np.einsum("gii->g", moments.scatters)
        is_constant = traces <= FIGURE_ROUNDING**2 * squares.max() * moments.weights
        if is_constant.any():
            scatters = np.where(is_constant[:, None, None], 0.0, moments.scatters)
            moments = replace(moments, scatters=scatters, skip_validation=True)
        return moments

    def with_error_bounds(self, distinct: ShiftedRows, row_norms: FloatArray) -> "RowSpace":
        """Return a copy with probabilistic bounds on ||Q'Q - I|| and on the span residual.

        Q are the axes without padding, as columns; the span residual is the distance of rows from
        the span of Q, relative to their norm. With ten random probes, each bound fails with
        probability 1e-10 (Halko, Martinsson and Tropp 2011, lemma 4.1). The bound on Q'Q - I is the
        square root of a bound on the norm of its square.

        Parameters
        ----------
        distinct : ShiftedRows
            Shifted rows without repetitions, of which :attr:`row_coordinates` are the coordinates.
        row_norms : (n,) array
            Norms of these rows.
        """
        rng = np.random.default_rng(_RANDOM_SEED)
        axis_probes = rng.standard_normal((self.n_axes, _N_PROBES))
        n_features = len(self.explicit_axes)  # (p, e), even if there are no explicit axes
        feature_probes = rng.standard_normal((n_features, _N_PROBES))
        # Twice: products with the squared matrix give a sharper bound.
        deviation, products = self._gram_deviation(axis_probes, distinct, feature_probes)
        squared_deviation, _ = self._gram_deviation(deviation, distinct, feature_probes[:, :0])
        # Axes are explicit, or weighted sums of the distinct rows.
        projected_probes = self.row_weights.T @ products
        if not self.row_weights.size:
            projected_probes = self.explicit_axes.T @ feature_probes
        residual = products - self.row_coordinates @ projected_probes
        residual /= np.where(row_norms > 0, row_norms, 1.0)[:, None]
        return replace(
            self,
            orthogonality_defect=float(np.sqrt(_norm_bound(squared_deviation))),
            relative_span_residual=_norm_bound(residual),
        )

    def _gram_deviation(
        self, columns: FloatArray, distinct: ShiftedRows, feature_columns: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return (Q'Q - I)C of columns C, one row per axis, and products of rows with features.

        Both are found in one pass over the distinct rows. `columns` are (r, q), `feature_columns`
        (p, s).
        """
        if not self.row_weights.size:
            deviation = self.explicit_axes.T @ (self.explicit_axes @ columns) - columns
            if not feature_columns.size:
                return deviation, feature_columns
            return deviation, distinct @ feature_columns
        q = columns.shape[1]
        images = distinct.lift_and_multiply(self.row_weights @ columns, feature_columns)
        return self.row_weights.T @ images[:, :q] - columns, images[:, q:]

    def span_residuals(self) -> FloatArray:
        """Bound on the RMS distance of each group's rows from the span, shape (k,)."""
        moments = self.moments_of_rows
        shifted_means = np.array([group.shifted_mean for group in moments.group_rows])
        mean_squares = moments.variances.sum(axis=1) + (shifted_means**2).sum(axis=1)
        return np.asarray(self.relative_span_residual * np.sqrt(mean_squares))

    def lift(self, columns: FloatArray) -> FloatArray:
        """Lift (m, q) columns of coordinates along the axes to (p, q) columns of features.

        The axes are orthonormal, so the lifted columns have the same products with each other up
        to rounding.
        """
        lifted = self._lift_axes(columns)
        # Coordinates along the padding, which are the last axes, in directions without variance.
        padding = columns[self.n_axes :]
        # The padding is formed only if needed. Iterative solvers leave shorter residues along it,
        # which are left out.
        if np.linalg.norm(padding) > ANGLE_TOL:
            lifted = lifted + self._padding @ padding
        gram = columns.T @ columns
        gram_error = lifted.T @ lifted - gram
        if self.row_weights.size and np.abs(gram_error).max(initial=0.0) > FIGURE_ROUNDING:
            # Axes that are weighted sums of rows are less orthogonal than explicit ones, so the
            # products of the lifted columns are inexact. Correct them to first order. The columns
            # keep their span, so that errors of the subspace change only in proportion to
            # themselves.
            lifted -= lifted @ np.linalg.lstsq(gram, gram_error, rcond=RANK_TOL)[0] / 2
        return lifted

    def project(self, columns: FloatArray) -> FloatArray:
        """Return the coordinates (m, q) of (p, q) columns of features, projected on all axes.

        The last rows are coordinates along the padding, the axes without variance.
        """
        padding = np.zeros((self.n_padding, columns.shape[1]))
        squares = np.einsum("ij,ij->j", columns, columns)
        coordinates = self._project_on_axes(columns)
        residual_squares = squares - np.einsum("ij,ij->j", coordinates, coordinates)
        if (residual_squares <= FIGURE_ROUNDING * squares).all():
            # The columns are in the span of the other axes: nothing is left for the padding.
            return np.vstack([coordinates, padding])
        # Projects twice, unlike above, since the residual must be orthogonal to the axes.
        coordinates, residual = self._decompose(columns)
        if self.n_padding and np.linalg.norm(residual) > ANGLE_TOL * np.linalg.norm(columns):
            padding = self._padding.T @ residual
        return np.vstack([coordinates, padding])

    def extend(self, columns: FloatArray) -> "RowSpace":
        """Extend the axes to span (p, q) further columns, before padding is set.

        Columns within the span of the axes add none.
        """
        # Zero columns add no axis.
        norms = np.linalg.norm(columns, axis=0)
        axes = self._new_axes(columns[:, norms > 0] / norms[norms > 0])
        return replace(self, explicit_axes=np.hstack([self.explicit_axes, axes]))

    def _new_axes(self, columns: FloatArray) -> FloatArray:
        """Orthonormal axes for the components of columns outside the span."""
        if not columns.size:
            return columns
        for _ in range(2):  # twice: reorthogonalize nearly dependent columns
            residual = self._decompose(columns)[1]
            axes, upper, _ = qr(residual, mode="economic", pivoting=True)
            rank = int((np.abs(np.diag(upper)) > RANK_TOL).sum())
            columns = axes[:, :rank]
        return columns

    def _lift_axes(self, columns: FloatArray) -> FloatArray:
        n_implicit = self.row_weights.shape[1]
        lifted = self.explicit_axes @ columns[n_implicit : self.n_axes]
        if not n_implicit:
            return lifted
        return lifted + self.moments_of_rows.rows.T @ (self.row_weights @ columns[:n_implicit])

    def _project_on_axes(self, columns: FloatArray) -> FloatArray:
        explicit = self.explicit_axes.T @ columns
        if not self.row_weights.size:
            return explicit
        implicit = self.row_weights.T @ (self.moments_of_rows.rows @ columns)
        return np.vstack([implicit, explicit])

    def _decompose(self, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Decompose columns into coordinates along the axes and the residual outside their span."""
        coordinates = np.zeros((self.n_axes, columns.shape[1]))
        residual = columns
        for _ in range(2):  # twice: reorthogonalize
            step = self._project_on_axes(residual)
            coordinates = coordinates + step
            residual = residual - self._lift_axes(step)
        return coordinates, residual

    @cached_property
    def _padding(self) -> FloatArray:
        """Orthonormal directions without variance, reproducible."""
        # An unusual seed: rows drawn with the same one would span the padding.
        rng = np.random.default_rng(_RANDOM_SEED)
        return self._new_axes(rng.standard_normal((self.n_padding, len(self.explicit_axes))).T)


def _norm_bound(images: FloatArray) -> float:
    """Probabilistic bound on the norm of a matrix from its products with random normal vectors.

    Each column of `images` is one product. The bound fails with probability 10^-r for r products
    (Halko, Martinsson and Tropp 2011, lemma 4.1 with a factor of 10).
    """
    return float(10 * np.sqrt(2 / np.pi) * np.linalg.norm(images, axis=0).max(initial=0.0))
