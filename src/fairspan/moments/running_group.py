"""The running mean and scatter of groups, updated block by block about the mean so far."""

from collections import Counter

import numpy as np
from scipy.linalg import blas

from fairspan.errors import InvalidInput
from fairspan.moments.group_statistics import OneGroup
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.groups import Label, LabelCoder, side_by_side
from fairspan.rows.protocol import RowBlock
from fairspan.typing import FloatArray, IndexArray


class RunningGroup:
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
        with np.errstate(over="ignore"):
            mean = self.pilot + self.mean
        return OneGroup(label, self.count, self.weight, mean, mirrored(self.scatter))


class RunningMoments:
    """Moments of all groups so far.

    Rows wait while they have too many groups, so that no matrix is made of what may be an
    identifier. They take less room than the matrices of their groups would, as a rule.

    Parameters
    ----------
    n_features : int
    limit : GroupLimit
    n_folds : int
        Rows of a group are kept apart by their fold.

    Attributes
    ----------
    n_dropped : int
        Rows left out so far since something is missing in them.
    """

    def __init__(self, n_features: int, limit: GroupLimit, n_folds: int) -> None:
        self.n_dropped = 0
        self._n_features = n_features
        self._limit = limit
        self._n_folds = n_folds
        self._coder = LabelCoder()
        self._counts: Counter[int] = Counter()
        # A group's rows in fold f of K have the code K g + f.
        self._groups: dict[int, RunningGroup] = {}
        # Code, rows and weights of groups.
        self._waiting: list[tuple[int, FloatArray, FloatArray | None]] = []
        self._n_waiting = 0

    def absorb(self, block: RowBlock, folds: IndexArray | None = None) -> None:
        """Add a block of rows, whose folds are all the first unless they are given."""
        values, weights = block.values, block.weights
        self.n_dropped += block.n_dropped
        if block.labels is None:
            raise InvalidInput(
                "The rows carry no group labels", "Allowed: a label for each row", "Name a group"
            )
        codes = self._coder.encode(block.labels, block.first_row)
        if folds is not None:
            codes = codes * self._n_folds + folds
        if weights is not None and not weights.all():
            present = weights > 0
            values, weights, codes = values[present], weights[present], codes[present]
        order, places = side_by_side(codes)
        rows = np.take(values, order, axis=0)  # a copy, which may be written to
        weights = None if weights is None else weights[order]
        for code, own in places:
            self._counts[code // self._n_folds] += own.stop - own.start
            self._waiting.append((code, rows[own], None if weights is None else weights[own]))
        self._n_waiting += rows.size
        n_groups, n_rows = len(self._counts), self._counts.total()
        self._limit.check_waiting(n_groups, n_rows, self._n_waiting)
        if not self._limit.waits(n_groups, n_rows):
            self._end_waiting()

    def _end_waiting(self) -> None:
        self._limit.check_memory(len(self._counts), self._n_features)
        with np.errstate(over="ignore", invalid="ignore"):  # found when the groups are put together
            for code, rows, weights in self._waiting:
                if code not in self._groups:
                    self._groups[code] = RunningGroup(self._n_features)
                self._groups[code].absorb(rows, weights)
        self._waiting.clear()
        self._n_waiting = 0

    def finished(self) -> list[list[OneGroup]]:
        """The moments of each group that has rows in a fold, for all folds.

        Raises
        ------
        InvalidInput
            Too many groups.
        """
        self._limit.check(len(self._counts), self._counts.total(), self._n_features)
        self._end_waiting()
        labels = self._coder.labels
        parts: list[list[OneGroup]] = [[] for _ in range(self._n_folds)]
        for code, group in self._groups.items():
            of_group, fold = divmod(code, self._n_folds)
            parts[fold].append(group.finished(labels[of_group]))
        return parts


def mirrored(lower: FloatArray) -> FloatArray:
    """The whole matrix of a lower triangle.

    Parameters
    ----------
    lower : (p, p) array
        In Fortran's order, as BLAS leaves it; what is above the diagonal is overwritten.

    Returns
    -------
    (p, p) array
        In C's order, in the same memory: new memory takes longer than the whole of it.

    Examples
    --------
    >>> import numpy as np
    >>> mirrored(np.array([[1.0, 9.0], [2.0, 3.0]], order="F"))
    array([[1., 2.],
           [2., 3.]])
    """
    whole = lower.T
    for row in range(1, len(whole)):
        whole[row, :row] = whole[:row, row]
    return whole
