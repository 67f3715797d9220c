"""Audits of pairs of subspaces: losses on new rows that are true."""

import numpy as np
import pandas as pd
import pytest

from case_selection import ALL_CASES, select_cases
from cross_decomposition.paired_tables import captured_covariance, draw_tables, max_covariance
from fairspan import FairPCA
from fairspan.cross_decomposition import FairCCA, FairPLS, audit_pairs
from fairspan.errors import InvalidInput, InvalidParameter, InvalidType


def draw_rows(rng, n_many, n_few, maps, noise=1.0):
    """Rows of two groups with Y = X B + noise, and the cross-covariances B of each."""
    X = rng.normal(size=(n_many + n_few, 5))
    groups = np.repeat(["many", "few"], [n_many, n_few])
    Y = rng.normal(size=(len(X), 4)) * noise
    for label, B in zip(("many", "few"), maps, strict=True):
        Y[groups == label] += X[groups == label] @ B
    return X, Y, groups


SAME = np.diag([2.0, 1.0, 0.5, 0.25])
SAME = np.vstack([SAME, np.zeros(4)])


def by_group(audit, model):
    return {loss.group: loss for loss in audit.losses if loss.model == model}


@pytest.fixture(scope="module")
def strong():
    reversed_columns = SAME[:, ::-1]
    X, Y, groups = draw_rows(np.random.default_rng(0), 600, 120, (SAME, reversed_columns))
    fair = FairPLS(1, scale=False).fit(X, Y, sensitive_features=groups)
    return X, Y, groups, fair, audit_pairs(fair, X, Y, sensitive_features=groups)


def test_a_loss_that_is_there_is_shown_and_its_interval_has_the_truth(strong):
    X, Y, groups, _, audit = strong
    usual = by_group(audit, "PLS")
    assert usual["few"].state == "harmed"
    # The truth: what the pair of these rows keeps of the true cross-covariances.
    model = FairPLS(1, scale=False, criterion="total_covariance")
    model.fit(X, Y, sensitive_features=groups)
    B = SAME[:, ::-1]
    loss = max_covariance(B, 1) - captured_covariance(B, model.x_weights_, model.y_weights_)
    assert usual["few"].expected_loss.low <= loss <= usual["few"].expected_loss.high
    repaired = by_group(audit, "PLS, minimax loss")
    assert repaired["few"].expected_loss.value < usual["few"].expected_loss.value
    assert repaired["many"].expected_loss.value > usual["many"].expected_loss.value


def test_records_tables_and_frames_agree(strong):
    *_, audit = strong
    records = audit.to_records()
    assert len(records) == 4
    pd.testing.assert_frame_equal(audit.frame(), pd.DataFrame(records))
    first = records[0]
    assert first["expected_loss_share"] == pytest.approx(
        first["expected_loss"] / first["best_covariance"]
    )
    text = str(audit)
    for record in records:
        assert f"{record['model']}: {record['group']}" in text
    assert text.count("harmed") == sum(record["state"] == "harmed" for record in records)
    assert "<table" in audit._repr_html_()


def test_settings_of_saved_models_are_those_of_the_fit(strong, tmp_path):
    X, Y, groups, fair, audit = strong
    again = audit_pairs({"mine": fair.subspace_}, X, Y, sensitive_features=groups)
    mine = by_group(again, "mine")["few"].expected_loss
    assert mine == by_group(audit, "PLS, minimax loss")["few"].expected_loss


def test_few_rows_have_no_estimates():
    X, Y, groups = draw_rows(np.random.default_rng(1), 200, 8, (SAME, SAME))
    audit = audit_pairs(
        FairPLS(1).fit(X, Y, sensitive_features=groups), X, Y, sensitive_features=groups
    )
    few = by_group(audit, "PLS")["few"]
    assert few.state == "inconclusive"
    assert few.to_record()["expected_loss_low"] is None


