"""Search over settings with a fixed budget of fits, allocated by the policy UCB1."""

import numbers
import time
import warnings
from collections.abc import Callable, Container, Sized
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state, get_tags, indexable

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType, warn
from fairspan.formatting.messages import counted
from fairspan.parameters import check_bool, check_integer, check_number
from fairspan.rows.alignment import check_alignment
from fairspan.selection.arm_scores import least_squares_means, split_effects
from fairspan.selection.bandit import upper_confidence_bounds
from fairspan.selection.splits import stratification_codes, stratified_split
from fairspan.typing import FloatArray, IntegerArray

# Names in scikit-learn's table of what is measured in each pull.
_MEASUREMENTS = ("test_score", "fit_time", "score_time")


@dataclass(frozen=True)
class _Pull:
    """Result of one fit of a setting on one split.

    Attributes
    ----------
    score : float
        NaN if the fit failed.
    fit_time, score_time : float
        In seconds.
    failure : str
        Why the fit or its score failed; empty if it did not.
    is_type_error : bool
        Whether the model received an unsupported type.
    """

    score: float
    fit_time: float
    score_time: float
    failure: str = ""
    is_type_error: bool = False


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
        optimistic, being the largest of several uncertain ones: if all settings truly score 0.50,
        the best may show 0.65, and still 0.60 on new splits of the same rows. Score
        `best_estimator_` on rows not used in the search.
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
        estimator: object,
        param_grid: object,
        *,
        n_pulls: int,
        scoring: object = None,
        test_size: float = 0.3,
        refit: object = True,
        random_state: object = None,
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

    def fit(self, X: object, y: object = None, **params: object) -> "UCB1SearchCV":
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
        n_rows = X.shape[0] if hasattr(X, "shape") else len(cast(Sized, X))
        if n_rows < 2:
            raise InvalidInput(
                f"There are n_samples={n_rows} rows",
                "Allowed: at least two, one to fit and one to score",
                "Pass more rows",
            )
        # A fixed number, so that split j has the same rows for every setting.
        seed = self.random_state
        if not isinstance(seed, numbers.Integral):  # booleans are refused below
            seed = check_random_state(seed).randint(2**31 - 1)
        check_integer("random_state", seed, 0)
        check_alignment({"X": X, "y": y, **params})
        strata = stratification_codes(self.estimator, X, y, params, n_rows)
        # A copy runs the search, so that a failure leaves this object as it was.
        search = type(self)(**self.get_params(deep=False))
        search._make_split = partial(stratified_split, strata, float(self.test_size), int(seed))
        BaseSearchCV.fit(search, X, y, **params)
        del search._make_split
        search.n_splits_ = int(search.cv_results_["n_pulls"].max())
        # Take over the state of the copy, but keep the private attributes of this object:
        # scikit-learn 1.9 sets such attributes during fit and removes them afterwards.
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

    def _run_search(self, evaluate_candidates: Callable[..., dict[str, object]]) -> None:
        """Pull arms until the budget is spent, then build the results table of all settings.

        Pull j of an arm is scored on split j. A single failure retires an arm: its mean score is
        then undefined, as in scikit-learn's searches, so more pulls could not make it the best.

        Parameters
        ----------
        evaluate_candidates : callable
            Given by scikit-learn: fits settings on splits, and returns its table of all results so
            far, with a row for each call. It keeps the table that it returned last.
        """
        settings = list(ParameterGrid(self.param_grid))
        arms: list[int] = []
        counts = np.zeros(len(settings), dtype=np.int64)
        errors: dict[int, str] = {}
        # Of the arms with errors, those whose model received an unsupported type.
        type_errors: set[int] = set()
        # Score, fit time and score time. Axes: kind, arm, split; NaN if not measured.
        measurements = np.full((len(_MEASUREMENTS), len(settings), self.n_pulls), np.nan)
        scores = measurements[0]
        results: dict[str, object] = {}
        while len(arms) < self.n_pulls and len(errors) < len(settings):
            arm = select_arm(scores, counts, errors)
            # scikit-learn extends and returns the same table for each pull.
            pull, results = self._pull(
                evaluate_candidates, settings[arm], int(counts[arm]), results
            )
            if pull.failure:
                errors[arm] = pull.failure
            if pull.is_type_error:
                type_errors.add(arm)
            measurements[:, arm, counts[arm]] = (pull.score, pull.fit_time, pull.score_time)
            counts[arm] += 1
            arms.append(arm)
        if len(errors) == len(settings):
            raise _all_failed_error(settings, errors, type_errors)
        scores[~np.isfinite(scores)] = np.nan
        # scikit-learn's table has one row per pull; replace it in place by one row per setting.
        results.clear()
        results.update(self._results_table(settings, measurements, counts, list(errors)))
        self.n_pulls_ = len(arms)
        self.arms_ = np.array(arms, dtype=np.int64)
        self.errors_ = dict(sorted(errors.items()))

    def _pull(
        self,
        evaluate_candidates: Callable[..., dict[str, object]],
        setting: dict[str, object],
        split_number: int,
        results: dict[str, object],
    ) -> tuple[_Pull, dict[str, object]]:
        """Fit and score a setting on one split, and record a failure instead of raising it.

        Parameters
        ----------
        evaluate_candidates, setting, split_number
            See :meth:`_evaluate`.
        results : dict
            Table of scikit-learn of all pulls so far.

        Returns
        -------
        _Pull
        dict
            The table with this pull, unless it failed.
        """
        start = time.perf_counter()
        try:
            results = self._evaluate(evaluate_candidates, setting, split_number)
        # A model may raise anything: the failure is recorded and the search continues.
        except Exception as error:
            pull = _Pull(
                score=np.nan,
                fit_time=time.perf_counter() - start,
                score_time=0.0,
                failure=f"{type(error).__name__}: {error}",
                is_type_error=isinstance(error, TypeError),
            )
            return pull, results
        score, fit_time, score_time = (
            float(cast(FloatArray, results[f"mean_{kind}"])[-1]) for kind in _MEASUREMENTS
        )
        failure = "" if np.isfinite(score) else f"The score is {score}, not a finite number"
        return _Pull(score, fit_time, score_time, failure), results

    def _evaluate(
        self,
        evaluate_candidates: Callable[..., dict[str, object]],
        setting: dict[str, object],
        split_number: int,
    ) -> dict[str, object]:
        """Fit and score a setting on one split, and return the table of all pulls so far.

        A pull is one fit of one setting with its score; the table of scikit-learn, returned by its
        `evaluate_candidates`, gets one more row.
        """
        with warnings.catch_warnings(), np.errstate(invalid="ignore"):
            # A score that is not finite retires its setting, which is reported once.
            warnings.filterwarnings("ignore", "One or more of the test scores are non-fin")
            # scikit-learn takes a splitter; this one yields a single pair of row indices.
            split = check_cv([self._make_split(split_number)])  # type: ignore[misc]
            return evaluate_candidates([setting], split)

    def _results_table(
        self,
        settings: list[dict[str, object]],
        measurements: FloatArray,
        counts: IntegerArray,
        failed: list[int],
    ) -> dict[str, object]:
        """Table of results with one row per setting, see `cv_results_`.

        Parameters
        ----------
        settings : list of dicts
            Parameters of each of the a settings.
        measurements : (3, a, s) array
            Score, fit time and score time of each setting on each split; NaN if not measured.
        counts : (a,) array of int
            Pulls of each setting.
        failed : list of int
            Positions of the settings that failed.
        """
        scores = measurements[0]
        # scikit-learn's function makes the parameters' columns; its figures are replaced below.
        # It takes one placeholder per setting, for one split each.
        placeholders = [{"test_scores": 0.0, "fit_time": 0.0, "score_time": 0.0}] * len(settings)
        table: dict[str, object] = self._format_results(settings, n_splits=1, out=placeholders)
        for split_number in range(counts.max()):
            table[f"split{split_number}_test_score"] = scores[:, split_number].copy()
        # The times to fit and to score.
        for kind, seconds in zip(_MEASUREMENTS[1:], measurements[1:], strict=True):
            table[f"mean_{kind}"] = np.nanmean(seconds, axis=1)
            table[f"std_{kind}"] = np.nanstd(seconds, axis=1)
        return table | _score_columns(scores, failed) | {"n_pulls": counts}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # GridSearchCV does not propagate these.
        tags.transformer_tags = deepcopy(get_tags(self.estimator).transformer_tags)
        return tags


