"""Label bias and statistical parity: how the groups' shares of each outcome differ."""

import math
from dataclasses import dataclass
from functools import partial
from os import PathLike
from statistics import NormalDist
from typing import Any, Literal, overload

import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.formatting.export import to_data_frame
from fairspan.formatting.text import counted
from fairspan.metrics.outcomes import OutcomesByGroup, check_multiple_groups, from_arrays
from fairspan.registry import check_bool, check_integer, check_number
from fairspan.rows.alignment import check_alignment
from fairspan.rows.arrays import as_eager_frame, resolve_group_columns
from fairspan.rows.frames import drop_columns
from fairspan.rows.groups import (
    Label,
    Scalar,
    format_label,
    format_list,
    to_python_labels,
)
from fairspan.typing import FloatArray, IntegerArray


@dataclass(frozen=True)
class LabelBias:
    """A label bias with its interval; made by :func:`label_bias`.

    Attributes
    ----------
    value : float
        Share of the positive outcome among the rest minus among the protected group.
    low, high : float
        Ends of the interval.
    confidence : float
    protected_rate, reference_rate : float
        The two shares.
    """

    value: float
    low: float
    high: float
    confidence: float
    protected_rate: float
    reference_rate: float


@overload
def label_bias(
    outcomes: Any,
    sensitive_features: Any,
    protected: Any,
    pos_label: Any = 1,
    *,
    reference: Any = None,
    sample_weight: Any = None,
    return_interval: Literal[False] = False,
    confidence: float = 0.95,
) -> float: ...


@overload
def label_bias(
    outcomes: Any,
    sensitive_features: Any,
    protected: Any,
    pos_label: Any = 1,
    *,
    reference: Any = None,
    sample_weight: Any = None,
    return_interval: Literal[True],
    confidence: float = 0.95,
) -> LabelBias: ...


