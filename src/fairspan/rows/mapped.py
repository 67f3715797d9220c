"""Wrappers of row sources, such as rows whose blocks are transformed as they are read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from fairspan.rows.aggregation import (
    Aggregator,
    MappedAggregator,
    PartitionedRows,
    Result,
    Rows,
    with_row_offsets,
)
from fairspan.rows.blocks import RowBlock
from fairspan.rows.protocol import BaseRows, RowSource

BlockTransform = Callable[[RowBlock], RowBlock]


@dataclass(frozen=True, eq=False)
class WrappedRows(BaseRows):
    """Base class of wrappers, which delegates metadata to the wrapped rows.

    Attributes
    ----------
    source : RowSource or PartitionedRows
    """

    source: Rows

    @property
    def source_info(self) -> BaseRows:
        """Metadata of the wrapped rows."""
        return self.source if isinstance(self.source, BaseRows) else BaseRows()

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Feature names, if any."""
        return self.source.feature_names

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return self.source.n_features

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if known before reading."""
        return self.source.n_rows

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the group columns; empty if unnamed."""
        return self.source_info.group_columns

    @property
    def n_partitions(self) -> int | None:
        """Number of partitions, if known."""
        return self.source_info.n_partitions

    @property
    def row_offset(self) -> int:
        """Number of rows of the whole table before these."""
        return self.source_info.row_offset

    @property
    def has_classes(self) -> bool:
        """Whether each row has a class (y)."""
        return self.source_info.has_classes

    @property
    def has_clusters(self) -> bool:
        """Whether each row has a cluster."""
        return self.source_info.has_clusters

    @property
    def keeps_missing(self) -> bool:
        """Whether missing cells are kept, as NaN."""
        return self.source_info.keeps_missing

    @property
    def weight_exponent(self) -> int:
        """Binary exponent of the unit of the weights."""
        return self.source_info.weight_exponent

    def with_row_offsets(self) -> Self:
        """Return these rows with the number of rows before each partition."""
        return replace(self, source=with_row_offsets(self.source))

    def find_weight_scale(self) -> None:
        """Read all weights to choose a unit that brings them into range."""
        self.source_info.find_weight_scale()

    def row_name(self, index: int) -> str | None:
        """Return the name of a row for messages."""
        return self.source_info.row_name(index)

    def select_features(self, names: tuple[str, ...]) -> Self:
        """Return the same rows with these features, in this order."""
        return replace(self, source=self.source.select_features(names))


@dataclass(frozen=True, eq=False)
class MappedRows(WrappedRows):
    """Rows with transformed values or labels; features and row count stay the same.

    Attributes
    ----------
    transform : callable
        Picklable function applied to each block.
    fills_missing : bool
        Whether transformed blocks have no missing cells.
    """

    transform: BlockTransform
    fills_missing: bool = True

    @classmethod
    def wrap(cls, rows: Rows, transform: BlockTransform, *, fills_missing: bool = True) -> Rows:
        """Wrap rows, in blocks or partitioned."""
        wrapper = _MappedPartitions if isinstance(rows, PartitionedRows) else _MappedBlocks
        return wrapper(rows, transform, fills_missing)

    @property
    def keeps_missing(self) -> bool:
        """Whether missing cells are kept, as NaN."""
        return self.source_info.keeps_missing and not self.fills_missing


class _MappedBlocks(MappedRows):
    """Transformed rows of a `RowSource`."""

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        assert isinstance(self.source, RowSource)
        return map(self.transform, self.source.blocks())


class _MappedPartitions(MappedRows):
    """Transformed rows of `PartitionedRows`."""

    def aggregate(self, aggregator: Aggregator[Result]) -> Result | None:
        """Aggregate all partitions; None if there are no rows."""
        assert isinstance(self.source, PartitionedRows)
        wrap = partial(_MappedBlocks, transform=self.transform, fills_missing=self.fills_missing)
        return self.source.aggregate(MappedAggregator(aggregator, wrap))
