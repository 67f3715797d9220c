"""Standard errors of each group's mean error, from a second pass over the rows."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fairspan.metrics import GroupFigures, reference_point
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.groups import LabelCoder
from fairspan.moments.sources.protocol import RowBlock, RowSource
from fairspan.subspace import FairSubspace, squared_residuals

FloatArray = npt.NDArray[np.float64]


def standard_errors(
    source: RowSource,
    moments: GroupMoments,
    judged: Sequence[tuple[FairSubspace, GroupFigures]],
) -> list[FloatArray]:
    """Standard errors of the groups' mean errors, one (k,) array for each projection.

    With r_i the squared residual of row i, r its weighted group mean and n rows of the group:
    sqrt(n / (n - 1) sum w_i^2 (r_i - r)^2) / sum w_i, which without weights is s / sqrt(n). Weights
    are taken as sampling weights. The mean is known from the moments, so nothing cancels.

    Parameters
    ----------
    source : RowSource
        The rows that `moments` were accumulated from.
    moments : GroupMoments
    judged : sequence of (subspace, its figures on these moments)

    Returns
    -------
    list of (k,) arrays
        Zero for a group of one row.
    """
    coder = LabelCoder(moments.labels)
    squares = [np.zeros(moments.n_groups) for _ in judged]
    for block in source.blocks():
        # Rows of weight zero may carry a group that has no other rows, so they go first.
        kept = _with_weight(block)
        assert kept.labels is not None
        codes = coder.encode(kept.labels, kept.first_row)
        for total, (subspace, figures) in zip(squares, judged, strict=True):
            deviations = _row_errors(kept.values, codes, subspace, moments) - figures.errors[codes]
            if kept.weights is not None:
                deviations = deviations * kept.weights
            total += np.bincount(codes, deviations**2, minlength=moments.n_groups)
    counts = moments.counts
    return [
        np.sqrt(total * counts / np.maximum(counts - 1, 1)) / moments.weights for total in squares
    ]


def _row_errors(
    values: FloatArray,
    codes: npt.NDArray[np.int64],
    subspace: FairSubspace,
    moments: GroupMoments,
) -> FloatArray:
    point = reference_point(subspace, moments)
    rows = values - (moments.means[codes] if point is None else point)
    if subspace.scale is not None:
        rows /= subspace.scale
    return squared_residuals(rows, subspace.components)


def _with_weight(block: RowBlock) -> RowBlock:
    if block.weights is None or block.weights.all() or block.labels is None:
        return block
    rows = np.flatnonzero(block.weights)
    return RowBlock(block.first_row, block.values[rows], block.labels[rows], block.weights[rows])
