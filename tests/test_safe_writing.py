"""Files are complete or absent, whoever else writes or reads, and never written through a trap."""

import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

from case_selection import mark_most_long
from fairspan import FairSubspace, GroupMoments
from fairspan.errors import InvalidParameter
from racing_writers import check_complete, file_names, kill_after, race, save

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="of POSIX systems")
SMALL = FairSubspace(np.eye(2), np.zeros(2))


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def usual_mask():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_mask")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755, None])
def test_permissions_are_kept_and_new_files_get_the_usual_ones(tmp_path, mode):
    path = tmp_path / "out"
    if mode is not None:
        path.touch()
        path.chmod(mode)
    SMALL.save(path)
    assert mode_of(path) == (0o644 if mode is None else mode)


@pytest.mark.parametrize("existing", [True, False])
def test_a_link_stays_and_its_target_is_replaced(tmp_path, existing):
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "model"
    link = tmp_path / "current"
    if existing:
        target.write_bytes(b"before")
    link.symlink_to(target)
    SMALL.save(link)
    assert link.is_symlink()
    assert FairSubspace.load(target).n_components == 2
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["current", "model", "there"]


def test_no_other_link_is_followed(tmp_path, monkeypatch):
    """Not even one that stands where the temporary file is about to be."""
    names = iter(["0" * 16, "1" * 16])
    monkeypatch.setattr("secrets.token_hex", lambda _: next(names))
    (tmp_path / "other").write_bytes(b"mine")
    (tmp_path / f".out.{'0' * 16}.tmp").symlink_to(tmp_path / "other")
    with pytest.raises(InvalidParameter, match="out cannot be written"):
        SMALL.save(tmp_path / "out")
    SMALL.save(tmp_path / "out")
    assert (tmp_path / "other").read_bytes() == b"mine"
    assert FairSubspace.load(tmp_path / "out").n_components == 2


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/null")])
def test_devices_pipes_and_folders_are_not_replaced(tmp_path, make):
    make(tmp_path / "out")
    before = (tmp_path / "out").lstat()
    with pytest.raises(InvalidParameter, match=r"out cannot be written \(Not a regular file"):
        GroupMoments.from_rows(np.eye(2), ["a", "b"]).save(tmp_path / "out")
    assert (tmp_path / "out").lstat() == before
    assert file_names(tmp_path) == ["out"]


def test_long_names(tmp_path):
    path = tmp_path / ("ä" * 127)
    SMALL.save(path)
    assert file_names(tmp_path) == [path.name]


@pytest.mark.parametrize(("n_processes", "how_often"), mark_most_long([(3, 8), (4, 250)], 2))
def test_a_race_of_some_processes(tmp_path, n_processes, how_often):
    path = tmp_path / "out"
    race(path, n_processes, how_often)
    check_complete(path)
    assert file_names(tmp_path) == ["out"]


@pytest.mark.parametrize("n_kills", mark_most_long([3, 200], 2))
def test_killed_writers_leave_the_old_file_and_nothing_for_long(tmp_path, n_kills):
    path = tmp_path / "out"
    others = [".out.txt", f".other.{'0' * 16}.tmp"]
    for name in others:
        (tmp_path / name).touch()
    save(path, 0)
    for number in range(n_kills):
        kill_after(path, number, 0.02 * (number % 4))
        check_complete(path)
    (tmp_path / f".out.{'0' * 16}.tmp").touch()
    for file in tmp_path.iterdir():
        os.utime(file, (0, 0))
    save(path, 0)
    assert file_names(tmp_path) == sorted(["out", *others])


def test_models_are_read_from_ordinary_files_alone(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero", "."):
        for load in (FairSubspace.load, GroupMoments.load):
            with pytest.raises(ValueError, match="a folder, a pipe or a device"):
                load(tmp_path / name)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs a list of open files")
def test_no_file_stays_open(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        SMALL.save(tmp_path / "file")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
