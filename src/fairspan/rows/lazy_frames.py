"""Rows of lazy Polars frames, read in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from fairspan.errors import import_optional
from fairspan.rows.arrow_streams import ArrowStreamRows, open_arrow_stream
from fairspan.rows.blocks import OnMissing
from fairspan.rows.metadata import RowMetadata
from fairspan.rows.row_adapters import RowMap, SourceAdapter
from fairspan.typing import TableLike

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class LazyFrameStream:
    """Arrow stream of a lazy Polars frame, whose query runs once for each pass over the rows.

    Attributes
    ----------
    frame : polars.LazyFrame
    """

    frame: pl.LazyFrame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the batches of a run of the query."""
        pa = import_optional("pyarrow", "arrow", "Reading a polars.LazyFrame")
        import polars

        empty = polars.DataFrame(schema=self.frame.collect_schema())
        schema = empty.to_arrow().schema
        reader = pa.RecordBatchReader.from_batches(schema, self._batches(schema))
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield batches in the order of the rows, which decides the fold of each."""
        frames: Iterable[pl.DataFrame]
        if hasattr(self.frame, "collect_batches"):
            frames = self.frame.collect_batches(maintain_order=True)
        else:  # older versions of Polars
            frames = [self.frame.collect()]
        for frame in frames:
            yield from frame.to_arrow().cast(schema).to_batches()


class LazyFrameAdapter(SourceAdapter):
    """Adapter for lazy Polars frames."""

    def accepts(self, X: TableLike) -> bool:
        """Return whether `X` is a lazy Polars frame."""
        kind = type(X)
        return kind.__name__ == "LazyFrame" and kind.__module__.split(".")[0] == "polars"

    def open(self, X: TableLike, metadata: RowMetadata, on_missing: OnMissing) -> ArrowStreamRows:
        """Open the rows, whose labels and weights are columns of the frame."""
        stream = LazyFrameStream(cast("pl.LazyFrame", X))
        return open_arrow_stream(stream, "a polars.LazyFrame", metadata, on_missing)

    def map_rows(self, X: TableLike, row_map: RowMap) -> TableLike:
        """Return a lazy frame that evaluates the function when it is collected."""
        import polars

        schema = dict.fromkeys(row_map.output_names, polars.Float64)

        def evaluate(frame: pl.DataFrame) -> pl.DataFrame:
            values: Any = row_map.function(frame)
            n_rows = len(frame)
            return polars.DataFrame(values.reshape(n_rows, len(schema)), schema=schema)

        return cast("pl.LazyFrame", X).map_batches(evaluate, schema=schema)
