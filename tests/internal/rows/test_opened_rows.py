"""Opened rows: groups, classes and clusters apart, in blocks, and as often as they are read."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fairspan.extending import RowSource
from fairspan.moments.group_moments import MomentsAggregator
from fairspan.rows.aggregation import PartitionedRows
from fairspan.rows.opening import open_group_rows, open_rows
from rows import dask_cluster


@pytest.mark.parametrize("kind", ["array", "pandas", "pyarrow chunks"])
def test_a_source_can_be_read_twice(kind):
    rng = np.random.default_rng(12)
    X = rng.integers(0, 100, (40, 3)).astype(float)
    groups = rng.choice(["f", "m"], 40)
    table = X
    if kind == "pandas":
        table = pd.DataFrame(X, columns=list("xyz"))
    elif kind == "pyarrow chunks":
        parts = [pa.table(dict(zip("xyz", part.T, strict=True))) for part in (X[:7], X[7:])]
        table = pa.concat_tables(parts)
    source = open_group_rows(table, groups)
    assert isinstance(source, RowSource)
    assert source.n_rows == 40
    for _ in range(2):
        blocks = list(source.blocks())
        np.testing.assert_array_equal(np.vstack([block.values for block in blocks]), X)
        assert [label for block in blocks for label in block.groups.to_list()] == groups.tolist()


@pytest.mark.parametrize("on_missing", ["error", "drop"])
def test_groups_classes_and_clusters_are_read_apart(tmp_path, on_missing):
    frame = pd.DataFrame(
        {"x": [1.0, 2.0, 3.0], "sex": ["f", "m", "f"], "age": [1, 2, 1], "hired": [0, 1, 1]}
    ).assign(person=["p", "q", "p"])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    metadata = {"y": "hired", "clusters": "person", "on_missing": on_missing}
    values = {**metadata, "y": frame["hired"], "clusters": frame["person"]}
    groups = ["sex", "age"]
    for rows in (
        open_rows(frame, groups, **metadata),
        open_rows(frame[["x"]].to_numpy(), frame[groups], **values),
        open_rows(frame[["x", *groups]], groups, **values),
        open_rows(tmp_path / "rows.csv", groups, **metadata),
        open_rows(tmp_path / "rows.parquet", groups, **metadata),
    ):
        assert (rows.has_classes, rows.has_clusters, rows.n_features) == (True, True, 1)
        (block,) = rows.blocks()
        assert [str(b) for _, b in block.groups.to_list()] == ["1", "2", "1"]
        assert [str(label) for label in block.classes.to_list()] == ["0", "1", "1"]
        assert block.clusters.to_list() == ["p", "q", "p"]


def test_rows_without_a_class_or_a_cluster_are_dropped_as_those_without_a_group():
    metadata = {"y": [0, None, 1, 1], "clusters": ["p", "q", None, "r"], "on_missing": "drop"}
    rows = open_rows(np.arange(4.0)[:, None], ["a", "a", "b", "b"], **metadata)
    (block,) = rows.blocks()
    assert block.values.tolist() == [[0.0], [3.0]]
    assert block.positions.tolist() == [0, 3]
    assert block.dropped_rows.groups.to_list() == ["a", "b"]


def test_blocks_of_wide_vectors_stay_small():
    wide = np.random.default_rng(1).standard_normal((3_000, 600))
    face = pa.FixedSizeListArray.from_arrays(wide.ravel(), 600)
    rows = open_group_rows(pa.table({"face": face}), ["a"] * 3_000)
    assert max(len(block.values) for block in rows.blocks()) <= 1_200


@pytest.mark.slow
def test_a_collection_is_opened_once_and_can_be_read_again():
    import dask
    import dask.array as da
    import dask.dataframe as dd

    X, groups, _ = dask_cluster.rows()
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names).assign(sex=groups)
    rows = open_group_rows(dd.from_pandas(frame, npartitions=7), "sex")
    assert isinstance(rows, PartitionedRows)
    assert (rows.n_features, rows.feature_names, rows.n_rows) == (4, tuple(names), None)
    assert open_group_rows(da.from_array(X, chunks=(90, 3)), groups).n_rows == len(X)
    with dask.config.set(scheduler="synchronous"):
        first, second = (rows.aggregate(MomentsAggregator()).to_bytes() for _ in range(2))
    assert first == second
