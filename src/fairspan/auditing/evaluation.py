"""Evaluation of models by group, on rows or on moments.

An evaluation has the first three stages of an audit: moments by fold, refits without each fold, and
estimates for new rows. Findings and verdicts follow from its results.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.auditing.block_statistics import block_statistics
from fairspan.auditing.cross_fit_run import CrossFitRun, RepeatedCrossFit
from fairspan.auditing.cross_fitting import Quantity, cross_fit
from fairspan.auditing.estimates import ModelEstimates
from fairspan.auditing.estimation_options import EstimationOptions
from fairspan.auditing.expected_losses import estimate_models
from fairspan.auditing.feature_errors import ModelByFold
from fairspan.auditing.fold_statistics import (
    FirstPass,
    FoldedRows,
    cross_fit_rows,
    cross_fit_with_new_folds,
    error_statistics,
    read_moments,
)
from fairspan.auditing.imputation import impute_rows, pool_statistics
from fairspan.auditing.loss_test import LossTest
from fairspan.auditing.model_results import model_result, no_estimates
from fairspan.auditing.models import AuditedModel
from fairspan.auditing.observed_errors import (
    ErrorIntervals,
    ObservedModel,
    observe_models,
    with_no_refit_reasons,
)
from fairspan.auditing.refitting import NoRefit
from fairspan.auditing.results import ModelResult
from fairspan.auditing.row_statistics import RowStatistics
from fairspan.errors import IncompatibleParameters
from fairspan.metrics import GroupErrors
from fairspan.moments.compute import Moments
from fairspan.moments.fold_moments import MIN_FOLDS, DenseFoldMoments, FoldMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.rows.aggregation import Rows
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.protocol import row_metadata

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
    monotone_columns: tuple[int, ...] = ()
    folds: FoldMoments | None = None


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
    # Without missing cells, the only copy has none to complete; otherwise folds are fitted by EM.
    folded_rows = imputations[0] if len(imputations) == 1 else rows
    first_pass = read_moments(projections, folded_rows, moments, limit, options)
    if first_pass.folded_rows is None:
        # No estimates were requested, or there is no memory for moments by fold.
        evaluation = _evaluate_without_folds(models, first_pass, imputations, options)
        # Monotone columns are reported only if there is a projection.
        if not projections:
            evaluation = replace(evaluation, monotone_columns=())
        return evaluation
    evaluation = _evaluate_with_folds(
        projections, first_pass.moments, first_pass.folded_rows, imputations, options
    )
    if other_models:
        others = _evaluate_without_folds(other_models, first_pass, imputations, options)
        results = {result.name: result for result in (*evaluation.results, *others.results)}
        evaluation = replace(evaluation, results=[results[model.name] for model in models])
    return evaluation


def _evaluate_with_folds(
    models: Sequence[AuditedModel],
    moments: Moments,
    folded_rows: FoldedRows,
    imputations: Sequence[Rows],
    options: EstimationOptions,
) -> Evaluation:
    """Evaluate projections with estimates for new rows.

    Parameters
    ----------
    models : sequence of AuditedModel
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of all rows.
    folded_rows : FoldedRows
        The rows by fold, with the models in their coordinates: those of the features, or of the
        span of the rows if these are fewer.
    imputations : sequence of Rows
        Copies of the rows with imputed cells, or the rows alone if no cell is missing.
    options : EstimationOptions
    """
    folds = folded_rows.fold_moments
    observed = observe_models(models, moments, folded_rows.models, folds)
    model_errors = [item.errors for item in observed]
    folded_rows = replace(folded_rows, models=with_no_refit_reasons(folded_rows.models, observed))
    if len(imputations) == 1:
        # The rows alone, in the coordinates of the folds.
        imputations = [folded_rows.rows]
    in_sample = [item.status.in_sample for item in observed]
    cross_fit = cross_fit_repeatedly(folded_rows, imputations, model_errors, in_sample)
    run = cross_fit.first
    # Rows in coordinates of their span have other columns than the table.
    statistics = run.statistics
    if folded_rows.rows.n_features != moments.n_features:
        statistics = statistics.without_columns()
    subspaces = [model.subspace for model in folded_rows.models]
    loss_test = LossTest(subspaces, folds, options.level, options.seed, run.statistics.kept_rows)
    estimates = estimate_models(cross_fit, model_errors, loss_test, options)
    results = [
        model_result(
            item,
            moments,
            _row_intervals(item, statistics, i, options.level),
            estimates[i],
            no_refit=run.fit.without_refits.get(item.model.name),
            options=options,
            by_fold=run.fit.model_by_fold(i, folds),
        )
        for i, item in enumerate(observed)
    ]
    return Evaluation(results, moments, statistics.monotone_columns, folds)


def cross_fit_repeatedly(
    folded_rows: FoldedRows,
    imputations: Sequence[Rows],
    model_errors: Sequence[GroupErrors],
    in_sample: Sequence[bool],
) -> RepeatedCrossFit:
    """Cross-fit models, and those for which a best error depends on the folds under further ones.

    Parameters
    ----------
    folded_rows : FoldedRows
    imputations : sequence of Rows
    model_errors : sequence of m GroupErrors
        Errors of each model on all rows.
    in_sample : sequence of m bool
        Models to refit without each fold.
    """
    first = cross_fit_rows(folded_rows, imputations, model_errors, in_sample)
    unstable_models = np.flatnonzero(first.has_unstable_best_error(model_errors).any(axis=1))
    if not len(unstable_models):
        return RepeatedCrossFit(first)
    indices = unstable_models.tolist()
    further = cross_fit_with_new_folds(
        replace(folded_rows, models=[folded_rows.models[i] for i in indices]),
        [model_errors[i] for i in indices],
    )
    return RepeatedCrossFit(first, unstable_models, further)


def _evaluate_without_folds(
    models: Sequence[AuditedModel],
    first_pass: FirstPass,
    imputations: Sequence[Rows],
    options: EstimationOptions,
) -> Evaluation:
    """Evaluate models without estimates for new rows.

    `first_pass` has the reason why there are none for projections, or None if they were not
    requested. Other models never have estimates, for a reason of their own.
    """
    moments = first_pass.moments
    observed = observe_models(models, moments)
    statistics_by_imputation = [
        error_statistics(models, [item.errors for item in observed], rows, moments)
        for rows in imputations
    ]
    statistics = statistics_by_imputation[0]
    if len(imputations) > 1:
        statistics = pool_statistics(statistics_by_imputation)
    observed = [_with_row_errors(item, statistics, i) for i, item in enumerate(observed)]
    # Errors of imputed rows vary from copy to copy, and no moments are those of all copies.
    complete_rows = imputations[0] if len(imputations) == 1 else None
    results = []
    for i, item in enumerate(observed):
        reason = first_pass.no_estimates_reason
        if item.model.row_model is not None:
            reason = NOT_A_PROJECTION
        results.append(
            model_result(
                item,
                moments,
                _row_intervals(item, statistics, i, options.level),
                no_estimates(moments),
                None if reason is None else NoRefit(reason),
                options,
                rows=complete_rows,
            )
        )
    return Evaluation(results, moments, statistics.monotone_columns)


def _with_row_errors(observed: ObservedModel, statistics: RowStatistics, i: int) -> ObservedModel:
    """Return model `i` with errors from a pass over the rows, unless it is a projection.

    The errors of a projection follow from moments.
    """
    if observed.model.row_model is None:
        return observed
    row_errors = replace(observed.errors, errors=statistics.means[i, Quantity.ERROR])
    return replace(observed, errors=row_errors)


def _row_intervals(
    observed: ObservedModel, statistics: RowStatistics, i: int, level: float
) -> ErrorIntervals:
    """Return the errors of model `i` on the rows, with intervals from the second pass over them."""
    intervals = ErrorIntervals.student(
        observed.errors.errors,
        statistics.standard_errors[i, Quantity.ERROR],
        statistics.df[i, Quantity.ERROR],
        statistics.kurtosis[i, Quantity.ERROR],
        level,
    )
    largest_rows = {
        key.group: row for key, row in statistics.largest_rows.items() if key.model == i
    }
    return replace(intervals, largest_rows=largest_rows)


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
    if len(blocks) > 1 and options.folds is not None:
        expected = _estimate_from_blocks(models, DenseFoldMoments(tuple(blocks)), options)
    else:
        expected = _BlockEstimates(
            observed=observe_models(models, pooled),
            estimates=[no_estimates(pooled)] * len(models),
            without_refits={},
            by_fold=[ModelByFold()] * len(models),
        )
    results: list[ModelResult] = []
    for item, estimates, by_fold in zip(
        expected.observed, expected.estimates, expected.by_fold, strict=True
    ):
        intervals = ErrorIntervals.unknown(item.errors.errors)
        if len(blocks) > 1:
            intervals = ErrorIntervals.jackknife(item, pooled, blocks, options.level)
        no_refit = expected.without_refits.get(item.model.name)
        results.append(model_result(item, pooled, intervals, estimates, no_refit, options, by_fold))
    return results


def estimate_from_folds(
    models: Sequence[AuditedModel], folds: DenseFoldMoments, options: EstimationOptions
) -> list[ModelEstimates]:
    """Estimate each model and group from moments by fold, without a pass over rows.

    Intervals come from the variation between folds and are wider than those of an audit on rows.
    """
    return _estimate_from_blocks(models, folds.without_empty_folds(), options).estimates


@dataclass(frozen=True, eq=False)
class _BlockEstimates:
    """Models evaluated on blocks of moments.

    Attributes
    ----------
    observed : list of ObservedModel
    estimates : list of ModelEstimates
        Estimates for new rows of each model.
    without_refits : mapping of str to NoRefit
        Why a model has no estimates, by model name.
    by_fold : list of ModelByFold
        Each model without each block.
    """

    observed: list[ObservedModel]
    estimates: list[ModelEstimates]
    without_refits: Mapping[str, NoRefit]
    by_fold: list[ModelByFold]


def _estimate_from_blocks(
    models: Sequence[AuditedModel], folds: DenseFoldMoments, options: EstimationOptions
) -> _BlockEstimates:
    """Estimate each model and group for new rows, with two or more blocks of moments as folds.

    No block may be empty. With too few blocks, in-sample models are not refitted, and the
    `without_refits` of the result name them, with the reason.
    """
    blocks = folds.by_fold
    observed = observe_models(models, folds.total, models, folds)
    model_errors = [item.errors for item in observed]
    in_sample = [item.status.in_sample for item in observed]
    # With few blocks, the others are too small a training set.
    too_few_blocks = len(blocks) < MIN_FOLDS
    fit = cross_fit(
        with_no_refit_reasons(models, observed),
        [errors.errors for errors in model_errors],
        [is_in_sample and not too_few_blocks for is_in_sample in in_sample],
        folds,
        len(blocks),
    )
    run = CrossFitRun(fit, block_statistics(fit, folds.total.labels, blocks))
    without_refits = dict(fit.without_refits)
    if too_few_blocks:
        too_few = NoRefit(f"{len(blocks)} blocks are too few for refitting it without each")
        without_refits |= {model.name: too_few for model in itertools.compress(models, in_sample)}
    loss_test = LossTest([model.subspace for model in models], folds, options.level, options.seed)
    estimates = estimate_models(RepeatedCrossFit(run), model_errors, loss_test, options)
    by_fold = [fit.model_by_fold(i, folds) for i in range(len(models))]
    return _BlockEstimates(observed, estimates, without_refits, by_fold)
