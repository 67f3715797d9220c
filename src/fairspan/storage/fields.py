"""Reading of the fields of a file, which may come from anybody.

The owner of a file format reads its fields by name, in the order in which it needs them, and says
what each may contain; it is checked before it is returned. JSON types are exact (`true` is not 1),
numbers are finite and in range, names are unique text, labels are unique and of one type, and
arrays have the stated shape. Fields that nobody read are rejected at the end.
"""

import math
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fairspan.errors import CorruptFile
from fairspan.typing import AnyArray, JsonValue

# Value of one attribute of a group.
AttributeValue: TypeAlias = str | bool | int | float
_ATTRIBUTE_TYPES = (str, bool, int, float)


class InvalidField(ValueError):
    """Error of a field; its arguments are the field, what is wrong with it, and what is allowed."""


@dataclass(frozen=True)
class FileKind:
    """One kind of file, in the words of messages.

    Attributes
    ----------
    name : str
        Name of the kind, as stated in the file.
    contents : str
        What a valid file contains.
    remedy : str
        Remedy for an invalid file.
    outdated_remedy : str
        Remedy for a file of an older format.
    """

    name: str
    contents: str
    remedy: str = "Recreate the file; this one is truncated, modified or of another kind"
    outdated_remedy: str = "Fit the model again; files of older versions are not read"

    def error_for(self, path: str, error: Exception) -> CorruptFile:
        """Convert an exception raised while the file `path` was read into a CorruptFile error."""
        if isinstance(error, CorruptFile):
            return error
        if isinstance(error, InvalidField):
            field, finding, allowed = error.args
            received = f"{path} does not contain {self.contents}: member {field} {finding}"
            return CorruptFile(received, f"Allowed: {allowed}", self.remedy)
        return CorruptFile(
            f"{path} cannot be read as a fairspan file ({type(error).__name__}: {error})",
            f"Allowed: a complete file written by fairspan, of kind '{self.name}'",
            self.remedy,
        )


