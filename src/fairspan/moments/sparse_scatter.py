"""Matrix-free second moments of sparse rows, without centering or densifying them.

Centering would destroy sparsity, so it stays implicit: with T = XV - m'V, the covariance of a group
times V is X'T / n. This is accurate unless a column's mean is large compared to its standard
deviation. A column with at least half zeros cannot have such a mean (mean^2 <= variance); the other
columns are shifted by the mean of their stored values first, which at most doubles their stored
cells.

With a few forbidden directions F, the second moments are P S P with P = I - FF', in all features.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import scipy

from fairspan.linalg import (
    N_GUARD_VECTORS,
    ApproximateSubspace,
    LeadingSubspace,
    leading_subspace_krylov,
    symmetrize,
)
from fairspan.linalg.rounding import CANCELLATION_RATIO
from fairspan.moments.base_moments import no_group_labels_error
from fairspan.moments.group_rows import GroupRows
from fairspan.moments.projector import encoder_columns
from fairspan.rows.coded_labels import CodedLabels, LabelEncoder
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.labels import Label
from fairspan.rows.sparse_rows import CsrArray, SparseRows
from fairspan.typing import FloatArray, IndexArray


def row_indices_by_group(
    labels: CodedLabels,
    weights: FloatArray | None,
    limit: GroupLimit,
    *,
    has_classes: bool = False,
) -> dict[Label, IndexArray]:
    """Return the indices of the rows with positive weight, by group in label order.

    Parameters
    ----------
    labels : (n,) labels
    weights : (n,) array or None
        None if all rows have weight one.
    limit : GroupLimit
        Limit on the number of groups.
    has_classes : bool
        Whether the labels are pairs of group and class.

    Raises
    ------
    InvalidInput
        Invalid label, or too many groups.
    """
    encoder = LabelEncoder()
    codes = encoder.encode(labels)
    if weights is not None:
        codes = np.where(weights > 0, codes, -1)
    # Count code -1 too, and leave it out.
    counts = np.bincount(codes + 1, minlength=1)[1:]
    present = np.flatnonzero(counts).tolist()
    check = limit.check_pairs if has_classes else limit.check
    check([encoder.labels[code] for code in present], int(counts.sum()))
    present.sort(key=encoder.labels.__getitem__)
    return {encoder.labels[code]: np.flatnonzero(codes == code) for code in present}


class GroupedSparseRows(NamedTuple):
    """Sparse rows by group.

    Attributes
    ----------
    groups : list of GroupRows
        In label order.
    n_dropped : int
        Number of incomplete rows, which are left out.
    """

    groups: list[GroupRows]
    n_dropped: int


def group_sparse_rows(
    rows: SparseRows, limit: GroupLimit = DEFAULT_GROUP_LIMIT
) -> GroupedSparseRows:
    """Split sparse rows by group, without incomplete rows that are dropped.

    Groups of rows with classes are pairs of group and class. Rows of zero weight belong to none.

    Raises
    ------
    InvalidInput
        No labels, an invalid label, or too many groups.
    """
    complete = rows.without_dropped()
    labels = complete.finest_groups
    if labels is None:
        raise no_group_labels_error()
    weights = np.ones(complete.n_rows) if complete.weights is None else complete.weights
    indices_by_group = row_indices_by_group(
        labels, weights, limit, has_classes=complete.has_classes
    )
    groups = []
    with np.errstate(over="ignore", invalid="ignore"):  # detected by check_magnitudes
        for label, indices in indices_by_group.items():
            group_weights = weights[indices]
            # Columns that are mostly nonzero are shifted to about zero, so that a large mean does
            # not hide their variance.
            shift = _column_shifts(complete.matrix[indices], group_weights)
            shifted = _shift_columns(complete.matrix[indices], shift)
            groups.append(GroupRows.from_rows(label, shifted, group_weights, shift, indices))
    return GroupedSparseRows(groups, n_dropped=rows.n_rows - complete.n_rows)


def _column_shifts(rows: CsrArray, weights: FloatArray) -> FloatArray:
    """Return the shift of each column: the mean of its stored values, or zero.

    It is zero unless rows of most of the weight have a stored cell there: the mean of other columns
    is small beside their variance (see the top of this module).
    """
    p = rows.shape[1]
    cell_weights = np.repeat(weights, np.diff(rows.indptr))
    stored_weight = np.bincount(rows.indices, cell_weights, minlength=p)
    mostly_stored = stored_weight > weights.sum() / 2
    if not mostly_stored.any():
        return np.zeros(p)
    # Average relative to the last stored value, so that a constant column is shifted to exactly
    # zero.
    last_value = np.zeros(p)
    last_value[rows.indices] = rows.data
    differences = rows.data - last_value[rows.indices]
    sums = np.bincount(rows.indices, cell_weights * differences, p)
    means = last_value + sums / np.where(mostly_stored, stored_weight, 1.0)
    return np.where(mostly_stored, means, 0.0)


def _shift_columns(rows: CsrArray, shift: FloatArray) -> CsrArray:
    """Subtract the shift, which densifies the columns where it is not zero."""
    columns = np.flatnonzero(shift)
    if len(columns) == 0:
        return rows
    n = rows.shape[0]
    # Data, column indices and row starts of a matrix with the shift in every row.
    repeated = (np.tile(shift[columns], n), np.tile(columns, n), np.arange(n + 1) * len(columns))
    shifted = scipy.sparse.csr_array(rows - scipy.sparse.csr_array(repeated, shape=rows.shape))
    shifted.eliminate_zeros()
    return shifted


@dataclass(frozen=True, eq=False)
class SparseSecondMoments:
    """Matrix-free second moments about a point, or about each group mean.

    Parameters
    ----------
    groups : sequence of GroupRows
    offsets : (k, p) array
        Group means minus the point; zero if about each group mean.
    forbidden : (p, r) array
        Forbidden directions F, orthonormal columns.
    excluded_variances : (k,) array
        Variance along F that counts as error for every allowed subspace.
    """

    groups: Sequence[GroupRows]
    offsets: FloatArray
    forbidden: FloatArray
    excluded_variances: FloatArray
    has_matrices: ClassVar[bool] = False

    def forbid(
        self, columns: FloatArray, excluded_variances: FloatArray | None = None
    ) -> "SparseSecondMoments":
        """Forbid further orthonormal (p, r) directions, orthogonal to those before.

        `excluded_variances` replaces the variances along all of them, (k,); by default it stays.
        """
        forbidden = np.hstack([self.forbidden, columns])
        if excluded_variances is None:
            return replace(self, forbidden=forbidden)
        return replace(self, forbidden=forbidden, excluded_variances=excluded_variances)

    def select_group(self, group: int) -> "SparseSecondMoments":
        """Second moments of one group."""
        index = slice(group, group + 1)
        return SparseSecondMoments(
            self.groups[index], self.offsets[index], self.forbidden, self.excluded_variances[index]
        )

    @property
    def n_groups(self) -> int:
        """Number of groups, k."""
        return len(self.groups)

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.offsets.shape[1])

    @cached_property
    def traces(self) -> FloatArray:
        """tr P S_g P plus the excluded variance of each group, shape (k,)."""
        if not self.forbidden.size:
            return np.asarray(self._mean_squares.sum(axis=1) + self.excluded_variances)
        return self._residual_variances(self.forbidden) + self.excluded_variances

    @property
    def smallest_variances(self) -> FloatArray:
        """The traces, shape (k,): without matrices, rounding is relative to all variance."""
        return self.traces

    def decompose_groups(self) -> None:
        """Do nothing: eigenvectors of sparse rows are found by iteration when needed."""

    @cached_property
    def _mean_squares(self) -> FloatArray:
        """Mean square of each feature about the point, shape (k, p)."""
        return np.array([group_rows.variances for group_rows in self.groups]) + self.offsets**2

    def captured_variances(self, basis: FloatArray) -> FloatArray:
        """c_g(V) = tr(V'P S_g P V), shape (k,)."""
        return self._captured_variances(self._project_out_forbidden(basis))

    def residual_variances(self, basis: FloatArray) -> FloatArray:
        """Residual variance of each group for a basis orthogonal to F, shape (k,).

        It is accurate even if tiny.
        """
        return self.excluded_variances + self._residual_variances(
            np.hstack([self.forbidden, self._project_out_forbidden(basis)])
        )

    def compress(self, basis: FloatArray) -> FloatArray:
        """Compress: V'P S_g P V of each group, shape (k, d, d)."""
        return symmetrize(basis.T @ self.apply(basis))

    def apply(self, basis: FloatArray) -> FloatArray:
        """Apply: P S_g P V of each group, shape (k, p, d)."""
        # The mixture with weight one for a group is that group.
        return np.array(
            [self._apply_mixture(unit_weights, basis) for unit_weights in np.eye(self.n_groups)]
        )

    def leading(
        self, weights: FloatArray, n_components: int, tie_tol: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of sum_g weights_g P S_g P, by iteration (not certified)."""
        return self.approximate_leading(weights, n_components, tie_tol=tie_tol).leading

    def approximate_leading(
        self,
        weights: FloatArray,
        n_components: int,
        *,
        start: FloatArray | None = None,
        tie_tol: float = 0.0,
        sum_tol: float | None = None,
    ) -> ApproximateSubspace:
        """Approximate leading eigenvectors of a mixture of the groups' second moments.

        The mixture is sum_g weights_g P S_g P, where S_g are the second moments of group g and P
        projects out the forbidden directions. The result estimates the error of the sum of the
        eigenvalues too.

        Parameters
        ----------
        weights : (k,) array
            Weights of the groups, of either sign.
        n_components : int
        start : (p, m) array, optional
            Directions near the eigenvectors.
        tie_tol : float
            Eigenvalues within this absolute distance of eigenvalue d count as tied with it.
        sum_tol : float, optional
            Stop once the estimated error of the sum of the d largest eigenvalues is at most this;
            by default, iterate to float64 accuracy.

        Returns
        -------
        ApproximateSubspace
            Orthogonal to the forbidden directions.
        """
        # Features that differ from the center in some row.
        nonzero = np.flatnonzero(self._mean_squares.any(axis=0))
        # Guard vectors are iterated beyond the d leading ones, to speed up their convergence.
        n_vectors = n_components + N_GUARD_VECTORS
        # Dropping features of zeros pays if that at least halves the number of features.
        is_smaller = max(2 * len(nonzero), n_vectors) < self.n_features
        if is_smaller and len(nonzero) > n_vectors and not self.forbidden.size:
            # Work in these features only, since others have zero loadings. Forbidden directions may
            # have entries in any feature, so with them all are kept.
            approximation = self._nonzero_features.approximate_leading(
                weights,
                n_components,
                start=None if start is None else start[nonzero],
                tie_tol=tie_tol,
                sum_tol=sum_tol,
            )
            return approximation.embed(nonzero, self.n_features)
        return leading_subspace_krylov(
            lambda block: self._apply_mixture(weights, block),
            self.n_features,
            n_components,
            norm_bound=float(np.abs(weights) @ self.traces),
            start=start,
            orthogonal_to=self.forbidden,
            tie_tol=tie_tol,
            sum_tol=sum_tol,
        )

    @cached_property
    def _nonzero_features(self) -> "SparseSecondMoments":
        """Second moments without features that equal the point in every row."""
        nonzero = np.flatnonzero(self._mean_squares.any(axis=0))
        return replace(
            self,
            groups=[group_rows.select_features(nonzero) for group_rows in self.groups],
            offsets=self.offsets[:, nonzero],
            forbidden=self.forbidden[nonzero],
        )

    def n_ritz(self, n_components: int) -> int:
        """Return the number of Ritz vectors computed for d components, guard vectors included."""
        return min(n_components + N_GUARD_VECTORS, self.n_features - int(self.forbidden.shape[1]))

    def _apply_mixture(self, weights: FloatArray, block: FloatArray) -> FloatArray:
        """Apply sum_g weights_g P S_g P to a block."""
        block = self._project_out_forbidden(block)
        image = np.zeros_like(block)
        for group in np.flatnonzero(weights).tolist():
            offset = self.offsets[group]
            covariance_image = self.groups[group].apply_covariance(block)
            image += weights[group] * (covariance_image + np.outer(offset, offset @ block))
        return self._project_out_forbidden(image)

    def _project_out_forbidden(self, block: FloatArray) -> FloatArray:
        if not self.forbidden.size:
            return block
        return np.asarray(block - self.forbidden @ (self.forbidden.T @ block))

    def _captured_variances(self, basis: FloatArray) -> FloatArray:
        """tr(V'S_gV), shape (k,)."""
        within_groups = np.array(
            [group_rows.captured_variance(basis) for group_rows in self.groups]
        )
        return np.asarray(within_groups + ((self.offsets @ basis) ** 2).sum(axis=1))

    def _residual_variances(self, basis: FloatArray) -> FloatArray:
        """Residual variances tr S_g - tr(V'S_gV), shape (k,).

        If nearly everything is captured, the difference cancels; then it is computed from row
        residuals. Forbidden directions play no part here, unlike in :meth:`residual_variances`.
        """
        traces = self._mean_squares.sum(axis=1)
        columns = encoder_columns(basis)
        residuals = traces - self._captured_variances(basis)
        # Without variance there is nothing to cancel: the residual is zero.
        is_cancelled = (residuals <= CANCELLATION_RATIO * traces) & (traces > 0)
        for group in np.flatnonzero(is_cancelled).tolist():
            group_rows = self.groups[group]
            residuals[group] = group_rows.mean_squared_residual(self.offsets[group], columns)
        return np.asarray(np.maximum(residuals, 0.0))
