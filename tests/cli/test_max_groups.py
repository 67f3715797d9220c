"""A column that names no groups is refused by name, unless --max-groups allows it."""

import json

import numpy as np
import pandas as pd
import pytest

from cli.command_lines import AUDIT, FIT

REPORT = ("report", "{data}", "--group", "age", "-d", "2", "--json")
MOMENTS = ("moments", "{data}", "--group", "age", "-o", "{out}")
COMMANDS = pytest.mark.parametrize(
    "command", [AUDIT, FIT, REPORT, MOMENTS], ids=["audit", "fit", "report", "moments"]
)


@pytest.fixture
def people(tmp_path):
    rows = np.random.default_rng(1).normal(size=(3000, 4))
    path = tmp_path / "people.csv"
    pd.DataFrame(rows, columns=list("wxyz")).assign(age=range(3000)).to_csv(path, index=False)
    return path


@COMMANDS
def test_an_identifier_is_refused_by_name(refused, people, command):
    message = refused(*command, data=people)
    assert "The column 'age' has 3000 groups among 3000 rows" in message
    assert "--max-groups 3000" in message


@COMMANDS
def test_max_groups_is_the_most(refused, people, command):
    message = refused(*command, "--max-groups", "1999", data=people)
    assert "groups among" in message
    assert "max_groups is 1999" in message


def test_max_groups_allows_them(run, people, tmp_path):
    out = tmp_path / "people.moments"
    few = tmp_path / "few.csv"
    pd.read_csv(people)[:150].to_csv(few, index=False)
    arguments = ["moments", few, "--group", "age", "--max-groups", 150, "-o", out, "--json"]
    assert len(run(*arguments).facts["groups"]) == 150


@pytest.mark.long
def test_a_report_says_how_its_moments_were_made(run, data):
    arguments = ["--group", "age", "-d", "2", "--criterion", "total_error", "--json"]
    facts = run("report", data, *arguments, "--max-groups", 2).facts
    assert "--group age --max-groups 2 -o moments.npz" in json.dumps(facts)


def test_saved_moments_have_the_groups_that_they_have(refused, run, data, tmp_path):
    saved = tmp_path / "data.moments"
    assert run("moments", data, "--group", "age", "-o", saved).status == 0
    assert "leave out --max-groups" in refused("audit", saved, "--max-groups", "5")
    assert "--max-groups" in refused("audit", data, "--group", "age", "--max-groups", "0")
