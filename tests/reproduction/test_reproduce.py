"""The command: what it prints and writes, how it is interrupted and goes on, what it refuses."""

import csv
import subprocess
import sys

import pytest

from fairspan.errors import InvalidParameter
from reproduction.registry import EXPERIMENTS, experiment_of


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *_, loaded = done.stdout.splitlines()
    assert loaded == "set()"
    for name, entry in EXPERIMENTS.items():
        assert f"{name} {entry.title}" in " ".join(done.stdout.split())


def test_results_go_to_standard_output_and_to_files(reproduce, written, toy):
    result = reproduce("toy")
    assert (result.status, result.err) == (0, "")
    for words in ("Four numbers", "step 3        1", "A note.", "Source: made up", "toy.csv"):
        assert words in result.out
    files = written()
    assert list(files) == ["toy.csv", "toy.png", "toy.svg"]
    rows = list(csv.DictReader(files["toy.csv"].decode().splitlines()))
    assert [float(row["value"]) for row in rows] == [0, 1 / 3, 2 / 3, 1]


def test_without_matplotlib_the_figure_is_missing_and_the_rest_there(
    reproduce, written, toy, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = reproduce("toy")
    assert result.status == 0
    assert "no figure was drawn. The figure needs the package matplotlib" in result.err
    assert list(written()) == ["toy.csv"]


def test_an_unknown_name_lists_all(reproduce, written):
    result = reproduce("samadi")
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("fairspan: error: There is no experiment 'samadi'. Allowed: ")
    for name in EXPERIMENTS:
        assert name in result.err
    assert written() == {}
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
    assert "--data DIR" in result.err
    assert "FAIRSPAN_DATA" in result.err


def test_a_missing_file_is_refused_before_any_work(reproduce, written, registered, make_toy, data):
    toy = registered(make_toy(files=("rows", "other")))
    result = reproduce("toy", "--data", data)
    assert (result.status, result.out, toy.computed) == (2, "", [])
    assert f"There is no file {data / 'other.parquet'}" in result.err
    assert written() == {}


def interrupted_at(step):
    def before(now):
        if now == step:
            raise KeyboardInterrupt

    return before


def test_an_interrupted_run_keeps_its_steps_and_goes_on(reproduce, written, registered, make_toy):
    whole = registered(make_toy())
    assert reproduce("toy").status == 0
    expected = written()

    registered(make_toy(before=interrupted_at(2)))
    result = reproduce("toy")
    assert (result.status, result.out) == (130, "")
    assert "2 finished steps are kept in" in result.err
    assert "run the same command again" in result.err
    assert "toy.partial" in written()

    resumed = registered(make_toy())
    result = reproduce("toy")
    assert result.status == 0
    assert "going on after 2 finished steps" in result.err
    assert (whole.computed, resumed.computed) == ([0, 1, 2, 3], [2, 3])
    assert written() == expected


def test_other_effort_or_data_start_over(reproduce, registered, make_toy, data):
    registered(make_toy(files=("rows",), before=interrupted_at(2)))
    assert reproduce("toy", "--data", data).status == 130
    toy = registered(make_toy(files=("rows",), before=interrupted_at(3)))
    result = reproduce("toy", "--quick", "--data", data)
    assert "starting over" in result.err
    assert toy.computed == [0, 1, 2]
    (data / "rows.parquet").write_bytes(b"other contents")
    toy = registered(make_toy(files=("rows",)))
    assert "starting over" in reproduce("toy", "--quick", "--data", data).err
    assert toy.computed == [0, 1, 2, 3]
