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
from fairspan.linalg.resources import check_memory, explain_memory_errors
from fairspan.moments.base import BaseMoments, Center, check_magnitudes
from fairspan.moments.dropped_rows import no_complete_rows, warn_of_lost_groups
from fairspan.moments.group_moments import GroupMoments, dense_moments
from fairspan.moments.sparse import (
    GroupRows,
    SparseSecondMoments,
    group_sparse_rows,
    row_indices_by_group,
)
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.frames import FrameRows
from fairspan.rows.groups import Label, label_array
from fairspan.rows.matrices import SparseRows
from fairspan.rows.protocol import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.validation import to_finite_float64, to_numeric
from fairspan.typing import FloatArray, IndexArray

_EPSILON = float(np.finfo(np.float64).eps)
# How far axes may be from orthonormal by their bound; and by theory after products of rows, and so
# far that a second round is worth its time.
MAX_ORTHOGONALITY_DEFECT, _MAX_CHOLQR2_LOSS, _MAX_CHOLQR_LOSS = 3e-11, 1e-9, 1e-11
# Lengths and angles of lifted columns that are off by less need no correction.
_ORTHONORMAL_TOL = 1e-14
# A direction of which less than this share lies beside others is in their span.
_RANK_TOL = 1e-10
# A basis that reaches no further than this into directions without variance does not need them:
# they change what it captures by the square of it. Iterations leave as much behind.
_PADDING_TOL = 1e-9
# Axes that are further from orthonormal, or from the rows, are not used; and random columns that
# show it.
_MAX_AXES_ERROR, _N_PROBES = 1e-8, 10
# Of the directions without variance that are drawn; any that no one else would choose.
_PADDING_SEED = 0x5AFE_C0DE_2018
# Means of all groups that differ by less than this share of the root mean square distance of rows
# from the pilot are the same; so are rows of a group that differ by less than this share of the
# longest row.
_EQUAL_TOL = 1e-14
# Features that show whether rows differ, and the share of the largest product within which products
# of equal rows agree.
_GLANCE, _NEARLY_EQUAL = 16, 1e-12
# Rows that are copied at once, and features of which axes are formed at once.
_BLOCK_ROWS, _BLOCK_FEATURES = 64, 2048


@dataclass(frozen=True, eq=False, repr=False)
class RowMoments(BaseMoments):
    """Weight, mean and variances of each group of rows, and the rows themselves.

    What a fit needs of :class:`GroupMoments`, without matrices of p x p numbers. It holds all
    rows, so it cannot be merged, saved or given away as moments can; `matrices()` can.

    Attributes
    ----------
    groups : (k,) array
        Labels in sorted order.
    counts, weights : (k,) arrays
    means : (k, p) array
    parts : tuple of GroupRows
    n_dropped : int
    feature_names : tuple of str or None
    """

    group_rows: tuple[GroupRows, ...]
    by_class: ClassVar[None] = None

    @classmethod
    def _from_groups(cls, parts: Sequence[GroupRows], **others: Any) -> Self:
        with np.errstate(over="ignore", invalid="ignore"):  # found by check_range
            return cls(
                label_array([part.label for part in parts]),
                np.array([len(part.row_indices) for part in parts]),
                np.array([part.weight for part in parts]),
                np.array([part.mean for part in parts]),
                tuple(parts),
                mean_corrections=np.array([part.mean_correction for part in parts]),
                **others,
            )

    @cached_property
    def variances(self) -> FloatArray:
        """Variance of each feature about each group's own mean (ddof 0), shape (k, p)."""
        with np.errstate(over="ignore", invalid="ignore"):  # found by check_range
            return np.array([part.variances for part in self.group_rows])

    def second_moments_about(self, point: FloatArray | None) -> SparseSecondMoments:
        """Second moments about a point, or about each group's own mean if it is None."""
        nothing, offsets = np.zeros(self.n_groups), self.offsets_from(point)
        return SparseSecondMoments(
            self.group_rows, offsets, np.empty((self.n_features, 0)), nothing
        )

    def divided_by(self, scale: FloatArray) -> Self:
        """The moments of the rows divided by `scale`, a (p,) array of positive numbers."""
        return self._from_groups(
            [part.divided_by(scale) for part in self.group_rows],
            n_dropped=self.n_dropped,
            weight_exponent=self.weight_exponent,
        )

    @explain_memory_errors()
    def to_dense(self) -> GroupMoments:
        """The same as moments without rows: k p^2 numbers, which can be merged and saved."""
        check_memory(self.n_groups, self.n_features)
        whole = dense_moments(self.group_rows, self.n_features, self.n_dropped)
        return replace(
            whole,
            feature_names=self.feature_names,
            weight_exponent=self.weight_exponent,
            is_made_here=True,
        )


