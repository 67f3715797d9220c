"""Verdicts of an audit: one for each model compared with ordinary PCA.

A verdict states whether ordinary PCA harms a group and whether a fair model helps. It is based on
estimates for new rows with intervals simultaneous over groups, and is inconclusive if these do not
suffice.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.group_names import names_with_counts, quote_group, quote_groups
from fairspan.auditing.results import GroupResult, ModelResult, harmed_groups, labels_of
from fairspan.auditing.verdict import Verdict
from fairspan.auditing.verdict_sentences import (
    STABILIZING_CHANGES,
    describe_detectable_losses,
    describe_further_cost,
    describe_harm,
    describe_other_groups,
    describe_payers,
    relative_change,
    variance_share_range,
)
from fairspan.formatting.numbers import format_count, format_level, to_ascii, verb_form
from fairspan.rows.labels import Label


def make_verdicts(
    models: Sequence[ModelResult],
    findings: Sequence[Finding],
    level: float,
    materiality: float,
) -> tuple[Verdict, ...]:
    """Return one verdict per model compared with ordinary PCA; if none is, one per model.

    Findings with a caveat qualify the verdicts on the models and groups that they are about.

    Parameters
    ----------
    models : sequence of ModelResult
    findings : sequence of Finding
    level : float
        Confidence level of the intervals.
    materiality : float
        Materiality threshold, as a share of a group's variance.
    """
    by_name = {model.name: model for model in models}
    compared = [model for model in models if model.baseline in by_name]
    baselines = [by_name[str(model.baseline)] for model in compared]
    comparisons = [
        _comparison_verdict(model, baseline, level, materiality)
        for model, baseline in zip(compared, baselines, strict=True)
    ]
    verdicts = [
        _with_recommended_model(verdict, baseline, compared, comparisons)
        for verdict, baseline in zip(comparisons, baselines, strict=True)
    ]
    if not verdicts:
        verdicts = [_verdict_without_comparison(model, level) for model in models]
    return tuple(
        _with_caveats(verdict, by_name[verdict.model].baseline, findings) for verdict in verdicts
    )


def _verdict_without_comparison(model: ModelResult, level: float) -> Verdict:
    """Return the verdict on a model that is not compared with another."""
    harmed = harmed_groups(model)
    if not harmed:
        return _no_harm_verdict(pca=model, name=model.name, level=level)
    return Verdict(
        kind="harm, no repair tried",
        summary=describe_harm(model, harmed),
        recommendation="Fit a FairPCA to the same rows and audit both models.",
        model=model.name,
        groups=labels_of(harmed),
    )


@dataclass(frozen=True)
class _Comparison:
    """A fair model and ordinary PCA, with the groups that each of them harms.

    Attributes
    ----------
    fair, pca : ModelResult
    harmed_by_pca : list of GroupResult
        Groups harmed by PCA, the one with the largest relative loss first.
    newly_harmed : list of GroupResult
        Groups that only the fair model is shown to harm.
    """

    fair: ModelResult
    pca: ModelResult
    harmed_by_pca: list[GroupResult]
    newly_harmed: list[GroupResult]

    @classmethod
    def from_models(cls, fair: ModelResult, pca: ModelResult) -> "_Comparison":
        """Compare the groups harmed by two models."""
        harmed_by_pca = harmed_groups(pca)
        labels = labels_of(harmed_by_pca)
        newly_harmed = [group for group in harmed_groups(fair) if group.group not in labels]
        return cls(fair, pca, harmed_by_pca, newly_harmed)

    @property
    def labels_harmed_by_pca(self) -> tuple[Label, ...]:
        """Labels of the groups harmed by PCA."""
        return labels_of(self.harmed_by_pca)

    @property
    def harm_text(self) -> str:
        """Description of the harm done by PCA."""
        return describe_harm(self.pca, self.harmed_by_pca)

    @property
    def newly_harmed_text(self) -> str:
        """Clause "'a' (120 rows) is harmed" about the newly harmed groups."""
        verb = verb_form(len(self.newly_harmed), "is", "are")
        return f"{names_with_counts(self.newly_harmed)} {verb} harmed"


def _comparison_verdict(
    fair: ModelResult, pca: ModelResult, level: float, materiality: float
) -> Verdict:
    """Return the verdict on a fair model compared with ordinary PCA.

    Whether the repair helps is decided by the group that PCA harms most, relative to its variance.
    """
    comparison = _Comparison.from_models(fair, pca)
    if not comparison.harmed_by_pca:
        # If PCA is unstable, nothing is claimed of the fair model either.
        is_pca_stable = not any(group.is_unstable for group in pca.groups)
        if comparison.newly_harmed and is_pca_stable:
            return _harmful_repair_verdict(comparison)
        return _no_harm_verdict(pca, fair.name, level)
    if comparison.newly_harmed:
        return _shifting_repair_verdict(comparison)
    worst_label = comparison.harmed_by_pca[0].group
    worst_under_fair = next(group for group in fair.groups if group.group == worst_label)
    change = worst_under_fair.expected_change
    if worst_under_fair.is_unstable and change.contains_zero:
        return _unstable_repair_verdict(comparison)
    if change.high is None or change.high >= 0:
        return _useless_repair_verdict(comparison)
    # The decrease of the error is the change with the opposite sign, so the limits of its interval
    # trade places. Both are known if one is.
    return _gain_verdict(
        comparison,
        min_gain=-change.high,
        max_gain=-(change.low or 0.0),
        materiality=materiality,
    )


def _harmful_repair_verdict(comparison: _Comparison) -> Verdict:
    """Return the verdict if only the fair model harms a group."""
    fair = comparison.fair.name
    pca = comparison.pca.name
    return Verdict(
        "no material harm, repair harms",
        f"The repair itself does harm: under {fair}, {comparison.newly_harmed_text}, while {pca} "
        "is not shown to harm any group.",
        f"Do not use {fair} in place of {pca}.",
        fair,
        labels_of(comparison.newly_harmed),
    )


def _shifting_repair_verdict(comparison: _Comparison) -> Verdict:
    """Return the verdict if PCA harms a group, and the fair model another."""
    fair = comparison.fair.name
    return Verdict(
        "harm, repair shifts it",
        f"{comparison.harm_text} Under {fair}, {comparison.newly_harmed_text}, which "
        f"{comparison.pca.name} is not shown to harm.",
        "Choose another criterion or more dimensions, or document which groups bear the cost and "
        "why.",
        fair,
        labels_of(comparison.newly_harmed),
    )


def _unstable_repair_verdict(comparison: _Comparison) -> Verdict:
    """Return the verdict if the sign of the change depends on the rows the model is fitted to."""
    fair = comparison.fair.name
    worst_name = quote_group(comparison.harmed_by_pca[0].group)
    return Verdict(
        "inconclusive",
        f"{fair} itself is unstable: refitted to other rows, it could raise the error of "
        f"{worst_name} as well as lower it. Consider {STABILIZING_CHANGES}. "
        f"{comparison.harm_text}",
        f"Try {STABILIZING_CHANGES}, and audit again; until then do not claim that {fair} helps.",
        fair,
        comparison.labels_harmed_by_pca,
    )


def _useless_repair_verdict(comparison: _Comparison) -> Verdict:
    """Return the verdict if the error of the group most harmed by PCA is not shown to decrease."""
    fair = comparison.fair.name
    worst_name = quote_group(comparison.harmed_by_pca[0].group)
    return Verdict(
        "harm, repair does not help",
        f"{comparison.harm_text} Under {fair}, the error of {worst_name} is not shown to decrease "
        "on new rows.",
        "Choose another criterion or more dimensions.",
        fair,
        comparison.labels_harmed_by_pca,
    )


def _gain_verdict(
    comparison: _Comparison, min_gain: float, max_gain: float, materiality: float
) -> Verdict:
    """Return the verdict on a model that lowers the error of the group most harmed by PCA.

    There is a cost if the error of another group that PCA harms rises significantly and materially.

    Parameters
    ----------
    comparison : _Comparison
    min_gain, max_gain : float
        Interval of the decrease in error.
    materiality : float
    """
    fair = comparison.fair
    labels = comparison.labels_harmed_by_pca
    worst = comparison.harmed_by_pca[0]
    gain_text = (
        f"{comparison.harm_text} Under {fair.name}, {quote_group(worst.group)} regains "
        f"{variance_share_range(min_gain, max_gain, worst)} of its variance on new rows"
    )
    paying = [group for group in fair.groups if group.group in labels and _pays(group, materiality)]
    if paying:
        cost = describe_further_cost(paying, fair, comparison.pca)
        return Verdict(
            "harm, repair at a cost",
            f"{gain_text}, {cost}",
            "Decide which groups to favor, or choose another criterion or more dimensions.",
            fair.name,
            labels,
        )
    payers = describe_payers(fair)
    others = describe_other_groups(fair, labels, materiality)
    recommendation = f"Use {fair.name}."
    if payers:
        recommendation = f"Use {fair.name}, and document which groups bear the cost."
    return Verdict(
        "harm, repair helps",
        f"{gain_text}, and {others}.{payers}",
        recommendation,
        fair.name,
        labels,
    )


def _no_harm_verdict(pca: ModelResult, name: str, level: float) -> Verdict:
    """Return the verdict if no group is shown to be harmed: inconclusive, or no material harm.

    `name` is that of the model the verdict is on; `pca` is what it is compared with, or itself.
    """
    inconclusive = [group for group in pca.groups if group.state == "inconclusive"]
    unstable = [group for group in inconclusive if group.is_unstable]
    if unstable:
        return Verdict(
            "inconclusive",
            f"{pca.name} itself is unstable: whether it harms {names_with_counts(unstable)} "
            f"depends on the rows it is fitted to. Consider {STABILIZING_CHANGES}.",
            f"Try {STABILIZING_CHANGES}, and audit again; until then claim neither harm nor "
            "fairness.",
            name,
            labels_of(inconclusive),
        )
    if inconclusive:
        reason = ""
        if pca.no_estimates_reason is not None:
            reason = f" ({pca.no_estimates_reason})"
        return Verdict(
            "inconclusive",
            f"These rows do not suffice to decide whether {pca.name} harms "
            f"{names_with_counts(inconclusive)}{reason}.{describe_detectable_losses(inconclusive)}",
            "Collect more rows of them, or use fewer dimensions; until then claim neither harm nor "
            "fairness.",
            name,
            labels_of(inconclusive),
        )
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


def _pays(group: GroupResult, materiality: float) -> bool:
    """Whether the error of a group rises significantly and materially."""
    is_significant = (group.expected_change.low or 0.0) > group.observed_rounding
    return is_significant and relative_change(group) > materiality


def _with_recommended_model(
    verdict: Verdict,
    pca: ModelResult,
    fair_models: Sequence[ModelResult],
    verdicts: Sequence[Verdict],
) -> Verdict:
    """Add the model to prefer to the recommendation, if several fair models were estimated.

    Unchanged if there is only one, and for verdicts that there is no harm or that are inconclusive.
    Among the models whose largest expected loss does not exceed that of ordinary PCA: first those
    that help, then those with the fewest rows (or clusters) in groups shown to be harmed, then
    those with the smallest largest loss.

    Parameters
    ----------
    verdict : Verdict
        On one of the fair models.
    pca : ModelResult
        Its baseline.
    fair_models : sequence of ModelResult
        All fair models, with any baseline.
    verdicts : sequence of Verdict
        Verdicts on all of them.
    """
    helpful = {repair.model for repair in verdicts if repair.kind == "harm, repair helps"}
    competitors = [model for model in fair_models if model.baseline == pca.name]
    estimated = [model for model in (pca, *competitors) if model.has_estimates]
    # PCA and two fair models at least.
    if len(estimated) < 3 or verdict.kind in ("inconclusive", "no material harm"):
        return verdict
    largest_loss = {model.name: max(model.losses().values()) for model in estimated}
    max_loss = largest_loss[pca.name] + pca.rounding_bound
    candidates = [model for model in estimated if largest_loss[model.name] <= max_loss]
    candidates.sort(
        key=lambda model: (
            model.name not in helpful,
            _n_rows_harmed(model),
            largest_loss[model.name],
        )
    )
    advice = _describe_preference(candidates, helpful, pca)
    scope = "compared" if len(estimated) == 1 + len(competitors) else "with estimates"
    advice = f"Among the {len(estimated)} models {scope}, {advice}"
    if candidates[0].name == verdict.model:
        advice = f"{verdict.recommendation} {advice}"
    return replace(verdict, recommendation=advice)


def _describe_preference(
    candidates: Sequence[ModelResult], helpful: Set[str], pca: ModelResult
) -> str:
    """Describe the first candidate as the preferred model, and the second as the alternative.

    `candidates` are in order of preference, and `helpful` the names of models that help.
    """
    unit = "row" if pca.groups[0].n_clusters is None else "cluster"
    descriptions = [
        f"{model.name} ({to_ascii(format_count(_n_rows_harmed(model), unit))} in groups shown to "
        "be harmed)"
        for model in candidates[:2]
    ]
    reason = (
        "among the models whose largest loss does not exceed that of PCA, it is shown to harm "
        f"groups with the fewest {unit}s"
    )
    if candidates[0].name in helpful:
        reason = "the group that PCA harms most gains, and no other group is shown to become harmed"
    text = f"prefer {descriptions[0]}: {reason}."
    if len(descriptions) > 1:
        text += f" The alternative is {descriptions[1]}."
    return text


def _n_rows_harmed(model: ModelResult) -> int:
    return sum(group.n_clusters or group.n_rows for group in harmed_groups(model))


def _with_caveats(verdict: Verdict, baseline: str | None, findings: Sequence[Finding]) -> Verdict:
    """Qualify the verdict by the findings with a caveat that concern it.

    "No material harm" becomes "inconclusive" if a finding about the rows may have hidden harm;
    other kinds stay, with the caveat in the text. `baseline` is the name of the baseline PCA.
    """
    relevant = [finding for finding in findings if _qualifies(finding, verdict, baseline)]
    if not relevant or verdict.kind == "inconclusive":
        return verdict
    caveats = " and ".join(f"{finding.caveat} ({finding.code})" for finding in relevant)
    # Findings about one model or group, such as heavy tails or instability, are already accounted
    # for in the states of the groups. Those about all rows, such as misleading columns, are not.
    misleading_data = [
        finding
        for finding in relevant
        if finding.model is None and not finding.groups and not finding.may_be_harmless
    ]
    if verdict.kind == "no material harm" and misleading_data:
        return replace(
            verdict,
            kind="inconclusive",
            summary=f"No group has a material loss in these figures, but {caveats}.",
            recommendation=f"{misleading_data[0].remedy} Then audit again.",
        )
    summary = verdict.summary[0].lower() + verdict.summary[1:]
    recommendation = verdict.recommendation[0].lower() + verdict.recommendation[1:]
    return replace(
        verdict,
        summary=f"With the caveat that {caveats}, {summary}",
        recommendation=f"{relevant[0].remedy} If the verdict does not change, {recommendation}",
    )


def _qualifies(finding: Finding, verdict: Verdict, baseline: str | None) -> bool:
    """Whether a finding has a caveat and concerns the models and groups of the verdict."""
    if not finding.qualifies_verdict or finding.model not in (None, verdict.model, baseline):
        return False
    if not finding.groups or not verdict.groups:
        return True
    return not set(verdict.groups).isdisjoint(finding.groups)
