"""An audit as a table in a notebook."""

from collections.abc import Sequence

from fairspan.auditing.findings import Finding
from fairspan.auditing.results import AuditedRows, GroupAudit, ModelAudit
from fairspan.auditing.table import HEADINGS, disparity_of, figures_of, heading_of
from fairspan.auditing.text import intake_of
from fairspan.auditing.wording import group_name
from fairspan.formatting.html_table import Note, Row, html_table

# Groups of one model that are shown.
_MOST_GROUPS = 12


def audit_html(models: Sequence[ModelAudit], findings: Sequence[Finding], rows: AuditedRows) -> str:
    """The figures of every model, and the findings below; of many groups, those that lose most."""
    caption = intake_of(rows) or f"{rows.n:,} rows"
    sections = [(heading_of(model, rows.n_features), _rows_of(model)) for model in models]
    return html_table(caption, HEADINGS, sections, [_note(finding) for finding in findings])


def _note(finding: Finding) -> Note:
    """A warning has its code emphasised."""
    if finding.severity == "warning":
        return finding.code, str(finding).removeprefix(finding.code)
    return str(finding)


def _rows_of(model: ModelAudit) -> list[Row]:
    groups = _losing_most(model)
    rows: list[Row] = [(group_name(group.group), *figures_of(model, group)) for group in groups]
    if len(groups) < len(model.groups):
        rows.append(f"… {len(model.groups) - len(groups)} more groups, which lose less")
    if len(model.groups) > 1:
        rows.append(("disparity", *disparity_of(model)))
    return rows


def _losing_most(model: ModelAudit) -> Sequence[GroupAudit]:
    """In their order if all are shown, else from the largest loss."""
    if len(model.groups) <= _MOST_GROUPS:
        return model.groups
    ranked = sorted(model.groups, key=lambda group: group.excess_loss, reverse=True)
    return ranked[:_MOST_GROUPS]
