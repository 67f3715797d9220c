"""Sample weights beside the rows, or in a column of the table."""

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from fairspan.errors import InvalidInput
from fairspan.rows.numbers import float64_of
from fairspan.typing import FloatArray


def checked_weights(sample_weight: Any, n_rows: int, *, is_part: bool = False) -> FloatArray | None:
    """Sample weights as a (n,) float64 array, or None; all may be zero in a part of a table.

    Raises
    ------
    InvalidInput
        A weight is negative or not finite, all are zero, or their number is not that of the rows.
    """
    if sample_weight is None:
        return None
    if isinstance(sample_weight, str):
        raise InvalidInput(
            f"sample_weight is the name {sample_weight!r}, but X has no column names",
            "Allowed are the name of a column of X, or one weight for each row",
            "Pass X as a data frame, or pass the weights themselves",
        )
    try:
        weights = np.asarray(sample_weight)
        if np.ma.is_masked(sample_weight) or weights.dtype.kind not in "fiubO":
            # numpy would drop a mask or an imaginary part, and read text and dates as numbers.
            raise TypeError(f"masked, or of type {weights.dtype}")
        objects = weights.ravel().tolist() if weights.dtype.kind == "O" else []
        if any(isinstance(each, str | bytes) for each in objects):
            raise TypeError("text among objects")
        weights = weights.astype(np.float64, copy=False)
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            f"sample_weight holds values that are no numbers ({error})",
            "Allowed are finite numbers, zero or above",
            "Convert the weights to numbers",
        ) from error
    if weights.shape != (n_rows,):
        raise InvalidInput(
            f"sample_weight has shape {weights.shape} for {n_rows} rows",
            "Allowed is one weight for each row",
            "Take X and the weights from the same rows",
        )
    if not is_part and not weights.any():
        raise _bad("sample_weight")
    return _checked_range(weights, "sample_weight")


def check_apart(groups: Sequence[str], weight: str | None = None) -> None:
    """Make sure that no column is both group and weight.

    Raises
    ------
    InvalidInput
    """
    if weight in groups:
        raise InvalidInput(
            f"The column {weight!r} is named as a group and as the weight",
            "Allowed is a column of weights beside those of groups",
            "Name another column, or leave the weight out",
        )


def weights_of_column(column: nw.Series[Any]) -> FloatArray:
    """Sample weights in a column of a table, or of a part of it, where all may be zero.

    Raises
    ------
    InvalidInput
        A weight is missing, negative or not finite, or the column holds no numbers.
    """
    if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        raise InvalidInput(
            f"The column of weights {column.name!r} holds no numbers but {column.dtype}",
            "Allowed are finite weights, zero or above",
            "Name a column of numbers",
        )
    return _checked_range(float64_of(column), f"The column of weights {column.name!r}")


def _checked_range(weights: FloatArray, name: str) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        total = weights.sum()
    if not np.isfinite(total) or (weights < 0).any():
        raise _bad(name)
    return weights


def _bad(name: str) -> InvalidInput:
    return InvalidInput(
        f"{name} holds a negative, NaN or infinite weight, or has no finite positive sum",
        "Allowed are finite weights, zero or above, not all zero",
        "Correct or drop the rows with such weights",
    )
