"""Sentences of recommendations.

Which model is recommended is decided in :mod:`fairspan.auditing.recommendation_rules`.
"""

from collections.abc import Sequence

from fairspan.auditing.advice import Advice, Step, offer_at_cost
from fairspan.auditing.effect_sentences import describe_shown_effects, explain_heavy_tails
from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.group_names import ascii_share, quote_group, quote_labels
from fairspan.auditing.recommendation import ComparedModel
from fairspan.formatting.names import join_alternatives, join_truncated
from fairspan.formatting.numbers import noun_form, number_word, verb_form
from fairspan.rows.labels import Label

# Maximum number of groups that are named of those that may pay.
_MAX_NAMED = 3
# Smallest limit that is printed: that of one decimal of a percentage.
_MIN_LIMIT = 0.001


def advise_pca_without_harm(pca: ComparedModel) -> Advice:
    """Advise ordinary PCA, since it does no material harm."""
    return Advice.from_texts(
        f"Use {pca.model}: the upper limit of any loss is {_limit_share(pca)} of the variance."
    )


def advise_pca_without_rival(pca: ComparedModel) -> Advice:
    """Advise ordinary PCA, since no fair model is estimated to have a smaller largest loss."""
    return Advice.from_texts(
        f"Use {pca.model}: under no fair model is the largest loss of a group estimated to be "
        f"smaller than under {pca.model}, {_describe_estimate(pca)} (at most "
        f"{_limit_share(pca)}).{_describe_unknown(pca)}"
    )


def advise_fair_model(
    model: ComparedModel,
    pca: ComparedModel,
    fair_models: Sequence[ComparedModel],
    tied: Sequence[ComparedModel],
) -> Advice:
    """Advise a fair model under which no group pays, with the largest loss under it and PCA.

    The verdict states the costs. Models that are `tied` are not shown to have a larger loss.
    """
    text = f"Use {model.full_name}: {_describe_losses(model, pca)}{_describe_open_loss(model)}."
    if len(fair_models) > 1:
        text += f" Of {_describe_rivals(model, pca, fair_models)}, this estimate is the smallest"
        if tied:
            names = join_truncated([each.full_name for each in tied])
            text += f", but {names} {verb_form(len(tied), 'is', 'are')} not shown to be worse"
        text += "."
    return Advice.from_texts(text, offered_model=model.model)


def _describe_rivals(
    model: ComparedModel, pca: ComparedModel, fair_models: Sequence[ComparedModel]
) -> str:
    """Return the models among which the estimate of the largest loss is smallest under `model`."""
    if all(each.expected_largest_loss >= model.expected_largest_loss for each in fair_models):
        return f"{pca.model} and {number_word(len(fair_models))} fair models"
    # Models that aim at equal errors are not recommended, whatever their losses.
    n_rivals = sum(not each.favors_equal_errors for each in fair_models)
    noun = noun_form(n_rivals, "fair model that does", "fair models that do")
    return f"{pca.model} and the {number_word(n_rivals)} {noun} not aim at equal errors"


def keep_pca(pca: ComparedModel) -> Advice:
    """Advise what to do if no fair model is recommended."""
    step = Step(
        f"Keep {pca.model}",
        ending=": no fair model is recommended.",
        suggests_more_dimensions=True,
    )
    return Advice((step,))


def offer_costly_model(
    model: ComparedModel,
    pca: ComparedModel,
    others: Sequence[ComparedModel],
    helpful: Sequence[ComparedModel],
) -> Advice:
    """Offer a model under which groups gain and others pay, if the cost is acceptable.

    Parameters
    ----------
    model, pca : ComparedModel
    others : sequence of ComparedModel
        The other fair models; if there are none, the reader can compare some.
    helpful : sequence of ComparedModel
        Those of them that help the group that PCA harms most, without a material cost.
    """
    payers = quote_labels([effect.group for effect in model.effects_of_kind("cost")])
    return offer_at_cost(
        f"Decide whether a cost to {payers} is acceptable: no model is better for everybody.",
        model.full_name,
        model.model,
        _alternative_to_cost(pca, others, helpful),
    )


