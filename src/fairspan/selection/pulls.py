"""What the pulls of a search brought, and what may be concluded from them.

Pull j of every arm is scored on split j, so arms that were pulled equally often are compared on the
same splits. Arms are not pulled equally often, and splits differ in difficulty, often by more than
arms do: a plain mean would punish an arm for the hard splits that only it was tried on. Scores are
therefore described as arm + split, and the splits' part is estimated by least squares.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.selection.ucb1 import upper_bounds
from fairspan.typing import BoolArray, FloatArray


@dataclass(frozen=True)
class Pull:
    """One fit of one arm.

    Attributes
    ----------
    arm : int
    score : float or None
        On the held-out rows; None where the fit failed.
    fit_time, score_time : float
        Seconds.
    error : str or None
        Why the fit failed.
    """

    arm: int
    score: float | None
    fit_time: float
    score_time: float
    error: str | None = None


class Tally:
    """Pulls in the order in which they were made, and the arm that comes next.

    Parameters
    ----------
    n_arms : int
    pulls : sequence of Pull
        Those made before.

    Attributes
    ----------
    pulls : list of Pull
    counts : (a,) array of int
        Pulls of each arm, the failed one included.
    errors : dict of int to str
        Arms that failed, and why. One failure retires an arm: its mean over the splits is then
        undefined, as in scikit-learn's searches, so that more pulls could not make it the best.
    """

    def __init__(self, n_arms: int, pulls: Sequence[Pull] = ()) -> None:
        self.pulls: list[Pull] = []
        self.counts = np.zeros(n_arms, dtype=np.int64)
        self.errors: dict[int, str] = {}
        self._scores: list[list[float]] = [[] for _ in range(n_arms)]
        for pull in pulls:
            self.add(pull)

    def add(self, pull: Pull) -> None:
        """Take in the next pull."""
        self.pulls.append(pull)
        self.counts[pull.arm] += 1
        if pull.score is None:
            self.errors[pull.arm] = pull.error or "unknown"
        else:
            self._scores[pull.arm].append(pull.score)

    @property
    def usable(self) -> BoolArray:
        """Which arms were pulled and never failed, shape (a,)."""
        usable = self.counts > 0
        usable[list(self.errors)] = False
        return usable

    @property
    def scores(self) -> FloatArray:
        """Score of each arm (row) on each split (column); NaN where there is none."""
        table = np.full((len(self.counts), int(self.counts.max())), np.nan)
        for arm, scores in enumerate(self._scores):
            table[arm, : len(scores)] = scores
        return table

    def next_arm(self) -> int | None:
        """UCB1's choice among the arms that have not failed; None if all have.

        Rewards are the adjusted scores, less the smallest and divided by the range of them all, so
        that they lie in [0, 1] whatever the units of the score. All rewards are mapped again after
        each pull; the order of the arms' means is that of their adjusted mean scores.
        """
        if (self.counts == 0).any():
            return int(np.argmin(self.counts > 0))
        usable = np.flatnonzero(self.usable)
        if not len(usable):
            return None
        scores = self.scores[usable]
        adjusted = scores - split_effects(scores)
        least, most = np.nanmin(adjusted), np.nanmax(adjusted)
        if most > least:
            rewards = (np.nanmean(adjusted, axis=1) - least) / (most - least)
        else:
            rewards = np.zeros(len(usable))
        return int(usable[np.argmax(upper_bounds(rewards, self.counts[usable]))])

    def mean_scores(self) -> FloatArray:
        """Least-squares mean of each arm's scores over all splits, shape (a,); NaN if it failed."""
        usable = self.usable
        means = np.full(len(self.counts), np.nan)
        if usable.any():
            scores = self.scores[usable]
            effects = split_effects(scores)
            seen = ~np.isnan(scores).all(axis=0)
            # Where all arms saw all splits this is the plain mean, up to rounding, so take that.
            if np.isnan(scores[:, seen]).any():
                means[usable] = np.nanmean(scores - effects, axis=1) + effects[seen].mean()
            else:
                means[usable] = scores[:, seen].mean(axis=1)
        return means


def split_effects(scores: FloatArray) -> FloatArray:
    """How much easier each split is than the first, by least squares.

    The model is score_ij = arm_i + split_j, fitted to the scores that are there (least-squares or
    population marginal means: Searle, Speed and Milliken 1980, The American Statistician 34).
    Every row has its scores in front and NaN behind. The last split's residuals then add up to zero
    within its column, which leaves the normal equations of the earlier splits as they were, so
    that one pass from the first split to the last solves them exactly:

        split_j = mean over the arms i that saw j of (score_ij - mean_{l < j}(score_il - split_l))

    Parameters
    ----------
    scores : (a, s) array

    Returns
    -------
    (s,) array
        The first is zero; zero also for a split that no arm saw.

    Examples
    --------
    >>> split_effects(np.array([[1.0, 4.0], [2.0, 5.0], [3.0, np.nan]]))
    array([0., 3.])
    """
    effects = np.zeros(scores.shape[1])
    sums = scores[:, 0].copy()
    for split in range(1, scores.shape[1]):
        seen = ~np.isnan(scores[:, split])
        if not seen.any():
            break
        effects[split] = np.mean(scores[seen, split] - sums[seen] / split)
        sums[seen] += scores[seen, split] - effects[split]
    return effects
