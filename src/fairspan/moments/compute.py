"""Moments of rows in the representation that is cheapest for their shape."""

from fairspan.errors import InvalidType, describe_type
from fairspan.linalg.memory import explain_memory_errors
from fairspan.moments.group_moments import GroupMoments, compute_group_moments
from fairspan.moments.integer_precision import check_integer_precision
from fairspan.moments.row_moments import SparseMoments
from fairspan.moments.wide import WideMoments
from fairspan.rows.aggregation import Rows
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.frames import FrameRows
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.in_memory import InMemoryRows
from fairspan.rows.protocol import row_metadata
from fairspan.rows.sparse_rows import SparseRows

Moments = GroupMoments | SparseMoments | WideMoments
"""Any representation of the moments of groups."""

# Above this number of features, products with sparse rows are cheaper, in time and memory, than k
# dense matrices.
MAX_DENSE_FEATURES = 1500
# Above this number of features, and with at most this ratio of rows to features, row-space
# coordinates are cheaper than matrices. Measured at 200 and 300 features: a quarter to an eighth of
# the time with 30 rows, half of it at n = p / 2, .8 of it at n = .8 p; at 100 features it is .35 to
# 1, and with fewer there is no difference.
MIN_WIDE_FEATURES = 100
_MAX_WIDE_RATIO = 0.8
# Up to this squared number of rows per feature, row-space coordinates of sparse rows take less time
# and memory than products with them: a dozen n x n matrices, where the search subspace of 2,000 to
# 60,000 features has some 900 columns.
MAX_SQUARED_SPARSE_RATIO = 50
# Cells of a sparse table with row-space coordinates, zeros included: if its rows are nearly
# dependent, they are copied with their zeros (1 GB).
_MAX_COPIED_CELLS = 2**27


def not_moments_error(
    value: object, remedy: str = "Make one with GroupMoments.from_rows or GroupMoments.load"
) -> InvalidType:
    """Build the error for a value that is not moments."""
    return InvalidType(f"moments is {describe_type(value)}", "Allowed: a GroupMoments", remedy)


@explain_memory_errors()
def compute_moments(rows: Rows, limit: GroupLimit = DEFAULT_GROUP_LIMIT) -> Moments:
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

    Raises
    ------
    InvalidInput
        Same as for :func:`~fairspan.moments.group_moments.compute_group_moments`.
    """
    if row_metadata(rows).has_classes:  # only dense moments have classes
        return compute_group_moments(rows, limit)
    # The limit learns the group columns of these rows, for its messages. Dense moments do this and
    # the checks themselves, and sparse rows are float64 already.
    if isinstance(rows, SparseRows) and rows.n_features > MAX_DENSE_FEATURES:
        moments_class = WideMoments if is_wide(rows) else SparseMoments
        return moments_class.from_rows(rows, limit.for_rows(rows)).check_range()
    if isinstance(rows, ArrayRows | FrameRows) and is_wide(rows):
        wide = WideMoments.from_rows(rows, limit.for_rows(rows)).check_range()
        check_integer_precision(rows, wide)
        return wide
    return compute_group_moments(rows, limit)


def is_wide(rows: InMemoryRows) -> bool:
    """Return whether row-space coordinates are cheaper than matrices, and can be used."""
    if rows.n_features <= MIN_WIDE_FEATURES:
        return False
    if rows.n_rows > _MAX_WIDE_RATIO * rows.n_features:
        return False
    if isinstance(rows, SparseRows) and not _is_small(rows):
        return False
    return rows.on_missing in ("error", "drop") and rows.groups is not None


def _is_small(rows: SparseRows) -> bool:
    """Return whether row-space coordinates are cheaper than matrices or products of sparse rows."""
    if rows.n_features <= MAX_DENSE_FEATURES:
        return False
    if rows.n_rows**2 > MAX_SQUARED_SPARSE_RATIO * rows.n_features:
        return False
    return rows.n_rows * rows.n_features <= _MAX_COPIED_CELLS
