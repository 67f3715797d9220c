"""CSV files as spreadsheets and scripts leave them, on the command line."""

import numpy as np
import pandas as pd
import pytest

from fairspan import FairPCA, FileRows
from fairspan.errors import FairspanWarning, InvalidInput, InvalidParameter

N = 40
RNG = np.random.default_rng(4)
ROWS = pd.DataFrame({"x": RNG.normal(5, 2, N).round(3), "y": RNG.integers(0, 90, N)})
ROWS["g"] = np.where(np.arange(N) % 2, "a", "b")
LINES = ROWS.to_csv(index=False).splitlines()[1:]
VARIANCE = np.var(ROWS["x"]) + np.var(ROWS["y"])


def write_file(tmp_path, header, lines, *, first="", encoding="utf-8", end="\n"):
    path = tmp_path / "rows.csv"
    content = end.join([*([first] if first else []), *([header] if header else []), *lines, ""])
    path.write_bytes(content.encode(encoding))
    return path


def arguments(path, *options, group="g"):
    return ["audit", path, "--group", group, "-d", "1", "--folds", "none", *options]


def variance(outcome):
    model = outcome.facts["models"][0]
    groups = model["groups"]
    return sum(group["proportion"] * group["observed_total_variance"] for group in groups)


READ = {
    "two nameless columns": ("x,y,g,,", [f"{line},," for line in LINES], "", []),
    "one nameless column": ("x,y,g,", [f"{line}," for line in LINES], "", []),
    "blank names and cells": ("x,y,g, ,", [f"{line}, ," for line in LINES], "", []),
    "an index, nameless columns": (
        ",x,y,g,,",
        [f"{i},{line},," for i, line in enumerate(LINES)],
        "",
        [],
    ),
    "sep=": ("x;y;g", [line.replace(",", ";") for line in LINES], "sep=;", []),
    "SEP= in quotes": ("x|y|g", [line.replace(",", "|") for line in LINES], '"SEP=|"', []),
    "sep= after a mark": ("x;y;g", [line.replace(",", ";") for line in LINES], "\ufeffsep=;", []),
    "quoted names": ('"x","y","g"', LINES, "", []),
    "a byte order mark": ("\ufeffx,y,g", LINES, "", []),
}


@pytest.mark.filterwarnings("ignore::fairspan.errors.FairspanWarning")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("header", "lines", "first", "options"), READ.values(), ids=READ)
def test_odd_files_are_read(run, tmp_path, header, lines, first, options, end):
    path = write_file(tmp_path, header, lines, first=first, end=end)
    total = variance(run(*arguments(path, *options), "--json"))
    assert total == pytest.approx(VARIANCE, rel=1e-9)


def test_dropped_nameless_columns_are_reported(tmp_path):
    path = write_file(tmp_path, "x,y,g,,", [f"{line},," for line in LINES])
    with pytest.warns(FairspanWarning, match="2 trailing columns without a name or any cell"):
        rows = FileRows.open(path, ["g"])
    assert rows.feature_names == ("x", "y")


def test_a_cell_in_a_nameless_column_is_named_by_its_line(assert_refused, tmp_path):
    lines = [f"{line},," for line in LINES]
    lines[17] = f"{LINES[17]},,5"
    path = write_file(tmp_path, "x,y,g,,", lines)
    assert_refused(
        *arguments(path), expected_text=["cell in line 19 of column 5, which has no name"]
    )


def test_other_nameless_columns_are_counted(assert_refused, tmp_path):
    path = write_file(tmp_path, ",,y,g", [f"{i},{line}" for i, line in enumerate(LINES)])
    assert_refused(*arguments(path), expected_text=["no names for ", "columns 1, 2"])


def test_lines_below_sep_are_counted_as_an_editor_does(assert_refused, tmp_path):
    lines = [line.replace(",", ";") for line in LINES]
    path = write_file(tmp_path, "x;y;g", [*lines, "1;2"], first="sep=;")
    assert_refused(*arguments(path), expected_text=[f"a row with 2 cells in line {N + 3}"])


