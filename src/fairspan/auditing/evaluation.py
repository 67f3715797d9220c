"""Evaluation of models by group, on rows or on moments."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.auditing.cross_fitting import CrossFit, Quantity, cross_fit
from fairspan.auditing.estimates import GroupEstimates, ModelEstimates
from fairspan.auditing.expected_losses import estimate_models
from fairspan.auditing.feature_errors import compute_feature_errors
from fairspan.auditing.fold_statistics import (
    FoldedRows,
    block_statistics,
    cross_fit_rows,
    error_statistics,
    leave_one_block_out_errors,
    read_moments,
)
from fairspan.auditing.imputation import impute_rows, pool_runs, pool_statistics
from fairspan.auditing.in_sample import InSampleStatus, detect_in_sample
from fairspan.auditing.intervals import (
    UNKNOWN,
    Estimate,
    disparity_estimate,
    error_estimates,
    jackknife_estimate,
    jackknife_standard_error,
    widest_pair,
)
from fairspan.auditing.loss_test import LossTest
from fairspan.auditing.models import AuditedModel
from fairspan.auditing.options import EstimationOptions
from fairspan.auditing.refit_bound import error_drift, refit_bound
from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.auditing.row_statistics import RowStatistics
from fairspan.certificates.certificate import Certificate
from fairspan.errors import IncompatibleParameters
from fairspan.metrics import GroupErrors, group_errors, worst_case_error
from fairspan.moments.compute import Moments
from fairspan.moments.fold_moments import MIN_FOLDS, DenseFoldMoments, FoldMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.problem.criteria import RobustErrorGap
from fairspan.problem.disparity import signed_disparity
from fairspan.rows.aggregation import Rows
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.protocol import row_metadata
from fairspan.typing import FloatArray

NOT_A_PROJECTION = (
    "it is not a projection: how it was fitted is unknown, and the groups' best subspaces are no "
    "lower limit for it"
)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Models evaluated on rows.

    Attributes
    ----------
    results : list of ModelResult
        Results in the order of the models.
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of all rows.
    monotone_columns : tuple of int
        Columns that are strictly monotone in row order.
    folds : FoldMoments or None
        Moments by fold; None if nothing was estimated for new rows.
    """

    results: list[ModelResult]
    moments: Moments
    monotone_columns: tuple[int, ...]
    folds: FoldMoments | None


@dataclass(frozen=True, eq=False)
class _ObservedErrors:
    """Errors of one model on the audited rows, with intervals.

    Attributes
    ----------
    errors : sequence of k Estimates
    disparity : Estimate
    standard_errors : (k,) array
        Standard errors of the errors; NaN if unknown.
    df : float or (k,) array
        Degrees of freedom of the standard errors; need not be integers.
    kurtosis : (k,) array
        Kurtosis of the rows' squared residuals; 0 if unknown.
    """

    errors: Sequence[Estimate]
    disparity: Estimate
    standard_errors: FloatArray
    df: FloatArray | float
    kurtosis: FloatArray


