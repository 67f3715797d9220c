"""Group labels: which values may name a group, their order and their codes; folds of rows.

A label is text, a whole number, a real number or a truth value, or a tuple of those where several
attributes are crossed; an interval of pandas becomes text. Labels of one attribute must all be of
one type: 1 and "1" in the same column is a mistake that would silently make two groups.
"""

import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from fairspan.errors import Cause, InvalidInput, InvalidParameter, InvalidType, UnknownGroup
from fairspan.formatting.text import describe_position, quoted_label
from fairspan.typing import AnyArray, BoolArray, IndexArray

Scalar = str | bool | int | float
Label = Scalar | tuple[Scalar, ...]
ALLOWED_LABELS = "Allowed: text, numbers and truth values, one type for each attribute"
_TYPE_NAMES: dict[type, str] = {
    str: "text",
    bool: "truth value",
    int: "whole number",
    float: "real number",
}
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


def to_python_labels(groups: Iterable[Any]) -> list[Label]:
    """Labels as plain Python values, ready for JSON.

    Examples
    --------
    >>> import numpy as np
    >>> to_python_labels(np.array([1, 2]))
    [1, 2]
    """
    if isinstance(groups, np.ndarray) and groups.ndim == 1 and groups.dtype.kind in "biufU":
        return list(groups.tolist())
    return [to_python_label(group) for group in groups]


def format_label(label: Label) -> str:
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


# Hyphen, en dash, em dash and minus sign.
_DASHES = frozenset("-\u2013\u2014\u2212")


def table_name(label: Label) -> str:
    """Return the name of a group for tables, in quotes where it could be misread.

    These are names with spaces at their ends, and names of dashes, by which tables mark cells
    without a value. Tables and pictures show an empty name as "(no name)".

    Examples
    --------
    >>> table_name("w"), table_name("w "), table_name("-"), table_name(""), table_name(("w", 3))
    ('w', "'w '", "'-'", '', 'w / 3')
    """
    name = printable(format_label(label))
    has_outer_spaces = name != name.strip()
    is_dashes = name != "" and set(name) <= _DASHES
    return f"'{name}'" if has_outer_spaces or is_dashes else name


def format_list(items: Sequence[Label], max_items: int = 12) -> str:
    """Labels for an error message, cut after a dozen.

    Examples
    --------
    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    shown = ", ".join(map(quoted_label, items[:max_items]))
    return shown if len(items) <= max_items else f"{shown} and {len(items) - max_items} more"


def describe_label_type(labels: Sequence[Label]) -> str:
    """What labels are made of.

    Examples
    --------
    >>> describe_label_type(["a", "b"]), describe_label_type([("a", 1)])
    ('text', '2 attributes (text, whole number)')
    """
    kind = label_type(labels[0])
    attributes = f"{len(kind) - 1} attributes " if kind[0] is tuple else ""
    return attributes + _format_label_type(kind)


def to_python_label(value: Any) -> Any:
    """A label in Python's own types; an interval, as pandas.cut makes them, in its notation."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (str, int, float, bool):
        return value
    if type(value).__name__ == "Interval":
        return str(value)
    if isinstance(value, tuple | list):
        return tuple(to_python_label(part) for part in value)
    # Some indexing leaves scalars of pyarrow in a list.
    return value.as_py() if hasattr(value, "as_py") else value


def label_type(label: Any) -> tuple[type, ...]:
    """The type of a label, and those of its attributes where it has several."""
    return (tuple, *map(type, label)) if type(label) is tuple else (type(label),)


def is_missing_label(label: Any) -> bool:
    """Whether a label, or one of its attributes, is None or NaN."""
    # pandas writes a missing text as NaN.
    return any(
        type(part).__name__ in _MISSING_TYPES or (isinstance(part, float) and math.isnan(part))
        for part in (label if isinstance(label, tuple) else (label,))
    )


def type_in_words(kind: type) -> str:
    """Return what labels of a type are called in messages.

    Examples
    --------
    >>> type_in_words(str), type_in_words(int)
    ('text', 'whole numbers')
    """
    return "text" if kind is str else f"{_TYPE_NAMES[kind]}s"


def _format_label_type(kind: tuple[type, ...]) -> str:
    """The types of a label in words."""
    parts = ", ".join(_TYPE_NAMES[part] for part in kind if part is not tuple)
    return f"({parts})" if kind[0] is tuple else parts


