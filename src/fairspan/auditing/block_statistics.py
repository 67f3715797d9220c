"""What blocks of moments say of projections, each block in place of a fold of the rows."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from fairspan.auditing.cross_fitting import QUANTITIES, Benchmark, CrossFitted, measured_by
from fairspan.auditing.row_statistics import RowFigures
from fairspan.errors import InvalidInput
from fairspan.metrics.reconstruction import reference_point
from fairspan.moments.group_moments import GroupMoments
from fairspan.projector import Projector
from fairspan.rows.groups import Label
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray


def block_figures(
    cross: CrossFitted, labels: Sequence[Label], blocks: Sequence[GroupMoments | None]
) -> RowFigures:
    """Means over all blocks, and their standard errors by how blocks differ.

    With D_f the mean over block f of K, which weighs n_f of n, and l the mean over all: the
    variance of l is K / (K - 1) sum (n_f / n)^2 (D_f - l)^2.

    Parameters
    ----------
    cross : CrossFitted
        Found without each block.
    labels : sequence of k labels
    blocks : sequence of GroupMoments, or None for one without rows
    """
    shape = (len(blocks), len(cross.projections), len(QUANTITIES), len(labels))
    values, weights = np.zeros(shape), np.zeros((len(blocks), len(labels)))
    for fold, block in enumerate(blocks):
        if block is None:
            continue
        for i, label in enumerate(block.labels):
            group = list(labels).index(label)
            weights[fold, group] = block.weights[i]
            alone = block.of_groups(np.arange(block.n_groups) == i)
            errors = partial(_error, alone, group)
            values[fold, :, :, group] = measured_by(
                errors, cross.benchmarks, cross.projections, group, fold, len(blocks)
            )[:, :, 0]
    shares = weights / weights.sum(axis=0)
    means = np.einsum("fg,fmqg->mqg", shares, values)
    sizes = (weights > 0).sum(axis=0)
    spread = np.einsum("fg,fmqg->mqg", shares**2, (values - means) ** 2)
    factor = np.where(sizes > 1, sizes / np.maximum(sizes - 1, 1), 0.0)
    # Blocks vary by the rows that they were fitted without as well: nothing is uncertain beside.
    unknown = np.full(means.shape, np.nan)
    return RowFigures(means, np.sqrt(spread * factor), sizes, unknown, np.zeros(means.shape))


def _error(
    alone: GroupMoments, group: int, benchmark: Benchmark, projector: Projector
) -> FloatArray:
    """Mean squared residual of one group of a block, (1,)."""
    point = benchmark.points[group if len(benchmark.points) > 1 else 0]
    if benchmark.scale is not None:
        alone, point = alone.divided_by(benchmark.scale), point / benchmark.scale
    return projector.errors(alone.operator_about(point))


def errors_without_each(
    blocks: Sequence[GroupMoments], pooled: GroupMoments, subspace: FairSubspace
) -> FloatArray:
    """Errors of each group over all blocks but one, for each block left out.

    Everything happens on what the projection leaves over: for block b and group g the scatter
    s = tr((I - VV') scatter) and the mean u = (I - VV')(mean - point); obliquely with DE in place
    of VV', on both sides. Sums of these merge as the moments themselves do.

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
        A group is in a single block: without that block it has no rows.
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
        moved = block.means - origins
        moved = moved if subspace.scale is None else moved / subspace.scale
        means[index, columns] = subspace.projector.residuals(moved)
    left = weights.sum(axis=0) - weights
    if (left <= 0).any():
        label = pooled.labels[int(np.argmax((left <= 0).any(axis=0)))]
        raise InvalidInput(
            f"The group {label!r} stands in only one of the {len(blocks)} blocks",
            "Allowed: blocks among which every group stands in at least two",
            "Make larger blocks, or pass the sum of the blocks to audit without intervals",
        )
    between = (weights[:, :, None] * means).sum(axis=0) - weights[:, :, None] * means
    squares = weights * np.einsum("bgp,bgp->bg", means, means)
    spread = scatters + squares
    errors = (spread.sum(axis=0) - spread) / left
    if point is None:  # about the mean of the rows that are left
        errors -= np.einsum("bgp,bgp->bg", between, between) / left**2
    return np.asarray(errors)


def _residual_traces(scatters: FloatArray, subspace: FairSubspace) -> FloatArray:
    if subspace.scale is not None:
        scatters = scatters / np.outer(subspace.scale, subspace.scale)
    # Both sides projected: the difference of two traces would cancel where little is left over.
    projector = subspace.projector
    outside = np.eye(subspace.n_features) - projector.decoder @ projector.encoder
    return np.array([np.vdot(outside, outside @ scatter) for scatter in scatters])
