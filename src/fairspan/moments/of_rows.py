"""Moments of rows: as matrices, or referring to sparse rows, or to rows fewer than their features.

Sparse rows of many features are fitted by products with them (:mod:`fairspan.moments.sparse`).

Few rows have coordinates. About one of them, the pilot, n rows span r < n directions. With an
orthonormal basis Q of these a row is x = pilot + Ql, and the r coordinates l have ordinary moments.
A subspace of d dimensions may also hold directions beside the rows: so the basis gets the direction
of the origin, where errors are measured about that, and min(d, p - r) more along which nothing
varies. In these m coordinates stands a problem of few features that has the same d and the same
answer as that of all p.

Let B = DW be the rows about the pilot, the rows of W of unit length. The fast way takes their
products, WW' = TT' by Cholesky, and Q = W'T'^-1, which is applied through the rows and never
formed. Then ||Q'Q - I|| is up to epsilon ||T^-1||_F^2; where that is too much, or the rows depend
on each other, Householder's QR of W' gives Q to full precision. A direction is left out there if no
row reaches further into it than n epsilon of its own length.

All products with the rows go through blocks of columns: the pilot is subtracted before they are
multiplied, so that a large offset common to a column costs no digits, whatever their precision.
"""

import numbers
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import blas, lapack, qr

from fairspan.errors import InvalidType, kind_of, memory_error_hint
from fairspan.linalg.resources import bytes_of_moments, check_memory
from fairspan.moments.group_means import EVERY_ROW, Center, GroupMeans, Intake, check_sizes
from fairspan.moments.group_moments import (
    GroupMoments,
    MomentsTally,
    accumulate,
    merged,
    moments_of_sparse_groups,
    no_rows,
)
from fairspan.moments.operators import DenseSecondMoments
from fairspan.moments.sparse import SparseGroup, SparseSecondMoments, sparse_groups
from fairspan.rows.arrays import ArrayRows, labels_of
from fairspan.rows.checks import checked_values, converted
from fairspan.rows.frames import FrameRows
from fairspan.rows.groups import (
    CodedLabels,
    Folds,
    LabelCoder,
    in_order,
    label_array,
    without_last_attribute,
)
from fairspan.rows.protocol import USUAL_LIMIT, GroupLimit, Rows
from fairspan.rows.sparse import SparseRows
from fairspan.typing import AnyArray, FloatArray, IndexArray, IntegerArray

_EPSILON = float(np.finfo(np.float64).eps)
# How far a basis from products of rows may be from orthonormal; what is lifted is corrected.
_LOST_BY_PRODUCTS = 3e-10
# Lengths and angles of lifted columns that are off by less need no correction.
_ORTHONORMAL = 1e-14
# A direction of which less than this share lies beside others is in their span.
_INSIDE = 1e-10
# A basis that reaches no further than this into directions without variance does not need them:
# they change what it captures by the square of it. Iterations leave as much behind.
_UNUSED = 1e-9
# Of the directions without variance that are drawn; any that no one else would choose.
_PADDING_SEED = 0x5AFE_C0DE_2018
# Means of all groups that differ by less than this share of their length are the same; so are rows
# of a group that differ by less than this share of the longest row.
_ROUNDING = 1e-14
# Numbers of one block of columns, and its fewest columns: it stays in cache, and a symmetric
# product of it runs at full speed.
_BLOCK_NUMBERS = 2**18
_FEWEST_COLUMNS = 256


