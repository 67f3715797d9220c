"""Sample sizes that show a loss, against closed forms of normal rows and the power of audits."""

import numpy as np
import pytest
from scipy import stats

import fairspan as fs
from case_selection import select_cases

# Normal quantiles of a limit that holds for two groups at once, and of the power.
QUANTILE = stats.norm.isf(0.05 / 4) + stats.norm.isf(0.2)
D = 3
# With a gap after the third, without which the best subspace is not identified.
EIGENVALUES = np.where(np.arange(20) < D, 2, 1) / np.sqrt(np.arange(1, 21))
# The loss at this angle takes more than 80 rows to show.
ANGLE = 0.2


def rotate(angle):
    """Second moments of a group whose leading directions are turned away from the model's."""
    turn = np.eye(20)
    for i in range(D):
        cos = np.cos(angle)
        sin = np.sin(angle)
        turn[np.ix_([i, i + 10], [i, i + 10])] = [[cos, -sin], [sin, cos]]
    return turn @ np.diag(EIGENVALUES) @ turn.T


def truth(second):
    """The loss under the first three axes, and s and B, by their formulas."""
    values, vectors = np.linalg.eigh(second)
    values = values[::-1]
    best = vectors[:, ::-1][:, :D]
    difference = best @ best.T - np.diag(np.arange(20) < D)
    ratios = np.outer(values[:D], values[D:]) / np.subtract.outer(values[:D], values[D:])
    spread = np.sqrt(2 * np.trace(difference @ second @ difference @ second))
    return np.trace(difference @ second), spread, ratios.sum()


def required_sample_size(loss, spread, bias):
    """Rows at which the cross-fitted loss, less its bias, is above its standard error."""
    root = (QUANTILE * spread + np.sqrt((QUANTILE * spread) ** 2 + 4 * loss * bias)) / (2 * loss)
    return max(root**2, 3 * bias / loss)


def run_audit(rng, second, n):
    few = rng.multivariate_normal(np.zeros(20), second, size=n, method="cholesky")
    many = rng.normal(size=(600, 20)) * np.sqrt(EIGENVALUES)
    X = np.vstack([many, few])
    groups = np.repeat(["many", "few"], [600, n])
    result = fs.audit(np.eye(20)[:D], X, groups)
    return result, next(g for g in result.models[0].groups if g.group == "few")


@pytest.mark.slow
def test_rows_needed_are_enough_and_of_the_order_of_the_formula():
    rng = np.random.default_rng(0)
    second = rotate(ANGLE)
    loss, spread, bias = truth(second)
    required = 1.3 * required_sample_size(loss, spread, bias)
    # Of 80 rows the cross-fitted loss is too small, and its spread too large.
    inconclusive_groups = [
        group for _ in range(24) if (group := run_audit(rng, second, 80)[1]).n_rows_needed
    ]
    assert len(inconclusive_groups) >= 15
    assert (
        required
        <= np.median([group.n_rows_needed for group in inconclusive_groups])
        <= 4 * required
    )
    detectable_loss = max(QUANTILE * spread / np.sqrt(80) + bias / 80, 3 * bias / 80)
    assert np.median([group.min_detectable_loss for group in inconclusive_groups]) == pytest.approx(
        detectable_loss, rel=0.2
    )


def test_no_number_of_rows_is_given_where_the_best_subspace_is_not_identified():
    result, few = run_audit(np.random.default_rng(1), np.diag(1 / np.sqrt(np.arange(1, 21))), 60)
    assert few.state == "inconclusive"
    assert few.is_identified is False
    assert few.n_rows_needed is None
    assert "3rd and 4th component of 'few' are about equally important" in result.verdict.summary


def test_rows_needed_are_reported_where_all_groups_are_inconclusive():
    result, few = run_audit(np.random.default_rng(1), rotate(ANGLE), 60)
    assert few.state == "inconclusive"
    assert f"{few.n_rows_needed:,} rows of 'few'" in result.verdict.summary
    share = 100 * few.min_detectable_loss / few.observed_total_variance
    assert f"losses above {share:.1f} %" in result.verdict.summary
    finding = next(finding for finding in result.findings if finding.code == "FS101")
    assert f"{few.n_rows_needed:,} rows of 'few'" in finding.message
    records = {record["group"]: record for record in result.to_records()}
    assert records["few"]["n_rows_needed"] == few.n_rows_needed
    low, high = few.n_rows_needed_range
    assert records["few"]["n_rows_needed_low"] == low
    assert records["few"]["n_rows_needed_high"] == high
    assert low <= few.n_rows_needed <= high
    assert records["few"]["min_detectable_loss"] == few.min_detectable_loss
    _, many = run_audit(np.random.default_rng(1), rotate(0.9), 800)
    assert many.state == "harmed"
    assert many.n_rows_needed is None
    assert np.isnan(many.min_detectable_loss)


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("angle", [ANGLE, 0.5])
def test_the_power_rises_from_half_to_twice_the_rows_needed(angle):
    rng = np.random.default_rng(2)
    second = rotate(angle)
    n = required_sample_size(*truth(second))
    shares_with_harm = [
        np.mean(
            [
                run_audit(rng, second, round(n * factor))[1].state == "harmed"
                for _ in select_cases(range(60), 3)
            ]
        )
        for factor in (0.5, 1.0, 2.0)
    ]
    assert shares_with_harm[0] <= 0.95
    assert shares_with_harm[1] >= 0.6
    assert shares_with_harm[2] >= 0.9


def test_the_number_needed_counts_clusters_where_clusters_are_declared():
    """Every row is a cluster of two equal ones, so that as many clusters are needed as rows."""
    rng = np.random.default_rng(1)
    few = rng.multivariate_normal(np.zeros(20), rotate(ANGLE), size=60, method="cholesky")
    many = rng.normal(size=(600, 20)) * np.sqrt(EIGENVALUES)
    X = np.vstack([many, few])
    groups = np.repeat(["many", "few"], [600, 60])
    row_group = fs.audit(np.eye(20)[:D], X, groups).models[0].groups[0]
    people = np.arange(660)
    doubled = fs.audit(
        np.eye(20)[:D], np.repeat(X, 2, axis=0), np.repeat(groups, 2), clusters=np.repeat(people, 2)
    )
    group = doubled.models[0].groups[0]
    assert row_group.n_clusters_needed is None
    assert (group.group, group.n_clusters) == ("few", 60)
    assert group.n_clusters_needed == pytest.approx(row_group.n_rows_needed, rel=0.5)
    assert group.n_rows_needed == pytest.approx(2 * group.n_clusters_needed, rel=0.1)
    assert f"about {group.n_clusters_needed:,} clusters of 'few'" in doubled.verdict.summary
    (record, *_) = doubled.to_records()
    assert record["n_clusters_needed"] == group.n_clusters_needed
