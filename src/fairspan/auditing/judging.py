"""What models do to each group of some rows, or of moments that stand in for them."""

from collections.abc import Sequence

import numpy as np

from fairspan.auditing.intervals import (
    Estimate,
    disparity_estimate,
    error_estimates,
    jackknife,
    standard_errors,
    widest_pair,
)
from fairspan.auditing.models import Audited
from fairspan.auditing.results import GroupAudit, ModelAudit
from fairspan.errors import InvalidInput
from fairspan.metrics import GroupFigures, group_figures
from fairspan.metrics.reconstruction import reference_point
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import Moments
from fairspan.problem.problem import signed_disparity
from fairspan.rows.protocol import Rows
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray


def judged_on_rows(audited: Sequence[Audited], rows: Rows, moments: Moments) -> list[ModelAudit]:
    """Judge models on rows and their moments; the rows are read once more, for intervals."""
    judged = [(each.subspace, _judge(each, moments)) for each in audited]
    errors_by_model = standard_errors(rows, moments, judged)
    return [
        _model_audit(
            each,
            figures,
            moments,
            error_estimates(figures.errors, errors, moments.counts),
            disparity_estimate(figures.errors, errors, moments.counts),
        )
        for each, (_, figures), errors in zip(audited, judged, errors_by_model, strict=True)
    ]


def judged_on_moments(
    audited: Sequence[Audited], pooled: GroupMoments, blocks: Sequence[GroupMoments]
) -> list[ModelAudit]:
    """Judge models on moments alone; two or more blocks give jackknife intervals."""
    results = []
    for each in audited:
        figures = _judge(each, pooled)
        errors = [Estimate(error) for error in figures.errors.tolist()]
        difference = Estimate(signed_disparity(figures.errors))
        if len(blocks) > 1:
            errors, difference = _jackknifed(each, figures, pooled, blocks)
        results.append(_model_audit(each, figures, pooled, errors, difference))
    return results


def _jackknifed(
    each: Audited, figures: GroupFigures, pooled: GroupMoments, blocks: Sequence[GroupMoments]
) -> tuple[list[Estimate], Estimate]:
    without = errors_without_each(blocks, pooled, each.subspace)
    errors = []
    for value, column in zip(figures.errors.tolist(), without.T, strict=True):
        estimate = jackknife(value, column.tolist())
        errors.append(Estimate(value, max(estimate.low or 0.0, 0.0), estimate.high))
    low, high = widest_pair(figures.errors)
    pairs = pooled.n_groups * (pooled.n_groups - 1) // 2
    difference = signed_disparity(figures.errors)
    if pooled.n_groups == 1:
        return errors, Estimate(difference)
    return errors, jackknife(difference, (without[:, high] - without[:, low]).tolist(), pairs)


def _judge(each: Audited, moments: Moments) -> GroupFigures:
    each.check_groups(moments.labels)
    return group_figures(each.subspace, moments)


def _model_audit(
    each: Audited,
    figures: GroupFigures,
    moments: Moments,
    errors: Sequence[Estimate],
    difference: Estimate,
) -> ModelAudit:
    captured = figures.captured_ratios
    low, high = widest_pair(figures.errors) if moments.n_groups > 1 else (0, 0)
    provenance = each.subspace.provenance
    return ModelAudit(
        name=each.name,
        n_components=each.subspace.dimension,
        center=each.subspace.center,
        scaled=each.subspace.scale is not None,
        status=None if provenance is None else provenance.status,
        reason=None if provenance is None else provenance.reason,
        gap=None if provenance is None else provenance.objective - provenance.lower_bound,
        is_plain_pca=each.is_plain_pca,
        fitted_here=each.was_fitted_on(moments, figures.errors),
        baseline=each.baseline,
        known_groups=each.known_groups,
        groups=tuple(
            GroupAudit(
                group=label,
                n=int(moments.counts[i]),
                proportion=float(moments.proportions[i]),
                total_variance=float(figures.total_variances[i]),
                error=errors[i],
                best_error=float(figures.best_errors[i]),
                excess_loss=float(figures.excess_losses[i]),
                variance_kept=None if np.isnan(captured[i]) else float(captured[i]),
            )
            for i, label in enumerate(figures.labels)
        ),
        disparity=difference,
        pair=(figures.labels[low], figures.labels[high]),
    )


def errors_without_each(
    blocks: Sequence[GroupMoments], pooled: GroupMoments, subspace: FairSubspace
) -> FloatArray:
    """Errors of each group over all blocks but one, for each block left out.

    Everything happens on what the projection leaves over: for block b and group g the scatter
    s = tr((I - VV') scatter) and the mean u = (I - VV')(mean - point). Sums of these merge as the
    moments themselves do.

    Parameters
    ----------
    blocks : sequence of B >= 2 GroupMoments
    pooled : GroupMoments
        Their sum.
    subspace : FairSubspace

    Returns
    -------
    (B, k) array

    Raises
    ------
    InvalidInput
        A group stands in a single block: without that block nothing is left of it.
    """
    weights = np.zeros((len(blocks), pooled.n_groups))
    scatters = np.zeros_like(weights)
    means = np.zeros((len(blocks), pooled.n_groups, pooled.n_features))
    position = {label: index for index, label in enumerate(pooled.labels)}
    point = reference_point(subspace, pooled)
    for index, block in enumerate(blocks):
        columns = [position[label] for label in block.labels]
        origins = pooled.means[columns] if point is None else point
        weights[index, columns] = block.weights
        scatters[index, columns] = _residual_traces(block.scatters, subspace)
        means[index, columns] = _residuals(block.means - origins, subspace)
    left = weights.sum(axis=0) - weights
    if (left <= 0).any():
        label = pooled.labels[int(np.argmax((left <= 0).any(axis=0)))]
        raise InvalidInput(
            f"The group {label!r} stands in only one of the {len(blocks)} blocks",
            "Allowed are blocks among which every group stands in at least two",
            "Make larger blocks, or pass the sum of the blocks to audit without intervals",
        )
    between = (weights[:, :, None] * means).sum(axis=0) - weights[:, :, None] * means
    squares = weights * np.einsum("bgp,bgp->bg", means, means)
    spread = scatters + squares
    errors = (spread.sum(axis=0) - spread) / left
    if point is None:  # about the mean of the rows that are left
        errors -= np.einsum("bgp,bgp->bg", between, between) / left**2
    return np.asarray(errors)


def _residuals(rows: FloatArray, subspace: FairSubspace) -> FloatArray:
    scaled = rows if subspace.scale is None else rows / subspace.scale
    return scaled - (scaled @ subspace.components.T) @ subspace.components


def _residual_traces(scatters: FloatArray, subspace: FairSubspace) -> FloatArray:
    if subspace.scale is not None:
        scatters = scatters / np.outer(subspace.scale, subspace.scale)
    # Both sides projected: the difference of two traces would cancel where little is left over.
    outside = np.eye(subspace.n_features) - subspace.components.T @ subspace.components
    return np.array([np.vdot(outside, scatter @ outside) for scatter in scatters])
