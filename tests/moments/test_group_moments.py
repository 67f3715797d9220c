import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from by_hand import assert_moments, moments_by_hand, random_rows, relative_error
from fairspan import GroupMoments
from fairspan.errors import InvalidParameter

WEIGHTED = pytest.mark.parametrize("weighted", [False, True])


@pytest.fixture(scope="module")
def rows():
    return random_rows(3, n=90, p=4, groups=("b", "c", "a"))


def moments_of(rows, weighted):
    weights = rows.weights if weighted else None
    return GroupMoments.from_rows(rows.X, rows.labels, weights), weights


def about(X, point, weights):
    centred = X - point
    return (centred * weights[:, None]).T @ centred / weights.sum()


@WEIGHTED
def test_moments_are_those_of_numpy(rows, weighted):
    moments, weights = moments_of(rows, weighted)
    assert moments.labels == ["a", "b", "c"]
    assert moments.n_groups == 3
    assert moments.n_features == 4
    assert moments.counts.dtype == np.int64
    assert_moments(moments, moments_by_hand(rows.X, rows.labels, weights), rtol=1e-12)


@WEIGHTED
def test_pooled_mean_and_proportions(rows, weighted):
    moments, weights = moments_of(rows, weighted)
    weights = np.ones(len(rows.X)) if weights is None else weights
    np.testing.assert_allclose(moments.mean, np.average(rows.X, axis=0, weights=weights))
    shares = [weights[rows.labels == label].sum() / weights.sum() for label in "abc"]
    np.testing.assert_allclose(moments.proportions, shares)


@WEIGHTED
@pytest.mark.parametrize("center", ["global", "group", "none"])
def test_second_moments_about_each_centre(rows, weighted, center):
    moments, weights = moments_of(rows, weighted)
    weights = np.ones(len(rows.X)) if weights is None else weights
    for label, second in zip(moments.labels, moments.second_moments(center), strict=True):
        own = rows.labels == label
        points = {
            "global": np.average(rows.X, axis=0, weights=weights),
            "group": np.average(rows.X[own], axis=0, weights=weights[own]),
            "none": np.zeros(4),
        }
        expected = about(rows.X[own], points[center], weights[own])
        np.testing.assert_allclose(second, expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(second, second.T)


@WEIGHTED
def test_pooled_second_moments_are_the_covariance_of_all_rows(rows, weighted):
    moments, weights = moments_of(rows, weighted)
    pooled = np.tensordot(moments.proportions, moments.second_moments("global"), axes=1)
    expected = np.cov(rows.X.T, aweights=weights, ddof=0)
    assert relative_error(pooled, expected) <= 1e-12


@pytest.mark.parametrize("center", ["median", None, "GLOBAL", 0, ["global"]])
def test_another_centre_is_an_error(rows, center):
    moments, _ = moments_of(rows, weighted=False)
    with pytest.raises(InvalidParameter, match="'global', 'group' and 'none'"):
        moments.second_moments(center)


def test_second_moments_are_fresh_each_time(rows):
    moments, _ = moments_of(rows, weighted=False)
    moments.second_moments("group")[:] = 0
    assert_moments(moments, moments_by_hand(rows.X, rows.labels))


@WEIGHTED
def test_standard_deviations_are_those_of_scikit_learn(rows, weighted):
    moments, weights = moments_of(rows, weighted)
    scaler = StandardScaler().fit(rows.X, sample_weight=weights)
    np.testing.assert_allclose(moments.standard_deviations, scaler.scale_)


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
    X, labels = rows.X, rows.labels
    order = np.arange(X.shape[1])[::-1]
    selected = GroupMoments.from_rows(X, labels).selected(order)
    expected = GroupMoments.from_rows(X[:, order], labels)
    np.testing.assert_allclose(
        selected.second_moments(center), expected.second_moments(center), rtol=1e-12
    )


def test_a_group_of_one_row_has_no_scatter():
    moments = GroupMoments.from_rows([[1.0, 2.0], [3.0, 5.0], [4.0, 4.0]], ["a", "b", "b"])
    np.testing.assert_array_equal(moments.scatters[0], np.zeros((2, 2)))
    np.testing.assert_array_equal(moments.means[0], [1.0, 2.0])


def test_repr_names_the_groups():
    moments = GroupMoments.from_rows(np.ones((3, 2)), [("a", 1), ("b", 2), ("a", 1)])
    assert repr(moments) == "<GroupMoments of 2 features, rows by group: a / 1: 2, b / 2: 1>"
