"""Notes below the table of the decision: its words, and where its intervals seem to disagree."""

from collections.abc import Sequence

from fairspan.auditing.group_effects import GroupEffect
from fairspan.auditing.group_names import quote_group
from fairspan.auditing.intervals import Estimate
from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.formatting.names import join_all
from fairspan.formatting.numbers import format_level
from fairspan.rows.labels import printable


def describe_joint_level(level: float, *, has_changes: bool) -> str:
    """State which intervals hold together; changes exist only if fair models are compared."""
    text = f"All intervals of losses hold together with {format_level(level)} confidence"
    return f"{text}; so do all intervals of changes." if has_changes else f"{text}."


def decision_note(models: Sequence[ModelResult], materiality: float) -> str:
    """Explain the sign of the changes in the table, and the words after them."""
    threshold = format_level(materiality)
    unshown_gain = ""
    if _has_unshown_gain(models, materiality):
        unshown_gain = (
            " Gain not shown is added where the estimate is nevertheless a gain above the "
            "threshold."
        )
    return (
        "A change below zero is a gain: less of the group is lost. Above zero, the group pays: a "
        f"cost if the estimate is above the threshold of {threshold}, otherwise a small cost. "
        "Where the interval contains zero, neither is shown: no material cost if a cost above "
        f"the threshold is ruled out, unclear if it is not.{unshown_gain}"
    )


def _has_unshown_gain(models: Sequence[ModelResult], materiality: float) -> bool:
    """Whether the table has a gain above the threshold that is not shown."""
    return any(
        GroupEffect.from_result(group, materiality).has_unshown_gain(materiality)
        for model in models
        for group in model.groups
        # Few groups have so large a gain; the others need not be classified.
        if group.expected_change.value < -materiality * group.observed_total_variance
    )


def negative_loss_note(models: Sequence[ModelResult]) -> str:
    """Explain estimates and limits of losses below zero; empty if there are none."""
    if not any(_has_negative_loss(group) for model in models for group in model.groups):
        return ""
    return (
        "No loss is below zero, but its estimate or a limit may be: on new rows, the components "
        "that suit a group best have to be estimated too. Read a figure below zero as no loss."
    )


def _has_negative_loss(group: GroupResult) -> bool:
    """Whether the estimate of the loss or its lower limit is below zero by more than rounding."""
    loss = group.expected_loss
    smallest = loss.value if loss.low is None else min(loss.value, loss.low)
    return smallest < -group.observed_rounding


def separate_losses_note(models: Sequence[ModelResult]) -> str:
    """Explain why a gain or cost is not shown although the intervals of both losses are separate.

    The interval of a loss is for refits to other rows on average, that of a change for the fit to
    these rows, which differs from refits as they do from each other. Empty if there is no such
    group.
    """
    by_name = {model.name: model for model in models}
    # Names of models by group and by what is not shown of it.
    gains: dict[str, list[str]] = {}
    costs: dict[str, list[str]] = {}
    for model in models:
        baseline = by_name.get(model.baseline or "")
        if baseline is None:
            continue
        for before, after in zip(baseline.groups, model.groups, strict=True):
            names = {"smaller": gains, "larger": costs}.get(separate_loss(before, after))
            if names is not None and after.expected_change_share.contains_zero:
                names.setdefault(quote_group(after.group), []).append(printable(model.name))
    clauses = [
        *_clauses(costs, "larger", "a cost"),
        *_clauses(gains, "smaller", "a gain"),
    ]
    if not clauses:
        return ""
    return (
        "Losses and changes are estimated by refits, each without one part of the rows. The lower "
        "limit of a loss is that of refits on average; the interval of a change is that of the "
        "models fitted to all rows, and allows for how far these differ from refits. So one may be "
        f"shown where the other is not: {'; '.join(clauses)}, as the interval of the change "
        "contains zero."
    )


def separate_loss(before: GroupResult, after: GroupResult) -> str:
    """Return "smaller" or "larger" for the loss after a repair; empty unless one is shown.

    It is shown by intervals that do not overlap.
    """
    loss_before = before.expected_loss_share
    loss_after = after.expected_loss_share
    if _is_above(loss_before, loss_after):
        return "smaller"
    return "larger" if _is_above(loss_after, loss_before) else ""


def _is_above(first: Estimate, second: Estimate) -> bool:
    """Whether all of the first interval is above the second."""
    return first.low is not None and second.high is not None and first.low > second.high


def _clauses(models_by_group: dict[str, list[str]], comparison: str, effect: str) -> list[str]:
    """Return "the loss of 'a' is larger under minimax loss than under PCA, ..." for each group."""
    return [
        f"the loss of {group} is {comparison} under {join_all(names)} than under PCA, but "
        f"{effect} is not shown"
        for group, names in models_by_group.items()
    ]
