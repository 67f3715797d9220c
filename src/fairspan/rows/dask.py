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
from fairspan.formatting.text import counted
from fairspan.rows.alignment import check_alignment, pandas_index
from fairspan.rows.arrays import (
    ArrayRows,
    SingleGroup,
    as_eager_frame,
    check_sample_weight,
    is_from_package,
    label_type_of_series,
    resolve_group_columns,
    resolve_labels,
    source_column_names,
)
from fairspan.rows.columns import ColumnSelection, RowsInParts
from fairspan.rows.frames import FrameRows, densify_sparse_columns, select_columns
from fairspan.rows.groups import format_list
from fairspan.rows.protocol import (
    Aggregator,
    OnMissing,
    Result,
    RowMap,
    RowSource,
    SourceAdapter,
    add_error_context,
    merge_in_order,
)
from fairspan.rows.validation import (
    check_consistent_length,
    check_dtype,
    check_feature_names,
    check_n_columns,
    check_numeric,
    check_shape,
    narwhals_vector_lengths,
)
from fairspan.typing import AnyArray

# What is computed of the rows of one partition.
RowFunction = Callable[[Any], AnyArray]

# A task that fails is run again: disks and networks fail for a moment. Only a cluster does so.
_RETRIES = 2


@dataclass(frozen=True, eq=False)
class _IndexedPart:
    """Labels or weights in memory that belong to one partition, with their pandas index.

    Attributes
    ----------
    values : CodedLabels or array of r rows
    index : pandas.Index of r labels
    """

    values: Any
    index: Any


