"""Making moments survives SIGKILL at any moment, and then gives the same bytes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from cli.command_lines import LIMITED
from cli.row_folders import made_rows, write_folder
from fairspan import FileRows, cli
from fairspan.moments.accumulate import MomentsFold
from fairspan.rows.resuming import Plan, Record
from fairspan.storage import HeldFile

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")

N_KILLS = 8
# Seconds before a kill; a run takes about one.
LONGEST = 0.4
FAIRSPAN = str(Path(sys.executable).with_name("fairspan"))


@pytest.fixture
def folder(tmp_path):
    """400 row groups in 8 files."""
    write_folder(tmp_path / "rows", made_rows(5, 8000), 8, 20)
    return tmp_path / "rows"


@pytest.fixture
def command(folder, tmp_path):
    return ["moments", folder, "--group", "sex", "--weight", "w", "-o", tmp_path / "out"]


@pytest.fixture
def whole(run, command, tmp_path):
    """What an uninterrupted run writes."""
    assert run(*command[:-1], tmp_path / "whole").status == 0
    return (tmp_path / "whole").read_bytes()


@pytest.fixture(scope="module")
def warm():
    """Starts processes that have imported everything already, so that kills hit the reading."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "fairspan.cli",
            "fairspan.cli.writing",
            "fairspan.moments.group_statistics",
            "pyarrow.parquet",
        ]
    )
    return context


def wait_until(happened):
    """Wait for something that must happen, however slow the machine is."""
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.001)


def killed_after(context, command, seconds):
    """Whether the run was killed at that moment; if not, it was done."""
    process = context.Process(target=cli.main, args=([*map(str, command)],))
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def parts_done(partial, folder):
    if not partial.exists():
        return 0
    rows = FileRows.open(folder, ["sex"], weight="w")
    return Record(HeldFile(partial), Plan.of(rows)).read(MomentsFold())[0]


@pytest.mark.long
def test_runs_that_are_killed_at_random_go_on_to_the_same_bytes(
    warm, command, folder, whole, tmp_path
):
    random = np.random.default_rng(0)
    out, partial = tmp_path / "out", tmp_path / "out.partial"
    n_kills, n_runs, furthest, longest, was_halfway = 0, 0, 0, LONGEST, False
    while n_kills < N_KILLS or not was_halfway:
        n_runs += 1
        assert n_runs < 100, "no kill hits the reading"
        if killed_after(warm, command, random.uniform(0, longest)):
            n_kills += 1
            assert not out.exists() or out.read_bytes() == whole
            done = parts_done(partial, folder)
            assert done >= furthest or out.exists(), "what was absorbed is not lost"
            # A machine with much else to do may need longer to get anywhere at all.
            longest = LONGEST if done > furthest else 1.2 * longest
            furthest = done
            was_halfway = was_halfway or done > 0
        else:
            assert out.read_bytes() == whole
            out.unlink()
            furthest = 0
    assert not killed_after(warm, command, None)
    assert out.read_bytes() == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "rows", "whole"]


@pytest.mark.long
def test_a_kill_between_the_output_and_the_end_of_its_record(
    run, command, whole, tmp_path, monkeypatch
):
    out, partial = tmp_path / "out", tmp_path / "out.partial"

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("fairspan.storage.HeldFile.remove", killed)
        assert run(*command).status != 0
    assert out.exists()
    assert run(*command).status == 0
    assert out.read_bytes() == whole
    assert not partial.exists()


@pytest.mark.long
def test_any_number_of_processes_may_go_on(command, folder, whole, tmp_path):
    random, jobs = np.random.default_rng(3), (2, 1, 2)
    partial = tmp_path / "out.partial"
    for n_jobs in jobs[:-1]:
        before = parts_done(partial, folder)
        process = subprocess.Popen([FAIRSPAN, *map(str, command), "--jobs", str(n_jobs)])
        wait_until(lambda: process.poll() is not None or parts_done(partial, folder) > before)  # noqa: B023
        time.sleep(random.uniform(0, 0.1))
        process.kill()
        process.wait()
    subprocess.run([FAIRSPAN, *map(str, command), "--jobs", str(jobs[-1])], check=True)
    assert (tmp_path / "out").read_bytes() == whole
    assert not partial.exists()


