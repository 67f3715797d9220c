"""What is published beside the code says the same as the code."""

import re
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
    needed = {line.strip(" -").replace(" ", "") for line in run.splitlines()}
    python = f"python{PROJECT['requires-python']}"
    assert needed == {python, *PROJECT["dependencies"]}


def test_every_extra_but_spark_is_tried_before_a_release():
    assert set(MODULES) == set(PROJECT["optional-dependencies"]) - {"spark"}


@pytest.mark.parametrize("key", re.findall(r"@(\w+)", (ROOT / "paper" / "paper.md").read_text()))
def test_what_the_paper_cites_is_in_its_bibliography(key):
    assert f"{{{key}," in (ROOT / "paper" / "paper.bib").read_text()
