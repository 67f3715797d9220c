"""Rows of objects that export an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairspan.errors import InvalidInput, import_optional
from fairspan.formatting.messages import shown_reason
from fairspan.registry import LazyModule
from fairspan.rows.blocks import OnMissing, RowBlock
from fairspan.rows.column_selection import (
    ColumnSelection,
    PartitionedColumnRows,
    StreamAdapter,
    column_roles,
    python_label_type,
)
from fairspan.rows.conversion import arrow_vector_lengths
from fairspan.rows.frames import batch_to_blocks
from fairspan.rows.metadata import RowMetadata
from fairspan.typing import TableLike

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    import pyarrow as pa
else:
    nw = LazyModule("narwhals.stable.v2")


class ArrowStream:
    """Stream of Arrow batches, which may be readable once only.

    Opening a stream may run a query, so the reader that was opened for the schema serves the first
    pass as well.

    Parameters
    ----------
    source : object
        Object that exports an Arrow stream.

    Attributes
    ----------
    schema : pyarrow.Schema
    """

    def __init__(self, source: TableLike) -> None:
        self._source = source
        self._unread_reader = _open_reader(source)
        self._n_rows_of_first_pass: int | None = None
        self.schema = self._unread_reader.schema

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches from the beginning.

        Raises
        ------
        InvalidInput
            The stream is exhausted and cannot be read again.
        """
        # The first pass reads what was opened for the schema. Later ones open the source again: it
        # yields fewer rows then if it can be read only once.
        reader = self._unread_reader
        self._unread_reader = None
        if reader is None:
            reader = _open_reader(self._source)
        n_rows = 0
        for batch in reader:
            yield batch
            n_rows += batch.num_rows
        if self._n_rows_of_first_pass is None:
            self._n_rows_of_first_pass = n_rows
        if n_rows != self._n_rows_of_first_pass:
            raise InvalidInput(
                f"The stream {type(self._source).__name__} returned {self._n_rows_of_first_pass} "
                f"rows on the first pass and {n_rows} on the next",
                "Allowed: streams that can be read again, if rows are needed twice",
                "Load it into a table first (read_all()), or use GroupMoments.from_rows(...), "
                "which needs one pass",
            )


@dataclass(frozen=True)
class ArrowStreamRows(PartitionedColumnRows):
    """Rows of an object that exports an Arrow stream, read in its batches.

    Attributes
    ----------
    stream : ArrowStream
    selection : ColumnSelection
    n_rows : int or None
        Unknown before reading.
    """

    stream: ArrowStream
    selection: ColumnSelection
    n_rows: int | None = None

    def label_type(self, column: str) -> type | None:
        """Return the Python type of the labels in a column."""
        return python_label_type(self.stream.schema.field(column).type)

    def blocks(self) -> Iterator[RowBlock]:
        """Yield all rows in blocks, from the beginning.

        Raises
        ------
        InvalidInput
            The stream is exhausted and cannot be read again.
        """
        columns = list(self.selection.required_columns)
        n_rows = 0
        for batch in self.stream.read():
            yield from batch_to_blocks(batch.select(columns), self.selection, n_rows)
            n_rows += batch.num_rows


class ArrowStreamAdapter(StreamAdapter):
    """Adapter for objects that export an Arrow stream."""

    def accepts(self, X: TableLike) -> bool:
        """Return whether `X` is an Arrow stream."""
        # A single column exports a stream too, but is not a table.
        is_column = hasattr(X, "__array__") and not hasattr(X, "schema")
        return hasattr(X, "__arrow_c_stream__") and not is_column

    def open(self, X: TableLike, metadata: RowMetadata, on_missing: OnMissing) -> ArrowStreamRows:
        """Open the rows of an Arrow stream."""
        description = f"a stream of rows ({type(X).__name__})"
        return open_arrow_stream(X, description, metadata, on_missing)


def open_arrow_stream(
    source: TableLike, description: str, metadata: RowMetadata, on_missing: OnMissing
) -> ArrowStreamRows:
    """Open the rows of an object that exports an Arrow stream.

    Labels and weights are given by column names only. `description` is that of the rows in the
    message of an error about labels of another kind.
    """
    roles = column_roles(metadata, description)
    stream = ArrowStream(source)
    selection = ColumnSelection.from_patterns(
        stream.schema.names,
        arrow_vector_lengths(stream.schema),
        roles,
        on_missing=on_missing,
    )
    return ArrowStreamRows(stream, selection)


def _open_reader(source: TableLike) -> pa.RecordBatchReader:
    """Return a pyarrow RecordBatchReader of a stream; raises InvalidInput if it is no table."""
    pa = import_optional("pyarrow", "arrow", "Reading a stream")
    if isinstance(source, pa.RecordBatchReader):
        return source
    try:
        return pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput(
            f"X, of type {type(source).__name__}, is not a stream of tables "
            f"({shown_reason(error)})",
            "Allowed: streams of tables with named columns",
            "Pass a table with one column for each feature",
        ) from error
