"""Group labels: which values may name a group, how they are ordered, coded and stored.

A label is text, a whole number, a real number or a truth value, or a tuple of those where several
attributes are crossed. Labels of one attribute must all be of one type: 1 and "1" in the same
column is a mistake that would silently make two groups.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan.errors import InvalidInput, InvalidType, UnknownGroup

Scalar = str | bool | int | float
Label = Scalar | tuple[Scalar, ...]

_ALLOWED = "Allowed are text, numbers and truth values, one type for each attribute"
_TYPE_NAMES: dict[type, str] = {str: "text", bool: "truth value", int: "whole number"}
_TYPE_NAMES |= {float: "real number"}


class LabelCoder:
    """Turns blocks of labels into whole-number codes, meeting new groups as they come.

    Parameters
    ----------
    known : sequence of labels, optional
        If given, only these groups are allowed, coded by their position.
    """

    def __init__(self, known: Sequence[Label] | None = None) -> None:
        self._codes: dict[Label, int] = {}
        self._kind: tuple[type, ...] | None = None
        self._closed = False
        if known is not None:
            self.encode(list(known))
            self._closed = True

    @property
    def labels(self) -> list[Label]:
        """The groups met so far, by code."""
        return list(self._codes)

    def encode(self, labels: list[Any], first_row: int = 0) -> npt.NDArray[np.int64]:
        """Codes of one block of labels.

        Parameters
        ----------
        labels : list of length r
        first_row : int
            Number of the block's first row, for error messages.

        Returns
        -------
        (r,) array of int

        Raises
        ------
        InvalidInput
            A label is missing, of a type that is not allowed, or of another type than before.
        UnknownGroup
            The coder is closed and a label is not among its groups.
        """
        labels = self._of_one_kind(labels, first_row)
        try:
            return np.fromiter((self._codes[label] for label in labels), np.int64, len(labels))
        except KeyError:
            for label in dict.fromkeys(labels):
                if label not in self._codes:
                    self._meet(label, first_row + labels.index(label))
        return np.fromiter((self._codes[label] for label in labels), np.int64, len(labels))

    def _meet(self, label: Label, row: int) -> None:
        if _has_nan(label):
            raise _missing(row)
        if self._closed:
            raise self._unknown(label, row)
        self._codes[label] = len(self._codes)

    def _unknown(self, label: Label, row: int) -> UnknownGroup:
        return UnknownGroup(
            f"The rows hold the group {label!r} (first in row {row})",
            f"Known groups are {listed(self.labels)}",
            "Check the group column for misspelt or new values, or fit again with that group",
        )

    def _of_one_kind(self, labels: list[Any], first_row: int) -> list[Label]:
        # Python takes 1, 1.0 and True for the same dictionary key, so types are checked apart.
        # Met in the order of the rows, so that the same mistake gives the same message.
        kinds = _kinds_of(labels)
        if any(_is_wrapped(part) for kind in kinds for part in kind):
            labels = plain_labels(labels)
            kinds = _kinds_of(labels)
        for kind in kinds:
            index = next(i for i, label in enumerate(labels) if _kind_of(label) == kind)
            _check_kind(kind, labels[index], first_row + index)
            if self._kind is not None and kind != self._kind:
                if self._closed:
                    raise self._unknown(labels[index], first_row + index)
                raise InvalidInput(
                    f"Group labels mix {_spell(self._kind)} with {_spell(kind)} "
                    f"(row {first_row + index}: {labels[index]!r})",
                    _ALLOWED,
                    "Convert the column to one type, for example with astype(str)",
                )
            self._kind = kind
        return labels


def label_array(labels: Sequence[Label]) -> npt.NDArray[Any]:
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
    return [_plain(group) for group in groups]


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
    return {_kind_of(label) for label in left} == {_kind_of(label) for label in right}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(_plain(part) for part in value)
    if not _is_wrapped(type(value)):
        return value
    return value.item() if isinstance(value, np.generic) else value.as_py()


def _is_wrapped(kind: type) -> bool:
    """Whether values are scalars of numpy, or of pyarrow (which some indexing leaves in a list)."""
    return issubclass(kind, np.generic) or hasattr(kind, "as_py")


def _kinds_of(labels: list[Any]) -> list[tuple[type, ...]]:
    types = dict.fromkeys(map(type, labels))
    # Looking into each label is slow, and only tuples need it.
    return list(dict.fromkeys(map(_kind_of, labels))) if tuple in types else [(t,) for t in types]


def _kind_of(label: Any) -> tuple[type, ...]:
    if type(label) is tuple:
        return (tuple, *map(type, label))
    return (type(label),)


def _check_kind(kind: tuple[type, ...], label: Any, row: int) -> None:
    if _has_nan(label):  # pandas writes a missing text as NaN
        raise _missing(row)
    for part in kind[1:] if kind[0] is tuple else kind:
        if part.__name__ in ("NoneType", "NAType", "NaTType"):
            raise _missing(row)
        if part not in _TYPE_NAMES:
            raise InvalidType(
                f"The group label in row {row} is {label!r}, of type {part.__name__}",
                _ALLOWED,
                "Convert the column, for example with astype(str)",
            )


def _has_nan(label: Label) -> bool:
    parts = label if isinstance(label, tuple) else (label,)
    return any(isinstance(part, float) and math.isnan(part) for part in parts)


def _missing(row: int) -> InvalidInput:
    return InvalidInput(
        f"The group label in row {row} is missing (None or NaN)",
        "Allowed is a label for every row",
        "Drop these rows, or give them a group of their own such as 'unknown'",
    )


def _spell(kind: tuple[type, ...]) -> str:
    if kind[0] is tuple:
        return "(" + ", ".join(_TYPE_NAMES[part] for part in kind[1:]) + ")"
    return _TYPE_NAMES[kind[0]]
