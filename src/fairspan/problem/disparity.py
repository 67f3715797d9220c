"""Signed disparity of the group errors."""

from fairspan.typing import FloatArray


def signed_disparity(errors: FloatArray) -> float:
    """Error of the second group less that of the first; for more groups, the largest gap.

    Parameters
    ----------
    errors : (k,) array
        e_g of each group, in the order of its sorted labels.

    Returns
    -------
    float
        In the units of the errors; 0 for a single group.

    Examples
    --------
    >>> import numpy as np
    >>> signed_disparity(np.array([3.0, 1.0]))
    -2.0
    >>> signed_disparity(np.array([3.0, 1.0, 2.0]))
    2.0
    """
    if len(errors) == 2:
        return float(errors[1] - errors[0])
    return float(errors.max() - errors.min())
