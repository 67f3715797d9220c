"""Label bias and statistical parity: differences between the groups' outcome rates."""

import math
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from os import PathLike
from statistics import NormalDist
from typing import Any, Literal, Protocol, cast, overload

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidInput, InvalidType
from fairspan.formatting.export import to_data_frame
from fairspan.formatting.messages import counted
from fairspan.metrics.outcomes import OutcomesByGroup, check_multiple_groups
from fairspan.parameters import check_bool, check_integer, check_number
from fairspan.rows.alignment import check_alignment
from fairspan.rows.frames import drop_columns
from fairspan.rows.label_resolution import as_eager_frame, resolve_group_columns
from fairspan.rows.labels import Label, Scalar, format_label, format_list, to_python_labels
from fairspan.typing import FloatArray, IntegerArray, RandomSource, TableLike


@dataclass(frozen=True)
class LabelBias:
    """Label bias with its confidence interval; created by :func:`label_bias`.

    Attributes
    ----------
    value : float
        Rate of the positive outcome in the reference minus that in the protected group.
    low, high : float
        Limits of the interval.
    level : float
    protected_rate, reference_rate : float
        The two rates of the positive outcome.
    """

    value: float
    low: float
    high: float
    level: float
    protected_rate: float
    reference_rate: float


@overload
def label_bias(
    outcomes: object,
    sensitive_features: object,
    protected: object,
    pos_label: object = 1,
    *,
    reference: object = None,
    sample_weight: object = None,
    return_interval: Literal[False] = False,
    level: float = 0.95,
) -> float: ...


@overload
def label_bias(
    outcomes: object,
    sensitive_features: object,
    protected: object,
    pos_label: object = 1,
    *,
    reference: object = None,
    sample_weight: object = None,
    return_interval: Literal[True],
    level: float = 0.95,
) -> LabelBias: ...


def label_bias(
    outcomes: object,
    sensitive_features: object,
    protected: object,
    pos_label: object = 1,
    *,
    reference: object = None,
    sample_weight: object = None,
    return_interval: bool = False,
    level: float = 0.95,
) -> float | LabelBias:
    """Rate of the positive label in the reference groups minus that in the protected group.

    bias = P(outcome = pos_label | reference) - P(outcome = pos_label | protected), between -1 and
    1; above zero if the protected group receives the positive label less often. For two groups its
    absolute value is fairlearn's demographic parity difference.

    Parameters
    ----------
    outcomes : (n,) array-like or series, or a frame or array of one column
        Text, numbers or booleans; 1, 1.0 and True are the same outcome.
    sensitive_features : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Group of each row, matched by position; several attributes define their intersections.
    protected : label
        Protected group; a tuple for an intersection.
    pos_label : label, default=1
        Outcome that counts as positive.
    reference : label or list of labels, optional
        Groups that the protected one is compared with; by default all others. Rows of other groups
        are ignored.
    sample_weight : (n,) array-like, optional
        Finite and nonnegative; rows of weight zero are ignored.
    return_interval : bool, default=False
        Return a LabelBias with a confidence interval.
    level : float, default=0.95
        Confidence level, between 0 and 1.

    Returns
    -------
    float, or LabelBias with an interval

    Raises
    ------
    UnknownGroup
        No row belongs to the protected group, or to a reference group.
    InvalidInput
        All rows belong to the protected group; no outcome is positive; a missing outcome; or
        inconsistent lengths.
    InvalidType
        Outcomes that are neither text nor numbers.
    InvalidParameter
        level is out of range.

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
    check_bool("return_interval", return_interval)
    outcomes_by_group = OutcomesByGroup.from_arrays(outcomes, sensitive_features, sample_weight)
    outcomes_by_group = outcomes_by_group.protected_vs_reference(protected, reference)
    positive_index = _outcome_index(outcomes_by_group, pos_label, "outcomes")
    distribution = outcomes_by_group.distribution()
    reference_rate, protected_rate = distribution[:, positive_index].tolist()
    bias = float(reference_rate - protected_rate)
    if not return_interval:
        return bias
    check_number("level", level, 0, 1)
    n_reference, n_protected = outcomes_by_group.effective_sample_sizes.tolist()
    reference_low, reference_high = _wilson_interval(reference_rate, n_reference, level)
    protected_low, protected_high = _wilson_interval(protected_rate, n_protected, level)
    # Newcombe's method 10: the bias is smallest where the reference rate is at its lower limit and
    # the protected rate at its upper one, and their distances add up as squares.
    below = math.hypot(reference_rate - reference_low, protected_high - protected_rate)
    above = math.hypot(reference_high - reference_rate, protected_rate - protected_low)
    return LabelBias(bias, bias - below, bias + above, float(level), protected_rate, reference_rate)


def _wilson_interval(rate: float, n: float, level: float) -> tuple[float, float]:
    """Wilson's (1927) score interval for a rate observed on n rows."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    center = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half_width = z * math.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return center - half_width, center + half_width


