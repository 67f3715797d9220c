"""The checks that all sources share: numbers, shapes, and what is missing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType, nearest, warn
from fairspan.formatting.numbers import position
from fairspan.rows.groups import LEAVING_OUT, CodedLabels, listed
from fairspan.rows.protocol import OnMissing, RowBlock
from fairspan.typing import AnyArray, FloatArray

_NO_NUMBERS = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64)

_ALLOWED = "Allowed: numbers and truth values"
# Whole numbers up to here are float64 without rounding.
_LARGEST_WHOLE = 2**53
_ENCODE = "Leave out or encode these columns, for example with sklearn's OneHotEncoder"


def check_on_missing(on_missing: object) -> None:
    """Make sure that it is one of the two.

    Raises
    ------
    InvalidParameter
    """
    if str(on_missing) not in ("error", "drop"):
        raise InvalidParameter(
            f"on_missing is {on_missing!r}",
            "Allowed: 'error' and 'drop'",
            "Use 'drop' to leave out rows in which a feature or the group is missing",
        )


def row_block(
    first_row: int,
    values: AnyArray,
    labels: CodedLabels | None,
    weights: FloatArray | None,
    feature_names: tuple[str, ...] | None,
    on_missing: OnMissing,
    beside: Any = None,
) -> RowBlock:
    """Make a block of checked rows, or of those in which nothing is missing.

    Infinity is not missing: it is an error in any case. `beside` is a Table of as many rows.

    Raises
    ------
    InvalidInput, InvalidType
        As :func:`checked_values`.
    """
    if on_missing == "error":
        values = checked_values(values, first_row, feature_names)
        return RowBlock(first_row, values, labels, weights, beside=beside)
    values = converted(values)
    missing = np.asarray(np.isnan(values).any(axis=1))
    if labels is not None:
        missing |= labels.missing
    n_dropped = int(missing.sum())
    if n_dropped:
        kept = ~missing
        # Checked before rows are left out, so that an error names the row in the table.
        checked_values(np.where(missing[:, None], 0, values), first_row, feature_names)
        values = values[kept]
        labels = None if labels is None else labels[kept]
        weights = None if weights is None else weights[kept]
        beside = None if beside is None else beside.take(np.flatnonzero(kept))
    values = checked_values(values, first_row, feature_names)
    return RowBlock(first_row, values, labels, weights, n_dropped, beside)


def checked_values(
    values: AnyArray,
    first_row: int,
    feature_names: tuple[str, ...] | None,
) -> FloatArray:
    """Convert a block to float64 and make sure that it is finite.

    Parameters
    ----------
    values : (r, p) array
    first_row : int
        Number of its first row in the table, for error messages.
    feature_names : tuple of str or None

    Returns
    -------
    (r, p) array of float64
        `values` themselves where nothing had to be converted.

    Raises
    ------
    InvalidInput
        NaN or infinity, named with row and column, or text among objects.
    InvalidType
        Other objects that are no numbers.
    """
    values = converted(values)
    # Numbers beyond float64 become infinity, and the sum of large ones may; both are found below.
    with np.errstate(over="ignore", invalid="ignore"):
        block = values.astype(np.float64, copy=False)
        total = block.sum()
    # One sum over a block is cheaper than testing each number, and misses nothing.
    if not np.isfinite(total) and not np.isfinite(block).all():
        row, column = np.argwhere(~np.isfinite(block))[0].tolist()
        name = f"column {feature_names[column]!r}" if feature_names else position("column", column)
        is_nan = bool(np.isnan(block[row, column]))
        raise InvalidInput(
            f"X contains {'NaN' if is_nan else 'infinity'}, first in "
            f"{position('row', first_row + row)}, {name}",
            "Allowed: finite numbers",
            "Fill in these cells first, for example with sklearn.impute.SimpleImputer, or leave "
            f"rows with NaN out ({LEAVING_OUT})"
            if is_nan
            else "Replace infinity by a number, or leave out these rows or the column",
        )
    return block


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Make sure that an array may hold numbers; objects are converted to check this.

    Raises
    ------
    InvalidInput
        Complex numbers or text.
    InvalidType
        Dates or durations.
    """
    if dtype.kind == "c":
        raise InvalidInput(
            "X holds complex numbers: Complex data not supported",
            "Allowed: real numbers",
            "Pass real and imaginary parts as separate features",
        )
    if dtype.kind in "mM":
        raise InvalidType(f"X holds dates or durations ({dtype})", _ALLOWED, _ENCODE)
    if dtype.kind in "SU":  # digits as text are refused too, as they are in data frames
        raise InvalidInput(f"X holds text ({dtype})", _ALLOWED, _ENCODE)


