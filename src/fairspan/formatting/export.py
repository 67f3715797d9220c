"""Export of results as JSON-compatible values and as pandas data frames."""

import math
from typing import Any

import numpy as np

from fairspan.errors import import_optional


def to_json_value(value: object, digits: int = 17) -> Any:
    """Convert a value to JSON-compatible types; NaN and infinity become None.

    Dictionaries, lists and tuples are converted recursively; other types are returned unchanged.

    Parameters
    ----------
    value : object
    digits : int
        Significant digits of floats; 17 preserves them exactly.

    Examples
    --------
    >>> to_json_value({"a": (np.float64(1 / 3), float("nan"))}, digits=12)
    {'a': [0.333333333333, None]}
    """
    if isinstance(value, dict):
        return {str(key): to_json_value(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(item, digits) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        # Adding zero avoids "-0.0".
        return float(f"{value:.{digits}g}") + 0.0
    return value


def to_data_frame(data: object, purpose: str) -> Any:
    """Make a pandas DataFrame from columns or from one dict per row.

    Raises
    ------
    MissingDependency
        pandas is not installed; the message names the purpose.
    """
    return import_optional("pandas", "pandas", purpose).DataFrame(data)
