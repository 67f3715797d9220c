import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fairspan as fs
from cli.command_lines import AUDIT, FIT, LIMITED, TRANSFORM, WRITING, replacing
from fairspan.errors import InvalidParameter

FULL = Path("/dev/full")


@WRITING
def test_output_places(refused, model, data, tmp_path, command):
    assert "There is no folder" in refused(*command, out="missing/out.csv")
    assert "is also an input" in refused(*replacing(command, out="{data}"))
    (tmp_path / "link.csv").symlink_to(data)
    assert "is also an input" in refused(*replacing(command, out=tmp_path / "link.csv"))
    assert "is a directory" in refused(*replacing(command, out=tmp_path))
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.csv")  # as /dev/null, which must not become a file
        assert "is not an ordinary file" in refused(*replacing(command, out=tmp_path / "pipe.csv"))


@WRITING
def test_the_folder_that_is_read_is_no_place_for_output(refused, table, tmp_path, command):
    parts = tmp_path / "parts"
    (parts / "deeper").mkdir(parents=True)
    table.drop(columns="sex").to_parquet(parts / "1.parquet")
    for name in ("1.parquet", "2.parquet", "deeper/2.parquet"):
        assert "is also an input" in refused(*replacing(command, out=parts / name), data=parts)


def test_results_in_python_are_named_as_what_they_are(tmp_path, model):
    subspace = fs.FairSubspace.load(model)
    X, groups = np.random.default_rng(0).normal(size=(40, 3)), ["a", "b"] * 20
    moments = fs.GroupMoments.from_rows(X, groups)
    for name, save in (
        ("m.csv", subspace.save),
        ("m.json", moments.save),
        ("o.csv", subspace.to_onnx),
        ("m.pdf", lambda path: fs.write_report(path, X, groups)),
    ):
        with pytest.raises(InvalidParameter, match=f"{name} is named as"):
            save(tmp_path / name)
        assert not (tmp_path / name).exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pipe whose reader can leave")
@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("--help",), 0),
        (AUDIT, 0),
        (("audit", "{data}", "--group", "nothing", "--json"), 2),
        pytest.param(("demo", "-o", "{page}"), 0, marks=pytest.mark.long),
    ],
)
def test_a_reader_who_leaves_is_no_failure(data, model, tmp_path, command, status):
    places = {"data": data, "model": model, "page": tmp_path / "page.html"}
    words = [str(word) for word in replacing(command, **places)]
    program = [Path(sys.executable).with_name("fairspan"), *words]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as unread:
        done = subprocess.run(program, stdout=unread, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert "Broken pipe" not in done.stderr
    assert places["page"].exists() == ("{page}" in command)


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is full")
def test_a_full_standard_output(data):
    program = [Path(sys.executable).with_name("fairspan"), *replacing(AUDIT, data=data)]
    with FULL.open("w", encoding="utf-8") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2
    assert "standard output cannot be written (No space left on device)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
@pytest.mark.parametrize(
    ("command", "name"),
    [(FIT, "out.model"), *((TRANSFORM, f"out.{kind}") for kind in ("csv", "parquet", "feather"))],
)
def test_a_full_disk(installed, data, model, tmp_path, command, name):
    out = tmp_path / name
    words = replacing(command, data=data, model=model, out=out)
    before = sorted(tmp_path.iterdir())
    result = installed(10, *words, code=LIMITED)
    assert (result.status, result.out) == (2, "")
    assert f"{out} cannot be written" in result.err
    assert "Make room, or name another place" in result.err
    assert sorted(tmp_path.iterdir()) == before
