"""Conversion of columns of data frames and Arrow tables to numeric arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.registry import LazyModule
from fairspan.rows.row_validation import (
    ALLOWED_NUMBERS,
    check_numeric,
    is_vector,
    native_dtype,
    to_numeric,
    warn_if_rounded,
)
from fairspan.typing import AnyArray, EagerFrame, FloatArray

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    import pyarrow as pa
    from narwhals import Series
    from narwhals.dtypes import DType
    from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries
else:
    nw = LazyModule("narwhals.stable.v2")


def numeric_columns(frame: EagerFrame) -> list[AnyArray]:
    """Convert the columns of a data frame or pyarrow Table to arrays of shape (r,) or (r, length).

    The second shape is that of columns of vectors.

    Raises
    ------
    InvalidInput
        A non-numeric column.
    """
    # A pyarrow Table, itself or wrapped by narwhals, has `column_names`.
    table = frame if hasattr(frame, "column_names") else frame.to_native()
    if hasattr(table, "column_names"):
        return _arrow_columns(table)
    return _narwhals_columns(frame)


def _arrow_columns(table: pa.Table) -> list[AnyArray]:
    from pyarrow import types

    fast_types = (types.is_integer, types.is_float32, types.is_float64, types.is_boolean)
    # These need no check by narwhals, whose import takes time.
    if not all(any(is_type(kind) for is_type in fast_types) for kind in table.schema.types):
        check_numeric(nw.from_native(table, eager_only=True))
    columns = [arrow_to_numpy(column) for column in table.columns]
    is_integer = map(types.is_integer, table.schema.types)
    warn_if_rounded(dict(compress(zip(table.column_names, columns, strict=True), is_integer)))
    return columns


def _narwhals_columns(frame: nw.DataFrame[IntoDataFrame]) -> list[AnyArray]:
    check_numeric(frame)
    columns = [_numeric_column(column) for column in frame.iter_columns()]
    is_integer = (dtype.is_integer() for dtype in frame.schema.values())
    warn_if_rounded(dict(compress(zip(frame.columns, columns, strict=True), is_integer)))
    return columns


def stack_columns(columns: Sequence[AnyArray], start: int, stop: int) -> FloatArray:
    """Stack a row range of columns into an (r, p) Fortran-ordered array."""
    if len(columns) == 1 and columns[0].ndim == 2:  # all features in one column: no copy
        return columns[0][start:stop]
    widths = [column.shape[1] if column.ndim == 2 else 1 for column in columns]
    matrix = np.empty((stop - start, sum(widths)), order="F")
    position = 0
    for column, width in zip(columns, widths, strict=True):
        matrix[:, position : position + width] = column[start:stop].reshape(-1, width)
        position += width
    return matrix


def series_to_float64(column: Series[IntoSeries]) -> FloatArray:
    """Convert a numeric or boolean narwhals Series to float64, with NaN for missing values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> series_to_float64(nw.from_native(pa.chunked_array([[1, None]]), series_only=True))
    array([ 1., nan])
    """
    # Arrow-backed series go through Arrow: pandas refuses to round integers beyond 2^53.
    native: Any = column.to_native()
    is_arrow = column.implementation.is_pyarrow() or str(native.dtype).endswith("[pyarrow]")
    values = arrow_to_numpy(column.to_arrow()) if is_arrow else column.cast(nw.Float64).to_numpy()
    return np.asarray(values, dtype=np.float64)


def arrow_to_numpy(array: pa.Array) -> AnyArray:
    """Convert an Arrow array to numpy, without a copy if possible.

    Integers and floats without nulls keep their type. Anything else becomes float64, with NaN for
    nulls.

    Parameters
    ----------
    array : pyarrow.Array or ChunkedArray
        Numeric or boolean values, or fixed-size lists of them (stacked as rows); a null list
        becomes a row of NaN.
    """
    from pyarrow import float64, types

    if hasattr(array, "chunks"):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if hasattr(array.type, "list_size"):
        # flatten() omits the entries of null lists.
        entries = arrow_to_numpy(array.flatten()).reshape(-1, array.type.list_size)
        if not array.null_count:
            return entries
        matrix = np.full((len(array), array.type.list_size), np.nan)
        matrix[array.is_valid().to_numpy(zero_copy_only=False)] = entries
        return matrix
    if array.null_count == 0 and (types.is_integer(array.type) or types.is_floating(array.type)):
        # Arrow's own conversion imports pandas if it is installed, which takes time.
        dtype = array.type.to_pandas_dtype()
        if len(array) == 0:  # an empty array may have no buffer
            return np.empty(0, dtype=dtype)
        return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]
    # safe=False: integers beyond 2^53 may be rounded.
    return np.asarray(array.cast(float64(), safe=False).to_numpy(zero_copy_only=False))


def narwhals_vector_lengths(schema: Mapping[str, DType]) -> dict[str, int]:
    """Return the length of the vectors in each vector column of a narwhals schema."""
    return {name: dtype.shape[0] for name, dtype in schema.items() if is_vector(dtype)}


def arrow_vector_lengths(schema: pa.Schema) -> dict[str, int]:
    """Return the length of the vectors in each vector column of a pyarrow schema."""
    sizes = {field.name: getattr(field.type, "list_size", None) for field in schema}
    return {name: size for name, size in sizes.items() if size is not None}


def _numeric_column(column: Series[IntoSeries]) -> AnyArray:
    """Convert a narwhals Series to an array of shape (r,), or (r, length) for a column of vectors.

    The types of other columns were checked before: only columns of Python objects may still contain
    something else than numbers, and then raise InvalidInput.
    """
    if is_vector(column.dtype):
        return np.asarray(column.to_numpy(), dtype=np.float64)
    if column.dtype != nw.Object:
        return series_to_float64(column)
    try:
        return to_numeric(column.to_numpy())
    except (InvalidInput, InvalidType) as error:
        raise InvalidInput(
            f"Column {column.name!r}, of dtype {native_dtype(column)}, contains non-numeric values "
            f"({error.args[0]})",
            ALLOWED_NUMBERS,
            "Exclude this column or encode it as numbers",
        ) from error
