"""What models do to each group of some rows, or of moments instead of rows."""

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
from fairspan.rows.protocol import BaseRows, GroupLimit, Rows
from fairspan.typing import FloatArray, IntegerArray

NOT_A_PROJECTION = (
    "it is no projection, so its errors are those of the rows: how it was fitted is not known, and "
    "the best subspaces do not bound it"
)
_Expected = list[ModelEstimates]


def evaluate_on_rows(
    audited: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments | None,
    limit: GroupLimit,
    options: EstimationOptions,
) -> tuple[list[ModelResult], Moments, tuple[int, ...], FoldMoments | None]:
    """Judge models on rows, read twice: for moments, and for spreads.

    Models that are no projections are judged by the errors of the rows themselves. Of rows with
    missing cells, spreads are those of several tables in which these cells are drawn.

    Returns
    -------
    the models, and moments of all rows
    ordered : tuple of int
        Columns whose values all differ and only rise or only fall.
    folds : FoldMoments or None
        Moments by fold, where estimates for new rows were made.
    """
    projections = [each for each in audited if each.row_model is None]
    other_models = [each for each in audited if each.row_model is not None]
    if other_models and options.has_clusters:
        raise IncompatibleParameters(
            f"clusters was given, and the model {other_models[0].name} is no projection",
            "Allowed with clusters are projections, which are judged by fold",
            "Leave clusters out, or leave out that model",
        )
    if not projections:
        options = replace(options, folds=None)
    imputations: Sequence[Rows] = [rows]
    if isinstance(rows, BaseRows) and rows.keeps_missing:
        imputations, moments = impute_rows(rows, moments, limit, options)
    moments, folded_rows, why = read_moments(projections, imputations[0], moments, limit, options)
    results: list[ModelResult] = []
    ordered: tuple[int, ...] = ()
    if folded_rows is not None:
        judged = [_group_errors(each, moments) for each in projections]
        own = _in_sample_status(
            projections, judged, moments, folded_rows.audited, folded_rows.fold_moments
        )
        folded_rows = replace(folded_rows, audited=_with_no_refit_reasons(folded_rows.audited, own))
        here = [each.in_sample for each in own]
        folded_by_imputation = [folded_rows, *map(folded_rows.with_rows, imputations[1:])]
        found = [cross_fit_rows(each, judged, here) for each in folded_by_imputation]
        repeats = found[0] if len(found) == 1 else pool_runs(found)
        cross, statistics = repeats[0]
        subspaces = [each.subspace for each in folded_rows.audited]
        tests = [
            LossTest(subspaces, each.fold_moments, options.level, options.seed)
            for each in folded_by_imputation
        ]
        expected = _estimate_models(repeats, judged, options, tests)
        results = _results_from_rows(
            projections, judged, moments, own, statistics, expected, cross.refit_failures, options
        )
        results = _with_feature_errors(
            results, projections, moments, cross, folded_rows.fold_moments
        )
        if folded_rows.rows.n_features == moments.n_features:
            ordered = statistics.monotone_columns
    without_estimates = audited if folded_rows is None else other_models
    if without_estimates:
        judged = [_group_errors(each, moments) for each in without_estimates]
        statistics_by_imputation = [
            error_statistics(without_estimates, judged, table, moments, has_y=options.has_y)
            for table in imputations
        ]
        statistics = (
            statistics_by_imputation[0]
            if len(imputations) == 1
            else pool_statistics(statistics_by_imputation)
        )
        no_estimates_reasons = {
            each.name: why if each.row_model is None else NOT_A_PROJECTION
            for each in without_estimates
        }
        expected = [_no_estimates(moments)] * len(without_estimates)
        own = _in_sample_status(without_estimates, judged, moments)
        further_results = _results_from_rows(
            without_estimates,
            judged,
            moments,
            own,
            statistics,
            expected,
            no_estimates_reasons,
            options,
        )
        results += _with_feature_errors(further_results, without_estimates, moments)
        if folded_rows is None and projections:
            ordered = statistics.monotone_columns
    position_by_name = {each.name: place for place, each in enumerate(audited)}
    results.sort(key=lambda model: position_by_name[model.name])
    return results, moments, ordered, None if folded_rows is None else folded_rows.fold_moments


