"""Files that are complete or absent: written under a random name, then renamed into place.

The temporary file stands in the folder of the final one and is created by us alone, never through a
link. What a process that was killed has left is removed after a day, when the same file is written.
"""

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from fairspan.errors import InvalidParameter

_CREATED = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_CREATED |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
# Of the final name, so that the temporary one is not too long for the file system.
_LONGEST_START = 40
_RANDOM_BYTES = 8
# Seconds after which nobody writes to a temporary file any more.
_ABANDONED = 86_400
_PERMISSIONS = 0o777
_PRIVATE, _BY_UMASK = 0o600, 0o666
# Endings of names that say what is in a file, and what has another kind of result.
_OTHER_KINDS = {
    ".csv": "a table",
    ".tsv": "a table",
    ".xlsx": "a table",
    ".json": "JSON, which --json prints",
    ".parquet": "a table",
    ".arrow": "a table",
    ".feather": "a table",
    ".pdf": "a document in PDF",
    ".html": "a page",
    ".htm": "a page",
    ".pkl": "a pickle",
    ".pickle": "a pickle",
    ".joblib": "a pickle",
}


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a file to write to, which takes the place of `path` when all went well.

    On an error it is removed and whatever stood at `path` is untouched. A file that is replaced
    keeps its permissions; a new one gets those that the process gives its files.

    Parameters
    ----------
    path : path
        The final name. A symbolic link stays one: the file that it leads to is replaced.

    Yields
    ------
    binary file

    Raises
    ------
    InvalidParameter
        It cannot be written: the disk is full, for example, or it is a folder, a device or a pipe.
    """
    try:
        final = Path(os.path.realpath(path))
        before = final.stat().st_mode if final.exists() else None
        if before is not None and not stat.S_ISREG(before):
            raise OSError(errno.EINVAL, "It is no ordinary file")
        # Hidden, so that whoever reads the folder passes it over.
        start = f".{final.name[:_LONGEST_START]}."
        _remove_abandoned(final.parent, start)
        temporary = final.with_name(f"{start}{secrets.token_hex(_RANDOM_BYTES)}.tmp")
        descriptor = os.open(temporary, _CREATED, _BY_UMASK if before is None else _PRIVATE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
            with temporary.open("rb+") as file:  # which whoever wrote may have closed
                os.fsync(file.fileno())
            if before is not None:
                temporary.chmod(before & _PERMISSIONS)
            temporary.replace(final)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise InvalidParameter(
            f"{path} cannot be written ({error.strerror or error})",
            "Allowed: a place that may be written to, with room for the whole file",
            "Make room, or name another place",
        ) from error
    _synchronise_folder(final.parent)


def write_whole(path: str | os.PathLike[str], contents: bytes) -> None:
    """Write a file that appears only when it is complete; several processes may do so at once.

    Raises
    ------
    InvalidParameter
        As of :func:`replacing`.
    """
    with replacing(path) as file:
        file.write(contents)


def _remove_abandoned(folder: Path, start: str) -> None:
    """Remove temporary files of the same name that nobody has written to for a day."""
    pattern = re.compile(f"{re.escape(start)}[0-9a-f]{{{2 * _RANDOM_BYTES}}}\\.tmp")
    with suppress(OSError):  # a folder that may not be listed
        for name in os.listdir(folder):  # noqa: PTH208 - of names, which are many times faster
            if pattern.fullmatch(name):
                with suppress(OSError):  # removed by another process meanwhile
                    if time.time() - (folder / name).lstat().st_mtime > _ABANDONED:
                        (folder / name).unlink()


def _synchronise_folder(folder: Path) -> None:
    """Let the new name survive a power cut, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_name(path: str | os.PathLike[str], what: str, *endings: str) -> None:
    """Make sure that a result is not named as another kind of file.

    Parameters
    ----------
    path : path
    what : str
        Such as "a model is".
    endings : str
        Those of its own kind.

    Raises
    ------
    InvalidParameter
    """
    ending = Path(os.fsdecode(path)).suffix.lower()
    if ending in _OTHER_KINDS and ending not in endings:
        own = f"that ends in {endings[0]}" if endings else "with another ending"
        raise InvalidParameter(
            f"{os.fsdecode(path)} is named as {_OTHER_KINDS[ending]}, and {what} not that",
            f"Allowed: a name {own}",
            "Choose such a name",
        )
