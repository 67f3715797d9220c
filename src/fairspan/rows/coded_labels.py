"""Labels of rows as categories and integer codes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np

from fairspan.errors import Cause, InvalidInput, InvalidType, UnknownGroup
from fairspan.formatting.messages import describe_position, quoted_label
from fairspan.rows.labels import (
    ALLOWED_LABELS,
    TYPE_NAMES,
    Label,
    attributes_of,
    format_label_type,
    format_list,
    is_missing_label,
    label_type,
    to_python_label,
)
from fairspan.typing import BoolArray, ColumnName, IndexArray, RawLabel, RowIndex

# Leading rows that nearly always contain every label of a block.
_N_SAMPLED_ROWS = 256


class CodedLabels:
    """Labels of rows, factorized into categories and codes; not to be modified.

    Parameters
    ----------
    categories : sequence of m labels
        Unique, with types distinguished (1, 1.0 and True differ); some may not occur. None or NaN
        stands for a missing label. `LabelEncoder` refuses values that are no labels.
    codes : (r,) array of int
        Index of each row's label in `categories`.
    column_names : tuple of names
        Names of the source columns; empty if unnamed.
    unused : tuple
        Categories that a column of the whole table declares, but no row has.
    """

    def __init__(
        self,
        categories: Sequence[RawLabel],
        codes: IndexArray,
        column_names: tuple[ColumnName, ...] = (),
        unused: tuple[RawLabel, ...] = (),
    ) -> None:
        self.categories = cast("Sequence[Label]", categories)
        self.column_names = column_names
        self.unused = unused
        self._codes = codes

    @property
    def codes(self) -> IndexArray:
        """Index of each row's label in `categories`, shape (r,)."""
        return self._codes

    @classmethod
    def from_labels(cls, labels: Sequence[RawLabel]) -> "CodedLabels":
        """Factorize plain labels.

        Examples
        --------
        >>> CodedLabels.from_labels(["b", "a", "b"]).codes
        array([0, 1, 0])
        """
        types = set(map(type, labels))
        # 1, 1.0 and True are equal as dictionary keys, also within tuples.
        needs_types = len(types) > 1 or tuple in types
        keys = [(label_type(label), label) for label in labels] if needs_types else labels
        try:
            unique_keys = list(dict.fromkeys(keys))
        except TypeError:  # unhashable values such as lists; the encoder raises on them
            return cls(labels, np.arange(len(labels)))
        code_of = {key: code for code, key in enumerate(unique_keys)}
        codes = np.fromiter(map(code_of.__getitem__, keys), np.intp, len(keys))
        if not needs_types:
            return cls(unique_keys, codes)
        return cls([cast("tuple[object, RawLabel]", key)[1] for key in unique_keys], codes)

    @classmethod
    def cross(cls, columns: Sequence["CodedLabels"]) -> "CodedLabels":
        """Cross several columns of labels into tuples, of which those that occur are categories.

        The label of a row is the tuple of its labels in all columns. A single column is returned
        unchanged.
        """
        if len(columns) == 1:
            return columns[0]
        codes = _combine_codes(columns)
        # One row with each combination of labels, in the order of the codes.
        first_rows = np.unique(codes, return_index=True)[1].tolist()
        # Labels of columns that were crossed before are tuples, which are joined to a flat one.
        attributes = [
            [attributes_of(column.categories[column.codes[row]]) for row in first_rows]
            for column in columns
        ]
        categories = [sum(parts, ()) for parts in zip(*attributes, strict=True)]
        names = tuple(name for column in columns for name in column.column_names)
        unused = tuple(label for column in columns for label in column.unused)
        return cls(categories, codes, names, unused)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: RowIndex) -> "CodedLabels":
        codes = self.codes[rows]
        categories = self.categories
        if len(categories) > len(codes):  # drop categories that do not occur
            present, codes = np.unique(codes, return_inverse=True)
            categories = [categories[code] for code in present.tolist()]
        return CodedLabels(categories, codes, self.column_names)

    def with_categories(self, categories: Sequence[RawLabel]) -> "CodedLabels":
        """Return labels of the same rows, with other categories for the same codes."""
        return CodedLabels(categories, self.codes, self.column_names, self.unused)

    def with_column_names(self, names: tuple[ColumnName, ...]) -> "CodedLabels":
        """Return the same labels, of source columns with these names."""
        return CodedLabels(self.categories, self.codes, names, self.unused)

    def fill_missing(self, name: str) -> "CodedLabels":
        """Convert labels to text, with `name` for missing ones.

        Examples
        --------
        >>> CodedLabels.from_labels([1, None]).fill_missing("unknown").to_list()
        ['1', 'unknown']
        """
        texts = [name if is_missing_label(label) else str(label) for label in self.categories]
        return CodedLabels.from_labels(texts)[self.codes].with_column_names(self.column_names)

    def to_list(self) -> list[Label]:
        """Return the label of each row, as a list."""
        return [self.categories[code] for code in self.codes.tolist()]

    @property
    def present(self) -> list[Label]:
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
        # Usually, categories have these codes already: blocks of one table share their categories.
        if all(code == category for category, code in code_by_category.items()):
            return labels.codes
        codes = np.zeros(len(labels.categories), dtype=np.intp)
        codes[list(code_by_category)] = list(code_by_category.values())
        return codes[labels.codes]

    def _encode_category(self, labels: CodedLabels, category: int, first_row: int) -> int:
        """Return the code of the label at index `category`; the next free one for a new label."""
        label = labels.categories[category]
        if not isinstance(label, list):  # lists are invalid, and would become tuples
            label = to_python_label(label)
        types = label_type(label)
        if types == self._label_type and not is_missing_label(label) and label in self._codes:
            return self._codes[label]
        self._check_new_label(label, partial(_row_of, labels, category, first_row))
        self._label_type = types
        return self._codes.setdefault(label, len(self._codes))

    def _check_new_label(self, label: Label, describe_row: Callable[[], str]) -> None:
        """Check a label that has no code yet.

        It must be of a supported type, that of the labels so far, and among the allowed labels if
        the encoder is closed, that is if they were given. `describe_row` describes the first row
        with the label; it is called only for an error, since that row has to be searched for.
        """
        if is_missing_label(label):
            raise InvalidInput(
                f"The group label in {describe_row()} is missing (None or NaN)",
                "Allowed: a label for every row",
                "Drop these rows, or assign them to a separate group such as 'unknown'",
                cause=Cause.MISSING_LABEL,
            )
        types = label_type(label)
        # The type of a crossed label is tuple, followed by the types of its attributes.
        attribute_types = types[1:] if types[0] is tuple else types
        unsupported = [type_ for type_ in attribute_types if type_ not in TYPE_NAMES]
        if unsupported:
            raise InvalidType(
                f"The group label in {describe_row()} is {quoted_label(label)}, of type "
                f"{unsupported[0].__name__}",
                ALLOWED_LABELS,
                "Convert the column, for example with astype(str)",
            )
        if self._is_closed:
            raise UnknownGroup(
                f"The rows contain the unknown group {quoted_label(label)} (first in "
                f"{describe_row()})",
                f"Known groups are {format_list(self.labels)}",
                "Check the group column for misspelt or new values, or refit with that group",
            )
        if self._label_type is not None and self._label_type != types:
            raise InvalidInput(
                f"Group labels mix {format_label_type(self._label_type)} with "
                f"{format_label_type(types)} ({describe_row()}: {quoted_label(label)})",
                ALLOWED_LABELS,
                "Convert the column to one type, for example with astype(str)",
            )


def _row_of(labels: CodedLabels, category: int, first_row: int) -> str:
    """Describe the first row with a category, for an error message."""
    return describe_position("row", first_row + int(np.argmax(labels.codes == category)))


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

    Rows of a group are ``order[slice]``; codes that do not occur are omitted.

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


def factorize_sorted(labels: CodedLabels) -> tuple[tuple[Label, ...], IndexArray]:
    """Return the sorted unique labels, and the code of each row among them.

    Examples
    --------
    >>> factorize_sorted(CodedLabels.from_labels(["b", "a", "b"]))
    (('a', 'b'), array([1, 0, 1]))
    """
    order = sorted(range(len(labels.categories)), key=labels.categories.__getitem__)
    return tuple(labels.categories[code] for code in order), np.argsort(order)[labels.codes]
