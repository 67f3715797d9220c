"""Moments of rows with missing cells, against their likelihood maximized directly."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from case_selection import parametrize_diagonal
from certificate_claims import replace_claims
from fairspan import FairPCA, GroupMoments, verify
from fairspan.errors import FairspanWarning, InvalidInput
from fairspan.moments import em, fixed_point, normal_model
from fairspan.moments.merging import sum_over_classes
from fairspan.moments.normal_model import NormalModel
from fairspan.rows.opening import open_rows


def incomplete_rows(seed: int, n: int, p: int, share: float) -> np.ndarray:
    """Correlated rows with cells missing at random, and something observed in each."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + 10 * rng.random(p)
    holes = rng.random((n, p)) < share
    holes[np.arange(n), rng.integers(0, p, n)] = False
    return np.where(holes, np.nan, rows)


def minus_likelihood(
    theta: np.ndarray, rows: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """Of the observed cells of a normal model, row by row; and its gradient."""
    p = rows.shape[1]
    lower = np.tril_indices(p)
    mean, root = theta[:p], np.zeros((p, p))
    root[lower] = theta[p:]
    covariance, value = root @ root.T, 0.0
    of_mean, of_covariance = np.zeros(p), np.zeros((p, p))
    for row, weight in zip(rows, weights, strict=True):
        seen = np.flatnonzero(~np.isnan(row))
        inverse = np.linalg.inv(covariance[np.ix_(seen, seen)])
        off = inverse @ (row[seen] - mean[seen])
        value += weight * ((row[seen] - mean[seen]) @ off - np.linalg.slogdet(inverse)[1]) / 2
        of_mean[seen] -= weight * off
        of_covariance[np.ix_(seen, seen)] += weight * (inverse - np.outer(off, off)) / 2
    return value, np.concatenate([of_mean, (2 * of_covariance @ root)[lower]])


@parametrize_diagonal(is_weighted=[False, True], share=[0.1, 0.4])
def test_the_likelihood_is_that_of_a_direct_maximum(share, is_weighted):
    p, rows = 4, incomplete_rows(1, 200, 4, share)
    weights = np.random.default_rng(2).uniform(0.5, 2, 200) if is_weighted else np.ones(200)
    found = GroupMoments.from_rows(rows, ["a"] * 200, weights, on_missing="em")
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
    np.testing.assert_allclose(found.means[0], best[:p], rtol=1e-6)
    covariance = found.scatters[0] / found.weights[0]
    np.testing.assert_allclose(covariance, root @ root.T, atol=1e-6 * np.trace(covariance))
    assert found.em_summary.n_missing_cells == np.isnan(rows).sum()
    assert not found.em_summary.pool_weights.any()


def test_complete_rows_have_their_usual_moments():
    rows, groups = incomplete_rows(3, 60, 3, 0.0), ["a", "b"] * 30
    usual = GroupMoments.from_rows(rows, groups)
    found = GroupMoments.from_rows(rows, groups, on_missing="em")
    np.testing.assert_allclose(found.means, usual.means, rtol=1e-12)
    np.testing.assert_allclose(found.scatters, usual.scatters, rtol=1e-9)


def test_parts_of_a_file_and_of_a_cluster_give_the_same(tmp_path):
    pytest.importorskip("pyarrow")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(incomplete_rows(4, 300, 4, 0.2), columns=list("wxyz"))
    frame["group"] = np.where(np.arange(300) % 3, "a", "b")
    folder = tmp_path / "rows"
    folder.mkdir()
    for part in range(3):
        frame[part * 100 : part * 100 + 100].to_parquet(folder / f"{part}.parquet", index=False)
    usual = GroupMoments.from_rows(frame, "group", on_missing="em")
    for source in (folder, dd.from_pandas(frame, npartitions=4, sort=False)):
        found = GroupMoments.from_rows(source, "group", on_missing="em")
        np.testing.assert_allclose(found.means, usual.means, rtol=1e-9)
        np.testing.assert_allclose(found.scatters, usual.scatters, rtol=1e-8, atol=1e-8)


def test_rows_of_a_pattern_alone_and_together_are_completed_alike():
    rows = incomplete_rows(5, 40, 70, 0.3)
    root = np.random.default_rng(6).standard_normal((70, 80))
    model = NormalModel(np.nanmean(rows, axis=0), root @ root.T)
    many = np.vstack([np.repeat(rows, 5, axis=0), rows])
    completed = model.complete(many)
    for row, found, trace in zip(
        many, completed.fill(many), completed.covariance_traces(np.eye(70)), strict=True
    ):
        seen = ~np.isnan(row)
        cross = model.covariance[np.ix_(~seen, seen)]
        inverse = np.linalg.inv(model.covariance[np.ix_(seen, seen)])
        off = cross @ inverse @ (row - model.mean)[seen]
        np.testing.assert_allclose(found[~seen], model.mean[~seen] + off, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found[seen], row[seen], rtol=1e-12)
        left = np.diag(model.covariance[np.ix_(~seen, ~seen)] - cross @ inverse @ cross.T)
        units = model.standard_deviations[~seen] ** 2
        np.testing.assert_allclose(trace, (left / units).sum(), rtol=1e-4)


def test_a_small_group_is_drawn_to_the_pool():
    rows = np.vstack([incomplete_rows(7, 400, 5, 0.1), incomplete_rows(7, 400, 5, 0.3)[:6]])
    groups = ["large"] * 400 + ["small"] * 6
    found = GroupMoments.from_rows(rows, groups, on_missing="em")
    large, small = found.em_summary.pool_weights
    together = (~np.isnan(rows[400:])).astype(int)
    lacking = 7 - (together.T @ together).min()
    assert large == 0
    assert small == pytest.approx(lacking / (lacking + 6))
    assert np.linalg.eigvalsh(found.scatters[1])[0] > 0


def test_a_column_without_variance_keeps_none():
    rows = incomplete_rows(8, 50, 3, 0.2)
    rows[~np.isnan(rows[:, 1]), 1] = 7.0
    found = GroupMoments.from_rows(rows, ["a", "b"] * 25, on_missing="em")
    assert (found.means[:, 1] == 7).all()
    assert not found.scatters[:, 1].any()


def test_columns_that_determine_each_other():
    rows = incomplete_rows(9, 80, 3, 0.0)
    rows = np.hstack([rows, rows.sum(axis=1, keepdims=True)])
    complete = GroupMoments.from_rows(rows, ["a"] * 80)
    rows[::4, 0] = np.nan
    found = GroupMoments.from_rows(rows, ["a"] * 80, on_missing="em")
    np.testing.assert_allclose(found.scatters, complete.scatters, rtol=1e-5)


def test_classes_of_y_are_kept():
    rows, y = incomplete_rows(10, 120, 3, 0.2), [0, 0, 1] * 40
    found = GroupMoments.from_rows(rows, ["a", "b"] * 60, y=y, on_missing="em")
    assert found.em_summary.n_missing_cells.sum() == np.isnan(rows).sum()
    pairs = found.by_class
    own = pairs.select_groups(np.array([pair[0] == "a" for pair in pairs.labels]))
    np.testing.assert_allclose(sum_over_classes(own).scatters[0], found.scatters[0])


def test_a_file_keeps_how_they_came(tmp_path):
    found = GroupMoments.from_rows(
        incomplete_rows(11, 50, 3, 0.2), ["a", "b"] * 25, on_missing="em"
    )
    found.save(tmp_path / "some.moments")
    again = GroupMoments.load(tmp_path / "some.moments")
    assert (again.em_summary.n_missing_cells == found.em_summary.n_missing_cells).all()
    assert again.em_summary.n_passes == found.em_summary.n_passes
    with pytest.raises(InvalidInput, match="incomplete rows by EM"):
        again + found


def test_rows_without_a_group_are_dropped():
    rows = incomplete_rows(12, 50, 3, 0.2)
    groups = ["a", "b"] * 24 + [None, "a"]
    with pytest.warns(FairspanWarning, match="^1 row was dropped, without a group or ") as told:
        assert GroupMoments.from_rows(rows, groups, on_missing="em").n_dropped == 1
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ((3, slice(None)), "Every feature is missing in row 4"),
        ((slice(0, None, 2), 1), r"column 2 \(index 1\) is missing in group 'a'"),
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
    monkeypatch.setattr(fixed_point, "_MAX_STEPS", 2)
    rows = incomplete_rows(15, 50, 3, 0.4)
    with pytest.warns(FairspanWarning, match="ended after 2 passes"):
        GroupMoments.from_rows(rows, ["a", "b"] * 25, on_missing="em")


def test_a_pass_can_be_sent_to_another_process():
    rows = incomplete_rows(16, 50, 3, 0.2)
    source = open_rows(rows, ["a", "b"] * 25, on_missing="em")
    models = {label: NormalModel(np.zeros(3), np.eye(3)) for label in ("a", "b")}
    step = em._EStepAggregator(models)
    here, there = step.aggregate(source), pickle.loads(pickle.dumps(step)).aggregate(source)
    for label in models:
        np.testing.assert_array_equal(here[label].second, there[label].second)


# Whether passes converge here depends on the last bits, and on the order of the rows.
@pytest.mark.filterwarnings("ignore:EM ended")
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_columns_that_determine_each_other_keep_the_models_where_they_are(share):
    """Indicators of categories add up to one: their covariance has no inverse."""
    rng = np.random.default_rng(0)
    n = 400
    kinds = rng.choice(6, (n, 5), p=[0.5, 0.3, 0.1, 0.05, 0.03, 0.02])
    indicators = (kinds[:, :, None] == np.arange(6)).astype(np.float64).reshape(n, 30)
    amounts = rng.standard_normal((n, 3)) + indicators[:, ::10] * 2
    rows = np.hstack([indicators, amounts])
    some = np.where(rng.random(rows.shape) < share, np.nan, rows)
    found = GroupMoments.from_rows(some, ["a"] * n, on_missing="em")
    known = GroupMoments.from_rows(rows, ["a"] * n)
    units = np.sqrt(np.diag(known.second_moments("group")[0]))
    apart = (found.second_moments("group") - known.second_moments("group"))[0]
    assert np.abs(found.means - known.means).max() < 0.25 * units.max()
    assert np.abs(apart / np.outer(units, units)).max() < 0.8
    assert found.em_summary.last_change < 1e-3
    for block in range(5):  # each adds up to one still
        ones = np.r_[np.repeat(np.arange(5) == block, 6), np.zeros(3)]
        assert ones @ found.second_moments("group")[0] @ ones < 0.01
        assert ones @ found.means[0] == pytest.approx(1, abs=0.02)


def collinear_rows(seed, n, share):
    """Rows in which the last column is the sum of two others, with cells missing."""
    rows = incomplete_rows(seed, n, 4, 0.0)
    rows[:, 3] = rows[:, 0] + rows[:, 1]
    rng = np.random.default_rng(seed)
    holes = rng.random(rows.shape) < share
    holes[np.arange(n), rng.integers(0, 4, n)] = False
    return np.where(holes, np.nan, rows)


@pytest.mark.filterwarnings("ignore::fairspan.errors.FairspanWarning")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.3, 0.55])
@pytest.mark.parametrize("made", [incomplete_rows, collinear_rows])
def test_certificates_of_the_same_rows_in_two_orders_do_not_refute_each_other(made, share, seed):
    n = 80
    rows = made(seed, n, 4, share) if made is incomplete_rows else made(seed, n, share)
    groups, order = np.array(["a", "b"] * (n // 2)), np.random.default_rng(1).permutation(n)
    one, other = (
        FairPCA(2, on_missing="em")
        .fit(rows[own], sensitive_features=groups[own])
        .subspace_.certificate
        for own in (np.arange(n), order)
    )
    for mine, theirs in ((one, other), (other, one)):
        if mine.status == "optimal":
            assert mine.lower_bound <= theirs.objective + 2 * mine.absolute_tol


def test_the_distance_is_how_far_further_passes_move():
    rows, groups = incomplete_rows(20, 80, 4, 0.5), ["a", "b"] * 40
    found = GroupMoments.from_rows(rows, groups, on_missing="em")
    assert found.em_summary.distance < 1e-11
    models = np.concatenate([found.means[:, None], found.second_moments("group")], axis=1)
    source = open_rows(rows, groups, on_missing="em")
    step = em._EMStep(source, tuple(found.labels), found.em_summary.pool_weights, 0.0)
    moved = np.abs(step(models) - models) / em._standard_units(models)
    assert moved.max() <= 1e-12


def test_rows_in_another_order_are_verified():
    rows, groups = incomplete_rows(21, 80, 4, 0.4), np.array(["a", "b"] * 40)
    fair = FairPCA(2, on_missing="em").fit(rows, sensitive_features=groups)
    assert fair.subspace_.certificate.status == "optimal"
    order = np.random.default_rng(0).permutation(80)
    assert verify(fair, rows[order], groups[order])
    other = np.where(np.isnan(rows), np.nan, rows * np.r_[1.001, 1, 1, 1])
    assert not verify(fair, other, groups)


@pytest.mark.filterwarnings("ignore:EM ended")
@pytest.mark.unverified
@pytest.mark.parametrize(("seed", "nested"), [(1, False), (3, False), (3, True)])
def test_rows_in_another_order_that_leave_other_digits_are_no_forgery(seed, nested):
    rows, groups = collinear_rows(seed, 80, 0.3), np.array(["a", "b"] * 40)
    fair = FairPCA(2, criterion="total_error", on_missing="em", nested=nested)
    subspace = fair.fit(rows, sensitive_features=groups).subspace_
    own = subspace.certificate
    assert own.status == "unresolved"
    assert verify(subspace, rows, groups)
    order = np.random.default_rng(1).permutation(80)
    found = verify(subspace, rows[order], groups[order])
    assert not found.holds
    assert "cannot be verified from these data: the EM algorithm" in found.messages[0]
    # What two runs leave does not explain figures of another size.
    changed = replace_claims(own, objective=1e4 * own.objective)
    found = verify(replace(subspace, certificate=changed), rows[order], groups[order])
    assert not found.holds
    assert "cannot be verified" not in found.messages[0]


def test_patterns_of_their_own_take_a_bounded_memory(monkeypatch):
    rows = incomplete_rows(22, 300, 70, 0.5)
    model = NormalModel(np.zeros(70), np.cov(incomplete_rows(22, 300, 70, 0.0).T))
    matrix = np.diag(np.arange(70.0))
    whole, traces = model.impute(rows, matrix)
    monkeypatch.setattr(normal_model, "_MAX_COVARIANCE_ENTRIES", 20_000)
    assert len(list(normal_model.blocks_to_complete(rows))) > 10
    parts, again = model.impute(rows, matrix)
    np.testing.assert_allclose(parts, whole, rtol=1e-9)
    np.testing.assert_allclose(again, traces, rtol=1e-9)
    # The conditional mean and covariance of one row, by their formula.
    row, missing = rows[5], np.isnan(rows[5])
    inside = model.covariance[np.ix_(~missing, ~missing)]
    across = model.covariance[np.ix_(missing, ~missing)]
    expected = across @ np.linalg.solve(inside, row[~missing])
    np.testing.assert_allclose(whole[5, missing], expected, rtol=1e-5, atol=1e-6)


def test_small_tables_are_read_and_searched_for_patterns_once(monkeypatch):
    rows, groups = incomplete_rows(23, 90, 5, 0.3), ["a", "b", "a"] * 30
    reads, searches = [], []
    blocks, patterns = em._chunks_by_group, normal_model._missing_patterns
    monkeypatch.setattr(em, "_chunks_by_group", lambda *a: reads.append(1) or blocks(*a))
    monkeypatch.setattr(
        normal_model, "_missing_patterns", lambda *a: searches.append(1) or patterns(*a)
    )
    small = GroupMoments.from_rows(rows, groups, on_missing="em")
    n_passes = small.em_summary.n_passes
    assert n_passes > 10
    assert len(reads) == len(searches) == 2  # the observed cells and the patterns; one per group
    # Larger tables are read in each pass, so that memory stays bounded.
    monkeypatch.setattr(em, "_CHUNK_ENTRIES", rows.size - 1)
    reads.clear()
    large = GroupMoments.from_rows(rows, groups, on_missing="em")
    assert len(reads) == 1 + large.em_summary.n_passes
    np.testing.assert_allclose(small.scatters, large.scatters, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(small.means, large.means, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("m", [3, 20])
@pytest.mark.parametrize("c", [1, 2, 9, 16, 17, 40])
def test_triangles_are_inverted_row_by_row_and_by_blocks(m, c):
    triangles = np.tril(np.random.default_rng(c).standard_normal((m, c, c)) / c) + np.eye(c)
    inverses = normal_model._invert_triangles(triangles)
    np.testing.assert_allclose(
        inverses @ triangles, np.broadcast_to(np.eye(c), (m, c, c)), atol=1e-9
    )
    assert (np.triu(inverses, 1) == 0).all()


def test_steps_are_extrapolated_to_the_least_squares_limit():
    """The increment of Anderson's method, and the slowness, by a pseudoinverse."""
    rng = np.random.default_rng(0)
    memory = fixed_point._StepMemory(4)
    points = rng.standard_normal((8, 30))
    residuals = rng.standard_normal((8, 30)) * 0.5 ** np.arange(8)[:, None]
    for point, residual in zip(points, residuals, strict=True):
        increment = memory.extrapolate(point, residual)
    point_differences, step_differences = (
        np.diff(points[-5:], axis=0),
        np.diff(residuals[-5:], axis=0),
    )
    inverse = np.linalg.pinv(step_differences.T)
    correction = (point_differences + step_differences).T @ (inverse @ residuals[-1])
    np.testing.assert_allclose(increment, residuals[-1] - correction, rtol=1e-9)
    slowness = np.linalg.norm(point_differences.T @ inverse, 2)
    np.testing.assert_allclose(memory.slowness, slowness, rtol=1e-9)
