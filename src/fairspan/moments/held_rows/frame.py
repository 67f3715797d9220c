"""Few rows of many features in an orthonormal basis of their span: the thin factor B = LQ'.

L comes from the n x n products of the rows, BB' = LL', by Cholesky's decomposition with pivoting,
which gives the rank; where that would cost digits, from the rows by Householder's. The orthonormal
(p, r) basis Q is never formed: where rows of B are B_1 = TQ', T the triangle of L, Q = B_1' T'^-1
maps to the features and back through the rows themselves.

All products with the rows go through blocks of columns: a block is centred before it is multiplied,
so that a large offset common to a column costs no digits, whatever the precision of the rows.

A frame of that span, and of what lies beside it, has the coordinates in which fits are solved.
"""

import numbers
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack, qr, solve_triangular

from fairspan.linalg import with_positive_signs
from fairspan.moments.group_moments import GroupMoments
from fairspan.typing import AnyArray, FloatArray, IndexArray

# Products of rows lose the digits of directions with less than this share of the largest variance.
_ACCURATE = 1e-8
# Numbers of one block of columns, and its fewest columns: it stays in cache, and a symmetric
# product of it runs at full speed.
_BLOCK_NUMBERS = 2**18
_FEWEST_COLUMNS = 256
# A direction of which less than this share lies beside the span is in it: what is left out has the
# square of it in variance.
_INSIDE = 1e-8
# A basis that reaches no further than this into directions without variance does not need them:
# they change what it captures by the square of it. Iterations leave as much behind.
_UNUSED = 1e-9


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
            columns = self.values[slice(None) if self.present is None else self.present, own]
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
        lower, pivots, rank, _ = lapack.dpstrf(rows.gram(), lower=1, overwrite_a=1)
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


@dataclass(frozen=True, eq=False)
class Frame:
    """Orthonormal coordinates of the features, and the moments of all rows in them.

    Attributes
    ----------
    moments : GroupMoments
        Of the coordinates; their origin is the mean of all rows.
    span : RowSpan
        The first r coordinates.
    beside : (p, e) array
        Orthonormal directions, the next e coordinates.
    n_padding : int
        How many more there are, along which all rows and points are zero.
    """

    moments: GroupMoments
    span: RowSpan
    beside: FloatArray
    n_padding: int

    @property
    def n_features(self) -> int:
        """p."""
        return int(self.beside.shape[0])

    @property
    def n_known(self) -> int:
        """r + e, coordinates without the padding."""
        return self.span.rank + int(self.beside.shape[1])

    def reduced(self, columns: FloatArray) -> FloatArray:
        """Coordinates of (p, m) columns that are combinations of the frame's directions."""
        if not columns.any():  # such as the mean of all rows: the origin
            return np.zeros((self.n_known + self.n_padding, columns.shape[1]))
        return np.vstack(
            [
                self.span.reduced(columns),
                self.beside.T @ columns,
                np.zeros((self.n_padding, columns.shape[1])),
            ]
        )

    def point(self, point: FloatArray | None, mean: FloatArray) -> FloatArray | None:
        """Coordinates of a (p,) point; none of none."""
        return None if point is None else self.reduced((point - mean)[:, None])[:, 0]

    def spread_out(self, columns: FloatArray) -> FloatArray:
        """Any columns of coordinates as columns of the features, without the padding, (p, m)."""
        return np.asarray(
            self.span.lifted(columns[: self.span.rank])
            + self.beside @ columns[self.span.rank : self.n_known]
        )

    def lifted(self, basis: FloatArray, n_more: int = 0) -> FloatArray:
        """A basis in the features.

        Parameters
        ----------
        basis : (r + e + padding, m) array
            Orthogonal columns no longer than one.
        n_more : int
            How many directions without variance follow it.

        Returns
        -------
        (p, m + n_more) array
            Orthogonal columns of the same lengths, and orthonormal ones.
        """
        lengths = np.linalg.norm(basis, axis=0)
        unit = basis / lengths
        columns = self.spread_out(unit)
        padding = unit[self.n_known :]
        n_used = self.n_padding if np.linalg.norm(padding) > _UNUSED else 0
        empty = self._empty_directions(n_used + n_more)
        columns = np.hstack([columns + empty[:, :n_used] @ padding[:n_used], empty[:, n_used:]])
        # The coordinates are orthonormal up to the rounding of the rows' products.
        axes, turns = np.linalg.qr(columns)
        lengths = np.concatenate([lengths, np.ones(n_more)])
        return np.asarray(axes * (np.where(np.diag(turns) < 0, -1.0, 1.0) * lengths))

    def _empty_directions(self, count: int) -> FloatArray:
        """Orthonormal directions along which nothing varies, (p, count); always the same."""
        columns = np.random.default_rng(0).standard_normal((count, self.n_features)).T
        if count:
            columns = self.span.outside(columns)
            for _ in range(2):
                columns = columns - self.beside @ (self.beside.T @ columns)
        return np.asarray(np.linalg.qr(columns)[0])


@dataclass(frozen=True, eq=False)
class InCoordinates:
    """What a fit is to solve in place of the problem in all features.

    Let r directions be those of the rows' span (and of the origin, where errors are measured about
    it). A subspace of d dimensions holds at most d directions without variance, and if d > r at
    least d - r; these are added to the answer unchanged. So d' = min(d, r) dimensions of r + d'
    coordinates, at most 2r, hold everything on which a criterion can depend.

    Attributes
    ----------
    frame : Frame
    point : (r + padding,) array or None
        About which errors are measured; None where each group has its own mean.
    asked : int or float
        d, or a share of variance.
    nested : bool
        Whether the components are chosen one after the other: each is then one of the coordinates.
    """

    frame: Frame
    point: FloatArray | None
    asked: int | float
    nested: bool = False

    @property
    def n_components(self) -> int | float:
        """d' in the coordinates, or the share."""
        bounded = isinstance(self.asked, numbers.Integral) and not self.nested
        return min(int(self.asked), max(self.frame.n_known, 1)) if bounded else self.asked

    def in_features(self, basis: FloatArray, n_components: int) -> FloatArray:
        """An answer in the features, with the added directions at its end.

        Parameters
        ----------
        basis : (r + padding, m) array
            Orthogonal columns no longer than one.
        n_components : int
            The dimension that it answers, in the coordinates.

        Returns
        -------
        (p, m') array
            The entry of largest absolute value of each column is positive.
        """
        if isinstance(self.asked, numbers.Integral):
            n_more = int(self.asked) - n_components
        else:
            # Directions without variance that the frame leaves out, if all are asked for.
            n_left = self.frame.n_features - self.frame.n_known - self.frame.n_padding
            n_more = n_left if n_components > max(self.frame.n_known, 1) else 0
        return with_positive_signs(self.frame.lifted(basis, n_more))


def directions_beside(span: RowSpan, columns: FloatArray) -> FloatArray:
    """Orthonormal basis of what (p, m) columns add to a span, (p, e)."""
    lengths = np.linalg.norm(columns, axis=0)
    columns = columns[:, lengths > 0] / lengths[lengths > 0]
    axes, sizes, _ = np.linalg.svd(span.outside(columns), full_matrices=False)
    # Once more: what was nearly inside has lost its digits.
    return np.asarray(np.linalg.qr(span.outside(axes[:, sizes > _INSIDE]))[0])
