"""The page from the papers to the call: every call runs, and the sources' words are found."""

import re
from pathlib import Path

import pytest

from reproduction.registry import EXPERIMENTS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "from-the-papers.md").read_text(encoding="utf-8")
SETUP = re.search(r"^```python\n(.*?)^```", PAGE, re.S | re.M)[1]
ROWS = [
    (cells[1], span)
    for line in PAGE.partition("## Notes on fair PCA")[2].splitlines()
    if line.startswith("| ") and not line.startswith(("| item", "|--"))
    for cells in [line.split(" | ")]
    for span in re.findall(r"`([^`]+)`", cells[1])
]
# Terms of the issue that requested them, and of the sources' headings.
WORDS = (
    "reconstruction error",
    "reconstruction loss",
    "disparity",
    "lambda",
    "alpha",
    "epsilon_a",
    "ambiguity set",
    "Wasserstein",
    "Riemannian",
    "RFPCA",
    "CFPCA",
    "ABDiff",
    "ARE",
    "unfairness",
    "eigenface",
    "regret",
)


@pytest.fixture(scope="module")
def names():
    namespace = {}
    exec(compile(SETUP, "from-the-papers.md", "exec"), namespace)
    return namespace


def test_every_source_has_its_calls():
    assert len(ROWS) >= 65
    assert PAGE.count("| item | call | where it differs |") == 8


@pytest.mark.parametrize("call", list(dict.fromkeys(span for _, span in ROWS)))
def test_every_call_runs(call, names):
    if call.startswith("./run reproduce "):
        assert call.removeprefix("./run reproduce ") in EXPERIMENTS
        return
    assert eval(call, dict(names)) is not None


def test_every_experiment_is_on_the_page():
    page_names = set(re.findall(r"`\./run reproduce ([\w-]+)`", PAGE))
    assert set(EXPERIMENTS) == page_names - {"NAME"}


@pytest.mark.parametrize("word", WORDS)
def test_the_sources_words_are_in_the_glossary(word):
    """A reader's word leads to ours: the site's search indexes both pages."""
    glossary = (DOCS / "glossary.md").read_text(encoding="utf-8")
    pattern = rf"(?i)\b{word}" if word.islower() else rf"\b{word}\b"
    assert re.search(pattern, glossary)
    assert re.search(pattern, PAGE)
