"""Shifted rows of one group, sparse or dense, and products with their covariance."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy

from fairspan.linalg import power_of_two_unit
from fairspan.linalg.double_double import divide, exact_sum
from fairspan.moments.shifted_rows import ShiftedRows
from fairspan.rows.blocks import rows_per_block
from fairspan.rows.labels import Label
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


def _sparse_diagonal(values: FloatArray) -> Any:
    """Return the sparse matrix with this diagonal."""
    return scipy.sparse.dia_array((values[None], [0]), shape=(len(values), len(values)))


def _select_columns(rows: Any, features: IndexArray) -> Any:
    """Select columns of rows of any kind; those of a wide table are copied."""
    return rows.select_features(features) if isinstance(rows, ShiftedRows) else rows[:, features]


def _to_dense(rows: Any) -> Any:
    """Return rows of any kind as an array."""
    return rows if isinstance(rows, np.ndarray) else rows.toarray()
