"""Numerical rank of rows, which decides whether zero errors are exact or lost in rounding.

Moments square the rows, so they cannot tell rows that lie in few dimensions from rows whose
variation is lost beside a single row of 1e8 times their size. The rows themselves can: their rank
does not change when each row and each column is divided by its own size, which leaves no row and no
column beside which others are negligible.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import scipy

from fairspan.errors import InvalidInput
from fairspan.moments.base import BaseMoments
from fairspan.rows.aggregation import Aggregator, Rows, aggregate
from fairspan.rows.protocol import BaseRows, RowSource
from fairspan.typing import FloatArray

# Singular values below this many rounding errors for each column, relative to the largest, are
# zero. Triangular factors of rows of rank 2 to 50, merged from up to 1,000 blocks, stayed below 3.
_RANK_ROUNDING_UNITS = 32
# Largest number of entries (256 MB) of a triangular factor; of more, the rank remains unknown.
_MAX_FACTOR_ENTRIES = 2**25
_EPSILON = float(np.finfo(np.float64).eps)

MomentsType = TypeVar("MomentsType", bound=BaseMoments)


class RowFactors(NamedTuple):
    """Triangular factors of the rows extended by a one, each row divided by its largest entry.

    Attributes
    ----------
    uncentered, centered : (m, p + 1) arrays
        For rows about zero, and about a point near their mean. Each keeps digits that the other
        loses: the first those of ordinary rows beside huge ones, which move the mean; the second
        those of rows far from zero.
    """

    uncentered: FloatArray
    centered: FloatArray


@dataclass(frozen=True, eq=False)
class RowFactorAggregator(Aggregator[RowFactors]):
    """Triangular factors of all rows of positive weight, in one pass.

    Attributes
    ----------
    point : (p,) array
        Point near the mean of the rows.
    """

    point: FloatArray

    def aggregate(self, rows: RowSource) -> RowFactors | None:
        """Return the factors of some rows; None if there are none."""
        factors = None
        for block in rows.blocks():
            values = block.values
            if block.weights is not None:
                values = values[block.weights > 0]
            if not len(values):
                continue
            new = RowFactors(_factor_rows(values), _factor_rows(values - self.point))
            factors = new if factors is None else self.merge(factors, new)
        return factors

    def merge(self, left: RowFactors, right: RowFactors) -> RowFactors:
        """Merge the factors of two parts."""
        return RowFactors(
            _triangular_factor(np.vstack([left.uncentered, right.uncentered])),
            _triangular_factor(np.vstack([left.centered, right.centered])),
        )


def with_row_rank(moments: MomentsType, rows: Rows) -> MomentsType:
    """Return the moments with the rank of their rows, if it can be found.

    Parameters
    ----------
    moments : BaseMoments
    rows : RowSource or PartitionedRows
        The rows of these moments.
    """
    # Attributes of a restriction are columns of the rows, but no features.
    if moments.row_rank is not None or rows.n_features != moments.n_features:
        return moments
    try:
        rank = centered_rank(rows, moments)
    except InvalidInput:
        # The rows were valid when their moments were computed: these are a stream that cannot be
        # read again, and their rank remains unknown.
        return moments
    return replace(moments, row_rank=rank)


def centered_rank(rows: Rows, moments: BaseMoments) -> int | None:
    """Return the numerical rank of the rows about their mean, in one more pass over them.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        Rows that can be read again.
    moments : BaseMoments
        Their moments.

    Returns
    -------
    int or None
        None for rows with missing cells, and for too many features.

    Examples
    --------
    >>> from fairspan import GroupMoments
    >>> from fairspan.rows.opening import open_group_rows
    >>> rows = np.outer([1.0, 1e9, -2.0, 5.0], [3.0, 0.0, -1.0])
    >>> groups = ["a", "a", "b", "b"]
    >>> centered_rank(open_group_rows(rows, groups), GroupMoments.from_rows(rows, groups))
    1
    """
    if isinstance(rows, BaseRows) and rows.keeps_missing:
        return None
    n_features = rows.n_features
    n_factor_rows = n_features if rows.n_rows is None else min(rows.n_rows, n_features)
    if n_factor_rows * n_features > _MAX_FACTOR_ENTRIES:
        return None
    factors = aggregate(rows, RowFactorAggregator(moments.mean))
    if factors is None:
        return None
    # The column of ones adds one to the rank of the centered rows.
    return max(_numerical_rank(factor) for factor in factors) - 1


def _factor_rows(values: FloatArray) -> FloatArray:
    """Return the triangular factor of rows extended by a one, each divided by its largest entry."""
    extended = np.column_stack([np.ones(len(values)), values])
    extended /= np.abs(extended).max(axis=1, keepdims=True)
    return _triangular_factor(extended)


def _triangular_factor(rows: FloatArray) -> FloatArray:
    """Return the triangular factor R of the QR decomposition, with min(n, p) rows."""
    return np.asarray(scipy.linalg.qr(rows, mode="r", check_finite=False)[0][: rows.shape[1]])


def _numerical_rank(factor: FloatArray) -> int:
    """Return the numerical rank of a matrix whose columns are divided by their lengths."""
    lengths = np.linalg.norm(factor, axis=0)
    scaled = factor[:, lengths > 0] / lengths[lengths > 0]
    singular_values = np.linalg.svd(scaled, compute_uv=False)
    tol = _RANK_ROUNDING_UNITS * factor.shape[1] * _EPSILON
    return int((singular_values > tol * singular_values[0]).sum())
