"""Advice on CSV files in the terms of a program in Python: following it reads the file."""

import numpy as np
import pytest

from fairspan import FairPCA, FileRows
from fairspan.errors import InvalidInput, InvalidParameter

# Texts of a file, the advice of the error, what following it passes, and the column of numbers.
ADVICE = {
    "thousands": (
        'x,g\n"1,250.5",a\n980,b\n465,a\n',
        "csv={'thousands': ','}",
        {"csv": {"thousands": ","}},
        [1250.5, 980, 465],
    ),
    "both marks": (
        "x;g\n1.250,5;a\n980;b\n465;a\n",
        "csv={'thousands': '.', 'decimal': ','}",
        {"csv": {"thousands": ".", "decimal": ","}},
        [1250.5, 980, 465],
    ),
    "codes": (
        "x,g\n1.5,a\n?,b\n4,b\n3,a\n",
        "na_values=['?'], on_missing='drop'",
        {"na_values": ["?"], "on_missing": "drop"},
        [1.5, 4, 3],
    ),
    "words": (
        "x,g\n1.5,a\nnone,b\n4,b\n3,a\n",
        "na_values={'x': ['none']}, on_missing='drop'",
        {"na_values": {"x": ["none"]}, "on_missing": "drop"},
        [1.5, 4, 3],
    ),
}


@pytest.mark.parametrize(("text", "advice", "arguments", "numbers"), ADVICE.values(), ids=ADVICE)
def test_following_the_advice_reads_the_column(tmp_path, text, advice, arguments, numbers):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(InvalidInput) as error:
        FairPCA(1).fit(path, sensitive_features="g")
    message = str(error.value)
    assert f"FileRows.open(path, group_columns, {advice})" in message
    assert "--" not in message
    rows = FileRows.open(path, ["g"], **arguments)
    (block,) = rows.blocks()
    np.testing.assert_allclose(block.values[:, 0], numbers)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_the_encoding_that_an_error_names_reads_the_file(tmp_path, encoding):
    path = tmp_path / "rows.csv"
    path.write_text("x,g\n1.5,\u00e4\n4,b\n", encoding=encoding)
    with pytest.raises(InvalidInput) as error:
        FairPCA(1).fit(path, sensitive_features="g")
    advice = f"FileRows.open(..., csv={{'encoding': {encoding!r}}})"
    assert advice in str(error.value)
    (block,) = FileRows.open(path, ["g"], csv={"encoding": encoding}).blocks()
    assert block.groups.to_list() == ["\u00e4", "b"]


def test_advice_keeps_the_settings_of_the_caller(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x;y;g\n1.250,5;2,5;a\n980;1;b\n465;3;a\n")
    rows = FileRows.open(path, ["g"], csv={"decimal": ","})
    with pytest.raises(InvalidInput, match=r"'thousands': '\.', 'decimal': ','"):
        FairPCA(1).fit(rows)


@pytest.mark.parametrize(
    ("csv", "advice"),
    [
        ({"thousands": "."}, "csv={'thousands': '.', 'decimal': ','}"),
        ({"decimal": ",", "delimiter": ","}, "pass the 'delimiter'"),
    ],
)
def test_settings_that_exclude_each_other_are_named_as_the_caller_passes_them(
    tmp_path, csv, advice
):
    path = tmp_path / "rows.csv"
    path.write_text("x;g\n1.250,5;a\n980;b\n")
    with pytest.raises(InvalidParameter) as error:
        FileRows.open(path, ["g"], csv=csv)
    assert advice in str(error.value)
    assert "--" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["m,1,2\nw,3,4\nm,5,6\n", "x,y,g\n1,2,a\n3,b\n", "x,y,g\n1,2,a\n3,4,5,b\n"],
    ids=["no header", "short row", "long row"],
)
def test_errors_of_files_name_no_option_of_the_command_line(tmp_path, text):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(InvalidInput) as error:
        FairPCA(1).fit(path, sensitive_features="g")
    assert "FileRows.open(" in str(error.value)
    assert " --" not in str(error.value)
