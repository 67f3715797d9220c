"""Findings: what an audit saw, in words, each with a stable code (docs/findings.md).

About data that cannot mean what they seem to, all but the order of rows follows from the means and
variances of the moments.
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
from fairspan.formatting.text import (
    counted,
    format_ascii_number,
    format_change,
    format_count,
    format_interval,
    format_relative,
    format_share,
    join_truncated,
    to_ascii,
)
from fairspan.moments.of_rows import Moments
from fairspan.rows.groups import Label, format_list
from fairspan.rows.label_checks import (
    are_numbers,
    format_spellings,
    padded_labels,
    placeholder_labels,
    similar_labels,
)
from fairspan.typing import FloatArray, IndexArray

_SMALL_GROUP_SHARE = 0.05
# Below so many rows for each of d + 1, chance makes up a twentieth of a group's best error or more.
_MIN_ROWS_PER_DIMENSION = 20
# A share of variance kept that counts as lost: one point.
_MIN_VARIANCE_LOST = 0.01


class FindingRule(NamedTuple):
    """A code with its severity, what to do, and the caution with which it vetoes a verdict.

    Where what was seen may be harmless, "no material harm" stands, with the caution. docs/findings.md
    says more of each.
    """

    severity: Literal["info", "warning"]
    remedy: str
    caveat: str = ""
    may_be_harmless: bool = False


RULES = {
    "FS101": FindingRule(
        "warning",
        "Use fewer dimensions, collect more rows, join the group with another one, or choose "
        'a criterion of errors ("minimax_error", "error_gap") in place of losses.',
    ),
    "FS102": FindingRule("warning", "Collect more rows, or leave the group out and say so."),
    "FS103": FindingRule(
        "warning",
        "Check that the group is sampled as intended. A fair criterion does not need a "
        "large group, but few rows mean wide intervals.",
    ),
    "FS104": FindingRule(
        "warning",
        "Look at these rows. Often a column with the group's data is missing or was filled in.",
    ),
    "FS105": FindingRule(
        "warning",
        "Check the group column: a filter, a join or a misspelled name may have "
        "removed the others.",
    ),
    "FS106": FindingRule("info", "Pass the rows, or moments of separate blocks of them."),
    "FS107": FindingRule(
        "warning", "Audit rows that hold all groups, or check how the labels are spelled."
    ),
    "FS108": FindingRule(
        "warning",
        "Collect more rows of the group, join it with another one, or use fewer dimensions.",
    ),
    "FS109": FindingRule(
        "warning",
        "Look at the rows with the largest values. Logarithms or caps of columns with long "
        "tails make the intervals trustworthy.",
        "a few rows dominate the error of a group",
    ),
    "FS110": FindingRule(
        "warning",
        "Audit rows that were held out, or choose fewer features so that moments by fold fit "
        "into memory.",
    ),
    "FS201": FindingRule(
        "info",
        "The ends of the interval show which differences remain possible. With more rows it "
        "is narrower.",
    ),
    "FS202": FindingRule(
        "warning",
        'Decide whether you want equal errors; if so, use "error_gap" or "equal_error". If '
        "that only raises the smaller error, report the difference instead.",
    ),
    "FS203": FindingRule(
        "info",
        "Nothing, if you report the estimates for new rows; otherwise audit rows that were "
        "held out.",
    ),
    "FS204": FindingRule(
        "warning",
        "Look at the gap: it may be far below what matters to you. If it is open, use the "
        "default solver and tolerance, or with more than two groups allow_extra=True. If it is "
        "unresolved, divide the column of very large numbers by its unit, or use scale=True or "
        'center="global".',
    ),
    "FS205": FindingRule("info", "Compare with what a fair criterion reaches."),
    "FS206": FindingRule("info", "Use fewer dimensions for a comparison."),
    "FS207": FindingRule(
        "warning",
        "Audit rows that had no part in making the model, or pass the fitted model itself in "
        "place of its components, so that it can be fitted again without each part of the rows.",
    ),
    "FS208": FindingRule(
        "warning",
        "Use fewer or more dimensions, so that the next eigenvalue is clearly smaller; choose "
        "another scale; or look at outliers.",
        "the projection itself is unstable",
    ),
    "FS209": FindingRule(
        "info",
        "Keep the model where no refit is needed. Otherwise fit it again, and compare both models "
        "on rows that neither was fitted on.",
    ),
    "FS210": FindingRule(
        "warning",
        "Find out what changed in the rows of these groups. Fit the model again if FS209 says that "
        "it may help.",
    ),
    "FS301": FindingRule(
        "warning", "Compare each model with its own best error, or fit them with the same settings."
    ),
    "FS302": FindingRule(
        "info", "Decide whether the smaller loss justifies the larger error over all rows."
    ),
    "FS303": FindingRule(
        "info",
        "Decide whether this cost is acceptable for these groups. A criterion that weighs "
        "all rows, or more "
        "dimensions, lowers their losses.",
    ),
    "FS401": FindingRule("warning", "Leave the feature out: drop the column, or --exclude."),
    "FS402": FindingRule(
        "warning",
        "Leave the feature out (drop the column, or --exclude), unless it measures something.",
        "a feature may be an identifier",
    ),
    "FS403": FindingRule(
        "warning",
        "Use scale=True (--standardize), or divide the feature by its unit.",
        "one feature that is not scaled holds nearly all of the variance",
    ),
    "FS404": FindingRule(
        "warning", "Join rare categories into one, leave them out (--exclude), or do not scale."
    ),
    "FS405": FindingRule(
        "warning", "Spell the labels alike in the group column, without spaces around them."
    ),
    "FS406": FindingRule(
        "warning",
        "Cross fewer attributes, or join groups; put numbers such as ages into bins (--bin, "
        "pandas.cut); check that the group column is no identifier.",
    ),
    "FS407": FindingRule(
        "warning",
        "Compare the rows with and without these values. Leave the features out, or fit what is "
        'observed (on_missing="em", --on-missing em), and say which you did.',
    ),
    "FS408": FindingRule(
        "warning",
        "Leave out the features that cost most rows (drop the columns, or --exclude), or collect "
        "their values.",
        "much of a group is left out or filled in",
    ),
    "FS409": FindingRule(
        "warning",
        "Name the column whose values say which rows belong together: clusters=, --clusters.",
        "rows seem to repeat what is known of one person or object",
    ),
    "FS410": FindingRule(
        "warning",
        "Name the column that says which rows belong together: clusters=, --clusters. A table that "
        "is only sorted needs nothing.",
        "rows seem to repeat one another, or the table is sorted",
        may_be_harmless=True,
    ),
    "FS411": FindingRule(
        "info",
        "Ask how the table came about: who has no value, and why? Compare with the rows that are "
        "complete (on_missing='drop', --on-missing drop).",
    ),
    "FS412": FindingRule(
        "warning",
        "Ask what the values mean. If they are codes for missing ones, name them (--na-values, "
        "FileRows.open(..., na_values=...), X.replace in pandas), and choose what to do with "
        "these rows (on_missing, --on-missing).",
    ),
    "FS413": FindingRule(
        "warning",
        "Treat the labels as missing and leave their rows out (--na-values with --missing-group "
        'drop; in Python None in their place and on_missing="drop"), or give the group a name that '
        "says who is in it.",
    ),
}


def make_finding(
    code: str,
    message: str,
    model: str | None = None,
    groups: Sequence[Label] = (),
    columns: tuple[str, ...] = (),
) -> Finding:
    """A finding of one of the rules."""
    rule = RULES[code]
    told = message, model, tuple(groups), columns
    return Finding(code, rule.severity, *told, rule.remedy, rule.caveat, rule.may_be_harmless)


def model_findings(models: Sequence[ModelResult], rows: AuditedRows) -> tuple[Finding, ...]:
    """Apply every rule: about the rows first, then about each model, then across models."""
    return (
        *chain.from_iterable(rule(models, rows) for rule in _ROW_RULES),
        *chain.from_iterable(rule(model, rows) for model in models for rule in _MODEL_RULES),
        *chain.from_iterable(rule(models) for rule in _COMPARISON_RULES),
    )


def _degenerate_groups(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS101 to FS105: groups of which little can be said."""
    groups = models[0].groups
    # With all dimensions nothing is lost, however few the rows.
    dimensions = [model.n_components for model in models if model.n_components < rows.n_features]
    d = max(dimensions, default=0)
    # Where harm is shown all the same, chance has been allowed for.
    harmed_labels = {group.group for model in models for group in harmed_groups(model)}
    too_small = [
        group
        for group in groups
        if dimensions
        and 1 < group.n_rows < _MIN_ROWS_PER_DIMENSION * (d + 1)
        and group.group not in harmed_labels
    ]
    singletons = [group for group in groups if group.n_rows == 1]
    minorities = [group for group in groups if group.proportion < _SMALL_GROUP_SHARE]
    shares = join_truncated([to_ascii(format_share(group.proportion)) for group in minorities])
    without_variance = [
        group for group in groups if group.n_rows > 1 and group.observed_total_variance == 0
    ]
    for code, found, message in (
        (
            "FS105",
            groups if len(groups) == 1 else (),
            f"All rows are of one group ({quote_group(groups[0].group)}): there is nothing to compare. "
            "Check the group column.",
        ),
        (
            "FS101",
            too_small,
            f"{quote_groups(too_small)}: too few rows ({join_truncated([str(group.n_rows) for group in too_small])}) for "
            f"{to_ascii(format_count(d, 'dimension'))}. "
            "Chance makes their best error too small and their excess loss too large. Do not "
            f"read this loss as harm; use fewer dimensions, or collect more rows{_describe_rows_needed(too_small)}"
            ".",
        ),
        (
            "FS102",
            singletons,
            f"{quote_groups(singletons)}: only one row, so no interval can be computed. Collect more rows.",
        ),
        (
            "FS103",
            minorities,
            f"{quote_groups(minorities)}: less than 5 % of the rows ({shares}), so ordinary PCA gives them "
            "little weight. Check that they are sampled as intended.",
        ),
        (
            "FS104",
            without_variance,
            f"{quote_groups(without_variance)}: no variance, so the share kept is not defined. Check these rows.",
        ),
    ):
        if found:
            yield make_finding(code, message, groups=labels_of(found))


