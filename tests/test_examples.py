"""Every page of the gallery makes one claim and checks it. The build of the site runs them."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
sys.path.insert(0, str(ROOT / "docs" / "_extensions"))
from gallery import ORDER, files_needed, pages_without_data  # noqa: E402

pages = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def test_every_page_has_its_place():
    assert len(EXAMPLES) >= 12
    assert sorted(ORDER) == [path.stem for path in EXAMPLES]


@pages
def test_a_page_fits_a_screen_or_two(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60


@pages
def test_a_page_begins_with_its_claim_and_says_what_it_means(path):
    title, underline, empty, *words = ast.get_docstring(
        ast.parse(path.read_text(encoding="utf-8"))
    ).splitlines()
    assert underline == "=" * len(title)
    assert not empty
    assert words
    # A claim has a verb and ends without a mark; it is no name of a topic.
    assert len(title.split()) >= 5
    assert title[-1].isalnum()


@pages
def test_a_page_checks_its_claim(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))


@pages
def test_a_page_draws_a_picture(path):
    code = path.read_text(encoding="utf-8")
    assert re.search(r"plt\.|\.plot\(", code)


def test_two_pages_make_two_claims():
    titles = [ast.get_docstring(ast.parse(path.read_text()))[:200] for path in EXAMPLES]
    assert len(set(titles)) == len(EXAMPLES)


def test_data_that_a_page_needs_are_found_in_its_code():
    code = 'X = fs.datasets.load("default_credit").X\nfaces = fs.datasets.load_faces(shape=(2, 2))'
    assert files_needed(code) == ["lfw.npz", "default_credit.parquet"]
    assert files_needed("load_diabetes()") == []


def test_pages_without_their_data_are_left_out_loudly_or_end_the_build(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "a.py").write_text('fs.datasets.load("nowhere")')
    (tmp_path / "b.py").write_text("load_diabetes()")
    monkeypatch.setenv("FAIRSPAN_DATA", str(tmp_path))
    monkeypatch.delenv("FAIRSPAN_REQUIRE_DATA", raising=False)
    pattern = pages_without_data(tmp_path)
    assert re.search(pattern, str(tmp_path / "a.py"))
    assert not re.search(pattern, str(tmp_path / "b.py"))
    assert "a.py needs nowhere.parquet" in capsys.readouterr().err
    monkeypatch.setenv("FAIRSPAN_REQUIRE_DATA", "1")
    with pytest.raises(SystemExit, match=r"nowhere\.parquet"):
        pages_without_data(tmp_path)