def test_without_a_header_the_first_person_is_kept(run, tmp_path):
    path = write_file(tmp_path, "", LINES)
    outcome = run(*arguments(path, "--no-header", group="column_3"), "--json")
    assert variance(outcome) == pytest.approx(VARIANCE, rel=1e-9)
    rows = FileRows.open(path, ["column_3"], csv={"header": False})
    assert FairPCA(1).fit(rows).feature_names_in_.tolist() == ["column_1", "column_2"]


def test_a_first_line_that_looks_like_a_row_is_warned_of_and_not_shown(assert_refused, tmp_path):
    path = write_file(tmp_path, "", LINES)
    message = assert_refused(
        *arguments(path), expected_text=["no column 'g'", "looks like a row", "--no-header"]
    )
    first = LINES[0].split(",")
    assert not [cell for cell in first[:2] if f"'{cell}'" in message]
    with pytest.warns(FairspanWarning, match="first line looks like a row"):
        FileRows.open(path, [first[2]])


def test_two_equal_cells_of_a_first_row_are_no_question_of_names_alone(assert_refused, tmp_path):
    path = write_file(tmp_path, "", ["1,1,a", *LINES])
    assert_refused(*arguments(path), expected_text=["several columns named '1'", "--no-header"])


HEADERS = {
    "numbers": "0,1,g",
    "numbers from one": "1,2,g",
    "years": "2019,2020,g",
    "names": "x,y,g",
    "one number": "x,1,g",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_names_of_columns_are_no_row(recwarn, tmp_path, header):
    FileRows.open(write_file(tmp_path, header, LINES), ["g"])
    assert not recwarn.list


def test_decades_and_quantiles_are_names(recwarn, tmp_path):
    lines = [f"{line.rsplit(',', 1)[0]},3,{line[-1]}" for line in LINES]
    FileRows.open(write_file(tmp_path, "1990,2000,2010,g", lines), ["g"])
    FileRows.open(write_file(tmp_path, "0.1,0.2,0.3,g", lines), ["g"])
    assert not recwarn.list


@pytest.mark.parametrize("value", ["no", 0, None])
def test_header_is_a_truth_value(tmp_path, value):
    with pytest.raises(InvalidParameter, match="header"):
        FileRows.open(write_file(tmp_path, "x,y,g", LINES), ["g"], csv={"header": value})


def test_a_missing_cell_and_label_are_named_by_their_line(assert_refused, tmp_path):
    rows = [line.replace(",a", ",,a").replace(",b", ',"two\nlines",b') for line in LINES[:3]]
    path = write_file(tmp_path, "# survey\nx,y,note,g", [*rows, "", "3,,ok,a"])
    options = ["--comment", "#", "--exclude", "note"]
    assert_refused(*arguments(path, *options), expected_text=["NaN, first in line 9, column 'y'"])
    path = write_file(tmp_path, "# survey\nx,y,note,g", [*rows, "", "3,1,ok,"])
    assert_refused(*arguments(path, *options), expected_text=["group label in line 9 is missing"])


@pytest.mark.parametrize(
    ("index", "row_name"),
    [
        ([f"p{i}" for i in range(N)], "row 18 (index 'p17')"),
        (range(5, N + 5), "row 18 (index 22)"),
        (range(N), "row 18 (index 17)"),
        (range(1, N + 1), "row 18 (index 18)"),
        (pd.MultiIndex.from_product([["m"], range(N)]), "row 18 (index ('m', 17))"),
    ],
)
def test_rows_of_a_frame_are_named_by_their_index(index, row_name):
    X = ROWS[["x", "y"]].set_axis(index)
    holes = X.copy()
    holes.iloc[17, 0] = np.nan
    groups = ROWS["g"].to_numpy()
    model = FairPCA(1).fit(X, sensitive_features=groups)
    for fail in (
        lambda: FairPCA(1).fit(holes, sensitive_features=groups),
        lambda: model.transform(holes),
        lambda: FairPCA(1).fit(X, sensitive_features=np.where(np.arange(N) == 17, None, groups)),
    ):
        with pytest.raises(InvalidInput) as refusal:
            fail()
        assert row_name in str(refusal.value)
