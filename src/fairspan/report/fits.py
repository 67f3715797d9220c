"""Fits of PCA and the criteria of a report, and their audit."""

from collections.abc import Sequence
from dataclasses import replace

from fairspan.auditing.audit_result import Audit
from fairspan.auditing.estimation_options import EstimationOptions
from fairspan.auditing.models import CURVE_TOL, AuditedModel, read_model
from fairspan.auditing.results import ModelResult
from fairspan.auditing.stages import RowAudit, audit_moments, audit_rows_with_folds
from fairspan.auditing.verdict import Verdict
from fairspan.auditing.verdict_rules import draw_conclusions
from fairspan.errors import IncompatibleParameters, InvalidInput
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.fit_settings import FitSettings
from fairspan.formatting.names import format_parameters, readable_name
from fairspan.linalg.rounding import zero_negligible
from fairspan.moments.base_moments import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.parameters import init_parameters
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.minimax import MinimaxCriterion
from fairspan.progress import track
from fairspan.report.fitted_criterion import PCA, FittedCriterion, SkippedCriterion
from fairspan.report.report_settings import PCA_CRITERION, ReportSettings
from fairspan.rows.aggregation import Rows
from fairspan.rows.labels import printable

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


def fit_criteria(
    moments: GroupMoments, settings: ReportSettings, n_components: int
) -> tuple[tuple[FittedCriterion, ...], tuple[SkippedCriterion, ...]]:
    """Fit ordinary PCA and the criteria of a report.

    Returns
    -------
    fits : tuple of FittedCriterion
        Ordinary PCA, then the criteria in the order of the settings, which begin with the main one
        unless it is PCA.
    skipped : tuple of SkippedCriterion

    Raises
    ------
    IncompatibleParameters, InvalidInput, UnknownGroup
        The main criterion is infeasible for these groups at this dimension.
    """
    # Ordinary PCA does not know the groups, so it never has group centers.
    pca_center: Center = "none" if settings.center == "none" else "global"
    pca_settings = FitSettings.parse(
        n_components, PCA_CRITERION, center=pca_center, scale=settings.scale
    )
    pca = fit_moments(moments, pca_settings)
    # Criteria with PCA's center have the same second moments, which are computed once.
    shared_second_moments = None
    if pca_center == settings.center:
        shared_second_moments = pca.problem.second_moments
    fits = [FittedCriterion(PCA, pca.subspace, pca.problem)]
    skipped = []
    named_criteria = list(zip(settings.criteria, model_names(settings.criteria), strict=True))
    for criterion, name in track("comparing criteria", named_criteria, "criteria"):
        is_main = criterion is settings.criterion
        # Criteria without an entry are fast for any number of groups.
        max_groups = _MAX_GROUPS_BY_CRITERION.get(criterion.name, moments.n_groups)
        is_requested = is_main or settings.has_chosen_criteria
        if moments.n_groups > max_groups and not is_requested:
            skipped.append(SkippedCriterion(name, _NOT_COMPARED_REASON.format(max_groups)))
            continue
        try:
            fit = fit_moments(
                moments,
                replace(pca_settings, criterion=criterion, center=settings.center),
                second_moments=shared_second_moments,
            )
        except (IncompatibleParameters, InvalidInput) as error:
            if is_main:  # a report without its main criterion has no subject
                raise
            received, allowed, _ = error.args
            skipped.append(SkippedCriterion(name, printable(f"{received}. {allowed}.")))
            continue
        fits.append(FittedCriterion(name, fit.subspace, fit.problem))
    return tuple(fits), tuple(skipped)


def model_names(criteria: Sequence[Criterion]) -> list[str]:
    """Return the criteria's names, with their parameters if two models share a name.

    Examples
    --------
    >>> from fairspan.problem.criteria.error_gap import ErrorGap
    >>> from fairspan.problem.criteria.minimax import MinimaxLoss
    >>> model_names([MinimaxLoss(), ErrorGap(0.5), ErrorGap(2.0)])
    ['minimax loss', 'error gap (penalty=0.5)', 'error gap (penalty=2.0)']
    >>> model_names([MinimaxLoss(relative=True)])
    ['relative minimax loss']
    """
    short_names = []
    for criterion in criteria:
        name = criterion.name
        if isinstance(criterion, MinimaxCriterion) and criterion.relative:
            name = f"relative_{name}"
        short_names.append(readable_name(name))
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
) -> RowAudit:
    """Audit all fits on the rows, or on the moments if there are no rows.

    With many groups, criteria that are slow to refit get no estimates for new rows, and no verdict;
    the models then have a reason in `no_refit_reason`.

    Parameters
    ----------
    fits : sequence of FittedCriterion
        Ordinary PCA first.
    rows : Rows or None
        Rows of the report; None to audit the moments only, without estimates for new rows.
    moments : GroupMoments
        Moments of the same rows.
    settings : ReportSettings
    estimation : EstimationOptions

    Returns
    -------
    RowAudit
        Observed values within their rounding error bounds are zero. There are no moments by fold if
        nothing was estimated for new rows.
    """
    models = _models_to_audit(fits, moments, settings)
    if rows is None:
        row_audit = RowAudit(audit_moments(models, [moments]), folds=None)
    else:
        row_audit = audit_rows_with_folds(models, rows, moments, options=estimation)
    audit = row_audit.audit
    results = [zero_negligible_results(result) for result in audit.models]
    if rows is None:
        results = [replace(result, no_estimates_reason=_MOMENTS_ONLY_REASON) for result in results]
    not_refitted = frozenset(model.name for model in models if model.no_refit_reason)
    audit = replace(
        audit,
        models=tuple(results),
        verdicts=tuple(
            verdict
            for verdict in _verdicts_with_pca(audit, results, settings)
            if verdict.model not in not_refitted
        ),
        # FS110 says that a model has no estimates. For these models it is intended, and the tables
        # give the reason.
        findings=tuple(
            finding
            for finding in audit.findings
            if finding.code != "FS110" or finding.model not in not_refitted
        ),
    )
    return replace(row_audit, audit=audit)


def _verdicts_with_pca(
    audit: Audit, results: Sequence[ModelResult], settings: ReportSettings
) -> tuple[Verdict, ...]:
    """Return the verdicts of an audit, preceded by one on PCA if that is the main model.

    An audit with other models has verdicts on these only, while the report needs one on its main
    model. The first of the results is that of PCA.
    """
    if not audit.verdicts or not settings.is_pca or len(results) == 1:
        return audit.verdicts
    conclusions = draw_conclusions(results[:1], audit.findings, audit.level, audit.materiality)
    return (*conclusions.verdicts, *audit.verdicts)


def _models_to_audit(
    fits: Sequence[FittedCriterion], moments: GroupMoments, settings: ReportSettings
) -> list[AuditedModel]:
    """Return the fits as models to audit, each with ordinary PCA as baseline.

    With many groups, criteria that are slow to refit are marked as not to be refitted for
    cross-fitting, except the main criterion. Refits use the tolerance of curves, which is far below
    the sampling uncertainty.
    """
    # The first fit is ordinary PCA, which ignores groups; only its errors are measured about the
    # requested center.
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


def zero_negligible_results(model: ModelResult) -> ModelResult:
    """Return the results with observed values within their rounding error bounds set to zero.

    These are errors and losses of the groups, and the disparity.
    """
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
    observed = model.observed_disparity.without_rounding(model.rounding_bound)
    disparity = replace(model.disparity, observed=observed)
    return replace(model, groups=groups, disparity=disparity)