def evaluate_on_rows(
    models: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments | None,
    limit: GroupLimit,
    options: EstimationOptions,
) -> Evaluation:
    """Evaluate models on rows in two passes: one for moments, one for standard errors.

    Models that are not projections are evaluated row by row, without estimates for new rows. Rows
    with missing cells are imputed several times, and standard errors are pooled.

    Parameters
    ----------
    models : sequence of AuditedModel
    rows : Rows
    moments : GroupMoments, SparseMoments or WideMoments, optional
        Moments of the rows, if already known.
    limit : GroupLimit
    options : EstimationOptions

    Raises
    ------
    IncompatibleParameters
        Clusters were given with a model that is not a projection.
    """
    projections = [model for model in models if model.row_model is None]
    other_models = [model for model in models if model.row_model is not None]
    if other_models and options.has_clusters:
        raise IncompatibleParameters(
            f"clusters was given, but the model {other_models[0].name} is not a projection",
            "Allowed with clusters: projections, which are evaluated by fold",
            "Omit clusters, or omit that model",
        )
    # Only projections can be refitted and compared with best subspaces.
    if not projections:
        options = replace(options, folds=None)
    imputations: Sequence[Rows] = [rows]
    if row_metadata(rows).keeps_missing:
        imputations, moments = impute_rows(rows, moments, limit, options)
    first_pass = read_moments(projections, imputations[0], moments, limit, options)
    moments = first_pass.moments
    # None if no estimates were requested, or there is no memory for moments by fold.
    folded_rows = first_pass.folded_rows
    results: list[ModelResult] = []
    monotone_columns: tuple[int, ...] = ()
    folds = None
    models_without_folds = models
    if folded_rows is not None:
        results, monotone_columns = _evaluate_with_folds(
            projections, moments, folded_rows, imputations, options
        )
        folds = folded_rows.fold_moments
        models_without_folds = other_models
    if models_without_folds:
        further_results, further_monotone_columns = _evaluate_without_folds(
            models_without_folds, moments, imputations, first_pass.no_estimates_reason, options
        )
        results += further_results
        if folded_rows is None and projections:
            monotone_columns = further_monotone_columns
    position_by_name = {model.name: position for position, model in enumerate(models)}
    results.sort(key=lambda model: position_by_name[model.name])
    return Evaluation(results, moments, monotone_columns, folds)


def _evaluate_with_folds(
    models: Sequence[AuditedModel],
    moments: Moments,
    folded_rows: FoldedRows,
    imputations: Sequence[Rows],
    options: EstimationOptions,
) -> tuple[list[ModelResult], tuple[int, ...]]:
    """Evaluate projections with estimates for new rows.

    Also return the columns that are strictly monotone in the order of the rows. `imputations` are
    copies of the rows with imputed cells, or the rows alone if no cell is missing. `folded_rows`
    are those of the first imputation; the others get the same folds.
    """
    model_errors = [_group_errors(model, moments) for model in models]
    in_sample_statuses = _in_sample_status(
        models, model_errors, moments, folded_rows.models, folded_rows.fold_moments
    )
    folded_rows = replace(
        folded_rows, models=_with_no_refit_reasons(folded_rows.models, in_sample_statuses)
    )
    in_sample = [status.in_sample for status in in_sample_statuses]
    folded_by_imputation = [folded_rows, *map(folded_rows.with_rows, imputations[1:])]
    runs_by_imputation = [
        cross_fit_rows(folded, model_errors, in_sample) for folded in folded_by_imputation
    ]
    runs = runs_by_imputation[0]
    if len(runs_by_imputation) > 1:
        runs = pool_runs(runs_by_imputation)
    cross, statistics = runs[0]
    subspaces = [model.subspace for model in folded_rows.models]
    loss_tests = [
        LossTest(subspaces, folded.fold_moments, options.level, options.seed)
        for folded in folded_by_imputation
    ]
    results = _results_from_rows(
        models,
        model_errors,
        moments,
        in_sample_statuses,
        statistics,
        _estimate_models(runs, model_errors, options, loss_tests),
        cross.refit_failures,
        options,
    )
    results = _with_feature_errors(results, models, moments, cross, folded_rows.fold_moments)
    # Rows in coordinates of their span have other columns than the table.
    has_table_columns = folded_rows.rows.n_features == moments.n_features
    if not has_table_columns:
        return results, ()
    return results, statistics.monotone_columns


