"""Passes over rows that can be made in parts: wherever the rows are, in any order, and merged."""

from collections.abc import Iterable
from typing import Protocol, TypeVar, runtime_checkable

from fairspan.moments.sources.protocol import RowSource

Result = TypeVar("Result")


class Fold(Protocol[Result]):
    """One pass over rows.

    A fold is a plain value that can be sent to another process. It keeps nothing between parts, so
    that a part may be read again, anywhere, without being counted twice.
    """

    def over(self, rows: RowSource) -> Result | None:
        """The result over some rows; None if there are none."""

    def merged(self, left: Result, right: Result) -> Result:
        """The result over both parts; associative up to rounding."""

    def to_bytes(self, result: Result) -> bytes:
        """A result as bytes, for engines that move bytes."""

    def from_bytes(self, contents: bytes) -> Result:
        """The result again."""


@runtime_checkable
class PartedRows(Protocol):
    """Rows that are read where they lie: in several files, processes or machines."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if it is known before reading."""

    def selected(self, names: tuple[str, ...]) -> "PartedRows":
        """The same rows with these features, in this order."""

    def folded(self, fold: Fold[Result]) -> Result | None:
        """The fold's result over all parts; None if there are no rows.

        The same parts give the same bits, however many processes read them.
        """


Rows = RowSource | PartedRows


def folded(rows: Rows, fold: Fold[Result]) -> Result | None:
    """Pass over all rows, wherever they are; None if there are none."""
    return rows.folded(fold) if isinstance(rows, PartedRows) else fold.over(rows)


def merged_in_order(
    fold: Fold[Result], results: Iterable[Result | None], start: Result | None = None
) -> Result | None:
    """Merge results from left to right, which is the same however they were computed."""
    total = start
    for result in results:
        if total is None or result is None:
            total = result if total is None else total
        else:
            total = fold.merged(total, result)
    return total
