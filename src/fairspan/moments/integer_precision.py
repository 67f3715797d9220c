"""Check of integer columns whose differences double precision cannot represent."""

from typing import TYPE_CHECKING

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.linalg.rounding import MAX_EXACT_INTEGER
from fairspan.moments.base_moments import BaseMoments, describe_column
from fairspan.registry import LazyModule
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.frames import FrameRows

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
else:
    nw = LazyModule("narwhals.stable.v2")

# Smallest accepted ratio of differences to the rounding error: six digits are then left.
_MIN_RANGE_TO_ROUNDING = 2.0**20


def check_integer_precision(rows: object, moments: BaseMoments) -> None:
    """Check that integers differ by more than their rounding to double precision.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        Only rows in memory are checked; others are read as float64, already rounded.
    moments : BaseMoments
        Moments of these rows, and perhaps of others.

    Raises
    ------
    InvalidInput
        The differences are too small; the message names the first such column.
    """
    if not isinstance(rows, ArrayRows | FrameRows):
        return
    if isinstance(rows, ArrayRows) and rows.array.dtype.kind not in "iu":
        return
    # Moments select the columns that may be affected, and their exact ranges decide. The mean of
    # integers that differ this little is more than half of the largest of them.
    largest = np.abs(moments.means).max(axis=0)
    rounding = np.spacing(np.maximum(largest, 1.0))
    is_rounded = (largest >= MAX_EXACT_INTEGER / 2) & (
        moments.standard_deviations < _MIN_RANGE_TO_ROUNDING * rounding
    )
    for feature in np.flatnonzero(is_rounded).tolist():
        minimum, maximum = _integer_range(rows, feature)
        # A constant column has no differences to lose, and integers up to 2^53 are exact.
        if minimum == maximum or max(abs(minimum), abs(maximum)) <= MAX_EXACT_INTEGER:
            continue
        if maximum - minimum >= _MIN_RANGE_TO_ROUNDING * rounding[feature]:
            continue
        name = describe_column(feature, rows.feature_names)
        raise InvalidInput(
            f"X has integers from {minimum} to {maximum} in {name}, whose differences keep fewer "
            "than six digits in double precision",
            "Allowed: integers up to 2^53, and larger ones that differ by much more than "
            f"{rounding[feature]:.0f}",
            "Subtract one of the values from the column before you pass it, in integer arithmetic",
        )


def _integer_range(rows: ArrayRows | FrameRows, feature: int) -> tuple[int, int]:
    """Return the minimum and maximum of an integer column; zeros for other columns."""
    if isinstance(rows, ArrayRows):
        values = rows.array[:, feature]
        return int(values.min()), int(values.max())
    frame = nw.from_native(rows.frame, eager_only=True)
    names = rows.feature_names
    # Indicators of categories are not columns of the frame.
    if names is None or names[feature] not in frame.columns:
        return 0, 0
    column = frame[names[feature]]
    if not column.dtype.is_integer():
        return 0, 0
    return int(column.min()), int(column.max())
