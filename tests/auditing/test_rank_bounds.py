"""An audit of a model of others with a linear decoder states the bound of its rank."""

import json
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.decomposition import (
    NMF,
    PCA,
    FastICA,
    KernelPCA,
    MiniBatchDictionaryLearning,
    SparsePCA,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from fairspan import FairPCA, GroupMoments, audit
from fairspan.extending import LinearDecoder
from fairspan.metrics import rank_bound

D = 3
rng = np.random.default_rng(0)
PARTS = rng.gamma(1, size=(6, 9))
X = rng.gamma(1, size=(120, 6)) @ PARTS + 0.5 * rng.gamma(1, size=(120, 9))
GROUPS = np.where(X[:, 0] > np.median(X[:, 0]), "high", "low")
DECODER = PARTS[:D]


def encode_positively(rows):
    return np.maximum(rows @ np.linalg.pinv(DECODER), 0)


MODELS = {
    "positive": LinearDecoder(encode_positively, DECODER, offset=X.mean(axis=0) / 2),
    "oblique": LinearDecoder(lambda rows: rows[:, :D], np.linalg.inv(DECODER[:, :D]) @ DECODER),
    "nmf": NMF(D, init="nndsvda", max_iter=500, tol=1e-3),
    "ica": FastICA(D, random_state=0),
    "scaled": make_pipeline(MinMaxScaler(), NMF(D, init="nndsvda", max_iter=500, tol=1e-3)),
}
SLOW_MODELS = {
    "sparse": SparsePCA(D, random_state=0, max_iter=20),
    "dictionary": MiniBatchDictionaryLearning(
        D, random_state=0, max_iter=20, transform_algorithm="lars"
    ),
}


def fit_model(model, rows=X):
    return model.fit(rows) if hasattr(model, "fit") else model


def largest_tail_sum(model, rows, groups, variances):
    """Largest sum of all but D eigenvalues of mixtures of two groups, by scalar search."""
    offset = model.inverse_transform(np.zeros((1, D)))[0]
    unit = 1 / model[0].scale_ if hasattr(model, "steps") else 1.0
    residuals = (rows - offset) / unit
    second_moments = []
    for label, variance in variances.items():
        group_rows = residuals[groups == label]
        second_moments.append(group_rows.T @ group_rows / len(group_rows) / variance)
    first, second = second_moments

    def tail_sum(weight):
        return np.linalg.eigvalsh(weight * first + (1 - weight) * second)[:-D].sum()

    return -minimize_scalar(lambda w: -tail_sum(w), bounds=(0, 1), options={"xatol": 1e-10}).fun


def audit_model(model, rows=X, groups=GROUPS, **options):
    return audit({"it": fit_model(model, rows)}, rows, groups, folds=None, **options)


def assert_bound_is_right(model, rows=X, groups=GROUPS):
    result = audit_model(model, rows, groups).models[0]
    rank_bound = result.rank_bound
    variances = {group.group: group.observed_total_variance for group in result.groups}
    shares = {
        group.group: group.observed_error.value / variances[group.group] for group in result.groups
    }
    assert rank_bound.largest_error == pytest.approx(shares[rank_bound.group])
    assert rank_bound.largest_error == pytest.approx(max(shares.values()))
    expected = largest_tail_sum(model, rows, groups, variances)
    # A bound holds however early the search for it ends.
    assert expected * (1 - 1e-3) <= rank_bound.bound <= expected * (1 + 1e-8)
    assert rank_bound.excess == pytest.approx(rank_bound.largest_error / rank_bound.bound - 1)
    assert rank_bound.largest_error > rank_bound.bound


@pytest.mark.parametrize("name", MODELS)
def test_the_bound_is_the_largest_over_mixtures(name):
    assert_bound_is_right(MODELS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_MODELS)
def test_the_bound_of_dictionaries_is_too(name):
    assert_bound_is_right(SLOW_MODELS[name])


def test_rows_that_are_fewer_than_the_features():
    rng = np.random.default_rng(1)
    rows = rng.gamma(1, size=(24, 4)) @ rng.gamma(1, size=(4, 120))
    rows += 0.1 * rng.gamma(1, size=rows.shape)
    decoder = rows[:D] - 1
    model = LinearDecoder(
        lambda values: np.maximum(values @ np.linalg.pinv(decoder), 0), decoder, offset=np.ones(120)
    )
    assert_bound_is_right(model, rows, np.array(["a", "b"])[np.arange(24) % 2])


def test_it_is_in_text_markdown_json_and_metrics():
    result = audit_model(MODELS["nmf"])
    rank_bound = result.models[0].rank_bound
    sentence = next(finding.message for finding in result.findings if finding.code == "FS211")
    for share in (rank_bound.largest_error, rank_bound.bound):
        assert f"{100 * share:.1f} %" in sentence
    assert "FS211" in str(result)
    assert "FS211" in result.to_markdown()
    assert result.metrics()["rank_bound"] == rank_bound.bound
    assert result.metrics()["rank_excess"] == rank_bound.excess
    record = json.loads(json.dumps(result.to_dict()))["models"][0]["rank_bound"]
    assert record == {
        "group": rank_bound.group,
        "largest_error": rank_bound.largest_error,
        "bound": rank_bound.bound,
        "excess": rank_bound.excess,
    }
    schema = json.loads((files("fairspan.cli") / "schema.json").read_text("utf-8"))
    model_schema = {"$ref": "#/$defs/model", "$defs": schema["$defs"]}
    jsonschema.Draft202012Validator(model_schema).validate(
        json.loads(json.dumps(result.models[0].to_dict()))
    )


@pytest.mark.parametrize(
    "model",
    [
        PCA(D),
        np.eye(9)[:D],
        KernelPCA(D, kernel="rbf", gamma=1e-2, fit_inverse_transform=True),
        LinearDecoder(lambda rows: rows, np.eye(9)),
    ],
)
def test_models_with_an_optimum_of_their_own_or_other_decoders_have_none(model):
    assert audit_model(model).models[0].rank_bound is None


@pytest.mark.slow
def test_fair_models_and_completed_rows_have_none():
    fair = FairPCA(D).fit(X, sensitive_features=GROUPS)
    assert [
        audited_model.rank_bound for audited_model in audit(fair, X, GROUPS, folds=None).models
    ] == [None, None]
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.02, np.nan, X)
    assert audit_model(MODELS["positive"], holes, on_missing="em").models[0].rank_bound is None


