"""An audit as a table in a notebook."""

from collections.abc import Sequence

from fairspan.auditing.findings import Finding
from fairspan.auditing.results import AuditedRows, GroupAudit, ModelAudit
from fairspan.auditing.table import HEADINGS, disparity_of, figures_of, heading_of
from fairspan.auditing.text import intake_of
from fairspan.html_table import Row, html_table
from fairspan.moments.groups import printable, spelled

# Groups of one model that are shown.
_MOST_GROUPS = 12


def audit_html(models: Sequence[ModelAudit], findings: Sequence[Finding], rows: AuditedRows) -> str:
    """The figures of every model, and the findings below; of many groups, those that lose most."""
    shown: list[Row] = []
    for model in models:
        groups = _losing_most(model)
        shown.append(heading_of(model, rows.n_features))
        shown += [(_name(group), *figures_of(model, group)) for group in groups]
        if len(groups) < len(model.groups):
            shown.append(
                f"… {len(model.groups) - len(groups)} more groups lose less; print it, or see "
                ".frame(), for all"
            )
        if len(model.groups) > 1:
            shown.append(("disparity", *disparity_of(model)))
    caption = intake_of(rows) or f"{rows.n:,} rows"
    return html_table(caption, HEADINGS, shown, list(map(str, findings)))


def _losing_most(model: ModelAudit) -> Sequence[GroupAudit]:
    """In their order if all are shown, else from the largest loss."""
    if len(model.groups) <= _MOST_GROUPS:
        return model.groups
    ranked = sorted(model.groups, key=lambda group: group.excess_loss, reverse=True)
    return ranked[:_MOST_GROUPS]


def _name(group: GroupAudit) -> str:
    return printable(spelled(group.group))
