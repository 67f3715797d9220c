"""Moments that keep the rows: of sparse rows, or of rows that are fewer than their features.

Sparse rows of many features are fitted by products with them (:mod:`fairspan.moments.sparse`).

Few rows have coordinates. About one of them, the pilot, n rows span r < n directions. With an
orthonormal basis Q of these a row is x = pilot + Ql, and the r coordinates l have ordinary moments.
A subspace of d dimensions may also hold directions beside the rows: so the basis gets the direction
of the origin, where errors are measured about that, and min(d, p - r) more along which nothing
varies. In these m coordinates stands a problem of few features that has the same d and the same
answer as that of all p.

Let B = DW be the rows about the pilot, the rows of W of unit length. The fast way takes their
products, WW' = TT' by Cholesky, and Q = W'T'^-1, which is applied through the rows and never
formed. Then ||Q'Q - I|| is up to epsilon ||T^-1||_F^2. Where that is too much for one round, Q'Q,
summed over blocks of features, gets a second Cholesky (CholeskyQR2, Yamamoto et al. 2015). Where it
is too much for two, or the rows depend on each other, Householder's QR of W' gives Q to full
precision. A direction is left out there if no row reaches further into it than n epsilon of its own
length.

However Q was found, products with random columns bound s = ||Q'Q - I|| and how far rows lie beside
Q. The columns U of a subspace of coordinates are lifted to the span of QU, which leaves of a row Ql
between 1 - s and 1 + s times what U leaves of l. So s is a share of every error and of the bound,
and both belong to what a fit cannot resolve; coordinates of which either is more than 1e-8 are not
used, by a fit or by verification.
"""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import blas, lapack, qr

from fairspan.errors import InvalidInput
from fairspan.linalg.resources import check_memory, memory_error_hint
from fairspan.moments.dropped_rows import no_complete_rows, warn_of_lost_groups
from fairspan.moments.group_means import Center, GroupMeans, check_sizes
from fairspan.moments.group_moments import GroupMoments, moments_of_row_groups
from fairspan.moments.sparse import (
    RowGroup,
    SparseSecondMoments,
    positions_of_groups,
    sparse_groups,
)
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.checks import checked_values, converted
from fairspan.rows.frames import FrameRows
from fairspan.rows.groups import Label, label_array
from fairspan.rows.matrices import SparseRows
from fairspan.rows.protocol import USUAL_LIMIT, GroupLimit
from fairspan.typing import FloatArray, IndexArray

_EPSILON = float(np.finfo(np.float64).eps)
# How far axes may be from orthonormal by their bound; and by theory after products of rows, and so
# far that a second round is worth its time.
MOST_STRETCHED, _LOST_BY_PRODUCTS, _LOST_ONCE = 3e-11, 1e-9, 1e-11
# Lengths and angles of lifted columns that are off by less need no correction.
_ORTHONORMAL = 1e-14
# A direction of which less than this share lies beside others is in their span.
_INSIDE = 1e-10
# A basis that reaches no further than this into directions without variance does not need them:
# they change what it captures by the square of it. Iterations leave as much behind.
_UNUSED = 1e-9
# Axes that are further from orthonormal, or from the rows, are not used; and random columns that
# show it.
_FAULTY, _PROBES = 1e-8, 10
# Of the directions without variance that are drawn; any that no one else would choose.
_PADDING_SEED = 0x5AFE_C0DE_2018
# Means of all groups that differ by less than this share of the root mean square distance of rows
# from the pilot are the same; so are rows of a group that differ by less than this share of the
# longest row.
_ROUNDING = 1e-14
# Features that show whether rows differ, and the share of the largest product within which products
# of equal rows agree.
_GLANCE, _NEARLY_EQUAL = 16, 1e-12
# Rows that are copied at once, and features of which axes are formed at once.
_BLOCK_ROWS, _BLOCK_FEATURES = 64, 2048


