"""Moments without centring the rows: as exact as from the rows."""

import numpy as np
import pytest

from fairspan import GroupMoments
from fairspan.errors import InvalidInput
from numpy_reference import reference_moments

RNG = np.random.default_rng(0)
N = 700
GROUPS = RNG.choice(["a", "b", "c"], N, p=[0.6, 0.3, 0.1])


def reference_means_and_scatters(X, groups):
    """Means and scatters of each group, summed with more digits."""
    _, _, means, scatters = zip(
        *reference_moments(X, groups, dtype=np.longdouble).values(), strict=True
    )
    return np.array(means, dtype=float), np.array(scatters, dtype=float)


def tables():
    normal = RNG.standard_normal((N, 6))
    is_a = (GROUPS == "a").astype(float)
    yield "standardized", normal
    yield "far from zero", normal + 1e6
    yield "far apart", normal + 1e5 * np.array([ord(group) for group in GROUPS])[:, None]
    yield "one group only varies", normal * np.where(is_a, 1.0, 1e-7)[:, None]
    yield "the others only vary", normal * np.where(is_a, 1e-7, 1.0)[:, None]
    yield "constant in a group", np.column_stack([normal, is_a, 1 - is_a, 3.7 * is_a])
    yield "constant", np.column_stack([normal, np.full(N, 0.1), np.zeros(N)])
    yield "an outlier", np.vstack([normal[:-1], np.full(6, 1e9)])
    yield "outlier first", np.vstack([np.full(6, 1e9), normal[1:]])
    yield "whole numbers", RNG.integers(0, 50, (N, 6))
    yield "truth values", RNG.random((N, 6)) < 0.1
    yield "single precision", (normal + 3).astype(np.float32)
    yield "columns side by side", np.asfortranarray(normal)
    yield "every other row and column", np.repeat(np.repeat(normal, 2, 0), 2, 1)[::2, ::2]


TABLES = dict(tables())


@pytest.mark.parametrize("few", [0, 128])
@pytest.mark.parametrize("name", TABLES)
def test_no_digits_are_lost(name, few, monkeypatch):
    monkeypatch.setattr("fairspan.moments.accumulate.MAX_MEMORY_BOUND_FEATURES", few)
    X = TABLES[name]
    moments = GroupMoments.from_rows(X, GROUPS)
    means, scatters = reference_means_and_scatters(X, GROUPS)
    deviations = np.sqrt(np.einsum("gii->gi", scatters))
    tolerance = 1e-12 * deviations[:, :, None] * deviations[:, None, :]
    # Deviations that cannot be distinguished from zero at this distance from zero.
    sizes = np.abs(means)[:, :, None] * 1e-13 * np.sqrt(N)
    assert (np.abs(moments.scatters - scatters) <= tolerance + sizes * sizes.swapaxes(1, 2)).all()
    np.testing.assert_allclose(moments.means, means, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(moments.scatters, moments.scatters.swapaxes(1, 2))


def test_rows_of_many_groups_are_sorted():
    X = TABLES["standardized"]
    groups = np.arange(N) % 60
    moments = GroupMoments.from_rows(X, groups)
    np.testing.assert_allclose(
        moments.scatters, reference_means_and_scatters(X, groups)[1], atol=1e-12
    )


def test_parts_and_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr("fairspan.moments.accumulate._SPAN_ENTRIES", 600)
    X = TABLES["standardized"]
    together = GroupMoments.from_rows(X, GROUPS)
    monkeypatch.setattr(
        "fairspan.moments.accumulate.map_in_threads",
        lambda function, items: list(map(function, items)),
    )
    alone = GroupMoments.from_rows(X, GROUPS)
    np.testing.assert_array_equal(together.scatters, alone.scatters)
    np.testing.assert_array_equal(together.means, alone.means)
    np.testing.assert_allclose(
        together.scatters, reference_means_and_scatters(X, GROUPS)[1], atol=1e-10
    )


def test_the_first_mistake_in_the_order_of_rows_is_reported():
    X = np.ones((10, 2))
    labels = np.array(["a"] * 10, dtype=object)
    X[7, 1], labels[4] = np.nan, None
    for rows, groups, message in (
        (X, labels, r"row 8 \(index 7\), column 2"),
        (np.ones((10, 2)), labels, r"row 5 \(index 4\) is missing"),
        (np.resize([1e200, -1e200, 1e200], (10, 2)), ["a"] * 10, "Divide the column"),
    ):
        with pytest.raises(InvalidInput, match=message):
            GroupMoments.from_rows(rows, groups)