def test_clusters_share_a_fold_and_widen_intervals():
    rng = np.random.default_rng(2)
    X, Y, groups = draw_rows(rng, 200, 60, (SAME, SAME[:, ::-1]))
    people = np.arange(len(X))
    visits = np.repeat(people, 4)
    fair = FairPLS(1).fit(X, Y, sensitive_features=groups)
    once = audit_pairs(fair, X, Y, sensitive_features=groups)
    four = audit_pairs(
        fair, X[visits], Y[visits], sensitive_features=groups[visits], clusters=visits
    )
    for model in ("PLS", "PLS, minimax loss"):
        one = by_group(once, model)["few"].expected_kept
        many = by_group(four, model)["few"].expected_kept
        assert many.high - many.low == pytest.approx(one.high - one.low, rel=0.2)


def test_weights_are_repeated_rows_in_the_means():
    X, Y, groups = draw_tables(n=300)
    fair = FairPLS(1).fit(X, Y, sensitive_features=groups)
    doubled = audit_pairs(fair, X, Y, sensitive_features=groups, sample_weight=np.full(len(X), 2.0))
    plain = audit_pairs(fair, X, Y, sensitive_features=groups)
    for first, second in zip(doubled.losses, plain.losses, strict=True):
        assert first.expected_loss.value == pytest.approx(second.expected_loss.value, rel=1e-9)


def test_bad_input_is_refused(strong):
    X, Y, groups, fair, _ = strong
    with pytest.raises(InvalidType, match="FairPCA"):
        audit_pairs(FairPCA(1).fit(X, sensitive_features=groups), X, Y, sensitive_features=groups)
    with pytest.raises(InvalidType, match="Fit the model first"):
        audit_pairs(FairPLS(1), X, Y, sensitive_features=groups)
    with pytest.raises(InvalidParameter, match="folds is 1"):
        audit_pairs(fair, X, Y, sensitive_features=groups, folds=1)
    for level in (95, 0.1, "high"):
        with pytest.raises(InvalidParameter, match="level"):
            audit_pairs(fair, X, Y, sensitive_features=groups, level=level)
    for materiality in (1.0, -0.1, "a"):
        with pytest.raises(InvalidParameter, match="materiality"):
            audit_pairs(fair, X, Y, sensitive_features=groups, materiality=materiality)
    with pytest.raises(InvalidInput, match="sensitive_features"):
        audit_pairs(fair, X, Y)


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("method", [FairPLS, FairCCA])
@pytest.mark.parametrize("noise", [0.5, 3.0])
def test_groups_that_lose_nothing_are_seldom_called_harmed(method, noise):
    """Both groups have the same cross-covariance, so that PLS loses nothing of either."""
    n_harmed = 0
    draws = select_cases(range(200), 10)
    for draw in draws:
        rng = np.random.default_rng([60, draw])
        X, Y, groups = draw_rows(rng, 300, 60, (SAME, SAME), noise)
        fair = method(2).fit(X, Y, sensitive_features=groups)
        audit = audit_pairs(fair, X, Y, sensitive_features=groups)
        n_harmed += any(loss.state == "harmed" for loss in audit.losses)
    assert n_harmed / len(draws) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / len(draws))


@pytest.mark.long
@pytest.mark.sweep
def test_intervals_contain_the_expected_loss():
    """The loss that a pair fitted to such rows has, on average, of the true cross-covariances."""
    reversed_columns = SAME[:, ::-1]
    draws = select_cases(range(60), 6)
    covered = []
    for draw in draws:
        rng = np.random.default_rng([61, draw])
        X, Y, groups = draw_rows(rng, 400, 100, (SAME, reversed_columns))
        fair = FairPLS(1, scale=False).fit(X, Y, sensitive_features=groups)
        audit = audit_pairs(fair, X, Y, sensitive_features=groups)
        for label, B in (("many", SAME), ("few", reversed_columns)):
            loss = max_covariance(B, 1) - captured_covariance(B, fair.x_weights_, fair.y_weights_)
            loss_estimate = by_group(audit, "PLS, minimax loss")[label].expected_loss
            covered.append(loss_estimate.low <= loss <= loss_estimate.high)
    min_coverage = 0.92 if ALL_CASES else 0.8
    assert np.mean(covered) >= min_coverage
