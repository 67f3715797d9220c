"""Compare what a model says of its data, its components and itself with recomputed values."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.eigensolver import Eigensolver
from fairspan.certificates.error_rounding import measure_errors
from fairspan.certificates.evaluate_solution import unresolved_reason
from fairspan.certificates.status import UnresolvedReason
from fairspan.linalg.rounding import AGREEMENT_TOL, EPS, FIGURE_ROUNDING, RANK_TERMS
from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import Moments
from fairspan.moments.normal_model import NormalModel
from fairspan.moments.row_axes import MAX_ORTHOGONALITY_DEFECT
from fairspan.problem.disparity import signed_disparity
from fairspan.problem.problem import Problem
from fairspan.rows.labels import label_array
from fairspan.typing import AnyArray, FloatArray, ModelLike
from fairspan.verification.model_evaluation import Evaluation
from fairspan.verification.tolerances import (
    ROUNDING_FACTOR,
    Allowances,
    cap_tolerance,
    error_magnitude,
    rounding_cap,
)
from fairspan.verification.verified_data import distance_from_em_limit


class Comparison(NamedTuple):
    """A value that a model claims, beside the one recomputed from the data or stored elsewhere.

    Attributes
    ----------
    recomputed, claimed : scalar or array
    tol : scalar or array, optional
        Largest difference allowed of numbers; None for texts, labels and objects, which must be
        equal.
    """

    recomputed: object
    claimed: object
    tol: object = None


Comparisons = dict[str, Comparison]


def data_comparisons(
    evaluation: Evaluation, component_rounding: FloatArray, allowances: Allowances
) -> Comparisons:
    """Collect what a model says of its rows, errors and unresolved gaps, for :func:`mismatches`.

    Parameters
    ----------
    evaluation : Evaluation
    component_rounding : (k, r) array
        Error bound of the variances that each component keeps of each group, due to rounding and
        the EM algorithm.
    allowances : Allowances

    Returns
    -------
    dict of name to Comparison
    """
    subspace = evaluation.subspace
    moments = evaluation.moments
    certificate = subspace.require_certificate()
    proportions = evaluation.unrestricted.proportions
    errors = evaluation.errors
    losses = np.maximum(errors - evaluation.unrestricted.best_errors, 0.0)
    em_rounding = evaluation.em_rounding(allowances)
    error_tol, loss_tol = _error_and_loss_tolerances(
        evaluation, losses, em_rounding, is_capped=allowances.is_capped
    )
    total_variance_tol = AGREEMENT_TOL * evaluation.unrestricted.total_variance
    total_variance_tol += float(proportions @ em_rounding)
    # Without missing cells both distances are zero. The second also allows for a run of the fit
    # that ended earlier, which may explain failures but must not hide them at first.
    em_distance = evaluation.em_distance
    if allowances.is_converged:
        em_distance = distance_from_em_limit(moments)
    comparisons = {
        **_row_comparisons(
            subspace,
            certificate,
            moments,
            pooled=proportions @ evaluation.variances_kept,
            rounding=proportions @ component_rounding,
            em_distance=em_distance,
        ),
        "errors": Comparison(errors, certificate.errors, AGREEMENT_TOL * errors + error_tol),
        "total_variance": Comparison(
            evaluation.recomputed.total_variance,
            certificate.total_variance,
            total_variance_tol,
        ),
        "losses": Comparison(losses, certificate.losses, AGREEMENT_TOL * losses + loss_tol),
    }
    if allowances.is_converged:
        # A reason may depend on where the EM algorithm ended.
        comparisons |= _reason_comparisons(evaluation, certificate)
    return comparisons


def _reason_comparisons(evaluation: Evaluation, certificate: Certificate) -> Comparisons:
    """Collect why the gaps of a certificate and its nested steps are unresolved."""
    certificates = (certificate, *certificate.steps)
    reasons = [_recomputed_reason(evaluation, claimed) for claimed in certificates]
    return {
        "unresolved_reason": Comparison(
            [None if reason is None else reason.text for reason in reasons],
            [claimed.unresolved_reason for claimed in certificates],
        ),
        "scaling_helps": Comparison(
            [reason is not None and reason.scaling_helps for reason in reasons],
            [claimed.scaling_helps for claimed in certificates],
        ),
    }


def _error_and_loss_tolerances(
    evaluation: Evaluation, losses: FloatArray, em_rounding: FloatArray, *, is_capped: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the (k,) allowances for rounding of the errors, and those of the excess losses."""
    errors = evaluation.errors
    # Rounding of the errors and of the allowed directions (which acts like a rotation of the
    # subspace), and the end of the EM algorithm.
    error_tol = (
        ROUNDING_FACTOR * measure_errors(evaluation.reduction.problem, evaluation.basis).rounding
        + evaluation.rotation_effect
        + em_rounding
    )
    # An excess loss is the error minus the best error of the group. Both are rounded, and best
    # errors found in a search subspace are less accurate, by `optima_tol`.
    loss_tol = 2 * error_tol + evaluation.optima_tol
    if not is_capped:
        return error_tol, loss_tol
    # Largest error or, if all may be zero, the variance beside which they are small. Errors that
    # are small beside the objective, such as a variance kept, may be zero as well.
    magnitude = max(
        error_magnitude(evaluation.unrestricted, errors, float(error_tol.max())),
        evaluation.recomputed.scale,
    )
    max_relative_tol = rounding_cap(evaluation.subspace.require_certificate())
    # A loss is a difference of errors, whose last digits no fit resolves, however small it is. In
    # row coordinates, errors are as inexact as their axes are orthonormal.
    error_digits = EPS * RANK_TERMS
    if Eigensolver.THIN in evaluation.eigensolvers:
        error_digits = MAX_ORTHOGONALITY_DEFECT
    last_digits = np.minimum(loss_tol, error_digits * errors)
    # Best errors found in a search subspace are inexact by a fraction of the variance, which may be
    # much larger than all errors.
    optimum_digits = np.minimum(evaluation.optima_tol, max_relative_tol * errors)
    capped_loss_tol = cap_tolerance(loss_tol, losses, magnitude, max_relative_tol)
    return (
        cap_tolerance(error_tol, errors, magnitude, max_relative_tol),
        np.maximum(capped_loss_tol, last_digits + optimum_digits),
    )


