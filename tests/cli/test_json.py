"""What `--json` prints is what its schema says: nothing more, nothing less, nothing else."""

import copy
import json
import re
from pathlib import Path

import jsonschema
import pytest

from cli.json_schema import SCHEMA, validator
from fairspan import cli
from fairspan.cli.terminal import JSON_VERSION

DEFINED = [each["$ref"].removeprefix("#/$defs/") for each in SCHEMA["anyOf"]]
PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")


def places(value, path=()):
    """Each object inside a value, by the way that leads to it; of a list the first entry."""
    if isinstance(value, dict):
        yield path
        for key, each in value.items():
            yield from places(each, (*path, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def at(value, path):
    for step in path:
        value = value[step]
    return value


# Objects whose keys are names that somebody chose.
OPEN = {"parameters", "radius", "answers"}


@pytest.fixture(scope="session")
def printed(tmp_path_factory):
    """What commands print of a small table, by the names of the definitions."""
    import contextlib
    import io

    from cli.conftest import made_table

    folder = tmp_path_factory.mktemp("printed")
    data, model, page = (str(folder / name) for name in ("t.csv", "model", "page.html"))
    made_table().drop(columns="sex").to_csv(data, index=False)
    moments = [str(folder / f"{i}.moments") for i in range(3)]
    table = (data, "--group", "age")
    commands = {
        "fit": ("fit", *table, "-d", "2", "--nested", "-o", model),
        "audit": ("audit", *table, "--model", model),
        "audit_by_dimension": ("audit", *table, "--by-dimension"),
        "transform": ("transform", model, data, "-o", str(folder / "out.csv")),
        "verify": ("verify", model, *table),
        "moments": ("moments", *table, "-o", moments[0]),
        "merge": ("merge", moments[0], moments[0], "-o", moments[1]),
        "report": ("report", *table, "-d", "2", "--model", model, "--compare", "error_gap"),
        "demo": ("demo", "-o", page),
        "error": ("audit", data),
    }
    found = {}
    for name, words in commands.items():
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            cli.run([*words, "--json"])
        found[name] = json.loads(out.getvalue())
    return found


def test_the_schema_is_one_and_knows_every_command():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(DEFINED) - {"error", "audit_by_dimension"} == set(cli.fairspan.commands)
    assert SCHEMA["$defs"]["version"]["const"] == JSON_VERSION


@pytest.mark.long
@pytest.mark.parametrize("name", DEFINED)
def test_what_is_printed_conforms_and_what_is_spoilt_does_not(printed, name):
    checked, right = validator(name), printed[name]
    checked.validate(right)
    jsonschema.validate(right, SCHEMA)
    paths = [path for path in places(right) if not OPEN.intersection(map(str, path[-1:]))]
    assert paths
    for path in paths:
        for key in at(right, path):
            missing, misspelt, other = (copy.deepcopy(right) for _ in range(3))
            del at(missing, path)[key]
            at(misspelt, path)[f"{key}s"] = at(misspelt, path).pop(key)
            at(other, path)[key] = [{"of": ["another kind"]}]
            for spoilt in (missing, misspelt, other):
                assert not checked.is_valid(spoilt), (*path, key)
        more = copy.deepcopy(right)
        at(more, path)["more"] = 1
        assert not checked.is_valid(more), path


@pytest.mark.parametrize("name", ["audit", "error"])
def test_results_of_one_command_are_not_those_of_another(run, data, name):
    words = ("audit", data, "--group", "age", "--folds", "none", "--json")
    result = json.loads(run(*words[: 4 if name == "audit" else 2], *words[4:]).out)
    fitting = [each for each in DEFINED if validator(each).is_valid(result)]
    assert fitting == [name]


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_is_another_schema(version):
    error = {"version": version, "error": {"message": "wrong", "exit_status": 2}}
    assert not validator("error").is_valid(error)
    assert validator("error").is_valid({**error, "version": 1})


@pytest.mark.parametrize("name", DEFINED)
def test_the_page_explains_every_key_of_every_command(name):
    told = set(re.findall(r"`(\w+)`", PAGE))
    missing = set(SCHEMA["$defs"][name]["properties"]) - told
    assert not missing
