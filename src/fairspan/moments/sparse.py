"""Second moments of sparse rows: products with them, without centring, filling or matrices.

Centring x to x - m would fill every cell, so it stays implicit: with T = XV - m'V, a group's
covariance times V is X'T / n. That loses no digits as long as no column's mean is large beside its
spread. A column that is zero in at least half of the rows cannot have such a mean (mean^2 <=
variance); from the others their mean value is subtracted first, which fills in no more cells than
they held.

Where few directions are forbidden, second moments S are P S P, P = I - FF', in all features.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy

from fairspan.errors import InvalidInput
from fairspan.linalg import (
    N_GUARD_VECTORS,
    ApproximateSubspace,
    LeadingSubspace,
    leading_subspace_krylov,
    symmetrize,
    unit_of,
)
from fairspan.linalg.double_double import divide, exact_sum
from fairspan.moments.operators import CANCELLATION_RATIO, encoder_columns
from fairspan.rows.groups import CodedLabels, Label, LabelEncoder
from fairspan.rows.matrices import CsrArray, SparseRows
from fairspan.rows.protocol import DEFAULT_GROUP_LIMIT, GroupLimit, rows_per_block
from fairspan.typing import FloatArray, IndexArray

# Rows of one part, and numbers that it stores: what is computed from a part stays small.
_CHUNK_ROWS = 2**15
_CHUNK_ENTRIES = 2**22
_MIN_CHUNK_ROWS = 256
# Columns of a block that are multiplied with a part at once.
_COLUMNS_AT_ONCE = 64
# Features that are zero in every row are left out where they are more than all but this share.
_MIN_REDUCTION = 2


@dataclass(frozen=True, eq=False)
class GroupRows:
    """Rows y = x - pilot of one group, sparse or not, and their mean.

    Attributes
    ----------
    label : Label
    parts : tuple of ((r, p) csr_array or array, (r,) array)
        The rows y in consecutive parts, and their weights, all positive.
    weight : float
        n_g, the sum of all weights.
    pilot : (p,) array
        Of sparse rows zero for columns that are zero in at least half of them.
    drift : (p,) array
        Weighted mean of the rows y; the group's mean is pilot + drift.
    positions : (n_g,) array of int
        Where the rows were among those of all groups.
    pilot_correction : (p,) array or 0
        Exact pilot minus `pilot`, where rows were divided by a scale.
    """

    label: Label
    chunks: tuple[tuple[Any, FloatArray], ...]
    weight: float
    shift: FloatArray
    shifted_mean: FloatArray
    row_indices: IndexArray
    pilot_correction: FloatArray | float = 0.0

    @classmethod
    def from_rows(
        cls, label: Label, rows: Any, weights: FloatArray, pilot: FloatArray, positions: IndexArray
    ) -> "GroupRows":
        """Take rows about the pilot, at least one; their weights are positive."""
        n, weight = rows.shape[0], float(weights.sum())
        stored = rows.nnz if scipy.sparse.issparse(rows) else rows.size
        size = int(min(max(_CHUNK_ENTRIES * n / max(stored, 1), _MIN_CHUNK_ROWS), _CHUNK_ROWS))
        parts = tuple(
            (rows[start : start + size], weights[start : start + size])
            for start in range(0, n, size)
        )
        drift = sum(part.T @ own for part, own in parts) / weight
        return cls(label, parts, weight, pilot, drift, positions)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows stay uncentred, so that most of their cells are zero."""
        return bool(scipy.sparse.issparse(self.chunks[0][0]))

    @property
    def mean(self) -> FloatArray:
        """Weighted mean row, (p,)."""
        return self._mean_in_two_parts[0]

    @property
    def mean_correction(self) -> FloatArray:
        """Exact mean minus the mean rounded to float64, (p,)."""
        return self._mean_in_two_parts[1]

    @cached_property
    def _mean_in_two_parts(self) -> tuple[FloatArray, FloatArray]:
        """The mean rounded to float64, and its rounding error."""
        return exact_sum(self.shift, self.mean_about_pilot)

    @cached_property
    def mean_about_pilot(self) -> FloatArray:
        """Exact mean minus the pilot rounded to float64, (p,)."""
        return np.asarray(self.shifted_mean + self.pilot_correction)

    @cached_property
    def variances(self) -> FloatArray:
        """Of each feature about the group's own mean, (p,)."""
        if self.is_sparse:
            squares = sum((part * part).T @ weights for part, weights in self.chunks)
            return np.asarray(np.maximum(squares / self.weight - self.shifted_mean**2, 0.0))
        squares = sum(weights @ (part - self.shifted_mean) ** 2 for part, weights in self.chunks)
        return np.asarray(squares / self.weight)

    def select_features(self, features: IndexArray) -> "GroupRows":
        """The same rows with some of the features, by position."""
        return replace(
            self,
            chunks=tuple((part[:, features], weights) for part, weights in self.chunks),
            shift=self.shift[features],
            shifted_mean=self.shifted_mean[features],
            pilot_correction=(np.zeros_like(self.shift) + self.pilot_correction)[features],
        )

    def divided_by(self, scale: FloatArray) -> "GroupRows":
        """The rows divided by a (p,) array of positive numbers."""
        inverse = _sparse_diagonal(1 / scale)
        parts = tuple((part @ inverse, weights) for part, weights in self.chunks)
        # Groups have pilots of their own, whose differences must not be rounded.
        pilot, correction = divide(self.shift, self.pilot_correction, scale)
        drift = self.shifted_mean / scale
        return replace(
            self, chunks=parts, shift=pilot, shifted_mean=drift, pilot_correction=correction
        )

    def apply_covariance(self, directions: FloatArray) -> FloatArray:
        """The covariance about the group's own mean times (p, m) directions."""
        image = np.zeros_like(directions)
        for columns, coordinates, part, weights in self._iter_coordinates(directions):
            image[:, columns] += part.T @ (weights[:, None] * coordinates)
        return image / self.weight

    def captured_variance(self, directions: FloatArray) -> float:
        """tr(V'CV) for (p, m) directions V."""
        total = sum(
            float(weights @ np.einsum("ij,ij->i", coordinates, coordinates))
            for _, coordinates, _, weights in self._iter_coordinates(directions)
        )
        return total / self.weight

    def _iter_coordinates(
        self, directions: FloatArray
    ) -> Iterator[tuple[slice, FloatArray, Any, FloatArray]]:
        """Centred rows along some of the directions at a time, with parts and their weights."""
        for start in range(0, directions.shape[1], _COLUMNS_AT_ONCE):
            columns = slice(start, start + _COLUMNS_AT_ONCE)
            block = directions[:, columns]
            center = self.shifted_mean @ block
            for part, weights in self.chunks:
                yield columns, part @ block - center, part, weights

    def mean_squared_residual(self, offset: FloatArray, encoder_columns: FloatArray) -> float:
        """Return the mean of ||(I - VV')(x - point)||^2, from the rows, a block at a time.

        Parameters
        ----------
        offset : (p,) array
            The group's mean minus the point.
        soft : (p, m) array
            Columns V.
        """
        total, n_rows = 0.0, rows_per_block(len(offset))
        for part, weights in self.chunks:
            for start in range(0, part.shape[0], n_rows):
                rows = _to_dense(part[start : start + n_rows]) + (offset - self.shifted_mean)
                rows -= (rows @ encoder_columns) @ encoder_columns.T
                total += float(weights[start : start + n_rows] @ np.einsum("ij,ij->i", rows, rows))
        return total / self.weight

    def scatter(self) -> FloatArray:
        """The scatter about the group's own mean, (p, p)."""
        scatter: Any = 0.0
        unit = max(unit_of(weights) for _, weights in self.chunks)
        for part, weights in self.chunks:
            rows = part if self.is_sparse else part - self.shifted_mean
            half = _sparse_diagonal(np.sqrt(weights / unit)) @ rows
            scatter = scatter + unit * _to_dense(half.T @ half)
        if self.is_sparse:
            scatter -= self.weight * np.outer(self.shifted_mean, self.shifted_mean)
        # Differences, which rounding may turn.
        np.fill_diagonal(scatter, np.maximum(np.diag(scatter), 0.0))
        return np.asarray(scatter)


