"""An audit as a picture: what it shows of the figures."""

from collections.abc import Sequence
from typing import get_args

import numpy as np

from fairspan.auditing.results import GroupAudit, ModelAudit
from fairspan.auditing.wording import group_name
from fairspan.drawing.audit import AuditPicture, AuditQuantity
from fairspan.problem.parameters import check_choice
from fairspan.typing import FloatArray


def picture_of(models: Sequence[ModelAudit], quantity: AuditQuantity) -> AuditPicture:
    """One figure of every group under every model.

    Raises
    ------
    InvalidParameter
        Another quantity.
    """
    check_choice("quantity", quantity, get_args(AuditQuantity))
    has_intervals = quantity == "error" and any(
        group.error.has_interval for model in models for group in model.groups
    )
    return AuditPicture(
        groups=tuple(group_name(group.group) for group in models[0].groups),
        models=tuple(model.name for model in models),
        values=_table([[_value(group, quantity, m) for group in m.groups] for m in models]),
        low=_table([[g.error.low for g in m.groups] for m in models]) if has_intervals else None,
        high=_table([[g.error.high for g in m.groups] for m in models]) if has_intervals else None,
        plain=tuple(i for i, model in enumerate(models) if model.is_plain_pca),
        quantity=quantity,
    )


def _value(group: GroupAudit, quantity: AuditQuantity, model: ModelAudit) -> float | None:
    if quantity == "variance kept":
        return group.variance_kept
    value = group.error.value if quantity == "error" else group.excess_loss
    # As in the table: what is only rounding says nothing.
    return 0.0 if value <= model.rounding else value


def _table(values: list[list[float | None]]) -> FloatArray:
    """NaN where there is no figure."""
    return np.array(values, dtype=np.float64)
