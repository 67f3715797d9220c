"""
The regret of UCB1 stays below the bound of its theorem
=======================================================

Ten arms with rewards uniform on intervals, five repeats. UCB1 is how
:class:`~fairspan.selection.UCB1SearchCV` spends its fits on the settings that look best.
"""

import matplotlib.pyplot as plt
import numpy as np

from fairspan.selection import UCB1, simulated_regret

MEANS = np.linspace(0.3, 0.75, 10)
WIDTH = 0.5
N_ROUNDS = 20_000

lower, upper = MEANS - WIDTH / 2, MEANS + WIDTH / 2
repeats = [simulated_regret(lower, upper, N_ROUNDS, random_state=seed) for seed in range(5)]
rounds = repeats[0][0]
regrets = np.array([regret for _, regret, _ in repeats])
bound = np.array([UCB1(len(MEANS)).regret_bound(MEANS, int(each)) for each in rounds])
assert (regrets < bound).all()

figure, axes = plt.subplots(layout="constrained")
axes.plot(rounds, regrets.T, color="#0072b2", label=["regret", *[None] * 4])
axes.plot(rounds, bound, color="black", linestyle="--", label="bound of the theorem")
axes.set(xscale="log", yscale="log", xlabel="rounds", ylabel="cumulative regret")
axes.legend()
