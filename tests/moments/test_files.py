"""Rows of files, against what was written into them."""

import csv

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from fairspan.errors import FairspanError, InvalidInput
from fairspan.moments.accumulate import accumulate
from fairspan.moments.sources import RowSource
from fairspan.moments.sources.files import FileRows


def values_of(rows):
    return np.concatenate([block.values for block in rows.blocks()])


def labels_of(rows):
    return [label for block in rows.blocks() for label in block.labels]


def rows_of_text(path, text, **choice):
    path.write_text(text, newline="")
    return FileRows.open(path, **choice)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.csv"


def test_a_file_is_a_source_of_rows(path):
    assert isinstance(rows_of_text(path, "x,y\n1,2\n"), RowSource)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # the file is written anew
)
@given(
    st.integers(1, 4).flatmap(
        lambda p: st.lists(
            st.lists(
                st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
                min_size=p,
                max_size=p,
            ),
            min_size=1,
            max_size=8,
        )
    ),
    st.sampled_from([",", ";", "\t", "|"]),
)
def test_numbers_in_csv_are_read_exactly(path, table, delimiter):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow([f"x{i}" for i in range(len(table[0]))])
        writer.writerows([repr(number) for number in row] for row in table)
    np.testing.assert_array_equal(values_of(FileRows.open(path)), np.array(table, dtype=float))


@pytest.mark.parametrize(
    ("late", "expected"), [("0.5", 0.5), ("-3e-7", -3e-7), ("7", 7.0), ("1e300", 1e300)]
)
def test_fractions_after_a_megabyte_of_whole_numbers(path, late, expected):
    n = 150_000
    rows = rows_of_text(path, "x,y\n" + "123,4567\n" * n + f"1,{late}\n")
    assert path.stat().st_size > 1 << 20
    values = values_of(rows)
    assert values.shape == (n + 1, 2)
    assert values[-1].tolist() == [1.0, expected]
    assert np.unique(values[:-1], axis=0).tolist() == [[123.0, 4567.0]]


def test_text_after_a_megabyte_of_numbers_is_an_error(path):
    rows = rows_of_text(path, "x,y\n" + "123,4567\n" * 150_000 + "1,many\n")
    with pytest.raises(InvalidInput, match="'many'"):
        values_of(rows)


def test_a_megabyte_of_missing_cells_is_an_error_that_names_the_first(path):
    rows = rows_of_text(path, "x,y\n" + "123,\n" * 250_000 + "1,0.5\n")
    with pytest.raises(InvalidInput, match="NaN, first in row 0, column 'y'"):
        values_of(rows)