def _evaluate_without_folds(
    models: Sequence[AuditedModel],
    moments: Moments,
    imputations: Sequence[Rows],
    no_estimates_reason: str | None,
    options: EstimationOptions,
) -> tuple[list[ModelResult], tuple[int, ...]]:
    """Evaluate models without estimates for new rows.

    Also return the columns that are strictly monotone in the order of the rows.
    `no_estimates_reason` is that of the projections; None if no estimates were requested.
    """
    model_errors = [_group_errors(model, moments) for model in models]
    statistics_by_imputation = [
        error_statistics(models, model_errors, imputed_rows, moments)
        for imputed_rows in imputations
    ]
    statistics = statistics_by_imputation[0]
    if len(imputations) > 1:
        statistics = pool_statistics(statistics_by_imputation)
    no_estimates_reasons = {
        model.name: no_estimates_reason if model.row_model is None else NOT_A_PROJECTION
        for model in models
    }
    results = _results_from_rows(
        models,
        model_errors,
        moments,
        _in_sample_status(models, model_errors, moments),
        statistics,
        [_no_estimates(moments)] * len(models),
        no_estimates_reasons,
        options,
    )
    return _with_feature_errors(results, models, moments), statistics.monotone_columns


def _results_from_rows(
    models: Sequence[AuditedModel],
    model_errors: Sequence[GroupErrors],
    moments: Moments,
    in_sample_statuses: Sequence[InSampleStatus],
    statistics: RowStatistics,
    expected: list[ModelEstimates],
    no_estimates_reasons: Mapping[str, str | None],
    options: EstimationOptions,
) -> list[ModelResult]:
    """Combine figures from moments with the intervals from the second pass over the rows.

    Parameters
    ----------
    models, model_errors, in_sample_statuses
        One entry per model.
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of all rows.
    statistics : RowStatistics
        Means and standard errors from the second pass.
    expected : list of ModelEstimates
        Estimates for new rows of each model.
    no_estimates_reasons : mapping of str to str or None
        Why a model has no estimates, by model name; None or no entry if it has them.
    options : EstimationOptions
    """
    results = []
    for i, (model, errors) in enumerate(zip(models, model_errors, strict=True)):
        # The errors of a model that is not a projection do not follow from moments.
        if model.row_model is not None:
            errors = replace(errors, errors=statistics.means[i, Quantity.ERROR])
        standard_errors = statistics.standard_errors[i, Quantity.ERROR]
        df = statistics.df[i, Quantity.ERROR]
        # The intervals take degrees of freedom plus one.
        counts = df + 1
        observed = _ObservedErrors(
            errors=error_estimates(errors.errors, standard_errors, counts, options.level),
            disparity=disparity_estimate(errors.errors, standard_errors, counts, options.level),
            standard_errors=standard_errors,
            df=df,
            kurtosis=np.nan_to_num(statistics.kurtosis[i, Quantity.ERROR]),
        )
        results.append(
            _model_result(
                model,
                errors,
                moments,
                in_sample_statuses[i],
                observed,
                expected[i],
                no_estimates_reasons.get(model.name),
                options,
            )
        )
    return results


def evaluate_on_moments(
    models: Sequence[AuditedModel],
    pooled: GroupMoments,
    blocks: Sequence[GroupMoments],
    options: EstimationOptions,
) -> list[ModelResult]:
    """Evaluate models on moments; two or more blocks give jackknife intervals.

    Raises
    ------
    IncompatibleParameters
        A model is not a projection, so its errors cannot be computed from moments.
    """
    for model in models:
        if model.row_model is not None:
            raise IncompatibleParameters(
                f"The model {model.name} is not a projection, but moments were given",
                "Allowed with moments: projections, whose errors can be computed from moments",
                "Pass rows: X and sensitive_features",
            )
    model_errors = [_group_errors(model, pooled) for model in models]
    expected = _BlockEstimates(
        estimates=[_no_estimates(pooled)] * len(models),
        failures={},
        in_sample_statuses=_in_sample_status(models, model_errors, pooled),
    )
    if len(blocks) > 1 and options.folds is not None:
        expected = _estimate_from_blocks(models, model_errors, blocks, options)
    results: list[ModelResult] = []
    for model, errors, estimates, status in zip(
        models, model_errors, expected.estimates, expected.in_sample_statuses, strict=True
    ):
        # A single set of moments gives no intervals: standard errors are NaN, with df 0.
        observed = _ObservedErrors(
            errors=[Estimate(error) for error in errors.errors.tolist()],
            disparity=Estimate(signed_disparity(errors.errors)),
            standard_errors=np.full(pooled.n_groups, np.nan),
            df=0,
            kurtosis=np.zeros(pooled.n_groups),  # unknown without rows
        )
        if len(blocks) > 1:
            observed = _jackknife_errors(model, errors, pooled, blocks, options.level)
        results.append(
            _model_result(
                model,
                errors,
                pooled,
                status,
                observed,
                estimates,
                expected.failures.get(model.name),
                options,
            )
        )
    # Expected errors by feature of in-sample models require folds of rows.
    return _with_feature_errors(results, models, pooled)


