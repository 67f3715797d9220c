"""All sentences of verdicts: summary, recommendation and caveats.

Which verdict is given is decided in :mod:`fairspan.auditing.verdict_rules`.
"""

import math
from collections.abc import Sequence, Set
from dataclasses import replace

from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.group_names import ascii_share, names_with_counts, quote_group, quote_groups
from fairspan.auditing.model_comparison import ModelComparison
from fairspan.auditing.results import GroupResult, ModelResult, harmed_groups, labels_of
from fairspan.auditing.verdict import Verdict
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import (
    format_change,
    format_count,
    format_level,
    to_ascii,
    verb_form,
)
from fairspan.rows.labels import Label

STABILIZING_CHANGES = "a different number of dimensions or scaling, or a check for outliers"


def state_harm_without_repair(model: ModelResult, harmed: Sequence[GroupResult]) -> Verdict:
    """State the verdict on a model that harms groups and is not compared with another."""
    return Verdict(
        kind="harm, no repair tried",
        summary=describe_harm(model, harmed),
        recommendation="Fit a FairPCA to the same rows and audit both models.",
        model=model.name,
        groups=labels_of(harmed),
    )


def state_harmful_repair(comparison: ModelComparison) -> Verdict:
    """State the verdict if only the fair model harms a group."""
    fair = comparison.fair.name
    pca = comparison.pca.name
    return Verdict(
        "no material harm, repair harms",
        f"The repair itself does harm: under {fair}, {_describe_harm(comparison.newly_harmed)}, "
        f"while {pca} is not shown to harm any group.",
        f"Do not use {fair} in place of {pca}.",
        fair,
        labels_of(comparison.newly_harmed),
    )


def state_shifting_repair(comparison: ModelComparison) -> Verdict:
    """State the verdict if PCA harms a group, and the fair model another."""
    fair = comparison.fair.name
    return Verdict(
        "harm, repair shifts it",
        f"{_describe_harm_by_pca(comparison)} Under {fair}, "
        f"{_describe_harm(comparison.newly_harmed)}, which {comparison.pca.name} is not shown to "
        "harm.",
        "Choose another criterion or more dimensions, or document which groups bear the cost and "
        "why.",
        fair,
        labels_of(comparison.newly_harmed),
    )


def state_unstable_repair(comparison: ModelComparison) -> Verdict:
    """State the verdict if the sign of the change depends on the rows the model is fitted to."""
    fair = comparison.fair.name
    worst_name = quote_group(comparison.harmed_by_pca[0].group)
    return Verdict(
        "inconclusive",
        f"{fair} itself is unstable: refitted to other rows, it could raise the error of "
        f"{worst_name} as well as lower it. Consider {STABILIZING_CHANGES}. "
        f"{_describe_harm_by_pca(comparison)}",
        f"Try {STABILIZING_CHANGES}, and audit again; until then do not claim that {fair} helps.",
        fair,
        comparison.labels_harmed_by_pca,
    )


def state_useless_repair(comparison: ModelComparison) -> Verdict:
    """State the verdict if the error of the group most harmed by PCA is not shown to decrease."""
    fair = comparison.fair.name
    worst_name = quote_group(comparison.harmed_by_pca[0].group)
    return Verdict(
        "harm, repair does not help",
        f"{_describe_harm_by_pca(comparison)} Under {fair}, the error of {worst_name} is not shown "
        "to decrease on new rows.",
        "Choose another criterion or more dimensions.",
        fair,
        comparison.labels_harmed_by_pca,
    )


def _describe_harm_by_pca(comparison: ModelComparison) -> str:
    """Describe the harm done by PCA."""
    return describe_harm(comparison.pca, comparison.harmed_by_pca)


def _describe_harm(groups: Sequence[GroupResult]) -> str:
    """Return the clause "'a' (120 rows) is harmed" about some groups."""
    verb = verb_form(len(groups), "is", "are")
    return f"{names_with_counts(groups)} {verb} harmed"


def add_harm_without_rise(verdict: Verdict, comparison: ModelComparison) -> Verdict:
    """Add the groups that only the fair model is shown to harm, but not more than PCA does."""
    sentence = (
        f"Under {comparison.fair.name}, {_describe_harm(comparison.harmed_without_rise)}, but not "
        f"shown to be worse off than under {comparison.pca.name}."
    )
    return replace(verdict, summary=f"{verdict.summary} {sentence}")


def state_costly_repair(
    comparison: ModelComparison, gain: str, paying: Sequence[GroupResult]
) -> Verdict:
    """State the verdict if the repair costs another group that PCA harms already.

    Parameters
    ----------
    comparison : ModelComparison
    gain : str
        Interval of the share of its variance that the group most harmed by PCA regains.
    paying : sequence of GroupResult
        Results under the fair model of the groups whose error rises.
    """
    cost = describe_further_cost(paying, comparison.fair, comparison.pca)
    return Verdict(
        kind="harm, repair at a cost",
        summary=f"{_describe_gain(comparison, gain)}, {cost}",
        recommendation="Decide which groups to favor, or choose another criterion or more "
        "dimensions.",
        model=comparison.fair.name,
        groups=comparison.labels_harmed_by_pca,
    )


