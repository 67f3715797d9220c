"""Help, completion, what is loaded at the start of a command, and what it prints with --json."""

import contextlib
import copy
import io
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from click.shell_completion import ShellComplete

import fairspan
import fairspan as fs
from case_selection import mark_most_long
from cli.conftest import SCHEMA, make_table, validator
from fairspan import cli

COMMANDS = sorted(cli.fairspan.commands)
HEADINGS = ["Reading data:", "Fitting:", "Audit:", "Output:", "Examples:"]


def options_of(name):
    return [
        parameter
        for parameter in cli.fairspan.commands[name].params
        if isinstance(parameter, click.Option)
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_grouped_by_purpose_and_ends_with_two_examples(run, name):
    lines = run(name, "--help").out.splitlines()
    headings = [line for line in lines if line in HEADINGS]
    assert headings == [line for line in HEADINGS if line in headings]
    assert headings[-2:] == ["Output:", "Examples:"]
    examples = lines[lines.index("Examples:") + 1 :]
    assert examples == [f"  {example}" for example in cli.fairspan.commands[name].examples]
    assert len(examples) == 2
    assert max(map(len, lines)) <= 80
    option_names = [line.split()[0].rstrip(",") for line in lines if line.startswith("  -")]
    assert (option_names.count("-h"), len(option_names)) == (1, len(options_of(name)) + 1)


@pytest.fixture(scope="module")
def example_files(tmp_path_factory):
    """A folder of the files that examples name."""
    folder = tmp_path_factory.mktemp("examples")
    table = make_table().drop(columns="age")
    tables = {"patients": table, "north": table[:100], "south": table[100:]}
    tables["new"] = table.drop(columns="sex")
    # Rows that came after the fit, with cells of the others in each column.
    rng = np.random.default_rng(1)
    for month in ("may", "june"):
        tables[month] = table.apply(lambda column: rng.choice(column.to_numpy(), len(table)))
    for name, rows in tables.items():
        rows.to_csv(folder / f"{name}.csv", index=False)
    for name in ("north", "south"):
        fs.GroupMoments.from_rows(tables[name], "sex").save(folder / f"{name}.moments")
    fs.FairPCA(4).fit(table, sensitive_features="sex").subspace_.save(folder / "patients.model")
    return folder


@pytest.fixture
def patients(example_files, tmp_path, monkeypatch):
    """A copy of the files in the current folder."""
    monkeypatch.chdir(shutil.copytree(example_files, tmp_path / "examples"))


MARKS = dict.fromkeys(["demo", "report"], pytest.mark.long)
MARKS |= dict.fromkeys(["audit", "fit"], pytest.mark.slow)


@pytest.mark.parametrize(
    "name", [pytest.param(command, marks=MARKS.get(command, ())) for command in COMMANDS]
)
def test_the_examples_of_help_work(run, patients, name):
    for example in cli.fairspan.commands[name].examples:
        program, *words = shlex.split(example)
        assert (program, words[0]) == ("fairspan", name)
        outputs = [Path(words[i + 1]) for i, word in enumerate(words) if word == "-o"]
        for path in outputs:
            path.unlink(missing_ok=True)
        outcome = run(*words, status=0)
        assert outcome.out
        assert all(path.exists() for path in outputs)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fairspan fit --criterion minimax_", {"minimax_error", "minimax_loss"}),
        ("fairspan fit --restriction ", {"mean_parity", "covariance_parity", "uncorrelated"}),
        ("fairspan fit --solver du", {"dual_newton"}),
        ("fairspan mo", {"moments"}),
        ("fairspan fit --allow", {"--allow-extra"}),
    ],
)
def test_a_shell_completes_names(line, expected):
    *words, begun = line.split(" ")[1:]
    shell = ShellComplete(cli.fairspan, {}, "fairspan", "_FAIRSPAN_COMPLETE")
    assert {completion.value for completion in shell.get_completions(words, begun)} == expected


@pytest.mark.slow
@pytest.mark.parametrize("shell", mark_most_long(["bash", "zsh", "fish"], 3))
def test_the_documented_completion_prints_a_script(installed, shell):
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert f"_FAIRSPAN_COMPLETE={shell}_source fairspan" in page
    installed(
        env={**os.environ, "_FAIRSPAN_COMPLETE": f"{shell}_source"}, out="_fairspan_completion"
    )


