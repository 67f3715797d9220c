"""Files that are complete or absent: atomic replacement, and npz archives with a JSON header.

An archive holds arrays and one JSON document, stored as bytes under the name ``header``. No pickle
is ever written or read. The same contents give the same bytes.
"""

import io
import json
import os
import platform
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairspan.errors import CorruptFile, InvalidParameter
from fairspan.typing import AnyArray

Contents = tuple[dict[str, Any], dict[str, AnyArray]]

_HEADER = "header"
_TEMPORARY = ".tmp"
# A zip whose first member is the header; other zips, such as spreadsheets, are none of ours.
_MAGIC = b"PK\x03\x04"
_FIRST_MEMBER = slice(30, 30 + len("header.npy"))


@contextmanager
def replacing(path: str | os.PathLike[str], *, unique: bool = False) -> Iterator[Path]:
    """Give a temporary name to write to, and rename it to `path` when all went well.

    On an error the temporary file is removed and whatever stood at `path` is untouched.

    Parameters
    ----------
    path : path
        The final name.
    unique : bool
        Use a temporary name that no other process uses, so that several may write the same file.

    Yields
    ------
    Path
        ``path`` with ``.partial`` appended, or with host and process, in the same folder.
    """
    final = Path(path)
    own = f".{platform.node()}-{os.getpid()}{_TEMPORARY}"
    partial = final.with_name(final.name + (own if unique else ".partial"))
    try:
        yield partial
        with partial.open("rb+") as written:
            os.fsync(written.fileno())
        partial.replace(final)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


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
            "Allowed is a place that may be written to, with room for the whole file",
            "Make room, or name another place",
        ) from error


def remove_abandoned(path: str | os.PathLike[str]) -> None:
    """Remove unique temporary files beside `path` whose process was killed, on this host.

    Where that cannot be told, they stay.
    """
    if os.name != "posix":  # elsewhere asking for a process may end it
        return
    final = Path(path)
    start = f"{final.name}.{platform.node()}-"
    for file in final.parent.iterdir():
        process = file.name.removeprefix(start).removesuffix(_TEMPORARY)
        if file.name == f"{start}{process}{_TEMPORARY}" and process.isdecimal():
            try:
                os.kill(int(process), 0)
            except ProcessLookupError:
                file.unlink(missing_ok=True)
            except (OSError, OverflowError):
                continue


def write_archive(
    path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write arrays and a JSON header to exactly the name given.

    Parameters
    ----------
    path : path
    kind : str
        What the archive holds, such as "moments"; checked on reading.
    header : mapping
        Anything JSON can hold.
    arrays : mapping of str to array
        No array of objects.
    """
    # Not np.savez: before NumPy 2.1 it cannot refuse to pickle.
    with replacing(path) as partial, partial.open("wb") as file:
        _write(file, kind, header, arrays)


def archive_bytes(kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """What :func:`write_archive` would write."""
    file = io.BytesIO()
    _write(file, kind, header, arrays)
    return file.getvalue()


def _write(
    file: IO[bytes], kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    document = json.dumps(
        {"format": f"fairspan.{kind}", "version": 1, "arrays": sorted(arrays), **header},
        sort_keys=True,
    )
    stored = {_HEADER: np.frombuffer(document.encode(), dtype=np.uint8)}
    stored |= {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in stored.items():
            # ZipInfo carries a fixed date, so that the same contents give the same bytes.
            entry = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(entry, "w", force_zip64=True) as member:
                np.save(member, array, allow_pickle=False)


def read_archive(path: str | os.PathLike[str], kind: str) -> Contents:
    """Read what :func:`write_archive` wrote.

    Returns
    -------
    header : dict
    arrays : dict of str to array

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CorruptFile
        The file is truncated, altered, of another kind or of a newer version.
    """
    with Path(path).open("rb") as file:
        return _read(file, kind, str(path))


def archive_of_bytes(contents: bytes, kind: str) -> Contents:
    """Read what :func:`archive_bytes` gave; raises CorruptFile as :func:`read_archive` does."""
    return _read(io.BytesIO(contents), kind, "The archive that was received")


def _read(file: IO[bytes], kind: str, name: str) -> Contents:
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {member: archive[member] for member in archive.files}
        header = json.loads(arrays.pop(_HEADER).tobytes())
        found, version = header["format"], header["version"]
        # An altered table of contents can hide an array without breaking the archive.
        if sorted(arrays) != header["arrays"]:
            raise ValueError("its arrays are not those that were written")
    # Altered bytes make zipfile and numpy raise a dozen kinds of errors, all for one reason.
    except Exception as error:
        raise CorruptFile(
            f"{name} cannot be read as a fairspan file ({type(error).__name__}: {error})",
            f"Allowed is a complete file written by fairspan, of kind '{kind}'",
            "Make the file again; this one is truncated, altered or of another kind",
        ) from error
    if found != f"fairspan.{kind}" or version != 1:
        raise CorruptFile(
            f"{name} is of kind '{found}', version {version}",
            f"Allowed here is 'fairspan.{kind}', version 1",
            "Pass the right file, or update fairspan if the file is newer",
        )
    return header, arrays


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like what :func:`write_archive` writes."""
    with Path(path).open("rb") as file:
        start = file.read(_FIRST_MEMBER.stop)
    return start.startswith(_MAGIC) and start[_FIRST_MEMBER] == b"header.npy"
