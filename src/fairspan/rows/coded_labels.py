"""Labels of many rows: the distinct ones, and the number of one of them for each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, UnknownGroup
from fairspan.formatting.numbers import position
from fairspan.rows.groups import (
    ALLOWED_LABELS,
    Label,
    check_kind,
    has_nan,
    is_missing,
    label_kind,
    listed,
    plain_label,
    spelled_kind,
    without_last_attribute,
)
from fairspan.typing import BoolArray, IndexArray

Codes = IndexArray
# Rows that nearly always show all labels of a block.
_GLANCE = 256


@dataclass(frozen=True, eq=False)
class CodedLabels:
    """Labels of some rows: the distinct labels, and a code for each row.

    Attributes
    ----------
    distinct : list of m labels
        Different from each other, by type too; some may occur in no row.
    codes : (r,) array of int
        Position of each row's label among them.
    """

    distinct: list[Any]
    codes: Codes

    @classmethod
    def of(cls, labels: Sequence[Any]) -> "CodedLabels":
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
            keys = [(label_kind(label), label) for label in labels]
        try:
            position = {key: index for index, key in enumerate(dict.fromkeys(keys))}
        except TypeError:  # no labels at all, such as lists: the coder says so
            return cls(list(labels), np.arange(len(labels)))
        distinct = list(position) if keys is labels else [label for _, label in position]
        return cls(distinct, np.fromiter(map(position.__getitem__, keys), np.intp, len(keys)))

    @classmethod
    def crossed(cls, columns: Sequence["CodedLabels"]) -> "CodedLabels":
        """Tuples of one label from each column: their intersections."""
        codes = np.zeros(len(columns[0]), dtype=np.intp)
        for column in columns:
            # Renumbered after each column, so that products of counts cannot overflow.
            codes = np.unique(codes * len(column.distinct) + column.codes, return_inverse=True)[1]
        rows = np.unique(codes, return_index=True)[1].tolist()
        parts = [[column.distinct[column.codes[row]] for row in rows] for column in columns]
        return cls(list(zip(*parts, strict=True)), codes)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> "CodedLabels":
        return CodedLabels(self.distinct, self.codes[rows])

    def without_last_attribute(self) -> "CodedLabels":
        """The labels without the last of the columns that were crossed.

        Examples
        --------
        >>> CodedLabels.of([("a", 0), ("a", 1), ("b", 0)]).without_last_attribute().to_list()
        ['a', 'a', 'b']
        """
        return CodedLabels.of(list(map(without_last_attribute, self.distinct)))[self.codes]

    def to_list(self) -> list[Any]:
        """The label of each row."""
        return [self.distinct[code] for code in self.codes.tolist()]

    @property
    def n_present(self) -> int:
        """How many of the distinct labels occur."""
        return int(np.count_nonzero(_present(self)))

    @property
    def missing(self) -> BoolArray:
        """Which rows have no label (None or NaN), shape (r,)."""
        return np.array([is_missing(label) for label in self.distinct], dtype=bool)[self.codes]


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
            self.encode(CodedLabels.of(list(known)))
            self._closed = True

    @property
    def labels(self) -> list[Label]:
        """The groups met so far, by code."""
        return list(self._codes)

    def encode(self, labels: CodedLabels, first_row: int = 0) -> Codes:
        """Codes of one block of labels.

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
        present = _present(labels)
        met = {}
        # In the order of the rows, so that the same mistake gives the same message.
        for index in _in_order_of_rows(labels.codes, np.flatnonzero(present)):
            met[index] = self._code_of(labels, index, first_row)
        if all(code == index for index, code in met.items()):
            return labels.codes
        codes = np.zeros(len(labels.distinct), dtype=np.intp)
        codes[list(met)] = list(met.values())
        return codes[labels.codes]

    def _code_of(self, labels: CodedLabels, index: int, first_row: int) -> int:
        label = labels.distinct[index]
        if not isinstance(label, list):  # which is no label, and would become a tuple
            label = plain_label(label)
        kind = label_kind(label)
        if kind == self._kind and not has_nan(label) and label in self._codes:
            return self._codes[label]

        def row() -> int:  # only for an error: looking for the row is a pass over all of them
            return first_row + int(np.argmax(labels.codes == index))

        check_kind(kind, label, row)
        if self._closed:
            raise self._unknown(label, row())
        if self._kind not in (None, kind):
            raise InvalidInput(
                f"Group labels mix {spelled_kind(self._kind)} with {spelled_kind(kind)} "
                f"({position('row', row())}: {label!r})",
                ALLOWED_LABELS,
                "Convert the column to one type, for example with astype(str)",
            )
        self._kind = kind
        return self._codes.setdefault(label, len(self._codes))

    def _unknown(self, label: Label, row: int) -> UnknownGroup:
        return UnknownGroup(
            f"The rows hold the group {label!r} (first in {position('row', row)})",
            f"Known groups are {listed(self.labels)}",
            "Check the group column for misspelt or new values, or fit again with that group",
        )


def _present(labels: CodedLabels) -> BoolArray:
    """Which of the distinct labels occur."""
    return np.bincount(labels.codes, minlength=len(labels.distinct)) > 0


def _in_order_of_rows(codes: Codes, present: Codes) -> list[int]:
    """Those codes that are present, by the row in which each comes first."""
    # Nearly all blocks hold few labels, and looking at some rows finds them all.
    start = list(dict.fromkeys(codes[:_GLANCE].tolist()))
    if len(start) == len(present):
        return start
    return list(dict.fromkeys(codes.tolist()))


def side_by_side(codes: Codes) -> tuple[Codes, list[tuple[int, slice]]]:
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
    places = map(slice, [0, *ends], ends)
    return order, list(zip(present.tolist(), places, strict=False))


def in_order(labels: CodedLabels) -> tuple[tuple[Any, ...], Codes]:
    """Distinct labels in sorted order, and the code of each row among these.

    Examples
    --------
    >>> in_order(CodedLabels.of(["b", "a", "b"]))
    (('a', 'b'), array([1, 0, 1]))
    """
    order = sorted(range(len(labels.distinct)), key=labels.distinct.__getitem__)
    position = np.empty(len(order), dtype=np.intp)
    position[order] = np.arange(len(order))
    return tuple(labels.distinct[place] for place in order), position[labels.codes]
