"""Matrix-free second moments of sparse rows, without centering or densifying them.

Centering would destroy sparsity, so it stays implicit: with T = XV - m'V, the covariance of a group
times V is X'T / n. This is accurate unless a column's mean is large compared to its standard
deviation. A column with at least half zeros cannot have such a mean (mean^2 <= variance); the other
columns are shifted by the mean of their stored values first, which at most doubles their stored
cells.

With a few forbidden directions F, the second moments are P S P with P = I - FF', in all features.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy

from fairspan.linalg import (
    N_GUARD_VECTORS,
    ApproximateSubspace,
    LeadingSubspace,
    leading_subspace_krylov,
    power_of_two_unit,
    symmetrize,
)
from fairspan.linalg.double_double import divide, exact_sum
from fairspan.linalg.rounding import CANCELLATION_RATIO
from fairspan.moments.base_moments import no_group_labels_error
from fairspan.moments.projector import encoder_columns
from fairspan.moments.shifted_rows import ShiftedRows
from fairspan.rows.blocks import rows_per_block
from fairspan.rows.coded_labels import CodedLabels, LabelEncoder
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.labels import Label
from fairspan.rows.sparse_rows import CsrArray, SparseRows
from fairspan.typing import FloatArray, IndexArray

# Rows and stored entries per chunk, to bound temporary memory.
_CHUNK_ROWS = 2**15
_CHUNK_ENTRIES = 2**22
_MIN_CHUNK_ROWS = 256
# Columns multiplied with a chunk at a time.
_BLOCK_COLUMNS = 64
# Entries of a block of dense rows that is copied to be changed: 1 MB, which stays in cache. Memory
# for larger blocks would be claimed anew each time, which takes longer than the arithmetic.
_CACHED_ENTRIES = 2**17


class RowChunk(NamedTuple):
    """Consecutive shifted rows of a group, with their positive weights.

    Attributes
    ----------
    rows : (r, p) csr_array, array or ShiftedRows
    weights : (r,) array
    """

    rows: Any
    weights: FloatArray


class _ChunkCoordinates(NamedTuple):
    """Centered coordinates (x - mean)'V of the rows of a chunk along some directions V.

    Attributes
    ----------
    columns : slice
        Positions of these directions among all.
    coordinates : (r, q) array
    chunk : RowChunk
    """

    columns: slice
    coordinates: FloatArray
    chunk: RowChunk


@dataclass(frozen=True, eq=False)
class GroupRows:
    """Shifted rows y = x - shift of one group, sparse or dense, and their mean.

    Attributes
    ----------
    label : Label
    chunks : tuple of RowChunk
        Shifted rows, in order.
    weight : float
        Total weight, n_g.
    shift : (p,) array
        Zero for sparse columns that are zero in at least half of the rows.
    shifted_mean : (p,) array
        Weighted mean of y; the group's mean is shift + shifted_mean.
    row_indices : (n_g,) array of int
        Indices of the rows in the whole table.
    shift_correction : (p,) array or 0
        Exact shift minus `shift`, if rows were divided by a scale.
    known_variances : (p,) array or None
        :attr:`variances`, if they were found together with the mean.
    """

    label: Label
    chunks: tuple[RowChunk, ...]
    weight: float
    shift: FloatArray
    shifted_mean: FloatArray
    row_indices: IndexArray
    shift_correction: FloatArray | float = 0.0
    known_variances: FloatArray | None = None

    @classmethod
    def from_rows(
        cls, label: Label, rows: Any, weights: FloatArray, shift: FloatArray, indices: IndexArray
    ) -> "GroupRows":
        """Build from rows minus `shift` (at least one) with positive weights, split into chunks.

        `indices` are the positions of the rows in the whole table.
        """
        n = rows.shape[0]
        weight = float(weights.sum())
        # Chunks of about as many stored entries as a budget allows, but not of too few rows.
        n_stored = rows.nnz if scipy.sparse.issparse(rows) else rows.size
        rows_in_budget = _CHUNK_ENTRIES * n / max(n_stored, 1)
        size = int(min(max(rows_in_budget, _MIN_CHUNK_ROWS), _CHUNK_ROWS))
        chunks = tuple(
            RowChunk(rows[start : start + size], weights[start : start + size])
            for start in range(0, n, size)
        )
        shifted_mean = sum(chunk.rows.T @ chunk.weights for chunk in chunks) / weight
        return cls(label, chunks, weight, shift, shifted_mean, indices)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are stored as a sparse matrix."""
        return bool(scipy.sparse.issparse(self.chunks[0].rows))

    @property
    def mean(self) -> FloatArray:
        """Weighted mean row, (p,)."""
        return self._mean_and_correction[0]

    @property
    def mean_correction(self) -> FloatArray:
        """Exact mean minus the mean rounded to float64, (p,)."""
        return self._mean_and_correction[1]

    @cached_property
    def _mean_and_correction(self) -> tuple[FloatArray, FloatArray]:
        """Mean rounded to float64, and its rounding error."""
        return exact_sum(self.shift, self.mean_about_shift)

    @cached_property
    def mean_about_shift(self) -> FloatArray:
        """Exact mean minus the shift, rounded to float64, (p,)."""
        return np.asarray(self.shifted_mean + self.shift_correction)

    @cached_property
    def variances(self) -> FloatArray:
        """Variance of each feature about the group mean, (p,)."""
        if self.known_variances is not None:
            return self.known_variances
        if self.is_sparse:  # a difference keeps the rows sparse, and their means are small
            squares = sum((rows * rows).T @ weights for rows, weights in self.chunks)
            return np.asarray(np.maximum(squares / self.weight - self.shifted_mean**2, 0.0))
        squares = np.zeros_like(self.shifted_mean)
        for rows, weights in self.chunks:
            for block in blocks_in_cache(*rows.shape):
                deviations = rows[block] - self.shifted_mean
                squares += weights[block] @ np.square(deviations, out=deviations)
        return squares / self.weight

    def select_features(self, features: IndexArray) -> "GroupRows":
        """Select features by position."""
        shift_correction = np.zeros_like(self.shift) + self.shift_correction
        variances = self.known_variances
        return replace(
            self,
            chunks=tuple(
                RowChunk(_select_columns(rows, features), weights) for rows, weights in self.chunks
            ),
            shift=self.shift[features],
            shifted_mean=self.shifted_mean[features],
            shift_correction=shift_correction[features],
            known_variances=None if variances is None else variances[features],
        )

    def divided_by(self, scale: FloatArray) -> "GroupRows":
        """Divide the rows by a (p,) array of positive scales."""
        inverse = _sparse_diagonal(1 / scale)
        # The shifts of groups differ, and their differences must not be rounded: the correction is
        # what float64 loses of the quotient.
        shift, correction = divide(self.shift, self.shift_correction, scale)
        return replace(
            self,
            chunks=tuple(RowChunk(rows @ inverse, weights) for rows, weights in self.chunks),
            shift=shift,
            shifted_mean=self.shifted_mean / scale,
            shift_correction=correction,
        )

    def apply_covariance(self, directions: FloatArray) -> FloatArray:
        """Multiply the group covariance by (p, m) directions, shape (p, m)."""
        image = np.zeros_like(directions)
        for columns, coordinates, (rows, weights) in self._iter_coordinates(directions):
            image[:, columns] += rows.T @ (weights[:, None] * coordinates)
        return image / self.weight

    def captured_variance(self, directions: FloatArray) -> float:
        """Return tr(V'CV) for (p, m) directions V and the group covariance C."""
        total = sum(
            float(chunk.weights @ np.einsum("ij,ij->i", coordinates, coordinates))
            for _, coordinates, chunk in self._iter_coordinates(directions)
        )
        return total / self.weight

    def _iter_coordinates(self, directions: FloatArray) -> Iterator[_ChunkCoordinates]:
        """Iterate over centered coordinates by block of directions and chunk of rows.

        Blocks and chunks bound the temporary memory.
        """
        for start in range(0, directions.shape[1], _BLOCK_COLUMNS):
            columns = slice(start, start + _BLOCK_COLUMNS)
            block = directions[:, columns]
            center = self.shifted_mean @ block
            for chunk in self.chunks:
                yield _ChunkCoordinates(columns, chunk.rows @ block - center, chunk)

    def mean_squared_residual(self, offset: FloatArray, encoder_columns: FloatArray) -> float:
        """Return the weighted mean of ||(I - VV')(x - point)||^2 over the rows x, block by block.

        Parameters
        ----------
        offset : (p,) array
            Group mean minus the point from which residuals are measured.
        encoder_columns : (p, m) array
            Columns V.
        """
        # Chunks hold rows minus a shift, relative to which the group mean is `shifted_mean`: minus
        # this and plus `offset`, they are rows minus the point.
        total = 0.0
        n_rows = rows_per_block(len(offset))
        for shifted, weights in self.chunks:
            for start in range(0, shifted.shape[0], n_rows):
                rows = _to_dense(shifted[start : start + n_rows]) + (offset - self.shifted_mean)
                rows -= (rows @ encoder_columns) @ encoder_columns.T
                squares = np.einsum("ij,ij->i", rows, rows)
                total += float(weights[start : start + n_rows] @ squares)
        return total / self.weight

    def scatter(self) -> FloatArray:
        """Scatter matrix about the group mean, (p, p)."""
        scatter: Any = 0.0
        # Division by a power of two near the largest weight is exact. The roots then do not depend
        # on the unit of the weights, and products of extreme weights stay in range.
        unit = max(power_of_two_unit(chunk.weights) for chunk in self.chunks)
        for shifted, weights in self.chunks:
            # Chunks are shifted rows, about whose mean dense ones are centered first. Sparse ones
            # would become dense, so their mean is subtracted from the sum below.
            rows = shifted if self.is_sparse else _to_dense(shifted) - self.shifted_mean
            weighted_rows = _sparse_diagonal(np.sqrt(weights / unit)) @ rows
            scatter = scatter + unit * _to_dense(weighted_rows.T @ weighted_rows)
        if self.is_sparse:
            scatter -= self.weight * np.outer(self.shifted_mean, self.shifted_mean)
        # Rounding may make a zero variance negative.
        np.fill_diagonal(scatter, np.maximum(np.diag(scatter), 0.0))
        return np.asarray(scatter)


