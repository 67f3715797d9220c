"""Sentences about harm, gains and costs in the text of a verdict."""

import math
from collections.abc import Sequence

from fairspan.auditing.group_names import ascii_share, names_with_counts, quote_group
from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import format_change, format_count, to_ascii, verb_form
from fairspan.rows.labels import Label

STABILIZING_CHANGES = "a different number of dimensions or scaling, or a check for outliers"


def describe_harm(model: ModelResult, harmed: Sequence[GroupResult]) -> str:
    """Describe which groups are harmed, with an interval of the largest relative loss.

    `harmed` are the harmed groups under the model, the one with that loss first. Groups with an
    inconclusive state are named as well.
    """
    worst, *others = harmed
    loss = worst.expected_loss
    share_lost = variance_share_range(max(loss.low or 0.0, 0.0), loss.high or 0.0, worst)
    n_rows = to_ascii(format_count(worst.n_rows, "row"))
    dimensions = to_ascii(format_count(model.n_components, "dimension"))
    text = (
        f"{quote_group(worst.group)} ({n_rows}) is harmed by {model.name}: on new rows it loses "
        f"{share_lost} more of its variance than with its own best {dimensions}."
    )
    if len(others) == 1:
        text += f" So is {names_with_counts(others)}."
    elif others:
        text += f" So are {names_with_counts(others)}."
    inconclusive = [group for group in model.groups if group.state == "inconclusive"]
    if inconclusive:
        text += f" Whether it harms {names_with_counts(inconclusive)} is unresolved."
    return text


def describe_further_cost(
    paying: Sequence[GroupResult], fair: ModelResult, pca: ModelResult
) -> str:
    """Describe the cost of a repair for groups that PCA harms already.

    `paying` are results under the fair model of the groups whose error rises.
    """
    share = ascii_share(max(map(relative_change, paying)))
    # Point estimates: that the error rises is shown, but not by how much.
    cost = f"loses a further estimated {share} of its variance"
    if len(paying) > 1:
        cost = f"lose more, the largest estimate being a further {share} of the variance"
    text = f"but {names_with_counts(paying)}, already harmed by {pca.name}, {cost}."
    relative_rise = fair.expected_total_error / pca.expected_total_error - 1
    if not math.isnan(relative_rise):
        text += f" The expected total error changes by {to_ascii(format_change(relative_rise))}."
    return text


def describe_other_groups(
    fair: ModelResult, harmed_before: Sequence[Label], materiality: float
) -> str:
    """Describe whether other groups than those harmed before become harmed.

    Groups for which the intervals do not exclude it are named. It is called only if no other group
    is shown to become harmed.
    """
    others = [group for group in fair.groups if group.group not in harmed_before]
    unresolved = [group for group in others if not _excludes_material_harm(group, materiality)]
    if not unresolved:
        return "no other group becomes harmed"
    return (
        "no other group is shown to become harmed; this is unresolved for "
        f"{names_with_counts(unresolved)}"
    )


def _excludes_material_harm(group: GroupResult, materiality: float) -> bool:
    """Whether the upper limit of the loss, or of its rise, is below the materiality threshold."""
    if group.state == "no material harm":
        return True
    min_material_loss = materiality * group.observed_total_variance
    limits = (group.expected_loss.high, group.expected_change.high)
    return any(limit is not None and limit < min_material_loss for limit in limits)


def describe_payers(fair: ModelResult) -> str:
    """Describe the groups whose expected error rises significantly; empty if there are none."""
    paying = [
        group
        for group in fair.groups
        if (group.expected_change.low or 0.0) > group.observed_rounding
    ]
    if not paying:
        return ""
    largest_share = ascii_share(max(map(relative_change, paying)))
    # Point estimates: that the error rises is shown, but not by how much.
    estimate = verb_form(len(paying), "an estimated", "the largest estimate is")
    names = names_with_counts(paying)
    return f" The cost falls on {names}: {estimate} {largest_share} of the variance."


def describe_detectable_losses(groups: Sequence[GroupResult]) -> str:
    """Describe the rows needed and the losses that these rows detect; empty if they are unknown.

    Losses are shares of the variance of each group.
    """
    known = [group for group in groups if group.n_rows_needed is not None]
    if not known:
        return ""
    needed = join_truncated(
        [f"{group.n_rows_needed:,} rows of {quote_group(group.group)}" for group in known]
    )
    detectable_shares = [
        min(group.min_detectable_loss / group.observed_total_variance, 1.0) for group in known
    ]
    detectable = join_truncated([ascii_share(share) for share in detectable_shares])
    return (
        " Detecting a loss of the estimated size, or of the materiality threshold if that is "
        f"larger, takes about {needed}; these rows can detect losses above {detectable} of the "
        "variance."
    )


def relative_change(group: GroupResult) -> float:
    """Return the expected change in error as a share of the group's variance."""
    return group.expected_change.value / group.observed_total_variance


def variance_share_range(low: float, high: float, group: GroupResult) -> str:
    """Format both limits of an interval as shares of the group's variance."""
    # No group loses more than it has.
    variance = group.observed_total_variance
    shares = [min(limit, variance) / variance for limit in (low, high)]
    return " to ".join([ascii_share(share) for share in shares])
