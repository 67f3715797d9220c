"""Labels and weights beside a Dask collection, cut as its partitions are."""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.rows.checks import check_same_length
from fairspan.rows.dask.engine import computed, literal, task
from fairspan.rows.labels import labels_of
from fairspan.rows.weights import checked_weights

Sizes = tuple[int, ...] | None


def labels_by_partition(labels: Any, partitions: Sequence[Any], sizes: Sizes) -> list[Any]:
    """Delayed labels of each partition.

    Parameters
    ----------
    labels : Dask collection, or labels in memory
    partitions : sequence of delayed partitions of X
    sizes : tuple of int or None
        Rows of each partition; None if only reading tells. Labels in memory then need one more
        pass over X, to count.

    Raises
    ------
    InvalidInput
        Lengths that differ, or another number of partitions.
    """
    if is_collection(labels):
        return _aligned(labels, partitions, sizes, "sensitive_features")
    if isinstance(labels, str):  # said before anything is counted
        labels_of(labels, 0, None)
    return _cut(partitions, sizes, lambda n_rows: labels_of(labels, n_rows, None).between)


def weights_by_partition(weights: Any, partitions: Sequence[Any], sizes: Sizes) -> list[Any]:
    """Delayed weights of each partition; parameters and errors as of `labels_by_partition`."""
    if is_collection(weights):
        return _aligned(weights, partitions, sizes, "sample_weight")

    def checked(n_rows: int) -> Callable[[int, int], Any]:
        array = checked_weights(weights, n_rows)
        assert array is not None
        return lambda start, stop: array[start:stop]

    return _cut(partitions, sizes, checked)


def is_collection(values: Any) -> bool:
    """Whether it is a Dask array, data frame or series."""
    return hasattr(values, "__dask_graph__") and hasattr(values, "to_delayed")


def row_sizes(array: Any) -> Sizes:
    """Rows of each block of a Dask array, if they are known."""
    sizes = array.chunks[0]
    return None if any(np.isnan(size) for size in sizes) else tuple(sizes)


def _cut(
    partitions: Sequence[Any], sizes: Sizes, reader: Callable[[int], Callable[[int, int], Any]]
) -> list[Any]:
    if sizes is None:
        sizes = computed(task(_tuple, *(task(len, partition) for partition in partitions)))
    between = reader(sum(sizes))
    return [literal(between(*ends)) for ends in pairwise(accumulate(sizes, initial=0))]


def _tuple(*sizes: int) -> tuple[int, ...]:
    return sizes


def _aligned(values: Any, partitions: Sequence[Any], sizes: Sizes, name: str) -> list[Any]:
    if hasattr(values, "chunks"):
        own = row_sizes(values)
        if own is not None and sizes is not None:
            check_same_length(sum(sizes), sum(own), f"values in {name}")
            values = values.rechunk({0: sizes})
        if values.ndim == 2:
            values = values.rechunk({1: -1})
    parts = np.ravel(np.array(values.to_delayed(), dtype=object)).tolist()
    if len(parts) != len(partitions):
        raise InvalidInput(
            f"X has {len(partitions)} partitions, but {name} has {len(parts)}",
            "Allowed are partitions that hold the same rows",
            f"Cut {name} as X is, with repartition(divisions=X.divisions) for a series, or make it "
            "a column of X and pass its name",
        )
    return parts
