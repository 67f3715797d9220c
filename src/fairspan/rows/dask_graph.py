"""Task graphs of Dask: collections, their partitions, and the merging of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

import numpy as np
from threadpoolctl import threadpool_limits

from fairspan.errors import FairspanError
from fairspan.rows.aggregation import Aggregator, Result, merge_in_order
from fairspan.rows.error_context import add_error_context
from fairspan.typing import AnyArray, FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import TypeIs


class Delayed(Protocol):
    """Value or function in a task graph of Dask, as far as it is used here."""

    def __call__(self, *arguments: object) -> Delayed:
        """Return the delayed result of this function."""

    def compute(self, *, retries: int) -> object:
        """Compute the value."""


class DaskArray(Protocol):
    """Array of Dask, as far as it is used here; sizes that are not known are NaN."""

    chunks: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]
    ndim: int
    dtype: np.dtype[np.generic]
    _meta: object

    def rechunk(self, chunks: Mapping[int, int | tuple[int, ...]]) -> DaskArray:
        """Divide some axes into chunks of other sizes, or into one (-1)."""

    def map_blocks(self, task: Callable[..., FloatArray], /, **arguments: object) -> DaskArray:
        """Apply a function to each chunk."""

    def to_delayed(self) -> AnyArray:
        """Return the delayed chunks."""

    def __getitem__(self, index: tuple[slice, int]) -> DaskArray:
        """Return a column."""


class DaskFrame(Protocol):
    """Data frame or series of Dask, as far as it is used here."""

    _meta: pd.DataFrame

    def map_partitions(
        self, task: Callable[..., pd.DataFrame], /, **arguments: object
    ) -> DaskFrame:
        """Apply a function to each partition."""

    def to_delayed(self) -> list[Delayed]:
        """Return the delayed partitions."""

    def to_dask_array(self) -> DaskArray:
        """Return the cells as an array, in a chunk for each partition."""

    def __getitem__(self, columns: str | list[str]) -> DaskFrame:
        """Return some columns."""


DaskCollection: TypeAlias = DaskArray | DaskFrame
# Retries of a failed task after transient failures; only the distributed scheduler uses them.
_RETRIES = 2


def is_dask_array(collection: DaskCollection) -> TypeIs[DaskArray]:
    """Return whether a Dask collection is an array rather than a data frame or series."""
    return hasattr(collection, "chunks")


def is_dask_collection(values: object) -> TypeIs[DaskCollection]:
    """Return whether labels or weights are a Dask collection, which has partitions."""
    return hasattr(values, "__dask_graph__") and hasattr(values, "to_delayed")


def delayed_partitions(collection: DaskCollection) -> list[Delayed]:
    """Return the delayed partitions of a Dask collection."""
    if is_dask_array(collection):
        return list(collection.to_delayed().ravel())
    return list(collection.to_delayed())


def count_rows(partitions: Sequence[Delayed]) -> tuple[int, ...]:
    """Return the number of rows of each delayed partition, in one pass."""
    counts = delay(list)([delay(len)(partition) for partition in partitions])
    return tuple(cast("list[int]", compute(counts)))


def rows_per_chunk(array: DaskArray) -> tuple[int, ...] | None:
    """Return the rows per chunk of a Dask array, if known."""
    sizes = array.chunks[0]
    return None if any(np.isnan(size) for size in sizes) else tuple(sizes)


def merge_tree(aggregator: Delayed, results: Sequence[Delayed]) -> Delayed:
    """Merge delayed results of partitions pairwise, in order, and return the delayed total.

    The shape of the tree depends only on the number of partitions, so the rounding errors of the
    total do not depend on the schedule.
    """
    width = 1  # partitions in each result
    while len(results) > 1:
        # The last result has no partner if their number is odd, and stays as it is.
        results = [
            delay(_merge_results)(
                aggregator,
                f"partitions {first * width} to {(first + 2) * width - 1}",
                *results[first : first + 2],
            )
            for first in range(0, len(results), 2)
        ]
        width *= 2
    return results[0]


def _merge_results(
    aggregator: Aggregator[Result], location: str, *results: Result | None
) -> Result | None:
    with add_error_context(location), threadpool_limits(1):
        return merge_in_order(aggregator, results)


def delay(value: object) -> Delayed:
    """Wrap a value or function for Dask without traversing it."""
    from dask.delayed import delayed

    delayed_value: Delayed = delayed(value, traverse=False, pure=False)
    return delayed_value


def compute(result: Delayed) -> object:
    """Compute a delayed result with the active scheduler.

    Raises
    ------
    FairspanError
        Workers were killed repeatedly.
    """
    try:
        # Also limit threads in this process: with the threaded scheduler, tasks set and restore the
        # limit concurrently, and the last one could otherwise restore a limited value permanently.
        with threadpool_limits(1):
            return result.compute(retries=_RETRIES)
    except Exception as error:
        if type(error).__name__ != "KilledWorker":  # of distributed, which need not be installed
            raise
        raise FairspanError(
            f"Dask workers were killed repeatedly ({error})",
            "Allowed: partitions that fit into the memory of a worker together with one result",
            "Split X into more partitions, or give each worker more memory",
        ) from None
