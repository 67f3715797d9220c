"""Archives of arrays (npz) with a JSON header: no pickle, and the same bytes for the same contents.

Members are stored as they are, never compressed, so that a file unpacks to its own size. When one
is read, types and shapes stand before the numbers: they are compared with the schema and with the
size of the file before anything else is read.
"""

import errno
import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairspan.errors import CorruptFile, memory_error_hint
from fairspan.storage.safe_writing import replacing
from fairspan.storage.schema import NotAllowed, Schema
from fairspan.typing import AnyArray

Contents = tuple[dict[str, Any], dict[str, AnyArray]]

_HEADER = "header"
_AT_A_TIME = 2**20
_VERSION = 1
# A zip whose first member is the header; other zips, such as spreadsheets, are none of ours.
_MAGIC = b"PK\x03\x04"
_FIRST_MEMBER = slice(30, 30 + len("header.npy"))


def write_archive(
    path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write arrays and a JSON header to exactly the name given, or to where that links.

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
    with replacing(path) as file:
        _write(file, kind, header, arrays)


def archive_bytes(kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """What :func:`write_archive` would write."""
    file = io.BytesIO()
    _write(file, kind, header, arrays)
    return file.getvalue()


def _write(
    file: IO[bytes], kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    document = json.dumps({**_standard(kind), "arrays": sorted(arrays), **header}, sort_keys=True)
    stored = {
        _HEADER: np.frombuffer(document.encode(), dtype=np.uint8),
        **{name: np.ascontiguousarray(array) for name, array in arrays.items()},
    }
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in stored.items():
            # ZipInfo carries a fixed date, so that the same contents give the same bytes.
            entry = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(entry, "w", force_zip64=True) as member:
                np.save(member, array, allow_pickle=False)


def read_archive(path: str | os.PathLike[str], schema: Schema) -> Contents:
    """Read what :func:`write_archive` wrote, if it is what the schema allows.

    Returns
    -------
    header : dict
        Without kind and version.
    arrays : dict of str to array

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CorruptFile
        The file is truncated, altered, of another kind or of a newer version.
    """
    with _opened(path) as file:
        return _read(file, schema, str(path))


def archive_of_bytes(contents: bytes, schema: Schema) -> Contents:
    """Read what :func:`archive_bytes` gave; raises CorruptFile as :func:`read_archive` does."""
    return _read(io.BytesIO(contents), schema, "The archive that was received")


@memory_error_hint()
def read_document(path: str | os.PathLike[str], schema: Schema) -> dict[str, Any]:
    """Read a file that is only a JSON document; raises as :func:`read_archive` does."""
    with _opened(path) as file:
        try:
            document = _document_of(file.read(), schema, str(path))
            schema.check_header(document)
        except MemoryError:
            raise
        except Exception as error:
            raise schema.refusal(str(path), error) from error
    return document


def write_document(
    path: str | os.PathLike[str], schema: Schema, document: Mapping[str, Any]
) -> None:
    """Write a file that is only a JSON document."""
    with replacing(path) as file:
        file.write(json.dumps({**_standard(schema.kind), **document}).encode())


def _standard(kind: str) -> dict[str, Any]:
    return {"format": f"fairspan.{kind}", "version": _VERSION}


def _document_of(text: bytes, schema: Schema, name: str) -> dict[str, Any]:
    """A JSON document of this kind, of the version that is known here, but for these two."""
    document = dict(json.loads(text, object_pairs_hook=_without_doubles, parse_constant=_infinity))
    found, version = document.pop("format"), document.pop("version")
    if found != f"fairspan.{schema.kind}" or type(version) is not int or version != _VERSION:
        raise CorruptFile(
            f"{name} is of kind {found!r}, version {version!r}",
            f"Allowed here is 'fairspan.{schema.kind}', version {_VERSION}",
            f"Pass the right file, or update fairspan if the file is newer. {schema.advice(name)}",
        )
    return document


@memory_error_hint()
def _read(file: IO[bytes], schema: Schema, name: str) -> Contents:
    try:
        with zipfile.ZipFile(file) as archive:
            members = _members(archive, file.seek(0, io.SEEK_END))
            header = _document_of(members.pop(_HEADER).read(archive).tobytes(), schema, name)
            # An altered table of contents can hide an array without breaking the archive.
            if sorted(members) != header.pop("arrays"):
                raise ValueError("its arrays are not those that were written")
            sizes = schema.check_header(header)
            rules = schema.rules(header, list(members))
            for each, rule in rules.items():
                rule.check_form(each, members[each].shape, members[each].dtype, sizes)
            arrays = {each: members[each].read(archive) for each in rules}
            for each, rule in rules.items():
                rule.check(each, arrays[each])
    except MemoryError:  # sizes agree with the file's, so the file may well be sound
        raise
    # Altered bytes make zipfile and numpy raise a dozen kinds of errors, all for one reason.
    except Exception as error:
        raise schema.refusal(name, error) from error
    return header, arrays


def _opened(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file to read, unless it is a device, a pipe or a folder, which may never end.

    Raises
    ------
    FileNotFoundError
    CorruptFile
    """
    if not Path(path).exists():
        raise FileNotFoundError(
            errno.ENOENT, "No such file. Name one that save or the command line wrote", str(path)
        )
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise CorruptFile(
            f"{path} cannot be read, as it is a folder, a pipe or a device",
            "Allowed: an ordinary file",
            "Name the file itself",
        )
    return Path(path).open("rb")


@dataclass(frozen=True)
class _Member:
    """An array in an archive, of which only what stands before its numbers was read."""

    entry: zipfile.ZipInfo
    shape: tuple[int, ...]
    in_columns: bool
    dtype: np.dtype[Any]
    start: int

    @property
    def n_bytes(self) -> int:
        """Of the numbers."""
        return math.prod(self.shape) * self.dtype.itemsize

    @classmethod
    def of(cls, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> "_Member":
        """Read what stands before the numbers."""
        name = entry.filename
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise NotAllowed(name, "is compressed or encrypted", "a member stored as it is")
        with archive.open(entry) as file:
            if np.lib.format.read_magic(file) != (1, 0):
                raise NotAllowed(name, "is of another version of numpy's format", "version 1.0")
            shape, in_columns, dtype = np.lib.format.read_array_header_1_0(file)
            member = cls(entry, shape, in_columns, dtype, file.tell())
        if dtype.hasobject or dtype.itemsize == 0:
            raise NotAllowed(name, f"holds {dtype}", "numbers")
        there = entry.file_size - member.start
        if there != member.n_bytes:
            raise NotAllowed(
                name, f"has {there} bytes", f"{member.n_bytes}, as its shape {shape} says"
            )
        return member

    def read(self, archive: zipfile.ZipFile) -> AnyArray:
        """The numbers, in the order of bytes of this machine."""
        buffer = bytearray(self.n_bytes)
        at = 0
        with archive.open(self.entry) as file:
            file.read(self.start)
            while part := file.read(_AT_A_TIME):  # at the end the checksum is compared
                buffer[at : at + len(part)] = part
                at += len(part)
        if at != self.n_bytes:
            raise EOFError(f"{self.entry.filename} ends too early")
        return np.ndarray(
            self.shape, self.dtype, buffer, order="F" if self.in_columns else "C"
        ).astype(self.dtype.newbyteorder("="), copy=False)


def _members(archive: zipfile.ZipFile, n_bytes: int) -> dict[str, _Member]:
    """The arrays of an archive, which together are no larger than its file."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if len(set(names)) < len(names):
        raise NotAllowed(
            next(name for name in names if names.count(name) > 1),
            "is there twice",
            "one of each name",
        )
    total = sum(entry.file_size for entry in entries)
    if total > n_bytes:
        raise NotAllowed("archive", f"states {total} bytes in a file of {n_bytes}", "its own size")
    return {entry.filename.removesuffix(".npy"): _Member.of(archive, entry) for entry in entries}


def _without_doubles(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice in one mapping")
    return dict(pairs)


def _infinity(word: str) -> float:
    if word == "NaN":
        raise ValueError("NaN is no number")
    return float(word)


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like what :func:`write_archive` writes."""
    with Path(path).open("rb") as file:
        start = file.read(_FIRST_MEMBER.stop)
    return start.startswith(_MAGIC) and start[_FIRST_MEMBER] == b"header.npy"
