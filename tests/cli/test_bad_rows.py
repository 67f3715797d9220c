import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from cli.command_lines import AUDIT, BOTH, TRANSFORM, replacing


@BOTH
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"height": "tall"}, ["text, such as 'tall' in row 1 of 'height'", "--one-hot"]),
        ({"height": pd.Timestamp("2020-01-01")}, ["no numbers", "'height'"]),
        ({"height": np.nan}, ["NaN, first in row 1 (index 0)", "'height'"]),
        ({"height": None}, ["'height'"]),
        ({"age": "old"}, ["of one group ('old')", "two groups or more"]),
        ({"age": pd.Timestamp("2020-01-01")}, ["The group label in row 1 (index 0)"]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_whole_columns(refused, table, features, tmp_path, command, changed, words, ending):
    frame = table[[*features, "age"]].assign(**changed)
    path = tmp_path / f"bad.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    message = refused(*command, data=path)
    if ending == "csv" and "index 0" in words[0] and "age" in changed:
        words = ["of one group ('2020-01-01')"]  # a CSV has no types: its labels are text
    assert all(word in message for word in words), message


@BOTH
@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("height", np.nan, ["NaN, first in row 201 (index 200)", "'height'", "Fill in these"]),
        ("height", np.inf, ["infinity, first in row 201 (index 200)", "'height'"]),
        ("height", -np.inf, ["infinity, first in row 201 (index 200)", "'height'"]),
        ("age", None, ["group label in row 201 (index 200) is missing", "Leave these rows out"]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_single_cells(refused, table, features, tmp_path, command, column, cell, words, ending):
    frame = table[[*features, "age"]].copy()
    frame.loc[200, column] = cell
    path = tmp_path / f"bad.{ending}"
    if ending == "csv":
        frame.to_csv(path, index=False)
    else:
        getattr(frame, f"to_{ending}")(path)
    message = refused(*command, data=path)
    assert all(word in message for word in words), message


def test_moments_of_one_group(refused, table, features, tmp_path):
    moments = tmp_path / "some.moments"
    fs.GroupMoments.from_rows(table[features], ["all"] * 240).save(moments)
    assert "of one group ('all')" in refused("audit", moments)


def test_a_group_that_the_model_never_saw(refused, table, tmp_path):
    table.loc[7, "age"] = "unborn"
    table.to_csv(tmp_path / "new.csv", index=False)
    message = refused(*AUDIT, "--model", "{model}", data=tmp_path / "new.csv")
    assert all(word in message for word in ["'unborn'", "'old', 'young'", "misspelt"]), message


@pytest.mark.parametrize("out", ["{out}", "-"])
def test_columns_that_transform_misses(refused, data, table, tmp_path, out):
    table.drop(columns="height").to_csv(tmp_path / "few.csv", index=False)
    message = refused(*replacing(TRANSFORM, out=out), data=tmp_path / "few.csv")
    assert "no column 'height'" in message


@pytest.mark.parametrize("out", ["{out}", "-"])
def test_a_bad_first_row_in_transform(refused, table, tmp_path, out):
    table.loc[3, "height"] = np.nan
    table.to_csv(tmp_path / "bad.csv", index=False)
    message = refused(*replacing(TRANSFORM, out=out), data=tmp_path / "bad.csv")
    assert "NaN, first in row 4 (index 3), column 'height'" in message


@pytest.mark.parametrize("out", ["out.csv", "out.parquet", "out.arrow"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_bad_last_row_in_transform_takes_the_output_back(
    refused, features, tmp_path, ending, out
):
    n = 70_001  # several batches of CSV, several blocks of Parquet
    frame = pd.DataFrame(np.full((n, 5), 1.25), columns=features)
    frame.loc[n - 1, "height"] = np.nan
    path = tmp_path / f"late.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    message = refused(*TRANSFORM, data=path, out=out)
    assert "NaN, first in row 70001 (index 70000), column 'height'" in message