class FieldReader:
    """Reader of a mapping from names to untrusted values.

    Every method that reads a field raises InvalidField if the field is missing or its value is not
    allowed.

    Parameters
    ----------
    values : mapping of str to values decoded from JSON, or arrays
    path : str
        Path of the mapping within the file, such as "certificate.steps[0]"; empty for the whole
        file.
    """

    def __init__(self, values: Mapping[str, object], path: str = "") -> None:
        self._values = values
        self._path = path
        # Names that were asked for, in that order; a dict serves as an ordered set.
        self._known_names: dict[str, None] = {}
        self._inner_readers: list[FieldReader] = []

    @property
    def names(self) -> list[str]:
        """Names of all fields, for a mapping whose names are data."""
        return list(self._values)

    def check_all_were_read(self) -> None:
        """Raise InvalidField if there is a field, here or in an inner mapping, that nobody read."""
        if unknown := sorted(self._values.keys() - self._known_names.keys()):
            raise self.error(unknown[0], "is unknown", f"one of {', '.join(self._known_names)}")
        for reader in self._inner_readers:
            reader.check_all_were_read()

    def error(self, name: str, finding: str, allowed: str) -> InvalidField:
        """Create the error of a field, to be raised by the caller."""
        return InvalidField(self._field_path(name), finding, allowed)

    @contextmanager
    def explain_errors(self, name: str) -> Iterator[None]:
        """Convert errors that are raised while values are used into errors of the field `name`."""
        try:
            yield
        except InvalidField:
            raise
        except (ValueError, TypeError, LookupError) as error:
            raise self.error(name, f"cannot be used ({error})", "what a fit writes") from error

    def has(self, name: str) -> bool:
        """Return whether a field that may be missing is there."""
        self._known_names[name] = None
        return name in self._values

    def is_null(self, name: str) -> bool:
        """Return whether a field, which may not be missing, is null."""
        return self._read_value(name) is None

    def read_text(self, name: str) -> str:
        """Read a text."""
        value = self._read_value(name)
        _require(type(value) is str, self._field_path(name), value, "text")
        return str(value)

    def read_choice(self, name: str, choices: Collection[str]) -> str:
        """Read a text that is one of these."""
        value = self._read_value(name)
        is_choice = type(value) is str and value in choices
        _require(is_choice, self._field_path(name), value, f"one of {', '.join(choices)}")
        return str(value)

    def read_boolean(self, name: str) -> bool:
        """Read true or false."""
        value = self._read_value(name)
        _require(type(value) is bool, self._field_path(name), value, "true or false")
        return bool(value)

    def read_integer(
        self, name: str, *, minimum: float = -math.inf, maximum: float = math.inf
    ) -> int:
        """Read an integer in a range, ends included."""
        return _check_integer(self._field_path(name), self._read_value(name), minimum, maximum)

    def read_number(
        self,
        name: str,
        *,
        minimum: float = -math.inf,
        below: float = math.inf,
        may_be_infinite: bool = False,
    ) -> float:
        """Read a number of at least `minimum` and less than `below`.

        It is never NaN, and infinite only if that is allowed.
        """
        return _check_number(
            self._field_path(name), self._read_value(name), minimum, below, may_be_infinite
        )

    def read_list(self, name: str, *, length: int | None = None) -> list[object]:
        """Read a list of any entries, of the required length if one is given."""
        value = self._read_value(name)
        path = self._field_path(name)
        if not isinstance(value, list):
            raise _unexpected_value(path, value, "a list")
        if length is not None and len(value) != length:
            raise InvalidField(path, f"has {len(value)} entries", f"{length}")
        return value

    def read_integers(
        self, name: str, *, length: int | None = None, minimum: float = -math.inf
    ) -> list[int]:
        """Read a list of integers of at least `minimum`."""
        return [
            _check_integer(f"{self._field_path(name)}[{position}]", entry, minimum, math.inf)
            for position, entry in enumerate(self.read_list(name, length=length))
        ]

    def read_numbers(
        self, name: str, *, length: int | None = None, minimum: float = -math.inf
    ) -> list[float]:
        """Read a list of finite numbers of at least `minimum`."""
        return [
            _check_number(
                f"{self._field_path(name)}[{position}]",
                entry,
                minimum,
                below=math.inf,
                may_be_infinite=False,
            )
            for position, entry in enumerate(self.read_list(name, length=length))
        ]

    def read_texts(self, name: str, *, length: int | None = None) -> list[str]:
        """Read a list of texts."""
        entries = self.read_list(name, length=length)
        for position, entry in enumerate(entries):
            _require(type(entry) is str, f"{self._field_path(name)}[{position}]", entry, "text")
        return [str(entry) for entry in entries]

    def read_unique_texts(self, name: str, *, length: int | None = None) -> tuple[str, ...]:
        """Read a list of different texts, such as names of features."""
        texts = self.read_texts(name, length=length)
        is_unique = len(set(texts)) == len(texts)
        _require(is_unique, self._field_path(name), texts, "a list of unique entries")
        return tuple(texts)

    def read_labels(self, name: str) -> list[AttributeValue | tuple[AttributeValue, ...]]:
        """Read labels of groups, which are sorted, unique and of one type.

        A label is a text, an integer, a float or a boolean, or a tuple of these for a group that
        crosses several attributes, which is a list in the file.
        """
        entries = self.read_list(name)
        path = self._field_path(name)
        # Each label as a tuple of its attributes, one for a label that is not a list.
        keys = [
            _check_label(f"{path}[{position}]", entry) for position, entry in enumerate(entries)
        ]
        types = {(type(entry), *map(type, key)) for entry, key in zip(entries, keys, strict=True)}
        _require(len(types) <= 1, path, entries, "labels of one type")
        _require(len(set(keys)) == len(keys), path, entries, "unique labels")
        _require(keys == sorted(keys), path, entries, "sorted labels")
        return [
            key if isinstance(entry, list) else key[0]
            for entry, key in zip(entries, keys, strict=True)
        ]

    def read_mapping(self, name: str) -> dict[str, JsonValue]:
        """Read a mapping of any contents."""
        value = self._read_value(name)
        if not isinstance(value, dict):
            raise _unexpected_value(self._field_path(name), value, "a mapping")
        return value

    def read_record(self, name: str) -> "FieldReader":
        """Return the reader of an inner mapping."""
        return self._inner_reader(self._field_path(name), self._read_value(name))

    def read_records(self, name: str) -> list["FieldReader"]:
        """Return the readers of a list of inner mappings."""
        return [
            self._inner_reader(f"{self._field_path(name)}[{position}]", entry)
            for position, entry in enumerate(self.read_list(name))
        ]

    def read_array(
        self,
        name: str,
        axes: str,
        shape: tuple[int | None, ...],
        *,
        kinds: str = "fiu",
        positive: bool = False,
    ) -> AnyArray:
        """Read an array of finite numbers.

        Parameters
        ----------
        name : str
        axes : str
            Name of each axis in messages, such as "k p" for groups and features.
        shape : tuple of int or None
            Required length of each axis; None for any.
        kinds : str
            Allowed kinds of numpy dtypes, of at most 8 bytes: f (float), i (signed integer), u
            (unsigned integer).
        positive : bool
            Whether all numbers must be above 0.
        """
        array = self._read_value(name)
        path = self._field_path(name)
        if not isinstance(array, np.ndarray):
            raise _unexpected_value(path, array, "an array")
        if array.dtype.kind not in kinds or array.dtype.itemsize > 8:
            types = f"numbers of at most 8 bytes, of numpy's kinds {', '.join(kinds)}"
            raise InvalidField(path, f"contains {array.dtype}", types)
        axis_names = axes.split()
        if array.ndim != len(shape):
            raise InvalidField(path, f"has shape {array.shape}", f"({', '.join(axis_names)})")
        for axis, length, required_length in zip(axis_names, array.shape, shape, strict=True):
            if required_length is not None and length != required_length:
                raise InvalidField(path, f"has {length} entries along {axis}", f"{required_length}")
        if array.size:
            smallest = array.min()
            largest = array.max()
            # NaN is the minimum of an array that contains it.
            is_finite = bool(np.isfinite([smallest, largest]).all())
            if not is_finite or (positive and smallest <= 0):
                allowed = "finite numbers above 0" if positive else "finite numbers"
                raise InvalidField(path, f"ranges from {smallest} to {largest}", allowed)
        return array

    def _field_path(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def _read_value(self, name: str) -> object:
        self._known_names[name] = None
        if name not in self._values:
            raise self.error(name, "is missing", "a complete file")
        return self._values[name]

    def _inner_reader(self, path: str, value: object) -> "FieldReader":
        if not isinstance(value, dict):
            raise _unexpected_value(path, value, "a mapping")
        reader = FieldReader(value, path)
        self._inner_readers.append(reader)
        return reader


def _unexpected_value(path: str, value: object, allowed: str) -> InvalidField:
    """Create the error of a value that is not allowed."""
    return InvalidField(path, f"is {value!r:.60}", allowed)


def _require(condition: bool, path: str, value: object, allowed: str) -> None:
    """Raise InvalidField with the path and the value of a field unless the condition holds."""
    if not condition:
        raise _unexpected_value(path, value, allowed)


def _check_integer(path: str, value: object, minimum: float, maximum: float) -> int:
    """Return a value if it is an integer in a range; otherwise raise InvalidField."""
    # Not isinstance: a boolean is an instance of int.
    if type(value) is int and minimum <= value <= maximum:
        return value
    raise _unexpected_value(path, value, f"an integer{_describe_range(minimum, maximum)}")


def _check_number(
    path: str, value: object, minimum: float, below: float, may_be_infinite: bool
) -> float:
    """Return a value if it is a number of at least `minimum` and less than `below`.

    Otherwise, as for NaN, raise InvalidField.
    """
    if type(value) is int or type(value) is float:
        # JSON has integers of any length, which float64 cannot hold.
        if abs(value) <= sys.float_info.max:
            is_valid = minimum <= value < below
        else:
            is_valid = may_be_infinite and type(value) is float and value >= minimum
        if is_valid:
            return value
    noun = "a number" if may_be_infinite else "a finite number"
    limit = f" and below {below:g}" if below < math.inf else ""
    raise _unexpected_value(path, value, f"{noun}{_describe_range(minimum, math.inf)}{limit}")


def _check_label(path: str, value: object) -> tuple[AttributeValue, ...]:
    """Return the parts of a label, one for each attribute; raise InvalidField if it is no label."""
    parts = value if isinstance(value, list) else [value]
    # A NaN differs from itself.
    is_label = bool(parts) and all(
        type(part) in _ATTRIBUTE_TYPES and part == part for part in parts
    )
    _require(is_label, path, value, "text, a number or a boolean (not NaN), or a list of these")
    return tuple(parts)


def _describe_range(minimum: float, maximum: float) -> str:
    lower = f" from {minimum:g}" if minimum > -math.inf else ""
    upper = f" up to {maximum:g}" if maximum < math.inf else ""
    return lower + upper
