"""Moments of rows in the representation that is cheapest for their shape."""

from dataclasses import replace

from fairspan.errors import InvalidType, describe_type
from fairspan.linalg.memory import explain_memory_errors
from fairspan.moments.fold_moments import compute_fold_moments
from fairspan.moments.group_moments import GroupMoments, compute_group_moments
from fairspan.moments.integer_precision import check_integer_precision
from fairspan.moments.wide import SparseMoments, WideMoments
from fairspan.rows.aggregation import Rows
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.blocks import RowBlock
from fairspan.rows.folds import Folds
from fairspan.rows.frames import FrameRows
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.mapped import MappedRows
from fairspan.rows.protocol import BaseRows
from fairspan.rows.sparse import SparseRows

Moments = GroupMoments | SparseMoments | WideMoments
"""Any representation of the moments of groups."""

# Above this number of features, products with sparse rows are cheaper, in time and memory, than k
# dense matrices.
MAX_DENSE_FEATURES = 1500
# Above this number of features, and with at most this ratio of rows to features, row-space
# coordinates are cheaper than matrices (measured: half the time at n = p / 2, a twentieth at
# n = p / 10).
MIN_WIDE_FEATURES = 500
_MAX_WIDE_RATIO = 0.8


def not_moments_error(
    value: object, remedy: str = "Make one with GroupMoments.from_rows or GroupMoments.load"
) -> InvalidType:
    """Build the error for a value that is not moments."""
    return InvalidType(f"moments is {describe_type(value)}", "Allowed: a GroupMoments", remedy)


@explain_memory_errors()
def compute_moments(
    rows: Rows, limit: GroupLimit = DEFAULT_GROUP_LIMIT, *, has_y: bool = False
) -> Moments:
    """Compute the moments of each group.

    With many features the result keeps the rows themselves instead of p x p matrices, if they are
    sparse, or in memory and clearly fewer than the features, and have no classes of y. The
    magnitudes of the features are checked in every case, and integers that lose digits in float64
    if the rows are an array or a data frame in memory.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
    limit : GroupLimit
        Maximum number of groups, and memory.
    has_y : bool
        Whether the last attribute of each label is the class in y.

    Raises
    ------
    InvalidInput
        Same as for :func:`~fairspan.moments.group_moments.compute_group_moments`.
    """
    if has_y:  # only dense moments have classes
        return compute_group_moments(rows, limit, has_y=True)
    # The limit learns the group columns of these rows, for its messages. Dense moments do this and
    # the checks themselves, and sparse rows are float64 already.
    if isinstance(rows, SparseRows) and rows.n_features > MAX_DENSE_FEATURES:
        return SparseMoments.from_rows(rows, limit.for_rows(rows)).check_range()
    if isinstance(rows, ArrayRows | FrameRows) and _is_wide(rows):
        wide = WideMoments.from_rows(rows, limit.for_rows(rows)).check_range()
        check_integer_precision(rows, wide)
        return wide
    return compute_group_moments(rows, limit)


def _is_wide(rows: ArrayRows | FrameRows) -> bool:
    """Return whether row-space coordinates are cheaper than matrices, and can be used."""
    if rows.n_features <= MIN_WIDE_FEATURES:
        return False
    if rows.n_rows > _MAX_WIDE_RATIO * rows.n_features:
        return False
    return rows.on_missing == "error" and rows.group_labels is not None


def compute_dense_moments(
    rows: Rows, limit: GroupLimit = DEFAULT_GROUP_LIMIT, *, has_y: bool, by_cluster: bool
) -> GroupMoments:
    """Compute moments with p x p matrices, of rows whose labels may end with a class and a cluster.

    The result has moments by group, and with `has_y` also by class; clusters are ignored.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
    limit : GroupLimit
        Maximum number of groups, and memory.
    has_y, by_cluster : bool
        Whether each label ends with a class, and with a cluster (last).

    Raises
    ------
    InvalidInput
        Same as for :func:`~fairspan.moments.group_moments.compute_group_moments`.
    """
    if not by_cluster:
        return compute_group_moments(rows, limit, has_y=has_y)
    # EM reads all rows of a group together, so the cluster is removed from the labels first.
    if isinstance(rows, BaseRows) and rows.keeps_missing:
        # The transform changes labels only: missing cells stay, and EM fits the moments.
        grouped = MappedRows.wrap(rows, _drop_cluster, fills_missing=False)
        return compute_group_moments(grouped, limit, has_y=has_y)
    # Folds remove the cluster from the labels; how many there are does not matter to their total.
    return compute_fold_moments(rows, Folds(2, by_cluster=True), limit, has_y=has_y).total


def _drop_cluster(block: RowBlock) -> RowBlock:
    """Return the block with labels without their last attribute."""
    labels = block.group_labels
    return replace(block, group_labels=None if labels is None else labels.without_last_attribute())
