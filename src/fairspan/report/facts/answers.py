"""What a report is requested, the models that answer it, and the facts of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairspan import registry
from fairspan.auditing.audit import Audit, audit_in_folds, audit_moments, audit_rows
from fairspan.auditing.expected_losses import USUAL, Expectations
from fairspan.auditing.models import Audited, audited_pca, models_of, read_model
from fairspan.auditing.results import (
    GroupResult,
    ModelResult,
    Verdict,
    changes_of,
    group_name,
    verdicts_of,
)
from fairspan.certificates.certificate import Certificate
from fairspan.errors import Incompatible, InvalidInput, InvalidType, kind_of
from fairspan.estimator.fit import fit_with_problem
from fairspan.extending import Display
from fairspan.formatting.text import settings as spelled_settings
from fairspan.formatting.text import spoken
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_means import Center, check_center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import FoldMoments
from fairspan.problem.criteria import Criterion
from fairspan.problem.problem import Problem, check_n_components, used_parameters
from fairspan.problem.reduction import criterion_of
from fairspan.progress import track
from fairspan.registry import check_count, check_flag, field_values
from fairspan.rows.groups import printable
from fairspan.rows.protocol import Rows

PCA, PLAIN = "PCA", "total_error"
_ENDS = ("", "_low", "_high")

# Of more groups than these, some criteria may take minutes: they are for whoever asks for them.
MANY_GROUPS = 16
SLOW = ("error_gap", "robust_error_gap")
_NOT_COMPARED = (
    f"Of more than {MANY_GROUPS} groups its answer may take minutes, so it was not compared. Ask "
    "for it as the criterion, or among the criteria of write_report."
)


@dataclass(frozen=True)
class ReportSettings:
    """Which criteria are compared, at which dimension, about which centre.

    Attributes
    ----------
    criterion : Criterion
        The one that the report is mainly about.
    criteria : tuple of Criterion
        All but ordinary PCA, the main one first.
    are_chosen : bool
        Whether the compared criteria were chosen by the user.
    n_components : int, float or None
        d; or the share of every group's variance that the main criterion is to keep, 0.9 for None.
    center : {"global", "group", "none"}
    scale : bool
    displays : tuple of str or Display
        Pictures beside those of every page.
    estimates : Expectations
        How what new rows would show is estimated.
    """

    criterion: Criterion
    criteria: tuple[Criterion, ...]
    are_chosen: bool
    n_components: int | float | None
    center: Center
    scale: bool
    displays: tuple[str | Display, ...] = ()
    estimates: Expectations = USUAL

    @classmethod
    def of(
        cls,
        criterion: object,
        criteria: Sequence[object] | None,
        n_components: int | float | None,
        center: Any,
        scale: Any,
        displays: Sequence[object] | None = None,
        estimates: Expectations = USUAL,
    ) -> "ReportSettings":
        """Read and check settings.

        Raises
        ------
        InvalidParameter, InvalidType
            A setting out of range.

        Examples
        --------
        >>> asked = ReportSettings.of("error_gap", ["minimax_loss"], None, "global", False)
        >>> [each.name for each in asked.criteria]
        ['error_gap', 'minimax_loss']
        """
        main = criterion_of(criterion)
        wanted = _several("displays", displays or ())
        for each in wanted:
            if isinstance(each, str | registry.Foreign):
                registry.factory_of("display", each)
            else:
                registry.object_of("display", each, Display)
        check_center(center)
        check_flag("scale", scale)
        is_share = isinstance(n_components, float) and 0 < n_components < 1
        if n_components is not None and not is_share:
            check_count("n_components", n_components)
        others: Sequence[Any] = (
            [name for name in registry.names_of("criterion") if name != main.name]
            if criteria is None
            else _several("criteria", criteria)
        )
        # Each once; compared, as some hold a mapping and so have no hash.
        chosen = [main, *map(criterion_of, others)]
        chosen = [each for i, each in enumerate(chosen) if each not in chosen[:i]]
        if center != "group":  # there it is not what everybody calls PCA, but one more criterion
            chosen = [each for each in chosen if each.name != PLAIN]
        told = (n_components, center, scale, tuple(wanted), estimates)
        return cls(main, tuple(chosen), criteria is not None, *told)

    @property
    def is_plain(self) -> bool:
        """Whether the main criterion is what ordinary PCA minimises."""
        return self.criterion.name == PLAIN and self.center != "group"


@dataclass(frozen=True, eq=False)
class Answer:
    """What minimises a criterion.

    Attributes
    ----------
    name : str
        As it is shown; different for each answer of a report.
    subspace : FairSubspace
    problem : Problem
        Without a restriction.
    is_main : bool
    """

    name: str
    subspace: FairSubspace
    problem: Problem
    is_main: bool

    @property
    def certificate(self) -> Certificate:
        """What proves how good the subspace is."""
        return self.subspace.proven

    @property
    def criterion(self) -> Criterion:
        """What was minimised."""
        return self.problem.criterion


@dataclass(frozen=True, eq=False)
class Answers:
    """Those of all criteria that have one, ordinary PCA first.

    Attributes
    ----------
    plain : Answer
    others : tuple of Answer
    without : tuple of (str, str)
        Name of each criterion that has no answer here, and why.
    center : {"global", "group", "none"}
        About which errors are measured.
    """

    plain: Answer
    others: tuple[Answer, ...]
    without: tuple[tuple[str, str], ...]
    center: Center

    def __iter__(self) -> Iterator[Answer]:
        return iter((self.plain, *self.others))

    @property
    def main(self) -> Answer:
        """That of the main criterion."""
        return next(each for each in self if each.is_main)

    @property
    def audited(self) -> list[Audited]:
        """All of them as an audit takes them."""
        # Ordinary PCA knows no groups: only its errors are measured about each group's own mean.
        judged = replace(self.plain.subspace, center=self.center)
        plain = replace(read_model(PCA, judged), is_plain_pca=True)
        others = (read_model(spoken(each.name), each.subspace) for each in self.others)
        return [plain, *(replace(each, baseline=PCA) for each in others)]


def answers_of(moments: GroupMoments, settings: ReportSettings, n_components: int) -> Answers:
    """Fit ordinary PCA, and every criterion that was requested.

    Raises
    ------
    Incompatible, InvalidInput, UnknownGroup
        The main criterion has no answer for these groups at this dimension.
    """
    about: Center = "none" if settings.center == "none" else "global"
    pca, problem, _ = fit_with_problem(
        moments, n_components, criterion=PLAIN, center=about, scale=settings.scale
    )
    answers, without = [], []
    named = list(zip(settings.criteria, names_of(settings.criteria), strict=True))
    for criterion, name in track("comparing criteria", named, "criteria"):
        is_main = criterion is settings.criterion
        if (
            moments.n_groups > MANY_GROUPS
            and criterion.name in SLOW
            and not (is_main or settings.are_chosen)
        ):
            without.append((name, _NOT_COMPARED))
            continue
        try:
            fair, own, _ = fit_with_problem(
                moments,
                n_components,
                criterion=criterion,
                center=settings.center,
                scale=settings.scale,
            )
        except (Incompatible, InvalidInput) as error:
            if is_main:
                raise
            without.append((name, printable("{}. {}.".format(*error.args))))
            continue
        answers.append(Answer(name, fair, own, is_main))
    return Answers(
        Answer(PCA, pca, problem, settings.is_plain),
        tuple(answers),
        tuple(without),
        settings.center,
    )


def names_of(criteria: Sequence[Criterion]) -> list[str]:
    """What the answers are called: by their criterion, with its settings where two share it.

    Examples
    --------
    >>> from fairspan.problem.criteria import ErrorGap, MinimaxLoss
    >>> names_of([MinimaxLoss(), ErrorGap(0.5), ErrorGap(2.0)])
    ['minimax_loss', 'error_gap (penalty=0.5)', 'error_gap (penalty=2.0)']
    >>> names_of([MinimaxLoss(relative=True)])
    ['relative_minimax_loss']
    """
    names = [f"relative_{each.name}" if each.relative else each.name for each in criteria]
    return [
        name
        if names.count(name) == 1
        else f"{name} ({printable(spelled_settings(field_values(each)))})"
        for name, each in zip(names, criteria, strict=True)
    ]


def _several(what: str, given: Any) -> Sequence[Any]:
    if isinstance(given, Sequence) and not isinstance(given, str):
        return given
    raise InvalidType(
        f"{what} is {kind_of(given)}",
        f"Allowed: a sequence of names or objects: several {what}",
        "Pass a list, even of a single one",
    )


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


def _model_facts(answer: Answer, model: ModelResult, plain: ModelResult) -> dict[str, Any]:
    is_known = plain.total_error_here > plain.rounding
    low, high = model.pair
    return {
        "name": answer.name,
        "criterion": answer.criterion.name,
        "parameters": used_parameters(answer.certificate.criterion, answer.certificate.groups),
        "asks": answer.criterion.formula.sentence,
        "is_main": answer.is_main,
        "is_plain_pca": model.is_plain_pca,
        "n_components": model.n_components,
        "groups": [group_facts(group, model) for group in model.groups],
        "total_error_here": _without_rounding(model.total_error_here, model),
        "total_change_here": model.total_error_here / plain.total_error_here - 1
        if is_known
        else None,
        "largest_loss_here": _without_rounding(model.largest_loss_here, model),
        **{
            name: _without_rounding(value, model)
            for name, value in model.disparity_here.columns("disparity_here").items()
        },
        "pair": [group_name(low), group_name(high)],
        "why_no_estimates": model.why_no_estimates,
        "certificate": certificate_facts(answer.certificate),
    }


def group_facts(group: GroupResult, model: ModelResult) -> dict[str, Any]:
    """What a model does to one group; figures that are only rounding are zero."""
    of_these_rows = {
        name: _without_rounding(group.record[name], model)
        for name in (*(f"error_here{end}" for end in _ENDS), "best_error_here", "loss_here")
    }
    return {
        **group.record,
        **of_these_rows,
        "group": group_name(group.group),
        "state": group.state if model.why_no_estimates is None else None,
    }


def _without_rounding(value: float | None, model: ModelResult) -> float | None:
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


def _given_model(each: Audited, model: ModelResult) -> dict[str, Any]:
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
        "total_error_here": model.total_error_here,
        "groups": [group_facts(group, model) for group in model.groups],
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
