"""Laws of merging, against one pass and against numpy, and moments that are saved."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fairspan as fs
from fairspan import GroupMoments
from fairspan.errors import InvalidInput, InvalidParameter
from numpy_reference import (
    assert_moments,
    generate_group_rows,
    random_rows,
    reference_moments,
    relative_error,
)

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

    def reference(self):
        return reference_moments(self.X, self.labels, self.weights)


@st.composite
def tables(draw, weighted=None):
    """Multiples of 1/8 up to 1000, so that a scatter is zero or far from rounding."""
    n, p = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    X = draw(arrays(np.int64, (n, p), elements=st.integers(-8000, 8000))) / 8
    labels = np.array(draw(st.lists(st.sampled_from("abcd"), min_size=n, max_size=n)))
    if weighted is None:
        weighted = draw(st.booleans())
    weights = draw(st.lists(st.sampled_from(WEIGHTS), min_size=n, max_size=n)) if weighted else None
    return Table(X, labels, None if weights is None else np.array(weights))


@given(table=tables(), data=st.data())
def test_parts_merged_in_any_order_and_association_equal_one_pass(table, data):
    n = len(table.X)
    owner = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n), "part of row"))
    parts = [table.moments(owner == part) for part in np.unique(owner)]
    while len(parts) > 1:
        left = parts.pop(data.draw(st.integers(0, len(parts) - 1), "left"))
        right = parts.pop(data.draw(st.integers(0, len(parts) - 1), "right"))
        parts.append(left + right)
    assert_moments(parts[0], table.reference())
    assert_moments(parts[0], table.moments())


@given(tables())
def test_one_pass_equals_numpy(table):
    moments = table.moments()
    assert_moments(moments, table.reference(), rtol=1e-12)
    shape = len(set(table.labels)), table.X.shape[1], np.int64
    assert (moments.n_groups, moments.n_features, moments.counts.dtype) == shape


@given(table=tables(), data=st.data())
def test_classes_of_y_are_merged_over_and_merge_themselves(table, data):
    n = len(table.X)
    weights = table.weights
    y = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n), "classes"))
    n_first = data.draw(st.integers(0, n), "first rows")
    both = sum(
        GroupMoments.from_rows(
            table.X[part],
            table.labels[part],
            None if weights is None else weights[part],
            y=y[part],
        )
        for part in (slice(0, n_first), slice(n_first, n))
        if len(table.X[part])
    )
    assert_moments(both, table.reference())
    pairs = list(zip(table.labels.tolist(), y.tolist(), strict=True))
    assert_moments(both.by_class, reference_moments(table.X, pairs, weights))
    again = GroupMoments.from_bytes(both.to_bytes())
    np.testing.assert_array_equal(again.scatters, both.scatters)
    assert again.by_class.labels == both.by_class.labels


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


@given(table=tables(), data=st.data())
def test_order_of_rows_changes_nothing(table, data):
    order = np.array(data.draw(st.permutations(range(len(table.X)))))
    assert_moments(table.moments(order), table.moments())


@given(table=tables(), data=st.data())
def test_new_names_for_the_groups_change_nothing_else(table, data):
    names = dict(zip("abcd", data.draw(st.permutations([10, 20, 30, 40])), strict=True))
    renamed = table.moments(labels=np.array([names[label] for label in table.labels]))
    expected = {names[label]: group for label, group in table.reference().items()}
    assert_moments(renamed, dict(sorted(expected.items())))


@pytest.mark.slow
@given(table=tables(weighted=True), data=st.data())
def test_rows_of_weight_zero_count_as_absent(table, data):
    n = len(table.X)
    absent = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n), "absent"))
    absent[data.draw(st.integers(0, n - 1), "kept")] = False
    with_zeros = Table(table.X, table.labels, np.where(absent, 0.0, table.weights))
    assert_moments(with_zeros.moments(), table.moments(~absent))


@given(table=tables(), seed=st.integers(0, 99))
@pytest.mark.slow
def test_rotated_rows_have_rotated_moments(table, seed):
    p = table.X.shape[1]
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((p, p)))[0]
    rotated = Table(table.X @ Q, table.labels, table.weights).moments()
    for label, (_, _, mean, scatter) in table.reference().items():
        i = rotated.labels.index(label)
        # Turning rounds relative to the rows themselves, not to their spread.
        size = np.abs(table.X).max() or 1.0
        np.testing.assert_allclose(rotated.means[i], mean @ Q, atol=1e-12 * size)
        rounding = 1e-12 * size * np.sqrt(np.trace(scatter) * rotated.weights[i])
        assert np.linalg.norm(rotated.scatters[i] - Q.T @ scatter @ Q) <= rounding + 1e-20 * size**2


@given(
    table=tables(), factor=st.sampled_from([1e-200, 1e-9, 7.0, 1e200]), n_first=st.integers(0, 11)
)
def test_a_common_factor_of_the_weights_changes_no_second_moment(table, factor, n_first):
    weights = np.ones(len(table.X)) if table.weights is None else table.weights
    scaled = Table(table.X, table.labels, factor * weights)
    halves = [
        scaled.moments(rows)
        for rows in (slice(n_first), slice(n_first, None))
        if len(weights[rows])
    ]
    for center in ("global", "group", "none"):
        expected = table.moments().second_moments(center)
        assert relative_error(sum(halves).second_moments(center), expected) <= 1e-9


def test_merging_leaves_both_parts_alone():
    X = np.arange(12.0).reshape(6, 2) ** 2
    one = GroupMoments.from_rows(X[:3], list("aab"))
    other = GroupMoments.from_rows(X[3:], list("abc"))
    total = one + other
    total.scatters[:] = 0
    assert_moments(one, reference_moments(X[:3], "aab"))
    assert_moments(other, reference_moments(X[3:], "abc"))


def test_other_features_or_kinds_of_labels_do_not_merge():
    X = np.arange(6.0).reshape(3, 2)
    labels = list("aab")
    frame = pd.DataFrame(X, columns=["x", "y"])
    moments, from_frame = (GroupMoments.from_rows(rows, labels) for rows in (X, frame))
    # The same features in another order are put in order.
    swapped = GroupMoments.from_rows(frame[["y", "x"]], labels)
    assert_moments(from_frame + swapped, reference_moments(np.vstack([X, X]), labels + labels))
    assert (from_frame + from_frame).feature_names == ("x", "y")
    types = "of different types: 'a', 'b' against"
    for rows, others, message in (
        (np.ones((3, 3)), labels, "2 without names against 3 without names"),
        (frame, labels, "without names against 2 named 'x', 'y'"),
        *((X, other, types) for other in ([1, 1, 2], [True, True, False], [("a", 1)] * 3)),
    ):
        other = GroupMoments.from_rows(rows, others)
        with pytest.raises(InvalidInput, match=message):
            moments + other


@pytest.mark.parametrize("other", [None, 1, 0, "a", np.ones(2)])
def test_only_moments_are_added(other):
    moments = GroupMoments.from_rows(np.ones((2, 2)), ["a", "b"])
    with pytest.raises(TypeError):
        moments + other


WEIGHTED = pytest.mark.parametrize("weighted", [False, True])


@pytest.fixture(scope="module")
def rows():
    return random_rows(3, n=90, p=4, groups=("b", "c", "a"))


def moments_of(rows, weighted):
    weights = rows.weights if weighted else np.ones(len(rows.X))
    return GroupMoments.from_rows(rows.X, rows.labels, weights), weights


@WEIGHTED
def test_figures_of_all_rows(rows, weighted):
    from sklearn.preprocessing import StandardScaler

    moments, weights = moments_of(rows, weighted)
    scaler = StandardScaler().fit(rows.X, sample_weight=weights)
    np.testing.assert_allclose(moments.mean, scaler.mean_)
    np.testing.assert_allclose(moments.standard_deviations, scaler.scale_)
    shares = [weights[rows.labels == label].sum() / weights.sum() for label in "abc"]
    np.testing.assert_allclose(moments.proportions, shares)
    pooled = np.tensordot(moments.proportions, moments.second_moments("global"), axes=1)
    expected = np.cov(rows.X.T, aweights=weights, ddof=0)
    assert relative_error(pooled, expected) <= 1e-12


@WEIGHTED
@pytest.mark.parametrize("center", ["global", "group", "none"])
def test_second_moments_about_each_center(rows, weighted, center):
    moments, weights = moments_of(rows, weighted)
    for label, second in zip(moments.labels, moments.second_moments(center), strict=True):
        in_group = rows.labels == label
        points = {
            "global": np.average(rows.X, axis=0, weights=weights),
            "group": np.average(rows.X[in_group], axis=0, weights=weights[in_group]),
            "none": np.zeros(4),
        }
        centered = rows.X[in_group] - points[center]
        expected = np.average(centered[:, :, None] * centered[:, None], 0, weights[in_group])
        np.testing.assert_allclose(second, expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(second, second.T)


@pytest.mark.parametrize("center", ["median", None, "GLOBAL", 0, ["global"]])
def test_another_center_is_an_error(rows, center):
    moments, _ = moments_of(rows, weighted=False)
    with pytest.raises(InvalidParameter, match="'global', 'group' and 'none'"):
        moments.second_moments(center)


def test_second_moments_are_fresh_each_time(rows):
    moments, _ = moments_of(rows, weighted=False)
    moments.second_moments("group")[:] = 0
    assert_moments(moments, reference_moments(rows.X, rows.labels))


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e6 + 0.1, 1e70])
def test_a_constant_column_has_no_deviation_even_after_merging(rows, value):
    X = rows.X.copy()
    X[:, 2] = value
    parts = [
        GroupMoments.from_rows(X[i : i + 7], rows.labels[i : i + 7], rows.weights[i : i + 7])
        for i in range(0, len(X), 7)
    ]
    deviations = sum(parts).standard_deviations
    assert deviations[2] == 0
    assert (np.delete(deviations, 2) > 0).all()


def test_a_tiny_deviation_is_not_taken_for_zero():
    X = np.array([[1.0], [1.0 + 2**-46], [1.0], [1.0 + 2**-46]])
    moments = GroupMoments.from_rows(X, ["a", "a", "b", "b"])
    np.testing.assert_allclose(moments.standard_deviations, [2**-47], rtol=1e-12)


@WEIGHTED
def test_dividing_moments_is_dividing_rows(rows, weighted):
    moments, weights = moments_of(rows, weighted)
    scale = np.array([0.5, 2.0, 1e3, 7.0])
    divided = GroupMoments.from_rows(rows.X / scale, rows.labels, weights)
    assert_moments(moments.divided_by(scale), divided, rtol=1e-12)


@pytest.mark.parametrize("center", ["global", "group", "none"])
def test_selected_features_have_the_moments_of_selected_columns(rows, center):
    moments, from_reversed = (
        GroupMoments.from_rows(X, rows.labels) for X in (rows.X, rows.X[:, ::-1])
    )
    selected = moments.select_features(np.arange(4)[::-1])
    np.testing.assert_allclose(
        selected.second_moments(center), from_reversed.second_moments(center), rtol=1e-12
    )


def test_repr_names_the_groups():
    moments = GroupMoments.from_rows(np.ones((3, 2)), [("a", 1), ("b", 2), ("a", 1)])
    assert repr(moments) == "<GroupMoments of 2 features, rows by group: a / 1: 2, b / 2: 1>"


LABELS = {
    "text": ["ß", "", "a b"],
    "whole": [-3, 2**40, 7],
    "huge whole": [2**70, -1, 0],
    "real": [0.1, 1e300, -2.0],
    "truth": [True, False],
    "crossed": [("a", 1, True), ("a", 2, True), ("b", 1, False)],
}


@pytest.fixture
def moments_on_disk(tmp_path):
    rows = random_rows(5)
    moments = GroupMoments.from_rows(rows.X, rows.labels, rows.weights)
    moments.save(tmp_path / "out")
    return moments, tmp_path / "out"


def test_arrays_of_whole_numbers_far_apart_are_labels_too():
    groups = np.array([2**62, -(2**62), 7] * 4)
    moments = GroupMoments.from_rows(np.random.default_rng(0).normal(size=(12, 3)), groups)
    assert moments.labels == [-(2**62), 7, 2**62]
    assert moments.counts.tolist() == [4, 4, 4]


@pytest.mark.parametrize("kind", LABELS)
def test_labels_keep_value_and_type(tmp_path, kind):
    labels = LABELS[kind] * 4
    X = np.random.default_rng(0).standard_normal((len(labels), 3))
    GroupMoments.from_rows(X, labels).save(tmp_path / "out")
    copy = GroupMoments.load(tmp_path / "out")
    assert_moments(copy, reference_moments(X, labels))
    assert copy.labels == sorted(LABELS[kind])
    assert [repr(label) for label in copy.labels] == list(map(repr, sorted(LABELS[kind])))


def test_every_number_is_the_same_bit_for_bit(moments_on_disk):
    moments, path = moments_on_disk
    copy = GroupMoments.load(path)
    for name in ("groups", "counts", "weights", "means", "scatters"):
        one, other = getattr(copy, name), getattr(moments, name)
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())
    assert copy.feature_names is None


def test_feature_names_are_kept(tmp_path):
    frame = pd.DataFrame({"größe": [1.0, 2.0], "b": [0.0, 1.0]})
    GroupMoments.from_rows(frame, [1, 2]).save(tmp_path / "out")
    assert GroupMoments.load(tmp_path / "out").feature_names == ("größe", "b")


def test_loading_never_unpickles(moments_on_disk, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("pickle was used")

    for name in ("pickle.load", "pickle.loads", "pickle.dump", "pickle.dumps"):
        monkeypatch.setattr(name, refuse)
    moments, path = moments_on_disk
    moments.save(path)
    GroupMoments.load(path)


def shear(moments):
    """Return a matrix with a single entry above the diagonal."""
    return np.roll(np.diag([5.0, *[0.0] * (moments.n_features - 1)]), 1, 1)


@pytest.mark.parametrize(
    ("alter", "because"),
    [
        (lambda moments: {"scatters": -moments.scatters}, "group 'a' has a negative eigenvalue"),
        (
            lambda moments: {"scatters": moments.scatters - 1e3 * (1 - np.eye(moments.n_features))},
            "negative eigenvalue",
        ),
        (lambda moments: {"scatters": moments.scatters + shear(moments)}, "'a' is not symmetric"),
        (lambda moments: {"scatters": moments.scatters[:1]}, "scatters has shape"),
        (lambda moments: {"means": np.nan * moments.means}, "means contains NaN"),
        (lambda moments: {"counts": -moments.counts}, "counts are -"),
        (lambda moments: {"weights": 0 * moments.weights}, "weights are 0.0"),
        (lambda moments: {"groups": np.array(["a", "a"])}, "groups are 'a', 'a'"),
        (lambda moments: {"groups": moments.groups[::-1]}, "groups are 'b', 'a'"),
    ],
)
def test_moments_that_no_rows_have(alter, because):
    moments = GroupMoments.from_rows(*generate_group_rows())
    with pytest.raises(InvalidInput, match=because):
        replace(moments, **alter(moments))


COVARIANCES = np.array([np.diag([2.0, 1.0, 0.0]), np.diag([1.0, 3.0, 2.0])])
COVARIANCES[0, :2, :2] += 0.5 - np.eye(2) / 2


@WEIGHTED
def test_covariances_give_the_moments_and_the_fit_of_rows_that_have_them(rows, weighted):
    moments, _ = moments_of(rows, weighted)
    order = [2, 0, 1]
    from_covariances = GroupMoments.from_covariances(
        moments.second_moments("group")[order],
        moments.means[order],
        moments.weights[order],
        ["c", "a", "b"],
    )
    assert from_covariances.counts.tolist() == [0, 0, 0]
    assert_moments(replace(from_covariances, counts=moments.counts), moments, rtol=1e-14)
    one, other = (
        fs.FairPCA(2).fit_moments(moments_of_fit) for moments_of_fit in (from_covariances, moments)
    )
    np.testing.assert_allclose(one.group_errors_, other.group_errors_, rtol=1e-9)
    assert fs.verify(one, from_covariances).holds


def test_covariances_alone_have_one_weight_each_and_no_mean():
    moments = GroupMoments.from_covariances(COVARIANCES)
    assert (moments.labels, moments.weights.tolist()) == ([0, 1], [1, 1])
    assert not moments.means.any()
    np.testing.assert_array_equal(moments.second_moments(), COVARIANCES)


def test_the_number_of_rows_behind_covariances_is_reported_nowhere(tmp_path):
    moments = GroupMoments.from_covariances(COVARIANCES, groups=["a", "b"])
    moments.save(tmp_path / "out")
    copy = GroupMoments.load(tmp_path / "out")
    assert copy.counts.tolist() == [0, 0]
    assert "a: unknown, b: unknown" in repr(copy)
    assert "unknown" in copy._repr_html_()
    model = fs.FairPCA(1).fit_moments(copy)
    result = fs.audit(model, moments=copy)
    for group in result.models[0].groups:
        assert (group.n_rows, group.observed_error.low, group.expected_error.low) == (0, None, None)
        assert np.isnan(group.expected_error.value)
    assert "0 rows" not in str(result)
    assert ["a", "-"] in [line.split()[:2] for line in str(result).splitlines()]
    from_rows = GroupMoments.from_rows(np.arange(12.0).reshape(4, 3) ** 2, ["b", "c", "b", "c"])
    total = copy + from_rows
    assert total.labels == ["a", "b", "c"]
    # Of b, not all rows are known.
    assert [total.counts.tolist(), total.weights.tolist()] == [[0, 0, 2], [1, 3, 2]]
    with pytest.raises(InvalidInput, match="No group has 1 row;"):
        copy.drop_small_groups(1)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"covariances": "text"}, "not numbers"),
        ({"covariances": COVARIANCES[0]}, r"covariances has shape \(3, 3\)"),
        ({"covariances": COVARIANCES[:, :2]}, r"shape \(2, 2, 3\), not \(2, 2, 2\)"),
        ({"covariances": np.zeros((0, 3, 3))}, "shape"),
        ({"covariances": COVARIANCES + np.inf}, "covariances contains NaN or infinity"),
        ({"covariances": COVARIANCES + np.triu(np.ones((3, 3)), 1)}, "'a' is not symmetric"),
        ({"covariances": COVARIANCES - np.eye(3)}, "'a' has a negative eigenvalue"),
        ({"means": np.zeros((3, 2))}, r"means has shape \(3, 2\), not \(2, 3\)"),
        ({"means": [[0, 0, np.nan]] * 2}, "means contains NaN"),
        ({"weights": [1, 0]}, "weights are 1.0, 0.0"),
        ({"weights": [1]}, "weights has shape"),
        ({"groups": ["a", "a"]}, "groups are 'a', 'a'"),
        ({"groups": ["a", "b", "c"]}, "groups are 'a', 'b', 'c'"),
        ({"groups": ["a", None]}, "missing"),
        ({"groups": ["a", 1]}, "mix"),
    ],
)
def test_covariances_that_no_rows_have_are_refused(change, match):
    arguments = {"covariances": COVARIANCES, "groups": ["a", "b"], **change}
    with np.errstate(invalid="ignore"), pytest.raises(InvalidInput, match=match):
        GroupMoments.from_covariances(**arguments)
