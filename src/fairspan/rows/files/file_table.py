"""Interface of the rows of files, as far as helpers of their reader need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fairspan.rows.protocol import RowSource

if TYPE_CHECKING:
    import pyarrow as pa

    from fairspan.rows.column_selection import ColumnSelection
    from fairspan.rows.files.table_files import FilePart


class FileTable(RowSource, Protocol):
    """Rows of files with a schema, selected columns and parts."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of all columns."""

    @property
    def parts(self) -> tuple[FilePart, ...]:
        """Files, or row groups of them."""

    @property
    def selection(self) -> ColumnSelection:
        """Columns by role."""

    @property
    def location(self) -> str:
        """Location for messages."""
