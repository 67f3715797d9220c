"""Intervals of errors and disparities, from rows and from blocks of moments, by hand."""

import numpy as np
import pytest
from scipy import stats

from fairspan import FairPCA, FairSubspace, GroupMoments, audit


def rows(seed, sizes, p=4):
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.standard_normal((n, p)) * rng.uniform(0.5, 3, p) for n in sizes])
    return X, np.repeat([f"g{i}" for i in range(len(sizes))], sizes)


def residuals(X, basis, point):
    centered = X - point
    return ((centered - centered @ basis.T @ basis) ** 2).sum(axis=1)


@pytest.mark.parametrize("sizes", [[80, 35], [80, 2]])
def test_error_interval_is_students_of_the_row_errors(sizes):
    X, groups = rows(0, sizes)
    basis = np.eye(4)[:2]
    result = audit(basis, X, groups, folds=None).models[0]
    for group in result.groups:
        r = residuals(X, basis, X.mean(axis=0))[groups == group.group]
        low, high = stats.t.interval(0.95, len(r) - 1, r.mean(), stats.sem(r))
        assert group.observed_error.value == pytest.approx(r.mean(), rel=1e-12)
        assert (group.observed_error.low, group.observed_error.high) == pytest.approx(
            (max(low, 0), high), rel=1e-9
        )


def test_disparity_interval_is_welchs():
    X, groups = rows(1, [80, 35])
    basis = np.eye(4)[1:2]
    disparity = audit(basis, X, groups, folds=None).models[0].observed_disparity
    r = residuals(X, basis, X.mean(axis=0))
    test = stats.ttest_ind(r[groups == "g1"], r[groups == "g0"], equal_var=False)
    interval = test.confidence_interval(0.95)
    assert disparity.value == pytest.approx(r[groups == "g1"].mean() - r[groups == "g0"].mean())
    assert (disparity.low, disparity.high) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_intervals_scale_with_the_rows(unit):
    X, groups = rows(1, [80, 35])
    basis = np.eye(4)[1:2]
    reference, rescaled = (
        audit(basis, s * X, groups, folds=None).models[0].observed_disparity for s in (1.0, unit)
    )
    scaled = np.array([rescaled.value, rescaled.low, rescaled.high]) / unit**2
    assert scaled == pytest.approx([reference.value, reference.low, reference.high], rel=1e-9)


def test_disparity_of_three_groups_is_simultaneous_over_the_pairs():
    X, groups = rows(2, [50, 40, 30])
    model = audit(np.eye(4)[:1], X, groups, folds=None).models[0]
    r = residuals(X, np.eye(4)[:1], X.mean(axis=0))
    means = {label: r[groups == label].mean() for label in np.unique(groups)}
    low = min(means, key=means.get)
    high = max(means, key=means.get)
    assert model.disparity_pair == (low, high)
    test = stats.ttest_ind(r[groups == high], r[groups == low], equal_var=False)
    interval = test.confidence_interval(1 - 0.05 / 3)
    assert (model.observed_disparity.low, model.observed_disparity.high) == pytest.approx(
        (interval.low, interval.high)
    )


def test_weights_enter_as_sampling_weights():
    X, groups = rows(4, [60, 50])
    weights = np.random.default_rng(5).uniform(0, 3, 110)
    basis = np.eye(4)[:2]
    result = audit(basis, X, groups, sample_weight=weights, folds=None).models[0]
    r = residuals(X, basis, np.average(X, axis=0, weights=weights))
    for group in result.groups:
        in_group = groups == group.group
        w = weights[in_group]
        n = in_group.sum()
        mean = np.average(r[in_group], weights=w)
        error = np.sqrt(n / (n - 1) * (w**2 * (r[in_group] - mean) ** 2).sum()) / w.sum()
        half = stats.t.ppf(0.975, n - 1) * error
        assert group.observed_error.value == pytest.approx(mean)
        assert (group.observed_error.low, group.observed_error.high) == pytest.approx(
            (max(mean - half, 0), mean + half)
        )


def test_equal_weights_change_nothing():
    X, groups = rows(6, [40, 30])
    plain = audit(np.eye(4)[:1], X, groups, folds=None).to_records()
    equal = np.full(70, 2.5)
    weighted = audit(np.eye(4)[:1], X, groups, sample_weight=equal, folds=None).to_records()
    for one, other in zip(plain, weighted, strict=True):
        assert one["observed_error_low"] == pytest.approx(other["observed_error_low"])
        assert one["observed_disparity_high"] == pytest.approx(other["observed_disparity_high"])


