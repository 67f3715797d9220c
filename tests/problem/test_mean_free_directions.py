"""The directions along which means agree, however far from zero the rows are."""

import numpy as np
import pytest

from fairspan import CovarianceParity, FairPCA, GroupMoments, MeanParity
from fairspan.problem.mean_free_directions import mean_differences, mean_free_directions
from fairspan.problem.posing import largest_column
from fairspan.problem.problem import MeansWithin, is_within


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


def test_one_direction_may_be_left_to_equal_covariances():
    means, parity = np.array([[0.0, 0.0], [1.0, 0.0]]), CovarianceParity(tolerance=0.0)
    for of_second in (1.0, 3.0):
        covariances = np.array([np.eye(2), np.diag([1.0, of_second])])
        np.testing.assert_allclose(np.abs(parity.directions(means, covariances, 1)), [[0], [1]])


def test_a_limit_on_means_is_met_up_to_a_share_of_it():
    limit = MeansWithin(np.array([2.0, 0.0]), 1e-3)
    for beyond, is_met in ((0.0, True), (1e-10, True), (1e-6, False)):
        angle = np.arcsin(0.5e-3 * (1 + beyond))
        basis = np.array([[np.sin(angle)], [np.cos(angle)]])
        assert is_within(limit, basis) == is_met


def test_rounding_of_large_means_is_within_a_limit_of_any_size():
    limit = MeansWithin(np.array([1e6, 0.0, 0.0]), 1e-12)
    turned = np.array([[1e-16], [1.0], [0.0]])
    assert limit.exceeded(turned) > 0
    assert is_within(limit, turned)
    assert not is_within(limit, np.array([[1e-9], [1.0], [0.0]]))


def test_the_largest_column_is_compared_with_most_of_the_others_in_any_unit():
    spreads = np.array([1e-3, 2e-3, 3e-3, 1e12])
    X = np.array([[1.0], [-1.0]]) * spreads
    moments = GroupMoments.from_rows(X, ["a", "a"])
    assert (
        largest_column(moments, "global")
        == "the column '3' is the largest, 5e+14 times as large as most"
    )
    assert largest_column(GroupMoments.from_rows(X[:, :3], ["a", "a"]), "global") is None
