"""Files that are published with the code agree with it, and gallery pages check their claims."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import fairspan
from release.smoke import MODULES

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_the_same_everywhere():
    version = re.escape(fairspan.__version__)
    assert re.search(rf"^## {version}", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert re.search(rf"^version: {version}$", (ROOT / "CITATION.cff").read_text(), re.M)


def test_the_conda_recipe_needs_what_the_wheel_needs():
    recipe = (ROOT / "conda" / "meta.yaml").read_text()
    run = recipe.split("  run:\n")[1].split("\n\n")[0]
    requirements = {line.strip(" -").replace(" ", "") for line in run.splitlines()}
    python = f"python{PROJECT['requires-python']}"
    assert requirements == {python, *PROJECT["dependencies"]}


def test_every_extra_but_spark_is_tried_before_a_release():
    assert set(MODULES) == set(PROJECT["optional-dependencies"]) - {"spark"}


@pytest.mark.parametrize("key", re.findall(r"@(\w+)", (ROOT / "paper" / "paper.md").read_text()))
def test_citations_of_the_paper_are_in_its_bibliography(key):
    assert f"{{{key}," in (ROOT / "paper" / "paper.bib").read_text()


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
sys.path.insert(0, str(ROOT / "docs" / "_extensions"))
from gallery import ORDER  # noqa: E402


def test_every_page_has_its_place():
    assert sorted(ORDER) == [path.stem for path in EXAMPLES]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_page_begins_with_its_claim_and_checks_it(path):
    text = path.read_text(encoding="utf-8")
    # It needs no file that a clone does not hold.
    assert not re.search(r"reproduction\.data|FAIRSPAN_DATA|fetch_|parquet", text)
    tree = ast.parse(text)
    title, underline, empty, *words = ast.get_docstring(tree).splitlines()
    assert (underline, empty) == ("=" * len(title), "")
    assert words
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))
