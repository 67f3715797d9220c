"""Output on a terminal, and output that is the same without one."""

import contextlib
import gzip
import io
import os
import re
import struct
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.conftest import terminal_width
from fairspan import cli, progress

fcntl = pytest.importorskip("fcntl", reason="needs a pseudo-terminal")
termios = pytest.importorskip("termios", reason="needs a pseudo-terminal")

COLOR = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture
def immediate_progress(monkeypatch):
    """Every change of progress is shown."""
    monkeypatch.setattr(progress, "_DELAY", 0)
    monkeypatch.setattr(progress, "_INTERVAL", 0)


@pytest.fixture
def run_on_terminal(tmp_path, monkeypatch, immediate_progress):
    """Run a command whose streams are terminals; return its status and all that it wrote."""
    monkeypatch.chdir(tmp_path)

    def run_with(*arguments, columns=80, **environment):
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        controller, terminal_side = os.openpty()
        fcntl.ioctl(terminal_side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        output = bytearray()

        def read():
            with contextlib.suppress(OSError):  # how Linux says that nobody writes any more
                while part := os.read(controller, 65_536):
                    output.extend(part)

        reader = threading.Thread(target=read)
        reader.start()
        with (
            os.fdopen(terminal_side, "w", encoding="utf-8") as terminal,
            contextlib.redirect_stdout(terminal),
            contextlib.redirect_stderr(terminal),
        ):
            status = cli.run(list(map(str, arguments)))
        reader.join()
        os.close(controller)
        return status, output.decode()

    return run_with


def remaining_lines(output):
    """Return the lines that remain: text before the last carriage return is overwritten."""
    lines = COLOR.sub("", output).replace("\r\n", "\n").split("\n")
    return [line.rsplit("\r", 1)[-1] for line in lines]


@pytest.fixture
def folder(tmp_path):
    """Three files of rows, 1000 in all."""
    rng = np.random.default_rng(1)
    (tmp_path / "folder").mkdir()
    for number, n_rows in enumerate((400, 300, 300)):
        columns = {"x": rng.normal(size=n_rows), "g": rng.choice(["a", "b"], n_rows)}
        pq.write_table(pa.table(columns), tmp_path / "folder" / f"{number}.parquet")
    return tmp_path / "folder"


@pytest.mark.parametrize(
    "columns", [*(pytest.param(width, marks=pytest.mark.slow) for width in (80, 60)), 40]
)
def test_each_command_shows_progress_in_one_line(run_on_terminal, data, folder, tmp_path, columns):
    model = tmp_path / "model"
    by_age = ("--group", "age")
    for command, shares in (
        (("audit", data, *by_age), ("auditing: 30%", "auditing: 95%")),
        (("fit", data, *by_age, "-o", model), ("fitting: 30%", "fitting: 95%")),
        (("transform", model, data, "-o", "out.csv"), ("transforming: 100%",)),
        (("moments", data, *by_age, "-o", "m"), ("reading: 100%",)),
        (("moments", folder, "--group", "g", "-o", "n"), ("reading: 40%", "reading: 100%")),
        (("merge", "m", "m", "-o", "both"), ("merging: 100%",)),
    ):
        status, output = run_on_terminal(*command, columns=columns)
        assert status == 0, output
        lines = [line.rstrip() for line in output.split("\r")]
        for share in shares:
            progress_lines = [line for line in lines if re.sub(" +", " ", line).startswith(share)]
            assert progress_lines, (command, share)
            assert max(map(len, progress_lines)) <= columns
        assert not any("ing:" in line and "%" in line for line in remaining_lines(output))


@pytest.mark.long
@pytest.mark.parametrize(
    ("jobs", "expected"),
    [("1", ["400/1.00k", "700/1.00k", "1.00k/1.00k"]), ("2", ["1/3", "2/3", "3/3"])],
)
def test_rows_are_counted_in_this_process_and_parts_in_others(
    monkeypatch, immediate_progress, folder, tmp_path, jobs, expected
):
    monkeypatch.setattr(sys, "stderr", Terminal())
    command = ["moments", folder, "--group", "g", "--jobs", jobs, "-o", tmp_path / "m"]
    assert cli.run(list(map(str, command))) == 0
    progress = re.findall(r"\| *([\d.]+k?/[\d.]+k?) ", sys.stderr.getvalue())
    assert list(dict.fromkeys(progress))[1:] == expected


def test_the_number_of_rows_of_a_csv_is_an_estimate_of_two_digits(run_on_terminal, tmp_path):
    for n_rows, about in ((1234, "1.20k"), (86_500, "86.0k")):
        (tmp_path / "long.csv").write_text("x,g\n" + "1.25,a\n1.50,b\n" * (n_rows // 2))
        _, output = run_on_terminal("moments", "long.csv", "--group", "g", "-o", "m", columns=80)
        assert re.search(rf"reading: .*/{re.escape(about)} \[", output), output
    # The number of lines in a compressed file is unknown.
    with gzip.open(tmp_path / "packed.csv.gz", "wt") as file:
        file.write("x,g\n" + "1.25,a\n1.50,b\n" * 50)
    _, output = run_on_terminal("moments", "packed.csv.gz", "--group", "g", "-o", "m", columns=80)
    assert "reading: 100 rows [" in output


def test_only_terminals_that_want_colors_get_them_and_the_text_is_the_same(
    run_on_terminal, run, data
):
    command = ("fit", data, "--group", "age", "-d", "2", "--folds", "none", "-o", "m")
    status, colored = run_on_terminal(*command)
    assert status == 0
    assert COLOR.search(colored)
    for variable in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        _, plain = run_on_terminal(*command, **variable)
        assert "\x1b" not in plain
        assert remaining_lines(plain) == remaining_lines(colored)
    piped = run(*command)
    assert "\x1b" not in piped.out
    assert remaining_lines(colored) == piped.out.split("\n")
    # An empty NO_COLOR is none.
    assert COLOR.search(run_on_terminal(*command, NO_COLOR="")[1])


def test_colors_say_what_deserves_a_look(run_on_terminal, table, features, tmp_path):
    odd = table[[*features, "age"]]
    odd.assign(age=odd["age"].where(odd.index != 0, "alone")).to_csv(
        tmp_path / "odd.csv", index=False
    )
    status, output = run_on_terminal("fit", "odd.csv", "--group", "age", "-d", "2", "-o", "m")
    assert status == 0
    assert "\x1b[33m\x1b[1mFS102\x1b[0m" in output
    assert "\x1b[32mproven\x1b[0m" in output or "\x1b[33mopen\x1b[0m" in output
    assert "FS302" in output
    assert "mFS302" not in output
    # The loss of a harmed group, after its name, rows and error.
    lines = [line for line in output.splitlines() if re.search(r"%\s+harmed$", COLOR.sub("", line))]
    assert lines
    for line in lines:
        colored = re.search(r"\x1b\[31m\x1b\[1m(\S+? %)\x1b\[0m", line)[1]
        assert colored == re.findall(r"\S+ %", COLOR.sub("", line))[1]


def test_an_error_is_colored_by_the_terminal_of_standard_error(run_on_terminal, run, data):
    status, output = run_on_terminal("audit", data, "--group", "no-such-column")
    assert status == 2
    assert output.startswith("\x1b[31m\x1b[1mfairspan: error:\x1b[0m ")
    assert run("audit", data, "--group", "no-such-column").err == COLOR.sub("", output).replace(
        "\r\n", "\n"
    )


@pytest.mark.parametrize("columns", [pytest.param(80, marks=pytest.mark.slow), 60])
def test_long_names_fit_the_terminal(run_on_terminal, table, features, tmp_path, columns):
    names = {"old": "東京都世田谷区の住民の皆さん", "young": "all others, whether old or not"}
    table[features].assign(age=table["age"].map(names)).to_csv(tmp_path / "n.csv", index=False)
    status, output = run_on_terminal(
        "audit", "n.csv", "--group", "age", "-d", "2", "--standardize", columns=columns
    )
    assert status == 0
    *lines, command = (line for line in remaining_lines(output) if line)
    assert max(map(terminal_width, lines)) <= columns
    assert command.startswith("Next: ")  # not wrapped, so that it can be copied


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.slow
def test_the_demo_is_as_wide_as_the_terminal(run_on_terminal, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    for columns in (80, 60):
        status, output = run_on_terminal("demo", columns=columns)
        assert status == 0
        lines = remaining_lines(output)
        (end,) = (i for i, line in enumerate(lines) if "fairspan audit DATA.csv" in line)
        assert columns - 12 < max(map(len, lines[:end])) <= columns


@pytest.mark.parametrize("name", ["", *cli.fairspan.commands])
def test_help_fits_80_columns_on_any_terminal(run, monkeypatch, name):
    for columns in ("80", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        result = run(*[name] * bool(name), "--help", status=0)
        assert max(map(len, result.out.splitlines())) <= 80


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_names_that_the_terminal_cannot_write_are_escaped(table, tmp_path, encoding):
    table.assign(age=table["age"].map({"old": "\u4e2d", "young": "young"})).to_csv(
        tmp_path / "t.csv", index=False
    )
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    words = ["audit", str(tmp_path / "t.csv"), "--exclude", "sex", "--folds", "none"]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert cli.run([*words, "--group", "age"]) == 0
        assert cli.run([*words, "--group", "\u4e2d"]) == 2
    escaped = "\\u4e2d" if encoding == "latin-1" else "\u4e2d"
    for stream in (out, err):
        stream.flush()
        assert escaped in stream.buffer.getvalue().decode(encoding)
        assert stream.errors == "strict"  # as before
