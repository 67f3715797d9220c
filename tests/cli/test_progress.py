import gzip
import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairspan.cli.progress import estimated_rows, telling
from fairspan.moments.of_rows import accumulate
from fairspan.progress import line as progress_line
from fairspan.progress.line import ProgressLine
from fairspan.progress.showing import on_terminal
from fairspan.progress.stages import Stage, listening
from fairspan.rows.engines import InThisProcess, Processes
from fairspan.rows.files.file_rows import FileRows


class Terminal(io.StringIO):
    def isatty(self):
        return True


def clock_in_steps_of(seconds):
    ticks = count()
    return lambda: next(ticks) * seconds


def shown_on(terminal, clock, columns=80):
    """Inside, a terminal shows how far things have come."""
    return listening(ProgressLine(on_terminal(terminal), lambda: columns, clock))


@pytest.fixture(scope="module")
def wide_table():
    return pa.table({f"x{j}": np.zeros(10_000) for j in range(200)})


@pytest.fixture
def rows(wide_table, tmp_path):
    pq.write_table(wide_table, tmp_path / "rows.parquet")
    source = FileRows.open(tmp_path / "rows.parquet")
    assert len(list(source.blocks())) >= 8
    return source


def read(source):
    return np.concatenate([block.values for block in source.blocks()])


def test_nothing_is_written_in_the_first_two_seconds(rows):
    terminal = Terminal()
    # Two readings of the clock at the start, and one after each of the blocks.
    n_blocks = len(list(rows.blocks()))
    with shown_on(terminal, clock_in_steps_of(1.99 / (n_blocks + 1))):
        read(telling(rows, "reading"))
    assert terminal.getvalue() == ""


def test_later_the_line_counts_rows_and_is_cleared_at_the_end(rows):
    terminal = Terminal()
    with shown_on(terminal, clock_in_steps_of(1.0)):
        values = read(telling(rows, "reading"))
    assert len(values) == 10_000
    *lines, blank, after = terminal.getvalue().split("\r")[1:]
    assert len(lines) >= 2
    done = [int(line.split()[1].replace(",", "")) for line in lines]
    assert done == sorted(set(done))
    assert lines[-1].startswith("reading: 10,000 of 10,000 rows (100 %), ")
    assert max(map(len, lines)) < 80
    assert (blank.strip(), after) == ("", "")
    assert len(blank) >= max(map(len, lines))


def test_the_line_is_cleared_when_reading_fails(wide_table, tmp_path):
    last = np.append(np.zeros(9_999), np.nan)
    broken = wide_table.set_column(199, "x199", pa.array(last))
    pq.write_table(broken, tmp_path / "broken.parquet")
    rows = FileRows.open(tmp_path / "broken.parquet")
    terminal = Terminal()
    with pytest.raises(ValueError, match="NaN"), shown_on(terminal, clock_in_steps_of(1.0)):
        read(telling(rows, "reading"))
    assert "rows" in terminal.getvalue()
    assert terminal.getvalue().endswith(" \r")


def test_the_line_is_not_rewritten_more_often_than_it_can_be_read(rows):
    terminal = Terminal()
    n_blocks = len(list(rows.blocks()))
    with shown_on(terminal, clock_in_steps_of(6.0 / n_blocks)):
        read(telling(rows, "reading"))
    assert 1 <= terminal.getvalue().count("reading") <= 4.0 / 0.2


LINES = "1.25,2.5\n" * 150_000


def auditing(path):
    terminal = Terminal()
    with shown_on(terminal, clock_in_steps_of(1.5)):
        read(telling(FileRows.open(path), "auditing"))
    return terminal.getvalue()


def test_of_a_csv_the_number_of_rows_is_an_estimate(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("x,y\n" + LINES)
    shown = auditing(path)
    assert "\rauditing: 150,000 of about 150,000 rows (100 %), " in shown
    assert " left" in shown


def test_rows_of_unknown_number_and_more_rows_than_were_guessed(tmp_path):
    packed = tmp_path / "long.csv.gz"
    packed.write_bytes(gzip.compress(("x,y\n" + LINES).encode()))
    growing = tmp_path / "growing.csv"  # its first lines are the longest
    growing.write_text("x,y\n" + "1.2500000000000000000,2.5000000000000000000\n" * 4000 + LINES)
    for path, n_rows in ((packed, 150_000), (growing, 154_000)):
        last = auditing(path).split("\r")[-3]
        assert last.startswith(f"auditing: {n_rows:,} rows, ")
        assert " left" not in last


@pytest.mark.parametrize(("n_rows", "about"), [(1234, 1200), (86_500, 86_000), (3, 3)])
def test_the_estimate_has_two_digits(tmp_path, n_rows, about):
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text("x,g\n" + "1.25,a\n" * n_rows)
    rows = FileRows.open(tmp_path, ["g"])
    assert estimated_rows(rows.parts) == estimated_rows([rows])
    assert estimated_rows([rows]) == pytest.approx(2 * n_rows, rel=0.05)
    assert estimated_rows(rows.parts[:1]) == about


def test_nothing_is_estimated_where_lines_do_not_show_it(tmp_path):
    (tmp_path / "one.csv").write_text("x,g\n1,a")
    assert estimated_rows([FileRows.open(tmp_path / "one.csv", ["g"])]) is None


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (80, "reading: 20,000,000 of 40,000,000 rows (50 %), 1.0 M rows/s, 20 s left"),
        (71, "reading: 20,000,000 of 40,000,000 rows (50 %), 1.0 M rows/s, 20 s left"),
        (70, "reading: 50 %, 1.0 M rows/s, 20 s left"),
        (37, "reading: 50 %, 20 s left"),
        (12, "reading: 50"),
    ],
)
def test_on_a_narrow_terminal_the_line_is_shorter_and_never_wraps(columns, shown):
    terminal = Terminal()
    clock = iter([0, 0, 20]).__next__
    with shown_on(terminal, clock, columns), Stage("reading", 40_000_000, "rows") as stage:
        stage.add(20_000_000)
    assert terminal.getvalue().split("\r")[1] == shown
    assert len(shown) < columns


