"""Fingerprints: whether files, rows or settings are still those that something was made from.

- :class:`FileState` shows quickly whether a file changed, for passes that are resumed.
- :func:`fingerprint_of` is the SHA-256 of files or rows that a report states.
- :func:`fingerprint` is a digest of any data and settings, for searches that are resumed.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.formatting.names import first_of
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.groups import spelled
from fairspan.rows.protocol import Rows, RowSource

# Of the first and the last bytes: where Parquet keeps its index, and where an edit moves others to.
_HASHED = 1 << 16
_MOST_NAMED = 5
# What repr writes of an object without a repr of its own; it differs from process to process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class FileState(NamedTuple):
    """What distinguishes a file from another of the same name.

    Attributes
    ----------
    size : int
        Bytes.
    modified : int
        Nanoseconds since 1970.
    ends : str
        Hash of the first and the last 64 KiB.
    """

    size: int
    modified: int
    ends: str

    @classmethod
    def of(cls, path: Path) -> "FileState":
        """Read it from the file."""
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            ends = hashlib.sha256(file.read(_HASHED))
            if status.st_size > _HASHED:
                file.seek(max(status.st_size - _HASHED, _HASHED))
                ends.update(file.read(_HASHED))
        return cls(status.st_size, status.st_mtime_ns, ends.hexdigest())

    def check(self, path: Path) -> None:
        """Make sure that a file is what it was before it was read.

        Raises
        ------
        InvalidInput
        """
        try:
            status = path.stat()
            now = (status.st_size, status.st_mtime_ns)
        except OSError:  # there is none
            now = (-1, -1)
        if now != (self.size, self.modified):
            raise InvalidInput(
                f"{path} changed while it was being read",
                "Allowed: files that stay as they are until all of them have been read",
                "Wait until nothing writes to them, then start over",
            )


def differences(before: Mapping[str, FileState], now: Mapping[str, FileState]) -> Iterator[str]:
    """In words, which files were changed, removed or added."""
    for names, what in (
        ([name for name in before if name in now and before[name] != now[name]], "changed"),
        ([name for name in before if name not in now], "missing"),
        ([name for name in now if name not in before], "new"),
    ):
        if names:
            yield f"{what}: {first_of(names, _MOST_NAMED)}"


def fingerprint_of(rows: Rows) -> str | None:
    """SHA-256 of the bytes of files, or of the numbers, groups and weights of other rows.

    Of rows it is that of n, p and the SHA-256 of values, groups and weights, a line each. Values
    and weights are little-endian float64, row by row; groups are text, a line each.

    Returns
    -------
    str or None
        None where the rows lie elsewhere, on a cluster.
    """
    if isinstance(rows, FileRows):
        return of_files(rows.table.path, [part.path for part in rows.table.parts])
    if not isinstance(rows, RowSource):
        return None
    values, groups, weights = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    n_rows = 0
    for block in rows.blocks():
        n_rows += len(block.values)
        values.update(np.ascontiguousarray(block.values, dtype="<f8").data)
        if block.labels is not None:
            # Half of a pair of surrogates, which Python's text may hold, is no UTF-8.
            texts = [
                f"{spelled(label)}\n".encode(errors="surrogatepass")
                for label in block.labels.distinct
            ]
            groups.update(b"".join(texts[code] for code in block.labels.codes.tolist()))
        if block.weights is not None:
            weights.update(np.ascontiguousarray(block.weights, dtype="<f8").data)
    parts = [each.hexdigest() for each in (values, groups, weights)]
    return of_bytes("\n".join([f"{n_rows} {rows.n_features}", *parts, ""]).encode())


def of_files(path: Path, files: Sequence[Path]) -> str:
    """SHA-256 of a file; of a folder, of the sorted names in it and the SHA-256 of each file."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    names = sorted({file.relative_to(path).as_posix() for file in files})
    return of_bytes("".join(f"{of_files(path / name, ())}  {name}\n" for name in names).encode())


def of_bytes(contents: bytes) -> str:
    """SHA-256 of bytes as they are."""
    return hashlib.sha256(contents).hexdigest()