def _results_from_rows(
    audited: Sequence[AuditedModel],
    judged: Sequence[GroupErrors],
    moments: Moments,
    own: Sequence[InSampleStatus],
    statistics: RowStatistics,
    expected: _Expected,
    no_estimates_reasons: Mapping[str, str | None],
    options: EstimationOptions,
) -> list[ModelResult]:
    """Figures of moments, with the intervals that one more pass over the rows gave."""
    results = []
    for i, (each, figures) in enumerate(zip(audited, judged, strict=True)):
        if each.row_model is not None:
            figures = replace(figures, errors=statistics.means[i, 0])
        counts = statistics.df[i, 0] + 1
        statistics_of_errors = (
            figures.errors,
            statistics.standard_errors[i, 0],
            counts,
            options.level,
        )
        results.append(
            _model_result(
                each,
                figures,
                moments,
                own[i],
                error_estimates(*statistics_of_errors),
                disparity_estimate(*statistics_of_errors),
                expected[i],
                np.nan_to_num(statistics.kurtosis[i, 0]),
                no_estimates_reasons.get(each.name),
                (statistics.standard_errors[i, 0], statistics.n_independent - 1),
                options,
            )
        )
    return results


def evaluate_on_moments(
    audited: Sequence[AuditedModel],
    pooled: GroupMoments,
    blocks: Sequence[GroupMoments],
    options: EstimationOptions,
) -> list[ModelResult]:
    """Judge models on moments alone; two or more blocks give jackknife intervals.

    Raises
    ------
    Incompatible
        A model that is no projection, whose errors moments do not tell.
    """
    for each in audited:
        if each.row_model is not None:
            raise IncompatibleParameters(
                f"The model {each.name} is no projection, and moments were given",
                "Allowed beside moments are projections, whose errors moments tell",
                "Pass rows: X and sensitive_features",
            )
    judged = [_group_errors(each, pooled) for each in audited]
    expected = [_no_estimates(pooled)] * len(audited)
    failures: dict[str, str] = {}
    own = _in_sample_status(audited, judged, pooled)
    if len(blocks) > 1 and options.folds is not None:
        expected, failures, own = _estimate_from_blocks(audited, judged, blocks, options)
    results: list[ModelResult] = []
    for each, figures, groups, known in zip(audited, judged, expected, own, strict=True):
        errors = [Estimate(error) for error in figures.errors.tolist()]
        difference = Estimate(signed_disparity(figures.errors))
        standard_errors = np.full(pooled.n_groups, np.nan)
        if len(blocks) > 1:
            errors, difference, standard_errors = _jackknife_errors(
                each, figures, pooled, blocks, options.level
            )
        no_kurtosis, why = np.zeros(pooled.n_groups), failures.get(each.name)
        results.append(
            _model_result(
                each,
                figures,
                pooled,
                known,
                errors,
                difference,
                groups,
                no_kurtosis,
                why,
                (standard_errors, len(blocks) - 1),
                options,
            )
        )
    # Of a model that was fitted on the blocks, only folds of rows tell which features lose.
    return _with_feature_errors(results, audited, pooled)


def _with_feature_errors(
    results: Sequence[ModelResult],
    audited: Sequence[AuditedModel],
    moments: Moments,
    cross: CrossFit | None = None,
    folds: FoldMoments | None = None,
) -> list[ModelResult]:
    """The same with the errors by feature."""
    found = []
    for i, (result, each) in enumerate(zip(results, audited, strict=True)):
        by_fold = () if cross is None else cross.models[i].refits
        is_known = np.array([group.is_estimated for group in result.groups])
        if result.in_sample and not by_fold:
            is_known[:] = False
        errors = compute_feature_errors(each, moments, is_known, by_fold, folds)
        found.append(replace(result, feature_errors=errors))
    return found


