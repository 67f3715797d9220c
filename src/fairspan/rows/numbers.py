"""Columns of data frames and Arrow tables as numpy arrays of numbers, with NaN where missing.

A column may hold a vector of fixed length in each row: each entry is a feature of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.rows.checks import converted, warn_of_rounding
from fairspan.rows.groups import listed
from fairspan.typing import AnyArray, FloatArray


def check_numeric(schema: Any) -> None:
    """Make sure that every column holds numbers or truth values.

    Raises
    ------
    InvalidInput
        Names the columns that do not.
    """
    # Object columns may hold numbers; converting them tells.
    bad = {
        name: dtype
        for name, dtype in schema.items()
        if not (_is_numeric(dtype) or dtype == nw.Object or _is_vector(dtype))
    }
    if bad:
        kinds = ", ".join(sorted({str(dtype) for dtype in bad.values()}))
        raise InvalidInput(
            f"These columns hold no numbers but {kinds}: {listed(list(bad))}",
            "Allowed: numbers and truth values",
            "Leave these columns out (--exclude on the command line) or encode them as numbers; "
            "name the group column as sensitive_features",
        )


def number_columns(frame: nw.DataFrame[Any]) -> list[AnyArray]:
    """Each column as numbers, (r,), or as vectors below each other, (r, length).

    Raises
    ------
    InvalidInput
        A column that holds no numbers.
    """
    check_numeric(frame.schema)
    columns = (
        [numbers_of(column) for column in frame.to_native().columns]  # without narwhals' Series
        if frame.implementation.is_pyarrow()
        else [_numbers_in(column) for column in frame.iter_columns()]
    )
    whole = [dtype.is_integer() for dtype in frame.schema.values()]
    warn_of_rounding(dict(compress(zip(frame.columns, columns, strict=True), whole)))
    return columns


def side_by_side(columns: Sequence[AnyArray], start: int, stop: int) -> FloatArray:
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


def float64_of(column: Any) -> FloatArray:
    """Numbers or truth values in a narwhals Series as float64, with NaN where missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> float64_of(nw.from_native(pa.chunked_array([[1, None]]), series_only=True))
    array([ 1., nan])
    """
    if column.implementation.is_pyarrow():
        return np.asarray(numbers_of(column.to_native()), dtype=np.float64)
    if not column.dtype.is_integer() or is_wide(column.dtype):
        return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
    missing = column.is_null()
    if not missing.any():
        return np.asarray(column.to_numpy(), dtype=np.float64)
    values = np.array(column.fill_null(0).to_numpy(), dtype=np.float64)
    values[missing.to_numpy()] = np.nan
    return values


def numbers_of(array: Any) -> AnyArray:
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
        entries = numbers_of(array.flatten()).reshape(-1, array.type.list_size)
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


def is_number(text: str) -> bool:
    """Whether a cell of a CSV file is a number.

    Examples
    --------
    >>> is_number(" 1.5e3"), is_number("1_000"), is_number("n.a.")
    (True, False, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def first_no_number(texts: Iterable[str | None], decimal: str = ".") -> tuple[int, str | None]:
    """The first text that is no number, and its row, counted from 1.

    Examples
    --------
    >>> first_no_number(["1", None, "n.a."])
    (3, 'n.a.')
    """
    row = 0
    for row, text in enumerate(texts, start=1):
        if text is not None and not is_number(text.replace(decimal, ".")):
            return row, text
    return row, None


def is_wide(dtype: Any) -> bool:
    """Whether it is whole numbers that numpy has no type for."""
    return bool(dtype in (nw.Int128, nw.UInt128))


def vector_lengths(schema: Any) -> dict[str, int]:
    """Length of the vectors of each column of a narwhals Schema that holds vectors."""
    return {name: dtype.shape[0] for name, dtype in schema.items() if _is_vector(dtype)}


def expanded(columns: Sequence[str], lengths: Mapping[str, int]) -> tuple[str, ...]:
    """Names of the features in these columns.

    Parameters
    ----------
    columns : sequence of str
    lengths : mapping of str to int
        Length of the vectors of each column that holds vectors.

    Examples
    --------
    >>> expanded(["age", "face"], {"face": 2})
    ('age', 'face[0]', 'face[1]')
    """
    return tuple(
        name
        for column in columns
        for name in (_entries(column, lengths[column]) if column in lengths else [column])
    )


def collapsed(
    names: Sequence[str], columns: Sequence[str], lengths: Mapping[str, int]
) -> tuple[str, ...]:
    """The columns whose features are these, in this order.

    Raises
    ------
    InvalidInput
        A feature that no column holds, or only some entries of a vector.

    Examples
    --------
    >>> collapsed(["face[0]", "face[1]", "age"], ["age", "face"], {"face": 2})
    ('face', 'age')
    """
    firsts = {_entries(column, 1)[0]: column for column in columns if column in lengths}
    chosen: list[str] = []
    position = 0
    while position < len(names):
        name = names[position]
        column = firsts.get(name, name)
        width = lengths.get(column, 1)
        whole = tuple(names[position : position + width]) == expanded([column], lengths)
        if column not in columns or not whole:
            missing = [each for each in names if each not in expanded(columns, lengths)]
            raise InvalidInput(
                f"The table has no column {listed(missing or [name])}",
                f"The model was fitted on {listed(names)}",
                "Add these columns, or fit again without them",
            )
        chosen.append(column)
        position += width
    return tuple(chosen)


def _entries(column: str, length: int) -> list[str]:
    return [f"{column}[{index}]" for index in range(length)]


def _is_numeric(dtype: Any) -> bool:
    return bool(dtype.is_numeric() or dtype == nw.Boolean)


def _is_vector(dtype: Any) -> bool:
    return dtype == nw.Array and len(dtype.shape) == 1 and _is_numeric(dtype.inner)


def _numbers_in(column: Any) -> AnyArray:
    if _is_vector(column.dtype):
        return np.asarray(column.to_numpy(), dtype=np.float64)
    if column.dtype != nw.Object:
        return float64_of(column)
    try:
        return converted(column.to_numpy())
    except (InvalidInput, InvalidType) as error:
        raise InvalidInput(
            f"The column {column.name!r} holds values that are no numbers ({error.args[0]})",
            "Allowed: numbers and truth values",
            "Leave this column out or encode it as numbers",
        ) from error