@pytest.fixture
def folder(tmp_path):
    table = make_table()
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


def list_loaded_modules(installed, program):
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
    """All run in one program, where modules remain loaded."""
    program = (
        "from fairspan.cli import run\n"
        f"for arguments, status in {ENDINGS!r}: assert run(arguments) == status, arguments"
    )
    assert list_loaded_modules(installed, program) == []


@pytest.mark.slow
def test_an_audit_of_a_file_loads_no_package_that_it_does_not_need(installed, data):
    """Importing each of these takes as long as the audit of a few hundred rows."""
    arguments = ["audit", "data.csv", "--group", "age"]
    needless = "'narwhals', 'scipy.special', 'scipy.sparse', 'pandas', 'sklearn'"
    code = (
        f"import sys; from fairspan.cli import run; assert run({arguments!r}) == 0\n"
        f"print([name for name in ({needless}) if name in sys.modules])"
    )
    assert installed(code=code).out.splitlines()[-1] == "[]"


@pytest.mark.long
def test_the_installed_command_ends_with_the_status_of_what_happened(
    installed, data, table, features, tmp_path
):
    outcome = installed("fit", "data.csv", "--group", "age", "-d", 2, "-o", "m", "--json")
    in_python = fs.FairPCA(2).fit(table[features], sensitive_features=table["age"])
    errors = [group["observed_error"] for group in outcome.facts["models"][1]["groups"]]
    np.testing.assert_allclose(errors, in_python.group_errors_, rtol=1e-9)
    assert outcome.err == ""

    bad_input = installed("transform", "m", "data.csv", "-o", "nowhere/out.csv", status=2, out=None)
    assert bad_input.err.startswith("fairspan: error: The folder nowhere ")

    installed("audit", "data.csv", status=2, out=None, err=["Error: ", "--group"])


