"""An audit as text for a terminal, as a table in a notebook, and as a picture."""

from collections.abc import Sequence
from typing import get_args

import numpy as np

from fairspan.auditing.expected_losses import State
from fairspan.auditing.finding import Finding
from fairspan.auditing.intervals import LEVEL
from fairspan.auditing.results import AuditedRows, GroupAudit, ModelAudit, group_name
from fairspan.auditing.table import (
    WIDTH,
    Columns,
    Decimals,
    decimals_in,
    disparity_of,
    figures_of,
    heading_of,
    table_of,
)
from fairspan.auditing.verdict import Verdict
from fairspan.drawing.by_group import AuditPicture, AuditQuantity
from fairspan.drawing.losses import ExpectedLossPicture
from fairspan.errors import InvalidInput
from fairspan.formatting.html_table import Row, html_table
from fairspan.formatting.terminal_text import Paint, plain, wrapped
from fairspan.moments.group_statistics import Intake
from fairspan.problem.parameters import check_choice
from fairspan.typing import FloatArray

_INDENT = " " * len("FS101 ")
# Groups of one model that a notebook shows.
_MOST_GROUPS = 12


def audit_text(
    models: Sequence[ModelAudit],
    findings: Sequence[Finding],
    rows: AuditedRows,
    width: int = WIDTH,
    paint: Paint = plain,
    verdicts: Sequence[Verdict] = (),
    level: float = LEVEL,
) -> str:
    """Everything that an audit has to say, in lines of at most `width` columns."""
    first = [*_of_verdicts(verdicts, width), ""] if verdicts else []
    said = [
        line
        for each in findings
        for line in finding_lines(each.code, each.severity, each.message, width, paint)
    ]
    table = audit_table(models, rows, width, paint, level)
    return "\n".join([*first, table, "", *said]).rstrip()


def _of_verdicts(verdicts: Sequence[Verdict], width: int) -> list[str]:
    """Each verdict as a paragraph; of several models, with the name of each."""
    if len(verdicts) == 1:
        return wrapped(f"Verdict: {verdicts[0]}", width, "  ")
    return [line for each in verdicts for line in wrapped(f"{each.model}: {each}", width, "  ")]


def audit_table(
    models: Sequence[ModelAudit],
    rows: AuditedRows,
    width: int = WIDTH,
    paint: Paint = plain,
    level: float = LEVEL,
) -> str:
    """The figures, under a line that says which rows are not in."""
    intake = intake_of(rows)
    table = table_of(models, rows.n_features, width, paint, level)
    return "\n".join([*wrapped(intake, width, "  "), "", table]) if intake else table


def intake_of(rows: AuditedRows) -> str:
    """Which rows are not in; nothing if all are."""
    intake = str(Intake(rows.n_dropped))
    return f"{rows.n:,} rows: {intake}" if intake else ""


def finding_lines(code: str, severity: str, message: str, width: int, paint: Paint) -> list[str]:
    """A finding in lines of at most `width` columns; the code of a warning is coloured."""
    first, *others = wrapped(f"{code} {message}", width, _INDENT)
    if severity == "warning":
        first = paint(code, "warning") + first.removeprefix(code)
    return [first, *others]


def audit_html(
    models: Sequence[ModelAudit],
    findings: Sequence[Finding],
    rows: AuditedRows,
    verdicts: Sequence[Verdict] = (),
    level: float = LEVEL,
) -> str:
    """The figures of every model, and the findings below; of many groups, those that lose most."""
    columns = Columns.of(models, level)
    caption = " ".join([intake_of(rows) or f"{rows.n:,} rows.", columns.note]).strip()
    # A warning has its code emphasised.
    notes: list[str | tuple[str, str]] = [
        ("Verdict" if len(verdicts) == 1 else each.model, f": {each}") for each in verdicts
    ]
    notes += [
        (each.code, f" {each.message}") if each.severity == "warning" else str(each)
        for each in findings
    ]
    decimals = decimals_in(models)
    sections = [
        (heading_of(model, rows.n_features), _rows_of(model, decimals, columns)) for model in models
    ]
    return html_table(caption, columns.headings, sections, notes)


