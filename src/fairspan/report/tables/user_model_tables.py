"""Tables of the user's models."""

from collections.abc import Sequence

from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.group_names import format_group
from fairspan.auditing.results import ModelResult
from fairspan.certificates.status import shown_status
from fairspan.formatting.names import display_name
from fairspan.formatting.numbers import format_count
from fairspan.formatting.table import (
    Table,
    estimate_column,
    name_column,
    number_column,
    row_count_column,
    share_column,
)
from fairspan.report.report import UserModels
from fairspan.report.tables.table_columns import counts_column, record_values, states_column


def user_models_table(user_models: UserModels) -> Table:
    """Table of the user's models: description, dimension, units, certificate and total error."""
    models = user_models.audit.models
    units = ["standardized" if model.is_scaled else "unscaled" for model in models]
    return Table(
        "Your models",
        (
            name_column("model", [model.name for model in models]),
            name_column("kind", user_models.descriptions),
            counts_column("dimensions", [model.n_components for model in models]),
            name_column("features", units),
            name_column(
                "certificate", [shown_status(model.status_text or "none") for model in models]
            ),
            number_column("total error", [model.observed_total_error for model in models]),
        ),
    )


def user_model_table(model: ModelResult, findings: Sequence[Finding]) -> Table:
    """Results of a user's model by group, with drift if it was fitted to other rows.

    Drift is the change in a group's error from the rows of the fit to those audited.
    """
    records = model.records
    # FS209 and FS210 compare the audited rows with the training rows, FS211 the model with others.
    notes = tuple(
        str(finding)
        for finding in findings
        if finding.model == model.name and finding.code in ("FS209", "FS210", "FS211")
    )
    columns = [
        name_column("group", [format_group(group.group) for group in model.groups]),
        row_count_column(records),
    ]
    if model.no_estimates_reason is None:
        columns += [
            states_column(model.groups),
            estimate_column("expected loss", records, "expected_loss"),
            estimate_column("expected error", records, "expected_error"),
        ]
    columns.append(estimate_column("observed error", records, "observed_error"))
    if model.refit_bound is not None:  # only of models that were fitted to other rows
        columns.append(estimate_column("drift since the fit", records, "drift"))
    columns += [
        number_column("best possible", record_values(records, "observed_best_error")),
        share_column("variance kept", record_values(records, "observed_variance_kept")),
    ]
    caption = f"{display_name(model.name)} with {format_count(model.n_components, 'dimension')}"
    return Table(caption, tuple(columns), notes=notes)