def test_a_row_of_weight_zero_counts_as_absent_even_with_a_group_of_its_own():
    X, groups = rows(7, [40, 30])
    more_rows = np.vstack([X, np.full((1, 4), 1e3)])
    labels = np.append(groups, "ghost")
    weights = np.append(np.ones(70), 0.0)
    with_row, without_row = (
        audit(np.eye(4)[:1], *rows_and_groups, sample_weight=row_weights, folds=5).to_records()
        for rows_and_groups, row_weights in (
            ((more_rows, labels), weights),
            ((X, groups), np.ones(70)),
        )
    )
    assert with_row == without_row


def test_interval_of_a_nonnegative_error_is_cut_at_zero():
    X = np.array([[0.0, 0.0], [0.0, 0.0], [9.0, 9.0], [1.0, 0.0], [0.0, 1.0]])
    group = audit(np.array([[1.0, 0.0]]), X, list("aaabb")).models[0].groups[0]
    assert group.observed_error.low == 0.0


@pytest.mark.parametrize("center", ["global", "group"])
def test_jackknife_over_blocks_equals_refitting_without_each(center):
    X, groups = rows(8, [120, 90], p=5)
    X += 100
    order = np.random.default_rng(9).permutation(210)
    parts = np.array_split(order, 7)
    blocks = [GroupMoments.from_rows(X[part], groups[part]) for part in parts]
    basis = np.linalg.qr(np.random.default_rng(10).standard_normal((5, 2)))[0].T
    scale = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    model = FairSubspace(basis, X.mean(axis=0), scale, center)
    result = audit(model, moments=blocks, folds=None).models[0]

    def errors_without(rows_left):
        errors_by_group = []
        for label in ("g0", "g1"):
            group_rows = X[rows_left][groups[rows_left] == label]
            point = group_rows.mean(axis=0) if center == "group" else X.mean(axis=0)
            errors_by_group.append(residuals(group_rows / scale, basis, point / scale).mean())
        return np.array(errors_by_group)

    everything = errors_without(order)
    without = np.array([errors_without(np.setdiff1d(order, part)) for part in parts])
    for index, group in enumerate(result.groups):
        spread = np.sqrt(6 / 7 * ((without[:, index] - without[:, index].mean()) ** 2).sum())
        half = stats.t.ppf(0.975, 6) * spread
        assert group.observed_error.value == pytest.approx(everything[index], rel=1e-9)
        assert group.observed_error.high == pytest.approx(everything[index] + half, rel=1e-6)
    gaps = without[:, 1] - without[:, 0]
    half = stats.t.ppf(0.975, 6) * np.sqrt(6 / 7 * ((gaps - gaps.mean()) ** 2).sum())
    assert result.observed_disparity.low == pytest.approx(
        everything[1] - everything[0] - half, rel=1e-6
    )
    # Fifty small blocks say about the same as the rows themselves.
    fine = [GroupMoments.from_rows(X[p], groups[p]) for p in np.array_split(order, 50)]
    by_blocks = audit(model, moments=fine, folds=None).models[0].groups[0].observed_error
    by_rows = audit(model, X, groups, folds=None).models[0].groups[0].observed_error
    assert by_blocks.high - by_blocks.low == pytest.approx(by_rows.high - by_rows.low, rel=0.5)


def test_the_kurtosis_is_that_of_the_rows_errors():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    groups = np.arange(200) % 2
    fair = FairPCA(2, criterion="total_error").fit(
        rng.standard_normal((200, 4)), sensitive_features=groups
    )
    errors = ((X - fair.inverse_transform(fair.transform(X))) ** 2).sum(axis=1)
    for folds in (None, 10):
        for group in audit(fair, X, groups, folds=folds).models[0].groups:
            expected = stats.kurtosis(errors[groups == group.group], fisher=False)
            assert group.observed_kurtosis == pytest.approx(expected)


@pytest.mark.parametrize("n_blocks", [4, 5])
def test_five_blocks_are_enough_for_estimates_of_new_rows(n_blocks):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 4))
    groups = np.tile(["a", "b", "b"], 167)[:500]
    parts = np.array_split(np.arange(500), n_blocks)
    blocks = [GroupMoments.from_rows(X[part], groups[part]) for part in parts]
    for model in audit(FairPCA(2).fit_moments(sum(blocks)), moments=blocks).models:
        if n_blocks == 5:
            assert model.no_estimates_reason is None
            assert all(group.is_estimated for group in model.groups)
        else:
            assert "4 blocks" in model.no_estimates_reason
            assert all(not group.is_estimated for group in model.groups)
