"""Tables of the estimates for new rows, in shares of the variance of each group."""

from collections.abc import Sequence

from fairspan.auditing.intervals import UNKNOWN, Estimate, none_if_nan
from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.formatting.numbers import (
    format_count,
    format_number,
    share_decimals,
    share_with_interval,
)
from fairspan.formatting.table import (
    Cell,
    Column,
    Table,
    name_column,
    row_count_column,
    share_column,
    share_estimate_column,
)
from fairspan.report.report import Report
from fairspan.report.shares import group_with_largest_loss
from fairspan.report.tables.table_columns import (
    expected_kept,
    groups_column,
    kept_columns,
    models_table,
    secondary,
    states_column,
)


def expected_pca_table(report: Report) -> Table:
    """Estimates for PCA by group, with the observed loss in a smaller column.

    The variance kept is what the error leaves of the variance, so that both add up.
    """
    model = report.pca
    materiality = report.audit.materiality
    observed_losses = [Estimate(group.observed_loss_share) for group in model.groups]
    return Table(
        f"PCA with {format_count(model.n_components, 'dimension')} on new rows",
        (
            groups_column(report),
            row_count_column(model.records),
            _shares_column(
                "loss", [group.expected_loss_share for group in model.groups], materiality
            ),
            states_column(model.groups),
            _shares_column("error", [group.expected_error_share for group in model.groups]),
            share_column("variance kept", [expected_kept(group) for group in model.groups]),
            secondary(_shares_column("observed loss", observed_losses, materiality)),
        ),
        muted_rows=tuple(i for i, group in enumerate(model.groups) if not group.is_estimated),
    )


def _shares_column(
    heading: str, shares: Sequence[Estimate], threshold: float | None = None
) -> Column:
    """Column of estimates in per cent; a dash where one is unknown.

    Losses have the materiality threshold, to which none is rounded.
    """
    return share_estimate_column(
        heading,
        [none_if_nan(share.value) for share in shares],
        [(share.low, share.high) for share in shares],
        threshold=threshold,
    )


def expected_criteria_table(report: Report) -> Table:
    """Estimates for each criterion: largest expected loss and its state, and variance kept.

    The state says whether that loss is material: "harmed", for example, or "inconclusive".
    """
    # One group per model, None for a model without estimates.
    worst_groups = [group_with_largest_loss(model) for model in report.audit.models]
    losses = [UNKNOWN if group is None else group.expected_loss_share for group in worst_groups]
    labels = [group.group for group in report.pca.groups]
    names = dict(zip(labels, report.group_names, strict=True))
    worst_names = [
        "not estimated" if group is None else names[group.group] for group in worst_groups
    ]
    return models_table(
        report,
        _shares_column("largest loss", losses, report.audit.materiality),
        name_column("of", worst_names),
        states_column(worst_groups),
        *kept_columns(report, is_expected=True),
        is_expected=True,
    )


def _expected_loss_cell(
    model: ModelResult, group: GroupResult, decimals: int, materiality: float
) -> Cell:
    """Return the expected loss of a group, with interval and state as details."""
    if not group.is_estimated:
        return Cell(format_number(None), None, _no_estimate_reason(model))
    loss = group.expected_loss_share
    value, interval = share_with_interval(
        none_if_nan(loss.value), loss.low, loss.high, decimals, materiality
    )
    return Cell(value, none_if_nan(loss.value), f"{interval}; {group.state}")


def expected_losses_table(report: Report) -> Table:
    """Return the table of expected losses with interval and state, by group and model.

    All values have the same decimals; groups without an estimate under any model are muted.
    """
    models = report.audit.models
    losses = [group.expected_loss_share for model in models for group in model.groups]
    decimals = share_decimals([(loss.low, loss.high) for loss in losses])
    materiality = report.audit.materiality
    columns = [
        Column(
            model.name,
            [_expected_loss_cell(model, group, decimals, materiality) for group in model.groups],
        )
        for model in models
    ]
    not_estimated = [
        g
        for g in range(len(report.group_names))
        if not any(model.groups[g].is_estimated for model in models)
    ]
    return Table(
        "Loss of each group on new rows, in per cent of its variance",
        (groups_column(report), *columns),
        muted_rows=tuple(not_estimated),
    )


def _no_estimate_reason(model: ModelResult) -> str:
    """Say why a group has no estimate: the model has none at all, or the group has too few rows."""
    if model.no_estimates_reason is None:
        return "too few rows"
    return "not estimated"
