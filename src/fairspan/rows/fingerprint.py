"""SHA-256 fingerprints of files and of rows."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairspan.rows.aggregation import Rows, as_row_source
from fairspan.rows.attributes import RowsWithAttributes
from fairspan.rows.blocks import RowBlock
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.labels import format_label
from fairspan.rows.protocol import row_metadata


def compute_fingerprint(rows: Rows) -> str | None:
    """Return the SHA-256 of files, or of the values, groups and weights of other rows.

    For rows it is the hash of four lines: n and p, then the SHA-256 of values, groups and weights.
    Values and weights are hashed as little-endian float64 in row order, groups as one line of text
    each. Weights are hashed as the user gave them: those that were scaled into range by a power of
    two, 2**weight_exponent, are scaled back.

    Returns
    -------
    str or None
        None for other rows in partitions, such as those of Dask and Spark.
    """
    if isinstance(rows, RowsWithAttributes):
        return compute_fingerprint(rows.source)
    if isinstance(rows, FileRows):
        return sha256_of_files(rows.path, [part.path for part in rows.parts])
    source = as_row_source(rows)
    if source is None:
        return None
    weight_exponent = row_metadata(rows).weight_exponent
    hasher = _RowHasher()
    for block in source.blocks():
        hasher.update(block, weight_exponent)
    return hasher.digest(rows.n_features)


class _RowHasher:
    """SHA-256 of blocks of rows; see :func:`compute_fingerprint`."""

    def __init__(self) -> None:
        self._n_rows = 0
        self._values = hashlib.sha256()
        self._groups = hashlib.sha256()
        self._weights = hashlib.sha256()

    def update(self, block: RowBlock, weight_exponent: int) -> None:
        """Add a block of rows whose weights have the unit 2**weight_exponent."""
        self._n_rows += len(block.values)
        self._values.update(np.ascontiguousarray(block.values, dtype="<f8").data)
        columns = [
            labels for labels in (block.groups, block.classes, block.clusters) if labels is not None
        ]
        if columns:
            labels = CodedLabels.cross(columns)
            # Python strings may contain lone surrogates, which UTF-8 cannot encode.
            lines = [
                f"{format_label(label)}\n".encode(errors="surrogatepass")
                for label in labels.categories
            ]
            self._groups.update(b"".join(lines[code] for code in labels.codes.tolist()))
        if block.weights is not None:
            # As the user gave them.
            weights = np.ldexp(block.weights, weight_exponent)
            self._weights.update(np.ascontiguousarray(weights, dtype="<f8").data)

    def digest(self, n_features: int) -> str:
        """Return the SHA-256 of the sizes and of all parts."""
        hashes = [part.hexdigest() for part in (self._values, self._groups, self._weights)]
        lines = [f"{self._n_rows} {n_features}", *hashes, ""]
        return sha256_of_bytes("\n".join(lines).encode())


def sha256_of_files(path: Path, files: Sequence[Path]) -> str:
    """SHA-256 of a file; for a folder, of a sorted list of file hashes and names.

    `files` are those of the folder that are hashed; ignored if the path is a file.
    """
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    names = sorted({file.relative_to(path).as_posix() for file in files})
    lines = [f"{sha256_of_files(path / name, ())}  {name}\n" for name in names]
    return sha256_of_bytes("".join(lines).encode())


def sha256_of_bytes(contents: bytes) -> str:
    """SHA-256 of bytes."""
    return hashlib.sha256(contents).hexdigest()
