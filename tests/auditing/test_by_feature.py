"""Errors by feature: against rows that are projected one by one, and on new rows by hand."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

import fairspan as fs
from fairspan.rows.folds import Folds


def make_case(n=240, p=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * [3, 1, 2, 1, 0.5, 0.1]
    groups = np.where(np.arange(n) % 3 == 0, "few", "many")
    X[groups == "few", 1] *= 3
    return X + np.arange(p), groups


def select(result, model, group, column):
    frame = result.feature_errors()
    return frame[(frame.model == model) & (frame.group == group)][column].to_numpy()


@pytest.mark.parametrize(
    "settings",
    [
        *(
            pytest.param(settings, marks=pytest.mark.slow)
            for settings in ({}, {"scale": True}, {"whiten": True})
        ),
        {"center": "none"},
        {"scale": True, "whiten": True},
        {"criterion": "total_error", "restriction": fs.MeanParity(oblique=True)},
        {"allow_extra": True},
    ],
)
def test_errors_by_feature_are_mean_squared_residuals(settings):
    X, groups = make_case()
    fair = fs.FairPCA(2, **settings).fit(X, sensitive_features=groups)
    result = fs.audit({"fair": fair}, X, groups, folds=5)
    residuals = X - fair.inverse_transform(fair.transform(X))
    residuals /= np.ones(6) if fair.subspace_.scale is None else fair.subspace_.scale
    for group in ("few", "many"):
        expected = (residuals[groups == group] ** 2).mean(axis=0)
        assert select(result, "fair", group, "observed_error") == pytest.approx(expected, abs=1e-9)
    for model in result.models:
        for group in model.groups:
            on_rows = select(result, model.name, group.group, "observed_error").sum()
            new = select(result, model.name, group.group, "expected_error").sum()
            assert on_rows == pytest.approx(group.observed_error.value)
            assert new == pytest.approx(group.expected_error.value)


def test_expected_figures_are_those_of_held_out_folds():
    X, groups = make_case()
    result = fs.audit({"pca": PCA(2).fit(X)}, X, groups)
    folds = Folds(10, 0).folds_of_positions(np.arange(len(X)))
    squares = np.empty_like(X)
    for fold in range(10):
        axes = PCA(2).fit(X[folds != fold]).components_
        rows = X[folds == fold] - X.mean(axis=0)
        shift = X.mean(axis=0) - X[folds != fold].mean(axis=0)
        residuals = rows - rows @ axes.T @ axes
        shift = shift - shift @ axes.T @ axes
        # A row is nearer to a mean that includes it than a new one, by twice this product.
        squares[folds == fold] = residuals**2 + 2 * residuals * shift
    for group in ("few", "many"):
        expected = squares[groups == group].mean(axis=0)
        assert select(result, "pca", group, "expected_error") == pytest.approx(expected, abs=1e-9)


def test_json_has_twenty_features_the_last_the_sum_of_the_rest():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 50)) * np.arange(50)
    groups = np.repeat(["a", "b"], 30)
    result = fs.audit(np.eye(50)[:3], X, groups, folds=5)
    records = result.to_dict()["feature_errors"]
    largest = [max(one["expected_error"] for one in records[i::20]) for i in range(19)]
    assert largest == sorted(largest, reverse=True)
    assert records[19]["feature"] == "31 others"
    assert len(records) == 40
    for group in result.models[0].groups:
        group_records = [record for record in records if record["group"] == group.group]
        assert sum(record["observed_error"] for record in group_records) == pytest.approx(
            group.observed_error.value
        )


def test_few_rows_of_many_features_and_moments_have_those_of_these_rows():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 700))
    groups = np.repeat(["a", "b"], 30)
    fair = fs.FairPCA(2, criterion="total_error").fit(X, sensitive_features=groups)
    blocks = [fs.GroupMoments.from_rows(X[i::5, :9], groups[i::5]) for i in range(5)]
    for result in (fs.audit(fair, X, groups, folds=None), fs.audit(np.eye(9)[:2], moments=blocks)):
        frame = result.feature_errors()
        first = result.models[0]
        group_rows = frame[(frame.model == first.name) & (frame.group == "a")]
        assert group_rows.observed_error.sum() == pytest.approx(
            first.groups[0].observed_error.value
        )
    assert group_rows.expected_error.sum() == pytest.approx(first.groups[0].expected_error.value)


@pytest.mark.parametrize("door", ["rows", "blocks"])
def test_errors_about_the_mean_of_a_group_have_the_divisor_n_minus_one(door):
    X, groups = make_case()
    subspace = fs.FairSubspace(np.eye(6)[:2], None, None, "group")
    folds = Folds(10, 0).folds_of_positions(np.arange(len(X)))
    expected = {}
    for group in ("few", "many"):
        in_group = groups == group
        expected[group] = X[in_group].var(axis=0)
        for fold in range(10):
            held_out = in_group & (folds == fold)
            mean = X[in_group].mean(axis=0)
            shift = mean - X[in_group & (folds != fold)].mean(axis=0)
            expected[group] += (
                held_out.sum() / in_group.sum() * shift * (X[held_out].mean(axis=0) - mean)
            )
        expected[group][:2] = 0.0
    blocks = [fs.GroupMoments.from_rows(X[folds == f], groups[folds == f]) for f in range(10)]
    if door == "rows":
        result = fs.audit({"means": subspace}, X, groups)
    else:
        result = fs.audit({"means": subspace}, moments=blocks)
    for group in result.models[0].groups:
        by_feature = select(result, "means", group.group, "expected_error")
        assert by_feature == pytest.approx(expected[group.group], abs=1e-9)
        assert group.expected_error.value == pytest.approx(by_feature.sum())
        n = group.n_rows
        assert by_feature.sum() == pytest.approx(n / (n - 1) * group.observed_error.value, rel=5e-3)
