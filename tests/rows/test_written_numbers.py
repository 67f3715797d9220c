"""Numbers in CSV files as people write them, and codes for missing values."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan import FileRows, GroupMoments
from fairspan.errors import InvalidInput, InvalidParameter

INCOMES = ["3,404", "465", "1,250", "980"]


def write_file(tmp_path, cells, delimiter=";", name="rows.csv"):
    path = tmp_path / name
    lines = [f"{cell}{delimiter}{'ab'[i % 2]}" for i, cell in enumerate(cells)]
    path.write_text("\n".join([f"x{delimiter}g", *lines, ""]), encoding="utf-8")
    return path


def column(path, **settings):
    rows = FileRows.open(path, ["g"], **settings)
    return np.concatenate([block.values[:, 0] for block in rows.blocks()]).tolist()


@pytest.mark.parametrize(
    ("cells", "settings", "expected"),
    [
        (INCOMES, {"thousands": ","}, [3404, 465, 1250, 980]),
        (["-1,234.5", "+2,000", "1e3", ".5"], {"thousands": ","}, [-1234.5, 2000, 1000, 0.5]),
        (["1.234,5", "12", "0,25"], {"thousands": ".", "decimal": ","}, [1234.5, 12, 0.25]),
        (["1 234", "1\u00a0234", "1\u202f234\u2009567"], {"thousands": " "}, [1234, 1234, 1234567]),
        (["1'234.5", "1\u2019234"], {"thousands": "'"}, [1234.5, 1234]),
        ([" 1,234 ", "12,345,678"], {"thousands": ","}, [1234, 12345678]),
    ],
)
def test_separated_thousands_are_read(tmp_path, cells, settings, expected):
    assert column(write_file(tmp_path, cells), csv=settings) == expected


def test_quoted_commas_between_commas_are_read(tmp_path):
    path = write_file(tmp_path, [f'"{cell}"' for cell in INCOMES], ",")
    assert column(path, csv={"thousands": ","}) == [3404, 465, 1250, 980]


@pytest.mark.parametrize(
    "cell", ["1,2", "1,23", "1,2345", "0,123", "1234,567", "1,23,456", ",234", "1,234,", "1.5,000"]
)
def test_a_comma_that_does_not_separate_thousands_is_refused(tmp_path, cell):
    path = write_file(tmp_path, [*INCOMES, cell])
    with pytest.raises(InvalidInput, match="x"):
        GroupMoments.from_rows(FileRows.open(path, ["g"], csv={"thousands": ","}), None)


@pytest.mark.usefixtures("small_csv_blocks")
def test_a_wrong_cell_beyond_the_first_block_is_named_with_its_line(tmp_path):
    path = write_file(tmp_path, ["1,234"] * 4_000 + ["1,2"])
    with pytest.raises(InvalidInput, match=r"'1,2' in line 4002 of column 'x'"):
        column(path, csv={"thousands": ","})


@pytest.mark.usefixtures("small_csv_blocks")
def test_advice_for_a_cell_beyond_the_first_block(tmp_path):
    path = write_file(tmp_path, ["1234"] * 4_000 + ["1,234"])
    with pytest.raises(InvalidInput, match="'1,234' in line 4002") as error:
        column(path)
    assert "csv={'decimal': ','} reads '1,234' as 1.234" in str(error.value)


@pytest.mark.parametrize(
    "settings",
    [{"thousands": "x"}, {"thousands": "."}, {"thousands": ",", "decimal": ","}, {"thousands": ""}],
)
def test_other_separators_are_refused(tmp_path, settings):
    with pytest.raises(InvalidParameter, match="thousands is"):
        FileRows.open(write_file(tmp_path, INCOMES), ["g"], csv=settings)


@pytest.mark.slow
@given(
    st.lists(st.floats(-1e12, 1e12) | st.integers(-(10**12), 10**12), min_size=1, max_size=8),
    st.sampled_from([(",", "."), (".", ","), (" ", "."), (" ", ","), ("'", "."), ("'", ",")]),
)
def test_numbers_that_python_writes_with_separators_are_read_exactly(tmp_path, numbers, marks):
    thousands, decimal = marks
    cells = [
        f"{number:,.3f}".replace(",", "T").replace(".", decimal).replace("T", thousands)
        for number in numbers
    ]
    path = write_file(tmp_path, cells)
    expected = [float(f"{number:.3f}") for number in numbers]
    assert column(path, csv={"thousands": thousands, "decimal": decimal}) == expected


CODES = pd.DataFrame({"x": [1.5, -99.0, 3.0, 999.0, 5.0], "n": [1, 2, -99, 4, 5]})
CODES["g"] = ["a", "b", "?", "b", "a"]


def save_file(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_feather(path)
    return path


def complete(rows):
    return np.vstack([block.values for block in rows.blocks()]).tolist()


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize("codes", [[-99, 999, "?"], ["-99.0", "999", " ? "], [-99.0, 999.0, "?"]])
def test_codes_are_missing_values_in_every_kind_of_file(tmp_path, suffix, codes):
    path = save_file(CODES, tmp_path / f"rows.{suffix}")
    rows = FileRows.open(path, ["g"], na_values=codes, on_missing="drop")
    assert complete(rows) == [[1.5, 1.0], [5.0, 5.0]]
    with pytest.raises(InvalidInput, match="NaN"):
        complete(FileRows.open(path, ["g"], na_values=codes))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_codes_of_one_column(tmp_path, suffix):
    path = save_file(CODES, tmp_path / f"rows.{suffix}")
    rows = FileRows.open(path, ["g"], na_values={"n": -99, "x": [999]}, on_missing="drop")
    assert complete(rows) == [[1.5, 1.0], [-99.0, 2.0], [5.0, 5.0]]


def test_a_group_label_that_is_a_code_is_a_missing_label(tmp_path):
    path = save_file(CODES.assign(g=["1", "01", "9", "9.0", "2"]), tmp_path / "rows.csv")
    rows = FileRows.open(path, ["g"], na_values={"g": 9}, on_missing="drop")
    labels = [label for block in rows.blocks() for label in block.groups.to_list()]
    assert labels == ["1", "01", "2"]


def test_a_vector_with_a_code_has_a_missing_entry(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    vectors = pa.array([[1.0, 2.0], [-9.0, 4.0], None, [5.0, 6.0]], pa.list_(pa.float64(), 2))
    parquet.write_table(pa.table({"v": vectors, "g": list("abab")}), tmp_path / "rows.parquet")
    rows = FileRows.open(tmp_path / "rows.parquet", ["g"], na_values=-9, on_missing="drop")
    assert complete(rows) == [[1.0, 2.0], [5.0, 6.0]]


def test_texts_and_blanks_make_a_column_of_numbers_one_of_text_no_more(tmp_path):
    path = write_file(tmp_path, ["1.5", " ? ", "   ", "#DIV/0!", "-", "2"])
    rows = FileRows.open(path, ["g"], na_values=["?", "", "#DIV/0!", "-"], on_missing="drop")
    assert complete(rows) == [[1.5], [2.0]]


def test_codes_with_separators(tmp_path):
    path = write_file(tmp_path, ["3,404", "-99", "1,250", "-9,999", "?"])
    settings = {"csv": {"thousands": ","}, "na_values": [-99, -9999, "?"], "on_missing": "drop"}
    assert complete(FileRows.open(path, ["g"], **settings)) == [[3404.0], [1250.0]]


def test_a_column_of_codes_that_the_file_lacks_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="'weight'"):
        FileRows.open(write_file(tmp_path, INCOMES), ["g"], na_values={"weight": -99})


@pytest.mark.parametrize("values", [[None], [True], {"x": [object()]}, [b"?"]])
def test_other_codes_are_refused(tmp_path, values):
    with pytest.raises(InvalidParameter, match="na_values contains"):
        FileRows.open(write_file(tmp_path, INCOMES), ["g"], na_values=values)


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        (["3,404", "465", "1,25"], "FileRows.open(path, group_columns, csv={'decimal': ','})"),
        (["1.000,5", "465"], "csv={'thousands': '.', 'decimal': ','}"),
        (["3,404", "465"], "csv={'thousands': ','} reads '3,404' as 3404; csv={"),
        (["1.5", "?", "#DIV/0!"], "na_values=['?', '#DIV/0!']"),
        (["1.5", "none"], "na_values={'x': ['none']}"),
    ],
)
def test_programs_get_the_advice_too(tmp_path, cells, advice):
    path = write_file(tmp_path, cells)
    for rows in (path, FileRows.open(path, ["g"])):
        with pytest.raises(InvalidInput, match="is not numeric") as error:
            GroupMoments.from_rows(rows, "g" if rows is path else None)
        assert advice in str(error.value)


def test_columns_of_names_get_no_such_advice(tmp_path):
    with pytest.raises(InvalidInput, match="is not numeric") as error:
        GroupMoments.from_rows(write_file(tmp_path, ["Ann", "Bob", "?"]), "g")
    assert "csv=" not in str(error.value)
    assert "na_values" not in str(error.value)
