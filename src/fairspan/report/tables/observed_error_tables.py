"""Tables of the observed results of PCA and the criteria."""

from fairspan.formatting.names import readable_name
from fairspan.formatting.numbers import format_count, format_relative
from fairspan.formatting.table import (
    Cell,
    Column,
    Table,
    estimate_column,
    number_column,
    row_count_column,
    share_column,
)
from fairspan.linalg.rounding import AGREEMENT_TOL
from fairspan.report.report import Report
from fairspan.report.shares import proportion_texts
from fairspan.report.tables.table_columns import (
    counts_column,
    criteria_column,
    group_or_largest_columns,
    groups_column,
    kept_columns,
    models_table,
    record_values,
    replace_nan_by_none,
    statuses_column,
)


def groups_table(report: Report) -> Table:
    """Return the number of rows and the variance of each group."""
    records = report.pca.records
    shares = [
        Cell(text, group.proportion)
        for text, group in zip(proportion_texts(report.pca), report.pca.groups, strict=True)
    ]
    share_heading = "share of the weight" if report.is_weighted else "share"
    return Table(
        "Groups",
        (
            groups_column(report),
            row_count_column(records),
            Column(share_heading, shares),
            number_column("total variance", record_values(records, "observed_total_variance")),
        ),
    )


def pca_table(report: Report) -> Table:
    """Observed results of PCA by group.

    The loss relative to the group's best error is omitted if that error is zero.
    """
    model = report.pca
    records = model.records
    relative_losses: list[float | None] = []
    for group in model.groups:
        if group.observed_best_error > 0:
            relative_losses.append(group.observed_loss / group.observed_best_error)
        else:
            relative_losses.append(None)
    return Table(
        f"PCA with {format_count(model.n_components, 'dimension')}",
        (
            groups_column(report, "all rows"),
            estimate_column("error", records, "observed_error", total=model.observed_total_error),
            number_column("best possible", record_values(records, "observed_best_error")),
            number_column("excess loss", record_values(records, "observed_loss")),
            Column("loss / best error", [Cell(format_relative(x), x) for x in relative_losses]),
            share_column("variance kept", record_values(records, "observed_variance_kept")),
        ),
    )


def criteria_table(report: Report) -> Table:
    """Observed results of each criterion: both groups if there are two, else the worst group.

    The worst group has the largest loss, or keeps the smallest share of its variance.
    """
    models = report.audit.models
    # Observed disparities and their intervals. A value below a threshold for rounding errors, a
    # tiny share of the total variance, is shown as zero; the ends of intervals are not changed.
    disparities = [model.observed_disparity for model in models]
    thresholds = [AGREEMENT_TOL * fit.certificate.total_variance for fit in report.fits]
    disparity_values = [
        disparity.without_rounding(threshold).value
        for disparity, threshold in zip(disparities, thresholds, strict=True)
    ]
    intervals = [(disparity.low, disparity.high) for disparity in disparities]
    columns: list[Column] = []
    if len(report.group_names) == 2:
        errors = [record_values(model.records, "observed_error") for model in models]
        columns += group_or_largest_columns(report, "error", errors)
    losses = [record_values(model.records, "observed_loss") for model in models]
    columns += group_or_largest_columns(report, "loss", losses)
    # With estimates, the table of estimates shows the variance kept.
    if not report.has_estimates:
        columns += kept_columns(report)
    columns.append(number_column("disparity", disparity_values, intervals=intervals))
    return models_table(report, *columns)


def observed_table(report: Report, name: str, caption: str) -> Table:
    """Table of one quantity, `name` in the audit's records, by group and model."""
    columns = [
        number_column(model.name, record_values(model.records, name))
        for model in report.audit.models
    ]
    return Table(caption, (groups_column(report), *columns))


def certificates_table(report: Report) -> Table:
    """Objective, bound and gap of every model."""
    certificates = [fit.certificate for fit in report.fits]
    number_columns = []
    headings = {
        "objective": "objective",
        "lower_bound": "lower bound",
        "gap": "gap",
        "absolute_tol": "tolerance",
    }
    for name, heading in headings.items():
        values = [getattr(certificate, name) for certificate in certificates]
        number_columns.append(number_column(heading, replace_nan_by_none(values)))
    solvers = [
        Cell(readable_name(certificate.solver), certificate.solver) for certificate in certificates
    ]
    eigenproblems = [certificate.n_eigenproblems for certificate in certificates]
    return Table(
        "Certificates",
        (
            criteria_column(report),
            *number_columns,
            statuses_column(report),
            Column("solver", solvers, is_text=True),
            counts_column("eigenproblems", eigenproblems),
        ),
        highlighted_row=report.main_index,
    )
