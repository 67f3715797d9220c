"""Rows of a table in memory minus a shift, formed in blocks of columns, dense or sparse.

A wide table is as large as all else that a fit holds, so it is not copied: products with its
shifted rows are sums over blocks of columns, which are formed when they are needed and stay in
cache. Each block is shifted before it is multiplied. A large offset of all rows thus costs no
digits, as it would if products with the shift were subtracted from products with the rows.

The table may belong to the caller, who may change it later. The rows of a fitted model are
therefore compared with checksums whenever they are read again (:meth:`ShiftedRows.guard`).

A sparse table is copied, without its zeros (:class:`SparseShiftedRows`). Its blocks are dense, so
products with them round as those of the same table with its zeros do; columns of zeros are left
out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from scipy.linalg import blas

from fairspan.errors import InvalidInput
from fairspan.rows.sparse_rows import CsrArray
from fairspan.typing import AnyArray, FloatArray, IndexArray

Features = slice | IndexArray
"""Positions of the features of a block."""

# Entries of a block, which is formed in cache: 1 MB ...
_BLOCK_ENTRIES = 2**17
# ... unless it had fewer columns than these. Products of n rows with each other, n^2 numbers, are
# updated once a block: with 128 columns they are computed as fast as from all columns at once.
_MIN_BLOCK_FEATURES = 128
# Odd number whose multiples, modulo 2^64, are the constants of the features in checksums: 2^64
# divided by the golden ratio, which spreads them evenly.
_CHECKSUM_STEP = np.uint64(0x9E37_79B9_7F4A_7C15)


@dataclass(eq=False)
class RowChecksums:
    """Checksums of the rows of a table, by block of columns.

    Attributes
    ----------
    by_block : list of (n,) arrays of uint64
        Of each block of columns; empty until the rows are read for the first time.
    is_enforced : bool
        Whether rows that are read again must have these checksums.
    """

    by_block: list[AnyArray]
    is_enforced: bool = False


class ShiftedRows:
    """Rows of a table minus a shift and divided by a scale, without a copy of the table.

    Offers what products need of a sparse matrix: `shape`, `T`, `@`, selection and `toarray`.

    Parameters
    ----------
    values : (N, p) array
        Numbers of any precision.
    order : (n,) array of int
        Positions of the rows in `values`.
    shift : (p,) array
    scale : (p,) array, optional
        Positive divisors of the shifted rows.

    Examples
    --------
    >>> rows = ShiftedRows(np.array([[1, 5], [3, 4]]), np.array([1, 0]), shift=np.array([3.0, 4.0]))
    >>> rows.toarray()
    array([[ 0.,  0.],
           [-2.,  1.]])
    >>> rows @ np.ones(2), rows.T @ np.ones(2)
    (array([ 0., -1.]), array([-2.,  1.]))
    """

    # Whether zeros of the table are not stored, so that a dense copy may be much larger.
    is_sparse: ClassVar[bool] = False

    def __init__(
        self,
        values: Any,
        order: IndexArray,
        shift: FloatArray,
        scale: FloatArray | None = None,
    ):
        self.values = values
        self.order = order
        self.table_shift = shift
        self.scale = scale
        self._block_features = max(_BLOCK_ENTRIES // max(len(order), 1), _MIN_BLOCK_FEATURES)
        # Positions of these rows among those of the checksums.
        self._positions = np.arange(len(order))
        self._checksums = RowChecksums([])
        # Rows are read in the order of the table, and products with them sorted.
        self._table_order = np.sort(order)
        self._ranks = np.searchsorted(self._table_order, order)
        self._is_sorted = np.array_equal(self._table_order, order)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, p)."""
        return len(self.order), len(self.table_shift)

    @property
    def shift(self) -> FloatArray:
        """Shift in the units of these rows, (p,)."""
        return self.table_shift if self.scale is None else self.table_shift / self.scale

    def divided_by(self, scale: FloatArray) -> Self:
        """Divide the rows by a (p,) array of positive scales."""
        scaled = self._replace(self.order, self._positions)
        scaled.scale = scale if self.scale is None else self.scale * scale
        return scaled

    def __getitem__(self, rows: slice | IndexArray) -> Self:
        """Select rows by position."""
        return self._replace(self.order[rows], self._positions[rows])

    def _replace(self, order: IndexArray, positions: IndexArray) -> Self:
        """Return other rows of the same table, with the same blocks and checksums."""
        selected = type(self)(self.values, order, self.table_shift, self.scale)
        selected._block_features = self._block_features
        selected._positions = positions
        selected._checksums = self._checksums
        return selected

    def blocks(self) -> Iterator[tuple[Features, FloatArray]]:
        """Iterate over blocks of columns: the positions of q features, and an (n, q) array.

        The array is overwritten by the next block. Features that are in no block are zero.

        Raises
        ------
        InvalidInput
            The rows have changed since the fit.
        """
        if self._is_sorted:
            yield from self._blocks_of_table()
            return
        buffer = np.empty(len(self.order) * self._buffer_features)
        for features, block in self._blocks_of_table():
            ordered = buffer[: block.size].reshape(block.shape)
            # All ranks are valid, and with this mode `out` is not buffered.
            yield features, np.take(block, self._ranks, axis=0, out=ordered, mode="clip")

    @property
    def _buffer_features(self) -> int:
        """Number of features of the largest block."""
        return min(self._block_features, self.shape[1])

    def _blocks_of_table(self) -> Iterator[tuple[Features, FloatArray]]:
        """Iterate over blocks of columns of the rows in the order of the table."""
        n, p = self.shape
        buffer = np.empty(n * self._buffer_features)
        has_all_rows = n == len(self.values)
        for index, start in enumerate(range(0, p, self._block_features)):
            features = slice(start, min(start + self._block_features, p))
            values = self.values[:, features]
            if not has_all_rows:
                values = values[self._table_order]
            block = buffer[: values.size].reshape(values.shape)
            np.subtract(values, self.table_shift[features], out=block, casting="same_kind")
            if self._checksums.is_enforced:
                self._compare_with_checksums(index, block)
            if self.scale is not None:
                block /= self.scale[features]
            yield features, block

    def __matmul__(self, columns: FloatArray) -> FloatArray:
        """Multiply the rows B by (p,) or (p, q) columns, shape (n,) or (n, q)."""
        product = np.zeros((self.shape[0], *columns.shape[1:]))
        for features, block in self._blocks_of_table():
            product += block @ columns[features]
        return product[self._ranks]

    def multiply_transposed(self, columns: FloatArray) -> FloatArray:
        """Multiply the transposed rows B' by (n,) or (n, q) columns, shape (p,) or (p, q)."""
        columns = columns[np.argsort(self._ranks)]
        product = np.zeros((self.shape[1], *columns.shape[1:]))
        for features, block in self._blocks_of_table():
            product[features] = block.T @ columns
        return product

    @property
    def T(self) -> "_Transposed":  # noqa: N802
        """Transposed rows B', which can be multiplied by (n,) or (n, q) columns."""
        return _Transposed(self)

    def gram(self) -> FloatArray:
        """Lower triangle of BB', shape (n, n)."""
        n = self.shape[0]
        products = np.zeros((n, n), order="F")
        for _, block in self.blocks():
            products = blas.dsyrk(
                1.0, block.T, beta=1.0, c=products, trans=1, lower=1, overwrite_c=1
            )
        return products

    def lift_and_multiply(self, columns: FloatArray, feature_columns: FloatArray) -> FloatArray:
        """Multiply the rows B by the columns B'C and F in one pass over them.

        Parameters
        ----------
        columns : (n, q) array
            C.
        feature_columns : (p, s) array
            F.

        Returns
        -------
        (n, q + s) array
            B [B'C, F].
        """
        columns = columns[np.argsort(self._ranks)]
        products = np.zeros((len(columns), columns.shape[1] + feature_columns.shape[1]))
        for features, block in self._blocks_of_table():
            products += block @ np.hstack([block.T @ columns, feature_columns[features]])
        return products[self._ranks]

    def select_features(self, features: IndexArray) -> FloatArray:
        """Return the columns of some features, shape (n, q)."""
        columns = self.values[:, features][self.order] - self.table_shift[features]
        if self.scale is not None:
            columns = columns / self.scale[features]
        return np.asarray(columns, dtype=np.float64)

    def toarray(self) -> FloatArray:
        """Copy of all rows, shape (n, p)."""
        copied = np.zeros(self.shape)
        for features, block in self.blocks():
            copied[:, features] = block
        return copied

    def record_checksum(self, block: FloatArray) -> None:
        """Record the checksum of the next block of the rows, which are not scaled."""
        start = len(self._checksums.by_block) * self._block_features
        self._checksums.by_block.append(_checksum(start, block))

    def guard(self) -> None:
        """From now on, compare the rows with their checksums whenever they are read."""
        self._checksums.is_enforced = True

    def _compare_with_checksums(self, index: int, block: FloatArray) -> None:
        start = index * self._block_features
        recorded = self._checksums.by_block[index][self._positions]
        if np.array_equal(_checksum(start, block)[self._ranks], recorded):
            return
        raise InvalidInput(
            "The rows have changed since the model was fitted, and its moments_ refer to them",
            "Allowed: rows as they were during the fit; moments_ of fewer rows than features do "
            "not copy them",
            "Fit again, or fit a copy: fit(X.copy(), ...)",
        )


