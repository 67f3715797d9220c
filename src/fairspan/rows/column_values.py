"""Columns of data frames of any package as numbers of double precision."""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

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
    if not column.dtype.is_integer() or is_wide(column.dtype):
        return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
    # Arrow refuses to cast whole numbers beyond 2^53, which lose their last digits.
    missing = column.is_null()
    if not missing.any():
        return np.asarray(column.to_numpy(), dtype=np.float64)
    values = np.array(column.fill_null(0).to_numpy(), dtype=np.float64)
    values[missing.to_numpy()] = np.nan
    return values
