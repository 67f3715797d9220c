"""Findings of an audit, each with a stable code (docs/findings.md).

The findings about the data follow from means and variances, except those about the order of rows.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np

from fairspan.auditing.expected_losses import MAX_OPTIMISM, is_heavy_tailed
from fairspan.auditing.models import AuditedModel
from fairspan.auditing.refit_bound import RefitBound
from fairspan.auditing.results import (
    AuditedRows,
    Finding,
    GroupResult,
    ModelResult,
    argmax_with_ties,
    harmed_groups,
    labels_of,
    quote_group,
    quote_groups,
    relative_loss,
)
from fairspan.formatting.messages import counted
from fairspan.formatting.names import join_truncated
from fairspan.formatting.numbers import (
    format_ascii_number,
    format_change,
    format_count,
    format_interval,
    format_relative,
    format_share,
    to_ascii,
)
from fairspan.moments.of_rows import Moments
from fairspan.rows.label_checks import (
    are_numbers,
    format_spellings,
    padded_labels,
    placeholder_labels,
    similar_labels,
)
from fairspan.rows.labels import Label, format_list
from fairspan.typing import FloatArray, IndexArray

# Share of the rows below which a group has little weight in ordinary PCA.
_SMALL_GROUP_SHARE = 0.05
# Rows per dimension (of d + 1) below which chance makes up 5 % or more of a group's best error.
_MIN_ROWS_PER_DIMENSION = 20
# Smallest drop in the share of variance kept that is reported: one percentage point.
_MIN_VARIANCE_LOST = 0.01
# A larger ratio of two errors says only that one of them is negligible, so it is not shown.
_MAX_ERROR_RATIO = 1e6


class FindingRule(NamedTuple):
    """Severity, remedy and caveat of a finding.

    A rule with a caveat qualifies the verdict; if the observation may be harmless, the verdict "no
    material harm" stands with the caveat. See docs/findings.md.
    """

    severity: Literal["info", "warning"]
    remedy: str
    caveat: str = ""
    may_be_harmless: bool = False


RULES = {
    "FS101": FindingRule(
        "warning",
        "Use fewer dimensions, collect more rows, merge the group with another, or choose a "
        'criterion of errors ("minimax_error", "error_gap") instead of losses.',
    ),
    "FS102": FindingRule("warning", "Collect more rows, or exclude the group and report that."),
    "FS103": FindingRule(
        "warning",
        "Check that the group is sampled as intended. Fair criteria do not need large groups, but "
        "few rows give wide intervals.",
    ),
    "FS104": FindingRule(
        "warning", "Inspect these rows. Often the group's data are missing or were imputed."
    ),
    "FS105": FindingRule(
        "warning",
        "Check the group column: a filter, a join or a misspelled name may have removed the other "
        "groups.",
    ),
    "FS106": FindingRule("info", "Pass the rows, or separate moments of several blocks of rows."),
    "FS107": FindingRule(
        "warning", "Audit rows from all groups, or check the spelling of the labels."
    ),
    "FS108": FindingRule(
        "warning",
        "Collect more rows of the group, merge it with another, or use fewer dimensions.",
    ),
    "FS109": FindingRule(
        "warning",
        "Inspect the rows with the largest values. Taking logarithms of heavy-tailed columns or "
        "capping them makes the intervals reliable.",
        "a few rows dominate the error of a group",
    ),
    "FS110": FindingRule(
        "warning",
        "Audit held-out rows, or use fewer features so that the moments by fold fit into memory.",
    ),
    "FS201": FindingRule(
        "info",
        "The limits of the interval show which differences remain possible. More rows make it "
        "narrower.",
    ),
    "FS202": FindingRule(
        "warning",
        'Decide whether equal errors are desirable. If so, use "error_gap" or "equal_error"; if '
        "that only raises the smaller error, report the difference instead.",
    ),
    "FS203": FindingRule(
        "info",
        "No action if you report the estimates for new rows; otherwise audit held-out rows.",
    ),
    "FS204": FindingRule(
        "warning",
        'Check whether the gap matters for your purpose. If the status is "open gap", use the '
        "default solver and tolerance, or with more than two groups allow_extra=True. If it is "
        '"unresolved", rescale the column of very large numbers, or use scale=True or '
        'center="global".',
    ),
    "FS205": FindingRule("info", "Compare with a model fitted with a fair criterion."),
    "FS206": FindingRule("info", "Use fewer dimensions for a meaningful comparison."),
    "FS207": FindingRule(
        "warning",
        "Audit rows that were not used to fit the model, or pass the fitted model instead of its "
        "components, so that it can be refitted for cross-fitting.",
    ),
    "FS208": FindingRule(
        "warning",
        "Change the number of dimensions so that the next eigenvalue is clearly smaller, change "
        "the scaling, or inspect outliers.",
        "the projection itself is unstable",
    ),
    "FS209": FindingRule(
        "info",
        "Keep the model if no refit is needed. Otherwise refit it, and compare both models on rows "
        "that neither was fitted to.",
    ),
    "FS210": FindingRule(
        "warning",
        "Find out what changed in the rows of these groups. Refit the model if FS209 says that it "
        "may help.",
    ),
    "FS301": FindingRule(
        "warning",
        "Compare each model with its own best error, or refit them with the same settings.",
    ),
    "FS302": FindingRule(
        "info", "Decide whether the smaller loss justifies the larger error over all rows."
    ),
    "FS303": FindingRule(
        "info",
        "Decide whether this cost is acceptable for these groups. A criterion weighted by rows, or "
        "more dimensions, lowers their losses.",
    ),
    "FS401": FindingRule("warning", "Exclude the feature (drop the column, or --exclude)."),
    "FS402": FindingRule(
        "warning",
        "Exclude the feature (drop the column, or --exclude), unless it is a measurement.",
        "a feature may be an identifier",
    ),
    "FS403": FindingRule(
        "warning",
        "Use scale=True (--standardize), or rescale the feature.",
        "one unscaled feature accounts for nearly all of the variance",
    ),
    "FS404": FindingRule(
        "warning", "Merge rare categories, exclude them (--exclude), or do not scale."
    ),
    "FS405": FindingRule(
        "warning", "Use one spelling per group in the group column, without surrounding spaces."
    ),
    "FS406": FindingRule(
        "warning",
        "Cross fewer attributes or merge groups; put numbers such as ages into bins (--bin, "
        "pandas.cut); check that the group column is not an identifier.",
    ),
    "FS407": FindingRule(
        "warning",
        "Compare the rows with and without these values. Exclude the features, or use the observed "
        'cells (on_missing="em", --on-missing em), and report which.',
    ),
    "FS408": FindingRule(
        "warning",
        "Exclude the features that cause most rows to be dropped (drop the columns, or --exclude), "
        "or collect their values.",
        "a large part of a group is dropped or imputed",
    ),
    "FS409": FindingRule(
        "warning",
        "Pass the column that identifies the clusters: clusters=, --clusters.",
        "rows appear to be repeated measurements",
    ),
    "FS410": FindingRule(
        "warning",
        "Pass the column that identifies the clusters: clusters=, --clusters. If the table is "
        "merely sorted, no action is needed.",
        "rows appear to be dependent, or the table is sorted",
        may_be_harmless=True,
    ),
    "FS411": FindingRule(
        "info",
        "Find out how values came to be missing, and for whom. Compare with the complete rows only "
        "(on_missing='drop', --on-missing drop).",
    ),
    "FS412": FindingRule(
        "warning",
        "Find out what the values mean. If they are codes for missing values, name them "
        "(--na-values, FileRows.open(..., na_values=...), X.replace in pandas), and choose what to "
        "do with these rows (on_missing, --on-missing).",
    ),
    "FS413": FindingRule(
        "warning",
        "Treat the labels as missing and drop their rows (--na-values with --missing-group drop; "
        'in Python None in their place and on_missing="drop"), or give the group a name that says '
        "who is in it.",
    ),
}


def make_finding(
    code: str,
    message: str,
    model: str | None = None,
    groups: Sequence[Label] = (),
    columns: tuple[str, ...] = (),
) -> Finding:
    """Create a finding from the rule of its code."""
    rule = RULES[code]
    return Finding(
        code=code,
        severity=rule.severity,
        message=message,
        model=model,
        groups=tuple(groups),
        columns=columns,
        remedy=rule.remedy,
        caveat=rule.caveat,
        may_be_harmless=rule.may_be_harmless,
    )


def model_findings(models: Sequence[ModelResult], rows: AuditedRows) -> tuple[Finding, ...]:
    """Apply all rules: about the rows, about each model, and across models."""
    return (
        *chain.from_iterable(rule(models, rows) for rule in _ROW_RULES),
        *chain.from_iterable(rule(model, rows) for model in models for rule in _MODEL_RULES),
        *chain.from_iterable(rule(models) for rule in _COMPARISON_RULES),
    )


def _degenerate_groups(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS101 to FS105: groups too small or degenerate for reliable figures."""
    groups = models[0].groups
    if len(groups) == 1:
        yield make_finding(
            "FS105",
            f"All rows belong to one group ({quote_group(groups[0].group)}), so there is nothing "
            "to compare. Check the group column.",
            groups=labels_of(groups),
        )
    yield from _too_small_groups(models, rows)
    singletons = [group for group in groups if group.n_rows == 1]
    if singletons:
        yield make_finding(
            "FS102",
            f"{quote_groups(singletons)}: only one row, so no interval can be computed. Collect "
            "more rows.",
            groups=labels_of(singletons),
        )
    minorities = [group for group in groups if group.proportion < _SMALL_GROUP_SHARE]
    if minorities:
        shares = join_truncated([_ascii_share(group.proportion) for group in minorities])
        yield make_finding(
            "FS103",
            f"{quote_groups(minorities)}: less than 5 % of the rows ({shares}), so ordinary PCA "
            "gives them little weight. Check that they are sampled as intended.",
            groups=labels_of(minorities),
        )
    without_variance = [
        group for group in groups if group.n_rows > 1 and group.observed_total_variance == 0
    ]
    if without_variance:
        yield make_finding(
            "FS104",
            f"{quote_groups(without_variance)}: no variance, so the share of variance kept is "
            "undefined. Check these rows.",
            groups=labels_of(without_variance),
        )


