"""Files that are complete or absent: written under a random name, then renamed into place.

The temporary file stands in the folder of the final one, is created by us alone, never through a
link, and is locked by the kernel while it is written. Its lock ends with the process, so that the
next process that writes the same file knows which temporary files were abandoned. Where there are
no such locks (Windows, some network file systems), abandoned files stay.
"""

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from fairspan.errors import InvalidParameter

if sys.platform != "win32":
    import fcntl

_NEVER_BY_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
# A device or a pipe that was put there must not make us wait.
_NEVER_WAITING = getattr(os, "O_NONBLOCK", 0)
# Of the final name, so that the temporary one is not too long for the file system.
_LONGEST_START = 40
_RANDOM_BYTES = 8
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
    OSError
        It cannot be written, or is a folder, a device or a pipe.
    """
    final = Path(path)
    if final.is_symlink():
        final = Path(os.path.realpath(final))
    before = _status_before(final)
    _remove_abandoned(final)
    temporary, descriptor = _created_beside(final, _BY_UMASK if before is None else _PRIVATE)
    try:
        # Whoever writes may close the file, but not what is synchronised below.
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            yield file
        if before is not None and hasattr(os, "fchmod"):
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & _PERMISSIONS)
        os.fsync(descriptor)
        if sys.platform == "win32":  # which renames no open file
            os.close(descriptor)
            descriptor = -1
        temporary.replace(final)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    _synchronise_folder(final.parent)


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what the operating system says of a file that is written into an error that names it.

    Raises
    ------
    InvalidParameter
        It cannot be written: the disk is full, for example.
    """
    try:
        yield
    except OSError as error:
        raise InvalidParameter(
            f"{path} cannot be written ({error.strerror or error})",
            "Allowed: a place that may be written to, with room for the whole file",
            "Make room, or name another place",
        ) from error


def write_whole(path: str | os.PathLike[str], contents: bytes) -> None:
    """Write a file that appears only when it is complete; several processes may do so at once.

    Raises
    ------
    InvalidParameter
        It cannot be written: the disk is full, for example.
    """
    with writing(path), replacing(path) as file:
        file.write(contents)


def _status_before(final: Path) -> os.stat_result | None:
    """What is replaced, if anything; what is no ordinary file is not replaced."""
    try:
        status = final.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "It is a folder", str(final))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "It is not an ordinary file", str(final))
    return status


def _created_beside(final: Path, permissions: int) -> tuple[Path, int]:
    """A new file with a random name in the same folder, locked by us."""
    while True:
        temporary = final.with_name(f"{_start(final)}{secrets.token_hex(_RANDOM_BYTES)}.tmp")
        descriptor = os.open(
            temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NEVER_BY_LINK, permissions
        )
        # Before it was locked, another process may have taken it for abandoned.
        if _locked(descriptor) is not False and _is_at(descriptor, temporary):
            return temporary, descriptor
        os.close(descriptor)


def _start(final: Path) -> str:
    # Hidden, so that whoever reads the folder passes it over.
    return f".{final.name[:_LONGEST_START]}."


def _remove_abandoned(final: Path) -> None:
    """Remove temporary files of the same name whose process was killed."""
    pattern = re.compile(f"{re.escape(_start(final))}[0-9a-f]{{{2 * _RANDOM_BYTES}}}\\.tmp")
    with suppress(OSError):  # a folder that may not be listed
        for name in os.listdir(final.parent):  # noqa: PTH208 - of names, which are many times faster
            if pattern.fullmatch(name):
                with suppress(OSError):  # removed by another process meanwhile
                    _remove_unless_locked(final.with_name(name))


def _remove_unless_locked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | _NEVER_BY_LINK | _NEVER_WAITING)
    try:
        if _locked(descriptor) and _is_at(descriptor, path):
            path.unlink()
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool | None:
    """Lock a file for this process; False where another has, None where there are no locks."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still is what stands under its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


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
