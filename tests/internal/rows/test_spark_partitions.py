"""Functions that a task of Spark applies to its batches of rows, without Spark."""

import pickle
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from fairspan import GroupMoments
from fairspan.errors import InvalidInput
from fairspan.moments.group_moments import MomentsAggregator
from fairspan.rows import spark
from fairspan.rows.column_selection import ColumnRoles, ColumnSelection
from fairspan.rows.row_adapters import RowMap

ROWS = np.random.default_rng(0).normal(size=(9, 3))
GROUPS = ["a", "b", "b"] * 3


@pytest.fixture(autouse=True)
def _number_of_the_partition(monkeypatch):
    monkeypatch.setattr(spark, "_partition_number", lambda: 4)


def batches(size):
    """Batches of the rows and their groups, whose columns have their positions as names."""
    columns = [*map(pa.array, ROWS.T), pa.array(GROUPS)]
    table = pa.table(columns, names=[str(i) for i in range(len(columns))])
    return iter(table.to_batches(max_chunksize=size))


@pytest.mark.parametrize("size", [4, 9])
def test_batches_of_a_partition_are_aggregated_to_one_result(size):
    roles = ColumnRoles(groups=("g",))
    selection = ColumnSelection.from_patterns(["x", "y", "z", "g"], {}, roles)
    (batch,) = spark._aggregate_partition(MomentsAggregator(), selection, batches(size))
    outcome = batch.to_pylist()[0]
    assert (outcome["part"], outcome["error"]) == (4, None)
    moments = pickle.loads(outcome["result"])
    np.testing.assert_allclose(moments.means, GroupMoments.from_rows(ROWS, GROUPS).means)
    assert list(spark._aggregate_partition(MomentsAggregator(), selection, iter([]))) == []


def test_features_are_transformed_and_other_columns_stay():
    def double(table):
        assert table.column_names == ["x", "y", "z"]
        return 2 * np.column_stack([column.to_numpy() for column in table.columns])

    row_map = RowMap(double, 3, "features", ("x", "y", "z"), ("p", "q", "r"))
    transformed_batches = list(
        spark._transform_partition(row_map, ["x", "y", "z"], ["g"], batches(4))
    )
    table = pa.Table.from_batches(transformed_batches)
    assert table.column_names == ["p", "q", "r", "g"]
    values = [table[name].to_numpy() for name in ("p", "q", "r")]
    np.testing.assert_array_equal(np.column_stack(values), 2 * ROWS)
    assert table["g"].to_pylist() == GROUPS


def test_another_number_of_features_is_refused_before_a_job_starts(monkeypatch):
    monkeypatch.setattr(spark, "_validate_frame", lambda frame: frame)
    identity = (np.zeros(3), np.eye(3), np.zeros(3))
    row_map = RowMap(np.asarray, 3, "features", None, ("p", "q", "r"), identity)
    with pytest.raises(InvalidInput, match="2 features"):
        spark.SparkAdapter().map_rows(SimpleNamespace(columns=["x", "y"]), row_map)
