"""Inside scikit-learn: parameters, pipelines, searches, metadata routing, copies and processes."""

import io
import pickle
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from case_selection import parametrize_diagonal
from fairspan import (
    BoundarySearch,
    CovarianceParity,
    Disparity,
    ErrorGap,
    FairPCA,
    MeanParity,
    MinimaxLoss,
    MultiplicativeWeights,
    RobustErrorGap,
)
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidParameter, InvalidType
from numpy_reference import random_rows

ROWS = random_rows(61, n=90, p=5)
X, GROUPS = ROWS.X, ROWS.labels
Y = (X[:, 0] + X[:, 1] > np.median(X[:, 0] + X[:, 1])).astype(int)
FOLDS = KFold(3, shuffle=True, random_state=0)
GRID = {"n_components": [1, 3], "criterion": ["minimax_loss", "total_error"]}
PENALTIES = [0.0, 0.2]


def pipeline():
    return Pipeline(
        [("scaler", StandardScaler()), ("fpca", FairPCA(2)), ("clf", LogisticRegression())]
    )


def scores_of(fair):
    """Return the score on each fold of the fit to the others."""
    return [
        fair.fit(X[train], sensitive_features=GROUPS[train]).score(X[test])
        for train, test in FOLDS.split(X)
    ]


@pytest.mark.parametrize("routing", [False, True])
def test_a_pipeline_passes_the_groups(routing):
    name = "sensitive_features" if routing else "fpca__sensitive_features"
    with config_context(enable_metadata_routing=routing):
        model = pipeline().fit(X, Y, **{name: GROUPS})
        with pytest.raises(InvalidInput, match="sensitive_features is missing"):
            pipeline().fit(X, Y)
    alone = FairPCA(2).fit(StandardScaler().fit_transform(X), sensitive_features=GROUPS)
    np.testing.assert_array_equal(model["fpca"].components_, alone.components_)
    assert model.predict(X).shape == (90,)


LABELS = {
    "numpy": lambda: GROUPS,
    "list": lambda: GROUPS.tolist(),
    "pandas": lambda: pd.Series(GROUPS),
    "polars": lambda: pytest.importorskip("polars").Series(GROUPS),
    "pyarrow": lambda: pytest.importorskip("pyarrow").array(GROUPS),
}


@cache
def expected_scores():
    """Scores on each fold, of each combination of the grid."""
    return [
        scores_of(FairPCA(n_components=d, criterion=criterion))
        for criterion in GRID["criterion"]
        for d in GRID["n_components"]
    ]


@pytest.mark.parametrize(
    ("routing", "kind"),
    [
        (False, "list"),
        (True, "pandas"),
        *(pytest.param(False, kind, marks=pytest.mark.slow) for kind in ("numpy", "polars")),
        *(pytest.param(True, kind, marks=pytest.mark.slow) for kind in ("polars", "pyarrow")),
    ],
)
def test_a_search_splits_rows_and_groups_alike(routing, kind):
    with config_context(enable_metadata_routing=routing):
        search = GridSearchCV(FairPCA(), GRID, cv=FOLDS, error_score="raise")
        search.fit(X, sensitive_features=LABELS[kind]())
    scores = [search.cv_results_[f"split{i}_test_score"] for i in range(3)]
    np.testing.assert_allclose(np.transpose(scores), expected_scores())
    again = FairPCA(**search.best_params_).fit(X, sensitive_features=GROUPS)
    np.testing.assert_array_equal(search.best_estimator_.components_, again.components_)


