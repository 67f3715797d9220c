"""Settings and contents of a report, and the functions that build it."""

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
from fairspan.formatting.names import display_name, format_parameters, readable_name
from fairspan.formatting.numbers import format_level
from fairspan.linalg.memory import explain_memory_errors
from fairspan.linalg.threads import limit_blas_threads
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base import Center, check_center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import FoldMoments
from fairspan.moments.operators import DenseSecondMoments
from fairspan.parameters import check_bool, check_integer, init_parameters
from fairspan.problem.criteria import Criterion
from fairspan.problem.problem import check_n_components, reported_parameters
from fairspan.problem.reduction import get_criterion
from fairspan.progress import overall_progress, track
from fairspan.report.curves import PCA, FittedCriterion, ReportCurves, build_curves
from fairspan.report.program import Provenance, verification_program
from fairspan.rows.aggregation import Rows
from fairspan.rows.labels import printable

PCA_CRITERION = "total_error"
# Numbers of groups above which a criterion may take minutes and is fitted only on request.
_MAX_GROUPS_BY_CRITERION = {"error_gap": 16, "robust_error_gap": 2}
_NOT_COMPARED_REASON = (
    "With more than {} groups it may take minutes, so it was not compared. Request it as the "
    "criterion, or among those that write_report compares."
)
# Number of groups above which the error gap criteria are not refitted for cross-fitting.
_MAX_GROUPS_FOR_REFITS = 2
_NO_REFIT_REASON = (
    "not refitted for cross-fitting, which is slow with more than {} groups. Request it as the "
    "criterion"
)
_MOMENTS_ONLY_REASON = "a single set of moments gives no estimates for new rows"
# Share of every group's variance that the main criterion keeps if no dimension is requested.
DEFAULT_VARIANCE_KEPT = 0.9
# With more features, second moment matrices are too large for the many fits of a report.
_MAX_FEATURES = 1000
# Significant digits in JSON; the last four of float64's sixteen are rounding error.
_JSON_DIGITS = 12


