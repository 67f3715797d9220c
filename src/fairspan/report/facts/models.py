"""The facts of models: of ordinary PCA and each criterion, and of those that were given."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from fairspan.auditing.audit import audit_in_folds, audit_moments, audit_rows
from fairspan.auditing.audit_result import Audit
from fairspan.auditing.expected_losses import USUAL, Expectations
from fairspan.auditing.models import Audited, audited_pca, models_of
from fairspan.auditing.results import GroupAudit, ModelAudit, group_name
from fairspan.auditing.verdict import Verdict, changes_of, verdicts_of
from fairspan.certificates.certificate import Certificate
from fairspan.formatting.text import spoken
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import FoldMoments
from fairspan.problem.problem import check_n_components, used_parameters
from fairspan.report.facts.answers import MANY_GROUPS, PCA, SLOW, Answer, Answers
from fairspan.rows.groups import printable
from fairspan.rows.protocol import Rows

# Of more groups, criteria that take their time are not fitted again without each part of the rows.
_FEW_GROUPS = 2
_NOT_REFITTED = (
    "not fitted again without each part of the rows, which takes its time with more than {} "
    "groups. Request it as the criterion"
)
_IN_ONE_PART = "moments alone give no estimates for new rows"


def audit_of(
    answers: Answers,
    rows: Rows | None,
    moments: GroupMoments,
    estimates: Expectations = USUAL,
    max_memory: int | None = None,
) -> tuple[Audit, FoldMoments | None]:
    """The audit of all answers, and moments by fold; of many groups, not all have estimates."""
    audited = answers.audited
    if rows is None:
        audit = audit_moments(audited, [moments])
        without = [replace(model, why_no_estimates=_IN_ONE_PART) for model in audit.models]
        return replace(audit, models=tuple(without)), None
    n_groups = moments.n_groups
    # Those that there is time to fit again without each part of the rows.
    chosen = [
        each
        for each, answer in zip(audited, answers, strict=True)
        if answer.is_main
        or answer.name == PCA
        or n_groups <= _FEW_GROUPS
        or (n_groups <= MANY_GROUPS and answer.criterion.name not in SLOW)
    ]
    options = replace(estimates, has_labels=moments.by_label is not None, max_memory=max_memory)
    some, folds = audit_in_folds(chosen, rows, moments, options=options)
    if len(chosen) == len(audited):
        return some, folds
    every = audit_rows(audited, rows, moments, options=replace(options, folds=None))
    estimated = {model.name: model for model in some.models}
    why = _NOT_REFITTED.format(MANY_GROUPS if n_groups > MANY_GROUPS else _FEW_GROUPS)
    models = tuple(
        estimated.get(model.name, replace(model, why_no_estimates=why)) for model in every.models
    )
    of_others = [
        each for each in every.findings if each.model is not None and each.model not in estimated
    ]
    return replace(some, models=models, findings=(*some.findings, *of_others)), folds


def verdicts_facts(answers: Answers, audit: Audit) -> dict[str, Any]:
    """The verdict of the main criterion, those of all, the changes, and what they rest on."""
    names = {model.name: each.name for each, model in zip(answers, audit.models, strict=True)}
    # Where PCA is the main answer, the others are about what it is compared with.
    of_plain = answers.plain.is_main and audit.verdicts
    verdicts = (*(verdicts_of(audit.models[:1], audit.level) if of_plain else ()), *audit.verdicts)
    main = answers.main.name
    of_main = next((each for each in verdicts if names[each.model] == main), None)
    changes = [
        {**each, "model": names[each["model"]], "group": group_name(each["group"])}
        for each in changes_of(audit.models)
    ]
    return {
        "verdict": None if of_main is None else verdict_facts(of_main, names[of_main.model]),
        "verdicts": [verdict_facts(each, names[each.model]) for each in verdicts],
        "changes": changes,
        "level": audit.level,
        "material": audit.material,
    }


def verdict_facts(verdict: Verdict, model: str) -> dict[str, Any]:
    """The verdict on a model of this name."""
    return {
        "kind": verdict.kind,
        "sentence": verdict.sentence,
        "action": verdict.action,
        "model": model,
        "groups": [group_name(label) for label in verdict.groups],
    }


def models_facts(answers: Answers, audit: Audit) -> list[dict[str, Any]]:
    """One dictionary for each model, ordinary PCA first."""
    return [
        _model_facts(answer, model, audit.models[0])
        for answer, model in zip(answers, audit.models, strict=True)
    ]


def findings_facts(answers: Answers, audit: Audit) -> list[dict[str, Any]]:
    """What there is to know, each with what to do."""
    names = {model.name: each.name for each, model in zip(answers, audit.models, strict=True)}
    return [
        {
            "code": each.code,
            "severity": each.severity,
            "message": each.message,
            "model": None if each.model is None else names[each.model],
            "groups": [group_name(label) for label in each.groups],
            "columns": [printable(name) for name in each.columns],
            "remedy": each.remedy,
        }
        for each in audit.findings
    ]


def certificate_facts(solution: Certificate) -> dict[str, Any]:
    """A certificate as plain values; a bound that is not known is not finite."""
    return {
        "objective": solution.objective,
        "lower_bound": solution.lower_bound,
        "gap": solution.gap,
        "relative_gap": solution.relative_gap,
        "tolerance": solution.tolerance,
        "resolution": solution.resolution,
        "status": str(solution.status),
        "reason": solution.reason,
        "message": solution.message,
        "solver": solution.solver,
        "eigen": solution.eigen,
        "n_eigenproblems": solution.n_eigenproblems,
        "weights": solution.weights.tolist(),
        "violation": solution.violation,
        "theorem_3_2": solution.theorem_3_2,
        "wants_equal_errors": solution.criterion.wants_equal_errors,
        "bounds_largest_loss": (
            solution.criterion.measures_losses and not solution.criterion.relative
        ),
        "total_variance": solution.total_variance,
    }


def _model_facts(answer: Answer, model: ModelAudit, plain: ModelAudit) -> dict[str, Any]:
    is_known = plain.total_error > plain.rounding
    low, high = model.pair
    return {
        "name": answer.name,
        "criterion": answer.criterion.name,
        "parameters": used_parameters(answer.certificate.criterion, answer.certificate.groups),
        "asks": answer.criterion.sentence,
        "is_main": answer.is_main,
        "is_plain_pca": model.is_plain_pca,
        "n_components": model.n_components,
        "groups": [group_facts(group, model) for group in model.groups],
        "total_error": _without_rounding(model.total_error, model),
        "total_change": model.total_error / plain.total_error - 1 if is_known else None,
        "largest_loss": _without_rounding(model.largest_loss, model),
        "disparity": {
            name: _without_rounding(value, model) for name, value in asdict(model.disparity).items()
        },
        "pair": [group_name(low), group_name(high)],
        "why_no_estimates": model.why_no_estimates,
        "certificate": certificate_facts(answer.certificate),
    }


def group_facts(group: GroupAudit, model: ModelAudit) -> dict[str, Any]:
    """What a model does to one group; figures that are only rounding are zero."""
    return {
        "group": group_name(group.group),
        "error": _without_rounding(group.error.value, model),
        "error_low": _without_rounding(group.error.low, model),
        "error_high": _without_rounding(group.error.high, model),
        "best_error": _without_rounding(group.best_error, model),
        "excess_loss": _without_rounding(group.excess_loss, model),
        "variance_kept": group.variance_kept,
        **group.expected_columns,
        "expected_best_error": None if group.expected is None else group.expected.best_error,
        "state": group.state if model.why_no_estimates is None else None,
    }


def _without_rounding(value: float | None, model: ModelAudit) -> float | None:
    """Zero for a value that is only rounding."""
    return 0.0 if value is not None and abs(value) <= model.rounding else value


def read_models(models: Any, moments: GroupMoments) -> list[Audited]:
    """Models by their names, and ordinary PCA of the rows of the page beside each fair one."""
    audited = models_of(models, moments.n_features)
    names = {each.name for each in audited}
    added: dict[tuple[int, str, bool], Audited] = {}
    compared = []
    for each in audited:
        made = each.subspace.certificate
        if each.baseline is None and not each.is_plain_pca and made is not None:
            d, center = each.subspace.dimension, each.subspace.center
            kind = (d, center, each.subspace.scale is not None)
            if kind not in added:
                check_n_components(d, moments.n_features)
                name = f"PCA of {each.name}" if "PCA" in names else "PCA"
                names.add(name)
                added[kind] = audited_pca(moments, d, center, scale=kind[2], name=name)
            each = replace(each, baseline=added[kind].name)
        compared.append(each)
    return [*compared, *added.values()]


def given_facts(
    audited: Sequence[Audited],
    rows: Rows | None,
    test: Rows | None,
    moments: GroupMoments,
    estimates: Expectations = USUAL,
    max_memory: int | None = None,
) -> dict[str, Any] | None:
    """What the models do to each group; None without models.

    Parameters
    ----------
    audited : sequence of Audited
    rows, test : RowSource, PartedRows or None
        Those of the page, None for moments alone; and held-out ones that judge the models in place
        of them.
    moments : GroupMoments
        Of the rows of the page.
    estimates : Expectations
    max_memory : int, optional
    """
    if not audited:
        return None
    judging, of_page = (rows, moments) if test is None else (test, None)
    has_labels = of_page is not None and of_page.by_label is not None
    options = replace(estimates, has_labels=has_labels, max_memory=max_memory)
    audit = (
        audit_moments(audited, [moments])
        if judging is None
        else audit_rows(audited, judging, of_page, options=options)
    )
    by_name = {each.name: each for each in audited}
    return {
        "held_out": test is not None,
        "n_rows": audit.rows.n,
        "models": [_given_model(by_name[model.name], model) for model in audit.models],
        "verdicts": [verdict_facts(each, printable(each.model)) for each in audit.verdicts],
    }


def _given_model(each: Audited, model: ModelAudit) -> dict[str, Any]:
    made = each.subspace.certificate
    return {
        "name": printable(model.name),
        "n_components": model.n_components,
        "center": model.center,
        "standardized": model.scaled,
        "is_plain_pca": model.is_plain_pca,
        "fitted_here": model.fitted_here,
        "kind": _kind_of(each),
        "criterion": None if made is None else made.criterion.name,
        "restriction": None if made is None else made.restricted_by,
        "status": model.status,
        "gap": model.gap,
        "why_no_estimates": model.why_no_estimates,
        "total_error": model.total_error,
        "groups": [
            {**group_facts(group, model), "n": group.n, "total_variance": group.total_variance}
            for group in model.groups
        ],
    }


def _kind_of(each: Audited) -> str:
    """What a model is, in words."""
    if each.by_rows is not None:
        return "no projection: errors of the rows"
    subspace: FairSubspace = each.subspace
    kinds = {"oblique": subspace.is_oblique, "soft": subspace.is_soft, "nested": subspace.is_nested}
    told = [kind for kind, is_so in kinds.items() if is_so]
    made = subspace.certificate
    if made is not None and not each.is_plain_pca:
        told.append(spoken(made.criterion.name))
    if made is not None and made.restriction is not None:
        told.append(f"with {made.restriction!r}")
    return ", ".join(told) or "projection"
