"""Label bias and statistical parity: how the groups' shares of each outcome differ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal, overload

import narwhals.stable.v2 as nw
import numpy as np

from fairspan.errors import InvalidInput, InvalidType, UnknownGroup
from fairspan.formatting.numbers import position
from fairspan.formatting.results import data_frame
from fairspan.problem.parameters import check_count, check_flag, check_number
from fairspan.random_state import generator_of
from fairspan.rows.arrays import checked_weights
from fairspan.rows.frames import frame_of, without_columns
from fairspan.rows.groups import (
    CodedLabels,
    Label,
    LabelCoder,
    Scalar,
    in_order,
    listed,
    plain_labels,
    spelled,
)
from fairspan.rows.labels import check_index, labels_of, named_columns
from fairspan.typing import FloatArray, IntegerArray

_ALLOWED = "Allowed: one outcome for each row: text, numbers or truth values, none missing"
# Numbers drawn at once, so that memory does not grow with the number of resamples.
_CHUNK = 2**21


def coded_groups(
    groups: Any, beside: Any, n_rows: int, names: tuple[str, str]
) -> tuple[tuple[Label, ...], IntegerArray]:
    """Groups in sorted order, and the position of each row's group among them.

    Parameters
    ----------
    groups : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Several columns make their intersections.
    beside : object
        What the groups are matched with by position; an index that disagrees is an error.
    n_rows : int
        Rows of `beside`.
    names : tuple of two str
        What `beside` and the groups are called in messages.

    Returns
    -------
    tuple of k labels, (n,) array of int

    Raises
    ------
    InvalidInput
        No column of labels, lengths that differ, a missing label, an index in another order.
    InvalidType
        Labels that cannot name a group.
    """
    beside_name, name = names
    if isinstance(groups, Mapping):
        groups = _crossed(groups, name)
    if (
        isinstance(groups, str)
        or not hasattr(groups, "__len__")
        or getattr(groups, "shape", None) == ()
    ):
        raise InvalidInput(
            f"{name} is {groups!r}",
            "Allowed: one group label for each row, or a column for each of several attributes",
            f"Pass {name} as a list, array, series or data frame",
        )
    if len(groups) != n_rows:
        raise InvalidInput(
            f"The lengths differ: {n_rows} rows in {beside_name}, {len(groups)} in {name}",
            "Allowed: one group label for each row",
            "Take both from the same rows",
        )
    try:
        check_index(beside, groups, name)
    except InvalidInput as error:  # it says X, whatever the rows are called here
        raise InvalidInput(
            f"{beside_name} and {name} carry the same index in different orders",
            "Allowed: values in the order of the rows (they are matched by position)",
            f"Reorder with {name}.loc[{beside_name}.index]",
        ) from error
    coder = LabelCoder()
    codes = coder.encode(labels_of(groups, n_rows, None).between(0, n_rows))
    return in_order(CodedLabels(coder.labels, codes))


def check_several(groups: tuple[Label, ...], rows: str = "All rows") -> None:
    """Make sure that there are groups to compare.

    Raises
    ------
    InvalidInput
    """
    if len(groups) < 2:
        raise InvalidInput(
            f"{rows} belong to one group, {groups[0]!r}",
            "Allowed: two groups or more",
            "Check the group column, or the filter that made these rows",
        )


def coded_outcomes(labels: Any, name: str) -> tuple[tuple[Scalar, ...], IntegerArray]:
    """Outcomes in sorted order, and the position of each row's outcome among them.

    Unlike groups, 1, 1.0 and True are one outcome: predictions are often real numbers where the
    labels are whole.

    Parameters
    ----------
    labels : (n,) array-like or series, or a frame or array of one column
    name : str
        What they are called in messages.

    Returns
    -------
    tuple of m values, (n,) array of int

    Raises
    ------
    InvalidInput
        Not one column, empty, a missing outcome, text beside numbers.
    InvalidType
        Outcomes that are neither text nor numbers.
    """
    values = _values(labels, name)
    if not values:
        raise InvalidInput(f"{name} is empty", "Allowed: at least one row", "Pass the rows")
    try:
        met = {value: index for index, value in enumerate(dict.fromkeys(values))}
    except TypeError as error:
        raise InvalidType(
            f"{name} cannot be compared ({error})", _ALLOWED, "Pass one column"
        ) from error
    if len({_is_text(value, name, values) for value in met}) > 1:
        raise InvalidInput(f"{name} mixes text with numbers", _ALLOWED, "Convert it to one type")
    codes = np.fromiter(map(met.__getitem__, values), np.intp, len(values))
    return in_order(CodedLabels(list(met), codes))


def _crossed(columns: Mapping[Any, Any], name: str) -> list[tuple[Any, ...]]:
    lengths = sorted({len(each) if hasattr(each, "__len__") else 0 for each in columns.values()})
    if len(lengths) != 1 or lengths == [0]:
        raise InvalidInput(
            f"The columns of {name} have lengths {listed(lengths)}",
            "Allowed: at least one column, all of the same length",
            "Take all columns from the same rows",
        )
    return list(zip(*columns.values(), strict=True))


def _values(labels: Any, name: str) -> list[Any]:
    native: Any = nw.from_native(labels, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame) and len(native.columns) == 1:
        native = native[native.columns[0]]
    if isinstance(native, nw.Series):
        return list(native.to_list())
    if isinstance(native, list | tuple) and not any(isinstance(x, list | tuple) for x in native):
        # numpy would turn [1, "a"] into text.
        return plain_labels(native)
    try:
        array = np.asarray(labels)
    except ValueError as error:  # rows of different lengths
        raise InvalidInput(f"{name} is no column ({error})", _ALLOWED, "Pass one column") from error
    if np.ma.is_masked(labels):
        raise InvalidInput(f"{name} has masked entries", _ALLOWED, "Drop these rows")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidInput(
            f"{name} is of type {type(labels).__name__} and shape {array.shape}",
            "Allowed: one dimension: one outcome for each row",
            "Pass a single column; of scores for several classes take argmax(axis=1) first",
        )
    # As plain numbers, dates would pass for outcomes.
    return list(array) if array.dtype.kind in "mM" else plain_labels(array.tolist())


def _is_text(value: Any, name: str, values: list[Any]) -> bool:
    kind = type(value)
    is_nan = isinstance(value, float) and value != value
    if value is None or is_nan or kind.__name__ in ("NAType", "NaTType"):
        row = next(row for row, each in enumerate(values) if each is value)
        raise InvalidInput(
            f"{name} has no outcome in {position('row', row)} (None or NaN)",
            _ALLOWED,
            "Drop these rows",
        )
    if not isinstance(value, str | bool | int | float):
        raise InvalidType(
            f"{name} holds {value!r}, of type {kind.__name__}",
            _ALLOWED,
            "Convert it, for example with astype(str)",
        )
    return isinstance(value, str)


@dataclass(frozen=True, eq=False)
class OutcomesByGroup:
    """The outcome and the group of each row.

    Attributes
    ----------
    groups : tuple of k labels
        In sorted order.
    outcomes : tuple of m values
        In sorted order.
    group_codes, outcome_codes : (n,) arrays of int
        Positions in `groups` and `outcomes`.
    weights : (n,) array
        Positive; ones without sample weights.
    """

    groups: tuple[Label, ...]
    outcomes: tuple[Scalar, ...]
    group_codes: IntegerArray
    outcome_codes: IntegerArray
    weights: FloatArray

    @property
    def counts(self) -> IntegerArray:
        """Rows of each group, shape (k,)."""
        return np.bincount(self.group_codes, minlength=len(self.groups)).astype(np.int64)

    def distribution(self) -> FloatArray:
        """Share of each outcome in each group by weight, shape (k, m); rows sum to one."""
        k, m = len(self.groups), len(self.outcomes)
        cells = self.group_codes * m + self.outcome_codes
        sums = np.bincount(cells, self.weights, k * m).reshape(k, m)
        return np.asarray(sums / sums.sum(axis=1, keepdims=True))

    def interval(
        self,
        statistic: Callable[[FloatArray], FloatArray],
        n_bootstrap: int,
        confidence: float,
        random_state: Any,
    ) -> tuple[float | None, float | None]:
        """Ends of a percentile bootstrap interval (Efron and Tibshirani 1993, section 13.3).

        Parameters
        ----------
        statistic : callable
            Takes (b, k, m) distributions, returns (b,) figures.
        n_bootstrap : int
            Resamples; rows are drawn within each group.
        confidence : float
        random_state : int, Generator, RandomState or None

        Returns
        -------
        low, high : float or None
            None without resamples, or where a group is a single row.

        Raises
        ------
        InvalidParameter, InvalidType
        """
        check_number("confidence", confidence, 0, 1)
        rng = generator_of(random_state)
        if n_bootstrap == 0 or not (self.counts > 1).all():
            return None, None
        cells = [self._cells(group) for group in range(len(self.groups))]
        width = max(len(self.groups) * len(self.outcomes), *(len(counts) for counts, _, _ in cells))
        chunk = max(1, _CHUNK // width)
        sizes = [min(chunk, n_bootstrap - start) for start in range(0, n_bootstrap, chunk)]
        draws = (
            np.stack([self._drawn(*each, size, rng) for each in cells], axis=1) for size in sizes
        )
        tail = (1 - confidence) / 2
        figures = np.concatenate([statistic(each) for each in draws])
        low, high = np.quantile(figures, [tail, 1 - tail]).tolist()
        return low, high

    def _cells(self, group: int) -> tuple[IntegerArray, FloatArray, IntegerArray]:
        """How often each pair of outcome and weight occurs in a group, the weights, the outcomes.

        Rows that agree in both are interchangeable, so drawing rows is drawing a multinomial.
        """
        rows = self.group_codes == group
        pairs = np.column_stack([self.outcome_codes[rows], self.weights[rows]])
        distinct, counts = np.unique(pairs, axis=0, return_counts=True)
        return counts, distinct[:, 1], distinct[:, 0].astype(np.int64)

    def _drawn(
        self,
        counts: IntegerArray,
        weights: FloatArray,
        outcome_codes: IntegerArray,
        size: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        """Distributions of the outcomes in resamples of one group's cells, (size, m)."""
        weighted = rng.multinomial(counts.sum(), counts / counts.sum(), size=size) * weights
        present, starts = np.unique(outcome_codes, return_index=True)
        shares = np.zeros((size, len(self.outcomes)))
        shares[:, present] = np.add.reduceat(weighted, starts, axis=1)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def against_rest(self, protected: Any) -> "OutcomesByGroup":
        """Two groups: all the others, then the protected one.

        Raises
        ------
        UnknownGroup
            No row is of the protected group.
        InvalidInput
            Every row is.
        """
        (label,) = plain_labels([protected])
        if label not in self.groups:
            raise UnknownGroup(
                f"The protected group is {label!r}, which no row belongs to",
                f"The rows hold the groups {listed(self.groups)}",
                "Name one of these groups",
            )
        check_several(self.groups)
        codes = (self.group_codes == self.groups.index(label)).astype(np.int64)
        return replace(self, groups=("rest", label), group_codes=codes)


