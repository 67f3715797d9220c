"""Where rows come from: each adapter turns one kind of data into the same checked blocks."""

from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.exceptions import DuplicateError

from fairspan.errors import InvalidInput
from fairspan.moments.sources.arrays import ArrayRows
from fairspan.moments.sources.frames import FrameRows
from fairspan.moments.sources.labels import Labels, check_index, labels_of, named_columns
from fairspan.moments.sources.protocol import RowBlock, RowSource

__all__ = [
    "Labels",
    "RowBlock",
    "RowSource",
    "frame_of",
    "named_columns",
    "rows_of",
    "without_columns",
]


def rows_of(X: Any, sensitive_features: Any, sample_weight: Any = None) -> RowSource:
    """Choose the adapter for `X` and join it with labels and weights.

    Parameters
    ----------
    X : array, data frame or RowSource
        A RowSource is returned as it is; it brings its own labels and weights.
    sensitive_features : array-like, data frame, or column name(s) of X
    sample_weight : (n,) array-like, optional

    Returns
    -------
    RowSource

    Raises
    ------
    InvalidInput
        No labels, a missing column, lengths that differ, no rows or no features.
    """
    if isinstance(X, RowSource):
        return X
    if sensitive_features is None:
        raise InvalidInput(
            "sensitive_features is missing",
            "Allowed are one group label for each row, or the name of a column of X",
            "Pass sensitive_features=...; for ordinary PCA without groups say "
            'FairPCA(missing_groups="ignore")',
        )
    check_index(X, sample_weight, "sample_weight")
    frame = frame_of(X)
    if frame is None:
        rows = ArrayRows(X)
        labels = labels_of(sensitive_features, rows.n_rows, X)
        return rows.joined(labels, sample_weight)
    names = named_columns(frame, sensitive_features)
    features = FrameRows(frame.drop(names))
    if names:
        features = replace(features, set_aside=frame.select(names))
        labels = Labels.of_columns(frame, names)
    else:
        labels = labels_of(sensitive_features, len(frame), X)
    return features.joined(labels, sample_weight)


def frame_of(X: Any) -> nw.DataFrame[Any] | None:
    """X as a narwhals frame if it is a data frame that holds its rows; None otherwise.

    Raises
    ------
    InvalidInput
        Two columns of the same name.
    """
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except DuplicateError as error:
        raise InvalidInput(
            f"Several columns of X have the same name ({' '.join(str(error).split())})",
            "Allowed are columns of different names",
            "Rename them",
        ) from error
    return frame if isinstance(frame, nw.DataFrame) else None


def without_columns(X: Any, names: tuple[str, ...]) -> Any:
    """Drop these columns from a data frame where present; anything else is returned as it is."""
    frame = frame_of(X)
    if frame is None or not names:
        return X
    return frame.drop([name for name in names if name in frame.columns]).to_native()
