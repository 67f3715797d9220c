"""Rows of which every block is changed as it is read, wherever the rows are."""

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
class ChangedRows(KnownRows):
    """Rows of the same features and number, with other values or labels.

    Attributes
    ----------
    whole : RowSource or PartedRows
    change : callable
        What becomes of a block; it can be sent to another process.
    keeps_missing : bool
        Whether cells may still be missing.
    """

    whole: Rows
    change: Change
    keeps_missing: bool = False

    @classmethod
    def of(cls, rows: Rows, change: Change, *, keeps_missing: bool = False) -> Rows:
        """The same rows, changed, read in blocks or where they lie."""
        kind = _ChangedParts if isinstance(rows, PartedRows) else _ChangedBlocks
        return kind(rows, change, keeps_missing)

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
        return self._known.group_columns

    @property
    def n_parts(self) -> int | None:
        """In how many parts they are read, if that is known."""
        return self._known.n_parts

    @property
    def first_position(self) -> int:
        """How many rows of the whole table come before these."""
        return self._known.first_position

    @property
    def _known(self) -> KnownRows:
        return self.whole if isinstance(self.whole, KnownRows) else KnownRows()

    def selected(self, names: tuple[str, ...]) -> Self:
        """The same rows with these features, in this order."""
        return replace(self, whole=self.whole.selected(names))


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
        change = partial(_ChangedBlocks, change=self.change, keeps_missing=self.keeps_missing)
        return self.whole.tallied(TallyOf(tally, change))
