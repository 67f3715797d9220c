"""What cells, columns and tables may hold, and columns of frames as numpy arrays of numbers.

Missing cells become NaN. A column may hold a vector of fixed length in each row: each entry is a
feature of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import Cause, InvalidInput, InvalidType, closest_match, warn
from fairspan.formatting.text import (
    counted,
    describe_position,
    format_count,
    shown_reason,
    to_ascii,
)
from fairspan.registry import LazyModule
from fairspan.rows.groups import format_list
from fairspan.typing import AnyArray, FloatArray

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
else:
    nw = LazyModule("narwhals.stable.v2")

_NON_NUMERIC_TYPES = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64)

_ALLOWED = "Allowed: numbers and truth values"
# Whole numbers up to here are float64 without rounding.
_MAX_EXACT_INTEGER = 2**53
_ENCODE_HINT = "Leave out or encode these columns, for example with sklearn's OneHotEncoder"


def to_finite_float64(
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
    values = to_numeric(values)
    # Numbers beyond float64 become infinity, and the sum of large ones may; both are found below.
    with np.errstate(over="ignore", invalid="ignore"):
        block = values.astype(np.float64, copy=False)
        total = block.sum()
    # One sum over a block is cheaper than testing each number, and misses nothing.
    if not np.isfinite(total) and not np.isfinite(block).all():
        row, column = np.argwhere(~np.isfinite(block))[0].tolist()
        name = (
            f"column {feature_names[column]!r}"
            if feature_names
            else describe_position("column", column)
        )
        is_nan = bool(np.isnan(block[row, column]))
        raise InvalidInput(
            f"X contains {'NaN' if is_nan else 'infinity'}, first in "
            f"{describe_position('row', first_row + row)}, {name}",
            "Allowed: finite numbers",
            "Leave out rows with NaN, together with all that belongs to them"
            if is_nan
            else "Replace infinity by a number, or leave out these rows or the column",
            cause=Cause.MISSING_CELL if is_nan else None,
        )
    return block


def to_float64_with_missing(
    values: AnyArray, first_row: int, feature_names: tuple[str, ...] | None
) -> FloatArray:
    """Convert a block to float64 in which cells may be missing, as NaN.

    Parameters
    ----------
    values, first_row, feature_names : as of :func:`to_finite_float64`

    Raises
    ------
    InvalidInput, InvalidType
        As :func:`to_finite_float64` where a cell is no number and not missing; a row in which every
        cell is missing.
    """
    block = np.asarray(to_numeric(values), dtype=np.float64)
    missing = np.isnan(block)
    if not missing.any():
        return to_finite_float64(block, first_row, feature_names)
    to_finite_float64(np.where(missing, 0.0, block), first_row, feature_names)
    empty = missing.all(axis=1)
    if empty.any():
        raise InvalidInput(
            f"Every feature is missing in {describe_position('row', first_row + int(np.argmax(empty)))}",
            "Allowed: rows of at least one observed feature, by which the others are expected",
            "Leave such rows out, together with all that belongs to them",
            cause=Cause.EMPTY_ROW,
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
        raise InvalidType(f"X holds dates or durations ({dtype})", _ALLOWED, _ENCODE_HINT)
    if dtype.kind in "SU":  # digits as text are refused too, as they are in data frames
        raise InvalidInput(f"X holds text ({dtype})", _ALLOWED, _ENCODE_HINT)


def to_numeric(values: AnyArray) -> AnyArray:
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
        if issubclass(kind, _NON_NUMERIC_TYPES):
            raise InvalidInput(
                f"X holds values of type {kind.__name__}, which are no numbers",
                _ALLOWED,
                _ENCODE_HINT,
            )
    if any(kind.__name__ == "NAType" for kind in kinds):
        # pandas' NA as NaN: numpy cannot convert it.
        entries = [np.nan if type(each).__name__ == "NAType" else each for each in values.ravel()]
        values = np.array(entries, dtype=object).reshape(values.shape)
    try:
        return values.astype(np.float64)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"X holds no numbers ({shown_reason(error)})", _ALLOWED, _ENCODE_HINT
        ) from error
    except TypeError as error:
        raise InvalidType(
            f"X holds no numbers ({shown_reason(error)})", _ALLOWED, _ENCODE_HINT
        ) from error


def warn_if_rounded(columns: Mapping[str, AnyArray]) -> None:
    """Warn of whole numbers that double precision rounds; they are identifiers more often than not.

    Parameters
    ----------
    columns : mapping of str to array
        Columns of whole numbers by their names, also after they were rounded.
    """
    rounded = [
        name
        for name, values in columns.items()
        if values.dtype.itemsize == 8
        # Which pass over what is missing.
        and (
            np.fmax.reduce(values, None, initial=0) > _MAX_EXACT_INTEGER
            or np.fmin.reduce(values, None, initial=0) < -_MAX_EXACT_INTEGER
        )
    ]
    if rounded:
        warn(
            f"Whole numbers beyond 2^53 are rounded to double precision in {format_list(rounded)}, so "
            "some that differ become the same. Leave out columns that are identifiers."
        )


def check_shape(shape: tuple[int, ...], X: Any = None) -> None:
    """Make sure that a table has two dimensions, rows and features.

    Parameters
    ----------
    shape : tuple of int
    X : object, optional
        What was passed, by whose kind the remedy is phrased.

    Raises
    ------
    InvalidInput
    """
    if len(shape) != 2:
        raise InvalidInput(
            f"X has {to_ascii(format_count(len(shape), 'dimension'))}, shape {shape}",
            "Allowed: a table of shape (n rows, p features)",
            _table_remedy(len(shape), X),
        )
    for size, what in zip(shape, ("row(s)", "feature(s)"), strict=True):
        if size <= 0:
            raise InvalidInput(
                # scikit-learn's wording, which its estimator checks look for
                f"X is empty: {size} {what} (shape={shape}) while a minimum of 1 is required",
                "Allowed: at least one row and one feature",
                "Check the file or the filter that made this table",
            )


def _table_remedy(n_dimensions: int, X: Any) -> str:
    """Return how to make a table of something that is none."""
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


def check_feature_names(names: Sequence[Any]) -> None:
    """Make sure that either all columns have names of text, or none has.

    Raises
    ------
    InvalidType
        Only some are text; others are numbers, say, or None or NaN.
    """
    non_text = [name for name in names if not isinstance(name, str)]
    if 0 < len(non_text) < len(names):
        raise InvalidType(
            f"Some features have names of text, and others have not: {format_list(non_text)}",
            "Allowed: columns all named by text, or all by something else such as numbers",
            "Name every column, for example with X.columns = X.columns.astype(str)",
        )


def check_columns(names: Sequence[Any], columns: Sequence[Any], fitted: Sequence[Any] = ()) -> None:
    """Make sure that a table has columns of these names, among those that a model was fitted on.

    Raises
    ------
    InvalidInput
    """
    missing = [name for name in names if name not in columns]
    if missing:
        close = closest_match(str(missing[0]), map(str, columns))
        several = len(missing) > 1
        remedy = f"Correct the name{'s' * several}"
        if close:
            of_first = f" to {missing[0]!r}" if several else ""
            remedy = f"{remedy}; the closest{of_first} is {close!r}"
        elif fitted:
            added = "them" if several else "it"
            remedy = f"Add {added} to the table: the model needs every feature of its fit"
        raise InvalidInput(
            f"The table has no column{'s' * several} {format_list(missing)}",
            f"Its columns are {format_list(columns)}"
            + (f"; the model was fitted on {format_list(fitted)}" if fitted else ""),
            remedy,
        )


def check_consistent_length(n_rows: int, n_values: int, what: str, rows: str = "X") -> None:
    """Make sure that there are as many values beside the rows as rows.

    Raises
    ------
    InvalidInput
    """
    if n_rows != n_values:
        noun, _, where = what.partition(" ")
        values = f"{counted(n_values, noun.removesuffix('s'))} {where}"
        raise InvalidInput(
            f"The lengths differ: {counted(n_rows, 'row') if n_rows else 'no rows'} in {rows}, "
            f"{values}",
            "Allowed: one value for each row",
            f"Take {rows} and the values from the same rows",
        )


def check_n_columns(received: int, allowed: int, what: str) -> None:
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


def check_numeric(frame: nw.DataFrame[Any]) -> None:
    """Make sure that every column holds numbers or truth values.

    Raises
    ------
    InvalidInput
        Names the columns that do not.
    """
    # Object columns may hold numbers; converting them tells.
    non_numeric = [
        name
        for name, dtype in frame.schema.items()
        if not (_is_numeric(dtype) or dtype == nw.Object or _is_vector(dtype))
    ]
    if non_numeric:
        kinds = ", ".join(sorted({native_dtype(frame[name]) for name in non_numeric}))
        columns = (
            f"The column {non_numeric[0]!r} holds"
            if len(non_numeric) == 1
            else "These columns hold"
        )
        names = "" if len(non_numeric) == 1 else f": {format_list(non_numeric)}"
        raise InvalidInput(
            f"{columns} no numbers, only values of type {kinds}{names}",
            "Allowed: numbers and truth values",
            "Leave such columns out, or encode them as numbers",
            cause=Cause.TEXT_COLUMN,
        )


def native_dtype(column: Any) -> str:
    """Return the type of a narwhals Series as its own package calls it.

    Examples
    --------
    >>> import pandas as pd
    >>> native_dtype(nw.from_native(pd.Series([1, None], dtype="Int64"), series_only=True))
    'Int64'
    """
    native = column.to_native()
    return str(native.type if column.implementation.is_pyarrow() else native.dtype)


def numeric_columns(frame: Any) -> list[AnyArray]:
    """Each column of a data frame or pyarrow Table as numbers, (r,), or vectors, (r, length).

    Raises
    ------
    InvalidInput
        A column that holds no numbers.
    """
    table = frame if hasattr(frame, "column_names") else frame.to_native()
    if hasattr(table, "column_names"):  # plain numbers are read without narwhals
        from pyarrow import types

        plain = types.is_integer, types.is_float32, types.is_float64, types.is_boolean
        if not all(any(is_it(kind) for is_it in plain) for kind in table.schema.types):
            check_numeric(nw.from_native(table, eager_only=True))
        columns = [arrow_to_numpy(column) for column in table.columns]
        whole, names = list(map(types.is_integer, table.schema.types)), table.column_names
    else:
        check_numeric(frame)
        columns = [_numeric_column(column) for column in frame.iter_columns()]
        whole, names = [kind.is_integer() for kind in frame.schema.values()], frame.columns
    warn_if_rounded(dict(compress(zip(names, columns, strict=True), whole)))
    return columns


def stack_columns(columns: Sequence[AnyArray], start: int, stop: int) -> FloatArray:
    """Some rows of columns as an (r, p) array, with columns side by side in memory."""
    if len(columns) == 1 and columns[0].ndim == 2:  # all features in one column: no copy
        return columns[0][start:stop]
    widths = [column.shape[1] if column.ndim == 2 else 1 for column in columns]
    matrix = np.empty((stop - start, sum(widths)), order="F")
    place = 0
    for column, width in zip(columns, widths, strict=True):
        matrix[:, place : place + width] = column[start:stop].reshape(-1, width)
        place += width
    return matrix


def series_to_float64(column: Any) -> FloatArray:
    """Numbers or truth values in a narwhals Series as float64, with NaN where missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> series_to_float64(nw.from_native(pa.chunked_array([[1, None]]), series_only=True))
    array([ 1., nan])
    """
    # By way of Arrow where the numbers are Arrow's: pandas would not round those beyond 2^53.
    native = column.to_native()
    in_arrow = column.implementation.is_pyarrow() or str(native.dtype).endswith("[pyarrow]")
    values = arrow_to_numpy(column.to_arrow()) if in_arrow else column.cast(nw.Float64).to_numpy()
    return np.asarray(values, dtype=np.float64)


def arrow_to_numpy(array: Any) -> AnyArray:
    """Whole or real numbers without a copy; anything else as float64, with NaN where missing.

    Parameters
    ----------
    array : pyarrow.Array or ChunkedArray
        Of numbers or truth values, or of vectors of them, which are put below each other; a
        missing vector becomes NaN.
    """
    from pyarrow import float64, types

    if hasattr(array, "chunks"):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if hasattr(array.type, "list_size"):
        # Flattened, without the entries of missing vectors.
        entries = arrow_to_numpy(array.flatten()).reshape(-1, array.type.list_size)
        if not array.null_count:
            return entries
        matrix = np.full((len(array), array.type.list_size), np.nan)
        matrix[array.is_valid().to_numpy(zero_copy_only=False)] = entries
        return matrix
    if array.null_count == 0 and (types.is_integer(array.type) or types.is_floating(array.type)):
        # Arrow's own conversion first imports pandas, where it is installed.
        dtype = array.type.to_pandas_dtype()
        if len(array) == 0:  # there may be no buffer either
            return np.empty(0, dtype=dtype)
        return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]
    # Unsafe, as whole numbers beyond 2^53 may lose their last digits.
    return np.asarray(array.cast(float64(), safe=False).to_numpy(zero_copy_only=False))


def narwhals_vector_lengths(schema: Any) -> dict[str, int]:
    """Length of the vectors of each column of a narwhals Schema that holds vectors."""
    return {name: dtype.shape[0] for name, dtype in schema.items() if _is_vector(dtype)}


def arrow_vector_lengths(schema: Any) -> dict[str, int]:
    """Length of the vectors of each column of a pyarrow Schema that holds vectors."""
    sizes = {field.name: getattr(field.type, "list_size", None) for field in schema}
    return {name: size for name, size in sizes.items() if size is not None}


def _is_numeric(dtype: Any) -> bool:
    return bool(dtype.is_numeric() or dtype == nw.Boolean)


def _is_vector(dtype: Any) -> bool:
    return dtype == nw.Array and len(dtype.shape) == 1 and _is_numeric(dtype.inner)


def _numeric_column(column: Any) -> AnyArray:
    if _is_vector(column.dtype):
        return np.asarray(column.to_numpy(), dtype=np.float64)
    if column.dtype != nw.Object:
        return series_to_float64(column)
    try:
        return to_numeric(column.to_numpy())
    except (InvalidInput, InvalidType) as error:
        raise InvalidInput(
            f"The column {column.name!r}, of dtype {native_dtype(column)}, holds values that are "
            f"no numbers ({error.args[0]})",
            "Allowed: numbers and truth values",
            "Leave this column out or encode it as numbers",
        ) from error