# Rows that nearly always show all labels of a block.
_N_SAMPLED_ROWS = 256


@dataclass(frozen=True, eq=False)
class CodedLabels:
    """Labels of some rows: the distinct labels, and a code for each row.

    Attributes
    ----------
    distinct : list of m labels
        Different from each other, by type too; some may occur in no row.
    codes : (r,) array of int
        Position of each row's label among them.
    names : tuple of names
        Of the columns that they come from; none where these have no names.
    unused : tuple
        Categories that a column of the whole table declares, and that no row has.
    """

    categories: list[Any]
    codes: IndexArray
    column_names: tuple[Any, ...] = ()
    unused: tuple[Any, ...] = ()

    @classmethod
    def from_labels(cls, labels: Sequence[Any]) -> "CodedLabels":
        """Code plain labels.

        Examples
        --------
        >>> CodedLabels.of(["b", "a", "b"]).codes
        array([0, 1, 0])
        """
        kinds = set(map(type, labels))
        # Python takes 1, 1.0 and True for the same dictionary key.
        keys: Sequence[Any] = labels
        if len(kinds) > 1 or kinds & {tuple}:
            keys = [(label_type(label), label) for label in labels]
        try:
            position = {key: index for index, key in enumerate(dict.fromkeys(keys))}
        except TypeError:  # no labels at all, such as lists: the coder says so
            return cls(list(labels), np.arange(len(labels)))
        distinct = list(position) if keys is labels else [label for _, label in position]
        return cls(distinct, np.fromiter(map(position.__getitem__, keys), np.intp, len(keys)))

    @classmethod
    def cross(cls, columns: Sequence["CodedLabels"]) -> "CodedLabels":
        """Tuples of one label from each of several columns: their intersections."""
        if len(columns) == 1:
            return columns[0]
        codes = np.zeros(len(columns[0]), dtype=np.intp)
        for column in columns:
            # Renumbered after each column, so that products of counts cannot overflow.
            codes = np.unique(codes * len(column.categories) + column.codes, return_inverse=True)[1]
        rows = np.unique(codes, return_index=True)[1].tolist()
        parts = [[column.categories[column.codes[row]] for row in rows] for column in columns]
        names = tuple(name for column in columns for name in column.column_names)
        # Of several attributes that were crossed before, each is one in the tuple.
        attributes = [
            [label if isinstance(label, tuple) else (label,) for label in part] for part in parts
        ]
        unused = tuple(label for column in columns for label in column.unused)
        return cls([sum(each, ()) for each in zip(*attributes, strict=True)], codes, names, unused)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> "CodedLabels":
        codes, distinct = self.codes[rows], self.categories
        if len(distinct) > len(codes):  # most of them are labels of other rows
            present, codes = np.unique(codes, return_inverse=True)
            distinct = [distinct[code] for code in present.tolist()]
        return CodedLabels(distinct, codes, self.column_names)

    def with_distinct(self, distinct: list[Any]) -> "CodedLabels":
        """Return labels of the same rows, with other distinct labels in place of these."""
        return replace(self, categories=distinct)

    def without_last_attribute(self) -> "CodedLabels":
        """The labels without the last of the columns that were crossed.

        Examples
        --------
        >>> CodedLabels.of([("a", 0), ("a", 1), ("b", 0)]).without_last_attribute().to_list()
        ['a', 'a', 'b']
        """
        return CodedLabels.from_labels(list(map(without_last_attribute, self.categories)))[
            self.codes
        ]

    def fill_missing(self, name: str) -> "CodedLabels":
        """The labels as text, with this one where it is missing.

        Examples
        --------
        >>> CodedLabels.of([1, None]).fill_missing("unknown").to_list()
        ['1', 'unknown']
        """
        texts = [name if is_missing_label(label) else str(label) for label in self.categories]
        return replace(CodedLabels.from_labels(texts)[self.codes], column_names=self.column_names)

    def to_list(self) -> list[Any]:
        """The label of each row."""
        return [self.categories[code] for code in self.codes.tolist()]

    @property
    def present(self) -> list[Any]:
        """The distinct labels that occur in a row."""
        return [self.categories[code] for code in np.flatnonzero(np.bincount(self.codes)).tolist()]

    @property
    def missing_mask(self) -> BoolArray:
        """Which rows have no label (None or NaN), shape (r,)."""
        return np.array([is_missing_label(label) for label in self.categories], dtype=bool)[
            self.codes
        ]


