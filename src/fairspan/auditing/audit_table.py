"""Table of audit results, for terminals, notebooks and pages."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.auditing.decision_notes import describe_joint_level, negative_loss_note
from fairspan.auditing.estimates import STATE_MEANINGS, State
from fairspan.auditing.group_names import format_group, quote_group
from fairspan.auditing.intervals import DEFAULT_LEVEL, Estimate, none_if_nan, share_of
from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import (
    format_integer,
    format_level,
    format_number,
    number_with_interval,
    share_with_interval,
    to_ascii,
)
from fairspan.formatting.table import (
    Cell,
    Column,
    Table,
    name_column,
    number_column,
    row_count_column,
    share_column,
    share_estimate_column,
)
from fairspan.formatting.units import Unit, unit_phrase
from fairspan.linalg.rounding import LOOSE_TOL
from fairspan.rows.labels import printable

_CENTER_TEXT = {
    "global": "errors about the overall mean",
    "group": "errors about each group's mean",
    "none": "errors about the origin",
}
_GAP_NOTE = (
    "With a gap between eigenvalues d and d + 1 of at most two standard errors (s.e.), the group's "
    "best subspace is not identified."
)

# Why the difference between the errors of two groups is not that of their percentages.
COMMON_UNIT_NOTE = (
    "Differences between groups are in per cent of the variance of all rows, as the groups have "
    "different variances."
)


def audit_table(
    models: Sequence[ModelResult],
    n_features: int,
    level: float = DEFAULT_LEVEL,
    dropped_text: str = "",
    unit: Unit = "share",
    materiality: float | None = None,
) -> Table:
    """Build the table: one section per model, one row per group.

    With estimates, the columns are rows, expected error, expected loss, observed loss and state;
    the effective number of rows if it is small for a group, and the eigenvalue gap if a group is
    inconclusive and its best subspace is not identified. Otherwise they are observed variance,
    error with its interval, best error and excess loss. In squared units, there is also the
    observed share of variance kept. Values below the rounding error bound are shown as zero. The
    difference in error between two groups is in the section heading. Highlighted are the harmed
    groups, or without estimates those with the largest loss.

    Parameters
    ----------
    models : sequence of ModelResult
    n_features : int
    level : float
        Confidence level of the intervals, for column headings.
    dropped_text : str
        Sentence about dropped rows without its period; empty if there are none.
    unit : {"share", "squared"}
        Per cent of each group's variance, or squared units of the features.
    materiality : float, optional
        Materiality threshold, to which no share is rounded.
    """
    has_estimates = any(model.has_estimates for model in models)
    groups = [group for model in models for group in model.groups]
    is_highlighted = [
        is_group_highlighted
        for model in models
        for is_group_highlighted in _highlighted_groups(model, unit, on_new_rows=has_estimates)
    ]
    highlighted_rows = np.flatnonzero(is_highlighted).tolist()
    builder = _ColumnBuilder(groups, highlighted_rows, level, unit, materiality)
    columns = builder.estimated() if has_estimates else builder.observed()

    # Position of the first row of each section in the table.
    first_rows = [sum(len(model.groups) for model in models[:i]) for i in range(len(models))]
    headings = [_model_heading(model, n_features, unit) for model in models]
    sections = tuple(zip(first_rows, headings, strict=True))

    notes = [_figures_note(models, unit, level)]
    if dropped_text:
        notes.insert(0, f"{dropped_text}.")
    if has_estimates:
        notes += _estimate_notes(models, materiality or 0.0)
        if builder.has_unidentified_groups:
            notes.append(_GAP_NOTE)
        reasons = _describe_state_reasons(models)
        if reasons:
            notes.append(f"Inconclusive for another reason than the interval: {reasons}.")
    return Table(" ".join(filter(None, notes)), tuple(columns), sections)


def _estimate_notes(models: Sequence[ModelResult], materiality: float) -> list[str]:
    """Return the notes on expected losses, some of which may be empty."""
    notes = [observed_loss_note(models, materiality)]
    # With a fair model, the table of the decision has the note on negative losses.
    if not _count_fair(models):
        notes.append(negative_loss_note(models))
    return notes


def _count_fair(models: Sequence[ModelResult]) -> int:
    """Return the number of models that are compared with a baseline."""
    return sum(model.baseline is not None for model in models)


def _describe_state_reasons(models: Sequence[ModelResult]) -> str:
    """Describe why states are inconclusive where the interval of the loss does not show it.

    Groups with too few rows have no interval. Eigenvalue gaps have a column and a note.
    """
    groups_by_reason: dict[str, list[str]] = {}
    for model in models:
        for group in model.groups:
            if group.is_estimated and group.state_reason and group.is_identified is not False:
                name = f"{quote_group(group.group)} under {printable(model.name)}"
                groups_by_reason.setdefault(group.state_reason, []).append(name)
    return "; ".join(
        f"{join_truncated(names)} ({reason})" for reason, names in groups_by_reason.items()
    )


def _figures_note(models: Sequence[ModelResult], unit: Unit, level: float) -> str:
    """Describe the figures of the table: their source, unit and joint confidence level."""
    compares_groups = any(len(model.groups) > 1 for model in models)
    common_unit = f" {COMMON_UNIT_NOTE}" if unit == "share" and compares_groups else ""
    if not any(model.has_estimates for model in models):
        return f"Error and loss are measured on your rows, {unit_phrase(unit)}.{common_unit}"
    return (
        f"Error and loss are estimates for new data, {unit_phrase(unit)}.{common_unit} "
        "Observed columns are measured on your rows. "
        f"{joint_level_note(level, _count_fair(models))}"
    )


def observed_loss_note(models: Sequence[ModelResult], materiality: float) -> str:
    """Explain why observed losses exceed expected ones; empty unless one does by a material share.

    `materiality` is the materiality threshold, as a share of a group's variance.
    """
    excess_shares = [
        group.observed_loss_share - group.expected_loss_share.value
        for model in models
        for group in model.groups
    ]
    if not any(excess > materiality for excess in excess_shares):
        return ""
    return (
        "The observed loss of a small group usually exceeds the expected one, as the components "
        "that suit it best are found on the same few rows and fit their chance variation."
    )


def joint_level_note(level: float, n_fair: int) -> str:
    """State which intervals hold together, and that fair models share the level.

    `n_fair` is the number of fair models. An audit of one and a page of all criteria therefore
    have different intervals of the same model.
    """
    scope = describe_joint_level(level, has_changes=n_fair > 0)
    if not n_fair:
        return scope
    return f"{scope} The more fair models are compared, the wider the intervals."


@dataclass(frozen=True)
class _ColumnBuilder:
    """Builder of the columns of groups, of which some positions are highlighted."""

    groups: Sequence[GroupResult]
    highlighted_rows: Sequence[int]
    level: float
    unit: Unit
    materiality: float | None

    def estimated(self) -> list[Column]:
        """Return the columns of a table with estimates for new rows."""
        columns = [
            *self._names_and_counts(),
            # Only the loss has its interval in the table.
            self._figures(
                "expected error",
                [group.expected_error for group in self.groups],
                shows_intervals=False,
            ),
            self._figures(
                "expected loss", [group.expected_loss for group in self.groups], is_highlighted=True
            ),
            self._figures("observed loss", self._observed_losses),
        ]
        if self.unit == "squared":
            columns.append(self._variance_kept)
        if any(group.has_few_effective_rows for group in self.groups):
            columns.insert(2, self._effective_rows)
        if self.has_unidentified_groups:
            columns.append(self._eigenvalue_gaps)
        return [*columns, state_column([group.state for group in self.groups])]

    def observed(self) -> list[Column]:
        """Return the columns of a table without estimates."""
        variances = [none_if_nan(group.observed_total_variance) for group in self.groups]
        columns = [
            *self._names_and_counts(),
            number_column("variance", variances),
            self._figures("error", [group.observed_error for group in self.groups]),
            self._figures(
                "best error", [Estimate(group.observed_best_error) for group in self.groups]
            ),
            self._figures("excess loss", self._observed_losses, is_highlighted=True),
        ]
        if self.unit == "squared":
            columns.append(self._variance_kept)
        return columns

    @property
    def has_unidentified_groups(self) -> bool:
        """Whether a group is inconclusive, with a best subspace that is not identified."""
        return any(
            group.is_identified is False and group.state == "inconclusive" for group in self.groups
        )

    @property
    def _observed_losses(self) -> list[Estimate]:
        return [Estimate(group.observed_loss) for group in self.groups]

    @property
    def _variance_kept(self) -> Column:
        return share_column(
            "variance kept", [none_if_nan(group.observed_variance_kept) for group in self.groups]
        )

    @property
    def _effective_rows(self) -> Column:
        cells = []
        for group in self.groups:
            n_effective = none_if_nan(group.n_effective)
            # A group without estimates has a dash, as for a missing number.
            text = (
                format_number(None) if n_effective is None else format_integer(round(n_effective))
            )
            cells.append(Cell(text, n_effective))
        return Column("effective rows", cells)

    @property
    def _eigenvalue_gaps(self) -> Column:
        cells = []
        for group in self.groups:
            gap = none_if_nan(group.eigenvalue_gap.in_standard_errors)
            text = format_number(None) if gap is None else f"{gap:.1f} s.e."
            cells.append(Cell(text, gap))
        return Column("eigenvalue gap", cells)

    def _names_and_counts(self) -> tuple[Column, Column]:
        names = name_column("group", [format_group(group.group) for group in self.groups])
        return names, row_count_column([group.record for group in self.groups])

    def _figures(
        self,
        heading: str,
        estimates: Sequence[Estimate],
        *,
        is_highlighted: bool = False,
        shows_intervals: bool = True,
    ) -> Column:
        """Return a column of estimates of the groups, with zeros in place of rounding errors.

        Unless `shows_intervals`, their limits determine at most the number of decimals.
        """
        rounded = [
            estimate.without_rounding(group.observed_rounding)
            for estimate, group in zip(estimates, self.groups, strict=True)
        ]
        worst_rows = self.highlighted_rows if is_highlighted else ()
        detail_heading = f"{format_level(self.level)} interval"
        if self.unit == "share":
            shares = [
                estimate.relative_to(group.observed_total_variance).clipped(-1.0, 1.0)
                for estimate, group in zip(rounded, self.groups, strict=True)
            ]
            return share_estimate_column(
                heading,
                [none_if_nan(share.value) for share in shares],
                [(share.low, share.high) for share in shares],
                detail_heading=detail_heading,
                worst_rows=worst_rows,
                shows_intervals=shows_intervals,
                threshold=self.materiality,
            )
        intervals = [(estimate.low, estimate.high) for estimate in rounded]
        return number_column(
            heading,
            [none_if_nan(estimate.value) for estimate in rounded],
            intervals=intervals if shows_intervals else None,
            detail_heading=detail_heading,
            worst_rows=worst_rows,
        )


def state_column(states: Sequence[State]) -> Column:
    """Column of states, each with its meaning as a tooltip in HTML."""
    return Column(
        "state",
        [
            Cell(state, state, attributes={"title": STATE_MEANINGS[state], "data-state": state})
            for state in states
        ],
        is_text=True,
    )


def _model_heading(model: ModelResult, n_features: int, unit: Unit) -> str:
    """Heading of a model: dimensions, center, scaling, disparity and worst-case errors.

    There is no disparity with a single group, and worst-case errors are known only for a model of
    the robust error gap, which has a radius of uncertainty for each group.
    """
    heading = f"{printable(model.name)}: {model.n_components} of {n_features} dimensions, "
    heading += _CENTER_TEXT[model.center]
    if model.is_scaled:
        heading += ", scaled"
    if len(model.groups) == 1:
        return heading
    heading += f"; {to_ascii(_describe_disparity(model, unit))}"
    if model.worst_case_errors is not None:
        errors = ", ".join(
            _format_error(error, group, unit)
            for error, group in zip(model.worst_case_errors, model.groups, strict=True)
        )
        heading += f"; worst-case errors within the criterion's radius {to_ascii(errors)}"
    return heading


def _describe_disparity(model: ModelResult, unit: Unit) -> str:
    """Describe by how much the error of one group is larger than that of another.

    It is the difference on new rows if it was estimated, as in FS201 and FS202, and otherwise the
    observed one. The difference is positive, and the limits of its interval have the same sign
    convention. As errors of two groups are compared, a share is one of the variance of all rows.
    """
    difference = model.observed_disparity
    first, second = model.disparity_pair
    if model.expected_disparity_pair is not None:
        difference = model.expected_disparity
        first, second = model.expected_disparity_pair
    difference = difference.without_rounding(model.rounding_bound)
    pair = [printable(format_group(label)) for label in (second, first)]
    if difference.value < 0:
        pair.reverse()
        difference = -difference
    text = f"error of {pair[0]} larger than of {pair[1]} by "
    if difference.value == 0:
        text = "largest difference in error between groups "
    if unit == "squared":
        value, interval = number_with_interval(difference.value, difference.low, difference.high)
        text += f"{value} in squared units"
    else:
        share = difference.relative_to(model.total_variance)
        value, interval = share_with_interval(share.value, share.low, share.high)
        text += f"{value} of the variance of all rows"
    return f"{text} ({interval})" if interval else text


def _format_error(error: float, group: GroupResult, unit: Unit) -> str:
    """Format an error of a group in the unit of the table."""
    if unit == "squared":
        return format_number(error)
    return share_with_interval(share_of(error, group.observed_total_variance), None, None)[0]


def _highlighted_groups(model: ModelResult, unit: Unit, *, on_new_rows: bool) -> list[bool]:
    """Return for each group whether it is harmed, or without estimates whether its loss is largest.

    No group is if all losses are equal.
    """
    if on_new_rows:
        return [group.state == "harmed" for group in model.groups]
    losses = []
    for group in model.groups:
        loss = max(group.observed_loss, group.observed_rounding)
        if unit == "share":
            loss = share_of(loss, group.observed_total_variance)
        losses.append(loss)
    # Losses that a fit equalized are tied.
    threshold = max(losses) * (1 - LOOSE_TOL)
    return [loss >= threshold > min(losses) for loss in losses]
