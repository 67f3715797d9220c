"""Label bias and statistical parity: differences between the groups' outcome rates."""

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
    """Label bias with its confidence interval; created by :func:`label_bias`.

    Attributes
    ----------
    value : float
        Rate of the positive outcome in the reference minus that in the protected group.
    low, high : float
        Limits of the interval.
    confidence : float
    protected_rate, reference_rate : float
        The two rates of the positive outcome.
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
    """Rate of the positive label in the reference groups minus that in the protected group.

    bias = P(label = positive | not protected) - P(label = positive | protected), between -1 and 1;
    positive if the protected group receives the positive label less often. For two groups its
    absolute value is fairlearn's demographic parity difference.

    Parameters
    ----------
    labels : (n,) array-like or series, or a frame or array of one column
        Text, numbers or booleans; 1, 1.0 and True are the same label.
    sensitive_features : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Group of each row, matched by position; several attributes define their intersections.
    protected : label
        Protected group; a tuple for an intersection.
    positive : label, default=1
    rest : label or list of labels, optional
        Groups that the protected one is compared with; by default all others. Rows of other groups
        are ignored.
    sample_weight : (n,) array-like, optional
        Finite and nonnegative; rows of weight zero are ignored.
    interval : bool, default=False
        Return a LabelBias with a confidence interval.
    confidence : float, default=0.95
        Confidence level, between 0 and 1.

    Returns
    -------
    float, or LabelBias with an interval

    Raises
    ------
    UnknownGroup
        No row belongs to the protected group, or to a reference group.
    InvalidInput
        All rows belong to the protected group; no label is positive; a missing label; or
        inconsistent lengths.
    InvalidType
        Labels that are neither text nor numbers.
    InvalidParameter
        confidence is out of range.

    Notes
    -----
    The interval is Newcombe's (1998, method 10), based on Wilson's score intervals of the two
    rates; with weights, for (sum w)^2 / sum w^2 rows. It is also valid for few rows and for rates
    of 0 and 1. For a classifier, pass its predictions as outcomes; the interval is then conditional
    on the classifier.

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
    """Wilson's (1927) score interval for a rate observed on n rows."""
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
    """Label bias of predictions: rate in the reference groups minus that in the protected group.

    bias = P(predict(x) = positive | not protected) - P(predict(x) = positive | protected).

    Parameters
    ----------
    predict : callable, or fitted model with a method `predict`
        Returns one label for each row of X; if all labels are equal, the bias is 0. With
        `probabilities` it returns the probability of the positive label; for a model, the column of
        `predict_proba` for that label is used.
    X : (n, p) array or data frame
    sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        Named columns are dropped from X before predicting; to keep them as features, pass the group
        labels instead.
    protected, positive, rest, sample_weight
        See :func:`label_bias`.
    probabilities : bool, default=False
        Whether the classifier is randomized and returns the probability of the positive label. The
        bias is then the difference of the mean probabilities.

    Returns
    -------
    float
        Between -1 and 1.

    Raises
    ------
    UnknownGroup
        No row belongs to the protected group, or to a reference group.
    InvalidInput
        Predictions that are not one label per row, or none of which is positive; or probabilities
        outside [0, 1].
    InvalidType
        `predict` is neither callable nor a model with that method.

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
            "predict is neither a function nor a model with a predict method",
            "Allowed: a function that returns one label for each row of X",
            "Pass model.predict",
        )
    if isinstance(X, str | PathLike):
        raise InvalidType(
            f"X is the path {str(X)!r}",
            "Allowed: rows in memory, as accepted by predict",
            "Read the file into a data frame first",
        )
    frame = as_eager_frame(X)
    if frame is not None and (names := resolve_group_columns(frame, sensitive_features)):
        # Pass the data, not names: a name would refer to labels in the order of this frame.
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
        # The mean of each group is the mean of the distinct probabilities weighted by their shares.
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
    """Probability of the positive label for each row, from a classifier's `predict_proba`."""
    return np.asarray(model.predict_proba(X)[:, list(model.classes_).index(pos_label)])


def _outcome_index(table: OutcomesByGroup, pos_label: Any, name: str) -> int:
    (label,) = to_python_labels([pos_label])
    if label not in table.outcomes:
        raise InvalidInput(
            f"pos_label is {label!r}, which does not occur in {name}",
            f"{name} holds {format_list(table.outcomes)}",
            "Pass the favorable outcome as pos_label",
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
            "Allowed: one label per row, in one dimension",
            "Pass predict rather than predict_proba, or wrap it in a function that returns labels",
        )


@dataclass(frozen=True, eq=False)
class StatisticalParity:
    """Outcome distributions of the groups and their distances; created by
    :func:`statistical_parity`.

    Attributes
    ----------
    groups : tuple of k labels
        In sorted order.
    outcomes : tuple of m values
        In sorted order.
    counts : (k,) array of int
        Number of rows of each group.
    distribution : (k, m) array
        Share of each outcome in each group; rows sum to one.
    distances : (k, k) array
        Total variation distance of each pair of groups, between 0 and 1.
    largest : float
        The largest distance.
    pair : tuple of two labels
        The first pair of groups with that distance.
    low, high : float or None
        Confidence limits of the largest distance; None without resamples, or if a group has a
        single row.
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
            Between 0 and 1; by default the value passed to :func:`statistical_parity`.
        use_upper_bound : bool, default=False
            Compare the upper confidence limit instead of the estimate, i.e. require that the rows
            prove it. False if there is no interval.

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
        """Return the distributions as a pandas DataFrame, with one row per group and outcome.

        Returns
        -------
        pandas.DataFrame
            Columns: group, n (number of rows of the group), outcome, share.

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
    """Total variation distances between the groups' outcome distributions.

    d(a, b) = 1/2 sum over outcomes y of abs(P(y | a) - P(y | b)), the largest difference in the
    probability of any set of outcomes. Statistical parity holds up to a bias epsilon if no distance
    exceeds it (Dwork et al. 2012, section 3). For two outcomes the largest distance is fairlearn's
    demographic parity difference.

    Parameters
    ----------
    labels : (n,) array-like or series, or a frame or array of one column
        Labels or predictions: text, numbers or booleans; 1, 1.0 and True are the same outcome.
    sensitive_features : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Group of each row, matched by position; several attributes define their intersections.
    epsilon : float, default=0.1
        From 0 to 1.
    n_bootstrap : int, default=1000
        Number of resamples for the interval; 0 for none.
    confidence : float, default=0.95
        Confidence level, between 0 and 1.
    sample_weight : (n,) array-like, optional
        Finite and nonnegative; rows of weight zero are ignored.
    random_state : int, Generator, RandomState or None, default=0

    Returns
    -------
    StatisticalParity

    Raises
    ------
    InvalidInput
        A single group, a missing label, or inconsistent lengths.
    InvalidType
        Labels that are neither text nor numbers.
    InvalidParameter
        epsilon, n_bootstrap or confidence is out of range.

    Notes
    -----
    The largest distance is biased upwards: chance alone separates groups by about 1 / sqrt(n), n
    the size of the smaller group, and more so with more groups and outcomes. The interval accounts
    for this: it is the estimate -+ c, c being the quantile over resamples of the maximum of 1/2 sum
    over y of abs(D_a - D_b), with D the deviation of a resample's shares from those it was drawn
    from. With this confidence no true distance differs more from its estimate, so the interval is
    valid for the largest distance, whichever pair attains it, and starts at 0 if the groups may be
    equal.

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
