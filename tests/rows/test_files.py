"""Rows of files and folders, in one process and in several, against what was written."""

import csv
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from fairspan import FileRows, GroupMoments
from fairspan.errors import FairspanWarning, InvalidInput


def values_of(rows):
    return np.concatenate([block.values for block in rows.blocks()])


def labels_of(rows):
    return [label for block in rows.blocks() for label in block.groups.to_list()]


def rows_of_text(path, text, **choice):
    path.write_text(text, newline="")
    return FileRows.open(path, **choice)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.csv"


WRITERS = {
    "parquet": lambda frame, path: frame.to_parquet(path, row_group_size=600),
    "feather": lambda frame, path: frame.to_feather(path, chunksize=600),
    "csv": lambda frame, path: frame.to_csv(path, index=False),
}


@pytest.mark.usefixtures("small_csv_blocks")
@pytest.mark.parametrize("ending", WRITERS)
def test_many_blocks_are_numbered_and_add_up(tmp_path, monkeypatch, ending):
    monkeypatch.setattr("fairspan.rows.blocks._BLOCK_ENTRIES", 1)  # blocks of 512 rows
    rng = np.random.default_rng(0)
    n, p = 2_000, 24
    X = rng.integers(-9, 10, (n, p)).astype("int8")
    names = [f"x{i}" for i in range(p)]
    labels = rng.choice(["a", "b", "c"], n)
    path = tmp_path / f"many.{ending}"
    WRITERS[ending](pd.DataFrame(X, columns=names).assign(g=labels), path)
    rows = FileRows.open(path, group_columns=["g"])
    blocks = list(rows.blocks())
    assert len(blocks) > 5
    assert rows.n_rows == (None if ending == "csv" else n)
    expected = 0
    for block in blocks:  # numbered from 0 in each row group of Parquet
        assert block.first_row in (expected, 0 if ending == "parquet" else expected)
        expected = block.first_row + len(block.values)
    np.testing.assert_array_equal(values_of(rows), X)  # reading again starts from the beginning
    assert labels_of(rows) == labels.tolist()
    moments = GroupMoments.from_rows(rows, None)
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
    assert values_of(rows)[:, 0].tolist() == [float(value) for value in COLUMNS[kind].to_pylist()]


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
        assert labels_of(FileRows.open(tmp_path / name, group_columns=["g"])) == ["a", "b", "a"]


def test_column_names_with_dots_and_brackets(tmp_path):
    frame = pd.DataFrame([[1.0, 2, 3, 4]], columns=["x", "x.1", "y[0]", "y.z"])
    frame.to_parquet(tmp_path / "t.parquet")
    rows = FileRows.open(tmp_path / "t.parquet").select_features(("y.z", "x", "y[0]"))
    assert values_of(rows).tolist() == [[4.0, 1.0, 3.0]]


def test_the_index_that_pandas_wrote_is_no_feature_unless_named(tmp_path):
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "id": [7, 8, 5]}).set_index("id")
    frame.to_parquet(path)
    assert FileRows.open(path).feature_names == tuple(pd.read_parquet(path).columns)
    assert FileRows.open(path, features=["*"]).feature_names == ("x", "id")
    assert FileRows.open(path, group_columns=["id"]).feature_names == ("x",)
    frame.rename_axis(None).to_parquet(path)
    assert parquet.read_schema(path).names == ["x", "__index_level_0__"]
    assert FileRows.open(path).feature_names == ("x",)


def test_features_are_matched_by_name_in_any_order(path):
    rows = rows_of_text(path, "a,note,b\n1,x,2\n").select_features(("b", "a"))
    assert (rows.feature_names, values_of(rows).tolist()) == (("b", "a"), [[2.0, 1.0]])
    with pytest.raises(InvalidInput, match="no column 'c'"):
        rows.select_features(("a", "c"))


