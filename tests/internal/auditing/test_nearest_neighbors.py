"""Clusters of rows in any order, found by the distances between near neighbors."""

import numpy as np
import pytest

from fairspan.auditing.nearest_neighbors import MIN_NEIGHBOR_JUMP, neighbor_jump

N_FEATURES = 20


def rotate_rows(rows, rng):
    """Rows with variances 1, 1/2, 1/3, ... along random directions."""
    p = rows.shape[1]
    return rows / np.sqrt(np.arange(1, p + 1)) @ np.linalg.qr(rng.normal(size=(p, p)))[0]


def normal_rows(rng, n):
    return rotate_rows(rng.normal(size=(n, N_FEATURES)), rng)


def long_tailed_rows(rng, n):
    return normal_rows(rng, n) / np.sqrt(rng.chisquare(3, size=(n, 1)))


def lognormal_rows(rng, n):
    return np.exp(normal_rows(rng, n))


def few_kinds_of_rows(rng, n):
    kinds = 3 * rng.normal(size=(3, N_FEATURES))
    return rng.normal(size=(n, N_FEATURES)) + kinds[rng.integers(3, size=n)]


def duplicated_rows(rng, n):
    return np.repeat(normal_rows(rng, n // 2), 2, axis=0)


def clustered_rows(rng, n, size, correlation):
    shared = np.repeat(rng.normal(size=(n // size, N_FEATURES)), size, axis=0)
    noise = rng.normal(size=shared.shape)
    rows = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * noise
    return rng.permutation(rotate_rows(rows, rng))


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw_rows",
    [normal_rows, long_tailed_rows, lognormal_rows, few_kinds_of_rows, duplicated_rows],
)
@pytest.mark.parametrize("n", [120, 200, 600])
def test_independent_rows_have_no_jump(draw_rows, n):
    rng = np.random.default_rng(5699)
    jumps = [neighbor_jump(draw_rows(rng, n)) for _ in range(10)]
    assert not np.any(np.array(jumps) > MIN_NEIGHBOR_JUMP)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "correlation"), [(10, 0.8), (3, 0.9)])
@pytest.mark.parametrize("n", [200, 600])
def test_shuffled_clusters_are_found(n, size, correlation):
    rng = np.random.default_rng(5698)
    rows = [clustered_rows(rng, n, size, correlation) for _ in range(10)]
    assert all(neighbor_jump(draw) > MIN_NEIGHBOR_JUMP for draw in rows)


def test_units_and_order_change_nothing():
    rng = np.random.default_rng(2)
    rows = clustered_rows(rng, 200, 10, 0.8)
    jump = neighbor_jump(rows)
    assert neighbor_jump(np.exp(rows) * 1e6) == pytest.approx(jump)
    assert neighbor_jump(rng.permutation(rows)) == pytest.approx(jump)


@pytest.mark.parametrize(
    "rows",
    [
        np.random.default_rng(3).normal(size=(99, 5)),
        np.random.default_rng(3).normal(size=(300, 3)),
        np.random.default_rng(3).integers(0, 9, size=(300, 9)).astype(float),
        np.empty((0, 5)),
    ],
)
def test_too_little_to_tell_is_nan(rows):
    assert np.isnan(neighbor_jump(rows))
