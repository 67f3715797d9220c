"""A folder of moments: a complete file for each file of rows, made only where it is missing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from case_selection import mark_most_long
from cli.conftest import COLUMNS, limited_files, make_rows, write_folder
from fairspan import cli
from numpy_reference import assert_moments, reference_moments

NAMES = [f"{number:02}.parquet.moments" for number in range(4)]
FAIRSPAN = str(Path(sys.executable).with_name("fairspan"))


@pytest.fixture
def frame():
    return make_rows(5, 1200)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Four files of five row groups each, and a folder of their moments."""
    home = tmp_path_factory.mktemp("originals")
    write_folder(home / "rows", make_rows(5, 1200), 4, 60)
    words = ["--group", "sex", "--features", "[xyz]", "-o", str(home / "parts")]
    assert cli.run(["moments", str(home / "rows"), *words]) == 0
    return home


@pytest.fixture
def folder(originals, tmp_path):
    """The four files of rows."""
    return shutil.copytree(originals / "rows", tmp_path / "rows")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "parts"


@pytest.fixture
def command(folder, out):
    return ["moments", folder, "--group", "sex", "--features", "[xyz]", "-o", out]


@pytest.fixture
def complete_folder(originals, folder, out):
    """The folder, complete."""
    return shutil.copytree(originals / "parts", out)


def contents(folder):
    """Return the visible files: a killed writer leaves a hidden file for a day."""
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*")}


def assert_moments_of_rows(path, frame, groups="sex"):
    """Assert that a file has the moments of these rows."""
    assert_moments(fs.GroupMoments.load(path), reference_moments(frame[COLUMNS], frame[groups]))


def test_each_file_of_rows_has_one_complete_file_of_moments_and_there_is_a_manifest(
    run, command, frame, out
):
    result = run(*command, status=0, err=None, out="1,200 rows, 3 features")
    assert result.out.endswith(f"Saved to {out}\n")
    assert sorted(path.name for path in out.iterdir()) == [*NAMES, "manifest.json"]
    for number, name in enumerate(NAMES):
        assert_moments_of_rows(out / name, frame[300 * number : 300 * (number + 1)])


@pytest.mark.parametrize("source", ["folder", "files", "all in it"])
def test_merged_files_equal_the_moments_of_one_pass(
    run, command, complete_folder, frame, tmp_path, source
):
    files = {
        "folder": [complete_folder],
        "files": [complete_folder / name for name in NAMES],
        "all in it": sorted(complete_folder.iterdir()),
    }[source]
    merge_facts = run("merge", *files, "-o", tmp_path / "all", "--json").facts
    one_pass_facts = run(*command[:-1], tmp_path / "whole.moments", "--json").facts
    assert (merge_facts["groups"], merge_facts["files"]) == (
        one_pass_facts["groups"],
        list(map(str, files)),
    )
    for name in ("all", "whole.moments"):
        assert_moments_of_rows(tmp_path / name, frame)


def test_a_site_that_dropped_rows_gives_a_warning(run, command, frame, tmp_path):
    holes = frame[:300].copy()
    holes.iloc[:9, holes.columns.get_loc("x")] = np.nan
    for name, rows in {"north": holes, "south": frame[300:], "west": holes}.items():
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
        words = [tmp_path / f"{name}.csv", *command[2:-1], tmp_path / name, "--on-missing", "drop"]
        run("moments", *words, status=0)
    paths = {name: tmp_path / name for name in ("north", "south", "west")}
    mixed = run("merge", paths["north"], paths["south"], "-o", tmp_path / "a", status=0)
    assert f"none at '{paths['south']}'" in " ".join(mixed.err.split())
    run("merge", paths["north"], paths["west"], "-o", tmp_path / "b", status=0, err=None)


@pytest.mark.long
def test_two_processes_write_the_same_bytes(run, command, complete_folder, tmp_path):
    run(*command[:-1], tmp_path / "two", "--jobs", 2, status=0)
    assert contents(tmp_path / "two") == contents(complete_folder)


def test_existing_moments_are_not_computed_again(run, command, complete_folder):
    original_contents = contents(complete_folder)
    original_inodes = {name: (complete_folder / name).stat().st_ino for name in original_contents}
    (complete_folder / NAMES[2]).unlink()
    run(*command, status=0)
    assert contents(complete_folder) == original_contents
    inodes = {name: (complete_folder / name).stat().st_ino for name in original_contents}
    assert {name for name in inodes if inodes[name] != original_inodes[name]} <= {NAMES[2]}