def picture_of(
    models: Sequence[ModelAudit], quantity: AuditQuantity | None, level: float = LEVEL
) -> AuditPicture:
    """One figure of every group under every model; by default what is expected, where it is known.

    Raises
    ------
    InvalidParameter
        Another quantity.
    InvalidInput
        Expected losses of an audit that has none.
    """
    has_estimates = any(model.has_estimates for model in models)
    if quantity is None:
        quantity = "expected loss" if has_estimates else "error"
    check_choice("quantity", quantity, get_args(AuditQuantity))
    groups = tuple(group_name(group.group) for group in models[0].groups)
    names = tuple(model.name for model in models)
    plain_models = tuple(i for i, model in enumerate(models) if model.is_plain_pca)
    if quantity == "expected loss":
        if not has_estimates:
            raise InvalidInput(
                "This audit holds no estimates for new rows",
                "Allowed: 'error', 'loss' and 'variance kept'",
                "Audit rows with folds, or choose another quantity",
            )
        values, low, high = (_expected_losses(models, end) for end in ("value", "low", "high"))
        return ExpectedLossPicture(
            groups=groups,
            models=names,
            values=values,
            low=low,
            high=high,
            plain=plain_models,
            quantity=quantity,
            states=tuple(_states_of(model) for model in models),
            level=level,
        )
    has_intervals = quantity == "error" and any(
        group.error.has_interval for model in models for group in model.groups
    )
    return AuditPicture(
        groups=groups,
        models=names,
        values=_table([[_value(group, quantity, m) for group in m.groups] for m in models]),
        low=_table([[g.error.low for g in m.groups] for m in models]) if has_intervals else None,
        high=_table([[g.error.high for g in m.groups] for m in models]) if has_intervals else None,
        plain=plain_models,
        quantity=quantity,
        level=level,
    )


def _expected_losses(models: Sequence[ModelAudit], end: str) -> FloatArray:
    """The estimates themselves, or one end of their intervals."""
    found = [[group.expected for group in model.groups] for model in models]
    return _table([[None if e is None else getattr(e.loss, end) for e in row] for row in found])


def _states_of(model: ModelAudit) -> tuple[State | None, ...]:
    """None for all groups where nothing was estimated."""
    if model.why_no_estimates is not None:
        return (None,) * len(model.groups)
    return tuple(group.state for group in model.groups)


def _rows_of(model: ModelAudit, decimals: Decimals, columns: Columns) -> list[Row]:
    groups = _losing_most(model)
    rows: list[Row] = [
        (group_name(group.group), *figures_of(model, group, decimals, columns)) for group in groups
    ]
    if len(groups) < len(model.groups):
        rows.append(f"… {len(model.groups) - len(groups)} more groups, which lose less")
    if len(model.groups) > 1:
        rows.append(("disparity", *disparity_of(model, decimals, columns)))
    return rows


def _losing_most(model: ModelAudit) -> Sequence[GroupAudit]:
    """In their order if all are shown, else from the largest loss."""
    if len(model.groups) <= _MOST_GROUPS:
        return model.groups
    ranked = sorted(model.groups, key=lambda group: group.excess_loss, reverse=True)
    return ranked[:_MOST_GROUPS]


def _value(group: GroupAudit, quantity: AuditQuantity, model: ModelAudit) -> float | None:
    if quantity == "variance kept":
        return group.variance_kept
    value = group.error.value if quantity == "error" else group.excess_loss
    # As in the table: what is only rounding says nothing.
    return 0.0 if value <= model.rounding else value


def _table(values: list[list[float | None]]) -> FloatArray:
    """NaN where there is no figure."""
    return np.array(values, dtype=np.float64)
