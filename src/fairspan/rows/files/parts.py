"""Parts of files that are read at once: a row group of a Parquet file, or another file as a whole.

A part is a plain value that can be sent to another process.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan.errors import InvalidInput

Constants = tuple[tuple[str, str | int | None], ...]


@dataclass(frozen=True)
class FilePart(ABC):
    """What is read at once and counted as one.

    Attributes
    ----------
    path : Path
        The file.
    constants : tuple of (column, value)
        Columns that the file's place in a folder implies.
    n_rows : int or None
        Number of rows, if it is known before reading.
    """

    path: Path
    constants: Constants
    n_rows: int | None = None

    @property
    def where(self) -> str:
        """What the part is called in messages."""
        return str(self.path)

    @property
    def choices(self) -> list[str]:
        """How the file is read, where it does not say that itself."""
        return []

    def batches(self, columns: Sequence[str], labels: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of these columns, of about `size` rows where the format allows.

        Columns in `labels` stay text if the file has no types.
        """
        import pyarrow as pa

        known = dict(self.constants)
        stored = [name for name in columns if name not in known]
        with reading(self.path):
            for batch in self._stored(stored, labels, size):
                arrays = [
                    pa.repeat(pa.scalar(known[name]), batch.num_rows)
                    if name in known
                    else batch.column(name)
                    for name in columns
                ]
                yield pa.record_batch(arrays, names=list(columns))

    @abstractmethod
    def _stored(self, columns: list[str], labels: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of columns that are in the file."""


@dataclass(frozen=True)
class RowGroup(FilePart):
    """A row group of a Parquet file, counted from 0."""

    number: int = 0

    @property
    def where(self) -> str:
        """What the part is called in messages."""
        return f"{self.path}, row group {self.number}"

    def _stored(self, columns: list[str], labels: Sequence[str], size: int) -> Iterator[Any]:
        from pyarrow import parquet

        # Buffered ahead, row groups stay in memory until the whole file has been read. One thread:
        # the next batch is read while the one before is worked on.
        with parquet.ParquetFile(self.path, pre_buffer=False) as file:
            yield from file.iter_batches(size, [self.number], columns=columns, use_threads=False)


@dataclass(frozen=True)
class ArrowPart(FilePart):
    """A whole Arrow file, whose batches stay as they are in the file."""

    def _stored(self, columns: list[str], labels: Sequence[str], size: int) -> Iterator[Any]:
        import pyarrow as pa

        with pa.memory_map(str(self.path)) as file, pa.ipc.open_file(file) as reader:
            for index in range(reader.num_record_batches):
                batch = reader.get_batch(index).select(columns)
                # Arrow trusts the file, and a damaged one would end the process.
                batch.validate(full=True)
                yield batch


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn pyarrow's errors into InvalidInput that names the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, json.JSONDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidInput(
            f"{path} cannot be read ({' '.join(str(error).split())})",
            "Allowed: complete CSV, Parquet and Arrow files of equally long rows",
            "Check the file; a damaged one must be made again",
        ) from error
