"""Rows of Dask collections restored from their coordinates, and scored, when they are asked for."""

from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fairspan.rows.checks import check_width
from fairspan.rows.engines import located
from fairspan.rows.protocol import Projection
from fairspan.typing import FloatArray

# What is computed of the rows of one partition.
Function = Callable[[Any], FloatArray]


def restored_array(Z: Any, projection: Projection) -> Any:
    """Rows in the original features, as a Dask array (n, p).

    Raises
    ------
    InvalidInput
        Another number of coordinates.
    """
    d, p = projection.components.shape
    check_width(Z.shape[1], d, "coordinates")
    return Z.rechunk({1: -1}).map_blocks(
        _of_block,
        function=projection.inverse_transform,
        empty=(0, p),
        chunks=(Z.chunks[0], (p,)),
        meta=np.empty((0, 0)),
    )


def scored_array(X: Any, score: Function) -> Any:
    """One number for each row, as a Dask array (n,)."""
    whole = X.rechunk({1: -1})
    return whole.map_blocks(_of_block, function=score, empty=(0,), drop_axis=1, meta=np.empty(0))


def scored_data_frame(X: Any, score: Function) -> Any:
    """One number for each row, as a Dask series with the index of X."""
    return X.map_partitions(_of_frame, function=score, meta=_of_frame(X._meta, score))


def _of_block(block: Any, function: Function, empty: Any, block_id: Any = None) -> FloatArray:
    if len(block) == 0:
        return np.empty(empty)
    with located(f"partition {block_id[0]}"), threadpool_limits(1):
        return function(block)


def _of_frame(frame: Any, function: Function, partition_info: Any = None) -> Any:
    values = np.empty(0)
    if len(frame):
        with located(f"partition {partition_info['number']}"), threadpool_limits(1):
            values = function(frame)
    return type(frame)(values, index=frame.index, columns=["score"])["score"]
