"""Whole numbers of which double precision keeps too few digits."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.formatting.text import describe_position
from fairspan.moments.base import BaseMoments
from fairspan.registry import LazyModule
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.frames import FrameRows

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
else:
    nw = LazyModule("narwhals.stable.v2")

# Whole numbers up to this one are exact in double precision.
_EXACT_UP_TO = 2.0**53
# The fewest roundings that differences of numbers may hold: six digits of them are then left.
_FEWEST_ROUNDINGS = 2.0**20


def check_whole_numbers(rows: Any, moments: BaseMoments) -> None:
    """Make sure that whole numbers differ by more than their rounding to double precision.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        Those in memory are checked; what others hold is known only after it was rounded.
    moments : BaseMoments
        Of these rows, and perhaps of others.

    Raises
    ------
    InvalidInput
        Names the first column of whole numbers that does not.
    """
    if not isinstance(rows, ArrayRows | FrameRows):
        return
    if isinstance(rows, ArrayRows) and rows.array.dtype.kind not in "iu":
        return
    largest = np.abs(moments.means).max(axis=0)
    rounding = np.spacing(np.maximum(largest, 1.0))
    is_rounded = (largest >= _EXACT_UP_TO / 2) & (
        moments.standard_deviations < _FEWEST_ROUNDINGS * rounding
    )
    for feature in np.flatnonzero(is_rounded).tolist():
        least, most = _range_of_whole_numbers(rows, feature)
        if least == most or max(abs(least), abs(most)) <= _EXACT_UP_TO:
            continue
        if most - least >= _FEWEST_ROUNDINGS * rounding[feature]:
            continue
        names = rows.feature_names
        name = (
            describe_position("column", feature) if names is None else f"column {names[feature]!r}"
        )
        raise InvalidInput(
            f"X has whole numbers from {least} to {most} in {name}, of whose differences double "
            "precision keeps fewer than six digits",
            "Allowed: whole numbers up to 2^53, and larger ones that differ by much more than "
            f"{rounding[feature]:.0f}",
            "Subtract one of the numbers from the column before you pass it, in whole numbers",
        )


def _range_of_whole_numbers(rows: ArrayRows | FrameRows, feature: int) -> tuple[int, int]:
    """Return the smallest and the largest of a column of whole numbers; zeros of other columns."""
    if isinstance(rows, ArrayRows):
        column: Any = rows.array[:, feature]
    else:
        frame, names = nw.from_native(rows.frame, eager_only=True), rows.feature_names
        # Indicators of categories are no columns of the frame.
        if names is None or names[feature] not in frame.columns:
            return 0, 0
        column = frame[names[feature]]
        if not column.dtype.is_integer():
            return 0, 0
    return int(column.min()), int(column.max())
