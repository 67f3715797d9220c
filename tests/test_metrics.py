"""Metrics of any subspace, and subspaces that are written for other programs."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

import fairspan as fs
from fairspan import FairPCA, GroupMoments, audit, metrics
from fairspan.errors import (
    FairspanError,
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    MissingDependency,
)
from numpy_reference import random_rows

RNG = np.random.default_rng(1)
X = RNG.standard_normal((120, 6)) * [4, 3, 2, 1, 1, 1] + 10
GROUPS = np.array(["a", "b", "b"] * 40)


@cache
def plain_pca():
    return PCA(2).fit(X)


def by_group(function):
    return {label: function(X[label == GROUPS]) for label in ("a", "b")}


def squared_residuals(rows):
    return ((rows - plain_pca().inverse_transform(plain_pca().transform(rows))) ** 2).sum(axis=1)


def test_reconstruction_error_is_the_mean_squared_residual():
    expected = by_group(lambda rows: squared_residuals(rows).mean())
    assert metrics.reconstruction_error(plain_pca(), X, GROUPS) == pytest.approx(expected)


def test_excess_loss_is_measured_against_each_groups_own_pca():
    def loss(rows):
        spectrum = np.linalg.svd(rows - plain_pca().mean_, compute_uv=False) ** 2 / len(rows)
        return squared_residuals(rows).mean() - spectrum[2:].sum()

    assert metrics.excess_loss(plain_pca(), X, GROUPS) == pytest.approx(by_group(loss))


def test_variance_kept_ratio():
    def ratio(rows):
        return 1 - squared_residuals(rows).sum() / ((rows - plain_pca().mean_) ** 2).sum()

    assert metrics.variance_kept_ratio(plain_pca(), X, GROUPS) == pytest.approx(by_group(ratio))


def test_disparity_is_second_minus_first_and_widest_of_three():
    errors = metrics.reconstruction_error(plain_pca(), X, GROUPS)
    assert metrics.disparity(plain_pca(), X, GROUPS) == pytest.approx(errors["b"] - errors["a"])
    three = np.array(list("abc") * 40)
    values = metrics.reconstruction_error(plain_pca(), X, three).values()
    assert metrics.disparity(plain_pca(), X, three) == pytest.approx(max(values) - min(values))


def test_weights_equal_repeated_rows():
    weights = RNG.integers(1, 4, 120)
    weighted = metrics.reconstruction_error(plain_pca(), X, GROUPS, sample_weight=weights)
    unweighted = metrics.reconstruction_error(
        plain_pca(), X.repeat(weights, axis=0), GROUPS.repeat(weights)
    )
    assert weighted == pytest.approx(unweighted)


def test_agrees_with_the_estimator():
    fair = FairPCA(2).fit(X, sensitive_features=GROUPS)
    assert list(metrics.excess_loss(fair, X, GROUPS).values()) == pytest.approx(
        fair.group_losses_.tolist()
    )


def test_features_in_another_order_are_refused():
    frame = pd.DataFrame(X, columns=list("uvwxyz"))
    fair = FairPCA(2).fit(frame, sensitive_features=GROUPS)
    reordered = GroupMoments.from_rows(frame[list("zyxwvu")], GROUPS)
    with pytest.raises(InvalidInput, match=r"'z', 'y'.*in this order"):
        audit(fair, moments=reordered)


ROWS = random_rows(9, n=60, p=4)
# Names that a query has to quote, and numbers far from the origin.
NAMES = ['say "hi"', "select", "größe; DROP TABLE data; --", "a b\nc"]
FRAME = pd.DataFrame(ROWS.X * [1, 1e-3, 50, 1] + [1e6, 0, -3, 0.1], columns=NAMES)
SETTINGS = {
    "plain": {},
    "scaled": {"scale": True},
    "whitened": {"whiten": True, "scale": True},
    "uncentred": {"center": "none"},
    "oblique": {"restriction": fs.MeanParity(oblique=True), "criterion": "total_error"},
}


@cache
def fit_named(name):
    return fs.FairPCA(2, **SETTINGS[name]).fit(FRAME, sensitive_features=ROWS.labels)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_graph_is_transform(name, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    fair = fit_named(name)
    path = tmp_path / "fair.onnx"
    fair.subspace_.to_onnx(path)
    session = runtime.InferenceSession(path)
    (coordinates,) = session.run(None, {"X": FRAME.to_numpy()})
    np.testing.assert_allclose(coordinates, fair.transform(FRAME), rtol=1e-9, atol=1e-9)
    assert session.get_modelmeta().custom_metadata_map["features"].split("\n")[:2] == NAMES[:2]
    fair.subspace_.to_onnx(path, dtype="float32")
    (single,) = runtime.InferenceSession(path).run(None, {"X": FRAME.to_numpy(np.float32)})
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, fair.transform(FRAME.astype(np.float32)), rtol=1e-5)


@pytest.mark.slow
def test_the_reference_evaluator_agrees(tmp_path):
    onnx = pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    fair = fit_named("whitened")
    fair.subspace_.to_onnx(tmp_path / "fair.onnx")
    model = onnx.load(tmp_path / "fair.onnx")
    # No newer than its operators need, so that older runtimes read it too.
    assert model.ir_version == onnx.helper.find_min_ir_version_for(model.opset_import)
    graph = reference.ReferenceEvaluator(str(tmp_path / "fair.onnx"))
    (coordinates,) = graph.run(None, {"X": FRAME.to_numpy()})
    np.testing.assert_allclose(coordinates, fair.transform(FRAME), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_query_is_transform(name):
    fair = fit_named(name)
    database = pytest.importorskip("duckdb").connect()
    database.register("data", FRAME)
    coordinates = database.sql(fair.subspace_.to_sql()).df()
    assert list(coordinates.columns) == list(fair.subspace_.component_names)
    np.testing.assert_allclose(coordinates.to_numpy(), fair.transform(FRAME), rtol=1e-9, atol=1e-9)


def test_a_query_of_integers_truth_values_and_another_table():
    table = pd.DataFrame({"n": ROWS.X[:, 0].round().astype(int), "yes": ROWS.X[:, 1] > 0})
    fair = fs.FairPCA(1).fit(table, sensitive_features=ROWS.labels)
    database = pytest.importorskip("duckdb").connect()
    database.register('my "table"', table)
    coordinates = database.sql(fair.subspace_.to_sql('my "table"')).df()
    np.testing.assert_allclose(coordinates.to_numpy(), fair.transform(table), atol=1e-12)


def test_models_without_an_export_are_refused(tmp_path, monkeypatch):
    unnamed = fs.FairSubspace.from_model(fs.FairPCA(1).fit(ROWS.X, sensitive_features=ROWS.labels))
    with pytest.raises(IncompatibleParameters, match="no names"):
        unnamed.to_sql()
    with pytest.raises(InvalidParameter, match="NUL"):
        fit_named("plain").subspace_.to_sql("a\0b")
    with pytest.raises(InvalidParameter, match="one_hot is 'no'"):
        fit_named("plain").subspace_.to_sql(one_hot="no")
    with pytest.raises(InvalidParameter, match="dtype is 'float16'"):
        unnamed.to_onnx(tmp_path / "a.onnx", dtype="float16")
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(MissingDependency, match=r"fairspan\[onnx\]"):
        unnamed.to_onnx(tmp_path / "a.onnx")
    assert issubclass(MissingDependency, FairspanError)
    assert not list(tmp_path.iterdir())
