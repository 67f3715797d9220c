"""Columns of data frames and Arrow arrays as numpy arrays of numbers, with NaN where missing."""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from fairspan.typing import FloatArray


def is_wide(dtype: Any) -> bool:
    """Whether it is whole numbers that numpy has no type for."""
    return bool(dtype in (nw.Int128, nw.UInt128))


def float64_of(column: Any) -> FloatArray:
    """Numbers or truth values in a narwhals Series as float64, with NaN where missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> float64_of(nw.from_native(pa.chunked_array([[1, None]]), series_only=True))
    array([ 1., nan])
    """
    native = column.to_native()
    if hasattr(native, "combine_chunks"):
        return np.asarray(numbers_of(native.combine_chunks()), dtype=np.float64)
    if not column.dtype.is_integer() or is_wide(column.dtype):
        return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
    missing = column.is_null()
    if not missing.any():
        return np.asarray(column.to_numpy(), dtype=np.float64)
    values = np.array(column.fill_null(0).to_numpy(), dtype=np.float64)
    values[missing.to_numpy()] = np.nan
    return values


def vectors_of(column: Any) -> FloatArray:
    """Vectors in a narwhals Series below each other, (r, length); a missing vector becomes NaN."""
    native = column.to_native()
    if not hasattr(native, "combine_chunks"):
        return np.asarray(column.to_numpy(), dtype=np.float64)
    array = native.combine_chunks()
    # Flattened, without the entries of missing vectors.
    entries = numbers_of(array.flatten()).reshape(-1, array.type.list_size)
    if not array.null_count:
        return np.asarray(entries, dtype=np.float64)
    matrix = np.full((len(array), array.type.list_size), np.nan)
    matrix[array.is_valid().to_numpy(zero_copy_only=False)] = entries
    return matrix


def numbers_of(array: Any) -> npt.NDArray[Any]:
    """Whole or real numbers without a copy; anything else as float64, with NaN where missing.

    Parameters
    ----------
    array : pyarrow.Array
        Of numbers or truth values.
    """
    from pyarrow import float64, types

    if array.null_count == 0 and (types.is_integer(array.type) or types.is_floating(array.type)):
        # Arrow's own conversion first imports pandas, where it is installed.
        dtype = array.type.to_pandas_dtype()
        if len(array) == 0:  # there may be no buffer either
            return np.empty(0, dtype=dtype)
        values = np.frombuffer(array.buffers()[1], dtype=dtype)
        return values[array.offset : array.offset + len(array)]
    # Unsafe, as whole numbers beyond 2^53 may lose their last digits.
    return np.asarray(array.cast(float64(), safe=False).to_numpy(zero_copy_only=False))
