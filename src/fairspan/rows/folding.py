"""Passes over rows that can be made in parts: wherever the rows are, in any order, and merged."""

from collections.abc import Iterable
from typing import TypeVar

from fairspan.rows.protocol import Fold, PartedRows, Rows

Result = TypeVar("Result")


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
