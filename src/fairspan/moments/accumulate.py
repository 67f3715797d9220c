"""Blocks of rows become moments: centred first, merged exactly, summed in float64."""

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from fairspan.errors import InvalidInput
from fairspan.moments.group_moments import GroupMoments, OneGroup
from fairspan.moments.groups import Label, LabelCoder
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
    pilot: FloatArray | None = None
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
        if pilot is None:
            # Subtracting any one row first takes a large common offset out of all sums.
            pilot = values[0].copy()
        groups += [_RunningGroup(pilot) for _ in range(len(coder.labels) - len(groups))]
        for code in np.unique(codes):
            rows = codes == code
            groups[code].absorb(values[rows], None if weights is None else weights[rows])
    return _finished(coder.labels, groups, source.feature_names)


class _RunningGroup:
    """Moments of one group so far, with the mean kept relative to the pilot row."""

    def __init__(self, pilot: FloatArray) -> None:
        n_features = len(pilot)
        self.pilot = pilot
        self.count = 0
        self.weight = 0.0
        self.mean = np.zeros(n_features)
        # Fortran order lets the BLAS update the lower triangle in place.
        self.scatter = np.zeros((n_features, n_features), order="F")

    def absorb(self, rows: FloatArray, weights: FloatArray | None) -> None:
        """Add a block of rows, which is overwritten; all weights are positive."""
        rows -= self.pilot
        weight = float(len(rows) if weights is None else weights.sum())
        mean = rows.mean(axis=0) if weights is None else weights @ rows / weight
        rows -= mean
        if weights is not None:
            rows *= np.sqrt(weights)[:, None]
        delta = mean - self.mean
        total = self.weight + weight
        # Chan's term between the two means is one more row of the same symmetric product.
        between = np.sqrt(self.weight * weight / total) * delta
        for part in (rows, between[None, :]):
            self.scatter = blas.dsyrk(1.0, part.T, beta=1.0, c=self.scatter, lower=1, overwrite_c=1)
        self.mean += (weight / total) * delta
        self.weight = total
        self.count += len(rows)

    def finished(self, label: Label) -> OneGroup:
        """The group's moments."""
        lower = np.tril(self.scatter)
        scatter = lower + np.tril(lower, -1).T
        return OneGroup(label, self.count, self.weight, self.pilot + self.mean, scatter)


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
    if not all(np.isfinite(part.scatter).all() for part in parts):
        raise InvalidInput(
            "The squares of the numbers in X overflow float64",
            "Allowed are numbers up to about 1e150",
            "Rescale the columns, for example to unit variance",
        )
    return GroupMoments.from_groups(parts, feature_names)
