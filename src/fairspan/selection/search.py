"""UCB1SearchCV: a search over parameter settings that spends its fits where they pay."""

import numbers
import time
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils import check_random_state, get_tags, indexable
from sklearn.utils.metadata_routing import process_routing

from fairspan.errors import InvalidInput
from fairspan.problem.parameters import check_count, check_flag
from fairspan.rows.fingerprint import fingerprint
from fairspan.selection.checkpoint import Checkpoint, check_same_search
from fairspan.selection.evaluation import (
    candidates_of,
    check_share,
    evaluate,
    random_split,
    scorer_of,
    strata_of,
)
from fairspan.selection.pulls import Pull, Tally, best_index, report_failures, results_table


class UCB1SearchCV(GridSearchCV):  # type: ignore[misc]
    """Search over a grid of parameter settings with a budget of fits, by the bandit policy UCB1.

    Like scikit-learn's GridSearchCV, but instead of fitting every setting on every split it treats
    a setting as an **arm** and one fit on a random train/test split as a **pull**. Every arm is
    pulled once; then always the one with the largest upper confidence bound
    mean_i + sqrt(2 ln t / n_i) (Auer et al. 2002), so that bad settings take few fits.

    **Splits.** Pull j of every arm uses split j, so that arms are compared on the same rows. The
    test part is drawn within each group where `sensitive_features` is passed (under this name, or
    addressed to a step, ``fpca__sensitive_features``), and within each class for a classifier: a
    group or class of two rows or more is always in both parts.

    **Rewards.** Splits differ in difficulty, so this effect is removed first: the model score =
    arm + split is fitted by least squares. The remainder is mapped to [0, 1], as UCB1 requires, by
    subtracting the smallest value of all arms and dividing by the range, again after each pull.
    Scores may therefore be in any units. With fewer than about ten pulls per arm the bounds are
    wide and the search is close to pulling all arms equally often.

    **Settings that fail** to fit, or whose score is not finite, do not stop the search: the arm is
    left out from then on, its scores are NaN, a warning and `errors_` say why.

    Parameters
    ----------
    estimator : estimator
    param_grid : dict or list of dict
        As for GridSearchCV.
    n_pulls : int
        Budget of fits, the final one not included; at least the number of settings.
    scoring : str, callable or None
        One score, larger is better, as for GridSearchCV; None is the estimator's `score`.
    test_size : float, default=0.3
        Share of rows held out, above 0 and below 1.
    refit : bool or callable, default=True
        Fit the best setting on all rows. A callable receives `cv_results_` and returns
        `best_index_`.
    random_state : int, RandomState or None
        Seeds the splits. An int makes the search repeatable.
    warm_start : bool, default=False
        Let `fit` continue from the pulls of the last `fit`, for example with a larger `n_pulls`;
        the result is that of one search. Data and settings must be the same.
    checkpoint : path, optional
        A JSON file that pulls are written to, about every second and when the search ends or is
        interrupted. A search that finds it continues from there, and refuses one that was made
        with other data or settings. The times of the fits are kept, too. Functions, such as a
        scorer, are compared by name only.

    Attributes
    ----------
    cv_results_ : dict of arrays, a row for each setting
        The keys of GridSearchCV: `params`, `param_*` (masked), `split{j}_test_score` (NaN where the
        setting was not tried), `mean_test_score`, `std_test_score` (of the setting's own splits),
        `rank_test_score`, means and deviations of `fit_time` and `score_time` in seconds, and
        `n_pulls`. `mean_test_score` is the least-squares mean over all splits, which is comparable
        between settings that were tried on different splits; it is the plain mean where all were
        tried on the same.
    best_index_, best_params_, best_score_
        Row of rank 1, its setting, its mean_test_score (not with a callable refit).
    best_estimator_ : estimator
        Only if refit, as `refit_time_`, `n_features_in_`, `feature_names_in_` and `classes_`.
    scorer_ : callable
    n_splits_ : int
        Splits that some arm was tried on.
    n_pulls_ : int
        Fits that were made, fewer than `n_pulls` only if every arm failed or the file has more.
    arms_ : array of int
        Which arm was pulled, in order, one for each pull.
    errors_ : dict of int to str
        Arms that failed, and why.

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

    # What GridSearchCV's own methods ask for: splits are ours, and there is one score.
    cv = None
    multimetric_ = False

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
        warm_start: bool = False,
        checkpoint: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.n_pulls = n_pulls
        self.scoring = scoring
        self.test_size = test_size
        self.refit = refit
        self.random_state = random_state
        self.warm_start = warm_start
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: Any = None, **params: Any) -> "UCB1SearchCV":
        """Search, and fit the best setting on all rows.

        Parameters
        ----------
        X : (n, p) array-like, sparse matrix or data frame
        y : (n,) array-like, optional
        **params
            Passed to the estimator's `fit`, such as `sensitive_features` and `sample_weight`; what
            has n values is split with the rows. With metadata routing on, also to the scorer.

        Returns
        -------
        UCB1SearchCV

        Raises
        ------
        InvalidParameter, InvalidType
            A setting of the search out of range, or a budget below the number of settings.
        InvalidInput
            Fewer than two rows, every setting failed, or pulls of another search to continue from.
        CorruptFile
            The checkpoint cannot be read.
        """
        check_share("test_size", self.test_size)
        check_flag("warm_start", self.warm_start)
        if not callable(self.refit):
            check_flag("refit", self.refit)
        candidates = candidates_of(self.param_grid, self.n_pulls)
        scorer = scorer_of(self.estimator, self.scoring)
        X, y = indexable(X, y)
        fit_params = self._routed(params)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if n_rows < 2:
            raise InvalidInput(
                f"There are n_samples={n_rows} rows",
                "Allowed: at least two, one to fit and one to score",
                "Pass more rows",
            )
        strata = strata_of(self.estimator, X, y, params, n_rows)
        fixed = isinstance(self.random_state, numbers.Integral)
        seeded = int(self.random_state) if fixed else None
        settings = (self.scoring, float(self.test_size), seeded)
        mark = fingerprint(X, y, params, self.estimator, candidates, *settings)
        file = None if self.checkpoint is None else Checkpoint(self.checkpoint)
        seed, pulls = self._earlier(mark, file, len(candidates))
        tally = Tally(len(candidates), pulls[: self.n_pulls])
        n_earlier = len(tally.pulls)
        try:
            while len(tally.pulls) < self.n_pulls and (arm := tally.next_arm()) is not None:
                rows = random_split(strata, self.test_size, seed, int(tally.counts[arm]))
                evaluated = evaluate(self.estimator, candidates[arm], X, y, rows, params, scorer)
                tally.add(Pull(arm, *evaluated))
                if file is not None:
                    file.write(mark, seed, tally.pulls)
        finally:
            # Also when interrupted: what was paid for is kept. Not if all failed, for a reason that
            # may be gone next time, nor if nothing is new.
            if tally.usable.any() and len(tally.pulls) > n_earlier:
                self._search = (mark, seed, tally.pulls)
                if file is not None:
                    file.write(mark, seed, tally.pulls, now=True)
        report_failures(candidates, tally)
        self._take(candidates, tally, scorer)
        if self.refit:
            self._refit(X, y, fit_params)
        return self

    def _routed(self, params: dict[str, Any]) -> dict[str, Any]:
        """The metadata for the estimator's fit; metadata that was not requested is an error."""
        if not params or not get_config()["enable_metadata_routing"]:
            return params
        routed: dict[str, Any] = process_routing(self, "fit", **params).estimator.fit
        return routed

    def _earlier(self, mark: str, file: Checkpoint | None, n_arms: int) -> tuple[int, list[Pull]]:
        """Seed and pulls to continue from: those in memory or on disk, whichever are more."""
        found: list[tuple[int, list[Pull]]] = []
        if self.warm_start and hasattr(self, "_search"):
            check_same_search(self._search[0], mark, "this search (warm_start=True)")
            found.append(self._search[1:])
        stored = None if file is None else file.read(mark, n_arms)
        if stored is not None:
            found.append(stored)
        if found:
            return max(found, key=lambda each: len(each[1]))
        if isinstance(self.random_state, numbers.Integral):
            check_count("random_state", self.random_state, 0)
            return int(self.random_state), []
        return int(check_random_state(self.random_state).randint(2**31 - 1)), []

    def _take(self, candidates: list[dict[str, Any]], tally: Tally, scorer: Any) -> None:
        """Set the attributes that do not need a refit."""
        results = results_table(candidates, tally)
        best = best_index(results, self.refit)
        for name in ("best_estimator_", "refit_time_", "best_score_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        self.cv_results_ = results
        self.best_index_ = best
        self.best_params_ = results["params"][self.best_index_]
        if not callable(self.refit):
            self.best_score_ = float(results["mean_test_score"][self.best_index_])
        self.scorer_ = scorer
        self.n_splits_ = int(tally.counts.max())
        self.n_pulls_ = len(tally.pulls)
        self.arms_ = np.array([pull.arm for pull in tally.pulls], dtype=np.int64)
        self.errors_ = dict(sorted(tally.errors.items()))

    def _refit(self, X: Any, y: Any, fit_params: dict[str, Any]) -> None:
        best = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
        start = time.perf_counter()
        if y is None:
            best.fit(X, **fit_params)
        else:
            best.fit(X, y, **fit_params)
        self.refit_time_ = time.perf_counter() - start
        self.best_estimator_ = best
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # GridSearchCV does not pass these on.
        tags.transformer_tags = deepcopy(get_tags(self.estimator).transformer_tags)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cv_results_")
