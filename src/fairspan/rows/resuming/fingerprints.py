"""What files were when they were read, so that a change is noticed."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from fairspan.errors import InvalidInput

# Of the first and the last bytes: where Parquet keeps its index, and where an edit moves others to.
_HASHED = 1 << 16
_MOST_NAMED = 5


class Fingerprint(NamedTuple):
    """What tells a file from another of the same name.

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
    def of(cls, path: Path) -> "Fingerprint":
        """Read it from the file."""
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            ends = hashlib.sha256(file.read(_HASHED))
            if status.st_size > _HASHED:
                file.seek(max(status.st_size - _HASHED, _HASHED))
                ends.update(file.read(_HASHED))
        return cls(status.st_size, status.st_mtime_ns, ends.hexdigest())


def check_not_changed(path: Path, before: Fingerprint) -> None:
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
    if now != (before.size, before.modified):
        raise InvalidInput(
            f"{path} changed while it was being read",
            "Allowed are files that stay as they are until all of them have been read",
            "Wait until nothing writes to them, then start over",
        )


def differences(before: Mapping[str, Fingerprint], now: Mapping[str, Fingerprint]) -> Iterable[str]:
    """In words, which files were changed, removed or added."""
    for names, what in (
        ([name for name in before if name in now and before[name] != now[name]], "changed"),
        ([name for name in before if name not in now], "missing"),
        ([name for name in now if name not in before], "new"),
    ):
        if names:
            shown = ", ".join(names[:_MOST_NAMED])
            more = len(names) - _MOST_NAMED
            yield f"{what}: {shown}" + (f" and {more} more" if more > 0 else "")
