"""All tables of a report, by name."""

from fairspan.auditing.missing_values import missing_values_table
from fairspan.formatting.table import Table
from fairspan.report.report import Report
from fairspan.report.tables.decision_tables import decisions_table
from fairspan.report.tables.expected_error_tables import (
    expected_criteria_table,
    expected_losses_table,
    expected_pca_table,
)
from fairspan.report.tables.observed_error_tables import (
    certificates_table,
    criteria_table,
    groups_table,
    observed_table,
    pca_table,
)
from fairspan.report.tables.slider_tables import loadings_table, step_groups_table, steps_table
from fairspan.report.tables.user_model_tables import user_models_table


def report_tables(report: Report) -> dict[str, Table]:
    """Return all tables by the names used in the template."""
    tables = {
        "groups": groups_table(report),
        "pca": pca_table(report),
        "criteria": criteria_table(report),
        "losses": observed_table(report, "observed_loss", "Excess loss of each group"),
        "errors": observed_table(report, "observed_error", "Error of each group"),
        "certificates": certificates_table(report),
        "steps": steps_table(report),
        "step_groups": step_groups_table(report),
        "loadings": loadings_table(report),
    }
    if report.audit.rows.missing is not None:
        tables["missing"] = missing_values_table(report.audit.rows.missing)
    if report.user_models is not None:
        tables["user_models"] = user_models_table(report.user_models)
    if report.has_estimates:
        tables["expected_pca"] = expected_pca_table(report)
        tables["expected_criteria"] = expected_criteria_table(report)
        tables["expected_losses"] = expected_losses_table(report)
    if report.audit.has_decisions:
        tables["decisions"] = decisions_table(report)
    return tables