def test_a_folder_may_hold_empty_parts(tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2.0], "g": ["a", "b"]})
    frame.iloc[:0].to_parquet(tmp_path / "0.parquet")
    frame.to_parquet(tmp_path / "1.parquet")
    rows = FileRows.open(tmp_path, group_columns=["g"])
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
        match=r"Column 'g' is (large_)?string in .*2.parquet, but int64 in .*1.parquet",
    ):
        GroupMoments.from_rows(FileRows.open(tmp_path, group_columns=["g"]), None)


_READ_ALL = """
import sys, pyarrow
from fairspan import GroupMoments
moments = GroupMoments.from_rows(sys.argv[1], "g")
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
    process = subprocess.run(
        [sys.executable, "-c", _READ_ALL, path], capture_output=True, text=True, check=True
    )
    n_rows, most = map(int, process.stdout.split())
    assert n_rows == 400_000
    assert most < 40e6


def write(folder, name, **columns):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(columns)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".feather":
        frame.to_feather(path)
    else:
        frame.to_parquet(path, index=False)
    return path


def test_sub_folders_name_columns_of_integers_or_text(tmp_path):
    write(tmp_path, "year=2023/sex=f/a.parquet", x=[1.0, 2.0])
    write(tmp_path, "year=2024/sex=m/b.parquet", x=[3.0])
    rows = FileRows.open(tmp_path, group_columns=["sex"])
    assert rows.feature_names == ("x", "year")
    assert values_of(rows).tolist() == [[1, 2023], [2, 2023], [3, 2024]]
    assert labels_of(rows) == ["f", "f", "m"]
    assert GroupMoments.from_rows(tmp_path, ["sex", "year"]).labels == [("f", 2023), ("m", 2024)]


def test_text_that_resembles_a_number_is_text(tmp_path):
    write(tmp_path, "zip=01/a.parquet", x=[1.0])
    write(tmp_path, "zip=1/b.parquet", x=[2.0])
    assert labels_of(FileRows.open(tmp_path, group_columns=["zip"])) == ["01", "1"]


def test_names_are_unquoted_and_no_value_is_a_missing_label(tmp_path):
    write(tmp_path, "g=a%20b/a.parquet", x=[1.0, 5.0])
    write(tmp_path, "g=__HIVE_DEFAULT_PARTITION__/b.parquet", x=[2.0])
    with pytest.raises(
        InvalidInput, match=r"b\.parquet, row group 0: .*row 1 \(index 0\) is missing"
    ):
        GroupMoments.from_rows(tmp_path, "g")
    moments = GroupMoments.from_rows(tmp_path, "g", on_missing="drop")
    assert moments.labels == ["a b"]
    assert moments.n_dropped == 1


@pytest.mark.parametrize("ending", ["csv", "feather", "parquet"])
def test_folders_of_each_kind(tmp_path, ending):
    write(tmp_path, f"part=0/1.{ending}", x=[1.5, 2.0], g=["a", "b"])
    write(tmp_path, f"part=1/2.{ending}", x=[3.0], g=["b"])
    write(tmp_path, f"_notes/3.{ending}", y=[3.0])
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden.parquet").write_bytes(b"none of ours")
    rows = FileRows.open(tmp_path, group_columns=["g"])
    assert values_of(rows).tolist() == [[1.5, 0], [2, 0], [3, 1]]
    assert labels_of(rows) == ["a", "b", "b"]


def test_a_column_in_the_file_comes_before_the_name_of_its_folder(tmp_path):
    write(tmp_path, "g=a/1.parquet", x=[1.0], g=["own"])
    assert labels_of(FileRows.open(tmp_path, group_columns=["g"])) == ["own"]


def test_files_of_other_depth_or_kind_or_none(tmp_path):
    with pytest.raises(InvalidInput, match="contains no data files"):
        FileRows.open(tmp_path)
    write(tmp_path, "g=a/1.parquet", x=[1.0])
    write(tmp_path, "2.parquet", x=[1.0])
    with pytest.raises(InvalidInput, match=r"is under 'g', but .*2\.parquet is under"):
        FileRows.open(tmp_path)
    (tmp_path / "2.parquet").unlink()
    write(tmp_path, "2.csv", x=[1.0])
    with pytest.raises(InvalidInput, match="csv, parquet"):
        FileRows.open(tmp_path)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"x": [1.0], "g": ["a"]}, "it lacks 'y'"),
        ({"x": [1.0], "y": [2.0], "z": [2.0], "g": ["a"]}, "it also has 'z'"),
        (
            {"x": [1.0], "y": ["text"], "g": ["a"]},
            "Column 'y' is large_string in .*, but double in",
        ),
        ({"x": [1.0], "y": [True], "g": ["a"]}, "Column 'y' is bool in .*, but"),
    ],
)
def test_one_file_of_another_schema_is_named(tmp_path, other, message):
    write(tmp_path, "1.parquet", x=[1.0], y=[2.0], g=["a"])
    write(tmp_path, "2.parquet", **other)
    with pytest.raises(InvalidInput, match=message) as error:
        FileRows.open(tmp_path, group_columns=["g"])
    assert str(tmp_path / "2.parquet") in str(error.value)


def test_columns_in_another_order_and_of_another_width_are_the_same(tmp_path):
    write(tmp_path, "1.parquet", x=np.array([1, 2], np.int8), y=[0.5, 1], g=["a", "b"])
    write(tmp_path, "2.parquet", g=["b"], y=np.array([2], np.float32), x=[3.0])
    assert values_of(FileRows.open(tmp_path, group_columns=["g"])).tolist() == [
        [1, 0.5],
        [2, 1],
        [3, 2],
    ]


@pytest.mark.parametrize("name", ["--5", "9223372036854775808", "-", "9" * 30])
def test_folders_of_what_is_no_number_or_too_large_a_one_are_text(tmp_path, name):
    write(tmp_path, f"g={name}/a.parquet", x=[1.0])
    write(tmp_path, "g=1/b.parquet", x=[2.0])
    assert sorted(labels_of(FileRows.open(tmp_path, group_columns=["g"]))) == sorted([name, "1"])


def test_no_value_among_numbers_is_missing(tmp_path):
    write(tmp_path, "year=__HIVE_DEFAULT_PARTITION__/a.parquet", x=[1.0, 5.0], g=["a", "b"])
    write(tmp_path, "year=2024/b.parquet", x=[2.0, 4.0], g=["a", "b"])
    by_year = GroupMoments.from_rows(
        FileRows.open(tmp_path, ["year"], ["x"], on_missing="drop"), None
    )
    assert (by_year.labels, by_year.n_dropped) == ([2024], 2)
    as_feature = GroupMoments.from_rows(tmp_path, "g", on_missing="drop")
    assert as_feature.means.tolist() == [[2.0, 2024.0], [4.0, 2024.0]]
    assert as_feature.n_dropped == 2
    with pytest.raises(InvalidInput, match=r"NaN, first in row 1 \(index 0\), column 'year'"):
        GroupMoments.from_rows(tmp_path, "g")


def test_a_file_in_which_nothing_is_known_of_a_column(tmp_path):
    write(tmp_path, "a.parquet", x=[None, None], g=["a", "b"])
    write(tmp_path, "b.parquet", x=[2.0, 4.0], g=["a", "b"])
    moments = GroupMoments.from_rows(tmp_path, "g", on_missing="drop")
    assert moments.means.tolist() == [[2.0], [4.0]]
    assert moments.n_dropped == 2
    with pytest.raises(
        InvalidInput, match=r"a\.parquet, row group 0: .*NaN, first in row 1 \(index 0\)"
    ):
        GroupMoments.from_rows(tmp_path, "g")


def test_files_that_are_passed_over_are_named(tmp_path):
    write(tmp_path, "1.parquet", x=[1.0], g=["a"])
    write(tmp_path, "2.parquet", x=[1.0], g=["b"]).rename(tmp_path / "2")
    with pytest.warns(FairspanWarning, match="skipped: '2'"):
        FileRows.open(tmp_path, group_columns=["g"])


def test_names_of_folders_and_a_column_of_another_kind_are_refused(tmp_path):
    write(tmp_path, "g=a/1.parquet", x=[1.0])
    write(tmp_path, "g=b/2.parquet", x=[1.0], g=[2.5])
    with pytest.raises(InvalidInput, match=r"Column 'g' is double in .*, but string in"):
        FileRows.open(tmp_path, group_columns=["g"])


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
@pytest.mark.usefixtures("small_csv_blocks")
def test_fractions_after_a_block_of_integers(path, late, expected):
    check_late_fraction(path, 2_500, late, expected)


@pytest.mark.slow
def test_a_fraction_after_a_megabyte_of_integers(path):
    check_late_fraction(path, 150_000, "0.5", 0.5)
    assert path.stat().st_size > 1 << 20


def check_late_fraction(path, n, late, expected):
    rows = rows_of_text(path, "x,y\n" + "123,4567\n" * n + f"1,{late}\n")
    values = values_of(rows)
    assert values.shape == (n + 1, 2)
    assert values[-1].tolist() == [1.0, expected]
    assert np.unique(values[:-1], axis=0).tolist() == [[123.0, 4567.0]]


@pytest.mark.usefixtures("small_csv_blocks")
def test_text_after_a_block_of_numbers_is_an_error(path):
    rows = rows_of_text(path, "x,y\n" + "123,4567\n" * 2_500 + "1,many\n")
    with pytest.raises(InvalidInput, match="'many' in line 2502 of column 'y'"):
        values_of(rows)


@pytest.mark.usefixtures("small_csv_blocks")
def test_a_block_of_missing_cells_is_an_error_that_names_the_first(path):
    rows = rows_of_text(path, "x,y\n" + "123,\n" * 4_000 + "1,0.5\n")
    with pytest.raises(InvalidInput, match=r"NaN, first in line 2, column 'y'"):
        values_of(rows)


@pytest.mark.parametrize("cell", ["", "NA", "NaN", "null", "nan", "N/A"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_missing_cells_and_labels(path, cell, quote):
    text = f"x,g\n1,a\n2,{quote}{cell}{quote}\n"
    with pytest.raises(InvalidInput, match=r"label in line 3 is missing"):
        GroupMoments.from_rows(rows_of_text(path, text, group_columns=["g"]), None)
    text = f"x,g\n1,a\n{cell},b\n"
    with pytest.raises(InvalidInput, match=r"NaN, first in line 3, column 'x'"):
        GroupMoments.from_rows(rows_of_text(path, text, group_columns=["g"]), None)


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
    rows = rows_of_text(path, f"{header}\n{line}\n", group_columns=["g"])
    assert rows.feature_names == tuple(names[:-1])
    assert values_of(rows).tolist() == [numbers]


def test_the_ending_tsv_outweighs_commas_in_names(tmp_path):
    rows = rows_of_text(tmp_path / "t.tsv", "a,b,c,d\te\n1\t2\n")
    assert rows.feature_names == ("a,b,c,d", "e")


@pytest.mark.parametrize("text", ["x,g\r\n1,a\r\n2,b\r\n", "\nx,g\n1,a\n2,b", "x,g\n1,a\n\n2,b\n"])
def test_line_ends_and_empty_lines(path, text):
    rows = rows_of_text(path, text, group_columns=["g"])
    assert (values_of(rows).tolist(), labels_of(rows)) == ([[1.0], [2.0]], ["a", "b"])


@pytest.mark.usefixtures("small_csv_blocks")
def test_line_breaks_within_quotes_wherever_blocks_meet(path):
    label = 'a "long"\nlabel, of two lines' + "!" * 50
    quoted = '"' + label.replace('"', '""') + '"'
    n = 2_000
    rows = rows_of_text(
        path, "x,g\n" + "".join(f"{i},{quoted}\n" for i in range(n)), group_columns=["g"]
    )
    assert path.stat().st_size > 10 << 14
    np.testing.assert_array_equal(values_of(rows)[:, 0], np.arange(n))
    assert set(labels_of(rows)) == {label}


def test_labels_are_text_unless_a_feature_has_the_same_column(path):
    rows = rows_of_text(path, "x,g\n1,01\n0.5,1\n2,1.0\n", group_columns=["g"])
    assert labels_of(rows) == ["01", "1", "1.0"]
    rows = rows_of_text(path, "x,g\n1,2\n0.5,3\n", group_columns=["g"]).select_features(("x", "g"))
    assert values_of(rows).tolist() == [[1.0, 2.0], [0.5, 3.0]]
    assert labels_of(rows) == [2, 3]
    assert {type(label) for label in labels_of(rows)} == {float}


@pytest.mark.usefixtures("small_csv_blocks")
def test_labels_that_look_like_numbers_in_the_first_block_only(path):
    lines = ["x,g", *["0.5,1"] * 4_000, "0.5,x"]
    rows = rows_of_text(path, "\n".join(lines) + "\n", group_columns=["g"])
    assert set(labels_of(rows)) == {"1", "x"}


def test_a_column_without_a_name_is_dropped_with_a_warning(path):
    with pytest.warns(FairspanWarning, match="unnamed column is ignored"):
        rows = rows_of_text(path, ",x,g\n0,1,a\n1,2,b\n", group_columns=["g"])
    assert rows.feature_names == ("x",)


def test_identifiers_that_double_precision_would_round_are_reported(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(f"id,y,g\n{2**53 + 1},1,a\n{2**53 + 3},2,a\n7,3,b\n")
    with pytest.warns(FairspanWarning, match="'id' are rounded"):
        GroupMoments.from_rows(path, "g")


@pytest.fixture
def file_of_row_groups(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((1_000, 4)), columns=list("wxyz"))
    frame["g"] = rng.choice(["a", "b"], 1_000)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    return tmp_path / "rows.parquet"


@pytest.mark.long
def test_any_number_of_processes_gives_the_same_bits(file_of_row_groups):
    rows = FileRows.open(file_of_row_groups, ["g"])
    alone = GroupMoments.from_rows(rows, None).to_bytes()
    for jobs in (1, 3):
        assert GroupMoments.from_rows(replace(rows, n_jobs=jobs), None).to_bytes() == alone


@pytest.mark.long
def test_an_error_comes_back_with_the_place_it_is_about(file_of_row_groups):
    frame = pd.read_parquet(file_of_row_groups)
    frame.loc[17 * 50 + 3, "y"] = np.nan
    frame.to_parquet(file_of_row_groups, row_group_size=50)
    rows = replace(FileRows.open(file_of_row_groups, ["g"]), n_jobs=2)
    with pytest.raises(
        InvalidInput, match=r"row group 17: X contains NaN, first in row 4 \(index 3\), .*'y'"
    ):
        GroupMoments.from_rows(rows, None)


@pytest.mark.long
def test_results_that_nobody_takes_end_the_processes_without_a_word(file_of_row_groups):
    """Two parts have more groups together than each of them, so that merging fails."""
    frame = pd.read_parquet(file_of_row_groups)
    frame.loc[frame.index[:50], "g"] = "c"
    frame.to_parquet(file_of_row_groups, row_group_size=50)
    rows = replace(FileRows.open(file_of_row_groups, ["g"]), n_jobs=2)
    with pytest.raises(InvalidInput, match="3 groups among 100 rows so far"):
        GroupMoments.from_rows(rows, None, max_groups=2)
