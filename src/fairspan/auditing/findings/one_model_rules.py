"""FS107, FS201 to FS208 and FS211: observations about one model."""

from collections.abc import Iterator, Sequence

from fairspan.auditing.audited_rows import AuditedRows
from fairspan.auditing.findings.finding import Finding, Setting
from fairspan.auditing.findings.finding_catalog import make_finding
from fairspan.auditing.group_names import ascii_share, quote_group, quote_groups
from fairspan.auditing.order_of_shares import describe_order_of_shares
from fairspan.auditing.results import ModelResult, argmax_with_ties, harmed_groups, labels_of
from fairspan.formatting.names import join_alternatives, join_truncated
from fairspan.formatting.numbers import (
    format_count,
    format_relative,
    share_with_interval,
    to_ascii,
    verb_form,
)
from fairspan.rows.labels import format_list

# Shares of variance lost that differ by less are tied: they differ by rounding only.
_LOSS_SHARE_TOL = 1e-12


def one_model_findings(
    model: ModelResult, models: Sequence[ModelResult] = (), *, is_baseline: bool = False
) -> Iterator[Finding]:
    """Apply the rules about one model.

    Parameters
    ----------
    model : ModelResult
    models : sequence of ModelResult
        All models of the audit.
    is_baseline : bool
        Whether a fair model is compared with it.
    """
    yield from absent_groups(model)
    yield from full_variance_kept(model)
    yield from largest_pca_loss(model, is_baseline=is_baseline)
    yield from error_disparity(model, models)
    yield from not_proven_optimal(model)
    yield from negative_losses(model)
    yield from unstable_model(model)
    yield from distance_from_rank_bound(model)


def absent_groups(model: ModelResult) -> Iterator[Finding]:
    """FS107: training groups that do not occur in the audited rows."""
    present = {group.group for group in model.groups}
    absent = [label for label in model.training_groups if label not in present]
    if len(model.training_groups) > 1 and absent:
        yield make_finding(
            "FS107",
            {"groups": format_list(absent)},
            model=model.name,
            groups=absent,
        )


def distance_from_rank_bound(model: ModelResult) -> Iterator[Finding]:
    """FS211: the largest error of a model of others, and the bound for linear decoders."""
    rank_bound = model.rank_bound
    if rank_bound is None:
        return
    figures = {
        "group": quote_group(rank_bound.group),
        "error": ascii_share(rank_bound.largest_error),
        "numbers": to_ascii(format_count(model.n_components, "number")),
        "bound": ascii_share(rank_bound.bound),
        "excess": to_ascii(format_relative(max(rank_bound.excess, 0.0))),
    }
    yield make_finding("FS211", figures, model=model.name, groups=[rank_bound.group])


def full_variance_kept(model: ModelResult) -> Iterator[Finding]:
    """FS206: no variance is lost in any group, up to rounding error."""
    if not model.is_lossless:
        return
    # Advise fewer dimensions, unless there is only one.
    case: str | None = "one dimension"
    settings: list[Setting] = []
    if model.n_components > 1:
        case = None
        settings = [Setting("n_components", "(n_components)")]
    yield make_finding(
        "FS206",
        {"dimensions": _dimension_count(model)},
        case=case,
        model=model.name,
        settings=settings,
    )


def largest_pca_loss(model: ModelResult, *, is_baseline: bool) -> Iterator[Finding]:
    """FS205: the group with the largest loss under ordinary PCA, as a share of its variance.

    None for other models, if all losses are negligible, or if there are estimates for new rows and
    the largest loss is not shown to be above zero.
    """
    losses = model.loss_shares()
    if not model.is_pca or len(losses) < 2 or not any(losses.values()):
        return
    group_by_label = {group.group: group for group in model.groups}
    largest_labels, loss = argmax_with_ties(losses, _LOSS_SHARE_TOL)
    smallest_label = min(losses, key=lambda label: losses[label])
    scope = "these rows"
    if model.has_estimates:
        # Report only losses that are significant; the verdict covers the others.
        states = {group_by_label[label].state for label in largest_labels}
        if not states <= {"harmed", "minor"}:
            return
        scope = "new rows"
    verb = "has"
    errors = "Its error is"
    each_group = "this group"
    if len(largest_labels) > 1:
        verb = "have"
        errors = "Their errors are"
        each_group = "each group"
    names = join_truncated([quote_group(label) for label in largest_labels])
    yield make_finding(
        "FS205",
        {
            "groups": names,
            "have": verb,
            "scope": scope,
            "their_error_is": errors,
            "loss": ascii_share(loss),
            "dimensions": _dimension_count(model),
            "each_group": each_group,
            "smallest_group": quote_group(smallest_label),
            "smallest_loss": ascii_share(losses[smallest_label]),
        },
        case="compared" if is_baseline else None,
        model=model.name,
        # All groups may tie: then the smallest loss is one of the largest.
        groups=tuple(dict.fromkeys([*largest_labels, smallest_label])),
    )


