"""SHA-256 of files or rows, by which a report says what it was made from."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.groups import spelled
from fairspan.rows.protocol import Rows, RowSource


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
