"""The reported interval of a loss is the one that decides its state, or a reason is given."""

import numpy as np
import pytest

import fairspan as fs

MATERIALITY = 0.01


def draw_rows(rng, has_tails):
    """Rows of three groups of random sizes, with normal or heavy tails."""
    sizes = rng.integers(30, 800, 3)
    blocks = []
    for n in sizes:
        rows = rng.standard_t(2, (n, 6)) if has_tails else rng.normal(size=(n, 6))
        blocks.append(rows * rng.permutation([4.0, 2.0, 1.5, 1.0, 0.5, 0.5]))
    return np.vstack(blocks), np.repeat(["a", "b", "c"], sizes)


def explains_state(group):
    """Return whether interval and reason explain the state."""
    threshold = MATERIALITY * group.observed_total_variance
    loss = group.expected_loss
    if group.state in ("harmed", "minor"):
        return loss.low > 0
    if group.state == "no material harm":
        return loss.high < threshold
    return bool(group.state_reason) or (loss.low <= 0 and loss.high >= threshold)


@pytest.mark.slow
@pytest.mark.parametrize("has_tails", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_interval_that_is_reported_decides(seed, has_tails):
    rng = np.random.default_rng(seed)
    X, groups = draw_rows(rng, has_tails)
    result = fs.audit(fs.FairPCA(2).fit(X, sensitive_features=groups), X, groups)
    for model in result.models:
        assert [group.group for group in model.groups if not explains_state(group)] == []


def test_a_table_says_why_an_interval_above_zero_is_inconclusive():
    rng = np.random.default_rng(0)
    X = rng.standard_t(1.5, (300, 4)) * [4, 2, 1, 1]
    result = fs.audit(
        fs.FairPCA(1).fit(X, sensitive_features=["a", "b"] * 150), X, ["a", "b"] * 150
    )
    reasons = {group.state_reason for model in result.models for group in model.groups}
    assert "heavy-tailed losses" in reasons
    assert "(heavy-tailed losses)" in result.table().caption
