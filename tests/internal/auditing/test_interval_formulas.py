"""Formulas of intervals, without an audit: coverage, blocks of moments and refits."""

import numpy as np
import pytest
from scipy import stats

from fairspan import FairPCA, GroupMoments
from fairspan.auditing.block_statistics import leave_one_block_out_errors
from fairspan.auditing.intervals import Estimate, disparity_estimate, error_estimates
from numpy_reference import random_rows


@pytest.mark.long
def test_coverage_of_the_intervals_is_what_they_claim():
    rng = np.random.default_rng(3)
    counts = np.array([30, 20])
    truth = np.array([2.0, 3.0])
    covered_error = covered_difference = 0
    trials = 2000
    for _ in range(trials):
        samples = [rng.normal(mean, 1, n) for mean, n in zip(truth, counts, strict=True)]
        means = np.array([sample.mean() for sample in samples])
        errors = np.array([stats.sem(sample) for sample in samples])
        first = error_estimates(means, errors, counts)[0]
        difference = disparity_estimate(means, errors, counts)
        covered_error += first.low <= 2.0 <= first.high
        covered_difference += difference.low <= 1.0 <= difference.high
    # Three standard deviations of a binomial share at 2000 trials are 1.5 %.
    assert covered_error / trials == pytest.approx(0.95, abs=0.015)
    assert covered_difference / trials == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("center", ["global", "group", "none"])
def test_errors_without_a_block_are_those_of_the_remaining_rows(center, scale):
    rows = random_rows(5, n=120, p=5, offset=2.0)
    model = FairPCA(2, center=center, scale=scale).fit(rows.X, sensitive_features=rows.labels)
    parts = [np.arange(120) % 4 == i for i in range(4)]
    blocks = [GroupMoments.from_rows(rows.X[part], rows.labels[part]) for part in parts]
    errors_by_block = leave_one_block_out_errors(blocks, sum(blocks), model.subspace_)
    X = rows.X / model.scale_ if scale else rows.X
    V = model.components_.T
    for part, errors in zip(parts, errors_by_block, strict=True):
        for label, error in zip("ab", errors, strict=True):
            group_rows = X[~part & (rows.labels == label)]
            if center == "group":
                group_rows = group_rows - group_rows.mean(axis=0)
            elif center == "global":
                group_rows = group_rows - X.mean(axis=0)
            residuals = group_rows - group_rows @ V @ V.T
            assert error == pytest.approx((residuals**2).sum() / len(residuals), rel=1e-9)


def test_the_disparity_of_constant_rows_has_the_interval_of_the_refits():
    errors = np.array([1.0, 3.0])
    zeros = np.zeros(2)
    counts = np.array([20, 30])
    assert disparity_estimate(errors, zeros, counts) == Estimate(2.0, 2.0, 2.0)
    by_fold = np.array([[1.0, 3.1], [1.1, 3.0], [0.9, 3.3], [1.0, 2.9]])
    gaps = by_fold[:, 1] - by_fold[:, 0]
    half = stats.t.ppf(0.975, 3) * np.sqrt(3 / 4 * ((gaps - gaps.mean()) ** 2).sum())
    disparity = disparity_estimate(errors, zeros, counts, refit_errors=by_fold)
    assert (disparity.low, disparity.high) == pytest.approx((2 - half, 2 + half))
    # A single fit, as of a model that was not refitted, does not vary.
    assert disparity_estimate(errors, zeros, counts, refit_errors=by_fold[:1]).high == 2.0
