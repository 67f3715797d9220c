"""Recommendations of random tables, of which the true losses are known."""

import numpy as np
import pytest

from case_selection import ALL_CASES
from simulations.random_tables import draw_table
from true_losses import MATERIALITY, audit_drawn_table

N_TABLES = 200 if ALL_CASES else 30
CRITERIA = ("minimax_loss", "minimax_error", "nash_welfare")
# Least share of recommended models that are the best of those offered.
MIN_BEST = 0.8


@pytest.mark.sweep
@pytest.mark.long
def test_recommended_models_are_best_for_everybody():
    checked = [audit_drawn_table(draw_table(seed), CRITERIA) for seed in range(N_TABLES)]
    recommended = [each for each in checked if each.recommendation.model is not None]
    assert len(recommended) >= N_TABLES / 5
    worse = [
        each.table.name
        for each in recommended
        if each.largest(each.recommendation.model) > each.largest("PCA") + MATERIALITY
    ]
    assert worse == []
    assert np.mean([each.is_best_offered() for each in recommended]) >= MIN_BEST
    # A group that is shown to pay does pay: at 95 % and a few per cent of chance.
    payers = [
        each.change(model.model, effect.group)
        for each in checked
        for model in each.recommendation.compared
        for effect in model.effects_of_kind("pays")
    ]
    assert np.mean(np.array(payers) > 0) >= 0.95
