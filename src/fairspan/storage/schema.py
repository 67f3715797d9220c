"""Schemas of files, which are untrusted: their entire contents are validated.

Entries that the schema does not list are rejected, JSON types are exact (`true` is not 1), numbers
are in range, names are unique text, labels are unique and of one type, and arrays have the shapes
that the header and other arrays imply.
"""

import math
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.errors import CorruptFile
from fairspan.typing import AnyArray

# Lengths by letter, as bound so far by lists and array axes: the first length of a letter binds it.
Dimensions = dict[str, int]
# Raises SchemaViolation if the value of a named member is invalid.
Rule = Callable[[str, object, Dimensions], object]

_LABEL_TYPES = (str, bool, int, float)


class SchemaViolation(ValueError):
    """Violation of a schema; its arguments are the member, the finding, and what is allowed."""


def _require(condition: bool, member: str, value: object, expected: str) -> None:
    """Raise SchemaViolation with the value of a member unless the condition holds."""
    if not condition:
        raise SchemaViolation(member or "the header", f"is {value!r:.60}", expected)


def scalar(
    types: Collection[type], expected: str, is_valid: Callable[[Any], bool] = lambda _: True
) -> Rule:
    """Rule for a scalar of exactly one of these types that satisfies a condition."""

    def check(member: str, value: object, dimensions: Dimensions) -> None:
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


def number(
    minimum: float = -math.inf, *, below: float = math.inf, may_be_infinite: bool = False
) -> Rule:
    """Rule for a number of at least `minimum`, and below a limit if one is given.

    Never NaN, and infinite only if allowed.
    """
    noun = "a number" if may_be_infinite else "a finite number"
    limit = f" and below {below:g}" if below < math.inf else ""

    def is_valid(value: float) -> bool:
        # JSON has integers of any length, which float64 cannot hold.
        if abs(value) > sys.float_info.max:
            return may_be_infinite and isinstance(value, float) and value >= minimum
        return minimum <= value < below

    return scalar((int, float), f"{noun}{_describe_range(minimum, math.inf)}{limit}", is_valid)


def optional(rule: Rule) -> Rule:
    """Rule for None or what another rule allows."""

    def check(member: str, value: object, dimensions: Dimensions) -> None:
        if value is not None:
            rule(member, value, dimensions)

    return check


def list_of(rule: Rule, length: str = "*", *, unique: bool = False) -> Rule:
    """Rule for a list whose entries follow a rule, optionally unique ones.

    Its length is a number, the letter of a dimension, or "*" for any.
    """

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

    def parts(label: object) -> tuple[Any, ...]:
        return tuple(label) if type(label) is list else (label,)

    def is_label(value: object) -> bool:
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
    """Rule for a mapping with exactly these names, each with a rule for its value.

    The names in `optional_fields` may be absent. The member with an empty name is the header.
    """

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
    is_valid: Callable[[AnyArray], object] = _is_finite,
) -> Rule:
    """Rule for a numeric array.

    Parameters
    ----------
    axes : str
        Dimension letter, number or * for each axis; t means p (p + 1) / 2.
    kinds : str
        Allowed kinds of numpy dtypes: f (float), i (signed integer), u (unsigned integer).
    expected : str
        Description of valid values, for the message.
    is_valid : callable
        Predicate on a non-empty array.

    Returns
    -------
    Rule
        Raises SchemaViolation; it gets the name of the member, its value, and the lengths that
        letters have so far.
    """

    def check(member: str, value: Any, dimensions: Dimensions) -> None:
        """Raise SchemaViolation unless a value is an array of these axes, kinds and values.

        `axes` and `kinds` are arguments of the rule: letters of the dimensions, such as "n p", and
        of the dtypes, such as "fiu". `dimensions` maps each letter to its length so far.
        """
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
    """Check a length against a number or the value bound to its letter.

    The first length of a letter binds it, "*" allows any length, and "t" is the number of entries
    of a lower triangle of p rows.
    """
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
