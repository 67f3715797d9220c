"""Validation of sample weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.formatting.messages import counted, shown_reason
from fairspan.registry import LazyModule
from fairspan.rows.array_backend import to_host
from fairspan.rows.conversion import series_to_float64
from fairspan.rows.row_validation import native_dtype
from fairspan.typing import AnyArray, FloatArray, WeightsLike

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    from narwhals.stable.v2.typing import IntoDataFrame
else:
    nw = LazyModule("narwhals.stable.v2")


def check_sample_weight(
    sample_weight: WeightsLike, n_rows: int, *, may_be_zero: bool = False
) -> FloatArray | None:
    """Validate sample weights; returns an (n,) float64 array, or None.

    Parameters
    ----------
    sample_weight : array-like or None
    n_rows : int
    may_be_zero : bool
        Whether all weights may be zero, as in one partition of a table.

    Raises
    ------
    InvalidInput
        A weight is negative or not finite, all are zero, or lengths are inconsistent.
    """
    if sample_weight is None:
        return None
    if isinstance(sample_weight, str):
        raise InvalidInput(
            f"sample_weight is the column name {sample_weight!r}, but X has no column names",
            "Allowed: the name of a column of X, or one weight per row",
            "Pass X as a data frame, or pass an array of weights",
        )
    try:
        sample_weight = to_host(sample_weight)
        weights = np.asarray(sample_weight)
        _reject_non_numeric_weights(sample_weight, weights)
        weights = weights.astype(np.float64, copy=False)
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            f"sample_weight contains non-numeric values ({shown_reason(error)})",
            "Allowed: finite numbers, zero or above",
            "Convert the weights to numbers",
        ) from error
    if weights.shape != (n_rows,):
        raise InvalidInput(
            f"sample_weight has shape {weights.shape} for {counted(n_rows, 'row')}",
            "Allowed: one weight per row",
            "Pass X and the weights of the same rows",
        )
    return _check_weight_range(weights, "sample_weight", may_be_zero=may_be_zero)


def _reject_non_numeric_weights(sample_weight: WeightsLike, weights: AnyArray) -> None:
    """Raise TypeError for weights that `astype` would convert to numbers silently."""
    # numpy would drop a mask or an imaginary part, and read text and dates as numbers.
    if np.ma.is_masked(sample_weight) or weights.dtype.kind not in "fiubO":
        raise TypeError(f"masked, or of type {weights.dtype}")
    if weights.dtype.kind != "O":
        return
    if any(isinstance(weight, str | bytes) for weight in weights.ravel().tolist()):
        raise TypeError("text among objects")


def weights_from_column(frame: IntoDataFrame, name: str) -> FloatArray:
    """Return the validated sample weights in a column; all may be zero, as in one partition.

    Raises
    ------
    InvalidInput
        A weight is missing, negative or not finite, or the column is not numeric.
    """
    column = nw.from_native(frame, eager_only=True)[name]
    if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        raise InvalidInput(
            f"The weight column {name!r} is not numeric ({native_dtype(column)})",
            "Allowed: finite weights, zero or above",
            "Pass the name of a numeric column",
        )
    return _check_weight_range(
        series_to_float64(column), f"The weight column {name!r}", may_be_zero=True
    )


def _check_weight_range(weights: FloatArray, name: str, *, may_be_zero: bool) -> FloatArray:
    """Return weights unchanged if they are finite and nonnegative, and not all zero.

    `may_be_zero` allows weights that are all zero; `name` is for the message.
    """
    # If a weight is NaN, then so are minimum and maximum.
    is_usable = not len(weights) or (weights.min() >= 0 and np.isfinite(weights.max()))
    if not is_usable or not (may_be_zero or weights.any()):
        raise InvalidInput(
            f"{name} contains a negative, NaN or infinite weight, or no positive one",
            "Allowed: finite weights, zero or above, not all zero",
            "Correct or drop the rows with such weights",
        )
    return weights
