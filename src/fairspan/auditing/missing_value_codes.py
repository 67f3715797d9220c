"""Codes for missing values in columns of numbers, such as -99, 999, and zeros that are a spike.

A code repeats at the edge of a column's range, far from the other values.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairspan.typing import FloatArray, IndexArray

# Numbers of one repeated digit that surveys and statistical programs use as codes. A single digit
# counts as one only if it is negative, as ratings go up to 7 or 9.
_MAX_CODE_LENGTH = 6
_POSITIVE_CODES = tuple(
    float(digit * length) for digit in "789" for length in range(2, _MAX_CODE_LENGTH + 1)
)
_CODES = np.sort(
    np.array([*(-code for code in _POSITIVE_CODES), -7.0, -8.0, -9.0, *_POSITIVE_CODES])
)
# Fewer occurrences of a value may be a coincidence.
_MIN_REPEATS = 3
# With fewer other values, their range is unknown.
_MIN_OTHERS = 2
# Distances from the other values, in units of their range, that are far: for a value that repeats
# where others do not, for any value, and for zero.
_FAR_IF_OTHERS_DIFFER = 0.25
_FAR = 1.0
_FAR_ZERO = 0.15
# With fewer positive values, a column holds counts or ratings, among which zero is ordinary.
_MIN_POSITIVE_VALUES = 20


@dataclass(frozen=True)
class ColumnCodes:
    """Values of a column that most likely stand for missing ones.

    Attributes
    ----------
    column : int
        Position of the column.
    codes : tuple of float
        In ascending order.
    counts : tuple of int
        Rows of each.
    low, high : float
        Range of the other values.
    """

    column: int
    codes: tuple[float, ...]
    counts: tuple[int, ...]
    low: float
    high: float


def codes_in(values: FloatArray) -> Iterator[ColumnCodes]:
    """Yield the values of each column that most likely stand for missing ones, such as -99.

    Parameters
    ----------
    values : (n, p) array
        Finite numbers.

    Examples
    --------
    >>> values = np.r_[np.linspace(1, 5, 20), -99, -99, -99][:, None]
    >>> [column_codes.codes for column_codes in codes_in(values)]
    [(-99.0,)]
    """
    for column in _columns_to_examine(values).tolist():
        column_codes = _codes_in_column(column, values[:, column])
        if column_codes is not None:
            yield column_codes


def _columns_to_examine(values: FloatArray) -> IndexArray:
    """Return the indices of columns whose least or largest value may be a code for missing values.

    A quick test of all columns at once; :func:`_codes_in_column` decides.
    """
    if not len(values):
        return np.empty(0, dtype=np.intp)
    low = values.min(axis=0)
    high = values.max(axis=0)
    least_positive = np.where(values > 0, values, np.inf).min(axis=0)
    # The positive values of an indicator are all the same, and its zeros are no codes.
    varies = least_positive < high
    zero_is_far = least_positive >= _FAR_ZERO * (high - least_positive)
    zero_may_be_code = (low == 0) & varies & zero_is_far
    return np.flatnonzero(np.isin(low, _CODES) | np.isin(high, _CODES) | zero_may_be_code)


def _codes_in_column(column: int, values: FloatArray) -> ColumnCodes | None:
    """Return the codes for missing values of one column, such as -99; None if it has none.

    A code is a value of `_CODES` (-9, -99, 999 and the like) that repeats outside the range of the
    other values and either far from it or alone in being negative, or a spike at zero apart from
    the positive values.
    """
    distinct, counts = np.unique(values, return_counts=True)
    may_be_code = (counts >= _MIN_REPEATS) & np.isin(distinct, _CODES)
    # Distinct values in ascending order; they include zero, which is decided last.
    others = distinct[~may_be_code]
    if len(others) < _MIN_OTHERS:
        return None
    low = others[0]
    high = others[-1]
    n_others = counts[~may_be_code].sum()
    # If the other values hardly repeat, one that repeats is suspicious at a smaller distance.
    far = _FAR_IF_OTHERS_DIFFER if 2 * len(others) >= n_others else _FAR
    # Not positive within the range of the other values, where nothing is a code.
    distance = np.maximum(low - distinct, distinct - high)
    is_far = distance >= far * (high - low)
    is_only_negative = (distinct < 0) & (low >= 0)
    is_code = may_be_code & (distance > 0) & (is_far | is_only_negative)
    # If zero is a code, the other values are the positive ones.
    positive = others[others > 0]
    if low == 0 and _zero_is_code(positive, int(counts[distinct == 0][0])):
        is_code |= distinct == 0
        low = positive[0]
    if not is_code.any():
        return None
    return ColumnCodes(
        column,
        tuple(distinct[is_code].tolist()),
        tuple(counts[is_code].tolist()),
        float(low),
        float(high),
    )


def _zero_is_code(positive: FloatArray, n_zeros: int) -> bool:
    """Whether zeros are a spike apart from many different positive values."""
    if len(positive) < _MIN_POSITIVE_VALUES or n_zeros < _MIN_REPEATS:
        return False
    return bool(positive[0] >= _FAR_ZERO * (positive[-1] - positive[0]))
