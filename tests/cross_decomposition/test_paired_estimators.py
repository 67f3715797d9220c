"""FairPLS and FairCCA as estimators: tables of all kinds, batches, weights and bad input."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cross_decomposition.paired_tables import draw_tables
from fairspan import GroupMoments
from fairspan.cross_decomposition import FairCCA, FairPLS, PairedSubspace
from fairspan.errors import (
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    InvalidType,
)

NAMES = ["u", "v", "w", "x", "y"]
TARGETS = ["A", "B", "C", "D"]


@pytest.fixture(scope="module")
def tables():
    return draw_tables(groups="abc")


@pytest.fixture(scope="module")
def fair(tables):
    X, Y, groups = tables
    return FairPLS(2).fit(X, Y, sensitive_features=groups)


def assert_same(first, second, rtol=1e-9):
    product, other = (pair.x_weights_ @ pair.y_weights_.T for pair in (first, second))
    np.testing.assert_allclose(product, other, atol=1e-7)
    np.testing.assert_allclose(first.group_covariances_, second.group_covariances_, rtol=rtol)


def frame(tables):
    X, Y, groups = tables
    return pd.DataFrame(X, columns=NAMES).assign(g=groups, **dict(zip(TARGETS, Y.T, strict=True)))


def test_data_frames_and_arrays_agree(tables, fair):
    X, Y, groups = tables
    x_frame, y_frame = pd.DataFrame(X, columns=NAMES), pd.DataFrame(Y, columns=TARGETS)
    x_frame.index = y_frame.index = np.arange(len(X))[::-1]
    for first, second in (
        (x_frame, y_frame),
        (x_frame, Y),
        (X, y_frame),
        (pl.DataFrame(X, schema=NAMES), pl.DataFrame(Y, schema=TARGETS)),
        (X.tolist(), Y.tolist()),
        (sparse.csr_array(X), Y),
    ):
        assert_same(FairPLS(2).fit(first, second, sensitive_features=groups), fair)


def test_columns_of_one_table_may_be_named(tables, fair):
    rows = frame(tables)
    by_name = FairPLS(2).fit(rows, TARGETS, sensitive_features="g")
    assert_same(by_name, fair)
    assert by_name.feature_names_in_.tolist() == NAMES
    assert by_name.subspace_.y.feature_names == tuple(TARGETS)
    x_scores, y_scores = by_name.transform(rows, rows)
    X, Y, _ = tables
    np.testing.assert_allclose(x_scores, fair.transform(X), atol=1e-6)
    np.testing.assert_allclose(y_scores, fair.transform(X, Y)[1], atol=1e-6)


@pytest.mark.slow
def test_files_dask_and_moments_agree(tables, fair, tmp_path):
    rows = frame(tables)
    path = tmp_path / "rows.csv"
    rows.to_csv(path, index=False)
    assert_same(FairPLS(2).fit(str(path), TARGETS, sensitive_features="g"), fair)
    moments = GroupMoments.from_rows(rows, "g")
    by_name = FairPLS(2).fit_moments(moments, TARGETS)
    assert_same(by_name, fair)
    X, Y, groups = tables
    both_tables = GroupMoments.from_rows(np.hstack([X, Y]), groups)
    assert_same(FairPLS(2).fit_moments(both_tables, 4), fair)
    dask = pytest.importorskip("dask.dataframe")
    lazy = dask.from_pandas(rows, npartitions=3)
    distributed = FairPLS(2).fit(lazy, TARGETS, sensitive_features="g")
    assert_same(distributed, fair)
    np.testing.assert_allclose(
        np.asarray(distributed.transform(lazy).compute()), fair.transform(X), atol=1e-6
    )


def test_batches_and_merged_moments_are_one_fit(tables, fair):
    X, Y, groups = tables
    batches = FairPLS(2)
    for part in np.array_split(np.arange(len(X)), 4):
        batches.partial_fit(X[part], Y[part], sensitive_features=groups[part])
    assert_same(batches, fair)
    assert batches.n_samples_seen_ == len(X)
    halves = [
        GroupMoments.from_rows(np.hstack([X, Y])[part], groups[part])
        for part in (slice(0, 100), slice(100, None))
    ]
    assert_same(FairPLS(2).fit_moments(halves[0] + halves[1], 4), fair)


def test_weights_are_repeated_rows(tables):
    X, Y, groups = tables
    weights = np.arange(len(X)) % 3
    weighted = FairCCA(2).fit(X, Y, sensitive_features=groups, sample_weight=weights)
    unweighted = FairCCA(2).fit(
        np.repeat(X, weights, axis=0),
        np.repeat(Y, weights, axis=0),
        sensitive_features=np.repeat(groups, weights),
    )
    assert_same(weighted, unweighted)


def test_scores_follow_from_the_weights(tables, fair):
    X, Y, _ = tables
    standardized = (X - X.mean(axis=0)) / X.std(axis=0)
    x_scores, y_scores = fair.transform(X, Y)
    np.testing.assert_allclose(x_scores, standardized @ fair.x_weights_, atol=1e-12)
    standardized = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    np.testing.assert_allclose(y_scores, standardized @ fair.y_weights_, atol=1e-12)
    # Covariances of pairs of scores, in decreasing order.
    np.testing.assert_allclose(fair.covariances_, np.mean(x_scores * y_scores, axis=0), atol=1e-12)
    assert (np.diff(fair.covariances_) <= 0).all()
    largest = np.abs(fair.x_weights_).argmax(axis=0)
    assert (fair.x_weights_[largest, np.arange(2)] > 0).all()


def test_scikit_learn_conventions(tables):
    X, Y, groups = tables
    model = FairCCA(1, regularization=0.1, criterion="nash_welfare")
    assert clone(model).get_params() == model.get_params()
    pipeline = make_pipeline(StandardScaler(), FairPLS(1))
    pipeline.fit(X, Y, fairpls__sensitive_features=groups)
    assert pipeline.transform(X).shape == (len(X), 1)
    fair = FairPLS(1).set_output(transform="pandas")
    fair.fit(pd.DataFrame(X, columns=NAMES), Y, sensitive_features=groups)
    assert fair.transform(pd.DataFrame(X, columns=NAMES)).columns.tolist() == ["fairpls0"]
    x_scores, _ = FairPLS(1).fit_transform(X, Y, sensitive_features=groups)
    np.testing.assert_allclose(
        x_scores, FairPLS(1).fit(X, Y, sensitive_features=groups).transform(X)
    )


@pytest.mark.parametrize("kind", [FairPLS, FairCCA])
def test_scores_have_the_names_of_the_output_features_wherever_they_are_written(
    tables, kind, tmp_path
):
    X, Y, groups = tables
    model = kind(2).fit(X, Y, sensitive_features=groups)
    model.subspace_.save(tmp_path / "pair.model")
    loaded = PairedSubspace.load(tmp_path / "pair.model")
    names = tuple(model.get_feature_names_out())
    assert model.subspace_.x.score_names == loaded.x.score_names == names
    y_names = model.subspace_.y.score_names
    assert y_names == loaded.y.score_names
    assert len({*names, *y_names}) == 4


def test_incomplete_rows_are_dropped_in_both_tables(tables):
    X, Y, groups = tables
    holes, gaps = X.copy(), Y.copy()
    holes[0, 0] = gaps[1, 1] = np.nan
    incomplete = FairPLS(2, on_missing="drop").fit(holes, gaps, sensitive_features=groups)
    complete = FairPLS(2).fit(X[2:], Y[2:], sensitive_features=groups[2:])
    assert_same(incomplete, complete)
    for first, second, place in ((holes, Y, "row 1"), (X, gaps, "Y: .*row 2")):
        with pytest.raises(InvalidInput, match=f"(?i){place}"):
            FairPLS(2).fit(first, second, sensitive_features=groups)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_components": 4}, IncompatibleParameters, "from 1 to 3"),
        ({"n_components": 0}, InvalidParameter, "n_components is 0"),
        ({"n_components": 0.9}, InvalidParameter, "n_components is 0.9"),
        ({"criterion": "minimax_lost"}, InvalidParameter, "'nash_welfare'"),
        ({"criterion": 3}, InvalidType, "of type int"),
        ({"restriction": "covariance_parity"}, IncompatibleParameters, r"MeanParity\(\)"),
        ({"restricted_tables": "z"}, InvalidParameter, "'both'"),
        ({"center": "median"}, InvalidParameter, "center"),
        ({"tol": -1}, InvalidParameter, "tol"),
        ({"solver": "simplex"}, InvalidParameter, "solver"),
        ({"scale": "yes"}, InvalidParameter, "scale"),
    ],
)
def test_parameters_are_checked(tables, change, error, message):
    X, Y, groups = tables
    model = FairPLS(**change)
    with pytest.raises(error, match=message):
        model.fit(X, Y, sensitive_features=groups)
    assert not hasattr(model, "subspace_")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"Y": None}, InvalidInput, "Y is missing"),
        ({"Y": np.zeros((7, 2))}, InvalidInput, "300 rows and Y has 7"),
        ({"Y": ["A", "B"]}, InvalidInput, "have no names"),
        ({"sensitive_features": None}, InvalidInput, "sensitive_features"),
        ({"Y": [["text", "more"]] * 300}, InvalidInput, "Y"),
    ],
)
def test_tables_are_checked(tables, arguments, error, message):
    X, Y, groups = tables
    all_arguments = {"Y": Y, "sensitive_features": groups} | arguments
    with pytest.raises(error, match=message):
        FairPLS(1).fit(X, **all_arguments)


def test_names_are_checked(tables):
    rows = frame(tables)
    for names, message in ((["A", "Z"], "distinct columns"), (["A", "A"], "distinct columns")):
        with pytest.raises(InvalidInput, match=message):
            FairPLS(1).fit(rows, names, sensitive_features="g")
    X, Y, groups = tables
    with pytest.raises(InvalidInput, match="both have the columns 'u'"):
        FairPLS(1).fit(
            pd.DataFrame(X, columns=NAMES),
            pd.DataFrame(Y, columns=["u", "B", "C", "D"]),
            sensitive_features=groups,
        )
    with pytest.raises(InvalidInput, match="targets names"):
        FairPLS(1).fit_moments(GroupMoments.from_rows(rows, "g"), ["Z"])


def test_tables_that_do_not_covary_or_depend_on_each_other_are_refused(tables):
    X, Y, groups = tables
    with pytest.raises(IncompatibleParameters, match="zero in every group"):
        FairPLS(1, scale=False).fit(X, np.ones((len(X), 3)), sensitive_features=groups)
    twice = np.column_stack([X, X[:, 0]])
    with pytest.raises(IncompatibleParameters, match="regularization above 0"):
        FairCCA(1).fit(twice, Y, sensitive_features=groups)
    assert FairCCA(1, regularization=0.01).fit(twice, Y, sensitive_features=groups)
    with pytest.raises(IncompatibleParameters, match="at least two"):
        FairPLS(1).fit(X, Y[:, 0], sensitive_features=groups)


def test_a_failed_fit_leaves_the_model_as_it_was(tables):
    X, Y, groups = tables
    model = FairPLS(2).fit(X, Y, sensitive_features=groups)
    before = model.x_weights_.copy()
    with pytest.raises(InvalidInput):
        model.partial_fit(X[:, :3], Y, sensitive_features=groups)
    np.testing.assert_array_equal(model.x_weights_, before)
    assert model.n_samples_seen_ == len(X)


def test_groups_that_no_pair_serves_are_refused_by_nash_welfare():
    """One group's cross-covariance is minus that of the other."""
    rows = np.random.default_rng(0).normal(size=(200, 2))
    X = np.vstack([rows, rows])
    Y = np.vstack([rows, -rows])
    groups = np.repeat(["a", "b"], 200)
    with pytest.raises(IncompatibleParameters, match="keeps some covariance of every group"):
        FairPLS(1, criterion="nash_welfare").fit(X, Y, sensitive_features=groups)