def label_bias(
    outcomes: Any,
    sensitive_features: Any,
    protected: Any,
    pos_label: Any = 1,
    *,
    reference: Any = None,
    sample_weight: Any = None,
    return_interval: bool = False,
    confidence: float = 0.95,
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
        The protected group; a tuple for an intersection.
    positive : label, default=1
    rest : label or list of labels, optional
        The groups that the protected one is compared with; all others by default. Rows of further
        groups then count as absent.
    sample_weight : (n,) array-like, optional
        Finite and not negative; a row of weight zero counts as absent.
    interval : bool, default=False
        Add an interval.
    confidence : float, default=0.95
        Of the interval, between 0 and 1.

    Returns
    -------
    float, or LabelBias with an interval

    Raises
    ------
    UnknownGroup
        No row is of the protected group, or of a group of the rest.
    InvalidInput
        Every row is; no label is positive; a missing label; lengths that differ.
    InvalidType
        Labels that are neither text nor numbers.
    InvalidParameter
        confidence out of range.

    Notes
    -----
    The interval is Newcombe's (1998, method 10), of Wilson's score intervals for the two shares;
    with weights for (sum w)^2 / sum w^2 rows. It holds for few rows and for shares of 0 and 1 as
    well. For a classifier pass its predictions as the labels; the interval is then conditional on
    the classifier.

    Examples
    --------
    >>> from fairspan import metrics
    >>> sex = ["female", "female", "male", "male"]
    >>> metrics.label_bias([-1, 1, 1, 1], sex, protected="female")
    0.5
    >>> sex = ["female"] * 50 + ["male"] * 50
    >>> hired = [1] * 20 + [0] * 30 + [1] * 30 + [0] * 20
    >>> bias = metrics.label_bias(hired, sex, protected="female", return_interval=True)
    >>> round(bias.value, 4), bias.low < 0.2 < bias.high
    (0.2, True)
    """
    check_bool("interval", return_interval)
    table = from_arrays(outcomes, sensitive_features, sample_weight)
    table = table.protected_vs_reference(protected, reference)
    positive_code = _outcome_index(table, pos_label, "labels")
    reference_rate, protected_rate = table.distribution()[:, positive_code].tolist()
    if not return_interval:
        return float(reference_rate - protected_rate)
    check_number("confidence", confidence, 0, 1)
    (rest_low, rest_high), (low, high) = (
        _wilson_interval(share, n, confidence)
        for share, n in zip(
            (reference_rate, protected_rate), table.effective_sample_sizes.tolist(), strict=True
        )
    )
    value = reference_rate - protected_rate
    low, high = (
        value - math.hypot(reference_rate - rest_low, high - protected_rate),
        value + math.hypot(rest_high - reference_rate, protected_rate - low),
    )
    return LabelBias(value, low, high, float(confidence), protected_rate, reference_rate)


def _wilson_interval(share: float, n: float, confidence: float) -> tuple[float, float]:
    """Ends of Wilson's interval (1927) for the share of n rows."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    center = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half_width = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return center - half_width, center + half_width


def prediction_bias(
    predict: Any,
    X: Any,
    sensitive_features: Any,
    protected: Any,
    pos_label: Any = 1,
    *,
    reference: Any = None,
    probabilities: bool = False,
    sample_weight: Any = None,
) -> float:
    """Label bias of predictions: the share among the rest minus that of the protected group.

    bias = P(predict(x) = positive | not protected) - P(predict(x) = positive | protected).

    Parameters
    ----------
    predict : callable, or fitted model with a method `predict`
        Returns one label for each row of X. If all labels are the same, the bias is 0. With
        `probabilities` it returns the probability of the positive label; of a model it is then
        `predict_proba` at that label.
    X : (n, p) array or data frame
    sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        Columns that are named are dropped from X before it is predicted; to keep them as features,
        pass the labels instead.
    protected, positive, rest, sample_weight
        As for :func:`label_bias`.
    probabilities : bool, default=False
        Whether the hypothesis is randomised: it gives each row the positive label with a
        probability. The bias is then the difference of the mean probabilities.

    Returns
    -------
    float
        Between -1 and 1.

    Raises
    ------
    UnknownGroup
        No row is of the protected group, or of a group of the rest.
    InvalidInput
        Predictions that are not one label for each row, or of which none is positive; or
        probabilities outside of [0, 1].
    InvalidType
        `predict` is neither callable nor a model with this method.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> X = np.array([[0.2], [0.6], [0.7], [0.9]])
    >>> sex = ["female", "female", "male", "male"]
    >>> metrics.prediction_bias(lambda X: (X[:, 0] > 0.5).astype(int), X, sex, protected="female")
    0.5
    >>> metrics.prediction_bias(lambda X: X[:, 0], X, sex, protected="female", probabilities=True)
    0.4
    """
    check_bool("probabilities", probabilities)
    if not callable(predict):
        positive_probability = (
            partial(_positive_probability, predict, pos_label) if probabilities else None
        )
        predict = positive_probability or getattr(predict, "predict", None)
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
    frame = as_eager_frame(X)
    if frame is not None and (names := resolve_group_columns(frame, sensitive_features)):
        # By name: the frame's own columns are labels of its rows, in its order.
        sensitive_features = frame.select(names).to_native()
        X = drop_columns(X, tuple(names))
    # Before the prediction, which may take long and lose the index of X.
    check_alignment(
        {"X": X, "sensitive_features": sensitive_features, "sample_weight": sample_weight}
    )
    predictions = predict(X)
    _check_predictions(predictions, X.shape[0] if hasattr(X, "shape") else len(X))
    table = from_arrays(predictions, sensitive_features, sample_weight, "predict(X)")
    table = table.protected_vs_reference(protected, reference)
    if probabilities:
        # The mean of each group is that of the distinct probabilities by their shares.
        for probability in table.outcomes[:1] + table.outcomes[-1:]:
            check_number("a probability of predict(X)", probability, 0, 1)
        reference_rate, protected_rate = (
            table.distribution() @ np.array(table.outcomes, dtype=np.float64)
        ).tolist()
        return float(reference_rate - protected_rate)
    if len(table.outcomes) == 1 and isinstance(table.outcomes[0], str) == isinstance(
        pos_label, str
    ):
        return 0.0
    reference_rate, protected_rate = table.distribution()[
        :, _outcome_index(table, pos_label, "predict(X)")
    ].tolist()
    return float(reference_rate - protected_rate)


def _positive_probability(model: Any, pos_label: Any, X: Any) -> FloatArray:
    """Of the positive label, for each row, by a classifier's `predict_proba`."""
    return np.asarray(model.predict_proba(X)[:, list(model.classes_).index(pos_label)])


def _outcome_index(table: OutcomesByGroup, pos_label: Any, name: str) -> int:
    (label,) = to_python_labels([pos_label])
    if label not in table.outcomes:
        raise InvalidInput(
            f"positive is {label!r}, which is not among {name}",
            f"{name} holds {format_list(table.outcomes)}",
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
            f"predict(X) has shape {shape} for {counted(n_rows, 'row')}",
            "Allowed: one label for each row, in one dimension",
            "Pass predict rather than predict_proba, or wrap it in a function that returns labels",
        )


@dataclass(frozen=True, eq=False)
class StatisticalParity:
    """Outcomes by group and their distances; made by :func:`statistical_parity`.

    Attributes
    ----------
    groups : tuple of k labels
        In sorted order.
    outcomes : tuple of m values
        In sorted order.
    counts : (k,) array of int
        Rows of each group.
    distribution : (k, m) array
        Share of each outcome in each group; rows sum to one.
    distances : (k, k) array
        Total variation distance of each pair of groups, between 0 and 1.
    largest : float
        The largest of them.
    pair : tuple of two labels
        The groups that are this far apart; the first such pair.
    low, high : float or None
        Ends of the interval for the largest distance; None without resamples, or where a group is
        a single row.
    epsilon, confidence : float
    """

    groups: tuple[Label, ...]
    outcomes: tuple[Scalar, ...]
    counts: IntegerArray
    distribution: FloatArray
    distances: FloatArray
    max_distance: float
    max_pair: tuple[Label, Label]
    low: float | None
    high: float | None
    epsilon: float
    confidence: float

    def holds(self, epsilon: float | None = None, *, use_upper_bound: bool = False) -> bool:
        """Whether statistical parity holds up to a bias epsilon: no distance exceeds it.

        Parameters
        ----------
        epsilon : float, optional
            From 0 to 1; by default the one that :func:`statistical_parity` was given.
        use_upper_bound : bool, default=False
            Use the upper end of the interval instead of the estimate: whether the rows are enough
            to show it. False if there is no interval.

        Returns
        -------
        bool

        Raises
        ------
        InvalidParameter
        """
        if epsilon is None:
            epsilon = self.epsilon
        check_number("epsilon", epsilon, 0, 1)
        distance = self.high if use_upper_bound else self.max_distance
        return distance is not None and distance <= epsilon

    def frame(self) -> Any:
        """The distribution as a pandas DataFrame: one row for each group and outcome.

        Returns
        -------
        pandas.DataFrame
            Columns: group, n (rows of the group), outcome, share.

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        return to_data_frame(
            [
                {"group": group, "n": count, "outcome": outcome, "share": share}
                for group, count, shares in zip(
                    self.groups, self.counts.tolist(), self.distribution.tolist(), strict=True
                )
                for outcome, share in zip(self.outcomes, shares, strict=True)
            ],
            "StatisticalParity.frame()",
        )

    def __repr__(self) -> str:
        interval = ""
        if self.low is not None and self.high is not None:
            interval = f" ({self.confidence:.0%}: {self.low:.4g} to {self.high:.4g})"
        a, b = map(format_label, self.max_pair)
        return (
            f"<StatisticalParity of {counted(len(self.groups), 'group')} and "
            f"{counted(len(self.outcomes), 'outcome')}, "
            f"largest distance {self.max_distance:.4g}{interval}, {a} and {b}>"
        )


def statistical_parity(
    outcomes: Any,
    sensitive_features: Any,
    *,
    epsilon: float = 0.1,
    n_bootstrap: int = 1000,
    confidence: float = 0.95,
    sample_weight: Any = None,
    random_state: Any = 0,
) -> StatisticalParity:
    """Total variation distances between the groups' distributions over the outcomes.

    d(a, b) = 1/2 sum over outcomes y of abs(P(y | a) - P(y | b)), the most by which the
    probability of any set of outcomes differs. Statistical parity holds up to a bias epsilon where
    no distance exceeds it (Dwork et al. 2012, section 3). Of two outcomes the largest distance is
    fairlearn's demographic parity difference.

    Parameters
    ----------
    labels : (n,) array-like or series, or a frame or array of one column
        Labels or predictions: text, numbers or truth values; 1, 1.0 and True are one outcome.
    sensitive_features : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Group of each row, matched by position; several attributes make their intersections.
    epsilon : float, default=0.1
        From 0 to 1.
    n_bootstrap : int, default=1000
        Resamples for the interval; 0 for none.
    confidence : float, default=0.95
        Between 0 and 1.
    sample_weight : (n,) array-like, optional
        Finite and not negative; a row of weight zero counts as absent.
    random_state : int, Generator, RandomState or None, default=0

    Returns
    -------
    StatisticalParity

    Raises
    ------
    InvalidInput
        A single group, a missing label, lengths that differ.
    InvalidType
        Labels that are neither text nor numbers.
    InvalidParameter
        epsilon, n_bootstrap or confidence out of range.

    Notes
    -----
    The largest distance is biased upwards: chance alone moves groups apart, by about
    1 / sqrt(rows) of the smaller group, and the more groups and outcomes, the more. The interval
    allows for it: it is the estimate -+ c, where c is the quantile over resamples of the largest
    1/2 sum over y of abs(D_a - D_b), D the deviation of a resample's shares from those that it was
    drawn from. No true distance is further from its estimate than that, so the interval holds for
    the largest distance, whichever pair has it, and begins at 0 where the groups may be alike.

    Examples
    --------
    >>> from fairspan import metrics
    >>> team = ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    >>> grade = [1, 2, 3, 3] + [1, 2, 3, 3] + [1, 1, 1, 2]
    >>> parity = metrics.statistical_parity(grade, team, n_bootstrap=200)
    >>> parity.distances
    array([[0. , 0. , 0.5],
           [0. , 0. , 0.5],
           [0.5, 0.5, 0. ]])
    >>> parity.pair, parity.holds(0.1)
    (('a', 'c'), False)
    """
    check_number("epsilon", epsilon, 0, 1)
    check_integer("n_bootstrap", n_bootstrap, minimum=0)
    table = from_arrays(outcomes, sensitive_features, sample_weight)
    check_multiple_groups(table.groups)
    distribution = table.distribution()
    distances = np.abs(distribution[:, None] - distribution[None]).sum(axis=2) / 2
    pairs = np.triu_indices(len(distances), 1)
    max_index = int(np.argmax(distances[pairs]))
    largest = float(distances[pairs][max_index])
    chance_deviation = table.bootstrap_max_deviation(n_bootstrap, confidence, random_state)
    return StatisticalParity(
        table.groups,
        table.outcomes,
        table.counts,
        distribution,
        distances,
        largest,
        (table.groups[pairs[0][max_index]], table.groups[pairs[1][max_index]]),
        None if chance_deviation is None else max(largest - chance_deviation, 0.0),
        None if chance_deviation is None else min(largest + chance_deviation, 1.0),
        float(epsilon),
        float(confidence),
    )
