"""Rows of Dask collections reduced lazily, partition by partition."""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from threadpoolctl import threadpool_limits

from fairspan.rows.checks import check_width
from fairspan.rows.dask.partitions import columns_of
from fairspan.rows.engines import located
from fairspan.rows.frames import check_numeric, vector_lengths
from fairspan.rows.protocol import Projection
from fairspan.rows.vector_columns import collapsed, expanded


def reduced_array(X: Any, projection: Projection) -> Any:
    """The rows of a Dask array reduced when they are asked for.

    Raises
    ------
    InvalidInput
        Another number of features.
    """
    check_width(X.shape[1], projection.components.shape[1], "features")
    dtype = X.dtype if X.dtype == np.float32 else np.dtype(np.float64)
    return X.rechunk({1: -1}).map_blocks(
        _reduced_block,
        projection=projection,
        chunks=(X.chunks[0], (len(projection.components),)),
        meta=np.empty((0, 0), dtype),
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
    # As a named argument, which Dask hands on as it is.
    return chosen.map_partitions(
        _reduced_frame, projection=projection, meta=_reduced_frame(chosen._meta, projection)
    )


def _reduced_block(block: Any, projection: Projection, block_id: Any = None) -> Any:
    """A block of an array, transformed, in its own precision (float32 or float64)."""
    dtype = block.dtype if block.dtype == np.float32 else np.float64
    if len(block) == 0:
        return np.empty((0, len(projection.components)), dtype)
    with located(f"partition {block_id[0]}"), threadpool_limits(1):
        return projection.transform(block).astype(dtype, copy=False)


def _reduced_frame(frame: Any, projection: Projection, partition_info: Any = None) -> Any:
    """A partition of a data frame, transformed; the index is kept."""
    values = np.empty((0, len(projection.components)))
    if len(frame):
        with located(f"partition {partition_info['number']}"), threadpool_limits(1):
            values = projection.transform(frame)
    # By the frame's own class, as pandas is not the only one that Dask cuts into partitions.
    return type(frame)(values, index=frame.index, columns=list(projection.component_names))
