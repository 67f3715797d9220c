"""Statistics of blocks of moments, which serve as folds without rows."""

from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np

from fairspan.auditing.cross_fitting import CrossFit, GroupOptima, Quantity, measure_quantities
from fairspan.auditing.row_statistics import RowStatistics
from fairspan.errors import InvalidInput
from fairspan.model.subspace import FairSubspace
from fairspan.moments.fold_moments import DenseFoldMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.projector import Projector, Reconstructor
from fairspan.moments.second_moments import SecondMoments, reconstruction_errors
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray


def block_statistics(
    cross_fit: CrossFit, labels: Sequence[Label], blocks: Sequence[GroupMoments | None]
) -> RowStatistics:
    """Means over all blocks, with standard errors from the variation between blocks.

    Means are those of each :class:`Quantity`, such as a held-out error. With D_f the mean of a
    quantity over a group's rows in block f of K, n_f / n the block's share of the group's weight,
    and l the overall mean, the variance of l is K / (K - 1) sum_f (n_f / n)^2 (D_f - l)^2. K counts
    the blocks with rows of the group, and is the number of independent observations. The kurtosis
    is unknown (NaN).

    Parameters
    ----------
    cross_fit : CrossFit
        Cross-fit with blocks as folds.
    labels : sequence of k labels
    blocks : sequence of K GroupMoments
        None for an empty block.
    """
    shape = (len(blocks), len(cross_fit.models), len(Quantity), len(labels))
    values = np.zeros(shape)
    weights = np.zeros((len(blocks), len(labels)))
    for fold, block in enumerate(blocks):
        if block is None:
            continue
        for i, label in enumerate(block.labels):
            group = list(labels).index(label)
            weights[fold, group] = block.weights[i]
            group_moments = block.select_groups(np.arange(block.n_groups) == i)
            quantities = measure_quantities(
                partial(_block_residuals, group_moments, group),
                cross_fit.optima,
                cross_fit.models,
                group,
                fold,
                len(blocks),
            )
            # A mean over the block takes the place of its rows, the last axis.
            values[fold, :, :, group] = quantities[:, :, 0]
    shares = weights / weights.sum(axis=0)
    means = np.einsum("fg,fmqg->mqg", shares, values)
    n_blocks = (weights > 0).sum(axis=0)
    variances = np.einsum("fg,fmqg->mqg", shares**2, (values - means) ** 2)
    factor = np.where(n_blocks > 1, n_blocks / np.maximum(n_blocks - 1, 1), 0.0)
    return RowStatistics(
        means,
        standard_errors=np.sqrt(variances * factor),
        n_independent=n_blocks,
        kurtosis=np.full(means.shape, np.nan),
        # The variation between blocks already includes that of the training rows.
        training_standard_errors=np.zeros(means.shape),
    )


def _block_residuals(
    block: GroupMoments, group: int, pairs: Sequence[tuple[GroupOptima, Reconstructor]]
) -> FloatArray:
    """Mean squared residuals of one group of a block under l projectors, (l, 1).

    Each projector comes with the group optima that provide its center and scale, as
    :func:`measure_quantities` requires. Optima with the same center and scale share their second
    moments.

    Parameters
    ----------
    block : GroupMoments
        Moments with this group only.
    group : int
        Index of the group in the optima.
    pairs : sequence of l pairs (GroupOptima, Projector)
        Only projections: other models cannot be evaluated from moments.
    """
    second_moments_by_key: dict[tuple[bytes, bytes], SecondMoments] = {}
    errors = []
    for optima, model in pairs:
        frame = optima.frame.of_group(group)
        key = frame.key
        if key not in second_moments_by_key:
            second_moments_by_key[key] = frame.second_moments(block)
        errors.append(reconstruction_errors(cast(Projector, model), second_moments_by_key[key]))
    return np.array(errors)


def leave_one_block_out_errors(
    blocks: Sequence[GroupMoments], pooled: GroupMoments, subspace: FairSubspace
) -> FloatArray:
    """Errors of each group with each block left out in turn, (B, k).

    They are measured about the reference point of the full model, or about each group's own mean
    without the block.

    Parameters
    ----------
    blocks : sequence of B >= 2 GroupMoments
    pooled : GroupMoments
        Sum of the blocks.
    subspace : FairSubspace

    Raises
    ------
    InvalidInput
        A group is in a single block: without that block it has no rows.
    """
    folds = DenseFoldMoments(tuple(blocks))
    frame = subspace.reference_frame(pooled)
    errors = np.empty((len(blocks), pooled.n_groups))
    for index in range(len(blocks)):
        remaining = folds.excluding(index)
        missing_groups = [label for label in pooled.labels if label not in remaining.labels]
        if missing_groups:
            raise InvalidInput(
                f"The group {missing_groups[0]!r} occurs in only one of the {len(blocks)} blocks",
                "Allowed: blocks such that every group occurs in at least two",
                "Use larger blocks, or pass the sum of the blocks to audit without intervals",
            )
        if not frame.has_common_center:
            frame = subspace.reference_frame(remaining)
        second_moments = frame.second_moments(remaining)
        errors[index] = reconstruction_errors(subspace.projector, second_moments)
    return errors
