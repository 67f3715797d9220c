"""Group labels: valid values, order and codes; and the assignment of rows to folds.

A label is text, an integer, a float or a boolean, or a tuple of these if several attributes are
crossed; pandas intervals become text. All labels of an attribute must have the same type: mixing 1
and "1" would silently create two groups.
"""

import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from fairspan.errors import Cause, InvalidInput, InvalidParameter, InvalidType, UnknownGroup
from fairspan.formatting.messages import describe_position, quoted_label
from fairspan.typing import AnyArray, BoolArray, IndexArray

Scalar = str | bool | int | float
Label = Scalar | tuple[Scalar, ...]
ALLOWED_LABELS = "Allowed: text, numbers or booleans, one type per attribute"
_TYPE_NAMES: dict[type, str] = {str: "text", bool: "boolean", int: "integer", float: "float"}
_MISSING_TYPES = ("NoneType", "NAType", "NaTType")


def without_last_attribute(label: Any) -> Any:
    """Drop the last attribute of a crossed label; a single remaining attribute is a plain label."""
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


def to_python_labels(groups: Iterable[Any]) -> list[Label]:
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


def format_label(label: Label) -> str:
    """Format a label for display; attributes are joined by " / ".

    Examples
    --------
    >>> format_label(("female", 3))
    'female / 3'
    """
    return " / ".join(map(str, label)) if isinstance(label, tuple) else str(label)


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


def format_list(items: Sequence[Label], max_items: int = 12) -> str:
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
    return attributes + _format_label_type(types)


