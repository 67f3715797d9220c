"""Rules that choose the verdict on each model compared with ordinary PCA.

A verdict states whether ordinary PCA harms a group and whether a fair model helps. It is based on
estimates for new rows with intervals simultaneous over groups, and is inconclusive if these do not
suffice. The sentences are in :mod:`fairspan.auditing.verdict_sentences`.
"""

from collections.abc import Sequence
from dataclasses import replace

from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.model_comparison import ModelComparison
from fairspan.auditing.results import GroupResult, ModelResult, harmed_groups
from fairspan.auditing.verdict import Verdict
from fairspan.auditing.verdict_sentences import (
    add_caveats,
    add_harm_without_rise,
    describe_preferred_model,
    n_rows_harmed,
    relative_change,
    state_costly_repair,
    state_harm_without_repair,
    state_harmful_repair,
    state_helpful_repair,
    state_misleading_data,
    state_no_harm,
    state_shifting_repair,
    state_too_few_rows,
    state_unstable_pca,
    state_unstable_repair,
    state_useless_repair,
    variance_share_range,
)


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
    return state_harm_without_repair(model, harmed)


def _comparison_verdict(
    fair: ModelResult, pca: ModelResult, level: float, materiality: float
) -> Verdict:
    """Return the verdict on a fair model compared with ordinary PCA."""
    comparison = ModelComparison.from_models(fair, pca)
    if comparison.harmed_by_pca:
        verdict = _repair_verdict(comparison, materiality)
    else:
        verdict = _verdict_without_harm_by_pca(comparison, level)
    if comparison.harmed_without_rise:
        return add_harm_without_rise(verdict, comparison)
    return verdict


def _verdict_without_harm_by_pca(comparison: ModelComparison, level: float) -> Verdict:
    """Return the verdict on a fair model if PCA is not shown to harm any group."""
    pca = comparison.pca
    # If PCA is unstable, nothing is claimed of the fair model either.
    is_pca_stable = not any(group.is_unstable for group in pca.groups)
    if comparison.newly_harmed and is_pca_stable:
        return state_harmful_repair(comparison)
    return _no_harm_verdict(pca, comparison.fair.name, level)


def _repair_verdict(comparison: ModelComparison, materiality: float) -> Verdict:
    """Return the verdict on a fair model if PCA harms a group.

    Whether the repair helps is decided by the group that PCA harms most, relative to its variance.
    """
    fair = comparison.fair
    if comparison.newly_harmed:
        return state_shifting_repair(comparison)
    worst_label = comparison.harmed_by_pca[0].group
    worst_under_fair = next(group for group in fair.groups if group.group == worst_label)
    change = worst_under_fair.expected_change
    if worst_under_fair.is_unstable and change.contains_zero:
        return state_unstable_repair(comparison)
    if change.high is None or change.high >= 0:
        return state_useless_repair(comparison)
    # The decrease of the error is the change with the opposite sign, so the limits of its interval
    # trade places. Both are known if one is.
    return _gain_verdict(
        comparison,
        min_gain=-change.high,
        max_gain=-(change.low or 0.0),
        materiality=materiality,
    )


def _gain_verdict(
    comparison: ModelComparison, min_gain: float, max_gain: float, materiality: float
) -> Verdict:
    """Return the verdict on a model that lowers the error of the group most harmed by PCA.

    There is a cost if the error of another group that PCA harms rises significantly and materially.

    Parameters
    ----------
    comparison : ModelComparison
    min_gain, max_gain : float
        Interval of the decrease in error.
    materiality : float
    """
    fair = comparison.fair
    labels = comparison.labels_harmed_by_pca
    worst = comparison.harmed_by_pca[0]
    gain = variance_share_range(min_gain, max_gain, worst)
    paying = [group for group in fair.groups if group.group in labels and _pays(group, materiality)]
    if paying:
        return state_costly_repair(comparison, gain, paying)
    return state_helpful_repair(comparison, gain, materiality)


def _no_harm_verdict(pca: ModelResult, name: str, level: float) -> Verdict:
    """Return the verdict if no group is shown to be harmed: inconclusive, or no material harm.

    `name` is that of the model the verdict is on; `pca` is what it is compared with, or itself.
    """
    inconclusive = [group for group in pca.groups if group.state == "inconclusive"]
    unstable = [group for group in inconclusive if group.is_unstable]
    if unstable:
        return state_unstable_pca(pca, name, inconclusive, unstable)
    if inconclusive:
        return state_too_few_rows(pca, name, inconclusive)
    return state_no_harm(pca, name, level)


def _pays(group: GroupResult, materiality: float) -> bool:
    """Whether the error of a group rises significantly and materially."""
    return group.has_error_rise and relative_change(group) > materiality


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
            n_rows_harmed(model),
            largest_loss[model.name],
        )
    )
    # Models without estimates could not be compared.
    scope = "compared" if len(estimated) == 1 + len(competitors) else "with estimates"
    advice = describe_preferred_model(candidates, helpful, pca, f"{len(estimated)} models {scope}")
    if candidates[0].name == verdict.model:
        advice = f"{verdict.recommendation} {advice}"
    return replace(verdict, recommendation=advice)


def _with_caveats(verdict: Verdict, baseline: str | None, findings: Sequence[Finding]) -> Verdict:
    """Qualify the verdict by the findings with a caveat that concern it.

    "No material harm" becomes "inconclusive" if a finding about the rows may have hidden harm;
    other kinds stay, with the caveat in the text. `baseline` is the name of the baseline PCA.
    """
    relevant = [finding for finding in findings if _qualifies(finding, verdict, baseline)]
    if not relevant or verdict.kind == "inconclusive":
        return verdict
    # Findings about one model or group, such as heavy tails or instability, are already accounted
    # for in the states of the groups. Those about all rows, such as misleading columns, are not;
    # unless they may be harmless, like duplicates, they cast doubt on the verdict.
    misleading_data = [
        finding
        for finding in relevant
        if finding.model is None and not finding.groups and not finding.may_be_harmless
    ]
    if verdict.kind == "no material harm" and misleading_data:
        return state_misleading_data(verdict, relevant, misleading_data[0])
    return add_caveats(verdict, relevant)


def _qualifies(finding: Finding, verdict: Verdict, baseline: str | None) -> bool:
    """Whether a finding has a caveat and concerns the models and groups of the verdict."""
    if not finding.qualifies_verdict or finding.model not in (None, verdict.model, baseline):
        return False
    if not finding.groups or not verdict.groups:
        return True
    return not set(verdict.groups).isdisjoint(finding.groups)
