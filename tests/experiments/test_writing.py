"""Tables, CSV and figures."""

import csv
import math
import sys

import pytest

from fairspan.experiments.experiment import Result
from fairspan.experiments.writing import csv_of, text_of, write_result

RESULT = Result(
    "A title",
    ("name", "count", "value", "note"),
    [("first", 3, 1 / 3, None), ("the second", 10, 12345.678, "far"), ("third", None, 2e-12, None)],
    ("A note that is " + "long " * 30,),
)


def test_the_table_is_aligned():
    title, _, head, rule, *rows = text_of(RESULT).splitlines()[:7]
    assert title == "A title"
    assert head == "name        count    value  note"
    assert rule == "----------  -----  -------  ----"
    assert rows == [
        "first           3  0.33333",
        "the second     10    12346  far",
        "third                2e-12",
    ]


def test_notes_are_wrapped():
    notes = text_of(RESULT).split("\n\n")[-1].splitlines()
    assert notes[0].startswith("A note that is long")
    assert len(notes) == 2
    assert max(map(len, notes)) <= 100


def test_csv_keeps_every_digit():
    rows = list(csv.DictReader(csv_of(RESULT).splitlines()))
    assert float(rows[0]["value"]) == 1 / 3
    assert (rows[0]["count"], rows[2]["count"], rows[0]["note"]) == ("3", "", "")


def test_numpy_floats_are_numbers_in_csv():
    numpy = pytest.importorskip("numpy")
    result = Result("t", ("a", "b"), [(numpy.float64(0.1), math.inf)])
    assert csv_of(result) == "a,b\n0.1,inf\n"


def test_a_row_has_one_value_for_each_column():
    with pytest.raises(ValueError, match="2 columns, but a row of 1"):
        Result("t", ("a", "b"), [(1,)])


def drawn(figure):
    figure.subplots().plot([1, 2], [3, 4], label="line")


def test_figures_are_the_same_bytes_each_time(tmp_path):
    pytest.importorskip("matplotlib")
    result = Result("t", ("a",), [(1,)], draw=drawn)
    contents = []
    for name in ("one", "two"):
        paths, missing = write_result(result, tmp_path, name)
        assert [path.name for path in paths] == [f"{name}.{end}" for end in ("csv", "svg", "png")]
        assert missing is None
        contents.append([path.read_bytes() for path in paths])
    assert contents[0] == contents[1]
    assert contents[0][1].startswith(b"<?xml")
    assert contents[0][2].startswith(b"\x89PNG")


def test_without_matplotlib_the_table_comes_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    paths, missing = write_result(Result("t", ("a",), [(1,)], draw=drawn), tmp_path, "one")
    assert [path.name for path in tmp_path.iterdir()] == ["one.csv"] == [paths[0].name]
    assert 'pip install "fairspan[plot]"' in missing


def test_no_file_is_left_where_drawing_fails(tmp_path):
    pytest.importorskip("matplotlib")

    def broken(figure):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_result(Result("t", ("a",), [(1,)], draw=broken), tmp_path, "one")
    assert [path.name for path in tmp_path.iterdir()] == ["one.csv"]
