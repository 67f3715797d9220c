"""Atomic file writing.

Files are written under a random name in the target folder and renamed into place. The temporary
file is created exclusively and never through a link; leftovers of killed processes are removed
after a day, on the next write of the same file.
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

_PLATFORM_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLATFORM_FLAGS
# Characters of the target's name in that of the temporary file: file systems limit its length.
_MAX_PREFIX_LENGTH = 40
# Bytes of the random part of a temporary name; as hexadecimal digits, twice as many characters.
_RANDOM_BYTES = 8
# Age in seconds from which a temporary file counts as abandoned: no write takes a day.
_STALE_SECONDS = 86_400
_PERMISSION_MASK = 0o777
# Permissions while a file is written that replaces another, which may be private.
_OWNER_ONLY = 0o600
# Permissions of a new file, less those that the umask of the process removes.
_DEFAULT_MODE = 0o666
# Suffixes of other file formats.
_FOREIGN_SUFFIXES = {
    ".csv": "a table",
    ".tsv": "a table",
    ".xlsx": "a table",
    ".json": "a JSON document",
    ".parquet": "a table",
    ".arrow": "a table",
    ".feather": "a table",
    ".pdf": "a PDF document",
    ".html": "an HTML page",
    ".htm": "an HTML page",
    ".pkl": "a pickle",
    ".pickle": "a pickle",
    ".joblib": "a pickle",
}


@contextmanager
def open_atomic(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for atomic writing: it replaces `path` on success.

    On error it is removed and `path` is left untouched. A replaced file keeps its permissions; a
    new file gets the default ones.

    Parameters
    ----------
    path : path
        Target path. For a symbolic link, the file it points to is replaced.

    Yields
    ------
    binary file

    Raises
    ------
    InvalidParameter
        The file cannot be written (full disk, folder, device or pipe, for example).
    """
    try:
        target = Path(os.path.realpath(path))
        with _open_temporary(target) as file:
            yield file
    except OSError as error:
        raise InvalidParameter(
            f"{path} cannot be written ({error.strerror or error})",
            "Allowed: a writable path with enough disk space",
            "Free disk space, or choose another path",
        ) from error
    _sync_folder(target.parent)


@contextmanager
def _open_temporary(target: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `target` on success, and is removed on error.

    Raises
    ------
    OSError
    """
    previous_mode = target.stat().st_mode if target.exists() else None
    if previous_mode is not None and not stat.S_ISREG(previous_mode):
        raise OSError(errno.EINVAL, "Not a regular file")
    # Hidden by the leading dot, so that readers of the folder skip it.
    prefix = f".{target.name[:_MAX_PREFIX_LENGTH]}."
    _remove_stale_temporaries(target.parent, prefix)
    temporary = target.with_name(f"{prefix}{secrets.token_hex(_RANDOM_BYTES)}.tmp")
    mode = _DEFAULT_MODE if previous_mode is None else _OWNER_ONLY
    descriptor = os.open(temporary, _CREATE_FLAGS, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        # Reopened, as the writer may have closed it.
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        if previous_mode is not None:
            temporary.chmod(previous_mode & _PERMISSION_MASK)
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    """Make a rename in a folder durable, where the file system supports that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_atomic(path: str | os.PathLike[str], contents: bytes) -> None:
    """Write a file atomically; safe with concurrent writers.

    Raises
    ------
    InvalidParameter
        Same as for :func:`open_atomic`.
    """
    with open_atomic(path) as file:
        file.write(contents)


def _remove_stale_temporaries(folder: Path, prefix: str) -> None:
    """Remove temporary files of this target that are older than a day."""
    pattern = re.compile(f"{re.escape(prefix)}[0-9a-f]{{{2 * _RANDOM_BYTES}}}\\.tmp")
    with suppress(OSError):  # a folder that may not be listed
        for name in os.listdir(folder):  # noqa: PTH208 - listdir is many times faster
            if pattern.fullmatch(name):
                with suppress(OSError):  # removed by another process meanwhile
                    if time.time() - (folder / name).lstat().st_mtime > _STALE_SECONDS:
                        (folder / name).unlink()


def check_suffix(path: str | os.PathLike[str], subject: str, *own_suffixes: str) -> None:
    """Check that an output path does not have the suffix of another file format.

    Parameters
    ----------
    path : path
    subject : str
        Subject and verb of the message, such as "a model is".
    *own_suffixes : str
        Suffixes of the own format.

    Raises
    ------
    InvalidParameter
    """
    suffix = Path(os.fsdecode(path)).suffix.lower()
    if suffix not in _FOREIGN_SUFFIXES or suffix in own_suffixes:
        return
    allowed = f"that ends in {own_suffixes[0]}" if own_suffixes else "with another suffix"
    raise InvalidParameter(
        f"{os.fsdecode(path)} has the suffix of {_FOREIGN_SUFFIXES[suffix]}, but {subject} not one",
        f"Allowed: a file name {allowed}",
        "Choose such a name",
    )