class LabelEncoder:
    """Turns blocks of labels into whole-number codes, meeting new groups as they come.

    Parameters
    ----------
    known : sequence of labels, optional
        If given, only these groups are allowed, coded by their position.
    """

    def __init__(self, known: Sequence[Label] | None = None) -> None:
        self._codes: dict[Label, int] = {}
        self._label_type: tuple[type, ...] | None = None
        self._is_closed = False
        if known is not None:
            self.encode(CodedLabels.from_labels(list(known)))
            self._is_closed = True

    @property
    def labels(self) -> list[Label]:
        """The groups met so far, by code."""
        return list(self._codes)

    def encode(self, labels: CodedLabels, first_row: int = 0) -> IndexArray:
        """Return the code of each label of a block.

        Parameters
        ----------
        labels : CodedLabels of r rows
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
        # In the order of the rows, so that the same mistake gives the same message.
        # Nearly all blocks hold few labels, and looking at some rows finds them all.
        found = dict.fromkeys(labels.codes[:_N_SAMPLED_ROWS].tolist())
        n_distinct = len(labels.categories)
        if len(found) < n_distinct and len(found) < np.count_nonzero(np.bincount(labels.codes)):
            found = dict.fromkeys(labels.codes.tolist())
        met = {index: self._encode_category(labels, index, first_row) for index in found}
        if all(code == index for index, code in met.items()):
            return labels.codes
        codes = np.zeros(len(labels.categories), dtype=np.intp)
        codes[list(met)] = list(met.values())
        return codes[labels.codes]

    def _encode_category(self, labels: CodedLabels, index: int, first_row: int) -> int:
        label = labels.categories[index]
        if not isinstance(label, list):  # which is no label, and would become a tuple
            label = to_python_label(label)
        kind = label_type(label)
        if kind == self._label_type and not is_missing_label(label) and label in self._codes:
            return self._codes[label]

        def row() -> int:  # only for an error: looking for the row is a pass over all of them
            return first_row + int(np.argmax(labels.codes == index))

        if is_missing_label(label):
            raise InvalidInput(
                f"The group label in {describe_position('row', row())} is missing (None or NaN)",
                "Allowed: a label for every row",
                "Leave these rows out, or give them a group of their own such as 'unknown'",
                cause=Cause.MISSING_LABEL,
            )
        for part in kind[1:] if kind[0] is tuple else kind:
            if part not in _TYPE_NAMES:
                raise InvalidType(
                    f"The group label in {describe_position('row', row())} is {quoted_label(label)}, of "
                    f"type {part.__name__}",
                    ALLOWED_LABELS,
                    "Convert the column, for example with astype(str)",
                )
        if self._is_closed:
            raise UnknownGroup(
                f"The rows hold the group {quoted_label(label)} "
                f"(first in {describe_position('row', row())})",
                f"Known groups are {format_list(self.labels)}",
                "Check the group column for misspelt or new values, or fit again with that group",
            )
        if self._label_type not in (None, kind):
            raise InvalidInput(
                f"Group labels mix {_format_label_type(self._label_type)} with {_format_label_type(kind)} "
                f"({describe_position('row', row())}: {quoted_label(label)})",
                ALLOWED_LABELS,
                "Convert the column to one type, for example with astype(str)",
            )
        self._label_type = kind
        return self._codes.setdefault(label, len(self._codes))


def sort_by_code(codes: IndexArray) -> tuple[IndexArray, list[tuple[int, slice]]]:
    """An order that puts rows of one group side by side, and each group's code and place in it.

    Examples
    --------
    >>> import numpy as np
    >>> side_by_side(np.array([2, 0, 2]))
    (array([1, 0, 2]), [(0, slice(0, 1, None)), (2, slice(1, 3, None))])
    """
    sizes = np.bincount(codes)
    # Bytes are sorted by counting, not by comparing.
    order = np.argsort(codes.astype(np.uint8) if len(sizes) <= 256 else codes, kind="stable")
    present = np.flatnonzero(sizes)
    ends = np.cumsum(sizes[present]).tolist()
    return order, list(zip(present.tolist(), map(slice, [0, *ends], ends), strict=False))


def factorize_sorted(labels: CodedLabels) -> tuple[tuple[Any, ...], IndexArray]:
    """Distinct labels in sorted order, and the code of each row among these.

    Examples
    --------
    >>> in_order(CodedLabels.of(["b", "a", "b"]))
    (('a', 'b'), array([1, 0, 1]))
    """
    order = sorted(range(len(labels.categories)), key=labels.categories.__getitem__)
    return tuple(labels.categories[place] for place in order), np.argsort(order)[labels.codes]


# Constants of the generator splitmix64 (Steele, Lea and Flood 2014), which turns consecutive
# numbers into independent ones.
_SPLITMIX_GAMMA, _SPLITMIX_MIX_1, _SPLITMIX_MIX_2 = map(
    np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


@dataclass(frozen=True, eq=False)
class RowLabels:
    """What is known of some rows beside their values.

    Attributes
    ----------
    groups : CodedLabels of r rows
    folds : (r,) array of int
    clusters : CodedLabels of r rows, or None
        Which rows belong together; None where each is on its own.
    """

    groups: CodedLabels
    folds: IndexArray
    clusters: CodedLabels | None = None


@dataclass(frozen=True)
class Folds:
    """Which fold each row is in: by its position, or by the cluster that it belongs to.

    Of every `n_folds` consecutive rows one is in each fold, in an order that is drawn again each
    time. If the numbers of rows in the parts before are not known (CSV files, Spark, most Dask
    data frames), rows are counted within their part, so that the number of processes does not
    matter.

    Attributes
    ----------
    n_folds : int
        K, at least 2.
    seed : int
    by_cluster : bool
        Whether the last column of the labels names the cluster of a row. All rows of a cluster are
        in one fold.

    Raises
    ------
    InvalidParameter
        Fewer than two folds.

    Examples
    --------
    >>> Folds(3, seed=0).folds_of_rows(0, 9)
    array([1, 2, 0, 0, 1, 2, 1, 2, 0])
    """

    n_folds: int = 10
    seed: int = 0
    by_cluster: bool = False

    def __post_init__(self) -> None:
        value: Any = self.n_folds
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 2:
            raise InvalidParameter(
                f"folds is {value!r}",
                "Allowed: a whole number of at least 2, or None for no estimates on new rows",
                "Use the default, 10",
            )

    def folds_of_rows(self, first_row: int, n_rows: int) -> IndexArray:
        """Folds of consecutive rows, shape (n_rows,)."""
        positions = np.arange(first_row, first_row + n_rows, dtype=np.uint64)
        with np.errstate(over="ignore"):  # the numbers look drawn at random
            shift = (
                positions // np.uint64(self.n_folds) + np.uint64(1 + self.seed)
            ) * _SPLITMIX_GAMMA
            shift = (shift ^ (shift >> np.uint64(30))) * _SPLITMIX_MIX_1
            shift = (shift ^ (shift >> np.uint64(27))) * _SPLITMIX_MIX_2
            shift ^= shift >> np.uint64(31)
        return np.asarray((positions + shift) % np.uint64(self.n_folds), dtype=np.intp)

    def fold_of_cluster(self, cluster: Label) -> int:
        """The fold of all rows of a cluster, the same in every process."""
        digest = blake2b(repr((self.seed, cluster)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") % self.n_folds

    def assign(self, labels: CodedLabels, first_row: int, before: int) -> RowLabels:
        """Groups, folds and clusters of consecutive rows.

        Parameters
        ----------
        labels : CodedLabels of r rows
        first_row : int
            Number of the first of them in the table, for messages.
        before : int
            How many rows come before them, those not counted that were left out. So the folds are
            those of a table from which these rows were removed.

        Raises
        ------
        InvalidInput
            A row without a cluster.
        """
        if not self.by_cluster:
            return RowLabels(labels, self.folds_of_rows(before, len(labels)))
        clusters = CodedLabels.from_labels([label[-1] for label in labels.categories])[labels.codes]
        missing = clusters.missing_mask
        if missing.any():
            raise InvalidInput(
                f"The cluster of {describe_position('row', first_row + int(np.argmax(missing)))} is missing",
                "Allowed: a cluster for each row",
                "Give rows that belong to nobody else a cluster each, or leave them out",
            )
        folds = np.array(
            [self.fold_of_cluster(label) for label in clusters.categories], dtype=np.intp
        )
        return RowLabels(labels.without_last_attribute(), folds[clusters.codes], clusters)
