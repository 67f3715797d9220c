"""All sentences of verdicts: summary, recommendation and caveats.

Which verdict is given is decided in :mod:`fairspan.auditing.verdict_rules`.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from fairspan.auditing.advice import Advice, Step, offer_at_cost
from fairspan.auditing.effect_sentences import describe_changes, format_points
from fairspan.auditing.estimates import NOT_IDENTIFIED
from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.group_effects import GroupEffect
from fairspan.auditing.group_names import (
    alternatives_with_counts,
    ascii_share,
    count_needed,
    names_with_counts,
    quote_group,
    quote_groups,
)
from fairspan.auditing.model_comparison import ModelComparison
from fairspan.auditing.order_of_shares import describe_order_of_shares
from fairspan.auditing.results import GroupResult, ModelResult, labels_of
from fairspan.auditing.verdict import Verdict
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import (
    format_count,
    format_level,
    ordinal,
    share_with_interval,
    to_ascii,
    verb_form,
)

# Maximum number of groups whose costs are described one by one.
_MAX_DESCRIBED_COSTS = 3

FIT_FAIR_MODEL = "fit a FairPCA to the same rows and audit both"
"""How to compare a model with a fair one in Python; the command line puts its commands there."""
# Also where no single row has much of the error of its group.
_LARGE_ERRORS = "a few rows have far larger errors than the others"
_CLAIM_NOTHING = "Until then, claim neither harm nor fairness."
STABILIZING_CHANGES = "a different number of dimensions or scaling, or a check for outliers"


def state_harm_without_repair(
    model: ModelResult, harmed: Sequence[GroupResult], materiality: float
) -> Verdict:
    """State the verdict on a model that harms groups and is not compared with another."""
    return Verdict(
        kind="harm, no repair tried",
        summary=describe_harm(model, harmed, materiality),
        advice=Advice.from_texts(f"Compare it with a fair model: {FIT_FAIR_MODEL}."),
        model=model.name,
        groups=labels_of(harmed),
    )


def state_harmful_repair(comparison: ModelComparison) -> Verdict:
    """State the verdict if only the fair model harms a group."""
    fair = comparison.fair.full_name
    pca = comparison.pca.name
    return Verdict(
        "no material harm, repair harms",
        f"The repair itself does harm: under {fair}, {_describe_harm(comparison.newly_harmed)}, "
        f"while {pca} is not shown to harm any group.",
        Advice.from_texts(f"Do not use {fair} in place of {pca}."),
        comparison.fair.name,
        labels_of(comparison.newly_harmed),
    )


def state_shifting_repair(comparison: ModelComparison) -> Verdict:
    """State the verdict if PCA harms a group, and the fair model another."""
    fair = comparison.fair.full_name
    pca = comparison.pca.name
    worst = comparison.worst_under_fair
    also = ""
    if worst.has_error_rise:
        also = f" {quote_group(worst.group)} also loses more than under {pca}."
    return Verdict(
        "harm, repair shifts it",
        f"{_describe_harm_by_pca(comparison)} Under {fair}, "
        f"{_describe_harm(comparison.newly_harmed)}, which {pca} is not shown to harm.{also}",
        advise_after_shift("Compare other criteria"),
        comparison.fair.name,
        labels_of(comparison.newly_harmed),
    )


def advise_after_shift(alternative: str) -> Advice:
    """Advise what to do if a repair shifts the harm; `alternative` starts the sentence."""
    step = Step(
        alternative,
        ending=", as the repair is not better for everybody; or report which groups bear the cost "
        "and why.",
        suggests_more_dimensions=True,
    )
    return Advice((step,))


def state_unstable_repair(comparison: ModelComparison) -> Verdict:
    """State the verdict if the sign of the change depends on the rows the model is fitted to."""
    fair = comparison.fair.full_name
    worst_name = quote_group(comparison.harmed_by_pca[0].group)
    return Verdict(
        "inconclusive",
        f"{fair} itself is unstable: refitted to other rows, it could raise the error of "
        f"{worst_name} as well as lower it. Consider {STABILIZING_CHANGES}. "
        f"{_describe_harm_by_pca(comparison)}",
        Advice.from_texts(
            f"Try {STABILIZING_CHANGES}, and audit again.",
            f"Until then, do not claim that {fair} helps.",
        ),
        comparison.fair.name,
        comparison.labels_harmed_by_pca,
    )


def state_worsening_repair(comparison: ModelComparison) -> Verdict:
    """State the verdict if the error of the group most harmed by PCA is shown to rise."""
    fair = comparison.fair.full_name
    pca = comparison.pca.name
    worst = comparison.worst_under_fair
    step = Step(
        f"Keep {pca} or compare other criteria",
        ending=f": do not use {fair}.",
        suggests_more_dimensions=True,
    )
    return Verdict(
        "harm, repair makes it worse",
        f"{_describe_harm_by_pca(comparison)} Under {fair}, {quote_group(worst.group)} loses even "
        "more.",
        Advice((step,)),
        comparison.fair.name,
        comparison.labels_harmed_by_pca,
    )


def state_useless_repair(comparison: ModelComparison) -> Verdict:
    """State the verdict if the error of the group most harmed by PCA is not shown to decrease."""
    fair = comparison.fair.full_name
    worst_name = quote_group(comparison.harmed_by_pca[0].group)
    step = Step(
        f"Keep {comparison.pca.name} or compare other criteria",
        ending=".",
        suggests_more_dimensions=True,
    )
    return Verdict(
        "harm, repair not shown to help",
        f"{_describe_harm_by_pca(comparison)} Under {fair}, the error of {worst_name} is not shown "
        "to decrease on new rows.",
        Advice((step,)),
        comparison.fair.name,
        comparison.labels_harmed_by_pca,
    )


def _describe_harm_by_pca(comparison: ModelComparison) -> str:
    """Describe the harm done by PCA."""
    return describe_harm(comparison.pca, comparison.harmed_by_pca, comparison.materiality)


def _describe_harm(groups: Sequence[GroupResult]) -> str:
    """Return the clause "'a' (120 rows) is harmed" about some groups."""
    verb = verb_form(len(groups), "is", "are")
    return f"{names_with_counts(groups)} {verb} harmed"


def add_harm_without_rise(verdict: Verdict, comparison: ModelComparison) -> Verdict:
    """Add the groups that only the fair model is shown to harm, but not more than PCA does."""
    groups = comparison.harmed_without_rise
    apart = [group for group in groups if comparison.has_separate_loss(group)]
    fair = comparison.fair.full_name
    pca = comparison.pca.name
    if len(apart) == 1 == len(groups):
        sentence = (
            f"Under {fair}, {_describe_harm(apart)}, and refits lose more of it than under {pca} "
            "on average; but they differ so much that neither a gain nor a cost is shown for the "
            "models fitted to all rows."
        )
    else:
        sentence = (
            f"Under {fair}, {_describe_harm(groups)}, but not shown to be worse off than under "
            f"{pca}."
        )
    return replace(verdict, summary=f"{verdict.summary} {sentence}")


def add_error_gap(verdict: Verdict, comparison: ModelComparison) -> Verdict:
    """Add that the errors of two groups are shown to differ only under the fair model.

    The gap is the one of FS202, in per cent of the variance of all rows.
    """
    fair = comparison.fair
    pair = fair.expected_disparity_pair
    assert pair is not None
    gap = fair.expected_disparity.relative_to(fair.total_variance)
    # Subtract the smaller error from the larger one, and name the groups in this order.
    smaller, larger = pair
    if gap.value < 0:
        larger, smaller = pair
        gap = -gap
    size, interval = map(to_ascii, share_with_interval(gap.value, gap.low, gap.high))
    sentence = (
        f"The repair opens a gap: the error of {quote_group(larger)} is larger than that of "
        f"{quote_group(smaller)} by {size} of the variance of all rows "
        f"({interval.removesuffix(' %')}); under {comparison.pca.name} no gap is shown."
        f"{describe_order_of_shares(fair, larger, smaller)}"
    )
    return replace(verdict, summary=f"{verdict.summary} {sentence}")


def add_harm_by_repair(verdict: Verdict, comparison: ModelComparison) -> Verdict:
    """Add to an inconclusive verdict that the fair model harms groups."""
    fair = comparison.fair.full_name
    return replace(
        verdict,
        summary=f"The repair itself does harm: under {fair}, "
        f"{_describe_harm(comparison.newly_harmed)}. {verdict.summary}",
        advice=verdict.advice.after(
            [Step(f"Do not use {fair} in place of {comparison.pca.name}.")]
        ),
        groups=(*labels_of(comparison.newly_harmed), *verdict.groups),
    )


def state_costly_repair(comparison: ModelComparison) -> Verdict:
    """State the verdict if the group most harmed by PCA gains, and another group pays."""
    fair = comparison.fair
    cost = describe_costs(comparison.groups_with_effect("cost"), comparison.materiality)
    summary = f"{_describe_gain(comparison)}, but {cost}."
    errors = [model.expected_total_error_share for model in (comparison.pca, fair)]
    if not any(map(math.isnan, errors)):
        before, after = map(ascii_share, errors)
        summary += f" The error over all rows changes from {before} to {after} of their variance."
    return Verdict(
        kind="harm, repair at a cost",
        summary=summary,
        advice=offer_at_cost(
            "Decide whether the cost is acceptable: no model is better for everybody.",
            fair.full_name,
            fair.name,
        ),
        model=fair.name,
        groups=comparison.labels_harmed_by_pca,
    )


def state_possible_cost(comparison: ModelComparison) -> Verdict:
    """State the verdict if the group most harmed by PCA gains, and another group may pay."""
    fair = comparison.fair
    threshold = ascii_share(comparison.materiality)
    possible = comparison.groups_that_may_pay
    rising = [group for group in possible if group.has_error_rise]
    others = [group for group in possible if not group.has_error_rise]
    summary = _describe_gain(comparison)
    if rising:
        cost = describe_costs(rising, comparison.materiality)
        summary += f", but {cost}, and a cost above {threshold} is not ruled out"
        if all(_is_limit_doubtful(group, comparison.materiality) for group in rising):
            summary += f", as {_LARGE_ERRORS} and the interval may be too short"
    summary += "."
    if others:
        summary += (
            f" Whether {alternatives_with_counts(others)} pays more than {threshold} is unresolved"
            f"{_describe_largest_cost(others, comparison.materiality)}."
        )
    small_costs = describe_small_costs(comparison)
    if small_costs:
        summary += f" A small cost is shown: {small_costs}."
    return Verdict(
        kind="harm, repair at a possible cost",
        summary=summary,
        advice=Advice.from_texts(
            "Decide whether such a cost would be acceptable.",
            f"If it would be, use {fair.full_name} and report who may pay.",
            f"If not, collect more rows of {quote_groups(possible)}, and audit again.",
            offered_model=fair.name,
        ),
        model=fair.name,
        groups=comparison.labels_harmed_by_pca,
    )


def _describe_largest_cost(groups: Sequence[GroupResult], materiality: float) -> str:
    """Return " (at most 1.2 points)" for the largest upper limit of a cost; empty if unknown."""
    limits = [group.expected_change_share.high for group in groups]
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits):
        return ""
    if max(known) < materiality:
        # Only heavy tails keep the interval from ruling a material cost out.
        return f", as {_LARGE_ERRORS} and intervals may be too short"
    return f" (at most {format_points(max(known), materiality)} points)"


def _is_limit_doubtful(group: GroupResult, materiality: float) -> bool:
    """Whether only heavy tails keep the interval from ruling out a material cost."""
    return GroupEffect.from_result(group, materiality).is_limit_doubtful(materiality)


def state_helpful_repair(comparison: ModelComparison) -> Verdict:
    """State the verdict if the group most harmed by PCA gains, and no group pays."""
    summary = f"{_describe_gain(comparison)}, and no group pays more than the threshold of "
    summary += ascii_share(comparison.materiality)
    small_costs = describe_small_costs(comparison)
    if small_costs:
        summary += f": {small_costs}"
    return Verdict(
        kind="harm, repair helps",
        summary=f"{summary}.",
        advice=Advice.from_texts(
            f"Use {comparison.fair.full_name}.", offered_model=comparison.fair.name
        ),
        model=comparison.fair.name,
        groups=comparison.labels_harmed_by_pca,
    )


def _describe_gain(comparison: ModelComparison) -> str:
    """Describe the harm done by PCA, and what the group that it harms most gains."""
    worst = comparison.worst_under_fair
    # The harm done by PCA names the group with its count.
    gain = describe_changes(
        [quote_group(worst.group)], [worst.expected_change_share], comparison.materiality
    )
    return f"{_describe_harm_by_pca(comparison)} Under {comparison.fair.full_name}, {gain}"


def describe_small_costs(comparison: ModelComparison) -> str:
    """Describe the costs that are shown and immaterial; empty if there are none."""
    groups = comparison.groups_with_small_cost
    return describe_costs(groups, comparison.materiality) if groups else ""


def describe_costs(groups: Sequence[GroupResult], materiality: float) -> str:
    """Describe the costs of groups that pay, the largest share of the variance first.

    Of many groups, those that pay least are described together. No cost is rounded to the
    `materiality` threshold.
    """
    by_cost = sorted(groups, key=lambda group: group.expected_change_share.value, reverse=True)
    if len(by_cost) <= _MAX_DESCRIBED_COSTS:
        return _describe_effects_on(by_cost, materiality)
    others = by_cost[_MAX_DESCRIBED_COSTS - 1 :]
    described = _describe_effects_on(by_cost[: _MAX_DESCRIBED_COSTS - 1], materiality)
    count = to_ascii(format_count(len(others), "other group"))
    return f"{described}, and {count} keep up to {_largest_cost(others, materiality)} points less"


def _largest_cost(groups: Sequence[GroupResult], materiality: float) -> str:
    """Format the largest upper limit of the costs of groups, in points."""
    changes = [group.expected_change_share for group in groups]
    return format_points(
        max(change.value if change.high is None else change.high for change in changes),
        materiality,
    )


def _describe_effects_on(groups: Sequence[GroupResult], materiality: float) -> str:
    """Describe shown changes of groups with their names and counts."""
    return describe_changes(
        [names_with_counts([group]) for group in groups],
        [group.expected_change_share for group in groups],
        materiality,
    )


def state_unstable_pca(
    pca: ModelResult,
    name: str,
    inconclusive: Sequence[GroupResult],
    unstable: Sequence[GroupResult],
) -> Verdict:
    """State the verdict if it depends on the rows PCA is fitted to whether it harms a group.

    Parameters
    ----------
    pca : ModelResult
    name : str
        Model that the verdict is on.
    inconclusive, unstable : sequence of GroupResult
        Groups whose state under PCA is inconclusive, and those of them that are unstable.
    """
    first_step = Step(
        f"Try {STABILIZING_CHANGES}, and audit again.",
        same_dimension_action="Try different scaling, or a check for outliers",
    )
    return Verdict(
        kind="inconclusive",
        summary=f"{pca.name} itself is unstable: whether it harms "
        f"{alternatives_with_counts(unstable)} "
        f"depends on the rows it is fitted to. Consider {STABILIZING_CHANGES}.",
        advice=Advice((first_step, Step(_CLAIM_NOTHING))),
        model=name,
        groups=labels_of(inconclusive),
    )


def state_too_few_rows(pca: ModelResult, name: str, inconclusive: Sequence[GroupResult]) -> Verdict:
    """State the verdict if the rows do not suffice to decide whether PCA harms some groups."""
    reason = ""
    if pca.no_estimates_reason is not None:
        reason = f" ({pca.no_estimates_reason})"
    remedy = f"Collect more rows of {quote_groups(inconclusive)}, or use fewer dimensions"
    rows_step = f"Collect more rows of {quote_groups(inconclusive)}"
    identified = [group for group in inconclusive if group.is_identified is not False]
    if len(identified) < len(inconclusive):
        # More rows do not tell equal eigenvalues apart; fewer dimensions also need fewer rows.
        remedy = "Use another number of dimensions, preferably a smaller one"
        if identified:
            remedy += f", with more rows of {quote_groups(identified)}"
            rows_step = f"Collect more rows of {quote_groups(identified)}"
        else:
            rows_step += ", which may resolve other numbers of dimensions"
    first_step = Step(f"{remedy}, and audit again.", same_dimension_action=rows_step)
    return Verdict(
        kind="inconclusive",
        summary=f"These rows do not suffice to decide whether {pca.name} harms "
        f"{alternatives_with_counts(inconclusive)}{reason}.{describe_detectable_losses(inconclusive)}"
        f"{_describe_unidentified(pca, inconclusive)}",
        advice=Advice((first_step, Step(_CLAIM_NOTHING))),
        model=name,
        groups=labels_of(inconclusive),
    )


def _describe_unidentified(model: ModelResult, groups: Sequence[GroupResult]) -> str:
    """Describe the groups whose best components are not determined; empty if there are none.

    Groups are left out whose state tables explain otherwise, as by heavy tails.
    """
    unidentified = [group for group in groups if group.state_reason == NOT_IDENTIFIED]
    if not unidentified:
        return ""
    d = model.n_components
    components = f"{ordinal(d)} and {ordinal(d + 1)} component"
    dimensions = to_ascii(format_count(d, "dimension"))
    best = f"which {d} suit" if d > 1 else "which one suits"
    pronoun = verb_form(len(unidentified), "it", "them")
    return (
        f" The {components} of {quote_groups(unidentified)} are about equally important, so it is "
        f"not known {best} {pronoun} best; with {dimensions}, more rows may not help."
    )


def state_no_harm(pca: ModelResult, name: str, level: float) -> Verdict:
    """State the verdict if PCA does no material harm, with the groups of an immaterial loss."""
    summary = (
        f"At {format_level(level)} confidence, no group has a material loss under {pca.name} on "
        "new rows."
    )
    minor = [group for group in pca.groups if group.state == "minor"]
    if len(minor) == 1:
        summary += f" The loss of {quote_groups(minor)} is above zero but immaterial."
    elif minor:
        summary += f" The losses of {quote_groups(minor)} are above zero but immaterial."
    return Verdict("no material harm", summary, Advice.from_texts(f"Use {pca.name}."), name)


def state_misleading_data(
    verdict: Verdict, findings: Sequence[Finding], misleading: Finding
) -> Verdict:
    """State that the absence of harm is inconclusive because of a finding about the data.

    Parameters
    ----------
    verdict : Verdict
        The verdict "no material harm".
    findings : sequence of Finding
        All findings that qualify it.
    misleading : Finding
        The first of them that may have hidden harm.
    """
    return replace(
        verdict,
        kind="inconclusive",
        summary=f"No group has a material loss in these figures, but {_join_caveats(findings)}.",
        advice=Advice.from_texts(misleading.stated_remedy or misleading.remedy, "Audit again."),
    )


def add_caveats(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    """Return the verdict followed by caveats of findings, with their remedies as first steps."""
    remedies = dict.fromkeys(finding.stated_remedy or finding.remedy for finding in findings)
    advice = verdict.advice.on_condition(map(Step, remedies))
    return replace(
        verdict,
        summary=f"{verdict.summary} Caveat: {_join_caveats(findings)}.",
        advice=advice,
    )


def casts_doubt(finding: Finding) -> bool:
    """Whether a finding is about all rows and may have hidden or caused a loss."""
    is_about_data = finding.model is None and not finding.groups
    return finding.qualifies_verdict and is_about_data and not finding.may_be_harmless


def _join_caveats(findings: Sequence[Finding]) -> str:
    """Return the caveats with the codes of their findings."""
    return " and ".join(f"{finding.caveat} ({finding.code})" for finding in findings)


def describe_harm(model: ModelResult, harmed: Sequence[GroupResult], materiality: float) -> str:
    """Describe which groups are harmed, with the largest relative loss and its interval.

    `harmed` are the harmed groups under the model, the one with that loss first. Groups with an
    inconclusive state are named as well.
    """
    worst, *others = harmed
    share = worst.expected_loss_share.clipped_at_zero()
    share_lost, interval = map(
        to_ascii, share_with_interval(share.value, share.low, share.high, threshold=materiality)
    )
    limits = interval.removesuffix(" %")
    components = to_ascii(format_count(model.n_components, "component"))
    best_components = f"{components} that {verb_form(model.n_components, 'suits', 'suit')} it best"
    text = (
        f"On new data, {model.name} with {components} loses {share_lost} ({limits}) more of the "
        f"variance of {names_with_counts([worst])} than the {best_components}."
    )
    if others:
        text += f" {names_with_counts(others)} {verb_form(len(others), 'is', 'are')} also harmed."
    inconclusive = [group for group in model.groups if group.state == "inconclusive"]
    if inconclusive:
        text += f" Whether it harms {alternatives_with_counts(inconclusive)} is unresolved."
    return text


def describe_detectable_losses(groups: Sequence[GroupResult]) -> str:
    """Describe the rows needed and the losses that these rows detect; empty if they are unknown.

    Losses are shares of the variance of each group.
    """
    known = [group for group in groups if group.n_rows_needed is not None]
    if not known:
        return ""
    detectable = join_truncated(
        [
            f"{ascii_share(group.min_detectable_loss_share)} of the variance of "
            f"{quote_group(group.group)}"
            for group in known
        ]
    )
    needed = join_truncated([count_needed(group) for group in known])
    return (
        f" These rows can show losses above {detectable}. For the size that is estimated, or the "
        f"least that matters, you need about {needed}."
    )
