"""Rows of CSV files, against what was written into them."""

import csv

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairspan import FileRows, GroupMoments
from fairspan.errors import FairspanWarning, InvalidInput
from fairspan.moments.of_rows import accumulate
from rows.file_rows import labels_of, rows_of_text, values_of


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.csv"


@settings(
    derandomize=True,
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
    with pytest.raises(InvalidInput, match="'many' in row 150001 of the column 'y'"):
        values_of(rows)


def test_a_megabyte_of_missing_cells_is_an_error_that_names_the_first(path):
    rows = rows_of_text(path, "x,y\n" + "123,\n" * 250_000 + "1,0.5\n")
    with pytest.raises(InvalidInput, match=r"NaN, first in row 1 \(index 0\), column 'y'"):
        values_of(rows)


@pytest.mark.parametrize("written", ["", "NA", "NaN", "null", "nan", "N/A"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_missing_cells_and_labels(path, written, quote):
    text = f"x,g\n1,a\n2,{quote}{written}{quote}\n"
    with pytest.raises(InvalidInput, match=r"label in row 2 \(index 1\) is missing"):
        accumulate(rows_of_text(path, text, groups=["g"]))
    text = f"x,g\n1,a\n{written},b\n"
    with pytest.raises(InvalidInput, match=r"NaN, first in row 2 \(index 1\), column 'x'"):
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


def test_labels_are_text_unless_a_feature_has_the_same_column(path):
    rows = rows_of_text(path, "x,g\n1,01\n0.5,1\n2,1.0\n", groups=["g"])
    assert labels_of(rows) == ["01", "1", "1.0"]
    rows = rows_of_text(path, "x,g\n1,2\n0.5,3\n", groups=["g"]).selected(("x", "g"))
    assert values_of(rows).tolist() == [[1.0, 2.0], [0.5, 3.0]]
    assert labels_of(rows) == [2, 3]
    assert {type(label) for label in labels_of(rows)} == {float}


def test_labels_that_look_like_numbers_in_the_first_megabyte_only(path):
    lines = ["x,g", *["0.5,1"] * 300_000, "0.5,x"]
    rows = rows_of_text(path, "\n".join(lines) + "\n", groups=["g"])
    assert set(labels_of(rows)) == {"1", "x"}


def test_a_column_without_a_name_is_left_out_with_a_warning(path):
    with pytest.warns(FairspanWarning, match="without a name is left out"):
        rows = rows_of_text(path, ",x,g\n0,1,a\n1,2,b\n", groups=["g"])
    assert rows.feature_names == ("x",)


def test_several_group_columns_make_tuples(path):
    rows = rows_of_text(path, "x,g,h\n1,a,1\n2,b,2\n", groups=["h", "g"])
    assert labels_of(rows) == [("1", "a"), ("2", "b")]


def test_identifiers_that_double_precision_would_round_are_told(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(f"id,y,g\n{2**53 + 1},1,a\n{2**53 + 3},2,a\n7,3,b\n")
    with pytest.warns(FairspanWarning, match="'id', so some that differ become the same"):
        GroupMoments.from_rows(path, "g")
