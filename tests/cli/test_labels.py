"""Advice of commands about labels that are probably mistakes; following it works."""

import shlex

import numpy as np
import pandas as pd
import pytest

N = 120
TABLE = pd.DataFrame(np.random.default_rng(0).standard_normal((N, 3)), columns=list("abc"))


@pytest.fixture
def rows(tmp_path):
    """A function that writes a CSV file whose groups come from these labels."""

    def write(*labels):
        path = tmp_path / "rows.csv"
        groups = np.array(labels, dtype=object)[np.arange(N) % len(labels)]
        TABLE.assign(g=groups).to_csv(path, index=False)
        return path

    return write


@pytest.mark.parametrize("placeholders", [("?",), ("-", "?"), ("  ",), ("None",)])
def test_the_option_that_a_finding_names_treats_placeholders_as_missing(run, rows, placeholders):
    path = rows("m", "w", *placeholders)
    words = ("audit", path, "--group", "g", "-d", 1, "--folds", "none", "--json")
    facts = run(*words).facts
    (finding,) = (
        finding_record for finding_record in facts["findings"] if finding_record["code"] == "FS413"
    )
    assert finding["groups"] == sorted(placeholders)
    advice = finding["message"].rpartition("(")[2].removesuffix(").")
    option, values, _, other, drop = shlex.split(advice)
    repeated = run(*words, option, values, other, drop)
    assert "FS413" not in {finding_record["code"] for finding_record in repeated.facts["findings"]}
    assert [group["group"] for group in repeated.facts["models"][0]["groups"]] == ["m", "w"]


def test_moments_warn_of_labels(run, rows, tmp_path):
    out = tmp_path / "rows.moments"
    words = ("--group", "g", "-o", out)
    run("moments", rows("m", "w", "?"), *words, err="warning: '?' (40 rows) counts as a group")
    run("moments", rows("m", "?", "n.a."), *words, err="'?' (40 rows), 'n.a.' (40 rows) count as")
    spaced = run("moments", rows("m", "m ", "w"), *words, err="'m' and 'm '")
    assert [line.split("  ")[0] for line in spaced.out.splitlines()[-4:-1]] == ["m", "'m '", "w"]
    run("moments", rows(*range(18, 58)), *words, err="--bin COLUMN=EDGES")
    assert not run("moments", rows("m", "w"), *words).err


def test_the_option_that_an_error_names_keeps_the_rows(run, tmp_path):
    path = tmp_path / "rows.csv"
    TABLE.assign(empty=np.nan, g=np.array(["m", "w"])[np.arange(N) % 2]).to_csv(path, index=False)
    words = ("audit", path, "--group", "g", "-d", 1, "--folds", "none", "--on-missing", "drop")
    run(*words, status=2, err=["'empty' has no value", "--exclude"])
    assert run(*words, "--exclude", "empty", "--json").facts["rows"]["n_rows"] == N