@dataclass(frozen=True, eq=False, repr=False)
class SparseMoments(GroupMeans):
    """Weight, mean and variances of each group of sparse rows, and the rows themselves.

    What a fit needs of :class:`GroupMoments`, without matrices of p x p numbers. It refers to all
    rows, so it cannot be merged, saved or given away as moments can; `matrices()` can.

    Attributes
    ----------
    groups : (k,) array
        Labels in sorted order.
    counts, weights : (k,) arrays
    means : (k, p) array
    parts : tuple of SparseGroup
    intake : Intake
    """

    matrix_free = True

    groups: AnyArray
    counts: IntegerArray
    weights: FloatArray
    means: FloatArray
    parts: tuple[SparseGroup, ...] = field(repr=False)
    intake: Intake = EVERY_ROW
    feature_names: tuple[str, ...] | None = None
    by_label: ClassVar[None] = None

    @classmethod
    def of_rows(cls, rows: SparseRows, limit: GroupLimit = USUAL_LIMIT) -> "SparseMoments":
        """Moments that refer to these rows.

        Raises
        ------
        InvalidInput
            No rows, a bad label, too many groups, or numbers whose squares overflow.
        """
        groups, intake = sparse_groups(rows, limit)
        if not groups:
            raise no_rows(intake)
        found = cls._of(sorted(groups, key=lambda part: part.label), intake)
        check_sizes(found.means, found.variances, None, in_part=True)
        return found

    @classmethod
    def _of(cls, parts: Iterable[SparseGroup], intake: Intake) -> "SparseMoments":
        parts = tuple(parts)
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(
                label_array([part.label for part in parts]),
                np.array([part.count for part in parts], dtype=np.int64),
                np.array([part.weight for part in parts]),
                np.array([part.mean for part in parts]),
                parts,
                intake,
            )

    @cached_property
    def variances(self) -> FloatArray:
        """Variance of each feature about each group's own mean (ddof 0), shape (k, p)."""
        with np.errstate(over="ignore", invalid="ignore"):  # found by in_range
            return np.array([part.variances for part in self.parts])

    def operator_about(self, point: FloatArray | None) -> SparseSecondMoments:
        """Second moments about a point, or about each group's own mean if it is None."""
        offsets = np.zeros_like(self.means) if point is None else self.means - point
        nothing = np.zeros(self.n_groups)
        return SparseSecondMoments(self.parts, offsets, np.empty((self.n_features, 0)), nothing)

    def divided_by(self, scale: FloatArray) -> "SparseMoments":
        """The moments of the rows divided by `scale`, a (p,) array of positive numbers."""
        return self._of((part.divided_by(scale) for part in self.parts), self.intake)

    @memory_error_hint()
    def matrices(self) -> GroupMoments:
        """The same as moments without rows: k p^2 numbers, which can be merged and saved."""
        check_memory(self.n_groups, self.n_features)
        return moments_of_sparse_groups(self.parts, self.n_features, self.intake)