def row_indices_by_group(
    labels: CodedLabels, weights: FloatArray | None, n_features: int, limit: GroupLimit
) -> dict[Label, IndexArray]:
    """Where the rows of positive weight of each group are, in the order of labels.

    Raises
    ------
    InvalidInput
        A bad label, or too many groups.
    """
    coder = LabelEncoder()
    codes = coder.encode(labels)
    codes = codes if weights is None else np.where(weights > 0, codes, -1)
    counts = np.bincount(codes + 1, minlength=1)[1:]
    present = np.flatnonzero(counts).tolist()
    limit.check([coder.labels[code] for code in present], int(counts.sum()))
    present.sort(key=coder.labels.__getitem__)
    return {coder.labels[code]: np.flatnonzero(codes == code) for code in present}


def group_sparse_rows(
    given: SparseRows, limit: GroupLimit = DEFAULT_GROUP_LIMIT
) -> tuple[list[GroupRows], int]:
    """Sparse rows of each group, and how many are left out since something is missing in them.

    Raises
    ------
    InvalidInput
        No labels, a bad label, or too many groups.
    """
    whole = given.drop_incomplete()
    if whole.group_labels is None:
        raise InvalidInput(
            "The rows carry no group labels", "Allowed: a label for each row", "Name a group"
        )
    weights = np.ones(whole.n_rows) if whole.weights is None else whole.weights
    groups = []
    with np.errstate(over="ignore", invalid="ignore"):  # found by check_magnitudes
        for label, own in row_indices_by_group(
            whole.group_labels, weights, whole.n_features, limit
        ).items():
            pilot = _column_shifts(whole.matrix[own], weights[own])
            rows = _shift_columns(whole.matrix[own], pilot)
            groups.append(GroupRows.from_rows(label, rows, weights[own], pilot, own))
    return groups, given.n_rows - whole.n_rows