@dataclass(frozen=True, eq=False, repr=False)
class _KeptRows(GroupMeans):
    """Weight, mean and variances of each group of rows, and the rows themselves.

    What a fit needs of :class:`GroupMoments`, without matrices of p x p numbers. It holds all
    rows, so it cannot be merged, saved or given away as moments can; `matrices()` can.

    Attributes
    ----------
    groups : (k,) array
        Labels in sorted order.
    counts, weights : (k,) arrays
    means : (k, p) array
    parts : tuple of RowGroup
    n_dropped : int
    feature_names : tuple of str or None
    """

    parts: tuple[RowGroup, ...]
    by_label: ClassVar[None] = None

    @classmethod
    def _of(cls, parts: Sequence[RowGroup], **others: Any) -> Self:
        with np.errstate(over="ignore", invalid="ignore"):  # found by in_range
            return cls(
                label_array([part.label for part in parts]),
                np.array([len(part.positions) for part in parts]),
                np.array([part.weight for part in parts]),
                np.array([part.mean for part in parts]),
                tuple(parts),
                mean_corrections=np.array([part.mean_correction for part in parts]),
                **others,
            )

    @cached_property
    def variances(self) -> FloatArray:
        """Variance of each feature about each group's own mean (ddof 0), shape (k, p)."""
        with np.errstate(over="ignore", invalid="ignore"):  # found by in_range
            return np.array([part.variances for part in self.parts])

    def operator_about(self, point: FloatArray | None) -> SparseSecondMoments:
        """Second moments about a point, or about each group's own mean if it is None."""
        nothing, offsets = np.zeros(self.n_groups), self.offsets_from(point)
        return SparseSecondMoments(self.parts, offsets, np.empty((self.n_features, 0)), nothing)

    def divided_by(self, scale: FloatArray) -> Self:
        """The moments of the rows divided by `scale`, a (p,) array of positive numbers."""
        return self._of(
            [part.divided_by(scale) for part in self.parts],
            n_dropped=self.n_dropped,
            weight_exponent=self.weight_exponent,
        )

    @memory_error_hint()
    def matrices(self) -> GroupMoments:
        """The same as moments without rows: k p^2 numbers, which can be merged and saved."""
        check_memory(self.n_groups, self.n_features)
        whole = moments_of_row_groups(self.parts, self.n_features, self.n_dropped)
        return replace(
            whole,
            feature_names=self.feature_names,
            weight_exponent=self.weight_exponent,
            is_made_here=True,
        )


