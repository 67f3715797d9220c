"""Leakage: how well a linear classifier tells the groups apart in a representation."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidInput, UnknownGroup
from fairspan.metrics.columns import coded_groups
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.frames import FrameRows, frame_of
from fairspan.rows.groups import Label, listed

FloatArray = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

# Tight enough that the answer does not hang on where the solver stopped. It took at most 103
# iterations on random rows from 5 x 5 to 20 000 x 40 and 200 x 1000.
_TOLERANCE = 1e-8
_MOST_ITERATIONS = 100_000


def leakage(Z_train: Any, g_train: Any, Z_test: Any, g_test: Any) -> float:
    """How far a linear classifier of the group sets the groups apart on held-out rows.

    Delta(F_Lin) = max over thresholds t of abs(P(s(z) <= t | a) - P(s(z) <= t | b)), where s is
    the score of a linear classifier trained to tell group a from group b (Olfat and Aswani 2019;
    Vu et al. 2022, Table 4): the Kolmogorov-Smirnov statistic of the groups' scores. With more
    than two groups, each is told from all the others, and the largest counts. Zero says that no
    threshold on this score treats the groups differently, one that the groups are separated. By
    chance alone it is about 1 / sqrt(rows) of the smaller held-out group.

    Parameters
    ----------
    Z_train : (n, d) array or data frame
        A representation of the training rows, such as ``model.transform(X_train)``.
    g_train : (n,) or (n, a) array-like or data frame, or mapping of name to column
        Group of each training row; several attributes make their intersections.
    Z_test : (t, d) array or data frame
        Held-out rows; columns of frames are matched by name.
    g_test : as g_train, for the held-out rows

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

    Notes
    -----
    The classifier is scikit-learn's LinearSVC (squared hinge loss, C = 1, all rows of equal
    weight) on columns standardised by the mean and deviation (ddof 0) of the training rows.

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
    train, names = _rows(Z_train, None)
    test, _ = _rows(Z_test, names)
    if train.shape[1] != test.shape[1]:
        raise InvalidInput(
            f"Z_train has {train.shape[1]} columns, Z_test {test.shape[1]}",
            "Allowed is the same representation of both",
            "Transform both with the same fitted model",
        )
    groups, train_codes = coded_groups(g_train, Z_train, len(train), ("Z_train", "g_train"))
    held_out, test_codes = coded_groups(g_test, Z_test, len(test), ("Z_test", "g_test"))
    _check_groups(groups, held_out)
    mean, scale = train.mean(axis=0), train.std(axis=0)
    # A constant column may differ from its mean by rounding; that is not variance.
    rounding = 10 * np.finfo(np.float64).eps * np.abs(mean)
    scale = np.where(scale > rounding, scale, np.inf)
    train, test = (train - mean) / scale, (test - mean) / scale
    # Telling the second of two groups from the first is the same classifier, negated.
    told = range(len(groups)) if len(groups) > 2 else range(1)
    return max(_gap(train, train_codes == g, test, test_codes == g) for g in told)


def _gap(
    train: FloatArray, is_member: npt.NDArray[np.bool_], test: FloatArray, is_held: Any
) -> float:
    # Imported here: scikit-learn takes seconds to load, and only this figure needs it.
    from sklearn.svm import LinearSVC

    classifier = LinearSVC(
        dual="auto", tol=_TOLERANCE, max_iter=_MOST_ITERATIONS, random_state=0
    ).fit(train, is_member)
    scores = classifier.decision_function(test)
    return _largest_gap(scores[is_held], scores[~is_held])


def _largest_gap(a: FloatArray, b: FloatArray) -> float:
    """Largest gap between two empirical distribution functions (Kolmogorov-Smirnov)."""
    thresholds = np.concatenate([a, b])
    below_a = np.searchsorted(np.sort(a), thresholds, side="right") / len(a)
    below_b = np.searchsorted(np.sort(b), thresholds, side="right") / len(b)
    return float(np.abs(below_a - below_b).max())


def _rows(Z: Any, names: tuple[str, ...] | None) -> tuple[FloatArray, tuple[str, ...] | None]:
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
            f"All rows of g_train belong to one group, {groups[0]!r}",
            "Allowed are two groups or more",
            "Check the group column, or the filter that made these rows",
        )
    unknown = [label for label in held_out if label not in groups]
    if unknown:
        raise UnknownGroup(
            f"g_test holds {listed(unknown)}, without rows in g_train",
            f"Known groups are {listed(groups)}",
            "Split the rows so that each group is in both parts",
        )
    missing = [label for label in groups if label not in held_out]
    if missing:
        raise InvalidInput(
            f"g_test holds no rows of {listed(missing)}",
            "Allowed are held-out rows of every group",
            "Split the rows so that each group is in both parts",
        )
