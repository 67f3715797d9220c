"""Random train and test rows, in which no group is lost."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.multiclass import type_of_target

from fairspan.rows.frames import frame_of
from fairspan.rows.labels import Labels, labels_of, named_columns
from fairspan.typing import IntegerArray

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
