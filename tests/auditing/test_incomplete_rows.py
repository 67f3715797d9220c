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
        _, incomplete = draw_rows(seed)
        result = fs.audit(MODEL, incomplete, groups_of(incomplete), folds=None, on_missing="em")
        for i, group in enumerate(result.models[0].groups):
            hits[i] += group.observed_error.low <= true[i] <= group.observed_error.high
    # At a coverage of .93 as few as that are met once in a thousand times.
    assert (hits >= stats.binom.ppf(0.001, n_draws, 0.93)).all(), hits


def test_intervals_are_wider_where_cells_are_missing():
    rows, incomplete = draw_rows(0)
    fair = fs.FairPCA(2, on_missing="em").fit(incomplete, sensitive_features=groups_of(incomplete))
    model = fs.audit(fair, incomplete, groups_of(incomplete), folds=None, on_missing="em").models[0]
    complete = fs.audit(fair, rows, groups_of(rows), folds=None).models[0]
    assert model.in_sample
    a, b = model.groups
    complete_a, complete_b = complete.groups

    def width(estimate):
        return estimate.high - estimate.low

    assert width(a.observed_error) == pytest.approx(width(complete_a.observed_error), rel=0.05)
    assert width(b.observed_error) > 1.02 * width(complete_b.observed_error)


@pytest.mark.slow
def test_the_drift_has_the_degrees_of_freedom_of_the_errors():
    rows, _ = draw_rows(7)
    _, incomplete = draw_rows(3)
    fair = fs.FairPCA(2).fit(rows, sensitive_features=groups_of(rows))
    model = fs.audit(fair, incomplete, groups_of(incomplete), folds=None, on_missing="em").models[0]

    def margin(estimate):
        # The low end of the drift also allows for the optimism of the fit.
        return estimate.high - estimate.value

    # The drift is simultaneous over two groups, and of a difference of two samples of 150 rows.
    ratios = [margin(group.drift) / margin(group.observed_error) for group in model.groups]
    complete, missing = np.array(ratios) / np.sqrt(2)

    def expected(df):
        return stats.t.isf(0.0125, df) / stats.t.isf(0.025, df)

    # Rubin's rules leave (v + 1) / (v + 3) v of v degrees of freedom where no cell is missing.
    assert complete == pytest.approx(expected(150 / 152 * 149), rel=1e-6)
    # Missing cells leave fewer degrees of freedom.
    assert expected(110) < missing < expected(10)


def test_observed_figures_are_those_of_the_moments():
    _, incomplete = draw_rows(1, 60)
    result = fs.audit(MODEL, incomplete, groups_of(incomplete), folds=None, on_missing="em")
    moments = fs.GroupMoments.from_rows(incomplete, groups_of(incomplete), on_missing="em")
    second = moments.second_moments("none")
    for group, group_moments in zip(result.models[0].groups, second, strict=True):
        error = np.trace(group_moments) - np.trace(PLANE @ group_moments @ PLANE.T)
        assert group.observed_error.value == pytest.approx(error)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_last_bits_of_rows_do_not_decide_what_is_drawn(seed):
    _, incomplete = draw_rows(7, 60)
    rounded = incomplete * (
        1 + 1e-15 * np.random.default_rng(seed).standard_normal(incomplete.shape)
    )
    rounded[incomplete == 0] = -0.0
    assert (rounded != incomplete)[~np.isnan(incomplete)].any()
    reference, perturbed = (
        fs.audit(MODEL, rows, groups_of(incomplete), folds=None, on_missing="em")
        .models[0]
        .groups[1]
        for rows in (incomplete, rounded)
    )
    for one, other in zip(
        astuple(reference.observed_error), astuple(perturbed.observed_error), strict=True
    ):
        assert one == pytest.approx(other, rel=1e-9)


@pytest.fixture(scope="module")
def people():
    """A frame of rows with missing cells, three for each person, and its audit."""
    _, incomplete = draw_rows(3)
    frame = pd.DataFrame(incomplete, columns=list("uvwxyz")).assign(
        group=groups_of(incomplete), person=np.arange(300) // 3
    )
    return frame, fs.audit(MODEL, frame, "group", clusters="person", on_missing="em", folds=5)


