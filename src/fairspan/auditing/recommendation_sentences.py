"""Sentences of recommendations.

Which model is recommended is decided in :mod:`fairspan.auditing.recommendation_rules`.
"""

from collections.abc import Sequence

from fairspan.auditing.effect_sentences import describe_shown_effects
from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.group_names import ascii_share, quote_group
from fairspan.auditing.recommendation import ComparedModel
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import verb_form

# Maximum number of groups that are named of those that may pay.
_MAX_NAMED = 3
# Smallest limit that is printed: that of one decimal of a percentage.
_MIN_LIMIT = 0.001


def advise_pca_without_harm(pca: ComparedModel) -> str:
    """Advise ordinary PCA, since it does no material harm."""
    return f"Use {pca.model}: the loss of every group is at most {_describe_limit(pca)}."


def advise_pca_without_rival(pca: ComparedModel) -> str:
    """Advise ordinary PCA, since no fair model is estimated to have a smaller largest loss."""
    return (
        f"Use {pca.model}: under no fair model is the largest loss of a group estimated to be "
        f"smaller (under {pca.model} it is at most {_describe_limit(pca)}).{_describe_unknown(pca)}"
    )


def advise_fair_model(
    model: ComparedModel, pca: ComparedModel, n_compared: int, tied: Sequence[ComparedModel]
) -> str:
    """Advise a fair model under which no group pays, with the largest loss under it and PCA.

    The verdict states the costs. Models that are `tied` are not shown to have a larger loss.
    """
    limits = _describe_limits(model, pca)
    text = f"Use {model.full_name}: the largest loss of a group is at most {limits}."
    if n_compared <= 2:
        return text
    text += f" Of the {n_compared} models compared, its estimate is the smallest"
    if not tied:
        return f"{text}."
    names = join_truncated([each.full_name for each in tied])
    return f"{text}, but {names} {verb_form(len(tied), 'is', 'are')} not shown to be worse."


def advise_no_model(model: ComparedModel) -> str:
    """State that no model is recommended, with who gains and who pays under the leading one."""
    gains = model.effects_of_kind("gain")
    shown = (*gains, *model.effects_of_kind("cost"))
    effects = describe_shown_effects(shown, model.materiality)
    text = f"No model is recommended: under {model.full_name}, {effects}"
    if not gains:
        return f"{text}, and no group is shown to gain."
    return f"{text}. If you accept the cost, use {model.full_name} and report it."


def advise_other_criterion(fair_models: Sequence[ComparedModel]) -> str:
    """State that all fair models aim at equal errors, so that none is recommended."""
    names = ", ".join(model.model for model in fair_models)
    return (
        f"Whether equal errors are worth a loss is a value judgment, so {names} is shown but not "
        "recommended. To lower losses, compare a model by minimax loss."
    )


def explain_close_limits(model: ComparedModel, pca: ComparedModel) -> str:
    """Explain that a model helps, but that its limit of the largest loss is not smaller."""
    gains = describe_shown_effects(model.effects_of_kind("gain"), model.materiality)
    return (
        f"No model is recommended: under {model.full_name}, {gains}, but the largest loss of a "
        f"group is at most {_describe_limits(model, pca)}."
    )


def explain_larger_loss(model: ComparedModel, pca: ComparedModel) -> str:
    """Explain that a model helps, but that its largest loss is not estimated to be smaller."""
    gains = describe_shown_effects(model.effects_of_kind("gain"), model.materiality)
    losses = [ascii_share(each.expected_largest_loss, each.materiality) for each in (model, pca)]
    return (
        f"No model is recommended: under {model.full_name}, {gains}, but the largest loss of a "
        f"group is estimated at {losses[0]} of its variance (under {pca.model}, {losses[1]})."
    )


def explain_undecided(
    model: ComparedModel,
    pca: ComparedModel,
    helpful: Sequence[ComparedModel],
) -> str:
    """Explain why the model with the smallest estimate of the largest loss is not recommended.

    `helpful` are other models that help without a material cost.
    """
    reason = f"the group that {pca.model} harms most is not shown to gain"
    if model.possible_costs:
        names = join_truncated(
            [quote_group(effect.group) for effect in model.possible_costs], _MAX_NAMED
        )
        verb = verb_form(len(model.possible_costs), "pays", "pay")
        threshold = ascii_share(model.materiality)
        reason = f"whether {names} {verb} more than {threshold} is unresolved"
    text = (
        f"No model is recommended: the estimate of the largest loss is smallest under "
        f"{model.full_name}, at most {_describe_limits(model, pca)}, but {reason}."
    )
    if not helpful:
        return text
    smallest = min(helpful, key=lambda each: each.expected_largest_loss)
    return (
        f"{text} Without a material cost, {smallest.full_name} lowers the largest loss to at most "
        f"{_describe_limit(smallest)}."
    )


def question_by_finding(finding: Finding) -> str:
    """State that nothing is recommended before the remedy of a finding about the data."""
    return f"Recommend no model yet: {finding.caveat} ({finding.code}). {finding.remedy}"


def _describe_limits(model: ComparedModel, pca: ComparedModel) -> str:
    """Return the limits of the largest loss under a model and PCA, naming a group once."""
    under_pca = _describe_limit(pca)
    if model.group == pca.group:
        under_pca = _limit_share(pca)
    return f"{_describe_limit(model)} (under {pca.model}, {under_pca})"


def _describe_limit(model: ComparedModel) -> str:
    """Return "5.3 % of the variance of 'a'" for the upper limit of the largest loss."""
    return f"{_limit_share(model)} of the variance of {quote_group(model.group)}"


def _limit_share(model: ComparedModel) -> str:
    """Format the upper limit of the largest loss, which is not rounded to zero."""
    return ascii_share(max(model.largest_loss_limit, _MIN_LIMIT), model.materiality)


def _describe_unknown(model: ComparedModel) -> str:
    """Return a sentence on the groups without estimates; empty if there are none."""
    if not model.unknown_groups:
        return ""
    names = join_truncated([quote_group(label) for label in model.unknown_groups])
    return f" The loss of {names} is unknown."
