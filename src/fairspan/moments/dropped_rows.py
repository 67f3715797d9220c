"""Errors and warnings about rows dropped because of missing values."""

from collections.abc import Collection, Sequence

import numpy as np

from fairspan.errors import Cause, InvalidInput, warn
from fairspan.formatting.messages import counted
from fairspan.moments.base_moments import describe_dropped_rows
from fairspan.rows.aggregation import Rows
from fairspan.rows.labels import Label, quoted_group
from fairspan.rows.missing import MissingCounts, count_missing
from fairspan.typing import IntegerArray

# Largest numbers of columns and groups that a message names.
_MAX_NAMED_COLUMNS = 3
_MAX_NAMED_GROUPS = 5


def no_rows_error(n_dropped: int) -> InvalidInput:
    """Build the error for no rows of positive weight."""
    return InvalidInput(
        f"There are no rows{describe_dropped_rows(n_dropped, ' ({})')}",
        "Allowed: at least one row with positive weight",
        "Check the file, the filter or the weights",
    )


def no_complete_rows_error(rows: Rows, n_dropped: int) -> InvalidInput:
    """Build the error for rows that were all dropped, which names the columns at fault.

    These are the columns without any value, else those with most missing values. If no row was
    dropped, the table has no row of positive weight, and the error says only that.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        The rows, which are read once more.
    n_dropped : int
        Number of rows dropped because of missing values.
    """
    if not n_dropped:
        return no_rows_error(n_dropped)
    missing = count_missing(rows)
    counts = missing.n_missing.sum(axis=0)
    n_labeled = int(missing.n_rows.sum())  # rows with a group
    names = _column_names(rows)
    empty = []
    if n_labeled:
        empty = [name for name, n in zip(names, counts.tolist(), strict=True) if n == n_labeled]
    reasons = []
    columns = "the columns with most missing values"
    if empty:
        columns = _list_columns(empty)
        verb = "has" if len(empty) == 1 else "have"
        reasons.append(f"{columns} {verb} no value in any row")
    elif n_labeled:
        reasons.append(f"values are missing in {_missing_by_column(names, counts)}")
    if missing.n_without_group:
        reasons.append(f"{counted(missing.n_without_group, 'row')} without a group")
    received = f"There are no rows{describe_dropped_rows(n_dropped, ' ({})')}: {'; '.join(reasons)}"
    allowed = "Allowed: at least one row with a group and without missing values"
    if not n_labeled:
        return InvalidInput(received, allowed, "Check the group column")
    return InvalidInput(
        received, allowed, f"Exclude {columns}", cause=Cause.EMPTY_COLUMN, columns=columns
    )


def warn_of_lost_groups(rows: Rows, lost: Collection[Label] | None = None) -> None:
    """Warn of groups of which every row was dropped, and of the columns at fault.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        The rows, which are read once more.
    lost : collection of labels, optional
        Groups of which every row was dropped; by default, found by counting the rows.
    """
    missing = count_missing(rows)
    if lost is None:
        all_dropped = np.flatnonzero(missing.n_dropped == missing.n_rows).tolist()
        lost = [missing.groups[group] for group in all_dropped]
    indices = [index for index, label in enumerate(missing.groups) if label in lost]
    if not indices:
        return
    names = _column_names(rows)
    phrases = [_describe_lost_group(missing, i, names) for i in indices[:_MAX_NAMED_GROUPS]]
    if len(indices) > _MAX_NAMED_GROUPS:
        phrases.append(f"{len(indices) - _MAX_NAMED_GROUPS} more groups")
    warn(
        f"Dropping rows with missing values removes {', '.join(phrases)}. Exclude these columns "
        "to keep the rows."
    )


def _describe_lost_group(missing: MissingCounts, group: int, names: Sequence[str]) -> str:
    n = int(missing.n_rows[group])
    rows = "the only row" if n == 1 else f"all {n:,} rows"
    columns = _missing_by_column(names, missing.n_missing[group])
    return f"{rows} of group {quoted_group(missing.groups[group])} (missing: {columns})"


def _missing_by_column(names: Sequence[str], counts: IntegerArray) -> str:
    """Return the columns with most missing values, and the number of rows without each."""
    order = [j for j in np.argsort(-counts, kind="stable").tolist() if counts[j]]
    shown = [f"{names[j]} in {counted(int(counts[j]), 'row')}" for j in order[:_MAX_NAMED_COLUMNS]]
    return ", ".join(shown) + _and_more(len(order))


def _list_columns(names: Sequence[str]) -> str:
    noun = "column" if len(names) == 1 else "columns"
    return f"{noun} {', '.join(names[:_MAX_NAMED_COLUMNS])}{_and_more(len(names))}"


def _and_more(n_columns: int) -> str:
    n_more = n_columns - _MAX_NAMED_COLUMNS
    return f" and {n_more} more" if n_more > 0 else ""


def _column_names(rows: Rows) -> list[str]:
    names = rows.feature_names
    if names is None:
        return [f"x{j}" for j in range(rows.n_features)]
    return [repr(name) for name in names]
