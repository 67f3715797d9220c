"""Facts as plain values that JSON can hold, with digits that do not depend on rounding."""

import math
from typing import Any

import numpy as np

# Of float64's sixteen digits the last four are left to rounding.
_DIGITS = 12


def plain(value: Any) -> Any:
    """The same in str, int, float, bool, None, list and dict; None for NaN and infinity.

    Examples
    --------
    >>> plain({"a": (np.float64(1 / 3), float("nan"))})
    {'a': [0.333333333333, None]}
    """
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") + 0.0 if math.isfinite(value) else None
    return value
