"""Rotated components: the same subspace and certificate, with loadings of few features."""

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

import fairspan as fs
from fairspan.errors import IncompatibleParameters, InvalidParameter


@cache
def make_rows(seed=0, n=400, p=8):
    rng = np.random.default_rng(seed)
    # Correlated factors of one size, which ordinary components mix.
    factors = 2.5 * (rng.standard_normal((n, 3)) + 0.6 * rng.standard_normal((n, 1)))
    loadings = np.kron(np.eye(3), np.ones((1, 3)))[:, :p]
    groups = np.where(rng.random(n) < 0.35, "b", "a")
    factors[groups == "b"] *= [0.8, 1.2, 1.0]
    X = factors @ loadings + 0.5 * rng.standard_normal((n, p))
    X[groups == "b"] += 0.4
    return X, groups


def fit(rotation, **settings):
    X, groups = make_rows()
    n_components = settings.pop("n_components", 3)
    return fs.FairPCA(n_components, rotation=rotation, **settings).fit(X, sensitive_features=groups)


SETTINGS = {
    "minimax loss": {},
    "scaled": {"scale": True, "center": "group"},
    "mean parity": {"restriction": fs.MeanParity()},
    "oblique": {"restriction": fs.MeanParity(oblique=True), "criterion": "total_error"},
    "share": {"n_components": 0.7},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_figures_and_certificate_are_those_without_rotation(settings):
    X, groups = make_rows()
    plain = fit(None, **settings)
    rotated = fit("varimax", **settings)
    np.testing.assert_allclose(
        rotated.subspace_.decoder @ rotated.subspace_.encoder,
        plain.subspace_.decoder @ plain.subspace_.encoder,
        atol=1e-10,
    )
    np.testing.assert_array_equal(rotated.group_errors_, plain.group_errors_)
    np.testing.assert_array_equal(rotated.group_losses_, plain.group_losses_)
    assert rotated.solution_.objective == plain.solution_.objective
    assert rotated.solution_.lower_bound == plain.solution_.lower_bound
    assert rotated.solution_.status == plain.solution_.status
    total = plain.explained_variance_.sum()
    assert rotated.explained_variance_.sum() == pytest.approx(total, rel=1e-12)
    assert np.abs(rotated.components_ - plain.components_).max() > 0.1
    check = fs.verify(rotated, X, groups)
    assert check.holds, check.messages


def test_rotated_components_depend_on_fewer_features():
    plain = fit(None)
    rotated = fit("varimax")
    large = {name: np.abs(fair.components_) > 0.2 for name, fair in (("p", plain), ("r", rotated))}
    assert large["r"].sum() < large["p"].sum()
    # The features of each of the three factors make up one component.
    blocks = [set(np.flatnonzero(row)) for row in large["r"]]
    assert sorted(map(sorted, blocks)) == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_order_and_signs_are_fixed_by_variances_and_largest_loadings():
    rotated = fit("varimax")
    X, _ = make_rows()
    coordinates = rotated.transform(X)
    np.testing.assert_allclose(coordinates.var(axis=0), rotated.explained_variance_, rtol=1e-9)
    assert (np.diff(rotated.explained_variance_) <= 0).all()
    largest = np.abs(rotated.components_).argmax(axis=1)
    assert (rotated.components_[np.arange(3), largest] > 0).all()


def test_the_subspace_is_rotated_like_the_estimator():
    plain = fit(None)
    rotated = fit("varimax")
    subspace = plain.subspace_.rotate("varimax")
    products = np.abs(subspace.components @ rotated.components_.T)
    np.testing.assert_allclose(np.sort(products, axis=None)[-3:], 1, atol=1e-9)
    again = subspace.rotate()
    np.testing.assert_allclose(again.components, subspace.components, atol=1e-7)
    X, groups = make_rows()
    assert fs.verify(subspace, X, groups).holds


def test_a_rotated_model_is_saved_and_audited(tmp_path):
    X, groups = make_rows()
    rotated = fit("varimax")
    path = tmp_path / "rotated.model"
    rotated.subspace_.save(path)
    subspace = fs.load(path)
    np.testing.assert_array_equal(subspace.components, rotated.components_)
    np.testing.assert_array_equal(subspace.transform(X), rotated.transform(X))
    assert fs.verify(subspace, X, groups).holds
    figures = ["observed_error", "expected_error", "expected_loss_low", "expected_loss_high"]
    plain_audit, audit = (fs.audit({"m": fair}, X, groups) for fair in (fit(None), rotated))
    first, second = (result.frame()[figures].to_numpy() for result in (plain_audit, audit))
    np.testing.assert_allclose(second, first, rtol=1e-7, atol=1e-9)


def test_covariance_is_that_without_rotation():
    plain = fit(None)
    rotated = fit("varimax")
    np.testing.assert_allclose(rotated.get_covariance(), plain.get_covariance(), atol=1e-9)
    assert rotated.noise_variance_ == pytest.approx(plain.noise_variance_, rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"nested": True}, "nested=True"), ({"whiten": True}, "whiten=True")],
)
def test_nested_and_whitened_fits_refuse_a_rotation(settings, words):
    with pytest.raises(IncompatibleParameters, match=words):
        fit("varimax", **settings)
    with pytest.raises(IncompatibleParameters, match="A rotation was requested"):
        fit(None, **settings).subspace_.rotate()


def test_a_soft_projection_refuses_a_rotation():
    soft = fs.FairSubspace(np.diag([1.0, np.sqrt(0.5), np.sqrt(0.5)]), np.zeros(3))
    with pytest.raises(IncompatibleParameters, match="soft projection"):
        soft.rotate()


def test_unknown_rotations_are_refused():
    with pytest.raises(InvalidParameter, match="rotation is 'promax'"):
        fit("promax")
    with pytest.raises(InvalidParameter, match="method is 'promax'"):
        fit(None).subspace_.rotate("promax")


def test_the_rotation_is_a_parameter_of_the_estimator():
    assert fs.FairPCA().get_params()["rotation"] is None
    copy = clone(fs.FairPCA(2, rotation="varimax"))
    assert copy.rotation == "varimax"
