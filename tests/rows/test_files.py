"""Rows of files, against what was written into them."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from fairspan import FileRows
from fairspan.errors import InvalidInput
from fairspan.moments.of_rows import accumulate
from rows.file_rows import labels_of, rows_of_text, values_of


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.csv"


WRITERS = {
    "parquet": lambda frame, path: frame.to_parquet(path, row_group_size=3_000),
    "feather": lambda frame, path: frame.to_feather(path, chunksize=3_000),
    "csv": lambda frame, path: frame.to_csv(path, index=False),
}


@pytest.mark.parametrize("ending", WRITERS)
def test_many_blocks_are_numbered_and_add_up(tmp_path, ending):
    rng = np.random.default_rng(0)
    n, p = 20_000, 96
    X = rng.integers(-9, 10, (n, p)).astype("int8")
    names = [f"x{i}" for i in range(p)]
    labels = rng.choice(["a", "b", "c"], n)
    path = tmp_path / f"many.{ending}"
    WRITERS[ending](pd.DataFrame(X, columns=names).assign(g=labels), path)
    rows = FileRows.open(path, groups=["g"])
    blocks = list(rows.blocks())
    assert len(blocks) > 5
    assert rows.n_rows == (None if ending == "csv" else n)
    expected = 0
    for block in blocks:  # numbered from 0 in each row group of Parquet
        assert block.first_row in (expected, 0 if ending == "parquet" else expected)
        expected = block.first_row + len(block.values)
    np.testing.assert_array_equal(values_of(rows), X)  # reading again starts from the beginning
    assert labels_of(rows) == labels.tolist()
    moments = accumulate(rows)
    for position, label in enumerate("abc"):
        group = X[labels == label].astype(float)
        assert moments.counts[position] == len(group)
        np.testing.assert_allclose(moments.means[position], group.mean(axis=0), atol=1e-12)
        expected = np.cov(group.T, ddof=0) * len(group)
        np.testing.assert_allclose(moments.scatters[position], expected, rtol=1e-9, atol=1e-7)


COLUMNS = {
    "int8": pa.array([1, -2], pa.int8()),
    "uint64": pa.array([2**40, 3], pa.uint64()),
    "float16": pa.array(np.array([0.5, 2], dtype=np.float16)),
    "float32": pa.array([0.25, 1], pa.float32()),
    "decimal": pa.array(["1.5", "-2.25"]).cast(pa.decimal128(5, 2)),
    "bool": pa.array([True, False]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_column_types_of_parquet(tmp_path, kind):
    if kind == "float16":
        pytest.importorskip("narwhals", "2.24", reason="older narwhals do not know Arrow's float16")
    parquet.write_table(pa.table({kind: COLUMNS[kind]}), tmp_path / "types.parquet")
    rows = FileRows.open(tmp_path / "types.parquet")
    assert values_of(rows)[:, 0].tolist() == [float(each) for each in COLUMNS[kind].to_pylist()]


@pytest.mark.parametrize("kind", [pa.int32(), pa.bool_(), pa.float64()], ids=str)
def test_nulls_of_parquet_are_missing_cells(tmp_path, kind):
    path = tmp_path / "nulls.parquet"
    parquet.write_table(pa.table({"x": pa.array([1, 1, None]).cast(kind)}), path)
    with pytest.raises(InvalidInput, match=r"NaN, first in row 3 \(index 2\), column 'x'"):
        values_of(FileRows.open(path))


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["a", "b"]), pl.String], ids=str)
def test_labels_written_by_polars(tmp_path, kind):
    frame = pl.DataFrame({"x": [1.0, 2, 3], "g": pl.Series(["a", "b", "a"], dtype=kind)})
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ipc(tmp_path / "t.arrow")
    for name in ("t.parquet", "t.arrow"):
        assert labels_of(FileRows.open(tmp_path / name, groups=["g"])) == ["a", "b", "a"]


def test_column_names_with_dots_and_brackets(tmp_path):
    frame = pd.DataFrame([[1.0, 2, 3, 4]], columns=["x", "x.1", "y[0]", "y.z"])
    frame.to_parquet(tmp_path / "t.parquet")
    rows = FileRows.open(tmp_path / "t.parquet").selected(("y.z", "x", "y[0]"))
    assert values_of(rows).tolist() == [[4.0, 1.0, 3.0]]


def test_the_index_that_pandas_wrote_is_no_feature_unless_named(tmp_path):
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "id": [7, 8, 5]}).set_index("id")
    frame.to_parquet(path)
    assert FileRows.open(path).feature_names == tuple(pd.read_parquet(path).columns)
    assert FileRows.open(path, features=["*"]).feature_names == ("x", "id")
    assert FileRows.open(path, groups=["id"]).feature_names == ("x",)
    frame.rename_axis(None).to_parquet(path)
    assert parquet.read_schema(path).names == ["x", "__index_level_0__"]
    assert FileRows.open(path).feature_names == ("x",)


def test_features_are_matched_by_name_in_any_order(path):
    rows = rows_of_text(path, "a,note,b\n1,x,2\n").selected(("b", "a"))
    assert (rows.feature_names, values_of(rows).tolist()) == (("b", "a"), [[2.0, 1.0]])
    with pytest.raises(InvalidInput, match="no column 'c'"):
        rows.selected(("a", "c"))


def test_a_folder_may_hold_empty_parts(tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2.0], "g": ["a", "b"]})
    frame.iloc[:0].to_parquet(tmp_path / "0.parquet")
    frame.to_parquet(tmp_path / "1.parquet")
    rows = FileRows.open(tmp_path, groups=["g"])
    assert (rows.n_rows, values_of(rows).tolist(), labels_of(rows)) == (
        2,
        [[1.0], [2.0]],
        ["a", "b"],
    )


def test_parts_with_labels_of_different_types_are_an_error(tmp_path):
    pd.DataFrame({"x": [1.0], "g": [1]}).to_parquet(tmp_path / "1.parquet")
    pd.DataFrame({"x": [1.0], "g": ["1"]}).to_parquet(tmp_path / "2.parquet")
    with pytest.raises(
        InvalidInput,
        match=r"2.parquet holds (large_)?string in column 'g', but .*1.parquet holds int64",
    ):
        accumulate(FileRows.open(tmp_path, groups=["g"]))


_READ_ALL = """
import sys, pyarrow
from fairspan.moments.of_rows import accumulate
from fairspan.rows.files.file_rows import FileRows
moments = accumulate(FileRows.open(sys.argv[1], groups=["g"]))
print(int(moments.counts.sum()), pyarrow.default_memory_pool().max_memory())
"""


@pytest.mark.long
def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "tall.parquet"
    names = [*(f"x{i}" for i in range(20)), "g"]
    columns = [*np.random.default_rng(0).standard_normal((20, 20_000)), ["a", "b"] * 10_000]
    part = pa.table(dict(zip(names, columns, strict=True)))
    with parquet.ParquetWriter(str(path), part.schema) as file:
        for _ in range(20):
            file.write_table(part)
    assert path.stat().st_size > 60e6
    done = subprocess.run(
        [sys.executable, "-c", _READ_ALL, path], capture_output=True, text=True, check=True
    )
    n_rows, most = map(int, done.stdout.split())
    assert n_rows == 400_000
    assert most < 40e6
