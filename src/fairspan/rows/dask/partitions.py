"""Partitions of Dask collections: what a task does with one, and what goes with it.

A task opens the rows of its partition and folds them, or reduces them. Labels and weights beside a
collection are cut as its partitions are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from threadpoolctl import threadpool_limits

from fairspan.errors import InvalidInput
from fairspan.rows.arrays import ArrayRows, checked_weights, weights_of_column
from fairspan.rows.checks import check_same_length
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.columns import ChosenColumns
from fairspan.rows.dask.engine import computed, literal, task
from fairspan.rows.engines import located
from fairspan.rows.frames import FrameRows
from fairspan.rows.groups import listed
from fairspan.rows.labels import Labels, labels_of
from fairspan.rows.protocol import Fold, OnMissing, Result, RowSource
from fairspan.typing import AnyArray

Sizes = tuple[int, ...] | None
# What is computed of the rows of one partition.
Function = Callable[[Any], AnyArray]


@dataclass(frozen=True)
class Opening:
    """How the rows of a partition are opened.

    Attributes
    ----------
    n_features : int
        p, which every block of an array must have.
    on_missing : {"error", "drop"}
    everyone : str or None
        The label of all rows, in place of labels.
    chosen : ChosenColumns or None
        Which columns of a data frame are what; None for an array.
    starts : tuple of int, or None
        Rows before each partition, if they are known.
    """

    n_features: int
    on_missing: OnMissing
    everyone: str | None
    chosen: ChosenColumns | None = None
    starts: tuple[int, ...] | None = None

    def rows(self, partition: Any, labels: Any, weights: Any, number: int = 0) -> RowSource:
        """The rows of a pandas data frame or numpy array, of at least one row.

        Raises
        ------
        InvalidInput
            A missing column, another number of features, or labels or weights of another length.
        """
        n_rows, chosen = len(partition), self.chosen
        if weights is not None:
            weights = checked_weights(weights, n_rows, is_part=True)
        if chosen is None:
            if partition.ndim != 2 or partition.shape[1] != self.n_features:
                raise InvalidInput(
                    f"X has shape {partition.shape}",
                    f"Allowed: rows of {self.n_features} features",
                    "Correct the chunks of the array, or the function that makes its blocks",
                )
            own = self._labels(labels, n_rows, partition)
            return ArrayRows(
                partition,
                labels=own,
                weights=weights,
                on_missing=self.on_missing,
                first_position=0 if self.starts is None else self.starts[number],
            )
        frame = nw.from_native(partition, eager_only=True)
        missing = [name for name in chosen.read if name not in frame.columns]
        if missing:
            raise InvalidInput(
                f"There is no column {listed(missing)}, only {listed(frame.columns)}",
                "Allowed: partitions with the columns of the whole data frame",
                "Make all partitions alike",
            )
        if chosen.weight is not None:
            weights = weights_of_column(frame[chosen.weight])
        if chosen.groups:
            own = Labels.of_columns(frame, chosen.groups)
        else:
            own = self._labels(labels, n_rows, partition)
        features = columns_of(frame, chosen.features)
        return FrameRows(features, labels=own, weights=weights, on_missing=self.on_missing)

    def _labels(self, labels: Any, n_rows: int, partition: Any) -> Labels:
        if self.everyone is not None:
            return Labels.constant(self.everyone, n_rows)
        if isinstance(labels, CodedLabels):
            return Labels(n_rows, lambda start, stop: labels[start:stop])
        return labels_of(labels, n_rows, partition)


def result_of_partition(
    fold: Fold[Result], opening: Opening, number: int, partition: Any, labels: Any, weights: Any
) -> Result | None:
    """What a worker does with a partition, beside others at work: so with one thread.

    Parameters
    ----------
    fold : Fold
    opening : Opening
    number : int
        Of the partition, for messages.
    partition : data frame or array
    labels, weights : array-like, CodedLabels or None
        Of its rows, where they are not in it.

    Returns
    -------
    result or None
        None for a partition without rows.
    """
    with located(f"partition {number}"), threadpool_limits(1):
        if len(partition):
            return fold.over(opening.rows(partition, labels, weights, number))
        for values, what in (
            (labels, "labels in sensitive_features"),
            (weights, "weights in sample_weight"),
        ):
            check_same_length(0, 0 if values is None else len(values), what)
        return None


def columns_of(frame: nw.DataFrame[Any], names: Sequence[str]) -> nw.DataFrame[Any]:
    """Some columns of a pandas data frame, whose names may be numbers."""
    return nw.from_native(frame.to_native()[list(names)], eager_only=True)


def mapped_array(array: Any, function: Function, dtype: Any, width: int) -> Any:
    """A function of the rows of each block of a Dask array, computed lazily."""
    return array.rechunk({1: -1}).map_blocks(
        _of_block,
        function=function,
        empty=np.empty((0, width), dtype),
        chunks=(array.chunks[0], (width,)),
        meta=np.empty((0, 0), dtype),
    )


def mapped_frame(frame: Any, function: Function, columns: Sequence[str]) -> Any:
    """A function of the rows of each partition of a Dask data frame, computed lazily."""
    # As named arguments, which Dask hands on as they are.
    return frame.map_partitions(
        _of_frame,
        function=function,
        columns=list(columns),
        meta=_of_frame(frame._meta, function, list(columns)),
    )


def _of_block(block: Any, function: Function, empty: Any, block_id: Any = None) -> Any:
    """What a task computes of a block of an array, in the precision and shape of `empty`."""
    if len(block) == 0:
        return empty
    with located(f"partition {block_id[0]}"), threadpool_limits(1):
        found = function(block).astype(empty.dtype, copy=False)
        return found.reshape(-1, *empty.shape[1:])


def _of_frame(
    frame: Any, function: Function, columns: list[str], partition_info: Any = None
) -> Any:
    """What a task computes of a partition of a data frame; the index is kept."""
    values: AnyArray = np.empty((0, len(columns)))
    if len(frame):
        with located(f"partition {partition_info['number']}"), threadpool_limits(1):
            values = function(frame)
    # By the frame's own class, as pandas is not the only one that Dask cuts into partitions.
    return type(frame)(values, index=frame.index, columns=columns)


def partitions_of(X: Any) -> list[Any]:
    """Delayed partitions of a Dask collection."""
    return list(np.ravel(np.array(X.to_delayed(), dtype=object)))


def row_sizes(array: Any) -> Sizes:
    """Rows of each block of a Dask array, if they are known."""
    sizes = array.chunks[0]
    return None if any(np.isnan(size) for size in sizes) else tuple(sizes)


def labels_by_partition(labels: Any, partitions: Sequence[Any], sizes: Sizes) -> list[Any]:
    """Delayed labels of each partition.

    Parameters
    ----------
    labels : Dask collection, or labels in memory
    partitions : sequence of delayed partitions of X
    sizes : tuple of int or None
        Rows of each partition; None if only reading shows this. Labels in memory then need one
        more pass over X, to count.

    Raises
    ------
    InvalidInput
        Lengths that differ, or another number of partitions.
    """
    if _is_collection(labels):
        return _aligned(labels, partitions, sizes, "sensitive_features")
    if isinstance(labels, str):  # said before anything is counted
        labels_of(labels, 0, None)
    ends = _ends(partitions, sizes)
    whole = labels_of(labels, ends[-1], None)
    return [literal(whole.between(*own)) for own in pairwise(ends)]


def weights_by_partition(weights: Any, partitions: Sequence[Any], sizes: Sizes) -> list[Any]:
    """Delayed weights of each partition; parameters and errors as of `labels_by_partition`."""
    if _is_collection(weights):
        return _aligned(weights, partitions, sizes, "sample_weight")
    ends = _ends(partitions, sizes)
    whole = checked_weights(weights, ends[-1])
    assert whole is not None
    return [literal(whole[start:stop]) for start, stop in pairwise(ends)]


def _is_collection(values: Any) -> bool:
    return hasattr(values, "__dask_graph__") and hasattr(values, "to_delayed")


def _ends(partitions: Sequence[Any], sizes: Sizes) -> list[int]:
    """Where each partition ends, after a zero."""
    if sizes is None:
        sizes = computed(task(_tuple, *(task(len, partition) for partition in partitions)))
    return list(accumulate(sizes, initial=0))


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
    parts = partitions_of(values)
    if len(parts) != len(partitions):
        raise InvalidInput(
            f"X has {len(partitions)} partitions, but {name} has {len(parts)}",
            "Allowed: partitions that hold the same rows",
            f"Cut {name} as X is, with repartition(divisions=X.divisions) for a series, or make it "
            "a column of X and pass its name",
        )
    return parts
