"""Files that are complete or absent, archives of arrays, and the rules by which files are checked.

A file is written under a random name in its own folder and renamed into place. The temporary file
is created by us alone, never through a link; what a process that was killed has left is removed
after a day, when the same file is written.

An archive (npz) has a JSON header and no pickle, and the same bytes for the same contents. Members
are stored as they are, never compressed, so that a file unpacks to its own size. When one is read,
type and shape of each array are compared with the size of its member, and that with the size of the
file, before its numbers are read.

A file may come from anybody, so everything in it is checked, by rules: what is not in the table of
its kind is not allowed. JSON types are exact (`true` is not 1), and every number is in its range.
Names are text and differ, and labels are of one kind and differ. Arrays have the shapes that the
header and the other arrays require.
"""

import errno
import io
import json
import math
import os
import re
import secrets
import stat
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from fairspan.errors import CorruptFile, InvalidParameter
from fairspan.formatting.text import counted
from fairspan.linalg.resources import explain_memory_errors
from fairspan.typing import AnyArray

_PLATFORM_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLATFORM_FLAGS
# Of the final name, so that the temporary one is not too long for the file system.
_MAX_PREFIX_LENGTH = 40
_RANDOM_BYTES = 8
# Seconds after which nobody writes to a temporary file any more.
_STALE_SECONDS = 86_400
_PERMISSION_MASK = 0o777
_OWNER_ONLY, _DEFAULT_MODE = 0o600, 0o666
# Endings of names that say what is in a file, and what has another kind of result.
_FOREIGN_SUFFIXES = {
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
def open_atomic(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
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
        start = f".{final.name[:_MAX_PREFIX_LENGTH]}."
        _remove_stale_temporaries(final.parent, start)
        temporary = final.with_name(f"{start}{secrets.token_hex(_RANDOM_BYTES)}.tmp")
        descriptor = os.open(
            temporary, _CREATE_FLAGS, _DEFAULT_MODE if before is None else _OWNER_ONLY
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
            with temporary.open("rb+") as file:  # which whoever wrote may have closed
                os.fsync(file.fileno())
            if before is not None:
                temporary.chmod(before & _PERMISSION_MASK)
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
    with suppress(OSError):  # the new name survives a power cut, where the file system can
        descriptor = os.open(final.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_atomic(path: str | os.PathLike[str], contents: bytes) -> None:
    """Write a file that appears only when it is complete; several processes may do so at once.

    Raises
    ------
    InvalidParameter
        As of :func:`replacing`.
    """
    with open_atomic(path) as file:
        file.write(contents)


def _remove_stale_temporaries(folder: Path, start: str) -> None:
    """Remove temporary files of the same name that nobody has written to for a day."""
    pattern = re.compile(f"{re.escape(start)}[0-9a-f]{{{2 * _RANDOM_BYTES}}}\\.tmp")
    with suppress(OSError):  # a folder that may not be listed
        for name in os.listdir(folder):  # noqa: PTH208 - of names, which are many times faster
            if pattern.fullmatch(name):
                with suppress(OSError):  # removed by another process meanwhile
                    if time.time() - (folder / name).lstat().st_mtime > _STALE_SECONDS:
                        (folder / name).unlink()


def check_suffix(path: str | os.PathLike[str], subject: str, *own_suffixes: str) -> None:
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
    if ending in _FOREIGN_SUFFIXES and ending not in own_suffixes:
        own = f"that ends in {own_suffixes[0]}" if own_suffixes else "with another ending"
        raise InvalidParameter(
            f"{os.fsdecode(path)} is named as {_FOREIGN_SUFFIXES[ending]}, and {subject} not that",
            f"Allowed: a name {own}",
            "Choose such a name",
        )


_HEADER = "header"
_VERSION = 2
# A zip whose first member is the header; other zips, such as spreadsheets, are none of ours.
_MAGIC = b"PK\x03\x04"
_FIRST_MEMBER_NAME = slice(30, 30 + len("header.npy"))


# By letter, the lengths that were met: of lists, and of arrays along their axes.
Dimensions = dict[str, int]
# Raises SchemaViolation where a value, of a member of this name, is not what it has to be.
Rule = Callable[[str, Any, Dimensions], object]

_LABEL_TYPES = (str, bool, int, float)
# Whole numbers up to here are exact in double precision: no table has more rows.
_MAX_ROWS = 2**53


class SchemaViolation(ValueError):
    """Its arguments: a member of a file, what was found of it, and what is allowed."""


def _require(holds: bool, member: str, value: Any, expected: str) -> None:
    if not holds:
        raise SchemaViolation(member or "the header", f"is {value!r:.60}", expected)


def scalar(
    kinds: Collection[type], expected: str, is_valid: Callable[[Any], bool] = lambda _: True
) -> Rule:
    """A value of exactly one of these types that fits."""
    return lambda member, found, sizes: _require(
        type(found) in kinds and is_valid(found), member, found, expected
    )


TEXT = scalar((str,), "text")
BOOLEAN = scalar((bool,), "true or false")
_LIST = scalar((list,), "a list")
MAPPING = scalar((dict,), "a mapping")


def one_of(*expected: str) -> Rule:
    """One of these texts."""
    return scalar((str,), f"one of {', '.join(expected)}", expected.__contains__)


def integer(least: float = -math.inf, most: float = math.inf) -> Rule:
    """A whole number in a range; a truth value is none."""
    allowed = f"a whole number{_describe_range(least, most)}"
    return scalar((int,), allowed, lambda found: least <= found <= most)


def number(least: float = -math.inf, *, may_be_infinite: bool = False) -> Rule:
    """A number from `least` on, never NaN, and infinite only where that is said."""
    return scalar(
        (int, float),
        f"a {'' if may_be_infinite else 'finite '}number{_describe_range(least, math.inf)}",
        lambda found: least <= found and (may_be_infinite or math.isfinite(found)),
    )


def optional(rule: Rule) -> Rule:
    """Nothing, or what another rule allows."""
    return lambda member, found, sizes: found is None or rule(member, found, sizes)


def list_of(rule: Rule, length: str = "*", *, unique: bool = False) -> Rule:
    """A list of values of one rule that may have to differ; its length is a number or a letter."""

    def check(member: str, found: Any, sizes: Dimensions) -> None:
        _LIST(member, found, sizes)
        _check_length(member, "entries", length, len(found), sizes)
        for position, each in enumerate(found):
            rule(f"{member}[{position}]", each, sizes)
        if unique:
            _require(len(set(found)) == len(found), member, found, "a list of different entries")

    return check


def label_list(length: str) -> Rule:
    """Sorted labels of one kind: text, whole or real numbers, truth values, or lists of these."""

    def parts(label: Any) -> tuple[Any, ...]:
        return tuple(label) if type(label) is list else (label,)

    def is_label(found: Any) -> bool:  # NaN is not what it is
        return found != [] and all(
            type(part) in _LABEL_TYPES and part == part for part in parts(found)
        )

    allowed = "text, a number or a truth value (not NaN), or a list of these"
    every = list_of(scalar((list, *_LABEL_TYPES), allowed, is_label), length)

    def check(member: str, found: Any, sizes: Dimensions) -> None:
        every(member, found, sizes)
        keys = list(map(parts, found))
        kinds = {(type(each), *map(type, key)) for each, key in zip(found, keys, strict=True)}
        _require(len(kinds) <= 1, member, found, "labels of one kind")
        _require(len(set(keys)) == len(keys), member, found, "labels that differ")
        _require(keys == sorted(keys), member, found, "labels in order")

    return check


def mapping_of(rule: Rule) -> Rule:
    """Values of one rule by name."""

    def check(member: str, found: Any, sizes: Dimensions) -> None:
        MAPPING(member, found, sizes)
        for name, each in found.items():
            rule(f"{member}.{name}", each, sizes)

    return check


def record(rules: Mapping[str, Rule], *optional_fields: str) -> Rule:
    """A mapping with these names, of which some may be absent, and with no other."""

    def check(member: str, found: Any, sizes: Dimensions) -> None:
        MAPPING(member, found, sizes)
        dot = f"{member}." if member else ""
        if unknown := sorted(found.keys() - rules):
            raise SchemaViolation(f"{dot}{unknown[0]}", "is unknown", f"one of {', '.join(rules)}")
        for name, rule in rules.items():
            if name in found:
                rule(f"{dot}{name}", found[name], sizes)
            elif name not in optional_fields:
                raise SchemaViolation(f"{dot}{name}", "is missing", "a complete file")

    return check


def array_of(
    axes: str,
    kinds: str = "fiu",
    expected: str = "finite numbers",
    is_valid: Callable[[AnyArray], Any] = lambda array: np.isfinite(
        [array.min(), array.max()]
    ).all(),
) -> Rule:
    """An array of numbers.

    Parameters
    ----------
    axes : str
        A letter for the length of each axis, a number, or * for any; t is p (p + 1) / 2.
    kinds : str
        Of numpy's types: f real, i whole, u whole and not negative.
    allowed : str
        In words, what fits.
    fits : callable
        Whether all numbers of an array, which is not empty, are in their range.
    """

    def check(member: str, found: Any, sizes: Dimensions) -> None:
        _require(isinstance(found, np.ndarray), member, found, "an array")
        if found.dtype.kind not in kinds or found.dtype.itemsize > 8:
            plain = f"numbers of at most 8 bytes, of the types {', '.join(kinds)} of numpy"
            raise SchemaViolation(member, f"holds {found.dtype}", plain)
        letters = axes.split()
        if found.ndim != len(letters):
            raise SchemaViolation(member, f"has shape {found.shape}", f"({', '.join(letters)})")
        for letter, length in zip(letters, found.shape, strict=True):
            _check_length(member, f"numbers along {letter}", letter, length, sizes)
        if found.size and not is_valid(found):
            raise SchemaViolation(member, f"reaches from {found.min()} to {found.max()}", expected)

    return check


def all_positive(array: AnyArray) -> bool:
    """Whether numbers are finite and above zero."""
    return bool(array.min() > 0 and array.max() < np.inf)


def _check_length(member: str, what: str, letter: str, length: int, sizes: Dimensions) -> None:
    """Make sure that a length is what its letter stood for before, or a number."""
    expected = int(letter) if letter.isdecimal() else sizes.setdefault(letter, length)
    if letter == "t":
        expected = sizes["p"] * (sizes["p"] + 1) // 2
    if letter != "*" and length != expected:
        raise SchemaViolation(member, f"has {length} {what}", f"{expected}")


def _describe_range(least: float, most: float) -> str:
    above = f" from {least:g}" if least > -math.inf else ""
    return above + (f" up to {most:g}" if most < math.inf else "")


@dataclass(frozen=True)
class Schema:
    """What files of one kind hold.

    Attributes
    ----------
    kind : str
    what : str
        In words, for messages.
    check : Rule
        Of the header and the arrays, together in one mapping.
    remedy : str
        What to do about a file that cannot be used.
    """

    kind: str
    description: str
    check: Rule
    remedy: str = "Make the file again; this one is truncated, altered or of another kind"

    def error_for(self, name: str, error: Exception) -> CorruptFile:
        """What to raise for a file of this name, whatever was found wrong with it."""
        if isinstance(error, CorruptFile):
            return error
        if isinstance(error, SchemaViolation):
            member, found, allowed = error.args
            received = f"{name} does not hold {self.description}: its member {member} {found}"
            return CorruptFile(received, f"Allowed: {allowed}", self.remedy)
        return CorruptFile(
            f"{name} cannot be read as a fairspan file ({type(error).__name__}: {error})",
            f"Allowed: a complete file written by fairspan, of kind '{self.kind}'",
            self.remedy,
        )


MOMENTS_SCHEMA = Schema(
    "moments",
    "consistent moments",
    record(
        {
            "groups": label_list("k"),
            "feature_names": optional(list_of(TEXT, "p", unique=True)),
            "n_dropped": integer(0, _MAX_ROWS),
            # How many of the last attributes of a label are classes of y.
            "n_label_columns": integer(0, 1),
            # Binary exponent of the unit of weights that are very large or very small.
            "weight_exponent": integer(),
            # How the EM algorithm completed them.
            "em_summary": record(
                {
                    "n_missing_cells": list_of(integer(0), "k"),
                    "pool_weights": list_of(number(0), "k"),
                    "n_passes": integer(0),
                    "last_change": number(0),
                    "left": number(0),
                }
            ),
            "counts": array_of(
                "k",
                "i",
                f"numbers from 0 on, which add up to no more than {_MAX_ROWS}",
                lambda array: array.min() >= 0 and sum(array.tolist()) <= _MAX_ROWS,
            ),
            "weights": array_of("k", "f", "finite numbers above 0", all_positive),
            "means": array_of("k p", "f"),
            "mean_corrections": array_of("k p", "f"),
            "triangles": array_of("k t", "f"),
        },
        "mean_corrections",
        "n_label_columns",
        "weight_exponent",
        "em_summary",
    ),
)
MANIFEST_SCHEMA = Schema(
    "parts",
    "the manifest of a folder of moments",
    record(
        {
            "options": mapping_of(list_of(TEXT)),
            # Size, time of the last change, and a hash.
            "parts": mapping_of(list_of(scalar((int, str), "text or a whole number"), "3")),
        }
    ),
    "Delete the folder, and make the moments again",
)


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
    write_atomic(path, pack_archive(kind, header, arrays))


def pack_archive(kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """What :func:`write_archive` writes."""
    document = _encode_document(kind, {"arrays": sorted(arrays), **header})
    # Not np.savez: before NumPy 2.1 it cannot refuse to pickle.
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in {_HEADER: np.frombuffer(document, dtype=np.uint8), **arrays}.items():
            # ZipInfo carries a fixed date, so that the same contents give the same bytes.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.save(member, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def write_json(path: str | os.PathLike[str], schema: Schema, document: Mapping[str, Any]) -> None:
    """Write a file that is only a JSON document."""
    write_atomic(path, _encode_document(schema.kind, document))


def _encode_document(kind: str, entries: Mapping[str, Any]) -> bytes:
    def plain(value: Any) -> Any:  # an array or its scalar, or a record
        if isinstance(value, np.generic):
            return value.item()
        return value.tolist() if isinstance(value, np.ndarray) else vars(value)

    whole = {"format": f"fairspan.{kind}", "version": _VERSION, **entries}
    return json.dumps(whole, sort_keys=True, default=plain).encode()


def read_archive(given: str | os.PathLike[str] | bytes, schema: Schema) -> dict[str, Any]:
    """Read what :func:`write_archive` wrote, or :func:`pack_archive` gave.

    Returns
    -------
    dict
        Entries of the header, without kind and version, and arrays.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CorruptFile
        The file is truncated, altered, of another kind or of a newer version.
    """

    def read(name: str) -> dict[str, Any]:
        arrays = _read_arrays(io.BytesIO(given) if isinstance(given, bytes) else given)
        document = _decode_document(arrays.pop(_HEADER).tobytes(), schema, name)
        # An altered table of contents can hide an array without breaking the archive.
        if sorted(arrays) != document.pop("arrays") or arrays.keys() & document.keys():
            raise ValueError("its arrays are not those that were written")
        return document | arrays

    return _read_checked(given, schema, read)


def peek_kind(path: str | os.PathLike[str]) -> str:
    """What an archive says that it holds, such as "moments"; empty where it says nothing."""
    try:
        document = json.loads(_read_arrays(path)[_HEADER].tobytes())
        return str(document["format"]).removeprefix("fairspan.")
    except Exception:  # what is wrong with it is said by what reads it
        return ""


def read_json(path: str | os.PathLike[str], schema: Schema) -> dict[str, Any]:
    """Read a file that is only a JSON document; raises as :func:`read_archive` does."""
    return _read_checked(
        path, schema, lambda name: _decode_document(Path(name).read_bytes(), schema, name)
    )


@explain_memory_errors()
def _read_checked(
    given: str | os.PathLike[str] | bytes, schema: Schema, read: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """What was read of a file, if it is as the schema says.

    A device or a pipe may never end, so it is not opened.
    """
    name = "The archive that was received" if isinstance(given, bytes) else str(given)
    if not isinstance(given, bytes) and not Path(given).is_file():
        if Path(given).exists():
            raise CorruptFile(
                f"{name} cannot be read, as it is a folder, a pipe or a device",
                "Allowed: an ordinary file",
                "Name the file itself",
            )
        advice = "No such file. Name one that save or the command line wrote"
        raise FileNotFoundError(errno.ENOENT, advice, name)
    try:
        found = read(name)
        schema.check("", found, {})
    # Sizes agree with the file's, so that the file may well be sound.
    except (MemoryError, PermissionError):
        raise
    # Altered bytes make zipfile and numpy raise a dozen kinds of errors, all for one reason.
    except Exception as error:
        raise schema.error_for(name, error) from error
    return found


def _decode_document(text: bytes, schema: Schema, name: str) -> dict[str, Any]:
    """Those of a JSON document of this kind, of the version that is known here."""
    document = dict(json.loads(text, object_pairs_hook=_reject_duplicate_keys))
    found, version = document.pop("format"), document.pop("version")
    if found != f"fairspan.{schema.kind}" or type(version) is not int or version != _VERSION:
        raise CorruptFile(
            f"{name} is of kind {found!r}, version {version!r}",
            f"Allowed here is 'fairspan.{schema.kind}', version {_VERSION}",
            f"Pass the right file, or update fairspan if the file is newer. {schema.remedy}",
        )
    return document


def _read_arrays(source: str | os.PathLike[str] | IO[bytes]) -> dict[str, AnyArray]:
    """The arrays of an archive, which together are no larger than its file."""
    with zipfile.ZipFile(source) as archive:
        entries, n_bytes = archive.infolist(), cast(IO[bytes], archive.fp).seek(0, io.SEEK_END)
        names = Counter(entry.filename for entry in entries)
        for name, times in names.most_common(1):
            if times > 1:
                raise SchemaViolation(name, "is there twice", "one of each name")
        total = sum(entry.file_size for entry in entries)
        if total > n_bytes:
            found = f"states {total} bytes in a file of {n_bytes}"
            raise SchemaViolation("archive", found, "its own size")
        return {
            name.removesuffix(".npy"): _read_array(archive, archive.getinfo(name)) for name in names
        }


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> AnyArray:
    """The numbers of a member, in the order of bytes of this machine."""
    name = entry.filename
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
        raise SchemaViolation(name, "is compressed or encrypted", "a member stored as it is")
    with archive.open(entry) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise SchemaViolation(name, "is of another version of numpy's format", "version 1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        there, needed = entry.file_size - file.tell(), math.prod(shape) * dtype.itemsize
    if dtype.hasobject or dtype.itemsize == 0:
        raise SchemaViolation(name, f"holds {dtype}", "numbers")
    if there != needed:
        raise SchemaViolation(
            name, f"has {counted(there, 'byte')}", f"{needed}, as its shape {shape} says"
        )
    with archive.open(entry) as file:  # at whose end the checksum is compared
        array = np.lib.format.read_array(file, allow_pickle=False)
    return np.asarray(array.astype(dtype.newbyteorder("="), copy=False))


def _reject_duplicate_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice in one mapping")
    return dict(pairs)


def looks_like_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like what :func:`write_archive` writes."""
    with Path(path).open("rb") as file:
        start = file.read(_FIRST_MEMBER_NAME.stop)
    return start.startswith(_MAGIC) and start[_FIRST_MEMBER_NAME] == b"header.npy"