def test_a_folder_of_rows_that_was_moved_is_the_same(
    run, command, folder, complete_folder, tmp_path
):
    original_contents = contents(complete_folder)
    (complete_folder / NAMES[0]).unlink()
    run("moments", folder.rename(tmp_path / "elsewhere"), *command[2:], status=0)
    assert contents(complete_folder) == original_contents


KILLED = """
import os, signal, sys
from contextlib import contextmanager
from fairspan import cli
from fairspan.storage import atomic

n_omitted = int(sys.argv[1])
fsync = os.fsync


def killed(descriptor):
    global n_omitted
    n_omitted -= 1
    if n_omitted < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(descriptor)


atomic.os.fsync = killed
cli.main(sys.argv[2:])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("times", mark_most_long([[1, 4], [0, 1, 4, 1, 0]], 2))
def test_killed_while_it_writes_it_goes_on_to_the_same_moments(
    run, installed, command, complete_folder, tmp_path, times
):
    complete_contents = contents(complete_folder)
    out = tmp_path / "killed"
    command = [*command[:-1], out]
    # File and folder are synchronized for each file that is written, the manifest first.
    for n_synchronized in times:
        assert installed(n_synchronized, *command, code=KILLED).status == -signal.SIGKILL
        assert contents(out).items() <= complete_contents.items()
        assert run("merge", out, "-o", tmp_path / "all").status == 2
    assert (run(*command).status, contents(out)) == (0, complete_contents)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killed_at_any_moment_it_goes_on_to_the_same_moments(
    run, command, complete_folder, tmp_path, jobs
):
    random = np.random.default_rng(int(jobs))
    out = tmp_path / "killed"
    command = [*map(str, command[:-1]), str(out), "--jobs", jobs]
    for _ in range(6):
        process = subprocess.Popen([FAIRSPAN, *command], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        n_before = len(list(out.glob("*.moments")))
        while process.poll() is None and len(list(out.glob("*.moments"))) <= n_before:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.05))
        process.kill()
        process.wait()
        (out / NAMES[random.integers(4)]).unlink(missing_ok=True)
    assert (run(*command).status, contents(out)) == (0, contents(complete_folder))


@pytest.fixture
def interruptible():
    """A command that tests start; of a run in the background it would ignore the signal."""
    original_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, original_handler)


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interruption_names_the_files_that_remain(frame, run, tmp_path, jobs):
    source = write_folder(tmp_path / "many", frame, 400, 60)
    out = tmp_path / "parts"
    command = ["moments", str(source), "--group", "sex", "-o", str(out), "--jobs", jobs]
    process = subprocess.Popen(
        [FAIRSPAN, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list(out.glob("*.moments")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, with the workers
    message = process.communicate(timeout=120)[1]
    # On a busy machine the command lasts long enough to print its progress.
    lines = [line for line in message.splitlines() if line and "reading:" not in line]
    assert len(lines) == 2, message
    warning, last_line = lines
    assert warning.startswith(f"fairspan: warning: Partial results are kept in {out}")
    assert (process.returncode, last_line) == (130, "fairspan: interrupted")
    assert len(list(out.glob("*.moments"))) < 400
    assert (run(*command).status, len(list(out.glob("*.moments")))) == (0, 400)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on files")
def test_a_full_disk_leaves_complete_files_alone(run, command, out):
    with limited_files(600):
        run(*command, status=2, out=None, err="cannot be written (File too large)")
    assert not list(out.iterdir())
    run(*command, status=0)


def assert_refused(run, command, out, expected_text):
    original_contents = contents(out)
    run(*command, status=2, out=None, err=expected_text)
    assert contents(out) == original_contents


def edit_without_a_trace(path):
    """Change a file but not its size and time."""
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def move_and_add_files(frame, folder):
    (folder / "00.parquet").rename(folder / "99.parquet")
    (folder / "deeper").mkdir()
    frame[:10].to_parquet(folder / "deeper" / "1.parquet")


def change_manifest(change):
    """Another text in the place of the manifest."""

    def corrupt(frame, folder, complete_folder):
        path = complete_folder / "manifest.json"
        path.write_text(change(path.read_text()))

    return corrupt


def change_nothing(*_):
    pass


# What happens to rows or moments, options of the next run, and what it says.
CHANGED_FOLDERS = {
    "another file": (
        lambda frame, folder, complete_folder: (
            frame[300:600].assign(x=0).to_parquet(folder / "01.parquet")
        ),
        [],
        ["{made} was begun", "(changed: 01.pa", "Delete {made}"],
    ),
    "an edit": (
        lambda frame, folder, complete_folder: edit_without_a_trace(folder / "02.parquet"),
        [],
        ["(changed: 02.parquet)"],
    ),
    "moved and added": (
        lambda frame, folder, complete_folder: move_and_add_files(frame, folder),
        [],
        ["missing: 00.parquet; new: 99.parquet, deeper/1.parquet"],
    ),
    "groups": (change_nothing, ["--group", "age"], ["groups: was 'sex', is 'sex', 'age'"]),
    "features": (change_nothing, ["--exclude", "z"], ["features: was 'x', 'y', 'z', is 'x', 'y'"]),
    "weight": (change_nothing, ["--weight", "w"], ["weight: was none, ", "is 'w'"]),
    "label": (change_nothing, ["--y", "age"], ["label: was none, ", "is 'age'"]),
    "missing": (change_nothing, ["--on-missing", "drop"], ["on_missing: was 'error', is 'drop'"]),
    "cut manifest": (change_manifest(lambda text: text[:100]), [], ["{made}/manifest.json"]),
    "unknown entry": (
        change_manifest(lambda text: json.dumps({**json.loads(text), "more": 1})),
        [],
        ["{made}/manifest.json"],
    ),
    "newer manifest": (
        change_manifest(lambda text: json.dumps({**json.loads(text), "version": 3})),
        [],
        ["{made}/manifest.json"],
    ),
    "cut moments": (
        lambda frame, folder, complete_folder: (complete_folder / NAMES[1]).write_bytes(
            (complete_folder / NAMES[1]).read_bytes()[:-50]
        ),
        [],
        ["{made}/" + NAMES[1] + " cannot be read"],
    ),
    "moments of other features": (
        lambda frame, folder, complete_folder: fs.GroupMoments.from_rows(
            np.eye(2), ["f", "m"]
        ).save(complete_folder / NAMES[1]),
        [],
        ["{made}/" + NAMES[1], "The features differ"],
    ),
}


@pytest.mark.parametrize(
    ("corrupt", "options", "expected_text"), CHANGED_FOLDERS.values(), ids=CHANGED_FOLDERS
)
def test_changes_since_the_first_run_are_refused(
    run, command, frame, folder, complete_folder, tmp_path, corrupt, options, expected_text
):
    corrupt(frame, folder, complete_folder)
    expected_text = [text.replace("{made}", str(complete_folder)) for text in expected_text]
    assert_refused(run, [*command, *options], complete_folder, expected_text)
    if expected_text == [str(complete_folder / "manifest.json")]:
        for files in ([complete_folder], [complete_folder / NAMES[0]]):
            assert_refused(
                run, ["merge", *files, "-o", tmp_path / "all"], complete_folder, expected_text
            )
    if "cannot be read" in expected_text[0]:
        (complete_folder / NAMES[1]).unlink()
        run(*command, status=0)


def test_another_way_to_read_a_csv_is_refused(run, frame, tmp_path):
    (tmp_path / "rows").mkdir()
    frame.to_csv(tmp_path / "rows" / "a.csv", index=False)
    command = ["moments", tmp_path / "rows", "--group", "sex", "-o", tmp_path / "parts"]
    run(*command, status=0)
    assert_refused(run, [*command, "--comment", "#"], tmp_path / "parts", "format: was ")


def test_the_classes_of_y_are_kept(run, command, frame, complete_folder, tmp_path):
    labeled = tmp_path / "labeled"
    out = tmp_path / "all"
    run(*command[:-1], labeled, "--y", "age", status=0)
    run("merge", labeled, "-o", out, status=0)
    pairs = list(zip(frame["sex"], frame["age"].tolist(), strict=True))
    moments_by_class = fs.GroupMoments.load(out).by_class
    assert_moments(moments_by_class, reference_moments(frame[COLUMNS], pairs))
    run("merge", labeled, complete_folder, "-o", out, status=2, err="Only one of them")


def test_a_folder_that_holds_something_else(run, command, out):
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (out / "manifest.json").write_text('{"name": "of somebody else"}')
    message = f"The folder {out} holds manifest.json, notes.txt, and no manifest.json of moments"
    assert_refused(run, command, out, message)
    for path in list(out.iterdir()):
        path.unlink()
    run(*command, status=0)


def test_outputs_that_cannot_be(run, command, out):
    out.write_bytes(b"a file")
    run(*command, status=2, err=f"The output {out} is not a folder")
    run(*command[:-1], out.with_name("q"), "--min-group-size", 5, status=2, err="--min-group-size")
    assert (out.read_bytes(), out.with_name("q").exists()) == (b"a file", False)


@pytest.mark.parametrize("absence", ["folder", "file", "not named"])
def test_a_missing_part_is_reported(run, complete_folder, tmp_path, absence):
    if absence != "not named":
        (complete_folder / NAMES[3]).unlink()
    files = (
        [complete_folder] if absence == "folder" else [complete_folder / name for name in NAMES[:3]]
    )
    message = f"1 of 4 parts in {complete_folder} are missing: {NAMES[3]}"
    run("merge", *files, "-o", tmp_path / "all", status=2, out=None, err=message)
    assert not (tmp_path / "all").exists()


def test_a_folder_without_a_manifest_is_refused(run, complete_folder, tmp_path):
    (complete_folder / "manifest.json").unlink()
    message = "has no manifest.json of moments"
    run("merge", complete_folder, "-o", tmp_path / "all", status=2, err=message)
    run("merge", *[complete_folder / name for name in NAMES[1:]], "-o", tmp_path / "all", status=0)


def test_names_in_sub_folders_stay_apart(run, frame, tmp_path):
    for number, name in enumerate(("a=1/b.parquet", "a=1/b%2Fc.parquet", "a=2/b.parquet")):
        path = tmp_path / "rows" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        frame[400 * number : 400 * (number + 1)].to_parquet(path)
    command = ["moments", tmp_path / "rows", "--group", "sex", "--features", "[xyz]"]
    run(*command, "-o", tmp_path / "parts", status=0)
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == [
        "a=1%2Fb%252Fc.parquet.moments",
        "a=1%2Fb.parquet.moments",
        "a=2%2Fb.parquet.moments",
        "manifest.json",
    ]
    run("merge", tmp_path / "parts", "-o", tmp_path / "all")
    assert_moments_of_rows(tmp_path / "all", frame)


def test_files_without_a_row_that_counts(run, frame, tmp_path):
    rows = pd.concat([frame[:600], frame[600:].assign(x=np.nan)])
    command = ["moments", write_folder(tmp_path / "rows", rows, 4, 60), "--group", "sex"]
    command += ["--features", "[xyz]", "--on-missing", "drop", "-o", tmp_path / "parts", "--json"]
    facts = run(*command).facts
    assert run(*command).facts == facts
    merge_facts = run("merge", tmp_path / "parts", "-o", tmp_path / "all", "--json").facts
    for counts in (facts, merge_facts):
        assert (counts["n_rows"], counts["n_dropped"]) == (600, 600)
    assert_moments_of_rows(tmp_path / "all", frame[:600])


def test_faults_in_the_first_file_leave_no_output(run, command, folder, frame, out):
    frame[:300].assign(y=np.nan).to_parquet(folder / "00.parquet")
    run(*command, status=2, err=f"{folder / '00.parquet'}, row group 0: X contains NaN")
    assert not out.exists()


def test_too_many_groups_in_all_files_together_are_refused(run, command, folder, frame, out):
    for number, path in enumerate(sorted(folder.iterdir())):
        rows = frame[300 * number : 300 * (number + 1)]
        rows.assign(sex=[f"{number}-{i % 40}" for i in range(300)]).to_parquet(path)
    run(*command, "--max-groups", 100, status=2, err="among")
    assert len(list(out.glob("*.moments"))) == 2
    run(*command, "--max-groups", 160, status=0)


def test_groups_of_one_row_in_a_file_are_warned_of(run, command, folder, frame):
    (folder / "03.parquet").unlink()
    frame[:300].assign(sex=["rare"] + ["f"] * 299).to_parquet(folder / "00.parquet")
    frame[300:600].assign(sex=["rare"] * 2 + ["f"] * 298).to_parquet(folder / "01.parquet")
    run(*command, err=["1 or 2 rows ('rare')", "NAME.moments"])
