"""Coordinates in which rows of many features are rows of few: their span, and what lies beside it.

About a point in the span, a direction beside it has no variance. Criteria that weigh a group
negatively may prefer such a direction to one of the span, so as many of them belong to the
coordinates as a subspace could want; which ones they are is the same to every criterion.
"""

import numbers
from dataclasses import dataclass

import numpy as np

from fairspan.linalg import with_positive_signs
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.held_rows.row_span import RowSpan
from fairspan.typing import FloatArray

# A direction of which less than this share lies beside the span is in it: what is left out has the
# square of it in variance.
_INSIDE = 1e-8
# A basis that reaches no further than this into directions without variance does not need them:
# they change what it captures by the square of it. Iterations leave as much behind.
_UNUSED = 1e-9


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
        padding = np.zeros((self.n_padding, columns.shape[1]))
        return np.vstack([self.span.reduced(columns), self.beside.T @ columns, padding])

    def point(self, point: FloatArray | None, mean: FloatArray) -> FloatArray | None:
        """Coordinates of a (p,) point; none of none."""
        return None if point is None else self.reduced((point - mean)[:, None])[:, 0]

    def spread_out(self, columns: FloatArray) -> FloatArray:
        """Any columns of coordinates as columns of the features, without the padding, (p, m)."""
        r, e = self.span.rank, self.beside.shape[1]
        return np.asarray(self.span.lifted(columns[:r]) + self.beside @ columns[r : r + e])

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
        r, e = self.span.rank, self.beside.shape[1]
        lengths = np.linalg.norm(basis, axis=0)
        unit = basis / lengths
        columns = self.spread_out(unit)
        padding = unit[r + e :]
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
    def n_left(self) -> int:
        """Directions without variance that the frame leaves out."""
        return self.frame.n_features - self.frame.n_known - self.frame.n_padding

    @property
    def n_components(self) -> int | float:
        """d' in the coordinates, or the share."""
        if self.nested or not isinstance(self.asked, numbers.Integral):
            return self.asked
        return min(int(self.asked), max(self.frame.n_known, 1))

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
            n_more = self.n_left if n_components > max(self.frame.n_known, 1) else 0
        return with_positive_signs(self.frame.lifted(basis, n_more))


def directions_beside(span: RowSpan, columns: FloatArray) -> FloatArray:
    """Orthonormal basis of what (p, m) columns add to a span, (p, e)."""
    lengths = np.linalg.norm(columns, axis=0)
    columns = columns[:, lengths > 0] / lengths[lengths > 0]
    axes, sizes, _ = np.linalg.svd(span.outside(columns), full_matrices=False)
    # Once more: what was nearly inside has lost its digits.
    return np.asarray(np.linalg.qr(span.outside(axes[:, sizes > _INSIDE]))[0])
