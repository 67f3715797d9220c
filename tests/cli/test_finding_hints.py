"""Findings and errors name options of the command line where a command prints them, only there."""

import ast
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairspan
from fairspan import FairSubspace, audit
from fairspan.errors import FairspanWarning

N = 200
RNG = np.random.default_rng(5)
ROWS = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["age", "height", "weight"])
GROUPS = np.repeat(["f", "m"], N // 2)


def columns(**other_columns):
    return ROWS.assign(sex=GROUPS, **other_columns)


CASES = {
    "FS401": (columns(code=np.where(GROUPS == "f", 1.0, 2.0)), "--exclude COL"),
    "FS402": (columns(number=np.arange(N) * 0.5), "--exclude COL"),
    "FS403": (columns(income=ROWS.age * 1e4), "--standardize"),
    "FS412": (columns(height=np.where(np.arange(N) % 9, ROWS.height, -99.0)), "--na-values height"),
    "FS413": (
        columns().assign(sex=np.where(np.arange(N) % 3, GROUPS, "?")),
        "--missing-group drop",
    ),
}


@pytest.mark.parametrize("code", CASES)
def test_a_finding_names_the_option_on_the_command_line_and_an_argument_in_python(
    code, run, tmp_path
):
    table, option = CASES[code]
    path = tmp_path / "rows.csv"
    table.to_csv(path, index=False)
    words = [
        "audit",
        path,
        "--group",
        "sex",
        "-d",
        1,
        "--numeric-only",
        "--folds",
        "none",
        "--json",
    ]
    facts = run(*words).facts
    [text] = [finding["message"] for finding in facts["findings"] if finding["code"] == code]
    assert option in text
    features = table.select_dtypes("number")
    mean = features.to_numpy(float).mean(axis=0)
    first = np.linalg.svd(features - mean)[2][:1]
    pca = FairSubspace(first, mean, feature_names=tuple(features))
    findings = audit(pca, features, table.sex, folds=None).findings
    [message] = [finding.message for finding in findings if finding.code == code]
    assert "--" not in message
    for argument in ("scale=True", "on_missing", "drop the column", "pandas"):
        assert argument not in text


OPTION = re.compile(r"(?<![\w-])--[a-z]")


def strings_of(path):
    """Texts of a module that are not docstrings, of modules that name an option."""
    content = path.read_text("utf-8")
    if not OPTION.search(content):
        return
    tree = ast.parse(content)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    docstrings = {id(node.value) for node in statements}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            yield node.value


def test_the_library_names_no_option_outside_of_the_command_line():
    folder = Path(fairspan.__file__).parent
    styles = {
        folder / "report/svg_figures.py",
        folder / "report/tables/slider_tables.py",
    }  # of the page
    option_places = {
        f"{path.relative_to(folder)}: {text}"
        for path in folder.rglob("*.py")
        if folder / "cli" not in path.parents and path not in styles
        for text in strings_of(path)
        if OPTION.search(text)
    }
    assert not option_places


@pytest.mark.filterwarnings("default")
def test_the_warning_about_a_header_names_the_option_or_the_argument(run, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"{i * 7 % 5},{i * i % 11},{'ab'[i % 2]}\n" for i in range(1, 40)))
    words = ["audit", path, "--group", "b", "-d", 1, "--folds", "none"]
    message = run(*words).err
    assert "with --no-header." in message
    assert "FileRows" not in message
    with pytest.warns(FairspanWarning, match="'header': False") as warnings:
        fairspan.FileRows.open(path, ["b"])
    assert "--" not in str(warnings[0].message)
