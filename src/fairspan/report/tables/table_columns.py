"""Columns that several tables of a report share."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isnan
from typing import Any

import numpy as np

from fairspan.auditing.estimates import State
from fairspan.auditing.results import GroupResult
from fairspan.certificates.status import shown_status
from fairspan.formatting.names import describe_tied, format_parameters
from fairspan.formatting.numbers import (
    change_decimals,
    common_decimals,
    format_integer,
    format_number,
    format_share,
    share_with_change,
)
from fairspan.formatting.table import Cell, Column, Table, name_column, number_column, share_column
from fairspan.linalg.rounding import LOOSE_TOL
from fairspan.problem.part_parameters import reported_parameters
from fairspan.report.report import Report

INCONCLUSIVE: State = "inconclusive"


def tied_maxima(values: Sequence[float]) -> list[int]:
    """Return the indices of the largest values, including ties up to the tolerance of a fit.

    Examples
    --------
    >>> tied_maxima([0.2, 0.5, 0.1, 0.5000000001])
    [1, 3]
    """
    # Values that a fit equalized agree to its tolerance, and no table shows so many digits.
    largest = max(values)
    return [i for i, value in enumerate(values) if value >= largest - LOOSE_TOL * abs(largest)]


def record_values(records: Sequence[dict[str, Any]], name: str) -> list[Any]:
    """Return one value of every record."""
    return [record[name] for record in records]


def secondary(column: Column) -> Column:
    """Return the column marked as secondary, which is shown smaller."""
    return replace(column, is_secondary=True)


def groups_column(report: Report, total: str = "") -> Column:
    """Return the column of group names."""
    return name_column("group", report.group_names, total)


def counts_column(heading: str, values: Sequence[int]) -> Column:
    """Return a column of counts."""
    return Column(heading, [Cell(format_integer(n), n) for n in values])


def models_table(report: Report, *columns: Column, is_expected: bool = False) -> Table:
    """Table of all models: criterion, the given columns, cost in total error, and status.

    The cost is the one expected on new rows if `is_expected`; unknown costs are dashes.
    """
    errors = [model.observed_total_error_share for model in report.audit.models]
    if is_expected:
        errors = [model.expected_total_error_share for model in report.audit.models]
    # Each cell shows the change from PCA, is sorted by it, and has the share that is lost below.
    costs = []
    decimals = change_decimals(errors[0], errors)
    for error in errors:
        if isnan(error - errors[0]):
            costs.append(Cell(format_number(None), None))
            continue
        lost, change = share_with_change(errors[0], error, decimals)
        costs.append(Cell(change, error - errors[0], f"{lost} lost"))
    return Table(
        "Ordinary PCA and fair criteria",
        (
            criteria_column(report, with_description=True),
            *columns,
            Column("change in error over all rows", costs),
            statuses_column(report),
        ),
        highlighted_row=report.main_index,
    )


def criteria_column(report: Report, *, with_description: bool = False) -> Column:
    """Column of model names with parameters that the names do not already contain.

    `with_description` adds a line below each name that says what the criterion minimizes.
    """
    cells = []
    for fit in report.fits:
        certificate = fit.certificate
        parameters = format_parameters(
            reported_parameters(certificate.criterion, certificate.groups)
        )
        name = fit.name
        # A name with parentheses already contains the parameters, since two models share it.
        if parameters and "(" not in name:
            name = f"{name} ({parameters})"
        description = fit.problem.criterion.formula.summary if with_description else ""
        cells.append(Cell(name, sort_value=fit.name, detail=description))
    return Column("criterion", cells, is_text=True)


def statuses_column(report: Report) -> Column:
    """Column of statuses."""
    certificates = [fit.certificate for fit in report.fits]
    cells = [
        Cell(shown_status(certificate.status_text), str(certificate.status))
        for certificate in certificates
    ]
    return Column("status", cells, is_text=True)


def expected_kept(group: GroupResult) -> float | None:
    """Return the share of a group's variance that is kept on new rows; None if it is unknown."""
    kept = 1 - group.expected_error_share.value
    return None if isnan(kept) else kept


def kept_columns(report: Report, *, is_expected: bool = False) -> list[Column]:
    """Columns of the variance kept: both groups if there are two, else the smallest value.

    The smallest value is followed by a column with the name of its group. A group without variance
    has no value. It is the variance kept on new rows if `is_expected`, and that of the audited rows
    otherwise.
    """
    kept = np.array(  # one row per model, one column per group
        [[group.observed_variance_kept for group in model.groups] for model in report.audit.models]
    )
    if is_expected:
        errors = [
            [group.expected_error_share.value for group in model.groups]
            for model in report.audit.models
        ]
        kept = 1 - np.array(errors)
    if len(report.group_names) == 2:
        return [
            replace(share_column("variance kept,", replace_nan_by_none(values)), group=name)
            for name, values in zip(report.group_names, kept.T, strict=True)
        ]
    is_finite = ~np.isnan(kept)
    smallest = np.where(is_finite, kept, np.inf).argmin(axis=1).tolist()
    names = []
    for i, g in enumerate(smallest):
        name = format_number(None)  # a dash: no group of this model has a value
        if is_finite[i, g]:
            name = report.group_names[g]
        names.append(name)
    values = replace_nan_by_none(kept[range(len(kept)), smallest])
    return [share_column("smallest variance kept", values), name_column("of", names)]


def replace_nan_by_none(values: Iterable[float]) -> list[float | None]:
    """Return the values with None in place of NaN."""
    return [None if np.isnan(value) else float(value) for value in values]


def group_or_largest_columns(
    report: Report, quantity: str, rows: Sequence[object], *, is_share: bool = False
) -> list[Column]:
    """Columns of a quantity: both groups if there are two, else the largest value and its groups.

    The two groups are compared with each other, so their columns have the same decimals.

    Parameters
    ----------
    report : Report
    quantity : str
        Name of the quantity in the headings.
    rows : sequence of sequences of k float
        Values of the groups in each row of the table.
    is_share : bool
        Whether they are shares, shown in per cent.
    """
    values = np.array(rows, dtype=np.float64)
    if len(report.group_names) == 2:
        decimals = common_decimals(values.ravel().tolist())
        columns = []
        for name, group_values in zip(report.group_names, values.T.tolist(), strict=True):
            cells = [
                Cell(format_share(x) if is_share else format_number(x, decimals), x)
                for x in group_values
            ]
            columns.append(Column(f"{quantity},", cells, name))
        return columns
    groups_with_largest = []
    for row in values.tolist():
        names = format_number(None)  # a dash: all values are zero
        if max(row) > 0:
            names = describe_tied(report.group_names, tied_maxima(row))
        groups_with_largest.append(names)
    make_column = share_column if is_share else number_column
    largest = make_column(f"largest {quantity}", values.max(axis=1).tolist())
    return [largest, name_column("of", groups_with_largest)]


def states_column(groups: Sequence[GroupResult | None]) -> Column:
    """Column of states with the reason if inconclusive."""
    cells = []
    for group in groups:
        if group is None:
            cells.append(Cell("not estimated"))
        else:
            attributes = {"data-state": group.state}
            cells.append(Cell(group.state, group.state, group.state_reason, attributes=attributes))
    return Column("state", cells, is_text=True)
