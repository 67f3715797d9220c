"""Errors and warnings about rows that were dropped since something is missing in them."""

from collections.abc import Collection, Sequence

import numpy as np

from fairspan.errors import Cause, InvalidInput, warn
from fairspan.moments.base import describe_dropped_rows
from fairspan.rows.groups import Label
from fairspan.rows.label_checks import quoted
from fairspan.rows.missing import MissingCounts, count_missing
from fairspan.rows.protocol import Rows
from fairspan.typing import IntegerArray

# Columns that a message names, and groups.
_MOST_COLUMNS = 3
_MOST_GROUPS = 5


def no_rows_error(n_dropped: int) -> InvalidInput:
    """Return the error to raise where no row is left, or none that counts."""
    return InvalidInput(
        f"There are no rows{describe_dropped_rows(n_dropped, ' ({})')}",
        "Allowed: at least one row of a weight above zero",
        "Check the file, the filter or the weights",
    )


def no_complete_rows(rows: Rows, n_dropped: int, n_beside: int = 0) -> InvalidInput:
    """Return the error to raise where every row was dropped, which names the columns at fault.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        They are read once more.
    n_dropped : int
    n_beside : int
        How many of the last columns of the labels do not make the groups.
    """
    if not n_dropped:
        return no_rows_error(0)
    found = count_missing(rows, n_beside)
    counts = found.n_missing.sum(axis=0)
    n_labelled = int(found.n_rows.sum())
    names = _names_of(rows)
    empty = [name for name, n in zip(names, counts.tolist(), strict=True) if n == n_labelled > 0]
    reasons = []
    columns = "the columns with most missing values"
    if empty:
        columns = _listed(empty)
        reasons.append(f"{columns} {'has' if len(empty) == 1 else 'have'} no value in any row")
    elif n_labelled:
        reasons.append(f"values are missing in {_counted(names, counts)}")
    if found.n_without_group:
        reasons.append(f"{_rows(found.n_without_group)} without a group")
    received = f"There are no rows{describe_dropped_rows(n_dropped, ' ({})')}: {'; '.join(reasons)}"
    allowed = "Allowed: at least one row with a group and without missing values"
    if not n_labelled:
        return InvalidInput(received, allowed, "Check the column of the groups")
    return InvalidInput(
        received, allowed, f"Leave out {columns}", cause=Cause.EMPTY_COLUMN, columns=columns
    )


def warn_of_lost_groups(
    rows: Rows, lost: Collection[Label] | None = None, n_beside: int = 0
) -> None:
    """Warn of groups of which every row was dropped, and of the columns at fault.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        They are read once more.
    lost : collection of labels, optional
        These groups; by default they are found.
    n_beside : int
        How many of the last columns of the labels do not make the groups.
    """
    found = count_missing(rows, n_beside)
    if lost is None:
        lost = [found.groups[i] for i in np.flatnonzero(found.n_dropped == found.n_rows).tolist()]
    places = [place for place, label in enumerate(found.groups) if label in lost]
    if not places:
        return
    described = [_lost_group(found, place, _names_of(rows)) for place in places[:_MOST_GROUPS]]
    if len(places) > _MOST_GROUPS:
        described.append(f"{len(places) - _MOST_GROUPS} more groups")
    warn(
        f"Dropping rows with missing values removes {', '.join(described)}. Leave these columns "
        "out to keep the rows."
    )


def _lost_group(found: MissingCounts, place: int, names: Sequence[str]) -> str:
    n = int(found.n_rows[place])
    every = "the only row" if n == 1 else f"all {n:,} rows"
    missing_in = _counted(names, found.n_missing[place])
    return f"{every} of group {quoted(found.groups[place])} (missing: {missing_in})"


def _counted(names: Sequence[str], counts: IntegerArray) -> str:
    """Return the columns with most missing values, and in how many rows they are missing."""
    order = [j for j in np.argsort(-counts, kind="stable").tolist() if counts[j]]
    shown = [f"{names[j]} in {_rows(int(counts[j]))}" for j in order[:_MOST_COLUMNS]]
    n_more = len(order) - len(shown)
    return ", ".join(shown) + (f" and {n_more} more" if n_more > 0 else "")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_COLUMNS])
    n_more = len(names) - _MOST_COLUMNS
    return f"column{'s' * (len(names) > 1)} {shown}" + (f" and {n_more} more" if n_more > 0 else "")


def _names_of(rows: Rows) -> list[str]:
    names = rows.feature_names
    if names is None:
        return [f"x{j}" for j in range(rows.n_features)]
    return [repr(name) for name in names]


def _rows(n: int) -> str:
    return f"{n:,} row{'s' * (n != 1)}"
