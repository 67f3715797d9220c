"""Rows that are changed as they are read."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Self

from fairspan.rows.aggregation import (
    Aggregator,
    MappedAggregator,
    Result,
    Rows,
    as_partitioned,
    as_row_source,
    with_row_offsets,
)
from fairspan.rows.blocks import RowBlock
from fairspan.rows.protocol import BaseRows, row_metadata
from fairspan.typing import ColumnName

BlockTransform = Callable[[RowBlock], RowBlock]


@dataclass(frozen=True, eq=False)
class WrappedRows(BaseRows, ABC):
    """Rows that are changed on the way, block by block; metadata are those of the wrapped rows.

    They are read as the wrapped rows are: in blocks, or by partition in place. A partition is
    wrapped in the same class where it is read, so the other fields of a subclass must be picklable.

    Attributes
    ----------
    source : RowSource or PartitionedRows
    """

    source: Rows

    @abstractmethod
    def change_block(self, block: RowBlock) -> RowBlock:
        """Return a block of the wrapped rows as one of these rows."""

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        source = as_row_source(self.source)
        assert source is not None
        return map(self.change_block, source.blocks())

    def aggregate(self, aggregator: Aggregator[Result]) -> Result | None:
        """Aggregate all partitions; None if there are no rows."""
        source = as_partitioned(self.source)
        assert source is not None
        others = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "source"
        }
        return source.aggregate(MappedAggregator(aggregator, partial(type(self), **others)))

    @property
    def is_partitioned(self) -> bool:
        """Whether the wrapped rows are aggregated by partition."""
        return as_partitioned(self.source) is not None

    @property
    def has_blocks(self) -> bool:
        """Whether the wrapped rows can be read in blocks in this process."""
        return as_row_source(self.source) is not None

    @property
    def source_info(self) -> BaseRows:
        """Metadata of the wrapped rows."""
        return row_metadata(self.source)

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
    def group_columns(self) -> tuple[ColumnName, ...]:
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
    def has_row_offsets(self) -> bool:
        """Whether each partition knows the number of rows before it."""
        return self.source_info.has_row_offsets

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

    @property
    def keeps_missing(self) -> bool:
        """Whether missing cells are kept, as NaN."""
        return self.source_info.keeps_missing and not self.fills_missing

    def change_block(self, block: RowBlock) -> RowBlock:
        """Return the transformed block."""
        return self.transform(block)
