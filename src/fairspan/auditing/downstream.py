"""What a classifier makes of reduced rows, for each group: cross-validated, with intervals.

Projection and classifier are fitted without the rows that judge them. The intervals say how much
the judged rows vary. They do not cover the choice of the classifier, nor what other training rows
would have given.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fairspan.auditing.intervals import LEVEL, Estimate
from fairspan.errors import InvalidInput
from fairspan.metrics import leakage, statistical_parity
from fairspan.moments.group_moments import GroupMoments
from fairspan.progress.stages import told
from fairspan.rows.coded_labels import CodedLabels, in_order
from fairspan.rows.groups import Label, label_array
from fairspan.rows.protocol import Rows
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray, IntegerArray

N_FOLDS = 5
# Rows that classifiers are fitted to; of more, so many are drawn.
MOST_ROWS = 20_000
_MOST_CLASSES = 20
_MOST_ITERATIONS = 2000

Refit = Callable[[GroupMoments], FairSubspace]
"""Fits a projection again on the moments of some rows."""


@dataclass(frozen=True)
class GroupOutcome:
    """What a classifier does for one group.

    Attributes
    ----------
    group : label
    n : int
        Rows that were judged.
    accuracy : Estimate
        Share of the rows whose class it predicts.
    change : Estimate or None
        From the first representation, row by row; the intervals of all groups hold at once.
    """

    group: Label
    n: int
    accuracy: Estimate
    change: Estimate | None


@dataclass(frozen=True)
class Outcome:
    """What a classifier makes of one representation.

    Attributes
    ----------
    name : str
    groups : tuple of GroupOutcome
    parity : Estimate
        Largest total variation distance between groups' predictions.
    leakage : Estimate
        Mean over the folds of how far a linear classifier of the group sets the groups apart.
    """

    name: str
    groups: tuple[GroupOutcome, ...]
    parity: Estimate
    leakage: Estimate


@dataclass(frozen=True)
class Downstream:
    """The outcomes of several representations of the same rows.

    Attributes
    ----------
    outcomes : tuple of Outcome
        The first is what the others are compared with.
    n_rows : int
    sampled_from : int or None
        Number of rows that these were drawn from; None if every row is in.
    classes : tuple of labels
    level : float
    """

    outcomes: tuple[Outcome, ...]
    n_rows: int
    sampled_from: int | None
    classes: tuple[Label, ...]
    level: float


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows in memory, with the position of group and class of each.

    Attributes
    ----------
    values : (n, p) array
    groups, classes : (n,) arrays of int
    group_labels, class_labels : tuples of labels
    sampled_from : int or None
    """

    values: FloatArray
    groups: IntegerArray
    classes: IntegerArray
    group_labels: tuple[Label, ...]
    class_labels: tuple[Label, ...]
    sampled_from: int | None = None

    def moments(self, chosen: IntegerArray) -> GroupMoments:
        """Those of some rows, also by class."""
        return GroupMoments.from_rows(
            self.values[chosen],
            label_array(self.group_labels)[self.groups[chosen]],
            labels=label_array(self.class_labels)[self.classes[chosen]],
            max_groups=len(self.group_labels) * len(self.class_labels),
        )


def labelled_rows(rows: Rows, n_rows: int) -> LabelledRows:
    """Read rows whose labels end with their class, or draw some of many.

    Raises
    ------
    InvalidInput
        Labels that are no classes, or rows of which too few can be judged.
    """
    blocks = getattr(rows, "blocks", None)
    if blocks is None:
        raise _refused("the rows are read where they lie", "rows that are read here")
    kept = np.arange(n_rows)
    if n_rows > MOST_ROWS:
        kept = np.sort(np.random.default_rng(0).choice(n_rows, MOST_ROWS, replace=False))
    values, seen, start = [], [], 0
    for block in blocks():
        stop = start + len(block.values)
        inside = kept[(kept >= start) & (kept < stop)] - start
        values.append(block.values[inside])
        seen += block.labels[inside].to_list()
        start = stop
    pairs = [(label[0] if len(label) == 2 else label[:-1], label[-1]) for label in seen]
    group_labels, groups = in_order(CodedLabels.of([group for group, _ in pairs]))
    class_labels, classes = in_order(CodedLabels.of([each for _, each in pairs]))
    if not 2 <= len(class_labels) <= _MOST_CLASSES:
        raise _refused(
            f"the labels have {len(class_labels)} different values",
            f"2 to {_MOST_CLASSES} classes",
        )
    rarest = int(np.bincount(groups).min())
    if rarest < 2 * N_FOLDS or int(np.bincount(classes).min()) < 2 * N_FOLDS:
        raise _refused(
            "a group or a class has too few rows", f"{2 * N_FOLDS} rows of each group and class"
        )
    sampled = n_rows if len(kept) < n_rows else None
    return LabelledRows(np.vstack(values), groups, classes, group_labels, class_labels, sampled)


