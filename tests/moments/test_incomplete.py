"""Moments of rows with missing cells, against their likelihood maximized directly."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from case_selection import parametrize_diagonal
from certificate_claims import replace_claims
from fairspan import FairPCA, GroupMoments, verify
from fairspan.errors import FairspanWarning, InvalidInput
from incomplete_tables import collinear_rows, incomplete_rows


def minus_likelihood(
    theta: np.ndarray, rows: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the negative log-likelihood of the observed cells of normal rows, and its gradient."""
    p = rows.shape[1]
    lower = np.tril_indices(p)
    mean = theta[:p]
    root = np.zeros((p, p))
    root[lower] = theta[p:]
    covariance = root @ root.T
    value = 0.0
    of_mean = np.zeros(p)
    of_covariance = np.zeros((p, p))
    for row, weight in zip(rows, weights, strict=True):
        observed = np.flatnonzero(~np.isnan(row))
        inverse = np.linalg.inv(covariance[np.ix_(observed, observed)])
        off = inverse @ (row[observed] - mean[observed])
        value += (
            weight * ((row[observed] - mean[observed]) @ off - np.linalg.slogdet(inverse)[1]) / 2
        )
        of_mean[observed] -= weight * off
        of_covariance[np.ix_(observed, observed)] += weight * (inverse - np.outer(off, off)) / 2
    return value, np.concatenate([of_mean, (2 * of_covariance @ root)[lower]])


@parametrize_diagonal(is_weighted=[False, True], share=[0.1, 0.4])
def test_the_likelihood_is_that_of_a_direct_maximum(share, is_weighted):
    from scipy.optimize import minimize

    n, p = 50, 3
    rows = incomplete_rows(1, n, p, share)
    weights = np.random.default_rng(2).uniform(0.5, 2, n) if is_weighted else np.ones(n)
    moments = GroupMoments.from_rows(rows, ["a"] * n, weights, on_missing="em")
    start = np.diag(np.nanstd(rows, axis=0))[np.tril_indices(p)]
    best = minimize(
        minus_likelihood,
        np.concatenate([np.nanmean(rows, axis=0), start]),
        (rows, weights),
        method="BFGS",
        jac=True,
        options={"gtol": 1e-8, "maxiter": 2000},
    ).x
    root = np.zeros((p, p))
    root[np.tril_indices(p)] = best[p:]
    np.testing.assert_allclose(moments.means[0], best[:p], rtol=1e-6)
    covariance = moments.scatters[0] / moments.weights[0]
    np.testing.assert_allclose(covariance, root @ root.T, atol=1e-6 * np.trace(covariance))
    assert moments.em_summary.n_missing_cells == np.isnan(rows).sum()
    assert not moments.em_summary.pool_weights.any()


def test_complete_rows_have_their_usual_moments():
    rows = incomplete_rows(3, 60, 3, 0.0)
    groups = ["a", "b"] * 30
    usual = GroupMoments.from_rows(rows, groups)
    moments = GroupMoments.from_rows(rows, groups, on_missing="em")
    np.testing.assert_allclose(moments.means, usual.means, rtol=1e-12)
    np.testing.assert_allclose(moments.scatters, usual.scatters, rtol=1e-9)


@pytest.mark.parametrize("kind", ["folder", pytest.param("dask", marks=pytest.mark.slow)])
def test_parts_of_a_folder_and_of_a_collection_give_the_same(tmp_path, kind):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(incomplete_rows(4, 300, 4, 0.2), columns=list("wxyz"))
    frame["group"] = np.where(np.arange(300) % 3, "a", "b")
    folder = tmp_path / "rows"
    folder.mkdir()
    for part in range(3):
        frame[part * 100 : part * 100 + 100].to_parquet(folder / f"{part}.parquet", index=False)
    usual = GroupMoments.from_rows(frame, "group", on_missing="em")
    source = folder
    if kind == "dask":
        dd = pytest.importorskip("dask.dataframe")
        source = dd.from_pandas(frame, npartitions=4, sort=False)
    moments = GroupMoments.from_rows(source, "group", on_missing="em")
    np.testing.assert_allclose(moments.means, usual.means, rtol=1e-9)
    np.testing.assert_allclose(moments.scatters, usual.scatters, rtol=1e-8, atol=1e-8)


def test_a_small_group_is_drawn_to_the_pool():
    rows = np.vstack([incomplete_rows(7, 400, 5, 0.1), incomplete_rows(7, 400, 5, 0.3)[:6]])
    groups = ["large"] * 400 + ["small"] * 6
    moments = GroupMoments.from_rows(rows, groups, on_missing="em")
    large, small = moments.em_summary.pool_weights
    together = (~np.isnan(rows[400:])).astype(int)
    lacking = 7 - (together.T @ together).min()
    assert large == 0
    assert small == pytest.approx(lacking / (lacking + 6))
    assert np.linalg.eigvalsh(moments.scatters[1])[0] > 0


