"""SHA-256 of what a report was made from, so that a reader can tell whether it was the same."""

import hashlib
import os
from pathlib import Path

import numpy as np

from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.groups import spelled
from fairspan.rows.protocol import Rows, RowSource


def fingerprint_of(rows: Rows) -> str | None:
    """Of the bytes of files; of the numbers, groups and weights of rows in memory.

    Returns
    -------
    str or None
        None where the rows lie elsewhere, on a cluster.
    """
    if isinstance(rows, FileRows):
        return of_files(rows.table.path, [part.path for part in rows.table.parts])
    return _of_numbers(rows) if isinstance(rows, RowSource) else None


def of_files(path: Path, files: list[Path]) -> str:
    """Of a file's bytes; of a folder, of the sorted names in it and the SHA-256 of each file."""
    if path.is_file():
        return _of_file(path)
    names = sorted({file.relative_to(path).as_posix() for file in files})
    lines = [f"{_of_file(path / name)}  {name}\n" for name in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def of_bytes(contents: bytes) -> str:
    """Of bytes as they are."""
    return hashlib.sha256(contents).hexdigest()


def _of_file(path: str | os.PathLike[str]) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _of_numbers(rows: RowSource) -> str:
    """Of n, p and the SHA-256 of values, groups and weights, a line each.

    Values and weights are little-endian float64, row by row; groups are text, a line each.
    """
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
    lines = "\n".join([f"{n_rows} {rows.n_features}", *parts, ""])
    return hashlib.sha256(lines.encode()).hexdigest()
