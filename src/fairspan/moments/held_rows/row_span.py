"""Few rows of many features in an orthonormal basis of their span: the thin factor B = LQ'.

L comes from the n x n products of the rows, BB' = LL', by Cholesky's decomposition with pivoting,
which gives the rank; where that would cost digits, from the rows by Householder's. The orthonormal
(p, r) basis Q is never formed: where rows of B are B_1 = TQ', T the triangle of L, Q = B_1' T'^-1
maps to the features and back through the rows themselves.

All products with the rows go through blocks of columns: a block is centred before it is multiplied,
so that a large offset common to a column costs no digits, whatever the precision of the rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack, qr, solve_triangular

from fairspan.typing import AnyArray, FloatArray, IndexArray

# Products of rows lose the digits of directions with less than this share of the largest variance.
_ACCURATE = 1e-8
# Numbers of one block of columns, and its fewest columns: it stays in cache, and a symmetric
# product of it runs at full speed.
_BLOCK_NUMBERS = 2**18
_FEWEST_COLUMNS = 256


@dataclass(frozen=True, eq=False)
class CentredRows:
    """The rows b = (x - center) / scale.

    Attributes
    ----------
    values : (n, p) array of real numbers
        The rows x as they were given; not to be changed.
    center : (p,) array
    scale : (p,) array or None
    present : (m,) array of int or None
        Rows that count; None for all.
    """

    values: AnyArray
    center: FloatArray
    scale: FloatArray | None = None
    present: IndexArray | None = None

    @property
    def n_rows(self) -> int:
        """How many rows count."""
        return int(self.values.shape[0]) if self.present is None else len(self.present)

    @property
    def n_features(self) -> int:
        """p."""
        return int(self.values.shape[1])

    @property
    def distance(self) -> float:
        """Length of center / scale: what the rows lost in digits before they were centred."""
        return float(
            np.linalg.norm(self.center if self.scale is None else self.center / self.scale)
        )

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """All columns in consecutive blocks (m, c), with where they stand; may be written to."""
        width = max(_BLOCK_NUMBERS // max(self.n_rows, 1), _FEWEST_COLUMNS)
        for start in range(0, self.n_features, width):
            own = slice(start, min(start + width, self.n_features))
            columns = self.values[:, own]
            columns = columns if self.present is None else columns[self.present]
            block = np.subtract(columns, self.center[own], dtype=np.float64, order="C")
            if self.scale is not None:
                block /= self.scale[own]
            yield own, block

    def gram(self) -> FloatArray:
        """BB', of which only the lower triangle is filled, (m, m) in Fortran order."""
        gram = np.zeros((self.n_rows, self.n_rows), order="F")
        for _, block in self.blocks():
            gram = blas.dsyrk(1.0, block.T, trans=1, lower=1, beta=1.0, c=gram, overwrite_c=1)
        return gram

    def times(self, columns: FloatArray) -> FloatArray:
        """BU of (p, m) columns U."""
        product = np.zeros((self.n_rows, columns.shape[1]))
        for own, block in self.blocks():
            product += block @ columns[own]
        return product

    def transposed_times(self, columns: FloatArray) -> FloatArray:
        """B'Y of (n, m) columns Y, shape (p, m)."""
        product = np.empty((self.n_features, columns.shape[1]))
        for own, block in self.blocks():
            product[own] = block.T @ columns
        return product


@dataclass(frozen=True, eq=False)
class RowSpan:
    """Rows with their coordinates in an orthonormal basis Q of what they span.

    Attributes
    ----------
    rows : CentredRows
    coordinates : (n, r) array
        L.
    triangle : (r, r) array
        T, lower.
    chosen : (r,) array of int
        The rows of L that are T.
    """

    rows: CentredRows
    coordinates: FloatArray
    triangle: FloatArray
    chosen: IndexArray

    @classmethod
    def of(cls, rows: CentredRows) -> "RowSpan":
        """Factor the rows."""
        gram = rows.gram()
        lower, pivots, rank, _ = lapack.dpstrf(gram, lower=1, overwrite_a=1)
        sizes = np.diag(lower)[:rank] ** 2
        if rank and sizes[-1] < _ACCURATE * sizes[0]:
            lower, pivots, rank = _factored(rows)
        coordinates = np.empty((rows.n_rows, rank))
        coordinates[pivots - 1] = np.tril(lower[:, :rank])
        chosen = pivots[:rank].astype(np.intp) - 1
        return cls(rows, coordinates, coordinates[chosen], chosen)

    @property
    def rank(self) -> int:
        """r, as far as float64 can determine it from the products of the rows."""
        return len(self.chosen)

    def lifted(self, coordinates: FloatArray) -> FloatArray:
        """QZ of (r, m) coordinates Z, shape (p, m)."""
        mixing = np.zeros((self.rows.n_rows, coordinates.shape[1]))
        if self.rank:
            mixing[self.chosen] = solve_triangular(self.triangle, coordinates, trans=1, lower=True)
        return self.rows.transposed_times(mixing)

    def reduced(self, columns: FloatArray) -> FloatArray:
        """Q'U of (p, m) columns U, shape (r, m)."""
        if not self.rank:
            return np.zeros((0, columns.shape[1]))
        products = self.rows.times(columns)[self.chosen]
        return np.asarray(solve_triangular(self.triangle, products, lower=True))

    def outside(self, columns: FloatArray) -> FloatArray:
        """(I - QQ')U of (p, m) columns U."""
        # Twice: what was nearly inside the span has lost its digits.
        for _ in range(2):
            columns = columns - self.lifted(self.reduced(columns))
        return columns


def _factored(rows: CentredRows) -> tuple[FloatArray, AnyArray, int]:
    """L with its pivots and rank from the rows themselves: slower, and twice as many digits."""
    whole = np.empty((rows.n_features, rows.n_rows), order="F")
    for own, block in rows.blocks():
        whole[own] = block.T
    (upper,) = qr(whole, mode="r", overwrite_a=True, check_finite=False)
    # Householder's columns are not exchanged in the long factor, where that is slow.
    upper, pivots = qr(upper[: rows.n_rows], mode="r", pivoting=True, check_finite=False)
    sizes = np.abs(np.diag(upper))
    rounding = rows.n_rows * np.finfo(np.float64).eps * (sizes[0] + rows.distance)
    return upper.T, pivots + 1, int((sizes > rounding).sum())