def _with_feature_errors(
    results: Sequence[ModelResult],
    models: Sequence[AuditedModel],
    moments: Moments,
    cross: CrossFit | None = None,
    folds: FoldMoments | None = None,
) -> list[ModelResult]:
    """Return the results with their errors by feature.

    Those on new rows of an in-sample model come from its refits in `cross`; without refits they are
    unknown.
    """
    updated = []
    for i, (result, model) in enumerate(zip(results, models, strict=True)):
        refits = () if cross is None else cross.models[i].refits
        is_estimated = np.array([group.is_estimated for group in result.groups])
        if result.in_sample and not refits:
            is_estimated[:] = False
        errors = compute_feature_errors(model, moments, is_estimated, refits, folds)
        updated.append(replace(result, feature_errors=errors))
    return updated


def estimate_from_folds(
    models: Sequence[AuditedModel], folds: DenseFoldMoments, options: EstimationOptions
) -> list[ModelEstimates]:
    """Estimate each model and group from moments by fold, without a pass over rows.

    Intervals come from the variation between folds and are wider than those of an audit on rows.
    """
    model_errors = [_group_errors(model, folds.total) for model in models]
    blocks = [fold for fold in folds.by_fold if fold is not None]
    return _estimate_from_blocks(models, model_errors, blocks, options).estimates


@dataclass(frozen=True, eq=False)
class _BlockEstimates:
    """Estimates for new rows from blocks of moments.

    Attributes
    ----------
    estimates : list of ModelEstimates
    failures : dict of str to str
        Why a model has no estimates, by model name.
    in_sample_statuses : list of InSampleStatus
    """

    estimates: list[ModelEstimates]
    failures: dict[str, str]
    in_sample_statuses: list[InSampleStatus]


def _estimate_from_blocks(
    models: Sequence[AuditedModel],
    model_errors: Sequence[GroupErrors],
    blocks: Sequence[GroupMoments],
    options: EstimationOptions,
) -> _BlockEstimates:
    """Estimate each model and group for new rows, with blocks of moments as folds.

    With too few blocks, in-sample models are not refitted, and `failures` names them.
    """
    folds = DenseFoldMoments(tuple(blocks))
    in_sample_statuses = _in_sample_status(models, model_errors, folds.total, models, folds)
    in_sample = [status.in_sample for status in in_sample_statuses]
    # With few blocks, the others are too small a training set.
    too_few_blocks = len(blocks) < MIN_FOLDS
    cross = cross_fit(
        _with_no_refit_reasons(models, in_sample_statuses),
        [errors.errors for errors in model_errors],
        [is_in_sample and not too_few_blocks for is_in_sample in in_sample],
        folds,
        len(blocks),
    )
    statistics = block_statistics(cross, folds.total.labels, blocks)
    failures = dict(cross.refit_failures)
    if too_few_blocks:
        no_estimates_reason = f"{len(blocks)} blocks are too few for refitting it without each"
        in_sample_models = itertools.compress(models, in_sample)
        failures |= {model.name: no_estimates_reason for model in in_sample_models}
    test = LossTest([model.subspace for model in models], folds, options.level, options.seed)
    estimates = _estimate_models([(cross, statistics)], model_errors, options, [test])
    return _BlockEstimates(estimates, failures, in_sample_statuses)