def _alternative_to_cost(
    pca: ComparedModel, others: Sequence[ComparedModel], helpful: Sequence[ComparedModel]
) -> str:
    """Return what to do if a cost is not acceptable, in the imperative."""
    if not others:
        return "compare other criteria"
    if helpful:
        names = join_alternatives([each.full_name for each in helpful], _MAX_NAMED)
        return f"consider {names}, shown to help without a material cost"
    return (
        f"keep {pca.model} (no fair model of this audit is shown to help without a material cost)"
    )


def explain_costs(model: ComparedModel) -> str:
    """Explain by who gains and who pays why the leading model is not recommended."""
    gains = model.effects_of_kind("gain")
    effects = describe_shown_effects((*gains, *model.effects_of_kind("cost")), model.materiality)
    text = f"No model is recommended: under {model.full_name}, {effects}"
    return f"{text}." if gains else f"{text}, and no group is shown to gain."


def advise_other_criterion(fair_models: Sequence[ComparedModel]) -> Advice:
    """State that all fair models aim at equal errors, so that none is recommended."""
    names = ", ".join(model.model for model in fair_models)
    return Advice.from_texts(
        f"Compare a model by minimax loss, to lower losses: whether equal errors are worth a "
        f"loss is a value judgment, so {names} is shown but not recommended."
    )


def explain_close_limits(
    model: ComparedModel, pca: ComparedModel, fair_models: Sequence[ComparedModel]
) -> str:
    """Explain that a model helps, but that its limit of the largest loss is not smaller."""
    gains = describe_shown_effects(model.effects_of_kind("gain"), model.materiality)
    return (
        f"{_describe_leading(model, pca, fair_models)} Under it, {gains}. It is not recommended, "
        "since how large a loss may be is not known better than without it."
    )


def explain_larger_loss(model: ComparedModel, pca: ComparedModel) -> str:
    """Explain that a model helps, but that its largest loss is not estimated to be smaller."""
    gains = describe_shown_effects(model.effects_of_kind("gain"), model.materiality)
    return (
        f"Under {model.full_name}, {gains}. It is not recommended, since the largest loss of a "
        f"group is estimated at {_describe_estimates(model, pca)}."
    )


def explain_undecided(
    model: ComparedModel,
    pca: ComparedModel,
    fair_models: Sequence[ComparedModel],
    helpful: Sequence[ComparedModel],
    most_harmed: Label,
) -> str:
    """Explain why the model with the smallest estimate of the largest loss is not recommended.

    Parameters
    ----------
    model, pca : ComparedModel
    fair_models : sequence of ComparedModel
    helpful : sequence of ComparedModel
        Other models that help without a material cost.
    most_harmed : label
        The group that PCA harms most. If it is shown to gain, a material cost is not ruled out, or
        the model does harm that PCA is not shown to do.
    """
    reasons = []
    if most_harmed not in [effect.group for effect in model.effects_of_kind("gain")]:
        reasons.append(f"{quote_group(most_harmed)} is not shown to gain")
    if model.possible_costs:
        reasons.append(_describe_possible_costs(model))
    if not reasons:
        reasons.append(f"it harms a group that {pca.model} is not shown to harm")
    text = (
        f"{_describe_leading(model, pca, fair_models)} It is not recommended, since "
        f"{', and '.join(reasons)}."
    )
    if helpful:
        smallest = min(helpful, key=lambda each: each.expected_largest_loss)
        text += (
            f" Without a material cost, {smallest.full_name} lowers the estimate of the largest "
            f"loss to {_describe_estimate(smallest)} (at most {_limit_share(smallest)})."
        )
    return text


