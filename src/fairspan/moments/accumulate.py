"""Blocks of rows become moments: centred first, merged exactly, summed in float64."""

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from fairspan.errors import InvalidInput
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.groups import Label, LabelCoder
from fairspan.moments.one_group import OneGroup
from fairspan.moments.sources.protocol import RowSource

FloatArray = npt.NDArray[np.float64]


def accumulate(source: RowSource) -> GroupMoments:
    """Read all rows once and return the moments of each group.

    Rows of weight zero count as absent.

    Parameters
    ----------
    source : RowSource
        With labels.

    Returns
    -------
    GroupMoments

    Raises
    ------
    InvalidInput
        Whatever the source finds wrong with its rows; no rows at all; numbers whose squares
        overflow.
    """
    coder = LabelCoder()
    groups: list[_RunningGroup] = []
    for block in source.blocks():
        values, weights, labels = block.values, block.weights, block.labels
        if labels is None:
            raise InvalidInput(
                "The rows carry no group labels", "Allowed is a label for each row", "Name a group"
            )
        codes = coder.encode(labels, block.first_row)
        if weights is not None and not weights.all():
            present = weights > 0
            values, weights, codes = values[present], weights[present], codes[present]
        if len(values) == 0:
            continue
        new = range(len(groups), len(coder.labels))
        groups += [_RunningGroup(values.shape[1]) for _ in new]
        with np.errstate(over="ignore", invalid="ignore"):  # found when the groups are put together
            for code in np.unique(codes):
                rows = codes == code
                groups[code].absorb(values[rows], None if weights is None else weights[rows])
    return _finished(coder.labels, groups, source.feature_names)


class _RunningGroup:
    """Moments of one group so far, with the mean kept relative to its first row.

    Subtracting that row takes a large common offset out of all sums, and makes those of a column
    that is constant in the group exactly zero.
    """

    def __init__(self, n_features: int) -> None:
        self.pilot = np.zeros(n_features)
        self.count = 0
        self.weight = 0.0
        self.mean = np.zeros(n_features)
        # Fortran order lets the BLAS update the lower triangle in place.
        self.scatter = np.zeros((n_features, n_features), order="F")

    def absorb(self, rows: FloatArray, weights: FloatArray | None) -> None:
        """Add a block of rows, which is overwritten; all weights are positive."""
        if self.count == 0:
            self.pilot = rows[0].copy()
        rows -= self.pilot
        weight = float(len(rows) if weights is None else weights.sum())
        mean = rows.mean(axis=0) if weights is None else (weights / weight) @ rows
        rows -= mean
        if weights is not None:
            rows *= np.sqrt(weights)[:, None]
        delta = mean - self.mean
        total = self.weight + weight
        # Chan's term between the two means is one more row of the same symmetric product.
        between = np.sqrt(self.weight * (weight / total)) * delta
        for part in (rows, between[None, :]):
            self.scatter = blas.dsyrk(1.0, part.T, beta=1.0, c=self.scatter, lower=1, overwrite_c=1)
        self.mean += (weight / total) * delta
        self.weight = total
        self.count += len(rows)

    def finished(self, label: Label) -> OneGroup:
        """The group's moments."""
        lower = np.tril(self.scatter)
        with np.errstate(over="ignore"):
            mean = self.pilot + self.mean
        return OneGroup(label, self.count, self.weight, mean, lower + np.tril(lower, -1).T)


def _finished(
    labels: list[Label], groups: list[_RunningGroup], feature_names: tuple[str, ...] | None
) -> GroupMoments:
    parts = [
        group.finished(label) for label, group in zip(labels, groups, strict=False) if group.count
    ]
    if not parts:
        raise InvalidInput(
            "There are no rows", "Allowed is at least one row", "Check the file or the filter"
        )
    return GroupMoments.from_groups(parts, feature_names)