def _sparse_diagonal(values: FloatArray) -> Any:
    """The sparse matrix with these numbers on its diagonal."""
    return scipy.sparse.dia_array((values[None], [0]), shape=(len(values), len(values)))


def _to_dense(rows: Any) -> Any:
    return rows.toarray() if scipy.sparse.issparse(rows) else rows


def _column_shifts(rows: CsrArray, weights: FloatArray) -> FloatArray:
    """Mean of the stored values of each column that stores most of its cells; zero elsewhere."""
    p = rows.shape[1]
    cell_weights = np.repeat(weights, np.diff(rows.indptr))
    stored = np.bincount(rows.indices, cell_weights, minlength=p)
    mostly = stored > weights.sum() / 2
    if not mostly.any():
        return np.zeros(p)
    # About the last stored value, so that the mean of equal values is exactly that value.
    last = np.zeros(p)
    last[rows.indices] = rows.data
    centred = np.bincount(rows.indices, cell_weights * (rows.data - last[rows.indices]), p)
    return np.where(mostly, last + centred / np.where(mostly, stored, 1.0), 0.0)


def _shift_columns(rows: CsrArray, pilot: FloatArray) -> CsrArray:
    """Subtract the pilot, which fills the columns in which it is not zero."""
    filled, (n, p) = np.flatnonzero(pilot), rows.shape
    if len(filled) == 0:
        return rows
    pilots = (np.tile(pilot[filled], n), np.tile(filled, n), np.arange(n + 1) * len(filled))
    shifted = scipy.sparse.csr_array(rows - scipy.sparse.csr_array(pilots, shape=(n, p)))
    shifted.eliminate_zeros()
    return shifted


