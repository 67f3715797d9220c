"""Help, completion in a shell, and what is loaded at the start of a command."""

import json
import os
import shlex
import sys
from pathlib import Path

import click
import numpy as np
import pytest

import fairspan
import fairspan as fs
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
    assert (listed.count("-h"), len(listed)) == (1, len(options_of(name)) + 1)


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
        assert (program, words[0]) == ("fairspan", name)
        outputs = [Path(words[i + 1]) for i, word in enumerate(words) if word == "-o"]
        for path in outputs:
            path.unlink(missing_ok=True)
        done = run(*words, status=0)
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
    installed(
        env={**os.environ, "_FAIRSPAN_COMPLETE": f"{shell}_source"}, out="_fairspan_completion"
    )


@pytest.fixture
def folder(tmp_path):
    table = made_table()
    (tmp_path / "rows").mkdir()
    for i, part in enumerate(np.array_split(np.arange(len(table)), 3)):
        path = tmp_path / "rows" / f"{i}.csv"
        table.drop(columns="sex").iloc[part].to_csv(path, index=False)
    return tmp_path / "rows"


def test_without_arguments_those_of_the_program_are_run(monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["fairspan", "--version"])
    assert (cli.run(), capfd.readouterr().out) == (0, f"fairspan {fairspan.__version__}\n")


HEAVY = ("numpy", "scipy", "sklearn", "pandas", "pyarrow", "narwhals")

LOADED = f"""
import json, sys
{{program}}
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]), file=sys.stderr)
"""


def loaded_by(installed, program):
    return json.loads(installed(code=LOADED.format(program=program)).err.splitlines()[-1])


# What each command ends with, without having read anything.
ENDINGS = (
    (["--help"], 0),
    (["fit", "--help"], 0),
    (["moments", "--help"], 0),
    (["report", "--help"], 0),
    (["report", ".", "--group", "g"], 2),
    (["report", ".", "--group", "g", "-o", "p.html", "--criterion", "fairest"], 2),
    (["merge", "--help"], 0),
    (["--version"], 0),
    ([], 2),
    (["audit"], 2),
    (["merge"], 2),
    (["moments", ".", "-o", "m", "--group", "g", "--min-group-size", "2"], 2),
    (["fit", "--criterion", "fairest"], 2),
    (["fit", ".", "-o", "m", "--criterion", "error_gap", "--param", "penalty"], 2),
    (["audit", "there-is-no-such-file.csv", "--group", "age"], 2),
)


def test_nothing_heavy_is_loaded_for_help_and_usage_errors(installed):
    """All in one program, where what one of them had loaded would stay."""
    program = (
        "from fairspan.cli import run\n"
        f"for arguments, status in {ENDINGS!r}: assert run(arguments) == status, arguments"
    )
    assert loaded_by(installed, program) == []


def test_an_audit_of_a_file_loads_no_package_that_it_does_not_need(installed, data):
    """Each of them takes as long as the audit of a few hundred rows."""
    asked = ["audit", "data.csv", "--group", "age"]
    needless = "'narwhals', 'scipy.special', 'scipy.sparse', 'pandas', 'sklearn'"
    code = (
        f"import sys; from fairspan.cli import run; assert run({asked!r}) == 0\n"
        f"print([name for name in ({needless}) if name in sys.modules])"
    )
    assert installed(code=code).out.splitlines()[-1] == "[]"


@pytest.mark.long
def test_the_installed_command_ends_with_the_status_of_what_happened(
    installed, data, table, features, tmp_path
):
    done = installed("fit", "data.csv", "--group", "age", "-d", 2, "-o", "m", "--json")
    in_python = fs.FairPCA(2).fit(table[features], sensitive_features=table["age"])
    errors = [group["error_here"] for group in done.facts["models"][1]["groups"]]
    np.testing.assert_allclose(errors, in_python.group_errors_, rtol=1e-9)
    assert done.err == ""

    bad_input = installed("transform", "m", "data.csv", "-o", "nowhere/out.csv", status=2, out=None)
    assert bad_input.err.startswith("fairspan: error: There is no folder nowhere.")

    installed(
        "audit", "data.csv", status=2, out=None, err="Error: Name the group column with --group"
    )


@pytest.mark.long
def test_a_fault_of_our_own_ends_with_status_1_and_a_traceback(installed, data, tmp_path):
    code = (
        "import sys; from fairspan.cli import inputs, main\n"
        "def broken(*_, **__): raise RuntimeError('a fault of our own')\n"
        "inputs.audited_pca = broken\n"
        "main(sys.argv[1:])"
    )
    result = installed(
        "audit", "data.csv", "--group", "age", "-d", "2", code=code, status=1, out=None
    )
    assert result.err.startswith("Traceback")
    assert "RuntimeError: a fault of our own" in result.err


WITHOUT_PYARROW = (
    "import sys; sys.modules['pyarrow'] = None\nfrom fairspan.cli import main; main(sys.argv[1:])"
)


@pytest.mark.long
def test_without_pyarrow_the_message_says_how_to_install_it(installed, data, model, tmp_path):
    for arguments in (
        ("audit", "data.csv", "--group", "age"),
        ("transform", "fair.model", "data.csv", "-o", "out.csv"),
    ):
        result = installed(*arguments, code=WITHOUT_PYARROW, status=2, out=None)
        assert result.err.startswith("fairspan: error: Reading data.csv needs the package pyarrow")
        assert 'pip install "fairspan[arrow]"' in result.err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.long
def test_saved_moments_need_no_pyarrow(installed, table, features, tmp_path):
    fs.GroupMoments.from_rows(table[features], table["age"]).save(tmp_path / "m")
    facts = installed("audit", "m", "-d", 2, "--json", code=WITHOUT_PYARROW).facts
    assert facts["rows"]["n"] == 240


@pytest.mark.parametrize("name", ["audit", "fit", "moments"])
def test_help_states_every_default(run, name):
    told = " ".join(run(name, "--help").out.split())
    defaults = [each.default for each in cli.fairspan.commands[name].params]
    defaults = [each for each in defaults if each and isinstance(each, str | int | float)]
    assert defaults
    for default in defaults:
        assert f"[default: {default}" in told
