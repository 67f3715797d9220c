"""
The regret of UCB1 stays below the bound of its theorem
=======================================================

Ten arms have rewards that are uniform on intervals; there are five repetitions.
:class:`~fairspan.selection.UCB1SearchCV` uses UCB1 to spend its fits on the most promising
settings.
"""

import matplotlib.pyplot as plt
import numpy as np

from fairspan.selection import UCB1

MEANS = np.linspace(0.3, 0.75, 10)
WIDTH = 0.5
rounds = np.unique(np.geomspace(1, 20_000, 100).round().astype(int)).tolist()


def simulated_regret(seed):
    """Return the cumulative regret after each number of rounds."""
    policy = UCB1(len(MEANS))
    regret = []
    for uniform in np.random.default_rng(seed).random(rounds[-1]):
        arm = policy.select()
        policy.update(arm, MEANS[arm] + WIDTH * (uniform - 0.5))
        if policy.n_rounds in rounds:
            regret.append(policy.cumulative_regret(MEANS))
    return regret


regrets = np.array([simulated_regret(seed) for seed in range(5)])
bound = np.array([UCB1(len(MEANS)).regret_bound(MEANS, n) for n in rounds])
assert (regrets < bound).all()

figure, axes = plt.subplots(layout="constrained")
axes.plot(rounds, regrets.T, color="#0072b2", label=["regret", *[None] * 4])
axes.plot(rounds, bound, color="black", linestyle="--", label="bound of the theorem")
axes.set(xscale="log", yscale="log", xlabel="rounds", ylabel="cumulative regret")
axes.legend()