class SparseMoments(RowMoments):
    """Those of sparse rows: a fit takes products with them."""

    matrix_free = True

    @classmethod
    def from_rows(
        cls, rows: SparseRows, limit: GroupLimit = DEFAULT_GROUP_LIMIT
    ) -> "SparseMoments":
        """Moments that hold these rows.

        Raises
        ------
        InvalidInput
            No rows, a bad label, too many groups, or numbers whose squares overflow.
        """
        groups, n_dropped = group_sparse_rows(rows, limit)
        if not groups:
            raise no_complete_rows(rows, n_dropped)
        if n_dropped and (
            orthogonality_loss := rows.lost_groups([group.label for group in groups])
        ):
            warn_of_lost_groups(rows, orthogonality_loss)
        found = cls._from_groups(groups, n_dropped=n_dropped, weight_exponent=rows.weight_exponent)
        check_magnitudes(found.means, found.variances, None, is_partial=True)
        return found


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WideMoments(RowMoments):
    """Those of rows that are fewer than their features: a fit takes their coordinates.

    That is exact: see :meth:`in_coordinates`.

    Attributes
    ----------
    rows : (n, p) array
        B, the rows about the pilot, group by group.
    """

    rows: FloatArray

    @classmethod
    def from_rows(
        cls, given: ArrayRows | FrameRows, limit: GroupLimit = DEFAULT_GROUP_LIMIT
    ) -> "WideMoments":
        """Moments that hold a copy of these rows, of which none is left out.

        Raises
        ------
        InvalidInput, InvalidType
            NaN, infinity, no numbers, missing labels, too many groups, squares that overflow.
        """
        assert given.group_labels is not None
        values = to_numeric(given.array if isinstance(given, ArrayRows) else given.values())
        n, p = values.shape
        weights = np.ones(n) if given.weights is None else given.weights
        indices_by_group = row_indices_by_group(given.group_labels, weights, p, limit)
        order = np.concatenate(list(indices_by_group.values()))
        pilot, rows = values[order[0]].astype(np.float64), np.empty((len(order), p))
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(order), _BLOCK_ROWS):
                block = slice(start, start + _BLOCK_ROWS)
                np.subtract(values[order[block]], pilot, out=rows[block])
            found = cls._from_shifted_rows(
                pilot,
                rows,
                indices_by_group,
                weights[order],
                feature_names=given.feature_names,
                weight_exponent=given.weight_exponent,
            )
        if len(order) < n or not np.isfinite(found.means).all():  # also rows that do not count
            to_finite_float64(values, 0, given.feature_names)
        return found

    @classmethod
    def _from_shifted_rows(
        cls,
        pilot: FloatArray,
        rows: FloatArray,
        places: dict[Label, IndexArray],
        weights: FloatArray,
        **others: Any,
    ) -> "WideMoments":
        parts, start = [], 0
        for label, indices in places.items():
            group_slice = slice(start, start := start + len(indices))
            parts.append(
                GroupRows.from_rows(label, rows[group_slice], weights[group_slice], pilot, indices)
            )
        return cls._from_groups(parts, rows=rows, **others)

    def replace_features(
        self, shift: FloatArray, rows: FloatArray, names: tuple[str, ...] | None = None
    ) -> "WideMoments":
        """The same rows with other features, of which these are the numbers about a pilot."""
        indices_by_group = {part.label: part.row_indices for part in self.group_rows}
        weights = np.concatenate(
            [indices for part in self.group_rows for _, indices in part.chunks]
        )
        exponent = self.weight_exponent
        return self._from_shifted_rows(
            shift, rows, indices_by_group, weights, feature_names=names, weight_exponent=exponent
        )

    def divided_by(self, scale: FloatArray) -> "WideMoments":
        """The moments of the rows divided by `scale`, a (p,) array of positive numbers."""
        return self.replace_features(self.shift / scale, self.rows / scale, self.feature_names)

    @property
    def shift(self) -> FloatArray:
        """The first row, (p,)."""
        return self.group_rows[0].shift

    @cached_property
    def row_space(self) -> "RowSpace":
        """Those of the rows alone."""
        first, same = distinct_rows(self.rows)
        if len(first) == 1:  # all rows are the pilot
            nothing = np.empty((len(self.rows), 0))
            return RowSpace(self, nothing, nothing, np.empty((self.n_features, 0)))
        if len(first) == len(self.rows):
            return self._span_of(self.rows)
        # Equal rows have equal coordinates, which are found once.
        found = self._span_of(self.rows[first])
        mixing = np.zeros((len(self.rows), found.row_weights.shape[1]))
        mixing[first] = found.row_weights
        return replace(found, row_coordinates=found.row_coordinates[same], row_weights=mixing)

    def _span_of(self, distinct: FloatArray) -> "RowSpace":
        """Return the coordinates of some rows, of which the first is the pilot."""
        gram = blas.dsyrk(1.0, distinct.T, trans=1, lower=1)
        lengths = np.sqrt(np.diag(gram))
        row_norms = lengths[1:]  # the first row is the pilot
        if row_norms.size and row_norms.all():
            found = self._axes_by_cholesky_qr(
                distinct, gram[1:, 1:] / row_norms / row_norms[:, None], row_norms
            )
            if found is not None:
                found = found.with_error_bounds(distinct, lengths)
                if (
                    found.orthogonality_defect <= MAX_ORTHOGONALITY_DEFECT
                    and found.relative_span_residual <= _MAX_AXES_ERROR
                ):
                    return found
        # From the rows themselves: slower, and twice as many digits.
        row_norms = np.where(lengths > 0, lengths, 1.0)
        axes, upper = qr((distinct / row_norms[:, None]).T, mode="economic", check_finite=False)
        # Columns are exchanged in the short factor: in the long one that is slow.
        rotation, upper, order = qr(upper, mode="economic", pivoting=True, check_finite=False)
        rank = int((np.abs(np.diag(upper)) > len(lengths) * _EPSILON).sum())
        rows = np.empty((len(lengths), rank))
        rows[order] = upper[:rank].T
        rows *= lengths[:, None]
        found = RowSpace(self, rows, rows[:, :0], axes @ rotation[:, :rank])
        found = found.with_error_bounds(distinct, lengths)
        if (
            not (off := max(found.orthogonality_defect, found.relative_span_residual))
            <= _MAX_AXES_ERROR
        ):
            raise InvalidInput(
                f"Coordinates of the rows are off by {off:.0e}",
                f"Allowed: orthonormal axes that hold every row, up to {_MAX_AXES_ERROR:.0e}",
                "Fit GroupMoments of the rows, and report this as a defect",
            )
        return found

    def _axes_by_cholesky_qr(
        self, distinct: FloatArray, gram: FloatArray, unit: FloatArray
    ) -> "RowSpace | None":
        """From the products of rows of unit length; None where the rows depend on each other."""
        lower, inverse = _cholesky_with_inverse(gram)
        orthogonality_loss = _EPSILON * float(np.vdot(inverse, inverse))
        if not orthogonality_loss <= _MAX_CHOLQR2_LOSS:
            return None
        if orthogonality_loss > _MAX_CHOLQR_LOSS:
            again = np.zeros_like(gram)
            for start in range(0, self.n_features, _BLOCK_FEATURES):
                block = (distinct[1:, start : start + _BLOCK_FEATURES] / unit[:, None]).T
                axes = blas.dtrmm(1.0, inverse, block, side=1, lower=1, trans_a=1, overwrite_b=1)
                again += blas.dsyrk(1.0, axes, trans=1, lower=1)
            second_factor, second_inverse = _cholesky_with_inverse(again)
            lower, inverse = lower @ second_factor, second_inverse @ inverse
        rows, mixing = np.zeros((2, len(unit) + 1, len(unit)))
        rows[1:], mixing[1:] = lower * unit[:, None], inverse.T / unit[:, None]
        return RowSpace(self, rows, mixing, np.empty((self.n_features, 0)))

    def reduce_to_row_space(self, n_components: int | float, center: Center) -> "RowSpace":
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
        found, p = self.row_space, self.n_features
        origin = -self.shift
        if center == "none":
            found = found.extend(origin[:, None])
        whole = isinstance(n_components, numbers.Integral)
        wanted = int(n_components) if whole else max(found.n_axes, 1)
        found = replace(found, n_padding=min(wanted, p - found.n_axes))
        check_memory(self.n_groups, found.n_axes + found.n_padding)
        if center == "group":
            return found
        # Not the mean of the features, which is rounded at their offset.
        indices = found.project(origin[:, None])[:, 0] if center == "none" else found.moments.mean
        return replace(found, point=indices)

    def to_compact_coordinates(
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
        columns = basis if point is None else np.column_stack([basis, point - self.shift])
        found = self.row_space.extend(columns)
        found = replace(found, n_padding=max(n_components - found.n_axes, 0))
        inside = found.project(columns)
        indices = None if point is None else inside[:, -1]
        return found.moments, indices, inside[:, : basis.shape[1]]


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


def _cholesky_with_inverse(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """T of a matrix TT' whose lower half is given, and its inverse; NaN where there is none."""
    lower, failed = lapack.dpotrf(gram, lower=1)
    if failed:
        return lower, np.full_like(lower, np.nan)
    return lower, lapack.dtrtri(lower, lower=1)[0]


@dataclass(frozen=True, eq=False)
class RowSpace:
    """Orthonormal axes about the pilot that hold all rows, and the rows along them.

    The first r are B'M; then come some in full, and at last those along which nothing varies.

    Attributes
    ----------
    thin : WideMoments
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

    moments_of_rows: WideMoments
    row_coordinates: FloatArray
    row_weights: FloatArray
    explicit_axes: FloatArray
    n_padding: int = 0
    point: FloatArray | None = None
    orthogonality_defect: float = 0.0
    relative_span_residual: float = 0.0

    @property
    def n_axes(self) -> int:
        """How many axes there are without the padding."""
        return int(self.row_weights.shape[1] + self.explicit_axes.shape[1])

    @property
    def max_components(self) -> int:
        """Up to how many dimensions no direction without variance is missing."""
        spans_all_features = self.n_axes + self.n_padding == len(self.explicit_axes)
        return len(self.explicit_axes) if spans_all_features else self.n_padding

    @cached_property
    def moments(self) -> GroupMoments:
        """Of the coordinates; means that agree, and rows that are equal, are so exactly."""
        thin, (n, r) = self.moments_of_rows, self.row_coordinates.shape
        m = self.n_axes + self.n_padding
        rows = np.zeros((n, m))
        rows[:, :r] = self.row_coordinates
        found = thin.replace_features(np.zeros(m), rows).to_dense()
        means, scatters = found.means, found.scatters
        squares = np.einsum("ij,ij->i", rows, rows)
        size = squares.max()
        # As a share of how far rows lie from the pilot: that is what sums of them round.
        apart = np.linalg.norm(means - means[0], axis=1).max()
        corrections = found.mean_corrections
        if apart <= _EQUAL_TOL * np.sqrt(squares.sum() / len(squares)):
            means, corrections = np.tile(found.mean, (thin.n_groups, 1)), None
        equal = np.einsum("gii->g", scatters) <= _EQUAL_TOL**2 * size * thin.weights
        scatters = np.where(equal[:, None, None], 0.0, scatters) if equal.any() else scatters
        return replace(
            found,
            means=means,
            mean_corrections=corrections,
            scatters=scatters,
            is_made_here=True,
        )

    def with_error_bounds(self, distinct: FloatArray, row_norms: FloatArray) -> "RowSpace":
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
        along = rng.standard_normal((self.n_axes, _N_PROBES))
        over = rng.standard_normal((len(self.explicit_axes), _N_PROBES))
        indices = self
        if distinct is not self.moments_of_rows.rows:
            indices = replace(self, moments_of_rows=replace(self.moments_of_rows, rows=distinct))
        once = indices._project_on_axes(indices._lift_axes(along)) - along
        twice = indices._project_on_axes(indices._lift_axes(once)) - once
        left = distinct @ over - self.row_coordinates @ indices._project_on_axes(over)
        left /= np.where(row_norms > 0, row_norms, 1.0)[:, None]
        beside, stretched = (
            10 * np.sqrt(2 / np.pi) * float(np.linalg.norm(each, axis=0).max(initial=0.0))
            for each in (left, twice)
        )
        return replace(
            self, orthogonality_defect=float(np.sqrt(stretched)), relative_span_residual=beside
        )

    def span_residuals(self) -> FloatArray:
        """How far the rows of each group may lie beside the axes, root mean square, shape (k,)."""
        drifts = np.array([part.shifted_mean for part in self.moments_of_rows.group_rows])
        lengths = self.moments_of_rows.variances.sum(axis=1) + (drifts**2).sum(axis=1)
        return np.asarray(self.relative_span_residual * np.sqrt(lengths))

    def lift(self, columns: FloatArray) -> FloatArray:
        """Columns of the features, (p, q), from (m, q) columns of coordinates."""
        found, padding = self._lift_axes(columns), columns[self.n_axes :]
        if np.linalg.norm(padding) > _PADDING_TOL:
            found = found + self._padding @ padding
        lengths = columns.T @ columns
        orthogonality_loss = found.T @ found - lengths
        if self.row_weights.size and np.abs(orthogonality_loss).max(initial=0.0) > _ORTHONORMAL_TOL:
            # Within their span, so that errors are off by no more than a share of themselves.
            found -= found @ np.linalg.lstsq(lengths, orthogonality_loss, rcond=_RANK_TOL)[0] / 2
        return found

    def project(self, columns: FloatArray) -> FloatArray:
        """Coordinates, (m, q), of (p, q) columns of the features."""
        padding = np.zeros((self.n_padding, columns.shape[1]))
        lengths = np.einsum("ij,ij->j", columns, columns)
        inside = self._project_on_axes(columns)
        if (lengths - np.einsum("ij,ij->j", inside, inside) <= _ORTHONORMAL_TOL * lengths).all():
            return np.vstack([inside, padding])  # nothing lies outside: one pass will do
        inside, outside = self._decompose(columns)
        if self.n_padding and np.linalg.norm(outside) > _PADDING_TOL * np.linalg.norm(columns):
            padding = self._padding.T @ outside
        return np.vstack([inside, padding])

    def extend(self, columns: FloatArray) -> "RowSpace":
        """With axes for what (p, q) columns add to those that are known; without padding."""
        lengths = np.linalg.norm(columns, axis=0)
        axes = self._new_axes(columns[:, lengths > 0] / lengths[lengths > 0])
        return replace(self, explicit_axes=np.hstack([self.explicit_axes, axes]))

    def _new_axes(self, columns: FloatArray) -> FloatArray:
        """Orthonormal axes of what columns add to those that are known."""
        # Twice: what was nearly inside, or nearly dependent, has lost its digits.
        for _ in range(2 if columns.size else 0):
            axes, sizes, _ = qr(self._decompose(columns)[1], mode="economic", pivoting=True)
            columns = axes[:, : int((np.abs(np.diag(sizes)) > _RANK_TOL).sum())]
        return columns

    def _lift_axes(self, columns: FloatArray) -> FloatArray:
        r = self.row_weights.shape[1]
        found = self.explicit_axes @ columns[r : self.n_axes]
        return (
            found + self.moments_of_rows.rows.T @ (self.row_weights @ columns[:r]) if r else found
        )

    def _project_on_axes(self, columns: FloatArray) -> FloatArray:
        of_rows = (
            self.row_weights.T @ (self.moments_of_rows.rows @ columns)
            if self.row_weights.size
            else columns[:0]
        )
        return np.vstack([of_rows, self.explicit_axes.T @ columns])

    def _decompose(self, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coordinates of columns along the axes that are known, and what lies beside these."""
        inside = np.zeros((self.n_axes, columns.shape[1]))
        # Twice: what lies nearly along the axes has lost its digits.
        for _ in range(2):
            step = self._project_on_axes(columns)
            inside, columns = inside + step, columns - self._lift_axes(step)
        return inside, columns

    @cached_property
    def _padding(self) -> FloatArray:
        """Orthonormal directions along which nothing varies; always the same."""
        # Rows that somebody drew with the same seed would leave nothing beside themselves.
        rng = np.random.default_rng(_PADDING_SEED)
        return self._new_axes(rng.standard_normal((self.n_padding, len(self.explicit_axes))).T)