def error_disparity(model: ModelResult, models: Sequence[ModelResult] = ()) -> Iterator[Finding]:
    """FS201, FS202: whether the interval of the disparity contains zero.

    The disparity is the error of the second group of the pair minus that of the first: on new rows
    if it was estimated, otherwise on the audited rows. None without an interval, or if no variance
    is lost. Of the other models, those that aim at equal errors are named with their result.
    """
    difference = model.observed_disparity
    pair = model.disparity_pair
    scope = "these rows"
    if model.expected_disparity_pair is not None:
        difference = model.expected_disparity
        pair = model.expected_disparity_pair
        scope = "new rows"
    if not difference.has_interval or model.is_lossless:
        return
    # Subtract the smaller error from the larger one, and name the groups in this order.
    better, worse = pair
    if difference.value < 0:
        worse, better = pair
        difference = -difference
    # Errors of groups are compared in one unit, the variance of all rows.
    share = difference.relative_to(model.total_variance)
    size, interval = map(to_ascii, share_with_interval(share.value, share.low, share.high))
    if difference.contains_zero:
        yield make_finding(
            "FS201",
            {
                "first": quote_group(worse),
                "second": quote_group(better),
                "scope": scope,
                "interval": interval,
            },
            model=model.name,
            groups=pair,
        )
        return
    other_models = [candidate for candidate in models if candidate is not model]
    yield make_finding(
        "FS202",
        {
            "worse": quote_group(worse),
            "better": quote_group(better),
            "scope": scope,
            "difference": size,
            "interval": interval,
            "order_of_shares": describe_order_of_shares(model, worse, better),
        },
        model=model.name,
        groups=(worse, better),
        result=_describe_equal_errors(other_models),
    )


def _describe_equal_errors(models: Sequence[ModelResult]) -> str:
    """State the result of the criterion of equal errors that shows no difference on new rows.

    Of several such models, the one with the smallest of the largest losses. Empty without any.
    """
    candidates = [
        model
        for model in models
        if model.favors_equal_errors
        and model.has_estimates
        and model.expected_disparity.contains_zero
    ]
    if not candidates:
        return ""
    model = min(candidates, key=lambda candidate: max(candidate.loss_shares().values()))
    text = f"Under {model.name}, no difference is shown"
    harmed = harmed_groups(model)
    if harmed:
        names = quote_groups(harmed)
        verb = verb_form(len(harmed), "loses", "lose")
        losses = join_truncated([ascii_share(group.expected_loss_share.value) for group in harmed])
        return f"{text}, but {names} then {verb} {losses} of the variance (harmed)."
    open_groups = [group for group in model.groups if group.state == "inconclusive"]
    if open_groups:
        names = join_alternatives([quote_group(group.group) for group in open_groups])
        return f"{text}; whether it harms {names} is unresolved."
    return f"{text}, and no group is shown to be harmed."


def not_proven_optimal(model: ModelResult) -> Iterator[Finding]:
    """FS204: models with a certificate that is not "optimal", with the reason if it is known."""
    if model.status in (None, "optimal"):
        return
    figures = {"status": str(model.status)}
    case = None
    settings: list[Setting] = []
    if model.is_nested and model.status == "open gap" and model.gap is not None:
        case = "nested"
        figures = {"dimensions": _dimension_count(model), "gap": f"{model.gap:.4g}"}
    if model.status == "unresolved":
        case = "unresolved"
        reason = model.unresolved_reason
        if reason:
            case = "unresolved for a reason"
            figures = {"reason": reason}
        if reason and model.scaling_helps:
            case = "large column"
            settings = _settings_for_large_column(model)
            uses = [f", or use {setting.phrase}" for setting in settings]
            figures = {"reason": reason, "or_use_settings": "".join(uses)}
    yield make_finding("FS204", figures, case=case, model=model.name, settings=settings)


def _settings_for_large_column(model: ModelResult) -> list[Setting]:
    """Return the settings that help against a column of very large numbers, and are not chosen."""
    settings = []
    if not model.is_scaled:
        settings.append(Setting("scale", "scale=True", True))
    if model.center != "global":
        settings.append(Setting("center", 'center="global"', "global"))
    return settings


def negative_losses(model: ModelResult) -> Iterator[Finding]:
    """FS207: intervals of losses below zero, which suggest that the rows were used in fitting."""
    negative = [group for group in model.groups if group.has_negative_loss(group.observed_rounding)]
    if negative:
        yield make_finding(
            "FS207",
            {"groups": quote_groups(negative)},
            model=model.name,
            groups=labels_of(negative),
        )


def unstable_model(model: ModelResult) -> Iterator[Finding]:
    """FS208: groups for which the variation of refits leaves harm, or the sign of a change, open.

    For the fixed model it would be shown. A model whose refits vary without such an effect is not
    reported, whatever its `instability`.
    """
    unstable = [group for group in model.groups if group.is_unstable]
    if unstable:
        pronoun = "this group's error"
        if len(unstable) > 1:
            pronoun = "the errors of these groups"
        yield make_finding(
            "FS208",
            {"groups": quote_groups(unstable), "their_error": pronoun},
            model=model.name,
            groups=labels_of(unstable),
        )


def in_sample_models(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS203: models fitted to the audited rows; none without intervals, which FS106 reports.

    One finding for the models with estimates for new rows, and one for those without.
    """
    if not rows.has_intervals:
        return
    in_sample = [model for model in models if model.in_sample]
    with_estimates = [model for model in in_sample if model.has_estimates]
    without_estimates = [model for model in in_sample if not model.has_estimates]
    if with_estimates:
        yield _describe_in_sample(with_estimates, case=None)
    if without_estimates:
        yield _describe_in_sample(without_estimates, case="no estimates")


def _describe_in_sample(models: Sequence[ModelResult], case: str | None) -> Finding:
    """FS203 of in-sample models that all have estimates for new rows, or all have none."""
    verb = "were" if len(models) > 1 else "was"
    has_changes = any(model.baseline is not None for model in models)
    inference = ""
    if any(model.in_sample_inferred for model in models):
        inference = " or a part of them, judging by the figures"
    name = None
    if len(models) == 1:
        name = models[0].name
    return make_finding(
        "FS203",
        {
            "models": ", ".join(model.name for model in models),
            "were": verb,
            "inference": inference,
            "changes": " and changes" if has_changes else "",
        },
        case=case,
        model=name,
    )


def _dimension_count(model: ModelResult) -> str:
    return to_ascii(format_count(model.n_components, "dimension"))
