"""Conjunctions of attributes: which of them the rows have, and how many rows each has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.rows.aggregation import Aggregator
from fairspan.rows.coded_labels import LabelEncoder
from fairspan.rows.folds import Folds
from fairspan.rows.group_limit import DEFAULT_MAX_GROUPS
from fairspan.rows.labels import Label, Scalar, attributes_of
from fairspan.rows.protocol import RowSource, row_metadata
from fairspan.typing import IntegerArray

Cell = tuple[Scalar, ...]
"""Values of all attributes of a row."""


@dataclass(frozen=True)
class Conjunction:
    """Rows with certain values of some attributes.

    Attributes
    ----------
    attributes : tuple of int
        Positions of the attributes, in increasing order.
    values : tuple of scalars
        Value of each of them.
    """

    attributes: tuple[int, ...]
    values: Cell

    @property
    def depth(self) -> int:
        """Number of attributes."""
        return len(self.attributes)

    @property
    def parents(self) -> Iterator["Conjunction"]:
        """Conjunctions without one of the attributes, of which the rows are a part."""
        if self.depth == 1:
            return
        for i in range(self.depth):
            yield Conjunction(
                self.attributes[:i] + self.attributes[i + 1 :],
                self.values[:i] + self.values[i + 1 :],
            )


def select_values(cell: Cell, attributes: Sequence[int]) -> Cell:
    """Return the values of some attributes."""
    return tuple(cell[attribute] for attribute in attributes)


@dataclass(frozen=True, eq=False)
class HalfCounter(Aggregator[dict[Label, IntegerArray]]):
    """Count the rows of each label in both halves; rows of weight zero do not count.

    Attributes
    ----------
    halves : Folds
        Assignment of the rows to two folds.
    """

    halves: Folds

    def aggregate(self, rows: RowSource) -> dict[Label, IntegerArray] | None:
        """Return the counts of each label, (2,)."""
        encoder = LabelEncoder()
        counts: dict[Label, IntegerArray] = {}
        row_offset = row_metadata(rows).row_offset
        for block in rows.blocks():
            assert block.groups is not None
            codes = encoder.encode(block.groups, block.first_row)
            halves = self.halves.assign(block.positions, block.clusters, row_offset)
            is_counted = np.ones(len(codes), dtype=bool)
            if block.weights is not None:
                is_counted = block.weights > 0
            labels = encoder.labels
            # One number for each pair of label and half.
            pairs = 2 * codes[is_counted] + halves[is_counted]
            block_counts = np.bincount(pairs, minlength=2 * len(labels)).reshape(-1, 2)
            for label, added in zip(labels, block_counts, strict=True):
                counts[label] = counts.get(label, np.zeros(2, dtype=np.int64)) + added
        return counts or None

    def merge(
        self, left: dict[Label, IntegerArray], right: dict[Label, IntegerArray]
    ) -> dict[Label, IntegerArray]:
        """Add the counts of two parts."""
        merged = dict(left)
        for label, counts in right.items():
            merged[label] = merged.get(label, np.zeros(2, dtype=np.int64)) + counts
        return merged


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Number of rows of each cell, a combination of the values of all attributes.

    Attributes
    ----------
    names : tuple of str
        Names of the attributes.
    counts : mapping of cell to (2,) array of int
        Rows in the half that is searched, and in the one that confirms.
    """

    names: tuple[str, ...]
    counts: Mapping[Cell, IntegerArray]

    @classmethod
    def from_labels(
        cls, counts: Mapping[Label, IntegerArray], columns: Sequence[object]
    ) -> "CellCounts":
        """Take the counts by label; `columns` are the names of the attributes, if they have any.

        Raises
        ------
        InvalidInput
            An attribute has more than 100 values.
        """
        by_cell = {attributes_of(label): count for label, count in counts.items()}
        n_attributes = len(next(iter(by_cell)))
        names = tuple(str(column) for column in columns)
        if len(names) != n_attributes:
            names = tuple(f"attribute {i}" for i in range(n_attributes))
        for name, values in zip(names, zip(*by_cell, strict=True), strict=True):
            n_values = len(set(values))
            if n_values > DEFAULT_MAX_GROUPS:
                raise InvalidInput(
                    f"{name} has {n_values} values, like an identifier or a continuous variable",
                    f"Allowed: attributes of up to {DEFAULT_MAX_GROUPS} values",
                    "Bin continuous values (pandas.cut), or omit the attribute",
                )
        return cls(names, by_cell)

    @property
    def total(self) -> IntegerArray:
        """Number of rows in each half, (2,)."""
        return np.asarray(sum(self.counts.values()))

    def count(self, conjunction: Conjunction) -> IntegerArray:
        """Return the number of rows of a conjunction in each half, (2,)."""
        return self._project(conjunction.attributes)[conjunction.values]

    def attributes_of_groups(self, groups: Sequence[Label]) -> tuple[int, ...]:
        """Return the attributes whose values are just these groups; empty if there are none."""
        if not groups:
            return ()
        n_attributes = len(attributes_of(groups[0]))
        cells = set(map(attributes_of, groups))
        for attributes in combinations(range(len(self.names)), n_attributes):
            if self._project(attributes).keys() == cells:
                return attributes
        return ()

    def conjunctions(self, max_depth: int, min_rows: int) -> list[Conjunction]:
        """Return the conjunctions with enough rows, those of fewer attributes first.

        A conjunction that has all rows, or the same as one of fewer attributes, is omitted.
        """
        selected: list[Conjunction] = []
        sizes: dict[Conjunction, int] = {}
        n_rows = int(self.total.sum())
        for depth in range(1, min(max_depth, len(self.names)) + 1):
            for attributes in combinations(range(len(self.names)), depth):
                for values, counts in self._project(attributes).items():
                    conjunction = Conjunction(attributes, values)
                    size = int(counts.sum())
                    sizes[conjunction] = size
                    parent_sizes = [sizes[parent] for parent in conjunction.parents]
                    if min_rows <= size < min([n_rows, *parent_sizes]):
                        selected.append(conjunction)
        return selected

    def _project(self, attributes: Sequence[int]) -> dict[Cell, IntegerArray]:
        """Sum the counts over all other attributes."""
        sums: dict[Cell, IntegerArray] = {}
        for cell, counts in self.counts.items():
            values = select_values(cell, attributes)
            sums[values] = sums.get(values, np.zeros(2, dtype=np.int64)) + counts
        return sums
