"""Manifest of a folder of moments: the source files and options of its parts.

Parts from other sources or options are never mixed, and nothing is merged while a part is missing.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fairspan.errors import InvalidInput
from fairspan.formatting.names import join_truncated
from fairspan.rows.labels import format_list
from fairspan.storage.archive import open_json, write_json
from fairspan.storage.fields import FieldReader, FileKind

MANIFEST = "manifest.json"
_MANIFEST_FILE = FileKind(
    "parts",
    "the manifest of a folder of moments",
    remedy="Delete the folder, and recompute the moments",
    outdated_remedy="Delete the folder, and recompute the moments; folders of older versions are "
    "not read",
)
# Number of bytes hashed at each end of a file: Parquet keeps its index at the end, and edits shift
# the end of text files.
_HASHED_BYTES = 1 << 16
# The kind of a document appears within its first bytes.
_HEADER_BYTES = 64
# Files or groups that a message names; more would hide what it says.
MAX_NAMES = 5


class FileFingerprint(NamedTuple):
    """Properties that distinguish a file from another of the same name.

    A tuple, as manifests store it.

    Attributes
    ----------
    size : int
        In bytes.
    modification_time : int
        In nanoseconds.
    sha256 : str
        Hash of the first and last 64 KiB.
    """

    size: int
    modification_time: int
    sha256: str


def compute_file_fingerprint(path: Path) -> FileFingerprint:
    """Compute the fingerprint of a file from its size, modification time and both ends."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        ends = hashlib.sha256(file.read(_HASHED_BYTES))
        if status.st_size > _HASHED_BYTES:
            # Do not hash bytes of a short file twice.
            file.seek(max(status.st_size - _HASHED_BYTES, _HASHED_BYTES))
            ends.update(file.read(_HASHED_BYTES))
    return FileFingerprint(status.st_size, status.st_mtime_ns, ends.hexdigest())


def check_unchanged(path: Path, fingerprint: FileFingerprint) -> None:
    """Raise InvalidInput if size or modification time of a file changed since its fingerprint."""
    with suppress(OSError):  # a file that no longer exists changed, too
        status = path.stat()
        has_same_size = status.st_size == fingerprint.size
        if has_same_size and status.st_mtime_ns == fingerprint.modification_time:
            return
    raise InvalidInput(
        f"{path} changed while it was being read",
        "Allowed: files that stay as they are until all of them have been read",
        "Wait until nothing writes to them, then start over",
    )


@dataclass(frozen=True)
class Manifest:
    """Expected contents of a folder of moments.

    Attributes
    ----------
    folder : Path
    options : mapping of str to sequence of str
        Columns by role, and reading options.
    sources : mapping of str to FileFingerprint
        Fingerprints of the source files, by path relative to the source folder.
    """

    folder: Path
    options: Mapping[str, Sequence[str]]
    sources: Mapping[str, FileFingerprint]

    @classmethod
    def read(cls, folder: Path) -> "Manifest | None":
        """Read the manifest of a folder; None if there is none written by fairspan.

        Other programs write files of this name too; the kind of document, which fairspan writes
        near the start, tells them apart.

        Raises
        ------
        CorruptFile
        """
        path = folder / MANIFEST
        if (
            not path.is_file()
            or _MANIFEST_FILE.name.encode() not in path.read_bytes()[:_HEADER_BYTES]
        ):
            return None
        with open_json(path, _MANIFEST_FILE) as fields:
            options = fields.read_record("options")
            parts = fields.read_record("parts")
            return cls(
                folder,
                options={name: options.read_texts(name) for name in options.names},
                sources={name: _read_fingerprint(parts, name) for name in parts.names},
            )

    def moments_path(self, source: str) -> Path:
        """Path of the moments of a source file; path separators are percent-encoded."""
        return self.folder / f"{source.replace('%', '%25').replace('/', '%2F')}.moments"

    def check_folder(self) -> None:
        """Check that the folder is new, empty, or was started with the same files and options.

        Raises
        ------
        InvalidInput
        """
        existing = Manifest.read(self.folder)
        if existing is None:
            # Hidden files, such as those of file managers, do not count.
            others = [path.name for path in self.folder.glob("[!.]*")]
            if others:
                raise InvalidInput(
                    f"The folder {self.folder} holds {join_truncated(sorted(others), MAX_NAMES)},"
                    f" and no {MANIFEST} of moments",
                    "Allowed: a new or an empty folder, or one that the same command began",
                    "Name another output",
                )
        elif changes := "; ".join(existing._changes(self)):
            raise InvalidInput(
                f"{self.folder} was begun with other files or options ({changes})",
                "Allowed: the same files and options as before",
                f"Delete {self.folder} to start over, or name another output",
            )

    def write(self) -> None:
        """Write the manifest if it does not exist; called before the first part is written."""
        path = self.folder / MANIFEST
        if not path.exists():
            self.folder.mkdir(exist_ok=True)
            write_json(path, _MANIFEST_FILE, {"options": self.options, "parts": self.sources})

    def _changes(self, now: "Manifest") -> Iterator[str]:
        """Yield a text for each kind of difference between this manifest and the current one."""
        existing = self.sources
        current = now.sources
        changes = {
            "changed": [
                name for name in existing if current.get(name, existing[name]) != existing[name]
            ],
            "missing": [name for name in existing if name not in current],
            "new": [name for name in current if name not in existing],
        }
        for kind, names in changes.items():
            if names:
                yield f"{kind}: {join_truncated(names, MAX_NAMES)}"
        for name, current_values in now.options.items():
            earlier_values = list(self.options.get(name, []))
            if earlier_values != list(current_values):
                before = format_list(earlier_values) or "none"
                after = format_list(current_values) or "none"
                yield f"{name}: was {before}, is {after}"


def _read_fingerprint(parts: FieldReader, name: str) -> FileFingerprint:
    """Read the fingerprint of the source file `name` from a manifest."""
    size, modification_time, sha256 = parts.read_list(name, length=3)
    if type(size) is int and type(modification_time) is int and type(sha256) is str:
        return FileFingerprint(size, modification_time, sha256)
    raise parts.error(
        name,
        f"is {[size, modification_time, sha256]!r:.60}",
        "size, modification time and hash of a file",
    )