@pytest.mark.long
def test_a_fault_of_our_own_ends_with_status_1_and_a_traceback(installed, data, tmp_path):
    code = (
        "import sys; from fairspan.cli import main, model_auditing\n"
        "def broken(*_, **__): raise RuntimeError('a fault of our own')\n"
        "model_auditing.audited_pca = broken\n"
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
        assert re.search("data.csv needs .*pyarrow", result.err)
        assert 'pip install "fairspan[arrow]"' in result.err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.long
def test_saved_moments_need_no_pyarrow(installed, table, features, tmp_path):
    fs.GroupMoments.from_rows(table[features], table["age"]).save(tmp_path / "m")
    facts = installed("audit", "m", "-d", 2, "--json", code=WITHOUT_PYARROW).facts
    assert facts["rows"]["n_rows"] == 240


@pytest.mark.parametrize("name", ["audit", "fit", "moments"])
def test_help_states_every_default(run, name):
    text = " ".join(run(name, "--help").out.split())
    defaults = [parameter.default for parameter in cli.fairspan.commands[name].params]
    defaults = [
        default for default in defaults if default and isinstance(default, str | int | float)
    ]
    assert defaults
    for default in defaults:
        assert f"[default: {default}" in text


DEFINED = [reference["$ref"].removeprefix("#/$defs/") for reference in SCHEMA["anyOf"]]


def object_paths(value, path=()):
    """Each object inside a value, by the way that leads to it; of a list the first entry."""
    if isinstance(value, dict):
        yield path
        for key, member in value.items():
            yield from object_paths(member, (*path, key))
    elif isinstance(value, list) and value:
        yield from object_paths(value[0], (*path, 0))


def value_at(value, path):
    for step in path:
        value = value[step]
    return value


# Objects whose keys are names that somebody chose.
OPEN = {"parameters", "radius", "answers"}


@pytest.fixture(scope="session")
def printed_json(tmp_path_factory):
    """Output of commands for a small table, by the name of its definition in the schema."""

    folder = tmp_path_factory.mktemp("printed")
    data, model, page = (str(folder / name) for name in ("t.csv", "model", "page.html"))
    make_table().drop(columns="sex").to_csv(data, index=False)
    later = str(folder / "later.csv")
    make_table().drop(columns="sex").assign(pay_1=make_table()["pay_2"]).to_csv(later, index=False)
    moments = [str(folder / f"{i}.moments") for i in range(3)]
    table = (data, "--group", "age")
    commands = {
        "fit": ("fit", *table, "-d", "2", "--nested", "-o", model),
        "fit_two_tables": (
            "fit",
            *table,
            "--targets",
            "pay_*",
            "-d",
            "1",
            "-o",
            str(folder / "pair"),
        ),
        "audit": ("audit", *table, "--model", model),
        "audit_by_dimension": ("audit", *table, "--by-dimension"),
        "transform": ("transform", model, data, "-o", str(folder / "out.csv")),
        "verify": ("verify", model, *table),
        "watch": ("watch", model, later, "--group", "age", "--history", str(folder / "l.json")),
        "moments": ("moments", *table, "-o", moments[0]),
        "merge": ("merge", moments[0], moments[0], "-o", moments[1]),
        "report": ("report", *table, "-d", "2", "--model", model, "--compare", "error_gap"),
        "demo": ("demo", "-o", page),
        "error": ("audit", data),
    }
    records = {}
    for name, words in commands.items():
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            cli.run([*words, "--json"])
        records[name] = json.loads(out.getvalue())
    return records


def test_the_schema_is_one_and_knows_every_command(run):
    validator("error").check_schema(SCHEMA)
    assert set(DEFINED) - {"error", "audit_by_dimension", "fit_two_tables"} == set(
        cli.fairspan.commands
    )
    refusal = json.loads(run("audit", "rows.csv", "--json").out)
    assert SCHEMA["$defs"]["version"]["const"] == refusal["version"]


@pytest.mark.long
@pytest.mark.parametrize("name", DEFINED)
def test_output_conforms_to_the_schema_and_corrupted_output_does_not(printed_json, name):
    command_validator = validator(name)
    record = printed_json[name]
    command_validator.validate(record)
    command_validator.evolve(schema=SCHEMA).validate(record)
    paths = [path for path in object_paths(record) if not OPEN.intersection(map(str, path[-1:]))]
    assert paths
    for path in paths:
        for key in value_at(record, path):
            missing, misspelt, other = (copy.deepcopy(record) for _ in range(3))
            del value_at(missing, path)[key]
            value_at(misspelt, path)[f"{key}s"] = value_at(misspelt, path).pop(key)
            value_at(other, path)[key] = [{"of": ["another kind"]}]
            for spoilt in (missing, misspelt, other):
                assert not command_validator.is_valid(spoilt), (*path, key)
        with_unknown_key = copy.deepcopy(record)
        value_at(with_unknown_key, path)["more"] = 1
        assert not command_validator.is_valid(with_unknown_key), path


@pytest.mark.parametrize("name", ["audit", "error"])
def test_results_of_one_command_are_not_those_of_another(run, data, name):
    words = ("audit", data, "--group", "age", "--folds", "none", "--json")
    result = json.loads(run(*words[: 4 if name == "audit" else 2], *words[4:]).out)
    fitting = [definition for definition in DEFINED if validator(definition).is_valid(result)]
    assert fitting == [name]


@pytest.mark.parametrize("version", [0, 1, "2", None])
def test_another_version_is_another_schema(version):
    error = {"version": version, "error": {"message": "wrong", "exit_status": 2}}
    assert not validator("error").is_valid(error)
    assert validator("error").is_valid({**error, "version": 2})


@pytest.mark.parametrize("name", DEFINED)
def test_the_page_explains_every_key_of_every_command(name):
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"`(\w+)`", page))
    missing = set(SCHEMA["$defs"][name]["properties"]) - explained
    assert not missing


def write_compressed(frame, path):
    import pyarrow as pa

    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(frame.to_csv(index=False).encode())


def write_ipc(frame, path):
    import polars as pl

    pl.from_pandas(frame).write_ipc(path)