def _estimate_models(
    runs: Sequence[tuple[CrossFit, RowStatistics]],
    model_errors: Sequence[GroupErrors],
    options: EstimationOptions,
    loss_tests: Sequence[LossTest],
) -> list[ModelEstimates]:
    """Estimate each model for new rows.

    `runs` has one cross-fit with its statistics per fold assignment, and `loss_tests` one test per
    imputation.
    """
    return estimate_models(
        runs,
        [errors.best_errors for errors in model_errors],
        [errors.variances for errors in model_errors],
        [errors.roundings for errors in model_errors],
        options,
        # Significant only if it is in every imputation.
        lambda model, group: all(test.is_significant(model, group) for test in loss_tests),
    )


def _jackknife_errors(
    model: AuditedModel,
    model_errors: GroupErrors,
    pooled: GroupMoments,
    blocks: Sequence[GroupMoments],
    level: float,
) -> _ObservedErrors:
    """Return the errors of a model and their disparity with delete-a-block jackknife intervals.

    The interval of the disparity is simultaneous over all pairs of groups. `pooled` is the sum of
    the blocks.
    """
    leave_one_out = leave_one_block_out_errors(blocks, pooled, model.subspace)
    standard_errors = jackknife_standard_error(leave_one_out)
    estimates = [
        jackknife_estimate(value, column.tolist(), level=level).clipped_at_zero()
        for value, column in zip(model_errors.errors.tolist(), leave_one_out.T, strict=True)
    ]
    disparity = Estimate(signed_disparity(model_errors.errors))
    if pooled.n_groups > 1:
        low, high = widest_pair(model_errors.errors)
        n_pairs = pooled.n_groups * (pooled.n_groups - 1) // 2
        differences = (leave_one_out[:, high] - leave_one_out[:, low]).tolist()
        disparity = jackknife_estimate(disparity.value, differences, n_pairs, level)
    return _ObservedErrors(
        errors=estimates,
        disparity=disparity,
        standard_errors=standard_errors,
        df=len(blocks) - 1,
        kurtosis=np.zeros(pooled.n_groups),  # unknown without rows
    )


def _in_sample_status(
    models: Sequence[AuditedModel],
    model_errors: Sequence[GroupErrors],
    moments: Moments,
    fold_models: Sequence[AuditedModel] = (),
    folds: FoldMoments | None = None,
) -> list[InSampleStatus]:
    """Determine which models were fitted to the audited rows.

    Without folds, only exact matches of number and mean of the rows are detected; with folds, also
    training rows that overlap. `fold_models` are the models in the coordinates of the folds.
    """
    is_exact_match = [
        model.was_fitted_on(moments, errors.errors)
        for model, errors in zip(models, model_errors, strict=True)
    ]
    if folds is None or all(is_exact_match):
        return [
            InSampleStatus(is_match, no_refit_reason=model.no_refit_reason)
            for model, is_match in zip(models, is_exact_match, strict=True)
        ]
    return detect_in_sample(models, is_exact_match, fold_models, folds)


def _with_no_refit_reasons(
    models: Sequence[AuditedModel], in_sample_statuses: Sequence[InSampleStatus]
) -> list[AuditedModel]:
    """Return the models with the reasons why they cannot be refitted."""
    return [
        replace(model, no_refit_reason=status.no_refit_reason)
        for model, status in zip(models, in_sample_statuses, strict=True)
    ]


def _group_errors(model: AuditedModel, moments: Moments) -> GroupErrors:
    model.check_groups(moments.labels)
    return group_errors(model.subspace, moments)


def _no_estimates(moments: Moments) -> ModelEstimates:
    return ModelEstimates([GroupEstimates()] * moments.n_groups)


