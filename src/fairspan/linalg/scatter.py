"""Validity of scatter matrices."""

import numpy as np
import scipy.linalg

from fairspan.linalg.rounding import AGREEMENT_TOL, SUM_ROUNDING
from fairspan.typing import FloatArray

# Squares of smaller deviations underflow.
_UNDERFLOW = 1.5e-154


def is_valid_scatter(scatter: FloatArray, mean: FloatArray, weight: float) -> bool:
    """Return whether a (p, p) matrix is a possible scatter matrix, up to rounding.

    The scatter is the weighted sum of the outer products of the rows' deviations from their `mean`,
    and `weight` is the total weight of the rows. The matrix is scaled by the size of each feature,
    including the rounding error of its rows. It is a valid scatter only if the result, a matrix of
    correlations, has a Cholesky factor. This takes p^3 / 3 operations, less than a tenth of the
    eigendecomposition of a fit.

    Examples
    --------
    >>> import numpy as np
    >>> is_valid_scatter(np.array([[1.0, 1.0], [1.0, 1.0]]), np.zeros(2), 3.0)
    True
    >>> is_valid_scatter(np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros(2), 3.0)
    False
    """
    variances = np.diag(scatter)
    if not (variances >= 0).all():
        return False
    # Rounding error of the deviation of one row, from the sum that made the mean. The squares of
    # `weight` rows add up.
    deviation_rounding = np.maximum(SUM_ROUNDING * np.abs(mean), _UNDERFLOW)
    scales = np.sqrt(variances) + np.sqrt(weight) * deviation_rounding
    with np.errstate(over="ignore"):
        scaled = scatter / scales[:, None]
        scaled /= scales
    # A cheap necessary condition: correlations are at most one, up to the digits in which another
    # program may have written the matrix.
    if np.abs(scaled).max(initial=0.0) > 1 + AGREEMENT_TOL:
        return False
    # Allow for eigenvalues of a scatter that are negative by rounding.
    scaled[np.diag_indices_from(scaled)] += AGREEMENT_TOL * len(scaled)
    _, failed = scipy.linalg.lapack.dpotrf(scaled.T, lower=True, overwrite_a=True, clean=False)
    return bool(failed == 0)