def downstream(rows: LabelledRows, refits: Mapping[str, Refit], level: float = LEVEL) -> Downstream:
    """Classify the rows by each representation, out of fold.

    A logistic regression (L2, C = 1) of standardized coordinates.

    Parameters
    ----------
    rows : LabelledRows
    refits : mapping of name to Refit
        The first is what the others are compared with.
    level : float
    """
    folds = _folds(rows)
    found = {
        name: _classified(rows, folds, refits[name], level)
        for name in told("classifying reduced rows", list(refits), "models")
    }
    names = list(found)
    before = found[names[0]][0]
    outcomes = []
    for place, name in enumerate(names):
        predicted, leaked = found[name]
        right = (predicted == rows.classes).astype(np.float64)
        compared = None if place == 0 else right - (before == rows.classes)
        outcomes.append(
            Outcome(
                name,
                _by_group(rows, right, compared, level),
                _parity(rows, predicted, level),
                leaked,
            )
        )
    return Downstream(
        tuple(outcomes), len(rows.values), rows.sampled_from, rows.class_labels, level
    )


def _classified(
    rows: LabelledRows, folds: IntegerArray, refit: Refit, level: float
) -> tuple[IntegerArray, Estimate]:
    """The class that is predicted for each row without its fold, and the leakage."""
    from sklearn.linear_model import LogisticRegression  # takes its time
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    predicted, leaked = np.empty_like(rows.classes), []
    for fold in range(N_FOLDS):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        subspace = refit(rows.moments(train))
        inside, outside = (subspace.transform(rows.values[each]) for each in (train, test))
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=_MOST_ITERATIONS))
        classifier.fit(inside, rows.classes[train])
        predicted[test] = classifier.predict(outside)
        varies = np.ptp(inside, axis=0) > 0
        leaked.append(
            leakage(inside[:, varies], rows.groups[train], outside[:, varies], rows.groups[test])
        )
    return predicted, _over_folds(np.array(leaked), level)


def _over_folds(values: FloatArray, level: float) -> Estimate:
    """The mean, with the interval of Nadeau and Bengio (2003): folds share their training rows."""
    k = len(values)
    error = float(np.sqrt(values.var(ddof=1) * (1 / k + 1 / (k - 1))))
    found = Estimate.around(float(values.mean()), error, k - 1, level=level)
    return _within(found, 0.0, 1.0)


def _by_group(
    rows: LabelledRows, right: FloatArray, compared: FloatArray | None, level: float
) -> tuple[GroupOutcome, ...]:
    outcomes = []
    k = len(rows.group_labels)
    for place, label in enumerate(rows.group_labels):
        own = rows.groups == place
        n = int(own.sum())
        change = None
        if compared is not None:
            change = _change_of(compared[own], k, level)
        outcomes.append(GroupOutcome(label, n, _share_of(right[own], level), change))
    return tuple(outcomes)


def _share_of(right: FloatArray, level: float) -> Estimate:
    """A share with Wilson's interval, which holds also where all rows, or none, are right."""
    n, share = len(right), float(right.mean())
    z = float(Estimate.around(0.0, 1.0, np.inf, level=level).high or 0.0)
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * float(np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)))
    return _within(Estimate(share, middle - half, middle + half), 0.0, 1.0)


def _parity(rows: LabelledRows, predicted: IntegerArray, level: float) -> Estimate:
    found = statistical_parity(predicted, rows.groups, confidence=level)
    return Estimate(found.largest, found.low, found.high)


def _change_of(compared: FloatArray, tests: int, level: float) -> Estimate:
    """The difference of two shares of the same rows.

    Its interval adds half a row to each of the four outcomes of a pair (Agresti and Min 2005), so
    that identical predictions for all rows do not look like certainty.
    """
    n = len(compared) + 2
    better, worse = float((compared > 0).sum()) + 0.5, float((compared < 0).sum()) + 0.5
    middle = (better - worse) / n
    error = float(np.sqrt(better + worse - n * middle**2)) / n
    around = Estimate.around(middle, error, np.inf, tests=tests, level=level)
    return Estimate(float(compared.mean()), around.low, around.high)


def _within(estimate: Estimate, least: float, most: float) -> Estimate:
    low, high = estimate.low, estimate.high
    assert low is not None
    assert high is not None
    return Estimate(estimate.value, max(low, least), min(high, most))


def _folds(rows: LabelledRows) -> IntegerArray:
    """The fold of each row: rows of every group and class are spread over all folds."""
    n = len(rows.values)
    shuffled = np.random.default_rng(0).permutation(n)
    kinds = rows.groups * len(rows.class_labels) + rows.classes
    order = shuffled[np.argsort(kinds[shuffled], kind="stable")]
    folds = np.empty(n, dtype=np.int64)
    folds[order] = np.arange(n) % N_FOLDS
    return folds


def _refused(received: str, allowed: str) -> InvalidInput:
    return InvalidInput(received, f"Allowed: {allowed}", "Leave out the labels")