def test_the_rows_stay_what_they_are(rows):
    wrapped = telling(rows, "reading")
    assert (wrapped.n_rows, wrapped.feature_names) == (10_000, rows.feature_names)
    np.testing.assert_array_equal(read(wrapped), read(rows))


def test_the_line_tells_the_rate_and_the_time_left():
    terminal = Terminal()
    clock = iter([0, 0, 1, 20, 40]).__next__
    with shown_on(terminal, clock), Stage("reading", 40_000_000, "rows") as stage:
        for _ in range(3):
            stage.add(10_000_000)
    _, first, second, blank, after = terminal.getvalue().split("\r")
    assert first == "reading: 20,000,000 of 40,000,000 rows (50 %), 1.0 M rows/s, 20 s left"
    assert second.rstrip() == (
        "reading: 30,000,000 of 40,000,000 rows (75 %), 750 k rows/s, 13 s left"
    )
    assert (blank.strip(), after) == ("", "")


def test_rows_that_were_read_before_count_for_the_share_but_not_for_the_rate():
    terminal = Terminal()
    clock = iter([0, 0, 10]).__next__
    with shown_on(terminal, clock), Stage("reading", 1000, "rows", done=600) as stage:
        stage.add(200)
    assert "reading: 800 of 1,000 rows (80 %), 20 rows/s, 10 s left" in terminal.getvalue()


@pytest.fixture
def folder(tmp_path):
    """Three files of two row groups each, 1000 rows in all."""
    rng = np.random.default_rng(1)
    for number, n_rows in enumerate((400, 300, 300)):
        columns = {"x": rng.normal(size=n_rows), "g": rng.choice(["a", "b"], n_rows)}
        path = tmp_path / "folder" / f"{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), path, row_group_size=n_rows // 2)
    return tmp_path / "folder"


@pytest.mark.long
@pytest.mark.parametrize("engine", [InThisProcess(), Processes(2)], ids=["here", "processes"])
def test_parts_are_counted_wherever_they_are_read(folder, engine):
    rows = replace(FileRows.open(folder, ["g"]), engine=engine)
    terminal = Terminal()
    with shown_on(terminal, clock_in_steps_of(3.0)):
        found = accumulate(telling(rows, "reading"))
    assert found.to_bytes() == accumulate(rows).to_bytes()
    done = re.findall(r"reading: ([\d,]+) of 1,000 rows", terminal.getvalue())
    assert done == ["200", "400", "550", "700", "850", "1,000"]
    assert terminal.getvalue().endswith(" \r")


@pytest.mark.long
def test_parts_of_unknown_size_are_counted_themselves(folder):
    for number in range(3):
        (folder / f"{number}.parquet").unlink()
        (folder / f"{number}.csv").write_text("x,g\n1,a\n2,b\n")
    rows = replace(FileRows.open(folder, ["g"]), engine=Processes(2))
    terminal = Terminal()
    with shown_on(terminal, clock_in_steps_of(3.0)):
        accumulate(telling(rows, "reading"))
    done = re.findall(r"reading: (\d) of 3 parts", terminal.getvalue())
    assert done == ["1", "2", "3"]
    assert "reading: 1 of 3 parts (33 %), 20 parts/min, 6 s left" in terminal.getvalue()


@pytest.mark.parametrize("command", ["audit", "fit"])
def test_nothing_is_written_where_no_terminal_is(run, data, tmp_path, monkeypatch, command):
    monkeypatch.setattr(progress_line, "_PATIENCE", -1.0)
    where = ["-o", tmp_path / "m"] if command == "fit" else []
    result = run(command, data, "--group", "age", "-d", 2, *where)
    assert (result.status, result.err) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_real_terminal_shows_progress_and_is_left_clean(data):
    code = (
        "import sys; from fairspan.cli import main\n"
        "from fairspan.progress import line\n"
        "line._PATIENCE = line._EVERY = -1.0\n"
        "main(sys.argv[1:])"
    )
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, "audit", str(data), "--group", "age", "--json"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=60,
        )
        shown = os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0
    assert b"rows" in done.stdout
    assert "reading: 240 of about 240 rows (100 %)" in shown
    assert "auditing: 240 of about 240 rows (100 %)" in shown
    assert shown.endswith(" \r")


def test_what_takes_hours_is_told_by_the_hour():
    terminal = Terminal()
    clock = iter([0, 0, 5000]).__next__
    with shown_on(terminal, clock), Stage("reading", 4, "parts") as stage:
        stage.add(1)
    assert "reading: 1 of 4 parts (25 %), 1 parts/h, 4.2 h left" in terminal.getvalue()


@pytest.mark.parametrize(
    ("seconds", "told"), [(89, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h")]
)
def test_durations_change_their_unit(seconds, told):
    assert progress_line.duration(seconds) == told
