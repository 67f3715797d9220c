"""The usual experiment: arms with rewards uniform on intervals, and what UCB1 loses on them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidParameter
from fairspan.problem.parameters import check_count
from fairspan.selection.ucb1 import UCB1

# Uniform numbers are drawn for so many rounds at once; one by one they would take most of the time.
_BLOCK = 4096


def simulated_regret(
    lower: Any, upper: Any, n_rounds: int, *, n_points: int = 100, random_state: Any = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], UCB1]:
    """Play UCB1 on arms with uniform rewards and follow its cumulative regret.

    A play of arm i brings a reward uniform on [lower_i, upper_i], of expectation
    mu_i = (lower_i + upper_i) / 2. The regret is sum_i n_i (max_j mu_j - mu_i); its expectation
    stays below `UCB1.regret_bound`.

    Parameters
    ----------
    lower, upper : (a,) array-like
        Ends of each arm's interval, 0 <= lower <= upper <= 1.
    n_rounds : int
    n_points : int, default=100
        At most so many rounds, evenly spaced in their logarithm, are written down.
    random_state : int, Generator or None

    Returns
    -------
    rounds : (m,) array of int
        Increasing, the last is `n_rounds`.
    regret : (m,) array
        After these rounds, in units of the reward.
    policy : UCB1
        As it stands at the end.

    Raises
    ------
    InvalidParameter
        Intervals outside [0, 1], or ends that are not of the same number.

    Examples
    --------
    >>> rounds, regret, policy = simulated_regret([0, 0.4], [0.6, 1], 1000, random_state=0)
    >>> bool(regret[-1] < policy.regret_bound([0.3, 0.7]))
    True
    """
    check_count("n_rounds", n_rounds)
    check_count("n_points", n_points)
    low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    if (
        low.ndim != 1
        or low.shape != high.shape
        or not ((low >= 0) & (low <= high) & (high <= 1)).all()
    ):
        raise InvalidParameter(
            f"The intervals are from {lower!r} to {upper!r}",
            "Allowed are intervals inside [0, 1], as many lower as upper ends",
            "Divide rewards by their largest possible value",
        )
    rng = np.random.default_rng(random_state)
    starts, widths = low.tolist(), (high - low).tolist()
    means = (low + high) / 2
    policy = UCB1(len(low))
    rounds = np.unique(np.geomspace(1, n_rounds, n_points).round().astype(np.int64))
    rounds = np.append(rounds[rounds < n_rounds], n_rounds)
    regret = np.empty(len(rounds))
    point = 0
    for first in range(0, n_rounds, _BLOCK):
        for uniform in rng.random(min(_BLOCK, n_rounds - first)).tolist():
            arm = policy.select()
            # Rounding may pass the interval's upper end, which may be 1.
            policy.update(arm, min(starts[arm] + widths[arm] * uniform, 1.0))
            if policy.n_rounds == rounds[point]:
                regret[point] = policy.cumulative_regret(means)
                point += 1
    return rounds, regret, policy
