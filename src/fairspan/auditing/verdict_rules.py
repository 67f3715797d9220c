"""Rules that choose the verdict on each model compared with ordinary PCA.

A verdict states whether ordinary PCA harms a group and whether a fair model helps. It is based on
estimates for new rows with intervals simultaneous over groups, and is inconclusive if these do not
suffice. The sentences are in :mod:`fairspan.auditing.verdict_sentences`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.model_comparison import ModelComparison
from fairspan.auditing.recommendation import Recommendation
from fairspan.auditing.recommendation_rules import (
    Comparison,
    question_recommendation,
    recommend,
)
from fairspan.auditing.results import ModelResult, harmed_groups, unresolved_groups
from fairspan.auditing.verdict import Verdict, VerdictKind
from fairspan.auditing.verdict_sentences import (
    add_caveats,
    add_error_gap,
    add_harm_by_repair,
    add_harm_without_rise,
    advise_after_shift,
    casts_doubt,
    state_costly_repair,
    state_harm_without_repair,
    state_harmful_repair,
    state_helpful_repair,
    state_misleading_data,
    state_no_harm,
    state_possible_cost,
    state_shifting_repair,
    state_too_few_rows,
    state_unstable_pca,
    state_unstable_repair,
    state_useless_repair,
    state_worsening_repair,
)

# Verdicts whose advice does not depend on the other models that are compared.
_KINDS_WITH_OWN_ADVICE: tuple[VerdictKind, ...] = (
    "inconclusive",
    "no material harm",
    "no material harm, repair harms",
)
# Verdicts after which a fair model may be used.
_KINDS_OF_GAIN: tuple[VerdictKind, ...] = (
    "harm, repair helps",
    "harm, repair at a cost",
    "harm, repair at a possible cost",
)


@dataclass(frozen=True)
class Conclusions:
    """Verdicts and recommendations of an audit.

    Attributes
    ----------
    verdicts : tuple of Verdict
        One per model compared with ordinary PCA; if none is, one per model.
    recommendations : tuple of Recommendation
        One per ordinary PCA with which models are compared; none without estimates.
    """

    verdicts: tuple[Verdict, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()


def draw_conclusions(
    models: Sequence[ModelResult],
    findings: Sequence[Finding],
    level: float,
    materiality: float,
) -> Conclusions:
    """Return the verdicts on models, and the recommendations among those that are compared.

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
    verdicts = [
        _comparison_verdict(model, by_name[str(model.baseline)], level, materiality)
        for model in compared
    ]
    recommendations = _recommend_by_baseline(by_name, compared, verdicts, materiality)
    verdicts = [
        _with_recommendation(verdict, recommendations.get(str(model.baseline)))
        for verdict, model in zip(verdicts, compared, strict=True)
    ]
    if not verdicts:
        verdicts = [_verdict_without_comparison(model, level, materiality) for model in models]
    doubts = [finding for finding in findings if casts_doubt(finding)]
    return Conclusions(
        tuple(
            _with_caveats(verdict, by_name[verdict.model].baseline, findings)
            for verdict in verdicts
        ),
        tuple(
            question_recommendation(recommendation, doubts)
            for recommendation in recommendations.values()
        ),
    )


def _recommend_by_baseline(
    by_name: Mapping[str, ModelResult],
    compared: Sequence[ModelResult],
    verdicts: Sequence[Verdict],
    materiality: float,
) -> dict[str, Recommendation]:
    """Return the recommendation for each ordinary PCA with estimates, by its name.

    Parameters
    ----------
    by_name : mapping of str to ModelResult
    compared : sequence of ModelResult
        The models that have a baseline.
    verdicts : sequence of Verdict
        Verdicts on them.
    materiality : float
    """
    kinds = {verdict.model: verdict.kind for verdict in verdicts}
    recommendations = {}
    # Baselines in the order of the models, each once.
    for name in dict.fromkeys(str(model.baseline) for model in compared):
        fair_models = [model for model in compared if model.baseline == name]
        recommendation = recommend(Comparison(by_name[name], fair_models, kinds, materiality))
        if recommendation is not None:
            recommendations[name] = recommendation
    return recommendations


def _verdict_without_comparison(model: ModelResult, level: float, materiality: float) -> Verdict:
    """Return the verdict on a model that is not compared with another."""
    harmed = harmed_groups(model)
    if not harmed:
        return _no_harm_verdict(model, model.name, level, materiality)
    return state_harm_without_repair(model, harmed, materiality)


def _comparison_verdict(
    fair: ModelResult, pca: ModelResult, level: float, materiality: float
) -> Verdict:
    """Return the verdict on a fair model compared with ordinary PCA."""
    comparison = ModelComparison.from_models(fair, pca, materiality)
    if comparison.harmed_by_pca:
        verdict = _repair_verdict(comparison, materiality)
    else:
        verdict = _verdict_without_harm_by_pca(comparison, level, materiality)
    if comparison.harmed_without_rise:
        verdict = add_harm_without_rise(verdict, comparison)
    if verdict.kind in _KINDS_OF_GAIN and comparison.opens_error_gap:
        verdict = add_error_gap(verdict, comparison)
    return verdict


