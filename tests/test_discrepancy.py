"""Maximum mean discrepancy, against loops, a closed form for Gaussians and the law of p-values."""

import numpy as np
import pytest

from fairspan import metrics
from fairspan.errors import InvalidInput, InvalidParameter


def by_loops(a, b, bandwidth):
    """The unbiased estimate, one pair of rows after the other."""

    def mean_kernel(first, second, *, same):
        values = [
            np.exp(-np.sum((u - v) ** 2) / (2 * bandwidth**2))
            for i, u in enumerate(first)
            for j, v in enumerate(second)
            if not (same and i == j)
        ]
        return sum(values) / len(values)

    own = mean_kernel(a, a, same=True) + mean_kernel(b, b, same=True)
    return own - 2 * mean_kernel(a, b, same=False)


def test_every_pair_of_groups_equals_the_loops():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((30, 3)) + 100
    groups = np.array(list("aabbbccccc") * 3)
    Z[groups == "c"] *= 1.01
    found = metrics.mmd(Z, groups, n_permutations=0)
    distances = np.linalg.norm(Z[:, None] - Z[None], axis=2)[np.triu_indices(30, 1)]
    assert found.bandwidth == pytest.approx(np.median(distances), rel=1e-9)
    for i, first in enumerate("abc"):
        for j, second in enumerate("abc"):
            if i != j:
                expected = by_loops(Z[groups == first], Z[groups == second], found.bandwidth)
                assert found.squared[i, j] == pytest.approx(expected, abs=1e-10)
    assert found.largest == found.squared.max()
    assert found.groups == ("a", "b", "c")
    assert found.pair == tuple(
        found.groups[at] for at in np.argwhere(np.triu(found.squared) == found.largest)[0]
    )
    assert found.p_value is None
    assert found.n_blocks == 1


def gaussian_mmd(shift, d, bandwidth):
    """MMD^2 of N(0, I) and N(mu, I), |mu| = shift: integrals of Gaussians."""
    within = (bandwidth**2 / (bandwidth**2 + 2)) ** (d / 2)
    return 2 * within * (1 - np.exp(-(shift**2) / (2 * (bandwidth**2 + 2))))


@pytest.mark.parametrize("block_size", [10_000, 200])
def test_gaussians_have_the_closed_form(block_size):
    rng = np.random.default_rng(1)
    d, shift, bandwidth = 3, 1.0, 1.5
    Z = rng.standard_normal((4000, d))
    Z[:2000, 0] += shift
    groups = np.repeat(["a", "b"], 2000)
    found = metrics.mmd(Z, groups, bandwidth=bandwidth, block_size=block_size, n_permutations=0)
    assert found.n_blocks == (1 if block_size > 4000 else 20)
    # Its standard error is about .004.
    assert found.largest == pytest.approx(gaussian_mmd(shift, d, bandwidth), abs=0.015)


@pytest.mark.parametrize("block_size", [1000, 20])
def test_p_values_are_uniform_where_the_groups_are_alike(block_size):
    rng = np.random.default_rng(2)
    groups = np.array(list("abc") * 14)
    p_values = [
        metrics.mmd(
            rng.standard_normal((42, 2)),
            groups,
            block_size=block_size,
            n_permutations=19,
            random_state=rng,
        ).p_value
        for _ in range(300)
    ]
    # Each of the 20 values has probability 1/20, so counts have deviation 3.8 about 15.
    counts = np.bincount(np.round(np.array(p_values) * 20).astype(int), minlength=21)[1:]
    assert ((counts - 15) ** 2 / 15).sum() < 43.8  # the 99.9 % quantile of chi-square, 19
    assert np.mean(p_values) == pytest.approx(0.525, abs=0.06)


def test_equal_means_with_other_spreads_are_told_apart():
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((300, 2))
    Z[::2] *= 2
    found = metrics.mmd(Z, ["a", "b"] * 150)
    assert found.p_value == pytest.approx(1 / 201)
    assert found.largest > 0.02
    assert repr(found).startswith("<MeanDiscrepancy of 2 groups, largest MMD^2 0.")


def test_small_groups_keep_two_rows_in_each_block():
    Z = np.random.default_rng(4).standard_normal((100, 2))
    groups = ["rare"] * 5 + ["usual"] * 95
    found = metrics.mmd(Z, groups, block_size=10, n_permutations=9)
    assert found.n_blocks == 2
    assert np.isfinite(found.squared).all()


def test_rows_that_are_all_the_same_have_no_discrepancy():
    found = metrics.mmd(np.ones((8, 2)), list("aabbaabb"), n_permutations=9)
    assert found.largest == pytest.approx(0, abs=1e-12)
    assert found.p_value == 1


def test_what_cannot_be_compared_is_refused():
    Z = np.eye(4)
    with pytest.raises(InvalidInput, match="one group"):
        metrics.mmd(Z, list("aaaa"))
    with pytest.raises(InvalidInput, match="a single row"):
        metrics.mmd(Z, list("aaab"))
    with pytest.raises(InvalidParameter, match="bandwidth"):
        metrics.mmd(Z, list("aabb"), bandwidth=0)
