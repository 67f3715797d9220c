"""Rank and typical size of rows, which decide whether zero errors are exact or lost in rounding.

Moments square the rows, so they cannot tell rows that lie in few dimensions from rows whose
variation is lost beside a single row of 1e8 times their size. The rows themselves can: their rank
does not change when each row and each column is divided by its own size, which leaves no row and no
column beside which others are negligible.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import scipy

from fairspan.errors import InvalidInput
from fairspan.linalg.rounding import EPS, RANK_TERMS
from fairspan.moments.base_moments import BaseMoments, RowSpread
from fairspan.moments.group_moments import GroupMoments
from fairspan.rows.aggregation import Aggregator, Rows, aggregate
from fairspan.rows.protocol import RowSource, row_metadata
from fairspan.typing import FloatArray

# Largest number of entries (256 MB) of a triangular factor; of more, the rank remains unknown.
_MAX_FACTOR_ENTRIES = 2**25
# Standardized features with a variance below this along some direction may be collinear.
_MAX_SINGULAR_VARIANCE = 1e-9

MomentsType = TypeVar("MomentsType", bound=BaseMoments)


@dataclass(frozen=True, eq=False)
class RowSummary:
    """Mergeable summary of rows of positive weight.

    Attributes
    ----------
    uncentered, centered : (m, p + 1) arrays
        Triangular factors of the rows extended by a one, each row divided by its largest entry: for
        rows about zero, and about a point near their mean. Each keeps digits that the other loses:
        the first those of ordinary rows beside huge ones, which move the mean; the second those of
        rows far from zero.
    n_rows : (2,) array
        Number of rows that are not zero, in raw and in standardized features.
    inverse_lengths : (2,) array
        Sum of the inverse lengths of these rows, about zero or about the point, whichever is
        shorter.
    """

    uncentered: FloatArray
    centered: FloatArray
    n_rows: FloatArray
    inverse_lengths: FloatArray


@dataclass(frozen=True, eq=False)
class RowSummaryAggregator(Aggregator[RowSummary]):
    """Summary of all rows of positive weight, in one pass.

    Attributes
    ----------
    point : (p,) array
        Point near the mean of the rows.
    scale : (p,) array
        Standard deviations of the features, with one in place of zero.
    """

    point: FloatArray
    scale: FloatArray

    def aggregate(self, rows: RowSource) -> RowSummary | None:
        """Return the summary of some rows; None if there are none."""
        summary = None
        for block in rows.blocks():
            values = block.values
            if block.weights is not None:
                values = values[block.weights > 0]
            if not len(values):
                continue
            new = self._summarize(values)
            summary = new if summary is None else self.merge(summary, new)
        return summary

    def _summarize(self, values: FloatArray) -> RowSummary:
        """Return the summary of (r, p) rows, to be merged with those of other blocks.

        Lengths are the shorter of those about zero and about the point, since huge rows move the
        mean, and an offset moves all rows away from zero. Inverse lengths are summed for their
        harmonic mean, to which huge rows contribute nothing.
        """
        centered = values - self.point
        # First entry: raw features; second: standardized ones.
        n_rows = np.zeros(2)
        inverse_lengths = np.zeros(2)
        for i, scale in enumerate((np.ones_like(self.scale), self.scale)):
            lengths_about_zero = np.linalg.norm(values / scale, axis=1)
            lengths_about_point = np.linalg.norm(centered / scale, axis=1)
            lengths = np.minimum(lengths_about_zero, lengths_about_point)
            positive = lengths[lengths > 0]
            n_rows[i] = len(positive)
            inverse_lengths[i] = (1 / positive).sum()
        return RowSummary(_factor_rows(values), _factor_rows(centered), n_rows, inverse_lengths)

    def merge(self, left: RowSummary, right: RowSummary) -> RowSummary:
        """Merge the summaries of two parts."""
        return RowSummary(
            _triangular_factor(np.vstack([left.uncentered, right.uncentered])),
            _triangular_factor(np.vstack([left.centered, right.centered])),
            left.n_rows + right.n_rows,
            left.inverse_lengths + right.inverse_lengths,
        )


def with_row_spread(moments: MomentsType, rows: Rows) -> MomentsType:
    """Return the moments with the spread of their rows, if it can be found.

    Parameters
    ----------
    moments : BaseMoments
    rows : RowSource or PartitionedRows
        The rows of these moments.
    """
    # Attributes of a restriction are columns of the rows, but no features.
    if moments.row_spread is not None or rows.n_features != moments.n_features:
        return moments
    try:
        spread = row_spread(rows, moments)
    except InvalidInput:
        # The rows were valid when their moments were computed: these are a stream that cannot be
        # read again, and their spread remains unknown.
        return moments
    return replace(moments, row_spread=spread)


def with_row_spread_if_singular(moments: GroupMoments, rows: Rows) -> GroupMoments:
    """Return the moments with the spread of their rows if these may lie in fewer dimensions.

    For callers that fit many dimensions: with as many as the rows span, errors are zero, and the
    spread of the rows tells such zeros from errors that are lost in rounding.

    Parameters
    ----------
    moments : GroupMoments
    rows : RowSource or PartitionedRows
        The rows of these moments.
    """
    return with_row_spread(moments, rows) if _may_be_singular(moments) else moments


def _may_be_singular(moments: GroupMoments) -> bool:
    """Return whether the features that vary may be collinear, up to rounding.

    If so, their correlation matrix has an eigenvalue of about zero: Cholesky then fails after a
    small multiple of the identity is subtracted.
    """
    deviations = moments.standard_deviations
    varies = deviations > 0
    pooled = moments.second_moments_about(moments.mean).mixture(moments.proportions)
    correlations = pooled[np.ix_(varies, varies)] / np.outer(deviations[varies], deviations[varies])
    correlations -= _MAX_SINGULAR_VARIANCE * np.eye(len(correlations))
    try:
        np.linalg.cholesky(correlations)
    except np.linalg.LinAlgError:
        return True
    return False


def row_spread(rows: Rows, moments: BaseMoments) -> RowSpread | None:
    """Return the rank and the typical size of the rows, in one more pass over them.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        Rows that can be read again.
    moments : BaseMoments
        Their moments.

    Returns
    -------
    RowSpread or None
        The rank is that about the mean. The size is the squared length of a typical row as a share
        of the mean of all. None for rows with missing cells, for no rows, and for so many features
        that the factors of the rows would be too large.

    Examples
    --------
    >>> from fairspan import GroupMoments
    >>> from fairspan.rows.opening import open_group_rows
    >>> rows = np.outer([1.0, 1e9, -2.0, 5.0], [3.0, 0.0, -1.0])
    >>> groups = ["a", "a", "b", "b"]
    >>> spread = row_spread(open_group_rows(rows, groups), GroupMoments.from_rows(rows, groups))
    >>> spread.rank, f"{spread.typical_share:.0e}"
    (1, '3e-17')
    """
    if row_metadata(rows).keeps_missing:
        return None
    n_features = rows.n_features
    # A triangular factor of n rows in p features has min(n, p) rows.
    n_factor_rows = n_features if rows.n_rows is None else min(rows.n_rows, n_features)
    if n_factor_rows * n_features > _MAX_FACTOR_ENTRIES:
        return None
    deviations = moments.standard_deviations
    # The size of a row is measured in standardized features too; constant ones are not divided.
    scale = np.where(deviations > 0, deviations, 1.0)
    summary = aggregate(rows, RowSummaryAggregator(point=moments.mean, scale=scale))
    if summary is None:
        return None
    # Rounding may hide a dimension from the factor of the rows about zero or about their mean, so
    # the larger rank counts. Rows are extended by a one, which adds one to their rank about the
    # mean and makes that about any other point the same.
    rank = max(_numerical_rank(summary.uncentered), _numerical_rank(summary.centered)) - 1
    return RowSpread(rank, _typical_share(summary, deviations))


def _typical_share(summary: RowSummary, deviations: FloatArray) -> float:
    """Return the squared length of a typical row, as a share of the mean squared length of all.

    The typical length is the harmonic mean of all lengths, to which a few huge rows contribute
    nothing. The smaller share of raw and standardized features; 1 if no row or no feature varies.

    Parameters
    ----------
    summary : RowSummary
        Number of rows and sum of their inverse lengths, in raw and in standardized features.
    deviations : (p,) array
        Standard deviations of the features.
    """
    # Mean squared length of the rows about their mean: the total variance, which is the number of
    # varying features if these are standardized.
    mean_squares = np.array([deviations @ deviations, (deviations > 0).sum()])
    if not mean_squares.all() or not summary.n_rows.all():
        return 1.0
    typical_lengths = summary.n_rows / summary.inverse_lengths
    return min(float((typical_lengths**2 / mean_squares).min()), 1.0)


def _factor_rows(values: FloatArray) -> FloatArray:
    """Return the triangular factor of rows extended by a one, each divided by its largest entry."""
    extended = np.column_stack([np.ones(len(values)), values])
    extended /= np.abs(extended).max(axis=1, keepdims=True)
    return _triangular_factor(extended)


def _triangular_factor(rows: FloatArray) -> FloatArray:
    """Return the triangular factor R of the QR decomposition, with min(n, p) rows."""
    return np.asarray(scipy.linalg.qr(rows, mode="r", check_finite=False)[0][: rows.shape[1]])


def _numerical_rank(factor: FloatArray) -> int:
    """Return the numerical rank of a triangular factor, each column divided by its length."""
    lengths = np.linalg.norm(factor, axis=0)
    scaled = factor[:, lengths > 0] / lengths[lengths > 0]
    singular_values = np.linalg.svd(scaled, compute_uv=False)
    tol = EPS * RANK_TERMS * factor.shape[1]
    return int((singular_values > tol * singular_values[0]).sum())
