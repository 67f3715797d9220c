"""Rows in a Dask array or data frame, read by the workers of Dask, one task for each partition.

A task opens the rows of its partition and tallies them, or reduces them; results of neighbours are
merged in pairs, so that one result comes here. Labels and weights beside a collection are cut as
its partitions are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from threadpoolctl import threadpool_limits

from fairspan.errors import FairspanError, InvalidInput, InvalidType
from fairspan.rows.arrays import (
    ArrayRows,
    Everyone,
    checked_weights,
    comes_from,
    labels_of,
    labels_of_columns,
    named_columns,
    names_of,
    weights_of_column,
)
from fairspan.rows.checks import (
    check_dtype,
    check_names,
    check_numeric,
    check_same_length,
    check_shape,
    check_width,
    collapsed,
    features_of,
    vector_lengths,
)
from fairspan.rows.columns import ChosenColumns
from fairspan.rows.frames import FrameRows, frame_of, without_sparse
from fairspan.rows.groups import listed
from fairspan.rows.protocol import (
    KnownRows,
    OnMissing,
    Projection,
    Result,
    RowOpener,
    RowSource,
    Tally,
    error_context,
    merged_in_order,
)
from fairspan.typing import AnyArray, FloatArray

# What is computed of the rows of one partition.
Function = Callable[[Any], AnyArray]

# A task that fails is run again: disks and networks fail for a moment. Only a cluster does so.
_RETRIES = 2


def _result_of_partition(
    tally: Tally[Result],
    reader: "DaskRows",
    number: int,
    partition: Any,
    labels: Any,
    weights: Any,
) -> Result | None:
    """What a worker does with a partition, beside others at work: so with one thread.

    Parameters
    ----------
    tally : Tally
    reader : DaskRows
        How its rows are opened.
    number : int
        Of the partition, for messages.
    partition : data frame or array
    labels, weights : array-like, CodedLabels, Everyone or None
        Of its rows, where they are not in it.

    Returns
    -------
    result or None
        None for a partition without rows.
    """
    with error_context(f"partition {number}"), threadpool_limits(1):
        if len(partition):
            return tally.over(reader.rows(partition, labels, weights, number))
        for values, what in (
            (labels, "labels in sensitive_features"),
            (weights, "weights in sample_weight"),
        ):
            check_same_length(0, len(values) if hasattr(values, "__len__") else 0, what)
        return None


@dataclass(frozen=True, eq=False)
class DaskRows(KnownRows):
    """Rows of a Dask array or data frame, read by the tasks of its scheduler.

    Attributes
    ----------
    collection : dask array or data frame, or None
        None where a task knows how its partition is opened.
    n_features : int
        p, which every block of an array must have.
    on_missing : {"error", "drop"}
    chosen : ChosenColumns or None
        Which columns of a data frame are what; None for an array.
    starts : tuple of int, or None
        Rows before each partition, if they are known.
    labels, weights : list of delayed, or None
        Of each partition, where they are not columns.
    n_rows : int or None
        Known for some arrays.
    label_names : tuple of names
        Of the columns that labels beside the rows come from.
    """

    collection: Any
    n_features: int
    on_missing: OnMissing
    chosen: ChosenColumns | None = None
    starts: tuple[int, ...] | None = None
    labels: Sequence[Any] | None = None
    weights: Sequence[Any] | None = None
    n_rows: int | None = None
    label_names: tuple[Any, ...] = ()

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups; none where they have no names."""
        return self.label_names if self.chosen is None else self.chosen.groups or self.label_names

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """Names of the columns of groups and weights."""
        return () if self.chosen is None else self.chosen.reserved

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features; None for arrays, and where the names of columns are no text."""
        names = None if self.chosen is None else self.chosen.feature_names
        return names if names and isinstance(names[0], str) else None

    def selected(self, names: tuple[str, ...]) -> "DaskRows":
        """The same rows with these features, in this order.

        Raises
        ------
        InvalidInput
            A column is missing, or an array has another number of features.
        """
        if self.chosen is None:
            check_width(self.n_features, len(names), "features")
        chosen = None if self.chosen is None else self.chosen.selected(names)
        return replace(self, n_features=len(names), chosen=chosen)

    def tallied(self, tally: Tally[Result]) -> Result | None:
        """The tally's result over all partitions; None if there are no rows."""
        to_all = _delayed(tally)
        reader = _delayed(replace(self, collection=None, labels=None, weights=None))
        partitions = _partitions_of(_read(self.collection, self.chosen))
        none = [None] * len(partitions)
        beside = zip(partitions, self.labels or none, self.weights or none, strict=True)
        results = [
            _delayed(_result_of_partition)(to_all, reader, number, *parts)
            for number, parts in enumerate(beside)
        ]
        result: Result | None = _computed(_merged_in_pairs(to_all, results))
        return result

    def rows(self, partition: Any, labels: Any, weights: Any, number: int = 0) -> RowSource:
        """The rows of a pandas data frame or numpy array, of at least one row.

        Raises
        ------
        InvalidInput
            A missing column, another number of features, or labels or weights of another length.
        """
        n_rows, chosen = len(partition), self.chosen
        weights = checked_weights(weights, n_rows, is_part=True)
        if chosen is None:
            if partition.ndim != 2 or partition.shape[1] != self.n_features:
                raise InvalidInput(
                    f"X has shape {partition.shape}",
                    f"Allowed: rows of {self.n_features} features",
                    "Correct the chunks of the array, or the function that makes its blocks",
                )
            return ArrayRows(
                partition,
                labels=labels_of(labels, n_rows, partition),
                weights=weights,
                on_missing=self.on_missing,
                first_position=0 if self.starts is None else self.starts[number],
            )
        frame = without_sparse(nw.from_native(partition, eager_only=True))
        missing = [name for name in chosen.read if name not in frame.columns]
        if missing:
            raise InvalidInput(
                f"There is no column {listed(missing)}, only {listed(frame.columns)}",
                "Allowed: partitions with the columns of the whole data frame",
                "Make all partitions alike",
            )
        if chosen.weight is not None:
            weights = weights_of_column(frame[chosen.weight])
        return FrameRows(
            _columns_of(frame, chosen.features),
            labels=labels_of_columns(frame, chosen.groups)
            if chosen.groups
            else labels_of(labels, n_rows, partition),
            weights=weights,
            on_missing=self.on_missing,
        )


