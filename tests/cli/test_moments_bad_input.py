"""Folders with something wrong in one of many row groups."""

import re

import numpy as np
import pyarrow.parquet as pq
import pytest

import fairspan as fs
from by_hand import assert_moments, moments_by_hand
from cli.row_folders import COLUMNS, made_rows, write_folder


@pytest.fixture
def frame():
    return made_rows(9, 1200)


@pytest.fixture
def folder(frame, tmp_path):
    """20 row groups of 20 rows in each of 3 files."""
    write_folder(tmp_path / "rows", frame, 3, 20)
    return tmp_path / "rows"


@pytest.fixture
def command(folder, tmp_path):
    return [
        "moments",
        folder,
        "--group",
        "sex",
        "--features",
        "[xyz]",
        "-o",
        tmp_path / "m.moments",
    ]


@pytest.mark.parametrize("jobs", [[], pytest.param(["--jobs", 2], marks=pytest.mark.long)], ids=str)
def test_nan_is_named_by_file_row_group_and_column(run, frame, tmp_path, jobs):
    frame.loc[400 + 17 * 20 + 3, "y"] = np.nan
    write_folder(tmp_path / "rows", frame, 3, 20)
    command = ["moments", tmp_path / "rows", "--group", "sex", "--features", "[xyz]", *jobs]
    result = run(*command, "-o", tmp_path / "m.moments")
    assert (result.status, result.out) == (2, "")
    where = f"{tmp_path / 'rows' / '01.parquet'}, row group 17"
    assert f"{where}: X contains NaN, first in row 4 (index 3), column 'y'" in result.err
    assert not (tmp_path / "m.moments").exists()
    result = run(*command, "-o", tmp_path / "n.moments", "--on-missing", "drop")
    assert "1,199 rows, 3 features; 1 row with missing values left out" in result.out
    kept = frame["y"].notna()
    expected = moments_by_hand(frame[COLUMNS][kept], frame["sex"][kept])
    assert_moments(fs.GroupMoments.load(tmp_path / "n.moments"), expected)


def test_a_damaged_page_in_the_middle_of_a_file(run, command, folder, tmp_path):
    path = folder / "01.parquet"
    content = bytearray(path.read_bytes())
    middle = pq.ParquetFile(path).metadata.row_group(10).column(1).data_page_offset
    content[middle : middle + 200] = b"\xff" * 200
    path.write_bytes(content)
    result = run(*command)
    assert (result.status, result.out) == (2, "")
    assert re.search(rf"{re.escape(str(path))}.* cannot be read", result.err)
    assert not (tmp_path / "m.moments").exists()