class SparseMoments(_KeptRows):
    """Those of sparse rows: a fit takes products with them."""

    matrix_free = True

    @classmethod
    def of_rows(cls, rows: SparseRows, limit: GroupLimit = USUAL_LIMIT) -> "SparseMoments":
        """Moments that hold these rows.

        Raises
        ------
        InvalidInput
            No rows, a bad label, too many groups, or numbers whose squares overflow.
        """
        groups, n_dropped = sparse_groups(rows, limit)
        if not groups:
            raise no_complete_rows(rows, n_dropped)
        if n_dropped and (lost := rows.lost_groups([group.label for group in groups])):
            warn_of_lost_groups(rows, lost)
        found = cls._of(groups, n_dropped=n_dropped, weight_exponent=rows.weight_exponent)
        check_sizes(found.means, found.variances, None, in_part=True)
        return found


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ThinMoments(_KeptRows):
    """Those of rows that are fewer than their features: a fit takes their coordinates.

    That is exact: see :meth:`in_coordinates`.

    Attributes
    ----------
    rows : (n, p) array
        B, the rows about the pilot, group by group.
    """

    rows: FloatArray

    @classmethod
    def of_rows(
        cls, given: ArrayRows | FrameRows, limit: GroupLimit = USUAL_LIMIT
    ) -> "ThinMoments":
        """Moments that hold a copy of these rows, of which none is left out.

        Raises
        ------
        InvalidInput, InvalidType
            NaN, infinity, no numbers, missing labels, too many groups, squares that overflow.
        """
        assert given.labels is not None
        values = converted(given.array if isinstance(given, ArrayRows) else given.values())
        n, p = values.shape
        weights = np.ones(n) if given.weights is None else given.weights
        places = positions_of_groups(given.labels, weights, p, limit)
        order = np.concatenate(list(places.values()))
        pilot, rows = values[order[0]].astype(np.float64), np.empty((len(order), p))
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(order), _BLOCK_ROWS):
                block = slice(start, start + _BLOCK_ROWS)
                np.subtract(values[order[block]], pilot, out=rows[block])
            found = cls._about(
                pilot,
                rows,
                places,
                weights[order],
                feature_names=given.feature_names,
                weight_exponent=given.weight_exponent,
            )
        if len(order) < n or not np.isfinite(found.means).all():  # also rows that do not count
            checked_values(values, 0, given.feature_names)
        return found

    @classmethod
    def _about(
        cls,
        pilot: FloatArray,
        rows: FloatArray,
        places: dict[Label, IndexArray],
        weights: FloatArray,
        **others: Any,
    ) -> "ThinMoments":
        parts, start = [], 0
        for label, own in places.items():
            here = slice(start, start := start + len(own))
            parts.append(RowGroup.of(label, rows[here], weights[here], pilot, own))
        return cls._of(parts, rows=rows, **others)

    def with_rows(
        self, pilot: FloatArray, rows: FloatArray, names: tuple[str, ...] | None = None
    ) -> "ThinMoments":
        """The same rows with other features, of which these are the numbers about a pilot."""
        places = {part.label: part.positions for part in self.parts}
        weights = np.concatenate([own for part in self.parts for _, own in part.parts])
        exponent = self.weight_exponent
        return self._about(
            pilot, rows, places, weights, feature_names=names, weight_exponent=exponent
        )

    def divided_by(self, scale: FloatArray) -> "ThinMoments":
        """The moments of the rows divided by `scale`, a (p,) array of positive numbers."""
        return self.with_rows(self.pilot / scale, self.rows / scale, self.feature_names)

    @property
    def pilot(self) -> FloatArray:
        """The first row, (p,)."""
        return self.parts[0].pilot

    @cached_property
    def span(self) -> "Coordinates":
        """Those of the rows alone."""
        first, same = distinct_rows(self.rows)
        if len(first) == 1:  # all rows are the pilot
            nothing = np.empty((len(self.rows), 0))
            return Coordinates(self, nothing, nothing, np.empty((self.n_features, 0)))
        if len(first) == len(self.rows):
            return self._span_of(self.rows)
        # Equal rows have equal coordinates, which are found once.
        found = self._span_of(self.rows[first])
        mixing = np.zeros((len(self.rows), found.mixing.shape[1]))
        mixing[first] = found.mixing
        return replace(found, rows=found.rows[same], mixing=mixing)

    def _span_of(self, distinct: FloatArray) -> "Coordinates":
        """Return the coordinates of some rows, of which the first is the pilot."""
        gram = blas.dsyrk(1.0, distinct.T, trans=1, lower=1)
        lengths = np.sqrt(np.diag(gram))
        unit = lengths[1:]  # the first row is the pilot
        if unit.size and unit.all():
            found = self._axes_by_products(distinct, gram[1:, 1:] / unit / unit[:, None], unit)
            if found is not None:
                found = found.judged(distinct, lengths)
                if found.stretched <= MOST_STRETCHED and found.beside <= _FAULTY:
                    return found
        # From the rows themselves: slower, and twice as many digits.
        unit = np.where(lengths > 0, lengths, 1.0)
        axes, upper = qr((distinct / unit[:, None]).T, mode="economic", check_finite=False)
        # Columns are exchanged in the short factor: in the long one that is slow.
        turn, upper, order = qr(upper, mode="economic", pivoting=True, check_finite=False)
        rank = int((np.abs(np.diag(upper)) > len(lengths) * _EPSILON).sum())
        rows = np.empty((len(lengths), rank))
        rows[order] = upper[:rank].T
        rows *= lengths[:, None]
        found = Coordinates(self, rows, rows[:, :0], axes @ turn[:, :rank])
        found = found.judged(distinct, lengths)
        if not (off := max(found.stretched, found.beside)) <= _FAULTY:
            raise InvalidInput(
                f"Coordinates of the rows are off by {off:.0e}",
                f"Allowed: orthonormal axes that hold every row, up to {_FAULTY:.0e}",
                "Fit GroupMoments of the rows, and report this as a defect",
            )
        return found

    def _axes_by_products(
        self, distinct: FloatArray, gram: FloatArray, unit: FloatArray
    ) -> "Coordinates | None":
        """From the products of rows of unit length; None where the rows depend on each other."""
        lower, inverse = _triangle_of(gram)
        lost = _EPSILON * float(np.vdot(inverse, inverse))
        if not lost <= _LOST_BY_PRODUCTS:
            return None
        if lost > _LOST_ONCE:
            again = np.zeros_like(gram)
            for start in range(0, self.n_features, _BLOCK_FEATURES):
                block = (distinct[1:, start : start + _BLOCK_FEATURES] / unit[:, None]).T
                axes = blas.dtrmm(1.0, inverse, block, side=1, lower=1, trans_a=1, overwrite_b=1)
                again += blas.dsyrk(1.0, axes, trans=1, lower=1)
            more, beyond = _triangle_of(again)
            lower, inverse = lower @ more, beyond @ inverse
        rows, mixing = np.zeros((2, len(unit) + 1, len(unit)))
        rows[1:], mixing[1:] = lower * unit[:, None], inverse.T / unit[:, None]
        return Coordinates(self, rows, mixing, np.empty((self.n_features, 0)))

    def in_coordinates(self, n_components: int | float, center: Center) -> "Coordinates":
        """Coordinates in which a problem is an ordinary one of few features.

        Parameters
        ----------
        n_components : int or float
            d, or a share above 0 and below 1.
        center : {"global", "group", "none"}

        Returns
        -------
        Coordinates

        Raises
        ------
        InvalidInput
            So many components were requested that matrices of as many coordinates take too much
            memory.
        """
        found, p = self.span, self.n_features
        origin = -self.pilot
        if center == "none":
            found = found.widened(origin[:, None])
        whole = isinstance(n_components, numbers.Integral)
        wanted = int(n_components) if whole else max(found.n_known, 1)
        found = replace(found, n_padding=min(wanted, p - found.n_known))
        check_memory(self.n_groups, found.n_known + found.n_padding)
        if center == "group":
            return found
        # Not the mean of the features, which is rounded at their offset.
        own = found.reduce(origin[:, None])[:, 0] if center == "none" else found.moments.mean
        return replace(found, point=own)

    def with_basis(
        self, point: FloatArray | None, basis: FloatArray, n_components: int
    ) -> tuple[GroupMoments, FloatArray | None, FloatArray]:
        """Moments, a point and a basis of any subspace in coordinates that hold all three.

        Parameters
        ----------
        point : (p,) array or None
        basis : (p, r) array
        n_components : int
            There are at least that many coordinates.

        Returns
        -------
        GroupMoments, (m,) array or None, (m, r) array
        """
        columns = basis if point is None else np.column_stack([basis, point - self.pilot])
        found = self.span.widened(columns)
        found = replace(found, n_padding=max(n_components - found.n_known, 0))
        inside = found.reduce(columns)
        own = None if point is None else inside[:, -1]
        return found.moments, own, inside[:, : basis.shape[1]]