def outcomes_by_group(
    labels: Any, sensitive_features: Any, sample_weight: Any = None, name: str = "labels"
) -> OutcomesByGroup:
    """Read and check one outcome, one group and one weight for each row.

    Parameters
    ----------
    labels : (n,) array-like or series, or a frame or array of one column
    sensitive_features : (n,) or (n, a) array-like or data frame, or mapping of name to column
    sample_weight : (n,) array-like, optional
        Rows of weight zero count as absent.
    name : str
        What the outcomes are called in messages.

    Returns
    -------
    OutcomesByGroup

    Raises
    ------
    InvalidInput, InvalidType
    """
    outcomes, outcome_codes = coded_outcomes(labels, name)
    n = len(outcome_codes)
    groups, group_codes = coded_groups(sensitive_features, labels, n, (name, "sensitive_features"))
    check_index(labels, sample_weight, "sample_weight")
    given = checked_weights(sample_weight, n)
    weights = np.ones(n) if given is None else given
    present = weights > 0
    kept_groups, group_codes = np.unique(group_codes[present], return_inverse=True)
    kept_outcomes, outcome_codes = np.unique(outcome_codes[present], return_inverse=True)
    return OutcomesByGroup(
        tuple(groups[i] for i in kept_groups),
        tuple(outcomes[i] for i in kept_outcomes),
        group_codes.astype(np.int64),
        outcome_codes.astype(np.int64),
        weights[present] / weights.max(),  # so that sums stay within float64's range
    )


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
    rest, its = table.distribution()[:, positive_code].tolist()
    if not interval:
        return float(rest - its)
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
    rest, its = table.distribution()[:, _position(table, positive, "predict(X)")].tolist()
    return float(rest - its)


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
    largest: float
    pair: tuple[Label, Label]
    low: float | None
    high: float | None
    epsilon: float
    confidence: float

    def is_below(self, epsilon: float | None = None, *, upper_end: bool = False) -> bool:
        """Whether statistical parity holds up to a bias epsilon: no distance exceeds it.

        Parameters
        ----------
        epsilon : float, optional
            From 0 to 1; by default the one that :func:`statistical_parity` was given.
        upper_end : bool, default=False
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
        reached = self.high if upper_end else self.largest
        return reached is not None and reached <= epsilon

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
        return data_frame(
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
        a, b = map(spelled, self.pair)
        return (
            f"<StatisticalParity of {len(self.groups)} groups and {len(self.outcomes)} outcomes, "
            f"largest distance {self.largest:.4g}{interval}, {a} and {b}>"
        )


def statistical_parity(
    labels: Any,
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
    The interval is the percentile bootstrap's, rows drawn with replacement within each group with
    their weights. The largest distance is biased upwards: chance alone moves groups apart, by
    about 1 / sqrt(rows) of the smaller group, and the more groups and outcomes, the more.
    Resampling adds the same bias once more. So an upper end below epsilon is on the safe side,
    while a lower end above zero is no proof that groups differ. A small group whose rows all have
    one outcome does not vary in the resamples, and the interval is then too short.

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
    >>> parity.pair, parity.is_below(0.1)
    (('a', 'c'), False)
    """
    check_number("epsilon", epsilon, 0, 1)
    check_count("n_bootstrap", n_bootstrap, least=0)
    table = outcomes_by_group(labels, sensitive_features, sample_weight)
    check_several(table.groups)
    distribution = table.distribution()
    distances = np.abs(distribution[:, None] - distribution[None]).sum(axis=2) / 2
    pairs = np.triu_indices(len(distances), 1)
    widest = int(np.argmax(distances[pairs]))
    low, high = table.interval(_largest_distance, n_bootstrap, confidence, random_state)
    return StatisticalParity(
        table.groups,
        table.outcomes,
        table.counts,
        distribution,
        distances,
        float(distances[pairs][widest]),
        (table.groups[pairs[0][widest]], table.groups[pairs[1][widest]]),
        low,
        high,
        float(epsilon),
        float(confidence),
    )


def _largest_distance(distributions: FloatArray) -> FloatArray:
    """Of each of b resamples, from (b, k, m) to (b,)."""
    largest = np.zeros(len(distributions))
    for group in range(1, distributions.shape[1]):
        gaps = np.abs(distributions[:, :group] - distributions[:, group : group + 1])
        largest = np.maximum(largest, gaps.sum(axis=2).max(axis=1) / 2)
    return largest
