"""Moments of rows that are fewer than their features: what they tell without matrices."""

import pickle

import numpy as np
import pandas as pd
import pytest

from by_hand import assert_moments, moments_by_hand, random_rows, relative_error
from fairspan import GroupMoments
from fairspan.moments.held_rows.thin_moments import ThinMoments
from fairspan.moments.of_rows import THIN_BEYOND, moments_of
from fairspan.rows.registry import rows_of

WIDE = random_rows(0, n=9, p=30)


@pytest.fixture
def few_features_are_many(monkeypatch):
    monkeypatch.setattr("fairspan.moments.of_rows.THIN_BEYOND", 5)


def thin(X, labels, weights=None):
    moments = moments_of(rows_of(X, labels, weights))
    assert isinstance(moments, ThinMoments)
    return moments


@pytest.mark.usefixtures("few_features_are_many")
@pytest.mark.parametrize("weights", [None, WIDE.weights, np.arange(9.0) % 4])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, bool])
@pytest.mark.parametrize("order", ["C", "F"])
def test_means_variances_and_matrices(order, dtype, weights):
    X = np.asarray(WIDE.X.astype(dtype), order=order)
    moments = thin(X, WIDE.labels, weights)
    expected = moments_by_hand(X, WIDE.labels, weights)
    assert_moments(moments.matrices(), expected)
    known = GroupMoments.from_rows(X, WIDE.labels, weights)
    assert relative_error(moments.means, known.means) <= 1e-13
    assert relative_error(moments.mean, known.mean) <= 1e-13
    assert relative_error(moments.variances, known.variances) <= 1e-12
    assert relative_error(moments.scatters, known.scatters) <= 1e-12
    assert relative_error(moments.standard_deviations, known.standard_deviations) <= 1e-12
    scale = np.linspace(0.5, 3, 30)
    scaled = moments.divided_by(scale).divided_by(1 / scale[::-1])
    divided = known.divided_by(scale / scale[::-1])
    assert_moments(scaled.matrices(), divided)
    assert relative_error(scaled.variances, divided.variances) <= 1e-12


@pytest.mark.usefixtures("few_features_are_many")
def test_a_column_of_equal_numbers_has_no_variance():
    X = WIDE.X + 1e6
    X[:, 3] = 0.1 + 1e6
    moments = thin(X, WIDE.labels, WIDE.weights)
    assert moments.standard_deviations[3] == 0
    assert (np.delete(moments.standard_deviations, 3) > 0).all()


@pytest.mark.usefixtures("few_features_are_many")
@pytest.mark.parametrize("d", [1, 5, 8, 9, 25, 30])
@pytest.mark.parametrize("center", ["global", "group", "none"])
def test_coordinates_hold_all_that_a_subspace_of_any_dimension_can_want(center, d):
    moments = thin(WIDE.X, WIDE.labels)
    posed = moments.in_coordinates(d, center)
    known = moments.matrices().second_moments(center)
    inside = posed.frame.moments.operator_about(posed.point)
    assert posed.frame.moments.n_features <= 2 * (9 + 1)
    # The sum of the d largest eigenvalues of any mixture, also of negative weights.
    for weights in ([1.0, 0.0], [0.0, 1.0], [0.4, 0.6], [1.0, -1.0], [-2.0, 1.0], [-1.0, -1.0]):
        values = np.sort(np.linalg.eigvalsh(np.tensordot(weights, known, axes=1)))[::-1]
        found = inside.leading(np.array(weights), posed.n_components)
        size = np.abs(values).sum()
        assert abs(found.top_eigenvalue_sum - values[:d].sum()) <= 1e-12 * size
        lifted = posed.in_features(found.vectors, posed.n_components)
        np.testing.assert_allclose(lifted.T @ lifted, np.eye(d), atol=1e-12)
        captured = np.einsum("ij,gik,kj->g", lifted, known, lifted)
        assert abs(weights @ captured - values[:d].sum()) <= 1e-12 * size


@pytest.mark.usefixtures("few_features_are_many")
def test_labels_of_several_attributes_in_the_order_of_matrices():
    frame = pd.DataFrame(WIDE.X, columns=[f"f{i}" for i in range(30)])
    frame = frame.assign(sex=list("mfmfmfmff"), old=[True, False, False] * 3, w=WIDE.weights)
    moments = thin(frame, ["sex", "old"], "w")
    known = GroupMoments.from_rows(frame, ["sex", "old"], "w")
    assert moments.labels == known.labels
    assert moments.feature_names == known.feature_names
    assert_moments(moments.matrices(), known)
    assert repr(moments).startswith("<ThinMoments of 30 features, rows by group: f / ")
    again = pickle.loads(pickle.dumps(moments))
    np.testing.assert_array_equal(again.means, moments.means)


def test_which_rows_stay(monkeypatch):
    X, labels = WIDE.X, WIDE.labels
    assert THIN_BEYOND == 500
    assert isinstance(moments_of(rows_of(X, labels)), GroupMoments)
    monkeypatch.setattr("fairspan.moments.of_rows.THIN_BEYOND", 5)
    assert isinstance(moments_of(rows_of(X, labels)), ThinMoments)
    assert isinstance(moments_of(rows_of(X[:, :11], labels)), GroupMoments)
    assert isinstance(moments_of(rows_of(X, labels, None, "drop")), GroupMoments)
