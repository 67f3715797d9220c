"""Help: options by purpose, examples that run, long names, and completion in a shell."""

import os
import shlex
import sys
from pathlib import Path

import click
import numpy as np
import pytest

import fairspan
from cli.conftest import made_table
from fairspan import cli

COMMANDS = sorted(cli.fairspan.commands)
HEADINGS = ["Reading the table:", "What is fitted:", "How it is judged:", "Output:", "Examples:"]


def options_of(name):
    return [each for each in cli.fairspan.commands[name].params if isinstance(each, click.Option)]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_grouped_by_purpose_and_ends_with_two_examples(run, name):
    lines = run(name, "--help").out.splitlines()
    found = [line for line in lines if line in HEADINGS]
    assert found == [line for line in HEADINGS if line in found]
    assert found[-2:] == ["Output:", "Examples:"]
    examples = lines[lines.index("Examples:") + 1 :]
    assert examples == [f"  {example}" for example in cli.fairspan.commands[name].examples]
    assert len(examples) == 2
    assert max(map(len, lines)) <= 80
    listed = [line.split()[0].rstrip(",") for line in lines if line.startswith("  -")]
    assert listed.count("-h") == 1
    assert len(listed) == len(options_of(name)) + 1


@pytest.fixture
def patients(tmp_path, monkeypatch):
    """The files that examples name."""
    monkeypatch.chdir(tmp_path)
    table = made_table().drop(columns="age")
    table.to_csv("patients.csv", index=False)
    table[:100].to_csv("north.csv", index=False)
    table[100:].to_csv("south.csv", index=False)
    table.drop(columns="sex").to_csv("new.csv", index=False)
    assert cli.run(["fit", "patients.csv", "--group", "sex", "-o", "patients.model"]) == 0
    for site in ("north", "south"):
        where = ["--group", "sex", "-o", f"{site}.moments"]
        assert cli.run(["moments", f"{site}.csv", *where]) == 0


SLOW = ("demo", "report")


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.long] * (each in SLOW)) for each in COMMANDS]
)
def test_the_examples_of_help_work(run, patients, name):
    for example in cli.fairspan.commands[name].examples:
        program, *words = shlex.split(example)
        assert program == "fairspan"
        assert words[0] == name
        outputs = [Path(words[i + 1]) for i, word in enumerate(words) if word == "-o"]
        for path in outputs:
            path.unlink(missing_ok=True)
        done = run(*words)
        assert done.status == 0, done
        assert done.out
        assert all(path.exists() for path in outputs)


@pytest.mark.skipif(sys.platform == "win32", reason="needs bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fairspan fit --criterion minimax_", {"minimax_error", "minimax_loss"}),
        ("fairspan fit --restriction ", {"mean_parity", "covariance_parity"}),
        ("fairspan fit --solver du", {"dual_newton"}),
        ("fairspan mo", {"moments"}),
        ("fairspan fit --allow", {"--allow-extra"}),
    ],
)
def test_a_shell_completes_names(installed, line, expected):
    words = line.split(" ")
    asked = {"_FAIRSPAN_COMPLETE": "bash_complete", "COMP_CWORD": str(len(words) - 1)}
    done = installed(env={**os.environ, **asked, "COMP_WORDS": line})
    assert {each.split(",")[1] for each in done.out.split()} == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_documented_completion_prints_a_script(installed, shell):
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert f"_FAIRSPAN_COMPLETE={shell}_source fairspan" in page
    done = installed(env={**os.environ, "_FAIRSPAN_COMPLETE": f"{shell}_source"})
    assert "_fairspan_completion" in done.out


@pytest.fixture
def folder(tmp_path):
    table = made_table()
    (tmp_path / "rows").mkdir()
    for i, part in enumerate(np.array_split(np.arange(len(table)), 3)):
        path = tmp_path / "rows" / f"{i}.csv"
        table.drop(columns="sex").iloc[part].to_csv(path, index=False)
    return tmp_path / "rows"


@pytest.mark.parametrize(
    ("cores", "said"),
    [
        (64, "fairspan: --jobs 50: 3 processes read the rows, as the files have 3 parts.\n"),
        (1, "fairspan: --jobs 50: 1 process reads the rows, as this machine has 1 core.\n"),
        (2, "fairspan: --jobs 50: 2 processes read the rows, as this machine has 2 cores.\n"),
        (3, "fairspan: --jobs 50: 3 processes read the rows, as the files have 3 parts.\n"),
    ],
)
def test_no_more_processes_are_used_than_are_useful(folder, monkeypatch, capsys, cores, said):
    from fairspan.cli.options import Reading
    from fairspan.cli.reading import opened

    monkeypatch.setattr("os.cpu_count", lambda: cores)
    rows = opened(Reading(groups=("age",), jobs=50), folder)
    used = min(3, cores)
    assert capsys.readouterr().err == said
    assert rows.jobs == used


def test_nothing_is_said_of_processes_that_are_all_used(folder, monkeypatch, capsys):
    from fairspan.cli.options import Reading
    from fairspan.cli.reading import opened

    monkeypatch.setattr("os.cpu_count", lambda: 4)
    for jobs in (2, 3):
        assert opened(Reading(groups=("age",), jobs=jobs), folder).jobs == jobs
    assert capsys.readouterr().err == ""


def test_without_arguments_those_of_the_program_are_run(monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["fairspan", "--version"])
    assert cli.run() == 0
    assert capfd.readouterr().out == f"fairspan {fairspan.__version__}\n"
