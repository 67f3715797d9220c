"""Laws of merging, each against one pass and against numpy on the raw rows."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from by_hand import assert_moments, moments_by_hand, relative_error
from fairspan import GroupMoments
from fairspan.errors import InvalidInput

laws = settings(derandomize=True, deadline=None, max_examples=80)

WEIGHTS = (0.001, 0.5, 1.0, 2.0, 3.25, 100.0)


@dataclass(frozen=True)
class Table:
    X: np.ndarray
    labels: np.ndarray
    weights: np.ndarray | None

    def moments(self, rows=slice(None), labels=None):
        weights = None if self.weights is None else self.weights[rows]
        return GroupMoments.from_rows(
            self.X[rows], (self.labels if labels is None else labels)[rows], weights
        )

    def by_hand(self):
        return moments_by_hand(self.X, self.labels, self.weights)


@st.composite
def tables(draw, weighted=None):
    """Multiples of 1/8 up to 1000, so that a scatter is zero or far from rounding."""
    n, p = draw(st.integers(1, 24)), draw(st.integers(1, 4))
    X = draw(arrays(np.int64, (n, p), elements=st.integers(-8000, 8000))) / 8
    labels = np.array(draw(st.lists(st.sampled_from("abcd"), min_size=n, max_size=n)))
    if weighted is None:
        weighted = draw(st.booleans())
    weights = draw(st.lists(st.sampled_from(WEIGHTS), min_size=n, max_size=n)) if weighted else None
    return Table(X, labels, None if weights is None else np.array(weights))


@laws
@given(table=tables(), data=st.data())
def test_parts_merged_in_any_order_and_association_equal_one_pass(table, data):
    n = len(table.X)
    owner = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n), "part of row"))
    parts = [table.moments(owner == part) for part in np.unique(owner)]
    while len(parts) > 1:
        left = parts.pop(data.draw(st.integers(0, len(parts) - 1), "left"))
        right = parts.pop(data.draw(st.integers(0, len(parts) - 1), "right"))
        parts.append(left + right)
    assert_moments(parts[0], table.by_hand())
    assert_moments(parts[0], table.moments())


@laws
@given(tables())
def test_one_pass_equals_numpy(table):
    assert_moments(table.moments(), table.by_hand())


@laws
@given(table=tables(), data=st.data())
def test_classes_of_y_are_merged_over_and_merge_themselves(table, data):
    n, weights = len(table.X), table.weights
    y = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n), "classes"))
    cut = data.draw(st.integers(0, n), "first rows")
    parts = [
        GroupMoments.from_rows(
            table.X[own],
            table.labels[own],
            None if weights is None else weights[own],
            labels=y[own],
        )
        for own in (slice(0, cut), slice(cut, n))
        if len(table.X[own])
    ]
    both = sum(parts)
    assert_moments(both, table.by_hand())
    pairs = list(zip(table.labels.tolist(), y.tolist(), strict=True))
    assert_moments(both.by_label, moments_by_hand(table.X, pairs, weights))
    again = GroupMoments.from_bytes(both.to_bytes())
    np.testing.assert_array_equal(again.scatters, both.scatters)
    assert again.by_label.labels == both.by_label.labels


@laws
@given(tables())
def test_duplicated_rows_are_doubled_weights(table):
    twice = Table(
        np.tile(table.X, (2, 1)),
        np.tile(table.labels, 2),
        None if table.weights is None else np.tile(table.weights, 2),
    ).moments()
    weights = np.ones(len(table.X)) if table.weights is None else table.weights
    doubled = Table(table.X, table.labels, 2 * weights).moments()
    np.testing.assert_array_equal(twice.counts, 2 * doubled.counts)
    np.testing.assert_allclose(twice.weights, doubled.weights, rtol=1e-12)
    assert relative_error(twice.means, doubled.means) <= 1e-9
    assert relative_error(twice.scatters, doubled.scatters) <= 1e-9


@laws
@given(table=tables(), data=st.data())
def test_order_of_rows_changes_nothing(table, data):
    order = np.array(data.draw(st.permutations(range(len(table.X)))))
    assert_moments(table.moments(order), table.moments())


@laws
@given(table=tables(), data=st.data())
def test_new_names_for_the_groups_change_nothing_else(table, data):
    names = dict(zip("abcd", data.draw(st.permutations([10, 20, 30, 40])), strict=True))
    renamed = table.moments(labels=np.array([names[label] for label in table.labels]))
    expected = {names[label]: group for label, group in table.by_hand().items()}
    assert_moments(renamed, dict(sorted(expected.items())))


@laws
@given(table=tables(weighted=True), data=st.data())
def test_rows_of_weight_zero_count_as_absent(table, data):
    n = len(table.X)
    absent = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n), "absent"))
    absent[data.draw(st.integers(0, n - 1), "kept")] = False
    with_zeros = Table(table.X, table.labels, np.where(absent, 0.0, table.weights))
    assert_moments(with_zeros.moments(), table.moments(~absent))


@laws
@given(table=tables(), seed=st.integers(0, 99))
def test_rotated_rows_have_rotated_moments(table, seed):
    p = table.X.shape[1]
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((p, p)))[0]
    turned = Table(table.X @ Q, table.labels, table.weights).moments()
    for label, (_, _, mean, scatter) in table.by_hand().items():
        i = turned.labels.index(label)
        # Turning rounds relative to the rows themselves, not to their spread.
        size = np.abs(table.X).max() or 1.0
        np.testing.assert_allclose(turned.means[i], mean @ Q, atol=1e-12 * size)
        rounding = 1e-12 * size * np.sqrt(np.trace(scatter) * turned.weights[i])
        assert np.linalg.norm(turned.scatters[i] - Q.T @ scatter @ Q) <= rounding + 1e-20 * size**2


@laws
@given(table=tables(), factor=st.sampled_from([1e-200, 1e-9, 7.0, 1e200]), cut=st.integers(0, 23))
def test_a_common_factor_of_the_weights_changes_no_second_moment(table, factor, cut):
    weights = np.ones(len(table.X)) if table.weights is None else table.weights
    scaled = Table(table.X, table.labels, factor * weights)
    halves = [scaled.moments(rows) for rows in (slice(cut), slice(cut, None)) if len(weights[rows])]
    for center in ("global", "group", "none"):
        expected = table.moments().second_moments(center)
        assert relative_error(sum(halves).second_moments(center), expected) <= 1e-9


def test_sum_merges_a_list():
    X, labels = np.arange(12.0).reshape(6, 2) ** 2, list("ababca")
    parts = [GroupMoments.from_rows(X[i : i + 2], labels[i : i + 2]) for i in (0, 2, 4)]
    assert_moments(sum(parts), moments_by_hand(X, labels))


def test_merging_leaves_both_parts_alone():
    X = np.arange(12.0).reshape(6, 2) ** 2
    one = GroupMoments.from_rows(X[:3], list("aab"))
    other = GroupMoments.from_rows(X[3:], list("abc"))
    merged = one + other
    merged.scatters[:] = 0
    assert_moments(one, moments_by_hand(X[:3], "aab"))
    assert_moments(other, moments_by_hand(X[3:], "abc"))


def test_other_features_or_kinds_of_labels_do_not_merge():
    pandas = pytest.importorskip("pandas")
    X, labels = np.arange(6.0).reshape(3, 2), list("aab")
    moments = GroupMoments.from_rows(X, labels)
    named = GroupMoments.from_rows(pandas.DataFrame(X, columns=["x", "y"]), labels)
    wider = GroupMoments.from_rows(np.ones((3, 3)), labels)
    with pytest.raises(InvalidInput, match="2 without names against 3 without names"):
        moments + wider
    with pytest.raises(InvalidInput, match="without names against 2 named 'x', 'y'"):
        moments + named
    # The same features in another order are put in order.
    swapped = GroupMoments.from_rows(pandas.DataFrame(X[:, ::-1], columns=["y", "x"]), labels)
    assert_moments(named + swapped, moments_by_hand(np.vstack([X, X]), labels + labels))
    for others in ([1, 1, 2], [True, True, False], [("a", 1)] * 3):
        with pytest.raises(InvalidInput, match="of different types: 'a', 'b' against"):
            moments + GroupMoments.from_rows(X, others)
    assert (named + named).feature_names == ("x", "y")


@pytest.mark.parametrize("other", [None, 1, 0, "a", np.ones(2)])
def test_only_moments_are_added(other):
    moments = GroupMoments.from_rows(np.ones((2, 2)), ["a", "b"])
    with pytest.raises(TypeError):
        moments + other
