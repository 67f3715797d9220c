"""Atomic file writing, archives of arrays, and schema validation of files.

Files are written under a random name in the target folder and renamed into place. The temporary
file is created exclusively and never through a link; leftovers of killed processes are removed
after a day, on the next write of the same file.

An archive is an npz file with a JSON header, without pickle, and byte-identical for identical
contents. Members are stored uncompressed, so that a file cannot expand on reading. Before data are
read, dtype and shape of each array are checked against the member size, and that against the file
size.

Files are untrusted, so their entire contents are validated: entries that the schema does not list
are rejected, JSON types are exact (`true` is not 1), numbers are in range, names are unique text,
labels are unique and of one type, and arrays have the shapes that the header and other arrays
imply.
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
    ".json": "a JSON document, such as --json prints",
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
        previous_mode = target.stat().st_mode if target.exists() else None
        if previous_mode is not None and not stat.S_ISREG(previous_mode):
            raise OSError(errno.EINVAL, "Not a regular file")
        # Hidden, so that readers of the folder skip it.
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
    except OSError as error:
        raise InvalidParameter(
            f"{path} cannot be written ({error.strerror or error})",
            "Allowed: a writable path with enough disk space",
            "Free disk space, or choose another path",
        ) from error
    _sync_folder(target.parent)


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


_HEADER = "header"
_VERSION = 2
# A zip file whose first member is the header; distinguishes archives from spreadsheets.
_MAGIC = b"PK\x03\x04"
_FIRST_MEMBER_NAME = slice(30, 30 + len("header.npy"))


# Lengths by letter, as bound so far by lists and array axes.
Dimensions = dict[str, int]
# Raises SchemaViolation if the value of a named member is invalid.
Rule = Callable[[str, Any, Dimensions], object]

_LABEL_TYPES = (str, bool, int, float)
# Largest integer up to which all are exact in float64; no table has more rows.
_MAX_ROWS = 2**53


class SchemaViolation(ValueError):
    """Violation of a schema; its arguments are the member, the finding, and what is allowed."""


def _require(condition: bool, member: str, value: Any, expected: str) -> None:
    if not condition:
        raise SchemaViolation(member or "the header", f"is {value!r:.60}", expected)


def scalar(
    types: Collection[type], expected: str, is_valid: Callable[[Any], bool] = lambda _: True
) -> Rule:
    """Rule for a scalar of exactly one of these types that satisfies a condition."""

    def check(member: str, value: Any, dimensions: Dimensions) -> None:
        _require(type(value) in types and is_valid(value), member, value, expected)

    return check


TEXT = scalar((str,), "text")
BOOLEAN = scalar((bool,), "true or false")
_LIST = scalar((list,), "a list")
MAPPING = scalar((dict,), "a mapping")


def one_of(*allowed: str) -> Rule:
    """Rule for one of these strings."""
    return scalar((str,), f"one of {', '.join(allowed)}", allowed.__contains__)


def integer(minimum: float = -math.inf, maximum: float = math.inf) -> Rule:
    """Rule for an integer in a range; booleans are rejected."""
    expected = f"an integer{_describe_range(minimum, maximum)}"
    return scalar((int,), expected, lambda value: minimum <= value <= maximum)


def number(minimum: float = -math.inf, *, may_be_infinite: bool = False) -> Rule:
    """Rule for a number of at least `minimum`, never NaN, infinite only if allowed."""
    noun = "a number" if may_be_infinite else "a finite number"
    return scalar(
        (int, float),
        f"{noun}{_describe_range(minimum, math.inf)}",
        lambda value: minimum <= value and (may_be_infinite or math.isfinite(value)),
    )


def optional(rule: Rule) -> Rule:
    """Rule for None or what another rule allows."""

    def check(member: str, value: Any, dimensions: Dimensions) -> None:
        if value is not None:
            rule(member, value, dimensions)

    return check


def list_of(rule: Rule, length: str = "*", *, unique: bool = False) -> Rule:
    """Rule for a list, optionally of unique entries; its length is a number or dimension letter."""

    def check(member: str, value: Any, dimensions: Dimensions) -> None:
        _LIST(member, value, dimensions)
        _check_length(member, "entries", length, len(value), dimensions)
        for position, entry in enumerate(value):
            rule(f"{member}[{position}]", entry, dimensions)
        if unique:
            _require(len(set(value)) == len(value), member, value, "a list of unique entries")

    return check


def label_list(length: str) -> Rule:
    """Rule for sorted, unique labels of one type.

    These are text, integers, floats, booleans, or lists of these.
    """

    def parts(label: Any) -> tuple[Any, ...]:
        return tuple(label) if type(label) is list else (label,)

    def is_label(value: Any) -> bool:
        # A NaN differs from itself.
        return value != [] and all(
            type(part) in _LABEL_TYPES and part == part for part in parts(value)
        )

    expected = "text, a number or a boolean (not NaN), or a list of these"
    check_labels = list_of(scalar((list, *_LABEL_TYPES), expected, is_label), length)

    def check(member: str, value: Any, dimensions: Dimensions) -> None:
        check_labels(member, value, dimensions)
        keys = [parts(label) for label in value]
        types = {(type(label), *map(type, key)) for label, key in zip(value, keys, strict=True)}
        _require(len(types) <= 1, member, value, "labels of one type")
        _require(len(set(keys)) == len(keys), member, value, "unique labels")
        _require(keys == sorted(keys), member, value, "sorted labels")

    return check


def mapping_of(rule: Rule) -> Rule:
    """Rule for a mapping from names to values of one rule."""

    def check(member: str, value: Any, dimensions: Dimensions) -> None:
        MAPPING(member, value, dimensions)
        for name, entry in value.items():
            rule(f"{member}.{name}", entry, dimensions)

    return check


def record(rules: Mapping[str, Rule], *optional_fields: str) -> Rule:
    """Rule for a mapping with exactly these names, some of them optional."""

    def check(member: str, value: Any, dimensions: Dimensions) -> None:
        MAPPING(member, value, dimensions)
        prefix = f"{member}." if member else ""
        if unknown := sorted(value.keys() - rules):
            expected = f"one of {', '.join(rules)}"
            raise SchemaViolation(f"{prefix}{unknown[0]}", "is unknown", expected)
        for name, rule in rules.items():
            if name in value:
                rule(f"{prefix}{name}", value[name], dimensions)
            elif name not in optional_fields:
                raise SchemaViolation(f"{prefix}{name}", "is missing", "a complete file")

    return check


def _is_finite(array: AnyArray) -> bool:
    return bool(np.isfinite([array.min(), array.max()]).all())


def array_of(
    axes: str,
    kinds: str = "fiu",
    expected: str = "finite numbers",
    is_valid: Callable[[AnyArray], Any] = _is_finite,
) -> Rule:
    """Rule for a numeric array.

    Parameters
    ----------
    axes : str
        Dimension letter, number or * for each axis; t means p (p + 1) / 2.
    kinds : str
        Allowed kinds of numpy dtypes: f (float), i (signed integer), u (unsigned integer).
    expected : str
        Description of valid values.
    is_valid : callable
        Predicate on a non-empty array.
    """

    def check(member: str, value: Any, dimensions: Dimensions) -> None:
        _require(isinstance(value, np.ndarray), member, value, "an array")
        if value.dtype.kind not in kinds or value.dtype.itemsize > 8:
            types = f"numbers of at most 8 bytes, of numpy's kinds {', '.join(kinds)}"
            raise SchemaViolation(member, f"contains {value.dtype}", types)
        letters = axes.split()
        if value.ndim != len(letters):
            raise SchemaViolation(member, f"has shape {value.shape}", f"({', '.join(letters)})")
        for letter, length in zip(letters, value.shape, strict=True):
            _check_length(member, f"entries along {letter}", letter, length, dimensions)
        if value.size and not is_valid(value):
            interval = f"ranges from {value.min()} to {value.max()}"
            raise SchemaViolation(member, interval, expected)

    return check


def all_positive(array: AnyArray) -> bool:
    """Return whether all entries are finite and positive."""
    return bool(array.min() > 0 and array.max() < np.inf)


def _check_length(member: str, noun: str, letter: str, length: int, dimensions: Dimensions) -> None:
    """Check a length against a number or the value bound to its letter."""
    if letter == "*":
        return
    if letter == "t":
        p = dimensions["p"]
        expected = p * (p + 1) // 2
    elif letter.isdecimal():
        expected = int(letter)
    else:
        expected = dimensions.setdefault(letter, length)
    if length != expected:
        raise SchemaViolation(member, f"has {length} {noun}", f"{expected}")


def _describe_range(minimum: float, maximum: float) -> str:
    lower = f" from {minimum:g}" if minimum > -math.inf else ""
    upper = f" up to {maximum:g}" if maximum < math.inf else ""
    return lower + upper


@dataclass(frozen=True)
class Schema:
    """Schema of one kind of file.

    Attributes
    ----------
    kind : str
        Name of the kind, as stated in the file.
    description : str
        Description for messages.
    check : Rule
        Rule for header and arrays, merged into one mapping.
    remedy : str
        Remedy for an invalid file.
    outdated_remedy : str
        Remedy for a file of an older format.
    """

    kind: str
    description: str
    check: Rule
    remedy: str = "Recreate the file; this one is truncated, modified or of another kind"
    outdated_remedy: str = "Fit the model again; files of older versions are not read"

    def error_for(self, name: str, error: Exception) -> CorruptFile:
        """Convert an exception raised while the file `name` was read into a CorruptFile error."""
        if isinstance(error, CorruptFile):
            return error
        if isinstance(error, SchemaViolation):
            member, finding, allowed = error.args
            received = f"{name} does not contain {self.description}: member {member} {finding}"
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
            # Number of trailing label attributes that are classes of y.
            "n_label_columns": integer(0, 1),
            # Binary exponent of the unit of very large or very small weights.
            "weight_exponent": integer(),
            # Summary of the EM fit.
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
    outdated_remedy="Compute the moments again; files of older versions are not read",
)
MANIFEST_SCHEMA = Schema(
    "parts",
    "the manifest of a folder of moments",
    record(
        {
            "options": mapping_of(list_of(TEXT)),
            # Size, modification time and hash.
            "parts": mapping_of(list_of(scalar((int, str), "text or an integer"), "3")),
        }
    ),
    "Delete the folder, and recompute the moments",
    "Delete the folder, and recompute the moments; folders of older versions are not read",
)


def write_archive(
    path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write arrays and a JSON header to exactly this path (or the target of a link).

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


def pack_archive(kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
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


def write_json(path: str | os.PathLike[str], schema: Schema, document: Mapping[str, Any]) -> None:
    """Write a JSON document atomically."""
    write_atomic(path, _encode_document(schema.kind, document))


def _encode_document(kind: str, entries: Mapping[str, Any]) -> bytes:
    def to_json(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            return value.tolist()
        return vars(value)  # a dataclass

    document = {"format": f"fairspan.{kind}", "version": _VERSION, **entries}
    return json.dumps(document, sort_keys=True, default=to_json).encode()


def read_archive(source: str | os.PathLike[str] | bytes, schema: Schema) -> dict[str, Any]:
    """Read and validate an archive, from a path or from bytes.

    Returns
    -------
    dict
        Entries of the header, without kind and version, and arrays.

    Raises
    ------
    FileNotFoundError
        The file does not exist.
    CorruptFile
        The file is truncated, modified, of another kind or of another version.
    """

    def read(name: str) -> dict[str, Any]:
        arrays = _read_arrays(io.BytesIO(source) if isinstance(source, bytes) else source)
        document = _decode_document(arrays.pop(_HEADER).tobytes(), schema, name)
        # A modified zip directory could hide an array without invalidating the archive.
        if sorted(arrays) != document.pop("arrays") or arrays.keys() & document.keys():
            raise ValueError("its arrays do not match the header")
        return document | arrays

    return _read_checked(source, schema, read)


def peek_kind(path: str | os.PathLike[str]) -> str:
    """Return the kind stated in an archive's header, such as "moments"; empty if unreadable."""
    try:
        document = json.loads(_read_arrays(path)[_HEADER].tobytes())
        return str(document["format"]).removeprefix("fairspan.")
    except Exception:  # errors are reported when the file is actually read
        return ""


