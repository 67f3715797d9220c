"""Archives of arrays and JSON documents, written atomically and checked on reading.

An archive is an npz file with a JSON header, without pickle, and byte-identical for identical
contents. Members are stored uncompressed, so that a file cannot expand on reading. Before data are
read, dtype and shape of each array are checked against the member size, and that against the file
size.
"""

import errno
import io
import json
import math
import os
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import CorruptFile
from fairspan.formatting.messages import counted
from fairspan.linalg.memory import explain_memory_errors
from fairspan.storage.atomic import write_atomic
from fairspan.storage.fields import FieldReader, FileKind, InvalidField
from fairspan.typing import AnyArray

_HEADER = "header"
_VERSION = 2
# A zip file whose first member is the header; distinguishes archives from spreadsheets.
_MAGIC = b"PK\x03\x04"
_FIRST_MEMBER_NAME = slice(30, 30 + len("header.npy"))


def write_archive(
    path: str | os.PathLike[str],
    kind: str,
    header: Mapping[str, object],
    arrays: Mapping[str, ArrayLike],
) -> None:
    """Write arrays and a JSON header to exactly this path, without adding a suffix.

    For a symbolic link, the file it points to is replaced.

    Parameters
    ----------
    path : path
    kind : str
        Kind of contents, such as "moments"; checked on reading.
    header : mapping
        JSON-serializable entries.
    arrays : mapping of str to array
        Arrays by name; no object arrays.
    """
    write_atomic(path, pack_archive(kind, header, arrays))


def pack_archive(kind: str, header: Mapping[str, object], arrays: Mapping[str, ArrayLike]) -> bytes:
    """Serialize an archive to bytes."""
    document = _encode_document(kind, {"arrays": sorted(arrays), **header})
    # Not np.savez: before NumPy 2.1 it cannot refuse to pickle.
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in {_HEADER: np.frombuffer(document, dtype=np.uint8), **arrays}.items():
            # ZipInfo has a fixed date: identical contents give identical bytes.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.save(member, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def write_json(
    path: str | os.PathLike[str], kind: FileKind, document: Mapping[str, object]
) -> None:
    """Write a JSON document atomically."""
    write_atomic(path, _encode_document(kind.name, document))


def _encode_document(kind: str, entries: Mapping[str, object]) -> bytes:
    """Encode a JSON document with its kind and version; arrays and dataclasses are converted."""

    def to_json(value: object) -> object:
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            return value.tolist()
        return vars(value)  # a dataclass

    document = {"format": f"fairspan.{kind}", "version": _VERSION, **entries}
    return json.dumps(document, sort_keys=True, default=to_json).encode()


@contextmanager
def open_archive(source: str | os.PathLike[str] | bytes, kind: FileKind) -> Iterator[FieldReader]:
    """Open an archive for reading, from a path or from bytes.

    Any error that is raised in the `with` block, while fields are read and used, becomes
    CorruptFile; so does a field that was not read at its end.

    Yields
    ------
    FieldReader
        Entries of the header, without kind and version, and the arrays.

    Raises
    ------
    FileNotFoundError
        The file does not exist.
    CorruptFile
        The file is truncated, modified, of another kind or of another version.
    """
    if isinstance(source, bytes):
        name = "The archive that was received"
    else:
        name = str(source)
        _check_regular_file(Path(source), name)
    with _explain_corrupt_files(name, kind):
        arrays = _read_arrays(io.BytesIO(source) if isinstance(source, bytes) else source)
        header = _decode_document(arrays.pop(_HEADER).tobytes(), kind, name)
        # A modified zip directory could hide an array without invalidating the archive.
        if sorted(arrays) != header.pop("arrays") or arrays.keys() & header.keys():
            raise ValueError("its arrays do not match the header")
        fields = FieldReader({**header, **arrays})
        yield fields
        fields.check_all_were_read()


def peek_kind(path: str | os.PathLike[str]) -> str:
    """Return the kind stated in an archive's header, such as "moments"; empty if unreadable."""
    # Reading a device or a pipe may never end.
    if not Path(path).is_file():
        return ""
    try:
        document = json.loads(_read_arrays(path)[_HEADER].tobytes())
        return str(document["format"]).removeprefix("fairspan.")
    except Exception:  # errors are reported when the file is actually read
        return ""


