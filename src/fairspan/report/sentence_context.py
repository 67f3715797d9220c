"""Variables of the sentences of a page, in template/sentences.html."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from fairspan.auditing.audit_table import (
    COMMON_UNIT_NOTE,
    joint_level_note,
    observed_loss_note,
)
from fairspan.auditing.decision_notes import (
    decision_note,
    negative_loss_note,
    separate_losses_note,
)
from fairspan.auditing.estimates import STATE_MEANINGS
from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.intervals import share_of
from fairspan.auditing.model_comparison import ModelComparison
from fairspan.auditing.order_of_shares import describe_order_of_shares
from fairspan.auditing.results import GroupResult, harmed_groups
from fairspan.auditing.verdict import Verdict, VerdictKind
from fairspan.formatting.numbers import (
    change_decimals,
    format_count,
    share_with_change,
    verb_form,
)
from fairspan.linalg.rounding import LOOSE_TOL
from fairspan.report.dimensions import DimensionResult
from fairspan.report.report import Report
from fairspan.report.shares import (
    group_with_largest_loss,
    largest_observed_loss,
    proportion_texts,
    shares_of_variances,
)
from fairspan.report.tables.table_columns import INCONCLUSIVE, tied_maxima
from fairspan.rows.labels import Label
from fairspan.version import __version__

# What a criterion does by its verdict for the group that PCA harms most, singular and plural, the
# best outcome first. Verdicts that are not listed mean that the criterion is not shown to help.
_OUTCOMES: dict[VerdictKind, tuple[str, str]] = {
    "harm, repair helps": (
        "helps {group} at no material cost to others",
        "help {group} at no material cost to others",
    ),
    "harm, repair at a possible cost": (
        "helps {group}, but a material cost to others is not ruled out",
        "help {group}, but a material cost to others is not ruled out",
    ),
    "harm, repair at a cost": (
        "helps {group}, and others pay for it",
        "help {group}, and others pay for it",
    ),
    "harm, repair shifts it": (
        "harms a group that PCA is not shown to harm",
        "harm a group that PCA is not shown to harm",
    ),
}
_WORSE: VerdictKind = "harm, repair makes it worse"
_MAKES_WORSE = ("makes {group} worse", "make {group} worse")
_NO_HELP = (
    "is not shown to help {group}: the interval of its change contains zero",
    "are not shown to help {group}: the intervals of its change contain zero",
)
# Variables that are the same for every report, among them functions that the macros call.
_CONSTANTS: dict[str, object] = {
    "version": __version__,
    "loose_tol": LOOSE_TOL,
    "inconclusive_state": INCONCLUSIVE,
    "state_meanings": STATE_MEANINGS,
    "common_unit_note": COMMON_UNIT_NOTE,
    "order_of_shares": describe_order_of_shares,
    "shares_of_variances": shares_of_variances,
    "change_decimals": change_decimals,
    "share_with_change": share_with_change,
    "largest_observed_loss": largest_observed_loss,
    "largest_expected_loss": group_with_largest_loss,
}


@dataclass(frozen=True)
class CriteriaOutcome:
    """Criteria with the same outcome, and what they do.

    Attributes
    ----------
    models : tuple of str
    phrase : str
        In the form of the verb that agrees with their number. The field {group} stands for the
        group that PCA harms most.
    helps : bool
        Whether they help this group.
    harms_others : bool
        Whether they harm a group that PCA is not shown to harm. They may help this group.
    makes_worse : bool
        Whether the error of this group is shown to rise.
    """

    models: tuple[str, ...]
    phrase: str
    helps: bool
    harms_others: bool
    makes_worse: bool = False


@dataclass(frozen=True)
class DimensionHarm:
    """Largest loss of a group that PCA harms with some number of dimensions.

    Attributes
    ----------
    n_components : int
    group : label
    share : float
        Expected loss as a share of the variance of the group.
    """

    n_components: int
    group: Label
    share: float


def sentence_context(report: Report) -> dict[str, object]:
    """Return the variables of the macros in sentences.html.

    Losses are shares of the variance of the group; they are observed ones, unless a variable is
    about estimates for new rows. "Tied" values are equal up to the tolerance of a fit.
    """
    return {
        "report": report,
        "pca": report.pca,
        "main": report.main,
        **_CONSTANTS,
        **_counted_words(report.pca.n_components),
        **_fit_variables(report),
        **_loss_variables(report),
        **_dimension_variables(report),
        **_verdict_variables(report),
        **_note_variables(report),
    }


def _counted_words(n_components: int) -> dict[str, object]:
    """Return words that agree with the number of components."""
    components = format_count(n_components, "component")
    is_single = n_components == 1
    return {
        "dimensions": format_count(n_components, "dimension"),
        "components": components,
        "best_components": f"{components} that {verb_form(n_components, 'suits', 'suit')}",
        "own_best": "own best component" if is_single else f"own best {components}",
        "no_other": "no other component" if is_single else f"no other {components}",
    }


def _fit_variables(report: Report) -> dict[str, object]:
    """Return variables about the certificate and the total errors of the fits."""
    pca = report.pca
    certificate = report.main_fit.certificate
    total_errors = pca.expected_total_error_share + report.main.expected_total_error_share
    return {
        "certificate": certificate,
        "has_bound": isfinite(certificate.lower_bound),
        "has_total_errors": isfinite(total_errors),
        "has_smaller_total_error": any(
            model.expected_total_error_share < pca.expected_total_error_share
            for model in report.audit.models
        ),
    }


def _loss_variables(report: Report) -> dict[str, object]:
    """Return variables about the losses of the groups with the selected number of dimensions."""
    pca = report.pca
    pca_losses = [group.observed_loss_share for group in pca.groups]
    main_losses = [group.observed_loss_share for group in report.main.groups]
    return {
        "worst_group": pca.groups[tied_maxima(pca_losses)[0]],
        "tied_largest": tied_maxima(main_losses),
        "increased_losses": _increased_losses(report),
        "proportion_texts": proportion_texts(pca),
        "harmed_by_pca": harmed_groups(pca),
        "unknown_groups": [group for group in pca.groups if group.state == INCONCLUSIVE],
        **_affected_groups(report),
    }


def _dimension_variables(report: Report) -> dict[str, object]:
    """Return variables about PCA with several numbers of dimensions."""
    largest_losses = [
        float(shares_of_variances(result.pca_losses, report.pca).max())
        for result in report.curves.dimensions
    ]
    return {
        "largest_pca_losses": largest_losses,  # by number of dimensions
        "worst_dimension_index": largest_losses.index(max(largest_losses)),
        "harmless_dimensions": harmless_dimensions(report),
        "unresolved_dimensions": unresolved_dimensions(report),
        "has_larger_dimensions": any(
            dimension.n_components > report.pca.n_components
            for dimension in estimated_reductions(report)
        ),
        "harm_by_dimension": harm_by_dimension(report),
        "next_component_share": next_component_share(report),
    }


def _verdict_variables(report: Report) -> dict[str, object]:
    """Return variables about the verdicts on the criteria, and the findings that qualify them."""
    names_with_estimates = [model.name for model in report.audit.models if model.has_estimates]
    verdicts = [
        verdict
        for verdict in report.audit.verdicts
        if verdict.model != report.pca.name and verdict.model in names_with_estimates
    ]
    main_findings, _ = split_findings(report)  # without those on other models
    return {
        "criteria_verdicts": verdicts,
        "criteria_outcomes": group_by_outcome(verdicts),
        "assumptions": _assumptions_of_harm(report),
        "main_findings": main_findings,
        **_harmful_models(report),
    }


def _note_variables(report: Report) -> dict[str, object]:
    """Return notes, which are the same as those of the audit in a terminal."""
    audit = report.audit
    recommendation = audit.recommendation
    reason = recommendation.reason if recommendation is not None else ""
    loss_notes = [
        observed_loss_note([report.pca], audit.materiality),
        negative_loss_note(audit.models),
    ]
    n_fair = len(audit.models) - 1
    return {
        "state_reasons": {group.state_reason for model in audit.models for group in model.groups},
        "decision_note_text": decision_note(audit.models, audit.materiality),
        "separate_losses_note_text": report.shorten_names(separate_losses_note(audit.models)),
        "recommendation_reason_text": report.shorten_names(reason),
        # Below the first table with losses, also for those of other models in later ones.
        "observed_loss_note": " ".join(note for note in loss_notes if note),
        "joint_level_note": joint_level_note(audit.level, n_fair),
    }


def _affected_groups(report: Report) -> dict[str, list[GroupResult]]:
    """Return the groups that gain, pay, and are newly or still harmed under the main model."""
    if report.main.is_pca:
        return {"gainers": [], "payers": [], "newly_harmed": [], "still_harmed": []}
    comparison = ModelComparison.from_models(report.main, report.pca, report.audit.materiality)
    return {
        "gainers": comparison.groups_with_effect("gain"),
        "payers": comparison.groups_with_effect("cost"),
        "newly_harmed": comparison.newly_harmed,
        "still_harmed": [
            group
            for group in harmed_groups(report.main)
            if group.group in comparison.labels_harmed_by_pca
        ],
    }


def _assumptions_of_harm(report: Report) -> list[str]:
    """Return the assumptions of the harm by PCA that findings call into question."""
    harmed = {group.group for group in harmed_groups(report.pca)}
    assumptions = [
        finding.assumption
        for finding in report.audit.findings
        if finding.assumption
        and finding.model in (None, report.pca.name)
        and (not finding.groups or harmed.intersection(finding.groups))
    ]
    return list(dict.fromkeys(assumptions))


def _harmful_models(report: Report) -> dict[str, list[str]]:
    """Return the names of the fair models under which a group is harmed that PCA does not harm.

    Those under which its error is shown to rise are also listed on their own.
    """
    harmful = []
    worse = []
    for model in report.audit.models:
        if model.is_pca or not model.has_estimates:
            continue
        comparison = ModelComparison.from_models(model, report.pca, report.audit.materiality)
        if comparison.newly_harmed or comparison.harmed_without_rise:
            harmful.append(model.name)
        if comparison.newly_harmed:
            worse.append(model.name)
    return {"worse_models": worse, "harmful_models": harmful}


def _increased_losses(report: Report) -> list[tuple[GroupResult, GroupResult]]:
    """Return the results under PCA and under the main model of groups whose loss increases."""
    return [
        (before, after)
        for before, after in zip(report.pca.groups, report.main.groups, strict=True)
        if after.observed_loss > before.observed_loss * (1 + LOOSE_TOL)
    ]


def group_by_outcome(verdicts: Sequence[Verdict]) -> list[CriteriaOutcome]:
    """Group the criteria by what they do for the groups that PCA harms, the best outcome first.

    Examples
    --------
    >>> from fairspan.auditing.advice import Advice
    >>> kind = "harm, repair shifts it"
    >>> verdicts = [Verdict(kind, "", Advice.from_texts(""), name) for name in ("a", "b")]
    >>> [(outcome.models, outcome.phrase) for outcome in group_by_outcome(verdicts)]
    [(('a', 'b'), 'harm a group that PCA is not shown to harm')]
    """
    outcomes = []
    for kind, phrases in _OUTCOMES.items():
        models = tuple(verdict.model for verdict in verdicts if verdict.kind == kind)
        if models:
            phrase = verb_form(len(models), *phrases)
            shifts_harm = kind == "harm, repair shifts it"
            outcomes.append(CriteriaOutcome(models, phrase, not shifts_harm, shifts_harm))
    worse = tuple(verdict.model for verdict in verdicts if verdict.kind == _WORSE)
    others = tuple(
        verdict.model for verdict in verdicts if verdict.kind not in (*_OUTCOMES, _WORSE)
    )
    for models, phrases in ((others, _NO_HELP), (worse, _MAKES_WORSE)):
        if models:
            phrase = verb_form(len(models), *phrases)
            outcomes.append(
                CriteriaOutcome(
                    models, phrase, helps=False, harms_others=False, makes_worse=models is worse
                )
            )
    return outcomes


def next_component_share(report: Report) -> float | None:
    """Return the share of the variance of all rows that one more component of PCA would keep.

    None if that number of dimensions was not evaluated, or without any variance.
    """
    proportions = [group.proportion for group in report.pca.groups]
    variance = report.pca.total_variance
    errors = {
        result.n_components: float(result.pca_errors @ proportions)
        for result in report.curves.dimensions
    }
    d = report.pca.n_components
    if d + 1 not in errors or not variance > 0:
        return None
    return (errors[d] - errors[d + 1]) / variance


def harm_by_dimension(report: Report) -> list[DimensionHarm]:
    """Return the largest harm at each number of dimensions at which PCA harms a group.

    Losses are expected ones on new rows.
    """
    variances = [group.observed_total_variance for group in report.pca.groups]
    harmful = []
    for dimension in report.curves.dimensions:
        losses = [
            (share_of(estimates.expected_loss.value, variances[g]), g)
            for g, estimates in enumerate(dimension.pca_estimates)
            if estimates.state == "harmed"
        ]
        if losses:
            share, g = max(losses)
            harmful.append(DimensionHarm(dimension.n_components, report.curves.groups[g], share))
    return harmful


def harmless_dimensions(report: Report) -> list[int]:
    """Return the evaluated numbers of dimensions with no material harm to any group by PCA.

    All features together reduce nothing, and are left out.
    """
    variances = [group.observed_total_variance for group in report.pca.groups]
    max_losses = [report.audit.materiality * variance for variance in variances]
    harmless = []
    for dimension in estimated_reductions(report):
        rules_out_harm = [
            estimates.state in ("no material harm", "minor")
            and (estimates.expected_loss.high or 0.0) < max_loss
            for estimates, max_loss in zip(dimension.pca_estimates, max_losses, strict=True)
        ]
        if all(rules_out_harm):
            harmless.append(dimension.n_components)
    return harmless


def unresolved_dimensions(report: Report) -> list[int]:
    """Return the evaluated numbers of dimensions at which material harm by PCA stays open.

    No group is shown to be harmed, but a loss above the threshold is not ruled out for every group.
    """
    harmless = harmless_dimensions(report)
    return [
        dimension.n_components
        for dimension in estimated_reductions(report)
        if dimension.n_components not in harmless
        and all(estimates.state != "harmed" for estimates in dimension.pca_estimates)
    ]


def estimated_reductions(report: Report) -> list[DimensionResult]:
    """Return the results with estimates by number of dimensions, but for all features."""
    return [
        dimension
        for dimension in report.curves.dimensions
        if dimension.pca_estimates and dimension.n_components < report.n_features
    ]


def split_findings(report: Report) -> tuple[list[Finding], list[Finding]]:
    """Split the findings into those about the rows, ordinary PCA and the main model, and others."""
    main_models = {None, report.pca.name, report.main.name}
    main_findings = []
    other_findings = []
    for finding in report.audit.findings:
        if finding.model in main_models:
            main_findings.append(finding)
        else:
            other_findings.append(finding)
    return main_findings, other_findings
