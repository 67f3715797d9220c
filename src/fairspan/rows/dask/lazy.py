"""Rows of Dask collections reduced, restored and scored lazily, partition by partition."""

from collections.abc import Callable, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from threadpoolctl import threadpool_limits

from fairspan.rows.checks import check_width
from fairspan.rows.dask.partitions import columns_of
from fairspan.rows.engines import located
from fairspan.rows.numbers import check_numeric, collapsed, expanded, vector_lengths
from fairspan.rows.protocol import Projection
from fairspan.typing import AnyArray

# What is computed of the rows of one partition.
Function = Callable[[Any], AnyArray]


def reduced_array(X: Any, projection: Projection) -> Any:
    """The rows of a Dask array reduced when they are asked for.

    Raises
    ------
    InvalidInput
        Another number of features.
    """
    d, p = projection.components.shape
    check_width(X.shape[1], p, "features")
    dtype = X.dtype if X.dtype == np.float32 else np.dtype(np.float64)
    return _mapped(X, projection.transform, dtype, d)


def restored_array(Z: Any, projection: Projection) -> Any:
    """Rows in the original features, as a Dask array (n, p).

    Raises
    ------
    InvalidInput
        Another number of coordinates.
    """
    d, p = projection.components.shape
    check_width(Z.shape[1], d, "coordinates")
    return _mapped(Z, projection.inverse_transform, np.dtype(np.float64), p)


def scored_array(X: Any, score: Function) -> Any:
    """One number for each row, as a Dask array (n,)."""
    empty = np.empty(0)
    return X.rechunk({1: -1}).map_blocks(
        _of_block, function=score, empty=empty, drop_axis=1, meta=empty
    )


def reduced_data_frame(X: Any, meta: nw.DataFrame[Any], projection: Projection) -> Any:
    """The rows of a Dask data frame reduced when they are asked for; `meta` are its columns.

    Raises
    ------
    InvalidInput
        A missing column, columns that hold no numbers, or another number of features.
    """
    columns, lengths = meta.columns, vector_lengths(meta.schema)
    if projection.feature_names is not None:
        columns = list(collapsed(projection.feature_names, columns, lengths))
    check_width(len(expanded(columns, lengths)), projection.components.shape[1], "features")
    check_numeric(columns_of(meta, columns).schema)
    # Where all are needed, each partition is checked by its task, whose error says more.
    chosen = X if columns == meta.columns else X[columns]
    return _mapped_frame(chosen, projection.transform, projection.component_names)


def scored_data_frame(X: Any, score: Function) -> Any:
    """One number for each row, as a Dask series with the index of X."""
    return _mapped_frame(X, score, ["score"])["score"]


def _mapped(array: Any, function: Function, dtype: Any, width: int) -> Any:
    return array.rechunk({1: -1}).map_blocks(
        _of_block,
        function=function,
        empty=np.empty((0, width), dtype),
        chunks=(array.chunks[0], (width,)),
        meta=np.empty((0, 0), dtype),
    )


def _mapped_frame(frame: Any, function: Function, columns: Sequence[str]) -> Any:
    # As named arguments, which Dask hands on as they are.
    return frame.map_partitions(
        _of_frame,
        function=function,
        columns=list(columns),
        meta=_of_frame(frame._meta, function, list(columns)),
    )


def _of_block(block: Any, function: Function, empty: Any, block_id: Any = None) -> Any:
    """What a task computes of a block of an array, in the precision of `empty`."""
    if len(block) == 0:
        return empty
    with located(f"partition {block_id[0]}"), threadpool_limits(1):
        return function(block).astype(empty.dtype, copy=False)


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