@pytest.mark.long
def test_of_two_at_once_one_is_told_who_the_other_is(run, warm, command, folder, whole, tmp_path):
    partial = tmp_path / "out.partial"
    first = warm.Process(target=cli.main, args=([*map(str, command)],))
    first.start()
    try:
        wait_until(lambda: parts_done(partial, folder) > 0 or not first.is_alive())
        os.kill(first.pid, signal.SIGSTOP)
        second = run(*command)
        assert (second.status, second.out) == (2, "")
        assert f"{partial} is held by another run" in second.err
        if Path("/proc/locks").exists():
            assert f"(process {first.pid})" in second.err
        os.kill(first.pid, signal.SIGCONT)
        first.join()
    finally:
        first.kill()
    assert (tmp_path / "out").read_bytes() == whole
    assert not partial.exists()


def test_a_record_that_is_a_link_is_not_followed(run, command, tmp_path):
    (tmp_path / "other").write_bytes(b"mine")
    (tmp_path / "out.partial").symlink_to(tmp_path / "other")
    result = run(*command)
    assert (result.status, result.out) == (2, "")
    assert "out.partial cannot be written (It is a symbolic link)" in result.err
    assert (tmp_path / "other").read_bytes() == b"mine"
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_full_disk(installed, warm, command, folder, whole, tmp_path):
    room = 300  # bytes: the next record begins, and breaks off
    out, partial = tmp_path / "out", tmp_path / "out.partial"
    process = warm.Process(target=cli.main, args=([*map(str, command)],))
    process.start()
    wait_until(lambda: parts_done(partial, folder) > 0 or not process.is_alive())
    process.kill()
    process.join()
    before = partial.read_bytes()
    result = installed(room, *command, code=LIMITED)
    assert (result.status, result.out) == (2, "")
    assert f"{partial} cannot be written (File too large)" in result.err
    assert "Make room" in result.err
    assert partial.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("out")) == [
        "out.partial"
    ]
    assert installed(*command).status == 0
    assert out.read_bytes() == whole


@pytest.mark.long
def test_a_disk_that_is_full_from_the_start(installed, command, tmp_path):
    result = installed(0, *command, code=LIMITED)
    assert result.status == 2
    assert "cannot be written" in result.err
    assert not any(path.name.startswith("out") for path in tmp_path.iterdir())


@pytest.fixture
def interruptible():
    """A command that tests start; of a run in the background it would ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def children_of(process):
    """Numbers of the processes that any thread of a process started."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            found += task.read_text().split()
    return found


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs to see child processes")
@pytest.mark.parametrize(
    ("engine", "seconds"),
    [
        (["--jobs", "2"], 0.0),
        (["--jobs", "2"], 0.3),
        (["--engine", "dask"], 0.1),
    ],
)
def test_an_interruption_from_the_keyboard_is_told_without_tracebacks(
    command, tmp_path, engine, seconds
):
    words = [FAIRSPAN, *map(str, command), *engine]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    # What tracks resources, and a worker.
    wait_until(lambda: process.poll() is not None or len(children_of(process.pid)) >= 2)
    time.sleep(seconds)
    # Told only where there is something to keep.
    partial = tmp_path / "out.partial"
    assert interrupted(process) == [f"fairspan: warning: {partial}"] * partial.exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("engine", [[], ["--jobs", "2"]], ids=["one process", "two"])
def test_an_interruption_says_what_is_kept(command, folder, whole, run, tmp_path, engine):
    partial = tmp_path / "out.partial"
    words = [FAIRSPAN, *map(str, command), *engine]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_until(lambda: process.poll() is not None or parts_done(partial, folder) > 0)
    assert interrupted(process) == [f"fairspan: warning: {partial}"]
    assert parts_done(partial, folder) > 0
    assert run(*command).status == 0
    assert (tmp_path / "out").read_bytes() == whole


def interrupted(process):
    """Interrupt a command as a terminal does, its workers too; what it says it keeps."""
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    *kept, last = filter(None, said.splitlines())
    assert (process.returncode, last) == (130, "fairspan: interrupted")
    return [line.split(" keeps ")[0] for line in kept]
