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

from fairspan.auditing.certificate_here import CertificateHere
from fairspan.auditing.expected_losses import UNSTABLE, are_heavy
from fairspan.auditing.models import Audited
from fairspan.auditing.results import (
    AuditedRows,
    Finding,
    GroupResult,
    ModelResult,
    harmed,
    labels,
    largest_of,
    names,
    quoted,
    share_lost,
)
from fairspan.formatting.text import (
    change,
    count,
    counted,
    figure,
    first_of,
    in_ascii,
    interval,
    relative,
    share,
)
from fairspan.moments.of_rows import Moments
from fairspan.rows.groups import Label, listed
from fairspan.rows.label_checks import (
    are_numbers,
    listed_pairs,
    padded_labels,
    placeholder_labels,
    similar_labels,
)
from fairspan.typing import FloatArray, IndexArray

_SMALL_SHARE = 0.05
# Below so many rows for each of d + 1, chance makes up a twentieth of a group's best error or more.
_ROWS_NEEDED = 20
# A share of variance kept that counts as lost: one point.
_MATERIAL = 0.01


class Rule(NamedTuple):
    """A code with its severity, what to do, and the caution with which it vetoes a verdict.

    Where what was seen may be harmless, "no harm shown" stands, with the caution. docs/findings.md
    says more of each.
    """

    severity: Literal["info", "warning"]
    remedy: str
    caution: str = ""
    may_be_harmless: bool = False


RULES = {
    "FS101": Rule(
        "warning",
        "Use fewer dimensions, collect more rows, join the group with another one, or choose "
        'a criterion of errors ("minimax_error", "error_gap") in place of losses.',
    ),
    "FS102": Rule("warning", "Collect more rows, or leave the group out and say so."),
    "FS103": Rule(
        "warning",
        "Check that the group is sampled as intended. A fair criterion does not need a "
        "large group, but few rows mean wide intervals.",
    ),
    "FS104": Rule(
        "warning",
        "Look at these rows. Often a column with the group's data is missing or was filled in.",
    ),
    "FS105": Rule(
        "warning",
        "Check the group column: a filter, a join or a misspelled name may have "
        "removed the others.",
    ),
    "FS106": Rule("info", "Pass the rows, or moments of separate blocks of them."),
    "FS107": Rule(
        "warning", "Audit rows that hold all groups, or check how the labels are spelled."
    ),
    "FS108": Rule(
        "warning",
        "Collect more rows of the group, join it with another one, or use fewer dimensions.",
    ),
    "FS109": Rule(
        "warning",
        "Look at the rows with the largest values. Logarithms or caps of columns with long "
        "tails make the intervals trustworthy.",
        "a few rows dominate the error of a group",
    ),
    "FS110": Rule(
        "warning",
        "Audit rows that were held out, or choose fewer features so that moments by fold fit "
        "into memory.",
    ),
    "FS201": Rule(
        "info",
        "The ends of the interval show which differences remain possible. With more rows it "
        "is narrower.",
    ),
    "FS202": Rule(
        "warning",
        'Decide whether you want equal errors; if so, use "error_gap" or "equal_error". If '
        "that only raises the smaller error, report the difference instead.",
    ),
    "FS203": Rule(
        "info",
        "Nothing, if you report the estimates for new rows; otherwise audit rows that were "
        "held out.",
    ),
    "FS204": Rule(
        "warning",
        "Look at the gap: it may be far below what matters to you. If it is open, use the "
        "default solver and tolerance, or with more than two groups allow_extra=True. If it is "
        "unresolved, divide the column of very large numbers by its unit, or use scale=True or "
        'center="global".',
    ),
    "FS205": Rule("info", "Compare with what a fair criterion reaches."),
    "FS206": Rule("info", "Use fewer dimensions for a comparison."),
    "FS207": Rule(
        "warning",
        "Audit rows that had no part in making the model, or pass the fitted model itself in "
        "place of its components, so that it can be fitted again without each part of the rows.",
    ),
    "FS208": Rule(
        "warning",
        "Use fewer or more dimensions, so that the next eigenvalue is clearly smaller; choose "
        "another scale; or look at outliers.",
        "the projection itself is unstable",
    ),
    "FS209": Rule(
        "info",
        "Keep the model where no refit is needed. Otherwise fit it again, and compare both models "
        "on rows that neither was fitted on.",
    ),
    "FS210": Rule(
        "warning",
        "Find out what changed in the rows of these groups. Fit the model again if FS209 says that "
        "it may help.",
    ),
    "FS301": Rule(
        "warning", "Compare each model with its own best error, or fit them with the same settings."
    ),
    "FS302": Rule(
        "info", "Decide whether the smaller loss justifies the larger error over all rows."
    ),
    "FS303": Rule(
        "info",
        "Decide whether this cost is acceptable for these groups. A criterion that weighs "
        "all rows, or more "
        "dimensions, lowers their losses.",
    ),
    "FS401": Rule("warning", "Leave the feature out: drop the column, or --exclude."),
    "FS402": Rule(
        "warning",
        "Leave the feature out (drop the column, or --exclude), unless it measures something.",
        "a feature may be an identifier",
    ),
    "FS403": Rule(
        "warning",
        "Use scale=True (--standardize), or divide the feature by its unit.",
        "one feature that is not scaled holds nearly all of the variance",
    ),
    "FS404": Rule(
        "warning", "Join rare categories into one, leave them out (--exclude), or do not scale."
    ),
    "FS405": Rule(
        "warning", "Spell the labels alike in the group column, without spaces around them."
    ),
    "FS406": Rule(
        "warning",
        "Cross fewer attributes, or join groups; put numbers such as ages into bins (--bin, "
        "pandas.cut); check that the group column is no identifier.",
    ),
    "FS407": Rule(
        "warning",
        "Compare the rows with and without these values. Leave the features out, or fit what is "
        'observed (on_missing="em", --on-missing em), and say which you did.',
    ),
    "FS408": Rule(
        "warning",
        "Leave out the features that cost most rows (drop the columns, or --exclude), or collect "
        "their values.",
        "much of a group is left out or filled in",
    ),
    "FS409": Rule(
        "warning",
        "Name the column whose values say which rows belong together: clusters=, --clusters.",
        "rows seem to repeat what is known of one person or object",
    ),
    "FS410": Rule(
        "warning",
        "Name the column that says which rows belong together: clusters=, --clusters. A table that "
        "is only sorted needs nothing.",
        "rows seem to repeat one another, or the table is sorted",
        may_be_harmless=True,
    ),
    "FS411": Rule(
        "info",
        "Ask how the table came about: who has no value, and why? Compare with the rows that are "
        "complete (on_missing='drop', --on-missing drop).",
    ),
    "FS412": Rule(
        "warning",
        "Ask what the values mean. If they are codes for missing ones, name them (--na-values, "
        "FileRows.open(..., na_values=...), X.replace in pandas), and choose what to do with "
        "these rows (on_missing, --on-missing).",
    ),
    "FS413": Rule(
        "warning",
        "Treat the labels as missing and leave their rows out (--na-values with --missing-group "
        'drop; in Python None in their place and on_missing="drop"), or give the group a name that '
        "says who is in it.",
    ),
}


