"""The numbers of an Arrow array as numpy sees them."""

from typing import Any

import numpy as np
import numpy.typing as npt


def numbers_of(array: Any) -> npt.NDArray[Any]:
    """Whole or real numbers without a copy; anything else as float64, with NaN where missing.

    Parameters
    ----------
    array : pyarrow.Array
        Of numbers or truth values.
    """
    import pyarrow as pa

    types = pa.types
    if array.null_count == 0 and (types.is_integer(array.type) or types.is_floating(array.type)):
        # Arrow's own conversion first imports pandas, where it is installed.
        dtype = array.type.to_pandas_dtype()
        if len(array) == 0:  # there may be no buffer either
            return np.empty(0, dtype=dtype)
        values = np.frombuffer(array.buffers()[1], dtype=dtype)
        return values[array.offset : array.offset + len(array)]
    # Unsafe, as whole numbers beyond 2^53 may lose their last digits.
    return np.asarray(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def vectors_of(array: Any) -> npt.NDArray[Any]:
    """Vectors of a fixed-size list array below each other, (r, length); NaN where missing."""
    length = array.type.list_size
    # Flattened, without the entries of missing vectors.
    entries = numbers_of(array.flatten()).reshape(-1, length)
    if not array.null_count:
        return entries
    matrix = np.full((len(array), length), np.nan)
    matrix[array.is_valid().to_numpy(zero_copy_only=False)] = entries
    return matrix
