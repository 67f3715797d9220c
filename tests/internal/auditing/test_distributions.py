"""Student's and Fisher's distributions are those of scipy."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import stdtrit

from fairspan.auditing.distributions import f_cdf, student_isf


@pytest.mark.parametrize("freedom", [0.3, 1, 2, 4.7, 30, 299, 301, 9.9e3, 1.01e4, 1e9, 1e300])
def test_quantiles_are_those_of_scipy(freedom):
    tails = [0.2, 0.025, 1e-3, 1e-8, 1e-12]
    quantiles = [student_isf(tail, freedom) for tail in tails]
    np.testing.assert_allclose(quantiles, -stdtrit(freedom, tails), rtol=2e-12)


def test_without_degrees_of_freedom_there_is_no_quantile():
    assert math.isnan(student_isf(0.025, 0.0))
    assert math.isnan(student_isf(0.025, math.nan))


@pytest.mark.parametrize("first", [1.5, 3, 40, 3000])
def test_the_lower_tail_of_fishers_distribution_agrees_with_scipy(first):
    for ratio in (0.0, 1e-8, 0.01, 0.3, 0.8):
        probability = f_cdf(ratio, first, 9 * first)
        assert probability == pytest.approx(
            stats.f.cdf(ratio, first, 9 * first), rel=1e-9, abs=1e-300
        )
