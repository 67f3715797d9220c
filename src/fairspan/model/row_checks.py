"""Check rows for other units than those of the fit."""

import numpy as np

from fairspan.errors import warn
from fairspan.typing import FloatArray

# Number of first rows that are checked: enough for a median, and little work next to the transform
# itself.
_MAX_CHECKED_ROWS = 1000
# Fewest rows that are checked: the median of fewer may be that of a few outliers.
_MIN_CHECKED_ROWS = 10
# Ratio of the median distance from the mean to the root mean square distance of the rows of the
# fit, above which units are taken to differ: far above what long tails do to a median.
_FAR_RATIO = 10.0


def warn_if_far(
    rows: FloatArray, total_variance: float, feature_names: tuple[str, ...] | None
) -> None:
    """Warn if standardized rows are far larger than those of the fit were.

    Parameters
    ----------
    rows : (n, p) array
        Centered and scaled rows, of which the first 1,000 are checked.
    total_variance : float
        Variance of all rows of the fit.
    feature_names : tuple of str or None
    """
    rows = rows[:_MAX_CHECKED_ROWS]
    if len(rows) < _MIN_CHECKED_ROWS:  # their median may be that of a few outliers
        return
    squares = rows**2
    if np.median(squares.sum(axis=1)) > _FAR_RATIO**2 * total_variance:
        j = int(np.median(squares, axis=0).argmax())
        name = f"feature {j}" if feature_names is None else repr(feature_names[j])
        warn(
            f"Half of the rows are more than {_FAR_RATIO:.0f} times as far from the mean as the "
            f"rows of the fit, mostly in {name}. Check that the features have the same units as in "
            "the fit."
        )
