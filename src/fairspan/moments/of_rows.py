"""What a fit or an audit needs of rows: matrices, or the rows where these would get large."""

from typing import TypeGuard

from fairspan.errors import InvalidType, kind_of, running_out_told
from fairspan.moments.accumulate import statistics_of
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.held_rows.sparse_moments import SparseMoments
from fairspan.moments.held_rows.thin_moments import ThinMoments, thin_moments
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.frames import FrameRows
from fairspan.rows.group_limit import USUAL_LIMIT, GroupLimit
from fairspan.rows.protocol import Rows
from fairspan.rows.sparse import SparseRows

Moments = GroupMoments | SparseMoments | ThinMoments
"""What a projection is fitted to and judged by."""


def is_moments(value: object) -> bool:
    """Whether it is moments of any kind."""
    return isinstance(value, Moments)


def holds_matrices(value: object) -> TypeGuard[GroupMoments]:
    """Whether it is moments that do not refer to rows, and so can be merged and saved."""
    return isinstance(value, GroupMoments)


def not_moments(value: object) -> InvalidType:
    """What to raise where moments were requested."""
    return InvalidType(
        f"moments is {kind_of(value)}",
        "Allowed: a GroupMoments",
        "Make one with GroupMoments.from_rows or GroupMoments.load",
    )


# Beyond this many features k matrices cost more, in time and memory, than products with the rows
# where these are sparse.
MATRICES_UP_TO = 1500
# Beyond this many features matrices cost more than a few hundredths of a second, and coordinates of
# rows less than matrices, if the rows are no more than this share of the features: measured, half
# as much for half as many rows as features, a twentieth for a tenth.
THIN_BEYOND = 500
_THIN_SHARE = 0.8


def accumulate(
    rows: Rows,
    limit: GroupLimit = USUAL_LIMIT,
    onto: GroupMoments | None = None,
    *,
    has_labels: bool = False,
) -> GroupMoments:
    """Matrices of each group, from one pass over the rows.

    Parameters
    ----------
    rows : RowSource or PartedRows
    limit : GroupLimit
        How many groups there may be.
    onto : GroupMoments, optional
        Of rows that came before. These are then added, and the limit is one of all rows.
    has_labels : bool
        Whether the last column of the labels is the class that a row has in y.

    Raises
    ------
    InvalidInput
        As :func:`fairspan.moments.accumulate.statistics_of`.
    """
    before = None if onto is None else onto.statistics
    return GroupMoments.of(statistics_of(rows, limit, before, has_labels=has_labels)).in_range()


@running_out_told()
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
        labels = rows.labels.between(0, rows.n_rows)
        thin = thin_moments(values, labels, rows.weights, rows.feature_names, limit.over(rows))
        return thin.in_range()
    return accumulate(rows, limit)


def _is_thin(rows: ArrayRows | FrameRows) -> bool:
    """Whether all rows are to be taken, have groups, and are clearly fewer than their features."""
    few = rows.n_rows <= _THIN_SHARE * rows.n_features and rows.n_features > THIN_BEYOND
    return few and rows.on_missing == "error" and rows.labels is not None
