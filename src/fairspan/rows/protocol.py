"""Protocols of row sources."""

from collections.abc import Iterator
from typing import Protocol, Self, runtime_checkable

from fairspan.rows.blocks import RowBlock
from fairspan.typing import ColumnName


class BaseRows:
    """Base class of built-in rows, with default metadata beyond `RowsInfo`."""

    @property
    def group_columns(self) -> tuple[ColumnName, ...]:
        """Names of the group columns; empty if they have no names."""
        return ()

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """Names of the columns of groups, classes, clusters and weights, if columns are named."""
        return ()

    @property
    def n_partitions(self) -> int | None:
        """Number of partitions, if known."""
        return None

    @property
    def is_partitioned(self) -> bool:
        """Whether the rows are aggregated by partition, where they are."""
        return hasattr(self, "aggregate")

    @property
    def has_blocks(self) -> bool:
        """Whether the rows can be read in blocks in this process."""
        return hasattr(self, "blocks")

    @property
    def row_offset(self) -> int:
        """Number of rows of the table before these, dropped ones included; 0 if unknown."""
        return 0

    @property
    def has_row_offsets(self) -> bool:
        """Whether each partition knows how many rows of the table are before it."""
        return not self.is_partitioned

    @property
    def has_classes(self) -> bool:
        """Whether each row has a class (y)."""
        return False

    @property
    def has_clusters(self) -> bool:
        """Whether each row has a cluster; rows of a cluster are dependent."""
        return False

    @property
    def keeps_missing(self) -> bool:
        """Whether missing cells are kept, as NaN."""
        return False

    @property
    def weight_exponent(self) -> int:
        """Binary exponent of the unit of the weights; 0 for weights of ordinary size."""
        return 0

    def with_row_offsets(self) -> Self:
        """Return these rows with the number of rows before each partition, if it is unknown."""
        return self

    def find_weight_scale(self) -> None:
        """Read all weights to choose a unit that brings them into range."""

    def row_name(self, index: int) -> str | None:
        """Return the name of a row for messages; None to use its position."""
        return None


class RowsInfo(Protocol):
    """Metadata available before any row is read."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Feature names, if any."""

    @property
    def n_features(self) -> int:
        """Number of features, p."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if known before reading."""


@runtime_checkable
class RowSource(RowsInfo, Protocol):
    """Rows that can be read in blocks, repeatedly."""

    def select_features(self, names: tuple[str, ...]) -> "RowSource":
        """Return the same rows with these features, in this order."""

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""


def row_metadata(rows: RowsInfo) -> BaseRows:
    """Return the metadata of rows; the defaults for rows of other packages."""
    return rows if isinstance(rows, BaseRows) else BaseRows()