def prediction_bias(
    predict: object,
    X: object,
    sensitive_features: object,
    protected: object,
    pos_label: object = 1,
    *,
    reference: object = None,
    probabilities: bool = False,
    sample_weight: object = None,
) -> float:
    """Label bias of predictions: rate in the reference groups minus that in the protected group.

    bias = P(predict(x) = pos_label | reference) - P(predict(x) = pos_label | protected).

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
    protected, pos_label, reference, sample_weight
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
        outside [0, 1], or of a classifier that does not know the positive label.
    InvalidType
        `predict` is neither callable nor a model with that method, or the model is not fitted.

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
    predict_rows = _prediction_function(predict, pos_label, probabilities=probabilities)
    if isinstance(X, str | PathLike):
        raise InvalidType(
            f"X is the path {str(X)!r}",
            "Allowed: rows in memory, as accepted by predict",
            "Read the file into a data frame first",
        )
    X, sensitive_features = _split_off_groups(X, sensitive_features)
    # Before the prediction, which may take long and lose the index of X.
    check_alignment(
        {"X": X, "sensitive_features": sensitive_features, "sample_weight": sample_weight}
    )
    predictions = predict_rows(X)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(cast(Sized, X))
    _check_predictions(predictions, n_rows)
    outcomes_by_group = OutcomesByGroup.from_arrays(
        predictions, sensitive_features, sample_weight, "predict(X)"
    )
    outcomes_by_group = outcomes_by_group.protected_vs_reference(protected, reference)
    if probabilities:
        rates = _mean_probabilities(outcomes_by_group)
    else:
        outcomes = outcomes_by_group.outcomes
        # A single label, whether it is the positive one or not, means equal rates. But a label of
        # another type suggests a wrong pos_label, which is an error below.
        is_same_type = isinstance(outcomes[0], str) == isinstance(pos_label, str)
        if len(outcomes) == 1 and is_same_type:
            return 0.0
        positive_index = _outcome_index(outcomes_by_group, pos_label, "predict(X)")
        rates = outcomes_by_group.distribution()[:, positive_index]
    reference_rate, protected_rate = rates.tolist()
    return float(reference_rate - protected_rate)


def _split_off_groups(X: object, sensitive_features: object) -> tuple[object, object]:
    """Return the rows without columns that are named as groups, and the groups."""
    frame = as_eager_frame(X)
    names = None if frame is None else resolve_group_columns(frame, sensitive_features)
    if frame is None or not names:
        return X, sensitive_features
    # By name: the frame's own columns are labels of its rows, in its order.
    return drop_columns(X, tuple(names)), frame.select(names).to_native()


class _Classifier(Protocol):
    """Classifier with probabilities, as in scikit-learn."""

    classes_: Sequence[object]

    def predict_proba(self, X: TableLike, /) -> FloatArray:
        """Return the probability of each class for each row."""


def _mean_probabilities(outcomes_by_group: OutcomesByGroup) -> FloatArray:
    """Return the mean of each group's outcomes, which are probabilities.

    Raises
    ------
    InvalidParameter, InvalidType
        One of them is not a probability.
    """
    outcomes = outcomes_by_group.outcomes
    # Outcomes are sorted.
    for probability in (outcomes[0], outcomes[-1]):
        check_number("a probability of predict(X)", probability, 0, 1)
    # The mean of each group is that of the distinct probabilities, weighted by their shares.
    return outcomes_by_group.distribution() @ np.array(outcomes, dtype=np.float64)


def _prediction_function(
    predict: object, pos_label: object, *, probabilities: bool
) -> Callable[[object], object]:
    """Return a function of rows that gives labels, or probabilities of the positive label."""
    if callable(predict):
        return predict
    if probabilities:
        _check_gives_probabilities(predict)
        return partial(_positive_probability, cast(_Classifier, predict), pos_label)
    method = getattr(predict, "predict", None)
    if not callable(method):
        raise InvalidType(
            "predict is neither a function nor a model with a predict method",
            "Allowed: a function that returns one label for each row of X",
            "Pass model.predict",
        )
    return cast(Callable[[object], object], method)


def _check_gives_probabilities(predict: object) -> None:
    """Check that a model is a fitted classifier with `predict_proba`.

    Raises
    ------
    InvalidType
    """
    if not callable(getattr(predict, "predict_proba", None)):
        raise InvalidType(
            "predict is neither a function nor a model with a predict_proba method",
            "Allowed with probabilities=True: a classifier with predict_proba, or a function that "
            "returns the probability of the positive label for each row of X",
            "Calibrate the classifier (CalibratedClassifierCV), or use probabilities=False",
        )
    if not hasattr(predict, "classes_"):
        raise InvalidType(
            f"The {type(predict).__name__} is not fitted",
            "Allowed: a fitted classifier",
            "Fit it first",
        )


def _positive_probability(model: _Classifier, pos_label: object, X: object) -> FloatArray:
    """Probability of the positive label for each row, from a classifier's `predict_proba`."""
    (label,) = to_python_labels([pos_label])
    classes = to_python_labels(model.classes_)
    if label not in classes:
        raise InvalidInput(
            f"pos_label is {label!r}, which is no class of the {type(model).__name__}",
            f"Its classes are {format_list(classes)}",
            "Pass the favorable outcome as pos_label",
        )
    return np.asarray(model.predict_proba(X)[:, classes.index(label)])


