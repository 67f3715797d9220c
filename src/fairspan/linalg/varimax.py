"""Varimax rotation of orthonormal columns."""

import numpy as np

from fairspan.linalg.rounding import EPS
from fairspan.typing import FloatArray

# Maximum number of passes over all pairs of columns. Passes converge quadratically near the
# optimum: tables of 2 to 50 columns took 4 to 30.
_MAX_SWEEPS = 500
# Angles, in radians, below which a pair counts as rotated already. The criterion is flat at its
# optimum, where it changes with the square of the angle, so that smaller angles change nothing.
_MIN_ANGLE = EPS**0.5


def varimax_rotation(columns: FloatArray) -> FloatArray:
    """Rotation R for which the squared entries of ``columns @ R`` vary most.

    Maximizes sum_ij (C R)_ij^4 by rotations of two columns at a time, each by the angle that is
    optimal for the pair (Kaiser 1958, without the normalization of rows). For columns of unit
    length this is the variance of the squared entries of each column, which is varimax, and
    quartimax as well.

    Parameters
    ----------
    columns : (p, d) array
        Orthonormal columns.

    Returns
    -------
    (d, d) array
        Orthogonal.

    Examples
    --------
    >>> import numpy as np
    >>> columns = np.array([[0.6, -0.8], [0.8, 0.6], [0.0, 0.0]])
    >>> np.sort(np.abs(columns @ varimax_rotation(columns)).round(6), axis=1)
    array([[0., 1.],
           [0., 1.],
           [0., 0.]])

    References
    ----------
    Kaiser (1958). The varimax criterion for analytic rotation in factor analysis. Psychometrika 23,
    187-200.
    """
    rotated = np.array(columns, dtype=np.float64)
    d = rotated.shape[1]
    rotation = np.eye(d)
    for _ in range(_MAX_SWEEPS):
        largest_angle = 0.0
        for i in range(d - 1):
            for j in range(i + 1, d):
                angle = _pair_angle(rotated[:, i], rotated[:, j])
                largest_angle = max(largest_angle, abs(angle))
                _rotate_pair(rotated, i, j, angle)
                _rotate_pair(rotation, i, j, angle)
        if largest_angle <= _MIN_ANGLE:
            break
    return rotation


def _pair_angle(x: FloatArray, y: FloatArray) -> float:
    """Angle by which the columns x and y are rotated, in radians; zero if all are equally good."""
    difference = x**2 - y**2
    product = 2 * x * y
    numerator = 2 * float(difference @ product)
    denominator = float(difference @ difference - product @ product)
    # The sum of fourth powers is a constant plus a quarter of hypot(numerator, denominator) times
    # the cosine of four times the angle from its maximum.
    size = float(difference @ difference + product @ product)
    if np.hypot(numerator, denominator) <= EPS * len(x) * size:
        return 0.0
    return float(np.arctan2(numerator, denominator)) / 4


def _rotate_pair(columns: FloatArray, i: int, j: int, angle: float) -> None:
    """Rotate columns i and j in place."""
    if angle == 0:
        return
    x = columns[:, i].copy()
    y = columns[:, j].copy()
    columns[:, i] = np.cos(angle) * x + np.sin(angle) * y
    columns[:, j] = np.cos(angle) * y - np.sin(angle) * x