def seen(
    code: str,
    message: str,
    model: str | None = None,
    groups: Sequence[Label] = (),
    columns: tuple[str, ...] = (),
) -> Finding:
    """A finding of one of the rules."""
    rule = RULES[code]
    told = message, model, tuple(groups), columns
    return Finding(code, rule.severity, *told, rule.remedy, rule.caution, rule.may_be_harmless)


def find(models: Sequence[ModelResult], rows: AuditedRows) -> tuple[Finding, ...]:
    """Apply every rule: about the rows first, then about each model, then across models."""
    return (
        *chain.from_iterable(rule(models, rows) for rule in _ABOUT_ROWS),
        *chain.from_iterable(rule(model, rows) for model in models for rule in _ABOUT_MODEL),
        *chain.from_iterable(rule(models) for rule in _ACROSS),
    )


def _about_groups(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS101 to FS105: groups of which little can be said."""
    groups = models[0].groups
    # With all dimensions nothing is lost, however few the rows.
    dimensions = [model.n_components for model in models if model.n_components < rows.n_features]
    d = max(dimensions, default=0)
    # Where harm is shown all the same, chance has been allowed for.
    shown = {group.group for model in models for group in harmed(model)}
    few = [
        group
        for group in groups
        if dimensions and 1 < group.n < _ROWS_NEEDED * (d + 1) and group.group not in shown
    ]
    alone = [group for group in groups if group.n == 1]
    small = [group for group in groups if group.proportion < _SMALL_SHARE]
    shares = first_of([in_ascii(share(group.proportion)) for group in small])
    flat = [group for group in groups if group.n > 1 and group.total_variance_here == 0]
    for code, found, message in (
        (
            "FS105",
            groups if len(groups) == 1 else (),
            f"All rows are of one group ({quoted(groups[0].group)}): there is nothing to compare. "
            "Check the group column.",
        ),
        (
            "FS101",
            few,
            f"{names(few)}: too few rows ({first_of([str(group.n) for group in few])}) for "
            f"{in_ascii(count(d, 'dimension'))}. "
            "Chance makes their best error too small and their excess loss too large. Do not "
            f"read this loss as harm; use fewer dimensions, or collect more rows{_rows_needed(few)}"
            ".",
        ),
        (
            "FS102",
            alone,
            f"{names(alone)}: only one row, so no interval can be computed. Collect more rows.",
        ),
        (
            "FS103",
            small,
            f"{names(small)}: less than 5 % of the rows ({shares}), so ordinary PCA gives them "
            "little weight. Check that they are sampled as intended.",
        ),
        (
            "FS104",
            flat,
            f"{names(flat)}: no variance, so the share kept is not defined. Check these rows.",
        ),
    ):
        if found:
            yield seen(code, message, groups=labels(found))


def _rows_needed(groups: Sequence[GroupResult]) -> str:
    needed = [
        f"{each.rows_needed:,} of {quoted(each.group)}" for each in groups if each.rows_needed
    ]
    return f" (about {first_of(needed)} tell)" if needed else ""


def _no_intervals(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS106: moments alone."""
    if not rows.has_intervals:
        yield seen(
            "FS106",
            "There are no intervals: a single set of moments does not show how much errors vary. "
            "Pass the rows, or a list of moments of separate blocks.",
        )


def _missing_groups(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS107: groups of the fit that are not among these rows."""
    here = {group.group for group in model.groups}
    absent = [label for label in model.known_groups if label not in here]
    if len(model.known_groups) > 1 and absent:
        yield seen(
            "FS107",
            f"{model.name}: was fitted on groups that are missing from these rows: "
            f"{listed(absent)}. "
            "The audit does not cover them.",
            model.name,
            tuple(absent),
        )


def _disparity(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS201, FS202: whether the groups' errors differ by more than chance."""
    difference, pair, where = model.disparity_here, model.pair, "these rows"
    errors = {group.group: group.error_here.value for group in model.groups}
    if model.expected_pair is not None:
        difference, pair, where = model.expected_disparity, model.expected_pair, "new rows"
        errors = {group.group: group.expected_error.value for group in model.groups}
    if not difference.has_interval or model.loses_nothing:
        return
    first, second = pair
    ends = in_ascii(interval(difference.low, difference.high))
    between = f"{quoted(second)} and {quoted(first)}"
    if difference.contains_zero:
        yield seen(
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
    more = f"{in_ascii(relative(times - 1))} more error; " if has_ratio else ""
    yield seen(
        "FS202",
        f"{model.name}: reconstructs {quoted(worse)} worse than {quoted(better)} on {where}, by "
        f"{figure(abs(difference.value))} ({more}interval of the difference {ends}).",
        model.name,
        (worse, better),
    )


def _unstable(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS108: groups whose own best subspace is poorly known."""
    found = _groups(models, lambda each: each.cross_fitted_instability > UNSTABLE)
    if found:
        beyond = first_of([in_ascii(share(each.cross_fitted_instability)) for each in found])
        yield seen(
            "FS108",
            f"{names(found)}: the best subspace of the group has a larger error on rows that were "
            f"left out than on the rows of its fit, by {beyond} of its error. The loss of the "
            "group is therefore known only roughly; collect more rows, or use fewer dimensions.",
            groups=labels(found),
        )


def _heavy_tails(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS109: errors that a few rows decide."""
    under = [
        model
        for model in models
        if any(are_heavy(each.kurtosis_here, each.n) for each in model.groups)
    ]
    if under:
        found = _groups(under, lambda each: are_heavy(each.kurtosis_here, each.n))
        names_of_models = first_of([model.name for model in under])
        yield seen(
            "FS109",
            f"{names(found)}: under {names_of_models}, a few rows dominate the error, so "
            "intervals may miss the true value far more often than their level says. Look at the "
            "rows with the largest values; take logarithms of columns with long tails, or cap them "
            "(how-to guide: Outliers and heavy tails).",
            groups=labels(found),
        )


def _missing(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS110: models without estimates for new rows."""
    for model in models:
        if model.why_no_estimates is not None:
            yield seen(
                "FS110",
                f"{model.name}: there are no estimates for new rows, because "
                f"{model.why_no_estimates}. Audit held-out rows, or use fewer features.",
                model.name,
            )


def _groups(
    models: Sequence[ModelResult], applies: Callable[[GroupResult], bool]
) -> list[GroupResult]:
    """Groups to which something applies under any model, each once."""
    found: dict[object, GroupResult] = {}
    for model in models:
        for group in model.groups:
            if applies(group):
                found.setdefault(group.group, group)
    return list(found.values())


def _fitted_here(models: Sequence[ModelResult], rows: AuditedRows) -> Iterator[Finding]:
    """FS203: how to read the figures of models that were fitted on these rows."""
    fitted = [model for model in models if model.fitted_here]
    if not fitted or not rows.has_intervals:
        return
    named = ", ".join(model.name for model in fitted)
    were = "was" if len(fitted) == 1 else "were"
    their, they_are = ("Its", "it is") if len(fitted) == 1 else ("Their", "they are")
    said = f"{were} fitted on these rows"
    if any(model.seems_fitted_here for model in fitted):
        said += " or on most of them, as far as their figures tell"
    message = (
        f"{named}: {said}. {their} errors on new rows are estimated by "
        f"cross-fitting: {they_are} fitted again with one part of the rows left out at a time."
        if any(model.has_estimates for model in fitted)
        else f"{named}: {said}. The intervals hold for this projection; "
        "errors on new rows may be larger. Audit held-out rows to find out."
    )
    yield seen("FS203", message, fitted[0].name if len(fitted) == 1 else None)


def _who_pays(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS205: the group that ordinary PCA costs most, against its own best subspace."""
    losses, groups = model.losses(), {group.group: group for group in model.groups}
    if not model.is_plain_pca or len(losses) < 2 or max(losses.values()) <= model.rounding:
        return
    most, loss = largest_of(losses, model.rounding)
    least = min(losses, key=lambda label: losses[label])
    # Of a loss that may be chance, the verdict says so; only one that is shown is named here.
    if model.has_estimates and not {groups[each].state for each in most} <= {"harmed", "minor"}:
        return
    where, best = "these rows", groups[most[0]].best_error_here
    if model.has_estimates:
        where, best = "new rows", groups[most[0]].expected_best_error
    # A share of what is only rounding would be a number without any meaning.
    has_share = best > groups[most[0]].rounding_here
    above = f" ({in_ascii(relative(loss / best))})" if has_share and len(most) == 1 else ""
    known = [group for group in model.groups if group.group in losses]
    by_share = max(known, key=share_lost)
    beside = ""
    if model.has_estimates and by_share.group not in most and by_share.state == "harmed":
        part = in_ascii(share(share_lost(by_share)))
        beside = f" As a share of its variance, {quoted(by_share.group)} loses most: {part}."
    has, its, this = (
        ("has", "Its error is", "this group")
        if len(most) == 1
        else ("have", "Their errors are", "each group")
    )
    yield seen(
        "FS205",
        f"{model.name}: {first_of([quoted(each) for each in most])} {has} the largest loss on "
        f"{where}. {its} {figure(loss)}{above} above the smallest error with "
        f"{_dimensions(model)} for {this} alone; for {quoted(least)} the loss is "
        f"{figure(losses[least])}.{beside}",
        model.name,
        (*most, least),
    )


def _loses_nothing(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS206: all that these rows vary in is kept."""
    if model.loses_nothing:
        keep, remedy = "keeps", ""
        if model.n_components > 1:
            keep = "keep"
            remedy = " Use fewer dimensions (n_components, -d) for a comparison."
        yield seen(
            "FS206",
            f"{model.name}: {_dimensions(model)} {keep} all variance of every group, up to "
            f"rounding, so no group has a loss.{remedy}",
            model.name,
        )


def _impossible(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS207: losses below zero, which no model has that was made without these rows."""
    found = [group for group in model.groups if group.is_impossible(group.rounding_here)]
    if found:
        yield seen(
            "FS207",
            f"{model.name}: the interval of the expected loss of {names(found)} is below zero, "
            "which no loss can be. Either this is chance, or the rows had a part in making the "
            "model; nothing is claimed of it. Audit held-out rows.",
            model.name,
            labels(found),
        )


def _open_gap(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS204: not proven optimal."""
    if model.status in (None, "optimal"):
        return
    said = f"is not proven optimal ({model.status})."
    if model.is_nested and model.status == "open gap" and model.gap is not None:
        said = (
            f"its components are nested: each was chosen with those before it fixed. "
            f"{_dimensions(model)} chosen jointly may be better, by at most {model.gap:.4g}."
        )
    if model.status == "unresolved":
        why = f": {model.reason}" if model.reason else ""
        said = f"double precision cannot tell how close it is to the optimum (unresolved){why}."
        if "column" in (model.reason or ""):
            said += f" {_remedy_for_large_column(model)}."
    yield seen("FS204", f"{model.name}: {said}", model.name)


def _remedy_for_large_column(model: ModelResult) -> str:
    """Return what to do about a column of very large numbers, if it is not done already."""
    ways = ["Divide it by its unit"]
    if not model.scaled:
        ways.append("use scale=True (--standardize)")
    if model.center != "global":
        ways.append('use center="global" (--center global)')
    return ", or ".join(ways)


def _unstable_model(model: ModelResult, rows: AuditedRows) -> Iterator[Finding]:
    """FS208: a model that other rows of the same source would have made another one."""
    if model.instability is not None and model.instability > 1:
        yield seen(
            "FS208",
            f"{model.name}: the projection itself is unstable. Between fits without one part of "
            f"the rows, the error of a group spreads by {figure(model.instability)} times "
            "the half width of the interval of its loss; the cosine of the largest angle between "
            f"such a fit and the model is {figure(model.least_cosine or 0.0)}. Use fewer or more "
            "dimensions, choose another scale, or look at outliers.",
            model.name,
        )


def _since_the_fit(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS209, FS210: what is left of the fit on other rows, of fair models if there are any."""
    told = [model for model in models if model.certificate_here is not None]
    for model in [each for each in told if not each.is_plain_pca] or told:
        here = model.certificate_here
        assert here is not None
        most, doubt = max(model.groups, key=lambda each: each.loss_here), ""
        if here.refit_may_help and most.n < _ROWS_NEEDED * (model.n_components + 1):
            rows = in_ascii(count(most.n, "row"))
            doubt = (
                f" Part of the gap is chance: {quoted(most.group)}, which loses most, has {rows}."
            )
        yield seen("FS209", f"{model.name}: {_proven_here(here)}{doubt}", model.name)
        moved = [
            group
            for group in model.groups
            if group.drift_here.has_interval
            and not group.drift_here.contains_zero
            and abs(group.drift_here.value) > group.rounding_here
        ]
        if moved:
            changes = [
                f"{quoted(each.group)} by {figure(each.drift_here.value)} "
                f"({in_ascii(interval(each.drift_here.low, each.drift_here.high))})"
                for each in moved
            ]
            yield seen(
                "FS210",
                f"{model.name}: since the fit the error has changed beyond chance, of "
                f"{first_of(changes)}. The rows have changed, or the fit was too close to few "
                "rows.",
                model.name,
                labels(moved),
            )


def _proven_here(here: CertificateHere) -> str:
    """What the proof of a model says of these rows, in words."""
    value = figure(here.objective) if math.isfinite(here.objective) else "infinite"
    reached = f"on these rows {here.criterion} is {value}"
    if here.refit_may_help is None:
        found = "" if math.isnan(here.objective) else f"{reached}; "
        return f"{found}what a refit to these rows could reach is not proven: {here.reason}."
    said = f"{reached}, and by its own proof no refit to them reaches less"
    if here.gap:
        said += f" than {figure(here.lower_bound)}"
    if 0 < here.gap < math.inf:
        less = f"{figure(here.gap)} ({in_ascii(share(here.relative_gap))})"
        said += f": the optimum is at most {less} lower"
    if here.violation > 0:
        said += f"; errors differ by {figure(here.violation)} more than it allows"
    if not here.refit_may_help:
        # What a restriction hides was chosen on other rows, and may show on these.
        beside = ", but how far its restriction holds here is another question"
        return f"{said}. No refit is needed{beside if here.is_restricted else ''}."
    recentred = here.recentred_objective
    if here.objective - recentred > here.gap / 2 > 0:
        said += f"; with the mean of these rows the same components reach {figure(recentred)}"
    return f"{said}. A refit may help."


def _different_centers(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS301: figures in different units or about different points."""
    if len({(model.center, model.scaled) for model in models}) > 1:
        kinds = "; ".join(
            f"{model.name}: {model.center}{', scaled' if model.scaled else ''}" for model in models
        )
        yield seen(
            "FS301",
            f"The models measure errors about different centres or in different units ({kinds}). "
            "Compare each with its own best error, not with each other.",
        )


def _beside_plain(models: Sequence[ModelResult]) -> list[tuple[ModelResult, ModelResult]]:
    """Fair models of several groups, each with its plain PCA."""
    by_name = {model.name: model for model in models}
    pairs = [(model, by_name.get(model.baseline or "")) for model in models]
    return [(model, pca) for model, pca in pairs if pca is not None and len(pca.groups) > 1]


def _repair(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS302: what a fair projection changes compared with its plain PCA."""
    for model, plain in _beside_plain(models):
        where = _where(model, plain)
        before, after = (
            max(each.losses().values()) if where == "new rows" else each.largest_loss_here
            for each in (plain, model)
        )
        whole_before, whole_after = (
            each.expected_total_error if where == "new rows" else each.total_error_here
            for each in (plain, model)
        )
        if before <= plain.rounding:
            continue
        yield seen(
            "FS302",
            f"{model.name} against {plain.name} on {where}: the largest excess loss of a group "
            f"goes from {figure(before)} to {figure(after)}, the error over all rows from "
            f"{figure(whole_before)} to {figure(whole_after)} "
            f"({in_ascii(change(whole_after / whole_before - 1))}).",
            model.name,
        )


def _where(model: ModelResult, plain: ModelResult) -> str:
    """Whether two models are compared on new rows, or on these where one has no estimates."""
    both = (*model.groups, *plain.groups)
    return "new rows" if all(group.is_estimated for group in both) else "these rows"


def _who_pays_for_repair(models: Sequence[ModelResult]) -> Iterator[Finding]:
    """FS303: groups that keep clearly less of their variance than with plain PCA."""
    for model, plain in _beside_plain(models):
        where = _where(model, plain)
        kept_less = []
        for before, after in zip(plain.groups, model.groups, strict=True):
            shares: tuple[float, ...] = (before.kept_here, after.kept_here)
            shown = True
            if where == "new rows" and after.total_variance_here > 0:
                whole = after.total_variance_here
                shares = tuple(
                    max(1 - g.expected_error.value / whole, 0.0) for g in (before, after)
                )
                shown = (after.expected_change.low or 0.0) > 0
            if shown and shares[0] - shares[1] > _MATERIAL:
                kept_less.append((shares, after))
        if not kept_less:
            continue
        kept_less.sort(key=lambda each: each[0][0] - each[0][1], reverse=True)
        said = [
            f"{quoted(after.group)} ({_rows(after.n)}{in_ascii(share(after.proportion))} of all: "
            f"{in_ascii(share(now))} instead of {in_ascii(share(then))})"
            for (then, now), after in kept_less
        ]
        together = sum(after.proportion for _, after in kept_less)
        n_rows = sum(after.n for _, after in kept_less)
        in_all = "" if len(said) == 1 else f" Together: {_rows(n_rows)}{in_ascii(share(together))}."
        yield seen(
            "FS303",
            f"{model.name} keeps less than {plain.name} of the variance of {first_of(said)} on "
            f"{where}.{in_all}",
            model.name,
            labels([after for _, after in kept_less]),
        )


def _dimensions(model: ModelResult) -> str:
    return in_ascii(count(model.n_components, "dimension"))


_ABOUT_ROWS = (_about_groups, _no_intervals, _missing, _unstable, _heavy_tails, _fitted_here)
_ABOUT_MODEL = (
    _missing_groups,
    _loses_nothing,
    _who_pays,
    _disparity,
    _open_gap,
    _impossible,
    _unstable_model,
)
_ACROSS = (_since_the_fit, _different_centers, _repair, _who_pays_for_repair)


def _rows(n: int) -> str:
    """How many rows, before a share of them; nothing where that is not known."""
    return f"{counted(n, 'row')}, " if n else ""


# Each limit is justified where its code stands in docs/findings.md.
_MOST_WITHIN_GROUPS = 0.02
_FEWEST_DEGREES_OF_FREEDOM = 10
_MOST_OF_THE_VARIANCE = 0.9
_NEARLY_ALL = 0.999
_RARE = 0.01
_MOST_OF_A_COMPONENT = 0.5
_MANY_GROUPS = 20
_FEW_ROWS_OF_MANY_GROUPS = 100
# A larger ratio of two errors says only that one of them is next to nothing: no percentage is
# shown of it.
_MOST_TIMES = 1e6
# A column of zeros and ones has its mean for second moment, up to this share of rounding.
_ROUNDING = 1e-9


def find_in_data(
    audited: Sequence[Audited], moments: Moments, ordered: Sequence[int] = ()
) -> tuple[Finding, ...]:
    """Apply every rule about the data, in the order of the codes.

    Parameters
    ----------
    audited : sequence of Audited
    moments : GroupMoments, SparseMoments or ThinMoments
        Of the audited rows, unscaled.
    ordered : sequence of int
        Columns whose values all differ and only rise or only fall from row to row.

    Returns
    -------
    tuple of Finding
    """
    columns = _Columns.of(audited, moments)
    return (
        *_columns_that_are_the_group(moments, columns),
        *_ordered_columns(ordered, columns),
        *_a_column_with_most_of_the_variance(audited, moments, columns),
        *_components_of_rare_indicators(audited, moments, columns),
        *find_in_labels(moments),
    )


def find_in_labels(moments: Moments) -> Iterator[Finding]:
    """Apply the rules about the labels of groups."""
    yield from _labels_spelled_differently(moments.labels)
    yield from _many_labels(moments)
    yield from _placeholder_labels(moments)


@dataclass(frozen=True)
class _Columns:
    """How findings name the features: x0, x1, ... where these have no names."""

    names: tuple[str, ...] | None

    @classmethod
    def of(cls, audited: Sequence[Audited], moments: Moments) -> "_Columns":
        """The names of the rows' features, or else of the models'."""
        named = (moments.feature_names, *(each.subspace.feature_names for each in audited))
        return cls(next(filter(None, named), None))

    def named(self, columns: Iterable[int]) -> tuple[str, ...]:
        """The names as they are in the data."""
        return tuple(f"x{i}" if self.names is None else self.names[i] for i in columns)

    def listed(self, columns: Sequence[int]) -> str:
        """The names as a sentence has them."""
        names = self.named(columns)
        shown = names if self.names is None else [quoted(name) for name in names]
        return f"{'feature' if len(columns) == 1 else 'features'} {first_of(shown)}"


def _columns_that_are_the_group(moments: Moments, columns: _Columns) -> Iterator[Finding]:
    """FS401: columns that hardly vary within groups and differ between them."""
    n_rows = int(moments.counts.sum())
    freedom = n_rows - moments.n_groups
    if moments.n_groups < 2 or freedom < _FEWEST_DEGREES_OF_FREEDOM:
        return
    total = moments.standard_deviations**2
    # With the degrees of freedom of an analysis of variance, so that many groups of few rows, which
    # vary little about their own means, do not make every column look like the group.
    within = (moments.proportions @ moments.variances) * ((n_rows - 1) / freedom)
    found = np.flatnonzero((total > 0) & (within < _MOST_WITHIN_GROUPS * total)).tolist()
    if found:
        yield seen(
            "FS401",
            f"{columns.listed(found)} {'encodes' if len(found) == 1 else 'encode'} the group: "
            f"(nearly) "
            "constant within groups, different between them. Such a feature can hide or reverse "
            "the effect of a projection on the groups. Leave it out (drop the column; --exclude).",
            columns=columns.named(found),
        )


def _ordered_columns(ordered: Sequence[int], columns: _Columns) -> Iterator[Finding]:
    """FS402: columns whose values all differ and are in order."""
    if ordered:
        yield seen(
            "FS402",
            f"{columns.listed(ordered)}: all values differ, and they only rise or only fall from "
            "row to row. This is typical of a row number, an identifier, a time, or the column by "
            "which the table is sorted. Leave it out, unless it measures something about each row "
            "(drop the column; --exclude).",
            columns=columns.named(ordered),
        )


def _a_column_with_most_of_the_variance(
    audited: Sequence[Audited], moments: Moments, columns: _Columns
) -> Iterator[Finding]:
    """FS403: without scaling, one column is nearly all that there is to keep."""
    if moments.n_features < 2:
        return
    found: dict[int, float] = {}
    concerned = []
    for each in audited:
        if each.subspace.scale is not None:
            continue
        sizes = _second_moments(moments, each.subspace.reference_point(moments))
        largest = int(np.argmax(sizes))
        held = sizes[largest] / sizes.sum() if sizes.any() else 0.0
        if held > _MOST_OF_THE_VARIANCE:
            concerned.append(each.name)
            found[largest] = max(held, found.get(largest, 0.0))
    if found:
        holds = "; ".join(
            f"{columns.listed([column])} holds "
            f"{'more than 99.9 %' if held > _NEARLY_ALL else in_ascii(share(held))} of the variance"
            for column, held in sorted(found.items())
        )
        yield seen(
            "FS403",
            f"{holds}, and {first_of(concerned)} {'does' if len(concerned) == 1 else 'do'} not "
            "scale: the other features have little influence. Use scale=True (--standardize), or "
            "divide it "
            "by its unit.",
            columns=columns.named(sorted(found)),
        )


def _components_of_rare_indicators(
    audited: Sequence[Audited], moments: Moments, columns: _Columns
) -> Iterator[Finding]:
    """FS404: standardised, a rare indicator is as large as any other column."""
    indicators = _rare_indicators(moments)
    making: set[int] = set()
    made = []
    for each in audited:
        if each.subspace.scale is None or each.by_rows is not None or not len(indicators):
            continue
        loadings = each.subspace.components**2
        loadings = loadings / loadings.sum(axis=1, keepdims=True)
        mostly = np.flatnonzero(loadings[:, indicators].sum(axis=1) > _MOST_OF_A_COMPONENT)
        for component in mostly:
            making |= _making_most(loadings[component], indicators)
        if len(mostly):
            made.append(f"{len(mostly)} of {count(len(loadings), 'component')} of {each.name}")
    if making:
        found = sorted(making)
        yield seen(
            "FS404",
            f"{first_of(made)}: made mostly of rare indicators (0 or 1, one value in less "
            f"than 1 % of the rows): {columns.listed(found)}. Scaling makes them as large as any "
            "other feature. Join such categories, leave them out (--exclude), or do not scale.",
            columns=columns.named(found),
        )


def _labels_spelled_differently(labels: Sequence[Label]) -> Iterator[Finding]:
    """FS405: labels that differ only by case, blanks or normal form, or that spaces surround."""
    pairs = similar_labels(labels)
    if pairs:
        yield seen(
            "FS405",
            "Labels that differ only by case, blanks or Unicode normal form: "
            f"{listed_pairs(pairs)}. They count as different groups. Use one spelling in the group "
            "column.",
            groups=tuple(label for spellings in pairs for label in spellings),
        )
        return
    padded = padded_labels(labels)
    if padded:
        yield seen(
            "FS405",
            f"Labels with spaces around them: {first_of(list(map(quoted, padded)))}. In other "
            "tables the same group may be spelled without, and then counts as another. Remove the "
            "spaces from the group column.",
            groups=tuple(padded),
        )


def _placeholder_labels(moments: Moments) -> Iterator[Finding]:
    """FS413: groups named by a text that usually marks a missing value."""
    found = placeholder_labels(moments.labels, moments.counts.tolist())
    if found is not None:
        yield seen(
            "FS413",
            f"{found.suspicion}, leave these rows out (--na-values {found.for_shell} with "
            f"--missing-group drop; in Python labels.mask(labels.isin({found.for_pandas})) with "
            'on_missing="drop").',
            groups=found.labels,
        )


def _many_labels(moments: Moments) -> Iterator[Finding]:
    """FS406: many groups, of which at least half have few rows."""
    k = moments.n_groups
    known = moments.counts[moments.counts > 0]
    n_few = int((known < _FEW_ROWS_OF_MANY_GROUPS).sum())
    if k > _MANY_GROUPS and 2 * n_few >= k:
        remedy = "cross fewer attributes, or join groups"
        if are_numbers(moments.labels):
            remedy = "put numbers such as ages into bins (--bin COLUMN=EDGES; pandas.cut)"
        yield seen(
            "FS406",
            f"{k:,} groups, of which {n_few:,} have fewer than {_FEW_ROWS_OF_MANY_GROUPS} rows, "
            "too few to say much about each. Check that the group column is no identifier; "
            f"{remedy}.",
        )


def _second_moments(moments: Moments, point: FloatArray | None) -> FloatArray:
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
    second = _second_moments(moments, np.zeros(moments.n_features))
    is_indicator = np.abs(second - ones) <= _ROUNDING * second
    return np.flatnonzero(
        is_indicator & (np.minimum(ones, 1 - ones) < _RARE) & (moments.standard_deviations > 0)
    )


def _making_most(loadings: FloatArray, indicators: IndexArray) -> set[int]:
    """The fewest of the indicators that together make most of a component."""
    by_size = indicators[np.argsort(-loadings[indicators], kind="stable")]
    return set(
        by_size[: int(np.argmax(np.cumsum(loadings[by_size]) > _MOST_OF_A_COMPONENT)) + 1].tolist()
    )