def distinct_rows(rows: FloatArray) -> tuple[IndexArray, IndexArray]:
    """Return the index of each distinct row where it is first, and which of these each row equals.

    Parameters
    ----------
    rows : (n, p) array

    Examples
    --------
    >>> distinct_rows(np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 2.0]]))
    (array([0, 1]), array([0, 1, 0]))
    """
    n, p = rows.shape
    every = np.arange(n)
    # Rows that differ do so in a few features already, nearly always.
    n_few = min(p, _GLANCE)
    few = rows[:, np.arange(n_few) * (p - 1) // max(n_few - 1, 1)]
    # Numbers that are all distinct in one of these features are the fastest to find.
    if (np.diff(np.sort(few, axis=0), axis=0) > 0).all(axis=0).any():
        return every, every
    if len(np.unique(few, axis=0)) == n:
        return every, every
    # Equal rows have nearly equal products with a random vector: only such neighbors are compared.
    products = rows @ np.random.default_rng(_PADDING_SEED).standard_normal(p)
    order = np.argsort(products, kind="stable")
    is_near = np.diff(products[order]) <= _NEARLY_EQUAL * float(np.abs(products).max())
    candidates = np.unique(order[np.append(is_near, False) | np.append(False, is_near)])
    same, by_hash = every.copy(), dict[int, list[int]]()
    for row in candidates.tolist():
        alike = by_hash.setdefault(hash((rows[row] + 0.0).tobytes()), [])  # -0 is 0
        same[row] = next((each for each in alike if np.array_equal(rows[each], rows[row])), row)
        if same[row] == row:
            alike.append(row)
    first, which = np.unique(same, return_inverse=True)
    return first, which


def _triangle_of(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """T of a matrix TT' whose lower half is given, and its inverse; NaN where there is none."""
    lower, failed = lapack.dpotrf(gram, lower=1)
    if failed:
        return lower, np.full_like(lower, np.nan)
    return lower, lapack.dtrtri(lower, lower=1)[0]


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Orthonormal axes about the pilot that hold all rows, and the rows along them.

    The first r are B'M; then come some in full, and at last those along which nothing varies.

    Attributes
    ----------
    thin : ThinMoments
    rows : (n, r) array
        Coordinates of the rows.
    mixing : (n, r') array
        M; r' = r, or none where the axes are known in full.
    basis : (p, e) array
        Axes in full.
    n_padding : int
    point : (m,) array or None
        About which errors are measured; None where each group has its own mean.
    stretched : float
        A bound on ||Q'Q - I||.
    beside : float
        A bound on what lies beside the axes of rows, as a share of their length.
    """

    thin: ThinMoments
    rows: FloatArray
    mixing: FloatArray
    basis: FloatArray
    n_padding: int = 0
    point: FloatArray | None = None
    stretched: float = 0.0
    beside: float = 0.0

    @property
    def n_known(self) -> int:
        """How many axes there are without the padding."""
        return int(self.mixing.shape[1] + self.basis.shape[1])

    @property
    def most_components(self) -> int:
        """Up to how many dimensions no direction without variance is missing."""
        all_there = self.n_known + self.n_padding == len(self.basis)
        return len(self.basis) if all_there else self.n_padding

    @cached_property
    def moments(self) -> GroupMoments:
        """Of the coordinates; means that agree, and rows that are equal, are so exactly."""
        thin, (n, r) = self.thin, self.rows.shape
        m = self.n_known + self.n_padding
        rows = np.zeros((n, m))
        rows[:, :r] = self.rows
        found = thin.with_rows(np.zeros(m), rows).matrices()
        means, scatters = found.means, found.scatters
        squares = np.einsum("ij,ij->i", rows, rows)
        size = squares.max()
        # As a share of how far rows lie from the pilot: that is what sums of them round.
        apart = np.linalg.norm(means - means[0], axis=1).max()
        corrections = found.mean_corrections
        if apart <= _ROUNDING * np.sqrt(squares.sum() / len(squares)):
            means, corrections = np.tile(found.mean, (thin.n_groups, 1)), None
        equal = np.einsum("gii->g", scatters) <= _ROUNDING**2 * size * thin.weights
        scatters = np.where(equal[:, None, None], 0.0, scatters) if equal.any() else scatters
        return replace(
            found,
            means=means,
            mean_corrections=corrections,
            scatters=scatters,
            is_made_here=True,
        )

    def judged(self, distinct: FloatArray, lengths: FloatArray) -> "Coordinates":
        """With bounds on ||Q'Q - I||, and on what lies beside Q of rows as a share of their length.

        By ten random columns: each is too small with a probability of 1e-10 (Halko, Martinsson and
        Tropp 2011, lemma 4.1). Of Q'Q - I the bound is the root of that on its square.

        Parameters
        ----------
        distinct : (n, p) array
            The rows that these are coordinates of.
        lengths : (n,) array
            Their lengths.
        """
        rng = np.random.default_rng(_PADDING_SEED)
        along = rng.standard_normal((self.n_known, _PROBES))
        over = rng.standard_normal((len(self.basis), _PROBES))
        own = self
        if distinct is not self.thin.rows:
            own = replace(self, thin=replace(self.thin, rows=distinct))
        once = own._products(own._lifted(along)) - along
        twice = own._products(own._lifted(once)) - once
        left = distinct @ over - self.rows @ own._products(over)
        left /= np.where(lengths > 0, lengths, 1.0)[:, None]
        beside, stretched = (
            10 * np.sqrt(2 / np.pi) * float(np.linalg.norm(each, axis=0).max(initial=0.0))
            for each in (left, twice)
        )
        return replace(self, stretched=float(np.sqrt(stretched)), beside=beside)

    def rows_beside(self) -> FloatArray:
        """How far the rows of each group may lie beside the axes, root mean square, shape (k,)."""
        drifts = np.array([part.drift for part in self.thin.parts])
        lengths = self.thin.variances.sum(axis=1) + (drifts**2).sum(axis=1)
        return np.asarray(self.beside * np.sqrt(lengths))

    def lift(self, columns: FloatArray) -> FloatArray:
        """Columns of the features, (p, q), from (m, q) columns of coordinates."""
        found, padding = self._lifted(columns), columns[self.n_known :]
        if np.linalg.norm(padding) > _UNUSED:
            found = found + self._padding @ padding
        lengths = columns.T @ columns
        lost = found.T @ found - lengths
        if self.mixing.size and np.abs(lost).max(initial=0.0) > _ORTHONORMAL:
            # Within their span, so that errors are off by no more than a share of themselves.
            found -= found @ np.linalg.lstsq(lengths, lost, rcond=_INSIDE)[0] / 2
        return found

    def reduce(self, columns: FloatArray) -> FloatArray:
        """Coordinates, (m, q), of (p, q) columns of the features."""
        padding = np.zeros((self.n_padding, columns.shape[1]))
        lengths = np.einsum("ij,ij->j", columns, columns)
        inside = self._products(columns)
        if (lengths - np.einsum("ij,ij->j", inside, inside) <= _ORTHONORMAL * lengths).all():
            return np.vstack([inside, padding])  # nothing lies outside: one pass will do
        inside, outside = self._split(columns)
        if self.n_padding and np.linalg.norm(outside) > _UNUSED * np.linalg.norm(columns):
            padding = self._padding.T @ outside
        return np.vstack([inside, padding])

    def widened(self, columns: FloatArray) -> "Coordinates":
        """With axes for what (p, q) columns add to those that are known; without padding."""
        lengths = np.linalg.norm(columns, axis=0)
        axes = self._beside(columns[:, lengths > 0] / lengths[lengths > 0])
        return replace(self, basis=np.hstack([self.basis, axes]))

    def _beside(self, columns: FloatArray) -> FloatArray:
        """Orthonormal axes of what columns add to those that are known."""
        # Twice: what was nearly inside, or nearly dependent, has lost its digits.
        for _ in range(2 if columns.size else 0):
            axes, sizes, _ = qr(self._split(columns)[1], mode="economic", pivoting=True)
            columns = axes[:, : int((np.abs(np.diag(sizes)) > _INSIDE).sum())]
        return columns

    def _lifted(self, columns: FloatArray) -> FloatArray:
        r = self.mixing.shape[1]
        found = self.basis @ columns[r : self.n_known]
        return found + self.thin.rows.T @ (self.mixing @ columns[:r]) if r else found

    def _products(self, columns: FloatArray) -> FloatArray:
        of_rows = self.mixing.T @ (self.thin.rows @ columns) if self.mixing.size else columns[:0]
        return np.vstack([of_rows, self.basis.T @ columns])

    def _split(self, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coordinates of columns along the axes that are known, and what lies beside these."""
        inside = np.zeros((self.n_known, columns.shape[1]))
        # Twice: what lies nearly along the axes has lost its digits.
        for _ in range(2):
            step = self._products(columns)
            inside, columns = inside + step, columns - self._lifted(step)
        return inside, columns

    @cached_property
    def _padding(self) -> FloatArray:
        """Orthonormal directions along which nothing varies; always the same."""
        # Rows that somebody drew with the same seed would leave nothing beside themselves.
        rng = np.random.default_rng(_PADDING_SEED)
        return self._beside(rng.standard_normal((self.n_padding, len(self.basis))).T)
