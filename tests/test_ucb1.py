"""UCB1: the policy step by step, its regret beside the theorem's bound, bad rewards."""

import math

import numpy as np
import pytest

from fairspan.errors import InvalidParameter, InvalidType
from fairspan.selection import UCB1

MEANS = np.linspace(0.3, 0.75, 10)


def played(rewards_of_arms):
    policy = UCB1(len(rewards_of_arms))
    for arm, rewards in enumerate(rewards_of_arms):
        for reward in rewards:
            policy.update(arm, reward)
    return policy


def simulated(lower, upper, n_rounds, seed):
    """Play arms with rewards uniform on intervals; the regret after each round."""
    policy, regret, means = UCB1(len(lower)), [], (lower + upper) / 2
    for uniform in np.random.default_rng(seed).random(n_rounds).tolist():
        arm = policy.select()
        policy.update(arm, min(lower[arm] + (upper[arm] - lower[arm]) * uniform, 1.0))
        if policy.n_rounds % 1000 == 0:
            regret.append(policy.cumulative_regret(means))
    return np.array(regret), policy


def test_each_arm_is_played_once_in_order_then_the_largest_bound():
    policy, order = UCB1(3), []
    for _ in range(5):
        order.append(policy.select())
        policy.update(order[-1], [0.0, 0.5, 0.5][order[-1]])
    # Fourth: arms 1 and 2 tie, the first is taken. Fifth: arm 2, now less played than arm 1.
    assert order == [0, 1, 2, 1, 2]
    assert policy.counts.tolist() == [1, 2, 2]
    assert policy.means.tolist() == [0.0, 0.5, 0.5]
    assert policy.n_rounds == 5


def test_bounds_by_hand():
    policy = played([[1.0, 0.0, 0.5], [0.25], []])
    assert np.isnan(policy.means[2])
    expected = [0.5 + math.sqrt(2 * math.log(4) / 3), 0.25 + math.sqrt(2 * math.log(4)), math.inf]
    np.testing.assert_allclose(policy.bounds(), expected, rtol=1e-15)
    assert policy.select() == 2


def test_selection_follows_the_public_bounds():
    rng = np.random.default_rng(3)
    policy = UCB1(6)
    for _ in range(300):
        arm = policy.select()
        assert arm == np.argmax(policy.bounds())
        assert arm == policy.select()
        policy.update(arm, rng.uniform(0, 0.5) + arm / 12)


def test_what_is_read_is_a_copy():
    policy = played([[1.0], [0.0]])
    policy.counts[:] = 7
    policy.means[:] = 7
    policy.bounds()[:] = 7
    assert policy.counts.tolist() == [1, 1]
    assert policy.means.tolist() == [1.0, 0.0]


def test_regret_and_its_bound_by_hand():
    policy = played([[0.0] * 3, [0.0], [1.0] * 2])
    assert policy.cumulative_regret([0.5, 0.25, 1.0]) == pytest.approx(3 * 0.5 + 0.75)
    expected = 8 * math.log(100) * (1 / 0.5 + 1 / 0.75) + (1 + math.pi**2 / 3) * 1.25
    assert policy.regret_bound([0.5, 0.25, 1.0], 100) == pytest.approx(expected, rel=1e-14)
    assert policy.regret_bound([0.5, 0.25, 1.0]) == policy.regret_bound([0.5, 0.25, 1.0], 6)
    assert policy.regret_bound([0.5, 0.5, 0.5], 100) == 0.0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_regret_stays_below_the_bound(seed):
    n_rounds = 100_000
    regret, policy = simulated(MEANS - 0.25, MEANS + 0.25, n_rounds, seed)
    rounds = np.arange(1000, n_rounds + 1, 1000)
    assert policy.n_rounds == n_rounds
    assert (np.diff(regret) >= 0).all()
    assert regret[-1] == pytest.approx(policy.cumulative_regret(MEANS), rel=1e-12)
    bounds = [policy.regret_bound(MEANS, int(each)) for each in rounds]
    assert (regret <= bounds).all()
    # Not by chance: always choosing at random would lose ten times as much, and pass the bound.
    at_random = n_rounds * (MEANS.max() - MEANS.mean())
    assert regret[-1] < at_random / 10 < bounds[-1] < at_random
    # Each worse arm is played as often as the proof allows, and the best one most.
    gaps = MEANS.max() - MEANS[:-1]
    assert (policy.counts[:-1] <= 8 * math.log(n_rounds) / gaps**2 + 1 + math.pi**2 / 3).all()
    assert policy.counts.argmax() == 9


def test_a_simulation_is_repeatable():
    first, second, other = (
        simulated(np.array([0, 0.5]), np.array([0.5, 0.9]), 500, seed)[1].means.tolist()
        for seed in (1, 1, 2)
    )
    assert first == second != other


@pytest.mark.parametrize("reward", [-0.001, 1.001, math.nan, math.inf, -math.inf, np.float32(2)])
def test_a_reward_outside_its_range_changes_nothing(reward):
    policy = played([[0.5], []])
    with pytest.raises(InvalidParameter, match=r"Allowed: a number from 0 to 1\. Divide"):
        policy.update(1, reward)
    assert policy.counts.tolist() == [1, 0]
    assert policy.means[0] == 0.5
    assert policy.n_rounds == 1
    assert policy.select() == 1


def test_rewards_of_other_kinds():
    policy = UCB1(1)
    for reward in (np.float32(0.5), np.int64(1), True, 0):
        policy.update(np.int64(0), reward)
    assert policy.means.tolist() == [0.625]
    for reward in ("1", None, 1j, [0.5]):
        with pytest.raises(InvalidType, match="reward is"):
            policy.update(0, reward)


@pytest.mark.parametrize(("arm", "kind"), [(2, InvalidParameter), (-1, InvalidParameter)])
def test_there_is_no_such_arm(arm, kind):
    with pytest.raises(kind, match="Allowed: 0 to 1"):
        UCB1(2).update(arm, 0.5)
    for other in (0.0, True, "0", None):
        with pytest.raises(InvalidType, match="Pass what select"):
            UCB1(2).update(other, 0.5)


def test_numbers_that_cannot_be():
    for n_arms in (0, -1):
        with pytest.raises(InvalidParameter, match="n_arms"):
            UCB1(n_arms)
    for n_arms in (2.0, True, None):
        with pytest.raises(InvalidType, match="n_arms"):
            UCB1(n_arms)
    for means in ([0.5], [0.5, 1.5], [0.5, math.nan], "ab", [[0.1, 0.2]]):
        with pytest.raises(InvalidParameter, match="2 numbers from 0 to 1"):
            UCB1(2).cumulative_regret(means)
        with pytest.raises(InvalidParameter, match="true_means"):
            UCB1(2).regret_bound(means, 10)
    with pytest.raises(InvalidParameter, match="n_rounds is 0"):
        UCB1(2).regret_bound([0.5, 1.0])