def _describe_rows_needed(groups: Sequence[GroupResult]) -> str:
    needed = [
        f"{each.n_rows_needed:,} of {quote_group(each.group)}"
        for each in groups
        if each.n_rows_needed
    ]
    return f" (about {join_truncated(needed)} tell)" if needed else ""


def _no_intervals(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS106: moments alone."""
    if not rows.has_intervals:
        yield make_finding(
            "FS106",
            "There are no intervals: a single set of moments does not show how much errors vary. "
            "Pass the rows, or a list of moments of separate blocks.",
        )


def _absent_groups(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS107: groups of the fit that are not among these rows."""
    here = {group.group for group in model.groups}
    absent = [label for label in model.training_groups if label not in here]
    if len(model.training_groups) > 1 and absent:
        yield make_finding(
            "FS107",
            f"{model.name}: was fitted on groups that are missing from these rows: "
            f"{format_list(absent)}. "
            "The audit does not cover them.",
            model.name,
            tuple(absent),
        )


def _disparity(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS201, FS202: whether the groups' errors differ by more than chance."""
    difference, pair, where = model.observed_disparity, model.disparity_pair, "these rows"
    errors = {group.group: group.observed_error.value for group in model.groups}
    if model.expected_disparity_pair is not None:
        difference, pair, where = (
            model.expected_disparity,
            model.expected_disparity_pair,
            "new rows",
        )
        errors = {group.group: group.expected_error.value for group in model.groups}
    if not difference.has_interval or model.is_lossless:
        return
    first, second = pair
    ends = to_ascii(format_interval(difference.low, difference.high))
    between = f"{quote_group(second)} and {quote_group(first)}"
    if difference.contains_zero:
        yield make_finding(
            "FS201",
            f"{model.name}: the interval of the difference in error between {between} on {where} "
            f"({ends}) contains zero: these rows do not show that either has the larger error.",
            model.name,
            pair,
        )
        return
    worse, better = (second, first) if difference.value > 0 else (first, second)
    has_ratio = errors[worse] < _MOST_TIMES * errors[better]
    times = errors[worse] / errors[better] if has_ratio else 0.0
    more = f"{to_ascii(format_relative(times - 1))} more error; " if has_ratio else ""
    yield make_finding(
        "FS202",
        f"{model.name}: reconstructs {quote_group(worse)} worse than {quote_group(better)} on {where}, by "
        f"{format_ascii_number(abs(difference.value))} ({more}interval of the difference {ends}).",
        model.name,
        (worse, better),
    )


def _unstable_best_subspaces(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS108: groups whose own best subspace is poorly known."""
    found = _groups_where(models, lambda each: each.relative_optimism > MAX_OPTIMISM)
    if found:
        beyond = join_truncated([to_ascii(format_share(each.relative_optimism)) for each in found])
        yield make_finding(
            "FS108",
            f"{quote_groups(found)}: the best subspace of the group has a larger error on rows that were "
            f"left out than on the rows of its fit, by {beyond} of its error. The loss of the "
            "group is therefore known only roughly; collect more rows, or use fewer dimensions.",
            groups=labels_of(found),
        )


def _heavy_tails(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS109: errors that a few rows decide."""
    affected_models = [
        model
        for model in models
        if any(is_heavy_tailed(each.observed_kurtosis, each.n_rows) for each in model.groups)
    ]
    if affected_models:
        found = _groups_where(
            affected_models, lambda each: is_heavy_tailed(each.observed_kurtosis, each.n_rows)
        )
        names_of_models = join_truncated([model.name for model in affected_models])
        yield make_finding(
            "FS109",
            f"{quote_groups(found)}: under {names_of_models}, a few rows dominate the error, so "
            "intervals may miss the true value far more often than their level says. Look at the "
            "rows with the largest values; take logarithms of columns with long tails, or cap them "
            "(how-to guide: Outliers and heavy tails).",
            groups=labels_of(found),
        )


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
    """Groups to which something applies under any model, each once."""
    found: dict[object, GroupResult] = {}
    for model in models:
        for group in model.groups:
            if predicate(group):
                found.setdefault(group.group, group)
    return list(found.values())


def _in_sample_models(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS203: how to read the figures of models that were fitted on these rows."""
    fitted = [model for model in models if model.in_sample]
    if not fitted or not rows.has_intervals:
        return
    named = ", ".join(model.name for model in fitted)
    were = "was" if len(fitted) == 1 else "were"
    their, they_are = ("Its", "it is") if len(fitted) == 1 else ("Their", "they are")
    said = f"{were} fitted on these rows"
    if any(model.in_sample_inferred for model in fitted):
        said += " or on most of them, as far as their figures tell"
    message = (
        f"{named}: {said}. {their} errors on new rows are estimated by "
        f"cross-fitting: {they_are} fitted again with one part of the rows left out at a time."
        if any(model.has_estimates for model in fitted)
        else f"{named}: {said}. The intervals hold for this projection; "
        "errors on new rows may be larger. Audit held-out rows to find out."
    )
    yield make_finding("FS203", message, fitted[0].name if len(fitted) == 1 else None)


def _largest_pca_loss(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS205: the group that ordinary PCA costs most, against its own best subspace."""
    losses, groups = model.losses(), {group.group: group for group in model.groups}
    if not model.is_pca or len(losses) < 2 or max(losses.values()) <= model.rounding_bound:
        return
    largest_labels, loss = argmax_with_ties(losses, model.rounding_bound)
    least = min(losses, key=lambda label: losses[label])
    # Of a loss that may be chance, the verdict says so; only one that is shown is named here.
    if model.has_estimates and not {groups[each].state for each in largest_labels} <= {
        "harmed",
        "minor",
    }:
        return
    where, best = "these rows", groups[largest_labels[0]].observed_best_error
    if model.has_estimates:
        where, best = "new rows", groups[largest_labels[0]].expected_best_error
    # A share of what is only rounding would be a number without any meaning.
    has_share = best > groups[largest_labels[0]].observed_rounding
    relative_text = (
        f" ({to_ascii(format_relative(loss / best))})"
        if has_share and len(largest_labels) == 1
        else ""
    )
    known = [group for group in model.groups if group.group in losses]
    largest_share_group = max(known, key=relative_loss)
    share_sentence = ""
    if (
        model.has_estimates
        and largest_share_group.group not in largest_labels
        and largest_share_group.state == "harmed"
    ):
        part = to_ascii(format_share(relative_loss(largest_share_group)))
        share_sentence = f" As a share of its variance, {quote_group(largest_share_group.group)} loses most: {part}."
    has, its, this = (
        ("has", "Its error is", "this group")
        if len(largest_labels) == 1
        else ("have", "Their errors are", "each group")
    )
    yield make_finding(
        "FS205",
        f"{model.name}: {join_truncated([quote_group(each) for each in largest_labels])} {has} the largest loss on "
        f"{where}. {its} {format_ascii_number(loss)}{relative_text} above the smallest error with "
        f"{_dimension_count(model)} for {this} alone; for {quote_group(least)} the loss is "
        f"{format_ascii_number(losses[least])}.{share_sentence}",
        model.name,
        (*largest_labels, least),
    )


def _lossless(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS206: all that these rows vary in is kept."""
    if model.is_lossless:
        keep, remedy = "keeps", ""
        if model.n_components > 1:
            keep = "keep"
            remedy = " Use fewer dimensions (n_components, -d) for a comparison."
        yield make_finding(
            "FS206",
            f"{model.name}: {_dimension_count(model)} {keep} all variance of every group, up to "
            f"rounding, so no group has a loss.{remedy}",
            model.name,
        )


def _negative_losses(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS207: losses below zero, which no model has that was made without these rows."""
    found = [group for group in model.groups if group.has_negative_loss(group.observed_rounding)]
    if found:
        yield make_finding(
            "FS207",
            f"{model.name}: the interval of the expected loss of {quote_groups(found)} is below zero, "
            "which no loss can be. Either this is chance, or the rows had a part in making the "
            "model; nothing is claimed of it. Audit held-out rows.",
            model.name,
            labels_of(found),
        )


def _not_proven_optimal(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS204: not proven optimal."""
    if model.status in (None, "optimal"):
        return
    said = f"is not proven optimal ({model.status})."
    if model.is_nested and model.status == "open gap" and model.gap is not None:
        said = (
            f"its components are nested: each was chosen with those before it fixed. "
            f"{_dimension_count(model)} chosen jointly may be better, by at most {model.gap:.4g}."
        )
    if model.status == "unresolved":
        why = f": {model.unresolved_reason}" if model.unresolved_reason else ""
        said = f"double precision cannot tell how close it is to the optimum (unresolved){why}."
        if "column" in (model.unresolved_reason or ""):
            said += f" {_remedy_for_large_column(model)}."
    yield make_finding("FS204", f"{model.name}: {said}", model.name)


def _remedy_for_large_column(model: ModelResult) -> str:
    """Return what to do about a column of very large numbers, if it is not done already."""
    ways = ["Divide it by its unit"]
    if not model.is_scaled:
        ways.append("use scale=True (--standardize)")
    if model.center != "global":
        ways.append('use center="global" (--center global)')
    return ", or ".join(ways)


def _unstable_model(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS208: a model that other rows of the same source would have made another one."""
    if model.instability is not None and model.instability > 1:
        yield make_finding(
            "FS208",
            f"{model.name}: the projection itself is unstable. Between fits without one part of "
            f"the rows, the error of a group spreads by {format_ascii_number(model.instability)} times "
            "the half width of the interval of its loss; the cosine of the largest angle between "
            f"such a fit and the model is {format_ascii_number(model.min_cosine or 0.0)}. Use fewer or more "
            "dimensions, choose another scale, or look at outliers.",
            model.name,
        )


def _drift_since_fit(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS209, FS210: what is left of the fit on other rows, of fair models if there are any."""
    told = [model for model in models if model.refit_bound is not None]
    for model in [each for each in told if not each.is_pca] or told:
        here = model.refit_bound
        assert here is not None
        largest_labels, small_group_note = (
            max(model.groups, key=lambda each: each.observed_loss),
            "",
        )
        if here.refit_may_help and largest_labels.n_rows < _MIN_ROWS_PER_DIMENSION * (
            model.n_components + 1
        ):
            rows = to_ascii(format_count(largest_labels.n_rows, "row"))
            small_group_note = f" Part of the gap is chance: {quote_group(largest_labels.group)}, which loses most, has {rows}."
        yield make_finding(
            "FS209", f"{model.name}: {_describe_refit_bound(here)}{small_group_note}", model.name
        )
        drifted = [
            group
            for group in model.groups
            if group.drift.has_interval
            and not group.drift.contains_zero
            and abs(group.drift.value) > group.observed_rounding
        ]
        if drifted:
            changes = [
                f"{quote_group(each.group)} by {format_ascii_number(each.drift.value)} "
                f"({to_ascii(format_interval(each.drift.low, each.drift.high))})"
                for each in drifted
            ]
            yield make_finding(
                "FS210",
                f"{model.name}: since the fit the error has changed beyond chance, of "
                f"{join_truncated(changes)}. The rows have changed, or the fit was too close to few "
                "rows.",
                model.name,
                labels_of(drifted),
            )


def _describe_refit_bound(bound: RefitBound) -> str:
    """What the proof of a model says of these rows, in words."""
    value = format_ascii_number(bound.objective) if math.isfinite(bound.objective) else "infinite"
    reached = f"on these rows {bound.criterion} is {value}"
    if bound.refit_may_help is None:
        found = "" if math.isnan(bound.objective) else f"{reached}; "
        return (
            f"{found}what a refit to these rows could reach is not proven: {bound.no_bound_reason}."
        )
    said = f"{reached}, and by its own proof no refit to them reaches less"
    if bound.gap:
        said += f" than {format_ascii_number(bound.lower_bound)}"
    if 0 < bound.gap < math.inf:
        less = f"{format_ascii_number(bound.gap)} ({to_ascii(format_share(bound.relative_gap))})"
        said += f": the optimum is at most {less} lower"
    if bound.constraint_violation > 0:
        said += f"; errors differ by {format_ascii_number(bound.constraint_violation)} more than it allows"
    if not bound.refit_may_help:
        # What a restriction hides was chosen on other rows, and may show on these.
        share_sentence = ", but how far its restriction holds here is another question"
        return f"{said}. No refit is needed{share_sentence if bound.is_restricted else ''}."
    recentred = bound.recentered_objective
    if bound.objective - recentred > bound.gap / 2 > 0:
        said += f"; with the mean of these rows the same components reach {format_ascii_number(recentred)}"
    return f"{said}. A refit may help."


def _incomparable_units(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS301: figures in different units or about different points."""
    if len({(model.center, model.is_scaled) for model in models}) > 1:
        kinds = "; ".join(
            f"{model.name}: {model.center}{', scaled' if model.is_scaled else ''}"
            for model in models
        )
        yield make_finding(
            "FS301",
            f"The models measure errors about different centres or in different units ({kinds}). "
            "Compare each with its own best error, not with each other.",
        )


def _pairs_with_pca(models: Sequence[ModelResult]) -> list[tuple[ModelResult, ModelResult]]:
    """Fair models of several groups, each with its plain PCA."""
    by_name = {model.name: model for model in models}
    pairs = [(model, by_name.get(model.baseline or "")) for model in models]
    return [(model, pca) for model, pca in pairs if pca is not None and len(pca.groups) > 1]


def _effect_of_repair(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS302: what a fair projection changes compared with its plain PCA."""
    for model, plain in _pairs_with_pca(models):
        where = _comparison_scope(model, plain)
        before, after = (
            max(each.losses().values()) if where == "new rows" else each.observed_largest_loss
            for each in (plain, model)
        )
        total_before, total_after = (
            each.expected_total_error if where == "new rows" else each.observed_total_error
            for each in (plain, model)
        )
        if before <= plain.rounding_bound:
            continue
        yield make_finding(
            "FS302",
            f"{model.name} against {plain.name} on {where}: the largest excess loss of a group "
            f"goes from {format_ascii_number(before)} to {format_ascii_number(after)}, the error over all rows from "
            f"{format_ascii_number(total_before)} to {format_ascii_number(total_after)} "
            f"({to_ascii(format_change(total_after / total_before - 1))}).",
            model.name,
        )


def _comparison_scope(model: ModelResult, plain: ModelResult) -> str:
    """Whether two models are compared on new rows, or on these where one has no estimates."""
    both = (*model.groups, *plain.groups)
    return "new rows" if all(group.is_estimated for group in both) else "these rows"


def _cost_of_repair(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS303: groups that keep clearly less of their variance than with plain PCA."""
    for model, plain in _pairs_with_pca(models):
        where = _comparison_scope(model, plain)
        kept_less = []
        for before, after in zip(plain.groups, model.groups, strict=True):
            shares: tuple[float, ...] = (
                before.observed_variance_kept,
                after.observed_variance_kept,
            )
            harmed_labels = True
            if where == "new rows" and after.observed_total_variance > 0:
                whole = after.observed_total_variance
                shares = tuple(
                    max(1 - g.expected_error.value / whole, 0.0) for g in (before, after)
                )
                harmed_labels = (after.expected_change.low or 0.0) > 0
            if harmed_labels and shares[0] - shares[1] > _MIN_VARIANCE_LOST:
                kept_less.append((shares, after))
        if not kept_less:
            continue
        kept_less.sort(key=lambda each: each[0][0] - each[0][1], reverse=True)
        said = [
            f"{quote_group(after.group)} ({_row_count_prefix(after.n_rows)}{to_ascii(format_share(after.proportion))} of all: "
            f"{to_ascii(format_share(now))} instead of {to_ascii(format_share(then))})"
            for (then, now), after in kept_less
        ]
        together = sum(after.proportion for _, after in kept_less)
        n_rows = sum(after.n_rows for _, after in kept_less)
        in_all = (
            ""
            if len(said) == 1
            else f" Together: {_row_count_prefix(n_rows)}{to_ascii(format_share(together))}."
        )
        yield make_finding(
            "FS303",
            f"{model.name} keeps less than {plain.name} of the variance of {join_truncated(said)} on "
            f"{where}.{in_all}",
            model.name,
            labels_of([after for _, after in kept_less]),
        )


def _dimension_count(model: ModelResult) -> str:
    return to_ascii(format_count(model.n_components, "dimension"))


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
    """How many rows, before a share of them; nothing where that is not known."""
    return f"{counted(n_rows, 'row')}, " if n_rows else ""


# Each limit is justified where its code stands in docs/findings.md.
_MAX_WITHIN_GROUP_SHARE = 0.02
_MIN_DF = 10
_DOMINANT_SHARE = 0.9
_NEARLY_ALL = 0.999
_RARE_SHARE = 0.01
_MAJORITY_OF_COMPONENT = 0.5
_MANY_GROUPS = 20
_SMALL_GROUP_ROWS = 100
# A larger ratio of two errors says only that one of them is next to nothing: no percentage is
# shown of it.
_MOST_TIMES = 1e6
# A column of zeros and ones has its mean for second moment, up to this share of rounding.
_INDICATOR_TOL = 1e-9


def data_findings(
    audited: Sequence[AuditedModel], moments: Moments, monotone_columns: Sequence[int] = ()
) -> tuple[Finding, ...]:
    """Apply every rule about the data, in the order of the codes.

    Parameters
    ----------
    audited : sequence of Audited
    moments : GroupMoments, SparseMoments or WideMoments
        Of the audited rows, unscaled.
    ordered : sequence of int
        Columns whose values all differ and only rise or only fall from row to row.

    Returns
    -------
    tuple of Finding
    """
    columns = _FeatureNames.from_data(audited, moments)
    return (
        *_features_encoding_group(moments, columns),
        *_monotone_features(monotone_columns, columns),
        *_dominant_feature(audited, moments, columns),
        *_rare_indicator_components(audited, moments, columns),
        *find_in_labels(moments),
    )


def find_in_labels(moments: Moments) -> Iterator[Finding]:
    """Apply the rules about the labels of groups."""
    yield from _labels_spelled_differently(moments.labels)
    yield from _many_small_groups(moments)
    yield from _placeholder_labels(moments)


@dataclass(frozen=True)
class _FeatureNames:
    """How findings name the features: x0, x1, ... where these have no names."""

    names: tuple[str, ...] | None

    @classmethod
    def from_data(cls, audited: Sequence[AuditedModel], moments: Moments) -> "_FeatureNames":
        """The names of the rows' features, or else of the models'."""
        named = (moments.feature_names, *(each.subspace.feature_names for each in audited))
        return cls(next(filter(None, named), None))

    def names_of(self, columns: Iterable[int]) -> tuple[str, ...]:
        """The names as they are in the data."""
        return tuple(f"x{i}" if self.names is None else self.names[i] for i in columns)

    def describe(self, columns: Sequence[int]) -> str:
        """The names as a sentence has them."""
        names = self.names_of(columns)
        harmed_labels = names if self.names is None else [quote_group(name) for name in names]
        return f"{'feature' if len(columns) == 1 else 'features'} {join_truncated(harmed_labels)}"


def _features_encoding_group(moments: Moments, columns: _FeatureNames) -> Iterator[Finding]:
    """FS401: columns that hardly vary within groups and differ between them."""
    n_rows = int(moments.counts.sum())
    freedom = n_rows - moments.n_groups
    if moments.n_groups < 2 or freedom < _MIN_DF:
        return
    total = moments.standard_deviations**2
    # With the degrees of freedom of an analysis of variance, so that many groups of few rows, which
    # vary little about their own means, do not make every column look like the group.
    within = (moments.proportions @ moments.variances) * ((n_rows - 1) / freedom)
    found = np.flatnonzero((total > 0) & (within < _MAX_WITHIN_GROUP_SHARE * total)).tolist()
    if found:
        yield make_finding(
            "FS401",
            f"{columns.describe(found)} {'encodes' if len(found) == 1 else 'encode'} the group: "
            f"(nearly) "
            "constant within groups, different between them. Such a feature can hide or reverse "
            "the effect of a projection on the groups. Leave it out (drop the column; --exclude).",
            columns=columns.names_of(found),
        )


def _monotone_features(
    monotone_columns: Sequence[int], columns: _FeatureNames
) -> Iterator[Finding]:
    """FS402: columns whose values all differ and are in order."""
    if monotone_columns:
        yield make_finding(
            "FS402",
            f"{columns.describe(monotone_columns)}: all values differ, and they only rise or only fall from "
            "row to row. This is typical of a row number, an identifier, a time, or the column by "
            "which the table is sorted. Leave it out, unless it measures something about each row "
            "(drop the column; --exclude).",
            columns=columns.names_of(monotone_columns),
        )


def _dominant_feature(
    audited: Sequence[AuditedModel], moments: Moments, columns: _FeatureNames
) -> Iterator[Finding]:
    """FS403: without scaling, one column is nearly all that there is to keep."""
    if moments.n_features < 2:
        return
    found: dict[int, float] = {}
    unscaled_models = []
    for each in audited:
        if each.subspace.scale is not None:
            continue
        sizes = _pooled_second_moments(moments, each.subspace.center_point(moments))
        largest = int(np.argmax(sizes))
        held = sizes[largest] / sizes.sum() if sizes.any() else 0.0
        if held > _DOMINANT_SHARE:
            unscaled_models.append(each.name)
            found[largest] = max(held, found.get(largest, 0.0))
    if found:
        description = "; ".join(
            f"{columns.describe([column])} holds "
            f"{'more than 99.9 %' if held > _NEARLY_ALL else to_ascii(format_share(held))} of the variance"
            for column, held in sorted(found.items())
        )
        yield make_finding(
            "FS403",
            f"{description}, and {join_truncated(unscaled_models)} {'does' if len(unscaled_models) == 1 else 'do'} not "
            "scale: the other features have little influence. Use scale=True (--standardize), or "
            "divide it "
            "by its unit.",
            columns=columns.names_of(sorted(found)),
        )


def _rare_indicator_components(
    audited: Sequence[AuditedModel], moments: Moments, columns: _FeatureNames
) -> Iterator[Finding]:
    """FS404: standardised, a rare indicator is as large as any other column."""
    indicators = _rare_indicators(moments)
    dominant_indicators: set[int] = set()
    descriptions = []
    for each in audited:
        if each.subspace.scale is None or each.row_model is not None or not len(indicators):
            continue
        loadings = each.subspace.components**2
        loadings = loadings / loadings.sum(axis=1, keepdims=True)
        affected_components = np.flatnonzero(
            loadings[:, indicators].sum(axis=1) > _MAJORITY_OF_COMPONENT
        )
        for component in affected_components:
            dominant_indicators |= _dominant_indicators(loadings[component], indicators)
        if len(affected_components):
            descriptions.append(
                f"{len(affected_components)} of {format_count(len(loadings), 'component')} of {each.name}"
            )
    if dominant_indicators:
        found = sorted(dominant_indicators)
        yield make_finding(
            "FS404",
            f"{join_truncated(descriptions)}: made mostly of rare indicators (0 or 1, one value in less "
            f"than 1 % of the rows): {columns.describe(found)}. Scaling makes them as large as any "
            "other feature. Join such categories, leave them out (--exclude), or do not scale.",
            columns=columns.names_of(found),
        )


def _labels_spelled_differently(labels: Sequence[Label]) -> Iterator[Finding]:
    """FS405: labels that differ only by case, blanks or normal form, or that spaces surround."""
    pairs = similar_labels(labels)
    if pairs:
        yield make_finding(
            "FS405",
            "Labels that differ only by case, blanks or Unicode normal form: "
            f"{format_spellings(pairs)}. They count as different groups. Use one spelling in the group "
            "column.",
            groups=tuple(label for spellings in pairs for label in spellings),
        )
        return
    padded = padded_labels(labels)
    if padded:
        yield make_finding(
            "FS405",
            f"Labels with spaces around them: {join_truncated(list(map(quote_group, padded)))}. In other "
            "tables the same group may be spelled without, and then counts as another. Remove the "
            "spaces from the group column.",
            groups=tuple(padded),
        )


def _placeholder_labels(moments: Moments) -> Iterator[Finding]:
    """FS413: groups named by a text that usually marks a missing value."""
    found = placeholder_labels(moments.labels, moments.counts.tolist())
    if found is not None:
        yield make_finding(
            "FS413",
            f"{found.suspicion}, leave these rows out (--na-values {found.for_shell} with "
            f"--missing-group drop; in Python labels.mask(labels.isin({found.for_pandas})) with "
            'on_missing="drop").',
            groups=found.labels,
        )


def _many_small_groups(moments: Moments) -> Iterator[Finding]:
    """FS406: many groups, of which at least half have few rows."""
    k = moments.n_groups
    known = moments.counts[moments.counts > 0]
    n_few = int((known < _SMALL_GROUP_ROWS).sum())
    if k > _MANY_GROUPS and 2 * n_few >= k:
        remedy = "cross fewer attributes, or join groups"
        if are_numbers(moments.labels):
            remedy = "put numbers such as ages into bins (--bin COLUMN=EDGES; pandas.cut)"
        yield make_finding(
            "FS406",
            f"{k:,} groups, of which {n_few:,} have fewer than {_SMALL_GROUP_ROWS} rows, "
            "too few to say much about each. Check that the group column is no identifier; "
            f"{remedy}.",
        )


def _pooled_second_moments(moments: Moments, point: FloatArray | None) -> FloatArray:
    """Pooled second moment of each column about a point, or each group's own mean, (p,)."""
    parts = moments.variances
    if point is not None:
        parts = parts + (moments.means - point) ** 2
    return np.asarray(moments.proportions @ parts)


def _rare_indicators(moments: Moments) -> IndexArray:
    """Columns of zeros and ones of which one value is rare.

    Of whole numbers x, x^2 >= x, with equality for zero and one alone; so only zeros and ones have
    a second moment that equals the mean. Fractions may too, by a coincidence.
    """
    ones = moments.mean
    second = _pooled_second_moments(moments, np.zeros(moments.n_features))
    is_indicator = np.abs(second - ones) <= _INDICATOR_TOL * second
    return np.flatnonzero(
        is_indicator
        & (np.minimum(ones, 1 - ones) < _RARE_SHARE)
        & (moments.standard_deviations > 0)
    )


def _dominant_indicators(loadings: FloatArray, indicators: IndexArray) -> set[int]:
    """The fewest of the indicators that together make most of a component."""
    by_size = indicators[np.argsort(-loadings[indicators], kind="stable")]
    return set(
        by_size[
            : int(np.argmax(np.cumsum(loadings[by_size]) > _MAJORITY_OF_COMPONENT)) + 1
        ].tolist()
    )