def _all_failed_error(
    settings: list[dict[str, object]], errors: dict[int, str], type_errors: set[int]
) -> InvalidType | InvalidInput:
    """Error with the reason of the first setting; InvalidType if that was an error of types.

    Parameters
    ----------
    settings : list of dicts
    errors : dict of position to reason
        "Type of the exception: message" of every setting.
    type_errors : set of int
        Positions of the settings whose exception was a TypeError, such as InvalidType.
    """
    # The first setting; an arm is the position of a setting.
    arm, reason = min(errors.items())
    error_type = InvalidType if arm in type_errors else InvalidInput
    if len(settings) == 1:
        failed = "The only setting of the grid failed,"
    else:
        failed = f"All {len(settings)} settings of the grid failed, the first"
    return error_type(
        f"{failed} with {reason.removesuffix('.')}",
        "Allowed: a grid with at least one setting that can be fitted to these data",
        f"Try estimator.set_params(**{settings[arm]!r}).fit on the same data",
    )


def _score_columns(scores: FloatArray, failed: list[int]) -> dict[str, object]:
    """Mean, deviation and rank of each arm's scores, under the names of scikit-learn's searches.

    Arms are settings, tried on unequal numbers of splits, so the mean allows for the difficulty of
    the splits. `scores` has shape (a, s), NaN where not measured; failed arms get NaN.
    """
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

    Arms that were never pulled come first, in order.

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