def _too_small_groups(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    # Models that keep all dimensions have no loss, whatever the number of rows.
    dimensions = [model.n_components for model in models if model.n_components < rows.n_features]
    if not dimensions:
        return
    d = max(dimensions)
    # Significant harm already accounts for chance.
    harmed_labels = {group.group for model in models for group in harmed_groups(model)}
    open_groups = [group for group in models[0].groups if group.group not in harmed_labels]
    min_rows = _MIN_ROWS_PER_DIMENSION * (d + 1)
    too_small = [group for group in open_groups if 1 < group.n_rows < min_rows]
    if too_small:
        counts = join_truncated([str(group.n_rows) for group in too_small])
        yield make_finding(
            "FS101",
            f"{quote_groups(too_small)}: too few rows ({counts}) for "
            f"{to_ascii(format_count(d, 'dimension'))}. Chance makes the best error too small and "
            "the excess loss too large, so do not interpret this loss as harm. Use fewer "
            f"dimensions, or collect more rows{_describe_rows_needed(too_small)}.",
            groups=labels_of(too_small),
        )


def _describe_rows_needed(groups: Sequence[GroupResult]) -> str:
    needed = [
        f"{group.n_rows_needed:,} of {quote_group(group.group)}"
        for group in groups
        if group.n_rows_needed
    ]
    return f" (about {join_truncated(needed)} would suffice)" if needed else ""


def _no_intervals(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS106: a single set of moments."""
    if not rows.has_intervals:
        yield make_finding(
            "FS106",
            "There are no intervals: a single set of moments carries no information on the "
            "variability of errors. Pass the rows, or a list of moments of separate blocks.",
        )


def _absent_groups(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
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


def _disparity(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS201, FS202: significance of the disparity."""
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
    worse, better = (second, first) if difference.value > 0 else (first, second)
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


def _unstable_best_subspaces(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS108: groups whose best subspace is poorly determined."""
    groups = _groups_where(models, lambda group: group.relative_optimism > MAX_OPTIMISM)
    if groups:
        optimism = join_truncated([_ascii_share(group.relative_optimism) for group in groups])
        yield make_finding(
            "FS108",
            f"{quote_groups(groups)}: the error of the group's best subspace is larger on held-out "
            f"rows than on its training rows, by {optimism} of its error, so the group's loss is "
            "known only roughly. Collect more rows, or use fewer dimensions.",
            groups=labels_of(groups),
        )


def _heavy_tails(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS109: heavy-tailed errors."""
    affected_models = [model for model in models if any(map(_has_heavy_tails, model.groups))]
    if affected_models:
        groups = _groups_where(affected_models, _has_heavy_tails)
        model_names = join_truncated([model.name for model in affected_models])
        yield make_finding(
            "FS109",
            f"{quote_groups(groups)}: under {model_names}, a few rows dominate the error, so "
            "intervals may miss the true value far more often than their level suggests. Inspect "
            "the rows with the largest values; take logarithms of heavy-tailed columns, or cap "
            "them (how-to guide: Outliers and heavy tails).",
            groups=labels_of(groups),
        )


def _has_heavy_tails(group: GroupResult) -> bool:
    return is_heavy_tailed(group.observed_kurtosis, group.n_rows)


def _missing_estimates(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS110: models without estimates for new rows."""
    for model in models:
        if model.no_estimates_reason is not None:
            yield make_finding(
                "FS110",
                f"{model.name}: there are no estimates for new rows, because "
                f"{model.no_estimates_reason}. Audit held-out rows, or use fewer features.",
                model.name,
            )


def _groups_where(
    models: Sequence[ModelResult], predicate: Callable[[GroupResult], bool]
) -> list[GroupResult]:
    """Return the groups that satisfy the predicate under any model, without duplicates."""
    group_by_label: dict[object, GroupResult] = {}
    for group in chain.from_iterable(model.groups for model in models):
        if predicate(group):
            group_by_label.setdefault(group.group, group)
    return list(group_by_label.values())


def _in_sample_models(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS203: models fitted to the audited rows."""
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
    yield make_finding("FS203", message, in_sample[0].name if len(in_sample) == 1 else None)


def _largest_pca_loss(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS205: the group with the largest loss under ordinary PCA."""
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
                f"largest loss: {_ascii_share(relative_loss(largest_share_group))}."
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


def _lossless(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS206: no variance is lost."""
    if model.is_lossless:
        verb = "keeps"
        remedy = ""
        if model.n_components > 1:
            verb = "keep"
            remedy = " Use fewer dimensions (n_components, -d) for a meaningful comparison."
        yield make_finding(
            "FS206",
            f"{model.name}: {_dimension_count(model)} {verb} all variance of every group up to "
            f"rounding error, so no group has a loss.{remedy}",
            model.name,
        )


def _negative_losses(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS207: negative losses, which suggest that the rows were used in fitting."""
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


def _not_proven_optimal(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS204: not proven optimal."""
    if model.status in (None, "optimal"):
        return
    message = f"is not proven optimal ({model.status})."
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
            message += f" {_remedy_for_large_column(model)}."
    yield make_finding("FS204", f"{model.name}: {message}", model.name)


def _remedy_for_large_column(model: ModelResult) -> str:
    """Return what to do about a column of very large numbers, if it is not done already."""
    remedies = ["Rescale it"]
    if not model.is_scaled:
        remedies.append("use scale=True (--standardize)")
    if model.center != "global":
        remedies.append('use center="global" (--center global)')
    return ", or ".join(remedies)


def _unstable_model(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS208: models that depend strongly on their rows."""
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


def _drift_since_fit(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS209, FS210: models that were fitted to other rows than the audited ones.

    FS209 says by how much a refit to the audited rows could lower the criterion at most, which is
    the refit bound; FS210, which groups' errors changed significantly since the fit. Reports on
    fair models only, if there are any.
    """
    with_bound = [model for model in models if model.refit_bound is not None]
    fair_models = [model for model in with_bound if not model.is_pca]
    for model in fair_models or with_bound:
        assert model.refit_bound is not None
        message = f"{model.name}: {_describe_refit_bound(model.refit_bound)}"
        largest_group = max(model.groups, key=lambda group: group.observed_loss)
        min_rows = _MIN_ROWS_PER_DIMENSION * (model.n_components + 1)
        if model.refit_bound.refit_may_help and largest_group.n_rows < min_rows:
            count = to_ascii(format_count(largest_group.n_rows, "row"))
            message += (
                f" Part of this may be due to chance: {quote_group(largest_group.group)}, the "
                f"group with the largest loss, has only {count}."
            )
        yield make_finding("FS209", message, model.name)
        drifted = [group for group in model.groups if _has_drifted(group)]
        if drifted:
            changes = [
                f"{quote_group(group.group)} by {format_ascii_number(group.drift.value)} "
                f"({to_ascii(format_interval(group.drift.low, group.drift.high))})"
                for group in drifted
            ]
            yield make_finding(
                "FS210",
                f"{model.name}: the error has changed significantly since the fit, for "
                f"{join_truncated(changes)}. Either the data have changed, or the model was "
                "overfitted to few rows.",
                model.name,
                labels_of(drifted),
            )


def _has_drifted(group: GroupResult) -> bool:
    """Whether the error has changed significantly since the fit, beyond rounding error."""
    is_significant = group.drift.has_interval and not group.drift.contains_zero
    return is_significant and abs(group.drift.value) > group.observed_rounding


def _describe_refit_bound(bound: RefitBound) -> str:
    """Describe the refit bound in a sentence."""
    value = format_ascii_number(bound.objective) if math.isfinite(bound.objective) else "infinite"
    text = f"on the audited rows, {bound.criterion} is {value}"
    if bound.refit_may_help is None:
        prefix = "" if math.isnan(bound.objective) else f"{text}; "
        return f"{prefix}there is no bound for a refit to these rows: {bound.no_bound_reason}."
    text += ", and by its certificate no refit to them falls below"
    text += f" {format_ascii_number(bound.lower_bound)}" if bound.gap else " that"
    if 0 < bound.gap < math.inf:
        gap = f"{format_ascii_number(bound.gap)} ({_ascii_share(bound.relative_gap)})"
        text += f": the optimum is at most {gap} lower"
    if bound.constraint_violation > 0:
        violation = format_ascii_number(bound.constraint_violation)
        text += f"; the errors differ by {violation} more than the criterion allows"
    if not bound.refit_may_help:
        # The restriction was enforced on other rows and may be violated on these.
        if bound.is_restricted:
            return f"{text}. No refit is needed, but this does not check its restriction here."
        return f"{text}. No refit is needed."
    recentered = bound.recentered_objective
    if bound.objective - recentered > bound.gap / 2 > 0:
        text += "; recentered at the mean of these rows, the same components give "
        text += format_ascii_number(recentered)
    return f"{text}. A refit may help."


def _incomparable_units(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS301: models with different centers or scales."""
    if len({(model.center, model.is_scaled) for model in models}) > 1:
        units = "; ".join(
            f"{model.name}: {model.center}{', scaled' if model.is_scaled else ''}"
            for model in models
        )
        yield make_finding(
            "FS301",
            f"The models measure errors about different centers or in different units ({units}). "
            "Compare each with its own best error, not with each other.",
        )


def _pairs_with_pca(models: Sequence[ModelResult]) -> list[tuple[ModelResult, ModelResult]]:
    """Pairs of a fair model and its baseline PCA, for audits of several groups."""
    by_name = {model.name: model for model in models}
    pairs = [(model, by_name.get(model.baseline or "")) for model in models]
    return [(model, pca) for model, pca in pairs if pca is not None and len(pca.groups) > 1]


def _effect_of_repair(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS302: largest loss and total error of a fair model compared with its baseline PCA."""
    for model, pca in _pairs_with_pca(models):
        scope = _comparison_scope(model, pca)
        loss_before, error_before = _largest_loss_and_total_error(pca, scope)
        loss_after, error_after = _largest_loss_and_total_error(model, scope)
        if loss_before <= pca.rounding_bound:
            continue
        yield make_finding(
            "FS302",
            f"{model.name} versus {pca.name} on {scope}: the largest excess loss changes from "
            f"{format_ascii_number(loss_before)} to {format_ascii_number(loss_after)}, the error "
            f"over all rows from {format_ascii_number(error_before)} to "
            f"{format_ascii_number(error_after)} "
            f"({to_ascii(format_change(error_after / error_before - 1))}).",
            model.name,
        )


def _largest_loss_and_total_error(model: ModelResult, scope: str) -> tuple[float, float]:
    if scope == "new rows":
        return max(model.losses().values()), model.expected_total_error
    return model.observed_largest_loss, model.observed_total_error


def _comparison_scope(model: ModelResult, pca: ModelResult) -> str:
    """Return "new rows" if both models have estimates for every group, else "these rows"."""
    groups = (*model.groups, *pca.groups)
    return "new rows" if all(group.is_estimated for group in groups) else "these rows"


def _cost_of_repair(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS303: groups that keep clearly less variance than under the baseline PCA."""
    for model, pca in _pairs_with_pca(models):
        scope = _comparison_scope(model, pca)
        costs = []
        for before, after in zip(pca.groups, model.groups, strict=True):
            cost = _variance_cost(before, after, scope)
            if cost.before - cost.after > _MIN_VARIANCE_LOST:
                costs.append(cost)
        if not costs:
            continue
        costs.sort(key=lambda cost: cost.before - cost.after, reverse=True)
        descriptions = [
            f"{quote_group(cost.group.group)} ({_row_count_prefix(cost.group.n_rows)}"
            f"{_ascii_share(cost.group.proportion)} of all rows: {_ascii_share(cost.after)} "
            f"instead of {_ascii_share(cost.before)})"
            for cost in costs
        ]
        total_sentence = ""
        if len(costs) > 1:
            n_rows = sum(cost.group.n_rows for cost in costs)
            total_share = sum(cost.group.proportion for cost in costs)
            total_sentence = (
                f" In total: {_row_count_prefix(n_rows)}{_ascii_share(total_share)} of all rows."
            )
        yield make_finding(
            "FS303",
            f"{model.name} keeps less variance than {pca.name} for {join_truncated(descriptions)} "
            f"on {scope}.{total_sentence}",
            model.name,
            labels_of([cost.group for cost in costs]),
        )


class _VarianceCost(NamedTuple):
    """Shares of variance kept of a group before and after a repair."""

    group: GroupResult
    before: float
    after: float


def _variance_cost(before: GroupResult, after: GroupResult, scope: str) -> _VarianceCost:
    """Shares of variance kept under the baseline PCA and a fair model.

    On new rows they are equal unless the error rises significantly.
    """
    variance = after.observed_total_variance
    if scope != "new rows" or variance <= 0:
        return _VarianceCost(after, before.observed_variance_kept, after.observed_variance_kept)
    kept_before = max(1 - before.expected_error.value / variance, 0.0)
    kept_after = max(1 - after.expected_error.value / variance, 0.0)
    rises = (after.expected_change.low or 0.0) > 0
    return _VarianceCost(after, kept_before, kept_after if rises else kept_before)


def _dimension_count(model: ModelResult) -> str:
    return to_ascii(format_count(model.n_components, "dimension"))


def _ascii_share(share: float) -> str:
    return to_ascii(format_share(share))


_ROW_RULES = (
    _degenerate_groups,
    _no_intervals,
    _missing_estimates,
    _unstable_best_subspaces,
    _heavy_tails,
    _in_sample_models,
)
_MODEL_RULES = (
    _absent_groups,
    _lossless,
    _largest_pca_loss,
    _disparity,
    _not_proven_optimal,
    _negative_losses,
    _unstable_model,
)
_COMPARISON_RULES = (_drift_since_fit, _incomparable_units, _effect_of_repair, _cost_of_repair)


def _row_count_prefix(n_rows: int) -> str:
    """Row count followed by a comma, or an empty string if it is unknown."""
    return f"{counted(n_rows, 'row')}, " if n_rows else ""


# The thresholds are justified in docs/findings.md.
# Share of a feature's variance within groups below which it encodes the group.
_MAX_WITHIN_GROUP_SHARE = 0.02
# Degrees of freedom below which variances within groups say little.
_MIN_DF = 10
# Share of the variance above which one feature is dominant.
_DOMINANT_SHARE = 0.9
# Share of the variance above which digits say no more than "nearly all".
_NEARLY_ALL = 0.999
# Share of the rows below which a value of an indicator is rare.
_RARE_SHARE = 0.01
# Share of a component's squared loadings that makes features its majority.
_MAJORITY_OF_COMPONENT = 0.5
# Number of groups above which an identifier is suspected.
_MANY_GROUPS = 20
# Number of rows below which a group is small.
_SMALL_GROUP_ROWS = 100
# Relative tolerance for mean and second moment of a 0/1 column to be equal.
_INDICATOR_TOL = 1e-9


def data_findings(
    models: Sequence[AuditedModel], moments: Moments, monotone_columns: Sequence[int] = ()
) -> tuple[Finding, ...]:
    """Apply all rules about the data, in the order of their codes.

    Parameters
    ----------
    models : sequence of AuditedModel
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the audited rows, unscaled.
    monotone_columns : sequence of int
        Columns that are strictly monotone in row order.

    Returns
    -------
    tuple of Finding
    """
    columns = _FeatureNames.from_data(models, moments)
    return (
        *_features_encoding_group(moments, columns),
        *_monotone_features(monotone_columns, columns),
        *_dominant_feature(models, moments, columns),
        *_rare_indicator_components(models, moments, columns),
        *label_findings(moments),
    )


def label_findings(moments: Moments) -> Iterator[Finding]:
    """Apply the rules about the labels of groups."""
    yield from _label_spelling(moments.labels)
    yield from _many_small_groups(moments)
    yield from _placeholder_labels(moments)


@dataclass(frozen=True)
class _FeatureNames:
    """Feature names for messages; x0, x1, ... if there are none."""

    names: tuple[str, ...] | None

    @classmethod
    def from_data(cls, models: Sequence[AuditedModel], moments: Moments) -> "_FeatureNames":
        """Use the names of the rows' features, or else those of the models."""
        candidates = (moments.feature_names, *(model.subspace.feature_names for model in models))
        return cls(next(filter(None, candidates), None))

    def names_of(self, columns: Iterable[int]) -> tuple[str, ...]:
        """Return the names as in the data."""
        return tuple(f"x{i}" if self.names is None else self.names[i] for i in columns)

    def describe(self, columns: Sequence[int]) -> str:
        """Return "feature 'a'" or "features 'a', 'b'"."""
        names = self.names_of(columns)
        shown_names = names if self.names is None else [quote_group(name) for name in names]
        noun = "feature" if len(columns) == 1 else "features"
        return f"{noun} {join_truncated(shown_names)}"


def _features_encoding_group(moments: Moments, columns: _FeatureNames) -> Iterator[Finding]:
    """FS401: features that are nearly constant within groups but differ between them."""
    n_rows = int(moments.counts.sum())
    df = n_rows - moments.n_groups
    if moments.n_groups < 2 or df < _MIN_DF:
        return
    total_variances = moments.standard_deviations**2
    # Use the degrees of freedom of an analysis of variance; otherwise every column would seem
    # constant within many small groups.
    within_variances = (moments.proportions @ moments.variances) * ((n_rows - 1) / df)
    is_nearly_constant = within_variances < _MAX_WITHIN_GROUP_SHARE * total_variances
    encoding = np.flatnonzero((total_variances > 0) & is_nearly_constant).tolist()
    if encoding:
        verb = "encodes" if len(encoding) == 1 else "encode"
        yield make_finding(
            "FS401",
            f"{columns.describe(encoding)} {verb} the group: (nearly) constant within groups and "
            "different between them. Such a feature can mask or reverse the effect of a projection "
            "on the groups. Exclude it (drop the column; --exclude).",
            columns=columns.names_of(encoding),
        )


def _monotone_features(
    monotone_columns: Sequence[int], columns: _FeatureNames
) -> Iterator[Finding]:
    """FS402: strictly monotone features."""
    if monotone_columns:
        yield make_finding(
            "FS402",
            f"{columns.describe(monotone_columns)}: strictly monotone in row order, which is "
            "typical of row numbers, identifiers, times, or the sort column. Exclude it, unless it "
            "is a measurement (drop the column; --exclude).",
            columns=columns.names_of(monotone_columns),
        )


def _dominant_feature(
    models: Sequence[AuditedModel], moments: Moments, columns: _FeatureNames
) -> Iterator[Finding]:
    """FS403: one feature dominates the variance of an unscaled model."""
    if moments.n_features < 2:
        return
    share_by_column: dict[int, float] = {}
    affected_models = []
    for model in models:
        if model.subspace.scale is not None:
            continue
        second_moments = _pooled_second_moments(moments, model.subspace.center_point(moments))
        if not second_moments.any():
            continue
        largest = int(np.argmax(second_moments))
        share = second_moments[largest] / second_moments.sum()
        if share > _DOMINANT_SHARE:
            affected_models.append(model.name)
            share_by_column[largest] = max(share, share_by_column.get(largest, 0.0))
    if share_by_column:
        description = "; ".join(
            f"{columns.describe([column])} accounts for {_format_dominant_share(share)} of the "
            "variance"
            for column, share in sorted(share_by_column.items())
        )
        verb = "does" if len(affected_models) == 1 else "do"
        yield make_finding(
            "FS403",
            f"{description}, and {join_truncated(affected_models)} {verb} not scale, so the other "
            "features have little influence. Use scale=True (--standardize), or rescale the "
            "feature.",
            columns=columns.names_of(sorted(share_by_column)),
        )


def _format_dominant_share(share: float) -> str:
    return "more than 99.9 %" if share > _NEARLY_ALL else _ascii_share(share)


def _rare_indicator_components(
    models: Sequence[AuditedModel], moments: Moments, columns: _FeatureNames
) -> Iterator[Finding]:
    """FS404: components dominated by rare indicators, which standardization inflates."""
    indicators = _rare_indicators(moments)
    if not len(indicators):
        return
    dominant: set[int] = set()
    descriptions = []
    for model in models:
        if model.subspace.scale is None or model.row_model is not None:
            continue
        loadings = model.subspace.components**2
        loadings = loadings / loadings.sum(axis=1, keepdims=True)
        indicator_shares = loadings[:, indicators].sum(axis=1)
        affected_components = np.flatnonzero(indicator_shares > _MAJORITY_OF_COMPONENT)
        for component in affected_components:
            dominant |= _dominant_indicators(loadings[component], indicators)
        if len(affected_components):
            n_components = format_count(len(loadings), "component")
            descriptions.append(f"{len(affected_components)} of {n_components} of {model.name}")
    if dominant:
        yield make_finding(
            "FS404",
            f"{join_truncated(descriptions)}: dominated by rare indicators (0/1 columns with one "
            f"value in less than 1 % of the rows): {columns.describe(sorted(dominant))}. "
            "Standardizing gives them the same weight as any other feature. Merge such categories, "
            "exclude them (--exclude), or do not scale.",
            columns=columns.names_of(sorted(dominant)),
        )


def _label_spelling(labels: Sequence[Label]) -> Iterator[Finding]:
    """FS405: labels that differ only in case, whitespace or normal form, or are padded."""
    pairs = similar_labels(labels)
    if pairs:
        yield make_finding(
            "FS405",
            "Labels that differ only in case, whitespace or Unicode normal form: "
            f"{format_spellings(pairs)}. They are treated as different groups. Use one spelling in "
            "the group column.",
            groups=tuple(label for spellings in pairs for label in spellings),
        )
        return
    padded = padded_labels(labels)
    if padded:
        yield make_finding(
            "FS405",
            f"Labels surrounded by spaces: {join_truncated(list(map(quote_group, padded)))}. Other "
            "tables may have the same group without the spaces, which is then treated as another. "
            "Remove the spaces from the group column.",
            groups=tuple(padded),
        )


def _placeholder_labels(moments: Moments) -> Iterator[Finding]:
    """FS413: groups named by a text that usually marks a missing value."""
    placeholders = placeholder_labels(moments.labels, moments.counts.tolist())
    if placeholders is not None:
        yield make_finding(
            "FS413",
            f"{placeholders.suspicion}, drop these rows (--na-values {placeholders.for_shell} with "
            "--missing-group drop; in Python "
            f'labels.mask(labels.isin({placeholders.for_pandas})) with on_missing="drop").',
            groups=placeholders.labels,
        )


def _many_small_groups(moments: Moments) -> Iterator[Finding]:
    """FS406: many groups, at least half of them small."""
    n_groups = moments.n_groups
    # Counts are zero if they are unknown.
    is_small = (moments.counts > 0) & (moments.counts < _SMALL_GROUP_ROWS)
    n_small = int(is_small.sum())
    if n_groups > _MANY_GROUPS and 2 * n_small >= n_groups:
        remedy = "cross fewer attributes, or merge groups"
        if are_numbers(moments.labels):
            remedy = "put numbers such as ages into bins (--bin COLUMN=EDGES; pandas.cut)"
        yield make_finding(
            "FS406",
            f"{n_groups:,} groups, {n_small:,} of them with fewer than {_SMALL_GROUP_ROWS} rows, "
            "too few for reliable figures. Check that the group column is not an identifier; "
            f"{remedy}.",
        )


def _pooled_second_moments(moments: Moments, point: FloatArray | None) -> FloatArray:
    """Pooled second moment of each column about a point (None: each group's own mean), (p,)."""
    second_moments = moments.variances
    if point is not None:
        second_moments = second_moments + (moments.means - point) ** 2
    return np.asarray(moments.proportions @ second_moments)


def _rare_indicators(moments: Moments) -> IndexArray:
    """Return the indices of 0/1 columns with a rare value.

    For integers x, x^2 >= x with equality only for 0 and 1, so among integer columns exactly the
    0/1 columns have a second moment equal to the mean. Fractions may match by coincidence.
    """
    share_of_ones = moments.mean
    second_moments = _pooled_second_moments(moments, np.zeros(moments.n_features))
    is_indicator = np.abs(second_moments - share_of_ones) <= _INDICATOR_TOL * second_moments
    is_rare = np.minimum(share_of_ones, 1 - share_of_ones) < _RARE_SHARE
    return np.flatnonzero(is_indicator & is_rare & (moments.standard_deviations > 0))


def _dominant_indicators(loadings: FloatArray, indicators: IndexArray) -> set[int]:
    """Smallest set of indicators that accounts for the majority of a component."""
    by_size = indicators[np.argsort(-loadings[indicators], kind="stable")]
    is_majority = np.cumsum(loadings[by_size]) > _MAJORITY_OF_COMPONENT
    n_needed = int(np.argmax(is_majority)) + 1
    return set(by_size[:n_needed].tolist())
