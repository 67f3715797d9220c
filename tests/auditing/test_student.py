"""Quantiles of Student's distribution are those of scipy."""

import math

import numpy as np
import pytest
from scipy.special import stdtrit

from fairspan.auditing.distributions import student_isf


@pytest.mark.parametrize("freedom", [0.3, 1, 2, 4.7, 30, 299, 301, 9.9e3, 1.01e4, 1e9, 1e300])
def test_quantiles_are_those_of_scipy(freedom):
    tails = [0.2, 0.025, 1e-3, 1e-8, 1e-12]
    ours = [student_isf(tail, freedom) for tail in tails]
    np.testing.assert_allclose(ours, -stdtrit(freedom, tails), rtol=2e-12)


def test_without_degrees_of_freedom_there_is_no_quantile():
    assert math.isnan(student_isf(0.025, 0.0))
    assert math.isnan(student_isf(0.025, math.nan))
