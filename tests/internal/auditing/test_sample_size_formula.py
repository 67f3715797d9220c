"""The number of rows that show a loss, and the least loss that rows show, are inverse."""

import pytest
from scipy import stats

from fairspan.auditing.sample_size import min_detectable_loss, power_quantile, required_sample_size


def test_the_least_loss_is_that_of_the_rows_that_show_it():
    for loss, spread, bias in ((0.3, 1.0, 4.0), (2.0, 5.0, 0.1), (0.1, 0.2, 9.0)):
        n = required_sample_size(loss, spread, bias, 3.0)
        assert min_detectable_loss(n, spread, bias, 3.0) == pytest.approx(loss)
    expected = stats.norm.isf(0.05 / 4) + stats.norm.isf(0.2)
    assert power_quantile(2, 0.95) == pytest.approx(expected)
