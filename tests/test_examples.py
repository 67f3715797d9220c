"""Every page of the gallery makes one claim and checks it. The build of the site runs them."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
sys.path.insert(0, str(ROOT / "docs" / "_extensions"))
from gallery import ORDER  # noqa: E402


def test_every_page_has_its_place():
    assert sorted(ORDER) == [path.stem for path in EXAMPLES]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_page_begins_with_its_claim_and_checks_it(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    title, underline, empty, *words = ast.get_docstring(tree).splitlines()
    assert (underline, empty) == ("=" * len(title), "")
    assert words
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))
