"""Rows whose groups are slices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from fairspan.rows.aggregation import Rows
from fairspan.rows.blocks import RowBlock
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.labels import Label, attributes_of, to_python_label
from fairspan.rows.mapped import WrappedRows
from fairspan.slices.conjunctions import Cell, Conjunction, select_values
from fairspan.typing import RawLabel

OTHER_ROWS = -1
"""Label of the rows that are in none of the slices."""


@dataclass(frozen=True, eq=False)
class SliceRows(WrappedRows):
    """Rows whose group is the label of their slice.

    Attributes
    ----------
    source : RowSource or PartitionedRows
        Rows whose labels are those of all attributes.
    attributes : tuple of int
        Attributes of the slices, by position.
    labels : mapping of tuple of values to label
        Labels of the slices; other rows have `OTHER_ROWS`.
    """

    attributes: tuple[int, ...]
    labels: Mapping[Cell, Label]

    @classmethod
    def from_conjunctions(cls, rows: Rows, conjunctions: Sequence[Conjunction]) -> Self:
        """Return rows numbered by conjunctions of the same attributes, in their order."""
        numbers = {conjunction.values: number for number, conjunction in enumerate(conjunctions)}
        return cls(rows, conjunctions[0].attributes, numbers)

    def change_block(self, block: RowBlock) -> RowBlock:
        """Return the block with the label of the slice of each row as its group."""
        assert block.groups is not None
        labels = [self._label_of(label) for label in block.groups.categories]
        by_category = CodedLabels.from_labels(labels)
        groups = CodedLabels(by_category.categories, by_category.codes[block.groups.codes])
        # Rows that were dropped are in no slice.
        return replace(block, groups=groups, dropped_rows=None)

    def _label_of(self, label: RawLabel) -> Label:
        cell = attributes_of(to_python_label(label))
        return self.labels.get(select_values(cell, self.attributes), OTHER_ROWS)


def group_by_attributes(
    conjunctions: Iterable[Conjunction],
) -> Mapping[tuple[int, ...], list[Conjunction]]:
    """Group conjunctions by their attributes: those of each group have no row in common."""
    grouped: dict[tuple[int, ...], list[Conjunction]] = {}
    for conjunction in conjunctions:
        grouped.setdefault(conjunction.attributes, []).append(conjunction)
    return grouped