@dataclass(frozen=True)
class ReportSettings:
    """Settings of a report.

    Attributes
    ----------
    criterion : Criterion
        Main criterion.
    criteria : tuple of Criterion
        Criteria to compare, the main one first; without ordinary PCA.
    criteria_requested : bool
        Whether the user chose the criteria to compare.
    n_components : int, float or None
        Number of dimensions, or share of every group's variance that the main criterion must keep
        (None: 0.9).
    center : {"global", "group", "none"}
    scale : bool
    displays : tuple of str or Display
        Additional displays.
    estimation : EstimationOptions
        Options for the estimates on new rows.
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
        """Validate the settings.

        Raises
        ------
        InvalidParameter, InvalidType
            A setting out of range.

        Examples
        --------
        >>> compare = ["minimax_loss"]
        >>> settings = ReportSettings.validated("error_gap", compare, None, "global", False)
        >>> [criterion.name for criterion in settings.criteria]
        ['error_gap', 'minimax_loss']
        """
        main = get_criterion(criterion)
        requested_displays = _check_sequence("displays", () if displays is None else displays)
        for display in requested_displays:
            if isinstance(display, str | registry.ExternalObject):
                registry.get_factory("display", display)
            else:
                registry.resolve_object("display", display, Display)
        check_center(center)
        check_bool("scale", scale)
        is_share = isinstance(n_components, float) and 0 < n_components < 1
        if n_components is not None and not is_share:
            check_integer("n_components", n_components)
        if criteria is None:
            builtin_names = registry.builtin_names("criterion")
            other_criteria: Sequence[Any] = [name for name in builtin_names if name != main.name]
        else:
            other_criteria = _check_sequence("compare", criteria)
        # Remove duplicates by equality: some criteria contain a mapping and are not hashable.
        compared: list[Criterion] = []
        for candidate in (main, *map(get_criterion, other_criteria)):
            # With group centers, total error is not ordinary PCA but a further criterion.
            is_ordinary_pca = candidate.name == PCA_CRITERION and center != "group"
            if candidate not in compared and not is_ordinary_pca:
                compared.append(candidate)
        return cls(
            criterion=main,
            criteria=tuple(compared),
            criteria_requested=criteria is not None,
            n_components=n_components,
            center=center,
            scale=scale,
            displays=tuple(requested_displays),
            estimation=estimates,
        )

    @property
    def is_pca(self) -> bool:
        """Whether the main criterion is that of ordinary PCA."""
        return self.criterion.name == PCA_CRITERION and self.center != "group"

    def check_size(self, n_features: int) -> None:
        """Check that the number of features is supported and not below d.

        Raises
        ------
        InvalidInput, InvalidParameter
        """
        if n_features > _MAX_FEATURES:
            raise InvalidInput(
                f"A report received {n_features} features",
                f"Allowed: at most {_MAX_FEATURES}, since dozens of models are fitted",
                "Select features, or use FairPCA and audit, which support any number",
            )
        if self.n_components is not None:
            check_n_components(self.n_components, n_features, allow_fraction=True)


def _check_sequence(name: str, value: Any) -> Sequence[Any]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    raise InvalidType(
        f"{name} is {describe_type(value)}",
        "Allowed: a sequence of names or objects",
        "Pass a list, even for a single item",
    )


@dataclass(frozen=True, eq=False)
class UserModels:
    """Audit of the user's models.

    Attributes
    ----------
    audit : Audit
    descriptions : tuple of str
        Description of each model.
    held_out : bool
        Whether they were evaluated on held-out rows instead of the report's rows.
    """

    audit: Audit
    descriptions: tuple[str, ...]
    held_out: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the audit's values with the description of each model."""
        return {
            "held_out": self.held_out,
            "descriptions": self.descriptions,
            **self.audit.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Report:
    """Contents of a report.

    Attributes
    ----------
    audit : Audit
        Audit of ordinary PCA and the other models; negligible values are zero.
    fits : tuple of FittedCriterion
        Fits, in the order of the audit's models.
    curves : ReportCurves
        Results by dimension, and the slider's steps.
    provenance : Provenance
    moments : GroupMoments
    settings : ReportSettings
    skipped_criteria : tuple of (str, str)
        Criteria that were not fitted, with reasons.
    user_models : UserModels or None
    displays : tuple of (str, Display)
        Additional displays with their names.
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
        """Index of the main model: 0 if it is ordinary PCA, else 1."""
        return 0 if self.settings.is_pca else 1

    @property
    def pca(self) -> ModelResult:
        """Results of ordinary PCA."""
        return self.audit.models[0]

    @property
    def main(self) -> ModelResult:
        """Results of the main model."""
        return self.audit.models[self.main_index]

    @property
    def main_fit(self) -> FittedCriterion:
        """Fit of the main model."""
        return self.fits[self.main_index]

    @property
    def verdict(self) -> Verdict | None:
        """Verdict on the main model; None without estimates for new rows."""
        main_verdicts = (
            verdict for verdict in self.audit.verdicts if verdict.model == self.main.name
        )
        return next(main_verdicts, None)

    @property
    def is_em_estimated(self) -> bool:
        """Whether the moments were estimated from incomplete rows (EM)."""
        return self.moments.em_summary is not None

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """Display names of the groups."""
        return tuple(display_name(format_group(group.group)) for group in self.pca.groups)

    @property
    def feature_names(self) -> list[str]:
        """Full names of the features."""
        names = self.moments.feature_names or [f"feature {i}" for i in range(self.n_features)]
        return [printable(name) for name in names]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.moments.n_features

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return not np.array_equal(self.moments.weights, self.moments.counts)

    @property
    def has_estimates(self) -> bool:
        """Whether any group has estimates for new rows."""
        return self.pca.has_estimates

    @cached_property
    def settings_record(self) -> dict[str, Any]:
        """Requested and resolved settings."""
        requested = self.settings.n_components
        certificate = self.main_fit.certificate
        dimension_choice = "requested"
        if not isinstance(requested, int):
            share = format_level(DEFAULT_VARIANCE_KEPT if requested is None else requested)
            dimension_choice = f"smallest number that keeps {share} of every group's variance"
        return {
            "n_components": self.pca.n_components,
            "dimension_choice": dimension_choice,
            "center": self.settings.center,
            "scale": bool(self.settings.scale),
            "criterion": self.settings.criterion.name,
            "parameters": reported_parameters(certificate.criterion, certificate.groups),
        }

    def relative_error_change(self, model: ModelResult) -> float | None:
        """Relative change in total error from PCA to a model; None if PCA has no error."""
        pca_error = self.pca.observed_total_error
        if pca_error <= self.pca.rounding_bound:
            return None
        return model.observed_total_error / pca_error - 1

    def shorten_names(self, text: str, format_name: Callable[[str], str] = str) -> str:
        """Shorten very long names of groups, features and data in a text.

        Parameters
        ----------
        text : str
        format_name : callable
            Converts a name to its form in the text.
        """
        groups = [format_group(group.group) for group in self.pca.groups]
        for name in {*groups, *self.feature_names, self.provenance.name}:
            if name.strip():
                text = text.replace(format_name(name), format_name(display_name(name)))
        return text

    @cached_property
    def verification(self) -> dict[str, Any]:
        """Instructions for verifying the certificate of the main model."""
        return {
            "model": self.main.name,
            **verification_program(self.main_fit, self.provenance.moments_code),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serializable values: those of the audit, plus the report's own contents."""
        user_models = None if self.user_models is None else self.user_models.to_dict()
        contents: dict[str, Any] = to_json_value(
            {
                "title": printable(self.provenance.title),
                "data": {
                    "name": printable(self.provenance.name),
                    "feature_names": self.feature_names,
                    "has_weights": self.is_weighted,
                },
                "settings": self.settings_record,
                "main_model": self.main.name,
                **self.audit.to_dict(),
                "certificates": [
                    {"model": fit.name, **fit.certificate.to_dict()} for fit in self.fits
                ],
                "skipped_criteria": [
                    {"name": name, "reason": reason} for name, reason in self.skipped_criteria
                ],
                **self.curves.to_dict(self.main.name, self.feature_names),
                "user_models": user_models,
                "verification": self.verification,
                "provenance": {**self.provenance.to_dict(), "parameters": self.settings_record},
            },
            _JSON_DIGITS,
        )
        displays = [
            {"name": name, "data": display.frame().to_dict("list")}
            for name, display in self.displays
        ]
        return {**contents, "displays": to_json_value(displays)}


# Progress shares of the stages; drawing is not tracked and takes the remainder.
report_progress = partial(
    overall_progress,
    "making the report",
    reading=10,
    comparing_criteria=15,
    auditing=10,
    refitting_without_each_fold=25,
    comparing_numbers_of_dimensions=15,
    drawing=25,
)


@explain_memory_errors()
def build_report(
    moments: GroupMoments,
    rows: Rows | None,
    settings: ReportSettings,
    provenance: Provenance,
    *,
    models: Sequence[AuditedModel] = (),
    test: Rows | None = None,
    max_memory: int | None = None,
) -> Report:
    """Build a report: fit the criteria, audit them, and compute the curves.

    Parameters
    ----------
    moments : GroupMoments
        Moments of the rows.
    rows : Rows or None
        The same rows, read twice for estimates and intervals; None to use moments only.
    settings : ReportSettings
    provenance : Provenance
    models : sequence of AuditedModel
        Models of the user to audit.
    test : Rows or None
        Held-out rows for these models; None to use the report's rows.
    max_memory : int, optional
        Memory budget in bytes for moments by fold.

    Raises
    ------
    Incompatible, InvalidInput, InvalidParameter, UnknownGroup
        There is only one group, there are too many features, or the main criterion is infeasible.
    """
    settings.check_size(moments.n_features)
    if moments.n_groups < 2:
        raise InvalidInput(
            f"All rows belong to one group ({moments.labels[0]!r})",
            "Allowed: two or more groups",
            "Check the group column, or use ordinary PCA",
        )
    requested = DEFAULT_VARIANCE_KEPT if settings.n_components is None else settings.n_components
    estimation = replace(settings.estimation, max_memory=max_memory)
    # Limit threads: there are hundreds of small eigenproblems, and threads would contend for
    # shared cores.
    with limit_blas_threads(None):
        d = resolve_n_components(
            moments, requested, settings.criterion, center=settings.center, scale=settings.scale
        )
        fits, skipped = fit_criteria(moments, settings, d)
    audit, folds = audit_fits(fits, rows, moments, settings, estimation)
    with limit_blas_threads(None):
        main_fit = fits[0 if settings.is_pca else 1]
        curves = build_curves(moments, audit, fits[0], main_fit, folds, settings.center)
    user_models = None
    if models:
        user_models = _audit_user_models(models, rows, test, moments, estimation)
    return Report(
        audit=audit,
        fits=fits,
        curves=curves,
        provenance=provenance,
        moments=moments,
        settings=settings,
        skipped_criteria=skipped,
        user_models=user_models,
    )


def fit_criteria(
    moments: GroupMoments, settings: ReportSettings, n_components: int
) -> tuple[tuple[FittedCriterion, ...], tuple[tuple[str, str], ...]]:
    """Fit ordinary PCA and the criteria; also return those that were not fitted, with reasons.

    Raises
    ------
    Incompatible, InvalidInput, UnknownGroup
        The main criterion is infeasible for these groups at this dimension.
    """
    pca_center: Center = "none" if settings.center == "none" else "global"
    pca, pca_problem, _ = fit_moments(
        moments, n_components, criterion=PCA_CRITERION, center=pca_center, scale=settings.scale
    )
    shared_second_moments = None
    if pca_center == settings.center and isinstance(pca_problem.second_moments, DenseSecondMoments):
        shared_second_moments = pca_problem.second_moments
    fits = [FittedCriterion(PCA, pca, pca_problem)]
    skipped = []
    named_criteria = list(zip(settings.criteria, model_names(settings.criteria), strict=True))
    for criterion, name in track("comparing criteria", named_criteria, "criteria"):
        is_main = criterion is settings.criterion
        max_groups = _MAX_GROUPS_BY_CRITERION.get(criterion.name, moments.n_groups)
        is_requested = is_main or settings.criteria_requested
        if moments.n_groups > max_groups and not is_requested:
            skipped.append((name, _NOT_COMPARED_REASON.format(max_groups)))
            continue
        try:
            subspace, problem, _ = fit_moments(
                moments,
                n_components,
                criterion=criterion,
                center=settings.center,
                scale=settings.scale,
                second_moments=shared_second_moments,
            )
        except (IncompatibleParameters, InvalidInput) as error:
            if is_main:
                raise
            skipped.append((name, printable("{}. {}.".format(*error.args))))
            continue
        fits.append(FittedCriterion(name, subspace, problem))
    return tuple(fits), tuple(skipped)


def model_names(criteria: Sequence[Criterion]) -> list[str]:
    """Return the criteria's names, with their parameters if two models share a name.

    Examples
    --------
    >>> from fairspan.problem.criteria import ErrorGap, MinimaxLoss
    >>> model_names([MinimaxLoss(), ErrorGap(0.5), ErrorGap(2.0)])
    ['minimax loss', 'error gap (penalty=0.5)', 'error gap (penalty=2.0)']
    >>> model_names([MinimaxLoss(relative=True)])
    ['relative minimax loss']
    """
    short_names = [
        readable_name(f"relative_{criterion.name}" if criterion.relative else criterion.name)
        for criterion in criteria
    ]
    names = []
    for name, criterion in zip(short_names, criteria, strict=True):
        if short_names.count(name) > 1:
            name = f"{name} ({printable(format_parameters(init_parameters(criterion)))})"
        names.append(name)
    return names


def audit_fits(
    fits: Sequence[FittedCriterion],
    rows: Rows | None,
    moments: GroupMoments,
    settings: ReportSettings,
    estimation: EstimationOptions,
) -> tuple[Audit, FoldMoments | None]:
    """Audit all fits; also return the moments by fold.

    With many groups, not all models get estimates.
    """
    models = _models_to_audit(fits, moments, settings)
    folds = None
    if rows is None:
        audit = audit_moments(models, [moments])
    else:
        options = replace(estimation, has_y=moments.by_class is not None)
        audit, folds = audit_rows_with_folds(models, rows, moments, options=options)
    results = [_zero_negligible(result) for result in audit.models]
    if rows is None:
        results = [replace(result, no_estimates_reason=_MOMENTS_ONLY_REASON) for result in results]
    verdicts = audit.verdicts
    if verdicts and settings.is_pca and len(results) > 1:
        # The existing verdicts are on the models compared with it.
        pca_verdicts = make_verdicts(results[:1], audit.findings, audit.level, audit.materiality)
        verdicts = (*pca_verdicts, *verdicts)
    not_refitted = {model.name for model in models if model.no_refit_reason}
    findings = [
        finding
        for finding in audit.findings
        if finding.code != "FS110" or finding.model not in not_refitted
    ]
    audit = replace(
        audit,
        models=tuple(results),
        verdicts=tuple(verdict for verdict in verdicts if verdict.model not in not_refitted),
        findings=tuple(findings),
    )
    return audit, folds


def _models_to_audit(
    fits: Sequence[FittedCriterion], moments: GroupMoments, settings: ReportSettings
) -> list[AuditedModel]:
    # Ordinary PCA ignores groups; only its errors are measured about the requested center.
    pca = read_model(PCA, replace(fits[0].subspace, center=settings.center))
    models = [replace(pca, is_pca=True)]
    for fit in fits[1:]:
        model = replace(read_model(fit.name, fit.subspace), baseline=PCA, refit_tol=CURVE_TOL)
        criterion = fit.problem.criterion
        is_slow_to_refit = (
            criterion.name in _MAX_GROUPS_BY_CRITERION and moments.n_groups > _MAX_GROUPS_FOR_REFITS
        )
        if is_slow_to_refit and criterion != settings.criterion:
            model = replace(model, no_refit_reason=_NO_REFIT_REASON.format(_MAX_GROUPS_FOR_REFITS))
        models.append(model)
    return models


def _zero_negligible(model: ModelResult) -> ModelResult:
    """Return the results with negligible values set to zero."""
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
    """Read the user's models, adding a baseline for each fair model that has none.

    The baseline is ordinary PCA of the report's rows, with the model's dimension, center and scale.
    """
    read_models = audited_models(models, moments.n_features)
    names = {model.name for model in read_models}
    baselines: dict[tuple[int, str, bool], AuditedModel] = {}
    user_models = []
    for model in read_models:
        subspace = model.subspace
        if model.baseline is None and not model.is_pca and subspace.certificate is not None:
            d = subspace.dimension
            center = subspace.center
            is_scaled = subspace.scale is not None
            key = (d, center, is_scaled)
            if key not in baselines:
                check_n_components(d, moments.n_features)
                name = f"PCA of {model.name}" if "PCA" in names else "PCA"
                names.add(name)
                baselines[key] = audited_pca(moments, d, center, scale=is_scaled, name=name)
            model = replace(model, baseline=baselines[key].name)
        user_models.append(model)
    return [*user_models, *baselines.values()]


def _audit_user_models(
    models: Sequence[AuditedModel],
    rows: Rows | None,
    test: Rows | None,
    moments: GroupMoments,
    estimation: EstimationOptions,
) -> UserModels:
    """Audit the user's models on the report's rows or on held-out rows."""
    if test is not None:
        audit = audit_rows(models, test, None, options=replace(estimation, has_y=False))
    elif rows is not None:
        options = replace(estimation, has_y=moments.by_class is not None)
        audit = audit_rows(models, rows, moments, options=options)
    else:
        audit = audit_moments(models, [moments])
    by_name = {model.name: model for model in models}
    descriptions = tuple(_describe_model(by_name[result.name]) for result in audit.models)
    results = tuple(map(_zero_negligible, audit.models))
    return UserModels(replace(audit, models=results), descriptions, test is not None)


def _describe_model(model: AuditedModel) -> str:
    """Describe a model."""
    if model.row_model is not None:
        return "not a projection: evaluated row by row"
    subspace: FairSubspace = model.subspace
    kinds = {"oblique": subspace.is_oblique, "soft": subspace.is_soft, "nested": subspace.is_nested}
    parts = [kind for kind, applies in kinds.items() if applies]
    certificate = subspace.certificate
    if certificate is not None and not model.is_pca:
        parts.append(readable_name(certificate.criterion.name))
    if certificate is not None and certificate.restriction is not None:
        parts.append(f"with {certificate.restriction!r}")
    return ", ".join(parts) or "projection"
