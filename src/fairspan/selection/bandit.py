"""Bandit policy UCB1, with bounds on its regret."""

import math

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import InvalidParameter, InvalidType
from fairspan.formatting.messages import counted
from fairspan.parameters import check_integer, is_integer, is_number
from fairspan.typing import FloatArray, IntegerArray


def upper_confidence_bounds(means: FloatArray, counts: IntegerArray) -> FloatArray:
    """Upper confidence bound of each arm: mean_i + sqrt(2 ln t / n_i) after t plays in total.

    Parameters
    ----------
    means : (a,) array
        Mean reward of each arm, in [0, 1]; ignored for arms that were never played.
    counts : (a,) array of int
        Number of plays of each arm.

    Returns
    -------
    (a,) array
        Infinite for arms that were never played.
    """
    log_plays = math.log(max(counts.sum(), 1))
    with np.errstate(divide="ignore", invalid="ignore"):  # for arms that were never played
        half_widths = np.sqrt(2.0 * log_plays / counts)
    return np.where(counts > 0, means + half_widths, np.inf)


class UCB1:
    """Bandit policy for rewards in [0, 1]: play the arm with the largest upper confidence bound.

    Each arm is played once, in order. After t plays, the arm with the largest
    mean_i + sqrt(2 ln t / n_i) is played, n_i being the number of plays of arm i; ties go to the
    first such arm.

    Parameters
    ----------
    n_arms : int

    Attributes
    ----------
    n_arms : int
    counts : (n_arms,) array of int
        Number of plays of each arm.
    means : (n_arms,) array
        Mean reward of each arm; NaN for arms that were never played.

    Raises
    ------
    InvalidType, InvalidParameter
        `n_arms` is not an integer of at least 1.

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
        check_integer("n_arms", n_arms)
        self.n_arms = int(n_arms)
        self._counts = np.zeros(self.n_arms, dtype=np.int64)
        self._means = np.zeros(self.n_arms)

    @property
    def n_rounds(self) -> int:
        """Number of plays so far."""
        return int(self._counts.sum())

    @property
    def counts(self) -> IntegerArray:
        """Number of plays of each arm, shape (n_arms,)."""
        return self._counts.copy()

    @property
    def means(self) -> FloatArray:
        """Mean reward of each arm, shape (n_arms,); NaN for arms that were never played."""
        return np.where(self._counts > 0, self._means, np.nan)

    def select(self) -> int:
        """Return the arm to play next; the state changes only in `update`."""
        return int(np.argmax(self.upper_confidence_bounds()))

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
            There is no such arm, or the reward is outside [0, 1] or NaN. The policy is then
            unchanged.
        InvalidType
            The arm is not an integer, or the reward is not a number.
        """
        if not is_integer(arm):
            raise InvalidType(
                f"arm is {arm!r}", "Allowed: an integer", "Pass what select() returned"
            )
        if not 0 <= arm < self.n_arms:
            raise InvalidParameter(
                f"arm is {arm}",
                f"Allowed: 0 to {self.n_arms - 1}",
                "Pass what select() returned",
            )
        # A boolean is a reward as well: success or failure.
        if not isinstance(reward, bool) and not is_number(reward):
            raise InvalidType(
                f"reward is {reward!r}", "Allowed: a number from 0 to 1", "Pass a number"
            )
        if not 0 <= reward <= 1:  # NaN is caught too
            raise InvalidParameter(
                f"reward is {reward!r}",
                "Allowed: a number from 0 to 1",
                "Rescale rewards to [0, 1] by their smallest and largest possible values",
            )
        self._counts[arm] += 1
        self._means[arm] += (float(reward) - self._means[arm]) / self._counts[arm]

    def upper_confidence_bounds(self) -> FloatArray:
        """Upper confidence bound of each arm, shape (n_arms,); infinite before its first play."""
        return upper_confidence_bounds(self._means, self._counts)

    def cumulative_regret(self, true_means: ArrayLike) -> float:
        """Pseudo-regret so far: expected loss relative to always playing the best arm.

        sum_i Delta_i n_i with n_i plays of arm i and Delta_i = max_j mu_j - mu_i (Auer et al. 2002,
        section 1).

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
            A different number of means, or one outside [0, 1].

        Examples
        --------
        >>> policy = UCB1(2)
        >>> policy.update(0, 0.5)
        >>> policy.cumulative_regret([0.25, 1.0])
        0.75
        """
        return float(self._suboptimality_gaps(true_means) @ self._counts)

    def regret_bound(self, true_means: ArrayLike, n_rounds: int | None = None) -> float:
        """Upper bound on the expected regret after n rounds, Theorem 1 of Auer et al. (2002).

        8 sum_{i: Delta_i > 0} ln n / Delta_i + (1 + pi^2 / 3) sum_j Delta_j,

        where Delta_i is the largest mean minus the mean of arm i. The regret is the expected loss
        relative to always playing the best arm.

        Parameters
        ----------
        true_means : (n_arms,) array-like
            Expected reward of each arm, in [0, 1].
        n_rounds : int, optional
            n, at least 1; by default the rounds so far.

        Returns
        -------
        float
            In units of the reward.

        Raises
        ------
        InvalidParameter
            A different number of means, one outside [0, 1], or no round.

        Examples
        --------
        >>> round(UCB1(2).regret_bound([0.5, 1.0], 1000), 3)
        112.669
        """
        rounds = self.n_rounds if n_rounds is None else n_rounds
        check_integer("n_rounds", rounds)
        gaps = self._suboptimality_gaps(true_means)
        positive_gaps = gaps[gaps > 0]
        logarithmic_term = 8.0 * math.log(rounds) * float((1.0 / positive_gaps).sum())
        return logarithmic_term + (1.0 + math.pi**2 / 3.0) * float(gaps.sum())

    def worst_case_bound(self, n_rounds: int) -> float:
        """Upper bound on the expected regret after T rounds, for any arms.

        sqrt((K - 1) T (8 ln T + 1 + pi^2 / 3)), and at most T, for K arms: the rate O(sqrt(K T log
        T)). Delta_i is the largest mean minus that of arm i, and n_i its number of plays. The
        expected number of plays of an arm is at most 8 ln T / Delta_i^2 + 1 + pi^2 / 3 (Auer et al.
        2002, Theorem 1), so it costs at most sqrt(E n_i (8 ln T + 1 + pi^2 / 3)), and the E n_i of
        the K - 1 suboptimal arms sum to at most T.

        Parameters
        ----------
        n_rounds : int
            T, at least 1.

        Returns
        -------
        float
            In units of the reward.

        Raises
        ------
        InvalidType, InvalidParameter
            The number of rounds is not an integer of at least 1.

        Examples
        --------
        >>> round(UCB1(10).worst_case_bound(1_000_000))
        32145
        """
        check_integer("n_rounds", n_rounds)
        plays_factor = 8.0 * math.log(n_rounds) + 1.0 + math.pi**2 / 3.0
        return min(math.sqrt((self.n_arms - 1) * n_rounds * plays_factor), float(n_rounds))

    def _suboptimality_gaps(self, true_means: ArrayLike) -> FloatArray:
        """Suboptimality gap of each arm: the largest mean minus its own, shape (n_arms,).

        Raises
        ------
        InvalidParameter
            A different number of means, or one outside [0, 1].
        """
        invalid_means = InvalidParameter(
            f"true_means is {true_means!r}",
            f"Allowed: {counted(self.n_arms, 'number')} from 0 to 1, one per arm",
            "Pass such numbers",
        )
        try:
            means = np.asarray(true_means, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise invalid_means from error
        if means.shape != (self.n_arms,) or not ((means >= 0) & (means <= 1)).all():
            raise invalid_means
        return np.asarray(means.max() - means)
