"""Tolerances of figures that may be zero."""

import numpy as np
import pytest

from fairspan.verification.tolerances import cap_tolerance

pytestmark = pytest.mark.unverified


@pytest.mark.parametrize(("n_roundings", "allowed"), [(1.9, 1e-3), (2.1, 2.1e-9)])
def test_only_what_may_be_zero_escapes_the_cap(n_roundings, allowed):
    """A figure of two roundings may be zero, of which no fraction is a tolerance."""
    rounding = 1e-3
    magnitude = np.array([n_roundings * rounding])
    tolerance = cap_tolerance(rounding, magnitude, zero_magnitude=1e6, max_relative_tol=1e-6)
    assert tolerance == pytest.approx([allowed])
    # Rounding that is large compared with the variance hides more than zeros.
    tolerance = cap_tolerance(rounding, magnitude, zero_magnitude=1.0, max_relative_tol=1e-6)
    assert tolerance == pytest.approx(1e-6 * magnitude)
