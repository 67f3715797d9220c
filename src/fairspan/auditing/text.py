"""An audit as text for a terminal: the table, and the findings below it."""

from collections.abc import Sequence

from fairspan.auditing.findings import Finding
from fairspan.auditing.results import AuditedRows, ModelAudit
from fairspan.auditing.table import WIDTH, table_of
from fairspan.formatting.terminal_text import Paint, plain, wrapped
from fairspan.moments.group_statistics import Intake

_INDENT = " " * len("FS101 ")


def audit_text(
    models: Sequence[ModelAudit],
    findings: Sequence[Finding],
    rows: AuditedRows,
    width: int = WIDTH,
    paint: Paint = plain,
) -> str:
    """Everything that an audit has to say, in lines of at most `width` columns."""
    said = [
        line
        for each in findings
        for line in finding_lines(each.code, each.severity, each.message, width, paint)
    ]
    return "\n".join([audit_table(models, rows, width, paint), "", *said]).rstrip()


def audit_table(
    models: Sequence[ModelAudit], rows: AuditedRows, width: int = WIDTH, paint: Paint = plain
) -> str:
    """The figures, under a line that says which rows are not in."""
    intake = intake_of(rows)
    table = table_of(models, rows.n_features, width, paint)
    return "\n".join([*wrapped(intake, width, "  "), "", table]) if intake else table


def intake_of(rows: AuditedRows) -> str:
    """Which rows are not in; nothing if all are."""
    intake = str(Intake(rows.n_dropped, rows.sampled_from))
    return f"{rows.n:,} rows: {intake}" if intake else ""


def finding_lines(code: str, severity: str, message: str, width: int, paint: Paint) -> list[str]:
    """A finding in lines of at most `width` columns; the code of a warning is coloured."""
    first, *others = wrapped(f"{code} {message}", width, _INDENT)
    if severity == "warning":
        first = paint(code, "warning") + first.removeprefix(code)
    return [first, *others]
