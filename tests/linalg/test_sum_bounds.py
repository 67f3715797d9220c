"""Ceilings on eigenvalues hold although sums of squares are rounded."""

import numpy as np

from fairspan.linalg.sum_bounds import frobenius_ceiling


def test_a_ceiling_holds_for_what_a_sum_of_squares_loses_by_rounding():
    """One eigenvalue beside 400 ones: its square is less than the spacing of numbers at 400."""
    beside = np.sqrt(0.4 * np.spacing(400.0))
    squared_norm = 400.0 + beside**2
    assert squared_norm == 400.0
    ceiling = frobenius_ceiling(squared_norm, np.eye(400), np.zeros((400, 400)), 20.0)
    assert beside <= ceiling <= 1e-4
