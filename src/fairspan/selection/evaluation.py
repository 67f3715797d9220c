"""One pull: the candidates of a grid, and the score of one of them on one split."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, cross_validate

from fairspan.errors import InvalidParameter, InvalidType
from fairspan.problem.parameters import check_count, check_number


def candidates_of(param_grid: Any, n_pulls: int) -> list[dict[str, Any]]:
    """Settings of a grid, in scikit-learn's order, if the budget lets each be tried.

    Raises
    ------
    InvalidParameter, InvalidType
    """
    candidates = list(ParameterGrid(param_grid))
    check_count("n_pulls", n_pulls)
    if n_pulls < len(candidates):
        raise InvalidParameter(
            f"n_pulls is {n_pulls}",
            f"Allowed are at least {len(candidates)} pulls, one for each setting of the grid",
            "Raise n_pulls or make the grid smaller",
        )
    return candidates


def check_share(name: str, value: object) -> None:
    """Make sure that a parameter is above 0 and below 1.

    Raises
    ------
    InvalidParameter, InvalidType
    """
    check_number(name, value, 0.0, 1.0)
    if value in (0, 1):
        raise InvalidParameter(
            f"{name} is {value!r}",
            "Allowed is a share of the rows above 0 and below 1",
            "Choose a number in between",
        )


def scorer_of(estimator: Any, scoring: Any) -> Any:
    """The one score that decides, as a callable (estimator, X, y) -> float.

    Raises
    ------
    InvalidType
        Several scores.
    ValueError, TypeError
        Of scikit-learn: an unknown name, or an estimator without a score of its own.
    """
    if scoring is not None and not isinstance(scoring, str) and not callable(scoring):
        raise InvalidType(
            f"scoring is a {type(scoring).__name__}",
            "Allowed is one score: a name, a callable or None",
            "Choose the score that decides",
        )
    return check_scoring(estimator, scoring)


def evaluate(
    estimator: Any,
    setting: Mapping[str, Any],
    X: Any,
    y: Any,
    rows: tuple[Any, Any],
    params: Mapping[str, Any],
    scorer: Any,
) -> tuple[float | None, float, float, str | None]:
    """Fit a setting on one part of the rows and score it on the other.

    Returns
    -------
    score : float or None
        None where fitting or scoring failed.
    fit_time, score_time : float
        Seconds.
    error : str or None
        Why it failed.
    """
    start = time.perf_counter()
    try:
        # Setting parameters may fail as well as fitting: an unknown name, a value out of range.
        candidate = clone(estimator).set_params(**clone(setting, safe=False))
        # One fit of scikit-learn's own validation, so that rows, weights, groups and metadata
        # are cut and passed on exactly as in its searches.
        out = cross_validate(
            candidate, X, y, scoring=scorer, cv=[rows], params=params, error_score="raise"
        )
        score = float(out["test_score"][0])
    except Exception as error:  # of any kind: the setting is reported, the search goes on
        return None, time.perf_counter() - start, 0.0, f"{type(error).__name__}: {error}"
    fit_time, score_time = float(out["fit_time"][0]), float(out["score_time"][0])
    if not np.isfinite(score):
        return None, fit_time, score_time, f"The score is {score}, not a finite number"
    return score, fit_time, score_time, None
