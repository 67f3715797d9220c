"""Inside scikit-learn: pipelines, searches, metadata routing, copies and other processes."""

import io
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from by_hand import random_rows
from fairspan import BoundarySearch, FairPCA
from fairspan.errors import InvalidInput

ROWS = random_rows(61, n=90, p=5)
X, GROUPS = ROWS.X, ROWS.labels
Y = (X[:, 0] + X[:, 1] > np.median(X[:, 0] + X[:, 1])).astype(int)
FOLDS = KFold(3, shuffle=True, random_state=0)
GRID = {"n_components": [1, 3], "criterion": ["minimax_loss", "total_error"]}


def pipeline():
    return Pipeline(
        [("scaler", StandardScaler()), ("fpca", FairPCA(2)), ("clf", LogisticRegression())]
    )


def components_by_hand(rows, groups, **settings):
    standardized = StandardScaler().fit_transform(rows)
    return FairPCA(**settings).fit(standardized, sensitive_features=groups).components_


def test_a_pipeline_passes_the_groups_with_routing_off():
    fitted = pipeline().fit(X, Y, fpca__sensitive_features=GROUPS)
    expected = components_by_hand(X, GROUPS, n_components=2)
    np.testing.assert_array_equal(fitted["fpca"].components_, expected)
    assert fitted.predict(X).shape == (90,)


def test_a_pipeline_passes_the_groups_with_routing_on():
    with config_context(enable_metadata_routing=True):
        fitted = pipeline().fit(X, Y, sensitive_features=GROUPS)
    expected = components_by_hand(X, GROUPS, n_components=2)
    np.testing.assert_array_equal(fitted["fpca"].components_, expected)


@pytest.mark.parametrize("routing", [False, True])
def test_a_pipeline_that_forgets_the_groups_fails(routing):
    with (
        config_context(enable_metadata_routing=routing),
        pytest.raises(InvalidInput, match="sensitive_features is missing"),
    ):
        pipeline().fit(X, Y)


@pytest.mark.parametrize("routing", [False, True])
def test_a_search_splits_rows_and_groups_alike(routing):
    labels = {
        "numpy": GROUPS,
        "list": GROUPS.tolist(),
        "pandas": pd.Series(GROUPS),
        "polars": pl.Series(GROUPS),
        "pyarrow": pa.array(GROUPS),
    }
    expected = [
        [
            FairPCA(n_components=d, criterion=criterion)
            .fit(X[train], sensitive_features=GROUPS[train])
            .score(X[test])
            for train, test in FOLDS.split(X)
        ]
        for criterion in GRID["criterion"]
        for d in GRID["n_components"]
    ]
    with config_context(enable_metadata_routing=routing):
        for kind, groups in labels.items():
            search = GridSearchCV(FairPCA(), GRID, cv=FOLDS, error_score="raise")
            search.fit(X, sensitive_features=groups)
            found = [search.cv_results_[f"split{i}_test_score"] for i in range(3)]
            np.testing.assert_allclose(np.transpose(found), expected, err_msg=kind)
            refitted = search.best_estimator_
            again = FairPCA(**search.best_params_).fit(X, sensitive_features=GROUPS)
            np.testing.assert_array_equal(refitted.components_, again.components_)


@pytest.mark.parametrize("routing", [False, True])
def test_a_search_over_a_pipeline(routing):
    grid = {f"fpca__{name}": values for name, values in GRID.items()}
    name = "sensitive_features" if routing else "fpca__sensitive_features"
    with config_context(enable_metadata_routing=routing):
        search = GridSearchCV(pipeline(), grid, cv=FOLDS, error_score="raise")
        search.fit(X, Y, **{name: GROUPS})
    settings = {key.removeprefix("fpca__"): value for key, value in search.best_params_.items()}
    found = search.best_estimator_["fpca"].components_
    np.testing.assert_array_equal(found, components_by_hand(X, GROUPS, **settings))


def test_a_search_over_a_frame_with_a_named_group_column():
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    named, beside = (GridSearchCV(FairPCA(), GRID, cv=FOLDS, error_score="raise") for _ in "ab")
    named.fit(frame.assign(sex=GROUPS), sensitive_features="sex")
    beside.fit(frame, sensitive_features=GROUPS)
    for key in ("mean_test_score", "std_test_score"):
        np.testing.assert_array_equal(named.cv_results_[key], beside.cv_results_[key])


def test_a_column_transformer_passes_the_groups_with_routing_on():
    columns = ColumnTransformer([("fair", FairPCA(2), [0, 1, 3]), ("rest", "passthrough", [2, 4])])
    with config_context(enable_metadata_routing=True):
        out = columns.fit_transform(X, sensitive_features=GROUPS)
        assert columns.get_feature_names_out().tolist()[:2] == ["fair__fairpca0", "fair__fairpca1"]
    alone = FairPCA(2).fit(X[:, [0, 1, 3]], sensitive_features=GROUPS)
    np.testing.assert_array_equal(out[:, :2], alone.transform(X[:, [0, 1, 3]]))
    np.testing.assert_array_equal(out[:, 2:], X[:, [2, 4]])


def test_weights_are_routed_when_asked_for():
    with config_context(enable_metadata_routing=True):
        step = FairPCA(2).set_fit_request(sample_weight=True)
        fitted = Pipeline([("fpca", step)]).fit(
            X, sensitive_features=GROUPS, sample_weight=ROWS.weights
        )
    alone = FairPCA(2).fit(X, sensitive_features=GROUPS, sample_weight=ROWS.weights)
    np.testing.assert_array_equal(fitted["fpca"].components_, alone.components_)


def test_clones_have_the_parameters_and_nothing_fitted():
    settings = {"criterion": "minimax_error", "solver": BoundarySearch(), "scale": True, "tol": 0.1}
    model = FairPCA(3, **settings).fit(X, sensitive_features=GROUPS)
    copy = clone(model)
    assert {name: copy.get_params()[name] for name in settings} == settings
    assert not hasattr(copy, "components_")
    assert repr(copy) == repr(model)


def through_pickle(model):
    return pickle.loads(pickle.dumps(model))


def through_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize(
    "copied",
    [lambda model: pickle.loads(pickle.dumps(model)), through_joblib],
    ids=["pickle", "joblib"],
)
def test_a_fitted_estimator_survives_storage(copied):
    frame = pd.DataFrame(X, columns=list("vwxyz")).assign(sex=GROUPS)
    model = FairPCA(2, scale=True).fit(frame, sensitive_features="sex")
    again = copied(model)
    assert again.transform(frame).tobytes() == model.transform(frame).tobytes()
    assert again.solution_.gap == model.solution_.gap
    assert again.groups_.tolist() == ["a", "b"]
    again.partial_fit(frame, sensitive_features="sex")
    assert again.moments_.counts.sum() == 180


@pytest.mark.long
def test_errors_from_other_processes_keep_their_message():
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(InvalidInput, match=r"sensitive_features is missing\..*ordinary PCA"),
    ):
        pool.submit(FairPCA().fit, X).result()