class SparseShiftedRows(ShiftedRows):
    """Rows of a sparse table minus a shift and divided by a scale; only blocks of it are dense.

    Parameters
    ----------
    values : (N, p) csr_array
        Rows that nobody else changes.
    order, shift, scale
        Same as for :class:`ShiftedRows`.

    Examples
    --------
    >>> table = scipy.sparse.csr_array(np.array([[0.0, 0.0, 5.0], [0.0, 2.0, 0.0]]))
    >>> rows = SparseShiftedRows(table, np.array([1, 0]), shift=np.array([0.0, 0.0, 5.0]))
    >>> rows.toarray()
    array([[ 0.,  2., -5.],
           [ 0.,  0.,  0.]])
    >>> [features.tolist() for features, _ in rows.blocks()]
    [[1, 2]]
    """

    values: CsrArray
    is_sparse = True

    def _blocks_of_table(self) -> Iterator[tuple[Features, FloatArray]]:
        """Iterate over blocks of the columns that are not zero, of the rows in table order."""
        n = self.shape[0]
        columns = self._sorted_values.tocsc()
        n_stored = np.diff(columns.indptr)
        nonzero = np.flatnonzero((n_stored > 0) | (self.table_shift != 0))
        # Other columns store nothing, so they can be skipped in the list of column starts.
        starts = np.append(columns.indptr[nonzero], columns.indptr[-1])
        columns = scipy.sparse.csc_array(
            (columns.data, columns.indices, starts), shape=(n, len(nonzero))
        )
        buffer = np.empty(n * min(self._block_features, len(nonzero)))
        for start in range(0, len(nonzero), self._block_features):
            features = nonzero[start : start + self._block_features]
            block = buffer[: n * len(features)].reshape(n, len(features))
            columns[:, start : start + len(features)].toarray(out=block)
            block -= self.table_shift[features]
            if self.scale is not None:
                block /= self.scale[features]
            yield features, block

    @property
    def _sorted_values(self) -> CsrArray:
        """These rows of the table, in its order."""
        if self.shape[0] == self.values.shape[0]:
            return self.values
        return self.values[self._table_order]

    def select_features(self, features: IndexArray) -> FloatArray:
        """Return the columns of some features, shape (n, q)."""
        columns = self.values[self.order][:, features].toarray() - self.table_shift[features]
        if self.scale is not None:
            columns /= self.scale[features]
        return np.asarray(columns)

    def toarray(self) -> FloatArray:
        """Copy of all rows, shape (n, p)."""
        copied = self.values[self.order].toarray()
        copied -= self.table_shift
        if self.scale is not None:
            copied /= self.scale
        return np.asarray(copied)

    def record_checksum(self, block: FloatArray) -> None:
        """Do nothing: the rows are a copy."""

    def guard(self) -> None:
        """Do nothing: the rows are a copy, which nobody changes."""


class _Transposed:
    """Transposed rows B'."""

    def __init__(self, rows: ShiftedRows):
        self._rows = rows

    def __matmul__(self, columns: FloatArray) -> FloatArray:
        """Multiply by (n,) or (n, q) columns, shape (p,) or (p, q)."""
        return self._rows.multiply_transposed(columns)


def _checksum(start: int, block: FloatArray) -> AnyArray:
    """Checksum of each row of a block whose first feature is `start`, (n,) of uint64.

    Bits are summed as integers, so the result is the same for any order of the additions. They are
    first combined with a constant for each feature, so that features do not trade places unseen.
    """
    constants = np.arange(start, start + block.shape[1], dtype=np.uint64) * _CHECKSUM_STEP
    return np.asarray((block.view(np.uint64) ^ constants).sum(axis=1))