def write_parts(frame, path):
    (path / "deeper").mkdir(parents=True)
    frame.iloc[:50].to_parquet(path / "1.parquet")
    frame.iloc[50:51, ::-1].to_parquet(path / "2.parquet")  # columns in another order
    frame.iloc[51:].to_parquet(path / "deeper" / "3.parquet")
    (path / "_SUCCESS").touch()


# How a frame is written, and to a file of what name.
FORMATS = {
    "csv": ("t.csv", lambda frame, path: frame.to_csv(path, index=False)),
    "tabs": ("t.tsv", lambda frame, path: frame.to_csv(path, index=False, sep="\t")),
    "semicolons": ("t.csv", lambda frame, path: frame.to_csv(path, index=False, sep=";")),
    "bars": ("t.TXT", lambda frame, path: frame.to_csv(path, index=False, sep="|")),
    "gzip": ("t.csv.gz", lambda frame, path: frame.to_csv(path, index=False)),
    "zstandard": ("t.csv.zst", write_compressed),
    "a byte order mark": (
        "t.csv",
        lambda frame, path: frame.to_csv(
            path, index=False, encoding="utf-8-sig", lineterminator="\r\n"
        ),
    ),
    "parquet": ("t.parquet", lambda frame, path: frame.to_parquet(path)),
    "row groups": ("t.pq", lambda frame, path: frame.to_parquet(path, row_group_size=37)),
    "parquet without its ending": ("table", lambda frame, path: frame.to_parquet(path)),
    "an index": (
        "t.parquet",
        lambda frame, path: frame.set_index(1000 * np.arange(len(frame)) ** 2).to_parquet(path),
    ),
    "a folder": ("parts", write_parts),
    "feather": ("t.feather", lambda frame, path: frame.to_feather(path, chunksize=23)),
    "arrow": ("t.arrow", write_ipc),
    "arrow without its ending": ("t", lambda frame, path: frame.to_feather(path)),
}


def figures_of(facts):
    return np.array(
        [
            [
                group["n_rows"],
                group["observed_error"],
                group["observed_error_high"],
                group["observed_best_error"],
            ]
            for group in facts["models"][0]["groups"]
        ]
    )


@pytest.fixture(scope="module")
def python_figures():
    """Figures of ordinary PCA of the table in memory."""
    table = make_table().drop(columns="sex")
    plain = fs.FairPCA(2, criterion="total_error").fit(table, sensitive_features="age")
    return figures_of(fs.audit(plain, table, "age", folds=None).to_dict())


@pytest.mark.parametrize(
    "form",
    [pytest.param(form, marks=[pytest.mark.slow] * (form == "arrow")) for form in FORMATS],
)
def test_every_format_gives_the_figures_of_the_frame(
    run, table, features, tmp_path, python_figures, form
):
    name, write = FORMATS[form]
    write(table[[*features, "age"]], tmp_path / name)
    arguments = ("--group", "age", "-d", 2, "--folds", "none", "--json")
    facts = run("audit", tmp_path / name, *arguments).facts
    assert facts["rows"]["n_features"] == len(features)
    np.testing.assert_allclose(figures_of(facts), python_figures, rtol=1e-9)


def test_saved_moments_give_the_figures_of_the_rows(run, data, table, features, tmp_path):
    moments = tmp_path / "any name"
    fs.GroupMoments.from_rows(table[features], table["age"]).save(moments)
    settings = ("-d", 2, "--center", "group", "--standardize", "--folds", "none", "--json")
    of_moments = run("audit", moments, *settings).facts
    rows = run("audit", data, "--group", "age", *settings).facts
    columns = [0, 1, 3]  # all but the end of the interval, which moments do not tell
    expected = figures_of(rows)[:, columns]
    np.testing.assert_allclose(
        figures_of(of_moments)[:, columns].astype(float), expected, rtol=1e-9
    )


def test_an_index_that_groups_the_rows_can_be_named(run, table, features, tmp_path):
    path = tmp_path / "t.parquet"
    table.set_index("age")[features].to_parquet(path)
    facts = run("audit", path, "--group", "age", "--folds", "none", "--json").facts
    assert facts["rows"]["n_features"] == len(features)
    counts = table["age"].value_counts().sort_index().tolist()
    assert [group["n_rows"] for group in facts["models"][0]["groups"]] == counts
