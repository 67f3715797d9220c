"""The maximum mean discrepancy, against loops, a closed form, and what chance does."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fairspan import FairPCA
from fairspan.errors import FairspanWarning, InvalidInput, InvalidParameter, InvalidType
from fairspan.metrics import leakage, mmd

RNG = np.random.default_rng(0)
GROUPS = np.repeat(["a", "b"], [30, 20])
Z = RNG.normal(size=(50, 3)) + 0.5 * (GROUPS == "b")[:, None]


def reference_discrepancy(one, other, width):
    """Equation (3) of Gretton et al. (2012), pair by pair."""

    def kernel(x, y):
        return np.exp(-((x - y) ** 2).sum() / (2 * width**2))

    def mean_within(rows):
        n = len(rows)
        pairs = [kernel(rows[i], rows[j]) for i in range(n) for j in range(n) if i != j]
        return sum(pairs) / (n * (n - 1))

    across = sum(kernel(x, y) for x in one for y in other) / (len(one) * len(other))
    return mean_within(one) + mean_within(other) - 2 * across


def median_distance(rows):
    return np.median([np.linalg.norm(x - y) for x, y in combinations(rows, 2)])


@pytest.mark.parametrize("width", [None, 0.3, 5.0])
def test_it_is_the_average_over_pairs(width):
    result = mmd(Z, GROUPS, bandwidth=width, n_permutations=0)
    bandwidth = median_distance(Z) if width is None else width
    assert result.bandwidth == pytest.approx(bandwidth)
    assert result == pytest.approx(reference_discrepancy(Z[:30], Z[30:], bandwidth), abs=1e-13)
    assert (result.p_value, result.n_blocks) == (None, 1)


def test_the_largest_pair_of_several_groups_counts():
    groups = np.arange(60) % 3
    rows = RNG.normal(size=(60, 2)) + groups[:, None]
    width = median_distance(rows)
    parts = [rows[groups == g] for g in range(3)]
    largest = max(reference_discrepancy(one, other, width) for one, other in combinations(parts, 2))
    assert mmd(rows, groups, n_permutations=0) == pytest.approx(largest, abs=1e-13)


@pytest.mark.parametrize("n", [1_500, pytest.param(9_000, marks=pytest.mark.slow)])
def test_the_value_for_two_normal_distributions_is_exact(n):
    """E k is (s^2 / (s^2 + 2))^(d / 2) exp(-shift^2 / (2 (s^2 + 2))) for unit covariances."""
    rng = np.random.default_rng(n)
    shift = np.array([0.6, 0.0, -0.3])
    s = 1.7
    d = 3
    groups = np.repeat([0, 1], [n // 3, n - n // 3])
    rows = rng.normal(size=(n, d)) + groups[:, None] * shift
    common = (s**2 / (s**2 + 2)) ** (d / 2)
    truth = 2 * common * (1 - np.exp(-shift @ shift / (2 * (s**2 + 2))))
    result = mmd(rows, groups, bandwidth=s, n_permutations=49)
    assert result == pytest.approx(truth, abs=0.02)
    assert (result.p_value, result.n_blocks) == (1 / 50, 1 if n <= 2_000 else 6)


@pytest.mark.slow
def test_the_discrepancy_of_equal_groups_is_zero_on_average_with_uniform_p_values():
    rng = np.random.default_rng(1)
    draws = [(rng.normal(size=(40, 2)), rng.permutation(np.arange(40) % 2)) for _ in range(120)]
    results = [mmd(*sample, n_permutations=39, random_state=rng) for sample in draws]
    values = np.array([float(result) for result in results])
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(len(values))
    shares = np.array([result.p_value for result in results])
    # 120 draws: a share of .1 has a standard deviation of .027.
    for level in (0.1, 0.5, 0.9):
        assert np.mean(shares <= level) == pytest.approx(level, abs=0.14)


def test_blocks_agree_with_all_pairs_and_hold_small_groups():
    rng = np.random.default_rng(2)
    groups = np.where(np.arange(4_000) < 30, "few", "many")
    rows = rng.normal(size=(4_000, 2)) + 2.0 * (groups == "few")[:, None]
    result = mmd(rows, groups, bandwidth=1.5, n_permutations=19)
    assert result == pytest.approx(reference_discrepancy(rows[:30], rows[30:130], 1.5), abs=0.07)
    assert (result.n_blocks, result.p_value) == (4, 0.05)


def test_a_difference_of_spread_is_found_that_a_linear_classifier_misses():
    rng = np.random.default_rng(3)
    groups = np.arange(600) % 2
    rows = rng.normal(size=(600, 2)) * np.where(groups == 0, 1.0, 3.0)[:, None]
    halves = np.arange(600) < 300
    parts = (rows[halves], groups[halves], rows[~halves], groups[~halves])
    assert leakage(*parts, classifier=LogisticRegression()) < 0.35
    assert mmd(rows, groups).p_value == 0.005


def test_rows_that_are_all_the_same_do_not_differ():
    result = mmd(np.ones((8, 2)), [0, 1] * 4, n_permutations=9)
    assert (result, result.p_value) == (0, 1)


def test_the_number_is_the_same_each_time_and_for_any_order_of_names():
    first = mmd(Z, GROUPS, n_permutations=19)
    renamed = mmd(Z, np.where(GROUPS == "a", "z", "b"), n_permutations=0)
    # The groups are summed in another order, so that the last digit may be another.
    assert renamed == pytest.approx(float(first), rel=1e-12)
    again = mmd(Z, GROUPS, n_permutations=19)
    assert (first, first.p_value) == (again, again.p_value)
    assert repr(first).startswith("MMDEstimate(0.")


@pytest.mark.parametrize(
    ("rows", "groups", "settings", "error", "expected_text"),
    [
        (Z, ["a"] * 50, {}, InvalidInput, "belong to one group"),
        (Z[:3], ["a", "a", "b"], {}, InvalidInput, "group 'b' has one row"),
        (Z, GROUPS, {"bandwidth": 0}, InvalidParameter, "bandwidth is 0"),
        (Z, GROUPS, {"bandwidth": np.nan}, InvalidParameter, "bandwidth is nan"),
        (Z, GROUPS, {"n_permutations": -1}, InvalidParameter, "n_permutations is -1"),
        (Z, GROUPS, {"random_state": "x"}, InvalidType, "random_state is 'x'"),
        (Z * np.nan, GROUPS, {}, InvalidInput, "NaN"),
    ],
)
def test_bad_input(rows, groups, settings, error, expected_text):
    with pytest.raises(error, match=expected_text):
        mmd(rows, groups, **settings)


def test_the_median_distance_does_not_depend_on_the_unit_where_most_rows_are_the_same():
    rng = np.random.default_rng(0)
    Z = np.zeros((60, 2))
    groups = np.repeat(["a", "b"], 30)
    Z[:6] = rng.normal(size=(6, 2))
    assert mmd(1e-3 * Z, groups) == pytest.approx(mmd(Z, groups))


def test_the_median_distance_of_many_rows_is_that_of_a_part_without_repetitions():
    # Of any 1,000 of these rows, more than half of the pairs lie on both sides, one apart.
    n = 1_001
    Z = np.column_stack([np.arange(n) % 2, np.linspace(0, 1e-3, n)])
    # With this seed, a draw with repetitions would have more rows of one side.
    result = mmd(Z, np.repeat(["a", "b"], [500, n - 500]), n_permutations=0, random_state=10)
    assert result.bandwidth == pytest.approx(1.0, abs=1e-6)


def test_rows_on_which_means_were_made_equal_are_reported():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(400, 6))
    groups = np.repeat(["a", "b"], 200)
    model = FairPCA(3, criterion="total_error", restriction="mean_parity")
    model.fit(rows, sensitive_features=groups)
    with pytest.warns(FairspanWarning, match="pass held-out rows"):
        result = mmd(model.transform(rows), groups)
    assert result.p_value >= 0.5
    test_rows = rng.normal(size=(400, 6))  # a warning would be an error here
    assert 0 < mmd(model.transform(test_rows), groups).p_value <= 1
