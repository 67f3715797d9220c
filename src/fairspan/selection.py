"""Hyperparameter selection by a bandit: the policy UCB1, and a search that uses it."""

import math
import numbers
import time
import warnings
from collections.abc import Callable, Container, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import is_classifier
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state, get_tags, indexable
from sklearn.utils.multiclass import type_of_target

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType, warn
from fairspan.formatting.text import counted
from fairspan.registry import check_bool, check_integer, check_number
from fairspan.rows.alignment import check_alignment
from fairspan.rows.arrays import resolve_labels
from fairspan.typing import FloatArray, IntegerArray

__all__ = ["UCB1", "UCB1SearchCV"]

# Names in scikit-learn's table of what is measured in each pull.
_MEASUREMENTS = ("test_score", "fit_time", "score_time")


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
        if not isinstance(arm, numbers.Integral) or isinstance(arm, bool):
            raise InvalidType(
                f"arm is {arm!r}", "Allowed: an integer", "Pass what select() returned"
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
                "Rescale rewards to [0, 1] by their smallest and largest possible values",
            )
        self._counts[arm] += 1
        self._means[arm] += (float(reward) - self._means[arm]) / self._counts[arm]

    def upper_confidence_bounds(self) -> FloatArray:
        """Upper confidence bound of each arm, shape (n_arms,); infinite before its first play."""
        return upper_confidence_bounds(self._means, self._counts)

    def cumulative_regret(self, true_means: Any) -> float:
        """Pseudo-regret so far: expected loss relative to always playing the best arm.

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
            A different number of means, or one outside [0, 1].

        Examples
        --------
        >>> policy = UCB1(2)
        >>> policy.update(0, 0.5)
        >>> policy.cumulative_regret([0.25, 1.0])
        0.75
        """
        return float(self._suboptimality_gaps(true_means) @ self._counts)

    def regret_bound(self, true_means: Any, n_rounds: int | None = None) -> float:
        """Upper bound on the expected regret after n rounds, Theorem 1 of Auer et al. (2002).

        8 sum_{i: Delta_i > 0} ln n / Delta_i + (1 + pi^2 / 3) sum_j Delta_j

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

        sqrt((K - 1) T (8 ln T + 1 + pi^2 / 3)), and at most T: the rate O(sqrt(K T log T)). The
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

    def _suboptimality_gaps(self, true_means: Any) -> FloatArray:
        """Suboptimality gaps Delta_i, shape (n_arms,)."""
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


class UCB1SearchCV(BaseSearchCV):  # type: ignore[misc]
    """Search a parameter grid with a fixed budget of fits, allocated by the bandit policy UCB1.

    Like scikit-learn's GridSearchCV, but instead of fitting every setting on every split it treats
    a setting as an **arm** and one fit on a random train/test split as a **pull**. Every arm is
    pulled once; after that, always the one with the largest upper confidence bound
    mean_i + sqrt(2 ln t / n_i) (Auer et al. 2002), so that poor settings receive few fits.

    **Splits.** Pull j of every arm uses split j, so that arms are compared on the same rows. The
    test part is stratified by group if `sensitive_features` is passed (under this name, or routed
    to a step, ``fpca__sensitive_features``), and by class for a classifier: a group or class of at
    least two rows occurs in both parts.

    **Rewards.** Splits differ in difficulty, so split effects are removed first: the model score =
    arm + split is fitted by least squares. The remainder is scaled to [0, 1], as UCB1 requires, by
    the minimum and maximum over all arms, again after each pull. Scores may therefore be in any
    units. With fewer than about ten pulls per arm the bounds are wide and the search pulls all arms
    almost equally often.

    **Settings that fail** to fit, or have a non-finite score, do not stop the search: the arm is
    dropped, its scores are NaN, and a warning and `errors_` give the reason.

    Parameters
    ----------
    estimator : estimator
    param_grid : dict or list of dict
        As for GridSearchCV.
    n_pulls : int
        Budget of fits, excluding the final refit; at least the number of settings.
    scoring : str, callable or None
        A single score, larger is better, as for GridSearchCV; None uses the estimator's `score`.
    test_size : float, default=0.3
        Fraction of rows held out, between 0 and 1.
    refit : bool or callable, default=True
        Refit the best setting on all rows. A callable receives `cv_results_` and returns
        `best_index_`.
    random_state : int, RandomState or None
        Seed of the splits. Pass an int for reproducible results.

    Attributes
    ----------
    cv_results_ : dict of arrays, a row for each setting
        The keys of GridSearchCV: `params`, `param_*` (masked), `split{j}_test_score` (NaN if the
        setting was not tried), `mean_test_score`, `std_test_score` (over the setting's own splits),
        `rank_test_score`, means and standard deviations of `fit_time` and `score_time` in seconds;
        and `n_pulls`. `mean_test_score` is the least-squares mean over all splits, which is
        comparable between settings tried on different splits; it equals the plain mean if all
        settings were tried on the same splits.
    best_index_, best_params_, best_score_
        Row of rank 1, its setting and its mean_test_score (not with a callable refit). The score is
        optimistic, being the largest of several uncertain ones: if all settings truly score .50,
        the best may show .65, and still .60 on new splits of the same rows. Score `best_estimator_`
        on rows not used in the search.
    best_estimator_ : estimator
        Only if refit, like `refit_time_`, `n_features_in_`, `feature_names_in_` and `classes_`.
    scorer_ : callable
    n_splits_ : int
        Number of splits on which some arm was tried.
    n_pulls_ : int
        Number of fits; fewer than `n_pulls` only if every arm failed.
    arms_ : array of int
        Arm of each pull, in order.
    errors_ : dict of int to str
        Failed arms and the reasons.

    References
    ----------
    Auer, Cesa-Bianchi, Fischer (2002). Finite-time Analysis of the Multiarmed Bandit Problem.
    Machine Learning 47.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA
    >>> from fairspan.selection import UCB1SearchCV
    >>> X = np.random.default_rng(0).normal(size=(60, 4)) * [3, 2, 1, 1]
    >>> groups = np.arange(60) % 2
    >>> search = UCB1SearchCV(FairPCA(), {"n_components": [1, 2, 3]}, n_pulls=12, random_state=0)
    >>> search.fit(X, sensitive_features=groups).best_params_
    {'n_components': 3}
    >>> search.cv_results_["n_pulls"]
    array([2, 4, 6])
    """

    # Parameters of scikit-learn's searches that are fixed here.
    n_jobs = None
    pre_dispatch = 1
    verbose = 0
    error_score = "raise"
    return_train_score = False
    # Function that returns split number j; set during a search.
    _make_split: Callable[[int], tuple[IntegerArray, IntegerArray]] | None = None

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        n_pulls: int,
        scoring: Any = None,
        test_size: float = 0.3,
        refit: Any = True,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.n_pulls = n_pulls
        self.scoring = scoring
        self.test_size = test_size
        self.refit = refit
        self.random_state = random_state

    @property
    def cv(self) -> list[tuple[IntegerArray, IntegerArray]] | None:
        """Single split of a pull, in the form that scikit-learn's searches expect."""
        return None if self._make_split is None else [self._make_split(0)]

    def fit(self, X: Any, y: Any = None, **params: Any) -> "UCB1SearchCV":
        """Run the search, and refit the best setting on all rows.

        Parameters
        ----------
        X : (n, p) array-like, sparse matrix or data frame
        y : (n,) array-like, optional
        **params
            Passed to the estimator's `fit`, such as `sensitive_features` and `sample_weight`;
            values of length n are split with the rows. With metadata routing enabled, also passed
            to the scorer.

        Returns
        -------
        UCB1SearchCV

        Raises
        ------
        InvalidParameter, InvalidType
            A parameter of the search is out of range, or the budget is below the number of
            settings.
        InvalidInput
            There are fewer than two rows, or every setting failed.
        """
        self._check_parameters()
        X, y = indexable(X, y)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if n_rows < 2:
            raise InvalidInput(
                f"There are n_samples={n_rows} rows",
                "Allowed: at least two, one to fit and one to score",
                "Pass more rows",
            )
        seed = self.random_state
        if not isinstance(seed, numbers.Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        check_integer("random_state", seed, 0)
        check_alignment({"X": X, "y": y, **params})
        strata = stratification_codes(self.estimator, X, y, params, n_rows)
        # State is taken over only after the search has succeeded.
        search = type(self)(**self.get_params(deep=False))
        search._make_split = partial(stratified_split, strata, float(self.test_size), int(seed))
        BaseSearchCV.fit(search, X, y, **params)
        del search._make_split
        search.n_splits_ = int(search.cv_results_["n_pulls"].max())
        # scikit-learn 1.9 sets private attributes during fit and removes them afterwards.
        private_attributes = {
            name: value for name, value in vars(self).items() if name.startswith("_")
        }
        self.__dict__ = private_attributes | vars(search)
        self._warn_of_failures()
        return self

    def _check_parameters(self) -> None:
        """Check the parameters of the search, and that its budget covers the grid.

        Raises
        ------
        InvalidParameter, InvalidType
        """
        check_number("test_size", self.test_size, 0.0, 1.0)
        if self.test_size in (0, 1):
            raise InvalidParameter(
                f"test_size is {self.test_size!r}",
                "Allowed: a fraction of the rows, strictly between 0 and 1",
                "Choose a number in between",
            )
        if not callable(self.refit):
            check_bool("refit", self.refit)
        if not isinstance(self.scoring, str | None) and not callable(self.scoring):
            raise InvalidType(
                f"scoring is a {type(self.scoring).__name__}",
                "Allowed: a single score: a name, a callable or None",
                "Choose the score that is to be optimized",
            )
        check_integer("n_pulls", self.n_pulls)
        n_settings = len(ParameterGrid(self.param_grid))
        if self.n_pulls < n_settings:
            raise InvalidParameter(
                f"n_pulls is {self.n_pulls}",
                f"Allowed: at least {counted(n_settings, 'pull')}, one per setting of the grid",
                "Increase n_pulls or reduce the grid",
            )

    def _warn_of_failures(self) -> None:
        """Warn which settings failed, and why."""
        if not self.errors_:
            return
        settings = self.cv_results_["params"]
        reasons = "; ".join(f"{settings[arm]!r}: {reason}" for arm, reason in self.errors_.items())
        warn(
            f"{len(self.errors_)} of {counted(len(settings), 'setting')} failed and were dropped; "
            f"see errors_. {reasons}"
        )

    def _run_search(self, evaluate_candidates: Callable[..., dict[str, Any]]) -> None:
        """Pull arms until the budget is spent, then build the results table of all settings.

        Pull j of an arm is scored on split j. A single failure retires an arm: its mean score is
        then undefined, as in scikit-learn's searches, so more pulls could not make it the best.
        """
        settings = list(ParameterGrid(self.param_grid))
        arms: list[int] = []
        counts = np.zeros(len(settings), dtype=np.int64)
        errors: dict[int, str] = {}
        # Axes: kind of measurement, arm, split; NaN if not measured.
        measurements = np.full((len(_MEASUREMENTS), len(settings), self.n_pulls), np.nan)
        scores = measurements[0]
        results: dict[str, Any] = {}
        while len(arms) < self.n_pulls and len(errors) < len(settings):
            arm = select_arm(scores, counts, errors)
            start = time.perf_counter()
            try:
                results = self._evaluate(evaluate_candidates, settings[arm], int(counts[arm]))
                measured = [float(results[f"mean_{kind}"][-1]) for kind in _MEASUREMENTS]
                if not np.isfinite(measured[0]):
                    errors[arm] = f"The score is {measured[0]}, not a finite number"
            # A model may raise anything: the failure is recorded and the search continues.
            except Exception as error:
                errors[arm] = f"{type(error).__name__}: {error}"
                measured = [np.nan, time.perf_counter() - start, 0.0]
            measurements[:, arm, counts[arm]] = measured
            counts[arm] += 1
            arms.append(arm)
        if len(errors) == len(settings):
            raise _all_settings_failed(settings, errors)
        scores[~np.isfinite(scores)] = np.nan
        # scikit-learn's table has one row per pull; replace it in place by one row per setting.
        results.clear()
        results.update(self._results_table(settings, measurements, counts, list(errors)))
        self.n_pulls_ = len(arms)
        self.arms_ = np.array(arms, dtype=np.int64)
        self.errors_ = dict(sorted(errors.items()))

    def _evaluate(
        self,
        evaluate_candidates: Callable[..., dict[str, Any]],
        setting: dict[str, Any],
        split_number: int,
    ) -> dict[str, Any]:
        """Fit and score a setting on one split, and return the table of all pulls so far."""
        with warnings.catch_warnings(), np.errstate(invalid="ignore"):
            # A score that is not finite retires its setting, which is reported once.
            warnings.filterwarnings("ignore", "One or more of the test scores are non-fin")
            split = check_cv([self._make_split(split_number)])  # type: ignore[misc]
            return evaluate_candidates([setting], split)

    def _results_table(
        self,
        settings: list[dict[str, Any]],
        measurements: FloatArray,
        counts: IntegerArray,
        failed: list[int],
    ) -> dict[str, Any]:
        """Table of results with one row per setting, see `cv_results_`.

        Parameters
        ----------
        settings : list of a dicts
        measurements : (3, a, s) array
            Kind of measurement, setting, split; NaN if not measured.
        counts : (a,) array of int
            Pulls of each setting.
        failed : list of int
            Positions of the settings that failed.
        """
        scores = measurements[0]
        placeholders = [{"test_scores": 0.0, "fit_time": 0.0, "score_time": 0.0}] * len(settings)
        table: dict[str, Any] = self._format_results(settings, 1, placeholders)
        for split_number in range(counts.max()):
            table[f"split{split_number}_test_score"] = scores[:, split_number].copy()
        for kind, seconds in zip(_MEASUREMENTS[1:], measurements[1:], strict=True):
            table[f"mean_{kind}"] = np.nanmean(seconds, axis=1)
            table[f"std_{kind}"] = np.nanstd(seconds, axis=1)
        return table | _score_columns(scores, failed) | {"n_pulls": counts}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # GridSearchCV does not propagate these.
        tags.transformer_tags = deepcopy(get_tags(self.estimator).transformer_tags)
        return tags


def _all_settings_failed(
    settings: list[dict[str, Any]], errors: dict[int, str]
) -> InvalidType | InvalidInput:
    """Error with the reason of the first setting."""
    arm, reason = min(errors.items())
    is_type_error = reason.startswith(("TypeError", InvalidType.__name__))
    error_type = InvalidType if is_type_error else InvalidInput
    if len(settings) == 1:
        failed = "The only setting of the grid failed,"
    else:
        failed = f"All {len(settings)} settings of the grid failed, the first"
    return error_type(
        f"{failed} with {reason.removesuffix('.')}",
        "Allowed: a grid with at least one setting that can be fitted to these data",
        f"Try estimator.set_params(**{settings[arm]!r}).fit on the same data",
    )


def _score_columns(scores: FloatArray, failed: list[int]) -> dict[str, Any]:
    """Mean, deviation and rank of each arm's scores, as in scikit-learn's searches."""
    n_arms = len(scores)
    usable_arms = np.setdiff1d(np.arange(n_arms), failed)
    means = np.full(n_arms, np.nan)
    means[usable_arms] = least_squares_means(scores[usable_arms])
    deviations = np.full(n_arms, np.nan)
    deviations[usable_arms] = np.nanstd(scores[usable_arms], axis=1)
    # Failed arms share the last rank.
    losses = np.where(np.isnan(means), np.inf, -means)
    return {
        "mean_test_score": means,
        "std_test_score": deviations,
        "rank_test_score": rankdata(losses, method="min").astype(np.int32),
    }


def select_arm(scores: FloatArray, counts: IntegerArray, failed: Container[int]) -> int:
    """Arm chosen by UCB1 among those that have not failed; at least one must remain.

    Rewards are scores without split effects, scaled to [0, 1] by their minimum and range, whatever
    the units of the score. The scaling is updated after each pull; the order of the arms' means
    equals that of their :func:`least_squares_means`.

    Parameters
    ----------
    scores : (a, s) array
        NaN if not measured.
    counts : (a,) array of int
        Pulls of each arm.
    failed : collection of int
        Failed arms.
    """
    if not counts.all():
        return int(np.argmin(counts > 0))
    usable_arms = np.array([arm for arm in range(len(scores)) if arm not in failed])
    observed = scores[usable_arms, : counts.max()]
    adjusted = observed - split_effects(observed)
    minimum = np.nanmin(adjusted)
    score_range = np.nanmax(adjusted) - minimum
    # If all scores are equal, all rewards are zero.
    divisor = 1.0 if score_range == 0 else score_range
    rewards = (np.nanmean(adjusted, axis=1) - minimum) / divisor
    bounds = upper_confidence_bounds(rewards, counts[usable_arms])
    return int(usable_arms[np.argmax(bounds)])


def least_squares_means(scores: FloatArray) -> FloatArray:
    """Least-squares mean of each arm's scores over all splits, shape (a,).

    Arms are pulled unequally often, and splits often differ more than arms do: a plain mean would
    penalize an arm for difficult splits that only it was tried on.

    Parameters
    ----------
    scores : (a, s) array
        At least one score per row; NaN if not measured.
    """
    is_used = ~np.isnan(scores).all(axis=0)
    observed = scores[:, is_used]
    if not np.isnan(observed).any():
        # The plain mean is the least-squares mean too, without its rounding error.
        return np.asarray(observed.mean(axis=1))
    effects = split_effects(observed)
    return np.asarray(np.nanmean(observed - effects, axis=1) + effects.mean())


def split_effects(scores: FloatArray) -> FloatArray:
    """Least-squares estimate of how much easier each split is than the first one.

    The model score_ij = arm_i + split_j is fitted to the observed scores (least-squares or
    population marginal means: Searle, Speed and Milliken 1980, The American Statistician 34). Each
    row has its scores first, followed by NaN. The residuals of the last split then sum to zero
    within its column, which leaves the normal equations of the earlier splits unchanged, so that
    one pass from the first split to the last solves them exactly:

        split_j = mean over the arms i that saw j of (score_ij - mean_{l < j}(score_il - split_l))

    Parameters
    ----------
    scores : (a, s) array

    Returns
    -------
    (s,) array
        The first is zero; also zero for splits that no arm was tried on.

    Examples
    --------
    >>> split_effects(np.array([[1.0, 4.0], [2.0, 5.0], [3.0, np.nan]]))
    array([0., 3.])
    """
    effects = np.zeros(scores.shape[1])
    sums = scores[:, 0].copy()
    for split in range(1, scores.shape[1]):
        observed = ~np.isnan(scores[:, split])
        if not observed.any():
            break
        effects[split] = np.mean(scores[observed, split] - sums[observed] / split)
        sums[observed] += scores[observed, split] - effects[split]
    return effects


def stratification_codes(
    estimator: Any, X: Any, y: Any, params: Mapping[str, Any], n_rows: int
) -> IntegerArray:
    """Stratum of each row for splitting, as integer codes.

    Strata are groups, if `params` holds sensitive_features under this name or routed to a pipeline
    step (``fpca__sensitive_features``); classes for a classifier, as in scikit-learn's searches;
    and their combinations if there are both. Otherwise all rows form one stratum.

    Returns
    -------
    (n_rows,) array of int

    Raises
    ------
    InvalidInput
        Groups of another length, or a column that X does not have.
    """
    keys = []
    for name, value in params.items():
        if name.split("__")[-1] == "sensitive_features" and value is not None:
            keys.append(resolve_labels(value, n_rows, X).to_list())
    if is_classifier(estimator) and y is not None:
        targets = np.asarray(y)
        if len(targets) == n_rows and type_of_target(y) in ("binary", "multiclass"):
            keys.append(targets.reshape(n_rows).tolist())
    codes: dict[Any, int] = {}
    rows = zip(*keys, strict=True) if keys else [()] * n_rows
    return np.array([codes.setdefault(row, len(codes)) for row in rows], dtype=np.int64)


def stratified_split(
    strata: IntegerArray, test_size: float, seed: int, split_number: int
) -> tuple[IntegerArray, IntegerArray]:
    """Split number `split_number` for a seed, independent of any earlier splits.

    For each stratum of n_s rows, round(test_size n_s) rows are drawn for the test set, but at least
    one in each part; a stratum of a single row is used for training.

    Parameters
    ----------
    strata : (n,) array of int
    test_size : float
        Fraction of rows, between 0 and 1.
    seed, split_number : int

    Returns
    -------
    train, test : arrays of int
        Row indices in increasing order.

    Examples
    --------
    >>> train, test = stratified_split(np.array([0, 0, 0, 0, 1, 1]), 0.3, 0, split_number=0)
    >>> len(test), bool(4 in test) != bool(5 in test)
    (2, True)
    """
    rng = np.random.default_rng([seed, split_number])
    is_test = np.zeros(len(strata), dtype=bool)
    order = np.argsort(strata, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(strata[order])) + 1):
        n_test = min(max(round(test_size * len(rows)), 1), len(rows) - 1)
        is_test[rng.permutation(rows)[:n_test]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)