@dataclass(frozen=True, eq=False)
class SparseSecondMoments:
    """Second moments of groups of sparse rows about a point, or about each group's own mean.

    Parameters
    ----------
    parts : sequence of GroupRows
    offsets : (k, p) array
        Means of the groups minus the point; zero about each group's own mean.
    forbidden : (p, r) array
        F, orthonormal columns.
    outside : (k,) array
        Variance of each group along F that counts as lost, whatever is chosen beside it.
    """

    groups: Sequence[GroupRows]
    offsets: FloatArray
    forbidden: FloatArray
    excluded_variances: FloatArray
    is_dense: ClassVar[bool] = False

    def forbid(
        self, columns: FloatArray, excluded_variances: FloatArray | None = None
    ) -> "SparseSecondMoments":
        """Those beside (p, r) further orthonormal columns, of whose variance some may be lost."""
        excluded_variances = (
            self.excluded_variances if excluded_variances is None else excluded_variances
        )
        return replace(
            self,
            forbidden=np.hstack([self.forbidden, columns]),
            excluded_variances=excluded_variances,
        )

    def select_group(self, group: int) -> "SparseSecondMoments":
        """That of one group alone."""
        one = slice(group, group + 1)
        return SparseSecondMoments(
            self.groups[one], self.offsets[one], self.forbidden, self.excluded_variances[one]
        )

    @property
    def n_groups(self) -> int:
        """k."""
        return len(self.groups)

    @property
    def n_features(self) -> int:
        """p."""
        return int(self.offsets.shape[1])

    @cached_property
    def traces(self) -> FloatArray:
        """tr P S_g P of each group, and what counts as lost along F, shape (k,)."""
        if not self.forbidden.size:
            return np.asarray(self._mean_squares.sum(axis=1) + self.excluded_variances)
        return self._residual_variances(self.forbidden) + self.excluded_variances

    @cached_property
    def _mean_squares(self) -> FloatArray:
        """Mean square of each feature about the point, in all directions, shape (k, p)."""
        return np.array([part.variances for part in self.groups]) + self.offsets**2

    def captured_variances(self, basis: FloatArray) -> FloatArray:
        """c_g(V) = tr(V'P S_g P V), shape (k,)."""
        return self._captured_variances(self._project_out_forbidden(basis))

    def residual_variances(self, basis: FloatArray) -> FloatArray:
        """What a basis beside F loses of each group, accurate however little it is, shape (k,)."""
        return self.excluded_variances + self._residual_variances(
            np.hstack([self.forbidden, self._project_out_forbidden(basis)])
        )

    def compress(self, basis: FloatArray) -> FloatArray:
        """V'P S_g P V of every group, shape (k, d, d)."""
        return symmetrize(basis.T @ self.apply(basis))

    def apply(self, basis: FloatArray) -> FloatArray:
        """P S_g P V of every group, shape (k, p, d)."""
        return np.array(
            [self._apply_mixture(unit_weights, basis) for unit_weights in np.eye(self.n_groups)]
        )

    def leading(
        self, weights: FloatArray, n_components: int, tie_tolerance: float = 0.0
    ) -> LeadingSubspace:
        """Leading eigenvectors of sum_g weights_g P S_g P, as far as an iteration can tell."""
        return self.approximate_leading(weights, n_components, tie_tolerance=tie_tolerance).leading

    def approximate_leading(
        self,
        weights: FloatArray,
        n_components: int,
        *,
        start: FloatArray | None = None,
        tie_tolerance: float = 0.0,
        sum_goal: float | None = None,
    ) -> ApproximateSubspace:
        """The same, with how far the eigenvalue sum may be off.

        Parameters
        ----------
        weights : (k,) array
            Of either sign.
        n_components : int
        start : (p, m) array, optional
            Directions near the eigenvectors.
        tie_tolerance : float
        sum_goal : float, optional
            Enough, as an uncertainty of the eigenvalue sum.
        """
        used = np.flatnonzero(self._mean_squares.any(axis=0))
        wanted = n_components + N_GUARD_VECTORS
        few = max(_MIN_REDUCTION * len(used), wanted) < self.n_features and len(used) > wanted
        if few and not self.forbidden.size:
            # Bases of many vectors are then as long as the features that matter.
            return self._nonzero_features.approximate_leading(
                weights,
                n_components,
                start=None if start is None else start[used],
                tie_tolerance=tie_tolerance,
                sum_goal=sum_goal,
            ).embed(used, self.n_features)
        return leading_subspace_krylov(
            lambda block: self._apply_mixture(weights, block),
            self.n_features,
            n_components,
            float(np.abs(weights) @ self.traces),
            start=start,
            orthogonal_to=self.forbidden,
            tie_tol=tie_tolerance,
            sum_tol=sum_goal,
        )

    @cached_property
    def _nonzero_features(self) -> "SparseSecondMoments":
        """The same without features that are zero in every row, once moved to the point."""
        used = np.flatnonzero(self._mean_squares.any(axis=0))
        parts = [part.select_features(used) for part in self.groups]
        return replace(
            self, groups=parts, offsets=self.offsets[:, used], forbidden=self.forbidden[used]
        )

    def n_ritz(self, n_components: int) -> int:
        """How many leading vectors are found with d of them."""
        return min(n_components + N_GUARD_VECTORS, self.n_features - int(self.forbidden.shape[1]))

    def _apply_mixture(self, weights: FloatArray, block: FloatArray) -> FloatArray:
        """sum_g weights_g P S_g P times a block."""
        block = self._project_out_forbidden(block)
        image = np.zeros_like(block)
        for group in np.flatnonzero(weights).tolist():
            offset = self.offsets[group]
            own = self.groups[group].apply_covariance(block) + np.outer(offset, offset @ block)
            image += weights[group] * own
        return self._project_out_forbidden(image)

    def _project_out_forbidden(self, block: FloatArray) -> FloatArray:
        if not self.forbidden.size:
            return block
        return np.asarray(block - self.forbidden @ (self.forbidden.T @ block))

    def _captured_variances(self, basis: FloatArray) -> FloatArray:
        """tr(V'S_gV), shape (k,)."""
        within = np.array([part.captured_variance(basis) for part in self.groups])
        return np.asarray(within + ((self.offsets @ basis) ** 2).sum(axis=1))

    def _residual_variances(self, basis: FloatArray) -> FloatArray:
        """tr S_g - tr(V'S_gV), shape (k,).

        Where nearly everything is captured, the difference would only be rounding; the
        residual of each row has no such cancellation.
        """
        whole = self._mean_squares.sum(axis=1)
        columns = encoder_columns(basis)
        losses = whole - self._captured_variances(basis)
        for group in np.flatnonzero(losses <= CANCELLATION_RATIO * whole).tolist():
            part = self.groups[group]
            losses[group] = part.mean_squared_residual(self.offsets[group], columns)
        return np.asarray(np.maximum(losses, 0.0))