def test_groups_without_variance_are_ignored():
    rows = np.vstack([X, np.repeat(X.mean(axis=0)[None], 5, axis=0)])
    groups = np.append(GROUPS, ["same"] * 5)
    rank_bound = audit_model(MODELS["nmf"], rows, groups).models[0].rank_bound
    assert rank_bound.group in ("high", "low")
    assert rank_bound.largest_error > rank_bound.bound


@pytest.mark.slow
def test_projections_have_it_from_moments_and_with_folds():
    model = MODELS["oblique"]
    of_rows = audit_model(model).models[0].rank_bound
    of_moments = audit(model, moments=GroupMoments.from_rows(X, GROUPS)).models[0].rank_bound
    of_folds = audit(model, X, GROUPS).models[0].rank_bound
    for result in (of_moments, of_folds):
        assert result.bound == pytest.approx(of_rows.bound, rel=1e-3)
        assert result.largest_error == pytest.approx(of_rows.largest_error)


def test_the_function_agrees_on_squared_errors_of_pipelines():
    model = fit_model(MODELS["scaled"])
    result = rank_bound(model, X, GROUPS, relative=False)
    errors = [group.observed_error.value for group in audit_model(model).models[0].groups]
    np.testing.assert_allclose(result.errors, errors, rtol=1e-6)
