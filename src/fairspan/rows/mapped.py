"""Rows that are made of other rows: of which every block is changed as it is read, say."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from fairspan.rows.protocol import (
    Aggregator,
    BaseRows,
    MappedAggregator,
    PartitionedRows,
    Result,
    RowBlock,
    Rows,
    RowSource,
)

BlockTransform = Callable[[RowBlock], RowBlock]


@dataclass(frozen=True, eq=False)
class WrappedRows(BaseRows):
    """Rows that are made of others, and know of them what these know.

    Attributes
    ----------
    whole : RowSource or PartitionedRows
    """

    source: Rows

    @property
    def source_info(self) -> BaseRows:
        """What is known of the others."""
        return self.source if isinstance(self.source, BaseRows) else BaseRows()

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""
        return self.source.feature_names

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return self.source.n_features

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if it is known before reading."""
        return self.source.n_rows

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups."""
        return self.source_info.group_columns

    @property
    def n_partitions(self) -> int | None:
        """In how many parts they are read, if that is known."""
        return self.source_info.n_partitions

    @property
    def row_offset(self) -> int:
        """How many rows of the whole table come before these."""
        return self.source_info.row_offset

    @property
    def keeps_missing(self) -> bool:
        """Whether rows keep cells that are missing, as NaN."""
        return self.source_info.keeps_missing

    @property
    def weight_exponent(self) -> int:
        """Binary exponent of the unit of the weights."""
        return self.source_info.weight_exponent

    def find_weight_scale(self) -> None:
        """Read all weights, to choose the unit of weights out of range."""
        self.source_info.find_weight_scale()

    def row_name(self, index: int) -> str | None:
        """Return what messages call a row."""
        return self.source_info.row_name(index)

    def select_features(self, names: tuple[str, ...]) -> Self:
        """The same rows with these features, in this order."""
        return replace(self, source=self.source.select_features(names))


@dataclass(frozen=True, eq=False)
class MappedRows(WrappedRows):
    """Rows of the same features and number, with other values or labels.

    Attributes
    ----------
    change : callable
        What becomes of a block; it can be sent to another process.
    is_completed : bool
        Whether no cell is missing afterwards.
    """

    transform: BlockTransform
    fills_missing: bool = True

    @classmethod
    def wrap(cls, rows: Rows, change: BlockTransform, *, is_completed: bool = True) -> Rows:
        """The same rows, changed, read in blocks or where they lie."""
        kind = _MappedPartitions if isinstance(rows, PartitionedRows) else _MappedBlocks
        return kind(rows, change, is_completed)

    @property
    def keeps_missing(self) -> bool:
        """Whether rows keep cells that are missing, as NaN."""
        return self.source_info.keeps_missing and not self.fills_missing


class _MappedBlocks(MappedRows):
    """Rows that are read in blocks."""

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        assert isinstance(self.source, RowSource)
        return map(self.transform, self.source.blocks())


class _MappedPartitions(MappedRows):
    """Rows that are read where they lie."""

    def aggregate(self, tally: Aggregator[Result]) -> Result | None:
        """The tally's result over all parts; None if there are no rows."""
        assert isinstance(self.source, PartitionedRows)
        change = partial(_MappedBlocks, transform=self.transform, fills_missing=self.fills_missing)
        return self.source.aggregate(MappedAggregator(tally, change))
