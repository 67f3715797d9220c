"""Stratified random splits into rows to fit and rows to score."""

from collections.abc import Mapping

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.multiclass import type_of_target

from fairspan.rows.label_resolution import resolve_labels
from fairspan.typing import IntegerArray


def stratification_codes(
    estimator: object, X: object, y: object, params: Mapping[str, object], n_rows: int
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
    codes: dict[object, int] = {}
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
    # Sort the rows by stratum, and cut where the stratum changes.
    order = np.argsort(strata, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(strata[order])) + 1):
        n_test = min(max(round(test_size * len(rows)), 1), len(rows) - 1)
        is_test[rng.permutation(rows)[:n_test]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)