def _recomputed_reason(evaluation: Evaluation, claimed: Certificate) -> UnresolvedReason | None:
    """Reason why a gap is unresolved, recomputed for the certificate of a model or nested step."""
    return unresolved_reason(
        claimed,
        _with_n_components(evaluation.unrestricted, claimed.n_components),
        evaluation.moments,
        claimed.center,
        is_scaled=evaluation.subspace.is_scaled,
    )


def _with_n_components(problem: Problem, n_components: int) -> Problem:
    """Return the problem for another number of components, with its caches if that is the same."""
    if n_components == problem.n_components:
        return problem
    return replace(problem, n_components=n_components)


def mismatches(comparisons: Comparisons) -> Iterator[str]:
    """Yield a message for each claim that differs from the recomputed value."""
    for name, comparison in comparisons.items():
        recomputed = np.asarray(comparison.recomputed)
        claimed = np.asarray(comparison.claimed)
        tol = comparison.tol
        if recomputed.shape != claimed.shape:
            agrees = False
        elif tol is None or recomputed.dtype == object:
            # Objects, such as None and labels, have no tolerance.
            agrees = bool((recomputed == claimed).all())
        else:
            agrees = bool((np.abs(recomputed - claimed) <= tol).all())
        if not agrees:
            yield (
                f"{name} = {_format_array(recomputed)}, but the model says "
                f"{_format_array(claimed)}."
            )


def _format_array(value: AnyArray) -> str:
    """Text of an array, with the middle of a long one left out."""
    return np.array2string(value, 1000, 9, threshold=4, edgeitems=2)


