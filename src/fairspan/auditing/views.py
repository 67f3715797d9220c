"""An audit as text for a terminal, as a table in a notebook, and as a picture."""

from collections.abc import Sequence
from typing import get_args

import numpy as np

from fairspan.auditing.intervals import LEVEL
from fairspan.auditing.results import GroupAudit, ModelAudit, group_name
from fairspan.auditing.table import (
    Columns,
    Decimals,
    disparity_of,
    figures_of,
)
from fairspan.drawing.by_group import AuditPicture, AuditQuantity
from fairspan.drawing.losses import ExpectedLossPicture
from fairspan.errors import InvalidInput
from fairspan.formatting.html_table import Row
from fairspan.formatting.terminal_text import Paint, wrapped
from fairspan.problem.parameters import check_choice
from fairspan.typing import FloatArray

_INDENT = " " * len("FS101 ")
# Groups of one model that a notebook shows.
_MOST_GROUPS = 12


def finding_lines(code: str, severity: str, message: str, width: int, paint: Paint) -> list[str]:
    """A finding in lines of at most `width` columns; the code of a warning is coloured."""
    first, *others = wrapped(f"{code} {message}", width, _INDENT)
    if severity == "warning":
        first = paint(code, "warning") + first.removeprefix(code)
    return [first, *others]


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
        losses = [
            [None if group.expected is None else group.expected.loss for group in model.groups]
            for model in models
        ]
        return ExpectedLossPicture(
            groups=groups,
            models=names,
            values=_table([[None if each is None else each.value for each in m] for m in losses]),
            low=_table([[None if each is None else each.low for each in m] for m in losses]),
            high=_table([[None if each is None else each.high for each in m] for m in losses]),
            plain=plain_models,
            quantity=quantity,
            # None where nothing was estimated.
            states=tuple(
                tuple(None if m.why_no_estimates else group.state for group in m.groups)
                for m in models
            ),
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


def html_rows(model: ModelAudit, decimals: Decimals, columns: Columns) -> list[Row]:
    """The rows of a model in a notebook: of many groups, those that lose most."""
    groups: Sequence[GroupAudit] = model.groups
    if len(groups) > _MOST_GROUPS:
        groups = sorted(groups, key=lambda group: group.excess_loss, reverse=True)[:_MOST_GROUPS]
    rows: list[Row] = [
        (group_name(group.group), *figures_of(model, group, decimals, columns)) for group in groups
    ]
    if len(groups) < len(model.groups):
        rows.append(f"… {len(model.groups) - len(groups)} more groups, which lose less")
    if len(model.groups) > 1:
        rows.append(("disparity", *disparity_of(model, decimals, columns)))
    return rows


def _value(group: GroupAudit, quantity: AuditQuantity, model: ModelAudit) -> float | None:
    if quantity == "variance kept":
        return group.variance_kept
    value = group.error.value if quantity == "error" else group.excess_loss
    # As in the table: what is only rounding says nothing.
    return 0.0 if value <= model.rounding else value


def _table(values: list[list[float | None]]) -> FloatArray:
    """NaN where there is no figure."""
    return np.array(values, dtype=np.float64)