@pytest.mark.parametrize("routing", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_search_over_a_pipeline(routing):
    grid = [
        {"fpca__n_components": [1, 3]},
        {"fpca__criterion": [ErrorGap()], "fpca__criterion__penalty": [0.0, 2.0]},
    ]
    name = "sensitive_features" if routing else "fpca__sensitive_features"
    with config_context(enable_metadata_routing=routing):
        search = GridSearchCV(pipeline(), grid, cv=FOLDS, error_score="raise")
        search.fit(X, Y, **{name: GROUPS})
    assert len(search.cv_results_["params"]) == 4
    best = {name.removeprefix("fpca__"): value for name, value in search.best_params_.items()}
    alone = (
        FairPCA(2)
        .set_params(**best)
        .fit(StandardScaler().fit_transform(X), None, sensitive_features=GROUPS)
    )
    components = search.best_estimator_["fpca"].components_
    np.testing.assert_array_equal(components, alone.components_)


def test_a_search_over_a_frame_with_a_named_group_column():
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    grid = {"n_components": [1, 3]}
    by_name, by_labels = (
        GridSearchCV(FairPCA(), grid, cv=FOLDS, error_score="raise") for _ in "ab"
    )
    by_name.fit(frame.assign(sex=GROUPS), sensitive_features="sex")
    by_labels.fit(frame, sensitive_features=GROUPS)
    for key in ("mean_test_score", "std_test_score"):
        np.testing.assert_array_equal(by_name.cv_results_[key], by_labels.cv_results_[key])


def test_a_column_transformer_passes_the_groups_with_routing_on():
    columns = ColumnTransformer([("fair", FairPCA(2), [0, 1, 3]), ("rest", "passthrough", [2, 4])])
    with config_context(enable_metadata_routing=True):
        out = columns.fit_transform(X, sensitive_features=GROUPS)
        assert columns.get_feature_names_out().tolist()[:2] == ["fair__fairpca0", "fair__fairpca1"]
    alone = FairPCA(2).fit(X[:, [0, 1, 3]], sensitive_features=GROUPS)
    np.testing.assert_array_equal(out[:, :2], alone.transform(X[:, [0, 1, 3]]))
    np.testing.assert_array_equal(out[:, 2:], X[:, [2, 4]])


def test_weights_are_routed_when_requested():
    with config_context(enable_metadata_routing=True):
        step = FairPCA(2).set_fit_request(sample_weight=True)
        model = Pipeline([("fpca", step)]).fit(
            X, sensitive_features=GROUPS, sample_weight=ROWS.weights
        )
    alone = FairPCA(2).fit(X, sensitive_features=GROUPS, sample_weight=ROWS.weights)
    np.testing.assert_array_equal(model["fpca"].components_, alone.components_)


def test_clones_have_the_parameters_and_nothing_fitted():
    settings = {"criterion": "minimax_error", "solver": BoundarySearch(), "scale": True, "tol": 0.1}
    model = FairPCA(3, **settings).fit(X, sensitive_features=GROUPS)
    copy = clone(model)
    assert {name: copy.get_params()[name] for name in settings} == settings
    assert not hasattr(copy, "components_")
    assert repr(copy) == repr(model)


def run_through_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize(
    "copy_model",
    [lambda model: pickle.loads(pickle.dumps(model)), run_through_joblib],
    ids=["pickle", "joblib"],
)
def test_a_fitted_estimator_survives_storage(copy_model):
    frame = pd.DataFrame(X, columns=list("vwxyz")).assign(sex=GROUPS)
    model = FairPCA(2, scale=True).fit(frame, sensitive_features="sex")
    again = copy_model(model)
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


def test_fields_are_listed():
    model = FairPCA(
        criterion=RobustErrorGap(2.0, 0.1),
        restriction=MeanParity(),
        solver=MultiplicativeWeights(2.0),
    )
    nested = {name: value for name, value in model.get_params().items() if "__" in name}
    assert nested == {
        "criterion__penalty": 2.0,
        "criterion__radius": 0.1,
        "restriction__attributes": "intersections",
        "restriction__within_classes": None,
        "restriction__keep_outcome": False,
        "restriction__oblique": False,
        "restriction__tolerance": 0.0,
        "solver__max_iter": 100,
        "solver__step_size": 2.0,
    }
    assert not any("__" in name for name in model.get_params(deep=False))
    assert FairPCA(criterion="disparity").get_params()["criterion__trade_off"] == 0.5
    assert FairPCA(solver="multiplicative").get_params()["solver__max_iter"] == 100
    # Settings that make no sense are errors of `fit` alone.
    assert FairPCA(criterion="fairest", solver=ErrorGap).get_params()["criterion"] == "fairest"


def test_setting_a_field_replaces_the_object():
    criterion = ErrorGap(1.0)
    model = FairPCA(criterion=criterion)
    assert model.set_params(criterion__penalty=2.0, n_components=3) is model
    assert (model.criterion, model.n_components, criterion) == (ErrorGap(2.0), 3, ErrorGap(1.0))
    for estimator, parameters, part in (
        (FairPCA(criterion="error_gap"), {"criterion__penalty": 2}, ErrorGap(2)),
        (FairPCA(), {"criterion__penalty": 3, "criterion": ErrorGap()}, ErrorGap(3)),
        (
            FairPCA(restriction=CovarianceParity(3)),
            {"restriction__n_directions": None, "restriction__tolerance": 0.5},
            CovarianceParity(tolerance=0.5),
        ),
        (
            FairPCA(),
            {"criterion": "disparity", "criterion__protected": "b"},
            Disparity(protected="b"),
        ),
    ):
        copy = clone(estimator.set_params(**parameters))
        assert part in (copy.criterion, copy.restriction)
        assert copy.get_params() == estimator.get_params()


UNUSABLE = {
    "unknown": ({"penalty": 1}, InvalidParameter, r"Invalid parameter 'penalty' for estimator"),
    "unknown owner": ({"center__x": 1}, InvalidParameter, r"Valid parameters are: \[\]"),
    "no owner": ({"metric__x": 1}, InvalidParameter, r"Invalid parameter 'metric' for estimator"),
    "field of another": (
        {"criterion__penalty": 1},
        InvalidParameter,
        r"Invalid parameter 'penalty' for criterion MinimaxLoss",
    ),
    "no restriction": (
        {"restriction__tolerance": 1},
        InvalidParameter,
        r"restriction None.*Set restriction to an object",
    ),
    "out of range": (
        {"criterion": "error_gap", "criterion__penalty": -1},
        InvalidParameter,
        "penalty is -1",
    ),
    "of another kind": (
        {"criterion": "error_gap", "criterion__penalty": "x"},
        InvalidType,
        "Pass a number",
    ),
    "together": (
        {
            "restriction": CovarianceParity(),
            "restriction__tolerance": 1,
            "restriction__n_directions": 2,
        },
        IncompatibleParameters,
        "n_directions=.* and tolerance=",
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_invalid_parameters_change_nothing(case):
    parameters, kind, words = UNUSABLE[case]
    model = FairPCA(criterion=MinimaxLoss())
    before = dict(vars(model))
    with pytest.raises(kind, match=words):
        model.set_params(n_components=4, **parameters)
    assert vars(model) == before


@parametrize_diagonal(routing=[False, True], criterion=["error_gap", ErrorGap(7)])
def test_a_search_over_a_nested_parameter(criterion, routing):
    expected = [
        np.mean(scores_of(FairPCA(d, criterion=ErrorGap(penalty))))
        for penalty in PENALTIES
        for d in (1, 3)
    ]
    assert len(set(np.round(expected, 6))) == 4
    with config_context(enable_metadata_routing=routing):
        grid = {"criterion__penalty": PENALTIES, "n_components": [1, 3]}
        search = GridSearchCV(FairPCA(criterion=criterion), grid, cv=FOLDS, error_score="raise")
        search.fit(X, sensitive_features=GROUPS)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected)
    best, best_model = search.best_params_, search.best_estimator_
    assert (best_model.criterion.penalty, best_model.n_components_) == tuple(best.values())
