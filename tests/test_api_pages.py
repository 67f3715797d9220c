"""Every public name has a page of reference, under what it is for."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import fairspan
from fairspan import errors

PAGE = (Path(__file__).parents[1] / "docs" / "api" / "index.rst").read_text(encoding="utf-8")


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
    if name == "errors":
        return [each for each, value in vars(errors).items() if isinstance(value, type)]
    return import_module(f"fairspan.{name}").__all__


MODULES = [name for name in fairspan.__all__ if hasattr(getattr(fairspan, name), "__path__")]
MODULES = sorted({*MODULES, "errors"})
NAMES = [f"fairspan.{name}" for name in fairspan.__all__ if name not in MODULES]
NAMES += [f"fairspan.{module}.{name}" for module in MODULES for name in public(module)]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_listed_once(name):
    assert listed().count(name) == 1


def test_nothing_else_is_listed():
    assert set(listed()) == set(NAMES)
