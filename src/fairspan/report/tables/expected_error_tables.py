"""Tables of the estimates for new rows."""

from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.formatting.numbers import (
    common_decimals,
    format_change,
    format_count,
    format_number,
    number_with_interval,
)
from fairspan.formatting.table import (
    Cell,
    Column,
    Table,
    estimate_column,
    name_column,
    number_column,
    row_count_column,
    share_column,
)
from fairspan.report.report import Report
from fairspan.report.tables.table_columns import (
    INCONCLUSIVE,
    groups_column,
    kept_columns,
    models_table,
    record_values,
    replace_nan_by_none,
    secondary,
    states_column,
)


def expected_pca_table(report: Report) -> Table:
    """Estimates for PCA by group, with observed values in smaller columns."""
    model = report.pca
    records = model.records
    return Table(
        f"PCA with {format_count(model.n_components, 'dimension')} on new rows",
        (
            groups_column(report),
            row_count_column(records),
            estimate_column("expected loss", records, "expected_loss"),
            states_column(model.groups),
            estimate_column("expected error", records, "expected_error"),
            secondary(number_column("observed loss", record_values(records, "observed_loss"))),
            secondary(number_column("observed error", record_values(records, "observed_error"))),
            secondary(
                share_column("variance kept", record_values(records, "observed_variance_kept"))
            ),
        ),
        muted_rows=tuple(i for i, group in enumerate(model.groups) if not group.is_estimated),
    )


def changes_table(report: Report) -> Table:
    """Change in expected error from PCA to the main model by group, as a share of its variance.

    A group's outcome is that its error improves or worsens if the confidence interval of the change
    excludes zero. Groups without an interval, or without variance, are inconclusive and muted.
    """
    groups = report.main.groups
    cells = []
    outcomes: list[str] = []
    for group in groups:
        change = group.expected_change
        variance = group.observed_total_variance
        if change.low is None or change.high is None or variance <= 0:
            no_value = format_number(None)  # a dash
            reason = "too few rows" if variance > 0 else "no variance"
            cells.append(Cell(no_value, sort_value=None, detail=reason))
            outcomes.append(INCONCLUSIVE)
            continue
        low, value, high = (end / variance for end in (change.low, change.value, change.high))
        interval = f"{format_change(low)} to {format_change(high)}"
        cells.append(Cell(format_change(value), sort_value=value, detail=interval))
        outcomes.append(_outcome(low, high))
    return Table(
        f"Change in expected error from PCA to {report.main.name}, on new rows",
        (
            groups_column(report),
            name_column("outcome", outcomes),
            Column("change in expected error / variance", cells),
            row_count_column(report.main.records),
            share_column("share of the rows", [group.proportion for group in groups]),
        ),
        muted_rows=tuple(i for i, cell in enumerate(cells) if cell.sort_value is None),
    )


def _outcome(low: float, high: float) -> str:
    """Describe a change in error whose confidence interval is from low to high."""
    if high < 0:
        return "improves"
    if low > 0:
        return "worsens"
    return "no significant change"


def expected_criteria_table(report: Report) -> Table:
    """Estimates for each criterion: largest expected loss and its state, and variance kept.

    The state says whether that loss is material: "harmed", for example, or "inconclusive".
    """
    # One group per model, None for a model without estimates.
    worst_groups = [_largest_expected_loss(model) for model in report.audit.models]
    empty_record = {f"expected_loss{end}": None for end in ("", "_low", "_high")}
    losses = [empty_record if group is None else group.record for group in worst_groups]
    labels = [group.group for group in report.pca.groups]
    names = dict(zip(labels, report.group_names, strict=True))
    return models_table(
        report,
        estimate_column("largest expected loss", losses, "expected_loss"),
        name_column("of", ["not estimated" if g is None else names[g.group] for g in worst_groups]),
        states_column(worst_groups),
        *kept_columns(report),
    )


def _largest_expected_loss(model: ModelResult) -> GroupResult | None:
    """Return the group with the largest expected loss; None without estimates."""
    estimated = [group for group in model.groups if group.is_estimated]
    return max(estimated, key=lambda group: group.expected_loss.value, default=None)


def _expected_loss_cell(model: ModelResult, group: GroupResult, decimals: int | None) -> Cell:
    """Return the expected loss of a group, with interval and state as details."""
    if not group.is_estimated:
        return Cell(format_number(None), None, _no_estimate_reason(model))
    loss = group.expected_loss
    value, interval = number_with_interval(loss.value, loss.low, loss.high, decimals)
    return Cell(value, loss.value, f"{interval}; {group.state}")


def expected_losses_table(report: Report) -> Table:
    """Return the table of expected losses with interval and state, by group and model.

    All values have the same decimals; groups without an estimate under any model are muted.
    """
    models = report.audit.models
    decimals = common_decimals(
        replace_nan_by_none(
            [group.expected_loss.value for model in models for group in model.groups]
        )
    )
    columns = [
        Column(model.name, [_expected_loss_cell(model, group, decimals) for group in model.groups])
        for model in models
    ]
    not_estimated = [
        g
        for g in range(len(report.group_names))
        if not any(model.groups[g].is_estimated for model in models)
    ]
    return Table(
        "Expected loss of each group on new rows",
        (groups_column(report), *columns),
        muted_rows=tuple(not_estimated),
    )


def _no_estimate_reason(model: ModelResult) -> str:
    """Say why a group has no estimate: the model has none at all, or the group has too few rows."""
    if model.no_estimates_reason is None:
        return "too few rows"
    return "not estimated"
