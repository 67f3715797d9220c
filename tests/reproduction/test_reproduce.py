"""The command: what it prints, writes and keeps, how it goes on, and what it refuses."""

import csv
import json
import re
import subprocess
import sys
import unicodedata

import pytest

from fairspan.errors import InvalidParameter
from reproduction.experiment import Result
from reproduction.page import RESULTS
from reproduction.registry import EXPERIMENTS, experiment_of
from reproduction.store import Store
from reproduction.writing import csv_of, format_cell, text_of, write_result


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_what_the_list_says(name):
    experiment = experiment_of(name)
    assert (experiment.name, experiment.title) == (name, EXPERIMENTS[name].title)
    assert experiment.source
    assert "\n" not in experiment.title


def test_help_lists_the_experiments_and_loads_nothing_heavy():
    code = (
        "import sys; from reproduction.command import run; assert run(['--help']) == 0\n"
        "print({'numpy', 'scipy', 'sklearn', 'matplotlib', 'pyarrow'} & set(sys.modules))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    *_, heavy_modules = process.stdout.splitlines()
    assert heavy_modules == "set()"
    for name, entry in EXPERIMENTS.items():
        assert f"{name} {entry.title}" in " ".join(process.stdout.split())


@pytest.mark.slow
def test_results_go_to_standard_output_and_to_files(reproduce, read_files, toy):
    result = reproduce("toy")
    assert (result.status, result.err) == (0, "")
    for words in ("Four numbers", "step 3        1", "A note.", "Source: made up", "toy.csv"):
        assert words in result.out
    files = read_files()
    assert list(files) == ["toy.csv", "toy.png", "toy.svg"]
    rows = list(csv.DictReader(files["toy.csv"].decode().splitlines()))
    assert [float(row["value"]) for row in rows] == [0, 1 / 3, 2 / 3, 1]


def test_without_matplotlib_the_figure_is_missing_and_the_rest_there(
    reproduce, read_files, toy, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = reproduce("toy")
    assert result.status == 0
    assert "needs the package matplotlib" in result.err
    assert list(read_files()) == ["toy.csv"]


def test_an_unknown_name_lists_all(reproduce, read_files):
    result = reproduce("samadi")
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("fairspan: error: There is no experiment 'samadi'. Allowed: ")
    for name in EXPERIMENTS:
        assert name in result.err
    assert read_files() == {}
    with pytest.raises(InvalidParameter):
        experiment_of("samadi")


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "rows.parquet").write_bytes(b"contents")
    return folder


def test_without_a_data_folder_the_message_says_to_pass_one(reproduce, registered, make_toy):
    registered(make_toy(files=("rows",)))
    result = reproduce("toy")
    assert (result.status, result.out) == (2, "")
    assert re.search(r"(?s)--data DIR.*FAIRSPAN_DATA|FAIRSPAN_DATA.*--data DIR", result.err)


def test_data_that_ship_need_no_folder(reproduce, read_files, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("FAIRSPAN_DATA", str(tmp_path / "empty"))
    result = reproduce("blog-bias")
    assert result.status == 0, result.err
    committed = json.loads((RESULTS / "blog-bias.json").read_text(encoding="utf-8"))
    _, *rows = csv.reader(read_files()["blog-bias.csv"].decode().splitlines())
    for one, other in zip(rows, committed["rows"], strict=True):
        assert one[0] == other[0]
        assert float(one[1]) == pytest.approx(other[1], rel=1e-9)


def test_a_missing_file_is_refused_before_any_work(
    reproduce, read_files, registered, make_toy, data
):
    toy = registered(make_toy(files=("rows", "other")))
    result = reproduce("toy", "--data", data)
    assert (result.status, result.out, toy.computed) == (2, "", [])
    assert f"There is no file {data / 'other.parquet'}" in result.err
    assert read_files() == {}


def interrupted_at(step):
    def before(now):
        if now == step:
            raise KeyboardInterrupt

    return before


def test_an_interrupted_run_keeps_its_steps_and_goes_on(
    reproduce, read_files, registered, make_toy
):
    uninterrupted = registered(make_toy(draws=False))
    assert reproduce("toy").status == 0
    expected = read_files()

    registered(make_toy(before=interrupted_at(2), draws=False))
    result = reproduce("toy")
    assert (result.status, result.out) == (130, "")
    for message in ("2 finished steps", "same command again"):
        assert message in result.err
    assert "toy.partial" in read_files()

    resumed = registered(make_toy(draws=False))
    result = reproduce("toy")
    assert result.status == 0
    assert "going on after 2 finished steps" in result.err
    assert (uninterrupted.computed, resumed.computed) == ([0, 1, 2, 3], [2, 3])
    assert read_files() == expected


def test_other_effort_or_data_start_over(reproduce, registered, make_toy, data):
    registered(make_toy(files=("rows",), before=interrupted_at(2), draws=False))
    assert reproduce("toy", "--data", data).status == 130
    toy = registered(make_toy(files=("rows",), before=interrupted_at(3), draws=False))
    result = reproduce("toy", "--quick", "--data", data)
    assert "starting over" in result.err
    assert toy.computed == [0, 1, 2]
    (data / "rows.parquet").write_bytes(b"other contents")
    toy = registered(make_toy(files=("rows",), draws=False))
    assert "starting over" in reproduce("toy", "--quick", "--data", data).err
    assert toy.computed == [0, 1, 2, 3]


HEADER = {"experiment": "toy", "seed": 0}


def never():
    raise AssertionError("computed again")


@pytest.fixture
def path(tmp_path):
    """File of a store with two steps."""
    path = tmp_path / "toy.partial"
    with Store(path, HEADER) as store:
        assert store.get_or_compute("a", lambda: [1 / 3, float("inf")]) == [1 / 3, float("inf")]
        assert store.get_or_compute("b", lambda: {"x": None}) == {"x": None}
    return path


def test_stored_results_are_not_computed_again(path):
    with Store(path, HEADER) as store:
        assert (store.n_resumed, store.get_or_compute("a", never)) == (2, [1 / 3, float("inf")])
        assert store.get_or_compute("b", never) == {"x": None}
        store.get_or_compute("c", lambda: 3)
    with Store(path, HEADER) as store:
        assert store.get_or_compute("c", never) == 3


@pytest.mark.parametrize("n", range(1, 25))
def test_a_last_line_that_was_cut_off_is_dropped(path, n):
    content = path.read_bytes()
    path.write_bytes(content[:-n])
    with Store(path, HEADER) as store:
        assert (store.n_resumed, store.get_or_compute("a", never)) == (1, [1 / 3, float("inf")])
        assert store.get_or_compute("b", lambda: {"x": None}) == {"x": None}
    assert path.read_bytes() == content


def test_lines_after_a_corrupt_one_are_dropped(path):
    header, first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + first.replace(b"key", b"k{y") + second)
    with Store(path, HEADER) as store:
        assert store.n_resumed == 0
        store.get_or_compute("b", lambda: 4)
    assert path.read_bytes() == header + b'{"key": "b", "value": 4}\n'


def test_another_header_starts_over_with_a_message(path):
    messages = []
    with Store(path, {**HEADER, "seed": 1}, messages.append) as store:
        assert (store.n_resumed, store.get_or_compute("a", lambda: 5)) == (0, 5)
    assert ["starting over" in message for message in messages] == [True]


def test_a_step_that_fails_is_not_kept(path):
    with pytest.raises(ZeroDivisionError), Store(path, HEADER) as store:
        store.get_or_compute("c", lambda: 1 / 0)
    with Store(path, HEADER) as store:
        assert (store.n_resumed, "c" in store) == (2, False)


RESULT = Result(
    "A title",
    ("name", "count", "value", "note"),
    [("first", 3, 1 / 3, None), ("the second", 10, 12345.678, "far"), ("third", None, 2e-12, None)],
    ("A note that is " + "long " * 30,),
)


def test_the_table_is_aligned():
    assert text_of(RESULT).splitlines()[:7] == [
        "A title",
        "",
        "name        count    value  note",
        "----------  -----  -------  ----",
        "first           3  0.33333",
        "the second     10    12346  far",
        "third                2e-12",
    ]


def columns_of(line):
    """Return the number of columns of a terminal that a line takes; two for each kanji."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in line)


WIDE = Result(
    "A long title: " + "wide " * 9,
    ("data", "d", *(f"figure {i}" for i in range(12))),
    [(data, d, *(d / 3 + i for i in range(12))) for data in ("東京", "credit") for d in (1, 2)],
)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_columns_that_do_not_fit_follow_below_with_the_row_names(width):
    lines = text_of(WIDE, width).splitlines()
    assert max(map(columns_of, lines)) <= width
    tables = "\n".join(lines).split("\n\n")[1:]
    assert len(tables) > 1
    headings = [re.split(r"\s{2,}", table.splitlines()[0]) for table in tables]
    assert all(heading[:2] == ["data", "d"] for heading in headings)
    assert [name for heading in headings for name in heading[2:]] == list(WIDE.columns[2:])
    for table, heading in zip(tables, headings, strict=True):
        assert len({columns_of(line) for line in table.splitlines()[:2]}) == 1
        for line, row in zip(table.splitlines()[2:], WIDE.rows, strict=True):
            cells = [format_cell(row[WIDE.columns.index(name)]) for name in heading]
            assert line.split() == cells


def test_csv_keeps_every_digit():
    rows = list(csv.DictReader(csv_of(RESULT).splitlines()))
    assert float(rows[0]["value"]) == 1 / 3
    assert (rows[0]["count"], rows[2]["count"], rows[0]["note"]) == ("3", "", "")


def test_a_row_has_one_value_for_each_column():
    with pytest.raises(ValueError, match="2 columns, but a row of 1"):
        Result("t", ("a", "b"), [(1,)])


def draw_case(figure):
    figure.subplots().plot([1, 2], [3, 4], label="line")


@pytest.mark.slow
def test_figures_are_the_same_bytes_each_time(tmp_path):
    pytest.importorskip("matplotlib")
    result = Result("t", ("a",), [(1,)], draw=draw_case)
    (paths, missing), (again, _) = (write_result(result, tmp_path, name) for name in ("one", "two"))
    assert [path.name for path in paths] == ["one.csv", "one.svg", "one.png"]
    assert missing is None
    contents, others = ([path.read_bytes() for path in files] for files in (paths, again))
    assert contents == others
    assert [content[:4] for content in contents[1:]] == [b"<?xm", b"\x89PNG"]


def test_no_file_remains_if_drawing_fails(tmp_path):
    pytest.importorskip("matplotlib")

    def fail_to_draw(figure):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_result(Result("t", ("a",), [(1,)], draw=fail_to_draw), tmp_path, "one")
    assert [path.name for path in tmp_path.iterdir()] == ["one.csv"]
