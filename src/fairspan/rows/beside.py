"""What is known of rows beside their groups: their class in y, and the cluster they belong to.

Both travel as further columns of the labels, the cluster last, so that every source
reads them as it reads groups.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fairspan.errors import InvalidInput
from fairspan.rows.arrays import RowsInMemory
from fairspan.rows.checks import check_columns
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.frames import frame_of
from fairspan.rows.groups import listed
from fairspan.rows.labels import Everyone, Labels, labels_of
from fairspan.rows.protocol import OnMissing, Rows
from fairspan.rows.registry import is_opened, rows_of


def rows_beside(
    X: Any,
    sensitive_features: Any,
    beside: Mapping[str, Any],
    sample_weight: Any = None,
    on_missing: OnMissing = "error",
) -> Rows:
    """Open the rows of `X` with labels whose last columns are what is known beside the groups.

    Parameters
    ----------
    X : table, as :func:`fairspan.rows.registry.rows_of` takes it
    sensitive_features : array-like, data frame, or column name(s) of X
    beside : mapping of name to (n,) array-like, column name of X, or None
        What it is called in messages, in the order of the columns; what is None is left out.
    sample_weight : (n,) array-like, or column name of X, optional
    on_missing : {"error", "drop"}

    Raises
    ------
    InvalidInput
        A column that is not there, lengths that differ, or values beside rows that are not in
        memory.
    """
    known = {name: values for name, values in beside.items() if values is not None}
    if known and is_opened(X):
        raise InvalidInput(
            f"X is rows already opened, and {listed(list(known))} was given beside them",
            "Allowed: opened rows alone",
            "Pass the table itself, with the names of its columns",
        )
    if not known or sensitive_features is None or isinstance(sensitive_features, Everyone):
        return rows_of(X, sensitive_features, sample_weight, on_missing)
    columns = [values for values in known.values() if isinstance(values, str)]
    frame = frame_of(X)
    groups = [sensitive_features] if isinstance(sensitive_features, str) else sensitive_features
    all_named = len(columns) == len(known)
    if all_named and (frame is None or _are_names(groups, frame.columns)):
        return rows_of(X, [*groups, *columns], sample_weight, on_missing)
    table = X
    if frame is not None and columns:
        check_columns(columns, frame.columns)
        table = frame.drop(columns).to_native()
    opened = rows_of(table, sensitive_features, sample_weight, on_missing)
    if not isinstance(opened, RowsInMemory):
        name = next(name for name, values in known.items() if not isinstance(values, str))
        raise InvalidInput(
            f"{name} holds values, but the rows are not in memory",
            "Allowed with such rows: the name of a column",
            f"Name the column of the {name}",
        )
    assert opened.labels is not None
    crossed = [opened.labels]
    for name, values in known.items():
        if isinstance(values, str):
            assert frame is not None
            crossed.append(Labels.of_series(frame[values]))
        else:
            crossed.append(labels_of(values, opened.n_rows, X, name))

    def between(start: int, stop: int) -> CodedLabels:
        labels = CodedLabels.crossed([each.between(start, stop) for each in crossed])
        return CodedLabels(list(map(_side_by_side, labels.distinct)), labels.codes)

    return replace(opened, labels=Labels(opened.labels.n_rows, between, opened.labels.names))


def _side_by_side(label: tuple[Any, ...]) -> tuple[Any, ...]:
    """Attributes of the group, and what is beside them, in one tuple."""
    group, *others = label
    return (*(group if isinstance(group, tuple) else (group,)), *others)


def _are_names(groups: Any, columns: list[str]) -> bool:
    return isinstance(groups, list | tuple) and all(
        isinstance(each, str) and each in columns for each in groups
    )
