"""What new rows would show of the answers: their audit, its verdicts, and figures by group."""

from dataclasses import replace
from typing import Any

from fairspan.auditing.audit import audit_in_folds, audit_moments, audit_rows
from fairspan.auditing.audit_result import Audit
from fairspan.auditing.expected_losses import USUAL, Expectations
from fairspan.auditing.results import GroupAudit, ModelAudit, group_name
from fairspan.auditing.verdict import Verdict, changes_of, verdicts_of
from fairspan.moments.folds import FoldMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.report.facts.answers import MANY_GROUPS, PCA, SLOW, Answer, Answers
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
    chosen = [
        each
        for each, answer in zip(audited, answers, strict=True)
        if is_refitted(answer, moments.n_groups)
    ]
    options = replace(estimates, has_labels=moments.by_label is not None, max_memory=max_memory)
    some, folds = audit_in_folds(chosen, rows, moments, options=options)
    if len(chosen) == len(audited):
        return some, folds
    every = audit_rows(audited, rows, moments, options=replace(options, folds=None))
    estimated = {model.name: model for model in some.models}
    most = MANY_GROUPS if moments.n_groups > MANY_GROUPS else _FEW_GROUPS
    why = _NOT_REFITTED.format(most)
    models = tuple(
        estimated.get(model.name, replace(model, why_no_estimates=why)) for model in every.models
    )
    of_others = [
        each for each in every.findings if each.model is not None and each.model not in estimated
    ]
    return replace(some, models=models, findings=(*some.findings, *of_others)), folds


def is_refitted(answer: Answer, n_groups: int) -> bool:
    """Whether there is time to fit an answer again without each part of the rows."""
    if answer.is_main or answer.name == PCA or n_groups <= _FEW_GROUPS:
        return True
    return n_groups <= MANY_GROUPS and answer.criterion.name not in SLOW


def verdicts_facts(answers: Answers, audit: Audit) -> dict[str, Any]:
    """The verdict of the main criterion, those of all, the changes, and what they rest on."""
    names = {model.name: each.name for each, model in zip(answers, audit.models, strict=True)}
    verdicts = audit.verdicts
    if answers.plain.is_main and verdicts:
        # The others are about what it is compared with.
        verdicts = (*verdicts_of(audit.models[:1], audit.level), *verdicts)
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


def expected_facts(group: GroupAudit, model: ModelAudit) -> dict[str, Any]:
    """The state of a group, and the figures that are expected on new rows; None if unknown."""
    found = group.expected
    return {
        **group.expected_columns,
        "expected_best_error": None if found is None else found.best_error,
        "state": group.state if model.why_no_estimates is None else None,
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
