"""One pull: a setting of the grid, a random split in which no group is lost, and its score."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, cross_validate
from sklearn.utils.multiclass import type_of_target

from fairspan.errors import InvalidParameter, InvalidType
from fairspan.problem.parameters import check_count, check_number
from fairspan.rows.frames import frame_of
from fairspan.rows.labels import Labels, labels_of, named_columns
from fairspan.typing import IntegerArray


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
            f"Allowed: at least {len(candidates)} pulls, one for each setting of the grid",
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
            "Allowed: a share of the rows above 0 and below 1",
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
            "Allowed: one score: a name, a callable or None",
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


_GROUPS = "sensitive_features"


def strata_of(
    estimator: Any, X: Any, y: Any, params: Mapping[str, Any], n_rows: int
) -> IntegerArray:
    """Which rows belong together when they are split, as codes.

    Rows of one group, where `params` holds sensitive_features under this name or addressed to a
    step of a pipeline (``fpca__sensitive_features``); for a classifier rows of one class, as in
    scikit-learn's searches; rows that agree in both where there are both. Otherwise all rows.

    Returns
    -------
    (n_rows,) array of int

    Raises
    ------
    InvalidInput
        Groups of another length, or a column that X does not have.
    """
    keys: list[list[Any]] = []
    for name, value in params.items():
        if name.split("__")[-1] == _GROUPS and value is not None:
            keys.append(_group_labels(X, value, n_rows))
    if is_classifier(estimator) and y is not None:
        targets = np.asarray(y)
        if len(targets) == n_rows and type_of_target(y) in ("binary", "multiclass"):
            keys.append(targets.reshape(n_rows).tolist())
    codes: dict[Any, int] = {}
    rows = zip(*keys, strict=True) if keys else [()] * n_rows
    return np.array([codes.setdefault(row, len(codes)) for row in rows], dtype=np.int64)


def _group_labels(X: Any, sensitive_features: Any, n_rows: int) -> list[Any]:
    frame = frame_of(X)
    names = [] if frame is None else named_columns(frame, sensitive_features)
    if frame is not None and names:
        labels = Labels.of_columns(frame, names)
    else:
        labels = labels_of(sensitive_features, n_rows, X)
    return labels.between(0, n_rows).to_list()


def random_split(
    strata: IntegerArray, test_size: float, seed: int, index: int
) -> tuple[IntegerArray, IntegerArray]:
    """Split number `index` of a seed: the same whichever splits were made before.

    Of the n_s rows of each stratum, round(test_size n_s) are drawn for the test, but at least one,
    and at least one is left to train on; a stratum of a single row is trained on.

    Parameters
    ----------
    strata : (n,) array of int
    test_size : float
        Share of rows, above 0 and below 1.
    seed, index : int

    Returns
    -------
    train, test : arrays of int
        Row numbers in increasing order.

    Examples
    --------
    >>> train, test = random_split(np.array([0, 0, 0, 0, 1, 1]), 0.3, seed=0, index=0)
    >>> len(test), bool(4 in test) != bool(5 in test)
    (2, True)
    """
    rng = np.random.default_rng([seed, index])
    is_test = np.zeros(len(strata), dtype=bool)
    order = np.argsort(strata, kind="stable")
    ends = np.flatnonzero(np.diff(strata[order])) + 1
    for rows in np.split(order, ends):
        n_test = min(max(round(test_size * len(rows)), 1), len(rows) - 1)
        is_test[rng.permutation(rows)[:n_test]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)
