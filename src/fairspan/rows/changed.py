"""Rows that are made of other rows: of which every block is changed as it is read, say."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from fairspan.rows.protocol import (
    KnownRows,
    PartedRows,
    Result,
    RowBlock,
    Rows,
    RowSource,
    Tally,
    TallyOf,
)

Change = Callable[[RowBlock], RowBlock]


@dataclass(frozen=True, eq=False)
class RowsOver(KnownRows):
    """Rows that are made of others, and know of them what these know.

    Attributes
    ----------
    whole : RowSource or PartedRows
    """

    whole: Rows

    @property
    def known(self) -> KnownRows:
        """What is known of the others."""
        return self.whole if isinstance(self.whole, KnownRows) else KnownRows()

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""
        return self.whole.feature_names

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return self.whole.n_features

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if it is known before reading."""
        return self.whole.n_rows

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups."""
        return self.known.group_columns

    @property
    def n_parts(self) -> int | None:
        """In how many parts they are read, if that is known."""
        return self.known.n_parts

    @property
    def first_position(self) -> int:
        """How many rows of the whole table come before these."""
        return self.known.first_position

    @property
    def keeps_missing(self) -> bool:
        """Whether rows keep cells that are missing, as NaN."""
        return self.known.keeps_missing

    @property
    def weight_exponent(self) -> int:
        """Binary exponent of the unit of the weights."""
        return self.known.weight_exponent

    def find_weight_scale(self) -> None:
        """Read all weights, to choose the unit of weights out of range."""
        self.known.find_weight_scale()

    def row_name(self, index: int) -> str | None:
        """Return what messages call a row."""
        return self.known.row_name(index)

    def selected(self, names: tuple[str, ...]) -> Self:
        """The same rows with these features, in this order."""
        return replace(self, whole=self.whole.selected(names))


@dataclass(frozen=True, eq=False)
class ChangedRows(RowsOver):
    """Rows of the same features and number, with other values or labels.

    Attributes
    ----------
    change : callable
        What becomes of a block; it can be sent to another process.
    is_completed : bool
        Whether no cell is missing afterwards.
    """

    change: Change
    is_completed: bool = True

    @classmethod
    def of(cls, rows: Rows, change: Change, *, is_completed: bool = True) -> Rows:
        """The same rows, changed, read in blocks or where they lie."""
        kind = _ChangedParts if isinstance(rows, PartedRows) else _ChangedBlocks
        return kind(rows, change, is_completed)

    @property
    def keeps_missing(self) -> bool:
        """Whether rows keep cells that are missing, as NaN."""
        return self.known.keeps_missing and not self.is_completed


class _ChangedBlocks(ChangedRows):
    """Rows that are read in blocks."""

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        assert isinstance(self.whole, RowSource)
        return map(self.change, self.whole.blocks())


class _ChangedParts(ChangedRows):
    """Rows that are read where they lie."""

    def tallied(self, tally: Tally[Result]) -> Result | None:
        """The tally's result over all parts; None if there are no rows."""
        assert isinstance(self.whole, PartedRows)
        change = partial(_ChangedBlocks, change=self.change, is_completed=self.is_completed)
        return self.whole.tallied(TallyOf(tally, change))
