"""The number of rows that show a loss, and the least loss that rows show, are inverse."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fairspan as fs
from fairspan.auditing import expected_losses
from fairspan.auditing.sample_size import (
    UNKNOWN_PLAN,
    LossSpread,
    min_detectable_loss,
    plan_detection,
    power_quantile,
    required_sample_size,
)


def test_the_least_loss_is_that_of_the_rows_that_show_it():
    for loss, spread, bias in ((0.3, 1.0, 4.0), (2.0, 5.0, 0.1), (0.1, 0.2, 9.0)):
        n = required_sample_size(loss, spread, bias, 3.0)
        assert min_detectable_loss(n, spread, bias, 3.0) == pytest.approx(loss)
    expected = stats.norm.isf(0.05 / 4) + stats.norm.isf(0.2)
    assert power_quantile(2, 0.95) == pytest.approx(expected)


def test_the_range_is_that_of_losses_one_quantile_of_the_estimate_away():
    spread = LossSpread(n=100, standard_deviation=2.0, bias=1.0)
    plan = plan_detection(0.5, 0.01, spread, quantile=3.0)
    margin = stats.norm.isf(0.1) * 2.0 / 10
    required = [1.3 * required_sample_size(0.5 + i * margin, 2.0, 1.0, 3.0) for i in (1, 0, -1)]
    factors = [plan.size_factor_low, plan.size_factor, plan.size_factor_high]
    np.testing.assert_allclose(100 * np.array(factors), np.maximum(required, 130))


def test_without_a_threshold_a_loss_that_may_be_zero_takes_any_number_of_rows():
    spread = LossSpread(n=100, standard_deviation=20.0, bias=1.0)
    assert plan_detection(0.5, 0.0, spread, quantile=3.0).size_factor_high == math.inf
    assert math.isnan(plan_detection(-0.5, 0.0, spread, quantile=3.0).size_factor)


@pytest.mark.parametrize("cluster_size", [1, 2])
def test_unequal_weights_take_more_rows_by_their_own_variation(cluster_size, monkeypatch):
    spreads = []

    def record_spread(loss, min_material_loss, spread, quantile):
        spreads.append(spread)
        return UNKNOWN_PLAN

    monkeypatch.setattr(expected_losses, "plan_detection", record_spread)
    rng = np.random.default_rng(0)
    weights = rng.lognormal(size=40)
    clusters = np.arange(40) // cluster_size
    X = rng.normal(size=(40, 3))
    fs.audit(np.eye(3)[:1], X, np.repeat("a", 40), sample_weight=weights, clusters=clusters)
    [spread] = spreads
    squares = weights.reshape(-1, cluster_size).sum(axis=1) ** 2
    variation = np.var(squares) / np.mean(squares) ** 2
    assert spread.weight_variation == pytest.approx(variation)
    equal = replace(spread, bias=0.0, weight_variation=0.0)
    unequal = replace(spread, bias=0.0)
    ratio = unequal.size_factor(0.1, 3.0) / equal.size_factor(0.1, 3.0)
    assert ratio == pytest.approx(1 + variation / spread.n)
