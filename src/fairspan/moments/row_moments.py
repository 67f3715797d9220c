"""Moments that keep the rows: base class, and moments of sparse rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from fairspan.linalg.memory import check_memory, explain_memory_errors
from fairspan.moments.base_moments import BaseMoments, Center, check_magnitudes
from fairspan.moments.dropped_rows import no_complete_rows_error, warn_of_lost_groups
from fairspan.moments.group_moments import GroupMoments, dense_moments
from fairspan.moments.group_rows import GroupRows
from fairspan.moments.sparse_scatter import SparseSecondMoments, group_sparse_rows
from fairspan.rows.attributes import ColumnKey
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.labels import label_array
from fairspan.rows.sparse_rows import SparseRows
from fairspan.typing import FloatArray

# Largest number of entries of the second moments for which sparse rows are verified with matrices:
# 2.4 GB.
_MAX_MATRIX_ENTRIES = 3e8


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
                groups=label_array([group.label for group in groups]),
                counts=np.array([len(group.row_indices) for group in groups]),
                weights=np.array([group.weight for group in groups]),
                means=np.array([group.mean for group in groups]),
                group_rows=tuple(groups),
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
