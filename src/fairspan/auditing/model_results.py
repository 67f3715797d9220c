"""Combination of the figures of a model, observed and expected, into its results."""

from collections.abc import Mapping, Sequence

import numpy as np

from fairspan.auditing.estimates import GroupEstimates, ModelEstimates
from fairspan.auditing.estimation_options import EstimationOptions
from fairspan.auditing.feature_errors import ModelByFold, compute_feature_errors
from fairspan.auditing.intervals import UNKNOWN, Estimate, widest_pair
from fairspan.auditing.models import AuditedModel, model_name
from fairspan.auditing.observed_errors import ErrorIntervals, ObservedModel
from fairspan.auditing.rank_bounds import summarize_rank_bound
from fairspan.auditing.refit_bound import error_drift, refit_bound
from fairspan.auditing.refitting import NoRefit
from fairspan.auditing.results import (
    CertificateSummary,
    DisparityEstimates,
    GroupResult,
    ModelDescription,
    ModelResult,
    RefitSensitivity,
)
from fairspan.certificates.certificate import Certificate
from fairspan.metrics import GroupErrors, worst_case_error
from fairspan.moments.compute import Moments
from fairspan.problem.criteria.error_gap import RobustErrorGap
from fairspan.rows.aggregation import Rows
from fairspan.rows.labels import Label
from fairspan.typing import BoolArray


def no_estimates(moments: Moments) -> ModelEstimates:
    """Return the estimates of a model for which nothing is known of new rows."""
    return ModelEstimates([GroupEstimates()] * moments.n_groups)


def model_result(
    observed: ObservedModel,
    moments: Moments,
    intervals: ErrorIntervals,
    estimates: ModelEstimates,
    no_refit: NoRefit | None,
    options: EstimationOptions,
    by_fold: ModelByFold | None = None,
    rows: Rows | None = None,
) -> ModelResult:
    """Combine all figures of one model.

    A model that was fitted to other rows also gets a bound on how far a refit to these rows could
    lower its criterion, and the drift of its errors since the fit.

    Parameters
    ----------
    observed : ObservedModel
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the audited rows.
    intervals : ErrorIntervals
        Errors on these rows, with intervals.
    estimates : ModelEstimates
        Estimates for new rows.
    no_refit : NoRefit or None
        Why there are none; it overrides the estimates.
    options : EstimationOptions
    by_fold : ModelByFold, optional
        What was found without each fold, from which errors by feature on new rows come.
    rows : Rows, optional
        The audited rows, to check whether the decoder of a model that is no projection is linear.
    """
    if no_refit is not None:
        estimates = no_estimates(moments)
    model = observed.model
    errors = observed.errors
    bound = None
    drift = [UNKNOWN] * moments.n_groups
    if not observed.status.in_sample:
        bound = refit_bound(
            model.subspace,
            moments,
            errors.errors,
            intervals.standard_errors,
            options.materiality,
        )
        drift = error_drift(
            model.subspace,
            moments,
            errors.errors,
            intervals,
            options.level,
        )
    return ModelResult(
        description=_describe_model(observed),
        groups=_group_results(errors, moments, intervals, estimates, drift),
        disparity=DisparityEstimates(
            observed=intervals.disparity,
            observed_pair=_observed_pair(errors),
            expected=estimates.disparity,
            expected_pair=_expected_pair(errors.group_labels, estimates),
        ),
        certificate=_summarize_certificate(model.subspace.certificate),
        sensitivity=RefitSensitivity(estimates.instability, estimates.min_cosine),
        no_estimates_reason=None if no_refit is None else no_refit.reason,
        has_failed_refit=no_refit is not None and no_refit.was_tried,
        worst_case_errors=_worst_case_errors(model, moments),
        refit_bound=bound,
        rank_bound=summarize_rank_bound(model, moments, errors, rows),
        feature_errors=compute_feature_errors(
            model, moments, _has_feature_estimates(observed, estimates, by_fold), by_fold
        ),
    )


def _describe_model(observed: ObservedModel) -> ModelDescription:
    model = observed.model
    return ModelDescription(
        name=model.name,
        n_components=model.subspace.dimension,
        center=model.subspace.center,
        is_scaled=model.subspace.is_scaled,
        is_pca=model.is_pca,
        in_sample=observed.status.in_sample,
        baseline=model.baseline,
        training_groups=model.training_groups,
        is_nested=model.subspace.is_nested,
        in_sample_inferred=observed.status.inferred,
        favors_equal_errors=model.favors_equal_errors,
        problem=_problem_of(model),
    )


def _has_feature_estimates(
    observed: ObservedModel, estimates: ModelEstimates, by_fold: ModelByFold | None
) -> BoolArray:
    """Whether errors by feature on new rows are estimated, for each group, (k,).

    Nothing is known of an in-sample model on new rows without refits.
    """
    has_refits = by_fold is not None and len(by_fold.refits) > 0
    if observed.status.in_sample and not has_refits:
        return np.zeros(len(estimates.groups), dtype=bool)
    return np.array([group.is_estimated for group in estimates.groups], dtype=bool)


def _observed_pair(errors: GroupErrors) -> tuple[Label, Label]:
    """Labels of the groups whose difference in error is the observed disparity."""
    labels = errors.group_labels
    if len(labels) == 1:
        return labels[0], labels[0]
    low, high = widest_pair(errors.errors)
    return labels[low], labels[high]


def _expected_pair(
    labels: Sequence[Label], estimates: ModelEstimates
) -> tuple[Label, Label] | None:
    """Labels of the groups whose difference in expected error is the expected disparity.

    None if fewer than two groups have estimates, for which a pair of equal groups stands.
    """
    first, second = estimates.disparity_pair
    if first == second:
        return None
    return labels[first], labels[second]


def _problem_of(model: AuditedModel) -> str | None:
    """Problem that a fair model solves, in words; None for other models."""
    certificate = model.subspace.certificate
    if certificate is None or model.is_pca:
        return None
    return model_name(certificate)


def _summarize_certificate(certificate: Certificate | None) -> CertificateSummary:
    """Return the figures of a certificate that results have."""
    if certificate is None:
        return CertificateSummary()
    return CertificateSummary(
        status=str(certificate.status),
        tol=certificate.tol,
        gap=certificate.gap,
        unresolved_reason=certificate.unresolved_reason,
        scaling_helps=certificate.scaling_helps,
    )


def _group_results(
    model_errors: GroupErrors,
    moments: Moments,
    intervals: ErrorIntervals,
    estimates: ModelEstimates,
    drift: Sequence[Estimate],
) -> tuple[GroupResult, ...]:
    """Combine the figures of one model by group.

    `drift` has the change in error of each group since the fit; `estimates` has a record per group
    with the figures for new rows, which the results have under the same names.
    """
    return tuple(
        GroupResult(
            group=label,
            n_rows=int(moments.counts[i]),
            proportion=float(moments.proportions[i]),
            observed_total_variance=float(model_errors.variances[i]),
            observed_error=intervals.errors[i],
            observed_best_error=float(model_errors.best_errors[i]),
            observed_loss=float(model_errors.excess_losses[i]),
            observed_variance_kept=float(model_errors.variance_kept_ratios[i]),
            observed_kurtosis=float(intervals.kurtosis[i]),
            drift=drift[i],
            observed_rounding=float(model_errors.roundings[i]),
            largest_row=intervals.largest_rows.get(i),
            **vars(estimates.groups[i]),
        )
        for i, label in enumerate(model_errors.group_labels)
    )


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