def test_missing_cells_and_imputation_are_reported(people):
    frame, result = people
    assert result.rows.missing.n_dropped == (0, 0)
    shares = {column.name: column.shares for column in result.rows.missing.features}
    for name in "uvwxyz":
        assert shares[name] == pytest.approx((0, frame[name][150:].isna().mean()))
    codes = {finding.code: finding for finding in result.findings}
    assert "imputed" in codes["FS407"].message
    assert codes["FS411"].groups == ("b",)


@pytest.mark.slow
def test_a_file_gives_the_same_errors_as_its_frame(people, tmp_path):
    frame, from_frame = people
    frame.to_csv(tmp_path / "some.csv", index=False)
    from_file = fs.audit(
        MODEL, tmp_path / "some.csv", "group", clusters="person", on_missing="em", folds=5
    )
    for one, other in zip(from_frame.models[0].groups, from_file.models[0].groups, strict=True):
        assert one.observed_error.value == pytest.approx(other.observed_error.value, rel=1e-6)


def test_the_weight_of_the_pool_in_small_groups_is_reported():
    _, incomplete = draw_rows(4)
    small_table = incomplete[:160]
    result = fs.audit(
        MODEL, small_table, np.repeat(["a", "b"], [150, 10]), folds=None, on_missing="em"
    )
    message = next(finding.message for finding in result.findings if finding.code == "FS411")
    assert "'b' (weight 0." in message


def test_rows_without_missing_cells_are_audited_as_usual():
    rows, _ = draw_rows(5)
    usual = fs.audit(MODEL, rows, groups_of(rows), folds=5)
    result = fs.audit(MODEL, rows, groups_of(rows), folds=5, on_missing="em")
    for one, other in zip(usual.models[0].groups, result.models[0].groups, strict=True):
        assert one.expected_loss.low == pytest.approx(other.expected_loss.low, rel=1e-6)
    assert "FS411" not in {finding.code for finding in result.findings}


@pytest.mark.slow
def test_attributes_are_drawn_along():
    _, incomplete = draw_rows(6)
    frame = pd.DataFrame(incomplete, columns=list("uvwxyz")).assign(group=groups_of(incomplete))
    fair = fs.FairPCA(2, restriction=fs.Uncorrelated(["v"]), on_missing="em")
    fair.fit(frame, sensitive_features="group")
    result = fs.audit(fair, frame, "group", folds=5, on_missing="em")
    model = result.models[0]
    share = np.isnan(incomplete[150:]).mean()
    message = next(finding.message for finding in result.findings if finding.code == "FS411")
    assert f"'b' ({share:.1%}".replace("%", " %") in message
    assert model.in_sample
    assert model.no_estimates_reason is None
    for group, error in zip(model.groups, fair.group_errors_, strict=True):
        assert group.observed_error.value == pytest.approx(error)
        assert group.expected_error.low < group.expected_error.value


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:EM ended")  # it does so on some machines
def test_groups_in_which_features_are_rarely_observed_together_have_no_figures_for_new_rows():
    _, incomplete = draw_rows(8, share=0.5)
    # A quarter of 80 rows has both features of a pair: fewer than 5 for each of 6 features.
    incomplete = incomplete[70:230]
    groups = np.repeat(["a", "b"], 80)
    result = fs.audit(MODEL, incomplete, groups, on_missing="em", folds=5)
    a, b = result.models[0].groups
    assert a.is_estimated
    assert not b.is_estimated
    assert b.state == "inconclusive"
    assert b.state_reason == "features rarely observed together"
    finding = next(finding for finding in result.findings if finding.code == "FS411")
    assert "'b'" in finding.message
    assert "fewer than 30 rows" in finding.message


def test_a_feature_with_values_in_one_fold_only_leaves_no_estimates():
    _, incomplete = draw_rows(9)
    incomplete[150:, 2] = np.nan
    incomplete[200, 2] = 1.0
    result = fs.audit(MODEL, incomplete, groups_of(incomplete), on_missing="em", folds=5)
    assert "in one fold" in result.models[0].no_estimates_reason
    assert result.models[0].groups[0].observed_error.value > 0