@pytest.mark.parametrize("written", ["", "NA", "NaN", "null", "nan", "N/A"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_missing_cells_and_labels(path, written, quote):
    text = f"x,g\n1,a\n2,{quote}{written}{quote}\n"
    with pytest.raises(InvalidInput, match="label in row 1 is missing"):
        accumulate(rows_of_text(path, text, groups=["g"]))
    text = f"x,g\n1,a\n{written},b\n"
    with pytest.raises(InvalidInput, match="NaN, first in row 1, column 'x'"):
        accumulate(rows_of_text(path, text, groups=["g"]))


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [
        ("x;y;g", ";"),
        ("x|y|g", "|"),
        ("x\ty\tg", "\t"),
        ('"x, net";y;g', ";"),
        ('"x; net; of tax","y; net; or gross, rather",g', ","),
        ("x, net;y, gross;z;g", ";"),
        ("\ufeffx;y;g", ";"),
    ],
)
def test_the_delimiter_is_found_in_the_header(path, header, delimiter):
    names = next(csv.reader([header.removeprefix("\ufeff")], delimiter=delimiter))
    numbers = [float(i) for i in range(len(names) - 1)]
    line = delimiter.join([*map(str, numbers), "a"])
    rows = rows_of_text(path, f"{header}\n{line}\n", groups=["g"])
    assert rows.feature_names == tuple(names[:-1])
    assert values_of(rows).tolist() == [numbers]


def test_the_ending_tsv_outweighs_commas_in_names(tmp_path):
    rows = rows_of_text(tmp_path / "t.tsv", "a,b,c,d\te\n1\t2\n")
    assert rows.feature_names == ("a,b,c,d", "e")


def test_a_single_column(path):
    rows = rows_of_text(path, "x\n1\n2\n")
    assert (rows.feature_names, values_of(rows).tolist()) == (("x",), [[1.0], [2.0]])


@pytest.mark.parametrize("text", ["x,g\r\n1,a\r\n2,b\r\n", "\nx,g\n1,a\n2,b", "x,g\n1,a\n\n2,b\n"])
def test_line_ends_and_empty_lines(path, text):
    rows = rows_of_text(path, text, groups=["g"])
    assert (values_of(rows).tolist(), labels_of(rows)) == ([[1.0], [2.0]], ["a", "b"])


def test_line_breaks_within_quotes_wherever_blocks_meet(path):
    label = 'a "long"\nlabel, of two lines' + "!" * 50
    quoted = '"' + label.replace('"', '""') + '"'
    n = 40_000
    rows = rows_of_text(path, "x,g\n" + "".join(f"{i},{quoted}\n" for i in range(n)), groups=["g"])
    assert path.stat().st_size > 3 << 20
    np.testing.assert_array_equal(values_of(rows)[:, 0], np.arange(n))
    assert set(labels_of(rows)) == {label}


def test_labels_keep_their_type_also_where_a_feature_has_the_same_column(path):
    rows = rows_of_text(path, "x,g\n1,2\n0.5,3\n", groups=["g"]).selected(("x", "g"))
    assert values_of(rows).tolist() == [[1.0, 2.0], [0.5, 3.0]]
    assert labels_of(rows) == [2, 3]
    assert {type(label) for label in labels_of(rows)} == {int}


def test_several_group_columns_make_tuples(path):
    rows = rows_of_text(path, "x,g,h\n1,a,1\n2,b,2\n", groups=["h", "g"])
    assert labels_of(rows) == [(1, "a"), (2, "b")]


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
    ends = np.cumsum([len(block.values) for block in blocks])
    assert [block.first_row for block in blocks] == [0, *ends[:-1].tolist()]
    np.testing.assert_array_equal(values_of(rows), X)  # reading again starts from the beginning
    assert labels_of(rows) == labels.tolist()
    moments = accumulate(rows)
    for position, label in enumerate("abc"):
        group = X[labels == label].astype(float)
        assert moments.counts[position] == len(group)
        np.testing.assert_allclose(moments.means[position], group.mean(axis=0), atol=1e-12)
        expected = np.cov(group.T, ddof=0) * len(group)
        np.testing.assert_allclose(moments.scatters[position], expected, rtol=1e-9, atol=1e-7)


def test_column_types_of_parquet(tmp_path):
    path = tmp_path / "types.parquet"
    columns = {
        "int8": pa.array([1, -2], pa.int8()),
        "uint64": pa.array([2**40, 3], pa.uint64()),
        "float16": pa.array(np.array([0.5, 2], dtype=np.float16)),
        "float32": pa.array([0.25, 1], pa.float32()),
        "decimal": pa.array(["1.5", "-2.25"]).cast(pa.decimal128(5, 2)),
        "bool": pa.array([True, False]),
    }
    parquet.write_table(pa.table(columns), path)
    expected = [[1, 2**40, 0.5, 0.25, 1.5, 1], [-2, 3, 2, 1, -2.25, 0]]
    assert values_of(FileRows.open(path)).tolist() == expected


@pytest.mark.parametrize("kind", [pa.int32(), pa.bool_(), pa.float64()], ids=str)
def test_nulls_of_parquet_are_missing_cells(tmp_path, kind):
    path = tmp_path / "nulls.parquet"
    parquet.write_table(pa.table({"x": pa.array([1, 1, None]).cast(kind)}), path)
    with pytest.raises(InvalidInput, match="NaN, first in row 2, column 'x'"):
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
    with pytest.raises(InvalidInput, match="mix whole number with text"):
        accumulate(FileRows.open(tmp_path, groups=["g"]))


@pytest.mark.parametrize("ending", WRITERS)
def test_a_damaged_file_is_an_error_of_ours_or_still_numbers(tmp_path, ending):
    rng = np.random.default_rng(0)
    path = tmp_path / f"t.{ending}"
    WRITERS[ending](pd.DataFrame({"x": [0.5, 1.5, 2.5], "g": ["a", "b", "a"]}), path)
    whole = path.read_bytes()
    refused = 0
    for position in range(0, len(whole), 1 + len(whole) // 200):
        damaged = bytearray(whole)
        damaged[position] ^= rng.integers(1, 256)
        path.write_bytes(damaged)
        try:
            blocks = list(FileRows.open(path, groups=["g"], features=["x"]).blocks())
        except FairspanError:
            refused += 1
        else:
            assert all(np.isfinite(block.values).all() for block in blocks)
    assert refused > 0
