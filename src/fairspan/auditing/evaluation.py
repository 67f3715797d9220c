"""Evaluation of models by group, on rows or on moments."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fairspan.auditing.cross_fitting import CrossFit, cross_fit
from fairspan.auditing.expected_losses import (
    UNKNOWN,
    Estimate,
    EstimationOptions,
    GroupEstimates,
    ModelEstimates,
    disparity_estimate,
    error_estimates,
    estimate_models,
    jackknife_estimate,
    jackknife_standard_error,
    widest_pair,
)
from fairspan.auditing.feature_errors import compute_feature_errors
from fairspan.auditing.fold_statistics import (
    block_statistics,
    cross_fit_rows,
    error_statistics,
    leave_one_block_out_errors,
    read_moments,
)
from fairspan.auditing.imputation import impute_rows, pool_runs, pool_statistics
from fairspan.auditing.in_sample import InSampleStatus, detect_in_sample
from fairspan.auditing.loss_test import LossTest
from fairspan.auditing.models import AuditedModel
from fairspan.auditing.refit_bound import error_drift, refit_bound
from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.auditing.row_statistics import RowStatistics
from fairspan.errors import IncompatibleParameters
from fairspan.metrics import GroupErrors, group_errors, worst_case_error
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import MIN_FOLDS, DenseFoldMoments, FoldMoments, Moments
from fairspan.problem.criteria import RobustErrorGap
from fairspan.problem.problem import signed_disparity
from fairspan.rows.aggregation import Rows
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.protocol import BaseRows
from fairspan.typing import FloatArray, IntegerArray

NOT_A_PROJECTION = (
    "it is not a projection: how it was fitted is unknown, and the groups' best subspaces are no "
    "lower limit for it"
)


def evaluate_on_rows(
    models: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments | None,
    limit: GroupLimit,
    options: EstimationOptions,
) -> tuple[list[ModelResult], Moments, tuple[int, ...], FoldMoments | None]:
    """Evaluate models on rows in two passes: one for moments, one for standard errors.

    Models that are not projections are evaluated row by row. Rows with missing cells are imputed
    several times, and standard errors are pooled.

    Returns
    -------
    the models, and moments of all rows
    monotone_columns : tuple of int
        Columns that are strictly monotone in row order.
    folds : FoldMoments or None
        Moments by fold; None if nothing was estimated for new rows.
    """
    projections = [model for model in models if model.row_model is None]
    other_models = [model for model in models if model.row_model is not None]
    if other_models and options.has_clusters:
        raise IncompatibleParameters(
            f"clusters was given, but the model {other_models[0].name} is not a projection",
            "Allowed with clusters: projections, which are evaluated by fold",
            "Omit clusters, or omit that model",
        )
    if not projections:
        options = replace(options, folds=None)
    imputations: Sequence[Rows] = [rows]
    if isinstance(rows, BaseRows) and rows.keeps_missing:
        imputations, moments = impute_rows(rows, moments, limit, options)
    moments, folded_rows, no_estimates_reason = read_moments(
        projections, imputations[0], moments, limit, options
    )
    results: list[ModelResult] = []
    monotone_columns: tuple[int, ...] = ()
    if folded_rows is not None:
        model_errors = [_group_errors(model, moments) for model in projections]
        in_sample_statuses = _in_sample_status(
            projections, model_errors, moments, folded_rows.models, folded_rows.fold_moments
        )
        folded_rows = replace(
            folded_rows, models=_with_no_refit_reasons(folded_rows.models, in_sample_statuses)
        )
        in_sample = [status.in_sample for status in in_sample_statuses]
        folded_by_imputation = [folded_rows, *map(folded_rows.with_rows, imputations[1:])]
        runs_by_imputation = [
            cross_fit_rows(folded, model_errors, in_sample) for folded in folded_by_imputation
        ]
        runs = (
            runs_by_imputation[0] if len(runs_by_imputation) == 1 else pool_runs(runs_by_imputation)
        )
        cross, statistics = runs[0]
        subspaces = [model.subspace for model in folded_rows.models]
        loss_tests = [
            LossTest(subspaces, folded.fold_moments, options.level, options.seed)
            for folded in folded_by_imputation
        ]
        expected = _estimate_models(runs, model_errors, options, loss_tests)
        results = _results_from_rows(
            projections,
            model_errors,
            moments,
            in_sample_statuses,
            statistics,
            expected,
            cross.refit_failures,
            options,
        )
        results = _with_feature_errors(
            results, projections, moments, cross, folded_rows.fold_moments
        )
        if folded_rows.rows.n_features == moments.n_features:
            monotone_columns = statistics.monotone_columns
    without_estimates = models if folded_rows is None else other_models
    if without_estimates:
        model_errors = [_group_errors(model, moments) for model in without_estimates]
        statistics_by_imputation = [
            error_statistics(
                without_estimates, model_errors, imputed_rows, moments, has_y=options.has_y
            )
            for imputed_rows in imputations
        ]
        statistics = statistics_by_imputation[0]
        if len(imputations) > 1:
            statistics = pool_statistics(statistics_by_imputation)
        no_estimates_reasons = {
            model.name: no_estimates_reason if model.row_model is None else NOT_A_PROJECTION
            for model in without_estimates
        }
        expected = [_no_estimates(moments)] * len(without_estimates)
        in_sample_statuses = _in_sample_status(without_estimates, model_errors, moments)
        further_results = _results_from_rows(
            without_estimates,
            model_errors,
            moments,
            in_sample_statuses,
            statistics,
            expected,
            no_estimates_reasons,
            options,
        )
        results += _with_feature_errors(further_results, without_estimates, moments)
        if folded_rows is None and projections:
            monotone_columns = statistics.monotone_columns
    position_by_name = {model.name: position for position, model in enumerate(models)}
    results.sort(key=lambda model: position_by_name[model.name])
    return (
        results,
        moments,
        monotone_columns,
        None if folded_rows is None else folded_rows.fold_moments,
    )


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
    """Combine figures from moments with the intervals from the second pass over the rows."""
    results = []
    for i, (model, errors) in enumerate(zip(models, model_errors, strict=True)):
        if model.row_model is not None:
            errors = replace(errors, errors=statistics.means[i, 0])
        counts = statistics.df[i, 0] + 1
        statistics_of_errors = (
            errors.errors,
            statistics.standard_errors[i, 0],
            counts,
            options.level,
        )
        results.append(
            _model_result(
                model,
                errors,
                moments,
                in_sample_statuses[i],
                error_estimates(*statistics_of_errors),
                disparity_estimate(*statistics_of_errors),
                expected[i],
                np.nan_to_num(statistics.kurtosis[i, 0]),
                no_estimates_reasons.get(model.name),
                (statistics.standard_errors[i, 0], statistics.n_independent - 1),
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
    expected = [_no_estimates(pooled)] * len(models)
    failures: dict[str, str] = {}
    in_sample_statuses = _in_sample_status(models, model_errors, pooled)
    if len(blocks) > 1 and options.folds is not None:
        expected, failures, in_sample_statuses = _estimate_from_blocks(
            models, model_errors, blocks, options
        )
    results: list[ModelResult] = []
    for model, errors, estimates, status in zip(
        models, model_errors, expected, in_sample_statuses, strict=True
    ):
        observed_errors = [Estimate(error) for error in errors.errors.tolist()]
        disparity = Estimate(signed_disparity(errors.errors))
        standard_errors = np.full(pooled.n_groups, np.nan)
        if len(blocks) > 1:
            observed_errors, disparity, standard_errors = _jackknife_errors(
                model, errors, pooled, blocks, options.level
            )
        no_kurtosis = np.zeros(pooled.n_groups)
        no_estimates_reason = failures.get(model.name)
        results.append(
            _model_result(
                model,
                errors,
                pooled,
                status,
                observed_errors,
                disparity,
                estimates,
                no_kurtosis,
                no_estimates_reason,
                (standard_errors, len(blocks) - 1),
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
    """Return the results with their errors by feature."""
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
    return _estimate_from_blocks(
        models, model_errors, [fold for fold in folds.by_fold if fold is not None], options
    )[0]


def _estimate_from_blocks(
    models: Sequence[AuditedModel],
    model_errors: Sequence[GroupErrors],
    blocks: Sequence[GroupMoments],
    options: EstimationOptions,
) -> tuple[list[ModelEstimates], dict[str, str], list[InSampleStatus]]:
    """Estimate with blocks as folds.

    Also return the reasons for missing estimates and the in-sample status of each model.
    """
    folds = DenseFoldMoments(tuple(blocks))
    in_sample_statuses = _in_sample_status(models, model_errors, folds.total, models, folds)
    in_sample = [status.in_sample for status in in_sample_statuses]
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
        subject = "1 block is" if len(blocks) == 1 else f"{len(blocks)} blocks are"
        no_estimates_reason = f"{subject} too few for refitting it without each"
        in_sample_models = itertools.compress(models, in_sample)
        failures |= {model.name: no_estimates_reason for model in in_sample_models}
    test = LossTest([model.subspace for model in models], folds, options.level, options.seed)
    return (
        _estimate_models([(cross, statistics)], model_errors, options, [test]),
        failures,
        in_sample_statuses,
    )


def _estimate_models(
    runs: Sequence[tuple[CrossFit, RowStatistics]],
    model_errors: Sequence[GroupErrors],
    options: EstimationOptions,
    loss_tests: Sequence[LossTest],
) -> list[ModelEstimates]:
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
) -> tuple[list[Estimate], Estimate, FloatArray]:
    """Jackknife intervals of errors and disparity, and standard errors of the errors."""
    leave_one_out = leave_one_block_out_errors(blocks, pooled, model.subspace)
    standard_errors = jackknife_standard_error(leave_one_out)
    estimates = [
        jackknife_estimate(value, column.tolist(), level=level).clipped_at_zero()
        for value, column in zip(model_errors.errors.tolist(), leave_one_out.T, strict=True)
    ]
    low, high = widest_pair(model_errors.errors)
    pairs = pooled.n_groups * (pooled.n_groups - 1) // 2
    disparity = signed_disparity(model_errors.errors)
    if pooled.n_groups == 1:
        return estimates, Estimate(disparity), standard_errors
    differences = (leave_one_out[:, high] - leave_one_out[:, low]).tolist()
    return estimates, jackknife_estimate(disparity, differences, pairs, level), standard_errors


def _in_sample_status(
    models: Sequence[AuditedModel],
    model_errors: Sequence[GroupErrors],
    moments: Moments,
    fold_models: Sequence[AuditedModel] = (),
    folds: FoldMoments | None = None,
) -> list[InSampleStatus]:
    """Determine which models are in-sample; without folds, only exact matches are detected."""
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
    """Worst-case errors of a model fitted with the robust error gap.

    None if its radii do not cover the groups of the rows.
    """
    certificate = model.subspace.certificate
    criterion = None if certificate is None else certificate.criterion
    if not isinstance(criterion, RobustErrorGap):
        return None
    radius = criterion.radius
    if isinstance(radius, Mapping) and set(radius) != set(moments.labels):
        return None
    return tuple(worst_case_error(model.subspace, moments, radius=radius).values())


def _model_result(
    model: AuditedModel,
    model_errors: GroupErrors,
    moments: Moments,
    status: InSampleStatus,
    observed_errors: Sequence[Estimate],
    disparity: Estimate,
    estimates: ModelEstimates,
    kurtosis: FloatArray,
    no_estimates_reason: str | None,
    standard_errors: tuple[FloatArray, IntegerArray | int],
    options: EstimationOptions,
) -> ModelResult:
    low, high = widest_pair(model_errors.errors) if moments.n_groups > 1 else (0, 0)
    if no_estimates_reason is not None:
        estimates = _no_estimates(moments)
    labels = model_errors.group_labels
    first, second = estimates.disparity_pair
    expected_pair = (labels[first], labels[second]) if first != second else None
    certificate = model.subspace.certificate
    bound = None
    drift = [UNKNOWN] * moments.n_groups
    if not status.in_sample:
        bound = refit_bound(model.subspace, moments, model_errors.errors, options.materiality)
        drift = error_drift(
            model.subspace, moments, model_errors.errors, *standard_errors, options.level
        )
    return ModelResult(
        name=model.name,
        n_components=model.subspace.dimension,
        center=model.subspace.center,
        is_scaled=model.subspace.scale is not None,
        status=None if certificate is None else str(certificate.status),
        tol=None if certificate is None else certificate.tol,
        unresolved_reason=None if certificate is None else certificate.unresolved_reason,
        worst_case_errors=_worst_case_errors(model, moments),
        refit_bound=bound,
        gap=None if certificate is None else certificate.gap,
        is_pca=model.is_pca,
        in_sample=status.in_sample,
        in_sample_inferred=status.inferred,
        baseline=model.baseline,
        training_groups=model.training_groups,
        groups=tuple(
            GroupResult(
                group=label,
                n_rows=int(moments.counts[i]),
                proportion=float(moments.proportions[i]),
                observed_total_variance=float(model_errors.variances[i]),
                observed_error=observed_errors[i],
                observed_best_error=float(model_errors.best_errors[i]),
                observed_loss=float(model_errors.excess_losses[i]),
                observed_variance_kept=float(model_errors.variance_kept_ratios[i]),
                observed_kurtosis=float(kurtosis[i]),
                drift=drift[i],
                observed_rounding=float(model_errors.roundings[i]),
                **vars(estimates.groups[i]),
            )
            for i, label in enumerate(model_errors.group_labels)
        ),
        observed_disparity=disparity,
        disparity_pair=(labels[low], labels[high]),
        no_estimates_reason=no_estimates_reason,
        is_nested=model.subspace.is_nested,
        expected_disparity=estimates.disparity,
        expected_disparity_pair=expected_pair,
        instability=estimates.instability,
        min_cosine=estimates.min_cosine,
    )
