"""The pages of the documentation run as they stand; the reference lists every public name."""

import contextlib
import doctest
import io
import re
import tomllib
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

import fairspan
from fairspan.auditing.estimates import State
from fairspan.auditing.verdict import VerdictKind
from public_parts import CRITERIA, RESTRICTIONS, SOLVERS
from real_data import FOLDER

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {
    path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8")
    for path in DOCS.rglob("*.md")
    if not path.is_relative_to(DOCS / "gallery")
}
CHOOSING = PAGES["choosing.md"]
TABLES = PAGES["criteria.md"]

# A block of Python, and what it prints if that is shown below it.
_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n+```text\n(.*?)^```)?", re.S | re.M)
# These pages go on from block to block; elsewhere each block stands alone.
CONTINUED = {"tutorial.md", "howto/scikit-learn.md"}
EXAMPLES = [
    pytest.param(name, blocks, id=f"{name}-{number}")
    for name, page in sorted(PAGES.items())
    for number, blocks in enumerate(
        [_BLOCK.findall(page)] if name in CONTINUED else [[block] for block in _BLOCK.findall(page)]
    )
]


def format_call(default_object):
    """Return the call that makes an object, with its defaults, as pages write it."""
    values = (f"{field.name}={field.default!r}" for field in fields(default_object))
    return f"`{type(default_object).__name__}({', '.join(values)})`".replace("'", '"')


def section(page, title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.S | re.M)[1]


@pytest.mark.parametrize(("page", "blocks"), EXAMPLES)
def test_every_example_runs_and_prints_what_is_shown(page, blocks, tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRSPAN_DATA", str(FOLDER))
    monkeypatch.chdir(tmp_path)
    names = {}
    for code, documented_output in blocks:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, page, "exec"), names)
        if documented_output:
            assert output.getvalue() == documented_output


@pytest.mark.parametrize("word", [*get_args(State), *get_args(VerdictKind)])
def test_every_state_and_verdict_is_in_the_glossary(word):
    assert f"`{word}`: " in PAGES["glossary.md"]


@pytest.mark.parametrize("name", CRITERIA)
def test_every_criterion_is_explained_and_in_the_tables(name):
    criteria_section = section(CHOOSING, ".*fair about.*?")
    explained_names = section(TABLES, "What each criterion means.*?")
    assert f'| `"{name}"`' in criteria_section
    assert f'**`"{name}"`**' in explained_names
    row = f'| {format_call(CRITERIA[name]())} `"{name}"` |'
    assert row in section(TABLES, "Tables")


@pytest.mark.parametrize("part", [*SOLVERS.values(), *RESTRICTIONS.values()])
def test_every_solver_and_restriction_is_in_its_table(part):
    assert re.search(rf"^\| `{part.__name__}\(", section(TABLES, "Tables"), re.M)


# Pages that the build of the site makes; it fails where one of them is not there.
EXTERNAL_LINKS = ("http", "gallery/", "../gallery/")


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{name}" for name in sorted(PAGES))])
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    # The file that is named, whatever part of it is meant.
    targets = {target.split("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text)} - {""}
    files = [target for target in targets if not target.startswith(EXTERNAL_LINKS)]
    assert [name for name in files if not (ROOT / page).parent.joinpath(name).exists()] == []


def test_every_example_has_a_place_in_the_gallery():
    """Without one, the documentation is not built."""
    order = (DOCS / "_extensions" / "gallery.py").read_text(encoding="utf-8")
    examples = [path.stem for path in (ROOT / "examples").glob("*.py")]
    assert examples
    assert [name for name in examples if f'"{name}"' not in order] == []


def test_installation_lists_every_extra_and_every_package_of_the_core():
    page = PAGES["installation.md"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.findall(r"^\| `(\w+)` \|", page, re.M)
    assert sorted(extras) == sorted(project["optional-dependencies"])
    command = re.search(r"^conda create .*?\n(?=conda)", page, re.S | re.M)[0]
    for requirement in project["dependencies"]:
        assert re.split(r"[><=\[]", requirement)[0] in command.split()


API = (DOCS / "api" / "index.rst").read_text(encoding="utf-8")


def names_in_tables():
    """The names in the tables, in full."""
    return [
        f"{module}.{name}"
        for module, table in re.findall(
            r"^\.\. currentmodule:: (\S+)\n(.*?)(?=^\.\. currentmodule|\Z)", API, re.S | re.M
        )
        for name in re.findall(r"^   (\w+)$", table, re.M)
    ]


MODULES = [name for name in fairspan.__all__ if isinstance(getattr(fairspan, name), ModuleType)]
NAMES = [f"fairspan.{name}" for name in fairspan.__all__ if name not in MODULES]
NAMES += [
    f"fairspan.{module}.{name}"
    for module in MODULES
    for name in import_module(f"fairspan.{module}").__all__
]


def test_every_public_name_is_listed_once_and_nothing_else():
    assert sorted(names_in_tables()) == sorted(NAMES)


def test_every_group_of_names_has_an_example_that_runs():
    groups = re.split(r"\n-{3,}\n", API)[1:]
    without = [part for part in groups if ">>>" not in part]
    assert len(without) == 1
    assert "fairspan.extending" in without[0]
    results = doctest.testfile(str(DOCS / "api" / "index.rst"), module_relative=False)
    assert not results.failed


# Docstrings have the sections of numpydoc, in its order, of arguments that there are. Which of them
# are needed is not for it to say: a result's fields are its attributes, not its parameters.
FAULTS = {"GL06", "GL07", "GL08", "SS01", "SS03", "SS04", "PR02", "PR05", "PR06", "PR09"}


def with_public_methods(name):
    """The name, and the public methods and properties that its class defines itself."""
    module, _, short = name.rpartition(".")
    value = getattr(import_module(module), short)
    attributes = vars(value) if isinstance(value, type) else {}
    is_made = {
        "set_output",
        *(attribute for attribute in attributes if attribute.endswith("_request")),
    }
    return [
        name,
        *(
            f"{name}.{attribute}"
            for attribute in attributes
            if attribute[0] != "_" and attribute not in is_made
        ),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_are_those_of_numpydoc(name):
    from numpydoc.validate import validate

    module, _, short = name.rpartition(".")
    faults = []
    for qualified_name in with_public_methods(name):
        value = getattr(
            getattr(import_module(module), short), qualified_name.removeprefix(name + "."), None
        )
        if qualified_name != name and not (callable(value) or isinstance(value, property)):
            continue
        faults += [
            f"{qualified_name}: {message}"
            for code, message in validate(qualified_name)["errors"]
            if code in FAULTS
        ]
    assert not faults


def test_files_that_contributing_names_exist():
    """The second table of CONTRIBUTING.md, whose paths start in `src/fairspan`."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.partition("| to change | open, in `src/fairspan` |")[2].partition("\n\n")[0]
    paths = re.findall(r"`([a-z_]+/[a-z_/]+(?:\.py)?)`", table)
    assert len(paths) > 10
    for path in paths:
        assert (ROOT / "src" / "fairspan" / path).exists(), path
