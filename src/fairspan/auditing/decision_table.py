"""Decision table: what each group gains or pays under each fair model, compared with PCA."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fairspan.auditing.decision_notes import (
    decision_note,
    describe_joint_level,
    negative_loss_note,
    separate_losses_note,
)
from fairspan.auditing.estimates import STATE_MEANINGS, State
from fairspan.auditing.group_effects import EffectKind, GroupEffect
from fairspan.auditing.group_names import format_group
from fairspan.auditing.intervals import DEFAULT_LEVEL, UNKNOWN, Estimate, none_if_nan
from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.formatting.numbers import share_decimals, share_with_interval
from fairspan.formatting.table import Cell, Column, Table
from fairspan.rows.labels import Label, printable

_NBSP = "\u00a0"
_PERCENT_SIGN = f"{_NBSP}%"
_MINUS = "\u2212"


@dataclass(frozen=True)
class Decision:
    """Effect of one model on one group, in shares of the variance of the group.

    Attributes
    ----------
    model : str
    baseline : str or None
        Baseline PCA that the model is compared with; None for a baseline itself.
    group : label
    n_rows : int
    change : Estimate
        Change in expected error from the baseline: a gain is negative. Unknown for a baseline.
    loss : Estimate
        Expected loss.
    state : {"harmed", "minor", "no material harm", "inconclusive"}
        State of the loss.
    state_reason : str
        Reason for an inconclusive state, if it is not the width of the interval.
    outcome : {"gain", "cost", "small cost", "no material cost", "unclear"} or None
        Effect on the group; None for a baseline, and without an estimate of the change.
    words : str
        Words for the effect in the table; empty without one.
    """

    model: str
    baseline: str | None
    group: Label
    n_rows: int
    change: Estimate
    loss: Estimate
    state: State
    state_reason: str
    outcome: EffectKind | None
    words: str

    @property
    def record(self) -> dict[str, object]:
        """Return a flat dictionary; values that are not available are None."""
        return {
            "model": self.model,
            "baseline": self.baseline,
            "group": self.group,
            "n_rows": self.n_rows,
            **self.change.to_record("change_share"),
            **self.loss.to_record("loss_share"),
            "state": self.state,
            "outcome": self.outcome,
        }


def decisions(models: Sequence[ModelResult], materiality: float) -> list[list[Decision]]:
    """Return the effects by model and group: every baseline, followed by its fair models.

    Empty unless a fair model is compared with ordinary PCA.

    Parameters
    ----------
    models : sequence of ModelResult
    materiality : float
        Materiality threshold, as a share of a group's variance.
    """
    by_name = {model.name: model for model in models}
    baselines = dict.fromkeys(model.baseline for model in models if model.baseline in by_name)
    rows = []
    for name in baselines:
        compared = [model for model in models if model.baseline == name]
        for model in (by_name[str(name)], *compared):
            baseline = name if model.baseline == name else None
            rows.append(
                [_decision(model.name, baseline, group, materiality) for group in model.groups]
            )
    return rows


def _decision(model: str, baseline: str | None, group: GroupResult, materiality: float) -> Decision:
    change = UNKNOWN
    outcome = None
    words = ""
    if baseline is not None:
        effect = GroupEffect.from_result(group, materiality)
        change = effect.change
        if change.has_interval:
            outcome = effect.kind
            words = effect.words(materiality)
    return Decision(
        model=model,
        baseline=baseline,
        group=group.group,
        n_rows=group.n_rows,
        change=change,
        loss=group.expected_loss_share,
        state=group.state,
        state_reason=group.state_reason,
        outcome=outcome,
        words=words,
    )


def decision_table(
    models: Sequence[ModelResult], materiality: float, level: float = DEFAULT_LEVEL
) -> Table:
    """Build the table: one row per model, one column per group.

    A baseline has the loss of each group with its state; a fair model has the change in the error
    of the group and whether it gains or pays, followed by the loss that is left and its state.
    Cells of harmed groups are emphasized. Notes explain the words, and where intervals disagree.

    Parameters
    ----------
    models : sequence of ModelResult
        Including a fair model and its baseline.
    materiality : float
        Materiality threshold, as a share of a group's variance.
    level : float
        Confidence level of the intervals.
    """
    rows = decisions(models, materiality)
    estimates = [
        decision.loss if decision.baseline is None else decision.change
        for row in rows
        for decision in row
    ]
    decimals = share_decimals([(estimate.low, estimate.high) for estimate in estimates])
    names = [printable(row[0].model) for row in rows]
    columns = [Column("model", [Cell(name, name) for name in names], is_text=True)]
    for by_model in zip(*rows, strict=True):
        cells = [_decision_cell(decision, decimals, materiality) for decision in by_model]
        group = format_group(by_model[0].group)
        columns.append(Column("", cells, group))
    # A rule separates the baselines with their models.
    first_rows = [i for i, row in enumerate(rows) if row[0].baseline is None]
    baselines = ", ".join(names[i] for i in first_rows)
    caption = (
        f"What each group loses under {baselines} on new data; under the other models, how its "
        "error changes in comparison, and the loss that is left. In per cent of its variance. "
        f"{describe_joint_level(level, has_changes=True)}"
    )
    rules = tuple((i, "") for i in first_rows[1:])
    notes = (
        decision_note(models, materiality),
        negative_loss_note(models),
        separate_losses_note(models),
    )
    return Table(caption, tuple(columns), rules, notes=tuple(filter(None, notes)))


def _decision_cell(decision: Decision, decimals: int, materiality: float) -> Cell:
    """Return the cell of a model and group, with the state of the loss as its detail."""
    state = decision.state
    # A state of the loss is no statement about it if it is not estimated.
    detail = "" if math.isnan(decision.loss.value) else str(state)
    if decision.baseline is not None and not math.isnan(decision.loss.value):
        loss = share_with_interval(decision.loss.value, None, None, decimals, materiality)[0]
        detail = f"loss {loss}, {state}"
    attributes = {"data-state": state, "title": STATE_MEANINGS[state]}
    if decision.outcome is not None:
        attributes["data-outcome"] = decision.outcome
    value = decision.loss if decision.baseline is None else decision.change
    return Cell(
        _describe_effect(decision, decimals, materiality),
        none_if_nan(value.value),
        detail=detail,
        is_worst=state == "harmed",
        attributes=attributes,
    )


def _describe_effect(decision: Decision, decimals: int, materiality: float) -> str:
    """Describe the loss under a baseline, or the change in error under a fair model.

    No figure is rounded to the materiality threshold.

    Examples
    --------
    "loss 3.1 % (2.0 to 4.0)", "change -1.0 % (-1.5 to -0.5): gain",
    "change -0.1 % (-2.0 to +1.8): unclear"
    """
    if decision.baseline is None:
        return _with_interval("loss", decision.loss, decimals, materiality)
    if decision.outcome is None:
        return "not estimated"
    return f"{_describe_change(decision, decimals, materiality)}: {decision.words}"


def _describe_change(decision: Decision, decimals: int, materiality: float) -> str:
    """Describe a change in error with signs: "change -0.1 % (-2.0 to +1.8)"."""
    change = decision.change
    upper_limit = change.high
    max_loss = decision.loss.high
    if decision.outcome == "no material cost" and upper_limit is not None and max_loss is not None:
        # No group pays more than it loses under the fair model.
        upper_limit = min(upper_limit, max_loss)
    value = _format_with_sign(change.value, decimals, materiality)
    low, high = (
        _format_with_sign(limit, decimals, materiality, is_limit=True)
        for limit in (change.low, upper_limit)
    )
    return f"change {value}{_PERCENT_SIGN} ({low}{_NBSP}to{_NBSP}{high})"


def _format_with_sign(
    share: float | None, decimals: int, materiality: float, *, is_limit: bool = False
) -> str:
    """Format a share in per cent with its sign, without the percent sign.

    A limit that rounds to zero keeps its sign, which decides the outcome; other shares do not.
    """
    text, _ = share_with_interval(share, None, None, decimals, materiality)
    number = text.removesuffix(_PERCENT_SIGN)
    rounds_to_zero = not number.strip("0.")
    if share is None or (rounds_to_zero and not is_limit):
        return number
    if share > 0:
        return f"+{number}"
    return f"{_MINUS}{number}" if share < 0 and rounds_to_zero else number


def _with_interval(word: str, share: Estimate, decimals: int, materiality: float) -> str:
    if none_if_nan(share.value) is None:
        return "not estimated"
    value, interval = share_with_interval(share.value, share.low, share.high, decimals, materiality)
    if not interval:
        return f"{word} {value}"
    limits = interval.removesuffix(_PERCENT_SIGN).replace(" ", _NBSP)
    return f"{word} {value} ({limits})"
