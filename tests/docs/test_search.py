"""The search of the documentation finds recipes by the names of what they are for."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPES = {
    "cross_val_score": "howto/scikit-learn",
    "GridSearchCV": "howto/scikit-learn",
    "set_output": "howto/scikit-learn",
    "joblib": "howto/scikit-learn",
    "ColumnTransformer": "howto/scikit-learn",
    "materiality": "howto/materiality",
    "outliers": "howto/outliers",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Search index of the pages with recipes, built as that of the full documentation."""
    pytest.importorskip("myst_parser")
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("docs")
    source = folder / "source"
    for page in {*RECIPES.values()}:
        (source / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "docs" / f"{page}.md", source / f"{page}.md")
    (source / "index.md").write_text("# Pages\n", encoding="utf-8")
    (source / "conf.py").write_text('extensions = ["myst_parser"]\n', encoding="utf-8")
    built = folder / "built"
    # Links to other pages lead nowhere here, so warnings are not shown.
    subprocess.run([sys.executable, "-m", "sphinx", "-Q", source, built], check=True)
    text = (built / "searchindex.js").read_text(encoding="utf-8")
    return json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_found_by_its_name(index, name):
    from sphinx.search.en import SearchEnglish

    stem = SearchEnglish({}).stem(name.lower())
    pages = index["titleterms"].get(stem, [])
    positions = [pages] if isinstance(pages, int) else pages
    # Terms of titles rank before those of the text.
    assert RECIPES[name] in [index["docnames"][i] for i in positions]
