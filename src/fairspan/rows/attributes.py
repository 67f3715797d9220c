"""Rows with further columns that are no features: attributes such as age, which a restriction uses.

Readers of these rows see the features alone; moments are computed of all columns, and keep them
beside those of the features.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.rows.groups import format_list
from fairspan.rows.mapped import WrappedRows
from fairspan.rows.protocol import (
    Aggregator,
    MappedAggregator,
    PartitionedRows,
    Result,
    RowBlock,
    Rows,
    RowSource,
)
from fairspan.typing import IndexArray

ColumnKey = str | int


def column_positions(
    columns: Sequence[ColumnKey], names: Sequence[str] | None, n_columns: int
) -> tuple[int, ...]:
    """Where some columns are among all: by name, or by number where they have no names.

    Raises
    ------
    InvalidInput
        A column that is not there, or none that is left as a feature.

    Examples
    --------
    >>> column_positions(["age"], ["income", "age"], 2), column_positions([0], None, 3)
    ((1,), (0,))
    """
    available: list[ColumnKey] = list(range(n_columns)) if names is None else list(names)
    unknown = [each for each in columns if each not in available]
    if unknown or len(available) == len(columns):
        raise InvalidInput(
            f"The restriction names the columns {format_list(list(columns))}, and the rows have "
            f"{format_list(available)}",
            "Allowed: columns of the rows, by name, or by position where they have no names, that "
            "leave at least one feature",
            "Correct the columns of the restriction, or pass rows that have them",
        )
    return tuple(available.index(each) for each in columns)


@dataclass(frozen=True, eq=False)
class RowsWithAttributes(WrappedRows):
    """Rows whose features are all columns but some.

    Attributes
    ----------
    whole : RowSource or PartitionedRows
        With all columns.
    attributes : tuple of str or int
        The columns that are no features.
    """

    attributes: tuple[ColumnKey, ...]

    @classmethod
    def wrap(cls, rows: Rows, attributes: Sequence[ColumnKey]) -> Rows:
        """The same rows, read in blocks or where they lie.

        Raises
        ------
        InvalidInput
            A column that is not there, or none that is left as a feature.
        """
        column_positions(attributes, rows.feature_names, rows.n_features)
        if isinstance(rows, PartitionedRows):
            return _AttributePartitions(rows, tuple(attributes))
        return _AttributeBlocks(rows, tuple(attributes))

    @cached_property
    def feature_positions(self) -> IndexArray:
        """Positions of the features among all columns."""
        source = self.source
        attribute_positions = column_positions(
            self.attributes, source.feature_names, source.n_features
        )
        return np.delete(np.arange(source.n_features), attribute_positions)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""
        names = self.source.feature_names
        return None if names is None else tuple(names[i] for i in self.feature_positions)

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return len(self.feature_positions)

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """Names of the columns that new rows need not have."""
        attribute_names = tuple(each for each in self.attributes if isinstance(each, str))
        return (*self.source_info.reserved_columns, *attribute_names)

    def select_features(self, names: tuple[str, ...]) -> Self:
        """The same rows with these features, in this order, and the same attributes."""
        attribute_names = tuple(map(str, self.attributes))
        if self.source.feature_names is None:
            return self
        return replace(self, source=self.source.select_features((*names, *attribute_names)))


class _AttributeBlocks(RowsWithAttributes):
    """Rows that are read in blocks."""

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        assert isinstance(self.source, RowSource)
        for block in self.source.blocks():
            yield replace(block, values=block.values[:, self.feature_positions])


class _AttributePartitions(RowsWithAttributes):
    """Rows that are read where they lie."""

    def aggregate(self, tally: Aggregator[Result]) -> Result | None:
        """The tally's result over all parts; None if there are no rows."""
        assert isinstance(self.source, PartitionedRows)
        change = partial(_AttributeBlocks, attributes=self.attributes)
        return self.source.aggregate(MappedAggregator(tally, change))
