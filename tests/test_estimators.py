"""FairPCA's figures against numpy on the raw rows, and against scikit-learn's PCA."""

import inspect

import numpy as np
import pytest

from by_hand import assert_moments, errors_by_hand, random_rows
from fairspan import FairPCA, GroupMoments

ROWS = random_rows(31, n=120, p=6)
THREE = random_rows(32, n=120, p=6, groups=("c", "a", "b"))
CENTERS = pytest.mark.parametrize("center", ["global", "group", "none"])
CRITERIA = pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error", "total_error"])
WEIGHTED = pytest.mark.parametrize("weighted", [False, True])


def fit(rows=ROWS, n_components=2, weights=None, **settings):
    estimator = FairPCA(n_components, **settings)
    return estimator.fit(rows.X, sensitive_features=rows.labels, sample_weight=weights)


@WEIGHTED
@CENTERS
@CRITERIA
def test_group_figures_are_those_of_the_rows(criterion, center, weighted):
    weights = ROWS.weights if weighted else np.ones(120)
    model = fit(weights=weights, criterion=criterion, center=center)
    mean = np.average(ROWS.X, axis=0, weights=weights)
    point = {"global": mean, "group": None, "none": np.zeros(6)}[center]
    V = model.components_
    np.testing.assert_allclose(V @ V.T, np.eye(2), atol=1e-12)
    assert model.groups_.tolist() == ["a", "b"]
    errors = errors_by_hand(ROWS.X, ROWS.labels, V, point, weights)
    np.testing.assert_allclose(model.group_errors_, errors, rtol=1e-10)
    assert model.disparity_ == pytest.approx(errors[1] - errors[0])
    best = []
    for i, label in enumerate("ab"):
        own = ROWS.labels == label
        middle = np.average(ROWS.X[own], axis=0, weights=weights[own]) if point is None else point
        centred = (ROWS.X[own] - middle) * np.sqrt(weights[own] / weights[own].sum())[:, None]
        singular = np.linalg.svd(centred, compute_uv=False)
        best.append((singular[2:] ** 2).sum())
        ratios = ((centred @ V.T) ** 2).sum(axis=0) / (centred**2).sum()
        np.testing.assert_allclose(model.group_explained_variance_ratio_[i], ratios, rtol=1e-10)
    np.testing.assert_allclose(model.group_losses_, errors - best, rtol=1e-9, atol=1e-9)
    value = {"minimax_loss": max(errors - best), "minimax_error": max(errors)}.get(
        criterion, np.average(errors, weights=[weights[ROWS.labels == each].sum() for each in "ab"])
    )
    assert model.solution_.objective == pytest.approx(value, rel=1e-9)
    assert model.solution_.status == "optimal"


@WEIGHTED
@CENTERS
def test_pooled_variance_along_the_components(center, weighted):
    weights = ROWS.weights if weighted else np.ones(120)
    model = fit(weights=weights, n_components=3, center=center)
    centred = ROWS.X - np.average(ROWS.X, axis=0, weights=weights)
    if center == "none":
        centred = ROWS.X
    if center == "group":
        for label in "ab":
            own = ROWS.labels == label
            centred[own] = ROWS.X[own] - np.average(ROWS.X[own], axis=0, weights=weights[own])
    along = np.average((centred @ model.components_.T) ** 2, axis=0, weights=weights)
    total = np.average((centred**2).sum(axis=1), weights=weights)
    np.testing.assert_allclose(model.explained_variance_, along)
    np.testing.assert_allclose(model.explained_variance_ratio_, along / total)
    assert (np.diff(along) <= 0).all()


@CENTERS
def test_the_mean_is_that_of_all_rows_or_the_origin(center):
    expected = np.zeros(6) if center == "none" else ROWS.X.mean(axis=0)
    np.testing.assert_allclose(fit(center=center).mean_, expected, atol=1e-12)


def test_attributes_have_the_documented_shapes():
    model = fit(THREE, n_components=2, criterion="total_error")
    shapes = {
        "components_": (2, 6),
        "mean_": (6,),
        "explained_variance_": (2,),
        "explained_variance_ratio_": (2,),
        "groups_": (3,),
        "group_errors_": (3,),
        "group_losses_": (3,),
        "group_explained_variance_ratio_": (3, 2),
    }
    assert {name: getattr(model, name).shape for name in shapes} == shapes
    assert model.groups_.tolist() == ["a", "b", "c"]
    assert (model.n_components_, model.n_features_in_, model.scale_) == (2, 6, None)
    assert model.disparity_ == np.ptp(model.group_errors_)
    assert model.solver_ == model.solution_.solver == "boundary"
    assert_moments(model.moments_, GroupMoments.from_rows(THREE.X, THREE.labels), rtol=0)
    np.testing.assert_array_equal(model.subspace_.components, model.components_)


@pytest.mark.parametrize("scale", [False, True])
def test_transform_and_its_inverse_are_the_formulas(scale):
    model = fit(scale=scale)
    deviation = ROWS.X.std(axis=0) if scale else np.ones(6)
    standardized = (ROWS.X - ROWS.X.mean(axis=0)) / deviation
    Z = model.transform(ROWS.X)
    np.testing.assert_allclose(Z, standardized @ model.components_.T, atol=1e-10)
    back = model.inverse_transform(Z)
    expected = ROWS.X.mean(axis=0) + Z @ model.components_ * deviation
    np.testing.assert_allclose(back, expected, atol=1e-10)
    residual = standardized - Z @ model.components_
    np.testing.assert_allclose(model.score_samples(ROWS.X), -(residual**2).sum(axis=1), atol=1e-9)
    assert model.score(ROWS.X) == pytest.approx(-(residual**2).sum(axis=1).mean())
    assert model.score(ROWS.X) == pytest.approx(-model.group_errors_.mean())  # equal groups


def test_single_precision_is_kept():
    model, X32 = fit(), ROWS.X.astype(np.float32)
    assert model.transform(X32).dtype == np.float32
    assert model.transform(ROWS.X).dtype == np.float64
    assert model.transform(ROWS.X.astype(int)).dtype == np.float64
    np.testing.assert_allclose(model.transform(X32), model.transform(ROWS.X), rtol=1e-4, atol=1e-4)
    assert fit(type(ROWS)(X32, ROWS.labels, ROWS.weights)).components_.dtype == np.float64


def test_the_same_input_gives_the_same_bytes():
    one, other = fit(scale=True), fit(scale=True)
    for name in ("components_", "mean_", "scale_", "group_errors_", "explained_variance_"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


@CRITERIA
def test_the_largest_loading_of_each_component_is_positive(criterion):
    components = fit(criterion=criterion, n_components=4).components_
    assert (components[np.arange(4), np.abs(components).argmax(axis=1)] > 0).all()


def test_transform_has_no_way_to_see_a_label():
    for method in (FairPCA.transform, FairPCA.inverse_transform, FairPCA.score_samples):
        assert len(inspect.signature(method).parameters) == 2
    assert list(inspect.signature(FairPCA.score).parameters) == ["self", "X", "y"]