@contextmanager
def open_json(path: str | os.PathLike[str], kind: FileKind) -> Iterator[FieldReader]:
    """Open a JSON document for reading, in a `with` block as for :func:`open_archive`."""
    name = str(path)
    _check_regular_file(Path(path), name)
    with _explain_corrupt_files(name, kind):
        fields = FieldReader(_decode_document(Path(path).read_bytes(), kind, name))
        yield fields
        fields.check_all_were_read()


@contextmanager
def _explain_corrupt_files(name: str, kind: FileKind) -> Iterator[None]:
    """Convert every error that invalid contents of the file `name` cause into CorruptFile."""
    with explain_memory_errors():
        try:
            yield
        # The sizes of arrays were checked before they were read, so the file itself may be valid.
        except (MemoryError, PermissionError):
            raise
        # Corrupt data raise many exception types in zipfile and numpy.
        except Exception as error:
            raise kind.error_for(name, error) from error


def _check_regular_file(path: Path, name: str) -> None:
    """Check that a file exists and is regular: reading a device or a pipe may never end."""
    if path.is_file():
        return
    if path.exists():
        raise CorruptFile(
            f"{name} is a folder, a pipe or a device",
            "Allowed: a regular file",
            "Pass the path of the file itself",
        )
    message = "No such file; pass one written by save or the command line"
    raise FileNotFoundError(errno.ENOENT, message, name)


def _decode_document(text: bytes, kind: FileKind, name: str) -> dict[str, object]:
    """Decode a JSON document and check its kind and version."""
    document = dict(json.loads(text, object_pairs_hook=_reject_duplicate_keys))
    found_kind = document.pop("format")
    version = document.pop("version")
    allowed_kind = f"fairspan.{kind.name}"
    if found_kind == allowed_kind and type(version) is int and version == _VERSION:
        return document
    if found_kind != allowed_kind:
        remedy = "Pass the right file"
    elif type(version) is int and version < _VERSION:
        remedy = kind.outdated_remedy
    else:
        remedy = f"Update fairspan if the file is newer. {kind.remedy}"
    raise CorruptFile(
        f"{name} is of kind {found_kind!r}, version {version!r}",
        f"Allowed: kind '{allowed_kind}', version {_VERSION}",
        remedy,
    )


def _read_arrays(source: str | os.PathLike[str] | IO[bytes]) -> dict[str, AnyArray]:
    """Read all arrays of an archive; their total size may not exceed that of the file.

    Members that share bytes could otherwise declare far more than the file holds, and fill memory.
    """
    with zipfile.ZipFile(source) as archive:
        entries = archive.infolist()
        file_size = cast(IO[bytes], archive.fp).seek(0, io.SEEK_END)
        counts = Counter(entry.filename for entry in entries)
        for name, count in counts.most_common(1):
            if count > 1:
                raise InvalidField(name, "is duplicated", "unique member names")
        total_size = sum(entry.file_size for entry in entries)
        if total_size > file_size:
            finding = f"declares {total_size} bytes in a file of {file_size}"
            raise InvalidField("archive", finding, "at most the file size")
        return {
            name.removesuffix(".npy"): _read_array(archive, archive.getinfo(name))
            for name in counts
        }


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> AnyArray:
    """Read one array in native byte order, after its size is checked without reading it."""
    name = entry.filename
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
        raise InvalidField(name, "is compressed or encrypted", "an uncompressed member")
    with archive.open(entry) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise InvalidField(name, "is of another version of numpy's format", "version 1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        available_bytes = entry.file_size - file.tell()
    expected_bytes = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or dtype.itemsize == 0:
        raise InvalidField(name, f"contains {dtype}", "numbers")
    if available_bytes != expected_bytes:
        raise InvalidField(
            name, f"has {counted(available_bytes, 'byte')}", f"{expected_bytes} for shape {shape}"
        )
    # The checksum is verified at the end of the member.
    with archive.open(entry) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
    return np.asarray(array.astype(dtype.newbyteorder("="), copy=False))


def _reject_duplicate_keys(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("duplicate name in a mapping")
    return entries


def looks_like_archive(path: str | os.PathLike[str]) -> bool:
    """Return whether a file starts like an archive."""
    with Path(path).open("rb") as file:
        start = file.read(_FIRST_MEMBER_NAME.stop)
    return start.startswith(_MAGIC) and start[_FIRST_MEMBER_NAME] == b"header.npy"