def state_helpful_repair(comparison: ModelComparison, gain: str, materiality: float) -> Verdict:
    """State the verdict if the repair helps.

    Parameters
    ----------
    comparison : ModelComparison
    gain : str
        Interval of the share of its variance that the group most harmed by PCA regains.
    materiality : float
        Materiality threshold, as a share of a group's variance.
    """
    fair = comparison.fair
    payers = describe_payers(fair)  # a sentence on the groups whose error rises, or empty
    others = describe_other_groups(fair, comparison.labels_harmed_by_pca, materiality)
    recommendation = f"Use {fair.name}."
    if payers:
        recommendation = f"Use {fair.name}, and document which groups bear the cost."
    return Verdict(
        kind="harm, repair helps",
        summary=f"{_describe_gain(comparison, gain)}, and {others}.{payers}",
        recommendation=recommendation,
        model=fair.name,
        groups=comparison.labels_harmed_by_pca,
    )


def _describe_gain(comparison: ModelComparison, gain: str) -> str:
    """Describe the harm done by PCA and what the group most harmed regains."""
    worst_name = quote_group(comparison.harmed_by_pca[0].group)
    return (
        f"{_describe_harm_by_pca(comparison)} Under {comparison.fair.name}, {worst_name} regains "
        f"{gain} of its variance on new rows"
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
    return Verdict(
        kind="inconclusive",
        summary=f"{pca.name} itself is unstable: whether it harms {names_with_counts(unstable)} "
        f"depends on the rows it is fitted to. Consider {STABILIZING_CHANGES}.",
        recommendation=f"Try {STABILIZING_CHANGES}, and audit again; until then claim neither harm "
        "nor fairness.",
        model=name,
        groups=labels_of(inconclusive),
    )


def state_too_few_rows(pca: ModelResult, name: str, inconclusive: Sequence[GroupResult]) -> Verdict:
    """State the verdict if the rows do not suffice to decide whether PCA harms some groups."""
    reason = ""
    if pca.no_estimates_reason is not None:
        reason = f" ({pca.no_estimates_reason})"
    return Verdict(
        kind="inconclusive",
        summary=f"These rows do not suffice to decide whether {pca.name} harms "
        f"{names_with_counts(inconclusive)}{reason}.{describe_detectable_losses(inconclusive)}"
        f"{_describe_unidentified(pca, inconclusive)}",
        recommendation="Collect more rows of them, or use fewer dimensions; until then claim "
        "neither harm nor fairness.",
        model=name,
        groups=labels_of(inconclusive),
    )


def _describe_unidentified(model: ModelResult, groups: Sequence[GroupResult]) -> str:
    """Describe the groups whose best subspace is not identified; empty if there are none."""
    unidentified = [group for group in groups if group.is_identified is False]
    if not unidentified:
        return ""
    d = model.n_components
    return (
        f" Eigenvalues {d} and {d + 1} of {quote_groups(unidentified)} may be equal, so that the "
        "best subspace is not identified, and how many rows would settle this is unknown: try "
        "another number of dimensions."
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
    return Verdict("no material harm", summary, f"Use {pca.name}.", name)


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
        recommendation=f"{misleading.remedy} Then audit again.",
    )


def add_caveats(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    """Return the verdict with the caveats of findings, and the remedy of the first."""
    summary = verdict.summary[0].lower() + verdict.summary[1:]
    recommendation = verdict.recommendation[0].lower() + verdict.recommendation[1:]
    return replace(
        verdict,
        summary=f"With the caveat that {_join_caveats(findings)}, {summary}",
        recommendation=f"{findings[0].remedy} If the verdict does not change, {recommendation}",
    )


def _join_caveats(findings: Sequence[Finding]) -> str:
    """Return the caveats with the codes of their findings."""
    return " and ".join(f"{finding.caveat} ({finding.code})" for finding in findings)


def describe_preferred_model(
    candidates: Sequence[ModelResult], helpful: Set[str], pca: ModelResult, compared: str
) -> str:
    """Describe the first candidate as the preferred model, and the second as the alternative.

    Parameters
    ----------
    candidates : sequence of ModelResult
        In order of preference; ordinary PCA may be one of them.
    helpful : set of str
        Names of the fair models with the verdict "harm, repair helps".
    pca : ModelResult
        Ordinary PCA, with which the fair models are compared.
    compared : str
        Models that were compared, such as "3 models compared".
    """
    unit = "row" if pca.groups[0].n_clusters is None else "cluster"
    descriptions = [
        f"{model.name} ({to_ascii(format_count(n_rows_harmed(model), unit))} in groups shown to "
        "be harmed)"
        for model in candidates[:2]
    ]
    reason = (
        "among the models whose largest loss does not exceed that of PCA, it is shown to harm "
        f"groups with the fewest {unit}s"
    )
    if candidates[0].name in helpful:
        # A model that helps comes before models that harm fewer rows.
        reason = "the group that PCA harms most gains, and no other group is shown to become harmed"
    text = f"Among the {compared}, prefer {descriptions[0]}: {reason}."
    if len(descriptions) > 1:
        text += f" The alternative is {descriptions[1]}."
    return text


def n_rows_harmed(model: ModelResult) -> int:
    """Return the number of rows, or of clusters if there are any, in groups shown to be harmed."""
    return sum(group.n_clusters or group.n_rows for group in harmed_groups(model))


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
    paying = [group for group in fair.groups if group.has_error_rise]
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
