"""Fits that must agree: with PCA, with standardized rows, in pieces, from moments, by weights."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from by_hand import projector_distance, random_rows
from fairspan import FairPCA, GroupMoments, MeanParity, RobustErrorGap
from fairspan.errors import FairspanWarning

ROWS = random_rows(31, n=120, p=6)
THREE = random_rows(32, n=120, p=6, groups=("c", "a", "b"))
CRITERIA = pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error", "total_error"])


def fit(rows=ROWS, n_components=2, weights=None, **settings):
    estimator = FairPCA(n_components, **settings)
    return estimator.fit(rows.X, sensitive_features=rows.labels, sample_weight=weights)


def same_fit(one, other, tolerance=1e-9):
    assert projector_distance(one.components_, other.components_) <= tolerance
    np.testing.assert_allclose(one.group_errors_, other.group_errors_, rtol=tolerance)
    np.testing.assert_allclose(one.explained_variance_, other.explained_variance_, rtol=tolerance)
    np.testing.assert_allclose(one.mean_, other.mean_, rtol=tolerance, atol=tolerance)


@CRITERIA
def test_scaling_is_fitting_on_standardized_rows(criterion):
    scaler = StandardScaler().fit(ROWS.X)
    scaled = fit(criterion=criterion, scale=True)
    np.testing.assert_allclose(scaled.scale_, scaler.scale_)
    standardized = type(ROWS)(scaler.transform(ROWS.X), ROWS.labels, ROWS.weights)
    other = fit(standardized, criterion=criterion)
    assert projector_distance(scaled.components_, other.components_) <= 1e-8
    np.testing.assert_allclose(scaled.group_errors_, other.group_errors_, rtol=1e-8)
    np.testing.assert_allclose(
        scaled.transform(ROWS.X), other.transform(standardized.X), atol=1e-7, rtol=1e-7
    )


@pytest.mark.parametrize("d", [1, 3, 6])
def test_without_groups_on_purpose_it_is_pca(d):
    model = FairPCA(d, missing_groups="ignore").fit(ROWS.X)
    pca = PCA(d).fit(ROWS.X)
    assert projector_distance(model.components_, pca.components_) <= 1e-8
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_ * 119 / 120)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_)
    np.testing.assert_allclose(np.abs(model.transform(ROWS.X)), np.abs(pca.transform(ROWS.X)))
    assert model.groups_.tolist() == ["all"]
    assert model.disparity_ == 0


def test_one_group_is_pca_with_a_warning():
    with pytest.warns(FairspanWarning, match=r"one group \('a'\).*ordinary PCA"):
        model = FairPCA(2).fit(ROWS.X, sensitive_features=["a"] * 120)
    assert projector_distance(model.components_, PCA(2).fit(ROWS.X).components_) <= 1e-8
    np.testing.assert_allclose(model.group_losses_, [0], atol=1e-9)


@pytest.mark.parametrize("rows", [ROWS, THREE], ids=["two groups", "three groups"])
def test_total_error_is_pca(rows):
    model = fit(rows, criterion="total_error")
    assert projector_distance(model.components_, PCA(2).fit(rows.X).components_) <= 1e-8


@CRITERIA
@pytest.mark.parametrize("d", [1, 2, 5])
def test_groups_of_the_same_rows_get_pca(criterion, d):
    X = np.vstack([ROWS.X, ROWS.X])
    labels = np.repeat(["a", "b"], 120)
    model = FairPCA(d, criterion=criterion).fit(X, sensitive_features=labels)
    assert projector_distance(model.components_, PCA(d).fit(ROWS.X).components_) <= 1e-8
    np.testing.assert_allclose(model.group_losses_, 0, atol=1e-9)
    assert model.disparity_ == pytest.approx(0, abs=1e-9)


def test_the_fair_optimum_is_fairer_than_pca():
    fair, pca = fit(), fit(criterion="total_error")
    assert fair.group_losses_.max() < 0.95 * pca.group_losses_.max()
    # At an optimum inside the trade-off both groups lose the same.
    assert fair.group_losses_[0] == pytest.approx(fair.group_losses_[1], rel=1e-6)


def test_rows_in_pieces_give_the_fit_of_all_rows():
    late = np.argsort(THREE.labels == "c", kind="stable")  # group c comes only at the end
    X, labels, weights = THREE.X[late], THREE.labels[late], THREE.weights[late]
    model = FairPCA(2, criterion="total_error")
    for start in range(0, 120, 30):
        part = slice(start, start + 30)
        result = model.partial_fit(
            X[part], sensitive_features=labels[part], sample_weight=weights[part]
        )
        assert result is model
        assert ("c" in model.groups_) == (start >= 60)
    same_fit(model, fit(THREE, criterion="total_error", weights=THREE.weights))
    assert model.moments_.counts.tolist() == [40, 40, 40]


def test_two_groups_in_pieces_give_the_same_fair_fit():
    model = FairPCA(2)
    for part in np.array_split(np.arange(120), 7):
        model.partial_fit(ROWS.X[part], sensitive_features=ROWS.labels[part])
    same_fit(model, fit(), tolerance=1e-8)


def test_moments_are_enough():
    moments = GroupMoments.from_rows(ROWS.X, ROWS.labels)
    model = FairPCA(2)
    assert model.fit_moments(moments) is model
    assert model.components_.tobytes() == fit().components_.tobytes()
    np.testing.assert_array_equal(model.transform(ROWS.X), fit().transform(ROWS.X))
    assert model.n_features_in_ == 6
    assert not hasattr(model, "feature_names_in_")
    model.partial_fit(THREE.X, sensitive_features=np.where(THREE.labels == "a", "a", "b"))
    assert model.moments_.counts.sum() == 240


def test_moments_without_names_replace_those_with_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS.X, columns=list("uvwxyz"))
    named = GroupMoments.from_rows(frame, ROWS.labels)
    model = FairPCA(2).fit_moments(named)
    assert model.feature_names_in_.tolist() == list("uvwxyz")
    expected = fit().transform(ROWS.X)
    np.testing.assert_allclose(model.transform(frame), expected, rtol=1e-9, atol=1e-9)
    model.fit_moments(GroupMoments.from_rows(ROWS.X, ROWS.labels))
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_allclose(model.transform(ROWS.X), expected, rtol=1e-9, atol=1e-9)


@CRITERIA
def test_whole_weights_are_repeated_rows(criterion):
    repeats = np.random.default_rng(1).integers(0, 4, 120)
    weighted = fit(criterion=criterion, weights=repeats)
    repeated = [np.repeat(each, repeats, axis=0) for each in (ROWS.X, ROWS.labels, ROWS.weights)]
    same_fit(weighted, fit(type(ROWS)(*repeated), criterion=criterion), tolerance=1e-7)


def test_several_attributes_make_intersections():
    sex, age = np.where(ROWS.X[:, 0] > 3, "f", "m"), np.arange(120) % 2
    model = FairPCA(2, criterion="total_error").fit(
        ROWS.X, sensitive_features=np.column_stack([sex.astype(object), age])
    )
    assert model.groups_.tolist() == [("f", 0), ("f", 1), ("m", 0), ("m", 1)]
    for label, error in zip(model.groups_, model.group_errors_, strict=True):
        own = (sex == label[0]) & (age == label[1])
        assert error == pytest.approx(-model.score(ROWS.X[own]))


def test_single_precision_is_centred_in_double():
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((200, 3)) * 0.5 + 1e6).astype(np.float32)
    groups = np.repeat(["a", "b"], 100)
    fair = FairPCA(2).fit(X, sensitive_features=groups)
    exact = (X.astype(np.float64) - fair.mean_) @ fair.components_.T
    reduced = fair.transform(X)
    assert reduced.dtype == np.float32
    np.testing.assert_allclose(reduced, exact, atol=1e-6)


def test_a_column_named_all_does_not_confuse_rows_without_groups():
    import pandas as pd

    X = np.random.default_rng(1).standard_normal((1, 2))
    frame = pd.DataFrame(X, columns=["all", "x"])
    assert FairPCA(1, missing_groups="ignore").fit(frame).groups_.tolist() == ["all"]


@pytest.mark.parametrize("power", [300, -250])
def test_parameters_beyond_the_range_of_fourth_powers_have_the_units_of_the_features(power):
    rng = np.random.default_rng(0)
    X, groups = rng.standard_normal((60, 6)) * [3, 2, 2, 1, 1, 0.5], np.repeat(["a", "b"], 30)
    X[30:] = 1 + X[30:] * [1, 1, 2, 1, 2, 1]
    unit = 2.0**power
    for of_one, of_unit in (
        (
            {"criterion": RobustErrorGap(1.0, 2.0)},
            {"criterion": RobustErrorGap(1.0, 2.0 * unit**2)},
        ),
        (
            {"criterion": "total_error", "restriction": MeanParity(0.3)},
            {"criterion": "total_error", "restriction": MeanParity(0.3 * unit)},
        ),
    ):
        plain = FairPCA(2, **of_one).fit(X, sensitive_features=groups)
        other = FairPCA(2, **of_unit).fit(X * unit, sensitive_features=groups)
        assert other.solution_.status == plain.solution_.status
        np.testing.assert_allclose(
            other.group_errors_ / unit / unit, plain.group_errors_, rtol=1e-7
        )


@pytest.mark.parametrize("criterion", ["minimax_loss", "error_gap", "nash_welfare"])
@pytest.mark.parametrize("power", [300, 170, -250])
def test_units_beyond_the_range_of_fourth_powers_change_nothing(criterion, power):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6)) * [3, 2, 2, 1, 1, 0.5]
    X[30:] *= [1, 1, 2, 1, 2, 1]
    groups, unit = np.repeat(["a", "b"], 30), 2.0**power
    plain = FairPCA(2, criterion=criterion).fit(X, sensitive_features=groups)
    other = FairPCA(2, criterion=criterion).fit(X * unit, sensitive_features=groups)
    assert other.solution_.status == "optimal"
    np.testing.assert_allclose(other.components_, plain.components_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(other.group_errors_ / unit / unit, plain.group_errors_, rtol=1e-12)
