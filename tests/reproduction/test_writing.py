"""Tables, CSV and figures."""

import csv
import re

import pytest

from fairspan.formatting.terminal_text import terminal_width
from reproduction.experiment import Result
from reproduction.writing import csv_of, shown, text_of, write_result

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


WIDE = Result(
    "A title that is longer than a narrow terminal has columns",
    ("data", "d", *(f"figure {i}" for i in range(12))),
    [(data, d, *(d / 3 + i for i in range(12))) for data in ("東京", "credit") for d in (1, 2)],
)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_columns_that_do_not_fit_follow_below_beside_those_that_name_the_rows(width):
    lines = text_of(WIDE, width).splitlines()
    assert max(map(terminal_width, lines)) <= width
    tables = "\n".join(lines).split("\n\n")[1:]
    assert len(tables) > 1
    headings = [re.split(r"\s{2,}", table.splitlines()[0]) for table in tables]
    assert all(heading[:2] == ["data", "d"] for heading in headings)
    assert [name for heading in headings for name in heading[2:]] == list(WIDE.columns[2:])
    for table, heading in zip(tables, headings, strict=True):
        assert len({terminal_width(line) for line in table.splitlines()[:2]}) == 1
        for line, row in zip(table.splitlines()[2:], WIDE.rows, strict=True):
            cells = [shown(row[WIDE.columns.index(name)]) for name in heading]
            assert line.split() == cells


def test_csv_keeps_every_digit():
    rows = list(csv.DictReader(csv_of(RESULT).splitlines()))
    assert float(rows[0]["value"]) == 1 / 3
    assert (rows[0]["count"], rows[2]["count"], rows[0]["note"]) == ("3", "", "")


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


def test_no_file_is_left_where_drawing_fails(tmp_path):
    pytest.importorskip("matplotlib")

    def broken(figure):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_result(Result("t", ("a",), [(1,)], draw=broken), tmp_path, "one")
    assert [path.name for path in tmp_path.iterdir()] == ["one.csv"]
