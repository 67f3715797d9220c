"""Equal rows are found, and nearly equal ones are distinguished."""

import numpy as np

from fairspan.moments.distinct_rows import distinct_rows
from fairspan.moments.shifted_rows import ShiftedRows


def test_equal_rows_are_found_among_near_ones() -> None:
    rng = np.random.default_rng(0)
    rows = np.zeros((50, 400))
    rows[np.arange(50), rng.integers(0, 400, 50)] = 1.0
    rows[7] = rows[3] = -0.0
    rows[9] = 1e300  # compared with which all products are close
    first, positions = distinct_rows(ShiftedRows(rows, np.arange(50), shift=np.zeros(400)))
    expected, inverse = np.unique(rows + 0.0, axis=0, return_inverse=True)
    assert len(first) == len(expected)
    assert np.array_equal(rows[first][positions], rows)
    assert len(set(zip(positions.tolist(), inverse.ravel().tolist(), strict=True))) == len(expected)
