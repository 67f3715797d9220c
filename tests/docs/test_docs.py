"""The pages of the documentation run as they stand, and leave nothing out."""

import contextlib
import io
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from fairspan.problem.posing import criterion_of
from fairspan.registry import factory_of, names_of
from real_data import FOLDER

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {
    path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8")
    for path in DOCS.rglob("*.md")
    if not path.is_relative_to(DOCS / "gallery")
}
CHOOSING, CRITERIA = PAGES["choosing.md"], PAGES["criteria.md"]

# A block of Python, and what it prints if that is shown below it.
_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n+```text\n(.*?)^```)?", re.S | re.M)
# A tutorial goes on from block to block; elsewhere each block stands alone.
EXAMPLES = [
    pytest.param(name, blocks, id=f"{name}-{number}")
    for name, page in sorted(PAGES.items())
    for number, blocks in enumerate(
        [_BLOCK.findall(page)]
        if name == "tutorial.md"
        else [[block] for block in _BLOCK.findall(page)]
    )
]


def call_of(made):
    """How an object with its defaults is written."""
    values = (f"{each.name}={each.default!r}" for each in fields(made))
    return f"`{type(made).__name__}({', '.join(values)})`".replace("'", '"')


def section(page, title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.S | re.M)[1]


@pytest.mark.parametrize(("page", "blocks"), EXAMPLES)
def test_every_example_runs_and_prints_what_is_shown(page, blocks, tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRSPAN_DATA", str(FOLDER))
    monkeypatch.chdir(tmp_path)
    names = {}
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        if shown:
            assert printed.getvalue() == shown


@pytest.mark.parametrize("name", names_of("criterion"))
def test_every_criterion_is_explained_and_in_the_tables(name):
    wanted = section(CHOOSING, "What do you want to be fair about\\?")
    explained = section(CRITERIA, "What each criterion means.*?")
    assert f'| `"{name}"`' in wanted
    assert f'**`"{name}"`**' in explained
    row = f'| {call_of(criterion_of(name))} `"{name}"` |'
    assert row in section(CRITERIA, "Tables")


@pytest.mark.parametrize(
    "factory",
    [factory_of("solver", name) for name in names_of("solver") if name != "auto"]
    + [factory_of("restriction", name) for name in names_of("restriction")],
)
def test_every_solver_and_restriction_is_in_its_table(factory):
    name = type(factory()).__name__
    assert re.search(rf"^\| `{name}\(", section(CRITERIA, "Tables"), re.M)


# Pages that the build of the site makes; it fails where one of them is not there.
BUILT = ("gallery/", "../gallery/")


LINKED = ["README.md", *(f"docs/{name}" for name in sorted(PAGES))]


def files_linked_from(page):
    """The files that its links name, whatever part of them is meant."""
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text)]
    return [target for target in targets if target and not target.startswith(("http", *BUILT))]


@pytest.mark.parametrize("page", LINKED)
def test_links_lead_somewhere(page):
    for target in files_linked_from(page):
        assert (ROOT / page).parent.joinpath(target).exists(), target


def test_installation_lists_every_extra_and_every_package_of_the_core():
    page = PAGES["installation.md"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = re.findall(r"^\| `(\w+)` \|", page, re.M)
    assert sorted(listed) == sorted(project["optional-dependencies"])
    command = re.search(r"^conda create .*?\n(?=conda)", page, re.S | re.M)[0]
    for requirement in project["dependencies"]:
        assert re.split(r"[><=\[]", requirement)[0] in command.split()
