"""Validation of cells, columns and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from fairspan.errors import Cause, InvalidInput, InvalidType, closest_match, warn
from fairspan.formatting.messages import counted, describe_position, shown_reason
from fairspan.linalg.rounding import MAX_EXACT_INTEGER
from fairspan.registry import LazyModule
from fairspan.rows.labels import format_list
from fairspan.typing import AnyArray, ColumnName, FloatArray, TableLike

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    from narwhals import Series
    from narwhals.dtypes import DType
    from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries
else:
    nw = LazyModule("narwhals.stable.v2")

_NON_NUMERIC_TYPES = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64)

ALLOWED_NUMBERS = "Allowed: numbers and booleans"
_ENCODE_HINT = "Exclude or encode these columns, for example with scikit-learn's OneHotEncoder"


def to_finite_float64(
    values: AnyArray,
    first_row: int,
    feature_names: tuple[str, ...] | None,
) -> FloatArray:
    """Convert a block to float64 and check that it is finite.

    Parameters
    ----------
    values : (r, p) array
    first_row : int
        Position of its first row in the table, for error messages.
    feature_names : tuple of str or None

    Returns
    -------
    (r, p) array of float64
        `values` itself if no conversion was needed.

    Raises
    ------
    InvalidInput
        NaN or infinity (the message gives row and column), or text in an object array.
    InvalidType
        Other non-numeric objects.
    """
    values = to_numeric(values)
    # Overflow becomes infinity and is detected below; the sum of large finite numbers may overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        block = values.astype(np.float64, copy=False)
        total = block.sum()
    # A single sum detects NaN and infinity more cheaply than testing every entry.
    if np.isfinite(total) or np.isfinite(block).all():
        return block
    raise _not_finite_error(block, first_row, feature_names)


def _not_finite_error(
    block: FloatArray, first_row: int, feature_names: tuple[str, ...] | None
) -> InvalidInput:
    """Build the error for the first NaN or infinity of a block."""
    row, column = np.argwhere(~np.isfinite(block))[0].tolist()
    location = describe_position("row", first_row + row)
    if feature_names:
        location += f", column {feature_names[column]!r}"
    else:
        location += f", {describe_position('column', column)}"
    if np.isnan(block[row, column]):
        return InvalidInput(
            f"X contains NaN, first in {location}",
            "Allowed: finite numbers",
            "Drop rows with NaN, together with the labels and weights that belong to them",
            cause=Cause.MISSING_CELL,
        )
    return InvalidInput(
        f"X contains infinity, first in {location}",
        "Allowed: finite numbers",
        "Replace infinity by a finite number, or drop these rows or the column",
    )


def to_float64_with_missing(
    values: AnyArray, first_row: int, feature_names: tuple[str, ...] | None
) -> FloatArray:
    """Convert a block to float64, allowing missing cells as NaN.

    Parameters
    ----------
    values, first_row, feature_names
        Same as for :func:`to_finite_float64`.

    Returns
    -------
    (r, p) array of float64
        `values` itself if no conversion was needed.

    Raises
    ------
    InvalidInput, InvalidType
        Same as for :func:`to_finite_float64`, for cells that are not missing; or a row is entirely
        missing.
    """
    block = np.asarray(to_numeric(values), dtype=np.float64)
    missing = np.isnan(block)
    if not missing.any():
        return to_finite_float64(block, first_row, feature_names)
    # Only to raise for infinity in the other cells.
    to_finite_float64(np.where(missing, 0.0, block), first_row, feature_names)
    empty = missing.all(axis=1)
    if empty.any():
        first_empty = first_row + int(np.argmax(empty))
        raise InvalidInput(
            f"Every feature is missing in {describe_position('row', first_empty)}",
            "Allowed: rows with at least one observed feature",
            "Drop such rows, together with the labels and weights that belong to them",
            cause=Cause.EMPTY_ROW,
        )
    return block


def check_dtype(dtype: np.dtype[np.generic]) -> None:
    """Check that a dtype can hold real numbers; object arrays are checked on conversion.

    Raises
    ------
    InvalidInput
        Complex numbers or text.
    InvalidType
        Dates or durations.
    """
    if dtype.kind == "c":
        raise InvalidInput(
            "X contains complex numbers: Complex data not supported",
            "Allowed: real numbers",
            "Pass real and imaginary parts as separate features",
        )
    if dtype.kind in "mM":
        raise InvalidType(f"X contains dates or durations ({dtype})", ALLOWED_NUMBERS, _ENCODE_HINT)
    if dtype.kind in "SU":  # digits stored as text are rejected too, as in data frames
        raise InvalidInput(f"X contains text ({dtype})", ALLOWED_NUMBERS, _ENCODE_HINT)


def to_numeric(values: AnyArray) -> AnyArray:
    """Convert object arrays to float64; numeric and boolean arrays are returned unchanged.

    Arrays whose dtype is text, dates or complex numbers are refused by :func:`check_dtype`, which
    callers use first.

    Raises
    ------
    InvalidInput
        Text, complex numbers, or numpy dates among the objects, or a number too large for float64.
    InvalidType
        An object without a numeric value, such as a `datetime.date`, for which numpy raises
        TypeError.
    """
    if values.dtype.kind in "fiub":
        return values
    # numpy would silently convert digits in text, dates, and the real part of complex numbers.
    types = set(map(type, values.ravel().tolist()))
    for type_ in types:
        if issubclass(type_, _NON_NUMERIC_TYPES):
            raise InvalidInput(
                f"X contains non-numeric values of type {type_.__name__}",
                ALLOWED_NUMBERS,
                _ENCODE_HINT,
            )
    if any(type_.__name__ == "NAType" for type_ in types):
        # Replace pandas.NA by NaN; numpy cannot convert it.
        entries = [np.nan if type(cell).__name__ == "NAType" else cell for cell in values.ravel()]
        values = np.array(entries, dtype=object).reshape(values.shape)
    try:
        return values.astype(np.float64)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"X contains non-numeric values ({shown_reason(error)})", ALLOWED_NUMBERS, _ENCODE_HINT
        ) from error
    except TypeError as error:
        raise InvalidType(
            f"X contains non-numeric values ({shown_reason(error)})", ALLOWED_NUMBERS, _ENCODE_HINT
        ) from error


def warn_if_rounded(columns: Mapping[str, AnyArray]) -> None:
    """Warn about integers that float64 rounds, which are usually identifiers.

    Parameters
    ----------
    columns : mapping of str to array
        Integer columns by name, before or after rounding.
    """
    rounded = [name for name, values in columns.items() if _is_rounded(values)]
    if rounded:
        warn(
            f"Integers beyond 2^53 in {format_list(rounded)} are rounded to double precision, so "
            "distinct values may become equal. Exclude identifier columns."
        )


def _is_rounded(values: AnyArray) -> bool:
    if values.dtype.itemsize != 8:  # shorter integers are exact
        return False
    # fmax and fmin ignore NaN.
    if np.fmax.reduce(values, None, initial=0) > MAX_EXACT_INTEGER:
        return True
    return bool(np.fmin.reduce(values, None, initial=0) < -MAX_EXACT_INTEGER)


def check_shape(shape: tuple[int, ...], X: TableLike = None) -> None:
    """Check that a table is two-dimensional and not empty.

    Parameters
    ----------
    shape : tuple of int
    X : object, optional
        The object that was passed; the remedy depends on its type.

    Raises
    ------
    InvalidInput
    """
    if len(shape) != 2:
        raise InvalidInput(
            f"X has {counted(len(shape), 'dimension')}, shape {shape}",
            "Allowed: a table of shape (n rows, p features)",
            _table_remedy(len(shape), X),
        )
    for size, noun in zip(shape, ("row(s)", "feature(s)"), strict=True):
        if size <= 0:
            raise InvalidInput(
                # scikit-learn's wording, which its estimator checks look for
                f"X is empty: {size} {noun} (shape={shape}) while a minimum of 1 is required",
                "Allowed: at least one row and one feature",
                "Check the file or the filter that produced this table",
            )


def _table_remedy(n_dimensions: int, X: TableLike) -> str:
    """Return how to convert an object that is not a table into one."""
    if n_dimensions == 0:
        return "Pass the rows themselves"
    if n_dimensions > 2:
        return "Reshape your data, for example with X.reshape(len(X), -1)"
    if hasattr(X, "iloc"):
        return (
            "Pass a data frame: one row of it is df.iloc[[0]] rather than df.iloc[0], and one "
            'column df[["name"]] rather than df["name"]'
        )
    if hasattr(X, "to_frame"):
        return "Pass a data frame, such as X.to_frame() for a single feature"
    if isinstance(X, list | tuple):
        return "Pass a list of rows: [X] for a single row, [[x] for x in X] for a single feature"
    if X is not None and not hasattr(X, "reshape"):
        return "Pass a table, or an array of two dimensions"
    return (
        "Reshape your data: X.reshape(1, -1) for a single row, X.reshape(-1, 1) for a single "
        "feature"
    )


def check_feature_names(names: Sequence[ColumnName]) -> None:
    """Check that either all feature names are text, or none.

    Raises
    ------
    InvalidType
        Only some names are text.
    """
    non_text = [name for name in names if not isinstance(name, str)]
    if 0 < len(non_text) < len(names):
        raise InvalidType(
            f"Some feature names are text and others are not: {format_list(non_text)}",
            "Allowed: all names text, or none",
            "Rename the columns, for example with X.columns = X.columns.astype(str)",
        )


def check_columns(
    required: Sequence[ColumnName],
    available: Sequence[ColumnName],
    fitted: Sequence[ColumnName] = (),
) -> None:
    """Check that a table has the required columns.

    Parameters
    ----------
    required, available : sequences of names
    fitted : sequence of names
        Features that a model was fitted on, for the message.

    Raises
    ------
    InvalidInput
    """
    missing = [name for name in required if name not in available]
    if not missing:
        return
    several = len(missing) > 1
    close = closest_match(str(missing[0]), map(str, available))
    if close:
        names = "names" if several else "name"
        of_first = f" to {missing[0]!r}" if several else ""
        remedy = f"Correct the {names}; the closest match{of_first} is {close!r}"
    elif fitted:
        columns = "them" if several else "it"
        remedy = f"Add {columns} to the table: the model needs every feature it was fitted on"
    else:
        remedy = f"Correct the name{'s' * several}"
    allowed = f"Its columns are {format_list(available)}"
    if fitted:
        allowed += f"; the model was fitted on {format_list(fitted)}"
    raise InvalidInput(
        f"The table has no column{'s' * several} {format_list(missing)}", allowed, remedy
    )


def check_consistent_length(
    n_rows: int, n_values: int, name: str, noun: str = "value", rows_name: str = "X"
) -> None:
    """Check that there is one value per row.

    Parameters
    ----------
    n_rows, n_values : int
    name : str
        Name of the values in the message, such as "sensitive_features".
    noun : str
        Noun for one of the values, such as "label".
    rows_name : str
        Name of the rows in the message.

    Raises
    ------
    InvalidInput
    """
    if n_rows == n_values:
        return
    rows = counted(n_rows, "row") if n_rows else "no rows"
    values = counted(n_values, noun)
    raise InvalidInput(
        f"Inconsistent lengths: {rows} in {rows_name}, {values} in {name}",
        "Allowed: one value per row",
        f"Pass {rows_name} and the values of the same rows",
    )


def check_n_columns(received: int, allowed: int, noun: str) -> None:
    """Check that rows have as many columns as the projection expects.

    `noun` is the plural noun for the columns in the message, such as "features".

    Raises
    ------
    InvalidInput
    """
    if received != allowed:
        raise InvalidInput(
            f"X has {received} {noun}, but the model expects {allowed}",
            f"Allowed: rows of {allowed} {noun}",
            "Pass the columns that it was fitted on",
        )


def check_numeric(frame: nw.DataFrame[IntoDataFrame]) -> None:
    """Check that every column contains numbers, booleans or vectors of numbers.

    A column of vectors provides several features.

    Raises
    ------
    InvalidInput
        Some columns do not; the message names them.
    """
    # Object columns may contain numbers; conversion decides.
    non_numeric = [
        name
        for name, dtype in frame.schema.items()
        if not (_is_numeric(dtype) or dtype == nw.Object or is_vector(dtype))
    ]
    if non_numeric:
        types = sorted({native_dtype(frame[name]) for name in non_numeric})
        raise InvalidInput(
            describe_non_numeric(non_numeric, types),
            ALLOWED_NUMBERS,
            "Exclude such columns, or encode them as numbers",
            cause=Cause.TEXT_COLUMN,
        )


def describe_non_numeric(columns: Sequence[str], types: Sequence[str]) -> str:
    """Describe columns that are not numeric, with the names of their types.

    Examples
    --------
    >>> describe_non_numeric(["a"], ["string"])
    "Column 'a' is not numeric (string)"
    >>> describe_non_numeric(["a", "b"], ["date", "string"])
    "Columns 'a', 'b' are not numeric (date, string)"
    """
    names = format_list(columns)
    subject = f"Column {names} is" if len(columns) == 1 else f"Columns {names} are"
    return f"{subject} not numeric ({', '.join(types)})"


def native_dtype(column: Series[IntoSeries]) -> str:
    """Return the type of a narwhals Series, as its own package names it.

    Examples
    --------
    >>> import pandas as pd
    >>> native_dtype(nw.from_native(pd.Series([1, None], dtype="Int64"), series_only=True))
    'Int64'
    """
    native: Any = column.to_native()
    return str(native.type if column.implementation.is_pyarrow() else native.dtype)


def _is_numeric(dtype: DType) -> bool:
    return bool(dtype.is_numeric() or dtype == nw.Boolean)


def is_vector(dtype: DType) -> TypeGuard[nw.Array]:
    """Return whether a narwhals type is that of vectors of numbers."""
    if not isinstance(dtype, nw.Array) or len(dtype.shape) != 1:
        return False
    entry_type = dtype.inner() if isinstance(dtype.inner, type) else dtype.inner
    return _is_numeric(entry_type)
