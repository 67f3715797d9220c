"""UCB1's regret grows like a logarithm and stays below the bound of its theorem.

Ten arms with rewards uniform on intervals, a million rounds, five repeats. Needs matplotlib.

    python plot_ucb1_regret.py [ROUNDS]
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from fairspan.selection import UCB1, simulated_regret

MEANS = np.linspace(0.3, 0.75, 10)
WIDTH = 0.5


def main(n_rounds):
    """Plot the regret of each repeat below the bound."""
    lower, upper = MEANS - WIDTH / 2, MEANS + WIDTH / 2
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for seed in range(5):
        rounds, regret, _ = simulated_regret(lower, upper, n_rounds, random_state=seed)
        axes.plot(rounds, regret, color="tab:blue", label="regret" if seed == 0 else None)
    bound = [UCB1(len(MEANS)).regret_bound(MEANS, int(each)) for each in rounds]
    axes.plot(rounds, bound, color="black", linestyle="--", label="bound of the theorem")
    axes.set(xscale="log", yscale="log", xlabel="rounds", ylabel="cumulative regret")
    axes.set_title("The regret of UCB1 stays below its bound")
    axes.legend()
    figure.savefig("ucb1_regret.png", dpi=150)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
