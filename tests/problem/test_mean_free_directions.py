"""The directions along which means agree, however far from zero the rows are."""

import numpy as np
import pytest

from fairspan import FairPCA, MeanParity
from fairspan.problem.mean_free_directions import mean_differences, mean_free_directions


@pytest.mark.parametrize("seed", range(6))
def test_two_groups_differ_along_one_direction_at_any_offset(seed):
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((2, 4)) + 1e7 * rng.standard_normal(4)
    free = mean_free_directions(means, np.array([np.eye(4)] * 2), 2)
    assert free.shape == (4, 3)
    assert np.abs((means[1] - means[0]) @ free).max() <= 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_mean_parity_does_not_depend_on_where_zero_is(seed):
    rng = np.random.default_rng(seed)
    X, groups = rng.standard_normal((60, 4)) * [1, 2, 3, 1], np.arange(60) % 2
    far = X + np.round(1e7 * rng.standard_normal(4))
    near = far - far[0]
    fits = [
        FairPCA(2, criterion="total_error", restriction=MeanParity()).fit(
            rows, sensitive_features=groups
        )
        for rows in (far, near)
    ]
    values = [fit.solution_.objective for fit in fits]
    assert values[0] == pytest.approx(values[1], rel=1e-7)


def test_means_that_differ_by_rounding_alone_are_the_same():
    means = np.array([[1e8, 3.0], [np.nextafter(1e8, 2e8), 3.0]])
    assert mean_differences(means, np.full((2, 2), 1e-8)).size == 0
