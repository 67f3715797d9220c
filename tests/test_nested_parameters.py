"""criterion__penalty and the like: in get_params, set_params, copies, pipelines and searches."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline

from by_hand import random_rows
from fairspan import (
    BoundarySearch,
    CovarianceParity,
    Disparity,
    ErrorGap,
    FairPCA,
    MeanParity,
    MinimaxLoss,
    RobustErrorGap,
)
from fairspan.errors import Incompatible, InvalidParameter, InvalidType

ROWS = random_rows(91, n=90, p=5)
X, GROUPS = ROWS.X, ROWS.labels
FOLDS = KFold(3, shuffle=True, random_state=0)


def test_fields_are_listed():
    model = FairPCA(
        criterion=RobustErrorGap(2.0, 0.1), restriction=MeanParity(), solver=BoundarySearch("dense")
    )
    nested = {name: value for name, value in model.get_params().items() if "__" in name}
    assert nested == {
        "criterion__penalty": 2.0,
        "criterion__radius": 0.1,
        "restriction__attributes": "intersections",
        "restriction__given_labels": None,
        "restriction__oblique": False,
        "restriction__tolerance": 0.0,
        "solver__eigen": "dense",
    }
    assert not any("__" in name for name in model.get_params(deep=False))
    assert FairPCA(criterion="disparity").get_params()["criterion__trade_off"] == 0.5
    assert FairPCA(solver="boundary").get_params()["solver__eigen"] == "auto"
    # Settings that make no sense are only told when fitting.
    assert FairPCA(criterion="fairest", solver=ErrorGap).get_params()["criterion"] == "fairest"


def test_setting_a_field_replaces_the_object():
    criterion = ErrorGap(1.0)
    model = FairPCA(criterion=criterion)
    assert model.set_params(criterion__penalty=2.0, n_components=3) is model
    assert (model.criterion, model.n_components, criterion) == (ErrorGap(2.0), 3, ErrorGap(1.0))
    model = FairPCA(criterion="error_gap").set_params(criterion__penalty=2)
    assert model.criterion == ErrorGap(2)
    model = FairPCA().set_params(criterion__penalty=3, criterion=ErrorGap())
    assert model.criterion == ErrorGap(3)
    model = FairPCA(restriction=CovarianceParity(3))
    model.set_params(restriction__n_directions=None, restriction__tolerance=0.5)
    assert model.restriction == CovarianceParity(tolerance=0.5)
    copy = clone(model.set_params(criterion="disparity", criterion__protected="b"))
    assert copy.criterion == Disparity(protected="b")
    assert copy.get_params() == model.get_params()


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
        "restriction None.*Set restriction to an object that has this parameter",
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
        Incompatible,
        "each is a way of its own",
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_what_cannot_be_set_changes_nothing(case):
    parameters, kind, words = UNUSABLE[case]
    model = FairPCA(criterion=MinimaxLoss())
    before = dict(vars(model))
    with pytest.raises(kind, match=words):
        model.set_params(n_components=4, **parameters)
    assert vars(model) == before


GRID = {"criterion__penalty": [0.0, 0.1, 0.2], "n_components": [1, 3]}


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("criterion", ["error_gap", ErrorGap(7)])
def test_a_search_over_a_nested_parameter(criterion, routing):
    expected = [
        np.mean(
            [
                FairPCA(d, criterion=ErrorGap(penalty))
                .fit(X[train], sensitive_features=GROUPS[train])
                .score(X[test])
                for train, test in FOLDS.split(X)
            ]
        )
        for penalty in GRID["criterion__penalty"]
        for d in GRID["n_components"]
    ]
    assert len(set(np.round(expected, 6))) == 6
    with config_context(enable_metadata_routing=routing):
        search = GridSearchCV(FairPCA(criterion=criterion), GRID, cv=FOLDS, error_score="raise")
        search.fit(X, sensitive_features=GROUPS)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected)
    best = search.best_params_
    assert search.best_estimator_.criterion == ErrorGap(best["criterion__penalty"])
    assert search.best_estimator_.n_components_ == best["n_components"]


@pytest.mark.parametrize("routing", [False, True])
def test_a_search_over_a_pipeline(routing):
    steps = Pipeline([("fpca", FairPCA(2, criterion="error_gap")), ("clf", LogisticRegression())])
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    name = "sensitive_features" if routing else "fpca__sensitive_features"
    with config_context(enable_metadata_routing=routing):
        search = GridSearchCV(steps, {"fpca__criterion__penalty": [0.0, 2.0]}, cv=FOLDS)
        search.fit(X, y, **{name: GROUPS})
    penalty = search.best_params_["fpca__criterion__penalty"]
    alone = FairPCA(2, criterion=ErrorGap(penalty)).fit(X, sensitive_features=GROUPS)
    np.testing.assert_array_equal(search.best_estimator_["fpca"].components_, alone.components_)