def estimate_from_folds(
    audited: Sequence[AuditedModel], folds: DenseFoldMoments, options: EstimationOptions
) -> list[ModelEstimates]:
    """Estimates for each model and group from moments by fold alone, with no pass over rows.

    Intervals are computed from the differences between folds: they are wider than those of an
    audit of the rows.
    """
    judged = [_group_errors(each, folds.total) for each in audited]
    return _estimate_from_blocks(
        audited, judged, [part for part in folds.by_fold if part is not None], options
    )[0]


def _estimate_from_blocks(
    audited: Sequence[AuditedModel],
    judged: Sequence[GroupErrors],
    blocks: Sequence[GroupMoments],
    options: EstimationOptions,
) -> tuple[_Expected, dict[str, str], list[InSampleStatus]]:
    """Estimates with blocks in place of folds, why some models have none, and what is their own."""
    folds = DenseFoldMoments(tuple(blocks))
    own = _in_sample_status(audited, judged, folds.total, audited, folds)
    here = [each.in_sample for each in own]
    too_few_blocks = len(blocks) < MIN_FOLDS
    cross = cross_fit(
        _with_no_refit_reasons(audited, own),
        [each.errors for each in judged],
        [fitted and not too_few_blocks for fitted in here],
        folds,
        len(blocks),
    )
    statistics = block_statistics(cross, folds.total.labels, blocks)
    failures = dict(cross.refit_failures)
    if too_few_blocks:
        are = "1 block is" if len(blocks) == 1 else f"{len(blocks)} blocks are"
        why = f"{are} too few to fit it again without each"
        failures |= {each.name: why for each, fitted in zip(audited, here, strict=True) if fitted}
    test = LossTest([each.subspace for each in audited], folds, options.level, options.seed)
    return _estimate_models([(cross, statistics)], judged, options, [test]), failures, own


def _estimate_models(
    repeats: Sequence[tuple[CrossFit, RowStatistics]],
    judged: Sequence[GroupErrors],
    options: EstimationOptions,
    tests: Sequence[LossTest],
) -> _Expected:
    return estimate_models(
        repeats,
        [each.best_errors for each in judged],
        [each.variances for each in judged],
        [each.roundings for each in judged],
        options,
        # What is shown whatever the missing cells are.
        lambda model, group: all(test.is_significant(model, group) for test in tests),
    )


def _jackknife_errors(
    each: AuditedModel,
    figures: GroupErrors,
    pooled: GroupMoments,
    blocks: Sequence[GroupMoments],
    level: float,
) -> tuple[list[Estimate], Estimate, FloatArray]:
    """Errors and disparity with their intervals, and the standard errors of the errors."""
    leave_one_out = leave_one_block_out_errors(blocks, pooled, each.subspace)
    standard_errors = jackknife_standard_error(leave_one_out)
    errors = [
        jackknife_estimate(value, column.tolist(), level=level).clipped_at_zero()
        for value, column in zip(figures.errors.tolist(), leave_one_out.T, strict=True)
    ]
    low, high = widest_pair(figures.errors)
    pairs = pooled.n_groups * (pooled.n_groups - 1) // 2
    difference = signed_disparity(figures.errors)
    if pooled.n_groups == 1:
        return errors, Estimate(difference), standard_errors
    differences = (leave_one_out[:, high] - leave_one_out[:, low]).tolist()
    return errors, jackknife_estimate(difference, differences, pairs, level), standard_errors


def _in_sample_status(
    audited: Sequence[AuditedModel],
    judged: Sequence[GroupErrors],
    moments: Moments,
    in_folds: Sequence[AuditedModel] = (),
    folds: FoldMoments | None = None,
) -> list[InSampleStatus]:
    """Which models were fitted on these rows; without folds, on exactly these."""
    is_exact_match = [
        each.was_fitted_on(moments, figures.errors)
        for each, figures in zip(audited, judged, strict=True)
    ]
    if folds is None or all(is_exact_match):
        return [
            InSampleStatus(is_so, no_refit_reason=each.no_refit_reason)
            for each, is_so in zip(audited, is_exact_match, strict=True)
        ]
    return detect_in_sample(audited, is_exact_match, in_folds, folds)