def _verdict_without_harm_by_pca(
    comparison: ModelComparison, level: float, materiality: float
) -> Verdict:
    """Return the verdict on a fair model if PCA is not shown to harm any group."""
    pca = comparison.pca
    verdict = _no_harm_verdict(pca, comparison.fair.name, level, materiality)
    # If PCA is unstable, nothing is claimed of the fair model either.
    is_pca_unstable = any(group.is_unstable for group in pca.groups)
    if not comparison.newly_harmed or is_pca_unstable:
        return verdict
    # That harm by PCA is not shown does not rule it out.
    if verdict.kind == "inconclusive":
        return add_harm_by_repair(verdict, comparison)
    return state_harmful_repair(comparison)


def _repair_verdict(comparison: ModelComparison, materiality: float) -> Verdict:
    """Return the verdict on a fair model if PCA harms a group.

    Whether the repair helps is decided by the group that PCA harms most, relative to its variance.
    It has a cost if any group pays, whether PCA harms it or not.
    """
    if comparison.newly_harmed:
        return state_shifting_repair(comparison)
    worst = comparison.worst_under_fair
    change = worst.expected_change
    if worst.is_unstable and change.contains_zero:
        return state_unstable_repair(comparison)
    if worst.has_error_rise:
        return state_worsening_repair(comparison)
    if change.high is None or change.high >= 0:
        return state_useless_repair(comparison)
    if comparison.groups_with_effect("cost"):
        return state_costly_repair(comparison)
    if comparison.groups_that_may_pay:
        return state_possible_cost(comparison)
    return state_helpful_repair(comparison)


def _no_harm_verdict(pca: ModelResult, name: str, level: float, materiality: float) -> Verdict:
    """Return the verdict if no group is shown to be harmed: inconclusive, or no material harm.

    `name` is that of the model the verdict is on; `pca` is what it is compared with, or itself.
    """
    inconclusive = unresolved_groups(pca, materiality)
    unstable = [group for group in inconclusive if group.is_unstable]
    if unstable:
        return state_unstable_pca(pca, name, inconclusive, unstable)
    if inconclusive:
        return state_too_few_rows(pca, name, inconclusive)
    return state_no_harm(pca, name, level)


def _with_recommendation(verdict: Verdict, recommendation: Recommendation | None) -> Verdict:
    """Return the verdict with the recommendation among all models that are compared.

    A verdict keeps its own advice if no repair is needed or too little is known, and if it is the
    only one and nothing is recommended.
    """
    if recommendation is None or verdict.kind in _KINDS_WITH_OWN_ADVICE:
        return verdict
    is_only_verdict = len(recommendation.compared) == 2
    says_use = verdict.kind == "harm, repair helps"
    says_cost = verdict.kind in ("harm, repair at a cost", "harm, repair shifts it")
    if recommendation.kind == "undecided" and is_only_verdict and not says_use:
        return verdict
    # The verdict has described already who gains and who pays under this model.
    names_payers = recommendation.kind == "no model, a group pays"
    if names_payers and recommendation.leading_model == verdict.model and says_cost:
        return _with_alternative(verdict, recommendation)
    return replace(verdict, advice=recommendation.advice)


def _with_alternative(verdict: Verdict, recommendation: Recommendation) -> Verdict:
    """Return the verdict on the leading model, whose alternative depends on all models compared."""
    if len(recommendation.compared) == 2:
        return verdict
    if verdict.kind == "harm, repair shifts it":
        return replace(verdict, advice=advise_after_shift(f"Keep {recommendation.baseline}"))
    *steps, _ = verdict.advice.steps
    steps.append(recommendation.advice.steps[-1])
    return replace(verdict, advice=replace(verdict.advice, steps=tuple(steps)))


def _with_caveats(verdict: Verdict, baseline: str | None, findings: Sequence[Finding]) -> Verdict:
    """Qualify the verdict by the findings with a caveat that concern it.

    "No material harm" becomes "inconclusive" if a finding about the rows may have hidden harm;
    other kinds stay, with the caveat in the text. `baseline` is the name of the baseline PCA.
    """
    relevant = [finding for finding in findings if _qualifies(finding, verdict, baseline)]
    # Findings about one model or group, such as heavy tails or instability, are already accounted
    # for in the states of the groups. Those about all rows, such as misleading columns, are not;
    # unless they may be harmless, like duplicates, they cast doubt on the verdict.
    misleading_data = [finding for finding in relevant if casts_doubt(finding)]
    if verdict.kind == "inconclusive":
        # Its remedy comes before more rows.
        relevant = misleading_data
    if not relevant:
        return verdict
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
