"""Group labels: which values may name a group, how they are ordered and stored.

A label is text, a whole number, a real number or a truth value, or a tuple of those where several
attributes are crossed. Labels of one attribute must all be of one type: 1 and "1" in the same
column is a mistake that would silently make two groups.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, InvalidType
from fairspan.formatting.numbers import position
from fairspan.typing import AnyArray

Scalar = str | bool | int | float
Label = Scalar | tuple[Scalar, ...]
# How rows in which something is missing are left out, in Python and on the command line.
LEAVING_OUT = 'on_missing="drop", --on-missing drop'
ALLOWED_LABELS = "Allowed: text, numbers and truth values, one type for each attribute"
_TYPE_NAMES: dict[type, str] = {str: "text", bool: "truth value", int: "whole number"}
_TYPE_NAMES |= {float: "real number"}
_MISSING_TYPES = ("NoneType", "NAType", "NaTType")


def without_last_attribute(label: Any) -> Any:
    """A label of several attributes without the last; a plain one where a single one is left."""
    return label[0] if len(label) == 2 else label[:-1]


def label_array(labels: Sequence[Label]) -> AnyArray:
    """Labels as a one-dimensional array: of their own type where numpy can hold it, or of objects.

    Examples
    --------
    >>> label_array(["a", "b"])
    array(['a', 'b'], dtype='<U1')
    >>> label_array([("a", 1), ("b", 2)]).shape
    (2,)
    """
    if not any(isinstance(label, tuple) for label in labels):
        array = np.asarray(labels)
        # numpy rounds whole numbers beyond int64 and drops a text's trailing null characters.
        if all(type(a) is type(b) and a == b for a, b in zip(array.tolist(), labels, strict=True)):
            return array
    array = np.empty(len(labels), dtype=object)
    for index, label in enumerate(labels):  # a slice would unpack the tuples
        array[index] = label
    return array


def plain_labels(groups: Iterable[Any]) -> list[Label]:
    """Labels as plain Python values, ready for JSON.

    Examples
    --------
    >>> import numpy as np
    >>> plain_labels(np.array([1, 2]))
    [1, 2]
    """
    return [plain_label(group) for group in groups]


def spelled(label: Label) -> str:
    """How a label is written in tables: attributes of an intersection joined by " / ".

    Examples
    --------
    >>> spelled(("female", 3))
    'female / 3'
    """
    return " / ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def printable(text: str) -> str:
    """A name from the data without line breaks and control codes, which a terminal would obey.

    Examples
    --------
    >>> printable("a" + chr(10) + "b")
    'a?b'
    """
    return "".join(char if char.isprintable() else "?" for char in text)


def listed(labels: Sequence[Label], most: int = 12) -> str:
    """Labels for an error message, cut after a dozen.

    Examples
    --------
    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    shown = ", ".join(repr(label) for label in labels[:most])
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"


def same_kind(left: Sequence[Label], right: Sequence[Label]) -> bool:
    """Whether two sets of labels are of the same type and number of attributes."""
    return {label_kind(label) for label in left} == {label_kind(label) for label in right}


def kind_in_words(labels: Sequence[Label]) -> str:
    """What labels are made of.

    Examples
    --------
    >>> kind_in_words(["a", "b"]), kind_in_words([("a", 1)])
    ('text', '2 attributes (text, whole number)')
    """
    kind = label_kind(labels[0])
    spelled_types = spelled_kind(kind)
    return f"{len(kind) - 1} attributes {spelled_types}" if kind[0] is tuple else spelled_types


def plain_label(value: Any) -> Any:
    """A label in Python's own types."""
    if isinstance(value, tuple | list):
        return tuple(plain_label(part) for part in value)
    if isinstance(value, np.generic):
        return value.item()
    # Some indexing leaves scalars of pyarrow in a list.
    return value.as_py() if hasattr(value, "as_py") else value


def label_kind(label: Any) -> tuple[type, ...]:
    """The type of a label, and those of its attributes where it has several."""
    if type(label) is tuple:
        return (tuple, *map(type, label))
    return (type(label),)


def check_kind(kind: tuple[type, ...], label: Any, row: Callable[[], int]) -> None:
    """Raise InvalidInput for a missing label, and InvalidType for what is no label."""
    if is_missing(label):
        raise InvalidInput(
            f"The group label in {position('row', row())} is missing (None or NaN)",
            "Allowed: a label for every row",
            f"Leave these rows out ({LEAVING_OUT}), or give them a group of their own such as "
            "'unknown'",
        )
    for part in kind[1:] if kind[0] is tuple else kind:
        if part not in _TYPE_NAMES:
            raise InvalidType(
                f"The group label in {position('row', row())} is {label!r}, of type "
                f"{part.__name__}",
                ALLOWED_LABELS,
                "Convert the column, for example with astype(str)",
            )


def is_missing(label: Any) -> bool:
    """Whether a label, or one of its attributes, is None or NaN."""
    parts = label if isinstance(label, tuple) else (label,)
    # pandas writes a missing text as NaN.
    return has_nan(label) or any(type(part).__name__ in _MISSING_TYPES for part in parts)


def has_nan(label: Label) -> bool:
    """Whether a label, or one of its attributes, is NaN."""
    parts = label if isinstance(label, tuple) else (label,)
    return any(isinstance(part, float) and math.isnan(part) for part in parts)


def spelled_kind(kind: tuple[type, ...]) -> str:
    """The types of a label in words."""
    if kind[0] is tuple:
        return "(" + ", ".join(_TYPE_NAMES[part] for part in kind[1:]) + ")"
    return _TYPE_NAMES[kind[0]]
