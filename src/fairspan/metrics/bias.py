"""Label bias: how much more often the rest gets the good outcome than the protected group."""

from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, overload

import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.metrics.outcomes import OutcomesByGroup, outcomes_by_group
from fairspan.problem.parameters import check_count, check_flag
from fairspan.rows.frames import frame_of, without_columns
from fairspan.rows.groups import listed, plain_labels
from fairspan.rows.labels import check_index, named_columns


@dataclass(frozen=True)
class LabelBias:
    """A label bias with its bootstrap interval; made by :func:`label_bias`.

    Attributes
    ----------
    value : float
        Share of the positive outcome among the rest minus among the protected group.
    low, high : float or None
        Ends of the interval; None where the rest or the protected group is a single row.
    confidence : float
    protected_share, rest_share : float
        The two shares.
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    protected_share: float
    rest_share: float


@overload
def label_bias(
    labels: Any,
    sensitive_features: Any,
    protected: Any,
    positive: Any = 1,
    *,
    sample_weight: Any = None,
    interval: Literal[False] = False,
    n_bootstrap: int = 1000,
    confidence: float = 0.95,
    random_state: Any = 0,
) -> float: ...


@overload
def label_bias(
    labels: Any,
    sensitive_features: Any,
    protected: Any,
    positive: Any = 1,
    *,
    sample_weight: Any = None,
    interval: Literal[True],
    n_bootstrap: int = 1000,
    confidence: float = 0.95,
    random_state: Any = 0,
) -> LabelBias: ...


def label_bias(
    labels: Any,
    sensitive_features: Any,
    protected: Any,
    positive: Any = 1,
    *,
    sample_weight: Any = None,
    interval: bool = False,
    n_bootstrap: int = 1000,
    confidence: float = 0.95,
    random_state: Any = 0,
) -> float | LabelBias:
    """Share of the positive label among the rest, minus that among the protected group.

    bias = P(label = positive | not protected) - P(label = positive | protected), between -1 and 1;
    above zero where the protected group gets the positive label less often. Of two groups its size
    is fairlearn's demographic parity difference.

    Parameters
    ----------
    labels : (n,) array-like or series, or a frame or array of one column
        Text, numbers or truth values; 1, 1.0 and True are the same label.
    sensitive_features : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Group of each row, matched by position; several attributes make their intersections.
    protected : label
        The protected group; a tuple for an intersection. All other rows are the rest.
    positive : label, default=1
    sample_weight : (n,) array-like, optional
        Finite and not negative; a row of weight zero counts as absent.
    interval : bool, default=False
        Add a percentile bootstrap interval.
    n_bootstrap : int, default=1000
        Resamples for the interval.
    confidence : float, default=0.95
        Of the interval, between 0 and 1.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the resamples.

    Returns
    -------
    float, or LabelBias with an interval

    Raises
    ------
    UnknownGroup
        No row is of the protected group.
    InvalidInput
        Every row is; no label is positive; a missing label; lengths that differ.
    InvalidType
        Labels that are neither text nor numbers.
    InvalidParameter
        n_bootstrap or confidence out of range.

    Notes
    -----
    For the interval, rows are drawn with replacement within the protected group and within the
    rest, with their weights. Where all rows of one of them have the same label, they do not vary in
    the resamples, and the interval is too short. For a classifier pass its predictions as the
    labels; the interval is then conditional on the classifier.

    Examples
    --------
    >>> from fairspan import metrics
    >>> sex = ["female", "female", "male", "male"]
    >>> metrics.label_bias([-1, 1, 1, 1], sex, protected="female")
    0.5
    >>> sex = ["female"] * 50 + ["male"] * 50
    >>> hired = [1] * 20 + [0] * 30 + [1] * 30 + [0] * 20
    >>> bias = metrics.label_bias(hired, sex, protected="female", interval=True)
    >>> round(bias.value, 4), bias.low < 0.2 < bias.high
    (0.2, True)
    """
    check_flag("interval", interval)
    check_count("n_bootstrap", n_bootstrap)
    table = outcomes_by_group(labels, sensitive_features, sample_weight).against_rest(protected)
    positive_code = _position(table, positive, "labels")
    rest, its = _shares(table, positive_code)
    if not interval:
        return rest - its
    low, high = table.interval(
        lambda shares: shares[:, 0, positive_code] - shares[:, 1, positive_code],
        n_bootstrap,
        confidence,
        random_state,
    )
    return LabelBias(rest - its, low, high, float(confidence), its, rest)


def signed_bias(
    predict: Any,
    X: Any,
    sensitive_features: Any,
    protected: Any,
    positive: Any = 1,
    *,
    sample_weight: Any = None,
) -> float:
    """Label bias of predictions: the share among the rest minus that of the protected group.

    bias = P(predict(x) = positive | not protected) - P(predict(x) = positive | protected).

    Parameters
    ----------
    predict : callable, or fitted model with a method `predict`
        Returns one label for each row of X. If all labels are the same, the bias is 0.
    X : (n, p) array or data frame
    sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        Columns that are named are dropped from X before it is predicted; to keep them as features,
        pass the labels instead.
    protected, positive, sample_weight
        As for :func:`label_bias`.

    Returns
    -------
    float
        Between -1 and 1.

    Raises
    ------
    UnknownGroup
        No row is of the protected group.
    InvalidInput
        Predictions that are not one label for each row, or of which none is positive.
    InvalidType
        `predict` is neither callable nor a model with this method.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[0.2], [0.6], [0.7], [0.9]])
    >>> sex = ["female", "female", "male", "male"]
    >>> metrics.signed_bias(lambda X: (X[:, 0] > 0.5).astype(int), X, sex, protected="female")
    0.5
    """
    if not callable(predict):
        predict = getattr(predict, "predict", None)
    if not callable(predict):
        raise InvalidType(
            "predict is neither a function nor a model with a method predict",
            "Allowed: what gives one label for each row of X",
            "Pass model.predict",
        )
    if isinstance(X, str | PathLike):
        raise InvalidType(
            f"X is the path {str(X)!r}",
            "Allowed: rows in memory, of the kind that predict takes",
            "Read the file into a data frame first",
        )
    frame = frame_of(X)
    if frame is not None and (names := named_columns(frame, sensitive_features)):
        # By name: the frame's own columns are labels of its rows, in its order.
        sensitive_features = frame.select(names).to_native()
        X = without_columns(X, tuple(names))
    check_index(X, sensitive_features, "sensitive_features")
    predictions = predict(X)
    _check_predictions(predictions, X.shape[0] if hasattr(X, "shape") else len(X))
    table = outcomes_by_group(predictions, sensitive_features, sample_weight, "predict(X)")
    table = table.against_rest(protected)
    if len(table.outcomes) == 1 and isinstance(table.outcomes[0], str) == isinstance(positive, str):
        return 0.0
    rest, its = _shares(table, _position(table, positive, "predict(X)"))
    return rest - its


def _shares(table: OutcomesByGroup, positive: int) -> tuple[float, float]:
    rest, its = table.distribution()[:, positive].tolist()
    return rest, its


def _position(table: OutcomesByGroup, positive: Any, name: str) -> int:
    (label,) = plain_labels([positive])
    if label not in table.outcomes:
        raise InvalidInput(
            f"positive is {label!r}, which is not among {name}",
            f"{name} holds {listed(table.outcomes)}",
            "Pass the label that counts as the good outcome as positive",
        )
    return table.outcomes.index(label)


def _check_predictions(predictions: Any, n_rows: int) -> None:
    try:
        shape = np.shape(predictions)
    except ValueError:  # rows of different lengths
        shape = (len(predictions), -1)
    if shape != (n_rows,):
        raise InvalidInput(
            f"predict(X) has shape {shape} for {n_rows} rows",
            "Allowed: one label for each row, in one dimension",
            "Pass predict rather than predict_proba, or wrap it in a function that returns labels",
        )
