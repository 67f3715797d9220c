"""Accuracy far from the origin, every precision, many blocks, and flat memory."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from by_hand import assert_moments, moments_by_hand, random_rows, relative_error
from fairspan import GroupMoments
from fairspan.errors import InvalidInput


def exact_moments(X, labels):
    """Mean and scatter of each group in rational arithmetic, rounded once at the end."""
    result = {}
    for label in sorted(set(labels)):
        rows = [[Fraction(float(x)) for x in row] for row in X[np.array(labels) == label]]
        n, p = len(rows), len(rows[0])
        sums = [sum(row[i] for row in rows) for i in range(p)]
        scatter = [
            [float(sum(row[i] * row[j] for row in rows) - sums[i] * sums[j] / n) for j in range(p)]
            for i in range(p)
        ]
        result[label] = (n, float(n), np.array([float(s / n) for s in sums]), np.array(scatter))
    return result


def offset_rows(n=200, p=3, offset=1e6):
    """Deviations of about one, then the offset, which is what the moments see."""
    rng = np.random.default_rng(8)
    labels = ["a" if each else "b" for each in rng.random(n) < 0.3]
    return rng.standard_normal((n, p)) + offset * np.array([1.0, -3.0, 0.5]), labels


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e8])
def test_column_offsets_cost_no_digits(offset):
    X, labels = offset_rows(offset=offset)
    assert_moments(GroupMoments.from_rows(X, labels), exact_moments(X, labels), rtol=1e-12)


def test_offsets_cost_no_digits_after_merging_twenty_parts():
    X, labels = offset_rows()
    parts = [GroupMoments.from_rows(X[i::20], labels[i::20]) for i in range(20)]
    assert_moments(sum(parts), exact_moments(X, labels), rtol=1e-9)


@pytest.mark.parametrize("center", ["global", "group"])
def test_second_moments_and_deviations_far_from_the_origin(center):
    X, labels = offset_rows()
    near = X - X[0]  # exact in float64, as both are close to each other
    far, moved = GroupMoments.from_rows(X, labels), GroupMoments.from_rows(near, labels)
    for one, other in zip(far.second_moments(center), moved.second_moments(center), strict=True):
        assert relative_error(one, other) <= 1e-9
    np.testing.assert_allclose(far.standard_deviations, near.std(axis=0), rtol=1e-9)


def test_weighted_rows_far_from_the_origin():
    X, labels = offset_rows()
    repeats = np.random.default_rng(2).integers(1, 5, len(X))
    weighted = GroupMoments.from_rows(X, labels, repeats)
    exact = exact_moments(np.repeat(X, repeats, axis=0), list(np.repeat(labels, repeats)))
    for i, (_, weight, mean, scatter) in enumerate(exact.values()):
        assert weighted.weights[i] == weight
        assert relative_error(weighted.means[i], mean) <= 1e-12
        assert relative_error(weighted.scatters[i], scatter) <= 1e-9


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "int8", "uint8", "int32", "uint64", "bool", "object"]
)
def test_every_precision_is_summed_in_float64(dtype):
    rng = np.random.default_rng(4)
    X = (rng.random((500, 3)) * [2, 100, 120]).astype(dtype)
    labels = rng.choice(["a", "b"], 500)
    # The sums leave int8, and their squares leave what float32 can tell apart.
    expected = exact_moments(X, labels)
    assert_moments(GroupMoments.from_rows(X, labels), expected, rtol=1e-13)


def test_many_blocks_and_groups_that_come_late():
    rng = np.random.default_rng(6)
    n, p = 3000, 400  # several blocks of about 650 rows
    X = rng.standard_normal((n, p)) * rng.uniform(0.1, 9, p) + rng.uniform(-50, 50, p)
    labels = np.where(np.arange(n) < 1500, "a", np.where(np.arange(n) < 2999, "b", "late"))
    weights = rng.uniform(0, 2, n)
    weights[:700] = 0  # the first block is absent as a whole
    assert_moments(GroupMoments.from_rows(X, labels), moments_by_hand(X, labels))
    assert_moments(GroupMoments.from_rows(X, labels, weights), moments_by_hand(X, labels, weights))


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_a_common_factor_of_the_weights_of_many_blocks(factor):
    rng = np.random.default_rng(7)
    X, labels = rng.standard_normal((1500, 400)), rng.choice(["a", "b"], 1500)
    weights = rng.uniform(0.5, 2, 1500)
    expected = GroupMoments.from_rows(X, labels, weights).second_moments()
    scaled = GroupMoments.from_rows(X, labels, factor * weights).second_moments()
    assert relative_error(scaled, expected) <= 1e-12


@pytest.mark.parametrize("weights", [None, np.linspace(0.1, 1, 3000)])
def test_a_column_that_is_constant_in_a_group_has_no_scatter_there(weights):
    labels = np.arange(3000) % 2
    X = np.random.default_rng(9).standard_normal((3000, 200))
    X[:, 3] = np.where(labels == 0, 0.1, 1e6 + 0.3)
    scatters = GroupMoments.from_rows(X, labels, weights).scatters
    np.testing.assert_array_equal(scatters[:, 3, :], 0)


@pytest.mark.parametrize("weights", [None, np.linspace(0, 1, 60)])
def test_the_rows_are_never_written_to(weights):
    rows = random_rows(2)
    rows.X.setflags(write=False)
    before = rows.X.copy()
    GroupMoments.from_rows(rows.X, rows.labels, weights)
    np.testing.assert_array_equal(rows.X, before)


@pytest.mark.long
def test_memory_beyond_the_input_does_not_grow_with_the_rows():
    n, p = 3_000_000, 50
    numbers = np.random.default_rng(0).standard_normal(n + p - 1)
    X = np.lib.stride_tricks.sliding_window_view(numbers, p)
    labels = (np.arange(n) % 3).astype(np.int8)
    GroupMoments.from_rows(X[:10_000], labels[:10_000])  # imports are not counted
    tracemalloc.start()
    try:
        moments = GroupMoments.from_rows(X, labels)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64e6
    assert moments.counts.tolist() == [n // 3] * 3
    np.testing.assert_allclose(moments.means[1], [X[1::3, j].mean() for j in range(p)], atol=1e-12)


HUGE = {
    "squares": lambda: GroupMoments.from_rows([[1e200, 1.0], [-1e200, 2.0], [0, 0]], list("aab")),
    "sums": lambda: GroupMoments.from_rows([[1.7e308], [-1.7e308], [1.7e308]], list("aab")),
    "constant": lambda: GroupMoments.from_rows([[1e200], [1e200], [1.0]], list("aab")),
    "weighted": lambda: GroupMoments.from_rows([[1e120], [0], [1]], list("aab"), [1e90, 1e90, 1]),
    "float128": lambda: GroupMoments.from_rows(np.array([["1e400"]], dtype="g"), ["a"]),
}


@pytest.mark.parametrize("case", HUGE)
def test_numbers_whose_squares_overflow_are_refused(case):
    with pytest.raises(InvalidInput, match=r"Divide the column|infinity"):
        HUGE[case]()


def test_weights_that_overflow_only_together_are_refused():
    parts = [GroupMoments.from_rows([[0.0], [1.0]], [g, g], [8e307, 8e307]) for g in "ab"]
    with pytest.raises(InvalidInput, match="overflow"):
        parts[0] + parts[1]


def test_numbers_just_below_the_limit_are_taken():
    X = np.array([[1e74], [2e74], [2e74], [1e74]])
    second = GroupMoments.from_rows(X, list("aabb")).second_moments("none")
    np.testing.assert_allclose(second.ravel(), [2.5e148, 2.5e148])