def test_a_column_without_variance_keeps_none():
    rows = incomplete_rows(8, 50, 3, 0.2)
    rows[~np.isnan(rows[:, 1]), 1] = 7.0
    moments = GroupMoments.from_rows(rows, ["a", "b"] * 25, on_missing="em")
    assert (moments.means[:, 1] == 7).all()
    assert not moments.scatters[:, 1].any()


def test_columns_that_determine_each_other():
    rows = incomplete_rows(9, 80, 3, 0.0)
    rows = np.hstack([rows, rows.sum(axis=1, keepdims=True)])
    complete = GroupMoments.from_rows(rows, ["a"] * 80)
    rows[::4, 0] = np.nan
    moments = GroupMoments.from_rows(rows, ["a"] * 80, on_missing="em")
    np.testing.assert_allclose(moments.scatters, complete.scatters, rtol=1e-5)


def test_classes_of_y_are_kept():
    rows = incomplete_rows(10, 120, 3, 0.2)
    y = [0, 0, 1] * 40
    moments = GroupMoments.from_rows(rows, ["a", "b"] * 60, y=y, on_missing="em")
    assert moments.em_summary.n_missing_cells.sum() == np.isnan(rows).sum()
    pairs = moments.by_class
    of_group = pairs.select_groups(np.array([pair[0] == "a" for pair in pairs.labels]))
    mean = np.average(of_group.means, axis=0, weights=of_group.weights)
    np.testing.assert_allclose(mean, moments.means[0])
    between = (of_group.means - mean).T * of_group.weights @ (of_group.means - mean)
    np.testing.assert_allclose(of_group.scatters.sum(axis=0) + between, moments.scatters[0])


def test_a_file_keeps_how_they_came(tmp_path):
    moments = GroupMoments.from_rows(
        incomplete_rows(11, 50, 3, 0.2), ["a", "b"] * 25, on_missing="em"
    )
    moments.save(tmp_path / "some.moments")
    again = GroupMoments.load(tmp_path / "some.moments")
    assert (again.em_summary.n_missing_cells == moments.em_summary.n_missing_cells).all()
    assert again.em_summary.n_passes == moments.em_summary.n_passes
    with pytest.raises(InvalidInput, match="incomplete rows by EM"):
        again + moments


def test_rows_without_a_group_are_dropped():
    rows = incomplete_rows(12, 50, 3, 0.2)
    groups = ["a", "b"] * 24 + [None, "a"]
    with pytest.warns(FairspanWarning, match="^1 row was dropped") as record:
        assert GroupMoments.from_rows(rows, groups, on_missing="em").n_dropped == 1
    assert record[0].filename == __file__


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ((3, slice(None)), "row 4"),
        ((slice(0, None, 2), 1), r"column 2 \(index 1\) .*'a'"),
    ],
    ids=["nothing observed", "column empty in a group"],
)
def test_impossible_estimates_are_refused(cells, message):
    rows = incomplete_rows(13, 50, 3, 0.0)
    rows[cells] = np.nan
    with pytest.raises(InvalidInput, match=message):
        GroupMoments.from_rows(rows, ["a", "b"] * 25, on_missing="em")


@pytest.mark.parametrize("size", [1e300, 1e160, 1e-200])
def test_numbers_whose_squares_leave_float64_are_refused(size):
    rows = incomplete_rows(14, 50, 3, 0.2)
    rows[:, 1] *= size
    with pytest.raises(InvalidInput, match="column"):
        GroupMoments.from_rows(rows, ["a", "b"] * 25, on_missing="em")


def test_infinity_is_not_missing():
    rows = incomplete_rows(14, 50, 3, 0.2)
    rows[4, 2] = np.inf
    with pytest.raises(InvalidInput, match="infinity"):
        GroupMoments.from_rows(rows, ["a", "b"] * 25, on_missing="em")


def test_em_passes_without_progress_are_reported(monkeypatch):
    monkeypatch.setattr("fairspan.moments.fixed_point._MAX_STEPS", 2)
    rows = incomplete_rows(15, 50, 3, 0.4)
    with pytest.warns(FairspanWarning, match="ended after 2 passes"):
        GroupMoments.from_rows(rows, ["a", "b"] * 25, on_missing="em")


