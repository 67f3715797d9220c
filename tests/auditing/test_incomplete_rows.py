"""Audits of rows with missing cells: intervals that allow for what is missing."""

from dataclasses import astuple

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fairspan as fs
from incomplete_rows import ROOTS, draw_rows, groups_of

PLANE = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0][:, :2].T
MODEL = fs.FairSubspace(PLANE, np.zeros(6), center="none")


@pytest.mark.parametrize(
    "n_draws", [pytest.param(8, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.long)]
)
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


@pytest.mark.slow
def test_the_drift_has_the_degrees_of_freedom_of_the_errors():
    rows, _ = draw_rows(7)
    _, some = draw_rows(3)
    fair = fs.FairPCA(2).fit(rows, sensitive_features=groups_of(rows))
    found = fs.audit(fair, some, groups_of(some), folds=None, on_missing="em").models[0]

    def margin(estimate):
        # The low end of the drift also allows for the optimism of the fit.
        return estimate.high - estimate.value

    # The drift is simultaneous over two groups, and of a difference of two samples of 150 rows.
    ratios = [margin(each.drift) / margin(each.observed_error) for each in found.groups]
    complete, missing = np.array(ratios) / np.sqrt(2)

    def expected(df):
        return stats.t.isf(0.0125, df) / stats.t.isf(0.025, df)

    # Rubin's rules leave (v + 1) / (v + 3) v of v degrees of freedom where no cell is missing.
    assert complete == pytest.approx(expected(150 / 152 * 149), rel=1e-6)
    # Missing cells leave fewer degrees of freedom.
    assert expected(110) < missing < expected(10)


def test_observed_figures_are_those_of_the_moments():
    _, some = draw_rows(1, 60)
    result = fs.audit(MODEL, some, groups_of(some), folds=None, on_missing="em")
    moments = fs.GroupMoments.from_rows(some, groups_of(some), on_missing="em")
    second = moments.second_moments("none")
    for group, own in zip(result.models[0].groups, second, strict=True):
        error = np.trace(own) - np.trace(PLANE @ own @ PLANE.T)
        assert group.observed_error.value == pytest.approx(error)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_last_bits_of_rows_do_not_decide_what_is_drawn(seed):
    _, some = draw_rows(7, 60)
    rounded = some * (1 + 1e-15 * np.random.default_rng(seed).standard_normal(some.shape))
    rounded[some == 0] = -0.0
    assert (rounded != some)[~np.isnan(some)].any()
    here, there = (
        fs.audit(MODEL, rows, groups_of(some), folds=None, on_missing="em").models[0].groups[1]
        for rows in (some, rounded)
    )
    for one, other in zip(astuple(here.observed_error), astuple(there.observed_error), strict=True):
        assert one == pytest.approx(other, rel=1e-9)


@pytest.fixture(scope="module")
def people():
    """A frame of rows with missing cells, three for each person, and its audit."""
    _, some = draw_rows(3)
    frame = pd.DataFrame(some, columns=list("uvwxyz")).assign(
        group=groups_of(some), person=np.arange(300) // 3
    )
    return frame, fs.audit(MODEL, frame, "group", clusters="person", on_missing="em", folds=5)


def test_clusters_and_findings(people):
    frame, here = people
    assert here.rows.missing.n_dropped == (0, 0)
    shares = {column.name: column.shares for column in here.rows.missing.features}
    for name in "uvwxyz":
        assert shares[name] == pytest.approx((0, frame[name][150:].isna().mean()))
    codes = {each.code: each for each in here.findings}
    assert "imputed" in codes["FS407"].message
    assert codes["FS411"].groups == ("b",)


@pytest.mark.slow
def test_a_file_gives_the_same_errors_as_its_frame(people, tmp_path):
    frame, here = people
    frame.to_csv(tmp_path / "some.csv", index=False)
    there = fs.audit(
        MODEL, tmp_path / "some.csv", "group", clusters="person", on_missing="em", folds=5
    )
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
    usual = fs.audit(MODEL, rows, groups_of(rows), folds=5)
    found = fs.audit(MODEL, rows, groups_of(rows), folds=5, on_missing="em")
    for one, other in zip(usual.models[0].groups, found.models[0].groups, strict=True):
        assert one.expected_loss.low == pytest.approx(other.expected_loss.low, rel=1e-6)
    assert "FS411" not in {each.code for each in found.findings}


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:EM ended")  # it does so on some machines
def test_groups_in_which_features_are_rarely_observed_together_have_no_figures_for_new_rows():
    _, some = draw_rows(8, share=0.5)
    # A quarter of 80 rows has both features of a pair: fewer than 5 for each of 6 features.
    some, groups = some[70:230], np.repeat(["a", "b"], 80)
    result = fs.audit(MODEL, some, groups, on_missing="em", folds=5)
    a, b = result.models[0].groups
    assert a.is_estimated
    assert not b.is_estimated
    assert b.state == "inconclusive"
    assert b.state_reason == "features rarely observed together"
    finding = next(each for each in result.findings if each.code == "FS411")
    assert "'b'" in finding.message
    assert "fewer than 30 rows" in finding.message


def test_a_feature_with_values_in_one_fold_only_leaves_no_estimates():
    _, some = draw_rows(9)
    some[150:, 2] = np.nan
    some[200, 2] = 1.0
    result = fs.audit(MODEL, some, groups_of(some), on_missing="em", folds=5)
    assert "in one fold" in result.models[0].no_estimates_reason
    assert result.models[0].groups[0].observed_error.value > 0
