"""Rows of a Dask array or data frame, aggregated by Dask workers, one task per partition.

A task opens its partition and aggregates or transforms it; results are merged pairwise in a tree,
and one result is returned to the client. Labels and weights that are passed separately are split
along the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import narwhals.stable.v2 as nw
import numpy as np
from threadpoolctl import threadpool_limits

from fairspan.errors import InvalidInput, InvalidType
from fairspan.formatting.messages import counted
from fairspan.rows.aggregation import Aggregator, Result
from fairspan.rows.alignment import check_alignment, pandas_index
from fairspan.rows.array_backend import is_from_package
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.blocks import OnMissing
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.column_selection import (
    ColumnRoles,
    ColumnSelection,
    PartitionedColumnRows,
    class_and_cluster_columns,
)
from fairspan.rows.conversion import narwhals_vector_lengths
from fairspan.rows.dask_graph import (
    DaskArray,
    DaskCollection,
    DaskFrame,
    Delayed,
    compute,
    count_rows,
    delay,
    delayed_partitions,
    is_dask_array,
    is_dask_collection,
    merge_tree,
    rows_per_chunk,
)
from fairspan.rows.error_context import add_error_context
from fairspan.rows.frames import FrameRows, densify_sparse_columns, roles_in_frame, select_columns
from fairspan.rows.label_resolution import (
    SingleGroup,
    as_eager_frame,
    label_type_of_series,
    resolve_labels,
    source_column_names,
)
from fairspan.rows.labels import format_list
from fairspan.rows.metadata import RowMetadata
from fairspan.rows.protocol import RowSource
from fairspan.rows.row_adapters import RowMap, SourceAdapter
from fairspan.rows.row_validation import (
    check_consistent_length,
    check_dtype,
    check_feature_names,
    check_n_columns,
    check_numeric,
    check_shape,
)
from fairspan.rows.sample_weights import check_sample_weight
from fairspan.typing import AnyArray, ColumnName, FloatArray, LabelsLike, TableLike, WeightsLike

if TYPE_CHECKING:
    import pandas as pd
    from narwhals.stable.v2.typing import IntoDataFrame

# Function applied to the rows of one partition.
RowFunction = Callable[[TableLike], FloatArray]
# Rows of one partition.
Partition: TypeAlias = "pd.DataFrame | AnyArray"


# Labels or weights of one partition; None if they are columns, or if there are none.
DelayedValues: TypeAlias = Delayed | SingleGroup | None


@dataclass(frozen=True, eq=False)
class _IndexedPart:
    """Labels or weights in memory for one partition, with their pandas index.

    Attributes
    ----------
    values : CodedLabels or array of r rows
    index : pandas.Index of r labels
    """

    values: CodedLabels | FloatArray
    index: pd.Index


def _aggregate_partition(
    aggregator: Aggregator[Result],
    partition_opener: DaskRows,
    number: int,
    partition: Partition,
    labels: LabelsLike,
    weights: WeightsLike,
) -> Result | None:
    """Aggregate one partition, with a single BLAS thread, since tasks run in parallel.

    Parameters
    ----------
    aggregator : Aggregator
    partition_opener : DaskRows
        Copy of the rows without their data, which opens partitions.
    number : int
        Number of the partition, for messages.
    partition : data frame or array
    labels, weights : array-like, CodedLabels, _IndexedPart, SingleGroup or None
        Labels and weights of the partition, unless they are columns; an `_IndexedPart` has their
        pandas index as well, which is compared with that of the partition.

    Returns
    -------
    result or None
        None for an empty partition.
    """
    with add_error_context(f"partition {number}"), threadpool_limits(1):
        if len(partition):
            check_alignment(
                {"X": partition, "sensitive_features": labels, "sample_weight": weights}
            )
            rows = partition_opener.open_partition(
                partition, _without_index(labels), _without_index(weights), number
            )
            return aggregator.aggregate(rows)
        _check_empty(_without_index(labels), "sensitive_features", "label")
        _check_empty(_without_index(weights), "sample_weight", "weight")
        return None


def _without_index(part: object) -> object:
    """Return labels or weights of a partition without the pandas index that came with them."""
    return part.values if isinstance(part, _IndexedPart) else part


def _check_empty(values: object, name: str, noun: str) -> None:
    """Check that there are no values for an empty partition."""
    if isinstance(values, Sized):
        check_consistent_length(0, len(values), name, noun)


@dataclass(frozen=True, eq=False)
class DaskRows(PartitionedColumnRows):
    """Rows of a Dask array or data frame, read by tasks of the Dask scheduler.

    Attributes
    ----------
    collection : dask array or data frame, or None
        None in the copy that is sent to tasks.
    selection : ColumnSelection
        Column selection; columns of an array are numbered.
    partition_labels, partition_weights : list of delayed or None
        Labels and weights per partition, unless they are columns.
    label_columns : tuple of names
        Source column names of labels that are passed separately.
    row_offsets : tuple of int, or None
        Number of rows before each partition, and in total, if known.
    """

    collection: DaskCollection | None
    selection: ColumnSelection
    partition_labels: Sequence[DelayedValues]
    partition_weights: Sequence[DelayedValues]
    label_columns: tuple[ColumnName, ...]
    row_offsets: tuple[int, ...] | None

    @property
    def has_row_offsets(self) -> bool:
        """Whether the number of rows before each partition is known."""
        return self.row_offsets is not None

    @property
    def n_rows(self) -> int | None:
        """Number of rows; known for some arrays."""
        return None if self.row_offsets is None else self.row_offsets[-1]

    @property
    def group_columns(self) -> tuple[ColumnName, ...]:
        """Names of the group columns; empty if unnamed."""
        return self.selection.roles.groups or self.label_columns

    def label_type(self, column: str) -> type | None:
        """Return the Python type of the labels in a column; None if unknown."""
        meta = _meta_frame(self.collection)
        return None if meta is None else label_type_of_series(meta[column])

    def select_features(self, names: tuple[str, ...]) -> DaskRows:
        """Return the same rows with these features, in this order.

        The columns of an array have no names: they are taken to be the features in this order, and
        only their number is checked.

        Raises
        ------
        InvalidInput
            A column is missing, or an array has the wrong number of features.
        """
        if self.feature_names is not None:
            return super().select_features(names)
        check_n_columns(self.n_features, len(names), "features")
        return self

    def aggregate(self, aggregator: Aggregator[Result]) -> Result | None:
        """Aggregate all partitions; None if there are no rows."""
        delayed_aggregator = delay(aggregator)
        # A copy for tasks, which receive their own partition, labels and weights.
        opener = delay(replace(self, collection=None, partition_labels=(), partition_weights=()))
        assert self.collection is not None  # only the copies in tasks have none
        partitions = _delayed_rows(self.collection, self.selection)
        parts = zip(partitions, self.partition_labels, self.partition_weights, strict=True)
        results = [
            delay(_aggregate_partition)(delayed_aggregator, opener, number, *part)
            for number, part in enumerate(parts)
        ]
        return cast("Result | None", compute(merge_tree(delayed_aggregator, results)))

    def with_row_offsets(self) -> DaskRows:
        """Return the same rows after counting those of each partition, unless they are known."""
        if self.row_offsets is not None:
            return self
        assert self.collection is not None  # only the copies in tasks have none
        sizes = count_rows(_delayed_rows(self.collection, self.selection))
        return replace(self, row_offsets=tuple(accumulate(sizes, initial=0)))

    def open_partition(
        self, partition: Partition, labels: LabelsLike, weights: WeightsLike, number: int = 0
    ) -> RowSource:
        """Open a non-empty partition.

        Parameters
        ----------
        partition : pandas data frame or numpy array
        labels, weights : array-like, CodedLabels, SingleGroup or None
            Labels and weights of its rows, unless they are columns of the selection.
        number : int
            Index of the partition, which gives the number of rows before it.

        Raises
        ------
        InvalidInput
            Missing column, wrong number of features, or inconsistent lengths.
        """
        n_rows = len(partition)
        selection = self.selection
        frame = as_eager_frame(partition)
        scaled_weights = check_sample_weight(weights, n_rows, may_be_zero=True)
        if scaled_weights is not None:  # divided by a power of two that all partitions share
            scaled_weights = selection.weight_scale.scale(scaled_weights)
        # Rows are assigned to folds by their position. If it is unknown, folds begin in each
        # partition.
        row_offset = 0 if self.row_offsets is None else self.row_offsets[number]
        # Groups in columns of the partition are read with the frame.
        groups = None
        if not selection.roles.groups:
            groups = resolve_labels(labels, n_rows, partition)
        if frame is not None:
            _check_partition_columns(frame.columns, selection.required_columns)
            rows = FrameRows.from_columns(
                densify_sparse_columns(frame), selection, groups=groups, weights=scaled_weights
            )
            return replace(rows, row_offset=row_offset)
        if partition.ndim != 2 or partition.shape[1] != self.n_features:
            raise InvalidInput(
                f"X has shape {partition.shape}",
                f"Allowed: rows of {counted(self.n_features, 'feature')}",
                "Correct the chunks of the array, or the function that creates its blocks",
            )
        assert groups is not None  # an array has no columns of groups
        return replace(
            ArrayRows.from_table(partition, selection.on_missing),
            groups=selection.known_labels.match(groups),
            weights=scaled_weights,
            # Weights are in units of 2**exponent, the same for all partitions.
            weight_exponent=selection.weight_scale.exponent,
            row_offset=row_offset,
        )


def _check_partition_columns(available: Sequence[str], required: Sequence[str]) -> None:
    """Check that a partition has the required columns; raises InvalidInput."""
    missing = [name for name in required if name not in available]
    if missing:
        raise InvalidInput(
            f"Column {format_list(missing)} is missing; the partition has {format_list(available)}",
            "Allowed: partitions with the columns of the whole data frame",
            "Give all partitions the same columns",
        )


class DaskAdapter(SourceAdapter):
    """Adapter for Dask arrays and data frames."""

    def accepts(self, X: TableLike) -> bool:
        """Return whether `X` is a Dask collection."""
        return is_from_package(X, "dask")

    def open(self, X: TableLike, metadata: RowMetadata, on_missing: OnMissing) -> DaskRows:
        """Open a Dask collection; groups and weights are columns or passed separately.

        Classes and clusters are columns.

        Raises
        ------
        InvalidType
            Unsupported collection.
        InvalidInput
            Non-numeric data, no features, a missing column, or inconsistent lengths.
        """
        opened = _open_collection(X, metadata, on_missing)
        selection = opened.selection
        sizes = opened.sizes
        partitions = _delayed_rows(opened.collection, selection)
        # Without divisions, each partition may number its rows from zero (those of CSV files do).
        has_index = bool(getattr(X, "known_divisions", False))
        # Groups and weights in columns of X are read with each partition; others are split.
        groups = metadata.groups
        separate_groups = None if selection.roles.groups else groups
        separate_weights = None if selection.roles.weights is not None else metadata.weights
        labels = _split_by_partition(
            separate_groups,
            partitions,
            sizes,
            name="sensitive_features",
            validate=partial(resolve_labels, groups, X=None),
            has_index=has_index,
        )
        weights = _split_by_partition(
            separate_weights,
            partitions,
            sizes,
            name="sample_weight",
            validate=partial(check_sample_weight, metadata.weights),
            has_index=has_index,
        )
        # The name of Dask labels is a task key; their meta object has the name of the column.
        names = source_column_names(getattr(groups, "_meta", groups))
        row_offsets = None if sizes is None else tuple(accumulate(sizes, initial=0))
        return DaskRows(opened.collection, selection, labels, weights, names, row_offsets)

    def map_rows(self, X: TableLike, row_map: RowMap) -> TableLike:
        """Apply a row function lazily, partition by partition, returning the same kind.

        Returns
        -------
        dask array (n, m) or (n,)
            Array of the precision of X (float32 or float64), with its row chunks. Reconstructions
            are always float64 arrays, even for data frames.
        dask data frame, or series
            Frame with the columns of the function, and the index and divisions of X.

        Raises
        ------
        InvalidType, InvalidInput
            Same as for `open`; a missing column or wrong number of features, before anything is
            computed.
        """
        meta = _meta_frame(X)
        if meta is None:
            return _map_array(_validate_array(X), row_map)
        frame = cast("DaskFrame", X)
        # Reconstructions do not look up columns by name, and have no index to keep.
        if row_map.input_kind == "coordinates":
            return _map_array(_validate_array(frame.to_dask_array()), row_map)
        return _map_frame(frame, meta, row_map)


class _OpenedCollection(NamedTuple):
    """Dask collection after its validation.

    Attributes
    ----------
    collection : dask array or data frame
    selection : ColumnSelection
    sizes : tuple of int or None
        Rows of each partition; None if unknown.
    """

    collection: DaskCollection
    selection: ColumnSelection
    sizes: tuple[int, ...] | None


def _open_collection(
    X: TableLike, metadata: RowMetadata, on_missing: OnMissing
) -> _OpenedCollection:
    """Validate a Dask collection, and select its columns.

    Raises
    ------
    InvalidType, InvalidInput
        Same as for :meth:`DaskAdapter.open`.
    """
    classes, clusters = class_and_cluster_columns(metadata)
    meta = _meta_frame(X)  # without rows, but with the columns and types of a data frame
    if meta is not None:
        frame_selection = _frame_selection(meta, metadata, on_missing)
        return _OpenedCollection(cast("DaskFrame", X), frame_selection, sizes=None)
    array = _validate_array(X)
    for name, column in (("y", classes), ("clusters", clusters)):
        if column is not None:  # raises: an array has no names of columns
            resolve_labels(column, 0, X=None, name=name)
    return _OpenedCollection(array, _array_selection(array, on_missing), rows_per_chunk(array))


def _array_selection(array: DaskArray, on_missing: OnMissing) -> ColumnSelection:
    """Select all columns of an array as features."""
    # Columns of an array have numbers for names, as those of pandas may have.
    columns = cast("tuple[str, ...]", tuple(range(array.shape[1])))
    return ColumnSelection(
        available=columns, vector_lengths={}, features=columns, on_missing=on_missing
    )


def _frame_selection(
    meta: nw.DataFrame[IntoDataFrame], metadata: RowMetadata, on_missing: OnMissing
) -> ColumnSelection:
    """Select the columns of a data frame with the empty frame `meta`, after a check of types."""
    selection = ColumnSelection.from_patterns(
        meta.columns,
        narwhals_vector_lengths(meta.schema),
        roles_in_frame(meta, metadata),
        on_missing=on_missing,
    )
    check_feature_names(selection.features)
    check_numeric(select_columns(meta, selection.features))
    return selection


def _map_array(X: DaskArray, row_map: RowMap) -> DaskArray:
    """Apply a row function lazily to each chunk of rows of a Dask array.

    Coordinates of float32 features are float32; reconstructions and scores are always float64.
    """
    check_n_columns(X.shape[1], row_map.n_inputs, row_map.input_kind)
    is_transform = row_map.affine is not None and row_map.input_kind == "features"
    keeps_float32 = X.dtype == np.float32 and is_transform
    width = len(row_map.output_names)
    # Result of an empty chunk, from which that of the others takes its dtype.
    empty = np.empty((0, width), X.dtype if keeps_float32 else np.float64)
    # rechunk: a chunk must have all columns.
    mapped = X.rechunk({1: -1}).map_blocks(
        _transform_block,
        function=row_map.function,
        empty=empty,
        # The same rows in each chunk, and one column for each output.
        chunks=(X.chunks[0], (width,)),
        meta=empty[:, :0],
    )
    # A function that is not affine gives one number for each row.
    return mapped[:, 0] if row_map.affine is None else mapped


def _map_frame(X: DaskFrame, meta: nw.DataFrame[IntoDataFrame], row_map: RowMap) -> DaskFrame:
    """Apply a row function of features lazily to each partition of a Dask data frame.

    `meta` is the empty frame with the columns and types of `X`.
    """
    selection = ColumnSelection.from_patterns(
        meta.columns, narwhals_vector_lengths(meta.schema), ColumnRoles()
    )
    if row_map.feature_names is not None:
        selection = selection.select_features(row_map.feature_names)
    check_n_columns(len(selection.feature_names), row_map.n_inputs, "features")
    check_numeric(select_columns(meta, selection.features))
    features = _select_columns(X, selection)
    output_names = list(row_map.output_names)
    mapped = features.map_partitions(
        _transform_partition,
        # Keyword arguments are passed to tasks unchanged.
        function=row_map.function,
        columns=output_names,
        meta=_transform_partition(features._meta, row_map.function, output_names),
    )
    # A function that is not affine gives one number for each row: a series.
    return mapped[row_map.output_names[0]] if row_map.affine is None else mapped


def _meta_frame(X: object) -> nw.DataFrame[IntoDataFrame] | None:
    """Return the empty meta frame of a Dask data frame; None for anything else."""
    meta = as_eager_frame(getattr(X, "_meta", None))
    return None if meta is None else densify_sparse_columns(meta)


def _delayed_rows(collection: DaskCollection, selection: ColumnSelection) -> list[Delayed]:
    """Return the delayed partitions, each with all columns of the selection."""
    if is_dask_array(collection):
        return delayed_partitions(collection.rechunk({1: -1}))  # one chunk of columns
    return delayed_partitions(_select_columns(collection, selection))


def _select_columns(frame: DaskFrame, selection: ColumnSelection) -> DaskFrame:
    """Return the required columns of a data frame."""
    # If all columns are needed, partitions are checked on opening, with a better error message.
    needs_all = len(selection.required_columns) == len(selection.available)
    return frame if needs_all else frame[list(selection.required_columns)]


def _validate_array(X: TableLike) -> DaskArray:
    """Return `X` if it is a Dask array of numpy blocks, with two dimensions and a numeric dtype.

    Raises
    ------
    InvalidType, InvalidInput
    """
    collection = cast("DaskCollection", X)
    if not is_dask_array(collection) or not isinstance(collection._meta, np.ndarray):
        blocks = ""
        if is_dask_array(collection):
            blocks = f" of {type(collection._meta).__name__} blocks"
        raise InvalidType(
            f"X is a Dask {type(X).__name__}{blocks}",
            "Allowed: Dask arrays of numpy blocks, and Dask data frames",
            "Convert it, for example with to_dask_dataframe() or map_blocks(numpy.asarray)",
        )
    # An unknown number of rows is allowed.
    check_shape(tuple(1 if np.isnan(size) else int(size) for size in collection.shape))
    if np.isnan(collection.shape[-1]):
        raise InvalidInput(
            "X has an unknown number of columns",
            "Allowed: arrays whose number of features is known",
            "Call X.compute_chunk_sizes() first",
        )
    check_dtype(collection.dtype)
    return collection


def _transform_block(
    block: AnyArray,
    function: RowFunction,
    empty: AnyArray,
    block_id: tuple[int, ...] = (),
) -> FloatArray:
    """Apply a function to an array block; dtype and trailing shape follow `empty`.

    Dask fills in `block_id`, the position of the block.
    """
    if len(block) == 0:
        return empty
    with add_error_context(f"partition {block_id[0]}"), threadpool_limits(1):
        return function(block).astype(empty.dtype, copy=False).reshape(-1, *empty.shape[1:])


def _transform_partition(
    frame: pd.DataFrame,
    function: RowFunction,
    columns: list[str],
    partition_info: Mapping[str, int] | None = None,
) -> pd.DataFrame:
    """Apply a function to a data frame partition, keeping its index.

    Dask fills in `partition_info` for the partitions; the empty meta frame has none.
    """
    # The function, which raises for a frame without rows, is not called on one.
    values = np.empty((0, len(columns)))
    if len(frame):
        assert partition_info is not None
        with add_error_context(f"partition {partition_info['number']}"), threadpool_limits(1):
            values = function(frame)
    # Use the partition's own class: Dask supports more than pandas.
    return type(frame)(values, index=frame.index, columns=columns)


def _split_by_partition(
    values: LabelsLike | WeightsLike,
    partitions: Sequence[Delayed],
    sizes: tuple[int, ...] | None,
    name: str,
    validate: Callable[[int], CodedLabels | FloatArray | None],
    *,
    has_index: bool,
) -> Sequence[DelayedValues]:
    """Split labels or weights along the partitions of X, into one delayed object for each.

    Parameters
    ----------
    values : Dask collection, values in memory, SingleGroup, or None
    partitions : sequence of delayed partitions of X
    sizes : tuple of int or None
        Rows per partition; None if unknown, in which case values in memory cost one extra pass over
        X to count rows.
    name : str
        Name of the values in messages.
    validate : callable
        Validates values in memory for a given number of rows, and returns them as CodedLabels or
        array.
    has_index : bool
        Whether the index of X identifies its rows.

    Raises
    ------
    InvalidInput
        Inconsistent lengths, or a different number of partitions.
    """
    if values is None or isinstance(values, SingleGroup):
        return [values] * len(partitions)
    if is_dask_collection(values):
        return _split_collection(values, len(partitions), sizes, name)
    if isinstance(values, str):
        validate(0)  # raises before rows are counted: an array has no names of columns
    if sizes is None:
        sizes = count_rows(partitions)
    validated = validate(sum(sizes))
    assert validated is not None  # as are the values
    slices = [slice(start, stop) for start, stop in pairwise(accumulate(sizes, initial=0))]
    # The index of the values travels with them, so that the task can compare it with that of X.
    index = pandas_index(values) if has_index else None
    if index is None:
        return [delay(validated[rows]) for rows in slices]
    return [delay(_IndexedPart(validated[rows], index[rows])) for rows in slices]


def _split_collection(
    values: DaskCollection, n_partitions: int, sizes: tuple[int, ...] | None, name: str
) -> list[Delayed]:
    """Split labels or weights in a Dask collection along the partitions of X.

    Returns one delayed object for each partition. An array is divided into chunks of `sizes` rows,
    if the sizes of both are known. Otherwise partitions must correspond already; their lengths are
    checked when they are read.
    """
    if is_dask_array(values):
        value_sizes = rows_per_chunk(values)
        if value_sizes is not None and sizes is not None:
            check_consistent_length(sum(sizes), sum(value_sizes), name)
            values = values.rechunk({0: sizes})
        if values.ndim == 2:  # several group columns: each chunk must have all of them
            values = values.rechunk({1: -1})
    parts = delayed_partitions(values)
    if len(parts) != n_partitions:
        raise InvalidInput(
            f"X has {counted(n_partitions, 'partition')}, but {name} has {len(parts)}",
            "Allowed: partitions with the same rows",
            f"Partition {name} like X, for example with repartition(divisions=X.divisions), or add "
            "it to X as a column and pass its name",
        )
    return parts
