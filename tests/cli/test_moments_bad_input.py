"""Folders with something wrong in one of many row groups, and records that do not fit."""

import os
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
    return ["moments", folder, "--group", "sex", "--features", "[xyz]", "-o", tmp_path / "m"]


@pytest.fixture
def begun(run, command, tmp_path, monkeypatch):
    """A record of a run that has absorbed everything but was interrupted before its last step."""

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("fairspan.cli.writing.write_whole", interrupted)
        assert run(*command).status != 0
    assert (tmp_path / "m.partial").exists()


def refused(run, command, out):
    before = out.with_name("m.partial").read_bytes()
    result = run(*command)
    assert (result.status, result.out) == (2, "")
    assert not out.exists()
    assert out.with_name("m.partial").read_bytes() == before
    assert f"Delete {out}.partial to start over" in result.err
    return result.err


@pytest.mark.usefixtures("begun")
def test_a_changed_file(run, command, folder, frame, tmp_path):
    rows = frame[400:800].assign(x=0.0)
    rows.to_parquet(folder / "01.parquet", row_group_size=20)
    assert "(changed: 01.parquet)" in refused(run, command, tmp_path / "m")


@pytest.mark.usefixtures("begun")
def test_a_file_that_was_edited_without_a_trace_in_size_and_time(run, command, folder, tmp_path):
    path = folder / "02.parquet"
    status, content = path.stat(), bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "(changed: 02.parquet)" in refused(run, command, tmp_path / "m")


@pytest.mark.usefixtures("begun")
def test_removed_and_added_files(run, command, folder, frame, tmp_path):
    (folder / "00.parquet").rename(folder / "99.parquet")
    (folder / "deeper").mkdir()
    frame[:10].to_parquet(folder / "deeper" / "1.parquet")
    message = refused(run, command, tmp_path / "m")
    assert "missing: 00.parquet; new: 99.parquet, deeper/1.parquet" in message


@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--group", "age"], "groups: was 'sex', is 'sex', 'age'"),
        (["--exclude", "z"], "features: was 'x', 'y', 'z', is 'x', 'y'"),
        (["--weight", "w"], "weight: was none, is 'w'"),
        (["--on-missing", "drop"], "on_missing: was 'error', is 'drop'"),
    ],
)
def test_other_options(run, command, tmp_path, options, words):
    assert words in refused(run, [*command, *options], tmp_path / "m")


@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize("damage", ["cut", "flipped", "text", "moments"])
def test_a_damaged_record(run, command, tmp_path, damage):
    partial = tmp_path / "m.partial"
    content = partial.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 255
    fs.GroupMoments.from_rows(np.eye(2), ["a", "b"]).save(tmp_path / "other")
    partial.write_bytes(
        {
            "cut": content[: len(content) // 2],
            "flipped": bytes(flipped),
            "text": b"some notes of mine",
            "moments": (tmp_path / "other").read_bytes(),
        }[damage]
    )
    message = refused(run, command, tmp_path / "m")
    assert "'fairspan.record'" in message or "of kind 'record'" in message
    assert f"Delete {partial} to start over" in message


def test_a_run_that_ended_before_it_absorbed_anything(run, command, tmp_path):
    (tmp_path / "m.partial").write_bytes(b"")
    assert run(*command).status == 0
    assert not (tmp_path / "m.partial").exists()


@pytest.mark.usefixtures("begun")
def test_a_folder_that_was_moved_is_the_same(run, command, folder, frame, tmp_path):
    folder.rename(tmp_path / "elsewhere")
    command[1] = tmp_path / "elsewhere"
    assert run(*command).status == 0
    expected = moments_by_hand(frame[COLUMNS], frame["sex"])
    assert_moments(fs.GroupMoments.load(tmp_path / "m"), expected)


@pytest.mark.long
@pytest.mark.parametrize("jobs", [[], ["--jobs", 2]], ids=["here", "two processes"])
def test_nan_is_named_by_file_row_group_and_column(run, frame, tmp_path, jobs):
    frame.loc[400 + 17 * 20 + 3, "y"] = np.nan
    write_folder(tmp_path / "rows", frame, 3, 20)
    command = ["moments", tmp_path / "rows", "--group", "sex", "--features", "[xyz]", *jobs]
    result = run(*command, "-o", tmp_path / "m")
    assert (result.status, result.out) == (2, "")
    where = f"{tmp_path / 'rows' / '01.parquet'}, row group 17"
    assert f"{where}: X contains NaN, first in row 4 (index 3), column 'y'" in result.err
    assert not (tmp_path / "m").exists()
    result = run(*command, "-o", tmp_path / "n", "--on-missing", "drop")
    assert "1,199 rows, 3 features; 1 row with missing values left out" in result.out
    kept = frame["y"].notna()
    expected = moments_by_hand(frame[COLUMNS][kept], frame["sex"][kept])
    assert_moments(fs.GroupMoments.load(tmp_path / "n"), expected)


def test_a_file_that_was_cut_in_half(run, command, folder, tmp_path):
    path = folder / "01.parquet"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    result = run(*command)
    assert (result.status, result.out) == (2, "")
    assert f"{path} cannot be read" in result.err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["rows"]


def test_a_damaged_page_in_the_middle_of_a_file(run, command, folder, tmp_path):
    path = folder / "01.parquet"
    content = bytearray(path.read_bytes())
    middle = pq.ParquetFile(path).metadata.row_group(10).column(1).data_page_offset
    content[middle : middle + 200] = b"\xff" * 200
    path.write_bytes(content)
    result = run(*command)
    assert (result.status, result.out) == (2, "")
    assert re.search(rf"{re.escape(str(path))}.* cannot be read", result.err)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows.rename(columns={"y": "other"}), ["lacks 'y'", "has 'other'"]),
        (lambda rows: rows.drop(columns="z"), ["lacks 'z'"]),
        (lambda rows: rows.assign(x="text"), ["in column 'x'"]),
    ],
)
def test_one_file_with_another_schema(run, command, folder, frame, tmp_path, change, words):
    change(frame[:50]).to_parquet(folder / "02.parquet")
    result = run(*command)
    assert (result.status, result.out) == (2, "")
    assert all(word in result.err for word in [str(folder / "02.parquet"), *words]), result.err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["rows"]


def test_weights_that_are_all_zero(run, command, frame, folder, tmp_path):
    for path in folder.iterdir():
        frame.assign(w=0.0).to_parquet(path)
    result = run(*command, "--weight", "w")
    assert (result.status, result.out) == (2, "")
    assert "at least one row of a weight above zero" in result.err
    assert not (tmp_path / "m").exists()