def _outcome_index(outcomes_by_group: OutcomesByGroup, pos_label: object, name: str) -> int:
    (label,) = to_python_labels([pos_label])
    outcomes = outcomes_by_group.outcomes
    if label not in outcomes:
        raise InvalidInput(
            f"pos_label is {label!r}, which does not occur in {name}",
            f"{name} contains {format_list(outcomes)}",
            "Pass the favorable outcome as pos_label",
        )
    return outcomes.index(label)


def _check_predictions(predictions: object, n_rows: int) -> None:
    """Raise InvalidInput unless there is one prediction per row, in one dimension."""
    try:
        shape = np.shape(cast(npt.ArrayLike, predictions))
    except ValueError:  # rows of different lengths
        shape = (len(cast(Sized, predictions)), -1)
    if shape != (n_rows,):
        raise InvalidInput(
            f"predict(X) has shape {shape}, expected ({n_rows},)",
            "Allowed: one label per row, in one dimension",
            "Pass predict rather than predict_proba, or wrap it in a function that returns labels",
        )


@dataclass(frozen=True, eq=False)
class StatisticalParity:
    """Outcome distributions of groups and their distances; see :func:`statistical_parity`.

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
    max_distance : float
        The largest distance.
    max_pair : tuple of two labels
        The first pair of groups with that distance.
    low, high : float or None
        Confidence limits of the largest distance; None without resamples, or if a group has a
        single row.
    epsilon, level : float
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
    level: float

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
        check_bool("use_upper_bound", use_upper_bound)
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
        records = []
        for i, group in enumerate(self.groups):
            count = int(self.counts[i])
            for outcome, share in zip(self.outcomes, self.distribution[i].tolist(), strict=True):
                records.append({"group": group, "n": count, "outcome": outcome, "share": share})
        return to_data_frame(records, "StatisticalParity.frame()")

    def __repr__(self) -> str:
        interval = ""
        if self.low is not None and self.high is not None:
            interval = f" ({self.level:.0%}: {self.low:.4g} to {self.high:.4g})"
        a, b = map(format_label, self.max_pair)
        return (
            f"<StatisticalParity of {counted(len(self.groups), 'group')} and "
            f"{counted(len(self.outcomes), 'outcome')}, "
            f"largest distance {self.max_distance:.4g}{interval}, {a} and {b}>"
        )


def statistical_parity(
    outcomes: object,
    sensitive_features: object,
    *,
    epsilon: float = 0.1,
    n_bootstrap: int = 1000,
    level: float = 0.95,
    sample_weight: object = None,
    random_state: RandomSource = 0,
) -> StatisticalParity:
    """Total variation distances between the groups' outcome distributions.

    d(a, b) = 1/2 sum over outcomes y of abs(P(y | a) - P(y | b)), the largest difference in the
    probability of any set of outcomes. Statistical parity holds up to a bias epsilon if no distance
    exceeds it (Dwork et al. 2012, section 3). For two outcomes the largest distance is fairlearn's
    demographic parity difference.

    Parameters
    ----------
    outcomes : (n,) array-like or series, or a frame or array of one column
        Labels or predictions: text, numbers or booleans; 1, 1.0 and True are the same outcome.
    sensitive_features : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Group of each row, matched by position; several attributes define their intersections.
    epsilon : float, default=0.1
        From 0 to 1.
    n_bootstrap : int, default=1000
        Number of resamples for the interval; 0 for none.
    level : float, default=0.95
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
        A single group, a missing outcome, or inconsistent lengths.
    InvalidType
        Outcomes that are neither text nor numbers.
    InvalidParameter
        epsilon, n_bootstrap or level is out of range.

    Notes
    -----
    The largest distance is biased upwards: chance alone separates groups by about 1 / sqrt(n), n
    the size of the smaller group, and more so with more groups and outcomes. The interval accounts
    for this: it is the estimate -+ c, c being the quantile over resamples of the maximum of 1/2 sum
    over y of abs(D_a - D_b), with D the deviation of a resample's shares from those it was drawn
    from. At this level no true distance differs more from its estimate, so the interval is valid
    for the largest distance, whichever pair attains it, and starts at 0 if the groups may be equal.

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
    >>> parity.max_pair, parity.holds(0.1)
    (('a', 'c'), False)
    """
    check_number("epsilon", epsilon, 0, 1)
    check_integer("n_bootstrap", n_bootstrap, minimum=0)
    outcomes_by_group = OutcomesByGroup.from_arrays(outcomes, sensitive_features, sample_weight)
    groups = outcomes_by_group.groups
    check_multiple_groups(groups)
    distribution = outcomes_by_group.distribution()
    distances = np.abs(distribution[:, None] - distribution[None]).sum(axis=2) / 2
    # Index arrays of the first and of the second group of each pair.
    pairs = np.triu_indices(len(distances), 1)
    max_index = int(np.argmax(distances[pairs]))
    max_distance = float(distances[pairs][max_index])
    max_pair = (groups[pairs[0][max_index]], groups[pairs[1][max_index]])
    deviation = outcomes_by_group.bootstrap_max_deviation(n_bootstrap, level, random_state)
    low = None if deviation is None else max(max_distance - deviation, 0.0)
    high = None if deviation is None else min(max_distance + deviation, 1.0)
    return StatisticalParity(
        groups,
        outcomes_by_group.outcomes,
        outcomes_by_group.counts,
        distribution,
        distances,
        max_distance,
        max_pair,
        low,
        high,
        float(epsilon),
        float(level),
    )
