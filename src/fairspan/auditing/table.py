"""The figures of an audit as one table, for terminals, notebooks and pages."""

from collections.abc import Sequence

from fairspan.auditing.expected_losses import DEFAULT_LEVEL, Estimate, none_if_nan
from fairspan.auditing.results import ModelResult, format_group
from fairspan.formatting.table import (
    Column,
    Table,
    name_column,
    number_column,
    row_count_column,
    share_column,
)
from fairspan.formatting.text import format_level, format_number, number_with_interval, to_ascii
from fairspan.rows.groups import printable

_CENTER_TEXT = {
    "global": "errors about the mean of all rows",
    "group": "errors about each group's own mean",
    "none": "errors about the origin",
}
_ESTIMATES_NOTE = (
    "Expected error and loss are those on new rows, with the interval of the loss; 'here' is on "
    "these rows. States hold for all groups at once."
)
# Losses that differ by less than this share are the same.
_TIE_TOL = 1e-6


def audit_table(
    models: Sequence[ModelResult],
    n_features: int,
    level: float = DEFAULT_LEVEL,
    dropped_text: str = "",
) -> Table:
    """Under each model, one row for each group.

    Columns: rows of the group; the error and loss expected on new rows, the loss on these rows, the
    share of variance kept and the state. Without estimates for new rows: total variance, error with
    its interval, the best error any subspace of the same dimension has on the group, the excess
    loss, and the share of variance kept. What is only rounding is shown as zero: it says nothing,
    and its exponent widens the table. The disparity, which is of these rows, is in the heading.
    """
    has_estimates = any(model.has_estimates for model in models)
    groups = [group for model in models for group in model.groups]
    is_highlighted = [
        each for model in models for each in _highlighted_groups(model, on_new_rows=has_estimates)
    ]
    first_rows = [sum(len(model.groups) for model in models[:i]) for i in range(len(models))]

    def figures(heading: str, estimates: Sequence[Estimate], *, marks: bool = False) -> Column:
        shown = [
            estimate.without_rounding(group.observed_rounding)
            for estimate, group in zip(estimates, groups, strict=True)
        ]
        values = [none_if_nan(each.value) for each in shown]
        ends = [(each.low, each.high) for each in shown]
        marked = [i for i, is_so in enumerate(is_highlighted) if is_so and marks]
        below = f"{format_level(level)} interval"
        return number_column(
            heading, values, intervals=ends, detail_heading=below, worst_rows=marked
        )

    losses = [Estimate(group.observed_loss) for group in groups]
    kept = share_column(
        "kept here", [none_if_nan(group.observed_variance_kept) for group in groups]
    )
    columns = (
        (
            figures("expected error", [Estimate(group.expected_error.value) for group in groups]),
            figures("expected loss", [group.expected_loss for group in groups], marks=True),
            figures("loss here", losses),
            kept,
            name_column("state", [group.state for group in groups]),
        )
        if has_estimates
        else (
            figures("variance here", [Estimate(group.observed_total_variance) for group in groups]),
            figures("error here", [group.observed_error for group in groups]),
            figures("best here", [Estimate(group.observed_best_error) for group in groups]),
            figures("loss here", losses, marks=True),
            kept,
        )
    )
    names = name_column("group", [format_group(group.group) for group in groups])
    about = f"{dropped_text}." if dropped_text else ""
    return Table(
        f"{about} {_ESTIMATES_NOTE if has_estimates else ''}".strip(),
        (names, row_count_column([group.record for group in groups]), *columns),
        tuple(zip(first_rows, (_model_heading(each, n_features) for each in models), strict=True)),
    )


def _model_heading(model: ModelResult, n_features: int) -> str:
    """What the figures of a model are about, and how far the errors of its groups are apart."""
    found = model.observed_disparity.without_rounding(model.rounding_bound)
    shown, ends = number_with_interval(found.value, found.low, found.high)
    told = f"; disparity on these rows {shown}{f' ({ends})' if ends else ''}"
    if model.worst_case_errors is not None:
        most = ", ".join(format_number(each) for each in model.worst_case_errors)
        told += f"; errors within the criterion's radius of these rows at most {most}"
    return (
        f"{printable(model.name)}: {model.n_components} of {n_features} dimensions, "
        f"{_CENTER_TEXT[model.center]}{', scaled' if model.is_scaled else ''}"
        f"{to_ascii(told) if len(model.groups) > 1 else ''}"
    )


def _highlighted_groups(model: ModelResult, *, on_new_rows: bool) -> list[bool]:
    """Of each group whether it is harmed; without estimates, whether it loses most."""
    if on_new_rows:
        return [group.state == "harmed" for group in model.groups]
    losses = [max(group.observed_loss, group.observed_rounding) for group in model.groups]
    most = max(losses) * (1 - _TIE_TOL)
    return [loss >= most > min(losses) for loss in losses]
