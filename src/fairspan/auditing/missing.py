"""Findings about the rows of a table: what is missing in them, and whether they are independent."""

from collections.abc import Iterator, Sequence

import numpy as np

from fairspan.auditing.findings import seen
from fairspan.auditing.first_rows import FirstRows
from fairspan.auditing.results import (
    Finding,
    MissingColumn,
    MissingValues,
    group_name,
    quoted,
)
from fairspan.formatting.table import Cell, Column, Table, names_column, shares_column
from fairspan.formatting.text import count, first_of, in_ascii, share, whole
from fairspan.moments.of_rows import Moments
from fairspan.rows.groups import Label
from fairspan.rows.missing import MissingCells

# Shares of a group's rows that are told apart, and from which most of what is said of it is of
# other rows than those of the table.
_DIFFERS, _MUCH = 0.1, 0.3
# Standard errors beyond which neighbouring rows are alike, and a share of copies that is no chance.
_SURELY, _MANY_COPIES = 4.0, 0.1
# Features that the table shows.
_MOST_SHOWN = 4


def table_of_missing(missing: MissingValues) -> Table:
    """Rows that were left out of each group, and shares of missing values."""
    shown = missing.columns[:_MOST_SHOWN]
    n_more = len(missing.columns) - len(shown)
    more = f" {count(n_more, 'feature')} more with missing values." if n_more else ""
    without = f" Left out without a group: {count(missing.n_unlabelled, 'row')}."
    return Table(
        f"Missing values, as shares of each group's rows. {missing.most_costly}{in_ascii(more)}"
        f"{in_ascii(without) if missing.n_unlabelled else ''}".strip(),
        (
            names_column("group", [group_name(group) for group in missing.groups]),
            Column("rows", [Cell(whole(n), n) for n in missing.rows]),
            shares_column("left out", missing.dropped_shares),
            *(
                shares_column(f"{each.name}{', filled in' if each.is_filled else ''}", each.shares)
                for each in shown
            ),
        ),
    )


def missing_values(
    cells: MissingCells | None, first: FirstRows | None, moments: Moments, names: Sequence[str]
) -> MissingValues | None:
    """What is missing, or was filled in; None where nothing was.

    Parameters
    ----------
    cells : MissingCells or None
        None where no row was left out.
    first : FirstRows or None
    moments : Moments
        Of the rows that were not left out.
    names : sequence of p str
    """
    groups: tuple[Label, ...] = tuple(moments.labels) if cells is None else cells.groups
    columns = []
    if cells is not None:
        shares = cells.cells / np.maximum(cells.rows, 1)[:, None]
        columns = [
            MissingColumn(names[j], False, tuple(shares[:, j].tolist()), int(cells.alone[j]))
            for j in np.flatnonzero(cells.cells.any(axis=0)).tolist()
        ]
    if first is not None:
        place = {label: position for position, label in enumerate(moments.labels)}
        at_mean = np.array(
            [
                first.at_mean[place[group]] if group in place else np.zeros(len(names))
                for group in groups
            ]
        )
        columns += [
            MissingColumn(names[j], True, tuple(at_mean[:, j].tolist()))
            for j in np.flatnonzero((at_mean > _DIFFERS).any(axis=0)).tolist()
        ]
    if cells is None and not columns:
        return None
    columns.sort(key=lambda each: -max(each.shares))
    rows = moments.counts if cells is None else cells.rows
    dropped = np.zeros_like(rows) if cells is None else cells.dropped
    return MissingValues(
        groups,
        tuple(rows.tolist()),
        tuple(dropped.tolist()),
        0 if cells is None else cells.n_unlabelled,
        tuple(columns),
    )


def find_in_rows(missing: MissingValues | None, first: FirstRows | None) -> Iterator[Finding]:
    """Apply every rule about what is missing, and about rows that depend on each other."""
    if missing is not None:
        yield from _uneven(missing)
        yield from _much(missing)
    if first is not None:
        yield from _clusters(first)


def _uneven(missing: MissingValues) -> Iterator[Finding]:
    """FS407: features that are missing in some groups more than in others, or in many rows."""
    found = [
        each
        for each in missing.columns
        if max(each.shares) - min(each.shares) > _DIFFERS or max(each.shares) > _MUCH
    ]
    if found:
        told = [
            f"{quoted(each.name)} ({_of_groups(missing.groups, each.shares)}"
            f"{', which hold exactly its mean' if each.is_filled else ''})"
            for each in found
        ]
        yield seen(
            "FS407",
            f"Values are missing, or were filled in, in many rows, or in some groups more than in "
            f"others: {first_of(told)}. What is found is then of other rows than those of the "
            "table. Compare the rows with and without these values.",
            columns=tuple(each.name for each in found),
        )


def _of_groups(groups: Sequence[Label], shares: Sequence[float]) -> str:
    """The smallest and the largest of some shares, and whose they are."""
    low, high = int(np.argmin(shares)), int(np.argmax(shares))
    most = f"{in_ascii(share(shares[high]))} of {quoted(groups[high])}"
    return (
        most if low == high else f"{in_ascii(share(shares[low]))} of {quoted(groups[low])}, {most}"
    )


def _much(missing: MissingValues) -> Iterator[Finding]:
    """FS408: groups of which much is left out, or of which a feature is mostly filled in."""
    largest = np.array([each.shares for each in missing.columns if each.is_filled])
    filled = largest.max(axis=0) if len(largest) else np.zeros(len(missing.groups))
    shares = np.maximum(filled, missing.dropped_shares)
    found = np.flatnonzero(shares > _MUCH).tolist()
    if found:
        told = [f"{quoted(missing.groups[i])} ({in_ascii(share(shares[i]))})" for i in found]
        yield seen(
            "FS408",
            f"More than 30 % of the rows are left out, or filled in, of {first_of(told)}. "
            f"{missing.most_costly} Leave such features out (--exclude), or say what the figures "
            "are of.".replace("  ", " "),
            groups=[missing.groups[i] for i in found],
        )


def _clusters(first: FirstRows) -> Iterator[Finding]:
    """FS409, FS410: rows that belong together, as far as columns or the order of rows tell."""
    for name, n_values, alike in first.clusters:
        yield seen(
            "FS409",
            f"Rows of one value of {quoted(name)} ({n_values:,} values) have errors that are far "
            f"more alike than those of others (intraclass correlation {alike:.2f}). If they belong "
            f"together, such as those of one person or place, intervals are far too short: name "
            f"the column, clusters={name!r} (--clusters {name}).",
            columns=(name,),
        )
    largest = float(np.max(first.neighbours))
    equal = "equals" if first.n_copies == 1 else "equal"
    copies = f"{in_ascii(count(first.n_copies, 'row'))} of {first.n:,} {equal} an earlier one"
    if not first.clusters and largest > _SURELY:
        yield seen(
            "FS410",
            f"Neighbouring rows are alike ({largest:.0f} standard errors), and {copies}. Is the "
            "table sorted, or do neighbouring rows belong together, such as those of one person or "
            "of consecutive times? Then intervals are too short without clusters= (--clusters).",
        )
    elif first.n_copies > _MANY_COPIES * first.n:
        yield seen(
            "FS410",
            f"{copies[0].upper()}{copies[1:]} in every feature. Is the table put together from "
            "parts that overlap, or were rows drawn with replacement? Then intervals are too short "
            "without clusters= (--clusters).",
        )
