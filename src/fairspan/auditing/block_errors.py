"""Errors with one block of moments left out at a time, for jackknife intervals without rows."""

from collections.abc import Sequence

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.metrics.reconstruction import reference_point
from fairspan.moments.group_moments import GroupMoments
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray


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