# Whether passes converge here depends on the last bits, and on the order of the rows.
@pytest.mark.filterwarnings("ignore:EM ended")
@pytest.mark.parametrize("share", [0.1, pytest.param(0.3, marks=pytest.mark.slow)])
def test_columns_that_determine_each_other_keep_the_models_where_they_are(share):
    """Indicators of categories add up to one: their covariance has no inverse."""
    rng = np.random.default_rng(0)
    n = 400
    kinds = rng.choice(6, (n, 5), p=[0.5, 0.3, 0.1, 0.05, 0.03, 0.02])
    indicators = (kinds[:, :, None] == np.arange(6)).astype(np.float64).reshape(n, 30)
    amounts = rng.standard_normal((n, 3)) + indicators[:, ::10] * 2
    rows = np.hstack([indicators, amounts])
    some = np.where(rng.random(rows.shape) < share, np.nan, rows)
    moments = GroupMoments.from_rows(some, ["a"] * n, on_missing="em")
    complete = GroupMoments.from_rows(rows, ["a"] * n)
    units = np.sqrt(np.diag(complete.second_moments("group")[0]))
    apart = (moments.second_moments("group") - complete.second_moments("group"))[0]
    assert np.abs(moments.means - complete.means).max() < 0.25 * units.max()
    assert np.abs(apart / np.outer(units, units)).max() < 0.8
    assert moments.em_summary.last_change < 1e-3
    for block in range(5):  # each adds up to one still
        ones = np.r_[np.repeat(np.arange(5) == block, 6), np.zeros(3)]
        assert ones @ moments.second_moments("group")[0] @ ones < 0.01
        assert ones @ moments.means[0] == pytest.approx(1, abs=0.02)


@pytest.mark.filterwarnings("ignore::fairspan.errors.FairspanWarning")
@pytest.mark.parametrize(
    ("make_incomplete", "share", "seed"),
    [
        pytest.param(
            make_incomplete,
            share,
            seed,
            marks=() if (share, seed) == (0.3, 0) else pytest.mark.slow,
        )
        for make_incomplete in (incomplete_rows, collinear_rows)
        for share in (0.3, 0.55)
        for seed in range(4)
    ],
)
def test_certificates_of_the_same_rows_in_two_orders_do_not_refute_each_other(
    make_incomplete, share, seed
):
    n = 80
    rows = make_incomplete(seed, n, 4, share)
    groups = np.array(["a", "b"] * (n // 2))
    order = np.random.default_rng(1).permutation(n)
    one, other = (
        FairPCA(2, on_missing="em")
        .fit(rows[positions], sensitive_features=groups[positions])
        .subspace_.certificate
        for positions in (np.arange(n), order)
    )
    for mine, theirs in ((one, other), (other, one)):
        if mine.status == "optimal":
            assert mine.lower_bound <= theirs.objective + 2 * mine.absolute_tol


def test_rows_in_another_order_are_verified():
    rows = incomplete_rows(21, 80, 4, 0.4)
    groups = np.array(["a", "b"] * 40)
    fair = FairPCA(2, on_missing="em").fit(rows, sensitive_features=groups)
    assert fair.subspace_.certificate.status == "optimal"
    order = np.random.default_rng(0).permutation(80)
    assert verify(fair, rows[order], groups[order])
    other = np.where(np.isnan(rows), np.nan, rows * np.r_[1.001, 1, 1, 1])
    assert not verify(fair, other, groups)


@pytest.mark.filterwarnings("ignore:EM ended")
@pytest.mark.unverified
@pytest.mark.parametrize(
    ("seed", "nested"),
    [
        (1, False),
        pytest.param(3, False, marks=pytest.mark.slow),
        pytest.param(3, True, marks=pytest.mark.slow),
    ],
)
def test_rows_in_another_order_that_leave_other_digits_are_no_forgery(seed, nested):
    rows = collinear_rows(seed, 80, 4, 0.3)
    groups = np.array(["a", "b"] * 40)
    fair = FairPCA(2, criterion="total_error", on_missing="em", nested=nested)
    subspace = fair.fit(rows, sensitive_features=groups).subspace_
    certificate = subspace.certificate
    assert certificate.status == "unresolved"
    assert verify(subspace, rows, groups)
    order = np.random.default_rng(1).permutation(80)
    result = verify(subspace, rows[order], groups[order])
    assert not result.holds
    assert "cannot be verified" in result.messages[0]
    assert "EM algorithm" in result.messages[0]
    # What two runs leave does not explain figures of another size.
    altered = replace_claims(certificate, objective=1e4 * certificate.objective)
    result = verify(replace(subspace, certificate=altered), rows[order], groups[order])
    assert not result.holds
    assert "cannot be verified" not in result.messages[0]
