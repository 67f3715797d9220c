"""Pages, docstrings and messages are written as docs/glossary.md says: one name, one style."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
MADE = ("gallery", "generated")
PAGES = [ROOT / "README.md"] + [
    path for path in sorted((ROOT / "docs").rglob("*.md")) if not set(path.parts) & set(MADE)
]
SOURCE = sorted((ROOT / "src").rglob("*.py"))
TEMPLATES = sorted((ROOT / "src").rglob("*.html"))
OTHERS = [*sorted((ROOT / "examples").glob("*.py")), ROOT / "docs" / "api" / "index.rst"]
BANNED = re.findall(r"^\| `(.*?)` \|", GLOSSARY.read_text(encoding="utf-8"), re.M)
_ANY_BANNED = re.compile(rf"\b(?:{'|'.join(map(re.escape, BANNED))})\b")
MOST_WORDS = 45
# Code, formulas and addresses have rules of their own.
_CODE = re.compile(
    r"^[ ]*(```|~~~).*?^[ ]*\1|`+[^`]*?`+|\$\$.*?\$\$|\$[^$]+?\$|\]\([^)]*\)", re.S | re.M
)
_PROMPT = re.compile(r"^[ ]*>>> .*\n(?:[ ]*\S.*\n?)*", re.M)
_BLOCK = re.compile(r"::\n\n(?:[ ]+.*\n|\n)+")
# What ends a paragraph: a blank line, a cell of a table, an item of a list, a parameter, a rule.
_APART = re.compile(r"\n\s*\n|\||\n\s*(?=[-*:] |\d+\. |\.\. )|\n(?=\S.* : )|\n-{3,}|\n(?=[ ]{4})")
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z\u0370-\u03ff\"'*(\[X\d])")
STYLES = {
    "a per-cent sign has a space before it": r"[\dX]%(?![-\w])",
    "thousands have a comma": r"(?<![\d.,])\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\d.])",
    "quotes are straight": "[\u2018\u2019\u201c\u201d]",
}
# Cheaper to look for: without these no text can break the rule.
_EARLY = {rule: re.compile(pattern.replace("X", "`X")) for rule, pattern in STYLES.items()}


class Text(NamedTuple):
    """Something that a reader meets, and where it stands."""

    where: str
    words: str


def prose(text: str) -> str:
    """A page or docstring without code and formulas, each of which becomes one word."""
    return _CODE.sub("X", _PROMPT.sub("\n", _BLOCK.sub(".\n\n", text + "\n")))


def sentences(text: str) -> Iterator[str]:
    for paragraph in _APART.split(prose(text)):
        yield from _SENTENCE.split(" ".join(paragraph.split()))


def banned_in(text: str) -> list[str]:
    """Phrases that the glossary replaces, outside code."""
    found = _ANY_BANNED.findall(" ".join(text.lower().split()))
    return found and _ANY_BANNED.findall(" ".join(prose(text).lower().split()))


def _literal(node: ast.AST) -> str | None:
    """The text of a literal, with X for each value that a formatted one takes."""
    if isinstance(node, ast.JoinedStr):
        parts = [getattr(each, "value", "") for each in node.values]
        return "".join(part if isinstance(part, str) else "X" for part in parts)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


@cache
def literals() -> tuple[list[Text], list[Text]]:
    """Docstrings of the library, and its other literals, of three words or more each."""
    docstrings, others = [], []
    for path in SOURCE:
        inside: set[ast.AST] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            # The value of a statement comes after the statement, and parts after the whole.
            if not isinstance(node, ast.Expr | ast.JoinedStr | ast.Constant) or node in inside:
                continue
            of_statement = isinstance(node, ast.Expr)
            text = _literal(node.value if of_statement else node)
            if text is None or len(text.split()) < 3:
                continue
            inside.update(ast.walk(node))
            where = f"{path.relative_to(ROOT)}:{node.lineno}"
            (docstrings if of_statement else others).append(Text(where, text))
    return docstrings, others


@cache
def pages() -> list[Text]:
    return [
        Text(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
        for path in PAGES
        if path != GLOSSARY
    ]


@cache
def all_texts() -> list[Text]:
    files = [Text(str(path.relative_to(ROOT)), path.read_text("utf-8")) for path in OTHERS]
    templates = [Text(str(path.relative_to(ROOT)), path.read_text("utf-8")) for path in TEMPLATES]
    return [*pages(), *files, *templates, *literals()[0], *literals()[1]]


def test_phrases_are_found():
    assert len(BANNED) > 40
    assert all(phrase == phrase.lower() for phrase in BANNED)
    assert len(literals()[0]) > 2000
    assert len(literals()[1]) > 1000
    assert all(banned_in(f"Here {phrase}, again.") for phrase in BANNED)
    assert not banned_in("Here `tells` and nothing else.")


def test_no_text_has_a_phrase_that_the_glossary_replaces():
    found = [(each.where, phrases) for each in all_texts() if (phrases := banned_in(each.words))]
    assert not found


@pytest.mark.parametrize("rule", STYLES)
def test_numbers_and_quotes_have_one_style(rule):
    texts = [*pages(), Text("the glossary", GLOSSARY.read_text("utf-8")), *literals()[0]]
    said = [each for each in literals()[1] if not _is_code(each.words)]
    found = [
        (each.where, wrong)
        for each in (*texts, *said)
        if re.search(_EARLY[rule], each.words)
        and (wrong := re.findall(STYLES[rule], prose(each.words)))
    ]
    assert not found


def test_no_sentence_of_pages_and_docstrings_is_too_long():
    found = [
        (each.where, len(sentence.split()), sentence)
        for each in (*pages(), *literals()[0])
        if len(each.words.split()) > MOST_WORDS
        for sentence in sentences(each.words)
        if len(sentence.split()) > MOST_WORDS
    ]
    assert not found


def _is_code(text: str) -> bool:
    """Whether a literal is part of a page, a drawing, a pattern or a program, and no message."""
    return bool(re.search(r"[<>{};\\=]|%[a-z(]|width", text))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("It keeps 5% of it.", "a per-cent sign has a space before it"),
        ("It keeps X% of it.", "a per-cent sign has a space before it"),
        ("There are 60 000 rows.", "thousands have a comma"),
        ("It is \u201cfair\u201d.", "quotes are straight"),
    ],
)
def test_a_wrong_style_is_found(text, rule):
    assert re.search(STYLES[rule], prose(text))


def test_long_sentences_are_found():
    text = "One two. Three `x = 1; y` four:\n\n| five | six seven |\n\n- Eight\n- nine ten"
    assert [each for each in sentences(text) if each] == [
        *("One two.", "Three X four:", "five", "six seven", "- Eight", "- nine ten")
    ]


def test_terms_of_the_glossary_are_in_order_and_explained_once():
    terms = re.findall(r"^\*\*(.*?)\*\*\n: .", GLOSSARY.read_text(encoding="utf-8"), re.M)
    assert len(terms) > 25
    assert terms == sorted(set(terms), key=str.lower)
