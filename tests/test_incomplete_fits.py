"""Fits to rows with missing cells, and their transforms of other such rows."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fairspan as fs
from case_selection import mark_most_long
from fairspan.errors import CorruptFile, FairspanWarning, InvalidInput
from fairspan.metrics import excess_loss


def make_rows(n: int = 210, share: float = 0.2) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    groups = np.where(np.arange(n) % 3, "a", "b")
    rows = rng.standard_normal((n, 5)) @ rng.standard_normal((5, 5))
    rows[groups == "b"] = rows[groups == "b"][:, ::-1] + 1
    holes = rng.random(rows.shape) < share
    holes[:, 0] &= ~holes.all(axis=1)
    return pd.DataFrame(np.where(holes, np.nan, rows), columns=list("vwxyz")), groups


@cache
def fitted_by_em() -> fs.FairPCA:
    frame, groups = make_rows()
    return fs.FairPCA(2, on_missing="em").fit(frame, sensitive_features=groups)


def reference_completion(model: fs.FairSubspace, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a completed row, and the covariance of its missing cells."""
    mean = model.imputation_model.mean
    covariance = model.imputation_model.covariance
    observed = ~np.isnan(row)
    regression = covariance[:, observed] @ np.linalg.inv(covariance[np.ix_(observed, observed)])
    residual_covariance = covariance - regression @ covariance[observed]
    return mean + regression @ (row[observed] - mean[observed]), residual_covariance


@pytest.mark.parametrize("settings", [{}, {"scale": True, "center": "none"}, {"whiten": True}])
def test_rows_are_completed_by_the_model_of_all_rows(settings):
    frame, groups = make_rows()
    fair = fs.FairPCA(2, on_missing="em", **settings).fit(frame, sensitive_features=groups)
    model, moments = fair.subspace_, fair.moments_
    np.testing.assert_allclose(model.imputation_model.mean, moments.mean)
    scale = np.ones(5) if model.scale is None else model.scale
    across = np.eye(5) - model.components.T @ model.components
    errors = -fair.score_samples(frame)
    coordinates = fair.transform(frame)
    for row, error, coordinate in zip(frame.to_numpy(), errors, coordinates, strict=True):
        completed, residual_covariance = reference_completion(model, row)
        centered = (completed - model.mean) / scale
        np.testing.assert_allclose(coordinate, model.encoder @ centered, atol=1e-7)
        residual = across @ centered
        spread = np.trace(across @ (residual_covariance / np.outer(scale, scale)))
        assert error == pytest.approx(residual @ residual + spread, rel=1e-6, abs=1e-7)


def test_the_errors_are_those_of_the_moments():
    frame, groups = make_rows()
    fair = fitted_by_em()
    moments = fs.GroupMoments.from_rows(frame, groups, on_missing="em")
    again = fs.FairPCA(2).fit_moments(moments)
    np.testing.assert_allclose(again.group_errors_, fair.group_errors_, rtol=1e-10)
    assert again.subspace_.imputation_model is not None


def test_a_saved_model_completes_rows_and_is_verified(tmp_path):
    frame, groups = make_rows()
    fair = fitted_by_em()
    fair.subspace_.save(tmp_path / "fair.model")
    again = fs.FairSubspace.load(tmp_path / "fair.model")
    np.testing.assert_array_equal(again.transform(frame), fair.transform(frame))
    assert fs.verify(again, frame, groups).holds
    assert fs.verify(fair, fair.moments_).holds
    normal = again.imputation_model
    altered = replace(normal, covariance=normal.covariance * 1.001)
    for other in (replace(again, imputation_model=altered), replace(again, imputation_model=None)):
        assert not fs.verify(other, fair.moments_).holds


def test_a_file_with_a_covariance_that_is_none_is_refused(tmp_path):
    model = fitted_by_em().subspace_
    wrong = replace(
        model,
        imputation_model=replace(
            model.imputation_model, covariance=-model.imputation_model.covariance
        ),
    )
    wrong.save(tmp_path / "wrong.model")
    with pytest.raises(CorruptFile):
        fs.FairSubspace.load(tmp_path / "wrong.model")


def test_a_model_of_complete_rows_takes_complete_rows():
    frame, groups = make_rows()
    fair = fs.FairPCA(2, on_missing="drop").fit(frame, sensitive_features=groups)
    assert fair.moments_.n_dropped == frame.isna().any(axis=1).sum()
    with pytest.raises(InvalidInput, match="NaN"):
        fair.transform(frame)
    with pytest.raises(InvalidInput, match="NaN"):
        fs.FairPCA(2).fit(frame, sensitive_features=groups)


@pytest.mark.slow
def test_new_rows_may_lie_on_a_cluster():
    dd = pytest.importorskip("dask.dataframe")
    frame, _ = make_rows()
    fair = fitted_by_em()
    on_cluster = dd.from_pandas(frame, npartitions=3, sort=False)
    np.testing.assert_allclose(fair.transform(on_cluster).compute(), fair.transform(frame))
    np.testing.assert_allclose(fair.score_samples(on_cluster).compute(), fair.score_samples(frame))


def test_new_rows_need_something_observed():
    frame, _ = make_rows()
    frame.iloc[2] = np.nan
    with pytest.raises(InvalidInput, match="missing in row 3"):
        fitted_by_em().transform(frame)