def to_python_label(value: Any) -> Any:
    """Convert a label to plain Python types; pandas intervals become text."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (str, int, float, bool):
        return value
    if type(value).__name__ == "Interval":
        return str(value)
    if isinstance(value, tuple | list):
        return tuple(to_python_label(part) for part in value)
    # Some indexing leaves pyarrow scalars.
    return value.as_py() if hasattr(value, "as_py") else value


def label_type(label: Any) -> tuple[type, ...]:
    """Type of a label; for a crossed label, tuple followed by the types of its attributes."""
    return (tuple, *map(type, label)) if type(label) is tuple else (type(label),)


def is_missing_label(label: Any) -> bool:
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
    return "text" if label_type is str else f"{_TYPE_NAMES[label_type]}s"


def _format_label_type(types: tuple[type, ...]) -> str:
    """Format a label type."""
    names = ", ".join(_TYPE_NAMES[type_] for type_ in types if type_ is not tuple)
    return f"({names})" if types[0] is tuple else names


# Leading rows that nearly always contain every label of a block.
_N_SAMPLED_ROWS = 256


@dataclass(frozen=True, eq=False)
class CodedLabels:
    """Labels of rows, factorized into categories and codes.

    Attributes
    ----------
    categories : list of m labels
        Unique, with types distinguished (1, 1.0 and True differ); some may not occur.
    codes : (r,) array of int
        Index of each row's label in `categories`.
    column_names : tuple of names
        Names of the source columns; empty if unnamed.
    unused : tuple
        Categories that a column of the whole table declares, but no row has.
    """

    categories: list[Any]
    codes: IndexArray
    column_names: tuple[Any, ...] = ()
    unused: tuple[Any, ...] = ()

    @classmethod
    def from_labels(cls, labels: Sequence[Any]) -> "CodedLabels":
        """Factorize plain labels.

        Examples
        --------
        >>> CodedLabels.from_labels(["b", "a", "b"]).codes
        array([0, 1, 0])
        """
        types = set(map(type, labels))
        # 1, 1.0 and True are equal as dictionary keys.
        keys: Sequence[Any] = labels
        if len(types) > 1 or types & {tuple}:
            keys = [(label_type(label), label) for label in labels]
        try:
            code_of = {key: code for code, key in enumerate(dict.fromkeys(keys))}
        except TypeError:  # unhashable values such as lists; the encoder raises on them
            return cls(list(labels), np.arange(len(labels)))
        categories = list(code_of) if keys is labels else [label for _, label in code_of]
        return cls(categories, np.fromiter(map(code_of.__getitem__, keys), np.intp, len(keys)))

    @classmethod
    def cross(cls, columns: Sequence["CodedLabels"]) -> "CodedLabels":
        """Cross several columns of labels into tuples."""
        if len(columns) == 1:
            return columns[0]
        codes = _combine_codes(columns)
        first_rows = np.unique(codes, return_index=True)[1].tolist()
        # Flatten columns that were crossed before.
        attributes = [
            [_as_attributes(column.categories[column.codes[row]]) for row in first_rows]
            for column in columns
        ]
        categories = [sum(parts, ()) for parts in zip(*attributes, strict=True)]
        names = tuple(name for column in columns for name in column.column_names)
        unused = tuple(label for column in columns for label in column.unused)
        return cls(categories, codes, names, unused)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> "CodedLabels":
        codes = self.codes[rows]
        categories = self.categories
        if len(categories) > len(codes):  # drop categories that do not occur
            present, codes = np.unique(codes, return_inverse=True)
            categories = [categories[code] for code in present.tolist()]
        return CodedLabels(categories, codes, self.column_names)

    def with_categories(self, categories: list[Any]) -> "CodedLabels":
        """Return labels of the same rows, with other categories for the same codes."""
        return replace(self, categories=categories)

    def without_last_attribute(self) -> "CodedLabels":
        """Drop the last crossed column.

        Examples
        --------
        >>> labels = CodedLabels.from_labels([("a", 0), ("a", 1), ("b", 0)])
        >>> labels.without_last_attribute().to_list()
        ['a', 'a', 'b']
        """
        categories = CodedLabels.from_labels(list(map(without_last_attribute, self.categories)))
        return categories[self.codes]

    def fill_missing(self, name: str) -> "CodedLabels":
        """Convert labels to text, with `name` for missing ones.

        Examples
        --------
        >>> CodedLabels.from_labels([1, None]).fill_missing("unknown").to_list()
        ['1', 'unknown']
        """
        texts = [name if is_missing_label(label) else str(label) for label in self.categories]
        return replace(CodedLabels.from_labels(texts)[self.codes], column_names=self.column_names)

    def to_list(self) -> list[Any]:
        """Return the label of each row, as a list."""
        return [self.categories[code] for code in self.codes.tolist()]

    @property
    def present(self) -> list[Any]:
        """Categories that occur in a row."""
        return [self.categories[code] for code in np.flatnonzero(np.bincount(self.codes)).tolist()]

    @property
    def missing_mask(self) -> BoolArray:
        """Mask of rows without a label (None or NaN), shape (r,)."""
        is_missing = np.array([is_missing_label(label) for label in self.categories], dtype=bool)
        return is_missing[self.codes]


def _combine_codes(columns: Sequence[CodedLabels]) -> IndexArray:
    """Return one code for each combination of the labels of several columns, shape (r,)."""
    codes = np.zeros(len(columns[0]), dtype=np.intp)
    for column in columns:
        # Renumber after each column so that codes cannot overflow.
        codes = np.unique(codes * len(column.categories) + column.codes, return_inverse=True)[1]
    return codes


def _as_attributes(label: Any) -> tuple[Any, ...]:
    return label if isinstance(label, tuple) else (label,)


class LabelEncoder:
    """Encode blocks of labels as integers, adding new groups as they appear.

    Parameters
    ----------
    allowed : sequence of labels, optional
        If given, only these labels are allowed, encoded by their position.
    """

    def __init__(self, allowed: Sequence[Label] | None = None) -> None:
        self._codes: dict[Label, int] = {}
        self._label_type: tuple[type, ...] | None = None
        self._is_closed = False
        if allowed is not None:
            self.encode(CodedLabels.from_labels(list(allowed)))
            self._is_closed = True

    @property
    def labels(self) -> list[Label]:
        """Labels seen so far, by code."""
        return list(self._codes)

    def encode(self, labels: CodedLabels, first_row: int = 0) -> IndexArray:
        """Encode one block of labels.

        Parameters
        ----------
        labels : CodedLabels of r rows
        first_row : int
            Position of the block's first row, for error messages.

        Returns
        -------
        (r,) array of int

        Raises
        ------
        InvalidInput
            A label is missing, has an unsupported type, or differs in type from earlier ones.
        UnknownGroup
            A label is not among the allowed ones.
        """
        code_by_category = {
            category: self._encode_category(labels, category, first_row)
            for category in _present_categories(labels)
        }
        if all(code == category for category, code in code_by_category.items()):
            return labels.codes
        codes = np.zeros(len(labels.categories), dtype=np.intp)
        codes[list(code_by_category)] = list(code_by_category.values())
        return codes[labels.codes]

    def _encode_category(self, labels: CodedLabels, category: int, first_row: int) -> int:
        label = labels.categories[category]
        if not isinstance(label, list):  # lists are invalid, and would become tuples
            label = to_python_label(label)
        types = label_type(label)
        if types == self._label_type and not is_missing_label(label) and label in self._codes:
            return self._codes[label]

        def row() -> str:  # lazily: finding the row is a pass over all codes
            index = first_row + int(np.argmax(labels.codes == category))
            return describe_position("row", index)

        if is_missing_label(label):
            raise InvalidInput(
                f"The group label in {row()} is missing (None or NaN)",
                "Allowed: a label for every row",
                "Drop these rows, or assign them to a separate group such as 'unknown'",
                cause=Cause.MISSING_LABEL,
            )
        for type_ in types[1:] if types[0] is tuple else types:
            if type_ not in _TYPE_NAMES:
                raise InvalidType(
                    f"The group label in {row()} is {quoted_label(label)}, of type "
                    f"{type_.__name__}",
                    ALLOWED_LABELS,
                    "Convert the column, for example with astype(str)",
                )
        if self._is_closed:
            raise UnknownGroup(
                f"The rows contain the unknown group {quoted_label(label)} (first in {row()})",
                f"Known groups are {format_list(self.labels)}",
                "Check the group column for misspelt or new values, or refit with that group",
            )
        if self._label_type not in (None, types):
            raise InvalidInput(
                f"Group labels mix {_format_label_type(self._label_type)} with "
                f"{_format_label_type(types)} ({row()}: {quoted_label(label)})",
                ALLOWED_LABELS,
                "Convert the column to one type, for example with astype(str)",
            )
        self._label_type = types
        return self._codes.setdefault(label, len(self._codes))


def _present_categories(labels: CodedLabels) -> list[int]:
    """Return the codes that occur, in the order of the rows, so that errors are reproducible."""
    # A sample of rows usually contains all labels of a block.
    present = list(dict.fromkeys(labels.codes[:_N_SAMPLED_ROWS].tolist()))
    if len(present) == len(labels.categories):
        return present
    if len(present) == np.count_nonzero(np.bincount(labels.codes)):
        return present
    return list(dict.fromkeys(labels.codes.tolist()))


def sort_by_code(codes: IndexArray) -> tuple[IndexArray, list[tuple[int, slice]]]:
    """Stable sort of rows by code: the order, and the code and slice of each group in it.

    Examples
    --------
    >>> import numpy as np
    >>> sort_by_code(np.array([2, 0, 2]))
    (array([1, 0, 2]), [(0, slice(0, 1, None)), (2, slice(1, 3, None))])
    """
    sizes = np.bincount(codes)
    # uint8 keys use a radix sort.
    keys = codes.astype(np.uint8) if len(sizes) <= 256 else codes
    order = np.argsort(keys, kind="stable")
    present = np.flatnonzero(sizes)
    ends = np.cumsum(sizes[present]).tolist()
    return order, list(zip(present.tolist(), map(slice, [0, *ends], ends), strict=False))


def factorize_sorted(labels: CodedLabels) -> tuple[tuple[Any, ...], IndexArray]:
    """Return the sorted unique labels, and the code of each row among them.

    Examples
    --------
    >>> factorize_sorted(CodedLabels.from_labels(["b", "a", "b"]))
    (('a', 'b'), array([1, 0, 1]))
    """
    order = sorted(range(len(labels.categories)), key=labels.categories.__getitem__)
    return tuple(labels.categories[code] for code in order), np.argsort(order)[labels.codes]


# Constants of splitmix64 (Steele, Lea and Flood 2014), which hashes consecutive integers.
_SPLITMIX_GAMMA, _SPLITMIX_MIX_1, _SPLITMIX_MIX_2 = map(
    np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


@dataclass(frozen=True, eq=False)
class RowLabels:
    """Group, fold and cluster of each row.

    Attributes
    ----------
    groups : CodedLabels of r rows
    folds : (r,) array of int
    clusters : CodedLabels of r rows, or None
        Cluster of each row; None if rows are independent.
    """

    groups: CodedLabels
    folds: IndexArray
    clusters: CodedLabels | None = None


@dataclass(frozen=True)
class Folds:
    """Assignment of rows to folds, by position or by cluster.

    Each run of `n_folds` consecutive rows has one row in every fold, cyclically shifted at random.
    If the sizes of earlier partitions are unknown (CSV files, Spark, most Dask data frames),
    positions are counted within each partition, so that the assignment does not depend on the
    number of processes.

    Attributes
    ----------
    n_folds : int
        Number of folds, at least 2.
    seed : int
    by_cluster : bool
        Whether the last attribute of each label is a cluster; all rows of a cluster share a fold.

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
                "Allowed: an integer of at least 2, or None to skip estimates for new rows",
                "Use the default, 10",
            )

    def folds_of_rows(self, first_row: int, n_rows: int) -> IndexArray:
        """Return the folds of consecutive rows, shape (n_rows,)."""
        positions = np.arange(first_row, first_row + n_rows, dtype=np.uint64)
        with np.errstate(over="ignore"):  # wrap-around is intended
            shift = (
                positions // np.uint64(self.n_folds) + np.uint64(1 + self.seed)
            ) * _SPLITMIX_GAMMA
            shift = (shift ^ (shift >> np.uint64(30))) * _SPLITMIX_MIX_1
            shift = (shift ^ (shift >> np.uint64(27))) * _SPLITMIX_MIX_2
            shift ^= shift >> np.uint64(31)
        return np.asarray((positions + shift) % np.uint64(self.n_folds), dtype=np.intp)

    def fold_of_cluster(self, cluster: Label) -> int:
        """Return the fold of a cluster, reproducible across processes."""
        digest = blake2b(repr((self.seed, cluster)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") % self.n_folds

    def assign(self, labels: CodedLabels, first_row: int, n_earlier_rows: int) -> RowLabels:
        """Return groups, folds and clusters of consecutive rows.

        Parameters
        ----------
        labels : CodedLabels of r rows
        first_row : int
            Position of the first of them in the table, for messages.
        n_earlier_rows : int
            Number of rows before them, dropped rows not counted: the folds are those of a table
            without the dropped rows.

        Raises
        ------
        InvalidInput
            A row without a cluster.
        """
        if not self.by_cluster:
            return RowLabels(labels, self.folds_of_rows(n_earlier_rows, len(labels)))
        clusters = CodedLabels.from_labels([label[-1] for label in labels.categories])[labels.codes]
        missing = clusters.missing_mask
        if missing.any():
            first_missing = first_row + int(np.argmax(missing))
            raise InvalidInput(
                f"The cluster of {describe_position('row', first_missing)} is missing",
                "Allowed: a cluster for each row",
                "Give each independent row its own cluster, or drop these rows",
            )
        fold_by_cluster = np.array(
            [self.fold_of_cluster(label) for label in clusters.categories], dtype=np.intp
        )
        folds = fold_by_cluster[clusters.codes]
        return RowLabels(labels.without_last_attribute(), folds, clusters)
