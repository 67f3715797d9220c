"""Audits of rows with missing cells: intervals that allow for what is missing."""

from dataclasses import astuple

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fairspan as fs
from case_selection import mark_most_long
from fairspan.auditing.imputation import pool_statistics
from fairspan.auditing.row_statistics import RowStatistics
from fairspan.linalg import symmetrize
from fairspan.moments import multiple_imputation
from fairspan.moments.group_moments import compute_group_moments
from fairspan.moments.multiple_imputation import (
    N_IMPUTATIONS,
    _draw_inverse_wishart_root,
    _draw_models,
    draw_imputations,
)
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT
from fairspan.rows.opening import open_rows

ROOTS = np.random.default_rng(0).standard_normal((2, 6, 6)) * np.repeat([1, 0.5], [2, 4])
PLANE = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0][:, :2].T
MODEL = fs.FairSubspace(PLANE, np.zeros(6), center="none")


def draw_rows(seed: int, n: int = 150, share: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two groups, and the same with cells of the second missing at random."""
    rng = np.random.default_rng(seed)
    rows = np.vstack([rng.standard_normal((n, 6)) @ root for root in ROOTS])
    holes = rng.random(rows.shape) < share
    holes[:, 0] &= ~holes.all(axis=1)
    holes[:n] = False
    return rows, np.where(holes, np.nan, rows)


def groups_of(rows: np.ndarray) -> np.ndarray:
    return np.repeat(["a", "b"], len(rows) // 2)


@pytest.mark.parametrize("n_draws", mark_most_long([8, 60], 2))
def test_intervals_cover_the_errors_of_the_groups(n_draws):
    true = [np.trace((np.eye(6) - PLANE.T @ PLANE) @ root.T @ root) for root in ROOTS]
    hits = np.zeros(2)
    for seed in range(n_draws):
        _, some = draw_rows(seed)
        result = fs.audit(MODEL, some, groups_of(some), folds=None, on_missing="em")
        for i, group in enumerate(result.models[0].groups):
            hits[i] += group.observed_error.low <= true[i] <= group.observed_error.high
    # At a coverage of .93 as few as that are met once in a thousand times.
    assert (hits >= stats.binom.ppf(0.001, n_draws, 0.93)).all(), hits


def test_intervals_are_wider_where_cells_are_missing():
    rows, some = draw_rows(0)
    fair = fs.FairPCA(2, on_missing="em").fit(some, sensitive_features=groups_of(some))
    found = fs.audit(fair, some, groups_of(some), folds=None, on_missing="em").models[0]
    complete = fs.audit(fair, rows, groups_of(rows), folds=None).models[0]
    assert found.in_sample
    (a, b), (whole_a, whole_b) = found.groups, complete.groups

    def width(estimate):
        return estimate.high - estimate.low

    assert width(a.observed_error) == pytest.approx(width(whole_a.observed_error), rel=0.05)
    assert width(b.observed_error) > 1.02 * width(whole_b.observed_error)


def test_the_drift_has_the_degrees_of_freedom_of_the_errors():
    rows, _ = draw_rows(7)
    _, some = draw_rows(3)
    fair = fs.FairPCA(2).fit(rows, sensitive_features=groups_of(rows))
    found = fs.audit(fair, some, groups_of(some), folds=None, on_missing="em").models[0]

    def width(estimate):
        return estimate.high - estimate.low

    # The drift is simultaneous over two groups, and of a difference of two samples of 150 rows.
    ratios = [width(each.drift) / width(each.observed_error) for each in found.groups]
    complete, missing = np.array(ratios) / np.sqrt(2)

    def expected(df):
        return stats.t.isf(0.0125, df) / stats.t.isf(0.025, df)

    # Rubin's rules leave (v + 1) / (v + 3) v of v degrees of freedom where no cell is missing.
    assert complete == pytest.approx(expected(150 / 152 * 149), rel=1e-6)
    # Missing cells leave fewer degrees of freedom.
    assert expected(110) < missing < expected(10)


def test_observed_figures_are_those_of_the_moments():
    _, some = draw_rows(1)
    result = fs.audit(MODEL, some, groups_of(some), folds=None, on_missing="em")
    moments = fs.GroupMoments.from_rows(some, groups_of(some), on_missing="em")
    second = moments.second_moments("none")
    for group, own in zip(result.models[0].groups, second, strict=True):
        error = np.trace(own) - np.trace(PLANE @ own @ PLANE.T)
        assert group.observed_error.value == pytest.approx(error)


def test_pooled_figures_are_those_of_rubins_rules():
    shape, m = (1, 1, 1), 5
    values, errors = np.array([1.0, 1.2, 0.9, 1.1, 1.3]), np.array([0.1, 0.2, 0.1, 0.1, 0.2])
    nothing = np.zeros(shape)
    tables = [
        RowStatistics(np.full(shape, q), np.full(shape, u), np.array([31]), nothing, nothing)
        for q, u in zip(values, errors, strict=True)
    ]
    pooled = pool_statistics(tables)
    between = (1 + 1 / m) * np.var(values, ddof=1)
    total = np.mean(errors**2) + between
    share = between / total
    old, observed = (m - 1) / share**2, 31 / 33 * 30 * (1 - share)
    assert pooled.means == pytest.approx(values.mean())
    assert pooled.standard_errors == pytest.approx(np.sqrt(total))
    assert pooled.df == pytest.approx(old * observed / (old + observed))


def test_drawn_cells_have_the_distribution_of_what_is_missing():
    rows, some = draw_rows(2, 2000)
    opened = open_rows(some, groups_of(some), on_missing="em")
    moments = compute_group_moments(opened, DEFAULT_GROUP_LIMIT)
    tables = draw_imputations(opened, moments, DEFAULT_GROUP_LIMIT, 0)
    drawn = np.vstack([block.values for block in next(tables).blocks()])
    seen = ~np.isnan(some)
    np.testing.assert_array_equal(drawn[seen], some[seen])
    np.testing.assert_allclose(
        np.cov(drawn[2000:].T), np.cov(rows[2000:].T), atol=0.1 * np.abs(np.cov(rows.T)).max()
    )
    again = np.vstack([block.values for block in next(tables).blocks()])
    assert (again[~seen] != drawn[~seen]).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_last_bits_of_rows_do_not_decide_what_is_drawn(seed):
    _, some = draw_rows(7)
    rounded = some * (1 + 1e-15 * np.random.default_rng(seed).standard_normal(some.shape))
    rounded[some == 0] = -0.0
    assert (rounded != some)[~np.isnan(some)].any()
    here, there = (
        fs.audit(MODEL, rows, groups_of(some), folds=None, on_missing="em").models[0].groups[1]
        for rows in (some, rounded)
    )
    for one, other in zip(astuple(here.observed_error), astuple(there.observed_error), strict=True):
        assert one == pytest.approx(other, rel=1e-9)


def test_draws_of_models_do_not_depend_on_how_ties_are_turned():
    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    nearly = np.linalg.qr(turned + 1e-14 * rng.standard_normal((6, 6)))[0]
    roots = [
        _draw_inverse_wishart_root(10 * symmetrize(each @ each.T), 40.0, np.random.default_rng(1))
        for each in (np.eye(6), turned, nearly)
    ]
    for root in roots[1:]:
        np.testing.assert_allclose(root, roots[0], atol=1e-12)


def test_no_model_is_drawn_for_a_table_that_is_not_used(monkeypatch):
    _, some = draw_rows(3)
    opened = open_rows(some, groups_of(some), on_missing="em")
    moments = compute_group_moments(opened)
    n_draws = 0

    def count_draws(*arguments):
        nonlocal n_draws
        n_draws += 1
        return _draw_models(*arguments)

    monkeypatch.setattr(multiple_imputation, "_draw_models", count_draws)
    assert len(list(draw_imputations(opened, moments, DEFAULT_GROUP_LIMIT, 0))) == N_IMPUTATIONS
    # Four steps for each table, of which the very first uses the models of EM.
    assert n_draws == 4 * N_IMPUTATIONS - 1


def test_clusters_and_files_and_findings(tmp_path):
    pytest.importorskip("pyarrow")
    _, some = draw_rows(3)
    frame = pd.DataFrame(some, columns=list("uvwxyz")).assign(
        group=groups_of(some), person=np.arange(300) // 3
    )
    frame.to_csv(tmp_path / "some.csv", index=False)
    here = fs.audit(MODEL, frame, "group", clusters="person", on_missing="em")
    there = fs.audit(MODEL, tmp_path / "some.csv", "group", clusters="person", on_missing="em")
    assert here.rows.missing.n_dropped == (0, 0)
    shares = {column.name: column.shares for column in here.rows.missing.features}
    for name in "uvwxyz":
        assert shares[name] == pytest.approx((0, frame[name][150:].isna().mean()))
    codes = {each.code: each for each in here.findings}
    assert "rest on imputed values" in codes["FS407"].message
    assert codes["FS411"].groups == ("b",)
    for one, other in zip(here.models[0].groups, there.models[0].groups, strict=True):
        assert one.observed_error.value == pytest.approx(other.observed_error.value, rel=1e-6)


def test_the_weight_of_the_pool_in_small_groups_is_reported():
    _, some = draw_rows(4)
    few = some[:160]
    result = fs.audit(MODEL, few, np.repeat(["a", "b"], [150, 10]), folds=None, on_missing="em")
    message = next(each.message for each in result.findings if each.code == "FS411")
    assert "'b' (weight 0." in message


def test_rows_without_missing_cells_are_audited_as_usual():
    rows, _ = draw_rows(5)
    usual = fs.audit(MODEL, rows, groups_of(rows))
    found = fs.audit(MODEL, rows, groups_of(rows), on_missing="em")
    for one, other in zip(usual.models[0].groups, found.models[0].groups, strict=True):
        assert one.expected_loss.low == pytest.approx(other.expected_loss.low, rel=1e-6)
    assert "FS411" not in {each.code for each in found.findings}


def test_attributes_are_drawn_along():
    _, some = draw_rows(6)
    frame = pd.DataFrame(some, columns=list("uvwxyz")).assign(group=groups_of(some))
    fair = fs.FairPCA(2, restriction=fs.Uncorrelated(["v"]), on_missing="em")
    fair.fit(frame, sensitive_features="group")
    result = fs.audit(fair, frame, "group", folds=5, on_missing="em")
    found, share = result.models[0], np.isnan(some[150:]).mean()
    message = next(each.message for each in result.findings if each.code == "FS411")
    assert f"'b' ({share:.1%}".replace("%", " %") in message
    assert found.in_sample
    assert found.no_estimates_reason is None
    for group, error in zip(found.groups, fair.group_errors_, strict=True):
        assert group.observed_error.value == pytest.approx(error)
        assert group.expected_error.low < group.expected_error.value
