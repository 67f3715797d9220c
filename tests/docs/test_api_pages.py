"""Every public name has a page of reference, under what it is for."""

import doctest
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from numpydoc.validate import validate

import fairspan

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "api" / "index.rst").read_text(encoding="utf-8")


def listed():
    """The names in the tables, in full."""
    module, names = "", []
    for line in PAGE.splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif re.match(r"   \w+$", line):
            names.append(f"{module}.{line.strip()}")
    return names


def public(name):
    return import_module(f"fairspan.{name}").__all__


MODULES = [name for name in fairspan.__all__ if isinstance(getattr(fairspan, name), ModuleType)]
NAMES = [f"fairspan.{name}" for name in fairspan.__all__ if name not in MODULES]
NAMES += [f"fairspan.{module}.{name}" for module in MODULES for name in public(module)]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_listed_once(name):
    assert listed().count(name) == 1


def test_every_group_of_names_has_an_example_that_runs():
    groups = re.split(r"\n-{3,}\n", PAGE)[1:]
    without = [part for part in groups if ">>>" not in part]
    assert len(without) == 1
    assert "fairspan.extending" in without[0]
    found = doctest.testfile(str(DOCS / "api" / "index.rst"), module_relative=False)
    assert not found.failed


def test_nothing_else_is_listed():
    assert set(listed()) == set(NAMES)


# Docstrings have the sections of numpydoc, in its order, of arguments that there are. Which of them
# are needed is not for it to say: a result's fields are its attributes, not its parameters.
FAULTS = {"GL06", "GL07", "GL08", "SS01", "SS03", "SS04", "PR02", "PR05", "PR06", "PR09"}


def with_methods(name):
    """The name, and the public methods and properties that its class defines itself."""
    module, _, short = name.rpartition(".")
    value = getattr(import_module(module), short)
    own = vars(value) if isinstance(value, type) else {}
    is_made = {"set_output", *(each for each in own if each.endswith("_request"))}
    return [name, *(f"{name}.{each}" for each in own if each[0] != "_" and each not in is_made)]


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_are_those_of_numpydoc(name):
    module, _, short = name.rpartition(".")
    found = []
    for each in with_methods(name):
        value = getattr(getattr(import_module(module), short), each.removeprefix(name + "."), None)
        if each != name and not (callable(value) or isinstance(value, property)):
            continue
        found += [f"{each}: {said}" for code, said in validate(each)["errors"] if code in FAULTS]
    assert not found
