"""Group labels: valid values, their types, and labels in messages and tables.

A label is text, an integer, a float or a boolean, or a tuple of these if several attributes are
crossed; pandas intervals become text. All labels of an attribute must have the same type: mixing 1
and "1" would silently create two groups.
"""

import math
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np

from fairspan.formatting.messages import quoted_label
from fairspan.typing import AnyArray, RawLabel

Scalar = str | bool | int | float
Label = Scalar | tuple[Scalar, ...]
ALLOWED_LABELS = "Allowed: text, numbers or booleans, one type per attribute"
TYPE_NAMES: dict[type, str] = {str: "text", bool: "boolean", int: "integer", float: "float"}
_MISSING_TYPES = ("NoneType", "NAType", "NaTType")


def without_last_attribute(label: Label) -> Label:
    """Drop the last attribute of a crossed label; a single remaining attribute is a plain label."""
    assert isinstance(label, tuple)  # only crossed labels have several attributes
    return label[0] if len(label) == 2 else label[:-1]


def label_array(labels: Sequence[Label]) -> AnyArray:
    """Return labels as a 1-D array of their own type, or of objects if numpy would alter them.

    Examples
    --------
    >>> label_array(["a", "b"])
    array(['a', 'b'], dtype='<U1')
    >>> label_array([("a", 1), ("b", 2)]).shape
    (2,)
    """
    if not any(isinstance(label, tuple) for label in labels):
        array = np.asarray(labels)
        # numpy rounds integers beyond int64 and strips trailing null characters.
        if all(type(a) is type(b) and a == b for a, b in zip(array.tolist(), labels, strict=True)):
            return array
    array = np.empty(len(labels), dtype=object)
    for index, label in enumerate(labels):  # slice assignment would unpack tuples
        array[index] = label
    return array


def to_python_labels(groups: Iterable[RawLabel]) -> list[Label]:
    """Convert labels to plain Python values, ready for JSON.

    Examples
    --------
    >>> import numpy as np
    >>> to_python_labels(np.array([1, 2]))
    [1, 2]
    """
    if isinstance(groups, np.ndarray) and groups.ndim == 1 and groups.dtype.kind in "biufU":
        return list(groups.tolist())
    return [to_python_label(group) for group in groups]


def format_label(label: RawLabel) -> str:
    """Format a label for display; attributes are joined by " / ".

    Examples
    --------
    >>> format_label(("female", 3))
    'female / 3'
    """
    return " / ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def quoted_group(label: Label) -> str:
    r"""Return a label in quotes, with unprintable and invisible characters escaped.

    Examples
    --------
    >>> quoted_group("a "), quoted_group(("f", 3)), quoted_group("a" + chr(10))
    ("'a '", "'f / 3'", "'a\\n'")
    """
    return repr(format_label(label))


def attributes_of(label: Label) -> tuple[Scalar, ...]:
    """Return the attributes of a label; a plain label is its only attribute.

    Examples
    --------
    >>> attributes_of("a"), attributes_of(("a", 1))
    (('a',), ('a', 1))
    """
    return label if isinstance(label, tuple) else (label,)


def printable(text: str) -> str:
    """Replace unprintable characters by "?", so that a terminal does not interpret them.

    Examples
    --------
    >>> printable("a" + chr(10) + "b")
    'a?b'
    """
    return "".join(char if char.isprintable() else "?" for char in text)


# Hyphen, en dash, em dash and minus sign.
_DASHES = frozenset("-\u2013\u2014\u2212")


def table_name(label: Label) -> str:
    """Return the name of a group for tables, in quotes if it could be misread.

    Quoted are names with leading or trailing spaces, and names of dashes, which mark empty cells of
    tables. Tables and figures show an empty name as "(no name)".

    Examples
    --------
    >>> table_name("w"), table_name("w "), table_name("-"), table_name(""), table_name(("w", 3))
    ('w', "'w '", "'-'", '', 'w / 3')
    """
    name = printable(format_label(label))
    has_outer_spaces = name != name.strip()
    is_dashes = name != "" and set(name) <= _DASHES
    return f"'{name}'" if has_outer_spaces or is_dashes else name


def format_list(items: Sequence[object], max_items: int = 12) -> str:
    """Format labels or names for a message, truncated to `max_items`.

    Examples
    --------
    >>> format_list(["a", "b"])
    "'a', 'b'"
    """
    text = ", ".join(map(quoted_label, items[:max_items]))
    n_omitted = len(items) - max_items
    return text if n_omitted <= 0 else f"{text} and {n_omitted} more"


def describe_label_type(labels: Sequence[Label]) -> str:
    """Describe the type of labels.

    Examples
    --------
    >>> describe_label_type(["a", "b"]), describe_label_type([("a", 1)])
    ('text', '2 attributes (text, integer)')
    """
    types = label_type(labels[0])
    attributes = f"{len(types) - 1} attributes " if types[0] is tuple else ""
    return attributes + format_label_type(types)


def to_python_label(value: RawLabel) -> Label:
    """Convert a label to plain Python types; pandas intervals become text.

    None, and a value of a type that no label may have, are returned unchanged: the encoder of
    labels refuses them, with the number of their row.
    """
    if isinstance(value, np.generic):
        value = value.item()
    elif type(value).__name__ == "Interval":
        value = str(value)
    elif isinstance(value, tuple | list):
        value = tuple(to_python_label(part) for part in value)
    elif hasattr(value, "as_py"):  # some indexing leaves pyarrow scalars
        value = value.as_py()
    return cast("Label", value)


def label_type(label: RawLabel) -> tuple[type, ...]:
    """Type of a label; for a crossed label, tuple followed by the types of its attributes."""
    return (tuple, *map(type, label)) if type(label) is tuple else (type(label),)


def is_missing_label(label: RawLabel) -> bool:
    """Return whether a label, or one of its attributes, is None or NaN."""
    # pandas stores missing text as NaN.
    attributes = label if isinstance(label, tuple) else (label,)
    return any(
        type(value).__name__ in _MISSING_TYPES or (isinstance(value, float) and math.isnan(value))
        for value in attributes
    )


def plural_type_name(label_type: type) -> str:
    """Return the name of a type of labels for messages, in the plural.

    Examples
    --------
    >>> plural_type_name(str), plural_type_name(int)
    ('text', 'integers')
    """
    return "text" if label_type is str else f"{TYPE_NAMES[label_type]}s"


def format_label_type(types: tuple[type, ...]) -> str:
    """Format a label type."""
    names = ", ".join(TYPE_NAMES[type_] for type_ in types if type_ is not tuple)
    return f"({names})" if types[0] is tuple else names
