"""Pages and README are written as docs/glossary.md says: one name, one style."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
MADE = ("gallery", "generated")
PAGES = [ROOT / "README.md"] + [
    path for path in sorted((ROOT / "docs").rglob("*.md")) if not set(path.parts) & set(MADE)
]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
INDEX = ROOT / "docs" / "api" / "index.rst"
BANNED = re.findall(r"^\| `(.*?)` \|", GLOSSARY.read_text(encoding="utf-8"), re.M)
# Code, formulas and addresses have rules of their own.
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]+\$|\]\([^)]*\)", re.S | re.M)
STYLES = {
    "a per-cent sign has a space before it": r"\d%",
    "thousands have a comma": r"(?<![\d.,])\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\d.])",
    "quotes are straight": "[\u2018\u2019\u201c\u201d]",
}


def prose(text):
    return _CODE.sub(" ", text)


def said(path):
    return re.sub(r"\s+", " ", path.read_text(encoding="utf-8")).lower()


def test_phrases_are_found():
    assert len(BANNED) > 8
    assert all(phrase == phrase.lower() for phrase in BANNED)


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES, INDEX], ids=lambda path: path.stem)
def test_no_page_has_a_phrase_that_the_glossary_replaces(path):
    text = said(path) if path != GLOSSARY else ""
    assert not [phrase for phrase in BANNED if phrase in text]


@pytest.mark.parametrize("rule", STYLES)
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_numbers_and_quotes_have_one_style(path, rule):
    assert not re.findall(STYLES[rule], prose(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("It keeps 5% of it.", "a per-cent sign has a space before it"),
        ("There are 60 000 rows.", "thousands have a comma"),
        ("It is \u201cfair\u201d.", "quotes are straight"),
    ],
)
def test_a_wrong_style_is_found(text, rule):
    assert re.search(STYLES[rule], prose(text))


def test_terms_of_the_glossary_are_in_order_and_explained_once():
    terms = re.findall(r"^\*\*(.*?)\*\*\n: .", GLOSSARY.read_text(encoding="utf-8"), re.M)
    assert len(terms) > 25
    assert terms == sorted(set(terms), key=str.lower)
