"""Rows with further columns that are no features: attributes such as age, which a restriction uses.

Readers of these rows see the features alone; moments are computed of all columns, and keep them
beside those of the features.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.rows.changed import RowsOver
from fairspan.rows.groups import listed
from fairspan.rows.protocol import (
    PartedRows,
    Result,
    RowBlock,
    Rows,
    RowSource,
    Tally,
    TallyOf,
)
from fairspan.typing import IndexArray

Column = str | int


def positions_of(
    columns: Sequence[Column], names: Sequence[str] | None, n_columns: int
) -> tuple[int, ...]:
    """Where some columns are among all: by name, or by number where they have no names.

    Raises
    ------
    InvalidInput
        A column that is not there, or none that is left as a feature.

    Examples
    --------
    >>> positions_of(["age"], ["income", "age"], 2), positions_of([0], None, 3)
    ((1,), (0,))
    """
    known: list[Column] = list(range(n_columns)) if names is None else list(names)
    unknown = [each for each in columns if each not in known]
    if unknown or len(known) == len(columns):
        raise InvalidInput(
            f"The restriction names the columns {listed(list(columns))}, and the rows have "
            f"{listed(known)}",
            "Allowed: columns of the rows, by name, or by position where they have no names, that "
            "leave at least one feature",
            "Correct the columns of the restriction, or pass rows that have them",
        )
    return tuple(known.index(each) for each in columns)


@dataclass(frozen=True, eq=False)
class RowsWithAttributes(RowsOver):
    """Rows whose features are all columns but some.

    Attributes
    ----------
    whole : RowSource or PartedRows
        With all columns.
    attributes : tuple of str or int
        The columns that are no features.
    """

    attributes: tuple[Column, ...]

    @classmethod
    def of(cls, rows: Rows, attributes: Sequence[Column]) -> Rows:
        """The same rows, read in blocks or where they lie.

        Raises
        ------
        InvalidInput
            A column that is not there, or none that is left as a feature.
        """
        positions_of(attributes, rows.feature_names, rows.n_features)
        if isinstance(rows, PartedRows):
            return _PartsWithAttributes(rows, tuple(attributes))
        return _BlocksWithAttributes(rows, tuple(attributes))

    @cached_property
    def features(self) -> IndexArray:
        """Positions of the features among all columns."""
        whole = self.whole
        beside = positions_of(self.attributes, whole.feature_names, whole.n_features)
        return np.delete(np.arange(whole.n_features), beside)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""
        names = self.whole.feature_names
        return None if names is None else tuple(names[i] for i in self.features)

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return len(self.features)

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """Names of the columns that new rows need not have."""
        own = tuple(each for each in self.attributes if isinstance(each, str))
        return (*self.known.reserved_columns, *own)

    def selected(self, names: tuple[str, ...]) -> Self:
        """The same rows with these features, in this order, and the same attributes."""
        own = tuple(map(str, self.attributes))
        if self.whole.feature_names is None:
            return self
        return replace(self, whole=self.whole.selected((*names, *own)))


class _BlocksWithAttributes(RowsWithAttributes):
    """Rows that are read in blocks."""

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        assert isinstance(self.whole, RowSource)
        for block in self.whole.blocks():
            yield replace(block, values=block.values[:, self.features])


class _PartsWithAttributes(RowsWithAttributes):
    """Rows that are read where they lie."""

    def tallied(self, tally: Tally[Result]) -> Result | None:
        """The tally's result over all parts; None if there are no rows."""
        assert isinstance(self.whole, PartedRows)
        change = partial(_BlocksWithAttributes, attributes=self.attributes)
        return self.whole.tallied(TallyOf(tally, change))
