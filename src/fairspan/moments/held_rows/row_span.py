"""What rows span, in n coordinates in place of p features: the thin factor B = LQ'.

L comes from the n x n products of the rows, BB' = LL', by Cholesky's decomposition with pivoting,
which tells the rank; where that would cost digits, from the rows by Householder's. The orthonormal
(p, r) basis Q is never formed: where rows of B are B_1 = TQ', T the triangle of L, Q = B_1' T'^-1
maps to the features and back through the rows themselves.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack, qr, solve_triangular

from fairspan.moments.group_statistics import check_sizes
from fairspan.moments.held_rows.centred_rows import CentredRows
from fairspan.typing import FloatArray

# Products of rows lose the digits of directions with less than this share of the largest variance.
_ACCURATE = 1e-8


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
    chosen: npt.NDArray[np.intp]

    @classmethod
    def of(cls, rows: CentredRows) -> "RowSpan":
        """Factor the rows.

        Raises
        ------
        InvalidInput
            Numbers so large that their squares overflow.
        """
        gram = rows.gram()
        with np.errstate(invalid="ignore"):
            check_sizes([], [np.sqrt(np.diag(gram))])
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
        """r, up to what float64 can tell from the products of the rows."""
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


def _factored(rows: CentredRows) -> tuple[FloatArray, npt.NDArray[np.int32], int]:
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