def test_rows_are_not_added_one_part_after_the_other():
    frame, groups = make_rows()
    fair = fs.FairPCA(2, on_missing="em").partial_fit(frame, sensitive_features=groups)
    with pytest.raises(InvalidInput, match="incomplete rows by EM"):
        fair.partial_fit(frame, sensitive_features=groups)


def test_columns_next_to_the_features_may_have_missing_cells():
    frame, groups = make_rows()
    hidden = fs.FairPCA(1, restriction=fs.Uncorrelated(["v"]), on_missing="em")
    hidden.fit(frame, sensitive_features=groups)
    assert hidden.subspace_.imputation_model.mean.shape == (4,)
    new = frame[list("wxyz")].dropna(how="all")
    assert hidden.transform(new).shape == (len(new), 1)


@pytest.mark.filterwarnings("ignore:EM ended")
@pytest.mark.slow
@pytest.mark.parametrize("n_draws", mark_most_long([1, 6], 2))
@pytest.mark.parametrize("group", ["benign", "malignant"])
def test_tumors_with_missing_cells_are_served_nearly_as_well(group, n_draws):
    # A few rows decide the errors of these groups (kurtosis 27 and 58), so which of their cells are
    # missing makes the ratio of one draw vary by .02: it takes six of them to be that sure.
    slack = 0.05 if n_draws == 1 else 0.0
    data = fs.datasets.load_breast_cancer_by_diagnosis()
    rows = np.asarray(data.X, dtype=float)
    groups = np.asarray(data.sensitive_features)
    rows = rows / rows.std(axis=0)
    in_group = groups == group

    def largest_loss(model: fs.FairPCA) -> float:
        losses = excess_loss(model, rows, sensitive_features=groups)
        return max(losses.values())

    best = largest_loss(fs.FairPCA(3).fit(rows, sensitive_features=groups))
    plain = fs.FairPCA(3, criterion="total_error").fit(rows, sensitive_features=groups)
    for share, most in ((0.1, 1.04), (0.3, 1.07)):
        ratios = []
        for seed in range(n_draws):
            holes = (np.random.default_rng(seed).random(rows.shape) < share) & in_group[:, None]
            some = np.where(holes, np.nan, rows)
            model = fs.FairPCA(3, on_missing="em").fit(some, sensitive_features=groups)
            ratios.append(largest_loss(model) / best)
        assert np.mean(ratios) < most + slack < largest_loss(plain) / best, ratios


def test_rows_without_observed_cells_are_dropped_if_requested():
    frame, groups = make_rows()
    empty = np.array([3, 11, 200, len(frame) - 1])
    some = frame.copy()
    some.iloc[empty] = np.nan
    rest = some.drop(index=empty)
    rest_groups = np.delete(groups, empty)
    expected = fs.GroupMoments.from_rows(rest, rest_groups, on_missing="em")
    with pytest.raises(
        InvalidInput, match=r'row 4 .* Drop such rows \(on_missing="em-drop-empty"\)'
    ):
        fs.GroupMoments.from_rows(some, groups, on_missing="em")
    for rows in (some, some.to_numpy()):
        with pytest.warns(FairspanWarning, match="4 rows were dropped, .*without any observed"):
            moments = fs.GroupMoments.from_rows(rows, groups, on_missing="em-drop-empty")
        np.testing.assert_array_equal(moments.counts, expected.counts)
        np.testing.assert_allclose(moments.means, expected.means, rtol=1e-9)
        np.testing.assert_allclose(moments.scatters, expected.scatters, rtol=1e-9)
        assert moments.n_dropped == len(empty)
        np.testing.assert_array_equal(
            moments.em_summary.n_missing_cells, expected.em_summary.n_missing_cells
        )
    with pytest.warns(FairspanWarning, match="4 rows"):
        fair = fs.FairPCA(2, on_missing="em-drop-empty").fit(some, sensitive_features=groups)
    rest_model = fs.FairPCA(2, on_missing="em").fit(rest, sensitive_features=rest_groups)
    np.testing.assert_allclose(fair.group_errors_, rest_model.group_errors_, rtol=1e-9)
    np.testing.assert_allclose(fair.transform(rest), rest_model.transform(rest), atol=1e-8)


@pytest.mark.slow
def test_an_audit_without_empty_rows_is_that_of_the_others_and_counts_them():
    frame, groups = make_rows(90)
    some = frame.copy()
    some.iloc[[4, 9]] = np.nan
    with pytest.warns(FairspanWarning, match="2 rows"):
        fair = fs.FairPCA(2, on_missing="em-drop-empty").fit(some, sensitive_features=groups)
    with pytest.warns(FairspanWarning, match="2 rows"):
        result = fs.audit(fair, some, groups, on_missing="em-drop-empty", folds=None)
    rest = some.drop(index=[4, 9])
    rest_groups = np.delete(groups, [4, 9])
    rest_result = fs.audit(fair, rest, rest_groups, on_missing="em", folds=None)
    assert result.rows.n_dropped == 2
    for one, other in zip(result.models[0].groups, rest_result.models[0].groups, strict=True):
        assert one.n_rows == other.n_rows
        assert one.observed_error.value == pytest.approx(other.observed_error.value, rel=1e-9)


def test_sparse_rows_keep_no_missing_cells_either_way():
    rows = sparse.csr_array(np.eye(4))
    for value in ("em", "em-drop-empty"):
        with pytest.raises(InvalidInput, match=f'sparse matrix, and on_missing is "{value}"'):
            fs.GroupMoments.from_rows(rows, list("aabb"), on_missing=value)