def read_json(path: str | os.PathLike[str], schema: Schema) -> dict[str, Any]:
    """Read and validate a JSON document; raises like :func:`read_archive`."""

    def read(name: str) -> dict[str, Any]:
        return _decode_document(Path(name).read_bytes(), schema, name)

    return _read_checked(path, schema, read)


@explain_memory_errors()
def _read_checked(
    source: str | os.PathLike[str] | bytes, schema: Schema, read: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """Read a file and validate it."""
    if isinstance(source, bytes):
        name = "The archive that was received"
    else:
        name = str(source)
        _check_regular_file(Path(source), name)
    try:
        contents = read(name)
        schema.check("", contents, {})
    # Sizes were consistent, so the file itself may be valid.
    except (MemoryError, PermissionError):
        raise
    # Corrupt data raise many exception types in zipfile and numpy.
    except Exception as error:
        raise schema.error_for(name, error) from error
    return contents


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


def _decode_document(text: bytes, schema: Schema, name: str) -> dict[str, Any]:
    """Decode a JSON document and check its kind and version."""
    document = dict(json.loads(text, object_pairs_hook=_reject_duplicate_keys))
    kind = document.pop("format")
    version = document.pop("version")
    if kind == f"fairspan.{schema.kind}" and type(version) is int and version == _VERSION:
        return document
    if kind != f"fairspan.{schema.kind}":
        remedy = f"Pass the right file. {schema.remedy}"
    elif type(version) is int and version < _VERSION:
        remedy = schema.outdated_remedy
    else:
        remedy = f"Update fairspan if the file is newer. {schema.remedy}"
    raise CorruptFile(
        f"{name} is of kind {kind!r}, version {version!r}",
        f"Allowed: kind 'fairspan.{schema.kind}', version {_VERSION}",
        remedy,
    )


def _read_arrays(source: str | os.PathLike[str] | IO[bytes]) -> dict[str, AnyArray]:
    """Read all arrays of an archive; their total size may not exceed that of the file."""
    with zipfile.ZipFile(source) as archive:
        entries = archive.infolist()
        file_size = cast(IO[bytes], archive.fp).seek(0, io.SEEK_END)
        counts = Counter(entry.filename for entry in entries)
        for name, count in counts.most_common(1):
            if count > 1:
                raise SchemaViolation(name, "is duplicated", "unique member names")
        total_size = sum(entry.file_size for entry in entries)
        if total_size > file_size:
            finding = f"declares {total_size} bytes in a file of {file_size}"
            raise SchemaViolation("archive", finding, "at most the file size")
        return {
            name.removesuffix(".npy"): _read_array(archive, archive.getinfo(name))
            for name in counts
        }


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> AnyArray:
    """Read one array in native byte order."""
    name = entry.filename
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
        raise SchemaViolation(name, "is compressed or encrypted", "an uncompressed member")
    with archive.open(entry) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise SchemaViolation(name, "is of another version of numpy's format", "version 1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        available_bytes = entry.file_size - file.tell()
    expected_bytes = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or dtype.itemsize == 0:
        raise SchemaViolation(name, f"contains {dtype}", "numbers")
    if available_bytes != expected_bytes:
        raise SchemaViolation(
            name, f"has {counted(available_bytes, 'byte')}", f"{expected_bytes} for shape {shape}"
        )
    # The checksum is verified at the end of the member.
    with archive.open(entry) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
    return np.asarray(array.astype(dtype.newbyteorder("="), copy=False))


def _reject_duplicate_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("duplicate name in a mapping")
    return entries


def looks_like_archive(path: str | os.PathLike[str]) -> bool:
    """Return whether a file starts like an archive."""
    with Path(path).open("rb") as file:
        start = file.read(_FIRST_MEMBER_NAME.stop)
    return start.startswith(_MAGIC) and start[_FIRST_MEMBER_NAME] == b"header.npy"
