"""Rows that belong together, such as those of one person: their cluster, beside their group."""

from dataclasses import replace
from typing import Any

from fairspan.errors import InvalidInput
from fairspan.rows.arrays import RowsInMemory
from fairspan.rows.checks import check_columns
from fairspan.rows.frames import frame_of
from fairspan.rows.groups import CodedLabels
from fairspan.rows.labels import Labels, labels_of
from fairspan.rows.protocol import Rows
from fairspan.rows.registry import rows_of


def rows_with_clusters(
    X: Any, sensitive_features: Any, clusters: Any, sample_weight: Any = None
) -> Rows:
    """Open the rows of `X` with labels whose last column is the cluster.

    Parameters
    ----------
    X : table, as :func:`fairspan.rows.registry.rows_of` takes it
    sensitive_features : array-like, data frame, or column name(s) of X
    clusters : (n,) array-like, or column name of X
    sample_weight : (n,) array-like, or column name of X, optional

    Raises
    ------
    InvalidInput
        A column that is not there, lengths that differ, or clusters beside rows that are not in
        memory.
    """
    if isinstance(clusters, str):
        if isinstance(sensitive_features, str):
            return rows_of(X, [sensitive_features, clusters], sample_weight)
        frame = frame_of(X)
        if frame is None:
            return rows_of(X, [*sensitive_features, clusters], sample_weight)
        check_columns([clusters], frame.columns)
        beside = Labels.of_series(frame[clusters])
        opened = rows_of(frame.drop([clusters]).to_native(), sensitive_features, sample_weight)
    else:
        opened = rows_of(X, sensitive_features, sample_weight)
        if not isinstance(opened, RowsInMemory):
            raise InvalidInput(
                "clusters holds values, but the rows are not in memory",
                "Allowed beside such rows is the name of a column",
                "Name the column of the clusters",
            )
        beside = labels_of(clusters, opened.n_rows, X)
    assert isinstance(opened, RowsInMemory)
    assert opened.labels is not None
    groups = opened.labels

    def between(start: int, stop: int) -> CodedLabels:
        return CodedLabels.crossed([groups.between(start, stop), beside.between(start, stop)])

    return replace(opened, labels=Labels(groups.n_rows, between, groups.names))