def _aggregate_partition(
    aggregator: Aggregator[Result],
    template: "DaskRows",
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
    labels, weights : array-like, CodedLabels, _IndexedPart, Everyone or None
        Of its rows, where they are not in it.

    Returns
    -------
    result or None
        None for a partition without rows.
    """
    with add_error_context(f"partition {number}"), threadpool_limits(1):
        beside = {"sensitive_features": labels, "sample_weight": weights}
        labels, weights = (
            part.values if isinstance(part, _IndexedPart) else part for part in beside.values()
        )
        if len(partition):
            check_alignment({"X": partition, **beside})
            return aggregator.aggregate(template.open_partition(partition, labels, weights, number))
        for values, what in (
            (labels, "labels in sensitive_features"),
            (weights, "weights in sample_weight"),
        ):
            check_consistent_length(0, len(values) if hasattr(values, "__len__") else 0, what)
        return None


@dataclass(frozen=True, eq=False)
class DaskRows(RowsInParts):
    """Rows of a Dask array or data frame, read by the tasks of its scheduler.

    Attributes
    ----------
    collection : dask array or data frame, or None
        None where a task knows how its partition is opened.
    chosen : ColumnSelection
        Which columns are what; those of an array are its numbers.
    labels, weights : list of delayed or None
        Of each partition, where they are not columns.
    label_columns : tuple of names
        Of the columns that labels beside the rows come from.
    starts : tuple of int, or None
        Rows before each partition, and of all, if they are known.
    """

    collection: Any
    selection: ColumnSelection
    partition_labels: Sequence[Any]
    partition_weights: Sequence[Any]
    label_columns: tuple[Any, ...]
    row_offsets: tuple[int, ...] | None

    @property
    def n_rows(self) -> int | None:
        """Known for some arrays."""
        return None if self.row_offsets is None else self.row_offsets[-1]

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups; none where they have no names."""
        return self.selection.group_columns or self.label_columns

    @property
    def label_types(self) -> tuple[type | None, ...]:
        """Python types of the labels in each group column; None where that is not known."""
        meta = _meta_frame(self.collection)
        if meta is None:
            return super().label_types
        return tuple(label_type_of_series(meta[column]) for column in self.selection.group_columns)

    def select_features(self, names: tuple[str, ...]) -> "DaskRows":
        """The same rows with these features, in this order.

        Raises
        ------
        InvalidInput
            A column is missing, or an array has another number of features.
        """
        if self.feature_names is not None:
            return super().select_features(names)
        check_n_columns(self.n_features, len(names), "features")
        return self

    def aggregate(self, tally: Aggregator[Result]) -> Result | None:
        """The tally's result over all partitions; None if there are no rows."""
        delayed_aggregator = _delay(tally)
        reader = _delay(replace(self, collection=None, partition_labels=(), partition_weights=()))
        partitions = _delayed_partitions(_select_columns(self.collection, self.selection))
        results = [
            _delay(_aggregate_partition)(delayed_aggregator, reader, number, *parts)
            for number, parts in enumerate(
                zip(partitions, self.partition_labels, self.partition_weights, strict=True)
            )
        ]
        result: Result | None = _compute(_merge_tree(delayed_aggregator, results))
        return result

    def open_partition(
        self, partition: Any, labels: Any, weights: Any, number: int = 0
    ) -> RowSource:
        """The rows of a pandas data frame or numpy array, of at least one row.

        Raises
        ------
        InvalidInput
            A missing column, another number of features, or labels or weights of another length.
        """
        n_rows, chosen, frame = len(partition), self.selection, as_eager_frame(partition)
        weights = check_sample_weight(weights, n_rows, is_part=True)
        if weights is not None:
            weights = chosen.weight_scale.scaled(weights)
        exponent = chosen.weight_scale.exponent
        if not chosen.group_columns:
            labels = resolve_labels(labels, n_rows, partition)
        if frame is not None:
            missing = [name for name in chosen.required_columns if name not in frame.columns]
            if missing:
                raise InvalidInput(
                    f"There is no column {format_list(missing)}, only {format_list(frame.columns)}",
                    "Allowed: partitions with the columns of the whole data frame",
                    "Make all partitions alike",
                )
            return FrameRows(
                densify_sparse_columns(frame),
                chosen,
                group_labels=labels,
                weights=weights,
                weight_exponent=exponent,
            )
        if partition.ndim != 2 or partition.shape[1] != self.n_features:
            raise InvalidInput(
                f"X has shape {partition.shape}",
                f"Allowed: rows of {counted(self.n_features, 'feature')}",
                "Correct the chunks of the array, or the function that makes its blocks",
            )
        return ArrayRows(
            partition,
            group_labels=chosen.known_labels.match(labels),
            weights=weights,
            weight_exponent=exponent,
            on_missing=chosen.on_missing,
            row_offset=0
            if self.row_offsets is None or chosen.on_missing == "drop"
            else self.row_offsets[number],
        )


class DaskAdapter(SourceAdapter):
    """Dask arrays and data frames."""

    def accepts(self, X: Any) -> bool:
        """Whether it is one."""
        return is_from_package(X, "dask")

    def open(
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
        meta, sizes = _meta_frame(X), None
        if meta is None:
            _check_array(X)
            sizes, numbers = _rows_per_chunk(X), tuple(range(X.shape[1]))
            chosen = ColumnSelection(numbers, {}, numbers, on_missing=on_missing)
        else:
            chosen = ColumnSelection.from_patterns(
                meta.columns,
                narwhals_vector_lengths(meta.schema),
                resolve_group_columns(meta, sensitive_features),
                weight=sample_weight if isinstance(sample_weight, str) else None,
                on_missing=on_missing,
            )
            check_feature_names(chosen.features)
            check_numeric(select_columns(meta, chosen.features))
        partitions = _delayed_partitions(_select_columns(X, chosen))
        # Without divisions, each partition may number its rows from zero (those of CSV files do).
        has_index = bool(getattr(X, "known_divisions", False))
        labels = _split_by_partition(
            None if chosen.group_columns else sensitive_features,
            partitions,
            sizes,
            "sensitive_features",
            partial(resolve_labels, sensitive_features, X=None),
            has_index=has_index,
        )
        weights = _split_by_partition(
            None if chosen.weight_column is not None else sample_weight,
            partitions,
            sizes,
            "sample_weight",
            partial(check_sample_weight, sample_weight),
            has_index=has_index,
        )
        # The name of a Dask array is no name of a column.
        names = source_column_names(getattr(sensitive_features, "_meta", sensitive_features))
        starts = None if sizes is None else tuple(accumulate(sizes, initial=0))
        return DaskRows(X, chosen, labels, weights, names, starts)

    def map_rows(self, X: Any, row_map: RowMap) -> Any:
        """A function of rows, computed lazily, partition by partition, as the same kind.

        Returns
        -------
        dask array (n, m) or (n,)
            Of the precision of X (float32 or float64), with its row chunks. Rows that are brought
            back from their coordinates are one, of float64, even if these are a data frame.
        dask data frame, or series
            With the columns of the function, and the index and divisions of X.

        Raises
        ------
        InvalidType, InvalidInput
            As `open_rows`; a missing column or another number of features, before anything is
            computed.
        """
        meta = _meta_frame(X)
        if meta is not None and row_map.input_kind == "coordinates":
            X, meta = X.to_dask_array(), None
        if meta is None:
            _check_array(X)
            check_n_columns(X.shape[1], row_map.n_inputs, row_map.input_kind)
            keeps_float32 = (
                X.dtype == np.float32 and row_map.output_names and row_map.input_kind == "features"
            )
            width = len(row_map.output_names)
            empty = np.empty((0, width), X.dtype if keeps_float32 else np.float64)
            mapped = X.rechunk({1: -1}).map_blocks(
                _transform_block,
                function=row_map.function,
                empty=empty,
                chunks=(X.chunks[0], (width,)),
                meta=empty[:, :0],
            )
            return mapped[:, 0] if row_map.affine is None else mapped
        chosen = ColumnSelection.from_patterns(meta.columns, narwhals_vector_lengths(meta.schema))
        if row_map.feature_names is not None:
            chosen = chosen.select_features(row_map.feature_names)
        check_n_columns(len(chosen.feature_names), row_map.n_inputs, "features")
        check_numeric(select_columns(meta, chosen.features))
        # As named arguments, which Dask hands on as they are.
        arguments: dict[str, Any] = {
            "function": row_map.function,
            "columns": [*row_map.output_names],
        }
        read = _select_columns(X, chosen)
        meta = _transform_partition(read._meta, **arguments)
        mapped = read.map_partitions(_transform_partition, **arguments, meta=meta)
        return mapped[row_map.output_names[0]] if row_map.affine is None else mapped


def _meta_frame(X: Any) -> nw.DataFrame[Any] | None:
    """The columns of a Dask data frame, without rows; None for anything else."""
    meta = as_eager_frame(getattr(X, "_meta", None))
    return None if meta is None else densify_sparse_columns(meta)


def _select_columns(collection: Any, chosen: ColumnSelection) -> Any:
    """What is needed of a collection: a Dask array whose rows are not cut, or some columns."""
    if hasattr(collection, "chunks"):
        return collection.rechunk({1: -1})
    # Where all are needed, each partition is checked when it is opened, whose error says more.
    needs_all = len(chosen.required_columns) == len(chosen.available)
    return collection if needs_all else collection[list(chosen.required_columns)]


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


def _transform_block(block: Any, function: RowFunction, empty: Any, block_id: Any = None) -> Any:
    """What a task computes of a block of an array, in the precision and shape of `empty`."""
    if len(block) == 0:
        return empty
    with add_error_context(f"partition {block_id[0]}"), threadpool_limits(1):
        return function(block).astype(empty.dtype, copy=False).reshape(-1, *empty.shape[1:])


def _transform_partition(
    frame: Any, function: RowFunction, columns: list[str], partition_info: Any = None
) -> Any:
    """What a task computes of a partition of a data frame; the index is kept."""
    values = np.empty((0, len(columns)))
    if len(frame):
        with add_error_context(f"partition {partition_info['number']}"), threadpool_limits(1):
            values = function(frame)
    # By the frame's own class, as pandas is not the only one that Dask cuts into partitions.
    return type(frame)(values, index=frame.index, columns=columns)


def _delayed_partitions(X: Any) -> list[Any]:
    """Delayed partitions of a Dask collection."""
    return list(np.ravel(np.array(X.to_delayed(), dtype=object)))


def _rows_per_chunk(array: Any) -> tuple[int, ...] | None:
    """Rows of each block of a Dask array, if they are known."""
    sizes = array.chunks[0]
    return None if any(np.isnan(size) for size in sizes) else tuple(sizes)


def _split_by_partition(
    values: Any,
    partitions: Sequence[Any],
    sizes: tuple[int, ...] | None,
    name: str,
    validate: Callable[[int], Any],
    *,
    has_index: bool,
) -> list[Any]:
    """Delayed labels or weights of each partition, or what is the same for all rows.

    Parameters
    ----------
    values : Dask collection, values in memory, Everyone, or None
    partitions : sequence of delayed partitions of X
    sizes : tuple of int or None
        Rows of each partition; None if only reading shows this. Values in memory then need one
        more pass over X, to count.
    name : str
        What they are called in messages.
    known : callable
        Values in memory, checked, of so many rows; they are cut where partitions end.
    has_index : bool
        Whether the index of X identifies its rows.

    Raises
    ------
    InvalidInput
        Lengths that differ, or another number of partitions.
    """
    if values is None or isinstance(values, SingleGroup):
        return [values] * len(partitions)
    if hasattr(values, "__dask_graph__") and hasattr(values, "to_delayed"):
        if hasattr(values, "chunks"):
            own = _rows_per_chunk(values)
            if own is not None and sizes is not None:
                check_consistent_length(sum(sizes), sum(own), f"values in {name}")
                values = values.rechunk({0: sizes})
            if values.ndim == 2:
                values = values.rechunk({1: -1})
        parts = _delayed_partitions(values)
        if len(parts) != len(partitions):
            raise InvalidInput(
                f"X has {counted(len(partitions), 'partition')}, but {name} has {len(parts)}",
                "Allowed: partitions that hold the same rows",
                f"Cut {name} as X is, with repartition(divisions=X.divisions) for a series, or "
                "make it a column of X and pass its name",
            )
        return parts
    if isinstance(values, str):  # said before anything is counted
        validate(0)
    if sizes is None:
        sizes = _compute(_delay(list)([_delay(len)(partition) for partition in partitions]))
    needs_all = validate(sum(sizes))
    slices = [slice(start, stop) for start, stop in pairwise(accumulate(sizes, initial=0))]
    index = pandas_index(values) if has_index else None
    if index is None:
        return [_delay(needs_all[rows]) for rows in slices]
    return [_delay(_IndexedPart(needs_all[rows], index[rows])) for rows in slices]


def _merge_tree(tally: Any, results: Sequence[Any]) -> Any:
    """Merge the delayed results of neighbours, in order, until one is left.

    The shape of the tree and the result depend on the number of partitions alone.
    """
    width = 1
    while len(results) > 1:
        results = [
            _delay(_merge_results)(
                tally,
                f"partitions {place * width} to {(place + 2) * width - 1}",
                *results[place : place + 2],
            )
            for place in range(0, len(results), 2)
        ]
        width *= 2
    return results[0]


def _merge_results(tally: Aggregator[Result], where: str, *results: Result | None) -> Result | None:
    with add_error_context(where), threadpool_limits(1):
        return merge_in_order(tally, results)


def _delay(value: Any) -> Any:
    """A value, or a function for tasks, that Dask hands on without looking for graphs inside it."""
    from dask.delayed import delayed

    return delayed(value, traverse=False, pure=False)


def _compute(result: Any) -> Any:
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
