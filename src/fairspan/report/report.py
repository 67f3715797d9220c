"""What a report is asked, and all that it says: an audit, the fits, curves, and their origin."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from fairspan import registry
from fairspan.auditing.audit import Audit, audit_moments, audit_rows, audit_rows_with_folds
from fairspan.auditing.expected_losses import DEFAULT_OPTIONS, EstimationOptions
from fairspan.auditing.models import (
    CURVE_TOL,
    AuditedModel,
    audited_models,
    audited_pca,
    read_model,
)
from fairspan.auditing.results import ModelResult, Verdict, format_group, make_verdicts
from fairspan.displays.records import zero_negligible
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidType, describe_type
from fairspan.estimator.fit import fit_moments, resolve_n_components
from fairspan.extending import Display
from fairspan.formatting.export import to_json_value
from fairspan.formatting.text import display_name, format_level, readable_name
from fairspan.formatting.text import format_parameters as spelled_settings
from fairspan.linalg.resources import explain_memory_errors, limit_blas_threads
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base import Center, check_center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import FoldMoments
from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.criteria import Criterion
from fairspan.problem.problem import check_n_components, reported_parameters
from fairspan.problem.reduction import get_criterion
from fairspan.progress import overall_progress, track
from fairspan.registry import check_bool, check_integer, init_parameters
from fairspan.report.curves import PCA, FittedCriterion, ReportCurves, build_curves
from fairspan.report.program import Provenance, to_dict, verification_program
from fairspan.rows.groups import printable
from fairspan.rows.protocol import Rows

PCA_CRITERION = "total_error"
# Of more groups than these, some criteria may take minutes: they are for whoever asks for them.
_MAX_GROUPS_BY_CRITERION = {"error_gap": 16, "robust_error_gap": 2}
_NOT_COMPARED_REASON = (
    "Of more than {} groups its answer may take minutes, so it was not compared. Ask for it as the "
    "criterion, or among the criteria of write_report."
)
# Of more groups, the error gaps are not fitted again without each part of the rows.
_MAX_GROUPS_FOR_REFITS = 2
_NO_REFIT_REASON = (
    "not fitted again without each part of the rows, which takes its time with more than {} "
    "groups. Request it as the criterion"
)
_MOMENTS_ONLY_REASON = "moments alone give no estimates for new rows"
DEFAULT_VARIANCE_KEPT = 0.9
# Matrices of more features, one for each group, are too large to compare so many answers.
_MAX_FEATURES = 1000
# Of float64's sixteen digits the last four are left to rounding.
_JSON_DIGITS = 12


@dataclass(frozen=True)
class ReportSettings:
    """Which criteria are compared, at which dimension, about which centre.

    Attributes
    ----------
    criterion : Criterion
        The one that the report is mainly about.
    criteria : tuple of Criterion
        All but ordinary PCA, the main one first.
    criteria_requested : bool
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
    criteria_requested: bool
    n_components: int | float | None
    center: Center
    scale: bool
    displays: tuple[Any, ...] = ()
    estimation: EstimationOptions = DEFAULT_OPTIONS

    @classmethod
    def validated(
        cls,
        criterion: object,
        criteria: Sequence[object] | None,
        n_components: int | float | None,
        center: Any,
        scale: Any,
        displays: Sequence[object] | None = None,
        estimates: EstimationOptions = DEFAULT_OPTIONS,
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
        main = get_criterion(criterion)
        wanted = _check_sequence("displays", displays or ())
        for each in wanted:
            if isinstance(each, str | registry.ExternalObject):
                registry.get_factory("display", each)
            else:
                registry.resolve_object("display", each, Display)
        check_center(center)
        check_bool("scale", scale)
        is_share = isinstance(n_components, float) and 0 < n_components < 1
        if n_components is not None and not is_share:
            check_integer("n_components", n_components)
        other_criteria: Sequence[Any] = (
            [name for name in registry.builtin_names("criterion") if name != main.name]
            if criteria is None
            else _check_sequence("compare", criteria)
        )
        # Each once; compared, as some hold a mapping and so have no hash.
        selected_criteria = [main, *map(get_criterion, other_criteria)]
        selected_criteria = [
            each for i, each in enumerate(selected_criteria) if each not in selected_criteria[:i]
        ]
        if center != "group":  # there it is not what everybody calls PCA, but one more criterion
            selected_criteria = [each for each in selected_criteria if each.name != PCA_CRITERION]
        remaining = (n_components, center, scale, tuple(wanted), estimates)
        return cls(main, tuple(selected_criteria), criteria is not None, *remaining)

    @property
    def is_pca(self) -> bool:
        """Whether the main criterion is what ordinary PCA minimises."""
        return self.criterion.name == PCA_CRITERION and self.center != "group"

    def check_size(self, n_features: int) -> None:
        """Make sure that these are not too many features, nor too few for d.

        Raises
        ------
        InvalidInput, InvalidParameter
        """
        if n_features > _MAX_FEATURES:
            raise InvalidInput(
                f"A report received {n_features} features",
                f"Allowed: {_MAX_FEATURES} at most, as dozens of answers are compared",
                "Choose features, or use FairPCA and audit, which take any number",
            )
        if self.n_components is not None:
            check_n_components(self.n_components, n_features, allow_fraction=True)


def _check_sequence(what: str, given: Any) -> Sequence[Any]:
    if isinstance(given, Sequence) and not isinstance(given, str):
        return given
    raise InvalidType(
        f"{what} is {describe_type(given)}",
        f"Allowed: a sequence of names or objects: several {what}",
        "Pass a list, even of a single one",
    )


@dataclass(frozen=True, eq=False)
class UserModels:
    """Models of the user, audited.

    Attributes
    ----------
    audit : Audit
    kinds : tuple of str
        What each of them is, in words.
    held_out : bool
        Whether other rows than those of the page judge them.
    """

    audit: Audit
    descriptions: tuple[str, ...]
    held_out: bool


@dataclass(frozen=True, eq=False)
class Report:
    """All that a report says.

    Attributes
    ----------
    audit : Audit
        Of ordinary PCA and then of the others; what is only rounding is zero.
    fits : tuple of Fit
        One for each model of the audit.
    curves : Curves
        Over the dimension, and what the slider walks along.
    origin : Origin
    moments : GroupMoments
    asked : ReportSettings
    unavailable : tuple of (str, str)
        The criteria without an answer here, each with why.
    given : Given or None
    displays : tuple of (str, Display)
        Pictures beside those of every page, by their names.
    """

    audit: Audit
    fits: tuple[FittedCriterion, ...]
    curves: ReportCurves
    provenance: Provenance
    moments: GroupMoments
    settings: ReportSettings
    skipped_criteria: tuple[tuple[str, str], ...] = ()
    user_models: UserModels | None = None
    displays: tuple[tuple[str, Display], ...] = ()

    @property
    def main_index(self) -> int:
        """Position of the main answer: that of ordinary PCA, or the one after it."""
        return 0 if self.settings.is_pca else 1

    @property
    def pca(self) -> ModelResult:
        """Ordinary PCA."""
        return self.audit.models[0]

    @property
    def main(self) -> ModelResult:
        """The main answer."""
        return self.audit.models[self.main_index]

    @property
    def main_fit(self) -> FittedCriterion:
        """That of the main answer."""
        return self.fits[self.main_index]

    @property
    def verdict(self) -> Verdict | None:
        """That on the main answer; None without estimates for new rows."""
        return next((each for each in self.audit.verdicts if each.model == self.main.name), None)

    @property
    def is_em_estimated(self) -> bool:
        """Whether moments were estimated from rows with missing cells."""
        return self.moments.em_summary is not None

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """The groups, as they are shown."""
        return tuple(display_name(format_group(group.group)) for group in self.pca.groups)

    @property
    def feature_names(self) -> list[str]:
        """Their names, whole."""
        names = self.moments.feature_names or [f"feature {i}" for i in range(self.n_features)]
        return [printable(name) for name in names]

    @property
    def n_features(self) -> int:
        """p."""
        return self.moments.n_features

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return not np.array_equal(self.moments.weights, self.moments.counts)

    @property
    def has_estimates(self) -> bool:
        """Whether it is known what new rows would show of any group."""
        return self.pca.has_estimates

    @cached_property
    def settings_record(self) -> dict[str, Any]:
        """What was requested, and what was made of it."""
        wanted, made = self.settings.n_components, self.main_fit.certificate
        kept = format_level(DEFAULT_VARIANCE_KEPT if wanted is None else wanted)
        return {
            "n_components": self.pca.n_components,
            "chosen_by": "asked"
            if isinstance(wanted, int)
            else f"the fewest that keep {kept} of every group's variance",
            "center": self.settings.center,
            "standardize": bool(self.settings.scale),
            "criterion": self.settings.criterion.name,
            "parameters": reported_parameters(made.criterion, made.groups),
        }

    def relative_error_change(self, model: ModelResult) -> float | None:
        """How much more error than ordinary PCA a model has over all rows, as a share."""
        before = self.pca.observed_total_error
        return model.observed_total_error / before - 1 if before > self.pca.rounding_bound else None

    def shorten_names(self, text: str, format_name: Callable[[str], str] = str) -> str:
        """A text with very long names of groups and features without their middles.

        Parameters
        ----------
        text : str
        spelled : callable
            How the text spells a name.
        """
        groups = [format_group(group.group) for group in self.pca.groups]
        for name in {*groups, *self.feature_names, self.provenance.name}:
            if name.strip():
                text = text.replace(format_name(name), format_name(display_name(name)))
        return text

    @cached_property
    def verification(self) -> dict[str, Any]:
        """How the certificate of the main answer is verified."""
        return {
            "model": self.main.name,
            **verification_program(self.main_fit, self.provenance.moments_code),
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON: the audit, and what a page has beside it."""
        facts: dict[str, Any] = to_json_value(
            {
                "title": printable(self.provenance.title),
                "data": {
                    "name": printable(self.provenance.name),
                    "feature_names": self.feature_names,
                    "weighted": self.is_weighted,
                },
                "settings": self.settings_record,
                "main": self.main.name,
                **self.audit.to_dict(),
                "certificates": [
                    {"model": each.name, **each.certificate.to_dict()} for each in self.fits
                ],
                "unavailable": [{"name": name, "why": why} for name, why in self.skipped_criteria],
                **self.curves.to_dict(self.main.name, self.feature_names),
                "given": self.user_models
                and {
                    "held_out": self.user_models.held_out,
                    "kinds": self.user_models.descriptions,
                    **self.user_models.audit.to_dict(),
                },
                "verification": self.verification,
                "made": {**to_dict(self.provenance), "parameters": self.settings_record},
            },
            _JSON_DIGITS,
        )
        shown = [
            {"name": name, "data": each.frame().to_dict("list")} for name, each in self.displays
        ]
        return {**facts, "displays": to_json_value(shown)}


# From the first look at the rows to the page; drawing is not counted, and takes about what is left.
making_a_report = partial(
    overall_progress,
    "making the report",
    reading=10,
    comparing_criteria=15,
    auditing=10,
    fitting_again_without_each_part=25,
    comparing_numbers_of_dimensions=15,
    drawing=25,
)


@explain_memory_errors()
def build_report(
    moments: GroupMoments,
    rows: Rows | None,
    asked: ReportSettings,
    origin: Provenance,
    *,
    models: Sequence[AuditedModel] = (),
    test: Rows | None = None,
    max_memory: int | None = None,
) -> Report:
    """Fit, audit and draw curves: everything there is to say about some rows.

    Parameters
    ----------
    moments : GroupMoments
        Of the rows.
    rows : RowSource, PartitionedRows or None
        The rows again, read twice for estimates and intervals; None for none.
    asked : ReportSettings
    origin : Origin
    models : sequence of Audited
        Models of the user.
    test : RowSource, PartitionedRows or None
        Held-out rows that judge these models; None for the rows of the report.
    max_memory : int, optional
        Bytes that moments by fold may take, where that was set.

    Raises
    ------
    Incompatible, InvalidInput, InvalidParameter, UnknownGroup
        One group only, too many features, or no answer of the main criterion.
    """
    asked.check_size(moments.n_features)
    if moments.n_groups < 2:
        raise InvalidInput(
            f"All rows are of one group ({moments.labels[0]!r})",
            "Allowed: two groups or more",
            "Check the group column, or use ordinary PCA",
        )
    wanted = DEFAULT_VARIANCE_KEPT if asked.n_components is None else asked.n_components
    estimates = replace(asked.estimation, max_memory=max_memory)
    # Hundreds of small eigenproblems: where cores are shared, threads would wait for each other.
    with limit_blas_threads(None):
        d = resolve_n_components(
            moments, wanted, asked.criterion, center=asked.center, scale=asked.scale
        )
        fits, unavailable = fit_criteria(moments, asked, d)
    audit, folds = audit_fits(fits, rows, moments, asked, estimates)
    with limit_blas_threads(None):
        main = fits[0 if asked.is_pca else 1]
        curves = build_curves(moments, audit, fits[0], main, folds, asked.center)
    return Report(
        audit,
        fits,
        curves,
        origin,
        moments,
        asked,
        unavailable,
        _audit_user_models(models, rows, test, moments, estimates) if models else None,
    )


def fit_criteria(
    moments: GroupMoments, asked: ReportSettings, n_components: int
) -> tuple[tuple[FittedCriterion, ...], tuple[tuple[str, str], ...]]:
    """Ordinary PCA and every criterion that was requested; and those without an answer, with why.

    Raises
    ------
    Incompatible, InvalidInput, UnknownGroup
        The main criterion has no answer for these groups at this dimension.
    """
    about: Center = "none" if asked.center == "none" else "global"
    pca, problem, _ = fit_moments(
        moments, n_components, criterion=PCA_CRITERION, center=about, scale=asked.scale
    )
    fits, skipped = [FittedCriterion(PCA, pca, problem)], []
    shared_second_moments = problem.second_moments if about == asked.center else None
    named = list(zip(asked.criteria, model_names(asked.criteria), strict=True))
    for criterion, name in track("comparing criteria", named, "criteria"):
        is_main = criterion is asked.criterion
        most = _MAX_GROUPS_BY_CRITERION.get(criterion.name, moments.n_groups)
        if moments.n_groups > most and not (is_main or asked.criteria_requested):
            skipped.append((name, _NOT_COMPARED_REASON.format(most)))
            continue
        try:
            fair, fair_problem, _ = fit_moments(
                moments,
                n_components,
                criterion=criterion,
                center=asked.center,
                scale=asked.scale,
                second_moments=shared_second_moments
                if isinstance(shared_second_moments, DenseSecondMoments)
                else None,
            )
        except (IncompatibleParameters, InvalidInput) as error:
            if is_main:
                raise
            skipped.append((name, printable("{}. {}.".format(*error.args))))
            continue
        fits.append(FittedCriterion(name, fair, fair_problem))
    return tuple(fits), tuple(skipped)


def model_names(criteria: Sequence[Criterion]) -> list[str]:
    """What the answers are called: by their criterion, with its settings where two share it.

    Examples
    --------
    >>> from fairspan.problem.criteria import ErrorGap, MinimaxLoss
    >>> names_of([MinimaxLoss(), ErrorGap(0.5), ErrorGap(2.0)])
    ['minimax loss', 'error gap (penalty=0.5)', 'error gap (penalty=2.0)']
    >>> names_of([MinimaxLoss(relative=True)])
    ['relative minimax loss']
    """
    names = [
        readable_name(f"relative_{each.name}" if each.relative else each.name) for each in criteria
    ]
    return [
        name
        if names.count(name) == 1
        else f"{name} ({printable(spelled_settings(init_parameters(each)))})"
        for name, each in zip(names, criteria, strict=True)
    ]


def audit_fits(
    fits: Sequence[FittedCriterion],
    rows: Rows | None,
    moments: GroupMoments,
    asked: ReportSettings,
    estimates: EstimationOptions,
) -> tuple[Audit, FoldMoments | None]:
    """The audit of all fits, and moments by fold; of many groups, not all have estimates."""
    # Ordinary PCA knows no groups: only its errors are measured about each group's own mean.
    pca = read_model(PCA, replace(fits[0].subspace, center=asked.center))
    audited = [replace(pca, is_pca=True)]
    for each in fits[1:]:
        model = replace(read_model(each.name, each.subspace), baseline=PCA, refit_tol=CURVE_TOL)
        is_slow_to_refit = (
            each.problem.criterion.name in _MAX_GROUPS_BY_CRITERION
            and moments.n_groups > _MAX_GROUPS_FOR_REFITS
        )
        if is_slow_to_refit and each.problem.criterion != asked.criterion:
            model = replace(model, no_refit_reason=_NO_REFIT_REASON.format(_MAX_GROUPS_FOR_REFITS))
        audited.append(model)
    folds = None
    if rows is None:
        audit = audit_moments(audited, [moments])
    else:
        options = replace(estimates, has_y=moments.by_class is not None)
        audit, folds = audit_rows_with_folds(audited, rows, moments, options=options)
    not_refitted = {each.name for each in audited if each.no_refit_reason}
    models = [_zero_negligible(model) for model in audit.models]
    if rows is None:
        models = [replace(model, no_estimates_reason=_MOMENTS_ONLY_REASON) for model in models]
    verdicts = audit.verdicts
    if verdicts and asked.is_pca and len(models) > 1:
        # The others are about what it is compared with.
        fair_problem = make_verdicts(models[:1], audit.findings, audit.level, audit.materiality)
        verdicts = (*fair_problem, *verdicts)
    return (
        replace(
            audit,
            models=tuple(models),
            verdicts=tuple(each for each in verdicts if each.model not in not_refitted),
            findings=tuple(
                each
                for each in audit.findings
                if each.code != "FS110" or each.model not in not_refitted
            ),
        ),
        folds,
    )


def _zero_negligible(model: ModelResult) -> ModelResult:
    """The same, with zero for figures that are only rounding."""
    groups = tuple(
        replace(
            group,
            observed_error=group.observed_error.without_rounding(group.observed_rounding),
            observed_best_error=float(
                zero_negligible(group.observed_best_error, group.observed_rounding)
            ),
            observed_loss=float(zero_negligible(group.observed_loss, group.observed_rounding)),
        )
        for group in model.groups
    )
    disparity = model.observed_disparity.without_rounding(model.rounding_bound)
    return replace(model, groups=groups, observed_disparity=disparity)


def read_user_models(models: Any, moments: GroupMoments) -> list[AuditedModel]:
    """Models by their names, and ordinary PCA of the rows of the page beside each fair one."""
    audited = audited_models(models, moments.n_features)
    names = {each.name for each in audited}
    added: dict[tuple[int, str, bool], AuditedModel] = {}
    compared = []
    for each in audited:
        made = each.subspace.certificate
        if each.baseline is None and not each.is_pca and made is not None:
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


def _audit_user_models(
    audited: Sequence[AuditedModel],
    rows: Rows | None,
    test: Rows | None,
    moments: GroupMoments,
    estimates: EstimationOptions,
) -> UserModels:
    """What the models of the user do to each group of the rows of the page, or of others."""
    evaluation_rows, page_moments = (rows, moments) if test is None else (test, None)
    has_y = page_moments is not None and page_moments.by_class is not None
    audit = (
        audit_moments(audited, [moments])
        if evaluation_rows is None
        else audit_rows(
            audited, evaluation_rows, page_moments, options=replace(estimates, has_y=has_y)
        )
    )
    by_name = {each.name: each for each in audited}
    kinds = tuple(_describe_model(by_name[model.name]) for model in audit.models)
    models = tuple(map(_zero_negligible, audit.models))
    return UserModels(replace(audit, models=models), kinds, test is not None)


def _describe_model(each: AuditedModel) -> str:
    """What a model is, in words."""
    if each.row_model is not None:
        return "no projection: errors of the rows"
    subspace: FairSubspace = each.subspace
    kinds = {"oblique": subspace.is_oblique, "soft": subspace.is_soft, "nested": subspace.is_nested}
    told = [kind for kind, is_so in kinds.items() if is_so]
    made = subspace.certificate
    if made is not None and not each.is_pca:
        told.append(readable_name(made.criterion.name))
    if made is not None and made.restriction is not None:
        told.append(f"with {made.restriction!r}")
    return ", ".join(told) or "projection"