class DaskCollections(RowOpener):
    """Dask arrays and data frames."""

    def takes(self, X: Any) -> bool:
        """Whether it is one."""
        return comes_from(X, "dask")

    def open_rows(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> DaskRows:
        """Rows of a Dask collection, whose groups and weights are columns of it or beside it.

        Raises
        ------
        InvalidType
            Another collection than an array or a data frame.
        InvalidInput
            No numbers, no features, a missing column, or lengths that are known to differ.
        """
        meta = _meta_frame(X)
        if meta is None:
            _check_array(X)
            chosen, sizes = None, _row_sizes(X)
            starts = None if sizes is None else tuple(accumulate(sizes, initial=0))
            n_features = int(X.shape[1])
        else:
            weight = sample_weight if isinstance(sample_weight, str) else None
            groups, lengths = named_columns(meta, sensitive_features), vector_lengths(meta.schema)
            chosen = ChosenColumns.of(meta.columns, lengths, groups, weight=weight)
            check_names(chosen.features)
            check_numeric(_columns_of(meta, chosen.features).schema)
            sizes = starts = None
            n_features = len(chosen.feature_names)
        partitions = _partitions_of(_read(X, chosen))
        labels = (
            None
            if chosen is not None and chosen.groups
            else [sensitive_features] * len(partitions)
            if isinstance(sensitive_features, Everyone)
            else _by_partition(
                sensitive_features,
                partitions,
                sizes,
                "sensitive_features",
                partial(labels_of, sensitive_features, X=None),
            )
        )
        weights = (
            None
            if sample_weight is None or (chosen is not None and chosen.weight is not None)
            else _by_partition(
                sample_weight,
                partitions,
                sizes,
                "sample_weight",
                partial(checked_weights, sample_weight),
            )
        )
        return DaskRows(
            X,
            n_features,
            on_missing,
            chosen,
            starts,
            labels,
            weights,
            None if sizes is None else sum(sizes),
            # The name of a Dask array is no name of a column.
            names_of(getattr(sensitive_features, "_meta", sensitive_features)),
        )

    def transformed(self, X: Any, projection: Projection) -> Any:
        """Rows of a Dask collection reduced lazily, partition by partition, as the same kind.

        Returns
        -------
        dask array (n, d)
            Of the precision of X (float32 or float64), with its row chunks.
        dask data frame
            With the projection's component names as columns, and the index and divisions of X.

        Raises
        ------
        InvalidType, InvalidInput
            As `open_rows`; a missing column or another number of features, before anything is
            computed.
        """
        meta = _meta_frame(X)
        d, p = projection.encoder.shape
        if meta is None:
            _check_array(X)
            check_width(X.shape[1], p, "features")
            dtype = X.dtype if X.dtype == np.float32 else np.dtype(np.float64)
            return _mapped_array(X, projection.transform, dtype, d)
        columns = meta.columns
        features = features_of(columns, vector_lengths(meta.schema))
        if projection.feature_names is not None:
            columns = list(collapsed(projection.feature_names, features))
        check_width(sum(len(features[column]) for column in columns), p, "features")
        check_numeric(_columns_of(meta, columns).schema)
        # Where all are needed, each partition is checked by its task, whose error says more.
        read = X if columns == meta.columns else X[columns]
        return _mapped_frame(read, projection.transform, projection.component_names)

    def restored(self, Z: Any, projection: Projection) -> Any:
        """Rows in the original features from their coordinates, lazily, as a Dask array (n, p).

        Raises
        ------
        InvalidType, InvalidInput
            As `transformed`.
        """
        array = Z if _meta_frame(Z) is None else Z.to_dask_array()
        _check_array(array)
        d, p = projection.encoder.shape
        check_width(array.shape[1], d, "coordinates")
        return _mapped_array(array, projection.inverse_transform, np.dtype(np.float64), p)

    def scored(self, X: Any, score: Callable[[Any], FloatArray]) -> Any:
        """A number for each row by a function of rows in memory: a lazy Dask array or series."""
        if _meta_frame(X) is not None:
            return _mapped_frame(X, score, ["score"])["score"]
        _check_array(X)
        return _mapped_array(X, score, np.dtype(np.float64), 1)[:, 0]


def _meta_frame(X: Any) -> nw.DataFrame[Any] | None:
    """The columns of a Dask data frame, without rows; None for anything else."""
    meta = frame_of(getattr(X, "_meta", None))
    return None if meta is None else without_sparse(meta)


def _read(collection: Any, chosen: ChosenColumns | None) -> Any:
    """What is needed of a collection: a Dask array whose rows are not cut, or some columns."""
    if chosen is None:
        return collection.rechunk({1: -1})
    # Where all are needed, each partition is checked when it is opened, whose error says more.
    whole = len(chosen.read) == len(chosen.available)
    return collection if whole else collection[list(chosen.read)]


def _check_array(X: Any) -> None:
    if not hasattr(X, "chunks") or not isinstance(X._meta, np.ndarray):
        blocks = f" of {type(X._meta).__name__} blocks" if hasattr(X, "chunks") else ""
        raise InvalidType(
            f"X is a Dask {type(X).__name__}{blocks}",
            "Allowed: Dask arrays of numpy blocks, and Dask data frames",
            "Convert it, for example with to_dask_dataframe() or map_blocks(numpy.asarray)",
        )
    # A number of rows that is not known is no reason to refuse it.
    check_shape(tuple(1 if np.isnan(size) else int(size) for size in X.shape))
    if np.isnan(X.shape[-1]):
        raise InvalidInput(
            "X does not know how many columns it has",
            "Allowed: arrays whose number of features is known",
            "Call X.compute_chunk_sizes() first",
        )
    check_dtype(X.dtype)


def _columns_of(frame: nw.DataFrame[Any], names: Sequence[str]) -> nw.DataFrame[Any]:
    """Some columns of a pandas data frame, whose names may be numbers."""
    return nw.from_native(frame.to_native()[list(names)], eager_only=True)


def _mapped_array(array: Any, function: Function, dtype: Any, width: int) -> Any:
    """A function of the rows of each block of a Dask array, computed lazily."""
    return array.rechunk({1: -1}).map_blocks(
        _of_block,
        function=function,
        empty=np.empty((0, width), dtype),
        chunks=(array.chunks[0], (width,)),
        meta=np.empty((0, 0), dtype),
    )


def _mapped_frame(frame: Any, function: Function, columns: Sequence[str]) -> Any:
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
    with error_context(f"partition {block_id[0]}"), threadpool_limits(1):
        return function(block).astype(empty.dtype, copy=False).reshape(-1, *empty.shape[1:])


def _of_frame(
    frame: Any, function: Function, columns: list[str], partition_info: Any = None
) -> Any:
    """What a task computes of a partition of a data frame; the index is kept."""
    values: AnyArray = np.empty((0, len(columns)))
    if len(frame):
        with error_context(f"partition {partition_info['number']}"), threadpool_limits(1):
            values = function(frame)
    # By the frame's own class, as pandas is not the only one that Dask cuts into partitions.
    return type(frame)(values, index=frame.index, columns=columns)


def _partitions_of(X: Any) -> list[Any]:
    """Delayed partitions of a Dask collection."""
    return list(np.ravel(np.array(X.to_delayed(), dtype=object)))


def _row_sizes(array: Any) -> tuple[int, ...] | None:
    """Rows of each block of a Dask array, if they are known."""
    sizes = array.chunks[0]
    return None if any(np.isnan(size) for size in sizes) else tuple(sizes)


def _by_partition(
    values: Any,
    partitions: Sequence[Any],
    sizes: tuple[int, ...] | None,
    name: str,
    known: Callable[[int], Any],
) -> list[Any]:
    """Delayed labels or weights of each partition.

    Parameters
    ----------
    values : Dask collection, or values in memory
    partitions : sequence of delayed partitions of X
    sizes : tuple of int or None
        Rows of each partition; None if only reading shows this. Values in memory then need one
        more pass over X, to count.
    name : str
        What they are called in messages.
    known : callable
        Values in memory, checked, of so many rows; they are cut where partitions end.

    Raises
    ------
    InvalidInput
        Lengths that differ, or another number of partitions.
    """
    if hasattr(values, "__dask_graph__") and hasattr(values, "to_delayed"):
        return _aligned(values, partitions, sizes, name)
    if isinstance(values, str):  # said before anything is counted
        known(0)
    if sizes is None:
        sizes = _computed(_delayed(list)([_delayed(len)(partition) for partition in partitions]))
    whole = known(sum(sizes))
    return [_delayed(whole[a:b]) for a, b in pairwise(accumulate(sizes, initial=0))]


def _aligned(
    values: Any, partitions: Sequence[Any], sizes: tuple[int, ...] | None, name: str
) -> list[Any]:
    if hasattr(values, "chunks"):
        own = _row_sizes(values)
        if own is not None and sizes is not None:
            check_same_length(sum(sizes), sum(own), f"values in {name}")
            values = values.rechunk({0: sizes})
        if values.ndim == 2:
            values = values.rechunk({1: -1})
    parts = _partitions_of(values)
    if len(parts) != len(partitions):
        raise InvalidInput(
            f"X has {len(partitions)} partitions, but {name} has {len(parts)}",
            "Allowed: partitions that hold the same rows",
            f"Cut {name} as X is, with repartition(divisions=X.divisions) for a series, or make it "
            "a column of X and pass its name",
        )
    return parts


def _merged_in_pairs(tally: Any, results: Sequence[Any]) -> Any:
    """Merge the delayed results of neighbours, in order, until one is left.

    The shape of the tree and the result depend on the number of partitions alone.
    """
    width = 1
    while len(results) > 1:
        results = [
            _delayed(_merged)(
                tally,
                f"partitions {place * width} to {(place + 2) * width - 1}",
                *results[place : place + 2],
            )
            for place in range(0, len(results), 2)
        ]
        width *= 2
    return results[0]


def _merged(tally: Tally[Result], where: str, *results: Result | None) -> Result | None:
    with error_context(where), threadpool_limits(1):
        return merged_in_order(tally, results)


def _delayed(value: Any) -> Any:
    """A value, or a function for tasks, that Dask hands on without looking for graphs inside it."""
    from dask.delayed import delayed

    return delayed(value, traverse=False, pure=False)


def _computed(result: Any) -> Any:
    """The value of a delayed result, by whichever scheduler is in use.

    Raises
    ------
    FairspanError
        Workers were killed over and over again.
    """
    try:
        # Held here too: where tasks are threads of this process, each of which sets and restores
        # the limit, the last one to end would restore what another had set, for good.
        with threadpool_limits(1):
            return result.compute(retries=_RETRIES)
    except Exception as error:
        if type(error).__name__ != "KilledWorker":  # of distributed, which need not be installed
            raise
        raise FairspanError(
            f"Workers of the Dask cluster were killed again and again ({error})",
            "Allowed: partitions that fit into the memory of a worker, beside one result",
            "Cut X into more partitions, or give each worker more memory",
        ) from None
