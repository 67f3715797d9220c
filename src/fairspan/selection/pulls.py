"""What the pulls of a search brought, what may be concluded from them, and the table of them.

Pull j of every arm is scored on split j, so arms that were pulled equally often are compared on the
same splits. Arms are not pulled equally often, and splits differ in difficulty, often by more than
arms do: a plain mean would punish an arm for the hard splits that only it was tried on. Scores are
therefore described as arm + split, and the splits' part is estimated by least squares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType, warn
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


def results_table(candidates: Sequence[Mapping[str, Any]], tally: Tally) -> dict[str, Any]:
    """One row for each candidate; `UCB1SearchCV` describes the keys.

    Parameters
    ----------
    candidates : sequence of mapping
        Parameter settings, in the order of the arms.
    tally : Tally
        Each arm was pulled at least once.

    Returns
    -------
    dict of str to array of length a
    """
    arms = range(len(candidates))
    table: dict[str, Any] = {}
    for kind in ("fit_time", "score_time"):
        seconds = [[getattr(pull, kind) for pull in tally.pulls if pull.arm == arm] for arm in arms]
        table[f"mean_{kind}"] = np.array([np.mean(each) for each in seconds])
        table[f"std_{kind}"] = np.array([np.std(each) for each in seconds])
    table |= _parameter_columns(candidates)
    table["params"] = list(candidates)
    scores, usable = tally.scores, tally.usable
    for split in range(scores.shape[1]):
        table[f"split{split}_test_score"] = scores[:, split]
    means = tally.mean_scores()
    table["mean_test_score"] = means
    table["std_test_score"] = np.array(
        [np.nanstd(scores[arm]) if usable[arm] else np.nan for arm in arms]
    )
    # Failed arms share the last place.
    last = np.where(usable, -means, np.inf)
    table["rank_test_score"] = rankdata(last, method="min").astype(np.int32)
    table["n_pulls"] = tally.counts.copy()
    return table


def best_index(table: Mapping[str, Any], refit: Any) -> int:
    """Row of rank 1, the first on ties; or what the callable `refit` says.

    Raises
    ------
    InvalidParameter
        It says something else than a row.
    """
    if not callable(refit):
        return int(table["rank_test_score"].argmin())
    index, n_rows = refit(table), len(table["params"])
    if not isinstance(index, int | np.integer) or not 0 <= index < n_rows:
        raise InvalidParameter(
            f"refit returned {index!r}",
            f"Allowed: the number of a setting, from 0 to {n_rows - 1}",
            "Return an index of cv_results_['params']",
        )
    return int(index)


def report_failures(candidates: Sequence[Mapping[str, Any]], tally: Tally) -> None:
    """Warn of the settings that failed.

    Raises
    ------
    InvalidInput, InvalidType
        All failed; InvalidType where the first did so with a TypeError.
    """
    if not tally.errors:
        return
    first = min(tally.errors)
    if not tally.usable.any():
        of_type = tally.errors[first].startswith(("TypeError", InvalidType.__name__))
        raise (InvalidType if of_type else InvalidInput)(
            f"All {len(candidates)} settings of the grid failed, the first with "
            f"{tally.errors[first].removesuffix('.')}",
            "Allowed: a grid with at least one setting that fits these data",
            f"Try estimator.set_params(**{candidates[first]!r}).fit on the same data",
        )
    told = "; ".join(f"{candidates[arm]!r}: {why}" for arm, why in sorted(tally.errors.items()))
    warn(
        f"{len(tally.errors)} of {len(candidates)} settings failed and were left out; errors_ "
        f"keeps the reasons. {told}"
    )


def _parameter_columns(candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A masked array for each parameter; masked where a candidate does not have it."""
    names = dict.fromkeys(name for candidate in candidates for name in candidate)
    columns = {}
    for name in names:
        values = [candidate[name] for candidate in candidates if name in candidate]
        column = np.ma.MaskedArray(np.empty(len(candidates), dtype=_plain_type(values)), mask=True)
        for row, candidate in enumerate(candidates):
            if name in candidate:
                column[row] = candidate[name]
        columns[f"param_{name}"] = column
    return columns


def _plain_type(values: Sequence[Any]) -> npt.DTypeLike:
    """Numbers and truth values as such; text, objects and sequences as objects."""
    try:
        array = np.array(values)
    except ValueError:  # sequences of different lengths
        return np.dtype(object)
    return array.dtype if array.ndim == 1 and array.dtype.kind in "biufc" else np.dtype(object)