def _worst_case_errors(model: AuditedModel, moments: Moments) -> tuple[float, ...] | None:
    """Worst-case errors of a model fitted with the robust error gap, one per group.

    Errors are the largest over all distributions within a radius of each group's rows, with the
    radii of the criterion. None for models with another criterion, or if the radii are not those of
    the groups of these rows.
    """
    certificate = model.subspace.certificate
    if certificate is None or not isinstance(certificate.criterion, RobustErrorGap):
        return None
    radius = certificate.criterion.radius
    if isinstance(radius, Mapping) and set(radius) != set(moments.labels):
        return None
    return tuple(worst_case_error(model.subspace, moments, radius=radius).values())


def _model_result(
    model: AuditedModel,
    model_errors: GroupErrors,
    moments: Moments,
    status: InSampleStatus,
    observed: _ObservedErrors,
    estimates: ModelEstimates,
    no_estimates_reason: str | None,
    options: EstimationOptions,
) -> ModelResult:
    """Combine all figures of one model.

    A reason for no estimates overrides the estimates. A model that was fitted to other rows also
    gets a bound on how far a refit to these rows could lower its criterion, and the drift of its
    errors since the fit.
    """
    if no_estimates_reason is not None:
        estimates = _no_estimates(moments)
    labels = model_errors.group_labels
    low = 0
    high = 0
    if moments.n_groups > 1:
        low, high = widest_pair(model_errors.errors)
    # A pair of equal groups stands for none: fewer than two groups have estimates.
    expected_pair = None
    first, second = estimates.disparity_pair
    if first != second:
        expected_pair = (labels[first], labels[second])
    bound = None
    drift = [UNKNOWN] * moments.n_groups
    if not status.in_sample:
        bound = refit_bound(model.subspace, moments, model_errors.errors, options.materiality)
        drift = error_drift(
            model.subspace,
            moments,
            model_errors.errors,
            observed.standard_errors,
            observed.df,
            options.level,
        )
    return ModelResult(
        name=model.name,
        n_components=model.subspace.dimension,
        center=model.subspace.center,
        is_scaled=model.subspace.scale is not None,
        **_certificate_values(model.subspace.certificate),
        worst_case_errors=_worst_case_errors(model, moments),
        refit_bound=bound,
        is_pca=model.is_pca,
        in_sample=status.in_sample,
        in_sample_inferred=status.inferred,
        baseline=model.baseline,
        training_groups=model.training_groups,
        groups=_group_results(model_errors, moments, observed, estimates, drift),
        observed_disparity=observed.disparity,
        disparity_pair=(labels[low], labels[high]),
        no_estimates_reason=no_estimates_reason,
        is_nested=model.subspace.is_nested,
        expected_disparity=estimates.disparity,
        expected_disparity_pair=expected_pair,
        instability=estimates.instability,
        min_cosine=estimates.min_cosine,
    )


def _certificate_values(certificate: Certificate | None) -> dict[str, Any]:
    """Return the attributes of a result that come from its certificate; None without one."""
    if certificate is None:
        return dict.fromkeys(("status", "tol", "gap", "unresolved_reason"))
    return {
        "status": str(certificate.status),
        "tol": certificate.tol,
        "gap": certificate.gap,
        "unresolved_reason": certificate.unresolved_reason,
    }


def _group_results(
    model_errors: GroupErrors,
    moments: Moments,
    observed: _ObservedErrors,
    estimates: ModelEstimates,
    drift: Sequence[Estimate],
) -> tuple[GroupResult, ...]:
    """Combine the figures of one model by group; `drift` has one estimate per group."""
    return tuple(
        GroupResult(
            group=label,
            n_rows=int(moments.counts[i]),
            proportion=float(moments.proportions[i]),
            observed_total_variance=float(model_errors.variances[i]),
            observed_error=observed.errors[i],
            observed_best_error=float(model_errors.best_errors[i]),
            observed_loss=float(model_errors.excess_losses[i]),
            observed_variance_kept=float(model_errors.variance_kept_ratios[i]),
            observed_kurtosis=float(observed.kurtosis[i]),
            drift=drift[i],
            observed_rounding=float(model_errors.roundings[i]),
            **vars(estimates.groups[i]),
        )
        for i, label in enumerate(model_errors.group_labels)
    )
