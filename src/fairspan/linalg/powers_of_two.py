"""Scaling by powers of two, which changes no digit."""

import math

import numpy as np

from fairspan.typing import FloatArray


def scale_to_one(vectors: FloatArray) -> FloatArray:
    """Divide each vector by a power of two so that its largest entry is at least 1/2 and below 1.

    Parameters
    ----------
    vectors : (..., k) array
        Finite. Zero vectors are unchanged; no digit of the others is lost.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.linalg import scale_to_one
    >>> scale_to_one(np.array([5e-324, -5e-324]))
    array([ 0.5, -0.5])
    """
    largest = np.abs(vectors).max(axis=-1, keepdims=True, initial=0.0)
    _, exponents = np.frexp(largest)
    return np.asarray(np.ldexp(vectors, np.where(largest > 0, -exponents, 0)))


def power_of_two_unit(weights: FloatArray) -> float:
    """Return the largest power of two that is no larger than the largest weight.

    Division by it is exact, and weights that differ by a power of two become equal. The unit is 1
    if there is no weight, or all are zero.

    Examples
    --------
    >>> import numpy as np
    >>> power_of_two_unit(np.array([0.0, 3.0]))
    2.0
    """
    largest = float(weights.max(initial=0.0))
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest > 0 else 1.0
