"""Table of audit results, for terminals, notebooks and pages."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from fairspan.auditing.group_names import format_group
from fairspan.auditing.intervals import DEFAULT_LEVEL, Estimate, none_if_nan
from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.formatting.numbers import format_level, format_number, number_with_interval, to_ascii
from fairspan.formatting.table import (
    Column,
    Table,
    name_column,
    number_column,
    row_count_column,
    share_column,
)
from fairspan.linalg.rounding import LOOSE_TOL
from fairspan.rows.labels import printable

_CENTER_TEXT = {
    "global": "errors about the overall mean",
    "group": "errors about each group's mean",
    "none": "errors about the origin",
}
_ESTIMATES_NOTE = (
    "Expected error and loss are estimates for new rows, with the interval of the loss; 'observed' "
    "refers to the audited rows. States are simultaneous over groups."
)


def audit_table(
    models: Sequence[ModelResult],
    n_features: int,
    level: float = DEFAULT_LEVEL,
    dropped_text: str = "",
) -> Table:
    """Build the table: one section per model, one row per group.

    With estimates, the columns are rows, expected error, expected loss, observed loss, observed
    share of variance kept, and state. Otherwise they are observed variance, error with its
    interval, best error, excess loss and share of variance kept. Values below the rounding error
    bound are shown as zero. The observed disparity is in the section heading. Highlighted are the
    harmed groups, or without estimates those with the largest loss.

    Parameters
    ----------
    models : sequence of ModelResult
    n_features : int
    level : float
        Confidence level of the intervals, for column headings.
    dropped_text : str
        Sentence about dropped rows without its period; empty if there are none.
    """
    has_estimates = any(model.has_estimates for model in models)
    groups = [group for model in models for group in model.groups]
    is_highlighted = [
        is_group_highlighted
        for model in models
        for is_group_highlighted in _highlighted_groups(model, on_new_rows=has_estimates)
    ]
    highlighted_rows = np.flatnonzero(is_highlighted).tolist()
    column = partial(_estimates_column, groups=groups, level=level)
    # Position of the first row of each section in the table.
    first_rows = [sum(len(model.groups) for model in models[:i]) for i in range(len(models))]

    observed_losses = [Estimate(group.observed_loss) for group in groups]
    kept_column = share_column(
        "variance kept", [none_if_nan(group.observed_variance_kept) for group in groups]
    )
    if has_estimates:
        columns = (
            # Only the loss has its interval in the table.
            column("expected error", [Estimate(group.expected_error.value) for group in groups]),
            column(
                "expected loss",
                [group.expected_loss for group in groups],
                highlighted_rows=highlighted_rows,
            ),
            column("observed loss", observed_losses),
            kept_column,
            name_column("state", [group.state for group in groups]),
        )
    else:
        columns = (
            column("variance", [Estimate(group.observed_total_variance) for group in groups]),
            column("error", [group.observed_error for group in groups]),
            column("best error", [Estimate(group.observed_best_error) for group in groups]),
            column("excess loss", observed_losses, highlighted_rows=highlighted_rows),
            kept_column,
        )
    names = name_column("group", [format_group(group.group) for group in groups])
    headings = [_model_heading(model, n_features) for model in models]
    notes = []
    if dropped_text:
        notes.append(f"{dropped_text}.")
    if has_estimates:
        notes.append(_ESTIMATES_NOTE)
    return Table(
        " ".join(notes),
        (names, row_count_column([group.record for group in groups]), *columns),
        tuple(zip(first_rows, headings, strict=True)),
    )


def _estimates_column(
    heading: str,
    estimates: Sequence[Estimate],
    *,
    groups: Sequence[GroupResult],
    level: float,
    highlighted_rows: Sequence[int] = (),
) -> Column:
    """Return a column of values with their intervals, with zeros in place of rounding errors.

    `highlighted_rows` are positions in the column, whose estimates are of `groups` in this order.
    """
    rounded = [
        estimate.without_rounding(group.observed_rounding)
        for estimate, group in zip(estimates, groups, strict=True)
    ]
    return number_column(
        heading,
        [none_if_nan(estimate.value) for estimate in rounded],
        intervals=[(estimate.low, estimate.high) for estimate in rounded],
        detail_heading=f"{format_level(level)} interval",
        worst_rows=highlighted_rows,
    )


def _model_heading(model: ModelResult, n_features: int) -> str:
    """Heading of a model: dimensions, center, scaling, disparity and worst-case errors.

    There is no disparity with a single group, and worst-case errors are known only for a model of
    the robust error gap, which has a radius of uncertainty for each group.
    """
    disparity = model.observed_disparity.without_rounding(model.rounding_bound)
    value_text, interval_text = number_with_interval(disparity.value, disparity.low, disparity.high)
    heading = f"{printable(model.name)}: {model.n_components} of {n_features} dimensions, "
    heading += _CENTER_TEXT[model.center]
    if model.is_scaled:
        heading += ", scaled"
    if len(model.groups) == 1:
        return heading
    heading += f"; observed disparity {to_ascii(value_text)}"
    if interval_text:
        heading += f" ({to_ascii(interval_text)})"
    if model.worst_case_errors is not None:
        errors = ", ".join(format_number(error) for error in model.worst_case_errors)
        heading += f"; worst-case errors within the criterion's radius {to_ascii(errors)}"
    return heading


def _highlighted_groups(model: ModelResult, *, on_new_rows: bool) -> list[bool]:
    """Return for each group whether it is harmed, or without estimates whether its loss is largest.

    No group is if all losses are equal.
    """
    if on_new_rows:
        return [group.state == "harmed" for group in model.groups]
    losses = [max(group.observed_loss, group.observed_rounding) for group in model.groups]
    # Losses that a fit equalized are tied.
    threshold = max(losses) * (1 - LOOSE_TOL)
    return [loss >= threshold > min(losses) for loss in losses]
