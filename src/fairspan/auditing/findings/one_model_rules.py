"""FS107 and FS201 to FS208: observations about one model."""

from collections.abc import Iterator, Sequence

from fairspan.auditing.audited_rows import AuditedRows
from fairspan.auditing.findings.catalog import Finding, Setting, make_finding
from fairspan.auditing.group_names import ascii_share, quote_group, quote_groups
from fairspan.auditing.results import ModelResult, argmax_with_ties, labels_of, relative_loss
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import (
    format_ascii_number,
    format_count,
    format_interval,
    format_relative,
    to_ascii,
)
from fairspan.rows.labels import format_list

# A larger ratio of two errors says only that one of them is negligible, so it is not shown.
_MAX_ERROR_RATIO = 1e6


def absent_groups(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS107: training groups that do not occur in the audited rows."""
    present = {group.group for group in model.groups}
    absent = [label for label in model.training_groups if label not in present]
    if len(model.training_groups) > 1 and absent:
        yield make_finding(
            "FS107",
            f"{model.name}: fitted to groups that do not occur in these rows: "
            f"{format_list(absent)}. The audit does not cover them.",
            model.name,
            tuple(absent),
        )


def lossless(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS206: no variance is lost in any group, up to rounding error."""
    if model.is_lossless:
        verb = "keeps"
        remedy = ""
        settings: list[Setting] = []
        if model.n_components > 1:
            verb = "keep"
            remedy = " Use fewer dimensions (n_components) for a meaningful comparison."
            settings = [Setting("n_components", "(n_components)")]
        yield make_finding(
            "FS206",
            f"{model.name}: {_dimension_count(model)} {verb} all variance of every group up to "
            f"rounding error, so no group has a loss.{remedy}",
            model.name,
            settings=settings,
        )


def largest_pca_loss(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS205: the group with the largest loss under ordinary PCA.

    None for other models, if all losses are negligible, or if there are estimates for new rows and
    the largest loss is not shown to be above zero.
    """
    losses = model.losses()
    if not model.is_pca or len(losses) < 2 or max(losses.values()) <= model.rounding_bound:
        return
    group_by_label = {group.group: group for group in model.groups}
    largest_labels, loss = argmax_with_ties(losses, model.rounding_bound)
    smallest_label = min(losses, key=lambda label: losses[label])
    largest_group = group_by_label[largest_labels[0]]
    scope = "these rows"
    best_error = largest_group.observed_best_error
    share_sentence = ""
    if model.has_estimates:
        # Report only losses that are significant; the verdict covers the others.
        states = {group_by_label[label].state for label in largest_labels}
        if not states <= {"harmed", "minor"}:
            return
        scope = "new rows"
        best_error = largest_group.expected_best_error
        estimated = [group for group in model.groups if group.group in losses]
        largest_share_group = max(estimated, key=relative_loss)
        is_another = largest_share_group.group not in largest_labels
        if is_another and largest_share_group.state == "harmed":
            share_sentence = (
                f" Relative to its variance, {quote_group(largest_share_group.group)} has the "
                f"largest loss: {ascii_share(relative_loss(largest_share_group))}."
            )
    verb = "has"
    errors = "Its error is"
    each_group = "this group"
    if len(largest_labels) > 1:
        verb = "have"
        errors = "Their errors are"
        each_group = "each group"
    relative_text = ""
    # A ratio to a negligible best error would be meaningless.
    if best_error > largest_group.observed_rounding and len(largest_labels) == 1:
        relative_text = f" ({to_ascii(format_relative(loss / best_error))})"
    names = join_truncated([quote_group(label) for label in largest_labels])
    yield make_finding(
        "FS205",
        f"{model.name}: {names} {verb} the largest loss on {scope}. {errors} "
        f"{format_ascii_number(loss)}{relative_text} above the smallest error that "
        f"{_dimension_count(model)} can achieve for {each_group} alone; for "
        f"{quote_group(smallest_label)} the loss is {format_ascii_number(losses[smallest_label])}."
        f"{share_sentence}",
        model.name,
        (*largest_labels, smallest_label),
    )


def disparity(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS201, FS202: whether the interval of the disparity contains zero.

    The disparity is the difference in error of two groups: on new rows if it was estimated,
    otherwise on the audited rows. None without an interval, or if no variance is lost.
    """
    difference = model.observed_disparity
    pair = model.disparity_pair
    scope = "these rows"
    errors = {group.group: group.observed_error.value for group in model.groups}
    if model.expected_disparity_pair is not None:
        difference = model.expected_disparity
        pair = model.expected_disparity_pair
        scope = "new rows"
        errors = {group.group: group.expected_error.value for group in model.groups}
    if not difference.has_interval or model.is_lossless:
        return
    first, second = pair
    interval = to_ascii(format_interval(difference.low, difference.high))
    if difference.contains_zero:
        yield make_finding(
            "FS201",
            f"{model.name}: the interval of the difference in error between {quote_group(second)} "
            f"and {quote_group(first)} on {scope} ({interval}) contains zero, so neither group is "
            "shown to have the larger error.",
            model.name,
            pair,
        )
        return
    worse = first
    better = second
    if difference.value > 0:
        worse = second
        better = first
    # Not for ratios that are huge because the smaller error is negligible.
    relative_text = ""
    if errors[worse] < _MAX_ERROR_RATIO * errors[better]:
        excess = errors[worse] / errors[better] - 1
        relative_text = f"{to_ascii(format_relative(excess))} more error; "
    yield make_finding(
        "FS202",
        f"{model.name} reconstructs {quote_group(worse)} worse than {quote_group(better)} on "
        f"{scope}, by {format_ascii_number(abs(difference.value))} ({relative_text}interval of the "
        f"difference {interval}).",
        model.name,
        (worse, better),
    )


def not_proven_optimal(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS204: models with a certificate that is not "optimal", with the reason if it is known."""
    if model.status in (None, "optimal"):
        return
    message = f"is not proven optimal ({model.status})."
    settings: list[Setting] = []
    if model.is_nested and model.status == "open gap" and model.gap is not None:
        message = (
            "its components are nested: each was chosen with the previous ones fixed. "
            f"{_dimension_count(model)} chosen jointly may be better by at most {model.gap:.4g}."
        )
    if model.status == "unresolved":
        message = "double precision cannot resolve how close it is to the optimum (unresolved)"
        if model.unresolved_reason:
            message += f": {model.unresolved_reason}"
        message += "."
        if "column" in (model.unresolved_reason or ""):
            settings = _settings_for_large_column(model)
            uses = [f"use {setting.phrase}" for setting in settings]
            message += f" {', or '.join(['Rescale it', *uses])}."
    yield make_finding("FS204", f"{model.name}: {message}", model.name, settings=settings)


def _settings_for_large_column(model: ModelResult) -> list[Setting]:
    """Return the settings that help against a column of very large numbers, and are not chosen."""
    settings = []
    if not model.is_scaled:
        settings.append(Setting("scale", "scale=True", True))
    if model.center != "global":
        settings.append(Setting("center", 'center="global"', "global"))
    return settings


def negative_losses(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS207: intervals of losses below zero, which suggest that the rows were used in fitting."""
    negative = [group for group in model.groups if group.has_negative_loss(group.observed_rounding)]
    if negative:
        yield make_finding(
            "FS207",
            f"{model.name}: the interval of the expected loss of {quote_groups(negative)} is below "
            "zero, although losses are nonnegative. Either this is chance, or the rows were used "
            "to fit the model, so no claim is made. Audit held-out rows.",
            model.name,
            labels_of(negative),
        )


def unstable_model(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS208: models that depend strongly on their rows.

    Those are models under whose refits the error of a group varies by more than half the width of
    the interval of its loss.
    """
    if model.instability is not None and model.instability > 1:
        yield make_finding(
            "FS208",
            f"{model.name}: the projection itself is unstable. Across refits without one fold, the "
            f"error of a group varies by {format_ascii_number(model.instability)} times the half "
            "width of the interval of its loss; the cosine of the largest angle between a refit "
            f"and the model is {format_ascii_number(model.min_cosine or 0.0)}. Change the number "
            "of dimensions or the scaling, or inspect outliers.",
            model.name,
        )


def in_sample_models(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS203: models fitted to the audited rows; none without intervals, which FS106 reports."""
    in_sample = [model for model in models if model.in_sample]
    if not in_sample or not rows.has_intervals:
        return
    verb = "was"
    possessive = "Its"
    pronoun = "it is"
    if len(in_sample) > 1:
        verb = "were"
        possessive = "Their"
        pronoun = "they are"
    message = f"{', '.join(model.name for model in in_sample)}: {verb} fitted to these rows"
    if any(model.in_sample_inferred for model in in_sample):
        message += " or most of them, judging by the figures"
    if any(model.has_estimates for model in in_sample):
        message += (
            f". {possessive} errors on new rows are estimated by cross-fitting: {pronoun} refitted "
            "leaving out one fold at a time."
        )
    else:
        message += (
            ". The intervals are for this fixed projection; errors on new rows may be larger. "
            "Audit held-out rows to find out."
        )
    name = None
    if len(in_sample) == 1:
        name = in_sample[0].name
    yield make_finding("FS203", message, name)


def _dimension_count(model: ModelResult) -> str:
    return to_ascii(format_count(model.n_components, "dimension"))
