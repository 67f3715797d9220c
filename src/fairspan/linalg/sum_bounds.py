"""Whether a matrix may be the scatter of some rows, by a Cholesky factorisation."""

import numpy as np
from scipy.linalg import lapack

from fairspan.typing import FloatArray

# What rounding may add to the product of two columns, as a share of both their sizes.
_ROUNDED = 1e-9
# Deviations below this share of the mean are rounding of the rows, and below this number their
# squares leave double precision.
_UNSURE, _UNDERFLOW = 1e-12, 1.5e-154


def may_be_scatter(scatter: FloatArray, mean: FloatArray, weight: float) -> bool:
    """Whether rows of this mean and weight may have this (p, p) scatter.

    The scatter is divided by the size of each feature: what its own entry says, or what rounding of
    the rows may hide there. A Cholesky factor of that then exists, or there are no such rows:
    p^3 / 3 steps, less than a tenth of the eigenproblem that a fit solves.

    Examples
    --------
    >>> import numpy as np
    >>> may_be_scatter(np.array([[1.0, 1.0], [1.0, 1.0]]), np.zeros(2), 3.0)
    True
    >>> may_be_scatter(np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros(2), 3.0)
    False
    """
    variances = np.diag(scatter)
    if not (variances >= 0).all():
        return False
    sizes = np.sqrt(variances) + np.sqrt(weight) * np.maximum(_UNSURE * np.abs(mean), _UNDERFLOW)
    with np.errstate(over="ignore"):
        scaled = scatter / sizes[:, None]
        scaled /= sizes
    if np.abs(scaled).max(initial=0.0) > 1 + _ROUNDED:
        return False
    scaled[np.diag_indices_from(scaled)] += _ROUNDED * len(scaled)
    return bool(lapack.dpotrf(scaled.T, lower=True, overwrite_a=True, clean=False)[1] == 0)