def _with_no_refit_reasons(
    audited: Sequence[AuditedModel], own: Sequence[InSampleStatus]
) -> list[AuditedModel]:
    """The models with why they cannot be fitted again, where that is so."""
    return [
        replace(each, no_refit_reason=known.no_refit_reason)
        for each, known in zip(audited, own, strict=True)
    ]


def _group_errors(each: AuditedModel, moments: Moments) -> GroupErrors:
    each.check_groups(moments.labels)
    return group_errors(each.subspace, moments)


def _no_estimates(moments: Moments) -> ModelEstimates:
    return ModelEstimates([GroupEstimates()] * moments.n_groups)


def _worst_case_errors(each: AuditedModel, moments: Moments) -> tuple[float, ...] | None:
    """Of a model by the robust error gap, where its radii are known for the groups of the rows."""
    certificate = each.subspace.certificate
    criterion = None if certificate is None else certificate.criterion
    if not isinstance(criterion, RobustErrorGap):
        return None
    radius = criterion.radius
    if isinstance(radius, Mapping) and set(radius) != set(moments.labels):
        return None
    return tuple(worst_case_error(each.subspace, moments, radius=radius).values())


def _model_result(
    each: AuditedModel,
    figures: GroupErrors,
    moments: Moments,
    own: InSampleStatus,
    errors: Sequence[Estimate],
    disparity: Estimate,
    expected: ModelEstimates,
    kurtosis: FloatArray,
    why: str | None,
    standard_errors: tuple[FloatArray, IntegerArray | int],
    options: EstimationOptions,
) -> ModelResult:
    low, high = widest_pair(figures.errors) if moments.n_groups > 1 else (0, 0)
    if why is not None:
        expected = _no_estimates(moments)
    first, second = expected.disparity_pair
    certificate, here = each.subspace.certificate, None
    drift = [UNKNOWN] * moments.n_groups
    if not own.in_sample:
        here = refit_bound(each.subspace, moments, figures.errors, options.materiality)
        drift = error_drift(each.subspace, moments, figures.errors, *standard_errors, options.level)
    return ModelResult(
        name=each.name,
        n_components=each.subspace.dimension,
        center=each.subspace.center,
        is_scaled=each.subspace.scale is not None,
        status=None if certificate is None else str(certificate.status),
        tol=None if certificate is None else certificate.tol,
        unresolved_reason=None if certificate is None else certificate.unresolved_reason,
        worst_case_errors=_worst_case_errors(each, moments),
        refit_bound=here,
        gap=None if certificate is None else certificate.gap,
        is_pca=each.is_pca,
        in_sample=own.in_sample,
        in_sample_inferred=own.inferred,
        baseline=each.baseline,
        training_groups=each.training_groups,
        groups=tuple(
            GroupResult(
                group=label,
                n_rows=int(moments.counts[i]),
                proportion=float(moments.proportions[i]),
                observed_total_variance=float(figures.variances[i]),
                observed_error=errors[i],
                observed_best_error=float(figures.best_errors[i]),
                observed_loss=float(figures.excess_losses[i]),
                observed_variance_kept=float(figures.variance_kept_ratios[i]),
                observed_kurtosis=float(kurtosis[i]),
                drift=drift[i],
                observed_rounding=float(figures.roundings[i]),
                **vars(expected.groups[i]),
            )
            for i, label in enumerate(figures.group_labels)
        ),
        observed_disparity=disparity,
        disparity_pair=(figures.group_labels[low], figures.group_labels[high]),
        no_estimates_reason=why,
        is_nested=each.subspace.is_nested,
        expected_disparity=expected.disparity,
        expected_disparity_pair=(figures.group_labels[first], figures.group_labels[second])
        if first != second
        else None,
        instability=expected.instability,
        min_cosine=expected.min_cosine,
    )