def blocks_in_cache(n_rows: int, n_features: int) -> Iterator[slice]:
    """Iterate over slices of n rows of p features that are few enough to stay in cache.

    Examples
    --------
    >>> list(blocks_in_cache(3, 100_000))
    [slice(0, 1, None), slice(1, 2, None), slice(2, 3, None)]
    """
    size = max(_CACHED_ENTRIES // n_features, 1)
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


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


def group_sparse_rows(
    rows: SparseRows, limit: GroupLimit = DEFAULT_GROUP_LIMIT
) -> tuple[list[GroupRows], int]:
    """Split sparse rows by group, and return also the number of dropped incomplete rows.

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
    return groups, rows.n_rows - complete.n_rows


def _sparse_diagonal(values: FloatArray) -> Any:
    """Return the sparse matrix with this diagonal."""
    return scipy.sparse.dia_array((values[None], [0]), shape=(len(values), len(values)))


def _select_columns(rows: Any, features: IndexArray) -> Any:
    """Select columns of rows of any kind; those of a wide table are copied."""
    return rows.select_features(features) if isinstance(rows, ShiftedRows) else rows[:, features]


def _to_dense(rows: Any) -> Any:
    """Return rows of any kind as an array."""
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


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
        for group in np.flatnonzero(residuals <= CANCELLATION_RATIO * traces).tolist():
            group_rows = self.groups[group]
            residuals[group] = group_rows.mean_squared_residual(self.offsets[group], columns)
        return np.asarray(np.maximum(residuals, 0.0))
