"""Rules that recommend one of the models compared with an ordinary PCA, or none.

The sentences are in :mod:`fairspan.auditing.recommendation_sentences`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fairspan.auditing.advice import Advice
from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.group_effects import group_effects
from fairspan.auditing.recommendation import ComparedModel, Recommendation, RecommendationKind
from fairspan.auditing.recommendation_sentences import (
    advise_fair_model,
    advise_other_criterion,
    advise_pca_without_harm,
    advise_pca_without_rival,
    explain_close_limits,
    explain_costs,
    explain_larger_loss,
    explain_undecided,
    explain_unneeded,
    keep_pca,
    offer_costly_model,
    question_by_finding,
)
from fairspan.auditing.results import ModelResult, harmed_groups, has_no_material_harm
from fairspan.auditing.verdict import VerdictKind


@dataclass(frozen=True, eq=False)
class Comparison:
    """An ordinary PCA, and the fair models compared with it.

    Attributes
    ----------
    pca : ModelResult
    fair_models : sequence of ModelResult
    verdict_kinds : mapping of str to str
        Kind of the verdict on each fair model, before findings qualify it.
    materiality : float
        Materiality threshold, as a share of a group's variance.
    """

    pca: ModelResult
    fair_models: Sequence[ModelResult]
    verdict_kinds: Mapping[str, VerdictKind]
    materiality: float

    def compared_models(self) -> tuple[ComparedModel, ...]:
        """Return records of the models with estimates, ordinary PCA first."""
        fair_models = [model for model in self.fair_models if model.has_estimates]
        return tuple(_compared_model(model, self.materiality) for model in (self.pca, *fair_models))


# Verdicts on fair models under which the group that PCA harms most gains beyond chance.
_HELPFUL_KINDS = frozenset[VerdictKind](
    {"harm, repair helps", "harm, repair at a possible cost", "harm, repair at a cost"}
)


@dataclass(frozen=True)
class _Choice:
    """Kind and advice of a recommendation, with the model to use or the reason for none."""

    kind: RecommendationKind
    advice: Advice
    reason: str = ""
    model: str | None = None


def recommend(comparison: Comparison) -> Recommendation | None:
    """Recommend one of the models that are compared, or none.

    Models are ordered by their estimates, and claims are made by intervals. Ordinary PCA is
    recommended if it does no material harm, or if the largest loss of a group, as a share of its
    variance, is estimated to be smallest under it. A fair model is recommended only if this loss is
    estimated to be smallest under it, with a smaller upper limit than under PCA, the group that PCA
    harms most is shown to gain, and no group pays more than the materiality threshold. Models that
    aim at equal errors are shown, but never recommended. None without estimates.
    """
    if not comparison.pca.has_estimates:
        return None
    compared = comparison.compared_models()
    candidates = [model for model in compared if not model.favors_equal_errors]
    # The first is ordinary PCA, which wins ties.
    leading = min(candidates, key=lambda model: model.expected_largest_loss)
    tied = _tied_models(comparison, candidates, leading)
    choice = _choose(comparison, compared, leading, tied)
    return Recommendation(
        kind=choice.kind,
        model=choice.model,
        leading_model=leading.model,
        baseline=comparison.pca.name,
        advice=choice.advice,
        compared=compared,
        reason=choice.reason,
        tied_models=tuple(model.model for model in tied),
    )


def question_recommendation(
    recommendation: Recommendation, doubts: Sequence[Finding]
) -> Recommendation:
    """Recommend nothing if there are findings about the data that cast doubt on all figures."""
    if not doubts:
        return recommendation
    return replace(
        recommendation,
        kind="undecided",
        model=None,
        advice=question_by_finding(doubts[0]),
        reason="",
        tied_models=(),
        questioned_by=tuple(finding.code for finding in doubts),
    )


def _tied_models(
    comparison: Comparison, candidates: Sequence[ComparedModel], leading: ComparedModel
) -> list[ComparedModel]:
    """Return the other helpful models whose largest loss is not shown to be larger.

    Simultaneous intervals that overlap do not show a difference. None if ordinary PCA leads.
    """
    if leading.model == comparison.pca.name:
        return []
    return [
        model
        for model in candidates
        if model is not leading
        and comparison.verdict_kinds.get(model.model) in _HELPFUL_KINDS
        and model.min_largest_loss <= leading.largest_loss_limit
    ]


def _choose(
    comparison: Comparison,
    compared: Sequence[ComparedModel],
    leading: ComparedModel,
    tied: Sequence[ComparedModel],
) -> _Choice:
    """Choose the advice, given the model with the smallest estimate of the largest loss."""
    pca, *fair_models = compared
    if has_no_material_harm(comparison.pca, comparison.materiality):
        return _Choice("use model", advise_pca_without_harm(pca), model=pca.model)
    if fair_models and all(model.favors_equal_errors for model in fair_models):
        return _Choice("undecided", advise_other_criterion(fair_models))
    kinds = comparison.verdict_kinds
    helpful = [model for model in fair_models if kinds[model.model] == "harm, repair helps"]
    if leading is pca:
        if helpful:
            return _Choice("undecided", keep_pca(pca), explain_larger_loss(helpful[0], pca))
        return _Choice("use model", advise_pca_without_rival(pca), model=pca.model)
    if leading.effects_of_kind("cost"):
        advice = keep_pca(pca)
        if leading.effects_of_kind("gain"):
            others = [model for model in fair_models if model is not leading]
            advice = offer_costly_model(leading, pca, others, helpful)
        return _Choice("no model, a group pays", advice, explain_costs(leading))
    if kinds[leading.model] == "harm, repair helps":
        if leading.largest_loss_limit >= pca.largest_loss_limit:
            reason = explain_close_limits(leading, pca, fair_models)
            return _Choice("undecided", keep_pca(pca), reason)
        advice = advise_fair_model(leading, pca, fair_models, tied)
        return _Choice("use model", advice, model=leading.model)
    harmed = harmed_groups(comparison.pca)
    if harmed:
        reason = explain_undecided(leading, pca, fair_models, helpful, harmed[0].group)
    else:
        reason = explain_unneeded(leading, pca, fair_models)
    return _Choice("undecided", keep_pca(pca), reason)


def _compared_model(model: ModelResult, materiality: float) -> ComparedModel:
    """Return the record of a model with estimates."""
    estimated = [group for group in model.groups if group.is_estimated]
    losses = model.loss_shares()
    expected_group = max(losses, key=lambda label: losses[label])
    worst = max(estimated, key=lambda group: group.expected_loss_share.high or 0.0)
    effects = () if model.is_pca else group_effects(model.groups, materiality)
    return ComparedModel(
        model=model.name,
        full_name=model.full_name,
        expected_largest_loss=max(losses[expected_group], 0.0),
        expected_group=expected_group,
        # No true loss is negative.
        largest_loss=worst.expected_loss_share.clipped_at_zero(),
        group=worst.group,
        materiality=materiality,
        min_largest_loss=max(0.0, *(group.expected_loss_share.low or 0.0 for group in estimated)),
        unknown_groups=tuple(group.group for group in model.groups if not group.is_estimated),
        effects=effects,
        favors_equal_errors=model.favors_equal_errors,
    )
