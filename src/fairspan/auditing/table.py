"""The figures of an audit as one table, for terminals, notebooks and pages."""

from collections.abc import Sequence

from fairspan.auditing.expected_losses import LEVEL, Estimate, known
from fairspan.auditing.results import ModelResult, group_name
from fairspan.formatting.table import (
    Column,
    Table,
    figures_column,
    names_column,
    rows_column,
    shares_column,
)
from fairspan.formatting.text import in_ascii, number, number_with_interval, percent
from fairspan.rows.groups import printable

_ABOUT = {
    "global": "errors about the mean of all rows",
    "group": "errors about each group's own mean",
    "none": "errors about the origin",
}
_ON_NEW_ROWS = (
    "Expected error and loss are those on new rows, with the interval of the loss; 'here' is on "
    "these rows. States hold for all groups at once."
)
# Losses that differ by less than this share are the same.
_ALIKE = 1e-6


def table_of(
    models: Sequence[ModelResult], n_features: int, level: float = LEVEL, left_out: str = ""
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
    worst = [each for model in models for each in _is_worst(model, on_new_rows=has_estimates)]
    starts = [sum(len(model.groups) for model in models[:i]) for i in range(len(models))]

    def figures(heading: str, estimates: Sequence[Estimate], *, marks: bool = False) -> Column:
        shown = [
            estimate.without_rounding(group.rounding_here)
            for estimate, group in zip(estimates, groups, strict=True)
        ]
        values = [known(each.value) for each in shown]
        ends = [(each.low, each.high) for each in shown]
        marked = [i for i, is_so in enumerate(worst) if is_so and marks]
        below = f"{percent(level)} interval"
        return figures_column(heading, values, ends=ends, below=below, worst=marked)

    losses = [Estimate(group.loss_here) for group in groups]
    kept = shares_column("kept here", [known(group.kept_here) for group in groups])
    columns = (
        (
            figures("expected error", [Estimate(group.expected_error.value) for group in groups]),
            figures("expected loss", [group.expected_loss for group in groups], marks=True),
            figures("loss here", losses),
            kept,
            names_column("state", [group.state for group in groups]),
        )
        if has_estimates
        else (
            figures("variance here", [Estimate(group.total_variance_here) for group in groups]),
            figures("error here", [group.error_here for group in groups]),
            figures("best here", [Estimate(group.best_error_here) for group in groups]),
            figures("loss here", losses, marks=True),
            kept,
        )
    )
    names = names_column("group", [group_name(group.group) for group in groups])
    about = f"{left_out}." if left_out else ""
    return Table(
        f"{about} {_ON_NEW_ROWS if has_estimates else ''}".strip(),
        (names, rows_column([group.record for group in groups]), *columns),
        tuple(zip(starts, (_heading_of(each, n_features) for each in models), strict=True)),
    )


def _heading_of(model: ModelResult, n_features: int) -> str:
    """What the figures of a model are about, and how far the errors of its groups are apart."""
    found = model.disparity_here.without_rounding(model.rounding)
    shown, ends = number_with_interval(found.value, found.low, found.high)
    told = f"; disparity on these rows {shown}{f' ({ends})' if ends else ''}"
    if model.worst_errors_here is not None:
        most = ", ".join(number(each) for each in model.worst_errors_here)
        told += f"; errors within the criterion's radius of these rows at most {most}"
    return (
        f"{printable(model.name)}: {model.n_components} of {n_features} dimensions, "
        f"{_ABOUT[model.center]}{', scaled' if model.scaled else ''}"
        f"{in_ascii(told) if len(model.groups) > 1 else ''}"
    )


def _is_worst(model: ModelResult, *, on_new_rows: bool) -> list[bool]:
    """Of each group whether it is harmed; without estimates, whether it loses most."""
    if on_new_rows:
        return [group.state == "harmed" for group in model.groups]
    losses = [max(group.loss_here, group.rounding_here) for group in model.groups]
    most = max(losses) * (1 - _ALIKE)
    return [loss >= most > min(losses) for loss in losses]