def converted(values: AnyArray) -> AnyArray:
    """Objects as float64; numbers stay as they are.

    Raises
    ------
    InvalidInput, InvalidType
        Objects that are no numbers.
    """
    if values.dtype.kind in "fiub":
        return values
    # numpy would read digits in text, dates and the real part of complex numbers as numbers.
    kinds = set(map(type, values.ravel().tolist()))
    for kind in kinds:
        if issubclass(kind, _NO_NUMBERS):
            raise InvalidInput(
                f"X holds no numbers but values of type {kind.__name__}", _ALLOWED, _ENCODE
            )
    if any(kind.__name__ == "NAType" for kind in kinds):
        # pandas' NA as NaN: numpy cannot convert it.
        entries = [np.nan if type(each).__name__ == "NAType" else each for each in values.ravel()]
        values = np.array(entries, dtype=object).reshape(values.shape)
    try:
        return values.astype(np.float64)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"X holds no numbers ({error})", _ALLOWED, _ENCODE) from error
    except TypeError as error:
        raise InvalidType(f"X holds no numbers ({error})", _ALLOWED, _ENCODE) from error


def warn_of_rounding(columns: Mapping[str, AnyArray]) -> None:
    """Warn of whole numbers that double precision rounds; they are identifiers more often than not.

    Parameters
    ----------
    columns : mapping of str to array
        Columns of whole numbers by their names, also after they were rounded.
    """
    large = [
        name
        for name, values in columns.items()
        if values.dtype.itemsize == 8
        # Which pass over what is missing.
        and (
            np.fmax.reduce(values, None, initial=0) > _LARGEST_WHOLE
            or np.fmin.reduce(values, None, initial=0) < -_LARGEST_WHOLE
        )
    ]
    if large:
        warn(
            f"Whole numbers beyond 2^53 are rounded to double precision in {listed(large)}, so "
            "some that differ become the same. Leave out columns that are identifiers."
        )


def check_shape(shape: tuple[int, ...]) -> None:
    """Make sure that a table has two dimensions, rows and features.

    Raises
    ------
    InvalidInput
    """
    if len(shape) != 2:
        raise InvalidInput(
            f"X has {len(shape)} dimension(s), shape {shape}",
            "Allowed: a table of shape (n rows, p features)",
            "Reshape your data, for example with X.reshape(-1, 1) for a single feature",
        )
    for size, what in zip(shape, ("row(s)", "feature(s)"), strict=True):
        if size <= 0:
            raise InvalidInput(
                # scikit-learn's wording, which its estimator checks look for
                f"X is empty: {size} {what} (shape={shape}) while a minimum of 1 is required",
                "Allowed: at least one row and one feature",
                "Check the file or the filter that made this table",
            )


def check_columns(names: Sequence[Any], columns: Sequence[Any]) -> None:
    """Make sure that a table has columns of these names.

    Raises
    ------
    InvalidInput
    """
    missing = [name for name in names if name not in columns]
    if missing:
        close = nearest(str(missing[0]), map(str, columns))
        raise InvalidInput(
            f"The table has no column {listed(missing)}",
            f"Its columns are {listed(columns)}",
            "Correct the name" + (f"; the closest is {close!r}" if close else ""),
        )


def check_same_length(n_rows: int, n_values: int, what: str) -> None:
    """Make sure that there are as many values beside the rows as rows.

    Raises
    ------
    InvalidInput
    """
    if n_rows != n_values:
        raise InvalidInput(
            f"The lengths differ: {n_rows or 'no'} rows in X, {n_values} {what}",
            "Allowed: one value for each row",
            "Take X and the values from the same rows",
        )


def check_width(received: int, allowed: int, what: str) -> None:
    """Make sure that rows are as wide as a projection needs them.

    Raises
    ------
    InvalidInput
    """
    if received != allowed:
        raise InvalidInput(
            f"X has {received} {what}, but FairSubspace is expecting {allowed} {what} as input",
            f"Allowed: rows of {allowed} {what}",
            "Pass the columns that it was fitted on",
        )
