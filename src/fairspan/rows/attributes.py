"""Rows with attribute columns, such as age, that are used by a restriction but are not features.

Reading these rows yields the features only; moments are computed for all columns and stored with
those of the features.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.rows.aggregation import Rows
from fairspan.rows.blocks import RowBlock
from fairspan.rows.labels import format_list
from fairspan.rows.mapped import WrappedRows
from fairspan.typing import IndexArray

ColumnKey = str | int


def column_positions(
    columns: Sequence[ColumnKey], names: Sequence[str] | None, n_columns: int
) -> tuple[int, ...]:
    """Positions of columns that a restriction uses, given by name, or by index if unnamed.

    These columns are no features, so at least one other column must be left.

    Raises
    ------
    InvalidInput
        Unknown column, or no feature left.

    Examples
    --------
    >>> column_positions(["age"], ["income", "age"], 2), column_positions([0], None, 3)
    ((1,), (0,))
    """
    available: list[ColumnKey] = list(range(n_columns)) if names is None else list(names)
    unknown = [column for column in columns if column not in available]
    if unknown or len(available) == len(columns):
        raise InvalidInput(
            f"The restriction uses the columns {format_list(list(columns))}, but the rows have "
            f"{format_list(available)}",
            "Allowed: columns of the rows, by name, or by position if unnamed, leaving at least "
            "one feature",
            "Correct the columns of the restriction, or pass rows that have them",
        )
    return tuple(available.index(column) for column in columns)


@dataclass(frozen=True, eq=False)
class RowsWithAttributes(WrappedRows):
    """Rows whose features are all columns except the attributes.

    Attributes
    ----------
    source : RowSource or PartitionedRows
        Rows with all columns.
    attributes : tuple of str or int
        Attribute columns.
    """

    attributes: tuple[ColumnKey, ...]

    @classmethod
    def wrap(cls, rows: Rows, attributes: Sequence[ColumnKey]) -> Rows:
        """Return the rows without the attribute columns among their features.

        The rows may be read in blocks or partitioned. The columns are checked here.

        Raises
        ------
        InvalidInput
            Unknown column, or no feature left.
        """
        # Only for its errors: positions are looked up when rows are read.
        column_positions(attributes, rows.feature_names, rows.n_features)
        return cls(rows, tuple(attributes))

    def change_block(self, block: RowBlock) -> RowBlock:
        """Return the block with the features only."""
        return replace(block, values=block.values[:, self.feature_positions])

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
        """Feature names, if any."""
        names = self.source.feature_names
        return None if names is None else tuple(names[i] for i in self.feature_positions)

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return len(self.feature_positions)

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """Columns that new rows do not need."""
        attribute_names = tuple(name for name in self.attributes if isinstance(name, str))
        return (*self.source_info.reserved_columns, *attribute_names)

    def select_features(self, names: tuple[str, ...]) -> Self:
        """Return the same rows with these features, in this order, and the same attributes."""
        if self.source.feature_names is None:  # nothing to select by name
            return self
        attribute_names = map(str, self.attributes)
        return replace(self, source=self.source.select_features((*names, *attribute_names)))
