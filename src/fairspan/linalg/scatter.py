"""Validity of scatter matrices."""

import numpy as np
import scipy.linalg

from fairspan.typing import FloatArray

# Rounding error of a scaled scatter entry (a correlation).
_CORRELATION_TOL = 1e-9
# Deviations below this ratio of the mean are rounding errors of the rows.
_MEAN_ROUNDING = 1e-12
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
    # Rounding error of the deviation of one row; `weight` rows add up its square.
    deviation_rounding = np.maximum(_MEAN_ROUNDING * np.abs(mean), _UNDERFLOW)
    scales = np.sqrt(variances) + np.sqrt(weight) * deviation_rounding
    with np.errstate(over="ignore"):
        scaled = scatter / scales[:, None]
        scaled /= scales
    # A cheap necessary condition: correlations are at most one.
    if np.abs(scaled).max(initial=0.0) > 1 + _CORRELATION_TOL:
        return False
    # Allow for eigenvalues of a scatter that are negative by rounding.
    scaled[np.diag_indices_from(scaled)] += _CORRELATION_TOL * len(scaled)
    _, failed = scipy.linalg.lapack.dpotrf(scaled.T, lower=True, overwrite_a=True, clean=False)
    return bool(failed == 0)
