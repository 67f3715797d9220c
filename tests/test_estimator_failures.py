"""Settings that cannot be, the limit of groups, and what a failing fit leaves behind."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fairspan import (
    ErrorGap,
    FairPCA,
    GroupMoments,
    MinimaxLoss,
    audit,
    metrics,
    write_report,
)
from fairspan.errors import (
    FairspanError,
    FairspanWarning,
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    InvalidType,
    UnknownGroup,
)
from numpy_reference import random_rows

ROWS = random_rows(41, n=40, p=4)
THREE = random_rows(42, n=40, p=4, groups=("a", "b", "c"))

SETTINGS = {
    "d = 0": ({"n_components": 0}, InvalidParameter, "number of features, 4"),
    "d below 0": ({"n_components": -1}, InvalidParameter, "n_components is -1"),
    "d above p": ({"n_components": 5}, InvalidParameter, "number of features, 4"),
    "d = True": ({"n_components": True}, InvalidParameter, "n_components is True"),
    "d = 1.5": ({"n_components": 1.5}, InvalidParameter, "n_components is 1.5"),
    "d = 2.0": ({"n_components": 2.0}, InvalidParameter, "n_components is 2.0"),
    "d as text": ({"n_components": "2"}, InvalidParameter, "n_components is '2'"),
    "d = None": ({"n_components": None}, InvalidParameter, "n_components is None"),
    "unknown criterion": ({"criterion": "fairest"}, InvalidParameter, "'minimax_loss'"),
    "criterion of another kind": ({"criterion": 3}, InvalidType, "type int"),
    "class of a criterion": (
        {"criterion": ErrorGap},
        InvalidType,
        "criterion is the class ErrorGap itself",
    ),
    "criterion as class": ({"criterion": MinimaxLoss}, InvalidType, "criterion object"),
    "unknown center": ({"center": "median"}, InvalidParameter, "'global', 'group' and 'none'"),
    "unknown solver": ({"solver": "magic"}, InvalidParameter, "'auto', 'boundary'"),
    "solver of another kind": ({"solver": 1.0}, InvalidType, "type float"),
    "negative tol": ({"tol": -1e-9}, InvalidParameter, "tol is -1e-09"),
    "tol = 1": ({"tol": 1}, InvalidParameter, "at least 0 and below 1"),
    "tol NaN": ({"tol": np.nan}, InvalidParameter, "tol is nan"),
    "tol True": ({"tol": True}, InvalidParameter, "tol is True"),
    "tol as text": ({"tol": "small"}, InvalidParameter, "tol is 'small'"),
    "d = 1.0": ({"n_components": 1.0}, InvalidParameter, "a fraction between 0 and 1"),
    "d = 0.0": ({"n_components": 0.0}, InvalidParameter, "a fraction between 0 and 1"),
    "d = NaN": ({"n_components": np.nan}, InvalidParameter, "a fraction between 0 and 1"),
    "no restriction's name": ({"restriction": "parity"}, InvalidParameter, "'mean_parity'"),
    "scale as text": ({"scale": "no"}, InvalidParameter, "Allowed: True or False"),
    "scale = 1": ({"scale": 1}, InvalidParameter, "Allowed: True or False"),
    "scale = None": ({"scale": None}, InvalidParameter, "Allowed: True or False"),
    "allow_extra = 1": ({"allow_extra": 1}, InvalidParameter, "Allowed: True or False"),
    "missing groups": ({"missing_groups": "drop"}, InvalidParameter, "'error', 'ignore'"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_out_of_range_are_refused(case):
    settings, kind, words = SETTINGS[case]
    moments = GroupMoments.from_rows(ROWS.X, ROWS.labels)
    for fit in (
        lambda model: model.fit(ROWS.X, sensitive_features=ROWS.labels),
        lambda model: model.partial_fit(ROWS.X, sensitive_features=ROWS.labels),
        lambda model: model.fit_moments(moments),
    ):
        model = FairPCA(**settings)
        before = dict(vars(model))
        with pytest.raises(kind) as error:
            fit(model)
        assert words in str(error.value)
        assert vars(model) == before


def test_settings_are_only_checked_when_fitting():
    assert clone(FairPCA(-3, criterion="fairest", solver=object())).n_components == -3
    assert FairPCA(np.int64(2)).fit(**SOUND).n_components_ == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"criterion": "disparity"}, r"'disparity'.*3 groups.*'error_gap'"),
        ({"solver": "boundary"}, r"'boundary'.*3 groups.*'dual_newton'"),
    ],
)
def test_three_groups_say_what_works(settings, words):
    with pytest.raises(IncompatibleParameters, match=words):
        FairPCA(**settings).fit(THREE.X, sensitive_features=THREE.labels)


def test_forgetting_the_groups_is_an_error():
    for method in ("fit", "partial_fit", "fit_transform"):
        with pytest.raises(InvalidInput, match=r"sensitive_features is missing.*missing_groups="):
            getattr(FairPCA(2), method)(ROWS.X)
    with pytest.raises(InvalidType, match=r"moments .*ndarray"):
        FairPCA(2).fit_moments(ROWS.X)


FAILING = {
    "NaN": {"X": np.full((40, 4), np.nan)},
    "NaN in a frame": {"X": pd.DataFrame(np.full((40, 3), np.nan), columns=["x", "y", "z"])},
    "other width": {"X": np.full((40, 2), np.inf)},
    "text": {"X": [["a", "b"]] * 40},
    "no rows": {"X": ROWS.X[:0]},
    "missing groups": {"sensitive_features": None},
    "missing label": {"sensitive_features": [None, *ROWS.labels[1:]]},
    "too few labels": {"sensitive_features": ROWS.labels[:-1]},
    "three groups": {"sensitive_features": THREE.labels},
    "labels of another type": {"sensitive_features": [*ROWS.labels[1:], 3]},
    "bad weights": {"sample_weight": -ROWS.weights},
    "overflow": {"X": ROWS.X * 1e200},
}
# Defined for two groups alone, so that a third one is an error too.
TWO_GROUP_CRITERION = {"criterion": "disparity"}
SOUND = {"X": ROWS.X, "sensitive_features": ROWS.labels}


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("case", FAILING)
def test_a_failing_fit_leaves_an_unfitted_estimator_unfitted(case, method):
    model = FairPCA(2, **TWO_GROUP_CRITERION)
    before = dict(vars(model))
    with pytest.raises(FairspanError):
        getattr(model, method)(**SOUND | FAILING[case])
    assert vars(model) == before
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(NotFittedError):
        model.transform(ROWS.X)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("case", FAILING)
def test_a_failing_fit_keeps_the_earlier_fit(case, method):
    model = FairPCA(2, **TWO_GROUP_CRITERION).fit(**SOUND)
    before = dict(vars(model))
    coordinates = model.transform(ROWS.X)
    # partial_fit finds another width, or names that were not there, as scikit-learn does.
    with pytest.raises((FairspanError, ValueError, UserWarning)):
        getattr(model, method)(**SOUND | FAILING[case])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)
    assert model.transform(ROWS.X).tobytes() == coordinates.tobytes()


def test_failing_on_moments_keeps_the_earlier_fit():
    model = FairPCA(2, **TWO_GROUP_CRITERION).fit(**SOUND)
    before = dict(vars(model))
    for X, labels, kind in (
        (THREE.X, THREE.labels, IncompatibleParameters),
        (ROWS.X[:, :1], ROWS.labels, InvalidParameter),
    ):
        with pytest.raises(kind):
            model.fit_moments(GroupMoments.from_rows(X, labels))
    assert all(vars(model)[name] is before[name] for name in before)


def test_an_unfitted_estimator_is_refused():
    methods = ("transform", "inverse_transform", "score_samples", "score", "get_feature_names_out")
    for method in methods:
        with pytest.raises(NotFittedError):
            getattr(FairPCA(2), method)(*([ROWS.X] if method != methods[-1] else []))


@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error", "total_error"])
def test_a_group_of_one_row_is_no_error_but_about_its_own_mean(criterion):
    labels = ["one", *["many"] * 39]
    with pytest.raises(InvalidInput, match=r'single row: \'one\'.*center="global"'):
        FairPCA(2, center="group").fit(ROWS.X, sensitive_features=labels)
    model = FairPCA(2, criterion=criterion).fit(ROWS.X, sensitive_features=labels)
    assert model.groups_.tolist() == ["many", "one"]
    expected = -model.score_samples(ROWS.X[:1])[0]
    assert model.group_errors_[1] == pytest.approx(expected, abs=1e-9)
    assert np.isfinite(model.group_losses_).all()


def test_a_constant_column_is_no_error_and_is_named_when_scaling():
    frame = pd.DataFrame(ROWS.X, columns=list("wxyz")).assign(same=7.5)
    model = FairPCA(2).fit(frame, sensitive_features=ROWS.labels)
    np.testing.assert_allclose(model.components_[:, 4], 0, atol=1e-12)
    for rows, name in ((frame, "same"), (frame.to_numpy(), "4")):
        with pytest.warns(FairspanWarning, match=f"Constant columns cannot be scaled.*: '{name}'"):
            scaled = FairPCA(2, scale=True).fit(rows, sensitive_features=ROWS.labels)
        assert scaled.scale_[4] == 1
        np.testing.assert_allclose(scaled.components_[:, 4], 0, atol=1e-12)


@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error", "total_error"])
@pytest.mark.parametrize("center", ["global", "group", "none"])
def test_as_many_components_as_features_lose_nothing(criterion, center):
    model = FairPCA(4, criterion=criterion, center=center).fit(**SOUND)
    np.testing.assert_allclose(model.group_errors_, 0, atol=1e-9)
    back = model.inverse_transform(model.transform(ROWS.X))
    np.testing.assert_allclose(back, ROWS.X, atol=1e-9)


def test_a_table_without_variance_is_no_error():
    model = FairPCA(1).fit(np.ones((4, 2)), sensitive_features=list("aabb"))
    np.testing.assert_array_equal(model.group_errors_, [0, 0])
    np.testing.assert_array_equal(model.transform(np.ones((4, 2))), np.zeros((4, 1)))
    assert np.isnan(model.explained_variance_ratio_).all()


def test_rows_with_and_without_groups_are_not_added_up():
    X = np.random.default_rng(0).standard_normal((20, 3))
    fair = FairPCA(1, missing_groups="ignore").fit(X)
    with pytest.raises(InvalidInput, match="groups after rows without"):
        fair.partial_fit(X, sensitive_features=["a", "b"] * 10)
    assert fair.groups_.tolist() == ["all"]


N = 240
X = np.random.default_rng(5).normal(size=(N, 3))
FRAME = pd.DataFrame(X, columns=["x", "y", "z"]).assign(person=np.arange(N) // 2)
PEOPLE = FRAME.person.to_numpy()
REFUSED = "'person' has 120 groups among 240 rows"


def fair(**settings):
    return FairPCA(1, criterion="total_error", **settings)


@cache
def moments_of_persons():
    return GroupMoments.from_rows(X, PEOPLE, max_groups=120)


@pytest.mark.parametrize(
    ("max_groups", "call", "kind", "expected_text"),
    [
        (None, lambda m: m.fit(FRAME, sensitive_features="person"), InvalidInput, REFUSED),
        (None, lambda m: m.partial_fit(FRAME, sensitive_features="person"), InvalidInput, REFUSED),
        (
            119,
            lambda m: m.fit(FRAME, sensitive_features="person"),
            InvalidInput,
            f"{REFUSED}.* max_groups is 119",
        ),
        (
            119,
            lambda m: m.fit_moments(moments_of_persons()),
            InvalidInput,
            "120 groups among 240 rows, and max_groups is 119",
        ),
        (0, lambda m: m.fit_moments(moments_of_persons()), InvalidParameter, "max_groups is 0"),
    ],
)
def test_a_fit_is_refused_unless_max_groups_allows_it(max_groups, call, kind, expected_text):
    with pytest.raises(kind, match=expected_text):
        call(fair(max_groups=max_groups))
    assert len(call(fair(max_groups=120)).groups_) == 120


def test_moments_are_checked_where_they_are_computed():
    assert len(fair().fit_moments(moments_of_persons()).groups_) == 120


def test_partial_fits_count_all_groups_so_far():
    with pytest.warns(FairspanWarning, match="80 groups of 3.0 rows on average"):
        model = fair().partial_fit(X, sensitive_features=np.arange(N) % 80)
    before = model.components_
    with pytest.raises(InvalidInput, match="160 groups among 320 rows so far"):
        model.partial_fit(X[:80], sensitive_features=np.arange(80, 160))
    assert model.components_ is before


@pytest.fixture(scope="module")
def model():
    return fair(max_groups=120).fit(X, sensitive_features=PEOPLE)


def test_groups_that_a_model_knows_are_groups(model):
    assert len(audit(model, X, PEOPLE, folds=None).models[0].groups) == 120
    errors = metrics.reconstruction_error(model, X, PEOPLE)
    np.testing.assert_allclose(list(errors.values()), model.group_errors_, atol=1e-12)
    for groups, kind, message in (
        (np.where(PEOPLE == 7, 120, PEOPLE), UnknownGroup, "was not fitted on: 120"),
        (np.arange(N), InvalidInput, "240 groups among 240 rows"),
    ):
        with pytest.raises(kind, match=message):
            audit(model, X, groups, folds=None)


@pytest.mark.long
def test_other_models_need_max_groups(model):
    components = model.components_
    assert len(audit(components, X, PEOPLE, max_groups=120).models[0].groups) == 120
    for metric in (
        audit,
        metrics.reconstruction_error,
        metrics.excess_loss,
        metrics.variance_kept_ratio,
        metrics.disparity,
    ):
        with pytest.raises(InvalidInput, match="120 groups among 240 rows"):
            metric(components, X, PEOPLE)
        assert metric(components, X, PEOPLE, max_groups=120)


@pytest.mark.long
def test_a_report_requires_max_groups(tmp_path):
    page = tmp_path / "report.html"
    for rows, groups, limit, message in (
        (FRAME, "person", None, REFUSED),
        (X, PEOPLE % 2, 1, "max_groups is 1"),
    ):
        with pytest.raises(InvalidInput, match=message):
            write_report(page, rows, groups, n_components=1, max_groups=limit)
    assert not page.exists()
    facts = write_report(page, X, PEOPLE % 2, n_components=1, compare=[], max_groups=2)
    assert "max_groups=2" in facts["provenance"]["command"]
