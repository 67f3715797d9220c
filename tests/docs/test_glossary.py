"""Public names use the terms of the glossary, and none of the synonyms that the page excludes."""

import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

import click
import pytest

import fairspan
from fairspan import cli

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"
_MODULES = ("datasets", "errors", "extending", "metrics", "regression", "selection")


def words_of(name):
    """Split a name into lower-case words, at underscores, hyphens, blanks and capitals."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)]


@cache
def excluded_terms():
    """Map each term that the page excludes ("Not: ...") to the entry that excludes it."""
    excluded = {}
    for entry in re.split(r"\n(?=\*\*)", PAGE.read_text("utf-8")):
        term, _, definition = entry.partition("\n: ")
        for synonyms in re.findall(r"\bNot: ([^.]+)\.", definition):
            for synonym in synonyms.split(","):
                excluded[" ".join(words_of(synonym))] = term.strip("*\n")
    for words in re.findall(r"No name contains ([^.]+)\.", PAGE.read_text("utf-8")):
        for word in re.findall(r"`(\w+)`", words):
            excluded[word] = "no name"
    return excluded


def breaches(name):
    """Return the excluded terms that a name contains, as whole words."""
    text = f" {' '.join(words_of(name))} "
    return [term for term in excluded_terms() if f" {term} " in text]


def is_own(value):
    """Return whether an object is defined in the package."""
    return str(getattr(value, "__module__", "")).startswith("fairspan")


def parameters_of(place, value):
    """Yield the parameters of a function or class."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return
    for name in signature.parameters:
        yield f"{place}({name}=)", name


def python_names():
    """Yield public names of the package: modules, members, attributes and parameters."""
    modules = {"fairspan": fairspan}
    modules |= {f"fairspan.{name}": getattr(fairspan, name) for name in _MODULES}
    for prefix, module in modules.items():
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            if name.startswith("_") or not is_own(value):
                continue
            place = f"{prefix}.{name}"
            yield place, name
            if callable(value):
                yield from parameters_of(place, value)
            if inspect.isclass(value):
                yield from class_names(place, value)


def class_names(place, kind):
    """Yield the public attributes of a class, and the parameters of its methods."""
    owners = [owner for owner in kind.__mro__ if is_own(owner)]
    names = {name for owner in owners for name in [*vars(owner), *inspect.get_annotations(owner)]}
    for name in sorted(names):
        if name.startswith("_"):
            continue
        yield f"{place}.{name}", name
        method = getattr(kind, name, None)
        if callable(method):
            yield from parameters_of(f"{place}.{name}", method)


def option_names():
    """Yield the commands, and their options and arguments."""
    for command in [*vars(cli).values(), *vars(cli.commands).values()]:
        if isinstance(command, click.Command) and command.name:
            yield f"fairspan {command.name}", command.name
            for parameter in command.params:
                for option in parameter.opts:
                    yield f"fairspan {command.name} {option}", option


def json_keys(schema=None) -> Iterator[tuple[str, str]]:
    """Yield the keys of JSON output."""
    if schema is None:
        schema = json.loads((files("fairspan.cli") / "schema.json").read_text("utf-8"))
    if isinstance(schema, list):
        for item in schema:
            yield from json_keys(item)
    elif isinstance(schema, dict):
        for key in schema.get("properties", {}):
            yield f"JSON key {key}", key
        for value in schema.values():
            yield from json_keys(value)


SOURCES = {source.__name__: source for source in (python_names, option_names, json_keys)}


@pytest.mark.parametrize("source", SOURCES)
def test_public_names_use_the_terms_of_the_glossary(source):
    names = dict(SOURCES[source]())
    assert len(names) > 50
    breaches_by_place = {place: terms for place, name in names.items() if (terms := breaches(name))}
    assert not breaches_by_place


@pytest.mark.parametrize(
    "name", ["observed_loss_here", "captured_variance", "PictureDisplay", "made"]
)
def test_an_excluded_term_is_found(name):
    assert breaches(name)


def test_no_term_of_the_glossary_is_excluded():
    terms = re.findall(r"^\*\*(.+)\*\*$", PAGE.read_text("utf-8"), re.M)
    assert not [term for term in terms if breaches(term)]


def test_the_terms_are_in_alphabetical_order_and_defined_once():
    terms = re.findall(r"^\*\*(.+)\*\*$", PAGE.read_text("utf-8"), re.M)
    lower = [term.lower() for term in terms]
    assert lower == sorted(set(lower))
