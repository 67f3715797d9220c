"""Aggregations over rows in one pass, with results of partitions merged in order."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, TypeVar, cast, runtime_checkable

from fairspan.errors import Cause, InvalidInput
from fairspan.rows.error_context import name_rows_in_errors
from fairspan.rows.protocol import BaseRows, RowsInfo, RowSource, row_metadata

Result = TypeVar("Result")


class Aggregator(Protocol[Result]):
    """An aggregation over rows: one pass, with mergeable results.

    An aggregator and its results must be picklable. It keeps no state between partitions, so that a
    failed partition can be read again without being counted twice.
    """

    def aggregate(self, rows: RowSource) -> Result | None:
        """Return the result for some rows; None if there are none."""

    def merge(self, left: Result, right: Result) -> Result:
        """Merge the results of two parts; associative up to rounding."""


@runtime_checkable
class PartitionedRows(RowsInfo, Protocol):
    """Partitioned rows, aggregated in place: in several files, processes or machines."""

    def select_features(self, names: tuple[str, ...]) -> "PartitionedRows":
        """Return the same rows with these features, in this order."""

    def aggregate(self, aggregator: Aggregator[Result]) -> Result | None:
        """Aggregate all partitions; None if there are no rows.

        The result is bit-identical for any number of processes.
        """


Rows = RowSource | PartitionedRows


def as_partitioned(rows: Rows) -> PartitionedRows | None:
    """Return the rows if they are aggregated by partition, else None."""
    # `isinstance` is slower: it looks up every member of the protocol.
    applies = rows.is_partitioned if isinstance(rows, BaseRows) else hasattr(rows, "aggregate")
    return cast(PartitionedRows, rows) if applies else None


def as_row_source(rows: Rows) -> RowSource | None:
    """Return the rows if they can be read in blocks in this process, else None."""
    applies = rows.has_blocks if isinstance(rows, BaseRows) else hasattr(rows, "blocks")
    return cast(RowSource, rows) if applies else None


@dataclass(frozen=True)
class MappedAggregator(Aggregator[Result]):
    """An aggregator applied to transformed rows.

    Attributes
    ----------
    aggregator : Aggregator
    transform : callable
        Transformation of the rows.
    """

    aggregator: Aggregator[Result]
    transform: Callable[[RowSource], RowSource]

    def aggregate(self, rows: RowSource) -> Result | None:
        """Return the result for the transformed rows."""
        return self.aggregator.aggregate(self.transform(rows))

    def merge(self, left: Result, right: Result) -> Result:
        """Merge the results of two parts."""
        return self.aggregator.merge(left, right)


def aggregate(rows: Rows, aggregator: Aggregator[Result]) -> Result | None:
    """Aggregate all rows, in memory or partitioned; None if there are none.

    If weights turn out to be too large or too small for sums of float64 numbers, the rows are read
    twice more: to find the largest weight, and to aggregate them with scaled weights.
    """
    try:
        return _aggregate_once(rows, aggregator)
    except InvalidInput as error:
        # Rows of other classes cannot scale their weights.
        if error.cause is not Cause.EXTREME_WEIGHTS or not isinstance(rows, BaseRows):
            raise
    rows.find_weight_scale()
    return _aggregate_once(rows, aggregator)


def _aggregate_once(rows: Rows, aggregator: Aggregator[Result]) -> Result | None:
    partitioned = as_partitioned(rows)
    if partitioned is not None:
        return partitioned.aggregate(aggregator)
    with name_rows_in_errors(row_metadata(rows).row_name):
        return aggregator.aggregate(cast(RowSource, rows))


def with_row_offsets(rows: Rows) -> Rows:
    """Return rows whose partitions know how many rows of the table are before them.

    This may read the rows once to count them; CSV files and Spark data frames are not counted.
    """
    return cast(Rows, rows.with_row_offsets()) if isinstance(rows, BaseRows) else rows


def merge_in_order(
    aggregator: Aggregator[Result], results: Iterable[Result | None]
) -> Result | None:
    """Merge results from left to right, so that the outcome is the same on any schedule."""
    present = (result for result in results if result is not None)
    first = next(present, None)
    return None if first is None else reduce(aggregator.merge, present, first)
