"""Pages, docstrings and messages have one style of numbers, quotes and percentages."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if not {"gallery", "generated"}.intersection(path.parts)
]
PAGES += [*(ROOT / "src").rglob("*.html"), ROOT / "docs" / "api" / "index.rst"]
SOURCE = [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").glob("*.py")]
STYLES = {
    "a per-cent sign has a space before it": r"[\dX]%(?![-\w])",
    "thousands have a comma": r"(?<![\d.,])\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\d.])",
    "decimals have a leading zero": r"(?<![\w.)\]*/~\"'-])\.\d",
    "quotes are straight": "[\u2018\u2019\u201c\u201d]",
}
# Code, formulas, addresses and examples have rules of their own.
_CODE = re.compile(
    r"^[ ]*(```|~~~).*?^[ ]*\1|`+[^`]*?`+|\$\$.*?\$\$|\$[^$]+?\$|\]\([^)]*\)"
    r"|^[ ]*>>> .*\n(?:[ ]*\S.*\n?)*|::\n\n(?:[ ]+.*\n|\n)+",
    re.S | re.M,
)


def prose(text):
    """A page or docstring in one line, with one word in place of each piece of code."""
    return " ".join(_CODE.sub("X", text + "\n").split())


@cache
def texts():
    """Return texts that users read, with their places: pages, and literals of the library."""
    literals = [(str(path.relative_to(ROOT)), path.read_text("utf-8")) for path in PAGES]
    # A literal that is part of a page, a drawing, a pattern or a program is no prose.
    is_code = re.compile(r"[<>{};\\=]|%[a-z(]|width")
    for path in SOURCE:
        docstrings = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Expr):
                docstrings.add(node.value)
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and (node in docstrings or not is_code.search(text)):
                literals.append((f"{path.relative_to(ROOT)}:{node.lineno}", text))
    return [(place, prose(text)) for place, text in literals if len(text.split()) > 2]


@pytest.mark.parametrize("rule", STYLES)
def test_words_numbers_and_quotes_have_one_style(rule):
    matches = [(place, re.findall(STYLES[rule], text)) for place, text in texts()]
    assert not [place_and_matches for place_and_matches in matches if place_and_matches[1]]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("It keeps 5% of it.", "a per-cent sign has a space before it"),
        ("It keeps `d`% of it.", "a per-cent sign has a space before it"),
        ("There are 60 000 rows.", "thousands have a comma"),
        ("It spends .05 in all.", "decimals have a leading zero"),
        ("It is \u201cfair\u201d.", "quotes are straight"),
    ],
)
def test_a_wrong_style_is_found(text, rule):
    assert re.search(STYLES[rule], prose(text))
    assert not re.search(STYLES[rule], prose(f"```\n{text}\n```"))
