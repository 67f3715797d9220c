"""Sparse rows of a single group, whose covariance is applied without centring or filling them.

Centring x to x - m would fill every cell, so it stays implicit: with T = XV - m'V, the covariance
times V is X'T / n. That loses no digits as long as no column's mean is large beside its spread. A
column that is zero in at least half of the rows cannot have such a mean (mean^2 <= variance); from
the others their mean value is subtracted first, which fills in no more cells than they held.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse

from fairspan.errors import InvalidInput
from fairspan.moments.group_statistics import Intake, OneGroup
from fairspan.moments.running_group import USUAL_LIMIT, GroupLimit
from fairspan.rows.groups import Label, LabelCoder
from fairspan.rows.sparse import Csr, SparseRows
from fairspan.typing import FloatArray, IndexArray

# Rows of one part, and numbers that it stores: what is computed from a part stays small.
_PART_ROWS = 2**15
_PART_NUMBERS = 2**22
_FEWEST_PART_ROWS = 256
# Columns of a block that are multiplied with a part at once.
_COLUMNS = 64


@dataclass(frozen=True, eq=False)
class SparseGroup:
    """Rows y = x - pilot of one group, and their mean.

    Attributes
    ----------
    label : Label
    parts : tuple of (r, p) csr_array
        The rows y in consecutive parts.
    part_weights : tuple of (r,) arrays
        Weights of these rows; all positive.
    weight : float
        n_g, the sum of all weights.
    pilot : (p,) array
        Zero for columns that are zero in at least half of the rows.
    drift : (p,) array
        Weighted mean of the rows y; the group's mean is pilot + drift.
    """

    label: Label
    parts: tuple[Csr, ...]
    part_weights: tuple[FloatArray, ...]
    weight: float
    pilot: FloatArray
    drift: FloatArray

    @classmethod
    def of(cls, label: Label, rows: Csr, weights: FloatArray | None) -> "SparseGroup":
        """Take rows of positive weight, at least one, without duplicates or stored zeros."""
        weights = np.ones(rows.shape[0]) if weights is None else weights
        weight = float(weights.sum())
        pilot = _pilot(rows, weights, weight)
        filled = np.flatnonzero(pilot)
        spans = _spans(rows, len(filled))
        parts = tuple(_shifted(rows[start:stop], pilot, filled) for start, stop in spans)
        part_weights = tuple(weights[start:stop] for start, stop in spans)
        total = sum(part.T @ own for part, own in zip(parts, part_weights, strict=True))
        return cls(label, parts, part_weights, weight, pilot, total / weight)

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(len(weights) for weights in self.part_weights)

    @property
    def mean(self) -> FloatArray:
        """Weighted mean row, (p,)."""
        return np.asarray(self.pilot + self.drift)

    @property
    def variances(self) -> FloatArray:
        """Of each feature about the group's own mean, (p,)."""
        squares = sum(
            part.power(2).T @ weights
            for part, weights in zip(self.parts, self.part_weights, strict=True)
        )
        return np.asarray(np.maximum(squares / self.weight - self.drift**2, 0.0))

    def selected(self, features: IndexArray) -> "SparseGroup":
        """The same rows with some of the features, by position."""
        return replace(
            self,
            parts=tuple(part[:, features] for part in self.parts),
            pilot=self.pilot[features],
            drift=self.drift[features],
        )

    def applied(self, directions: FloatArray) -> FloatArray:
        """The covariance about the group's own mean times (p, m) directions."""
        image = np.zeros_like(directions)
        for columns, coordinates, part, weights in self._coordinates(directions):
            image[:, columns] += part.T @ (weights[:, None] * coordinates)
        return image / self.weight

    def captured(self, directions: FloatArray) -> float:
        """tr(V'CV) for (p, m) directions V."""
        total = sum(
            float(weights @ np.einsum("ij,ij->i", coordinates, coordinates))
            for _, coordinates, _, weights in self._coordinates(directions)
        )
        return total / self.weight

    def scattered(self) -> OneGroup:
        """The group's moments as a (p, p) matrix."""
        p = len(self.pilot)
        scatter = np.zeros((p, p))
        for part, weights in zip(self.parts, self.part_weights, strict=True):
            half = part.multiply(np.sqrt(weights)[:, None]).tocsr()
            scatter += (half.T @ half).toarray()
        scatter -= self.weight * np.outer(self.drift, self.drift)
        # Differences, which rounding may turn.
        np.fill_diagonal(scatter, np.maximum(np.diag(scatter), 0.0))
        return OneGroup(self.label, self.count, self.weight, self.mean, scatter)

    def deviations(self, point: FloatArray, n_rows: int) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Rows x - point as dense blocks of at most `n_rows`, with their weights."""
        offset = self.pilot - point
        for part, weights in zip(self.parts, self.part_weights, strict=True):
            for start in range(0, part.shape[0], n_rows):
                stop = start + n_rows
                yield part[start:stop].toarray() + offset, weights[start:stop]

    def _coordinates(
        self, directions: FloatArray
    ) -> Iterator[tuple[slice, FloatArray, Csr, FloatArray]]:
        """Centred rows along some of the directions at a time, with parts and their weights."""
        for start in range(0, directions.shape[1], _COLUMNS):
            columns = slice(start, start + _COLUMNS)
            block = directions[:, columns]
            center = self.drift @ block
            for part, weights in zip(self.parts, self.part_weights, strict=True):
                yield columns, part @ block - center, part, weights


def sparse_groups(
    rows: SparseRows, limit: GroupLimit = USUAL_LIMIT
) -> tuple[list[SparseGroup], Intake]:
    """The rows of each group that has some, without those in which something is missing.

    Raises
    ------
    InvalidInput
        No labels, a bad label, or too many groups.
    """
    whole = rows.complete()
    if whole.labels is None:
        raise InvalidInput(
            "The rows carry no group labels", "Allowed: a label for each row", "Name a group"
        )
    present = np.ones(whole.n_rows, bool) if whole.weights is None else whole.weights > 0
    coder = LabelCoder()
    codes = coder.encode(whole.labels.between(0, whole.n_rows))
    counts = np.bincount(codes[present])
    limit.check(int(np.count_nonzero(counts)), int(counts.sum()), whole.n_features)
    groups = []
    with np.errstate(over="ignore", invalid="ignore"):  # found by check_sizes
        for code in np.flatnonzero(counts).tolist():
            own = np.flatnonzero((codes == code) & present)
            weights = None if whole.weights is None else whole.weights[own]
            groups.append(SparseGroup.of(coder.labels[code], whole.matrix[own], weights))
    return groups, Intake(rows.n_rows - whole.n_rows)


def _pilot(rows: Csr, weights: FloatArray, weight: float) -> FloatArray:
    """Mean of the stored values of each column that stores most of its cells; zero elsewhere."""
    p = rows.shape[1]
    cell_weights = np.repeat(weights, np.diff(rows.indptr))
    stored = np.bincount(rows.indices, cell_weights, minlength=p)
    mostly = stored > weight / 2
    if not mostly.any():
        return np.zeros(p)
    # About the last stored value, so that the mean of equal values is exactly that value.
    last = np.zeros(p)
    last[rows.indices] = rows.data
    centred = np.bincount(rows.indices, cell_weights * (rows.data - last[rows.indices]), p)
    return np.where(mostly, last + centred / np.where(mostly, stored, 1.0), 0.0)


def _spans(rows: Csr, n_filled: int) -> list[tuple[int, int]]:
    n = rows.shape[0]
    each = rows.nnz / n + n_filled
    size = int(min(max(_PART_NUMBERS / max(each, 1.0), _FEWEST_PART_ROWS), _PART_ROWS))
    return [(start, min(start + size, n)) for start in range(0, n, size)]


def _shifted(part: Csr, pilot: FloatArray, filled: IndexArray) -> Csr:
    """Subtract the pilot, which fills the columns in which it is not zero."""
    if len(filled) == 0:
        return part
    n, p = part.shape
    pilots = (np.tile(pilot[filled], n), np.tile(filled, n), np.arange(n + 1) * len(filled))
    shifted = scipy.sparse.csr_array(part - scipy.sparse.csr_array(pilots, shape=(n, p)))
    shifted.eliminate_zeros()
    return shifted
