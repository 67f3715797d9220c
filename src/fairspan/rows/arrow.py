"""Rows in anything that exports an Arrow stream: DuckDB, Ibis, readers of record batches."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fairspan.errors import InvalidInput, MissingDependency
from fairspan.rows.columns import (
    ChosenColumns,
    ReadInBatches,
    RowsByColumns,
    named_columns_only,
    vector_lengths_of,
)
from fairspan.rows.protocol import OnMissing, RowBlock


@dataclass(frozen=True)
class ArrowStream(RowsByColumns):
    """Rows of an object with the method ``__arrow_c_stream__``, read in its own batches.

    Attributes
    ----------
    source : object
    chosen : ChosenColumns
    n_rows : int or None
        Not known before reading.
    counts : list of int
        Rows of each pass so far: some streams can be read only once, and would end at once later.
    opened : list of pyarrow.RecordBatchReader
        What was opened for the schema, for the first pass to use: opening may run a query.
    """

    source: Any
    chosen: ChosenColumns
    n_rows: int | None = None
    counts: list[int] = field(default_factory=list, repr=False, compare=False)
    opened: list[Any] = field(default_factory=list, repr=False, compare=False)

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning.

        Raises
        ------
        InvalidInput
            The stream has been read, and cannot be read again.
        """
        n_rows = 0
        for batch in self.opened.pop() if self.opened else _opened(self.source):
            yield from self.chosen.blocks(batch.select(list(self.chosen.read)), n_rows)
            n_rows += batch.num_rows
        self.counts.append(n_rows)
        if n_rows != self.counts[0]:
            raise InvalidInput(
                f"The stream {type(self.source).__name__} gave {self.counts[0]} rows the first "
                f"time and {n_rows} the next",
                "Allowed are streams that can be read again, where rows are needed twice",
                "Read it into a table first (read_all()), or use moments: "
                "GroupMoments.from_rows(...), which need one pass",
            )


class ArrowStreams(ReadInBatches):
    """Objects that export an Arrow stream, whose groups and weights are columns of it."""

    def takes(self, X: Any) -> bool:
        """Whether it is one."""
        # A single column exports a stream too, and is no table.
        is_column = hasattr(X, "__array__") and not hasattr(X, "schema")
        return hasattr(X, "__arrow_c_stream__") and not is_column

    def open_rows(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> ArrowStream:
        """Rows of a stream, whose groups and weights are columns of it."""
        named = named_columns_only(
            sensitive_features, sample_weight, f"a stream of rows ({type(X).__name__})"
        )
        reader = _opened(X)
        chosen = ChosenColumns.of(
            reader.schema.names,
            vector_lengths_of(reader.schema),
            on_missing=on_missing,
            **named,
        )
        return ArrowStream(X, chosen, opened=[reader])


def _opened(source: Any) -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingDependency.for_extra("pyarrow", "arrow", "Reading a stream") from error
    if isinstance(source, pa.RecordBatchReader):
        return source
    try:
        return pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput(
            f"X, of type {type(source).__name__}, is no stream of rows ({error})",
            "Allowed are streams of tables with named columns",
            "Pass a table with one column for each feature",
        ) from error
