"""Help and usage errors come at once, and every process ends with the right status."""

import json

import numpy as np
import pytest

import fairspan as fs
from fairspan import cli

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
    (["fit", ".", "-o", "m", "--criterion", "error_gap", "--param", "penalty=much"], 2),
    (["fit", ".", "-o", "m", "--criterion", "disparity", "--param", "penalty=1"], 2),
    (["audit", "there-is-no-such-file.csv", "--group", "age"], 2),
)


def test_nothing_heavy_is_loaded_for_help_and_usage_errors(installed):
    """All in one program, where what one of them had loaded would stay."""
    program = (
        "from fairspan.cli import run\n"
        f"for arguments, status in {ENDINGS!r}: assert run(arguments) == status, arguments"
    )
    assert loaded_by(installed, program) == []


@pytest.mark.long
def test_the_installed_command_ends_with_the_status_of_what_happened(
    installed, data, table, features, tmp_path
):
    done = installed("fit", "data.csv", "--group", "age", "-d", 2, "-o", "m", "--json")
    in_python = fs.FairPCA(2).fit(table[features], sensitive_features=table["age"])
    errors = [group["error"]["value"] for group in done.facts["models"][1]["groups"]]
    np.testing.assert_allclose(errors, in_python.group_errors_, rtol=1e-9)
    assert done.err == ""

    bad_input = installed("transform", "m", "data.csv", "-o", "nowhere/out.csv")
    assert (bad_input.status, bad_input.out) == (2, "")
    assert bad_input.err.startswith("fairspan: error: There is no folder nowhere.")

    bad_usage = installed("audit", "data.csv")
    assert (bad_usage.status, bad_usage.out) == (2, "")
    assert "Error: Name the group column with --group" in bad_usage.err


@pytest.mark.long
def test_a_fault_of_our_own_ends_with_status_1_and_a_traceback(installed, data, tmp_path):
    code = (
        "import sys; from fairspan.cli import inputs, main\n"
        "def broken(*_, **__): raise RuntimeError('a fault of our own')\n"
        "inputs.audited_pca = broken\n"
        "main(sys.argv[1:])"
    )
    result = installed("audit", "data.csv", "--group", "age", "-d", "2", code=code)
    assert (result.status, result.out) == (1, "")
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
        result = installed(*arguments, code=WITHOUT_PYARROW)
        assert (result.status, result.out) == (2, "")
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
