"""Parquet files: one part for each row group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan.rows.files.formats import (
    Constants,
    TableFile,
    reading,
    with_constant_fields,
    with_constants,
)


@dataclass(frozen=True)
class RowGroup:
    """A row group of a Parquet file.

    Attributes
    ----------
    path : Path
    number : int
        Counted from 0.
    n_rows : int
    constants : tuple of (column, value)
        Columns that the file's place in a folder stands for.
    """

    path: Path
    number: int
    n_rows: int
    constants: Constants

    @property
    def where(self) -> str:
        """What the part is called in messages."""
        return f"{self.path}, row group {self.number}"

    def batches(self, columns: Sequence[str], labels: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of these columns, of about `size` rows."""
        from pyarrow import parquet

        known = dict(self.constants)
        stored = [name for name in columns if name not in known]
        # Buffered ahead, row groups stay in memory until the whole file has been read. One thread:
        # the next batch is read while the one before is worked on.
        with reading(self.path), parquet.ParquetFile(self.path, pre_buffer=False) as file:
            for batch in file.iter_batches(size, [self.number], columns=stored, use_threads=False):
                yield with_constants(batch, columns, self.constants)


def opened(path: Path, constants: Constants) -> TableFile:
    """Open a file; a column in it comes before one that its place in a folder stands for."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as head:
        schema, metadata = head.schema_arrow, head.metadata
        counts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    constants = tuple(each for each in constants if each[0] not in schema.names)
    parts = tuple(RowGroup(path, i, count, constants) for i, count in enumerate(counts))
    return TableFile.of(path, with_constant_fields(schema, constants), parts)
