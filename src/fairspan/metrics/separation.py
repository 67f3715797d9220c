"""Leakage: how well a linear classifier separates the groups in a representation."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, InvalidType, UnknownGroup, warn
from fairspan.metrics.columns import coded_groups
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.frames import FrameRows, frame_of
from fairspan.rows.groups import Label, listed
from fairspan.typing import BoolArray, FloatArray

# Tight enough that the answer does not hang on where the solver stopped. It took at most 103
# iterations on random rows from 5 x 5 to 20 000 x 40 and 200 x 1000.
_TOLERANCE = 1e-8
_MOST_ITERATIONS = 100_000


def leakage(
    Z_train: Any,
    sensitive_features_train: Any,
    Z_test: Any,
    sensitive_features_test: Any,
    *,
    classifier: Any = None,
) -> float:
    """Measure how well a classifier separates the groups on held-out rows.

    Delta(F_Lin) = max over thresholds t of abs(P(s(z) <= t | a) - P(s(z) <= t | b)), where s is
    the score of a linear classifier trained to separate group a from group b (Olfat and Aswani
    2019; Vu et al. 2022, Table 4): the Kolmogorov-Smirnov statistic of the groups' scores. With
    more than two groups, each is separated from all others, and the largest value is returned.
    Zero says that no threshold on this score treats the groups differently, one that the groups
    are separated. By chance alone it is about 1 / sqrt(rows) of the smaller held-out group.

    Parameters
    ----------
    Z_train : (n, d) array or data frame
        A representation of the training rows, such as ``model.transform(X_train)``.
    sensitive_features_train : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Group of each training row; several attributes make their intersections.
    Z_test : (t, d) array or data frame
        Held-out rows; columns of frames are matched by name.
    sensitive_features_test : as sensitive_features_train, for the held-out rows
    classifier : scikit-learn classifier, optional
        A classifier of the groups, used by its `decision_function`, or else its `predict_proba`.
        It is cloned, not fitted itself. The default is linear, see the notes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    InvalidInput
        One group only, a group without held-out rows, lengths or numbers of columns that differ,
        NaN or infinity, missing labels.
    UnknownGroup
        A held-out group without training rows.
    InvalidType
        A classifier without scores.

    Notes
    -----
    The default classifier is scikit-learn's LinearSVC (squared hinge loss, C = 1, all rows of equal
    weight). Every classifier is shown columns that are standardised by the mean and deviation
    (ddof 0) of the training rows. Columns that do not vary there are left out, with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import metrics
    >>> Z = np.array([[0.0, 1], [1, 0], [0, 2], [9, 1], [8, 0], [9, 2]])
    >>> groups = ["a", "a", "a", "b", "b", "b"]
    >>> metrics.leakage(Z, groups, Z, groups)
    1.0
    >>> metrics.leakage(Z[:, 1:], groups, Z[:, 1:], groups)
    0.0
    """
    train, names = rows_and_names(Z_train, None)
    test, _ = rows_and_names(Z_test, names)
    if train.shape[1] != test.shape[1]:
        raise InvalidInput(
            f"Z_train has {train.shape[1]} columns, Z_test {test.shape[1]}",
            "Allowed: the same representation of both",
            "Transform both with the same fitted model",
        )
    groups, train_codes = coded_groups(
        sensitive_features_train, Z_train, len(train), ("Z_train", "sensitive_features_train")
    )
    held_out, test_codes = coded_groups(
        sensitive_features_test, Z_test, len(test), ("Z_test", "sensitive_features_test")
    )
    _check_groups(groups, held_out)
    mean, scale = train.mean(axis=0), train.std(axis=0)
    # A constant column may differ from its mean by rounding; that is not variance.
    rounding = 10 * np.finfo(np.float64).eps * np.abs(mean)
    scale = np.where(scale > rounding, scale, np.inf)
    if np.isinf(scale).any():
        constant = [names[j] if names else int(j) for j in np.flatnonzero(np.isinf(scale))]
        warn(f"leakage leaves out column(s) {listed(constant)} of Z_train, which do not vary.")
    train, test = (train - mean) / scale, (test - mean) / scale
    # Telling the second of two groups from the first is the same classifier, negated.
    told = range(len(groups)) if len(groups) > 2 else range(1)
    score = _scorer(classifier)
    largest = 0.0
    for group in told:
        scores = score(train, train_codes == group, test)
        is_held = test_codes == group
        largest = max(largest, _largest_gap(scores[is_held], scores[~is_held]))
    return largest


def _scorer(
    classifier: Any,
) -> Callable[[FloatArray, BoolArray, FloatArray], FloatArray]:
    """What fits a clone of the classifier and scores held-out rows."""
    # Imported here: scikit-learn takes seconds to load, and only this figure needs it.
    from sklearn.base import clone
    from sklearn.svm import LinearSVC

    if classifier is None:
        classifier = LinearSVC(
            dual="auto", tol=_TOLERANCE, max_iter=_MOST_ITERATIONS, random_state=0
        )
    elif not (hasattr(classifier, "decision_function") or hasattr(classifier, "predict_proba")):
        raise InvalidType(
            f"classifier is {classifier!r}",
            "Allowed: a scikit-learn classifier with decision_function or predict_proba",
            "Leave it out for a linear one",
        )

    def score(train: FloatArray, is_member: BoolArray, test: FloatArray) -> FloatArray:
        fitted = clone(classifier).fit(train, is_member)
        if hasattr(fitted, "decision_function"):
            return np.asarray(fitted.decision_function(test))
        return np.asarray(fitted.predict_proba(test)[:, 1])

    return score


def _largest_gap(a: FloatArray, b: FloatArray) -> float:
    """Largest gap between two empirical distribution functions (Kolmogorov-Smirnov)."""
    thresholds = np.concatenate([a, b])
    below_a = np.searchsorted(np.sort(a), thresholds, side="right") / len(a)
    below_b = np.searchsorted(np.sort(b), thresholds, side="right") / len(b)
    return float(np.abs(below_a - below_b).max())


def rows_and_names(
    Z: Any, names: tuple[str, ...] | None
) -> tuple[FloatArray, tuple[str, ...] | None]:
    """Rows of an array, or of a frame with its names; with these names where some are given."""
    frame = frame_of(Z)
    if frame is None:
        return ArrayRows(Z).values(), None
    rows = FrameRows(frame)
    if names is not None and rows.feature_names is not None:
        rows = rows.selected(names)
    return rows.values(), rows.feature_names


def _check_groups(groups: tuple[Label, ...], held_out: tuple[Label, ...]) -> None:
    if len(groups) < 2:
        raise InvalidInput(
            f"All rows of sensitive_features_train belong to one group, {groups[0]!r}",
            "Allowed: two groups or more",
            "Check the group column, or the filter that made these rows",
        )
    unknown = [label for label in held_out if label not in groups]
    if unknown:
        raise UnknownGroup(
            f"sensitive_features_test holds {listed(unknown)}, without rows to train on",
            f"Known groups are {listed(groups)}",
            "Split the rows so that each group is in both parts",
        )
    missing = [label for label in groups if label not in held_out]
    if missing:
        raise InvalidInput(
            f"sensitive_features_test holds no rows of {listed(missing)}",
            "Allowed: held-out rows of every group",
            "Split the rows so that each group is in both parts",
        )
