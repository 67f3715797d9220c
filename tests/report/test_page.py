"""The audit page as a file: well-formed, self-contained, the same bytes every time."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from itertools import pairwise

import pytest

from audit_pages import HOSTILE, PAGES, SHOWN, hostile_pair, twelve_groups, two_groups
from fairspan.report.page.rendering import page_of
from page_tree import tree_of

# Whatever the names hold, nothing else comes to be.
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section"),
    *("footer", "script", "noscript", "a", "div", "span", "br", "h1", "h2", "h3", "p", "ol", "ul"),
    *("li", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td"),
    *("details", "summary", "bdi", "strong", "figure", "figcaption", "label", "button", "input"),
    *("output", "pre", "code", "svg", "g", "path", "defs", "clippath", "rect", "use", "text"),
    *("tspan", "wbr", "pattern", "circle"),
}


@pytest.mark.long
@PAGES
def test_is_well_formed_html_with_landmarks_and_headings_in_order(made):
    page = made()[1]
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    tree = tree_of(page)
    for landmark in ("header", "nav", "main", "footer", "h1", "title"):
        assert len(list(tree.all(landmark))) == 1, landmark
    levels = [int(each.tag[1]) for each in tree.all("h1", "h2", "h3")]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [each.attributes["id"] for each in tree.all() if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    pointers = [
        each.attributes[name].removeprefix("#")
        for each in tree.all()
        for name in ("href", "for", "aria-labelledby")
        if name in each.attributes
    ]
    assert pointers
    assert set(pointers) <= set(ids)


@PAGES
def test_tables_have_captions_and_scopes_and_figures_are_told(made):
    tree = tree_of(made()[1])
    for table in tree.all("table"):
        assert len(list(table.all("caption"))) == 1
        widths = {len(list(row.all("th", "td"))) for row in table.all("tr")}
        assert len(widths) == 1
        assert all(cell.attributes.get("scope") in ("row", "col") for cell in table.all("th"))
    for figure in tree.all("figure"):
        assert len(list(figure.all("figcaption"))) == 1
        (svg,) = figure.all("svg")
        assert svg.attributes["role"] == "img"
        assert re.search(r"\d", svg.attributes["aria-label"])
    (slider,) = (each for each in tree.all("input"))
    assert [each.attributes["for"] for each in tree.all("label")] == [slider.attributes["id"]]


@PAGES
def test_asks_for_nothing_outside_itself(made):
    page = made()[1]
    targets = re.findall(r'\s(?:href|src|action|srcset|data|poster)="([^"]*)"', page)
    assert targets
    assert all(each.startswith("#") for each in targets)
    assert "@import" not in page
    referred = re.findall(r"url\(([^)]*)\)", page)
    assert referred
    assert all(each.startswith("#") for each in referred)
    namespaces = set(re.findall(r'="(https?://[^"]*)"', page))
    assert namespaces == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


@PAGES
def test_every_colour_of_a_figure_is_the_page_s_own(made):
    figures = re.findall(r"<svg .*?</svg>", made()[1], re.S)
    assert len(figures) >= 3
    for svg in figures:
        assert "var(--ink)" in svg
        assert not re.findall(r"(?:fill|stroke|color): #\w+", svg)


@PAGES
def test_policy_allows_its_own_script_and_style_by_their_hashes_and_nothing_else(made):
    tree = tree_of(made()[1])
    (meta,) = (each for each in tree.all("meta") if "http-equiv" in each.attributes)
    policy = dict(part.split(" ", 1) for part in meta.attributes["content"].split("; "))
    (style,) = tree.all("style")
    *data, script = tree.all("script")
    assert {each.attributes["type"] for each in data} == {"application/json"}
    assert policy == {
        "default-src": "'none'",
        "script-src": f"'sha256-{_hash(script.text)}'",
        "style-src-elem": f"'sha256-{_hash(style.text)}'",
        "style-src-attr": "'unsafe-inline'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def _hash(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@pytest.mark.long
def test_hostile_names_are_text_everywhere():
    page = twelve_groups()[1]
    tree = tree_of(page)
    assert {each.tag for each in tree.all()} <= ALLOWED
    assert not [name for each in tree.all() for name in each.attributes if name.startswith("on")]
    shown = [name or "(no name)" for name in SHOWN]
    tables = {next(table.all("caption")).text: table for table in tree.all("table")}
    groups = [next(row.all("th")).text for row in _body(tables["The groups"])]
    assert sorted(groups) == sorted(shown)
    (names,) = (each for each in tree.all("ul") if each.attributes.get("class") == "names")
    assert [each.text for each in names.all("li")] == list(SHOWN[:8])
    assert "<i>rows</i>" in tree.text
    data = next(tree.all("script")).text
    assert not set("<>&") & set(data)
    told = " ".join(step["said"] for step in json.loads(data)["steps"])
    assert any(name in told for name in HOSTILE)


@pytest.mark.long
def test_hostile_names_in_every_step_end_no_script():
    facts, page = hostile_pair()
    tree = tree_of(page)
    assert {each.tag for each in tree.all()} <= ALLOWED - {"img", "b"}
    data = next(tree.all("script")).text
    assert not set("<>&") & set(data)
    for step in json.loads(data)["steps"]:
        assert all(group["group"] in step["said"] for group in facts["data"]["groups"])
    assert facts["data"]["name"] == "<i>rows</i>"


def _body(table):
    return next(table.all("tbody")).all("tr")


def test_json_of_the_walk_has_what_the_facts_have():
    facts, page = two_groups()
    data = json.loads(next(tree_of(page).all("script")).text)
    points = facts["steps"]["points"]
    assert len(data["steps"]) == len(points) <= 40
    assert data["jumps"] == {"plain": facts["steps"]["plain"], "main": facts["steps"]["start"]}
    for step, point in zip(data["steps"], points, strict=True):
        for told, known in zip(step["loadings"], point["components"], strict=True):
            assert told == pytest.approx(known, abs=0.00501)


@pytest.mark.long
def test_same_facts_give_the_same_bytes_in_another_process(tmp_path):
    (facts, page), (more_facts, other_page) = two_groups(), twelve_groups()
    (tmp_path / "facts.json").write_text(json.dumps([facts, more_facts]), encoding="utf-8")
    program = (
        "import json, sys; from fairspan.report.page.rendering import page_of\n"
        "both = json.load(open(sys.argv[1], encoding='utf-8'))\n"
        "sys.stdout.buffer.write(''.join(map(page_of, both)).encode())"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "facts.json")]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    other = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert other.stdout.decode() == page + other_page


@pytest.mark.long
def test_page_stays_small_with_many_groups_steps_and_features():
    facts = json.loads(json.dumps(twelve_groups()[0]))
    k, n_steps, dimensions = 12, 40, list(range(1, 80, 2))
    facts["data"]["feature_names"] = [f"a feature with a name {i}" for i in range(81)]
    values = [[(7 * i + g) / 13 for g in range(k)] for i in range(n_steps)]
    curve = {"errors": values, "losses": values}
    facts["by_dimension"] = {
        "dimensions": dimensions,
        "best": values,
        "plain": curve,
        "fair": {**curve, "criterion": "minimax_loss", "status": ["optimal"] * n_steps},
        "expected": {
            "dimensions": dimensions[:16],
            "plain": {
                **curve,
                **dict.fromkeys(("losses", "losses_low", "losses_high", "errors"), values[:16]),
                "states": [["harmed"] * k] * 16,
            },
        },
    }
    facts["settings"]["n_components"] = dimensions[20]
    features = facts["data"]["feature_names"][:20]
    point = {
        **facts["steps"]["points"][0],
        "components": [[-0.123] * 20] * 5,
        "variances": [1.2345] * 5,
    }
    points = [
        {**point, "n_components": d, "errors": each, "losses": each}
        for d, each in zip(dimensions, values, strict=True)
    ]
    facts["steps"] |= {"features": features, "points": points, "start": 20}
    page = page_of(facts)
    # Of which 50 000 are the figures that it gives as JSON.
    assert len(page.encode()) < 450_000
    assert page.count("a feature with a name 7<") >= 2