@dataclass(frozen=True, eq=False, repr=False)
class ThinMoments(GroupMeans):
    """Weight and mean of each group of rows, and the rows themselves, fewer than their features.

    What a fit needs of :class:`GroupMoments`, without matrices of p x p numbers and without loss:
    see :meth:`in_coordinates`. It refers to the rows, which must stay as they are, so it cannot be
    merged, saved or given away as moments can; `matrices()` can.

    Attributes
    ----------
    groups : (k,) array
        Labels in sorted order.
    counts, weights : (k,) arrays
    means : (k, p) array
    values : (n', p) array of real numbers
        The rows as they were given.
    present : (n,) array of int or slice
        Those of positive weight.
    codes : (n,) array of int
        Group of each of these rows.
    row_weights : (n,) array or None
    scale : (p,) array or None
        What the rows are divided by.
    feature_names : tuple of str or None
    intake : Intake
    """

    groups: AnyArray
    counts: IntegerArray
    weights: FloatArray
    means: FloatArray
    values: AnyArray = field(repr=False)
    present: IndexArray | slice = field(repr=False)
    codes: IndexArray = field(repr=False)
    row_weights: FloatArray | None = field(repr=False)
    scale: FloatArray | None = None
    feature_names: tuple[str, ...] | None = None
    intake: Intake = EVERY_ROW
    by_label: ClassVar[None] = None

    @cached_property
    def pilot(self) -> FloatArray:
        """The first row, (p,), in units of the features."""
        first = 0 if isinstance(self.present, slice) else int(self.present[0])
        return np.asarray(self.values[first], dtype=np.float64)

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Scaled columns of B in consecutive blocks (n, c); they may be written to."""
        width = max(_BLOCK_NUMBERS // len(self.codes), _FEWEST_COLUMNS)
        for start in range(0, self.n_features, width):
            own = slice(start, start + width)
            columns = self.values[self.present, own]
            block = np.subtract(columns, self.pilot[own], dtype=np.float64, order="C")
            if self.scale is not None:
                block /= self.scale[own]
            yield own, block

    def times(self, columns: FloatArray) -> FloatArray:
        """BU of (p, m) columns U."""
        product = np.zeros((len(self.codes), columns.shape[1]))
        for own, block in self.blocks():
            product += block @ columns[own]
        return product

    def transposed_times(self, columns: FloatArray) -> FloatArray:
        """B'Y of (n, m) columns Y, shape (p, m)."""
        return np.concatenate([block.T @ columns for _, block in self.blocks()])

    @cached_property
    def variances(self) -> FloatArray:
        """Variance of each feature about each group's own mean (ddof 0), shape (k, p)."""
        shares, variances = self._shares, np.empty_like(self.means)
        with np.errstate(over="ignore", invalid="ignore"):  # found by in_range
            for own, block in self.blocks():
                block -= (shares @ block)[self.codes]
                variances[:, own] = shares @ block**2
        return variances

    @property
    def _shares(self) -> FloatArray:
        """What each row counts for in the mean of its group, (k, n)."""
        shares = np.zeros((self.n_groups, len(self.codes)))
        weights = 1.0 if self.row_weights is None else self.row_weights
        shares[self.codes, np.arange(len(self.codes))] = weights / self.weights[self.codes]
        return shares

    def operator_about(self, point: FloatArray | None) -> DenseSecondMoments:
        """Second moments about a point in all features, by matrices; see :meth:`in_coordinates`."""
        return self.matrices().operator_about(point)

    def divided_by(self, scale: FloatArray) -> "ThinMoments":
        """The moments of the rows divided by `scale`, a (p,) array of positive numbers."""
        whole = scale if self.scale is None else self.scale * scale
        return replace(self, means=self.means / scale, scale=whole)

    @cached_property
    def span(self) -> "Coordinates":
        """Those of the rows alone."""
        gram = np.zeros((len(self.codes), len(self.codes)), order="F")
        for _, block in self.blocks():
            gram = blas.dsyrk(1.0, block.T, trans=1, lower=1, beta=1.0, c=gram, overwrite_c=1)
        lengths = np.sqrt(np.diag(gram))
        used = np.flatnonzero(lengths > 0)
        rows = np.zeros((len(lengths), len(used)))
        if not len(used):
            return Coordinates(self, rows, rows, np.empty((self.n_features, 0)))
        unit = lengths[used, None]
        lower, failed = lapack.dpotrf(gram[np.ix_(used, used)] / unit / unit.T, lower=1)
        inverse = lower if failed else lapack.dtrtri(lower, lower=1)[0]
        if failed or _EPSILON * float(np.vdot(inverse, inverse)) > _LOST_BY_PRODUCTS:
            return self._by_householder(lengths)
        mixing = np.zeros_like(rows)
        rows[used], mixing[used] = lower * unit, inverse.T / unit
        return Coordinates(self, rows, mixing, np.empty((self.n_features, 0)))

    def _by_householder(self, lengths: FloatArray) -> "Coordinates":
        """The same from the rows themselves: slower, and twice as many digits."""
        whole = np.empty((self.n_features, len(lengths)), order="F")
        for own, block in self.blocks():
            whole[own] = (block / np.where(lengths > 0, lengths, 1.0)[:, None]).T
        axes, upper = qr(whole, mode="economic", overwrite_a=True, check_finite=False)
        # Columns are exchanged in the short factor: in the long one that is slow.
        turn, upper, order = qr(upper, mode="economic", pivoting=True, check_finite=False)
        rank = int((np.abs(np.diag(upper)) > len(lengths) * _EPSILON).sum())
        rows = np.empty((len(lengths), rank))
        rows[order] = upper[:rank].T
        rows *= lengths[:, None]
        return Coordinates(self, rows, rows[:, :0], axes @ turn[:, :rank])

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
        origin = -self.pilot if self.scale is None else -self.pilot / self.scale
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
        columns = basis if point is None else np.column_stack([basis, self.about_pilot(point)])
        found = self.span.widened(columns)
        found = replace(found, n_padding=max(n_components - found.n_known, 0))
        inside = found.reduce(columns)
        own = None if point is None else inside[:, -1]
        return found.moments, own, inside[:, : basis.shape[1]]

    def about_pilot(self, point: FloatArray) -> FloatArray:
        """A (p,) point, in the units of the means, from the pilot."""
        return np.asarray(point - (self.pilot if self.scale is None else self.pilot / self.scale))

    def matrices(self) -> GroupMoments:
        """The same as moments without rows: k p^2 numbers, which can be merged and saved."""
        whole = GroupMoments.from_rows(self.values[self.present], self.codes, self.row_weights)
        whole = replace(
            whole, groups=self.groups, feature_names=self.feature_names, intake=self.intake
        )
        return whole if self.scale is None else whole.divided_by(self.scale)


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
    """

    thin: ThinMoments
    rows: FloatArray
    mixing: FloatArray
    basis: FloatArray
    n_padding: int = 0
    point: FloatArray | None = None

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
        rows = np.zeros((n, self.n_known + self.n_padding))
        rows[:, :r] = self.rows
        labels = labels_of(thin.codes, n, None)
        found = MomentsTally().over(ArrayRows(rows, labels=labels, weights=thin.row_weights))
        assert found is not None
        means, scatters = found.means, found.scatters
        apart = np.linalg.norm(thin.means - thin.means[0], axis=1).max()
        if apart <= _ROUNDING * np.linalg.norm(thin.means[0]):
            means = np.tile(found.mean, (thin.n_groups, 1))
        size = np.einsum("ij,ij->i", rows, rows).max()
        equal = np.einsum("gii->g", scatters) <= _ROUNDING**2 * size * thin.weights
        scatters = np.where(equal[:, None, None], 0.0, scatters) if equal.any() else scatters
        return replace(
            found, groups=thin.groups, intake=thin.intake, means=means, scatters=scatters
        )

    def lift(self, columns: FloatArray) -> FloatArray:
        """Columns of the features, (p, q), from (m, q) columns of coordinates."""
        found, padding = self._lifted(columns), columns[self.n_known :]
        if np.linalg.norm(padding) > _UNUSED:
            found = found + self._padding @ padding
        lost = found.T @ found - columns.T @ columns
        if self.mixing.size and np.abs(lost).max(initial=0.0) > _ORTHONORMAL:
            # Of Q(I + F)^-1/2 with F = Q'Q - I, the first two terms.
            inside = columns[: self.n_known]
            found -= self._lifted(self._products(self._lifted(inside)) - inside) / 2
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
        return found + self.thin.transposed_times(self.mixing @ columns[:r]) if r else found

    def _products(self, columns: FloatArray) -> FloatArray:
        of_rows = self.mixing.T @ self.thin.times(columns) if self.mixing.size else columns[:0]
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


def thin_moments(
    values: AnyArray,
    labels: CodedLabels,
    weights: FloatArray | None,
    feature_names: tuple[str, ...] | None,
    limit: GroupLimit = USUAL_LIMIT,
) -> ThinMoments:
    """Moments that refer to (n, p) rows.

    Parameters
    ----------
    values : (n, p) array
        Of any precision; referred to, not copied.
    labels : CodedLabels of n rows
    weights : (n,) array or None
        Finite and not negative, some of them positive.
    feature_names : tuple of str or None
    limit : GroupLimit
        How many groups there may be.

    Returns
    -------
    ThinMoments

    Raises
    ------
    InvalidInput, InvalidType
        NaN, infinity, no numbers, missing labels, too many groups, numbers whose squares overflow.
    """
    values, coder = converted(values), LabelCoder()
    codes = coder.encode(labels)
    present: IndexArray | slice = slice(None)
    if weights is not None and not weights.all():
        checked_values(values, 0, feature_names)  # also the rows that do not count
        present = np.flatnonzero(weights)
        codes, weights = codes[present], weights[present]
    present_codes, codes = np.unique(codes, return_inverse=True)
    labels = CodedLabels([coder.labels[code] for code in present_codes.tolist()], codes)
    names, codes = in_order(labels)
    counts = np.bincount(codes)
    limit.check(len(counts), len(codes), values.shape[1])
    found = ThinMoments(
        label_array(names),
        counts,
        np.bincount(codes, weights).astype(np.float64),
        np.zeros((len(counts), values.shape[1])),
        values,
        present,
        codes,
        weights,
        feature_names=feature_names,
    )
    with np.errstate(over="ignore", invalid="ignore"):
        means = found.pilot + found.transposed_times(found._shares.T).T
    if not np.isfinite(means).all():
        checked_values(values, 0, feature_names)
    return replace(found, means=means)


Moments = GroupMoments | SparseMoments | ThinMoments
"""What a projection is fitted to and judged by."""

# Beyond this many features k matrices cost more, in time and memory, than products with the rows
# where these are sparse.
MATRICES_UP_TO = 1500
# Beyond this many features matrices cost more than a few hundredths of a second, and coordinates of
# rows less than matrices, if the rows are no more than this share of the features: measured, half
# as much for half as many rows as features, a twentieth for a tenth.
THIN_BEYOND = 500
_THIN_SHARE = 0.8
# Numbers (2 GB) that the matrices of all groups in all folds may take.
MOST_NUMBERS = 2**28
# The fewest folds that a budget may leave: with fewer, too little is learnt from the others.
FEWEST_FOLDS = 5


def not_moments(value: object) -> InvalidType:
    """What to raise where moments were requested."""
    return InvalidType(
        f"moments is {kind_of(value)}",
        "Allowed: a GroupMoments",
        "Make one with GroupMoments.from_rows or GroupMoments.load",
    )


@memory_error_hint()
def moments_of(rows: Rows, limit: GroupLimit = USUAL_LIMIT, *, has_labels: bool = False) -> Moments:
    """Moments of each group; beyond some features they may refer to the rows.

    That is so where the rows are sparse, or in memory here and clearly fewer than their features,
    unless they have classes of y.

    Parameters
    ----------
    rows : RowSource or PartedRows
    limit : GroupLimit
        How many groups there may be.
    has_labels : bool
        Whether the last column of the labels is the class that a row has in y.

    Raises
    ------
    InvalidInput
        As :func:`accumulate`.
    """
    if has_labels:
        return accumulate(rows, limit, has_labels=True)
    if isinstance(rows, SparseRows) and rows.n_features > MATRICES_UP_TO:
        return SparseMoments.of_rows(rows, limit.over(rows)).in_range()
    if isinstance(rows, ArrayRows | FrameRows) and _is_thin(rows):
        values = rows.array if isinstance(rows, ArrayRows) else rows.values()
        assert rows.labels is not None
        labels = rows.labels
        return thin_moments(
            values, labels, rows.weights, rows.feature_names, limit.over(rows)
        ).in_range()
    return accumulate(rows, limit)


def _is_thin(rows: ArrayRows | FrameRows) -> bool:
    """Whether all rows are to be taken, have groups, and are clearly fewer than their features."""
    return (
        rows.n_rows <= _THIN_SHARE * rows.n_features
        and rows.n_features > THIN_BEYOND
        and rows.on_missing == "error"
        and rows.labels is not None
    )


@dataclass(frozen=True, eq=False)
class SummedFolds:
    """Moments of every part, from which those of the others are summed, so that nothing cancels.

    Attributes
    ----------
    parts : tuple of K GroupMoments, or None for a fold without rows
        Of the rows in each fold; a group may be missing in some.
    intake : Intake
        Rows that are in none of them.
    """

    parts: tuple[GroupMoments | None, ...]
    intake: Intake = EVERY_ROW

    @cached_property
    def whole(self) -> GroupMoments:
        """Of all rows."""
        return replace(self.without(-1), intake=self.intake)

    def without(self, fold: int) -> GroupMoments:
        """Of all rows but those of a fold; groups that are in no other fold are missing."""
        others = [part for each, part in enumerate(self.parts) if each != fold]
        return replace(merged([part for part in others if part is not None]), intake=EVERY_ROW)


@dataclass(frozen=True, eq=False)
class SparseFolds:
    """The same for sparse rows of many features, which are used instead of their moments.

    Attributes
    ----------
    rows : SparseRows
    grouped : SparseRows
        The same without the clusters that their labels may have.
    folds : (n,) array of int
    whole : SparseMoments
    """

    rows: SparseRows
    grouped: SparseRows
    folds: IndexArray
    whole: SparseMoments

    def without(self, fold: int) -> SparseMoments:
        """Of all rows but those of a fold; groups that are in no other fold are missing."""
        return SparseMoments.of_rows(self.grouped.at(np.flatnonzero(self.folds != fold)))


FoldMoments = SummedFolds | SparseFolds
"""Moments of all rows, and of all but those of one fold."""


@memory_error_hint()
def fold_moments(
    rows: Rows, folds: Folds, limit: GroupLimit = USUAL_LIMIT, *, has_labels: bool = False
) -> SummedFolds:
    """Moments of each group in each fold: one pass over the rows, wherever they are.

    Parameters
    ----------
    rows : RowSource or PartedRows
        With labels; the last column of these is the cluster if `folds` says so.
    folds : Folds
    limit : GroupLimit
        How many groups there may be.
    has_labels : bool
        Whether the last column of the labels, but for the cluster, is the class that a row has in
        y.

    Raises
    ------
    InvalidInput
        Whatever the source finds wrong with its rows; no rows at all; too many groups.
    """
    found = accumulate(rows, limit, has_labels=has_labels, folds=folds)
    fold_of = np.array([label[-1] for label in found.labels if isinstance(label, tuple)])
    parts: list[GroupMoments | None] = [None] * folds.n_folds
    for fold in np.unique(fold_of).tolist():
        own = replace(found.of_groups(fold_of == fold), intake=EVERY_ROW)
        part = merged([own], without_last_attribute)
        parts[fold] = part.over_classes() if has_labels else part
    return SummedFolds(tuple(parts), found.intake)


def sparse_folds(rows: SparseRows, folds: Folds, limit: GroupLimit = USUAL_LIMIT) -> SparseFolds:
    """The same of sparse rows of many features, of which no matrices are made."""
    rows = rows.complete()
    assert rows.labels is not None
    labels = folds.of_rows(rows.labels, 0)
    grouped = replace(rows, labels=labels.groups)
    return SparseFolds(
        rows, grouped, labels.folds, SparseMoments.of_rows(grouped, limit).in_range()
    )


def affordable_folds(
    n_folds: int, n_groups: int, n_features: int, max_memory: int | None = None
) -> int | None:
    """How many folds fit into the budget of memory: as many as requested, five, or none.

    Parameters
    ----------
    n_folds, n_groups, n_features : int
    max_memory : int, optional
        Bytes that the matrices may take while they are made, where that was set.

    Examples
    --------
    >>> affordable_folds(10, 2, 1000), affordable_folds(10, 20, 1500), affordable_folds(10, 2, 9000)
    (10, 5, None)
    """
    for count in (n_folds, min(n_folds, FEWEST_FOLDS)):
        within = max_memory is None or bytes_of_moments(count * n_groups, n_features) <= max_memory
        if within and count * n_groups * n_features**2 <= MOST_NUMBERS:
            return count
    return None
