"""Inputs that cannot be read and outputs that cannot be written."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fairspan as fs
from cli.conftest import AUDIT, FIT, LIMITED, TRANSFORM, replacing
from fairspan.errors import InvalidParameter

ALL = pytest.mark.parametrize("command", [AUDIT, FIT, TRANSFORM], ids=["audit", "fit", "transform"])
WRITING = pytest.mark.parametrize("command", [FIT, TRANSFORM], ids=["fit", "transform"])
HEADER = "pay_1,pay_2,age,limit,height,weight\n"
ROW = "1,2,old,3,4,5\n"
FILES = [
    ("empty.csv", b"", ["empty.csv is empty", "header line"]),
    ("blank.csv", b"\n\n", ["blank.csv is empty"]),
    ("header.csv", HEADER.encode(), ["rows"]),
    ("unfinished.csv", HEADER.strip().encode(), ["unfinished.csv cannot be read"]),
    ("short.csv", (HEADER + ROW + "1,2,old\n").encode(), ["3 cells below a header of 6"]),
    ("long.csv", (HEADER + ROW + ROW[:-1] + ",6\n").encode(), ["7 cells below a header of 6"]),
    ("twice.csv", (HEADER.replace("weight", "pay_1") + ROW).encode(), ["several", "'pay_1'"]),
    ("utf16.csv", (HEADER + ROW).encode("utf-16"), ["is not written in utf-8", "utf-16"]),
    ("not.csv.gz", HEADER.encode(), ["not.csv.gz cannot be read"]),
    ("empty.parquet", b"", ["empty.parquet cannot be read"]),
    ("not.parquet", HEADER.encode(), ["not.parquet cannot be read"]),
    ("not.feather", HEADER.encode(), ["not.feather cannot be read"]),
    ("unknown.sav", b"$FL2@(#) SPSS", ["unknown.sav is of an unknown kind", ".parquet"]),
    ("sheet.xlsx", b"PK\x03\x04" + bytes(60), ["sheet.xlsx"]),
]


@ALL
@pytest.mark.parametrize(("name", "content", "words"), FILES, ids=[name for name, *_ in FILES])
def test_files(refused, tmp_path, command, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    refused(*command, data=path, said=words)


@ALL
def test_a_name_that_is_not_utf8(refused, table, tmp_path, command):
    path = tmp_path / os.fsdecode(b"r\xff.parquet")
    try:
        table.to_parquet(tmp_path / "rows.parquet")
        (tmp_path / "rows.parquet").rename(path)
    except (OSError, UnicodeError):
        pytest.skip("this file system takes no such names")
    assert "r\\udcff.parquet' is not UTF-8" in refused(*command, data=path)


@ALL
def test_a_name_that_a_terminal_would_obey(refused, tmp_path, command):
    try:
        (tmp_path / "a\x1b[31m\nb.parquet").touch()
    except OSError:
        pytest.skip("this file system takes no such names")
    refused(
        *command, data=tmp_path / "a\x1b[31m\nb.parquet", said="a?[31m?b.parquet cannot be read"
    )


@ALL
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe(refused, tmp_path, command):
    os.mkfifo(tmp_path / "rows.csv")  # opened, it would wait for a writer for ever
    assert "rows.csv is a pipe or a device" in refused(*command, data=tmp_path / "rows.csv")


@pytest.mark.parametrize("command", [AUDIT, TRANSFORM], ids=["audit", "transform"])
@pytest.mark.parametrize("ending", ["parquet", "feather", "csv.gz"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_truncated_files(refused, table, features, tmp_path, command, ending, share):
    path = tmp_path / f"cut.{ending}"
    frame = table[[*features, "age"]]
    frame.to_csv(path) if ending == "csv.gz" else getattr(frame, f"to_{ending}")(path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert f"{path} cannot be read" in refused(*command, data=path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_models_and_moments(refused, table, features, model, tmp_path, share):
    cut = tmp_path / "cut"
    content = model.read_bytes()
    cut.write_bytes(content[: int(share * len(content))])
    assert "cut cannot be read as a fairspan file" in refused(*TRANSFORM, model=cut)
    assert "cut cannot be read" in refused(*AUDIT, "--model", cut)
    fs.GroupMoments.from_rows(table[features], table["age"]).save(cut)
    cut.write_bytes(cut.read_bytes()[: int(share * cut.stat().st_size)])
    assert "cut" in refused(*(AUDIT if share == 0 else AUDIT[:2]), data=cut)


def test_parquet_parts_that_do_not_belong_together(refused, table, features, tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    assert "holds no file of rows" in refused(*AUDIT, data=parts)
    table[[*features, "age"]].to_parquet(parts / "1.parquet")
    table[features].to_parquet(parts / "2.parquet")
    assert "2.parquet has other columns than" in refused(*AUDIT, data=parts)
    (parts / "2.parquet").write_bytes((parts / "1.parquet").read_bytes()[:-9])
    assert f"{parts / '2.parquet'} cannot be read" in refused(*AUDIT, data=parts)


@pytest.mark.skipif(sys.platform == "win32", reason="of POSIX systems")
@pytest.mark.parametrize("kind", ["zero", "pipe", "linked pipe"])
def test_devices_and_pipes_behind_links_are_refused_at_once(refused, data, tmp_path, kind):
    trap = tmp_path / "trap.csv"
    if kind == "zero":
        trap.symlink_to("/dev/zero")
    else:
        os.mkfifo(tmp_path / "pipe.csv")
        trap = tmp_path / "pipe.csv"
    if kind == "linked pipe":
        trap = tmp_path / "trap.csv"
        trap.symlink_to(tmp_path / "pipe.csv")
    for command in (FIT, AUDIT, TRANSFORM):
        assert "a pipe or a device" in refused(*command, data=trap)
    assert "a pipe or a device" in refused(*TRANSFORM, model=trap)
    assert "a pipe or a device" in refused(*AUDIT, "--model", trap)


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
    installed(
        10,
        *words,
        code=LIMITED,
        status=2,
        out=None,
        err=[f"{out} cannot be written", "Make room, or name another place"],
    )
    assert sorted(tmp_path.iterdir()) == before
