"""Results as plain values that JSON can hold, and as data frames of pandas."""

import math
from typing import Any

import numpy as np

from fairspan.errors import import_optional


def to_json_value(value: Any, digits: int = 17) -> Any:
    """The same in str, int, float, bool, None, list and dict; None for NaN and infinity.

    Parameters
    ----------
    value : object
    digits : int
        Significant digits of floats; 17 are all.

    Examples
    --------
    >>> plain({"a": (np.float64(1 / 3), float("nan"))}, digits=12)
    {'a': [0.333333333333, None]}
    """
    if isinstance(value, dict):
        return {str(key): to_json_value(each, digits) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(each, digits) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") + 0.0 if math.isfinite(value) else None
    return value


def to_data_frame(data: Any, purpose: str) -> Any:
    """A pandas DataFrame of columns, or of one dictionary for each row.

    Raises
    ------
    MissingDependency
        pandas is not installed; the message names the purpose.
    """
    return import_optional("pandas", "pandas", purpose).DataFrame(data)
