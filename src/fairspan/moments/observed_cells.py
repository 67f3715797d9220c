"""First pass of EM: statistics of the observed cells of each group."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np

from fairspan.errors import Cause, InvalidInput
from fairspan.moments.base_moments import describe_column, no_group_labels_error
from fairspan.rows.blocks import RowBlock
from fairspan.rows.coded_labels import LabelEncoder, sort_by_code
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.labels import Label
from fairspan.rows.protocol import RowSource
from fairspan.typing import AnyArray, FloatArray, IntegerArray

# Entries of rows completed at a time. Rows with no more entries are read once for all steps.
CHUNK_ENTRIES = 2**21


def check_observed(
    label: Label, observed: "ObservedStatistics", names: tuple[str, ...] | None
) -> None:
    """Check that each feature has a value in the group."""
    empty = np.flatnonzero(observed.weights == 0)
    if len(empty):
        raise InvalidInput(
            f"Every value of {describe_column(int(empty[0]), names)} is missing in group {label!r}",
            "Allowed: features with at least one value in every group; values cannot be inferred "
            "from other groups",
            "Exclude the column, drop the group, or merge it with another",
            cause=Cause.UNOBSERVED_COLUMN,
        )


@dataclass(eq=False)
class ObservedStatistics:
    """Statistics of the observed cells of one group.

    Attributes
    ----------
    count, n_missing : int
        Numbers of rows and of missing cells.
    weight : float
        Total weight of the rows.
    pairs : (p, p) array of int
        Number of rows in which each pair of features is observed.
    weights, means, squares : (p,) arrays
        For each feature: weight of the observing rows, mean, and sum of squared deviations.
    """

    count: int
    n_missing: int
    weight: float
    pairs: IntegerArray
    weights: FloatArray
    means: FloatArray
    squares: FloatArray

    @classmethod
    def from_rows(cls, rows: FloatArray, weights: FloatArray) -> "ObservedStatistics":
        """Compute the statistics of (n, p) rows with NaN in missing cells, and (n,) weights."""
        observed = ~np.isnan(rows)
        observed_weights = weights @ observed
        # Relative to the first value of each feature, so that a constant has exactly that mean.
        first_row = observed.argmax(axis=0)[None]
        shift = np.take_along_axis(rows, first_row, axis=0)[0]
        shift = np.where(np.isnan(shift), 0.0, shift)
        shifted = np.where(observed, rows - shift, 0.0)
        divisors = np.where(observed_weights > 0, observed_weights, 1.0)
        means = shift + weights @ shifted / divisors
        squares = weights @ np.where(observed, rows - means, 0.0) ** 2
        indicators = observed.astype(np.float64)
        pairs = (indicators.T @ indicators).astype(np.int64)
        n_missing = observed.size - int(observed.sum())
        weight = float(weights.sum())
        return cls(len(rows), n_missing, weight, pairs, observed_weights, means, squares)

    def merge(self, other: "ObservedStatistics") -> "ObservedStatistics":
        """Merge the statistics of two parts of a group."""
        weights = self.weights + other.weights
        share = other.weights / np.where(weights > 0, weights, 1.0)
        mean_difference = other.means - self.means
        between = self.weights * share * mean_difference**2
        return ObservedStatistics(
            count=self.count + other.count,
            n_missing=self.n_missing + other.n_missing,
            weight=self.weight + other.weight,
            pairs=self.pairs + other.pairs,
            weights=weights,
            means=self.means + share * mean_difference,
            squares=self.squares + other.squares + between,
        )


@dataclass(frozen=True, eq=False)
class ObservedCells:
    """Statistics of the observed cells by group, and the number of dropped rows."""

    groups: dict[Label, ObservedStatistics]
    n_dropped: int


@dataclass(frozen=True)
class ObservedAggregator:
    """First pass: groups, or pairs of group and class, and their observed statistics."""

    limit: GroupLimit
    has_classes: bool

    def aggregate(self, rows: RowSource) -> ObservedCells:
        """Return the statistics of some rows."""
        groups: dict[Label, ObservedStatistics] = {}
        reader = ChunkReader(rows, LabelEncoder())
        for chunk in reader.chunks():
            observed = ObservedStatistics.from_rows(chunk.values, chunk.weights)
            merge_statistics(groups, chunk.label, observed)
            self._check(groups, rows.n_features)
        return ObservedCells(groups, reader.n_dropped)

    def merge(self, left: ObservedCells, right: ObservedCells) -> ObservedCells:
        """Merge two parts."""
        groups = dict(left.groups)
        for label, observed in right.groups.items():
            merge_statistics(groups, label, observed)
        n_features = max((len(observed.means) for observed in groups.values()), default=1)
        self._check(groups, n_features)
        return ObservedCells(groups, left.n_dropped + right.n_dropped)

    def _check(self, groups: Mapping[Label, ObservedStatistics], n_features: int) -> None:
        n_rows = sum(observed.count for observed in groups.values())
        LabelEncoder(list(groups))  # raises if labels are of different types
        check = self.limit.check_pairs if self.has_classes else self.limit.check
        check(list(groups), n_rows, is_partial=True)
        self.limit.check_memory(len(groups), n_features)


class _Mergeable(Protocol):
    """Statistics of some rows, which are merged with those of other rows."""

    def merge(self, other: Self, /) -> Self: ...


Statistics = TypeVar("Statistics", bound=_Mergeable)


def merge_statistics(by_label: dict[Label, Statistics], label: Label, part: Statistics) -> None:
    """Merge the statistics of a part into those of the same group."""
    by_label[label] = by_label[label].merge(part) if label in by_label else part


class GroupChunk(NamedTuple):
    """Rows of one group, with their positive weights."""

    label: Label
    values: FloatArray
    weights: FloatArray


class ChunkReader:
    """Reader of rows in large chunks, each of one group.

    Parameters
    ----------
    rows : RowSource
        Rows with group labels, crossed with their classes if they have any.
    encoder : LabelEncoder

    Attributes
    ----------
    n_dropped : int
        Number of rows dropped so far because of missing values.
    """

    def __init__(self, rows: RowSource, encoder: LabelEncoder) -> None:
        self._rows = rows
        self._encoder = encoder
        # Values and weights of buffered rows, by code of their group.
        self._buffer: dict[int, list[tuple[FloatArray, FloatArray]]] = {}
        self.n_dropped = 0

    def chunks(self) -> Iterator[GroupChunk]:
        """Iterate over the chunks; rows of zero weight are skipped.

        Blocks are buffered until they have enough entries.
        """
        n_buffered = 0
        for block in self._rows.blocks():
            self.n_dropped += block.n_dropped
            self._add(block)
            n_buffered += block.values.size
            if n_buffered >= CHUNK_ENTRIES:
                yield from self._flush()
                n_buffered = 0
        yield from self._flush()

    def _add(self, block: RowBlock) -> None:
        """Add the rows of a block to the buffer, by group."""
        groups = block.finest_groups
        if groups is None:
            raise no_group_labels_error()
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        weighted = np.flatnonzero(weights)
        # Rows of weight zero may be the only ones of their group, which then has no label.
        codes: AnyArray = self._encoder.encode(groups[weighted], block.first_row)
        order, slices = sort_by_code(codes)
        for code, positions in slices:
            indices = weighted[order[positions]]
            self._buffer.setdefault(code, []).append((block.values[indices], weights[indices]))

    def _flush(self) -> Iterator[GroupChunk]:
        """Yield the buffered rows of each group, and empty the buffer."""
        labels = self._encoder.labels
        for code in sorted(self._buffer):
            values, weights = zip(*self._buffer[code], strict=True)
            yield GroupChunk(labels[code], np.concatenate(values), np.concatenate(weights))
        self._buffer.clear()
