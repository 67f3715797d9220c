"""UCB1: the upper-confidence-bound policy of Auer, Cesa-Bianchi and Fischer."""

import math
import numbers
from typing import Any

import numpy as np

from fairspan.errors import InvalidParameter, InvalidType
from fairspan.problem.parameters import check_count
from fairspan.typing import FloatArray, IntegerArray


def upper_bounds(means: FloatArray, counts: IntegerArray) -> FloatArray:
    """Upper confidence bound of each arm, mean_i + sqrt(2 ln t / n_i), with t the sum of the n_i.

    Parameters
    ----------
    means : (a,) array
        Mean reward of each arm, in [0, 1]; anything for an arm that was never played.
    counts : (a,) array of int
        How often each arm was played.

    Returns
    -------
    (a,) array
        Infinite for an arm that was never played.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # of arms that were never played
        widths = np.sqrt(2.0 * math.log(max(counts.sum(), 1)) / counts)
    return np.where(counts > 0, means + widths, np.inf)


class UCB1:
    """Policy for a bandit with rewards in [0, 1]: play the arm with the largest upper bound.

    Each arm is played once, in order. Then, after t plays, the arm with the largest mean_i +
    sqrt(2 ln t / n_i) is played, where n_i is the number of plays of arm i; on ties, the first
    such arm.

    Parameters
    ----------
    n_arms : int

    Attributes
    ----------
    n_arms : int
    counts : (n_arms,) array of int
        Plays of each arm.
    means : (n_arms,) array
        Mean reward of each arm, NaN for an arm that was never played.

    Raises
    ------
    InvalidType, InvalidParameter
        `n_arms` is not a whole number of at least 1.

    References
    ----------
    Auer, Cesa-Bianchi, Fischer (2002). Finite-time Analysis of the Multiarmed Bandit Problem.
    Machine Learning 47, Figure 1 and Theorem 1.

    Examples
    --------
    >>> from fairspan.selection import UCB1
    >>> policy = UCB1(2)
    >>> for _ in range(100):
    ...     arm = policy.select()
    ...     policy.update(arm, [0.1, 0.9][arm])
    >>> policy.counts
    array([ 8, 92])
    """

    def __init__(self, n_arms: int) -> None:
        check_count("n_arms", n_arms)
        self.n_arms = int(n_arms)
        self._counts = np.zeros(self.n_arms, dtype=np.int64)
        self._means = np.zeros(self.n_arms)

    @property
    def n_rounds(self) -> int:
        """Plays so far."""
        return int(self._counts.sum())

    @property
    def counts(self) -> IntegerArray:
        """Plays of each arm, shape (n_arms,)."""
        return self._counts.copy()

    @property
    def means(self) -> FloatArray:
        """Mean reward of each arm, shape (n_arms,); NaN for an arm that was never played."""
        return np.where(self._counts > 0, self._means, np.nan)

    def select(self) -> int:
        """Say which arm to play next; nothing changes until `update`."""
        return int(np.argmax(self.bounds()))

    def update(self, arm: int, reward: float) -> None:
        """Record the reward of a play.

        Parameters
        ----------
        arm : int
            From 0 to n_arms - 1.
        reward : float
            In [0, 1].

        Raises
        ------
        InvalidParameter
            No such arm, or a reward outside [0, 1], or NaN. The policy is then unchanged.
        InvalidType
            Not a whole number, or a reward that is no number.
        """
        if not isinstance(arm, numbers.Integral) or isinstance(arm, bool):
            raise InvalidType(
                f"arm is {arm!r}", "Allowed: a whole number", "Pass what select() returned"
            )
        if not 0 <= arm < self.n_arms:
            raise InvalidParameter(
                f"arm is {arm}",
                f"Allowed: 0 to {self.n_arms - 1}",
                "Pass what select() returned",
            )
        if not isinstance(reward, numbers.Real):
            raise InvalidType(
                f"reward is {reward!r}", "Allowed: a number from 0 to 1", "Pass a number"
            )
        if not 0 <= reward <= 1:  # NaN is caught too
            raise InvalidParameter(
                f"reward is {reward!r}",
                "Allowed: a number from 0 to 1",
                "Divide rewards by their largest possible value, after subtracting the smallest",
            )
        self._counts[arm] += 1
        self._means[arm] += (float(reward) - self._means[arm]) / self._counts[arm]

    def bounds(self) -> FloatArray:
        """Upper confidence bound of each arm, shape (n_arms,); infinite before its first play."""
        return upper_bounds(self._means, self._counts)

    def cumulative_regret(self, true_means: Any) -> float:
        """Pseudo-regret so far: the expected loss compared with always playing the best arm.

        sum_i Delta_i n_i with Delta_i = max_j mu_j - mu_i (Auer et al., section 1).

        Parameters
        ----------
        true_means : (n_arms,) array-like
            Expected reward mu_i of each arm, in [0, 1].

        Returns
        -------
        float
            In units of the reward.

        Raises
        ------
        InvalidParameter
            Another number of means, or one outside [0, 1].

        Examples
        --------
        >>> policy = UCB1(2)
        >>> policy.update(0, 0.5)
        >>> policy.cumulative_regret([0.25, 1.0])
        0.75
        """
        return float(self._shortfalls(true_means) @ self._counts)

    def regret_bound(self, true_means: Any, n_rounds: int | None = None) -> float:
        """Upper bound of the expected regret after n rounds, Theorem 1 of Auer et al. (2002).

        8 sum_{i: Delta_i > 0} ln n / Delta_i + (1 + pi^2 / 3) sum_j Delta_j

        Parameters
        ----------
        true_means : (n_arms,) array-like
            Expected reward of each arm, in [0, 1].
        n_rounds : int, optional
            n, at least 1; without it the rounds so far.

        Returns
        -------
        float
            In units of the reward.

        Raises
        ------
        InvalidParameter
            Another number of means, one outside [0, 1], or no round.

        Examples
        --------
        >>> round(UCB1(2).regret_bound([0.5, 1.0], 1000), 3)
        112.669
        """
        rounds = self.n_rounds if n_rounds is None else n_rounds
        check_count("n_rounds", rounds)
        shortfalls = self._shortfalls(true_means)
        worse = shortfalls[shortfalls > 0]
        grows = 8.0 * math.log(rounds) * float((1.0 / worse).sum())
        return grows + (1.0 + math.pi**2 / 3.0) * float(shortfalls.sum())

    def _shortfalls(self, true_means: Any) -> FloatArray:
        """Delta_i, shape (n_arms,)."""
        said = f"true_means is {true_means!r}"
        allowed = f"Allowed: {self.n_arms} numbers from 0 to 1, one for each arm"
        try:
            means = np.asarray(true_means, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidParameter(said, allowed, "Pass such numbers") from error
        if means.shape != (self.n_arms,) or not ((means >= 0) & (means <= 1)).all():
            raise InvalidParameter(said, allowed, "Pass such numbers")
        return np.asarray(means.max() - means)