def estimator_comparisons(
    model: ModelLike,
    subspace: FairSubspace,
    certificate: Certificate,
    variances_kept: FloatArray,
    unrestricted: Problem,
    rounding: FloatArray,
) -> Comparisons:
    """Collect attributes that a model stores twice, in case one was modified.

    A FairSubspace repeats the center and the components in its certificate; a FairPCA also repeats
    the subspace and the certificate in attributes of its own.

    Parameters
    ----------
    model : FairPCA or FairSubspace
    subspace : FairSubspace
    certificate : Certificate
        That of the model.
    variances_kept : (k, d) array
        Reduction of each group's error by each component.
    unrestricted : Problem
        The problem without its restriction.
    rounding : (k, d) array
        Rounding error bound of `variances_kept`.
    """
    comparisons: Comparisons = {
        "center": Comparison(subspace.center, certificate.center),
        "components": Comparison(subspace.projector.decoder.T, certificate.components, tol=0.0),
    }
    if model is subspace:
        return comparisons
    # Values by attribute. Copies of stored values must be equal.
    values: dict[str, object] = {
        **{f"{name}_": getattr(subspace, name) for name in ("components", "mean", "scale")},
        "solution_": certificate,
        "group_errors_": certificate.errors,
        "group_losses_": certificate.losses,
        "disparity_": signed_disparity(certificate.errors),
        "groups_": label_array(list(certificate.groups)),
        "n_components_": subspace.n_components,
    }
    # Tolerances of numbers that are computed again, by attribute.
    tolerances: dict[str, object] = {}
    traces = unrestricted.second_moments.traces
    total_variance = unrestricted.total_variance
    # Each variance is compared relative to its own size, plus its rounding error.
    pooled = unrestricted.proportions @ variances_kept
    pooled_tol = AGREEMENT_TOL * np.abs(pooled) + unrestricted.proportions @ rounding
    values["explained_variance_"] = pooled
    tolerances["explained_variance_"] = pooled_tol
    # Ratios to a variance of zero are undefined, and not compared.
    if (traces > 0).all():
        ratios = variances_kept / traces[:, None]
        ratio_tol = AGREEMENT_TOL * np.abs(ratios) + rounding / traces[:, None]
        values["explained_variance_ratio_"] = pooled / total_variance
        tolerances["explained_variance_ratio_"] = pooled_tol / total_variance
        values["group_explained_variance_ratio_"] = ratios
        tolerances["group_explained_variance_ratio_"] = ratio_tol
    for name, value in values.items():
        # An attribute that the model lacks cannot have been modified.
        claimed = getattr(model, name, value)
        comparisons[name] = Comparison(value, claimed, tolerances.get(name))
    return comparisons


def _row_comparisons(
    subspace: FairSubspace,
    certificate: Certificate,
    moments: Moments,
    pooled: FloatArray,
    rounding: FloatArray,
    em_distance: float,
) -> Comparisons:
    """Collect what a model says of the rows that it was fitted on: counts, means and scales.

    Parameters
    ----------
    subspace : FairSubspace
    certificate : Certificate
        That of the model.
    moments : GroupMoments, SparseMoments or WideMoments
    pooled : (d,) array
        Variance of each component over all rows.
    rounding : (d,) array
        Rounding error bound of `pooled`.
    em_distance : float
        Distance, in standard deviations, between the limits of two runs of the EM algorithm.
    """
    deviations = moments.standard_deviations
    relative_tol = AGREEMENT_TOL + em_distance
    mean = np.zeros(len(deviations)) if certificate.center == "none" else moments.mean
    mean_tol = relative_tol * deviations + FIGURE_ROUNDING * np.abs(mean)
    scale = None if subspace.scale is None else np.where(deviations == 0, 1.0, deviations)
    variances = None
    claimed_variances = None
    if subspace.whitening is not None:
        # Whitening divides each component by its standard deviation over all rows.
        # A component that is zero in every row is not scaled; a fit rejects any other whose
        # variance is rounding error.
        variances = np.where(pooled > 0, pooled, 1.0)
        claimed_variances = subspace.whitening**2
    variance_tol = relative_tol * np.abs(pooled) + rounding
    return {
        "counts": Comparison(moments.counts, certificate.counts),
        "mean": Comparison(mean, subspace.mean, mean_tol),
        "scale of the features": Comparison(scale, subspace.scale, relative_tol * deviations),
        "squared whitening": Comparison(variances, claimed_variances, variance_tol),
        **_imputation_comparisons(moments, subspace.imputation_model, em_distance),
    }


def _imputation_comparisons(
    moments: Moments, claimed: NormalModel | None, em_distance: float
) -> Comparisons:
    """Collect the figures of the normal model by which missing cells are imputed.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the data, with the recomputed normal model if cells are missing.
    claimed : NormalModel or None
        The normal model stored with the subspace.
    em_distance : float
        Largest difference, in standard deviations, between the limits at which two runs of the EM
        algorithm end; added to the tolerance.
    """
    recomputed = moments.imputation_model
    if recomputed is None or claimed is None:
        # Compared as words, which differ unless neither has a model.
        return {
            "model of missing cells": Comparison(
                "none" if recomputed is None else "missing cells are imputed",
                "none" if claimed is None else "missing cells are imputed",
            )
        }
    scales = recomputed.scales
    relative_tol = AGREEMENT_TOL + em_distance
    mean_tol = relative_tol * scales + FIGURE_ROUNDING * np.abs(recomputed.mean)
    covariance_tol = relative_tol * np.outer(scales, scales)
    return {
        "mean of missing cells": Comparison(recomputed.mean, claimed.mean, mean_tol),
        "covariance of missing cells": Comparison(
            recomputed.covariance, claimed.covariance, covariance_tol
        ),
    }