def explain_unneeded(
    model: ComparedModel, pca: ComparedModel, fair_models: Sequence[ComparedModel]
) -> str:
    """Explain that a model is not recommended because ordinary PCA is not shown to do harm."""
    return (
        f"{_describe_leading(model, pca, fair_models)} It is not recommended, since {pca.model} is "
        "not shown to harm any group."
    )


def _describe_leading(
    model: ComparedModel, pca: ComparedModel, fair_models: Sequence[ComparedModel]
) -> str:
    """State that the largest loss is estimated to be smallest under a model, with its limit."""
    if len(fair_models) == 1:
        return f"Under {model.full_name}, {_describe_losses(model, pca)}."
    return (
        f"Of {_describe_rivals(model, pca, fair_models)}, {model.full_name} has the smallest "
        f"estimate of the largest loss of a group, {_describe_estimates(model, pca)}; "
        f"{_describe_limits(model, pca)}."
    )


def question_by_finding(finding: Finding) -> Advice:
    """State that nothing is recommended before the remedy of a finding about the data."""
    return Advice.from_texts(
        f"Recommend no model yet: {finding.caveat} ({finding.code}).", finding.remedy
    )


def _describe_possible_costs(model: ComparedModel) -> str:
    """Return the clause "whether 'a' or 'b' pays more than 1.0 % is unresolved", with a reason."""
    effects = model.possible_costs
    names = join_alternatives([quote_group(effect.group) for effect in effects], _MAX_NAMED)
    clause = f"whether {names} pays more than {ascii_share(model.materiality)} is unresolved"
    doubtful = [effect for effect in effects if effect.is_limit_doubtful(model.materiality)]
    if len(doubtful) == len(effects) == 1:
        return f"{clause}, {explain_heavy_tails(effects[0].change, model.materiality)}"
    return clause


def _describe_losses(model: ComparedModel, pca: ComparedModel) -> str:
    """Return the estimate of the largest loss and its upper limit, each beside that under PCA."""
    return (
        f"the largest loss of a group is estimated at {_describe_estimates(model, pca)}; "
        f"{_describe_limits(model, pca)}"
    )


def _describe_limits(model: ComparedModel, pca: ComparedModel) -> str:
    """Return the largest upper limits under a model and PCA, naming a group once."""
    under_pca = _limit_share(pca)
    if model.group != pca.group:
        under_pca += f", of {quote_group(pca.group)}"
    return (
        f"the largest upper limit is {_limit_share(model)}, of {quote_group(model.group)} "
        f"(under {pca.model}, {under_pca})"
    )


def _describe_estimates(model: ComparedModel, pca: ComparedModel) -> str:
    """Return the estimates of the largest loss under a model and PCA, naming a group once."""
    under_pca = _describe_estimate(pca)
    if model.expected_group == pca.expected_group:
        under_pca = _estimated_share(pca)
    return f"{_describe_estimate(model)} (under {pca.model}, {under_pca})"


def _describe_estimate(model: ComparedModel) -> str:
    """Return "5.3 % of the variance of 'a'" for the estimate of the largest loss."""
    return f"{_estimated_share(model)} of the variance of {quote_group(model.expected_group)}"


def _estimated_share(model: ComparedModel) -> str:
    return ascii_share(model.expected_largest_loss, model.materiality)


def _describe_open_loss(model: ComparedModel) -> str:
    """Return a clause if the estimate of the largest loss is immaterial, its limit is not."""
    if not model.expected_largest_loss < model.materiality < model.largest_loss_limit:
        return ""
    return f", so a loss above {ascii_share(model.materiality)} is not ruled out"


def _limit_share(model: ComparedModel) -> str:
    """Format the upper limit of the largest loss, which is not rounded to zero."""
    return ascii_share(max(model.largest_loss_limit, _MIN_LIMIT), model.materiality)


def _describe_unknown(model: ComparedModel) -> str:
    """Return a sentence on the groups without estimates; empty if there are none."""
    if not model.unknown_groups:
        return ""
    names = join_truncated([quote_group(label) for label in model.unknown_groups])
    return f" The loss of {names} is unknown."
