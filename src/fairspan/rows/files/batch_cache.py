"""Cache of the record batches of files that were read to the end.

A command passes over its rows several times: for moments, for moments by fold, for standard errors
and for a check of the first rows. Parsing text takes longer than any of these sums, so the batches
of a small file are kept, and further passes take them from memory. Larger files are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairspan.rows.files.batch_request import BatchRequest

if TYPE_CHECKING:
    import pyarrow as pa

    from fairspan.rows.files.table_files import FilePart

# Bytes of batches that are kept (64 MB): a table of a million rows of eight numbers. A process that
# reads a larger file needs this much more memory until its first pass is over.
MAX_CACHED_BYTES = 2**26


@dataclass(frozen=True, eq=False)
class _CachedPart:
    """Batches of a part, and the state of its file when they were read."""

    request: BatchRequest
    file_state: tuple[int, int]
    batches: list[pa.RecordBatch]
    n_bytes: int


class BatchCache:
    """Batches of the parts of a table, as long as all of them together are small enough.

    A file that has changed since it was read is read again. The copy of a cache in another process
    is empty and keeps nothing, since each part is read once there.

    Parameters
    ----------
    max_bytes : int
        Largest number of bytes that are kept.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = MAX_CACHED_BYTES if max_bytes is None else max_bytes
        self._parts: dict[Path, _CachedPart] = {}

    def __reduce__(self) -> tuple[type[BatchCache], tuple[int]]:
        return BatchCache, (0,)

    def find(self, part: FilePart, request: BatchRequest) -> list[pa.RecordBatch] | None:
        """Return the batches of a part, with the requested columns; None if they are not kept."""
        cached = self._parts.get(part.path)
        if cached is None or not cached.request.includes(request):
            return None
        if _file_state(part.path) != cached.file_state:
            return None
        columns = list(request.columns)
        return [batch.select(columns) for batch in cached.batches]

    def fill(
        self, part: FilePart, request: BatchRequest, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a part, and keep them if all are read and small enough.

        Only those of CSV files are kept: others are about as fast to read again.
        """
        # Batches of other columns, or from before the file changed: `find` did not return them.
        self._parts.pop(part.path, None)
        budget = self._max_bytes - sum(other.n_bytes for other in self._parts.values())
        keeps_batches = part.csv_format is not None
        kept_batches: list[pa.RecordBatch] = []
        n_bytes = 0
        # Before reading, so that `find` notices if the file changes meanwhile. None if the state is
        # unknown: changes would go unnoticed, so nothing is kept.
        file_state = _file_state(part.path)
        for batch in batches:
            n_bytes += batch.nbytes
            if n_bytes > budget:  # the batches are only passed on from here
                keeps_batches = False
                kept_batches.clear()
            if keeps_batches:
                kept_batches.append(batch)
            yield batch
        if keeps_batches and file_state is not None:
            self._parts[part.path] = _CachedPart(request, file_state, kept_batches, n_bytes)


def _file_state(path: Path) -> tuple[int, int] | None:
    """Return the size of a file and when it was changed; None if it cannot be told."""
    try:
        status = path.stat()
    except OSError:  # reported when the file is read
        return None
    return status.st_size, status.st_mtime_ns
